"""How far draws are from the exact answer, and how well their chains mixed: plain figures.

What any sampler can be asked (R-hat, effective sample size, divergences) is not enough: a chain
that never leaves one region of the alternative set, or a potential too soft to hold it, looks
healthy. Here the truth is known: the closed form gives the probability of the set and of each of
its events, and exact draws give the rest.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy import stats

from bayes_feasible._check import Array
from bayes_feasible._draws import stack_blocks
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.posterior import Posterior

EXACT_DRAWS = 100_000  # that give the figures without a closed form
TAILS = (0.05, 0.95)  # quantiles whose effective sample size is that of the tails
MOST_PAIRS = 500  # of coordinates whose correlation is looked at
STREAM = 0x5CA1E  # keeps the yardstick's draws apart from those of a sampler of the same seed


@dataclass(frozen=True)
class Yardstick:
    """The exact answer for one posterior and one alternative set."""

    alternative: Alternative
    log_probability: float  # of the set
    standard_error: float
    occupancy: Array  # (event,): probability of each given the set
    occupancy_error: Array  # 0 but with bounded parameters: then counted among the exact draws
    draws: Array  # exact ones, sorted, (coordinate, draw)
    centre: Array  # their means
    whitener: Array  # makes them uncorrelated with unit variances

    @classmethod
    def of(cls, posterior: Posterior, alternative: Alternative, seed: int = 0) -> "Yardstick":
        """Measure the set and draw from it."""
        stream = np.random.default_rng([seed, STREAM])
        measured = alternative.log_probability(posterior, seed=stream)
        drawn = alternative.sample(posterior, EXACT_DRAWS, seed=stream)
        occupancy = np.minimum(np.exp(measured.log_probabilities - measured.value), 1.0)
        error = np.zeros(occupancy.size)
        if alternative.problem.parameter_radius is not None:  # the closed form knows no bounds
            occupancy = occupied(alternative, drawn).mean(axis=(1, 2))
            error = np.sqrt(occupancy * (1.0 - occupancy) / EXACT_DRAWS)
        exact = coordinates(drawn)[:, 0]
        variances, axes = np.linalg.eigh(np.cov(exact))
        return cls(
            alternative, measured.value, measured.standard_error, occupancy, error,
            np.sort(exact, axis=-1), exact.mean(axis=1), (axes / np.sqrt(variances)).T,
        )  # fmt: skip

    @classmethod
    def of_draws(
        cls, alternative: Alternative, log_probability: float, standard_error: float,
        parameters: Array, weights: Array, seed: int = 0,
    ) -> "Yardstick":  # fmt: skip
        """From weighted draws (draw, block, feature) of the set, as many as these are worth."""
        share = weights / weights.sum()
        worth = int(1.0 / np.sum(share**2))
        rng = np.random.default_rng([seed, STREAM])
        drawn = parameters[rng.choice(share.size, worth, p=share)]
        inside = alternative.events.contains(parameters)
        occupancy = np.minimum(share @ inside, 1.0)
        error = np.sqrt(occupancy * (1.0 - occupancy) / worth)
        exact = drawn.reshape(worth, -1).T
        variances, axes = np.linalg.eigh(np.cov(exact))
        return cls(
            alternative, log_probability, standard_error, occupancy, error,
            np.sort(exact, axis=-1), exact.mean(axis=1), (axes / np.sqrt(variances)).T,
        )  # fmt: skip


def coordinates(draws: xr.Dataset) -> Array:
    """All parameters of a Dataset of draws as one array (coordinate, chain, draw)."""
    blocks = stack_blocks(draws)
    return np.ascontiguousarray(np.moveaxis(blocks.reshape(*blocks.shape[:2], -1), 2, 0))


def occupied(alternative: Alternative, draws: xr.Dataset) -> NDArray[np.bool_]:
    """Which events contain each draw, over (event, chain, draw)."""
    return np.moveaxis(alternative.events.contains(stack_blocks(draws)), 2, 0)


def convergence(values: Array) -> dict[str, Array]:
    """R-hat, effective sample sizes and standard error of the mean, over the first axis.

    `values` is (coordinate, chain, draw). A coordinate that never moves, in a chain or at all,
    has an infinite R-hat and no effective draws: it is not taken for a constant.
    """
    stuck = np.any(np.ptp(values, axis=2) == 0, axis=1)
    moving = np.where(stuck[:, np.newaxis, np.newaxis], np.arange(values.shape[2]), values)
    spread, ess_mean = values.std(axis=(1, 2), ddof=1), array_stats.ess(moving, method="mean")
    return {
        "rhat": np.where(stuck, np.inf, array_stats.rhat(moving)),
        "ess_bulk": np.where(stuck, 0.0, array_stats.ess(moving, method="bulk")),
        "ess_tail": np.where(stuck, 0.0, array_stats.ess(moving, method="tail", prob=TAILS)),
        "mcse": np.where(stuck, np.inf, spread / np.sqrt(ess_mean)),
    }


def distances(values: Array, exact: Array, effective: Array) -> dict[str, Array]:
    """How far each coordinate's draws (coordinate, chain, draw) are from exact ones, sorted.

    `mean_shift` and `wasserstein` are in exact standard deviations, `kolmogorov` is the largest
    difference of the distribution functions, and `kolmogorov_p` the probability that so many
    independent draws as are `effective` would differ by as much.
    """
    pooled = values.reshape(len(values), -1)
    spread = exact.std(axis=1, ddof=1)
    pairs = list(zip(pooled, exact, strict=True))
    kolmogorov = np.array([_kolmogorov(*pair) for pair in pairs])
    size = 1.0 / (1.0 / np.maximum(effective, 1.0) + 1.0 / exact.shape[1])
    return {
        "mean_shift": (pooled.mean(axis=1) - exact.mean(axis=1)) / spread,
        "wasserstein": np.array([stats.wasserstein_distance(a, b) for a, b in pairs]) / spread,
        "kolmogorov": kolmogorov,
        "kolmogorov_p": stats.kstwobign.sf(np.sqrt(size) * kolmogorov),
    }


def scatter(values: Array, yardstick: Yardstick) -> dict[str, Array]:
    """How far variances and correlations of draws (coordinate, chain, draw) are from exact ones.

    `spread` is each coordinate's variance over the exact one, and `spread_z` the difference of its
    logarithm from 0 in standard errors; `scatter` and `scatter_z` are the same of all together: the
    mean squared distance from the exact means in the metric of the exact covariance, over the
    number of coordinates; `tied_z` is the largest correlation, in standard errors, of coordinates
    that the exact covariance makes uncorrelated.
    """
    off = values - yardstick.centre[:, np.newaxis, np.newaxis]
    white = np.einsum("ij,jcd->icd", yardstick.whitener, off)
    exact = yardstick.draws.var(axis=1)
    first, second = compared_pairs(len(values))
    squares = np.concatenate(
        [
            off**2 / exact[:, np.newaxis, np.newaxis],
            np.mean(white**2, axis=0, keepdims=True),
            white[first] * white[second],
        ]
    )
    moving = np.ptp(squares.reshape(len(squares), -1), axis=1) > 0
    mean, error = squares.mean(axis=(1, 2)), np.full(len(squares), np.inf)
    error[moving] = array_stats.mcse(squares[moving], method="mean")
    error = np.hypot(error, squares.std(axis=(1, 2)) / np.sqrt(yardstick.draws.shape[1]))
    single = len(values) + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of a variance the logarithm is more nearly normal.
        z = np.nan_to_num(np.log(mean[:single]) * mean[:single] / error[:single])
    tied = np.abs(mean[single:] / error[single:])
    return {
        "spread": mean[: len(values)],
        "spread_z": z[:-1],
        "scatter": mean[len(values)],
        "scatter_z": z[-1],
        "tied_z": tied.max(initial=0.0),
    }


def neighbours(values: Array, yardstick: Yardstick, independent: bool) -> dict[str, float]:
    """How much each draw knows of the one before it, where it should know nothing.

    The largest correlation over coordinates that the exact covariance makes uncorrelated, and how
    many standard errors it is from 0; NaN where draws are not said to be `independent`.
    """
    if not independent:
        return {"neighbours": np.nan, "neighbours_z": np.nan}
    off = values - yardstick.centre[:, np.newaxis, np.newaxis]
    white = np.einsum("ij,jcd->icd", yardstick.whitener, off)
    products = white[..., 1:] * white[..., :-1]
    correlation = products.mean(axis=(1, 2)) / np.mean(white**2, axis=(1, 2))
    worst = float(correlation[np.argmax(np.abs(correlation))])
    return {"neighbours": worst, "neighbours_z": worst * float(np.sqrt(products[0].size))}


def compared_pairs(coordinates: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of coordinates whose correlation is looked at: all, or a random choice."""
    first, second = np.triu_indices(coordinates, 1)
    if first.size > MOST_PAIRS:
        some = np.random.default_rng(0).choice(first.size, MOST_PAIRS, replace=False)
        first, second = first[some], second[some]
    return first, second


def _kolmogorov(draws: Array, exact: Array) -> float:
    """Largest difference between two empirical distribution functions; `exact` is sorted."""
    own = np.sort(draws)
    at = np.concatenate([own, exact])
    ours = np.searchsorted(own, at, side="right") / own.size
    theirs = np.searchsorted(exact, at, side="right") / exact.size
    return float(np.max(np.abs(ours - theirs)))


def occupancies(
    inside: NDArray[np.bool_], expected: Array, effective: float, expected_error: Any = 0.0
) -> dict[str, Array]:
    """How often draws are in each event (event, chain, draw), beside how often they should be.

    `effective` is the number of effective draws for an event whose own cannot be told, and
    `expected_error` the standard error of probabilities that are not in closed form. Of the
    results `occupancy_z` is the difference from the expected one in standard errors, `missed` the
    share of the event's probability that the chains, each by itself, lack, and `missed_worst` what
    the worst chain lacks.
    """
    share = inside.mean(axis=2)  # (event, chain)
    varies = np.ptp(inside.reshape(len(inside), -1).astype(np.int8), axis=1) > 0
    size = np.full(len(inside), max(effective, 1.0))
    if varies.any():
        own = array_stats.ess(inside[varies].astype(float), method="mean")
        size[varies] = np.where(np.isfinite(own), own, size[varies])
    # Where next to no draw, or next to every one, belongs to an event, one effective draw that does
    # not do so is one standard error.
    variance = np.maximum(expected * (1.0 - expected), 1.0 / size) / size
    error = np.hypot(np.sqrt(variance), expected_error)
    with np.errstate(divide="ignore", invalid="ignore"):
        lack = np.where(
            expected[:, np.newaxis] > 0, np.maximum(1.0 - share / expected[:, np.newaxis], 0), 0.0
        )
    return {
        "occupancy": share.mean(axis=1),
        "occupancy_z": (share.mean(axis=1) - expected) / error,
        "missed": lack.mean(axis=1),
        "missed_worst": lack.max(axis=1),
    }
