"""What all sampling rules share: asking, telling, recommending, saving.

A rule is a compiled step, options, and a state of plain arrays. `ask` names an arm, `tell` takes
in what a pull showed, `recommend` answers.
"""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.files.atomic import replaced
from bayes_feasible.files.documents import build, from_document, to_document
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.recommendation import METHODS, Recommendation, most_probable, recommend
from bayes_feasible.rules import choose, engine
from bayes_feasible.rules.choose import Options

KEPT = ("lower", "means", "candidate_means", "variances")  # of a state: follow from the rest
ROUNDING = 1e-3  # of them, at the very most: beyond it they were not computed from the rest
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
    _step: ClassVar[Callable[..., int]]  # the compiled step, and the loop around it
    _loop: ClassVar[Callable[..., int]]

    def __init__(
        self, problem: Problem | Instance, seed: Any = 0, *, recommendation: str = "mean"
    ) -> None:
        if not isinstance(problem, Problem | Instance):
            raise ValueError(
                f"problem: expected a Problem or an Instance, got {type(problem).__name__}"
            )
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

    @abstractmethod
    def _configure(self, problem: Problem | Instance) -> Options:
        """Options of the compiled step; may prepare the state."""

    def ask(self, n: int | None = None) -> Any:
        """The arm to pull next; or an array of `n` arms to pull before the next `tell`.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> rule = bf.BestResponse(bf.instances.end_of_optimism().problem, seed=0)
        >>> rule.ask(5)
        array([3, 2, 0, 3, 3])
        """
        if n is None:
            return self._next()
        return np.array([self._next() for _ in range(_check.count("n", n))])

    def _next(self) -> int:
        self._plan()
        step = type(self)._step
        with undisturbed():
            return int(step(self._options, self._geometry, self._state, self._work, self._rng))

    def _plan(self) -> None:  # noqa: B027 (most rules need none)
        """Solve for the allocation to follow, if that is due before the next round."""

    def _resumed(self) -> None:  # noqa: B027 (most rules need none)
        """What is left to do after the state was read from a file."""

    def tell(self, arm: Any, reward: Any, cost: Any = None) -> None:
        """Take in what pulls showed: late, in any order, whether asked for or not.

        Parameters
        ----------
        arm : index or name of an arm, or a vector of them
        reward : number, or a vector
        cost : one number for each constraint, or a table (pull, constraint)
            In the order of the constraints, or by their names (dict, Series, DataFrame).

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> rule = bf.Uniform(bf.Problem([[1, 0], [0, 1]], thresholds=0.5), seed=0)
        >>> rule.tell(rule.ask(), 1.3, 0.2)
        >>> rule.tell([0, 1], [1.1, 0.4], [0.3, 0.1])
        >>> rule.posterior.pulls
        3
        """
        arms, rewards, costs = _check.pulls(self.problem, arm, reward, cost)
        for i in range(arms.size):
            engine.learn(self._geometry, self._state, self._work, arms[i], rewards[i], costs[i])

    @property
    def posterior(self) -> Posterior:
        """The posterior after what was told (since the last restart, for rules that forget)."""
        posterior = Posterior(self.problem)
        posterior.counts[:] = self._state.counts
        posterior.reward_sums[:] = self._state.sums[:, 0]
        posterior.cost_sums[:] = self._state.sums[:, 1:]
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
            return int(engine.mean_best(self._state.candidate_means, self._geometry.thresholds))
        if self.recommendation == "draw":
            with undisturbed():
                drawn = choose.recommend_drawn(
                    self._geometry, self._state, self._work, self._recommend_rng
                )
            return int(drawn)
        choice = most_probable(self.posterior, self._recommend_rng)
        return -1 if choice is None else choice

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file, from which `load` goes on identically.

        Examples
        --------
        >>> import tempfile
        >>> import bayes_feasible as bf
        >>> rule = bf.LinearThompson(bf.instances.end_of_optimism().problem, seed=0)
        >>> rule.tell([0, 2], [1.1, 0.1], [0.2, 0.9])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rule.save(Path(folder, "rule.json"))
        ...     again = bf.Rule.load(Path(folder, "rule.json"))
        >>> again.ask(20).tolist() == rule.ask(20).tolist()
        True
        """
        from bayes_feasible.rules.catalogue import RULES

        if RULES.get(type(self).__name__) is not type(self):
            raise ValueError(
                f"{type(self).__name__} cannot be saved: `load` would not find a class of your own"
            )
        document = {
            "rule": type(self).__name__,
            "recommendation": self.recommendation,
            "settings": {name: getattr(self, name) for name in self.settings},
            "problem": to_document(self.problem, strict=True),
            "generators": [g.bit_generator.state for g in (self._rng, self._recommend_rng)],
            "state": {name: array.tolist() for name, array in self._state._asdict().items()},
        }
        document["checksum"] = _checksum(document)
        text = json.dumps(document, indent=1, allow_nan=False)
        with replaced(path) as new:
            new.write_text(text, encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Rule":
        """A rule from a file that `save` wrote.

        Examples
        --------
        >>> import tempfile
        >>> import bayes_feasible as bf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bf.Uniform(bf.Problem([[1, 0], [0, 1]]), seed=0).save(Path(folder, "rule.json"))
        ...     bf.Rule.load(Path(folder, "rule.json"))
        Uniform(0 asked, 0 told, allocation_followed=[0.5, 0.5])
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            if document.pop("checksum") != _checksum(document):
                raise ValueError("the checksum does not agree: the file was changed")
            return _restore(document)
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


def options_of(kind: type[Rule], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A rule's settings as options of its class, which may take an allocation or have its own."""
    options = dict(settings)
    followed = options.pop("allocation_followed", None)
    if followed is not None and "allocation" in signature(kind).parameters:
        options["allocation"] = followed
    return options


def _restore(document: dict[str, Any]) -> Rule:
    from bayes_feasible.rules.catalogue import RULES

    kind = RULES[document["rule"]]
    problem = build(from_document(document["problem"]))
    options = options_of(kind, document["settings"])
    rule = kind(problem, recommendation=document["recommendation"], **options)
    for generator, state in zip(
        (rule._rng, rule._recommend_rng), document["generators"], strict=True
    ):
        generator.bit_generator.state = state
    for name, array in rule._state._asdict().items():
        saved = np.array(document["state"][name], dtype=float)
        if saved.shape != array.shape and saved.size:
            raise ValueError(f"{name}: expected shape {array.shape}, got {saved.shape}")
        if not np.all(np.isfinite(saved)):
            raise ValueError(f"{name}: expected finite numbers")
        with np.errstate(invalid="ignore"):  # beyond the largest integer: told below
            array[...] = saved.reshape(array.shape)
        if np.any(array != saved.reshape(array.shape)):
            raise ValueError(f"{name}: expected whole numbers")
    rule._resumed()
    _check_state(rule)
    return rule


def _check_state(rule: Rule) -> None:
    """Refuse a state that no pulls could have led to."""
    state, geometry = rule._state, rule._geometry
    for name in ("weights", "plan"):
        shares = getattr(state, name)
        if shares.min() < 0 or abs(shares.sum() - 1) > 1e-9:
            raise ValueError(f"{name}: expected shares with sum 1")
    never_negative = (
        state.counts, state.pulls - state.counts, state.clock, state.gap, state.variances,
    )  # fmt: skip
    if min(map(np.min, never_negative)) < 0:
        raise ValueError("counts, pulls, clock, gap and variances: expected no negative number")
    if state.clock[2] > state.clock[0] or state.clock[1] != state.pulls.sum():
        raise ValueError("clock: it does not go with the pulls")
    Posterior.from_sums(rule.problem, state.counts, state.sums[:, 0], state.sums[:, 1:])
    fresh = state._replace(**{name: getattr(state, name).copy() for name in KEPT})
    engine.refresh(geometry, fresh, rule._work)
    spread = geometry.noise[:, np.newaxis] * np.sqrt(fresh.variances)
    of_mean, of_root = _rounding(rule)
    off = [
        np.abs(means - fresh.candidate_means)
        > ROUNDING * (spread + np.abs(fresh.candidate_means)) + of_mean
        for means in (state.candidate_means, state.means @ geometry.candidates.T)
    ]
    root = np.sqrt(fresh.variances)
    off.append(np.abs(np.sqrt(state.variances) - root) > ROUNDING * root + of_root)
    size = np.linalg.norm(fresh.lower, axis=1, keepdims=True)
    off.append(np.abs(state.lower - fresh.lower) > ROUNDING * size)
    if any(map(np.any, off)):
        raise ValueError("lower, means and variances do not go with the counts and sums")


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
