"""Sampling rules, one file each."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_feasible.rules.base import Rule

HOMES = {  # of each rule: the file it is in. This line is what makes a rule known everywhere
    "Descent": "descent",
    "BLFAIPS": "blfaips",
    "PEPS": "peps",
    "LinearThompson": "thompson",
    "TopTwo": "top_two",
    "FixedAllocation": "allocation",
    "Uniform": "allocation",
    "GOptimal": "allocation",
    "Oracle": "allocation",
    "BestResponse": "best_response",
    "PlugIn": "plug_in",
    "SuccessiveRejects": "successive_rejects",
    "SequentialHalving": "sequential_halving",
    "ODLinBAI": "od_linbai",
    "GSE": "gse",
    "OCBA": "ocba",
    "TopTwoTCI": "top_two_tci",
    "FWS": "fws",
    "MDAPT": "mdapt",
    "LinGapE": "lin_gap_e",
}


class _Rules(Mapping[str, "type[Rule]"]):
    """The rules by name; a rule is imported when it is first looked up."""

    def __getitem__(self, name: str) -> "type[Rule]":
        found: type[Rule] = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


RULES = _Rules()


def find_rule(name: Any) -> Callable[..., Any]:
    """Find a rule by its name, or anybody's by its import path.

    Raises
    ------
    ValueError
        For an unknown name, with the closest known one.

    Examples
    --------
    >>> find_rule("Uniform")
    <class 'bayes_feasible.rules.allocation.Uniform'>
    >>> find_rule("bayes_feasible:Uniform") is find_rule("Uniform")
    True
    """
    from bayes_feasible._check import unknown
    from bayes_feasible._imports import import_object, is_import_path

    if is_import_path(name):
        found = import_object(name)
        if not callable(found):
            raise TypeError(f"{name}: expected a class or a function that makes a rule")
        return found
    if not isinstance(name, str) or name not in RULES:
        raise ValueError(unknown("rule", name, RULES))
    return RULES[name]
