"""What all sampling rules share: asking, telling, recommending, saving.

A rule is a compiled step, options, a state of plain arrays, and a memory of its own where it needs
one. `ask` names an arm, `tell` takes in what a pull showed, `recommend` answers.
"""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._at_once import at_once
from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.compiled import announce
from bayes_feasible.files.atomic import replaced
from bayes_feasible.files.documents import build, from_document, to_document
from bayes_feasible.files.guard import read_file
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.recommendation import METHODS, Recommendation, most_probable, recommend
from bayes_feasible.rules import RULES, engine
from bayes_feasible.rules.draws import recommend_drawn
from bayes_feasible.rules.hedge import Learner
from bayes_feasible.sums import Rows, read_rows, stack_rows

KEPT = (
    "lower", "means", "candidate_means", "variances", "noise", "freedom", "info",
)  # fmt: skip  # of a state: follow from the rest
ROUNDING = 1e-3  # of them, at the very most: beyond it they were not computed from the rest
COMPILATION = 15  # seconds that the rounds of a rule usually take to compile
LONGEST = 1e60  # arm or candidate: the fourth power of its length, summed over rounds, is a number


FILE_ERRORS = (
    LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


class Rule(ABC):
    """What all rules share.

    Parameters
    ----------
    problem : Problem or Instance
        Only `Oracle` and `TopTwo(beta="optimal")` look at an Instance's truth.
    seed : int or SeedSequence
        The same seed and the same observations give the same arms.
    recommendation : {"mean", "draw", "probable"}
        What is recommended: the best feasible candidate of the posterior means, that of one
        posterior draw (as in the paper: another one each time), or the candidate most probably
        best.

    Attributes
    ----------
    problem : Problem
    posterior : Posterior

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.Uniform(bf.Problem([[1, 0], [0, 1]]), seed=0)
    >>> rule.tell([0, 1, 1], [1.0, 0.2, 0.4])  # whether asked for or not
    >>> rule.posterior.counts.tolist()
    [1, 2]
    """

    settings: ClassVar[tuple[str, ...]] = ()
    _ask: ClassVar[Any]  # the compiled step, and the loop around it
    _run: ClassVar[Any]

    def __init__(
        self, problem: Problem | Instance, seed: Any = 0, *, recommendation: str = "mean"
    ) -> None:
        _check.kind("problem", problem, Problem, Instance)
        if recommendation not in METHODS:
            raise ValueError(f"recommendation: expected one of {METHODS}, got {recommendation!r}")
        self.problem = problem.problem if isinstance(problem, Instance) else problem
        self.recommendation = recommendation
        sequence = _check.seed_sequence(seed)
        self._rng, self._recommend_rng = map(np.random.default_rng, sequence.spawn(2))
        _check_lengths(self.problem)
        self._geometry = engine.geometry(self.problem)
        self._state = engine.initial_state(self.problem, self._geometry)
        self._work = engine.scratch(self._geometry)
        self._options = self._configure(problem)
        self._memory = self._remember()

    @abstractmethod
    def _configure(self, problem: Problem | Instance) -> Any:
        """Options of the compiled step: a NamedTuple of numbers and arrays."""

    def _remember(self) -> Any:
        """What the rule remembers beside the pulls: a NamedTuple of arrays that change in place."""
        return ()

    def _check_memory(self) -> None:  # noqa: B027 (many rules have none)
        """Refuse a memory from a file that no rounds could have led to."""

    def _resume(self, settings: Mapping[str, Any]) -> None:  # noqa: B027 (most rules need nothing)
        """Take over of another rule's settings what they would not make again to the bit."""

    def _plan(self) -> None:  # noqa: B027 (most rules need none)
        """Solve for the allocation to follow, if that is due before the next round."""

    def ask(self, n: int | None = None, allowed: Any = None) -> Any:
        """The arm to pull next; or an array of `n` arms to pull before the next `tell`.

        Parameters
        ----------
        n : int, optional
        allowed : indices or names of arms, optional
            Only these may be asked for now. A rule that draws arms from shares draws from those of
            the allowed arms, in proportion; a rule that tracks shares asks for the allowed arm that
            lags most, and what the others are owed stays; a rule that wants a candidate asks for
            what tells most of it; one that maximises, maximises over these.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> rule = bf.BestResponse(bf.instances.end_of_optimism().problem, seed=0)
        >>> rule.ask(5)
        array([3, 2, 0, 3, 3])
        >>> rule.ask(3, allowed=[1, 2])
        array([2, 1, 2])
        """
        number = 1 if n is None else _check.count("n", n)
        self._allow(allowed)
        try:
            return self._next() if n is None else self._batch(number)
        finally:
            self._work.allowed[:] = 1

    def _allow(self, allowed: Any) -> None:
        """Keep to these arms until further notice."""
        if allowed is None:
            return
        arms = _check.arms(self.problem, allowed, name="allowed")
        if not arms.size:
            raise ValueError("allowed: expected at least one arm, got none")
        self._work.allowed[:] = 0
        self._work.allowed[arms] = 1

    def _batch(self, n: int) -> NDArray[np.int64]:
        """So many arms, one after the other."""
        return np.array([self._next() for _ in range(n)])

    def _next(self) -> int:
        self._plan()
        step = at_once(type(self)._ask)
        with announce_first(step.compiled, self), undisturbed():
            arm = step(
                self._effort, self._options, self._memory, self._geometry, self._state,
                self._work, self._rng,
            )  # fmt: skip
        return int(arm)

    def tell(
        self, arm: Any, reward: Any, cost: Any = None, count: Any = 1, *, sd: Any = None
    ) -> None:
        """Take in what pulls showed: late, in any order, whether asked for or not.

        Parameters
        ----------
        arm, reward, cost, count, sd
            As in `Posterior.update`: one pull, or many; NaN where an outcome was not seen (yet);
            sums of `count` pulls.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> rule = bf.Uniform(bf.Problem([[1, 0], [0, 1]], thresholds=0.5), seed=0)
        >>> rule.tell(rule.ask(), 1.3, 0.2)
        >>> rule.tell([0, 1], [1.1, 0.4], [0.3, 0.1])
        >>> rule.posterior.pulls
        3
        """
        self._learn(read_rows(self.problem, arm, reward, cost, count, sd))

    def _learn(self, rows: Rows) -> None:
        if not rows.single:
            self._add(rows)
            return
        step, effort = at_once(engine.learn), self._effort
        for arm, values in zip(rows.arms, rows.values, strict=True):
            step(effort, self._geometry, self._state, self._work, arm, values[0], values[1:])

    def _add(self, rows: Rows) -> None:
        """Take in sums of many pulls, or pulls that do not show everything."""
        known, state = self.posterior, self._state
        known._add(rows)
        state.pulls[:] += known.counts - state.counts
        state.clock[1] = state.pulls.sum()
        state.counts[:], state.missing[:], state.squares[:] = (
            known.counts, known.missing, known.squares
        )  # fmt: skip
        state.sums[:] = np.column_stack([known.reward_sums, known.cost_sums])
        if known.missing.any():
            self._take_apart()
        self._refresh()

    def _take_apart(self) -> None:
        """Give every block a precision of its own: not every pull shows all outcomes."""
        if self._geometry.place.size == 1 or self._geometry.place.any():
            return
        shared, self._geometry = self._state, engine.geometry(self.problem, apart=True)
        fresh = engine.initial_state(self.problem, self._geometry)
        self._state = shared._replace(**{name: getattr(fresh, name) for name in KEPT})
        self._work = engine.scratch(self._geometry)
        self._refresh()

    def _refresh(self) -> None:
        at_once(engine.refresh)(self._effort, self._geometry, self._state, self._work)

    @property
    def _effort(self) -> int:
        """Elementary steps of a round, roughly."""
        geometry = self._geometry
        return geometry.noise.size * geometry.arms.shape[1] * geometry.candidates.size

    def replay(self, steps: Iterable[int | tuple[Any, ...]]) -> list[NDArray[np.int64]]:
        """Take recorded steps again, without the checks that they passed when they were recorded.

        Parameters
        ----------
        steps : iterable
            In their order: for an `ask` the number of arms that were asked for; for a `tell` the
            arms' indices, the rewards, and the costs (row, constraint); where they are sums,
            the counts too, and the standard deviations (row, 1 + constraint).

        Returns
        -------
        list of arrays
            The arms of each `ask`, the same as when they were recorded.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> rule = bf.Uniform(bf.Problem([[1, 0], [0, 1]]), seed=0)
        >>> rule.replay([2, ([0, 1], [1.3, 0.2], [[], []]), 1])
        [array([1, 0]), array([1])]
        """
        asked = []
        for step in steps:
            if isinstance(step, int):
                asked.append(self._batch(step))
            else:
                self._learn(stack_rows(self.problem, *step))
        return asked

    @property
    def posterior(self) -> Posterior:
        """The posterior after what was told (since the last restart, for rules that forget)."""
        posterior = Posterior(self.problem)
        posterior.counts[:] = self._state.counts
        posterior.reward_sums[:] = self._state.sums[:, 0]
        posterior.cost_sums[:] = self._state.sums[:, 1:]
        posterior.missing[:], posterior.squares[:] = self._state.missing, self._state.squares
        return posterior

    @property
    def allocation(self) -> Array:
        """Shares of the pulls that were told, over arms."""
        pulls = self._state.pulls
        return pulls / max(int(pulls.sum()), 1)

    def recommend(self) -> Recommendation:
        """The best feasible candidate, how probably that is wrong, and why.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> rule = bf.Uniform(bf.Problem([[1, 0], [0, 1]]), seed=0)
        >>> rule.tell([0, 1] * 50, [1.0, 0.2] * 50)
        >>> print(rule.recommend())
        Recommended: 0. P(error) = 3.7e-05, most likely because candidate 1 is better.
        """
        choice = self._choice()
        # Its own generator: asked twice, a rule gives the same answer with the same error.
        return recommend(self.posterior, None if choice < 0 else choice, np.random.default_rng(0))

    def _choice(self) -> int:
        """Index of the candidate to recommend, -1 for none."""
        if self.recommendation == "mean":
            means = self._state.candidate_means
            return int(at_once(engine.mean_best)(means.size, means, self._geometry.limits))
        if self.recommendation == "draw":
            with undisturbed():
                drawn = at_once(recommend_drawn)(
                    self._effort, self._geometry, self._state, self._work, self._recommend_rng
                )
            return int(drawn)
        choice = most_probable(self.posterior, self._recommend_rng)
        return -1 if choice is None else choice

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file, from which `load` goes on identically.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import bayes_feasible as bf
        >>> rule = bf.LinearThompson(bf.instances.end_of_optimism().problem, seed=0)
        >>> rule.tell([0, 2], [1.1, 0.1], [0.2, 0.9])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rule.save(Path(folder, "rule.json"))
        ...     again = bf.Rule.load(Path(folder, "rule.json"))
        >>> again.ask(20).tolist() == rule.ask(20).tolist()
        True
        """
        if RULES.get(type(self).__name__) is not type(self):
            raise ValueError(
                f"{type(self).__name__} cannot be saved: `load` would not find a class of your own"
            )
        text = json.dumps(rule_document(self), indent=1, allow_nan=False)
        with replaced(path) as new:
            new.write_text(text, encoding="utf-8")

    def _arrays(self) -> dict[str, Array]:
        """Everything that is remembered, by name."""
        return self._state._asdict() | (self._memory._asdict() if self._memory else {})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Rule":
        """A rule from a file that `save` wrote.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import bayes_feasible as bf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bf.Uniform(bf.Problem([[1, 0], [0, 1]]), seed=0).save(Path(folder, "rule.json"))
        ...     bf.Rule.load(Path(folder, "rule.json"))
        Uniform(0 asked, 0 told, allocation_followed=[0.5, 0.5])
        """
        try:
            return rule_from_document(json.loads(read_file(path)))
        except FILE_ERRORS as error:
            raise ValueError(f"{path}: not a rule that was saved ({error!r})") from error

    def __repr__(self) -> str:
        settings = "".join(f", {name}={getattr(self, name)!r}" for name in self.settings)
        asked, told = int(self._state.clock[0]), int(self._state.pulls.sum())
        return f"{type(self).__name__}({asked} asked, {told} told{settings})"


def _check_lengths(problem: Problem) -> None:
    """Refuse vectors so long that what a rule computes from them would overflow."""
    longest = max(np.linalg.norm(v, axis=1).max() for v in (problem.arms, problem.candidates))
    if longest > LONGEST:
        raise ValueError(
            f"problem: a vector of length {longest:g} is longer than rules can compute with, "
            f"{LONGEST:g}; measure its features in larger units"
        )


def _checksum(document: dict[str, Any]) -> str:
    """Of what the document says, however it is laid out."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def announce_first(function: Any, rule: Rule) -> AbstractContextManager[None]:
    """Say what takes so long if this function of a rule's must be compiled."""
    if function.signatures:
        return nullcontext()
    return announce(f"rounds of {type(rule).__name__}", COMPILATION)


def options_of(kind: type[Rule], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A rule's settings as options of its class, which may take an allocation or have its own."""
    options = dict(settings)
    followed = options.pop("allocation_followed", None)
    if followed is not None and "allocation" in signature(kind).parameters:
        options["allocation"] = followed
    return options


def rule_document(rule: Rule) -> dict[str, Any]:
    """All there is to a rule, as a document for JSON."""
    document = {
        "rule": type(rule).__name__,
        "recommendation": rule.recommendation,
        "settings": {name: getattr(rule, name) for name in rule.settings},
        "problem": to_document(rule.problem, strict=True),
        "generators": [g.bit_generator.state for g in (rule._rng, rule._recommend_rng)],
        "state": {name: array.tolist() for name, array in rule._arrays().items()},
    }
    return document | {"checksum": _checksum(document)}


def rule_from_document(document: dict[str, Any]) -> Rule:
    """The rule again; any of `FILE_ERRORS` if that is no such document."""
    if document.pop("checksum") != _checksum(document):
        raise ValueError("the checksum does not agree: the file was changed")
    kind = RULES[document["rule"]]
    problem, method = build(from_document(document["problem"])), document["recommendation"]
    rule = kind(problem, recommendation=method, **options_of(kind, document["settings"]))
    rule._resume(document["settings"])
    for generator, state in zip(
        (rule._rng, rule._recommend_rng), document["generators"], strict=True
    ):
        generator.bit_generator.state = state
    if np.any(document["state"]["missing"]):
        rule._take_apart()
    for name, array in rule._arrays().items():
        _fill(name, array, document["state"][name])
    _check_state(rule)
    rule._check_memory()
    return rule


def _fill(name: str, array: Array, numbers: Any) -> None:
    """Write numbers from a file into an array."""
    saved = np.array(numbers, dtype=float)
    if saved.shape != array.shape and saved.size:
        raise ValueError(f"{name}: expected shape {array.shape}, got {saved.shape}")
    if not np.all(np.isfinite(saved)):
        raise ValueError(f"{name}: expected finite numbers")
    with np.errstate(invalid="ignore"):  # beyond the largest integer: told below
        array[...] = saved.reshape(array.shape)
    if np.any(array != saved.reshape(array.shape)):
        raise ValueError(f"{name}: expected whole numbers")


def check_shares(name: str, shares: Array) -> None:
    """Refuse what are no shares."""
    if shares.min() < 0 or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"{name}: expected shares with sum 1, got {shares}")


def check_learner(learner: Learner) -> None:
    """Refuse a max-learner that no losses could have led to."""
    check_shares("weights", learner.weights)
    if learner.gap[0] < 0:
        raise ValueError(f"gap: expected no negative number, got {learner.gap[0]}")


def _check_state(rule: Rule) -> None:
    """Refuse a state that no pulls could have led to."""
    state = rule._state
    for name in ("counts", "missing", "squares", "clock", "variances"):
        if (least := getattr(state, name).min()) < 0:
            raise ValueError(f"{name}: expected no negative number, got {least}")
    if np.any(state.pulls < state.counts):
        raise ValueError("pulls: expected at least as many as counts")
    if np.any(state.missing > state.counts[:, np.newaxis]):
        raise ValueError("missing: expected at most as many as counts")
    if state.clock[1] != state.pulls.sum():
        raise ValueError(f"clock: expected {state.pulls.sum()} pulls, got {state.clock[1]}")
    seen = state.counts[:, np.newaxis] - state.missing
    if np.any((seen == 0) & (state.sums != 0)):
        raise ValueError("counts: an arm with a sum that is not 0 was never pulled")
    if np.abs(state.sums).max() > _check.LARGEST:
        raise ValueError(f"sums: expected at most {_check.LARGEST:g}")
    for outcome, sums, number in zip(rule.problem.outcomes, state.sums.T, seen.T, strict=True):
        outcome.check("sums", sums, number)
    _check_kept(rule)


def _check_kept(rule: Rule) -> None:
    """Refuse what is kept for speed where it does not follow from the counts and sums."""
    state, geometry = rule._state, rule._geometry
    fresh = state._replace(**{name: getattr(state, name).copy() for name in KEPT})
    at_once(engine.refresh)(rule._effort, geometry, fresh, rule._work)
    root, found = np.sqrt(fresh.variances), np.sqrt(state.variances)
    shape = (-1, len(geometry.candidates))
    spread = fresh.noise[:, np.newaxis] * root.reshape(shape)[geometry.place]
    of_mean, of_root = _rounding(rule)
    allowed = ROUNDING * (spread + np.abs(fresh.candidate_means)) + of_mean
    vectors = geometry.vectors.reshape(*shape, geometry.arms.shape[1])[geometry.place]
    seen = np.einsum("bzr,br->bz", vectors, state.means)
    size = np.linalg.norm(fresh.lower, axis=1, keepdims=True)
    allowed_root = ROUNDING * root + np.tile(of_root, len(vectors))[: root.size]
    off = {
        "candidate_means": np.abs(state.candidate_means - fresh.candidate_means) > allowed,
        "means": np.abs(seen - fresh.candidate_means) > allowed,
        "variances": np.abs(found - root) > allowed_root,
        "lower": np.abs(state.lower - fresh.lower) > ROUNDING * size,
        "noise": np.abs(state.noise - fresh.noise) > ROUNDING * fresh.noise,
        "freedom": state.freedom != fresh.freedom,
        "info": np.abs(state.info - fresh.info) > ROUNDING * fresh.info,
    }
    for name, wrong in off.items():
        if wrong.any():
            raise ValueError(f"{name}: does not go with the counts and sums")


def _rounding(rule: Rule) -> tuple[Array, Array]:
    """What rounding may do to the candidates' means and to the roots of their variances.

    It is seen where arms are very long and leave a direction to the prior: that, of size 1, then
    stands beside the squares of their lengths.
    """
    geometry = rule._geometry
    unit = 64 * np.finfo(float).eps * geometry.arms.shape[1]
    of_root = unit * np.linalg.norm(geometry.candidates, axis=1)
    sizes = np.linalg.norm(geometry.arms, axis=1)
    shown = np.abs(rule._state.sums[:, geometry.columns]).T @ sizes
    if unit * sizes.max() > ROUNDING:  # the prior is lost beside them: anything may come of it
        return np.full((shown.size, of_root.size), np.inf), np.full(of_root.size, np.inf)
    return shown[:, np.newaxis] * of_root, of_root
