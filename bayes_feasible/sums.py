"""What pulls add up to: all that a posterior needs of them."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.problem import Problem


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
    def from_history(cls, problem: Problem, arms: Any, rewards: Any, costs: Any = None) -> Self:
        """The posterior after a recorded history.

        Parameters
        ----------
        problem : Problem
        arms : vector of arms by index or name, shape (pull,)
        rewards : vector, shape (pull,)
        costs : table, shape (pull, constraint)
            A vector will do for one constraint, and nothing for none.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
        >>> Posterior.from_history(problem, [0, 1, 0], [2.0, 1.0, 1.0], [0.1, 0.7, 0.2])
        Posterior after 3 pulls of 2 arms: best '0'
        """
        posterior = cls(problem)
        arms = _check.arms(problem, arms)
        posterior._update(arms, rewards, costs, 1, None, ("arms", "rewards", "costs"))
        return posterior

    @classmethod
    def from_sums(cls, problem: Problem, counts: Any, reward_sums: Any, cost_sums: Any) -> Self:
        """The posterior from how often each arm was pulled and the sums of what it showed.

        Parameters
        ----------
        problem : Problem
        counts : whole numbers, shape (arm,)
        reward_sums : shape (arm,)
        cost_sums : shape (arm, constraint)
            All in the order of the arms, or by their names.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
        >>> Posterior.from_sums(problem, [2, 1], [3.0, 1.0], [[0.3], [0.7]]).theta_reward
        array([1. , 0.5])
        """
        posterior = cls(problem)
        arms = problem.coords["arm"]
        number = _check.numbers("counts", _check.by_name("counts", counts, arms, "arm"))
        if number.shape != posterior.counts.shape:
            raise ValueError(f"counts: expected one an arm, got shape {number.shape}")
        if number.min() < 0 or np.any(number != np.floor(number)):
            raise ValueError("counts: expected whole numbers that are not negative")
        if number.max() > _check.LARGEST_COUNT:
            raise ValueError(f"counts: {number.max():g} pulls are too many to be counted exactly")
        sums = _check.by_name("reward_sums", reward_sums, arms, "arm")
        rewards = _check.numbers("reward_sums", sums)
        if rewards.shape != posterior.reward_sums.shape:
            raise ValueError(f"reward_sums: expected one an arm, got shape {rewards.shape}")
        cost_sums = _check.costs_by_arm("cost_sums", cost_sums, problem)
        costs = _check.costs("cost_sums", cost_sums, len(arms), problem.coords["constraint"])
        if np.any((number == 0) & ((rewards != 0) | np.any(costs != 0, axis=1))):
            raise ValueError("counts: an arm with a sum that is not 0 was never pulled")
        posterior.counts[:], posterior.reward_sums[:], posterior.cost_sums[:] = (
            number,
            rewards,
            costs,
        )
        return posterior

    def update(
        self, arm: Any, reward: Any, cost: Any = None, count: Any = 1, *, sd: Any = None
    ) -> None:
        """Take in one pull, or many at once where vectors are given.

        Parameters
        ----------
        arm : index or name of an arm, or a vector of them
        reward : number, or a vector
            NaN where it was not seen (yet).
        cost : one number for each constraint, or a table (pull, constraint)
            In the order of the constraints, or by their names (dict, Series, DataFrame). NaN
            where it was not seen (yet).
        count : whole number, or a vector
            Where it is more than 1, reward and cost are sums over so many pulls of the arm:
            successes, counts, totals.
        sd : number for the reward and each cost, or a table (pull, 1 + constraint), optional
            Standard deviations of the outcomes summed (with n - 1), needed where the noise of a
            Gaussian is learnt from sums.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds=[0.5, 2.0]))
        >>> posterior.update(0, 2.0, [0.1, 1.5])
        >>> posterior.update([0, 1], [1.0, 1.0], [[0.2, 1.4], [0.7, 0.3]])
        >>> posterior.update(1, 8.0, [2.5, float("nan")], count=10)
        >>> posterior.counts
        array([ 2, 11])
        """
        self._update(arm, reward, cost, count, sd, ("arm", "reward", "cost"))

    def _update(
        self, arm: Any, reward: Any, cost: Any, count: Any, sd: Any, names: tuple[str, str, str]
    ) -> None:
        problem = self.problem
        arms, rewards, costs = _check.pulls(problem, arm, reward, cost, names, missing=True)
        number = _check_counts(count, arms.size).astype(float)
        shown = np.column_stack([rewards, costs])
        labels = check_outcomes(problem, shown, number, names)
        within = self._within(shown, number, sd, labels)
        size = len(self.counts)
        there = ~np.isnan(shown)
        for b, outcome in enumerate(problem.outcomes):
            if isinstance(outcome, Gaussian) and outcome.learnt:
                seen = there[:, b]
                self._add_squares(b, arms[seen], shown[seen, b], number[seen], within[seen, b])
        self.counts += np.bincount(arms, number, minlength=size).astype(np.int64)
        shown = np.where(there, shown, 0.0)
        self.reward_sums += np.bincount(arms, shown[:, 0], minlength=size)
        for j in range(costs.shape[1]):
            self.cost_sums[:, j] += np.bincount(arms, shown[:, 1 + j], minlength=size)
        for b in np.flatnonzero(~there.all(axis=0)).tolist():
            lost = np.bincount(arms, np.where(there[:, b], 0, number), minlength=size)
            self.missing[:, b] += lost.astype(np.int64)
        self._forget()

    def _within(self, shown: Array, number: Array, sd: Any, labels: list[str]) -> Array:
        """Sums of squares about the mean of each row of sums."""
        result = np.zeros(shown.shape)
        given = None
        if sd is not None:
            given = _check.numbers("sd", sd, missing=True)
            if given.shape not in (shown.shape, shown.shape[1:], ()):
                raise ValueError(
                    f"sd: expected {shown.shape[1]} numbers, one for the reward and each cost, "
                    f"got shape {given.shape}"
                )
            given = np.broadcast_to(given, shown.shape)
            if np.any(given < 0):
                raise ValueError(f"sd: expected no negative number, got {np.nanmin(given):g}")
        for b, outcome in enumerate(self.problem.outcomes):
            if not (isinstance(outcome, Gaussian) and outcome.learnt):
                continue
            summed = (number > 1) & ~np.isnan(shown[:, b])
            if summed.any() and (given is None or np.isnan(given[summed, b]).any()):
                raise ValueError(
                    f"sd: {labels[b]} has noise that is learnt, so sums need the standard "
                    "deviation of what was summed"
                )
            if summed.any() and given is not None:
                result[summed, b] = np.square(given[summed, b]) * (number[summed] - 1)
        return result

    def _add_squares(
        self, b: int, arms: NDArray[np.int64], sums: Array, number: Array, within: Array
    ) -> None:
        """Add to the squares about each arm's mean those of new rows, and between the means."""
        size = len(self.counts)
        old_count = (self.counts - self.missing[:, b]).astype(float)
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


def check_outcomes(
    problem: Problem, shown: Array, number: Any, names: Sequence[str] = ("arm", "reward", "cost")
) -> list[str]:
    """Refuse what no outcomes add up to; the names of the outcomes."""
    labels = [names[1], *(f"{names[2]} {name}" for name in problem.coords["constraint"])]
    for label, outcome, column in zip(labels, problem.outcomes, shown.T, strict=True):
        outcome.check(label, column, number)
    return labels


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
