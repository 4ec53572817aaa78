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


CASES = [
    (name, case)
    for case in ("m=1", "m=3", "X!=Z", "d>K")
    for name in (WITH_OPTIMAL_SHARE if case in ("m=1", "m=3") else CONSTRAINED)
] + [(name, "m=0") for name in UNCONSTRAINED]
INSTANCES = {
    "m=0": random_instance(3, 6, 0),
    "m=1": random_instance(2, 5, 1),
    "m=3": random_instance(4, 7, 3),
    "X!=Z": random_instance(3, 4, 2, others=6),
    "d>K": random_instance(8, 4, 1),
}


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
