"""Simulation-based calibration of every kind of posterior, with priors of their own."""

import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible.analysis.calibration.uniformity import band, counts_at

ARMS = {"a": [1.0, -1.0], "b": [1.0, 0.5], "c": [1.0, 1.5]}
CORRELATED = bf.Prior(mean=[0.3, -0.2], covariance=[[0.6, 0.25], [0.25, 0.4]])
SHIFTED = bf.Prior(mean=[-0.5, 0.4], sd=[0.8, 0.3])
OUTCOMES = {
    "known": bf.Gaussian(0.7, prior=CORRELATED),
    "learnt": bf.Gaussian(noise_prior=(3.0, 2.0), prior=CORRELATED),
    "0/1": bf.Bernoulli(prior=SHIFTED),
    "counts": bf.Poisson(prior=CORRELATED),
}
DRAWS = 99
FALSE_ALARM = 1e-4  # of each quantity


def problem_of(kind):
    if kind == "mixed":
        costs = {"delay": OUTCOMES["learnt"], "calls": OUTCOMES["counts"]}
        limits = {"delay": bf.Relative("a", 0.5), "calls": 2.0}
        return bf.Problem(ARMS, limits, reward=OUTCOMES["0/1"], costs=costs)
    return bf.Problem(ARMS, {"cost": bf.Relative("a", 1.3)}, reward=OUTCOMES[kind],
                      costs=OUTCOMES[kind])  # fmt: skip


def truth_of(problem, rng):
    """Parameters, and noise that is learnt, from their priors."""
    thetas, noise = [], []
    for outcome, (mean, covariance) in zip(problem.outcomes, problem.priors, strict=True):
        scale = 1.0
        if getattr(outcome, "learnt", False):
            shape, guess = outcome.noise_prior
            variance = guess / rng.standard_gamma(shape)
            scale = variance / (guess / shape)
            noise.append(np.sqrt(variance))
        else:
            noise.append(outcome.noise if outcome.kind == "gaussian" else 1.0)
        thetas.append(rng.multivariate_normal(mean, scale * covariance))
    return bf.Instance(problem, thetas[0], thetas[1:], reward_noise=noise[0], cost_noise=noise[1:])


def ranks(kind, experiments, miscount=1, seed=0):
    """Ranks of the true parameters and of two candidates' natural means among posterior draws."""
    problem, found = problem_of(kind), []
    for experiment in range(experiments):
        rng = np.random.default_rng([seed, experiment])
        truth = truth_of(problem, rng)
        arms = rng.integers(3, size=12)
        rewards, costs = truth.pull(arms, rng)
        costs[rng.random(costs.shape) < 0.2] = np.nan
        posterior = bf.Posterior(problem)
        for _ in range(miscount):
            posterior.update(arms, rewards, costs)
        drawn = posterior.sample(DRAWS, seed=rng)
        theta = np.concatenate(
            [drawn.theta_reward.values[0][:, np.newaxis], drawn.theta_cost.values[0]], axis=1
        )
        true = np.vstack([truth.theta_reward, truth.theta_cost])
        vectors = problem.candidates[[0, 2]]
        below = (theta @ vectors.T < true @ vectors.T).sum(axis=0)
        found.append(below.ravel())
    return np.array(found)


def is_uniform(found):
    limits = band(len(found), DRAWS, FALSE_ALARM)
    counts = counts_at(found, limits.ranks)
    return bool(np.all((counts >= limits.lower) & (counts <= limits.upper)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*OUTCOMES, "mixed"])
def test_ranks_of_the_truth_are_uniform(kind):
    assert is_uniform(ranks(kind, 500))
    assert not is_uniform(ranks(kind, 500, miscount=4))  # every pull counted four times


@pytest.mark.parametrize("kind", ["known", "learnt"])
def test_ranks_of_the_truth_are_uniform_in_short(kind):
    assert is_uniform(ranks(kind, 100))
    assert not is_uniform(ranks(kind, 100, miscount=8))
