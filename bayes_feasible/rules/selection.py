"""Which arm to pull for what is to be learnt: shared by several rules, compiled."""

import numpy as np
from numba import njit

from bayes_feasible.compiled import BORROWER
from bayes_feasible.rules.engine import HALF, LEADER, NOBODY, SOLVED, forward, inner, solve


@njit(**BORROWER)
def pull_for(geo, state, work, candidate):
    """The arm to pull to learn about a candidate: itself, or what lowers its variance most."""
    if geo.shared == 1:
        return candidate
    spare = work.spare
    solve(state.lower, geo.candidates, candidate, spare, spare, SOLVED)
    best, value = 0, -1.0
    for arm in range(len(geo.arms)):
        along = inner(geo.arms, arm, spare, SOLVED)
        forward(state.lower, geo.arms, arm, spare, HALF)
        gain = along * along / (1.0 + inner(spare, HALF, spare, HALF))
        if gain > value:
            best, value = arm, gain
    return best


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
    tells `bound² <x, V^-1 a>² / (a V^-1 a)`. Where the means already lie in the event there is
    no nearest point, and its half-spaces count alike.
    """
    constraints, spare = geo.thresholds.size, work.spare
    outside = False
    for b in range(1 + constraints):
        outside |= work.bounds[event, b] > 0.0
    for arm in range(len(geo.arms)):
        work.loss[arm] = 0.0
    for b in range(1 + constraints):
        least = work.bounds[event, b]
        if least == -np.inf or (outside and least <= 0.0):
            continue
        row, square = LEADER, state.variances[leader]
        if event >= constraints:
            z = event - constraints
            row, square = SOLVED, solve(state.lower, geo.candidates, z, spare, spare, SOLVED)
            if b == 0:
                square = work.distance[z]
                for i in range(len(state.lower)):
                    spare[SOLVED, i] -= spare[LEADER, i]
        weight = (least * least if outside else 1.0) / square
        for arm in range(len(geo.arms)):
            work.loss[arm] -= weight * inner(geo.arms, arm, spare, row) ** 2


@njit(**BORROWER)
def lowest(values):
    """The index of the smallest value."""
    best = 0
    for i in range(values.size):
        if values[i] < values[best]:
            best = i
    return best


@njit(**BORROWER)
def track(lag, shares, design, explore):
    """The arm that lags most behind its cumulative share of shares mixed with exploration."""
    best = 0
    for arm in range(shares.size):
        lag[arm] += (1.0 - explore) * shares[arm] + explore * design[arm]
        if lag[arm] > lag[best]:
            best = arm
    lag[best] -= 1.0
    return best
