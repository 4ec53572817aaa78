r"""LinGapE: pull what tells the leader from the rival that may still be furthest ahead.

L. Xu, J. Honda and M. Sugiyama, A fully adaptive algorithm for pure exploration in linear
bandits, AISTATS 2018. Here it runs to the horizon, and an event counts as excluded as far as its
most clearly violated half-space is.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from bayes_feasible import _check
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.descent import add_event, whiten_arms, whiten_event
from bayes_feasible.rules.draws import bound_events, bound_feasible
from bayes_feasible.rules.engine import NOBODY, mean_best
from bayes_feasible.rules.selection import lowest
from bayes_feasible.simulation.world import pull


class Options(NamedTuple):
    """What a round depends on."""

    start: float  # 2 log(K² / delta)


@njit(**BORROWER)
def width_of(start, geo, state):
    """Standard deviations of a confidence bound: its square grows as `log det V`."""
    square = start
    for i in range(geo.arms.shape[1]):
        square -= 2.0 * math.log(state.lower[i, i] / geo.prior[i, i])
    return math.sqrt(square)


@njit(**BORROWER)
def spread_of(geo, state, work, leader, event, b):
    """Posterior standard deviation of a half-space's direction, over the noise."""
    if b == 0:
        return math.sqrt(work.distance[event - geo.limits.size])
    z = leader if event < geo.limits.size else event - geo.limits.size
    return math.sqrt(state.variances[geo.place[b] * len(geo.candidates) + z])


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The pull that tells most of the half-space that should exclude the likeliest mistake."""
    state.clock[0] += 1
    leader = mean_best(state.candidate_means, geo.limits)
    if leader == NOBODY:
        bound_feasible(geo, state, work)
    else:
        bound_events(geo, state, work, leader, 1.0)
    width = width_of(options.start, geo, state)
    event, block, least = NOBODY, 0, np.inf
    for e in range(len(work.bounds)):
        excluded, by = -np.inf, 0
        for b in range(geo.noise.size):
            bound = work.bounds[e, b]
            if bound == np.inf:
                excluded = np.inf
            elif bound > -np.inf:
                value = (bound - width) * spread_of(geo, state, work, leader, e, b)
                if value > excluded:
                    excluded, by = value, b
        if -np.inf < excluded < least:
            event, block, least = e, by, excluded
    for arm in range(len(geo.arms)):
        work.loss[arm] = 0.0
    if event != NOBODY:
        whiten_arms(geo, state, work, block)
        if whiten_event(geo, state, work, leader, event, block):
            add_event(geo, work, 1.0)
    return lowest(work.loss, work.allowed)


@njit(**DOOR)
def ask(options, memory, geo, state, work, rng):
    """One step."""
    return choose(options, memory, geo, state, work, rng)


@njit(**DOOR)
def run(options, memory, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose(options, memory, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


class LinGapE(Rule):
    r"""LinGapE: pull what tells the leader from the rival that may still be furthest ahead.

    The leader is the best feasible candidate of the means, the rival the one of the largest upper
    bound on its lead, and the arm the one that lowers the variance of their difference most (the
    greedy choice of the paper). With constraints a mistake is excluded by its most clearly violated
    half-space, and that is the one that is measured.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    delta : float
        The width of the bounds is :math:`\sqrt{2 \log(K^2 / \delta) + \log \det V}` standard
        deviations.

    References
    ----------
    Xu, Honda and Sugiyama, AISTATS 2018.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.LinGapE(bf.instances.soare(2).problem)
    >>> rule.tell([0, 1, 2], [2.1, 0.1, 1.9])
    >>> rule.ask()
    1
    """

    settings: ClassVar[tuple[str, ...]] = ("delta",)
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        delta: float = 0.05,
        recommendation: str = "mean",
    ) -> None:
        self.delta = _check.positive("delta", delta)
        if self.delta >= 1:
            raise ValueError(f"delta: expected a number between 0 and 1, got {delta!r}")
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        candidates = len(self.problem.candidates)
        return Options(2.0 * math.log(candidates**2 / self.delta))
