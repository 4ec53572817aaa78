"""Triangles of precision matrices in the compiled loop: solve with them, and update them.

A triangle is `L` with `L L^T = V`, its diagonal inverted, which spares the divisions. Those of
several blocks stand under each other in one array; `base` is the row where one begins. Rows are
named by their index throughout: a view of a row costs more than the work on it.

Small functions are forced inline: handing over the arrays costs more than what is done with them.
"""

import math

import numpy as np
from numba import njit

from bayes_feasible.compiled import BORROWER

VECTOR, HALF, SOLVED, LEADER = np.arange(4)  # rows of `Work.spare`


@njit(**BORROWER, forceinline=True)
def forward(lower, base, vectors, row, result, to):
    """`result[to] = L^-1 vectors[row]`."""
    for i in range(lower.shape[1]):
        total = vectors[row, i]
        for j in range(i):
            total -= lower[base + i, j] * result[to, j]
        result[to, i] = total * lower[base + i, i]


@njit(**BORROWER, forceinline=True)
def backward(lower, base, vectors, row, result, to):
    """`result[to] = L^-T vectors[row]`."""
    rank = lower.shape[1]
    for i in range(rank - 1, -1, -1):
        total = vectors[row, i]
        for j in range(i + 1, rank):
            total -= lower[base + j, i] * result[to, j]
        result[to, i] = total * lower[base + i, i]


@njit(**BORROWER, forceinline=True)
def inner(left, row, right, other):
    """Inner product of two rows."""
    total = 0.0
    for i in range(left.shape[1]):
        total += left[row, i] * right[other, i]
    return total


@njit(**BORROWER, forceinline=True)
def solve(lower, base, vectors, row, spare, result, to):
    """`result[to] = V^-1 v` for the row `v`; returns `v V^-1 v`. `spare[HALF]` is used."""
    forward(lower, base, vectors, row, spare, HALF)
    backward(lower, base, spare, HALF, result, to)
    return inner(spare, HALF, spare, HALF)


@njit(**BORROWER, forceinline=True)
def update_triangle(lower, base, vectors, row):
    """Turn the triangle of `V` into that of `V + v v^T` for the row `v`, which is used up.

    What is left of `v` is taken from the triangle before the step: from the one after it, it would
    be a small difference of large products where the arms are long.
    """
    rank = lower.shape[1]
    for k in range(rank):
        sine = vectors[row, k] * lower[base + k, k]
        cosine = math.sqrt(1.0 + sine * sine)
        inverse = 1.0 / cosine
        lower[base + k, k] *= inverse
        for i in range(k + 1, rank):
            old = lower[base + i, k]
            lower[base + i, k] = (old + sine * vectors[row, i]) * inverse
            vectors[row, i] = (vectors[row, i] - sine * old) * inverse


@njit(**BORROWER, forceinline=True)
def prior_times(prior, base, vectors, row, spare, result, to):
    """`result[to] = V v` for the row `v`, from the triangle of `V`; returns `v V v`."""
    rank = prior.shape[1]
    for j in range(rank):  # L^T v
        total = vectors[row, j] / prior[base + j, j]
        for i in range(j + 1, rank):
            total += prior[base + i, j] * vectors[row, i]
        spare[HALF, j] = total
    for i in range(rank):
        total = spare[HALF, i] / prior[base + i, i]
        for j in range(i):
            total += prior[base + i, j] * spare[HALF, j]
        result[to, i] = total
    return inner(spare, HALF, spare, HALF)
