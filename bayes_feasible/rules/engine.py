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
from bayes_feasible.compiled import BORROWER, BORROWING_DOOR
from bayes_feasible.problem import Problem

REFRESH = 4096
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
    """What every rule remembers, as arrays that change in place: the pulls and the posterior.

    What a rule remembers beside them is its own `Memory`.
    """

    pulls: NDArray[np.int64]  # (arm,): all pulls
    counts: NDArray[np.int64]  # (arm,): pulls since the last restart
    sums: Array  # (arm, 1 + constraint)
    lower: Array  # (rank, rank): L, its diagonal inverted, which spares the divisions
    means: Array  # (block, rank)
    candidate_means: Array  # (block, candidate)
    variances: Array  # (candidate,)
    clock: NDArray[np.int64]  # (2,): rounds asked, pulls learnt


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
    return State(
        pulls=np.zeros(arms, dtype=np.int64),
        counts=np.zeros(arms, dtype=np.int64),
        sums=np.zeros((arms, 1 + problem.thresholds.size)),
        lower=np.eye(rank),
        means=np.zeros((blocks, rank)),
        candidate_means=np.zeros((blocks, candidates)),
        variances=np.sum(geometry.candidates**2, axis=1),
        clock=np.zeros(2, dtype=np.int64),
    )


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


@njit(**BORROWER)
def leader_or_random(candidate_means, thresholds, rng):
    """The empirical best feasible candidate; a random one if none looks feasible."""
    leader = mean_best(candidate_means, thresholds)
    if leader == NOBODY:
        leader = int(rng.random() * candidate_means.shape[1])
    return leader


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
