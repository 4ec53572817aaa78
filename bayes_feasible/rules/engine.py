r"""The posterior inside the compiled loop: a round costs the same, however many there were.

The learner's view of a problem is a `Geometry`, what it knows is a `State`, both plain arrays.
The state keeps the triangle :math:`L` of :math:`V = I + \sum x x^\top = L L^\top`, the posterior
means, and for each candidate its posterior mean reward and costs and :math:`z^\top V^{-1} z`.
A pull updates all of them in :math:`O(r^2 + |Z| r)`; every `REFRESH` pulls they are computed
afresh from the counts and sums, so that rounding never adds up.

Blocks: 0 is the reward, then the constraints with a finite threshold. A constraint that never
binds takes no part, and so changes nothing.

Small functions are forced inline: handing over the arrays costs more than what is done with them.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise
from bayes_feasible.alternative.normal import log_ndtr, tail_excess
from bayes_feasible.compiled import BORROWER, BORROWING_DOOR
from bayes_feasible.problem import Problem

REFRESH = 4096
PRUNE = 60.0  # an event e^-60 as probable as another cannot be seen in double precision
CERTAIN = -9.0  # what holds from 9 standard deviations below holds in double precision
NOBODY = -1
# Python's own integers would be literals to the compiler: a version of each function for each.
REWARD = np.int64(0)  # the first block
VECTOR, HALF, SOLVED, LEADER = np.arange(4)  # rows of `Work.spare`


class Geometry(NamedTuple):
    """A problem as arrays, in coordinates of the span of the arms."""

    arms: Array  # (arm, rank)
    candidates: Array  # (candidate, rank)
    same: NDArray[np.int64]  # (candidate,): the first candidate with the same vector
    thresholds: Array  # (constraint with a finite threshold,)
    columns: NDArray[np.int64]  # (block,): column of the sums
    noise: Array  # (block,)
    design: Array  # (arm,): G-optimal
    shared: int  # 1 where the candidates are the arms, 0 where they are not


class State(NamedTuple):
    """All that a rule remembers, as arrays that change in place."""

    pulls: NDArray[np.int64]  # (arm,): all pulls
    counts: NDArray[np.int64]  # (arm,): pulls since the last restart
    sums: Array  # (arm, 1 + constraint)
    lower: Array  # (rank, rank): L, its diagonal inverted, which spares the divisions
    means: Array  # (block, rank)
    candidate_means: Array  # (block, candidate)
    variances: Array  # (candidate,)
    losses: Array  # (arm,)
    weights: Array  # (arm,)
    lag: Array  # (arm,): how far behind its cumulative share each arm is, for tracking
    plan: Array  # (arm,): the allocation that is followed or aimed at
    gap: Array  # (1,): AdaHedge's cumulative mixability gap
    clock: NDArray[np.int64]  # (4,): rounds asked, pulls learnt, last restart, next plan


class Work(NamedTuple):
    """Scratch arrays: nothing in them outlives a round."""

    draw: Array  # (block, rank): deviation of drawn parameters from the means, over the noise
    surprise: Array  # (block,)
    loss: Array  # (arm,)
    bounds: Array  # (event, block)
    log_probability: Array  # (event,)
    chance: Array  # (event,)
    spare: Array  # (4, rank): a vector, L^-1 of one, V^-1 of one, and V^-1 of the leader
    distance: Array  # (candidate,): variance of the difference to the leader


def geometry(problem: Problem) -> Geometry:
    """The arrays of a problem."""
    binding = np.flatnonzero(np.isfinite(problem.thresholds))
    columns = np.concatenate([[0], 1 + binding]).astype(np.int64)
    _, first, inverse = np.unique(
        problem.candidates, axis=0, return_index=True, return_inverse=True
    )
    arms = np.ascontiguousarray(problem.arms @ problem.basis)
    candidates = np.ascontiguousarray(problem.candidates @ problem.basis)
    return Geometry(
        arms,
        candidates,
        first[inverse.ravel()].astype(np.int64),
        problem.thresholds[binding].copy(),
        columns,
        block_noise(problem)[columns],
        problem.design,
        int(problem.candidates is problem.arms),
    )


def initial_state(problem: Problem, geometry: Geometry) -> State:
    """The state before the first pull."""
    arms, rank = geometry.arms.shape
    blocks, candidates = geometry.noise.size, len(geometry.candidates)
    state = State(
        pulls=np.zeros(arms, dtype=np.int64),
        counts=np.zeros(arms, dtype=np.int64),
        sums=np.zeros((arms, 1 + problem.thresholds.size)),
        lower=np.eye(rank),
        means=np.zeros((blocks, rank)),
        candidate_means=np.zeros((blocks, candidates)),
        variances=np.sum(geometry.candidates**2, axis=1),
        losses=np.zeros(arms),
        weights=np.full(arms, 1.0 / arms),
        lag=np.zeros(arms),
        plan=np.full(arms, 1.0 / arms),
        gap=np.zeros(1),
        clock=np.array([0, 0, 0, 1], dtype=np.int64),
    )
    return state


def scratch(geometry: Geometry) -> Work:
    """Scratch arrays of the right sizes."""
    arms, rank = geometry.arms.shape
    blocks, candidates = geometry.noise.size, len(geometry.candidates)
    return Work(
        np.zeros((blocks, rank)),
        np.zeros(blocks),
        np.zeros(arms),
        np.zeros((blocks - 1 + candidates, blocks)),
        np.zeros(blocks - 1 + candidates),
        np.zeros(blocks - 1 + candidates),
        np.zeros((4, rank)),
        np.zeros(candidates),
    )


@njit(**BORROWER, forceinline=True)
def forward(lower, vectors, row, result, to):
    """`result[to] = L^-1 vectors[row]`, where `lower` is L with its diagonal inverted.

    Rows are named by their index, here and below: a view of a row costs more than the work on it.
    """
    for i in range(len(lower)):
        total = vectors[row, i]
        for j in range(i):
            total -= lower[i, j] * result[to, j]
        result[to, i] = total * lower[i, i]


@njit(**BORROWER, forceinline=True)
def backward(lower, vectors, row, result, to):
    """`result[to] = L^-T vectors[row]`."""
    for i in range(len(lower) - 1, -1, -1):
        total = vectors[row, i]
        for j in range(i + 1, len(lower)):
            total -= lower[j, i] * result[to, j]
        result[to, i] = total * lower[i, i]


@njit(**BORROWER, forceinline=True)
def inner(left, row, right, other):
    """Inner product of two rows."""
    total = 0.0
    for i in range(left.shape[1]):
        total += left[row, i] * right[other, i]
    return total


@njit(**BORROWER, forceinline=True)
def solve(lower, vectors, row, spare, result, to):
    """`result[to] = V^-1 v` for the row `v`; returns `v V^-1 v`. `spare[HALF]` is used."""
    forward(lower, vectors, row, spare, HALF)
    backward(lower, spare, HALF, result, to)
    return inner(spare, HALF, spare, HALF)


@njit(**BORROWER, forceinline=True)
def update_triangle(lower, vectors, row):
    """Turn the triangle of `V` into that of `V + v v^T` for the row `v`, which is used up.

    What is left of `v` is taken from the triangle before the step: from the one after it, it would
    be a small difference of large products where the arms are long.
    """
    for k in range(len(lower)):
        sine = vectors[row, k] * lower[k, k]
        cosine = math.sqrt(1.0 + sine * sine)
        inverse = 1.0 / cosine
        lower[k, k] *= inverse
        for i in range(k + 1, len(lower)):
            old = lower[i, k]
            lower[i, k] = (old + sine * vectors[row, i]) * inverse
            vectors[row, i] = (vectors[row, i] - sine * old) * inverse


@njit(**BORROWING_DOOR)
def refresh(geo, state, work):
    """Compute everything that is kept from the counts and sums alone."""
    arms, rank = geo.arms.shape
    spare = work.spare
    for i in range(rank):
        for j in range(rank):
            state.lower[i, j] = 1.0 if i == j else 0.0
    for arm in range(arms):
        if state.counts[arm] > 0:
            root = math.sqrt(float(state.counts[arm]))
            for i in range(rank):
                spare[VECTOR, i] = root * geo.arms[arm, i]
            update_triangle(state.lower, spare, VECTOR)
    for b in range(geo.noise.size):
        for i in range(rank):
            spare[VECTOR, i] = 0.0
            for arm in range(arms):
                spare[VECTOR, i] += state.sums[arm, geo.columns[b]] * geo.arms[arm, i]
        solve(state.lower, spare, VECTOR, spare, state.means, b)
    for z in range(len(geo.candidates)):
        state.variances[z] = solve(state.lower, geo.candidates, z, spare, spare, SOLVED)
        for b in range(geo.noise.size):
            state.candidate_means[b, z] = inner(geo.candidates, z, state.means, b)


@njit(**BORROWING_DOOR)
def learn(geo, state, work, arm, reward, costs):
    """Take in one pull."""
    rank, spare = geo.arms.shape[1], work.spare
    state.pulls[arm] += 1
    state.counts[arm] += 1
    state.sums[arm, 0] += reward
    for j in range(costs.size):
        state.sums[arm, 1 + j] += costs[j]
    state.clock[1] += 1
    if state.clock[1] % REFRESH == 0:
        refresh(geo, state, work)
        return
    square = solve(state.lower, geo.arms, arm, spare, spare, SOLVED)
    for b in range(geo.noise.size):
        seen = reward if b == 0 else costs[geo.columns[b] - 1]
        work.surprise[b] = (seen - inner(geo.arms, arm, state.means, b)) / (1.0 + square)
        for i in range(rank):
            state.means[b, i] += spare[SOLVED, i] * work.surprise[b]
    for i in range(rank):
        spare[VECTOR, i] = geo.arms[arm, i]
    update_triangle(state.lower, spare, VECTOR)
    for z in range(len(geo.candidates)):
        along = inner(geo.candidates, z, spare, SOLVED)
        for b in range(geo.noise.size):
            state.candidate_means[b, z] += along * work.surprise[b]
        old = state.variances[z]
        state.variances[z] = old - along * along / (1.0 + square)
        if state.variances[z] < 0.5 * old:  # so much was learnt that the difference lost digits
            forward(state.lower, geo.candidates, z, spare, HALF)
            state.variances[z] = inner(spare, HALF, spare, HALF)


@njit(**BORROWING_DOOR)
def mean_best(candidate_means, thresholds):
    """The candidate of highest mean reward among those that look feasible, or NOBODY."""
    best, value = NOBODY, -np.inf
    for z in range(candidate_means.shape[1]):
        if candidate_means[0, z] > value:
            feasible = True
            for j in range(thresholds.size):
                feasible &= candidate_means[1 + j, z] <= thresholds[j]
            if feasible:
                best, value = z, candidate_means[0, z]
    return best


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
def pick(shares, total, rng):
    """An index with probability proportional to its share; the shares have this total."""
    left = rng.random() * total
    last = 0
    for i in range(shares.size):
        if shares[i] > 0.0:
            last = i
            left -= shares[i]
            if left < 0.0:
                break
    return last


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
