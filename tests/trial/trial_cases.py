"""Trials that the tests of this folder share."""

import numpy as np

import bayes_feasible as bf

DRUG = bf.Problem(
    {"placebo": [1, 0], "10 mg": [1, 0.5], "20 mg": [1, 1]},
    thresholds={"toxicity": 0.5},
    reward_noise=0.3,
    cost_noise=0.1,
)
PATIENTS = [
    ("20 mg", 1.31, 0.92),
    ("placebo", 0.05, 0.01),
    ("10 mg", 0.61, 0.35),
    ("20 mg", 0.84, 0.81),
    ("10 mg", 0.40, 0.42),
    ("placebo", -0.21, 0.07),
]
TWO_LIMITS = bf.Problem(
    [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]],
    {"price": 0.4, "weight": 0.6},
    candidates=[[0.5, 0.2], [0.3, 0.9], [0.0, 0.4], [0.8, 0.8]],
    cost_noise=[0.5, 2.0],
)


def world(problem, seed=0):
    """Rewards and costs that nobody could have foreseen, one pull at a time."""
    rng = np.random.default_rng(seed)

    def pull(arms):
        size = np.size(arms)
        return rng.normal(size=size), rng.normal(size=(size, problem.thresholds.size))

    return pull
