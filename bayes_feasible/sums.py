"""What pulls add up to: all that a posterior needs of them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.problem import Problem

PLURAL = ("arms", "rewards", "costs")


class Sums:
    """How often each arm was pulled, and the sums of what it showed.

    Nothing here is updated in place that rounding could wear down, and the order of the pulls does
    not matter.

    Attributes
    ----------
    counts : ndarray of int (arm,)
    reward_sums, cost_sums : ndarray (arm,) and (arm, constraint)
    missing : ndarray of int (arm, 1 + constraint)
        Pulls that did not show the reward, or a cost.
    squares : ndarray (arm, 1 + constraint)
        Sums of squares about each arm's mean, where noise is learnt; 0 elsewhere.
    """

    def __init__(self, problem: Problem) -> None:
        _check.kind("problem", problem, Problem)
        self.problem = problem
        arms, constraints = len(problem.arms), problem.thresholds.size
        self.counts: NDArray[np.int64] = np.zeros(arms, dtype=np.int64)
        self.reward_sums: Array = np.zeros(arms)
        self.cost_sums: Array = np.zeros((arms, constraints))
        self.missing: NDArray[np.int64] = np.zeros((arms, 1 + constraints), dtype=np.int64)
        self.squares: Array = np.zeros((arms, 1 + constraints))  # about each arm's own mean

    @classmethod
    def from_history(
        cls, problem: Problem, arms: Any, rewards: Any, costs: Any = None, counts: Any = 1, *,
        sds: Any = None,
    ) -> Self:  # fmt: skip
        """The posterior after a recorded history.

        Parameters
        ----------
        problem : Problem
        arms : vector of arms by index or name, shape (row,)
        rewards : vector, shape (row,)
        costs : table, shape (row, constraint)
            A vector will do for one constraint, and nothing for none.
        counts, sds
            Where rows sum up many pulls; see `update`.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
        >>> Posterior.from_history(problem, [0, 1, 0], [2.0, 1.0, 1.0], [0.1, 0.7, 0.2])
        Posterior after 3 pulls of 2 arms: best '0'
        """
        posterior = cls(problem)
        arms = _check.arms(problem, arms)
        posterior._add(read_rows(problem, arms, rewards, costs, counts, sds, PLURAL))
        return posterior

    @classmethod
    def from_sums(
        cls, problem: Problem, counts: Any, reward_sums: Any, cost_sums: Any = None, *,
        sds: Any = None,
    ) -> Self:  # fmt: skip
        """The posterior from how often each arm was pulled and the sums of what it showed.

        Parameters
        ----------
        problem : Problem
        counts : whole numbers, shape (arm,)
        reward_sums : shape (arm,)
        cost_sums : shape (arm, constraint)
            All in the order of the arms, or by their names.
        sds : table (arm, 1 + constraint), optional
            See `update`: what has a standard deviation beside it is a mean.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
        >>> Posterior.from_sums(problem, [2, 1], [3.0, 1.0], [[0.3], [0.7]]).theta_reward
        array([1. , 0.5])
        """
        arms = problem.coords["arm"]
        number = _check.numbers("counts", _check.by_name("counts", counts, arms, "arm"))
        if number.shape != arms.shape:
            raise ValueError(f"counts: expected one an arm, got shape {number.shape}")
        if number.min() < 0 or np.any(number != np.floor(number)):
            raise ValueError("counts: expected whole numbers that are not negative")
        if number.max() > _check.LARGEST_COUNT:
            raise ValueError(f"counts: {number.max():g} pulls are too many to be counted exactly")
        sums = _check.by_name("reward_sums", reward_sums, arms, "arm")
        rewards = _check.numbers("reward_sums", sums)
        if rewards.shape != arms.shape:
            raise ValueError(f"reward_sums: expected one an arm, got shape {rewards.shape}")
        cost_sums = _check.costs_by_arm("cost_sums", cost_sums, problem)
        costs = _check.costs("cost_sums", cost_sums, len(arms), problem.coords["constraint"])
        if np.any((number == 0) & ((rewards != 0) | np.any(costs != 0, axis=1))):
            raise ValueError("counts: an arm with a sum that is not 0 was never pulled")
        pulled = np.flatnonzero(number)
        if sds is not None:
            sds = read_sds(problem, sds, (arms.size, 1 + problem.thresholds.size))[pulled]
        posterior = cls(problem)
        posterior._add(
            read_rows(
                problem, pulled, rewards[pulled], costs[pulled], number[pulled], sds,
                ("counts", "reward_sums", "cost_sums"),
            )
        )  # fmt: skip
        return posterior

    def update(
        self, arm: Any, reward: Any, cost: Any = None, count: Any = 1, *, sd: Any = None
    ) -> None:
        """Take in one pull, or many at once where vectors are given.

        An outcome that was not seen (yet) is NaN. What is seen later is told in a row of its own,
        in any order, and completes a pull: `counts` are the fewest pulls that can have shown all
        that was seen.

        Parameters
        ----------
        arm : index or name of an arm, or a vector of them
        reward : number, or a vector
        cost : one number for each constraint, or a table (row, constraint)
            In the order of the constraints, or by their names (dict, Series, DataFrame).
        count : whole number, or a vector
            Where it is more than 1, the row sums up so many pulls of the arm: reward and cost are
            totals, successes or counts over them.
        sd : numbers for the reward and each cost, or a table (row, 1 + constraint), optional
            Standard deviations (with n - 1) over the pulls of a row, or NaN; or a dict of names
            to them. What has one is the mean over the pulls instead of their sum. Needed where
            the noise of a Gaussian is learnt from rows of many pulls.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds=[0.5, 2.0]))
        >>> posterior.update(0, 2.0, [0.1, 1.5])
        >>> posterior.update([0, 1], [1.0, 1.0], [[0.2, 1.4], [0.7, 0.3]])
        >>> posterior.update(1, 8.0, [2.5, float("nan")], count=10)
        >>> posterior.update(1, float("nan"), [float("nan"), 3.1], count=10)  # seen later
        >>> posterior.counts
        array([ 2, 11])
        """
        self._add(read_rows(self.problem, arm, reward, cost, count, sd))

    def _add(self, rows: "Rows") -> None:
        """Take in rows that were checked."""
        arms, number, size = rows.arms, rows.counts.astype(float), len(self.counts)
        shown, there = rows.sums, ~np.isnan(rows.values)
        within = np.where(np.isnan(rows.sds), 0.0, np.square(rows.sds) * (number - 1)[:, None])
        seen = self.seen
        for b, outcome in enumerate(self.problem.outcomes):
            some = slice(None) if there[:, b].all() else there[:, b]
            if isinstance(outcome, Gaussian) and outcome.learnt:
                self._add_squares(b, arms[some], shown[some, b], number[some], within[some, b])
            sums = self.reward_sums if b == 0 else self.cost_sums[:, b - 1]
            sums += np.bincount(arms[some], shown[some, b], minlength=size)
            more = np.bincount(arms[some], number[some], minlength=size)
            seen[:, b] += more.astype(np.int64)
        self.counts = seen.max(axis=1)
        self.missing = self.counts[:, np.newaxis] - seen
        self._forget()

    def _add_squares(
        self, b: int, arms: NDArray[np.int64], sums: Array, number: Array, within: Array
    ) -> None:
        """Add to the squares about each arm's mean those of new rows, and between the means."""
        size = len(self.counts)
        old_count = self.seen[:, b].astype(float)
        old_sum = self.reward_sums if b == 0 else self.cost_sums[:, b - 1]
        new_count = np.bincount(arms, number, minlength=size)
        new_sum = np.bincount(arms, sums, minlength=size)
        mean = new_sum / np.maximum(new_count, 1)
        apart = number * np.square(sums / number - mean[arms])
        self.squares[:, b] += np.bincount(arms, within + apart, minlength=size)
        both = (old_count > 0) & (new_count > 0)
        step = mean[both] - old_sum[both] / old_count[both]
        share = old_count[both] * new_count[both] / (old_count[both] + new_count[both])
        self.squares[both, b] += share * np.square(step)

    @property
    def seen(self) -> NDArray[np.int64]:
        """How many pulls of each arm showed the reward and each cost, over (arm, block)."""
        return self.counts[:, np.newaxis] - self.missing

    def _forget(self) -> None:
        """What follows from the sums is to be computed anew."""

    def copy(self) -> Self:
        """An independent copy.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]]))
        >>> posterior.copy().update(0, 1.0)
        >>> posterior.pulls
        0
        """
        other = type(self)(self.problem)
        other.counts[:] = self.counts
        other.reward_sums[:] = self.reward_sums
        other.cost_sums[:] = self.cost_sums
        other.missing[:] = self.missing
        other.squares[:] = self.squares
        return other


class Rows(NamedTuple):
    """What was recorded, row by row: one pull, or many summed up."""

    arms: NDArray[np.int64]  # (row,)
    values: Array  # (row, 1 + constraint): NaN where it was not seen
    counts: NDArray[np.int64]  # (row,): pulls
    sds: Array  # (row, 1 + constraint): NaN, or what makes the value a mean instead of a sum

    @property
    def sums(self) -> Array:
        """The values as sums over the pulls."""
        number = self.counts[:, np.newaxis]
        return np.where(np.isnan(self.sds), self.values, self.values * number)

    @property
    def single(self) -> bool:
        """Whether every row is one pull that showed everything."""
        return bool((self.counts == 1).all()) and not np.isnan(self.values).any()


def read_rows(
    problem: Problem, arm: Any, reward: Any, cost: Any = None, count: Any = 1, sd: Any = None,
    names: Sequence[str] = ("arm", "reward", "cost"),
) -> Rows:  # fmt: skip
    """Rows as a user gives them; what no pulls of the problem show is refused."""
    arms, rewards, costs = _check.pulls(problem, arm, reward, cost, names, missing=True)
    values, counts = np.column_stack([rewards, costs]), _check_counts(count, arms.size)
    rows = Rows(arms, values, counts, read_sds(problem, sd, values.shape))
    labels = [names[1], *(f"{names[2]} {name}" for name in problem.coords["constraint"])]
    for label, outcome, column, sds in zip(
        labels, problem.outcomes, values.T, rows.sds.T, strict=True
    ):
        outcome.check(label, column, counts.astype(float))
        summed = (counts > 1) & ~np.isnan(column)
        if isinstance(outcome, Gaussian) and outcome.learnt and np.isnan(sds[summed]).any():
            raise ValueError(
                f"sd: {label} has noise that is learnt, so a row of many pulls needs their "
                "standard deviation"
            )
    return rows


def stack_rows(
    problem: Problem, arms: Any, rewards: Any, costs: Any, counts: Any = 1, sds: Any = np.nan
) -> Rows:
    """Rows that were checked before, from lists."""
    arms = np.array(arms, dtype=np.int64)
    table = np.array(costs, dtype=float).reshape(arms.size, problem.thresholds.size)
    values = np.column_stack([np.array(rewards, dtype=float), table])
    number = np.broadcast_to(np.asarray(counts, dtype=np.int64), arms.shape)
    spread = np.asarray(sds, dtype=float)
    spread = spread.reshape(values.shape) if spread.ndim else np.broadcast_to(spread, values.shape)
    return Rows(arms, values, number, spread)


def read_sds(problem: Problem, sd: Any, shape: tuple[int, ...]) -> Array:
    """Standard deviations within rows, over (row, 1 + constraint); NaN where there is none."""
    sds = np.full(shape, np.nan)
    if sd is None:
        return sds
    gaussian = np.array([isinstance(outcome, Gaussian) for outcome in problem.outcomes])
    if isinstance(sd, Mapping):
        names = problem.outcome_names
        for name, given in sd.items():
            if name not in names:
                raise ValueError(f"sd: {_check.unknown('outcome', name, names)}")
            sds[:, names.index(name)] = _check.numbers(f"sd {name}", given, missing=True)
    else:
        given = _check.numbers("sd", sd, missing=True)
        if given.shape not in (shape, shape[1:], ()):
            raise ValueError(
                f"sd: expected {shape[1]} numbers, one for the reward and each cost, "
                f"got shape {given.shape}"
            )
        sds[:] = np.where(gaussian, given, np.nan) if given.ndim == 0 else given
    if np.any(sds < 0):
        raise ValueError(f"sd: expected no negative number, got {np.nanmin(sds):g}")
    if not np.isnan(sds[:, ~gaussian]).all():
        raise ValueError("sd: expected NaN for 0/1 and counts, which have none to give")
    return sds


def _check_counts(value: Any, rows: int) -> NDArray[np.int64]:
    """How many pulls each row sums up."""
    counts = _check.numbers("count", value)
    if counts.shape not in ((), (rows,)):
        raise ValueError(f"count: expected one number, or {rows}, got shape {counts.shape}")
    bad = (counts < 1) | (counts != np.floor(counts)) | (counts > _check.LARGEST_COUNT)
    if bad.any():
        raise ValueError(
            f"count: expected whole numbers of at least 1, got {counts[bad].flat[0]:g}"
        )
    return np.broadcast_to(counts, rows).astype(np.int64)
