r"""FWS: Frank-Wolfe on the smallest exponent, smoothed by looking at all that are nearly so.

P.-A. Wang, R.-C. Tzeng and A. Proutiere, Fast pure exploration via Frank-Wolfe, NeurIPS 2021.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR, INNER
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import bound_events, bound_feasible
from bayes_feasible.rules.engine import NOBODY, mean_best
from bayes_feasible.rules.selection import separate, track
from bayes_feasible.simulation.world import pull

STEPS = 200  # of fictitious play in a round's game


class Memory(NamedTuple):
    """What tracking keeps."""

    lag: Array  # (arm,): how far behind its cumulative share each arm is


@njit(**BORROWER)
def is_due(rounds, arms):
    """Whether a round explores: the first `K`, and those with a square `rounds // K`."""
    root = int(math.sqrt(rounds // arms) + 0.5)
    return root * root == rounds // arms


@njit(**INNER)
def vertex(slopes, number, target, shares):
    """Shares that solve `max_z min_e <z - target, slope_e>`, by fictitious play."""
    arms = shares.size
    lead, value = np.zeros(arms), np.zeros(number)  # of each arm, and of each slope, so far
    event = 0
    shares[:] = 0.0
    for _ in range(STEPS if number > 1 else 1):
        best = 0
        for arm in range(arms):
            lead[arm] += slopes[event, arm]
            if lead[arm] > lead[best]:
                best = arm
        shares[best] += 1.0
        for e in range(number):
            value[e] += slopes[e, best]
            for arm in range(arms):
                value[e] -= target[arm] * slopes[e, arm]
        event = 0
        for e in range(number):
            if value[e] < value[event]:
                event = e
    total = shares.sum()
    for arm in range(arms):
        shares[arm] /= total


@njit(**INNER)
def aim(geo, state, work, leader, shares):
    """The vertex for the exponents within `r` of the smallest."""
    rounds, arms = float(state.clock[0]), len(geo.arms)
    events = len(work.bounds)
    least = np.inf
    for e in range(events):
        work.chance[e] = 0.0
        for b in range(geo.noise.size):
            work.chance[e] += 0.5 * max(work.bounds[e, b], 0.0) ** 2 / rounds
        least = min(least, work.chance[e])
    if least == np.inf:
        return
    slopes, number = np.zeros((events, arms)), 0
    for e in range(events):
        if work.chance[e] <= least + rounds**-0.9 / arms:
            separate(geo, state, work, leader, e)
            for arm in range(arms):
                slopes[number, arm] = -0.5 * work.loss[arm]
            number += 1
    target = np.zeros(arms)
    for arm in range(arms):
        target[arm] = state.counts[arm] / max(rounds - 1.0, 1.0)
    vertex(slopes, number, target, shares)


@njit(**INNER)
def choose(options, memory, geo, state, work, rng):
    """Track the vertices of Frank-Wolfe, and uniform shares now and then."""
    state.clock[0] += 1
    arms = len(geo.arms)
    shares = np.full(arms, 1.0 / arms)
    if not is_due(state.clock[0], arms):
        leader = mean_best(state.candidate_means, geo.limits)
        if leader == NOBODY:
            bound_feasible(geo, state, work)
        else:
            bound_events(geo, state, work, leader, 1.0)
        aim(geo, state, work, leader, shares)
    return track(memory.lag, shares, geo.design, 0.0, work.allowed)


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


class FWS(Rule):
    r"""FWS: Frank-Wolfe steps on the smallest exponent at the posterior means, tracked.

    The smallest exponent has kinks, so a step looks at the gradients of all exponents within
    :math:`r_t = t^{-0.9} / K` of it and solves the game :math:`\max_z \min_e \langle z - w,
    \nabla f_e \rangle` between arms and gradients (by fictitious play). It explores uniformly in
    the first :math:`K` rounds and whenever :math:`\lfloor t / K \rfloor` is a square.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.

    References
    ----------
    Wang, Tzeng and Proutiere, NeurIPS 2021.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.FWS(bf.instances.end_of_optimism().problem).ask(5).tolist()
    [0, 1, 2, 3, 4]
    """

    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def _configure(self, problem: Problem | Instance) -> Any:
        return ()

    def _remember(self) -> Any:
        return Memory(np.zeros(len(self.problem.arms)))
