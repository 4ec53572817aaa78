"""Draws of parameters in the compiled loop: from the posterior, and given an alternative set.

The exact draw from a union of events: pick an event by its probability, draw the parameters given
it, and keep them with probability 1/N, for N events contain them (Karp and Luby 1983).
"""

import math

import numpy as np
from numba import njit

from bayes_feasible.alternative.normal import log_ndtr, tail_excess
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.rules.engine import (
    HALF,
    LEADER,
    NOBODY,
    REWARD,
    SOLVED,
    VECTOR,
    backward,
    forward,
    inner,
    pick,
    solve,
)

PRUNE = 60.0  # an event e^-60 as probable as another cannot be seen in double precision
CERTAIN = -9.0  # what holds from 9 standard deviations below holds in double precision


@njit(**BORROWER, forceinline=True)
def draw_posterior(rng, lower, root, spare, draw):
    """Deviations of a posterior draw from the means, over the noise, times `root`."""
    for b in range(len(draw)):
        for i in range(len(lower)):
            spare[VECTOR, i] = root * rng.standard_normal()
        backward(lower, spare, VECTOR, draw, b)


@njit(**BORROWER, forceinline=True)
def drawn_value(candidates, candidate_means, draw, noise, block, z):
    """Mean reward or cost of a candidate under drawn parameters."""
    return candidate_means[block, z] + noise[block] * inner(candidates, z, draw, block)


@njit(**BORROWER)
def drawn_best(candidates, candidate_means, draw, noise, thresholds):
    """The best feasible candidate under drawn parameters, or NOBODY."""
    best, value = NOBODY, -np.inf
    for z in range(len(candidates)):
        reward = drawn_value(candidates, candidate_means, draw, noise, REWARD, z)
        if reward > value:
            feasible = True
            for j in range(thresholds.size):
                cost = drawn_value(candidates, candidate_means, draw, noise, 1 + j, z)
                if cost > thresholds[j]:
                    feasible = False
                    break
            if feasible:
                best, value = z, reward
    return best


@njit(**BORROWER)
def measure_distances(candidates, lower, variances, leader, spare, distance):
    """Posterior variances (over the noise) of candidates' differences to the leader.

    `V^-1 leader` is left in `spare[LEADER]`.
    """
    solve(lower, candidates, leader, spare, spare, LEADER)
    for z in range(len(candidates)):
        both = variances[z] + variances[leader]
        distance[z] = both - 2.0 * inner(candidates, z, spare, LEADER)
        if distance[z] < 1e-4 * both:  # nearly the same: the difference lost digits
            for i in range(len(lower)):
                spare[VECTOR, i] = candidates[z, i] - candidates[leader, i]
            forward(lower, spare, VECTOR, spare, HALF)
            distance[z] = inner(spare, HALF, spare, HALF)


@njit(**BORROWER, forceinline=True)
def bound(excess, noise, variance, root):
    """An excess in standard deviations; infinite where the variance is 0 and so it is known."""
    if variance > 0.0:
        return excess / (noise * math.sqrt(variance) * root)
    return np.inf if excess > 0.0 else -np.inf


@njit(**BORROWER, forceinline=True)
def bound_events(geo, state, work, leader, root):
    """What each event asks of each block, in standard deviations, into `work.bounds`.

    Event j < number of constraints: the leader violates constraint j. Then the candidates: each
    is feasible and at least as good as the leader. -inf asks nothing; the leader itself and its
    copies ask for +inf.
    """
    constraints = geo.thresholds.size
    measure_distances(
        geo.candidates, state.lower, state.variances, leader, work.spare, work.distance
    )
    for j in range(constraints):
        for b in range(1 + constraints):
            work.bounds[j, b] = -np.inf
        room = geo.thresholds[j] - state.candidate_means[1 + j, leader]
        variance = state.variances[leader]
        work.bounds[j, 1 + j] = -bound(-room, geo.noise[1 + j], variance, root)
    for z in range(len(geo.candidates)):
        event = constraints + z
        if geo.same[z] == geo.same[leader]:
            work.bounds[event, 0] = np.inf
            continue
        lag = state.candidate_means[0, leader] - state.candidate_means[0, z]
        work.bounds[event, 0] = bound(lag, geo.noise[0], work.distance[z], root)
        for j in range(constraints):
            excess = state.candidate_means[1 + j, z] - geo.thresholds[j]
            work.bounds[event, 1 + j] = bound(excess, geo.noise[1 + j], state.variances[z], root)


@njit(**BORROWER, forceinline=True)
def weigh_events(bounds, log_probability):
    """Log-probabilities of the events; the largest is returned.

    A tail at `h` standard deviations is below `exp(-h²/2)`: events that this already rules out
    keep that bound, and their tails are not evaluated.
    """
    likeliest = 0
    for e in range(len(bounds)):
        square = 0.0
        for b in range(bounds.shape[1]):
            if bounds[e, b] > 0.0:
                square += bounds[e, b] * bounds[e, b]
        log_probability[e] = -0.5 * square
        if log_probability[e] > log_probability[likeliest]:
            likeliest = e
    top = log_tails(bounds, likeliest)
    log_probability[likeliest] = top
    for e in range(len(bounds)):
        if e != likeliest and log_probability[e] >= top - PRUNE:
            log_probability[e] = log_tails(bounds, e)
            top = max(top, log_probability[e])
    return top


@njit(**BORROWER, forceinline=True)
def log_tails(bounds, event):
    """Log-probability of one event."""
    value = 0.0
    for b in range(bounds.shape[1]):
        if bounds[event, b] > CERTAIN:
            value += log_ndtr(-bounds[event, b])
    return value


@njit(**BORROWER, forceinline=True)
def weigh_chances(log_probability, top, chance):
    """Chances of the events relative to the likeliest, 0 for those that do not matter.

    Returns their sum and how many matter.
    """
    total, matter = 0.0, 0
    for e in range(chance.size):
        chance[e] = 0.0
        if log_probability[e] >= top - PRUNE and log_probability[e] > -np.inf:
            chance[e] = math.exp(log_probability[e] - top)
            total += chance[e]
            matter += 1
    return total, matter


@njit(**BORROWER, forceinline=True)
def push(rng, draw, block, vectors, row, sign, spare, solved, square, least, root):
    """Move a draw to where `sign * v @ draw[block]` exceeds `least` standard deviations.

    `v` is the row of `vectors`, `spare[solved]` is `V^-1 v` and `square` is `v V^-1 v`.
    """
    wanted = sign * (least + tail_excess(rng, least)) * math.sqrt(square) * root
    step = (wanted - inner(vectors, row, draw, block)) / square
    for i in range(draw.shape[1]):
        draw[block, i] += step * spare[solved, i]


@njit(**BORROWER, forceinline=True)
def draw_event(geo, state, work, rng, leader, event, root):
    """Parameters given one event, into `work.draw`."""
    constraints, spare = geo.thresholds.size, work.spare
    draw_posterior(rng, state.lower, root, spare, work.draw)
    if event < constraints:
        least = work.bounds[event, 1 + event]
        if least > -np.inf:
            push(rng, work.draw, 1 + event, geo.candidates, leader, 1.0, spare, LEADER,
                 state.variances[leader], least, root)  # fmt: skip
        return
    z = event - constraints
    square = solve(state.lower, geo.candidates, z, spare, spare, SOLVED)
    for b in range(1, 1 + constraints):
        least = work.bounds[event, b]
        if least > CERTAIN:
            push(rng, work.draw, b, geo.candidates, z, -1.0, spare, SOLVED, square, least, root)
    for i in range(len(state.lower)):
        spare[VECTOR, i] = geo.candidates[z, i] - geo.candidates[leader, i]
        spare[SOLVED, i] -= spare[LEADER, i]
    push(rng, work.draw, REWARD, spare, VECTOR, 1.0, spare, SOLVED, work.distance[z],
         work.bounds[event, 0], root)  # fmt: skip


@njit(**BORROWER, forceinline=True)
def keep(candidates, candidate_means, draw, noise, thresholds, chance, leader, event, rng):
    """Keep a draw with probability 1/N, for N of the events that matter contain it.

    That is: where u N < 1 for a uniform u. The count goes no further than until that fails, which
    spares most of it where many events overlap.
    """
    constraints = thresholds.size
    reward = drawn_value(candidates, candidate_means, draw, noise, REWARD, leader)
    count, uniform = 1, 0.0  # its own event counts without asking
    for e in range(chance.size):
        if e == event or chance[e] == 0.0:
            continue
        if e < constraints:
            cost = drawn_value(candidates, candidate_means, draw, noise, 1 + e, leader)
            inside = cost > thresholds[e]
        else:
            z = e - constraints
            inside = drawn_value(candidates, candidate_means, draw, noise, REWARD, z) >= reward
            for j in range(constraints):
                if not inside:
                    break
                cost = drawn_value(candidates, candidate_means, draw, noise, 1 + j, z)
                inside = cost <= thresholds[j]
        if inside:
            count += 1
            if count == 2:
                uniform = rng.random()
            if uniform * count >= 1.0:
                return False
    return True


@njit(**BORROWER)
def draw_alternative(geo, state, work, rng, leader, scale):
    """Parameters under which the leader is not best, into `work.draw`; the event, or NOBODY.

    An exact draw from the posterior, its covariance times `scale`, given the alternative set.
    """
    root = math.sqrt(scale)
    bound_events(geo, state, work, leader, root)
    top = weigh_events(work.bounds, work.log_probability)
    if top == -np.inf:
        return NOBODY
    total, matter = weigh_chances(work.log_probability, top, work.chance)
    while True:
        event = pick(work.chance, total, rng)
        draw_event(geo, state, work, rng, leader, event, root)
        if matter == 1 or keep(
            geo.candidates, state.candidate_means, work.draw, geo.noise, geo.thresholds,
            work.chance, leader, event, rng,
        ):  # fmt: skip
            return event


@njit(**DOOR)
def recommend_drawn(geo, state, work, rng):
    """The best feasible candidate of one posterior draw, or NOBODY."""
    draw_posterior(rng, state.lower, 1.0, work.spare, work.draw)
    return drawn_best(geo.candidates, state.candidate_means, work.draw, geo.noise, geo.thresholds)
