r"""The alternative set within a bounded parameter set.

A block of parameters is Gaussian with independent coordinates (the eigenbasis of the precision)
and must lie in a half-space and in the ball :math:`\|\theta\| \le R`. The half-space alone has a
closed form; the ball is imposed by a multiplier :math:`\lambda \ge 0`. On the ball,

.. math:: \phi(\theta) \le \phi(\theta) \, e^{\frac{\lambda}{2} (R^2 - \|\theta\|^2)},

and the right-hand side is again Gaussian. Its mass within the half-space is convex in
:math:`\lambda` and smallest where the mean of :math:`\|\theta\|^2` under it is :math:`R^2`: the
tightest bound of this form. So a draw from it within the half-space, kept with probability
:math:`e^{-\frac{\lambda}{2} (R^2 - \|\theta\|^2)}` if it is in the ball at all, is an exact draw
from the intersection, and the share that is kept estimates the intersection's probability without
bias, however rare it is.

Arrays have the shapes: centre and precision (block, feature), vectors (event, block, feature),
limits (event, block), radius (block,); event `e` is `vectors[e, b] @ theta[b] >= limits[e, b]`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bayes_feasible._at_once import AtOnce
from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.alternative.draws import draw_union_inside, spread_over_events, weigh_inside
from bayes_feasible.alternative.normal import HALF_LOG_2PI, log_between

MOST_DRAWS = 2**20  # of an estimate
CHUNK = 2**16  # proposals between two looks at whether to stop
HOPELESS = 2**19  # proposals of which none was kept
WORST = 2**12  # proposals for one draw, on average
_weigh, _draw = AtOnce(weigh_inside), AtOnce(draw_union_inside)
SHARES = np.logspace(-6, 0, 61)  # of the way from the mode to the deepest point


class Tilted(NamedTuple):
    """For each event and block: the Gaussian that bounds the intersection."""

    log_mass: Array  # (event,): log of what the kept share is a share of
    multiplier: Array  # (event, block)
    centre: Array  # (event, block, feature)
    spread: Array  # (event, block, feature)
    normal: Array  # (event, block, feature): unit, in coordinates scaled by the spread
    offset: Array  # (event, block): -inf where there is no half-space


def constrained_mode(
    centre: Array, precision: Array, vectors: Array, limits: Array, multiplier: Array
) -> Array:
    """Most probable points of half-spaces under tilted Gaussians."""
    total = precision + multiplier[..., np.newaxis]
    mode = centre * (precision / total)  # the centre itself where there is no tilt
    variance = np.sum(vectors * vectors / total, axis=-1)
    lack = np.maximum(limits - np.sum(vectors * mode, axis=-1), 0.0)
    step = np.where(variance > 0.0, lack / np.where(variance > 0.0, variance, 1.0), 0.0)
    return mode + vectors / total * step[..., np.newaxis]


def ball_multipliers(
    centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array
) -> Array:
    """Multipliers that bring the constrained modes into the ball; -1 where nothing can."""
    length = np.linalg.norm(vectors, axis=-1)
    reach = np.where(length > 0.0, radius, 0.0) * length
    missed = (limits > -np.inf) & (limits >= reach)
    limits = np.where(missed, -np.inf, limits)

    def square(multiplier: Array) -> Array:
        mode = constrained_mode(centre, precision, vectors, limits, multiplier)
        return np.sum(mode * mode, axis=-1)

    found = _raise_until(square, np.zeros(limits.shape), precision, radius)
    found[missed | (found > 1e200)] = -1.0
    return found


def _raise_until(
    square: Callable[[Array], Array], start: Array, precision: Array, radius: Array
) -> Array:
    """Smallest multipliers, from `start` on, with `square(multiplier) <= radius**2`.

    `square` falls. Brackets are narrowed by regula falsi (the Illinois way) on `1/radius -
    1/sqrt(square)`, which is almost a straight line.
    """

    def excess(multiplier: Array) -> Array:
        with np.errstate(divide="ignore"):
            return 1.0 / radius - 1.0 / np.sqrt(square(multiplier))

    at_low = excess(start)
    open_ = at_low > 0.0
    if not open_.any():
        return start
    low, high = start, np.where(open_, np.maximum(8.0 * start, precision.min(axis=-1)), start)
    at_high = excess(high)
    while np.any(outside := open_ & (at_high > 0.0) & (high <= 1e200)):
        low, at_low = np.where(outside, high, low), np.where(outside, at_high, at_low)
        high = np.where(outside, 8.0 * high, high)
        at_high = excess(high)
    side = np.zeros(low.shape)
    for _ in range(100):
        if np.all(~open_ | (high - low <= 1e-14 * high) | (at_high == 0.0)):
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = low + (high - low) * (at_low / (at_low - at_high))
        middle = np.where((middle > low) & (middle < high), middle, 0.5 * (low + high))
        value = excess(middle)
        outside = value > 0.0
        # The end that stays a second time counts half, or it would stay for ever.
        at_high = np.where(outside, np.where(side > 0, 0.5, 1.0) * at_high, value)
        at_low = np.where(outside, value, np.where(side < 0, 0.5, 1.0) * at_low)
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
        side = np.where(outside, 1.0, -1.0)
    return high


def mean_square(
    centre: Array, precision: Array, vectors: Array, limits: Array, multiplier: Array
) -> Array:
    """Mean squared norms under tilted Gaussians within half-spaces."""
    total = precision + multiplier[..., np.newaxis]
    tilted = precision * centre / total
    variance = np.sum(vectors * vectors / total, axis=-1)
    asked = (limits > -np.inf) & (variance > 0.0)
    length = np.where(asked, np.sqrt(variance), np.inf)  # no half-space: no step along a normal
    normal = vectors / (total * length[..., np.newaxis])
    gap = np.where(asked, limits - np.sum(vectors * tilted, axis=-1), 0.0)
    offset = gap / length
    far = np.maximum(offset, 20.0)  # mean excess over the limit, in standard deviations
    with np.errstate(over="ignore"):
        hazard = np.exp(-0.5 * offset * offset - HALF_LOG_2PI - log_ndtr(-offset))
        excess = np.where(offset > 20.0, 1.0 / far - 2.0 / far**3, hazard - offset)
    start = np.maximum(offset, 0.0)  # measured from the limit in the tail, else from the centre
    step = excess + offset - start
    point = tilted + start[..., np.newaxis] * normal
    square = np.sum(point * point + 1.0 / total, axis=-1)
    bend = np.where(offset > 0.0, -offset * excess, offset * (excess + offset))
    along, spread = np.sum(point * normal, axis=-1), np.sum(normal * normal, axis=-1)
    return np.maximum(square + 2.0 * step * along + bend * spread, 0.0)  # but for rounding it is


def tilt(centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array) -> Tilted:
    """The Gaussians of least mass that bound the events within the balls."""
    multiplier = ball_multipliers(centre, precision, vectors, limits, radius)
    missed = multiplier < 0.0
    limits = np.where(missed, -np.inf, limits)
    multiplier = _raise_until(
        lambda each: mean_square(centre, precision, vectors, limits, each),
        np.maximum(multiplier, 0.0), precision, radius,
    )  # fmt: skip
    factor = multiplier[..., np.newaxis]
    total = precision + factor
    spread, tilted = 1.0 / np.sqrt(total), precision * centre / total
    normal = vectors * spread
    length = np.linalg.norm(normal, axis=-1)
    asked = (limits > -np.inf) & (length > 0.0)
    length = np.where(asked, length, np.inf)
    gap = np.where(asked, limits - np.sum(vectors * tilted, axis=-1), 0.0)
    offset = np.where(asked, gap / length, -np.inf)
    mass = log_ndtr(-offset)
    if multiplier.any():
        change = np.log1p(factor / precision) + factor / total * precision * centre**2
        square = np.where(multiplier > 0.0, radius, 0.0) ** 2
        mass += 0.5 * (multiplier * square - np.sum(change, axis=-1))
    log_mass = np.where(missed, -np.inf, mass).sum(axis=-1)
    normal = normal / length[..., np.newaxis]
    return Tilted(log_mass, multiplier, tilted, spread, normal, offset)


def log_probability_floors(
    centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array
) -> Array:
    """Lower bounds, without sampling, on the log-probabilities of half-spaces and balls.

    The better of two: the half-space's probability less that of leaving the largest ellipsoid
    around the centre that fits in the ball; and the probability of a cube inside both sets,
    tried along the line from the most probable point to the deepest one. Over (event, block).
    """
    features = centre.shape[-1]
    length = np.linalg.norm(vectors, axis=-1)
    asked = np.isfinite(limits) & (length > 0)
    safe = np.where(asked, length, 1.0)
    gap = np.where(asked, limits - np.sum(vectors * centre, axis=-1), -np.inf)
    deviation = np.sqrt(np.sum(vectors**2 / precision, axis=-1))
    half_space = log_ndtr(-gap / np.where(asked, deviation, 1.0))
    multiplier = ball_multipliers(centre, precision, vectors, limits, radius)
    met, boundless = multiplier >= 0, np.isinf(radius)
    radius = np.where(boundless, 1.0, radius)  # any: those are answered by the half-space alone
    slack = np.maximum(radius - np.linalg.norm(centre, axis=-1), 0.0)
    with np.errstate(over="ignore"):
        leaving = _log_outside(np.minimum(slack**2 * precision.min(axis=-1), 1e300), features)
    left = np.exp(np.minimum(leaving - half_space, 0.0))
    # Nearer to 1 the difference is rounding, and no bound.
    floor = np.where(left < 1 - 1e-6, half_space + np.log1p(-np.minimum(left, 1 - 1e-6)), -np.inf)
    mode = constrained_mode(
        centre, precision, vectors, np.where(met, limits, -np.inf), np.maximum(multiplier, 0.0)
    )
    unit = np.where(asked, 1.0 / safe, 0.0)[..., np.newaxis] * vectors
    reach = np.where(asked, limits, -np.inf) / safe
    deepest = unit * (0.5 * (np.maximum(reach, -radius) + radius))[..., np.newaxis]
    root = np.sqrt(precision)
    for share in SHARES:
        point = (1 - share) * mode + share * deepest
        room = np.minimum(
            radius - np.linalg.norm(point, axis=-1), np.sum(unit * point, axis=-1) - reach
        )
        half = np.maximum(room, 0.0)[..., np.newaxis] / math.sqrt(features)
        cube = log_between((point - half - centre) * root, (point + half - centre) * root)
        floor = np.maximum(floor, cube.sum(axis=-1))
    return np.where(met, np.where(boundless, half_space, floor), -np.inf)


def _log_outside(square: Array, features: int) -> Array:
    """Chernoff's bound on the log-probability that chi-square variables exceed `square`."""
    ratio = np.maximum(square / features, 1.0)
    return 0.5 * features * (1.0 + np.log(ratio) - ratio)


def tilted_log_probability(
    centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array,
    rng: np.random.Generator, draws: int,
) -> tuple[float, float, float]:  # fmt: skip
    """Log-probability of a union of events within the balls, its standard error, a ceiling.

    Draws are doubled until one per cent is reached, or `MOST_DRAWS` are spent.
    """
    tilted = tilt(centre, precision, vectors, limits, radius)
    possible = np.flatnonzero(tilted.log_mass > -np.inf)
    if possible.size == 0:
        return -np.inf, 0.0, -np.inf
    log_mass = float(np.logaddexp.reduce(tilted.log_mass[possible]))
    if limits.shape[0] == 1 and not tilted.multiplier.any() and np.isinf(radius).all():
        return log_mass, 0.0, log_mass
    weights = np.empty(0)
    while True:
        events = possible[spread_over_events(rng, tilted.log_mass[possible], draws)]
        for start in range(0, events.size, CHUNK):
            part = events[start : start + CHUNK]
            with undisturbed():
                batch = _weigh(
                    part.size * tilted.normal[0].size * (len(limits) + 5),
                    rng, *tilted[1:], vectors, limits, radius, part,
                )  # fmt: skip
            weights = np.concatenate([weights, batch])
            if weights.size >= HOPELESS and not weights.any():
                raise contradiction(centre, radius)
        # One imaginary miss: draws that were all kept do not prove that all would be.
        spread = math.sqrt(float(weights.var()) + 1.0 / weights.size)
        mean = float(weights.mean())
        error = spread / (mean * math.sqrt(weights.size)) if mean > 0 else np.inf
        if error < 0.01 or weights.size >= MOST_DRAWS:
            break
        draws = weights.size
    return log_mass + math.log(mean), error, log_mass


def bounded_log_probability(
    centre: Array, precision: Array, vectors: Array, limits: Array, radius: Array,
    rng: np.random.Generator, draws: int,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Log-probability of a union given the balls: value, standard error, lower, upper bound."""
    everywhere = np.zeros((1, *centre.shape))
    unasked = np.full((1, len(centre)), -np.inf)
    blocks = [
        tilted_log_probability(
            centre[b : b + 1], precision[b : b + 1], everywhere[:, :1], unasked[:, :1],
            radius[b : b + 1], rng, draws,
        )
        for b in range(len(centre))
    ]  # fmt: skip
    inside, errors, ceilings = zip(*blocks, strict=True)
    value, error, mass = tilted_log_probability(
        centre, precision, vectors, limits, radius, rng, draws
    )
    if mass == -np.inf:
        return -np.inf, 0.0, -np.inf, -np.inf
    floors = log_probability_floors(centre, precision, vectors, limits, radius).sum(axis=1)
    floor = log_probability_floors(centre, precision, everywhere, unasked, radius).sum()
    lower = float(floors.max(initial=-np.inf)) - min(sum(ceilings), 0.0)
    upper = min(mass - float(floor), 0.0) if len(floors) else -np.inf
    lower = min(lower, upper)  # but for rounding it is
    value = float(np.clip(value - sum(inside), lower, upper))
    return value, math.hypot(error, *errors), lower, upper


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
    found, tried, most = 0, 0, 4 * size
    while found < size:
        with undisturbed():
            new, tries = _draw(
                most * tilted.normal[0].size * (len(limits) + 5), rng, *tilted[1:], vectors, limits,
                radius, cumulative, most, points[found:], events[found:],
            )  # fmt: skip
        found, tried, most = found + new, tried + tries, CHUNK
        if found < size and tried > HOPELESS + WORST * found:
            raise contradiction(centre, radius)
    return points, events


def contradiction(centre: Array, radius: Array) -> ValueError:
    """The error for pulls that the bounds make absurd."""
    norm = np.linalg.norm(centre, axis=-1)
    worst = int(np.argmax(norm / radius))
    return ValueError(
        f"parameter_radius: {radius[worst]:g} contradicts the pulls, which put a parameter of norm "
        f"{norm[worst]:g} in the middle; check the units, or bound less"
    )
