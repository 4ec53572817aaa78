r"""Descent: the pull that lowers the log-probability of error most, in expectation.

The posterior probability of an event is a martingale: no pull moves it on average, so its
logarithm falls by half its relative variance, to second order. For a product of half-spaces that
lie :math:`h_b` posterior standard deviations off, a pull of :math:`x` lowers it by

.. math:: \tfrac{1}{2} \sum_b \lambda(h_b)^2 \rho_b^2(x), \qquad
    \rho_b^2(x) = \frac{i_b(x) \langle x, V_b^{-1} a_b\rangle^2}
        {(1 + i_b(x) \, x^\top V_b^{-1} x) \; a_b^\top V_b^{-1} a_b},

with the normal hazard :math:`\lambda = \varphi / \Phi(-\cdot)`, what one pull tells
:math:`i_b(x)` (1 for a Gaussian, in units of the noise), and the squared correlation
:math:`\rho_b^2` of what the pull shows with the half-space's direction. The arm pulled has the
largest sum of these over the events that would make the answer wrong, each weighed by its share
of their probability.

No forced exploration, and with the leader of the posterior means no randomness. Where the
posterior is broad, the hazard of an event that the means already fulfil does not vanish, and the
rule explores; where it is narrow,
:math:`\lambda(h)` is :math:`h`, and each pull is a Frank-Wolfe step on a soft minimum of the
exponents. See the page on the mathematics for what of this is proved.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible._at_once import at_once
from bayes_feasible.alternative.normal import HALF_LOG_2PI, log_ndtr
from bayes_feasible.compiled import BORROWER, BORROWING_DOOR, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import (
    CERTAIN,
    bound_events,
    bound_feasible,
    draw_posterior,
    drawn_best,
    weigh_chances,
    weigh_events,
)
from bayes_feasible.rules.engine import NOBODY, mean_best, stop_of
from bayes_feasible.rules.selection import far_off, lowest
from bayes_feasible.rules.triangle import HALF, VECTOR, forward, inner, update_triangle
from bayes_feasible.simulation.world import pull

LEADERS = ("mean", "drawn")
FAR = 100.0  # standard deviations: from here on the series of the hazard has all its digits
SLIGHT = 1e-8  # an event so much less probable than another changes no choice that matters
SUPPOSED = ("lower", "variances")  # of a state: what pulls change before they show anything


@njit(**BORROWING_DOOR)
def hazard(bound):
    """`φ(h) / Φ(-h)`: how fast the logarithm of the normal tail falls."""
    if bound > FAR:
        small = 1.0 / (bound * bound)
        return bound * (1.0 + small * (1.0 - small * (2.0 - 10.0 * small)))
    return math.exp(-0.5 * bound * bound - HALF_LOG_2PI - log_ndtr(-bound))


@njit(**BORROWER, forceinline=True)
def steepness(bound, freedom):
    """The squared hazard; in Student's law less, as larger noise explains a part of the bound."""
    square = hazard(bound) ** 2
    if freedom > 0.0 and bound != 0.0:
        square *= far_off(bound, freedom) / (bound * bound)
    return square


@njit(**BORROWER, forceinline=True)
def whiten_arms(geo, state, work, b):
    """`L^-1 x` of every arm into the columns of `work.halves`, what a pull tells into `work.told`.

    That is `i / (1 + i x V^-1 x)`. All arms at once, row by row, which the compiler turns into
    vector instructions.
    """
    arms, rank = geo.arms.shape
    base, lower, halves, told = geo.place[b] * rank, state.lower, work.halves, work.told
    for arm in range(arms):
        told[arm] = 0.0
    for i in range(rank):
        for arm in range(arms):
            halves[i, arm] = geo.arms[arm, i]
        for j in range(i):
            factor = lower[base + i, j]
            for arm in range(arms):
                halves[i, arm] -= factor * halves[j, arm]
        factor = lower[base + i, i]
        for arm in range(arms):
            halves[i, arm] *= factor
            told[arm] += halves[i, arm] * halves[i, arm]
    for arm in range(arms):
        told[arm] = state.info[b, arm] / (1.0 + state.info[b, arm] * told[arm])


@njit(**BORROWER, forceinline=True)
def whiten_event(geo, state, work, leader, event, b):
    """`L^-1 a` of an event's half-space in a block, of length 1, into `spare[HALF]`.

    Returns whether it has a length: a vector that is 0 has a value that is known.
    """
    constraints, rank, spare = geo.limits.size, geo.arms.shape[1], work.spare
    z = leader if event < constraints else event - constraints
    if geo.shared == 1 and geo.place[b] == 0:  # the candidates are the arms: it is there already
        for i in range(rank):
            spare[HALF, i] = work.halves[i, z]
            if b == 0:
                spare[HALF, i] -= work.halves[i, leader]
    else:
        row = geo.place[b] * len(geo.candidates) + z
        for i in range(rank):
            spare[VECTOR, i] = geo.vectors[row, i]
            if b == 0:
                spare[VECTOR, i] -= geo.vectors[leader, i]
        forward(state.lower, geo.place[b] * rank, spare, VECTOR, spare, HALF)
    length = math.sqrt(inner(spare, HALF, spare, HALF))
    if length > 0.0:
        for i in range(rank):
            spare[HALF, i] /= length
    return length > 0.0


@njit(**BORROWER, forceinline=True)
def add_event(geo, work, weight):
    """Take from every arm's loss what a pull tells of the half-space in `spare[HALF]`."""
    arms, rank = geo.arms.shape
    along, halves, spare = work.along, work.halves, work.spare
    for arm in range(arms):
        along[arm] = 0.0
    for i in range(rank):
        factor = spare[HALF, i]
        for arm in range(arms):
            along[arm] += factor * halves[i, arm]
    for arm in range(arms):
        work.loss[arm] -= weight * work.told[arm] * along[arm] * along[arm]


@njit(**BORROWER, forceinline=True)
def descend(geo, state, work, leader):
    """Loss of each arm: minus what a pull lowers the log-probabilities of the events by, twice.

    The events' bounds are in `work.bounds`, their chances in `work.chance`.
    """
    for arm in range(len(geo.arms)):
        work.loss[arm] = 0.0
    b = np.int64(0)  # of the type of all others: nothing is compiled twice
    while b < geo.noise.size:
        stop = stop_of(geo, b)
        whiten_arms(geo, state, work, b)  # Gaussian blocks of one place have the same info
        for block in range(b, stop):
            for event in range(len(work.bounds)):
                least = work.bounds[event, block]
                if work.chance[event] < SLIGHT or least <= CERTAIN:
                    continue
                if whiten_event(geo, state, work, leader, event, block):
                    weight = work.chance[event] * steepness(least, state.freedom[block])
                    add_event(geo, work, weight)
        b = stop


class Options(NamedTuple):
    """Whose errors count."""

    drawn: int  # 1: those of the best of a posterior draw, 0: of the best of the means


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The arm whose pull lowers the log-probability of error most."""
    state.clock[0] += 1
    if options.drawn == 1:
        draw_posterior(geo, state, work, rng)
        leader = drawn_best(geo, state, work.draw)
    else:
        leader = mean_best(state.candidate_means, geo.limits)
    if leader == NOBODY:
        bound_feasible(geo, state, work)
    else:
        bound_events(geo, state, work, leader, 1.0)
    for z in range(len(geo.candidates)):  # a copy of a candidate is no other way to be wrong
        if geo.same[z] != z:
            work.bounds[geo.limits.size + z, 0] = np.inf
    top = weigh_events(work.bounds, work.log_probability)
    weigh_chances(work.log_probability, top, work.chance)
    descend(geo, state, work, leader)
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


@njit(**BORROWING_DOOR)
def suppose(geo, state, work, arm):
    """Take in that an arm is pulled, but not what it shows: of the posterior only V changes."""
    candidates, rank = geo.candidates.shape
    b = np.int64(0)  # of the type of all others: nothing is compiled twice
    while b < geo.noise.size:
        base, first, spare = geo.place[b] * rank, geo.place[b] * candidates, work.spare
        root = math.sqrt(state.info[b, arm])
        for i in range(rank):
            spare[VECTOR, i] = root * geo.arms[arm, i]
        update_triangle(state.lower, base, spare, VECTOR)
        for z in range(candidates):
            forward(state.lower, base, geo.vectors, first + z, spare, HALF)
            state.variances[first + z] = inner(spare, HALF, spare, HALF)
        b = stop_of(geo, b)


class Descent(Rule):
    """Pulls what lowers the log-probability of error most, in expectation.

    The answer at the moment is the best feasible candidate of the posterior means, or that none is
    feasible. Every way in which it may be wrong counts with its share of their probability, and
    for each the expected fall of its log-probability under a pull is known in closed form, to
    second order. By default the rule draws no random numbers; of arms that tell the same, the
    first is pulled.

    A batch, `ask(n)`, is chosen pull by pull: those before it in the batch count in the posterior
    variances already, although what they will show is not known. Pulls that earlier calls asked
    for count when they are told.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`; the seed matters to what is drawn.
    leader : {"mean", "drawn"}
        Whose ways to be wrong count: of the best feasible candidate of the posterior means, or of
        that of a posterior draw, a new one each time. The latter explores more in the first
        hundreds of pulls, where the means may be far off; later the two agree.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> rule = bf.Descent(instance.problem)
    >>> for pull in range(300):
    ...     arm = rule.ask()
    ...     rewards, costs = instance.pull([arm], seed=pull)
    ...     rule.tell(arm, rewards[0], costs[0])
    >>> rule.posterior.counts.tolist()
    [35, 0, 238, 27, 0]
    """

    _ask = staticmethod(ask)
    _run = staticmethod(run)

    settings: ClassVar[tuple[str, ...]] = ("leader",)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        leader: str = "mean",
        recommendation: str = "mean",
    ) -> None:
        if leader not in LEADERS:
            raise ValueError(f"leader: expected one of {LEADERS}, got {leader!r}")
        self.leader = leader
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        return Options(LEADERS.index(self.leader))

    def _batch(self, n: int, pulls: int = 1) -> NDArray[np.int64]:
        if n == 1:  # nothing follows that would have to know
            return super()._batch(n)
        state, arms = self._state, np.empty(n, dtype=np.int64)
        told = {name: getattr(state, name).copy() for name in SUPPOSED}
        try:
            for i in range(n):
                arms[i] = self._next()
                for _ in range(pulls):
                    at_once(suppose)(self._effort, self._geometry, state, self._work, arms[i])
        finally:  # what is supposed is forgotten
            for name, array in told.items():
                getattr(state, name)[:] = array
        return arms
