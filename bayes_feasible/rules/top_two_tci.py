"""Top-Two TCI with constraints: the empirical best, or the cheapest challenger, at a coin's toss.

The challenger has the least transport cost plus logarithm of its number of pulls, which keeps it
from being pulled for ever. M. Jourdan, R. Degenne, D. Baudry, R. de Heide and E. Kaufmann, Top two
algorithms revisited, NeurIPS 2022; with constraints as T. Lardy, C. Katsimerou and W. M. Koolen,
2025.
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
from bayes_feasible.rules.draws import bound_events, bound_feasible
from bayes_feasible.rules.engine import NOBODY, mean_best
from bayes_feasible.rules.phases import require_arms_are_candidates
from bayes_feasible.rules.selection import pull_for
from bayes_feasible.simulation.world import pull


class Options(NamedTuple):
    """What a round depends on."""

    beta: float  # probability of pulling the leader


@njit(**BORROWER)
def challenge(geo, state, work, leader):
    """The candidate to pull against the cheapest way in which the answer is wrong."""
    constraints, best, least = geo.limits.size, NOBODY, np.inf
    for event in range(len(work.bounds)):
        cost = 0.0
        for b in range(geo.noise.size):
            cost += 0.5 * max(work.bounds[event, b], 0.0) ** 2
        z = leader if event < constraints else event - constraints
        if cost == np.inf:
            continue
        pulls = state.counts[z]
        cost = cost + math.log(float(pulls)) if pulls > 0 else -np.inf
        if best == NOBODY or cost < least:
            best, least = z, cost
    return best


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The empirical best feasible candidate, or its cheapest challenger."""
    state.clock[0] += 1
    leader = mean_best(state.candidate_means, geo.limits)
    if leader == NOBODY:
        bound_feasible(geo, state, work)
    elif rng.random() < options.beta:
        return pull_for(geo, state, work, leader)
    else:
        bound_events(geo, state, work, leader, 1.0)
    rival = challenge(geo, state, work, leader)
    return pull_for(geo, state, work, leader if rival == NOBODY else rival)


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


class TopTwoTCI(Rule):
    r"""Top-Two TCI with constraints: the empirical best, or the cheapest challenger.

    The leader is the best feasible candidate of the means. The challenger minimises the transport
    cost :math:`\tfrac{1}{2} \sum_b (h_b)_+^2` plus :math:`\log N`, over the rivals; where the
    leader's own feasibility is cheapest to deny, it is pulled itself. Where nothing looks feasible,
    the candidate that is cheapest to make feasible is pulled.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`. The arms are the candidates.
    beta : float
        Probability of pulling the leader.

    References
    ----------
    Jourdan et al., NeurIPS 2022; Lardy, Katsimerou and Koolen, 2025.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.TopTwoTCI(bf.instances.end_of_optimism().problem, seed=0)
    TopTwoTCI(0 asked, 0 told, beta=0.5)
    """

    settings: ClassVar[tuple[str, ...]] = ("beta",)
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        beta: float = 0.5,
        recommendation: str = "mean",
    ) -> None:
        self.beta = _check.positive("beta", beta)
        if self.beta >= 1:
            raise ValueError(f"beta: expected a number between 0 and 1, got {beta!r}")
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        require_arms_are_candidates(self)
        return Options(self.beta)
