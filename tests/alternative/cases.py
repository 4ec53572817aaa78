"""Posteriors and candidates whose alternative set is common enough for plain rejection."""

import numpy as np
from helpers import posterior_at

import bayes_feasible as bf


def eoo_early():
    instance = bf.instances.end_of_optimism(0.1)
    problem = instance.problem
    posterior = posterior_at(problem, instance.theta_reward, instance.theta_cost, [4, 2, 6, 3, 5])
    return posterior, 0


def three_comparable():
    turns = 2 * np.pi * np.arange(3) / 3
    rivals = np.column_stack([np.cos(turns), np.sin(turns)])
    problem = bf.Problem(np.vstack([[0.1, 0.0], rivals]), [0.8])
    return posterior_at(problem, [0.05, 0.0], [0.1, 0.2], [3, 5, 6, 4]), 0


def two_constraints():
    rng = np.random.default_rng(3)
    problem = bf.Problem(rng.standard_normal((6, 3)), [0.5, 1.0], cost_noise=[1.0, 0.5])
    theta = rng.standard_normal((3, 3)) / 2
    posterior = posterior_at(problem, theta[0], theta[1:], [3, 4, 5, 3, 4, 5])
    return posterior, posterior.best()


def other_candidates():
    rng = np.random.default_rng(4)
    arms, candidates = rng.standard_normal((4, 3)), rng.standard_normal((5, 3))
    problem = bf.Problem(arms, [0.3], candidates=candidates, reward_noise=2.0, cost_noise=0.7)
    return posterior_at(problem, [0.4, -0.2, 0.1], [0.2, 0.1, 0.3], [7, 9, 2, 5]), 1


def more_features_than_arms():
    rng = np.random.default_rng(5)
    arms = rng.standard_normal((3, 5))
    problem = bf.Problem(arms, [0.4])
    theta = rng.standard_normal((2, 3)) @ arms / 5
    return posterior_at(problem, theta[0], theta[1], [4, 3, 2]), 0


def no_constraint():
    rng = np.random.default_rng(6)
    problem = bf.Problem(rng.standard_normal((5, 2)))
    posterior = posterior_at(problem, [0.3, 0.5], np.zeros((0, 2)), [2, 3, 4, 5, 6])
    return posterior, posterior.best()


def one_infinite_threshold():
    rng = np.random.default_rng(7)
    problem = bf.Problem(rng.standard_normal((4, 2)), [np.inf, 0.6], cost_noise=[3.0, 1.0])
    theta = rng.standard_normal((3, 2)) / 2
    return posterior_at(problem, theta[0], theta[1:], [4, 2, 3, 5]), 3


def zero_and_twin_candidates():
    candidates = [[0.0, 0.0], [1.0, 0.3], [1.0, 0.3], [-0.2, 1.0], [0.5, 0.5]]
    problem = bf.Problem(np.eye(2), [0.5], candidates=candidates)
    return posterior_at(problem, [0.2, 0.3], [0.1, 0.4], [6, 8]), 1


def build(radius, *, features=2, arms=4, constraints=1, pulls=4, size=0.5, seed=0, **settings):
    """A random problem within balls, with a posterior whose mean has norm `size` in every block."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((arms, features))
    thresholds = settings.pop("thresholds", rng.uniform(0.2, 0.6, constraints))
    problem = bf.Problem(vectors, thresholds, parameter_radius=radius, **settings)
    theta = rng.standard_normal((1 + problem.thresholds.size, arms)) @ vectors
    theta *= size / np.linalg.norm(theta, axis=1, keepdims=True)
    posterior = posterior_at(problem, theta[0], theta[1:], np.full(arms, pulls))
    return posterior, int(rng.integers(arms))


FREE = {
    case.__name__: case()
    for case in (
        eoo_early,
        three_comparable,
        two_constraints,
        other_candidates,
        more_features_than_arms,
        no_constraint,
        one_infinite_threshold,
        zero_and_twin_candidates,
    )
}


HELD = {
    "inactive": build(50.0, seed=1),
    "reward": build((0.6, 50.0), seed=2),
    "cost": build((50.0, 0.6), seed=3),
    "both": build(0.6, seed=4),
    "mean outside": build((0.45, 0.4), size=0.6, pulls=3, seed=5),
    "reward only bounded": build((0.5, np.inf), seed=6),
    "cost only bounded": build((np.inf, 0.5), seed=7),
    "one feature": build(0.5, features=1, arms=3, seed=8),
    "five features": build((1.0, 0.8), features=5, arms=6, pulls=2, seed=9),
    "more features than arms": build(1.2, features=5, arms=3, seed=10),
    "two constraints": build((0.7, 0.9), constraints=2, cost_noise=[1.0, 0.5], seed=11),
    "no constraint": build(0.6, constraints=0, arms=5, seed=12),
    "infinite threshold": build(0.7, thresholds=[np.inf, 0.4], seed=13),
    "quiet": build((0.5, 0.5), reward_noise=0.3, cost_noise=0.2, pulls=1, seed=14),
}
CASES = FREE | HELD
