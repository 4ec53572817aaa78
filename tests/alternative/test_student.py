"""Student tails against high precision, draws against the distribution they are of."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from bayes_feasible.alternative.student import draw_beyond, log_tail

FALSE_ALARM = 1e-6


def exact(x, freedom):
    """The tail by its power series in 40 digits, which converges wherever nu / (nu + x²) < 1."""
    with mpmath.workdps(40):
        x, nu = mpmath.mpf(x), mpmath.mpf(freedom)
        z = nu / (nu + x * x)
        total = term = mpmath.mpf(1)
        k = 0
        while term > total * mpmath.mpf(10) ** -25:
            term *= z * (nu / 2 + mpmath.mpf(1) / 2 + k) / (nu / 2 + 1 + k)
            total, k = total + term, k + 1
        log_factor = (nu / 2) * mpmath.log(z) + mpmath.log1p(-z) / 2 - mpmath.log(nu / 2)
        log_beta = mpmath.loggamma(nu / 2) + mpmath.log(mpmath.pi) / 2
        log_beta -= mpmath.loggamma(nu / 2 + mpmath.mpf(1) / 2)
        value = mpmath.log(total) + log_factor - log_beta - mpmath.log(2)
        return float(value if x > 0 else mpmath.log1p(-mpmath.exp(value)))


@pytest.mark.parametrize(
    ("freedom", "places"),
    [
        (1.0, [-30.0, -1.0, 0.5, 3.0, 1e3, 1e8, 1e100]),
        (2.5, [-1.0, 1.0, 30.0, 1e6]),
        (30.0, [1.0, 10.0, 1e3, 1e9]),
        (1e3, [5.0, 40.0, 60.0, 1e3, 2e5]),
        (1e5, [20.0, 38.0, 45.0, 100.0, 160.0]),
    ],
)
def test_tails_have_ten_digits(freedom, places):
    found = log_tail(np.array(places), np.full(len(places), freedom))
    np.testing.assert_allclose(found, [exact(x, freedom) for x in places], rtol=1e-10)


@pytest.mark.parametrize("x", [0.5, 5.0, 36.0, 38.0, 60.0, 141.0])
def test_a_hundred_million_degrees_of_freedom(x):
    with mpmath.workdps(40):  # by quadrature of the density: the series would not end
        nu = mpmath.mpf(10) ** 8

        def density(t):
            return mpmath.exp(-(nu + 1) / 2 * mpmath.log1p(t * t / nu))

        constant = mpmath.loggamma((nu + 1) / 2) - mpmath.loggamma(nu / 2)
        constant -= mpmath.log(nu * mpmath.pi) / 2
        ends = [x, x + 1 / mpmath.mpf(x + 1), x + 5 / mpmath.mpf(x + 1), x + 60 / mpmath.mpf(x + 1)]
        scale = density(mpmath.mpf(x))
        area = mpmath.quad(lambda t: density(t) / scale, ends)
        wanted = float(mpmath.log(area) + mpmath.log(scale) + constant)
    found = log_tail(np.array([x]), np.array([1e8]))[0]
    assert found == pytest.approx(wanted, rel=1e-10)
    normal = stats.norm.logsf(x)  # a Gaussian tail is another number, where that can be seen
    assert x < 30 or abs(found - normal) > 1e-10 * abs(normal)


@pytest.mark.parametrize("freedom", [1.0, 3.0, 50.0, 1e6])
@pytest.mark.parametrize("bound", [-2.0, 0.0, 3.0, 38.0, 1e120])
def test_draws_beyond_a_bound_follow_the_tail(freedom, bound):
    if bound > 1e3 and freedom > 1e3:
        bound = 1e3  # beyond, even the logarithm is no number
    draws = draw_beyond(np.random.default_rng(1), np.full(3000, bound), freedom)
    assert draws.min() >= bound
    share = np.exp(log_tail(draws, freedom) - log_tail(np.array(bound), freedom))
    assert stats.kstest(share, "uniform").pvalue > FALSE_ALARM
    if bound == 3.0:
        wrong = np.exp(log_tail(draws, 3 * freedom) - log_tail(np.array(bound), 3 * freedom))
        assert freedom > 1e3 or stats.kstest(wrong, "uniform").pvalue < FALSE_ALARM
