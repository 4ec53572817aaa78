"""The nearest parameters in an event, measured by what an allocation can tell apart."""

import numpy as np
from scipy.linalg import qr, solve_triangular

from bayes_feasible._check import Array
from bayes_feasible.alternative.bounded import ball_multipliers, constrained_mode
from bayes_feasible.span import span

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
    unit = np.abs(rows).max(axis=0)  # neither the unit of a feature nor a small share may hide
    unit[unit == 0] = 1.0
    rows, vectors = rows / unit, vectors / unit
    rank = span(rows).shape[1]
    order = np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")
    factor, pivots = qr(rows[order], mode="r", pivoting=True)
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
    return costs, unpermuted / unit


def nearest(
    theta: Array, noise: Array, rows: Array, vectors: Array, limits: Array
) -> tuple[Array, Array]:
    """Exponent of each event, and the nearest parameters in the event of smallest exponent.

    Parameters
    ----------
    theta : array (block, feature)
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
    """`nearest` within balls."""
    _, roots, axes = np.linalg.svd(rows)
    least = max(rows.shape) * np.finfo(float).eps * roots[0]
    rank = int(np.sum(roots > least))
    values = np.full(len(axes), least**2)  # unseen directions cost next to nothing
    values[:rank] = roots[:rank] ** 2
    axes = axes.T
    rotated, turned = theta @ axes, vectors @ axes
    rest, whole = (np.linalg.norm(v, axis=-1) for v in (turned[..., rank:], turned))
    turned[rest <= FREE * whole, rank:] = 0.0  # but a rounding must not lead there
    precision = values / noise[:, np.newaxis] ** 2
    multiplier = ball_multipliers(rotated, precision, turned, limits, radius)
    met = multiplier >= 0.0
    found = constrained_mode(
        rotated, precision, turned, np.where(met, limits, -np.inf), np.maximum(multiplier, 0.0)
    )
    exponents = 0.5 * np.sum(precision * (found - rotated) ** 2, axis=(1, 2))
    exponents[~met.all(axis=1)] = np.inf
    return exponents, found[int(np.argmin(exponents))] @ axes.T
