"""The posterior of 0/1 outcomes and counts in the compiled loop: Newton on the sums.

The log density `Σ_x (y_x s_x - n_x A(s_x)) - |L_0^T (θ - μ)|² / 2`, with `s_x = <x, θ>`, is
concave. Newton starts from the last mode, which a pull moves by little: two steps will mostly do.
"""

import math

import numpy as np
from numba import njit

from bayes_feasible.compiled import BORROWER
from bayes_feasible.rules.triangle import SOLVED, VECTOR, inner, prior_times, solve
from bayes_feasible.rules.triangle import update_triangle as update

KNOWN, LEARNT, BERNOULLI, POISSON = np.arange(4)  # kinds of outcomes
STEPS = 200
CONVERGED = 1e-12  # squared distance to the mode, in posterior standard deviations
FLAT = 1e-6  # the same, where the density itself can no longer tell better from worse


@njit(**BORROWER, forceinline=True)
def mean_of(kind, natural):
    """`A'`: the mean of an outcome."""
    if kind == POISSON:
        return math.exp(natural)
    if natural < 0.0:
        odds = math.exp(natural)
        return odds / (1.0 + odds)
    return 1.0 / (1.0 + math.exp(-natural))


@njit(**BORROWER, forceinline=True)
def variance_of(kind, natural):
    """`A''`: the variance of an outcome, what one pull tells of the natural parameter."""
    if kind == POISSON:
        return math.exp(natural)
    odds = math.exp(-abs(natural))
    return odds / ((1.0 + odds) * (1.0 + odds))


@njit(**BORROWER, forceinline=True)
def cumulant(kind, natural):
    """`A`."""
    if kind == POISSON:
        return math.exp(natural)
    return max(natural, 0.0) + math.log1p(math.exp(-abs(natural)))


@njit(**BORROWER)
def log_density(geo, state, work, b, means, row):
    """The log density of a block at parameters, up to a constant. `spare[VECTOR]` is used."""
    spare, base, column = work.spare, geo.place[b] * geo.arms.shape[1], geo.columns[b]
    for i in range(geo.arms.shape[1]):
        spare[VECTOR, i] = means[row, i] - geo.centre[b, i]
    value = -0.5 * prior_times(geo.prior, base, spare, VECTOR, spare, spare, VECTOR)
    for arm in range(len(geo.arms)):
        seen = state.counts[arm] - state.missing[arm, column]
        if seen > 0:
            natural = inner(geo.arms, arm, means, row)
            value += state.sums[arm, column] * natural - seen * cumulant(geo.kind[b], natural)
    return value


@njit(**BORROWER)
def newton_step(geo, state, work, b):
    """The step to the mode into `spare[SOLVED]`, the curvature into the triangle.

    Returns the squared length of the step, in posterior standard deviations.
    """
    rank, spare = geo.arms.shape[1], work.spare
    base, column, lower, kind = geo.place[b] * rank, geo.columns[b], state.lower, geo.kind[b]
    for i in range(rank):
        spare[VECTOR, i] = geo.centre[b, i] - state.means[b, i]
    prior_times(geo.prior, base, spare, VECTOR, spare, spare, SOLVED)  # the slope of the prior
    for i in range(rank):
        for j in range(rank):
            lower[base + i, j] = geo.prior[base + i, j]
    for arm in range(len(geo.arms)):
        seen = state.counts[arm] - state.missing[arm, column]
        if seen > 0:
            natural = inner(geo.arms, arm, state.means, b)
            slope = state.sums[arm, column] - seen * mean_of(kind, natural)
            root = math.sqrt(seen * variance_of(kind, natural))
            for i in range(rank):
                spare[SOLVED, i] += slope * geo.arms[arm, i]
                spare[VECTOR, i] = root * geo.arms[arm, i]
            update(lower, base, spare, VECTOR)
    return solve(lower, base, spare, SOLVED, spare, spare, SOLVED)


@njit(**BORROWER)
def climb(geo, state, work, b):
    """Move a block to its mode, and write its curvature and what a pull of each arm tells."""
    rank, spare = geo.arms.shape[1], work.spare
    for _ in range(STEPS):
        square = newton_step(geo, state, work, b)
        for i in range(rank):
            work.draw[b, i] = spare[SOLVED, i]
        if square > FLAT and not shorten(geo, state, work, b, square):
            break
        for i in range(rank):
            state.means[b, i] += work.draw[b, i]
        if square <= CONVERGED:
            break
    for arm in range(len(geo.arms)):
        state.info[b, arm] = variance_of(geo.kind[b], inner(geo.arms, arm, state.means, b))


@njit(**BORROWER, forceinline=True)
def shorten(geo, state, work, b, square):
    """Halve the step in `work.draw[b]` until the density rises as it should, which it must."""
    rank, spare, size = geo.arms.shape[1], work.spare, 1.0
    before = log_density(geo, state, work, b, state.means, b)
    for _ in range(60):
        for i in range(rank):
            spare[SOLVED, i] = state.means[b, i] + work.draw[b, i]
        after = log_density(geo, state, work, b, spare, SOLVED)
        if after >= before + 1e-4 * size * square:
            return True
        size *= 0.5
        for i in range(rank):
            work.draw[b, i] *= 0.5
    return False
