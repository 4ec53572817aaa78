"""Rules and instances that the tests of rules share."""

from functools import partial

import numpy as np
from helpers import RULES
from numpy.testing import assert_array_equal

import bayes_feasible as bf
from bayes_feasible.simulation.world import Environment

FALSE_ALARM = 1e-6  # of each comparison with frequencies

CONSTRAINED = RULES | {"Oracle": bf.Oracle, "Uniform": bf.Uniform}
WITH_OPTIMAL_SHARE = CONSTRAINED | {"TopTwo optimal": partial(bf.TopTwo, beta="optimal")}
UNCONSTRAINED = WITH_OPTIMAL_SHARE | {
    "PEPS": bf.PEPS,
    "PEPS horizon": partial(bf.PEPS, horizon=300),
    "PEPS keep data": partial(bf.PEPS, keep_data=True),
    "PEPS hedge": partial(bf.PEPS, horizon=300, learner="hedge", eta=0.5),
}


def random_instance(features, arms, constraints, *, others=None, seed=0, infinite=False):
    """A random instance with some candidate feasible; the truth and the arms are in the unit ball.

    With `infinite` the thresholds are infinite, and everything else as without constraints.
    """
    for attempt in range(1000):
        rng = np.random.default_rng([seed, features, arms, attempt])
        vectors = rng.standard_normal((arms, features))
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1.0)
        candidates = None
        if others is not None:
            candidates = rng.standard_normal((others, arms)) @ vectors / np.sqrt(arms)
        reward = rng.standard_normal(features) / np.sqrt(features)
        cost = rng.standard_normal((constraints, features)) / np.sqrt(features)
        problem = bf.Problem(
            vectors, [np.inf if infinite else 0.3] * constraints, candidates=candidates,
            reward_noise=0.8, cost_noise=0.6,
        )  # fmt: skip
        instance = bf.Instance(problem, reward, cost)
        if instance.best is not None:
            return instance
    raise AssertionError("no feasible instance")


def mixed_instance():
    """Every kind of outcome, priors, limits of both sorts, and more features than arms."""
    rng = np.random.default_rng(8)
    arms = np.hstack([np.ones((4, 1)), rng.uniform(-1, 1, (4, 4))])
    spread = rng.standard_normal((5, 7))
    problem = bf.Problem(
        arms,
        {"delay": 1.6, "harm": bf.Relative(2, 1.5), "calls": 1.2, "price": 2.0},
        reward=bf.Bernoulli(prior=bf.Prior(mean=[-0.5, 0, 0, 0, 0], sd=[2.0, 1, 1, 1, 1])),
        costs={
            "delay": bf.Gaussian(noise_prior=(2.0, 1.0)),
            "harm": bf.Bernoulli(),
            "calls": bf.Poisson(prior=bf.Prior(covariance=spread @ spread.T / 7)),
            "price": bf.Gaussian(0.5, prior=bf.Prior(mean=1.0, sd=2.0)),
        },
    )
    truth = [
        [1.2, 0.2, 0.1, 0, 0.3],
        [-1.0, 0.4, 0, 0, 0],
        [-0.3, 0.5, 0, 0.2, 0],
        [1.5, 0, 1, 0, 0],
    ]
    return bf.Instance(
        problem,
        [0.2, 1.0, -1.0, 0.5, 0.0],
        truth,
        cost_noise={"delay": 0.7, "harm": 1.0, "calls": 1.0, "price": 0.5},
    )


def learnt_instance():
    """Noise learnt in the reward and the cost; candidates that are no arms."""
    plain = random_instance(3, 4, 1, others=6)
    problem = bf.Problem(
        plain.problem.arms, 0.3, candidates=plain.problem.candidates,
        reward=bf.Gaussian(), costs=bf.Gaussian(noise_prior=(3.0, 1.0)),
    )  # fmt: skip
    return bf.Instance(problem, plain.theta_reward, plain.theta_cost, cost_noise=0.6)


CASES = [
    (name, case)
    for case in ("m=1", "m=3", "X!=Z", "d>K", "mixed", "learnt")
    for name in (WITH_OPTIMAL_SHARE if case in ("m=1", "m=3") else CONSTRAINED)
] + [(name, "m=0") for name in UNCONSTRAINED]
INSTANCES = {
    "m=0": random_instance(3, 6, 0),
    "m=1": random_instance(2, 5, 1),
    "m=3": random_instance(4, 7, 3),
    "X!=Z": random_instance(3, 4, 2, others=6),
    "d>K": random_instance(8, 4, 1),
    "mixed": mixed_instance(),
    "learnt": learnt_instance(),
}


TEXTBOOK = [name for name, instance in INSTANCES.items() if instance.problem.textbook]


def maker(name):
    return UNCONSTRAINED[name]


def environment(instance, seed=1):
    return Environment(instance, *np.random.SeedSequence(seed).spawn(2))


def drive(rule, world, rounds):
    """Ask and tell so many times; the arms."""
    arms = []
    for _ in range(rounds):
        arm = rule.ask()
        rule.tell(arm, *world.pull(arm))
        arms.append(arm)
    return arms


def assert_same_state(left, right):
    arrays = right._arrays()
    for name, value in left._arrays().items():
        assert_array_equal(value, arrays[name], err_msg=name)
    for generator in ("_rng", "_recommend_rng"):
        states = [getattr(rule, generator).bit_generator.state for rule in (left, right)]
        assert states[0] == states[1]


def agree(value, error):
    """Whether two independent estimates are within 6 standard errors: but for chance of 2e-9."""
    return abs(value - error.value) <= 6 * np.sqrt(2) * error.standard_error + 1e-12
