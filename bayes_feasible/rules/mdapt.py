"""MD-APT: pull the candidate whose feasibility is least clear.

J. Katz-Samuels and C. Scott, Feasible arm identification, ICML 2018; it extends APT, of A.
Locatelli, M. Gutzeit and A. Carpentier, ICML 2016, to several constraints.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import bound_feasible
from bayes_feasible.rules.engine import NOBODY
from bayes_feasible.rules.phases import require_arms_are_candidates
from bayes_feasible.rules.selection import pull_for
from bayes_feasible.simulation.world import pull


@njit(**BORROWER)
def clearness(bounds, event):
    """Standard deviations between a candidate and the border of what is feasible."""
    outside, inside = 0.0, np.inf
    for b in range(1, bounds.shape[1]):
        outside += max(bounds[event, b], 0.0) ** 2
        inside = min(inside, -bounds[event, b])
    return math.sqrt(outside) if outside > 0.0 else inside


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The candidate that is nearest to the border, in standard deviations; each one once first."""
    state.clock[0] += 1
    bound_feasible(geo, state, work)
    best, least = NOBODY, np.inf
    for z in range(len(geo.candidates)):
        clear = clearness(work.bounds, geo.limits.size + z) if state.counts[z] > 0 else -1.0
        if best == NOBODY or clear < least:
            best, least = z, clear
    return pull_for(geo, state, work, best)


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


class MDAPT(Rule):
    r"""MD-APT: pull the candidate whose feasibility is least clear.

    The index is :math:`\sqrt{N}` times the distance of the means to the border of what is
    feasible, in units of the noise: the least slack of a candidate that looks feasible, the length
    of the excesses of another. It sorts candidates into feasible and not, and looks at no reward;
    the recommendation does.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`. The arms are the candidates, and there is a constraint.

    References
    ----------
    Katz-Samuels and Scott, ICML 2018; Locatelli, Gutzeit and Carpentier, ICML 2016.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.MDAPT(bf.Problem([[1, 0], [0, 1]], thresholds=0.5))
    >>> rule.tell([0, 1], [1.0, 2.0], [0.4, 3.0])
    >>> rule.ask()
    0
    """

    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def _configure(self, problem: Problem | Instance) -> Any:
        require_arms_are_candidates(self)
        if not self._geometry.limits.size:
            raise ValueError("problem: MDAPT tells what is feasible, but there is no constraint")
        return ()
