"""The alternative set within a bounded parameter set, against rejection and grids."""

import math

import numpy as np
import pytest
from cases import CASES, HELD, build
from helpers import (
    agrees,
    blocks,
    closed_form,
    counted,
    gaussian_draws,
    in_balls,
    membership,
    posterior_at,
    same_law,
    z_bound,
)
from scipy import special, stats

import bayes_feasible as bf


@pytest.mark.parametrize("name", HELD)
def test_posterior_draws_stay_in_the_balls(name, reference):
    posterior, alternative, draws, _ = reference(name)
    found = blocks(posterior.sample(10_000, seed=3))
    assert in_balls(posterior.problem, found).all()
    assert same_law(alternative, found, draws)


@pytest.mark.parametrize("name", ["both", "mean outside"])
def test_draws_that_ignore_the_ball_are_caught(name, reference):
    posterior, alternative, draws, events = reference(name)
    loose = gaussian_draws(posterior, 40_000, seed=5)
    inside = membership(alternative, loose).any(axis=1)
    assert not same_law(alternative, loose[inside][:10_000], draws[events.any(axis=1)])
    assert not same_law(alternative, loose[:10_000], draws)
    truth, sampling = counted(events.any(axis=1))
    error = math.hypot(sampling, alternative.log_probability(posterior, seed=1).standard_error)
    assert not agrees(math.log(inside.mean()), truth, error, len(CASES))


@pytest.mark.parametrize(
    "name",
    ["both", *(pytest.param(n, marks=pytest.mark.slow) for n in ("one feature", "mean outside"))],
)
def test_standard_error_is_not_too_small(name, reference):
    posterior, alternative, _, _ = reference(name)
    results = [alternative.log_probability(posterior, seed=s, draws=2000) for s in range(40)]
    value = np.array([result.value for result in results])
    error = np.array([result.standard_error for result in results])
    # The spread over seeds against the promise; the draws are stratified, so less is no fault.
    squares = 39 * value.var(ddof=1) / np.mean(error**2)
    assert squares < stats.chi2.isf(1e-5, 39) < 3**2 * squares  # a third would be too small
    assert value.std() > error.mean() / 10


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_scale_inflates_the_covariance(scale, reference):
    posterior, alternative, _, _ = reference("both")
    draws = gaussian_draws(posterior, 400_000, seed=6, scale=scale)
    draws = draws[in_balls(posterior.problem, draws)]
    inside = membership(alternative, draws).any(axis=1)
    truth, sampling = counted(inside)
    for by, right in ((scale, True), (1.0, False)):  # without the scale it is another number
        estimate = alternative.log_probability(posterior, seed=1, scale=by)
        error = math.hypot(sampling, estimate.standard_error)
        assert agrees(estimate.value, truth, error, 2) == right
    found, plain = (
        blocks(alternative.sample(posterior, 10_000, seed=7, scale=by)) for by in (scale, 1.0)
    )
    assert same_law(alternative, found, draws[inside])
    assert not same_law(alternative, plain, draws[inside])


def test_an_inactive_ball_changes_nothing():
    free, candidate = build(None, seed=1)
    held, _ = build(1e3, seed=1)
    left = bf.Alternative(free.problem, candidate).log_probability(free, draws=2**18)
    right = bf.Alternative(held.problem, candidate).log_probability(held, draws=2**18)
    error = math.hypot(left.standard_error, right.standard_error)
    assert agrees(left.value, right.value, error)
    tight, _ = build(1.0, seed=1)  # and one that is active does change something
    other = bf.Alternative(tight.problem, candidate).log_probability(tight, draws=2**18)
    error = math.hypot(left.standard_error, other.standard_error)
    assert not agrees(left.value, other.value, error)


def test_a_half_space_that_misses_the_ball():
    # Within |θ| <= 0.4 no cost can exceed 0.5, and the only rival is a twin.
    problem = bf.Problem([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.5], candidates=[[1.0, 0.0]],
                         parameter_radius=0.4)  # fmt: skip
    posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
    estimate = alternative.log_probability(posterior)
    assert (estimate.value, estimate.lower, estimate.upper) == (-np.inf, -np.inf, -np.inf)
    with pytest.raises(ValueError, match=r"^candidate: "):
        alternative.sample(posterior, 3)


def test_one_impossible_event_beside_possible_ones():
    problem = bf.Problem(np.eye(2), [0.5], parameter_radius=0.4)
    posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
    draws = alternative.sample(posterior, 2000)
    assert set(draws.event.values.ravel()) == {1}  # only the rival's reward decides
    estimate = alternative.log_probability(posterior)
    assert agrees(estimate.value, math.log(0.5), estimate.standard_error)
    # the control: without the ball the cost may be too high, or the rival's
    dear = stats.norm.sf(0.5)
    free = math.log(dear + (1 - dear) ** 2 / 2)
    assert not agrees(estimate.value, free, estimate.standard_error)
    assert not alternative.contains([0.0, 0.5], [0.0, 0.0])  # beyond the ball: in no set


@pytest.mark.parametrize("radius", [(2.0, np.inf), (np.inf, 2.0), 2.0])
@pytest.mark.parametrize("threshold", [0.5, -0.5])
@pytest.mark.parametrize("candidate", [0, 1])
def test_the_zero_vector_is_certainly_feasible_or_certainly_not(radius, threshold, candidate):
    problem = bf.Problem([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [threshold],
                         parameter_radius=radius)  # fmt: skip
    posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, candidate)
    draws = gaussian_draws(posterior, 200_000, seed=1)
    draws = draws[in_balls(problem, draws)]
    events = membership(alternative, draws)
    truth, sampling = counted(events.any(axis=1))
    estimate = alternative.log_probability(posterior)
    error = math.hypot(sampling, estimate.standard_error) + 1e-9
    assert agrees(estimate.value, truth, error, 12)
    # the control: one of the events left out, be it that of the zero vector
    for left_out in np.flatnonzero(events.mean(axis=0) > 0.01):
        fewer = np.delete(events, left_out, axis=1).any(axis=1)
        if not np.array_equal(fewer, events.any(axis=1)):
            assert not agrees(estimate.value, counted(fewer)[0], error, 12)
    assert estimate.lower <= estimate.value <= estimate.upper
    found = alternative.sample(posterior, 2000)
    assert alternative.contains(found.theta_reward, found.theta_cost).all()


def log_disc(mean, covariance, radius, vector=None, limit=-np.inf):
    """Log-probability of half-plane and disc: polar panels fine enough for any smooth density."""
    precision = np.linalg.inv(covariance)
    nodes, weights = np.polynomial.legendre.leggauss(12)

    def panels(cuts):
        half = np.diff(cuts)[:, np.newaxis] / 2
        return (cuts[:-1, np.newaxis] + half * (1 + nodes)).ravel(), (half * weights).ravel()

    # Along the half-plane's normal from the limit on, and across within the disc.
    if vector is None:
        vector = np.array([1.0, 0.0])
    length = np.linalg.norm(vector)
    along = vector / length
    across = np.array([-along[1], along[0]])
    start = max(limit / length, -radius)
    # x = start + (radius - start) (1 - cos φ)/2 smooths the square root at both ends.
    angle, dangle = panels(np.pi * np.linspace(0, 1, 121) ** 2)
    x = start + (radius - start) * (1 - np.cos(angle)) / 2
    dx = dangle * (radius - start) * np.sin(angle) / 2
    y, dy = panels(np.linspace(-1, 1, 41))
    height = np.sqrt(np.maximum(radius**2 - x**2, 0.0))
    points = (
        x[:, np.newaxis, np.newaxis] * along + (height[:, np.newaxis] * y)[..., np.newaxis] * across
    )
    offset = points - mean
    quadratic = np.einsum("xyi,ij,xyj->xy", offset, precision, offset)
    logs = -quadratic / 2 + np.log(dx * height)[:, np.newaxis] + np.log(dy)
    return special.logsumexp(logs) - math.log(2 * math.pi) + np.linalg.slogdet(precision)[1] / 2


def test_the_disc_quadrature_itself():
    covariance = np.array([[0.5, 0.2], [0.2, 0.3]])
    draws = np.random.default_rng(0).multivariate_normal([0.3, 0.1], covariance, 400_000)
    vector = np.array([1.0, -0.5])
    truth, error = counted((np.linalg.norm(draws, axis=1) < 0.9) & (draws @ vector > 0.2))
    assert agrees(log_disc([0.3, 0.1], covariance, 0.9, vector, 0.2), truth, error)
    # the control: another disc, another half-plane
    assert not agrees(log_disc([0.3, 0.1], covariance, 0.92, vector, 0.2), truth, error)
    assert not agrees(log_disc([0.3, 0.1], covariance, 0.9, vector, 0.21), truth, error)
    isotropic = log_disc([0.0, 0.0], np.eye(2), 1.5)
    assert isotropic == pytest.approx(math.log1p(-math.exp(-1.125)), abs=1e-9)


@pytest.mark.parametrize(
    ("pulls", "radius", "below"),
    [(20, 0.75, -5), (100, 0.75, -20), (400, 0.75, -80), (60, 0.62, -20)],
)
def test_a_rare_event_with_an_active_ball_against_a_grid(pulls, radius, below):
    # The only mistake is that the cost of the one candidate exceeds 0.6, close to the sphere.
    problem = bf.Problem([[1.0, 0.0], [0.6, -0.8]], [0.6], candidates=[[1.0, 0.0]],
                         parameter_radius=radius)  # fmt: skip
    posterior = posterior_at(problem, [0.2, 0.1], [0.1, 0.5], [pulls, 2 * pulls])
    mean, covariance = closed_form(posterior)
    whole = log_disc(mean[1], covariance, radius)
    exact = log_disc(mean[1], covariance, radius, np.array([1.0, 0.0]), 0.6) - whole
    assert exact < below
    alternative = bf.Alternative(problem, 0)
    estimate = alternative.log_probability(posterior, seed=1)
    assert 0 < estimate.standard_error < 0.02
    assert agrees(estimate.value, exact, estimate.standard_error, 4)
    assert estimate.lower - 1e-6 <= exact <= estimate.upper + 1e-6
    # The ball is active: without it the event is far likelier.
    free = stats.norm.logsf(0.6, mean[1, 0], np.sqrt(covariance[0, 0]))
    assert exact < free - 1
    assert not agrees(estimate.value, free, estimate.standard_error, 4)
    draws = alternative.sample(posterior, 5000)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    # The law of the constrained coordinate, from the grid.
    cost = draws.theta_cost.values[0, :, 0, 0]

    def score(quantile, tail):
        return (np.mean(cost > quantile) - tail) / math.sqrt(tail * (1 - tail) / 5000 + 1e-9)

    loose = []
    for quantile in (0.6 + (radius - 0.6) * s for s in (0.02, 0.1, 0.3)):
        tail = math.exp(
            log_disc(mean[1], covariance, radius, np.array([1.0, 0.0]), quantile) - whole - exact
        )
        assert abs(score(quantile, tail)) < z_bound(12, 1e-5)
        beyond = stats.norm.logsf(quantile, mean[1, 0], np.sqrt(covariance[0, 0]))
        loose.append(score(quantile, math.exp(beyond - free)))
    assert np.abs(loose).max() > z_bound(12, 1e-5)  # the control: the law without the ball


def test_a_rare_rival_with_both_balls_active_against_a_grid():
    # m = 1, one rival; reward and cost are independent given an event, so it is a product.
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], [0.3], parameter_radius=(0.5, 0.45))
    posterior = posterior_at(problem, [0.42, -0.1], [0.1, 0.44], [80, 90])
    mean, covariance = closed_form(posterior)
    gap = np.array([-1.0, 1.0])
    reward = log_disc(mean[0], covariance, 0.5, gap, 0.0) - log_disc(mean[0], covariance, 0.5)
    whole = log_disc(mean[1], covariance, 0.45)
    feasible = log_disc(mean[1], covariance, 0.45, np.array([0.0, -1.0]), -0.3) - whole
    violated = log_disc(mean[1], covariance, 0.45, np.array([1.0, 0.0]), 0.3) - whole
    # P(violated or (rival better and feasible)); the overlap lies between none and the product.
    low = np.logaddexp(violated, reward + feasible + np.log1p(-math.exp(violated - feasible)))
    high = np.logaddexp(violated, reward + feasible)
    estimate = bf.Alternative(problem, 0).log_probability(posterior, seed=3)
    slack = z_bound(1, 1e-5) * estimate.standard_error

    def between(value):
        return low - slack <= value <= high + slack

    assert between(estimate.value)
    assert estimate.lower <= high
    assert estimate.upper >= low
    # the control: without the balls, and with a posterior that is one per cent wider
    free = bf.Problem(problem.arms, problem.thresholds)
    sums = posterior.counts, posterior.reward_sums, posterior.cost_sums
    loose = bf.Alternative(free, 0).log_probability(bf.Posterior.from_sums(free, *sums))
    assert not between(loose.value)
    wider = bf.Alternative(problem, 0).log_probability(posterior, seed=3, scale=1.05)
    assert not between(wider.value)


def test_a_posterior_mean_far_outside_the_ball():
    # Ten thousand pulls say 2, the parameter set ends at 1: draws sit on its very edge.
    def doubted(threshold):
        problem = bf.Problem([[1.0]], [threshold], parameter_radius=1.0)
        posterior = posterior_at(problem, [0.2], [2.0], [10_000])
        return bf.Alternative(problem, 0), posterior

    sd = math.sqrt(1 / 10_001)

    def log_between(low, high, mean):
        far, near = stats.norm.logcdf(low, mean, sd), stats.norm.logcdf(high, mean, sd)
        return near + math.log1p(-math.exp(far - near))

    def log_share(mean):
        return log_between(0.9999, 1.0, mean) - log_between(-1.0, 1.0, mean)

    alternative, posterior = doubted(0.9999)  # which about two thirds of the posterior exceed
    estimate = alternative.log_probability(posterior)
    assert agrees(estimate.value, log_share(2.0), estimate.standard_error)
    assert not agrees(estimate.value, log_share(1.7), estimate.standard_error)
    assert estimate.lower <= log_share(2.0) <= estimate.upper
    alternative, posterior = doubted(0.999)
    draws = alternative.sample(posterior, 5000).theta_cost.values.ravel()
    assert draws.max() <= 1.0
    assert draws.min() > 0.999

    def p_value(mean):
        survival = np.exp(stats.norm.logcdf(draws, mean, sd) - stats.norm.logcdf(1.0, mean, sd))
        floor = math.exp(stats.norm.logcdf(0.999, mean, sd) - stats.norm.logcdf(1.0, mean, sd))
        return stats.kstest((survival - floor) / (1 - floor), "uniform").pvalue

    assert p_value(2.0) > 1e-5 > p_value(2.1)


@pytest.mark.parametrize("features", [10, 20, pytest.param(50, marks=pytest.mark.slow)])
def test_a_small_ball_in_many_features(features):
    """Before any pull the squared norm given the ball has a truncated chi-square law."""
    instance = bf.instances.random_ball(features, 20, 0)
    problem = bf.Problem(instance.problem.arms, [0.5], parameter_radius=1.0)
    posterior = bf.Posterior(problem)
    square = np.sum(posterior.sample(4000, seed=1).theta_reward.values ** 2, axis=-1).ravel()

    def p_value(freedom):
        uniform = np.exp(stats.chi2.logcdf(square, freedom) - stats.chi2.logcdf(1.0, freedom))
        return stats.kstest(uniform, "uniform").pvalue

    assert p_value(features) > 1e-5 > p_value(1.2 * features)
    alternative = bf.Alternative(problem, 0)
    draws = alternative.sample(posterior, 500)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    # Plain posterior draws within the ball tell the same probability.
    plain = posterior.sample(20_000, seed=2)
    truth, sampling = counted(alternative.contains(plain.theta_reward, plain.theta_cost))
    estimate = alternative.log_probability(posterior)
    error = math.hypot(sampling, estimate.standard_error)
    assert agrees(estimate.value, truth, error, 3)
    # the control: with every overlap counted in each of its events
    assert not agrees(special.logsumexp(estimate.log_probabilities), truth, error, 3)


def test_badly_scaled_features_within_a_ball():
    # Precisions of 2e17 beside 1: the small one is what the draws along feature 1 depend on.
    problem = bf.Problem([[1e6, 0.0], [1e6, 1e-3]], [0.5], parameter_radius=1.0)
    posterior = bf.Posterior.from_sums(problem, [10**5, 10**5], [1.0, 1.0], [[1.0], [1.0]])
    draws = posterior.sample(20_000, seed=1).theta_reward.values[0, :, 1]
    # V of feature 1 given feature 0 is 1 + 1e-6 · 1e5 / 2, a normal cut off at ±1.
    sd = 1 / math.sqrt(1 + 0.05)
    cut, uncut = stats.truncnorm(-1 / sd, 1 / sd, scale=sd), stats.norm(scale=sd)
    assert stats.kstest(draws, cut.cdf).pvalue > 1e-5 > stats.kstest(draws, uncut.cdf).pvalue
    alternative = bf.Alternative(problem, 0)
    estimate = alternative.log_probability(posterior)
    assert agrees(estimate.value, math.log(0.5), estimate.standard_error)
    assert estimate.standard_error < 0.02
    found = alternative.sample(posterior, 1000)
    assert alternative.contains(found.theta_reward, found.theta_cost).all()
