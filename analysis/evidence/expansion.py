"""Gaussians fitted to a log-density at its modes within events, and draws from their mixture."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pymc as pm
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.events import Events
from bayes_feasible.models.density import Density, density
from bayes_feasible.models.laplace import Mode, inverse_root
from bayes_feasible.models.modes import event_modes, global_modes
from bayes_feasible.models.reference import LOG_2PI

WIDE = 3.0  # variance of a second Gaussian beside each: it bounds weights that grow outwards
WIDE_SHARE = 0.1  # of the draws
EVEN_SHARE = 0.1  # of the draws, shared out evenly over the events
PRUNE = 40.0  # an event e^-40 as probable as another is left out
UNTIED = 1e-12  # correlation of half-spaces that is none
EVEN = 2.5  # times their mean: weights that are no larger have no tail to speak of
FEWEST = 8  # draws from a Gaussian, so that their spread is known


class Gaussian:
    """A Gaussian with the slope and curvature of a log-density at a mode, cut to an event.

    The half-spaces are taken one after the other. Where the Gaussian does not tie them together,
    draws follow the cut Gaussian itself; otherwise a law near it, whose density is known too. The
    factor `width` on the variance keeps the slope at the mode.
    """

    def __init__(self, mode: Mode, normals: Array, limits: Array, width: float = 1.0) -> None:
        root = np.sqrt(width) * inverse_root(mode.curvature)
        pull = root.T @ mode.slope
        self.centre = mode.at + root @ pull
        self.normals, self.limits = normals, limits
        rows, size = normals.shape
        turn = qr((normals @ root).T)[0] if rows else np.eye(size)
        self.map = root @ turn
        lower = np.tril(normals @ self.map[:, :rows])
        self.map[:, :rows] *= np.sign(np.diag(lower))
        self._back = np.linalg.inv(self.map)
        scales = np.abs(np.diag(lower))
        self._ties = np.tril(normals @ self.map[:, :rows], -1) / scales[:, np.newaxis]
        self._ties[np.abs(self._ties) < UNTIED] = 0.0
        self._bounds = (limits - normals @ self.centre) / scales
        self._log_scale = -0.5 * size * LOG_2PI - float(np.linalg.slogdet(self.map)[1])
        held = float(log_ndtr(-self._bounds).sum())
        self.log_mass = mode.value + 0.5 * float(pull @ pull) - self._log_scale + held

    def draw(self, number: int, rng: np.random.Generator) -> Array:
        """Draws (draw, coordinate)."""
        white = rng.standard_normal((number, len(self.centre)))
        for row in range(len(self.limits)):
            survival = log_ndtr(-self._bound(row, white))
            white[:, row] = -ndtri_exp(survival - rng.standard_exponential(number))
        return self.centre + white @ self.map.T

    def log_density(self, points: Array) -> Array:
        """At points that the event contains."""
        white = (points - self.centre) @ self._back.T
        result = self._log_scale - 0.5 * np.einsum("pi,pi->p", white, white)
        for row in range(len(self.limits)):
            result -= log_ndtr(-self._bound(row, white))
        return result

    def _bound(self, row: int, white: Array) -> Array | float:
        """From where on a white coordinate is, given those before it."""
        ties = self._ties[row, :row]
        if not ties.any():
            return float(self._bounds[row])
        return self._bounds[row] - white[:, :row] @ ties


@dataclass(frozen=True)
class Weighted:
    """Draws from a mixture of Gaussians and their weights for a log-density."""

    log_weights: Array  # (draw,)
    strata: NDArray[np.int64]  # (draw,): which Gaussian each is from
    inside: NDArray[np.bool_]  # (draw, event)
    points: Array  # (draw, coordinate)

    @cached_property
    def weights(self) -> Array:
        """Over the largest."""
        return np.exp(self.log_weights - self.log_weights.max())

    @property
    def weighty(self) -> bool:
        """Whether any draw has a weight."""
        return bool(np.isfinite(self.log_weights).any())

    def log_integral(self, event: int | None = None) -> float:
        """Logarithm of the integral of the density over all the events, or over one."""
        log_weights = self.log_weights
        if event is not None:
            log_weights = log_weights[self.inside[:, event]]
        return float(logsumexp(log_weights) - np.log(len(self.log_weights)))

    def share(self) -> tuple[float, float]:
        """Share of the integral that is in any of the events, and its standard error."""
        weights = self.weights
        hit = self.inside.any(axis=1)
        value = float(weights[hit].sum() / weights.sum())
        error = float(np.sqrt(np.sum((weights * (hit - value)) ** 2)) / weights.sum())
        return value, max(error, float(weights.max() / weights.sum()))

    @cached_property
    def standard_error(self) -> float:
        """Of the logarithm of the integral: draws vary within the Gaussians only."""
        weights = self.weights
        counts = np.bincount(self.strata)
        means = np.bincount(self.strata, weights) / counts
        squares = np.bincount(self.strata, (weights - means[self.strata]) ** 2)
        variance = np.sum(counts * squares / (counts - 1.0))
        return float(np.sqrt(variance) / weights.sum())

    @cached_property
    def efficiency(self) -> float:
        """Effective number of draws over the number of draws."""
        return float(self.weights.sum() ** 2 / np.sum(self.weights**2) / self.weights.size)

    @cached_property
    def khat(self) -> float:
        """Pareto's shape of the largest weights; -inf where these are too even to have a tail."""
        if self.log_weights.max() - self.log_integral() < np.log(EVEN):
            return -np.inf
        return float(array_stats.psislw(-self.log_weights)[1])


class Proposal(NamedTuple):
    """A Gaussian cut to one event, and its share of the draws."""

    event: int
    gaussian: Gaussian
    share: float


def fit(
    density: Density, found: list[list[Mode]], events: Events, *, wide: bool
) -> tuple[list[Proposal], Array]:
    """Gaussians at the modes of each event, and the log-masses of the events by them.

    With `wide`, a wider Gaussian stands beside each.
    """
    normals, limits = density.normals(events), events.limits
    asked = limits > -np.inf
    rows = [(normals[e, asked[e]], limits[e, asked[e]]) for e in range(len(events))]
    narrow = [[Gaussian(mode, *rows[e]) for mode in some] for e, some in enumerate(found)]
    masses = [np.array([one.log_mass for one in some]) for some in narrow]
    log_masses = np.array([logsumexp(some) for some in masses])
    shares = np.exp(log_masses - logsumexp(log_masses))
    shares = (1.0 - EVEN_SHARE) * shares + EVEN_SHARE / len(shares)
    wider = WIDE_SHARE if wide else 0.0
    proposals = []
    for event, some in enumerate(found):
        parts = shares[event] * np.exp(masses[event] - log_masses[event])
        for mode, one, part in zip(some, narrow[event], parts, strict=True):
            proposals.append(Proposal(event, one, (1.0 - wider) * part))
            if wide:
                beside = Gaussian(mode, *rows[event], WIDE)
                proposals.append(Proposal(event, beside, wider * part))
    return proposals, log_masses


def weigh(
    density: Density, events: Events, proposals: list[Proposal], draws: int,
    rng: np.random.Generator, others: Events | None = None,
) -> Weighted:  # fmt: skip
    """Draws from the proposals, weighed for the density over the union of the events.

    A draw's weight is the density over that of the whole mixture, in which each event that
    contains the draw has its part: overlaps count once.
    """
    counts = np.array([max(round(draws * one.share), FEWEST) for one in proposals])
    drawn = [one.gaussian.draw(count, rng) for one, count in zip(proposals, counts, strict=True)]
    points = np.concatenate(drawn)
    inside = events.contains(density.blocks(points))
    total = len(points)
    log_mixture = np.full(total, -np.inf)
    for one, count in zip(proposals, counts, strict=True):
        at = inside[:, one.event]
        log_part = one.gaussian.log_density(points[at]) + np.log(count / total)
        log_mixture[at] = np.logaddexp(log_mixture[at], log_part)
    kept = inside.any(axis=1) & density.within(points)  # the first holds, but for a rounding
    log_weights = np.full(total, -np.inf)
    log_weights[kept] = density.value(points[kept]) - log_mixture[kept]
    if others is not None:
        inside = others.contains(density.blocks(points))
    return Weighted(log_weights, np.repeat(np.arange(len(counts)), counts), inside, points)


def weigh_whole(
    functions: Density, summits: list[Mode], draws: int, rng: np.random.Generator,
    events: Events | None = None,
) -> Weighted:  # fmt: skip
    """Weighted draws of the whole posterior: their integral is the density of the data.

    With `events`, it is these that the draws are inside of.
    """
    everywhere = functions.everywhere()
    proposals, _ = fit(functions, [summits], everywhere, wide=True)
    return weigh(functions, everywhere, proposals, draws, rng, events)


def event_log_masses(model: pm.Model, alternative: Alternative) -> Array:
    """What the expansions alone say of the log-probabilities of the events."""
    functions, events = density(model), alternative.events
    summits = global_modes(functions)
    result = np.full(len(events), -np.inf)
    near = events.take(events.possible)
    found = event_modes(functions, near, summits)
    whole = fit(functions, [summits], functions.everywhere(), wide=False)[1]
    result[events.possible] = fit(functions, found, near, wide=False)[1] - whole
    return result
