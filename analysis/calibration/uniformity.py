"""Bands of known probability: for ranks that are uniform, and for sums of coins."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bayes_feasible._check import Array

POINTS = 20  # ranks at which the distribution functions are compared
BISECTIONS = 40


@dataclass(frozen=True)
class Band:
    """Where the counts of ranks may lie."""

    ranks: NDArray[np.int64]  # at each of these, how many ranks are at most it is looked at
    expected: Array  # the probability that a rank is at most it
    lower: NDArray[np.int64]  # bounds on the counts
    upper: NDArray[np.int64]
    probability: float  # that uniform ranks stay within the bounds everywhere at once


@lru_cache(maxsize=64)
def band(replications: int, draws: int, false_alarm: float) -> Band:
    """The narrowest band of its kind that uniform ranks leave with at most this probability.

    The pointwise bounds are binomial quantiles of one level (Säilynoja, Bürkner and Vehtari,
    Statistics and Computing 2022); the probability of staying between them is exact: the count
    at one point given that at the point before is binomial again. There are so many `replications`
    of a rank out of 0, ..., `draws`.
    """
    ranks = np.unique(np.linspace(0, draws, POINTS + 1).astype(np.int64)[:-1])
    expected = (ranks + 1) / (draws + 1)
    low, high = 0.0, 1.0  # of the pointwise level
    for _ in range(BISECTIONS):
        level = 0.5 * (low + high)
        if _staying(replications, expected, *_bounds(replications, expected, level)) < (
            1.0 - false_alarm
        ):
            high = level
        else:
            low = level
    lower, upper = _bounds(replications, expected, low)
    return Band(ranks, expected, lower, upper, _staying(replications, expected, lower, upper))


def _bounds(
    number: int, expected: Array, level: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts between which a binomial is with probability `1 - level` at least."""
    lower = stats.binom.ppf(0.5 * level, number, expected)
    upper = stats.binom.isf(0.5 * level, number, expected)
    return lower.clip(0).astype(np.int64), upper.clip(None, number).astype(np.int64)


def _staying(
    number: int, expected: Array, lower: NDArray[np.int64], upper: NDArray[np.int64]
) -> float:
    """Probability that the counts of uniform ranks stay within the bounds at every point."""
    counts, chance, before = np.zeros(1, dtype=np.int64), np.ones(1), 0.0
    for at, low, high in zip(expected, lower, upper, strict=True):
        more = np.arange(low, high + 1)
        step = (at - before) / (1.0 - before)
        move = stats.binom.pmf(more - counts[:, np.newaxis], (number - counts)[:, np.newaxis], step)
        counts, chance, before = more, chance @ move, at
    return float(chance.sum())


def counts_at(ranks: Array, points: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many ranks are at most each point, over (quantity, point), of ranks (rank, quantity)."""
    return np.sum(ranks.T[:, :, np.newaxis] <= points, axis=1)


def shape(counts: NDArray[np.int64], limits: Band) -> str:
    """What a distribution of ranks outside the band says about the draws, in plain words.

    Whether there are too many low ranks is read off the lower half of the distribution function,
    whether there are too few high ones off the upper half; where both halves deviate, and in
    opposite directions, it is the spread of the draws that is wrong.
    """
    if np.all((counts >= limits.lower) & (counts <= limits.upper)):
        return "uniform"
    middle = 0.5 * (limits.lower + limits.upper)
    excess = (counts - middle) / np.maximum(limits.upper - middle, 1.0)
    low, high = (
        float(excess[half].mean()) for half in (limits.expected < 0.5, limits.expected > 0.5)
    )
    if low * high < 0 and min(abs(low), abs(high)) > 0.25 * max(abs(low), abs(high)):
        if low > 0:
            return "too many ranks at both ends: the draws are too narrow"
        return "too many ranks in the middle: the draws are too wide"
    if low + high > 0:
        return "too many low ranks: the draws are too large"
    return "too many high ranks: the draws are too small"


def coin_interval(probabilities: Array, level: float) -> tuple[int, int]:
    """Between which numbers the heads of independent coins are, but for `level` on either side.

    Their distribution is found from its Fourier transform, the product of the coins'.
    """
    size = len(probabilities) + 1
    circle = np.exp(-2j * np.pi * np.arange(size) / size)
    transform = np.ones(size, dtype=complex)
    for probability in probabilities:
        transform *= 1.0 - probability + probability * circle
    chance = np.maximum(np.fft.ifft(transform).real, 0.0)
    lower = int(np.searchsorted(np.cumsum(chance), level, side="right"))
    upper = size - 1 - int(np.searchsorted(np.cumsum(chance[::-1]), level, side="right"))
    return lower, upper
