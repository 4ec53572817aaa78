"""Draws of parameters in the compiled loop: from the posterior, and given an alternative set.

The exact draw from a union of events: pick an event by its probability, draw the parameters given
it, and keep them with probability 1/N, for N events contain them (Karp and Luby 1983).
"""

import math

import numpy as np
from numba import njit

from bayes_feasible.alternative.normal import log_ndtr, tail_excess
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.rules.engine import NOBODY, REWARD, pick
from bayes_feasible.rules.triangle import (
    HALF,
    LEADER,
    SOLVED,
    VECTOR,
    backward,
    forward,
    inner,
    solve,
)

PRUNE = 60.0  # an event e^-60 as probable as another cannot be seen in double precision
NOTHING = -1.0  # no coordinate was given
TINY = 1e-300  # what a gamma variable of a small shape may be rounded to 0 from
LARGEST_EXPONENT = 600.0
CERTAIN = -9.0  # what holds from 9 standard deviations below holds in double precision


@njit(**BORROWER, forceinline=True)
def draw_normal(geo, state, work, rng, root):
    """Normal deviations from the means, over the noise, times `root`, into `work.draw`."""
    spare, rank = work.spare, geo.arms.shape[1]
    for b in range(geo.place.size):
        for i in range(rank):
            spare[VECTOR, i] = root * rng.standard_normal()
        backward(state.lower, geo.place[b] * rank, spare, VECTOR, work.draw, b)


@njit(**BORROWER, forceinline=True)
def draw_scale(state, draw, b, rng, square):
    """Scale a normal draw by one of learnt noise, given a coordinate of this square over it."""
    freedom = state.freedom[b]
    if freedom > 0.0:
        rest = rng.standard_gamma(0.5 * freedom if square < 0.0 else 0.5 * (freedom + 1.0))
        scale = math.sqrt(0.5 * (freedom + max(square, 0.0)) / max(rest, TINY))
        for i in range(draw.shape[1]):
            draw[b, i] *= scale


@njit(**BORROWER, forceinline=True)
def draw_posterior(geo, state, work, rng):
    """Deviations of a posterior draw from the means, over the noise, into `work.draw`."""
    draw_normal(geo, state, work, rng, 1.0)
    for b in range(geo.place.size):
        draw_scale(state, work.draw, b, rng, NOTHING)


@njit(**BORROWER, forceinline=True)
def drawn_value(geo, state, draw, block, z):
    """A candidate's mean reward, or what is compared with a limit, under drawn parameters."""
    row = geo.place[block] * len(geo.candidates) + z
    return state.candidate_means[block, z] + state.noise[block] * inner(
        geo.vectors, row, draw, block
    )


@njit(**BORROWER)
def drawn_best(geo, state, draw):
    """The best feasible candidate under drawn parameters, or NOBODY."""
    best, value = NOBODY, -np.inf
    for z in range(len(geo.candidates)):
        reward = drawn_value(geo, state, draw, REWARD, z)
        if reward > value:
            feasible = True
            for j in range(geo.limits.size):
                if drawn_value(geo, state, draw, 1 + j, z) > geo.limits[j]:
                    feasible = False
                    break
            if feasible:
                best, value = z, reward
    return best


@njit(**BORROWER)
def measure_distances(candidates, lower, variances, leader, spare, distance):
    """Posterior variances (over the noise) of candidates' reward differences to the leader.

    `V^-1 leader` is left in `spare[LEADER]`.
    """
    solve(lower, REWARD, candidates, leader, spare, spare, LEADER)
    for z in range(len(candidates)):
        both = variances[z] + variances[leader]
        distance[z] = both - 2.0 * inner(candidates, z, spare, LEADER)
        if distance[z] < 1e-4 * both:  # nearly the same: the difference lost digits
            for i in range(lower.shape[1]):
                spare[VECTOR, i] = candidates[z, i] - candidates[leader, i]
            forward(lower, REWARD, spare, VECTOR, spare, HALF)
            distance[z] = inner(spare, HALF, spare, HALF)


@njit(**BORROWER, forceinline=True)
def bound(excess, noise, variance, root, freedom):
    """An excess in standard deviations; infinite where the variance is 0 and so it is known.

    In Student's law (`freedom` is not 0) those of the normal law with nearly the same tail, after
    D. L. Wallace, Bounds on normal approximations to Student's, Annals of Mathematical
    Statistics 1959: within 0.05 of them from 3 degrees of freedom on.
    """
    if variance > 0.0:
        deviation = excess / (noise * math.sqrt(variance) * root)
        return deviation if freedom == 0.0 else to_normal(deviation, freedom)
    return np.inf if excess > 0.0 else -np.inf


@njit(**BORROWER)
def to_normal(deviation, freedom):
    """The normal deviation whose tail is nearly that of a Student deviation."""
    share = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)
    size = abs(deviation) / math.sqrt(freedom)
    grown = math.log1p(size * size) if size < 1e100 else 2.0 * math.log(size)
    return math.copysign(share * math.sqrt(freedom * grown), deviation)


@njit(**BORROWER)
def to_student(deviation, freedom):
    """The inverse of `to_normal`."""
    share = (8.0 * freedom + 3.0) / (8.0 * freedom + 1.0)
    size = share * deviation
    grown = math.expm1(min(size * size / freedom, LARGEST_EXPONENT))
    return math.copysign(math.sqrt(freedom * grown), deviation)


@njit(**BORROWER, forceinline=True)
def bound_events(geo, state, work, leader, root):
    """What each event asks of each block, in standard deviations, into `work.bounds`.

    Event j < number of constraints: the leader violates constraint j. Then the candidates: each
    is feasible and at least as good as the leader. -inf asks nothing; the leader itself and its
    copies ask for +inf.
    """
    constraints, candidates = geo.limits.size, len(geo.candidates)
    measure_distances(
        geo.candidates, state.lower, state.variances, leader, work.spare, work.distance
    )
    for j in range(constraints):
        for b in range(1 + constraints):
            work.bounds[j, b] = -np.inf
        room = geo.limits[j] - state.candidate_means[1 + j, leader]
        variance = state.variances[geo.place[1 + j] * candidates + leader]
        work.bounds[j, 1 + j] = -bound(
            -room, state.noise[1 + j], variance, root, state.freedom[1 + j]
        )
    for z in range(candidates):
        event = constraints + z
        if geo.same[z] == geo.same[leader]:
            work.bounds[event, 0] = np.inf
            continue
        lag = state.candidate_means[0, leader] - state.candidate_means[0, z]
        work.bounds[event, 0] = bound(lag, state.noise[0], work.distance[z], root, state.freedom[0])
        for j in range(constraints):
            excess = state.candidate_means[1 + j, z] - geo.limits[j]
            variance = state.variances[geo.place[1 + j] * candidates + z]
            work.bounds[event, 1 + j] = bound(
                excess, state.noise[1 + j], variance, root, state.freedom[1 + j]
            )


@njit(**BORROWER)
def bound_feasible(geo, state, work):
    """The same where the answer is that no candidate is feasible: each may be after all."""
    constraints, candidates = geo.limits.size, len(geo.candidates)
    for event in range(len(work.bounds)):
        z = event - constraints
        work.bounds[event, 0] = np.inf if z < 0 else -np.inf  # no event is about the answer itself
        for j in range(constraints):
            work.bounds[event, 1 + j] = -np.inf
            if z >= 0:
                excess = state.candidate_means[1 + j, z] - geo.limits[j]
                variance = state.variances[geo.place[1 + j] * candidates + z]
                work.bounds[event, 1 + j] = bound(
                    excess, state.noise[1 + j], variance, 1.0, state.freedom[1 + j]
                )


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
def push(rng, state, draw, block, vectors, row, sign, spare, solved, square, least, root):
    """Move a draw to where `sign * v @ draw[block]` exceeds `least` standard deviations.

    `v` is the row of `vectors`, `spare[solved]` is `V^-1 v` and `square` is `v V^-1 v`.
    """
    wanted = least + tail_excess(rng, least)
    if state.freedom[block] > 0.0:
        wanted = to_student(wanted, state.freedom[block])
        draw_scale(state, draw, block, rng, wanted * wanted)
    wanted = sign * wanted * math.sqrt(square) * root
    step = (wanted - inner(vectors, row, draw, block)) / square
    for i in range(draw.shape[1]):
        draw[block, i] += step * spare[solved, i]


@njit(**BORROWER, forceinline=True)
def draw_event(geo, state, work, rng, leader, event, root):
    """Parameters given one event, into `work.draw`."""
    constraints, spare, rank = geo.limits.size, work.spare, geo.arms.shape[1]
    candidates = len(geo.candidates)
    draw_normal(geo, state, work, rng, root)
    if event < constraints:
        block, least = 1 + event, work.bounds[event, 1 + event]
        for b in range(1 + constraints):
            if b != block or least == -np.inf:
                draw_scale(state, work.draw, b, rng, NOTHING)
        if least > -np.inf:
            row, solved = geo.place[block] * candidates + leader, LEADER
            if geo.place[block] > 0:
                solved = SOLVED
                solve(state.lower, geo.place[block] * rank, geo.vectors, row, spare, spare, solved)
            push(rng, state, work.draw, block, geo.vectors, row, 1.0, spare, solved,
                 state.variances[row], least, root)  # fmt: skip
        return
    z = event - constraints
    square, place = 0.0, NOBODY
    for b in range(1, 1 + constraints):
        least = work.bounds[event, b]
        if least <= CERTAIN:
            draw_scale(state, work.draw, b, rng, NOTHING)
            continue
        row = geo.place[b] * candidates + z
        if geo.place[b] != place:  # one solution serves all blocks that share a place
            place = geo.place[b]
            square = solve(state.lower, place * rank, geo.vectors, row, spare, spare, SOLVED)
        push(rng, state, work.draw, b, geo.vectors, row, -1.0, spare, SOLVED, square, least, root)
    if place != 0:
        solve(state.lower, REWARD, geo.candidates, z, spare, spare, SOLVED)
    for i in range(rank):
        spare[VECTOR, i] = geo.candidates[z, i] - geo.candidates[leader, i]
        spare[SOLVED, i] -= spare[LEADER, i]
    push(rng, state, work.draw, REWARD, spare, VECTOR, 1.0, spare, SOLVED, work.distance[z],
         work.bounds[event, 0], root)  # fmt: skip


@njit(**BORROWER, forceinline=True)
def keep(geo, state, draw, chance, leader, event, rng):
    """Keep a draw with probability 1/N, for N of the events that matter contain it.

    That is: where u N < 1 for a uniform u. The count goes no further than until that fails, which
    spares most of it where many events overlap.
    """
    constraints = geo.limits.size
    reward = drawn_value(geo, state, draw, REWARD, leader)
    count, uniform = 1, 0.0  # its own event counts without asking
    for e in range(chance.size):
        if e == event or chance[e] == 0.0:
            continue
        if e < constraints:
            inside = drawn_value(geo, state, draw, 1 + e, leader) > geo.limits[e]
        else:
            z = e - constraints
            inside = drawn_value(geo, state, draw, REWARD, z) >= reward
            for j in range(constraints):
                if not inside:
                    break
                inside = drawn_value(geo, state, draw, 1 + j, z) <= geo.limits[j]
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

    An exact draw from the posterior, its covariance times `scale`, given the alternative set;
    for 0/1 and counts, from the Gaussian at the mode.
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
        if matter == 1 or keep(geo, state, work.draw, work.chance, leader, event, rng):
            return event


@njit(**DOOR)
def recommend_drawn(geo, state, work, rng):
    """The best feasible candidate of one posterior draw, or NOBODY."""
    draw_posterior(geo, state, work, rng)
    return drawn_best(geo, state, work.draw)
