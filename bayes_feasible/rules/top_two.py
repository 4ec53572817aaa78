"""Top-two Thompson sampling: a leader, and a challenger under which the leader is not best.

Russo, Simple Bayesian algorithms for best-arm identification, Operations Research 68, 2020. The
challenger comes from one exact draw given that the leader is not best, which spares the endless
resampling of the literature.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from bayes_feasible import _check
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import draw_alternative, draw_posterior, drawn_best
from bayes_feasible.rules.engine import NOBODY, leader_or_random, pick_arm
from bayes_feasible.rules.selection import lowest, pull_for, separate
from bayes_feasible.simulation.world import pull


class Options(NamedTuple):
    """What a round depends on."""

    beta: float  # probability of pulling the leader
    information: int  # 1 pulls the arm that tells leader and challenger apart
    exploration: float  # then round t explores with probability t^-exploration


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """A leader from one draw, a challenger from a draw under which the leader is not best."""
    state.clock[0] += 1
    draw_posterior(geo, state, work, rng)
    leader = drawn_best(geo, state, work.draw)
    if leader == NOBODY:
        leader = leader_or_random(state.candidate_means, geo.limits, rng)
    if options.information == 1:
        if rng.random() < float(state.clock[0]) ** -options.exploration:
            return pick_arm(geo.design, work.allowed, rng)
    elif rng.random() < options.beta:
        return pull_for(geo, state, work, leader)
    event = draw_alternative(geo, state, work, rng, leader, 1.0)
    if event == NOBODY:
        return pull_for(geo, state, work, leader)
    if options.information == 1:
        separate(geo, state, work, leader, event)
        return lowest(work.loss, work.allowed)
    challenger = drawn_best(geo, state, work.draw)
    if challenger == NOBODY:
        challenger = int(rng.random() * len(geo.candidates))
    return pull_for(geo, state, work, challenger)


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


class TopTwo(Rule):
    """Top-two Thompson sampling: a leader, and a challenger under which it is not best.

    The leader is the best feasible candidate of a posterior draw; the challenger that of a draw
    given that the leader is not best, which is exact and needs no resampling.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    beta : float or "optimal"
        Probability of pulling the leader; "optimal" is the best candidate's share in the optimal
        allocation, which needs an Instance.
    select : {"candidate", "information"}
        Pull leader or challenger themselves, or the arm that tells the two apart best, mixed with
        the G-optimal design at rate `t^-exploration`. Where the arms are not the candidates,
        "candidate" pulls what lowers the variance of leader or challenger most.
    exploration : float

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.TopTwo(bf.instances.end_of_optimism().problem, seed=0, select="information")
    TopTwo(0 asked, 0 told, beta=0.5, select='information', exploration=0.5)
    """

    settings: ClassVar[tuple[str, ...]] = ("beta", "select", "exploration")
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        beta: float | str = 0.5,
        select: str = "candidate",
        exploration: float = 0.5,
        recommendation: str = "mean",
    ) -> None:
        if select not in ("candidate", "information"):
            raise ValueError(f"select: expected 'candidate' or 'information', got {select!r}")
        if isinstance(beta, str) and beta != "optimal":
            raise ValueError(f"beta: expected a number or 'optimal', got {beta!r}")
        if not isinstance(beta, str):
            share = _check.numbers("beta", beta)
            if share.ndim or not 0 <= share <= 1:
                raise ValueError(f"beta: expected a number from 0 to 1, got {beta!r}")
            beta = float(share)
        self.beta, self.select = beta, select
        self.exploration = _check.positive("exploration", exploration)
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        if self.beta == "optimal":
            self.beta = optimal_share(problem)
        return Options(float(self.beta), int(self.select == "information"), self.exploration)


def optimal_share(problem: Problem | Instance) -> float:
    """The best candidate's share in the optimal allocation."""
    if not isinstance(problem, Instance):
        raise ValueError("beta: 'optimal' needs an Instance, whose truth it knows")
    if problem.problem.candidates is not problem.problem.arms:
        raise ValueError("beta: 'optimal' is a share of the best candidate, which is not an arm")
    return float(optimal_rate(problem).arrays[0][problem.best])
