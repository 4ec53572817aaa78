"""Draws from the alternative set against rejection and exact laws."""

import math

import arviz as az
import numpy as np
import pytest
from cases import CASES, three_comparable
from helpers import (
    blocks,
    closed_form,
    gaussian_draws,
    in_balls,
    membership,
    posterior_at,
    same_law,
)
from scipy import special, stats

import bayes_feasible as bf


@pytest.mark.parametrize("name", CASES)
def test_draws_follow_the_conditional_law(name, reference):
    """Total false-alarm rate 1e-4 a case."""
    posterior, alternative, draws, events = reference(name)
    found = alternative.sample(posterior, 20_000, seed=11)
    assert alternative.contains(found.theta_reward, found.theta_cost).all()
    assert in_balls(posterior.problem, blocks(found)).all()
    assert same_law(alternative, blocks(found), draws[events.any(axis=1)])
    chosen = np.take_along_axis(membership(alternative, blocks(found)), found.event.values.T, 1)
    assert chosen.all()


@pytest.mark.parametrize("name", ["three_comparable", "no_constraint", "eoo_early"])
def test_a_sampler_that_forgets_the_overlaps_is_caught(name, reference):
    """Without acceptance 1/N a draw in N events is N times too frequent."""
    _, alternative, draws, events = reference(name)
    count = events.sum(axis=1)
    kept = np.random.default_rng(0).random(len(count)) * count.max() < count
    wrong = draws[kept][:20_000]
    right = draws[count > 0]
    right = right[len(right) // 2 :]
    assert not same_law(alternative, wrong, right)


def test_something_is_certainly_wrong():
    # The zero vector costs 0, more than the threshold, whatever the parameter.
    problem = bf.Problem(np.eye(2), [-0.5], candidates=[[0.0, 0.0], [1.0, 0.0]])
    posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
    estimate = alternative.log_probability(posterior)
    assert (estimate.value, estimate.lower, estimate.upper) == (0, 0, 0)
    draws = alternative.sample(posterior, 20_000)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    plain = gaussian_draws(posterior, 100_000, 1)
    assert same_law(alternative, blocks(draws), plain)
    # the control: draws in the rival's event, which is not certain
    rival = plain[membership(alternative, plain)[:, 1]][:20_000]
    assert not same_law(alternative, rival, plain)


@pytest.mark.parametrize("name", ["eoo_early", "no_constraint", "one_infinite_threshold"])
@pytest.mark.parametrize("scale", [0.3, 7.0])
def test_scale_inflates_the_covariance(name, scale):
    posterior, candidate = CASES[name]
    p = posterior.problem
    louder = bf.Problem(
        p.arms, p.thresholds, reward_noise=p.reward_noise * math.sqrt(scale),
        cost_noise=p.cost_noise * math.sqrt(scale),
    )  # fmt: skip
    sums = posterior.counts, posterior.reward_sums, posterior.cost_sums
    other = bf.Posterior.from_sums(louder, *sums)
    left = bf.Alternative(p, candidate).log_probability(posterior, seed=3, scale=scale)
    right = bf.Alternative(louder, candidate).log_probability(other, seed=3)
    assert left.value == pytest.approx(right.value, abs=1e-12)
    assert left.lower == pytest.approx(right.lower, abs=1e-12)
    one = bf.Alternative(p, candidate).sample(posterior, 50, seed=4, scale=scale)
    two = bf.Alternative(louder, candidate).sample(other, 50, seed=4)
    np.testing.assert_allclose(one.theta_reward, two.theta_reward, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("log_probability", [-40, -400, -1e4, -1e6])
@pytest.mark.parametrize("constraints", [0, 1])
def test_far_draws_lie_inside_and_follow_the_exact_law(log_probability, constraints):
    arms = np.array([[1.0, 0.2], [0.4, 1.0]])
    problem = bf.Problem(arms, np.full(constraints, 0.5), reward_noise=0.7, cost_noise=0.7)
    counts = np.array([40_000, 20_000])
    covariance = np.linalg.inv(np.eye(2) + arms.T @ (counts[:, np.newaxis] * arms))
    far = math.sqrt(-2 * log_probability)
    direction = arms[1] - arms[0] if constraints == 0 else arms[0]
    sd = 0.7 * math.sqrt(direction @ covariance @ direction)
    if constraints == 0:
        reward, cost, limit = np.linalg.solve(arms, [far * sd, 0.0]), np.zeros((0, 2)), 0.0
    else:  # the rival is far more expensive than allowed, so its event is negligible
        reward = np.linalg.solve(arms, [1.0, 0.0])
        cost, limit = np.linalg.solve(arms, [0.5 - far * sd, 0.5 + 40 * far * sd]), 0.5
    posterior = posterior_at(problem, reward, cost, counts)
    alternative = bf.Alternative(problem, 0)
    draws = alternative.sample(posterior, 20_000, seed=7)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    theta = blocks(draws)[:, constraints]
    mean, _ = closed_form(posterior)
    bound = (limit - direction @ mean[constraints]) / sd
    excess = (theta @ direction - limit) / sd

    def p_value(bound):
        # P(excess > e) = e^{-e (bound + e/2)} erfcx((bound + e)/√2) / erfcx(bound/√2)
        scaled = special.erfcx((bound + excess) / math.sqrt(2))
        scaled /= special.erfcx(bound / math.sqrt(2))
        return stats.kstest(np.exp(-excess * (bound + excess / 2)) * scaled, "uniform").pvalue

    assert p_value(bound) > 1e-5 > p_value(1.1 * bound)
    # Across the constrained direction the posterior is as it was.
    across = theta - np.outer(theta @ direction, covariance @ direction) / (
        direction @ covariance @ direction
    )
    other = np.array([-direction[1], direction[0]])
    slope = (other @ covariance @ direction) / (direction @ covariance @ direction)
    rest = 0.7 * math.sqrt(other @ covariance @ other - slope * (other @ covariance @ direction))
    at = other @ mean[constraints] - slope * (direction @ mean[constraints])
    assert stats.kstest((across @ other - at) / rest, "norm").pvalue > 1e-5
    assert stats.kstest((across @ other - at) / (1.1 * rest), "norm").pvalue < 1e-5


def test_draws_are_independent():
    posterior, candidate = three_comparable()
    alternative = bf.Alternative(posterior.problem, candidate)
    draws = alternative.sample(posterior, 5000, seed=1, chains=4)
    values = draws.theta_reward.values - draws.theta_reward.values.mean(axis=1, keepdims=True)

    def lagged(chains):
        products = np.sum(chains[:, 1:] * chains[:, :-1], axis=(0, 1))
        return np.abs(products / np.sum(chains**2, axis=(0, 1))).max()

    allowed = stats.norm.isf(1e-5 / 4) / math.sqrt(20_000)
    tied = values[:, 1:] + 0.1 * values[:, :-1]  # each a tenth of the one before
    assert lagged(values) < allowed < lagged(tied)
    assert az.ess(draws[["theta_reward", "theta_cost"]]).to_array().min() > 18_000
    assert min(az.ess(tied[..., feature]) for feature in range(2)) < 18_000
    assert float(az.rhat(draws[["theta_reward"]]).theta_reward.max()) < 1.01
    apart = values[..., 0] + [[0.5 * values.std()], [0.0], [0.0], [0.0]]  # one chain of four
    assert float(az.rhat(apart)) > 1.01


@pytest.mark.parametrize("name", ["two_constraints", "two constraints"])  # the latter bounded
def test_the_same_seed_gives_the_same_bits(name):
    posterior, candidate = CASES[name]
    alternative = bf.Alternative(posterior.problem, candidate)
    one = alternative.sample(posterior, 100, seed=5, chains=2)
    assert one.identical(alternative.sample(posterior, 100, seed=5, chains=2))
    assert one.identical(alternative.sample(posterior, 100, np.random.default_rng(5), chains=2))
    assert not one.equals(alternative.sample(posterior, 100, seed=6, chains=2))
    left = alternative.log_probability(posterior, seed=5)
    assert left.value == alternative.log_probability(posterior, seed=5).value
    assert left.value != alternative.log_probability(posterior, seed=6).value


@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("radius", [None, 0.9])
def test_noise_of_any_size(size, radius):
    """In units of the noise nothing changes, so draws and probabilities only scale."""
    results = []
    for unit in (1.0, size):
        problem = bf.Problem(
            [[1.0, 0.0], [0.0, 1.0], [0.6, 0.7]],
            [0.5 * unit],
            reward_noise=unit,
            cost_noise=unit,
            parameter_radius=None if radius is None else radius * unit,
        )
        theta = np.array([[0.4, 0.1], [0.2, 0.3]]) * unit
        posterior = posterior_at(problem, theta[0], theta[1], [9, 7, 3])
        alternative = bf.Alternative(problem, 0)
        draws = alternative.sample(posterior, 2000, seed=1)
        assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
        estimate = alternative.log_probability(posterior, seed=1)
        results.append((estimate.value, estimate.lower, estimate.upper, blocks(draws) / unit))
    np.testing.assert_allclose(results[0][:3], results[1][:3], rtol=1e-6)
    np.testing.assert_allclose(results[0][3], results[1][3], rtol=1e-6, atol=1e-9)


def test_draws_beyond_badly_scaled_arms_in_few_of_many_features():
    rng = np.random.default_rng(8)
    arms = rng.standard_normal((3, 6)) * 10.0 ** np.linspace(-4, 4, 6)
    problem = bf.Problem(arms, [0.3], reward_noise=1e-3, cost_noise=1e-3)
    posterior = bf.Posterior.from_sums(
        problem, [10**6, 10**4, 10**5], [10**6, 10**3, 10**4], [[1e5], [1e3], [1e4]]
    )
    alternative = bf.Alternative(problem, 0)
    assert alternative.log_probability(posterior).value < -1000
    draws = alternative.sample(posterior, 5000)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
