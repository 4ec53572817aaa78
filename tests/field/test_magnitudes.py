"""Numbers that overflow or underflow stay right or are refused."""

import math

import numpy as np
import pytest

import bayes_feasible as bf

DRUG = bf.Problem({"low": [1.0, 0.2], "high": [1.0, 0.9]}, {"dose": 0.5})


def scaled(length, noise):
    """The same rate in units of (length / noise)²: two of three arms can be told apart."""
    arms = length * np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    return bf.Instance(bf.Problem(arms, reward_noise=noise), [1.0, 0.0])


@pytest.mark.parametrize(
    ("length", "noise"),
    [(1, 1), (1e80, 1), (1e100, 1), (1e-80, 1), (1, 1e-100), (1, 1e100), (1e100, 1e-50)],
)
def test_a_rate_at_any_scale_is_right(length, noise):
    rate = bf.optimal_rate(scaled(length, noise))
    assert rate.value * (noise / length) ** 2 == pytest.approx(1 / 8, rel=1e-8)
    assert rate.gap <= 1e-8


@pytest.mark.parametrize(("length", "noise"), [(1e100, 1e-60), (1e-80, 1e80), (1e100, 1e-100)])
def test_a_rate_that_no_number_can_hold_is_refused(length, noise):
    with pytest.raises(ValueError, match="beyond double precision"):
        bf.optimal_rate(scaled(length, noise))
    with pytest.raises(ValueError, match="beyond double precision"):
        bf.exponents(scaled(length, noise), [0.2, 0.3, 0.5])


@pytest.mark.parametrize("size", [1e-80, 1e-30, 1.0, 1e30, 1e79])
def test_rewards_of_any_size_have_their_posterior(size):
    """The means of one arm of length 1 are half what one pull shows; log P is that of a normal."""
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], reward_noise=size)
    posterior = bf.Posterior.from_history(problem, [0, 1], [2 * size, -2 * size])
    np.testing.assert_allclose(posterior.theta_reward, [size, -size], rtol=1e-14)
    error = bf.Alternative(problem, 0).log_probability(posterior)
    # the difference of the rewards has mean 2 size, variance (1/2 + 1/2) size²
    assert error.value == pytest.approx(math.log(math.erfc(2 / math.sqrt(2)) / 2), rel=1e-12)


@pytest.mark.parametrize("distance", [1e3, 1e10, 1e60])
def test_far_tails_are_finite_logarithms(distance):
    """The log of a tail at h standard deviations is -h²/2 - log(h √(2π)) to first order."""
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]])
    posterior = bf.Posterior.from_history(problem, [0, 1], [distance, -distance])
    error = bf.Alternative(problem, 0).log_probability(posterior)
    expected = -(distance**2) / 2 - math.log(distance * math.sqrt(2 * math.pi))
    assert error.value == pytest.approx(expected, rel=1e-6)
    drawn = bf.Alternative(problem, 0).sample(posterior, 3).theta_reward.values[0]
    assert np.all(drawn[:, 1] >= drawn[:, 0])
    assert np.isfinite(drawn).all()


NAMES = ["BLFAIPS", "BestResponse", "Descent", "LinearThompson", "PlugIn", "TopTwo"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1e80, 1e-80])
def test_rules_survive_the_largest_and_the_smallest_rewards(name, size):
    rule = getattr(bf, name)(DRUG, seed=1)
    rule.tell([0, 1] * 20, [size, -size] * 20, [[size], [-size]] * 20)
    assert set(rule.ask(20).tolist()) <= {0, 1}
    assert not math.isnan(rule.recommend().log_error)
    assert np.isfinite(rule._state.candidate_means).all()
