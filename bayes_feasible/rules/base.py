"""What all sampling rules share: asking, telling, recommending, saving.

A rule is a compiled step, options, a state of plain arrays, and a memory of its own where it needs
one. `ask` names an arm, `tell` takes in what a pull showed, `recommend` answers.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._at_once import at_once
from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.compiled import announce
from bayes_feasible.files.atomic import replaced
from bayes_feasible.files.guard import read_file
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.recommendation import METHODS, Recommendation, most_probable, recommend
from bayes_feasible.rules import RULES, engine
from bayes_feasible.rules.draws import recommend_drawn
from bayes_feasible.rules.saving import FILE_ERRORS, rule_document, rule_from_document
from bayes_feasible.safety import Batch, read_safety
from bayes_feasible.stopping.stop import Decision, Stop
from bayes_feasible.sums import Rows, read_rows, stack_rows

COMPILATION = 15  # seconds that the rounds of a rule usually take to compile
LONGEST = 1e60  # arm or candidate: the fourth power of its length, summed over rounds, is a number


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
        allowed : indices or names of arms, or Safety, optional
            Only these may be asked for now; a `Safety` goes by what was told. A rule that draws
            arms from shares draws from those of the allowed arms, in proportion; a rule that tracks
            shares asks for the allowed arm that lags most, and what the others are owed stays; a
            rule that wants a candidate asks for what tells most of it; one that maximises,
            maximises over these.

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
        guard = read_safety(self.problem, allowed)
        batch = Batch(number)
        if guard is not None:
            batch = guard.plan(self.posterior, guard.read_pending(None), number)
        arms = self._make(batch)
        return int(arms[0]) if n is None else arms

    def _make(self, batch: Batch) -> NDArray[np.int64]:
        """The arms of a batch."""
        with self._keep_to(batch.allowed):
            return batch.spread(self._batch(batch.choices, batch.cohort))

    @contextmanager
    def _keep_to(self, allowed: list[int] | None) -> Iterator[None]:
        """Choose among these arms only."""
        if allowed is not None:
            self._work.allowed[:] = 0
            self._work.allowed[allowed] = 1
        try:
            yield
        finally:
            self._work.allowed[:] = 1

    def _batch(self, n: int, pulls: int = 1) -> NDArray[np.int64]:
        """So many arms, one after the other, each for so many pulls."""
        return np.array([self._next() for _ in range(n)], dtype=np.int64)

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
        self._state = shared._replace(**{name: getattr(fresh, name) for name in engine.KEPT})
        self._work = engine.scratch(self._geometry)
        self._refresh()

    def _refresh(self) -> None:
        at_once(engine.refresh)(self._effort, self._geometry, self._state, self._work)

    @property
    def _effort(self) -> int:
        """Elementary steps of a round, roughly."""
        geometry = self._geometry
        return geometry.noise.size * geometry.arms.shape[1] * geometry.candidates.size

    def replay(self, steps: Iterable[Batch | int | tuple[Any, ...]]) -> list[NDArray[np.int64]]:
        """Take recorded steps again, without the checks that they passed when they were recorded.

        Parameters
        ----------
        steps : iterable
            In their order: for an `ask` the number of arms that were asked for (or how the batch
            was made); for a `tell` the
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
            if isinstance(step, int | Batch):
                asked.append(self._make(Batch(step) if isinstance(step, int) else step))
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

    def done(self, stop: Stop) -> Decision:
        """Whether the experiment may end, and why: true where it may.

        Parameters
        ----------
        stop : Stop

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> rule = bf.Uniform(bf.Problem([[1, 0], [0, 1]]), seed=0)
        >>> rule.tell([0, 1] * 20, [1.0, 0.2] * 20)
        >>> print(rule.done(bf.Stop(error=0.01)))
        Stop (error), answer: 0. P(error) = 0.0068, at most 0.01.
        """
        _check.kind("stop", stop, Stop)
        choice = self._choice()
        return stop.check(self.posterior, None if choice < 0 else choice)

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


def announce_first(function: Any, rule: Rule) -> AbstractContextManager[None]:
    """Say what takes so long if this function of a rule's must be compiled."""
    if function.signatures:
        return nullcontext()
    return announce(f"rounds of {type(rule).__name__}", COMPILATION)
