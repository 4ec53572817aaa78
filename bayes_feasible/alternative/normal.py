"""Normal tails: right from the centre to ten thousand standard deviations out.

What rules call in their rounds is compiled; the rest takes arrays.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy import special

from bayes_feasible._check import Array

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
SQRT_HALF = math.sqrt(0.5)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
NODES = 1.0 + NODES[:, np.newaxis]  # from the left end of a panel, in halves of it
PARTS = np.array([[0.0], [0.125], [0.5], [1.0]])  # of the range of the integral, where it is cut
STEPS = np.array([[-8.0], [-3.0], [0.0], [3.0], [8.0]])  # of the inner factor, where it is cut too
NEGLIGIBLE = 45.0  # e^-45 of a density is beyond the last digit of its integral


@njit(cache=True, error_model="numpy")
def log_ndtr(x: float) -> float:
    """Logarithm of the standard normal distribution function.

    Far out it is the asymptotic series of Mills' ratio,
    `-x²/2 - log(-x√(2π)) + log(1 - 1/x² + 3/x⁴ - ...)`, of which ten terms leave nothing that
    the result could show.
    """
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x * SQRT_HALF))
    if x > -14.0:
        return math.log(0.5 * math.erfc(-x * SQRT_HALF))
    if x == -np.inf:
        return -np.inf
    step = -1.0 / (x * x)
    series = 1.0 + 19.0 * step
    for odd in range(17, 0, -2):
        series = 1.0 + odd * step * series
    return -0.5 * x * x - HALF_LOG_2PI + math.log(series / -x)


@njit(cache=True, error_model="numpy")
def tail_excess(rng: np.random.Generator, bound: float) -> float:
    """How far a standard normal draw that is known to exceed `bound` exceeds it.

    Rejection from the normal itself near the centre and from an exponential in the tail
    (C. P. Robert, Simulation of truncated normal variables, Statistics and Computing 1995).
    The excess, not the draw, is returned: far out the excess is what has digits to lose.
    """
    if bound < 0.25:
        while True:
            draw = rng.standard_normal()
            if draw >= bound:
                return draw - bound
    shift = 2.0 / (bound + math.sqrt(bound * bound + 4.0))
    rate = bound + shift
    while True:
        excess = rng.standard_exponential() / rate
        miss = excess - shift
        if rng.standard_exponential() >= 0.5 * miss * miss:
            return excess


def draw_excess(rng: np.random.Generator, bound: Array) -> Array:
    """`tail_excess` for each of many bounds at once, by inversion."""
    near = bound < 5.0  # beyond, the tail itself has no digits left to invert
    result = np.empty(bound.shape)
    share = np.clip(rng.random(bound.size), 2.0**-54, 1.0 - 2.0**-53)
    result[near] = -special.ndtri(share[near] * special.ndtr(-bound[near])) - bound[near]
    far = bound[~near]
    result[~near] = -special.ndtri_exp(special.log_ndtr(-far) + np.log(share[~near])) - far
    return np.maximum(result, 0.0)


def log_between(low: Array, high: Array) -> Array:
    """Log-probability that a standard normal lies between two bounds; -inf where they cross."""
    flip = low > 0.0  # the tails have their digits, their complements do not
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    lower, upper = special.log_ndtr(low), special.log_ndtr(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = upper + np.log1p(-np.exp(np.minimum(lower - upper, 0.0)))
    return np.where((high > low) & (upper > -np.inf), inside, -np.inf)


def log_orthant(first: ArrayLike, second: ArrayLike, correlation: ArrayLike) -> Array:
    """Log-probability that two standard normals with this correlation exceed two bounds.

    With `x` the one whose bound `h` is the larger and `k` the other bound,
    `P = ∫_h^∞ φ(x) Φ((ρx - k) / √(1-ρ²)) dx`: a log-concave integrand on a range that is known,
    cut where it bends, and integrated panel by panel with Gauss-Legendre nodes. For arrays of
    one shape, element by element.
    """
    h, k = np.asarray(np.maximum(first, second)), np.asarray(np.minimum(first, second))
    rho = np.asarray(correlation)
    result = np.asarray(special.log_ndtr(-h))  # also where the other bound asks nothing or the same
    open_ = (k > -np.inf) & (h < np.inf) & (rho <= 1.0 - 1e-14)
    opposite = open_ & (rho < -1.0 + 1e-14)
    if opposite.any():
        result[opposite] = log_between(h[opposite], -k[opposite])
        open_ &= ~opposite
    if open_.any():
        result[open_] = _integrate_orthant(h[open_], k[open_], rho[open_])
    return result


def _integrate_orthant(h: Array, k: Array, rho: Array) -> Array:
    residual = np.sqrt((1.0 - rho) * (1.0 + rho))
    start = np.maximum(h, -math.sqrt(2 * NEGLIGIBLE))
    length = 2 * NEGLIGIBLE / (start + np.sqrt(start * start + 2 * NEGLIGIBLE))
    inner, slope = (rho * start - k) / residual, rho / residual
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        hazard = np.exp(-0.5 * inner * inner - HALF_LOG_2PI - special.log_ndtr(inner))
        decline = start - slope * hazard  # log-concave: it falls at least this steeply everywhere
        length = np.fmin(length, NEGLIGIBLE / np.maximum(decline, 1e-300))
        # Panels are finer near the start and around the step of the inner factor.
        steps = (k + STEPS * residual) / rho - start
        cuts = np.concatenate([length * PARTS, np.fmax(np.minimum(steps, length), 0.0)])
        cuts.sort(axis=0)
        half = 0.5 * (cuts[1:] - cuts[:-1])
        panel, row = np.nonzero(half > 0.0)
        half = half[panel, row]
        s = cuts[panel, row] + half * NODES
        values = special.log_ndtr(inner[row] + slope[row] * s) - s * (start[row] + 0.5 * s)
        top = np.full(h.size, -np.inf)  # so it stays where the fall is too steep for any panel
        np.maximum.at(top, row, values.max(axis=0))
        panels = WEIGHTS @ np.exp(values - top[row]) * half
        total = np.log(np.bincount(row, panels, minlength=h.size))
    return -0.5 * start * start - HALF_LOG_2PI + top + total
