"""Posteriors on which samplers are tried: an error as rare as one likes, of three shapes."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.study.curves import posterior_at_truth, whole_pulls
from bayes_feasible.instance import Instance
from bayes_feasible.instances import random_ball
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import optimal_rate

KINDS = {
    "a": "one dominating event, d = 2",
    "b": "four comparable events, d = 2",
    "c": "six or more comparable events, d = 10, K = 20",
}
LOG_PROBABILITIES = (-4.0, -40.0, -400.0)
TOLERANCE = 0.02  # how far from the goal a target may be, relative to it
NEAR = 0.1  # distance from the truth to an event, in units of the parameters
FAR = 0.25
BALL_SEED = 2
MOST_PULLS = 2**40


def target(kind: str, log_probability: float = -40.0) -> tuple[Posterior, Alternative]:
    """A posterior whose mean is the truth, with an error of the given log-probability.

    The kind is the shape of the alternative set: "a" one dominating event in two dimensions; "b"
    four events of the same probability in two dimensions, in four different directions; "c" 20 arms
    in 10 dimensions, pulled in the shares of the optimal rate, which make the hardest mistakes
    equally hard. The natural logarithm of the probability that the best candidate is not the best
    is at most -2; the number of pulls is the smallest that makes it this rare.

    >>> posterior, alternative = target("b", -40)
    >>> print(f"{alternative.log_probability(posterior).value:.1f}")
    -40.0
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    goal = float(_check.numbers("log_probability", log_probability))
    if goal > -2:
        raise ValueError(f"log_probability: expected at most -2, got {goal:g}")
    instance, shares = _instance(kind)
    alternative = Alternative(instance.problem, instance.best)

    def posterior(pulls: int) -> Posterior:
        return posterior_at_truth(instance, np.maximum(whole_pulls(shares, pulls), 1))

    def rare_enough(pulls: int) -> bool:
        return alternative.log_probability(posterior(pulls)).value <= goal

    found = posterior(_smallest(rare_enough, shares.size))
    value = alternative.log_probability(found).value
    if abs(value - goal) > TOLERANCE * abs(goal):
        raise ValueError(f"log_probability: no number of pulls gives {goal:g}, got {value:g}")
    return found, alternative


@cache
def _instance(kind: str) -> tuple[Instance, Array]:
    """The instance, and the shares in which its arms are pulled."""
    if kind == "c":
        instance = random_ball(10, 20, BALL_SEED)
        return instance, optimal_rate(instance).allocation.values
    own = [1.0, 0.0]
    if kind == "a":  # one rival is near; the other and the threshold 2.5 times as far
        limit, rivals = FAR, {"near": _rival(NEAR, 1), "far": _rival(FAR, -1)}
    else:  # two rivals of lower reward, one too dear, and the threshold: all at the same distance
        dear = [(1.0 + NEAR) / (1.0 - NEAR), 0.0]
        limit, rivals = NEAR, {"left": _rival(NEAR, 1), "right": _rival(NEAR, -1), "dear": dear}
    problem = Problem(np.eye(2), 1.0 + limit, candidates={"own": own, **rivals})
    return Instance(problem, own, own), np.full(2, 0.5)


def _rival(distance: float, side: int) -> list[float]:
    """A candidate that overtakes (1, 0) where the reward (1, 0) moves by the distance."""
    length = 0.5
    return [1.0 - length * distance, side * length * math.sqrt(1.0 - distance**2)]


def _smallest(holds: Callable[[int], bool], least: int) -> int:
    """The smallest whole number from `least` on for which something monotone holds."""
    high = least
    while not holds(high):
        high *= 2
        if high > MOST_PULLS:
            raise ValueError(f"log_probability: not reached with {MOST_PULLS} pulls")
    return bisect_left(range(high), True, max(least, high // 2 + 1), high, key=holds)
