r"""The posterior inside the compiled loop: a round costs the same, however many there were.

The learner's view of a problem is a `Geometry`, what it knows is a `State`, both plain arrays.
Blocks: 0 is the reward, then the constraints with a finite threshold. A constraint that never
binds takes no part, and so changes nothing.

For each block the state keeps the posterior mean (or mode) and the triangle :math:`L` of the
posterior precision :math:`V = L L^\top` in units of the noise, and for each candidate its
posterior mean and :math:`z^\top V^{-1} z`. In the paper's model
:math:`V = I + \sum x x^\top` serves all blocks; elsewhere every block has a place of its own. A
pull of a Gaussian outcome updates all of them in :math:`O(r^2 + |Z| r)`, and every `REFRESH` pulls
they are computed afresh from the counts and sums, so that rounding never adds up. Where the noise
is learnt, :math:`V` is in units of the noise as it is thought to be, and the posterior is
Student's. For 0/1 and counts the mode is found anew each time, and :math:`V` is its curvature.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, BORROWING_DOOR
from bayes_feasible.outcomes import Gaussian, Outcome
from bayes_feasible.problem import Problem
from bayes_feasible.rules.mode import BERNOULLI, KNOWN, LEARNT, POISSON, climb
from bayes_feasible.rules.triangle import (
    HALF,
    SOLVED,
    VECTOR,
    forward,
    inner,
    prior_times,
    solve,
    update_triangle,
)

REFRESH = 4096
NOBODY = -1
# Python's own integers would be literals to the compiler: a version of each function for each.
REWARD = np.int64(0)  # the first block


class Geometry(NamedTuple):
    """A problem as arrays, in coordinates of the span of the arms."""

    arms: Array  # (arm, rank)
    candidates: Array  # (candidate, rank)
    same: NDArray[np.int64]  # (candidate,): the first candidate with the same vector
    limits: Array  # (constraint with a finite threshold,), on the natural scale
    columns: NDArray[np.int64]  # (block,): column of the sums
    design: Array  # (arm,): G-optimal
    shared: int  # 1 where the candidates are the arms, 0 where they are not
    kind: NDArray[np.int64]  # (block,): KNOWN, LEARNT, BERNOULLI or POISSON
    place: NDArray[np.int64]  # (block,): which triangle; 0 for all in the paper's model
    vectors: Array  # (place * candidate, rank): what is compared with 0 and with the limits
    prior: Array  # (place * rank, rank): triangles of the prior precisions, in units of the noise
    centre: Array  # (block, rank): prior means
    noise: Array  # (block,): known, or its prior guess; 1 for 0/1 and counts
    freedom: Array  # (block,): the prior's degrees of freedom, where noise is learnt; 0 elsewhere
    learnt: NDArray[np.int64]  # (1 + constraint,): 1 where squares must be kept


class State(NamedTuple):
    """What every rule remembers, as arrays that change in place: the pulls and the posterior.

    What a rule remembers beside them is its own `Memory`.
    """

    pulls: NDArray[np.int64]  # (arm,): all pulls
    counts: NDArray[np.int64]  # (arm,): pulls since the last restart
    sums: Array  # (arm, 1 + constraint)
    missing: NDArray[np.int64]  # (arm, 1 + constraint): pulls that did not show it
    squares: Array  # (arm, 1 + constraint): about each arm's mean, where noise is learnt
    lower: Array  # (place * rank, rank): L, its diagonal inverted, which spares the divisions
    means: Array  # (block, rank)
    candidate_means: Array  # (block, candidate): of `vectors`
    variances: Array  # (place * candidate,)
    noise: Array  # (block,): known, or as it is thought to be
    freedom: Array  # (block,): degrees of freedom of Student's t; 0 for a Gaussian
    info: Array  # (block, arm): what a pull adds to V along the arm: 1, or the variance
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
    halves: Array  # (rank, arm): L^-1 of the arms, one in each column
    told: Array  # (arm,): what a pull of each arm tells along it
    along: Array  # (arm,): inner products with something
    allowed: NDArray[np.int64]  # (arm,): 0 where it may not be asked for


KEPT = (
    "lower", "means", "candidate_means", "variances", "noise", "freedom", "info",
)  # fmt: skip  # of a state: follow from the rest
KINDS = {"gaussian": KNOWN, "bernoulli": BERNOULLI, "poisson": POISSON}


def _is_learnt(outcome: Outcome) -> bool:
    return isinstance(outcome, Gaussian) and outcome.learnt


def geometry(problem: Problem, *, apart: bool = False) -> Geometry:
    """The arrays of a problem; with a place for every block where one V cannot serve all."""
    binding = np.flatnonzero(np.isfinite(problem.limits))
    columns = np.concatenate([[0], 1 + binding]).astype(np.int64)
    _, first, inverse = np.unique(
        problem.candidates, axis=0, return_index=True, return_inverse=True
    )
    basis, rank = problem.basis, problem.rank
    arms = np.ascontiguousarray(problem.arms @ basis)
    candidates = np.ascontiguousarray(problem.candidates @ basis)
    outcomes = [problem.outcomes[column] for column in columns]
    learnt = np.array([_is_learnt(one) for one in problem.outcomes])
    place, vectors, prior = np.zeros(columns.size, dtype=np.int64), candidates, np.eye(rank)
    noise, freedom = np.ones(columns.size), np.zeros(columns.size)
    centre = np.zeros((columns.size, rank))
    for b, one in enumerate(outcomes):
        if isinstance(one, Gaussian):
            shape, scale = one.noise_prior
            noise[b] = np.sqrt(scale / shape) if one.noise is None else one.noise
            freedom[b] = 2 * shape if one.noise is None else 0.0
    if apart or not problem.textbook:
        place = np.arange(columns.size)
        compared = [candidates, *(problem.cost_vectors[:, j] @ basis for j in binding)]
        vectors = np.ascontiguousarray(np.vstack(compared))
        centre = np.array([problem.priors[column][0] @ basis for column in columns])
        prior = np.vstack([
            _prior_triangle(basis.T @ problem.priors[column][1] @ basis / noise[b] ** 2)
            for b, column in enumerate(columns)
        ])  # fmt: skip
    kind = [LEARNT if _is_learnt(one) else KINDS[one.kind] for one in outcomes]
    return Geometry(
        arms=arms,
        candidates=candidates,
        same=first[inverse.ravel()].astype(np.int64),
        limits=problem.limits[binding].copy(),
        columns=columns,
        design=problem.design,
        shared=int(problem.candidates is problem.arms),
        kind=np.array(kind, dtype=np.int64),
        place=place.astype(np.int64),
        vectors=vectors,
        prior=prior,
        centre=centre,
        noise=noise,
        freedom=freedom,
        learnt=learnt.astype(np.int64),
    )


def _prior_triangle(covariance: Array) -> Array:
    """The triangle of a prior precision, its diagonal inverted."""
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    lower = np.linalg.qr(root, mode="r").T
    lower = lower * np.sign(np.diag(lower))
    np.fill_diagonal(lower, 1.0 / np.diag(lower))
    return np.ascontiguousarray(lower)


def initial_state(problem: Problem, geometry: Geometry) -> State:
    """The state before the first pull."""
    arms = len(geometry.arms)
    blocks, candidates = geometry.noise.size, len(geometry.candidates)
    table = (arms, 1 + problem.thresholds.size)
    state = State(
        pulls=np.zeros(arms, dtype=np.int64),
        counts=np.zeros(arms, dtype=np.int64),
        sums=np.zeros(table),
        missing=np.zeros(table, dtype=np.int64),
        squares=np.zeros(table),
        lower=geometry.prior.copy(),
        means=geometry.centre.copy(),
        candidate_means=np.zeros((blocks, candidates)),
        variances=np.zeros(len(geometry.vectors)),
        noise=geometry.noise.copy(),
        freedom=geometry.freedom.copy(),
        info=np.ones((blocks, arms)),
        clock=np.zeros(2, dtype=np.int64),
    )
    if problem.textbook and not geometry.place.any():
        state.variances[:] = np.sum(geometry.candidates**2, axis=1)
    else:
        refresh(geometry, state, scratch(geometry))
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
        np.zeros((rank, arms)),
        np.zeros(arms),
        np.zeros(arms),
        np.ones(arms, dtype=np.int64),
    )


@njit(**BORROWER, forceinline=True)
def stop_of(geo, b):
    """One after the last block that has the place of this one, which is the first that has it."""
    return b + 1 if geo.place[geo.place.size - 1] > 0 else geo.place.size


@njit(**BORROWER, forceinline=True)
def seen_of(geo, state, arm, b):
    """How many pulls of an arm showed a block."""
    return state.counts[arm] - state.missing[arm, geo.columns[b]]


@njit(**BORROWING_DOOR)
def refresh(geo, state, work):
    """Compute everything that is kept from the counts and sums alone."""
    b = np.int64(0)  # of the type of all others: nothing is compiled twice
    while b < geo.noise.size:
        stop = stop_of(geo, b)
        if geo.kind[b] >= BERNOULLI:
            climb(geo, state, work, b)
        else:
            add_up(geo, state, work, b, stop)
        measure(geo, state, work, b, stop)
        b = stop


@njit(**BORROWER)
def add_up(geo, state, work, start, stop):
    """The triangle, means and noise of Gaussian blocks that share a place, from the sums."""
    arms, rank = geo.arms.shape
    spare, base = work.spare, geo.place[start] * rank
    for i in range(rank):
        for j in range(rank):
            state.lower[base + i, j] = geo.prior[base + i, j]
    for arm in range(arms):
        seen = seen_of(geo, state, arm, start)
        if seen > 0:
            root = math.sqrt(float(seen))
            for i in range(rank):
                spare[VECTOR, i] = root * geo.arms[arm, i]
            update_triangle(state.lower, base, spare, VECTOR)
    for b in range(start, stop):
        for i in range(rank):
            spare[VECTOR, i] = 0.0
        for arm in range(arms):
            excess = state.sums[arm, geo.columns[b]]
            excess -= seen_of(geo, state, arm, b) * inner(geo.arms, arm, geo.centre, b)
            for i in range(rank):
                spare[VECTOR, i] += excess * geo.arms[arm, i]
        solve(state.lower, base, spare, VECTOR, spare, state.means, b)
        for i in range(rank):
            spare[VECTOR, i] = state.means[b, i]
            state.means[b, i] += geo.centre[b, i]
        if geo.kind[b] == LEARNT:
            learn_noise(geo, state, work, b)


@njit(**BORROWER, forceinline=True)
def learn_noise(geo, state, work, b):
    """Noise and degrees of freedom from the sums; `spare[VECTOR]` is the mean over the prior's."""
    spare, base, column = work.spare, geo.place[b] * geo.arms.shape[1], geo.columns[b]
    pulls = 0
    square = prior_times(geo.prior, base, spare, VECTOR, spare, spare, SOLVED)
    for arm in range(len(geo.arms)):
        seen = seen_of(geo, state, arm, b)
        if seen > 0:
            off = state.sums[arm, column] / seen - inner(geo.arms, arm, state.means, b)
            square += state.squares[arm, column] + seen * off * off
            pulls += seen
    state.freedom[b] = geo.freedom[b] + pulls
    square += geo.freedom[b] * geo.noise[b] * geo.noise[b]
    state.noise[b] = math.sqrt(square / state.freedom[b])


@njit(**BORROWER, forceinline=True)
def measure(geo, state, work, start, stop):
    """What is kept of each candidate, for blocks that share a place."""
    candidates, rank = geo.candidates.shape
    base, first = geo.place[start] * rank, geo.place[start] * candidates
    for z in range(candidates):
        state.variances[first + z] = solve(
            state.lower, base, geo.vectors, first + z, work.spare, work.spare, SOLVED
        )
        for b in range(start, stop):
            state.candidate_means[b, z] = inner(geo.vectors, first + z, state.means, b)


@njit(**BORROWING_DOOR)
def learn(geo, state, work, arm, reward, costs):
    """Take in one pull that showed everything."""
    for column in range(geo.learnt.size):
        if geo.learnt[column] == 1:
            keep_square(state, arm, column, reward if column == 0 else costs[column - 1])
    state.pulls[arm] += 1
    state.counts[arm] += 1
    state.sums[arm, 0] += reward
    for j in range(costs.size):
        state.sums[arm, 1 + j] += costs[j]
    state.clock[1] += 1
    if state.clock[1] % REFRESH == 0:
        refresh(geo, state, work)
        return
    b = np.int64(0)  # of the type of all others: nothing is compiled twice
    while b < geo.noise.size:
        stop = stop_of(geo, b)
        if geo.kind[b] >= BERNOULLI:
            climb(geo, state, work, b)
            measure(geo, state, work, b, stop)
        else:
            learn_blocks(geo, state, work, arm, reward, costs, b, stop)
        b = stop


@njit(**BORROWER, forceinline=True)
def keep_square(state, arm, column, seen):
    """Add to the squares about the arm's mean."""
    before = state.counts[arm] - state.missing[arm, column]
    if before > 0:
        off = seen - state.sums[arm, column] / before
        state.squares[arm, column] += off * off * before / (before + 1)


@njit(**BORROWER, forceinline=True)
def learn_blocks(geo, state, work, arm, reward, costs, start, stop):
    """Take in what one pull showed of Gaussian blocks that share a place."""
    candidates, rank = geo.candidates.shape
    base, first, spare = geo.place[start] * rank, geo.place[start] * candidates, work.spare
    square = solve(state.lower, base, geo.arms, arm, spare, spare, SOLVED)
    for b in range(start, stop):
        seen = reward if b == 0 else costs[geo.columns[b] - 1]
        work.surprise[b] = (seen - inner(geo.arms, arm, state.means, b)) / (1.0 + square)
        for i in range(rank):
            state.means[b, i] += spare[SOLVED, i] * work.surprise[b]
        if geo.kind[b] == LEARNT:
            total = state.freedom[b] * state.noise[b] * state.noise[b]
            total += work.surprise[b] * work.surprise[b] * (1.0 + square)
            state.freedom[b] += 1.0
            state.noise[b] = math.sqrt(total / state.freedom[b])
    for i in range(rank):
        spare[VECTOR, i] = geo.arms[arm, i]
    update_triangle(state.lower, base, spare, VECTOR)
    for z in range(candidates):
        along = inner(geo.vectors, first + z, spare, SOLVED)
        for b in range(start, stop):
            state.candidate_means[b, z] += along * work.surprise[b]
        old = state.variances[first + z]
        state.variances[first + z] = old - along * along / (1.0 + square)
        if state.variances[first + z] < 0.5 * old:  # so much was learnt: the difference lost digits
            forward(state.lower, base, geo.vectors, first + z, spare, HALF)
            state.variances[first + z] = inner(spare, HALF, spare, HALF)


@njit(**BORROWING_DOOR)
def mean_best(candidate_means, limits):
    """The candidate of highest mean reward among those that look feasible, or NOBODY."""
    best, value = NOBODY, -np.inf
    for z in range(candidate_means.shape[1]):
        if candidate_means[0, z] > value:
            feasible = True
            for j in range(limits.size):
                feasible &= candidate_means[1 + j, z] <= limits[j]
            if feasible:
                best, value = z, candidate_means[0, z]
    return best


@njit(**BORROWER)
def leader_or_random(candidate_means, limits, rng):
    """The empirical best feasible candidate; a random one if none looks feasible."""
    leader = mean_best(candidate_means, limits)
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


@njit(**BORROWER)
def pick_arm(shares, allowed, rng):
    """An allowed arm with probability proportional to its share; any of them if all have none."""
    barred, total = 0, 0.0
    for arm in range(shares.size):
        if allowed[arm] == 1:
            total += shares[arm]
        else:
            barred += 1
    if barred == 0:
        return pick(shares, 1.0, rng)
    left, last = rng.random(), NOBODY
    for arm in range(shares.size):
        if allowed[arm] == 1:
            share = shares[arm] / total if total > 0.0 else 1.0 / (shares.size - barred)
            if share > 0.0 or last == NOBODY:
                last = arm
            left -= share
            if left < 0.0:
                break
    return last
