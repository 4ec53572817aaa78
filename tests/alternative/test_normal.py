"""Normal tails against high-precision arithmetic and exact laws."""

import math

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from scipy import special, stats

from bayes_feasible.alternative.normal import draw_excess, log_ndtr, log_orthant, tail_excess

FALSE_ALARM = 1e-5


def exact_log_ndtr(x):
    with mp.workdps(40):
        x = mp.mpf(float(x))
        if x > 0:
            return mp.log1p(-mp.ncdf(-x))
        if x > -1000:
            return mp.log(mp.ncdf(x))
        terms = [mp.mpf(1)]
        for k in range(1, 12):
            terms.append(-terms[-1] * (2 * k - 1) / (x * x))
        return -x * x / 2 - mp.log(-x) - mp.log(2 * mp.pi) / 2 + mp.log(mp.fsum(terms))


def relative_error(value, exact):
    return float(abs((mp.mpf(value) - exact) / exact))


# --- distribution function ---


def test_log_ndtr_is_right_to_the_last_digits_in_the_lower_half():
    points = np.concatenate([np.linspace(-40, 0, 401), -np.logspace(0, 7, 141), [-1e-300, -1e50]])
    points = np.append(points, [-14.0, np.nextafter(-14, 0), np.nextafter(-14, -20)])
    worst = max(relative_error(log_ndtr(x), exact_log_ndtr(x)) for x in points)
    assert worst <= 8e-16


def test_log_ndtr_is_right_in_the_upper_half_and_at_the_ends():
    assert (log_ndtr(-np.inf), log_ndtr(np.inf)) == (-np.inf, 0)
    # The argument's own rounding is magnified x² times, as in any function of a double.
    points = np.concatenate([np.linspace(0.1, 10, 100), [1e-300, 1e-8, 20.0, 30.0]])
    for x in points:
        assert relative_error(log_ndtr(x), exact_log_ndtr(x)) <= (4 + x * x) * 2.3e-16


# --- draws beyond a bound ---


@njit
def excesses(rng, bound, size):
    result = np.empty(size)
    for i in range(size):
        result[i] = tail_excess(rng, bound)
    return result


def excess_survival(excess, bound):
    """P(X - bound > excess | X > bound), through the scaled complementary error function."""
    if bound < 0:
        return special.ndtr(-(bound + excess)) / special.ndtr(-bound)
    scaled = special.erfcx((bound + excess) / math.sqrt(2)) / special.erfcx(bound / math.sqrt(2))
    return np.exp(-excess * (bound + excess / 2)) * scaled


def many_excesses(rng, bound, size):
    return draw_excess(rng, np.full(size, bound))


@pytest.mark.parametrize("draw", [excesses, many_excesses])
@pytest.mark.parametrize(
    "bound", [-40.0, -5.0, 0.0, 0.2, 0.25, 0.3, 1.0, 3.0, 4.999, 5.0, 40.0, 1e3, 1e4]
)
def test_tail_excess_follows_the_truncated_normal(draw, bound):
    draws = draw(np.random.default_rng(int(bound * 100) % 2**20), bound, 100_000)
    assert draws.min() >= 0
    assert stats.kstest(excess_survival(draws, bound), "uniform").pvalue > FALSE_ALARM
    if bound == 3.0:  # a slightly wrong tail is noticed
        assert stats.kstest(excess_survival(draws, 3.3), "uniform").pvalue < FALSE_ALARM


# --- two normals at once ---


def exact_log_orthant(h, k, rho):
    """The integral with break points where its integrand decays and where it steps."""
    with mp.workdps(25):
        h, k, rho = (mp.mpf(float(v)) for v in (max(h, k), min(h, k), rho))
        c = mp.sqrt((1 - rho) * (1 + rho))
        start = max(h, mp.mpf(-16))
        u = (rho * start - k) / c

        def integrand(x):
            return mp.npdf(x) * mp.ncdf((rho * x - k) / c)

        rate = start - rho / c * mp.npdf(u) / mp.ncdf(u)
        cuts = [mp.mpf(i) for i in range(-16, 17, 2)]
        end = start + 32
        if rate > 0:
            steps = [start + mp.mpf(2) ** j / rate for j in range(-2, 8)]
            cuts += steps
            end = min(end, steps[-1])
        if rho != 0:
            cuts += [(k + s * c) / rho for s in (-14, -6, -3, -1, 0, 1, 3, 6, 14)]
        cuts = sorted({start, end, *(cut for cut in cuts if start < cut < end)})
        return float(mp.log(mp.quad(integrand, cuts, maxdegree=6)))


ORTHANTS = [
    (h, k, rho)
    for rho in (-1 + 1e-8, -0.999, -0.5, 0.0, 1e-3, 0.5, 0.999, 1 - 1e-8)
    for h, k in ((-3, -50), (1, 0.9), (4, -3), (12, 4), (40, 39.5))
    if not (rho < -0.9 and h + k > 2)
] + [
    (200, 200, 0.5), (200, -50, -0.5), (200, 199, 0.999), (200, 120, 0.6), (-40, -50, 0.9),
    (12, -12.0001, -1 + 1e-8), (1, -1.0001, -1 + 1e-8), (0, 0, -0.999), (3, 3, -0.9), (0, 0, 1e-9),
    (9.7, -9.2, -1 + 1e-5), (30, 30, -0.3), (6, 5.999, 1 - 1e-5),
]  # fmt: skip


@pytest.mark.parametrize(("h", "k", "rho"), ORTHANTS)
def test_log_orthant_against_quadrature(h, k, rho):
    exact = exact_log_orthant(h, k, rho)
    assert log_orthant(float(h), float(k), rho) == pytest.approx(exact, rel=1e-11, abs=1e-11)
    assert log_orthant(float(k), float(h), rho) == log_orthant(float(h), float(k), rho)


def test_log_orthant_against_scipy_where_it_is_not_rare():
    rng = np.random.default_rng(0)
    for _ in range(200):
        h, k = rng.uniform(-3, 3, 2)
        rho = rng.uniform(-0.99, 0.99)
        exact = stats.multivariate_normal.cdf([-h, -k], cov=[[1, rho], [rho, 1]])
        assert math.exp(log_orthant(h, k, rho)) == pytest.approx(exact, abs=1e-13, rel=1e-10)


@pytest.mark.parametrize(
    ("h", "k"),
    [(1.0, -2.0), (-2.0, 1.0), (8.2, -30.7), (30.0, -31.0), (-0.5, -0.2), (5.0, -5.0), (5.0, -4.0)],
)
def test_log_orthant_of_opposite_normals_is_an_interval(h, k):
    with mp.workdps(40):
        high, low = -min(h, k), max(h, k)
        share = mp.ncdf(-mp.mpf(low)) - mp.ncdf(-mp.mpf(high)) if high > low else mp.mpf(0)
        exact = float(mp.log(share)) if share > 0 else -np.inf
    assert log_orthant(h, k, -1.0) == pytest.approx(exact, rel=1e-14)
    assert log_orthant(h, k, -1.0 + 2e-16) == pytest.approx(exact, rel=1e-6)


def test_log_orthant_without_a_bound_or_with_an_impossible_one():
    assert log_orthant(2.0, -np.inf, 0.3) == special.log_ndtr(-2.0)
    assert log_orthant(-np.inf, -np.inf, 0.0) == 0
    assert log_orthant(np.inf, 0.0, 0.3) == -np.inf
    assert log_orthant(2.0, 1.0, 1.0) == special.log_ndtr(-2.0)


def test_log_orthant_never_exceeds_either_half_space():
    rng = np.random.default_rng(1)
    h, k = rng.standard_normal((2, 20_000)) * 10.0 ** rng.uniform(-1, 4, (2, 20_000))
    away = 1 - 10.0 ** rng.uniform(-16, 0, 20_000)
    rho = rng.choice([-1.0, 1.0], 20_000) * away
    most = special.log_ndtr(-np.maximum(h, k))
    assert np.all(log_orthant(h, k, rho) <= most + 1e-12 * np.maximum(1, -most))
