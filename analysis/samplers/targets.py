"""Posteriors on which samplers are tried: an error as rare as one likes, of many shapes.

`target` makes one of three shapes. `TARGETS` is the public set, by name: these at three rarities,
and harder ones.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

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
    return _contract(*_instance(kind), goal)


def _contract(instance: Instance, shares: Array, goal: float) -> tuple[Posterior, Alternative]:
    """The posterior at the truth after as many pulls as make the error so rare."""
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


class Entry(NamedTuple):
    """A target of the public set."""

    title: str
    keywords: tuple[str, ...]
    build: Callable[[], tuple[Posterior, Alternative]]


def named(name: str) -> tuple[Posterior, Alternative]:
    """The posterior and the alternative set of a target of the public set.

    >>> posterior, alternative = named("corner")
    >>> alternative.events.limits.shape  # (event, half-space): all four bind
    (4, 4)
    """
    if name not in TARGETS:
        raise ValueError(_check.unknown("target", name, TARGETS))
    return _built(name)


@cache
def _built(name: str) -> tuple[Posterior, Alternative]:
    return TARGETS[name].build()


def _axes(features: int, goal: float) -> tuple[Posterior, Alternative]:
    """Each other axis is a rival, all as near: as many modes, in as many directions."""
    truth = np.full(features, 1.0 - NEAR)
    truth[0] = 1.0
    instance = Instance(Problem(np.eye(features)), truth)
    return _contract(instance, np.full(features, 1.0 / features), goal)


def _ball(features: int, arms: int, seed: int, goal: float) -> tuple[Posterior, Alternative]:
    instance = random_ball(features, arms, seed)
    return _contract(instance, optimal_rate(instance).allocation.values, goal)


def _corner(goal: float) -> tuple[Posterior, Alternative]:
    """One rival, better only if its reward is higher and its three costs are all lower."""
    costs = [[1.0, 1.0 + NEAR]] * 3
    problem = Problem(np.eye(2), [1.0 + NEAR / 2, 1.0 + NEAR / 2, 1.0 + NEAR / 2])
    own = [[1.0 - 10 * NEAR, cost[1]] for cost in costs]
    return _contract(Instance(problem, [1.0, 1.0 - NEAR], own), np.full(2, 0.5), goal)


def _duplicates(goal: float) -> tuple[Posterior, Alternative]:
    """Ten rivals in nearly one direction: who enters one event enters most of them."""
    angles = np.linspace(-0.05, 0.05, 10)
    rivals = np.column_stack([1.0 - NEAR - 0.01 * np.abs(angles), 0.5 + 0.5 * angles])
    candidates = np.vstack([[1.0, 0.0], rivals])
    problem = Problem(np.eye(2), candidates=candidates)
    return _contract(Instance(problem, [1.0, 0.0]), np.full(2, 0.5), goal)


def _thin(goal: float) -> tuple[Posterior, Alternative]:
    """Variances a million apart, and edges oblique to them: a wedge as thin as a needle."""
    _, wrong = target("b", -4)
    own = wrong.problem.candidates[wrong.candidate]
    instance = Instance(wrong.problem, own, own)
    return _contract(instance, np.array([1.0 - 1e-6, 1e-6]), goal)


def _bounded() -> tuple[Posterior, Alternative]:
    """The four events within balls that cut off most of what they leave."""
    free, wrong = target("b", -4)
    problem = Problem(
        wrong.problem.arms, wrong.problem.thresholds, candidates=wrong.problem.candidates,
        parameter_radius=1.0 + 2 * NEAR,
    )  # fmt: skip
    truth = wrong.problem.candidates[wrong.candidate]
    posterior = posterior_at_truth(Instance(problem, truth, truth), free.counts)
    return posterior, Alternative(problem, wrong.candidate)


SHAPES = {"a": "one_event", "b": "four_events", "c": "ball_10_20"}
TARGETS: dict[str, Entry] = {
    f"{name}_{-goal:.0f}": Entry(
        f"{KINDS[kind][0].upper()}{KINDS[kind][1:]}, log P = {goal:g}",
        ("many modes",) if kind != "a" else (), partial(target, kind, goal),
    )
    for kind, name in SHAPES.items()
    for goal in (*LOG_PROBABILITIES, *((-10_000.0,) if kind != "c" else ()))
} | {
    "axes_20_40": Entry("19 rivals in 19 directions, d = 20", ("many modes", "high dimension"),
                        partial(_axes, 20, -40.0)),
    "axes_50_400": Entry("49 rivals in 49 directions, d = 50", ("many modes", "high dimension"),
                         partial(_axes, 50, -400.0)),
    "ball_5_50": Entry("Random arms, d = 5, K = 50", ("many modes",),
                       partial(_ball, 5, 50, 1, -40.0)),
    "ball_20_20": Entry("Random arms, d = 20, K = 20", ("high dimension",),
                        partial(_ball, 20, 20, 1, -40.0)),
    "ball_50_50": Entry("Random arms, d = 50, K = 50", ("high dimension",),
                        partial(_ball, 50, 50, 1, -100.0)),
    "corner": Entry("Four half-spaces at once, in four blocks", ("corner",),
                    partial(_corner, -40.0)),
    "duplicates": Entry("Ten nearly equal rivals", ("overlaps",), partial(_duplicates, -40.0)),
    "thin": Entry("Variances a million apart", ("thin",), partial(_thin, -40.0)),
    "bounded": Entry("Four events within a ball", ("bounded", "many modes"), _bounded),
}  # fmt: skip
