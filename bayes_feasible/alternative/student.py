r"""Student tails: right from the centre to probabilities that are no numbers any more.

With :math:`y = x^2 / (\nu + x^2)` the tail beyond :math:`x \ge 0` is half the incomplete beta
function :math:`I_{1-y}(\nu/2, 1/2)`. SciPy has it to its last digits down to 1e-290. Beyond, far
out (:math:`1 - y \le 1/2`) its power series converges like a geometric one; nearer :math:`\nu` is
in the thousands, and in the variable :math:`r = \frac{\nu+1}{2} \log\frac{\nu+t^2}{\nu+x^2}` the
integral of the density is that of :math:`e^{-r}` times a smooth function.
"""

import numpy as np
from scipy import special

from bayes_feasible._check import Array

DEEP = 1e-290  # a probability below which SciPy's loses digits
TERMS = 80  # of the power series: 2^-80
NODES, WEIGHTS = np.polynomial.laguerre.laggauss(40)
NEWTON = 60


def log_tail(x: Array, freedom: Array) -> Array:
    """Logarithm of the probability that a Student variable exceeds `x`."""
    x, freedom = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(freedom, dtype=float))
    result = np.empty(x.shape)
    upper = 0.5 * _both_tails(x, freedom)
    near = (upper > DEEP) | (x <= 0)
    with np.errstate(divide="ignore"):
        result[near] = np.where(x[near] > 0, np.log(upper[near]), np.log1p(-upper[near]))
    deep = ~near
    if deep.any():
        result[deep] = _log_deep_tail(x[deep], freedom[deep])
    return result


def _both_tails(x: Array, freedom: Array) -> Array:
    """Probability of a size beyond |x|, from whichever of y and 1 - y has its digits."""
    size, root = np.abs(x), np.sqrt(freedom)
    with np.errstate(divide="ignore"):
        inner = np.square(np.minimum(size / root, 1.0))
        outer = np.square(np.minimum(root / size, 1.0))
    return np.where(
        size <= root,
        special.betaincc(0.5, 0.5 * freedom, inner / (1.0 + inner)),
        special.betainc(0.5 * freedom, 0.5, outer / (1.0 + outer)),
    )


def _log_deep_tail(x: Array, freedom: Array) -> Array:
    half = 0.5 * freedom
    with np.errstate(over="ignore"):
        log_growth = np.where(
            x > np.sqrt(freedom),
            2 * np.log(x) - np.log(freedom) + np.log1p(np.square(np.sqrt(freedom) / x)),
            np.log1p(np.square(x / np.sqrt(freedom))),
        )  # log(1 + x² / nu)
    rest = np.exp(-log_growth)  # nu / (nu + x²)
    constant = -special.betaln(0.5, half)
    # I_z(a, 1/2) = z^a (1-z)^(1/2) / (a B) * sum_k z^k (a+1/2)_k / (a+1)_k
    series = np.ones_like(rest)
    for k in range(TERMS - 1, -1, -1):
        series = 1.0 + (half + 0.5 + k) / (half + 1.0 + k) * rest * series
    far = (
        np.log(0.5) + constant - np.log(half) - half * log_growth + 0.5 * np.log1p(-rest)
        + np.log(series)
    )  # fmt: skip
    # log pdf(x) + log of the integral of e^-r (nu + t²) / ((nu + 1) t) dr
    density = constant - 0.5 * np.log(freedom) - (half + 0.5) * log_growth
    square = np.minimum(np.square(np.minimum(x, 1e150)), freedom)  # where it is asked: x² <= nu
    grown = np.expm1(2.0 * NODES / (freedom[..., np.newaxis] + 1.0))
    beyond = np.sqrt(square[..., np.newaxis] + (freedom + square)[..., np.newaxis] * grown)
    height = (freedom[..., np.newaxis] / beyond + beyond) / (freedom[..., np.newaxis] + 1.0)
    near = density + np.log(height @ WEIGHTS)
    return np.where(rest <= 0.5, far, near)


def draw_beyond(rng: np.random.Generator, bound: Array, freedom: float) -> Array:
    """Student draws that are known to exceed their bounds, by inversion of the tail."""
    bound = np.asarray(bound, dtype=float)
    freedoms = np.full(bound.shape, freedom)
    share = np.clip(rng.random(bound.shape), 2.0**-54, 1.0 - 2.0**-53)
    wanted = log_tail(bound, freedoms) + np.log(share)
    result = np.empty(bound.shape)
    low = wanted > np.log(0.5)  # on the left side of the centre
    result[low] = -_invert(np.log(-np.expm1(wanted[low])), freedom)
    result[~low] = _invert(wanted[~low], freedom)
    return np.maximum(result, bound)


def _invert(log_probability: Array, freedom: float) -> Array:
    """Where the upper tail has these log-probabilities, none above log(1/2)."""
    near = log_probability > np.log(DEEP)
    result = np.empty(log_probability.shape)
    with np.errstate(divide="ignore", under="ignore"):
        y = special.betainccinv(0.5, 0.5 * freedom, np.minimum(2 * np.exp(log_probability), 1.0))
        z = special.betaincinv(0.5 * freedom, 0.5, np.minimum(2 * np.exp(log_probability), 1.0))
        x = np.sqrt(freedom) * np.where(y < 0.5, np.sqrt(y / (1 - y)), np.sqrt((1 - z) / z))
    result[near] = x[near]
    deep = ~near
    if deep.any():
        goal = log_probability[deep]
        freedoms = np.full(goal.shape, freedom)
        # Newton in log x, where the logarithm of the tail is concave and falls: from the right.
        at = np.full(goal.shape, 0.5 * np.log(freedom))
        for _ in range(NEWTON):
            here = np.exp(at)
            value = log_tail(here, freedoms)
            slope = -np.exp(np.minimum(_log_density(here, freedom) + at - value, 690.0))
            step = (value - goal) / slope
            at = at - np.clip(step, -40.0, 40.0)
            if np.all(np.abs(step) < 1e-14):
                break
        result[deep] = np.exp(at)
    return result


def _log_density(x: Array, freedom: float) -> Array:
    half = 0.5 * freedom
    return (
        -special.betaln(0.5, half)
        - 0.5 * np.log(freedom)
        - (half + 0.5) * np.log1p(np.square(x / np.sqrt(freedom)))
    )
