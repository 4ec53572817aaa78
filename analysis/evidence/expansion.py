"""Gaussians fitted to a log-density at its mode within an event, and draws from their mixture."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.evidence.density import Density

LOG_2PI = float(np.log(2.0 * np.pi))
STEPS = 100  # of Newton's method; a dozen is usual
HALVINGS = 30
SWEEPS = 60  # over the half-spaces of an event; one is enough where they do not interact
SETTLED = 1e-10  # what a step may still gain, in nats
STARTS = 4  # for the global mode: a log-density need not be concave
START_SPREAD = 3.0  # standard deviations between them
APART = 1e-2  # modes that are less standard deviations apart are one
WIDE = 3.0  # variance of a second Gaussian beside each: it bounds weights that grow outwards
WIDE_SHARE = 0.1  # of the draws
EVEN_SHARE = 0.1  # of the draws, shared out evenly over the events
PRUNE = 40.0  # an event e^-40 as probable as another is left out
UNTIED = 1e-12  # correlation of half-spaces that is none
FEWEST = 8  # draws from a Gaussian, so that their spread is known


class HalfSpaces(NamedTuple):
    """Events: `normals @ x >= limits` in the coordinates of a density.

    A row of zeros with the limit -inf asks nothing.
    """

    normals: Array  # (event, row, coordinate)
    limits: Array  # (event, row)

    @classmethod
    def of(cls, alternative: Alternative, density: Density) -> "HalfSpaces":
        """The events of an alternative set."""
        asked = np.isfinite(alternative.union.limits)
        normals = np.zeros((*asked.shape, density.size))
        for row, block in enumerate(alternative.union.blocks):
            normals[:, row, density.parameters[block]] = alternative.union.vectors[:, row]
        normals[~asked] = 0.0
        return cls(normals, alternative.union.limits)

    @classmethod
    def everywhere(cls, size: int) -> "HalfSpaces":
        """One event that asks nothing."""
        return cls(np.zeros((1, 0, size)), np.zeros((1, 0)))

    @property
    def possible(self) -> NDArray[np.int64]:
        """The events that can happen."""
        return np.flatnonzero(~np.isposinf(self.limits).any(axis=1))

    def take(self, events: Sequence[int] | NDArray[np.int64]) -> "HalfSpaces":
        """Only these events, in this order."""
        return HalfSpaces(self.normals[events], self.limits[events])

    def rows(self, event: int) -> tuple[Array, Array]:
        """What the event asks: normals (row, coordinate) and limits (row,)."""
        asked = self.limits[event] > -np.inf
        return self.normals[event, asked], self.limits[event, asked]

    def contain(self, points: Array) -> NDArray[np.bool_]:
        """Which events contain each point, over (point, event)."""
        columns = [np.ones(len(points), dtype=bool) for _ in self.limits]
        for event, column in enumerate(columns):
            normals, limits = self.rows(event)
            column &= np.all(points @ normals.T >= limits, axis=1)
        return np.column_stack(columns)


@dataclass(frozen=True)
class Mode:
    """A point with the value, slope and curvature of a log-density there."""

    at: Array
    value: float
    slope: Array
    curvature: Array


def global_modes(density: Density) -> list[Mode]:
    """The modes of a log-density that a few starts lead to, highest first."""
    everywhere = HalfSpaces.everywhere(density.size)
    [first] = modes(density, density.start[np.newaxis], everywhere)
    if not np.isfinite(first.value):
        raise ValueError("model: Newton's method finds no point where its log-density is finite")
    spread = START_SPREAD * np.random.default_rng(0).standard_normal((STARTS - 1, density.size))
    starts = first.at + spread @ _inverse_root(first.curvature).T
    alone = everywhere.take([0] * len(starts))
    return _distinct([first, *modes(density, starts, alone)])


def event_modes(density: Density, spaces: HalfSpaces, summits: list[Mode]) -> list[list[Mode]]:
    """The modes within each event that the global modes lead to, highest first."""
    events, tops = len(spaces.limits), len(summits)
    chosen = np.repeat(np.arange(events), tops)
    starts = np.array([summit.at for summit in summits] * events).reshape(-1, density.size)
    inverses = np.array([_inverse(summit.curvature) for summit in summits] * events)
    pairs = spaces.take(chosen)
    found = modes(density, _project(starts, inverses, pairs), pairs)
    return [_distinct(found[e * tops : (e + 1) * tops]) for e in range(events)]


def modes(density: Density, starts: Array, spaces: HalfSpaces) -> list[Mode]:
    """The mode within each event from a start inside it, for all events at once.

    Newton's method: the parabola at a point is maximised within the half-spaces, and the step
    towards there is halved until the log-density has risen by enough.
    """
    at, value = starts.copy(), density.value(starts)
    active = np.arange(len(at))
    for _ in range(STEPS):
        here = at[active]
        slope, curvature = density.bends(here)
        inverse = np.array([_inverse(one) for one in curvature])
        centre = here + np.einsum("eij,ej->ei", inverse, slope)
        step = _project(centre, inverse, spaces.take(active)) - here
        gain = np.einsum("ei,ei->e", slope, step)
        moving = gain > SETTLED
        active, step, gain = active[moving], step[moving], gain[moving]
        active = active[_climb(density, at, value, active, step, gain)]
        if not active.size:
            break
    slope, curvature = density.bends(at)
    return [Mode(*parts) for parts in zip(at, value, slope, curvature, strict=True)]


def _climb(
    density: Density, at: Array, value: Array, active: Array, step: Array, gain: Array
) -> NDArray[np.bool_]:
    """Move along the steps, halved where need be; says which have moved."""
    moved = np.zeros(len(active), dtype=bool)
    length = 1.0
    for _ in range(HALVINGS):
        left = np.flatnonzero(~moved)
        if not left.size:
            break
        there = at[active[left]] + length * step[left]
        reached = density.value(there)
        good = reached >= value[active[left]] + 1e-4 * length * gain[left]
        at[active[left[good]]], value[active[left[good]]] = there[good], reached[good]
        moved[left[good]] = True
        length *= 0.5
    return moved


def _project(points: Array, inverses: Array, spaces: HalfSpaces) -> Array:
    """The nearest point of each event, in the metric whose inverse is given.

    With multipliers `m >= 0` of the half-spaces it is `x + C A' m`; Gauss and Seidel's sweeps find
    them, in one where the half-spaces do not interact.
    """
    normals, limits = spaces
    toward = np.einsum("eij,erj->eri", inverses, normals)
    cross = np.einsum("eri,eqi->erq", toward, normals)
    asked = limits > -np.inf
    lack = np.where(asked, limits, 0.0) - np.einsum("eri,ei->er", normals, points)
    multipliers = np.zeros(limits.shape)
    for _ in range(SWEEPS):
        before = multipliers.copy()
        for row in range(limits.shape[1]):
            size = np.where(asked[:, row], cross[:, row, row], 1.0)
            rest = lack[:, row] - np.einsum("eq,eq->e", cross[:, row], multipliers)
            raised = np.maximum(multipliers[:, row] + rest / size, 0.0)
            multipliers[:, row] = np.where(asked[:, row], raised, 0.0)
        if np.allclose(before, multipliers, rtol=1e-13, atol=0.0):
            break
    return points + np.einsum("er,eri->ei", multipliers, toward)


class Gaussian:
    """A Gaussian with the slope and curvature of a log-density at a mode, cut to an event.

    The half-spaces are taken one after the other. Where the Gaussian does not tie them together,
    draws follow the cut Gaussian itself; otherwise a law near it, whose density is known too.

    Parameters
    ----------
    mode : Mode
    normals, limits : arrays (row, coordinate) and (row,)
        The half-spaces of the event.
    width : float
        Factor on the variance; the slope at the mode is kept.
    """

    def __init__(self, mode: Mode, normals: Array, limits: Array, width: float = 1.0) -> None:
        root = np.sqrt(width) * _inverse_root(mode.curvature)
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

    @cached_property
    def standard_error(self) -> float:
        """Of the logarithm of the integral: draws vary within the Gaussians only."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        counts = np.bincount(self.strata)
        means = np.bincount(self.strata, weights) / counts
        squares = np.bincount(self.strata, (weights - means[self.strata]) ** 2)
        variance = np.sum(counts * squares / (counts - 1.0))
        return float(np.sqrt(variance) / weights.sum())

    @cached_property
    def efficiency(self) -> float:
        """Effective number of draws over the number of draws."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return float(weights.sum() ** 2 / np.sum(weights**2) / len(weights))

    @cached_property
    def khat(self) -> float:
        """Pareto's shape of the largest weights; -inf where the largest are all alike."""
        largest = np.sort(self.log_weights)[-max(len(self.log_weights) // 100, 5) :]
        if largest[-1] - largest[0] < 1e-9:
            return -np.inf
        return float(array_stats.psislw(-self.log_weights)[1])


class Proposal(NamedTuple):
    """A Gaussian cut to one event, and its share of the draws."""

    event: int
    gaussian: Gaussian
    share: float


def fitted(
    found: list[list[Mode]], spaces: HalfSpaces, *, wide: bool
) -> tuple[list[Proposal], Array]:
    """Gaussians at the modes of each event, and the log-masses of the events by them.

    With `wide`, a wider Gaussian stands beside each.
    """
    narrow = [[Gaussian(mode, *spaces.rows(e)) for mode in some] for e, some in enumerate(found)]
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
                beside = Gaussian(mode, *spaces.rows(event), WIDE)
                proposals.append(Proposal(event, beside, wider * part))
    return proposals, log_masses


def weigh(
    density: Density,
    spaces: HalfSpaces,
    proposals: list[Proposal],
    draws: int,
    rng: np.random.Generator,
) -> Weighted:
    """Draws from the proposals, weighed for the density over the union of the events.

    A draw's weight is the density over that of the whole mixture, in which each event that
    contains the draw has its part: overlaps count once.
    """
    counts = np.array([max(round(draws * one.share), FEWEST) for one in proposals])
    drawn = [one.gaussian.draw(count, rng) for one, count in zip(proposals, counts, strict=True)]
    points = np.concatenate(drawn)
    inside = spaces.contain(points)
    total = len(points)
    log_mixture = np.full(total, -np.inf)
    for one, count in zip(proposals, counts, strict=True):
        at = inside[:, one.event]
        log_part = one.gaussian.log_density(points[at]) + np.log(count / total)
        log_mixture[at] = np.logaddexp(log_mixture[at], log_part)
    kept = inside.any(axis=1) & density.within(points)  # the first holds, but for a rounding
    log_weights = np.full(total, -np.inf)
    log_weights[kept] = density.value(points[kept]) - log_mixture[kept]
    return Weighted(log_weights, np.repeat(np.arange(len(counts)), counts), inside)


def _distinct(found: list[Mode]) -> list[Mode]:
    """Modes less those that repeat another, highest first; never none."""
    kept: list[Mode] = []
    for mode in sorted(found, key=lambda mode: -mode.value):
        apart = [(mode.at - other.at) @ other.curvature @ (mode.at - other.at) for other in kept]
        if not apart or (np.isfinite(mode.value) and min(apart) > APART**2):
            kept.append(mode)
    return kept


def _positive(curvature: Array) -> tuple[Array, Array]:
    """Eigenvalues, made positive where the log-density curves upwards, and eigenvectors."""
    values, axes = np.linalg.eigh(curvature)
    size = np.abs(values)
    return np.maximum(size, 1e-14 * size.max(initial=0.0) + np.finfo(float).tiny), axes


def _inverse(curvature: Array) -> Array:
    values, axes = _positive(curvature)
    return (axes / values) @ axes.T


def _inverse_root(curvature: Array) -> Array:
    values, axes = _positive(curvature)
    return axes / np.sqrt(values)
