r"""The alternative set within a bounded parameter set, compiled.

A block of parameters is Gaussian with independent coordinates (the eigenbasis of the precision)
and must lie in a half-space and in the ball :math:`\|\theta\| \le R`. The half-space alone has a
closed form; the ball is imposed by a multiplier :math:`\lambda \ge 0`. On the ball,

.. math:: \phi(\theta) \le \phi(\theta) \, e^{\frac{\lambda}{2} (R^2 - \|\theta\|^2)},

and the right-hand side is again Gaussian. Its mass within the half-space is convex in
:math:`\lambda` and least where the mean of :math:`\|\theta\|^2` under it is :math:`R^2`: the
best stand-in of this form, in many dimensions too. So a draw from it, within
the half-space, kept with probability :math:`e^{-\frac{\lambda}{2} (R^2 - \|\theta\|^2)}` if it is
in the ball at all, is an exact draw from the intersection, and the share that is kept measures
the intersection's probability without bias, however rare it is.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import log_ndtr as scipy_log_ndtr

from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.alternative.normal import HALF_LOG_2PI, log_ndtr, tail_excess
from bayes_feasible.span import smallest

MOST_DRAWS = 2**22


class Tilted(NamedTuple):
    """For each event (or row) and block: the Gaussian that stands in for the intersection."""

    log_mass: Array  # (event,): log of what its kept share is a share of
    multiplier: Array  # (event, block)
    centre: Array  # (event, block, feature)
    spread: Array  # (event, block, feature)
    normal: Array  # (event, block, feature): unit, in coordinates scaled by the spread
    offset: Array  # (event, block): -inf where there is no half-space


@njit(cache=True, error_model="numpy")
def constrained_mode(centre, precision, vector, limit, multiplier, mode):
    """Most probable point of a half-space under a tilted Gaussian, and its squared norm."""
    value, variance = 0.0, 0.0
    for i in range(centre.size):
        total = precision[i] + multiplier
        mode[i] = centre[i] * (precision[i] / total)  # the centre itself where there is no tilt
        value += vector[i] * mode[i]
        variance += vector[i] * vector[i] / total
    if limit > value and variance > 0.0:
        for i in range(centre.size):
            mode[i] += vector[i] / (precision[i] + multiplier) * (limit - value) / variance
    square = 0.0
    for i in range(centre.size):
        square += mode[i] * mode[i]
    return square


@njit(cache=True, error_model="numpy")
def ball_multiplier(centre, precision, vector, limit, radius, mode):
    """The multiplier that brings the constrained mode into the ball; -1 if nothing can."""
    length = 0.0
    for i in range(vector.size):
        length += vector[i] * vector[i]
    if limit == np.inf or (limit > -np.inf and limit >= radius * math.sqrt(length)):
        return -1.0  # the half-space (or the condition 0 >= limit) misses the ball
    if constrained_mode(centre, precision, vector, limit, 0.0, mode) <= radius * radius:
        return 0.0
    low, high = 0.0, smallest(precision)  # from below, to resolve the multiplier itself
    while constrained_mode(centre, precision, vector, limit, high, mode) > radius * radius:
        low, high = high, 8.0 * high
        if high > 1e200:
            return -1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if constrained_mode(centre, precision, vector, limit, middle, mode) > radius * radius:
            low = middle
        else:
            high = middle
    constrained_mode(centre, precision, vector, limit, high, mode)
    return high


@njit(cache=True, error_model="numpy")
def mean_square(centre, precision, vector, limit, multiplier):
    """Mean squared norm under a tilted Gaussian within a half-space."""
    value, variance, square = 0.0, 0.0, 0.0
    for i in range(centre.size):
        total = precision[i] + multiplier
        tilted = precision[i] * centre[i] / total
        square += tilted * tilted + 1.0 / total
        value += vector[i] * tilted
        variance += vector[i] * vector[i] / total
    if limit == -np.inf or variance == 0.0:
        return square
    length = math.sqrt(variance)
    offset = (limit - value) / length
    if offset > 20.0:  # mean excess over the limit, in standard deviations
        excess = 1.0 / offset - 2.0 / offset**3
    else:
        excess = math.exp(-0.5 * offset * offset - HALF_LOG_2PI - log_ndtr(-offset)) - offset
    start = max(offset, 0.0)  # measured from the limit in the tail, else from the centre
    step = excess + offset - start
    square = 0.0
    along, spread = 0.0, 0.0
    for i in range(centre.size):
        total = precision[i] + multiplier
        normal = vector[i] / (total * length)
        point = precision[i] * centre[i] / total + start * normal
        square += point * point + 1.0 / total
        along += point * normal
        spread += normal * normal
    bend = -offset * excess if offset > 0.0 else offset * (excess + offset)
    return square + 2.0 * step * along + bend * spread


@njit(cache=True, error_model="numpy")
def tilt_multiplier(centre, precision, vector, limit, radius, mode):
    """The multiplier of the stand-in of least mass; -1 if half-space and ball do not meet."""
    factor = ball_multiplier(centre, precision, vector, limit, radius, mode)
    if factor < 0.0 or mean_square(centre, precision, vector, limit, factor) <= radius * radius:
        return factor
    low, high = factor, max(8.0 * factor, smallest(precision))
    while high < 1e200 and mean_square(centre, precision, vector, limit, high) > radius * radius:
        low, high = high, 8.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if mean_square(centre, precision, vector, limit, middle) > radius * radius:
            low = middle
        else:
            high = middle
    return high


@njit(cache=True, error_model="numpy")
def _tilt(centre, precision, vectors, limits, radius):
    events, blocks, features = vectors.shape
    log_mass = np.zeros(events)
    multiplier = np.zeros((events, blocks))
    tilted = np.zeros((events, blocks, features))
    spread = np.ones((events, blocks, features))
    normal = np.zeros((events, blocks, features))
    offset = np.full((events, blocks), -np.inf)
    mode = np.empty(features)
    for e in range(events):
        for b in range(blocks):
            factor = tilt_multiplier(
                centre[b], precision[b], vectors[e, b], limits[e, b], radius[b], mode
            )
            if factor < 0.0:
                log_mass[e] = -np.inf
                break
            multiplier[e, b] = factor
            value, variance, tilt = 0.0, 0.0, 0.0
            for i in range(features):
                total = precision[b, i] + factor
                spread[e, b, i] = 1.0 / math.sqrt(total)
                tilted[e, b, i] = precision[b, i] * centre[b, i] / total
                normal[e, b, i] = vectors[e, b, i] * spread[e, b, i]
                value += vectors[e, b, i] * tilted[e, b, i]
                variance += normal[e, b, i] ** 2
                ratio = factor / total
                tilt -= 0.5 * (
                    math.log1p(factor / precision[b, i])
                    + ratio * precision[b, i] * centre[b, i] ** 2
                )
            if factor > 0.0:
                log_mass[e] += tilt + 0.5 * factor * radius[b] ** 2
            if limits[e, b] > -np.inf and variance > 0.0:
                length = math.sqrt(variance)
                offset[e, b] = (limits[e, b] - value) / length
                for i in range(features):
                    normal[e, b, i] /= length
                log_mass[e] += log_ndtr(-offset[e, b])
    return log_mass, multiplier, tilted, spread, normal, offset


def tilt(centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array) -> Tilted:
    """Stand-ins for events `vectors[e, b] @ theta[b] >= limits[e, b]` within the balls."""
    return Tilted(*_tilt(centre, precision, vectors, limits, radius))


@njit(cache=True, error_model="numpy")
def draw_inside(rng, multiplier, centre, spread, normal, offset, radius, point):
    """One proposal for every block; the log-probability of keeping it, -inf if outside."""
    keep = 0.0
    for b in range(len(offset)):
        draw = point[b]
        along = 0.0
        for i in range(draw.size):
            draw[i] = rng.standard_normal()
            along += draw[i] * normal[b, i]
        move = 0.0
        if offset[b] > -np.inf:
            move = offset[b] + tail_excess(rng, offset[b]) - along
        square = 0.0
        for i in range(draw.size):
            draw[i] = centre[b, i] + spread[b, i] * (draw[i] + move * normal[b, i])
            square += draw[i] * draw[i]
        if square > radius[b] * radius[b]:
            return -np.inf
        if multiplier[b] > 0.0:
            keep -= 0.5 * multiplier[b] * (radius[b] * radius[b] - square)
    return keep


@njit(cache=True, error_model="numpy")
def count_containing(vectors, limits, point, drawn):
    """How many events contain `point`; the one it was drawn from counts without asking."""
    count = 1
    for e in range(len(limits)):
        if e == drawn:
            continue
        inside = True
        for b in range(limits.shape[1]):
            if limits[e, b] > -np.inf:
                value = 0.0
                for i in range(point.shape[1]):
                    value += vectors[e, b, i] * point[b, i]
                if value < limits[e, b]:
                    inside = False
                    break
        count += inside
    return count


@njit(cache=True, error_model="numpy")
def weigh(rng, multiplier, centre, spread, normal, offset, vectors, limits, radius, events):
    """For a proposal from each listed event: its chance of being kept, over the event count."""
    weights = np.zeros(events.size)
    point = np.empty(centre.shape[1:])
    for draw in range(events.size):
        e = events[draw]
        keep = draw_inside(
            rng, multiplier[e], centre[e], spread[e], normal[e], offset[e], radius, point
        )
        if keep > -np.inf:
            weights[draw] = math.exp(keep) / count_containing(vectors, limits, point, e)
    return weights


@njit(cache=True, error_model="numpy")
def draw_union_inside(
    rng, multiplier, centre, spread, normal, offset, vectors, limits, radius,
    cumulative, most, points, events,
):  # fmt: skip
    """Exact draws given the union within the balls; False if one took more than `most` tries."""
    for draw in range(len(points)):
        tries = 0
        while True:
            tries += 1
            if tries > most:
                return False
            e = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
            keep = draw_inside(
                rng, multiplier[e], centre[e], spread[e], normal[e], offset[e], radius,
                points[draw],
            )  # fmt: skip
            if keep == -np.inf or -rng.standard_exponential() > keep:
                continue
            count = count_containing(vectors, limits, points[draw], e)
            if count == 1 or rng.random() * count < 1.0:
                events[draw] = e
                break
    return True


def log_probability_floor(
    centre: Array, precision: Array, vector: Array, limit: float, radius: float
) -> float:
    """A lower bound, without sampling, on the log-probability of half-space and ball.

    The better of two: the half-space's probability less that of leaving the largest ellipsoid
    around the centre that fits in the ball; and the probability of a cube inside both sets,
    tried along the line from the most probable point to the deepest one.
    """
    if limit == np.inf:
        return -np.inf
    features = centre.size
    length = float(np.linalg.norm(vector))
    bounded = limit > -np.inf and length > 0
    half_space = 0.0
    if bounded:
        gap = limit - vector @ centre
        half_space = float(scipy_log_ndtr(-gap / np.sqrt(np.sum(vector**2 / precision))))
    if np.isinf(radius):
        return half_space
    floor = -np.inf
    slack = radius - np.linalg.norm(centre)
    if slack > 0:
        with np.errstate(over="ignore"):
            leaving = _log_outside(float(slack**2 * precision.min()), features)
        left = math.exp(min(leaving - half_space, 0.0))
        if left < 1.0 - 1e-6:  # nearer to 1 the difference is rounding, and no bound
            floor = half_space + math.log1p(-left)
    mode = np.empty(features)
    if ball_multiplier(centre, precision, vector, limit, radius, mode) < 0:
        return -np.inf
    reach = max(limit / length, -radius) if bounded else -radius
    deepest = vector / length * (reach + radius) / 2 if bounded else np.zeros(features)
    for share in np.logspace(-6, 0, 61):
        point = (1 - share) * mode + share * deepest
        room = radius - float(np.linalg.norm(point))
        if bounded:
            room = min(room, float(vector @ point - limit) / length)
        if room > 0:
            low = (point - room / np.sqrt(features) - centre) * np.sqrt(precision)
            high = (point + room / np.sqrt(features) - centre) * np.sqrt(precision)
            floor = max(floor, float(np.sum(_log_interval(low, high))))
    return floor


def _log_outside(square: float, features: int) -> float:
    """Chernoff's bound on the log-probability that a chi-square variable exceeds `square`."""
    if square <= features:
        return 0.0
    if square == np.inf:
        return -np.inf
    return 0.5 * features * (1.0 + math.log(square / features)) - 0.5 * square


def _log_interval(low: Array, high: Array) -> Array:
    """Log-probability that a standard normal lies between `low` and `high`, element by element."""
    flip = low > 0  # work in the lower tail, where the logarithms have their digits
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upper, lower = scipy_log_ndtr(high), scipy_log_ndtr(low)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = upper + np.log1p(-np.exp(np.minimum(lower - upper, 0.0)))
    return np.where(upper > -np.inf, inside, -np.inf)


def tilted_log_probability(
    centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array,
    rng: np.random.Generator, draws: int,
) -> tuple[float, float]:  # fmt: skip
    """Log-probability of a union of events within the balls, and its standard error.

    Draws are doubled until one per cent is reached, or `MOST_DRAWS` are spent.
    """
    tilted = tilt(centre, precision, vectors, limits, radius)
    possible = np.flatnonzero(tilted.log_mass > -np.inf)
    if possible.size == 0:
        return -np.inf, 0.0
    log_mass = float(np.logaddexp.reduce(tilted.log_mass[possible]))
    share = np.cumsum(np.exp(tilted.log_mass[possible] - log_mass))
    if limits.shape[0] == 1 and not tilted.multiplier.any() and np.isinf(radius).all():
        return log_mass, 0.0
    weights = np.empty(0)
    while True:
        at = (np.arange(draws) + rng.random()) / draws * share[-1]
        events = possible[np.searchsorted(share, at, side="right").clip(max=possible.size - 1)]
        with undisturbed():
            batch = weigh(rng, *tilted[1:], vectors, limits, radius, events)
        weights = np.concatenate([weights, batch])
        # One imaginary miss: draws that were all kept do not prove that all would be.
        spread = math.sqrt(float(weights.var()) + 1.0 / weights.size)
        mean = float(weights.mean())
        error = spread / (mean * math.sqrt(weights.size)) if mean > 0 else np.inf
        if error < 0.01 or weights.size >= MOST_DRAWS:
            break
        draws = weights.size
    if mean == 0.0:
        raise RuntimeError(
            f"parameter_radius: none of {weights.size} proposals fell within the bounded "
            "parameter set, so its probability cannot be told"
        )
    return log_mass + math.log(mean), error


def bounded_log_probability(
    centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array,
    rng: np.random.Generator, draws: int,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Log-probability of a union given the balls: value, standard error, lower, upper bound."""
    everywhere = np.zeros((1, *centre.shape))
    unasked = np.full((1, len(centre)), -np.inf)
    inside, inside_error = 0.0, 0.0
    inside_floor = 0.0
    for b in range(len(centre)):
        block = slice(b, b + 1)
        value, error = tilted_log_probability(
            centre[block], precision[block], everywhere[:, block], unasked[:, block],
            radius[block], rng, draws,
        )  # fmt: skip
        inside, inside_error = inside + value, math.hypot(inside_error, error)
        inside_floor += log_probability_floor(
            centre[b], precision[b], everywhere[0, b], -np.inf, float(radius[b])
        )
    value, error = tilted_log_probability(centre, precision, vectors, limits, radius, rng, draws)
    floors = [
        sum(
            log_probability_floor(
                centre[b], precision[b], vector[b], float(limit[b]), float(radius[b])
            )
            for b in range(len(centre))
        )
        for vector, limit in zip(vectors, limits, strict=True)
    ]
    ceiling = float(tilt(centre, precision, everywhere, unasked, radius).log_mass[0])
    masses = tilt(centre, precision, vectors, limits, radius).log_mass
    lower = max(floors, default=-np.inf) - min(ceiling, 0.0)
    upper = min(float(np.logaddexp.reduce(masses)) - inside_floor, 0.0) if masses.size else -np.inf
    value = float(np.clip(value - inside, lower, upper))
    return value, math.hypot(error, inside_error), lower, upper


def bounded_draws(
    centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array,
    size: int, rng: np.random.Generator,
) -> tuple[Array, NDArray[np.int64]] | None:  # fmt: skip
    """Exact draws given a union within the balls, and their events; None if it is empty."""
    tilted = tilt(centre, precision, vectors, limits, radius)
    top = tilted.log_mass.max(initial=-np.inf)
    if top == -np.inf:
        return None
    points = np.empty((size, *centre.shape))
    events = np.empty(size, dtype=np.int64)
    cumulative = np.cumsum(np.exp(tilted.log_mass - top))
    with undisturbed():
        found = draw_union_inside(
            rng, *tilted[1:], vectors, limits, radius, cumulative, MOST_DRAWS, points, events
        )
    if not found:
        raise RuntimeError(
            f"parameter_radius: no draw within the bounded parameter set in {MOST_DRAWS} tries"
        )
    return points, events
