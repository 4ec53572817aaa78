"""The nearest parameters in an event, measured by what an allocation can tell apart."""

import numpy as np
from scipy.linalg import qr, solve_triangular

from bayes_feasible._bounded import ball_multiplier
from bayes_feasible._check import Array

FREE = 1e-9  # share of a vector outside the span of the pulled arms that counts as outside


def cheapest_moves(rows: Array, vectors: Array) -> tuple[Array, Array]:
    r"""For each vector `v`, the move `y` with :math:`\langle v, y\rangle = 1` of least cost.

    The cost is :math:`y^\top V y` with :math:`V` = `rows.T @ rows`: it is
    :math:`1 / (v^\top V^{-1} v)`, and 0 where `v` is not in the span of the rows.

    Returns
    -------
    costs : array (vector,)
    moves : array (vector, feature)
    """
    order = np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")
    factor, pivots = qr(rows[order], mode="r", pivoting=True)
    size = np.abs(np.diag(factor))
    rank = int(np.sum(size > max(rows.shape) * np.finfo(float).eps * size[0]))
    axes, triangle = qr(factor[:rank].T, mode="full")
    inside, outside = axes[:, :rank], axes[:, rank:]
    permuted = vectors[:, pivots]
    white = solve_triangular(triangle[:rank], (permuted @ inside).T)
    square = np.sum(white**2, axis=0)
    square[square == 0.0] = np.inf  # wholly outside: replaced below
    moves = (inside @ solve_triangular(triangle[:rank], white / square, trans="T")).T
    costs = 1.0 / square
    rest = permuted @ outside
    free = np.linalg.norm(rest, axis=1) > FREE * np.linalg.norm(vectors, axis=1)
    if free.any():
        costs[free] = 0.0
        moves[free] = rest[free] @ outside.T / np.sum(rest[free] ** 2, axis=1, keepdims=True)
    unpermuted = np.empty_like(moves)
    unpermuted[:, pivots] = moves
    return costs, unpermuted


def nearest(
    theta: Array, noise: Array, rows: Array, vectors: Array, limits: Array
) -> tuple[Array, Array]:
    """Exponent of each event, and the nearest parameters in the event of smallest exponent.

    Parameters
    ----------
    theta : array (block, feature)
        In coordinates of the span of the arms, as are `rows` and `vectors`.
    noise : array (block,)
    rows : array (arm, feature)
        Arms times the roots of their shares.
    vectors, limits : arrays (event, block, feature) and (event, block)
        `vectors[e, b] @ theta[b] >= limits[e, b]`.
    """
    asked = np.isfinite(limits)
    gap = np.where(asked, limits - np.einsum("ebf,bf->eb", vectors, theta), limits)
    gap = np.maximum(gap, 0.0)
    cost, moves = np.zeros(limits.shape), np.zeros(vectors.shape)
    cost[asked], moves[asked] = cheapest_moves(rows, vectors[asked])
    cost[np.isposinf(limits)] = 1.0
    exponents = np.sum(gap**2 * cost / (2 * noise**2), axis=1)
    event = int(np.argmin(exponents))
    gap_found = np.where(np.isfinite(gap[event]), gap[event], 0.0)
    return exponents, theta + gap_found[:, np.newaxis] * moves[event]


def nearest_bounded(
    theta: Array, noise: Array, rows: Array, vectors: Array, limits: Array, radius: Array
) -> tuple[Array, Array]:
    """`nearest` within balls; in the features themselves, not in the span of the arms."""
    values, axes = np.linalg.eigh(rows.T @ rows)
    values = np.maximum(values, 1e-14 * values[-1])  # unseen directions cost next to nothing
    rotated, turned = theta @ axes, vectors @ axes
    found = np.tile(rotated, (len(limits), 1, 1))
    exponents = np.zeros(len(limits))
    for e, limit in enumerate(limits):
        for b in range(len(theta)):
            precision = values / noise[b] ** 2
            multiplier = ball_multiplier(
                rotated[b], precision, turned[e, b], limit[b], radius[b], found[e, b]
            )
            if multiplier < 0:
                exponents[e] = np.inf
            exponents[e] += 0.5 * np.sum(precision * (found[e, b] - rotated[b]) ** 2)
    return exponents, found[int(np.argmin(exponents))] @ axes.T
