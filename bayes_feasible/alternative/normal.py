"""Normal tails, compiled: right from the centre to ten thousand standard deviations out."""

import math

import numpy as np
from numba import njit

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
SQRT_HALF = math.sqrt(0.5)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
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


@njit(cache=True, error_model="numpy")
def log_orthant(first: float, second: float, correlation: float) -> float:
    """Log-probability that two standard normals with this correlation exceed two bounds.

    With `x` the one whose bound `h` is the larger and `k` the other bound,
    `P = ∫_h^∞ φ(x) Φ((ρx - k) / √(1-ρ²)) dx`: a log-concave integrand on a range that is known,
    cut where it bends, and integrated panel by panel with Gauss-Legendre nodes.
    """
    h, k = max(first, second), min(first, second)
    if h == np.inf:
        return -np.inf
    if k == -np.inf or correlation > 1.0 - 1e-14:
        return log_ndtr(-h)
    if correlation < -1.0 + 1e-14:
        if h >= -k:
            return -np.inf
        lower, upper = log_ndtr(h), log_ndtr(-k)
        if h > 0.0:  # from h to -k: the tails have their digits, their complements do not
            lower, upper = log_ndtr(k), log_ndtr(-h)
        return upper + math.log1p(-math.exp(lower - upper))
    residual = math.sqrt((1.0 - correlation) * (1.0 + correlation))
    start, length = _orthant_range(h, k, correlation, residual)
    cuts = _orthant_cuts(start, length, k, correlation, residual)
    top, total = -np.inf, 0.0  # the integral is e^top times the total
    for panel in range(cuts.size - 1):
        half = 0.5 * (cuts[panel + 1] - cuts[panel])
        if half <= 0.0:
            continue
        for node in range(NODES.size):
            s = cuts[panel] + half * (1.0 + NODES[node])
            inner = (correlation * start - k) / residual + correlation / residual * s
            value = math.log(WEIGHTS[node] * half) - s * (start + 0.5 * s) + log_ndtr(inner)
            if value > top:
                total = total * math.exp(top - value) + 1.0
                top = value
            else:
                total += math.exp(value - top)
    return -0.5 * start * start - HALF_LOG_2PI + top + math.log(total)


@njit(cache=True, error_model="numpy")
def _orthant_range(h, k, correlation, residual):
    """Where the integrand starts and how far it must be followed."""
    start = max(h, -math.sqrt(2 * NEGLIGIBLE))
    length = -start + math.sqrt(start * start + 2 * NEGLIGIBLE)
    inner = (correlation * start - k) / residual
    hazard = math.exp(-0.5 * inner * inner - HALF_LOG_2PI - log_ndtr(inner))
    decline = start - correlation / residual * hazard
    if decline > 0.0:  # log-concave: it falls at least this steeply everywhere
        length = min(length, NEGLIGIBLE / decline)
    return start, length


@njit(cache=True, error_model="numpy")
def _orthant_cuts(start, length, k, correlation, residual):
    """Panel boundaries: finer near the start and around the step of the inner factor."""
    cuts = np.empty(9)
    cuts[0], cuts[1], cuts[2], cuts[3] = 0.0, length / 8, length / 2, length
    for i, steps in enumerate((-8.0, -3.0, 0.0, 3.0, 8.0)):
        cut = length
        if correlation != 0.0:
            cut = min(max((k + steps * residual) / correlation - start, 0.0), length)
        place = 4 + i
        while cuts[place - 1] > cut:  # insert it in order
            cuts[place] = cuts[place - 1]
            place -= 1
        cuts[place] = cut
    return cuts
