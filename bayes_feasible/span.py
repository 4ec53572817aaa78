r"""Linear algebra for information matrices: arms in their span, and graded weights.

An allocation on the boundary of the simplex has weights of very different size, and the
information matrix :math:`V_w = \sum_x w_x x x^\top` is then nearly singular. Nothing here forms
it: everything goes through a triangular factor of the weighted arms.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dgeqp3, dorgqr, dpotrf, dpotrs

from bayes_feasible._check import Array

# An arm closer than this to the span of the chosen ones is not needed as a basis vector, unless
# there is no better one.
COLLINEAR = 1e-9
NARROW = 1e-3  # a basis of arms this near to collinear loses digits that are worth getting back
REFINEMENTS = 3  # each wins as many digits as the basis leaves
SPAN_TOLERANCE = np.sqrt(np.finfo(float).eps)
EQUILIBRATIONS = 4  # rounds of scaling before the rank of the arms is decided
BLOCK = 32  # columns that LAPACK works on at once
OUT = 1e64  # a pivot so large that its coordinate takes no part

Factor = tuple[Array, NDArray[np.int64]]  # lower triangle, and the order of the features


def coordinates(
    arms: Array, vectors: Array, rank: int, rests: Any = None
) -> tuple[Array, Array, NDArray[np.int64], Array]:
    """Arms and vectors as combinations of `rank` of the arms, chosen greedily for large volume.

    The exponents do not change under a linear map, and in these coordinates the arms have
    entries of order one whatever the scale of features and arms. `rests` is what rounding has cut
    off the vectors.

    Returns
    -------
    arms, vectors : arrays of shapes (arm, rank) and (vector, rank)
        To nearly all their digits, also where the arms are nearly collinear.
    chosen : array of shape (rank,)
        Which arms are the basis: row `chosen[j]` of the arms is the j-th unit vector.
    outside : array of shape (vector,)
        Share of the length of each vector that is outside the span of the arms.
    """
    unit = np.abs(arms).max(axis=0)
    unit[unit == 0] = 1.0
    axes, reduced, chosen = _greedy_basis(arms / unit, rank)
    scaled = vectors / unit
    within, rest = np.zeros((len(vectors), rank)), scaled
    for _ in range(2):  # the second time for the digits of orthogonality
        share = rest @ axes.T
        within, rest = within + share, rest - share @ axes
    length = np.linalg.norm(scaled, axis=1)
    share_outside = np.linalg.norm(rest, axis=1) / np.where(length > 0, length, 1.0)
    triangular = reduced[chosen]  # lower
    reduced, within = _solve(triangular, reduced), _solve(triangular, within)
    reduced[chosen] = np.eye(rank)
    basis = arms[chosen]
    length = np.linalg.norm(basis / unit, axis=1)
    rows = basis / unit / length[:, np.newaxis]
    if rank > 1 and np.linalg.svd(rows, compute_uv=False)[-1] < NARROW:
        back = np.linalg.pinv(rows, rcond=0.0) / length
        back /= unit[:, np.newaxis]
        others = np.ones(len(arms), dtype=bool)
        others[chosen] = False  # these are unit vectors
        reduced[others] = _refined(reduced[others], arms[others], 0.0, basis, back)
        within = _refined(within, vectors, 0.0 if rests is None else rests, basis, back)
    return reduced, within, chosen, share_outside


def _greedy_basis(arms: Array, rank: int) -> tuple[Array, Array, NDArray[np.int64]]:
    """Orthonormal axes of well separated arms, all arms along them, and which arms those are.

    Each is the arm furthest from the span of those before it, as pivots are.
    """
    factored, pivots, tau = _pivoted_qr(arms.T)
    chosen, remaining = pivots[:rank], np.abs(factored.diagonal()[:rank])
    if (remaining <= COLLINEAR * np.linalg.norm(arms[chosen], axis=1)).any():
        return _careful_basis(arms, rank)
    along = np.empty((len(arms), rank))
    along[pivots] = np.triu(factored[:rank]).T
    return dorgqr(factored[:, :rank], tau[:rank])[0].T, along, chosen


def _careful_basis(arms: Array, rank: int) -> tuple[Array, Array, NDArray[np.int64]]:
    """`_greedy_basis`, but arms that are almost in the span of others have to wait."""
    rest = arms.copy()
    length = np.linalg.norm(arms, axis=1)
    left = length.copy()
    axes, along = np.zeros((rank, arms.shape[1])), np.zeros((len(arms), rank))
    chosen = np.zeros(rank, dtype=np.int64)
    for step in range(rank):
        clear = left > COLLINEAR * length
        size = np.where(clear, left, 0.0) if clear.any() else left / np.maximum(length, 1e-300)
        best = chosen[step] = np.argmax(size)
        axis = rest[best]
        # Once more: a short remainder has lost digits of orthogonality.
        axis = axis - (axes[:step] @ axis) @ axes[:step]
        axis = axes[step] = axis / np.linalg.norm(axis)
        along[:, step] = rest @ axis
        rest -= along[:, step, np.newaxis] * axis
        left = np.linalg.norm(rest, axis=1)
        left[chosen[: step + 1]] = 0.0
    return axes, along, chosen


def _pivoted_qr(matrix: Array) -> tuple[Array, NDArray[np.int64], Array]:
    """Householder QR as LAPACK stores it: the factors in one, the pivots, the reflections."""
    columns = matrix.shape[1]
    factored, pivots, tau, _, _ = dgeqp3(matrix, lwork=2 * columns + (columns + 1) * BLOCK)
    return factored, pivots - 1, tau


def _refined(along: Array, rows: Array, rests: Any, basis: Array, back: Array) -> Array:
    """Coordinates with the digits that a narrow basis took: what they leave is solved for again."""
    for _ in range(REFINEMENTS):
        along = along + _left(along, rows, rests, basis) @ back
    return along


def _left(along: Array, rows: Array, rests: Any, basis: Array) -> Array:
    """`rows + rests - along @ basis`, summed in twice the working precision (Dekker 1971)."""
    total, small = rows.astype(float), np.zeros(rows.shape) + rests
    for j in range(len(basis)):
        factor, other = along[:, j, np.newaxis], basis[j]
        product = factor * other
        (high, low), (other_high, other_low) = _halves(factor), _halves(other)
        lost = low * other_low - (product - high * other_high - low * other_high - high * other_low)
        new = total - product
        back = new - total
        small += (total - (new - back)) - (product + back) - lost
        total = new
    return total + small


def _halves(value: Array) -> tuple[Array, Array]:
    """A number as the sum of two of half as many digits."""
    shifted = (2.0**27 + 1) * value
    high = shifted - (shifted - value)
    return high, value - high


def triangle(arms: Array, weights: Array) -> Factor:
    r"""Lower triangle L and feature order with :math:`V_w = L L^\top` in that order.

    Householder QR of the arms times the roots of their weights, largest rows first and with
    column pivoting, which keeps the digits of rows of very different size (Cox and Higham 1998,
    "Stability of Householder QR factorization for weighted least squares problems").
    """
    scaled = np.sqrt(weights)[:, np.newaxis] * arms
    factored, order, _ = _pivoted_qr(scaled.take(_largest_first(scaled), axis=0))
    return factored[: arms.shape[1]].T, order


def least_squares(arms: Array, weights: Array, right: Array) -> tuple[Factor, Array]:
    r"""Factor of a weighted least-squares problem, and its right-hand sides turned with it.

    As in `triangle`, but the signs are chosen here: they decide what a seed draws. The solutions
    are :math:`L^{-\top}` times what has been turned: `unwhiten(factor, turned)`.
    """
    rank = arms.shape[1]
    root = np.sqrt(weights)[:, np.newaxis]
    scaled = root * arms
    rows = _largest_first(scaled)
    work = np.ascontiguousarray(np.hstack([scaled, root * right])[rows].T)
    order = np.arange(rank)
    for j in range(rank):
        trailing = work[j:rank, j:]
        norm = np.einsum("ki,ki->k", trailing, trailing)
        pivot = j + int(np.argmax(norm))
        if pivot != j:
            work[[j, pivot]], order[[j, pivot]] = work[[pivot, j]], order[[pivot, j]]
        mirror = work[j, j:].copy()
        diagonal = math.copysign(math.sqrt(norm[pivot - j]), -1.0 if mirror[0] > 0 else 1.0)
        mirror[0] -= diagonal
        rest = work[j + 1 :, j:]
        rest -= np.outer(rest @ mirror / (0.5 * (mirror @ mirror)), mirror)
        work[j, j] = diagonal
    return (work[:rank, :rank].copy(), order), work[rank:, :rank].copy()


def _largest_first(rows: Array) -> NDArray[np.int64]:
    """Order by decreasing size, up to a factor of two."""
    size = np.abs(rows).max(axis=1)
    magnitude = np.frexp(size)[1]
    magnitude[size == 0.0] = magnitude.min()
    return (-magnitude).argsort(kind="stable")


def inverse_information(arms: Array, weights: Array) -> Array:
    r""":math:`V_w^{-1}`, where neither weights nor arms are graded."""
    return np.linalg.inv((arms.T * weights) @ arms)


def whiten(factor: Factor, vectors: Array) -> Array:
    r"""Rows :math:`L^{-1} v`, so that inner products become :math:`v^\top V_w^{-1} v'`."""
    lower, order = factor
    return _solve(lower, vectors.take(order, axis=1), transposed=True)


def unwhiten(factor: Factor, white: Array) -> Array:
    r"""Rows :math:`L^{-\top} s`: after `whiten` this completes :math:`V_w^{-1} v`."""
    lower, order = factor
    solved = np.empty_like(white)
    solved[:, order] = _solve(lower, white)
    return solved


def _solve(lower: Array, rows: Array, *, transposed: bool = False) -> Array:
    r"""Rows :math:`L^{-\top} s`, or :math:`L^{-1} s`."""
    if rows.size == 0:
        return rows
    return dtrsm(1.0, lower.T, rows.T, trans_a=int(transposed)).T


def cholesky(matrix: Array) -> Array:
    """The lower Cholesky factor of a matrix that is positive definite up to rounding.

    A pivot that rounding has made non-positive is replaced by a huge one, which leaves that
    coordinate out of the solution.
    """
    factor, failed = dpotrf(matrix, lower=1)
    if failed:
        factor = np.tril(matrix)
        for j in range(len(factor)):
            pivot = factor[j, j]
            factor[j, j] = np.sqrt(pivot) if pivot > 0 else OUT
            factor[j + 1 :, j] /= factor[j, j]
            factor[j + 1 :, j + 1 :] -= np.outer(factor[j + 1 :, j], factor[j + 1 :, j])
    return factor


def cholesky_solve(factor: Array, right: Array) -> Array:
    """Solve with the factor of `cholesky`."""
    return dpotrs(factor, right, lower=1)[0]


def span(arms: Array) -> Array:
    """Orthonormal columns that span the rows of `arms`.

    The rank is decided on arms of length one, and again on equilibrated ones (rows and columns
    scaled in turns), so that neither the unit of a feature nor the length of an arm hides a
    direction. No scaling can add one, so the highest rank seen counts. Arms of full rank give the
    identity, which leaves every number as the user wrote it.
    """
    features = arms.shape[1]
    scaled = _unit_rows(arms)
    rank = _numerical_rank(scaled)
    for _ in range(EQUILIBRATIONS):
        if rank == min(arms.shape):  # the highest there can be
            break
        scaled = _balanced_rows(_balanced_rows(scaled.T).T)
        rank = max(rank, _numerical_rank(_unit_rows(scaled)))
    if rank == features:
        return np.eye(features)
    return np.ascontiguousarray(directions(arms)[:, :rank])


def outside(vectors: Array, basis: Array) -> NDArray[np.bool_]:
    """Which vectors, along the last axis, are not in the span of orthonormal columns."""
    rest = np.linalg.norm(vectors - vectors @ basis @ basis.T, axis=-1)
    return rest > SPAN_TOLERANCE * np.linalg.norm(vectors, axis=-1)


def directions(arms: Array) -> Array:
    """Orthonormal columns, of which the first span most of the arms' directions."""
    return qr(_unit_rows(arms).T, mode="economic", pivoting=True)[0]


def _balanced_rows(rows: Array) -> Array:
    """Rows divided by the geometric mean of their entries other than 0."""
    there = rows != 0
    logs = np.log(np.abs(rows), where=there, out=np.zeros_like(rows))
    mean = logs.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return rows * np.exp(-mean)[:, np.newaxis]


def _numerical_rank(rows: Array) -> int:
    pivots = np.abs(np.diag(qr(rows.T, mode="r", pivoting=True)[0]))
    return int(np.sum(pivots > 8 * max(rows.shape) * np.finfo(float).eps * pivots[0]))


def _unit_rows(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
