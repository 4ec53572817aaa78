r"""A union of events under a Gaussian posterior: its probability, and exact draws given it.

Pick an event with probability proportional to its own, draw a point given it, and let :math:`N`
be the number of events that contain the point. Then the union's probability is
:math:`P = \sum_e P_e \cdot E[1/N]`, and a point that is kept with probability :math:`1/N` is an
exact draw given the union (Karp and Luby, Monte-Carlo algorithms for enumeration and reliability
problems, FOCS 1983). Owen, Maximov and Chertkov (Importance sampling the union of rare events,
Electronic Journal of Statistics 2019, arXiv 1710.06965) call the estimator ALOE and bound its
error before any draw is made; see `certificate`.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bayes_feasible._at_once import AtOnce
from bayes_feasible._check import Array
from bayes_feasible._draws import block_means, block_noise, eigen_blocks, unrestricted
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.alternative import bounded, general
from bayes_feasible.alternative.certificate import draws_needed, error_bound
from bayes_feasible.alternative.draws import (
    count_overlaps,
    draw_few,
    draw_union,
    hold,
    to_parameters,
)
from bayes_feasible.alternative.events import Events
from bayes_feasible.alternative.normal import log_orthant
from bayes_feasible.alternative.probability import DRAWS, LogProbability, mean_share
from bayes_feasible.posterior import Posterior, whiten_rows
from bayes_feasible.problem import Problem
from bayes_feasible.span import outside

PAIRS = 2500  # pairs of events whose overlap is integrated exactly
CHUNK = 2**17  # draws between two looks at whether to stop
_draw, _move = AtOnce(draw_union), AtOnce(to_parameters)


class Union:
    """The posterior given that at least one of some events happens.

    The `parameter_radius` of the problem, if any, restricts posterior and union alike.
    """

    def __init__(self, problem: Problem, events: Events) -> None:
        self.problem, self.events = problem, events
        # Thresholds that are not finite never bind: no draw and no sum is spent on their blocks.
        self.blocks = np.concatenate([[0], 1 + np.flatnonzero(np.isfinite(problem.limits))])
        self.vectors = np.ascontiguousarray(events.vectors[:, self.blocks])
        self.limits = np.ascontiguousarray(events.limits[:, self.blocks])
        # Candidates are in the span of the arms; what tells two of them apart need not be, where
        # it is as small as rounding.
        deficient = problem.rank < len(problem.basis)
        self._beyond = deficient and bool(outside(self.vectors, problem.basis).any())

    def event_log_probabilities(self, posterior: Posterior, scale: float = 1.0) -> Array:
        """Log-probability of each event, whatever the `parameter_radius`."""
        if not posterior.textbook:
            _check_scale(scale)
            return general.event_tails(self.events, posterior.blocks)[0]
        return _event_log_probabilities(self._whiten(posterior, scale)[1])

    def log_probability(
        self, posterior: Posterior, rng: np.random.Generator, scale: float = 1.0,
        draws: int = DRAWS, rtol: float | None = None,
    ) -> LogProbability:  # fmt: skip
        """Log-probability of the union; the method is told in `Alternative.log_probability`."""
        if not posterior.textbook:
            _check_scale(scale)
            return general.measure(self.events, posterior.blocks, rng, draws, rtol)
        normals, offsets = self._whiten(posterior, scale)
        every = _event_log_probabilities(offsets)
        if self.problem.parameter_radius is not None:
            if rtol is not None:
                raise ValueError("rtol: with a parameter_radius nothing is known before the draws")
            _, parts = self._within_balls(posterior, scale)
            result = bounded.bounded_log_probability(*parts, rng, draws)
            return LogProbability(*result, self.events.names, every)
        kept = general.kept(every)
        if kept.size == 0:
            nothing = -np.inf, 0.0, -np.inf, -np.inf
            return LogProbability(*nothing, self.events.names, every, bound=0.0)
        if rtol is not None:
            draws = draws_needed(kept.size, rtol)
        result = _measure(normals[kept], offsets[kept], every[kept], rng, draws)
        bound = error_bound(kept.size, draws)
        return LogProbability(*result, self.events.names, every, bound=bound)

    def draw(
        self,
        posterior: Posterior,
        size: int,
        rng: np.random.Generator,
        scale: float = 1.0,
        *,
        few: bool = False,
    ) -> general.Drawn | None:
        """Independent draws, and the event each was drawn from.

        None where the union is empty. A `few` (thousands) are drawn without compiling anything,
        unless the parameters are bounded.
        """
        if not posterior.textbook:
            _check_scale(scale)
            return general.draw(self.events, posterior.blocks, rng, size)
        drawn = (
            self._draw_unbounded(posterior, size, rng, scale, few)
            if self.problem.parameter_radius is None
            else self._draw_bounded(posterior, size, rng, scale)
        )
        if drawn is None:
            return None
        inside, events, basis = drawn
        if len(basis) == basis.shape[1] and self.blocks.size == 1 + self.problem.thresholds.size:
            return general.Drawn(inside, events)
        parameters = unrestricted(posterior, size, rng, scale)
        parameters[:, self.blocks] -= parameters[:, self.blocks] @ basis @ basis.T
        inside += parameters[:, self.blocks]
        hold(inside, events, self.vectors, self.limits)
        parameters[:, self.blocks] = inside
        return general.Drawn(parameters, events)

    def _draw_unbounded(
        self, posterior: Posterior, size: int, rng: np.random.Generator, scale: float, few: bool
    ) -> tuple[Array, NDArray[np.int64], Array] | None:
        """Draws of the blocks that bind, their events, and a basis of what they decide."""
        normals, offsets = self._whiten(posterior, scale)
        every = _event_log_probabilities(offsets)
        kept = general.kept(every)
        if kept.size == 0:
            return None
        cumulative = np.cumsum(np.exp(every[kept] - every[kept].max()))
        root, rest = posterior.covariance_root()
        basis = self.problem.basis
        if self._beyond:
            root, basis = np.hstack([root, rest]), np.eye(len(root))
        centre = block_means(posterior)[self.blocks]
        spread = block_noise(self.problem)[self.blocks] * math.sqrt(scale)
        vectors, limits = self.vectors[kept], self.limits[kept]
        if few:
            points, events = draw_few(rng, normals[kept], offsets[kept], cumulative, size)
            inside = centre + spread[:, np.newaxis] * (points @ root.T)
            hold(inside, events, vectors, limits)
            return inside, kept[events], basis
        points = np.empty((size, *normals.shape[1:]))
        events = np.empty(size, dtype=np.int64)
        inside = np.empty((size, self.blocks.size, len(root)))
        steps = size * normals[0].size * (kept.size + 10)
        for start in range(0, size, CHUNK):  # between them Ctrl-C is heard
            part = slice(start, start + CHUNK)
            with undisturbed():
                _draw(
                    steps, rng, normals[kept], offsets[kept], cumulative, points[part], events[part]
                )
        _move(
            size * root.size * self.blocks.size, points, events, root, centre, spread, vectors,
            limits, inside,
        )  # fmt: skip
        return inside, kept[events], basis

    def _draw_bounded(
        self, posterior: Posterior, size: int, rng: np.random.Generator, scale: float
    ) -> tuple[Array, NDArray[np.int64], Array] | None:
        axes, parts = self._within_balls(posterior, scale)
        drawn = bounded.bounded_draws(*parts, size, rng)
        if drawn is None:
            return None
        points, events = drawn
        inside = np.ascontiguousarray(points @ axes.T)
        hold(inside, events, self.vectors, self.limits)
        return inside, events, np.eye(len(axes))

    def _within_balls(
        self, posterior: Posterior, scale: float
    ) -> tuple[Array, tuple[Array, Array, Array, Array, Array]]:
        """The axes, and what `bounded` asks for in them."""
        axes, centre, precision, radius = eigen_blocks(posterior, scale)
        at = self.blocks
        return axes, (centre[at], precision[at], self.vectors @ axes, self.limits, radius[at])

    def _whiten(self, posterior: Posterior, scale: float) -> tuple[Array, Array]:
        """Unit normals and offsets of all events in whitened coordinates."""
        centre = block_means(posterior)[self.blocks]
        noise = block_noise(self.problem)[self.blocks] * math.sqrt(scale)
        finite = np.isfinite(self.limits)
        vectors = self.vectors[finite]
        white = whiten_rows(posterior, vectors)
        if self._beyond:  # there the prior stands
            rest = posterior.covariance_root()[1]
            new = outside(vectors, self.problem.basis)[:, np.newaxis]
            white = np.hstack([white, np.where(new, vectors @ rest, 0)])
        # In two steps, for the square of a small number may be no number.
        size = np.abs(white).max(axis=-1, keepdims=True, initial=0.0)
        white /= size
        length = np.linalg.norm(white, axis=-1, keepdims=True)
        normals = np.zeros((*finite.shape, white.shape[-1]))
        normals[finite] = white / length
        values = np.einsum("ebf,bf->eb", self.vectors, centre)
        offsets = self.limits.copy()
        with np.errstate(over="ignore"):
            excess = (offsets - values) / noise
            offsets[finite] = excess[finite] / (size * length)[:, 0]
        return normals, offsets


def _check_scale(scale: float) -> None:
    if scale != 1.0:
        raise ValueError(
            f"scale: expected 1 where blocks have covariances of their own, got {scale:g}"
        )


def _event_log_probabilities(offsets: Array) -> Array:
    """Log-probability of each event: its half-spaces are independent."""
    return log_ndtr(-offsets).sum(axis=1)


def _measure(
    normals: Array, offsets: Array, log_probability: Array, rng: np.random.Generator, draws: int
) -> tuple[float, float, float, float]:
    """Log-probability of a union: value, standard error, certain lower and upper bound."""
    events = log_probability.size
    total = float(np.logaddexp.reduce(log_probability))
    if events == 1:
        return total, 0.0, total, total
    lower, upper = float(log_probability.max()), min(total, 0.0)
    twice = None  # E[N - 1], twice the sum over pairs relative to the sum over events
    if events * (events - 1) // 2 <= PAIRS:
        twice = 2.0 * math.exp(_log_pairs(normals, offsets, total) - total)
        order = 1.0 + math.floor(twice)
        dawson_sankoff = 2.0 / (order + 1.0) - twice / (order * (order + 1.0))
        lower = max(lower, total + math.log(dawson_sankoff))
        upper = min(total + math.log1p(-twice / events), 0.0)
        lower = min(lower, upper)  # but for rounding it is
        if events == 2:
            return min(max(total + math.log1p(-0.5 * twice), lower), upper), 0.0, lower, upper
        if upper - lower < 1e-13:
            return 0.5 * (lower + upper), 0.0, lower, upper
        if twice * draws < 1.0:  # so few overlaps that the draws would show none
            value = min(max(total + math.log1p(-0.5 * twice), lower), upper)
            return value, min(twice / 3.0, upper - lower), lower, upper

    def count(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return count_overlaps(rng, normals, offsets, chosen)

    share, error, _ = mean_share(count, log_probability, rng, draws, twice=twice)
    share = max(share, math.exp(lower - total))  # a handful of draws may put it below, even below 0
    value = min(max(total + math.log(share), lower), upper)
    return value, min(error / share, upper - lower), lower, upper


def _log_pairs(normals: Array, offsets: Array, total: float) -> float:
    """Logarithm of the sum, over pairs of events, of the probability that both happen.

    Pairs that cannot change the last digit of the `total` over events are left out.
    """
    first, second = _pairs(len(offsets))
    one, other = offsets[first], offsets[second]
    ceiling = log_ndtr(-np.maximum(one, other)).sum(axis=1)
    matter = np.flatnonzero(ceiling > total - general.PRUNE)
    if matter.size == 0:
        return -np.inf
    correlation = np.einsum("pbi,pbi->pb", normals[first[matter]], normals[second[matter]])
    each = log_orthant(one[matter], other[matter], correlation).sum(axis=1)
    return float(np.logaddexp.reduce(each))


@lru_cache(maxsize=16)
def _pairs(events: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, second = np.triu_indices(events, 1)
    return first, second
