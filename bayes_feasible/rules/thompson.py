"""Constrained linear Thompson sampling: pull the best feasible candidate of a posterior draw.

Agrawal and Goyal, Thompson sampling for contextual bandits with linear payoffs, ICML 2013; here
with the constraints.
"""

from typing import Any

import numpy as np
from numba import njit

from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import draw_posterior, drawn_best
from bayes_feasible.rules.engine import NOBODY
from bayes_feasible.rules.selection import pull_for
from bayes_feasible.simulation.world import pull


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The best feasible candidate of one posterior draw."""
    state.clock[0] += 1
    draw_posterior(geo, state, work, rng)
    candidate = drawn_best(geo, state, work.draw)
    if candidate == NOBODY:
        candidate = int(rng.random() * len(geo.candidates))
    return pull_for(geo, state, work, candidate)


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


class LinearThompson(Rule):
    """Constrained linear Thompson sampling: the best feasible candidate of a posterior draw.

    Where the arms are not the candidates, the arm that lowers that candidate's variance most.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.LinearThompson(bf.instances.end_of_optimism(alpha=0.3).problem, seed=0).ask(4).tolist()
    [1, 1, 3, 1]
    """

    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def _configure(self, problem: Problem | Instance) -> Any:
        return ()
