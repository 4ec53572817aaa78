"""Which arm to pull for what is to be learnt: shared by several rules, compiled."""

import math

import numpy as np
from numba import njit

from bayes_feasible.compiled import BORROWER
from bayes_feasible.rules.engine import NOBODY
from bayes_feasible.rules.triangle import HALF, LEADER, SOLVED, forward, inner, solve


@njit(**BORROWER)
def pull_for(geo, state, work, candidate):
    """The arm to pull to learn about a candidate: itself, or what lowers its variances most.

    Where the blocks have precisions of their own, each variance counts relative to what it is.
    """
    if geo.shared == 1 and work.allowed[candidate] == 1:
        return candidate
    spare, rank, apart = work.spare, geo.arms.shape[1], geo.place[geo.place.size - 1] > 0
    for arm in range(len(geo.arms)):
        work.loss[arm] = 0.0
    for b in range(geo.place.size if apart else 1):
        base, row = geo.place[b] * rank, geo.place[b] * len(geo.candidates) + candidate
        square = solve(state.lower, base, geo.vectors, row, spare, spare, SOLVED)
        scale = 1.0
        if apart:
            if square == 0.0:
                continue
            scale = 1.0 / square
        for arm in range(len(geo.arms)):
            along = inner(geo.arms, arm, spare, SOLVED)
            forward(state.lower, base, geo.arms, arm, spare, HALF)
            told = state.info[b, arm] * scale
            left = 1.0 + state.info[b, arm] * inner(spare, HALF, spare, HALF)
            work.loss[arm] -= told * (along * along / left)
    return lowest(work.loss, work.allowed)


@njit(**BORROWER)
def nearest_event(bounds):
    """The event whose nearest parameters the pulls so far tell apart most slowly, or NOBODY."""
    nearest, least = NOBODY, np.inf
    for e in range(len(bounds)):
        square = 0.0
        for b in range(bounds.shape[1]):
            square += max(bounds[e, b], 0.0) ** 2
        if square < least:
            nearest, least = e, square
    return nearest


@njit(**BORROWER)
def separate(geo, state, work, leader, event):
    """Loss of each arm: minus what a pull tells of the event's nearest parameters.

    For a half-space with vector `a` that lies `bound` standard deviations off, a pull of `x`
    tells `bound² <x, V^-1 a>² / (a V^-1 a)`, times the variance of a 0/1 outcome or a count.
    Where noise is learnt, larger noise explains a part of what is far off. Where the means already
    lie in the event there is no nearest point, and its half-spaces count alike.
    """
    constraints, spare = geo.limits.size, work.spare
    outside = False
    for b in range(1 + constraints):
        outside |= work.bounds[event, b] > 0.0
    for arm in range(len(geo.arms)):
        work.loss[arm] = 0.0
    for b in range(1 + constraints):
        least = work.bounds[event, b]
        if least == -np.inf or (outside and least <= 0.0):
            continue
        row, square = direct(geo, state, work, leader, event, b)
        weight = 1.0 / square
        if outside:
            weight = far_off(least, state.freedom[b]) / square
        for arm in range(len(geo.arms)):
            work.loss[arm] -= weight * state.info[b, arm] * inner(geo.arms, arm, spare, row) ** 2


@njit(**BORROWER, forceinline=True)
def far_off(bound, freedom):
    """`bound²`; in Student's law of so many degrees of freedom `t² / (1 + t²/freedom)`."""
    if freedom == 0.0:
        return bound * bound
    share = (8.0 * freedom + 3.0) / (8.0 * freedom + 1.0)
    return -freedom * math.expm1(-(share * bound) * (share * bound) / freedom)


@njit(**BORROWER, forceinline=True)
def direct(geo, state, work, leader, event, b):
    """Where in `work.spare` `V^-1 a` is, for an event's half-space in a block; and `a V^-1 a`."""
    constraints, spare, rank = geo.limits.size, work.spare, geo.arms.shape[1]
    base, first = geo.place[b] * rank, geo.place[b] * len(geo.candidates)
    if event < constraints:
        if base == 0:
            return LEADER, state.variances[leader]
        solve(state.lower, base, geo.vectors, first + leader, spare, spare, SOLVED)
        return SOLVED, state.variances[first + leader]
    z = event - constraints
    square = solve(state.lower, base, geo.vectors, first + z, spare, spare, SOLVED)
    if b == 0:
        square = work.distance[z]
        for i in range(rank):
            spare[SOLVED, i] -= spare[LEADER, i]
    return SOLVED, square


@njit(**BORROWER)
def lowest(values, allowed):
    """The index of the smallest value, the first of several, among those that are allowed."""
    best, least = NOBODY, np.inf
    for i in range(values.size):
        if allowed[i] == 1 and (best == NOBODY or values[i] < least):
            best, least = i, values[i]
    return best


@njit(**BORROWER)
def track(lag, shares, design, explore, allowed):
    """The allowed arm that lags most behind its cumulative share, mixed with exploration."""
    best = NOBODY
    for arm in range(shares.size):
        lag[arm] += (1.0 - explore) * shares[arm] + explore * design[arm]
        if allowed[arm] == 1 and (best == NOBODY or lag[arm] > lag[best]):
            best = arm
    lag[best] -= 1.0
    return best
