"""The map onto a normal beyond a bound, against 60 digits and finite differences."""

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from bayes_feasible.models._interpreted import INTERPRETED
from bayes_feasible.models._truncation import beyond, log_survival

NORMALS = np.array([-30, -8, -5, -3, -1, -0.5, -1e-3, 0, 1e-9, 0.1, 0.5, 1, 2, 3, 5, 8, 30.0])
BOUNDS = np.array([-36, -10, -6, -3, -1, -0.3, -1e-9, 0, 1e-9, 0.3, 1, 3, 8, 40, 400, 1e4])


def survival(t):
    return mp.erfc(mp.mpf(float(t)) / mp.sqrt(2)) / 2


def hazard(t):
    return mp.npdf(mp.mpf(float(t))) / survival(t)


@pytest.fixture(scope="module")
def function():
    """Values and slopes with respect to both arguments."""
    x, bound = pt.vector("x"), pt.vector("bound")
    value = beyond(x, bound)
    slopes = pt.grad(value.sum(), [x, bound])
    return pytensor.function([x, bound], [value, *slopes], mode=INTERPRETED)


@pytest.fixture(scope="module")
def grid(function):
    bound, x = (axis.ravel() for axis in np.meshgrid(BOUNDS, NORMALS))
    return x, bound, *function(x, bound)


def test_the_map_solves_its_equation_to_the_last_digits(grid):
    x, bound, value, _, _ = grid
    with mp.workdps(60):
        for one, limit, image in zip(x, bound, value, strict=True):
            lack = mp.log(survival(image)) - mp.log(survival(limit)) - mp.log(survival(one))
            error = abs(float(lack / hazard(image)))  # in the image
            assert error < 4e-15 * max(abs(image), 1.0), (one, limit)


def test_slopes_are_ratios_of_hazards(grid):
    x, bound, value, along, across = grid
    with mp.workdps(60):
        for one, limit, image, first, second in zip(x, bound, value, along, across, strict=True):
            # The slope in x is that of an image that rounding has moved by up to 1e-16 of it.
            assert abs(first / float(hazard(one) / hazard(image)) - 1) < 1e-11, (one, limit)
            assert abs(second / float(hazard(limit) / hazard(image)) - 1) < 1e-11, (one, limit)


@pytest.mark.parametrize("bound", [0.5, 4.0, 40.0, 400.0, 1e4])
def test_slopes_are_finite_differences_of_the_exact_map(function, bound):
    """The map in 60 digits, differenced there, knows neither our values nor our formula."""

    def image(x, start):
        target = mp.log(survival(bound)) + mp.log(mp.erfc(x / mp.sqrt(2)) / 2)
        equation = lambda g: mp.log(mp.erfc(g / mp.sqrt(2)) / 2) - target  # noqa: E731
        return mp.findroot(equation, start)

    for x in (-2.0, 0.3, 1.7):
        value, slope, _ = (float(one[0]) for one in function([x], [bound]))
        with mp.workdps(60):
            step = mp.mpf(10) ** -15
            above, below = image(mp.mpf(x) + step, value), image(mp.mpf(x) - step, value)
            assert abs(float((above + below) / 2) / value - 1) < 1e-15
            assert abs(slope / float((above - below) / (2 * step)) - 1) < 1e-11


def test_images_are_beyond_their_bounds_and_in_order(grid):
    _, bound, value, along, _ = grid
    assert np.all(value >= bound)
    assert np.all(along >= 0)
    for limit in BOUNDS:
        assert np.all(np.diff(value[bound == limit]) >= 0)


def test_a_bound_that_takes_nothing_away_leaves_everything_as_it_was(function):
    for bound in (-np.inf, -1e4, -100.0):
        value, along, across = function(NORMALS, np.full(NORMALS.size, bound))
        assert np.array_equal(value, NORMALS)
        assert np.array_equal(along, np.ones(NORMALS.size))
        assert np.array_equal(across, np.zeros(NORMALS.size))


def test_nothing_breaks_where_a_sampler_may_stray(function):
    stray = np.array([-1e6, -1e3, -50.0, -38.0, 50.0, 1e3, 1e6])
    for bound in BOUNDS:
        for array in function(stray, np.full(stray.size, bound)):
            assert np.isfinite(array).all(), bound


def test_gradients_survive_the_rewrites_that_pymc_makes_before_it_differentiates():
    """They once dropped a marker that kept the gradient out of Newton's method."""
    bound = np.array([-np.inf, -40.0, 2.0, 400.0])
    with pm.Model() as model:
        x = pm.Normal("x", shape=4)
        pm.Potential("image", pt.sum(beyond(x, pt.as_tensor_variable(bound))))
    slope = model.compile_dlogp(mode=INTERPRETED)
    for at in (np.zeros(4), np.full(4, 0.7)):
        with mp.workdps(30):
            expected = [
                float(hazard(one) / hazard(image(one, limit))) if limit > -30 else 1.0
                for one, limit in zip(at, bound, strict=True)
            ]
        np.testing.assert_allclose(slope({"x": at}), np.array(expected) - at, rtol=1e-9)


def image(x, bound):
    target = mp.log(survival(bound)) + mp.log(survival(x))
    equation = lambda g: mp.log(mp.erfc(g / mp.sqrt(2)) / 2) - target  # noqa: E731
    return mp.findroot(equation, bound + 1 / (1 + bound))


def test_log_survival_everywhere():
    t = pt.vector("t")
    function = pytensor.function([t], log_survival(t), mode=INTERPRETED)
    points = np.array([-1e4, -40, -8, -1, -1e-8, 0, 1e-8, 0.5, 1, 8, 40, 400, 1e4])
    with mp.workdps(60):
        exact = [float(mp.log(survival(point))) for point in points]
    np.testing.assert_allclose(function(points), exact, rtol=1e-14, atol=1e-300)
    assert function([-np.inf])[0] == 0
