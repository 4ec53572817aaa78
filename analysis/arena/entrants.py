"""Who plays in the arena: the rules of the package, and anybody's."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import cloudpickle
import numpy as np

from bayes_feasible.analysis.arena.guests import GUESTS
from bayes_feasible.analysis.study.specification import read_rules
from bayes_feasible.analysis.study.store import hash_bytes
from bayes_feasible.instance import Instance
from bayes_feasible.rules import RULES
from bayes_feasible.simulation.simulate import _start

FIELD: Mapping[str, Mapping[str, Any]] = {  # as a specification has rules
    "Descent": {},
    "Descent, leader drawn": {"kind": "Descent", "leader": "drawn"},
    "BLFAIPS, paper's η": {"kind": "BLFAIPS"},
    "BLFAIPS, η = 1": {"kind": "BLFAIPS", "eta": 1.0},
    "BestResponse": {},
    "PlugIn": {},
    "TopTwo": {},
    "TopTwo, information": {"kind": "TopTwo", "select": "information"},
    "LinearThompson": {},
    "TopTwoTCI": {},
    "FWS": {},
    "LinGapE": {},
    "OCBA": {"every": 20},
    "MDAPT": {},
    "SuccessiveRejects": {},
    "SequentialHalving": {},
    "ODLinBAI": {},
    "GSE": {},
    "PEPS": {},
    "Uniform": {},
    "Oracle": {},
}


@dataclass(frozen=True)
class Entrant:
    """A rule under the name it plays by.

    Attributes
    ----------
    name : str
    maker : callable
        As `simulate` takes rules.
    meaning : dict
        What its numbers depend on, as JSON.
    """

    name: str
    maker: Callable[..., Any]
    meaning: Mapping[str, Any]

    @property
    def needs_horizon(self) -> bool:
        """Whether it must be told the budget, and so plays each budget anew."""
        return "horizon" in inspect.signature(self.maker).parameters

    @property
    def knows_truth(self) -> bool:
        """Whether it looks at the truth: then it is a yardstick, not a competitor."""
        options = self.maker.keywords if isinstance(self.maker, partial) else {}
        return self.kind is RULES["Oracle"] or options.get("beta") == "optimal"

    @property
    def kind(self) -> Callable[..., Any]:
        """What makes the rule, its options aside."""
        maker = self.maker
        while isinstance(maker, partial):
            maker = maker.func
        return maker

    def maker_for(self, budget: int) -> Callable[..., Any]:
        """What makes the rule for so many pulls."""
        return partial(self.maker, horizon=budget) if self.needs_horizon else self.maker

    def plays(self, instance: Instance, budget: int) -> bool:
        """Whether the rule takes such an instance and so many pulls.

        `PlugIn` is left out where a rate takes long, for outcomes other than known noise.

        >>> import bayes_feasible as bf
        >>> (phased,) = read_entrants(["ODLinBAI"])
        >>> instance = bf.instances.random_ball(20, 20, 0)
        >>> phased.plays(instance, 30), phased.plays(instance, 1000)
        (False, True)
        """
        if self.kind is RULES["PlugIn"] and not instance.problem.textbook:
            return False
        try:
            _start(self.name, self.maker_for(budget), instance, np.random.SeedSequence(0))
        except ValueError as error:
            if isinstance(error.__cause__, ValueError):  # the rule's own refusal
                return False
            raise
        return True


def read_entrants(rules: Any = None) -> list[Entrant]:
    """Read who plays; the whole field if nothing is said.

    Parameters
    ----------
    rules : list of names, or dict of names to options or to rules
        As in a specification, import paths and guests included, or as `simulate` takes rules.

    Examples
    --------
    >>> [each.name for each in read_entrants({"fast": {"kind": "BLFAIPS", "eta": 1}})]
    ['fast']
    >>> [each.knows_truth for each in read_entrants(["Descent", "Oracle"])]
    [False, True]
    """
    if rules is None:
        rules = FIELD
    elif not isinstance(rules, Mapping) and isinstance(rules, Iterable):
        names = list(rules)
        known = {**GUESTS, **FIELD}
        rules = {name: known.get(name, {}) for name in names if isinstance(name, str)}
        if len(rules) != len(names):
            raise ValueError(f"rules: expected distinct names, got {names}")
    if not isinstance(rules, Mapping) or not rules:
        raise ValueError("rules: expected names, or a dict of names to options or rules")
    entrants = []
    for name, value in rules.items():
        if callable(value):
            meaning = {"pickle": hash_bytes(cloudpickle.dumps(value))}
            entrants.append(Entrant(str(name), value, meaning))
        else:
            (choice,) = read_rules({name: value})
            entrants.append(Entrant(choice.name, choice.maker, choice.meaning()))
    return entrants
