r"""Compiled linear algebra for information matrices: arms in their span, and graded weights.

An allocation on the boundary of the simplex has weights of very different size, and the
information matrix :math:`V_w = \sum_x w_x x x^\top` is then nearly singular. Nothing here forms
it: everything goes through a triangular factor of the weighted arms.
"""

import math

import numpy as np
from numba import njit

from bayes_feasible.compiled import DOOR, FAST, INNER

# An arm closer than this to the span of the chosen ones is not needed as a basis vector, unless
# there is no better one.
COLLINEAR = 1e-9
NARROW = 1e-3  # a basis of arms this near to collinear loses digits that are worth getting back
REFINEMENTS = 3  # each wins as many digits as the basis leaves
MAGNITUDES = 400  # binary orders of magnitude that the sizes of rows are told apart by


@njit(cache=True, fastmath=FAST)
def dot(left, right):
    """Inner product of two vectors."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@njit(cache=True)
def total(values):
    """Sum of a vector; this and the next two compile in a tenth of the time of NumPy's."""
    result = 0.0
    for i in range(values.size):
        result += values[i]
    return result


@njit(cache=True)
def smallest(values):
    """The smallest of a vector without NaN."""
    result = values[0]
    for i in range(values.size):
        result = min(result, values[i])
    return result


@njit(cache=True)
def largest(values):
    """The largest of a vector without NaN."""
    result = values[0]
    for i in range(values.size):
        result = max(result, values[i])
    return result


@njit(**INNER)
def _subtract(value, factor, other):
    """Value -= factor * other, in place."""
    for i in range(value.size):
        value[i] -= factor * other[i]


def coordinates(arms, vectors, rank, rests=None):
    """Arms and vectors as combinations of `rank` of the arms, chosen greedily for large volume.

    The exponents do not change under a linear map, and in these coordinates the arms have
    entries of order one whatever the scale of features and arms.

    Parameters
    ----------
    arms, vectors : arrays of shapes (arm, feature) and (vector, feature)
    rank : int
        The rank of the arms.
    rests : array of the shape of the vectors, optional
        What rounding has cut off the vectors.

    Returns
    -------
    arms, vectors : arrays of shapes (arm, rank) and (vector, rank)
        To nearly all their digits, also where the arms are nearly collinear.
    chosen : array of shape (rank,)
        Which arms are the basis: row `chosen[j]` of the arms is the j-th unit vector.
    outside : array of shape (vector,)
        Share of the length of each vector that is outside the span of the arms.
    """
    # Read-only arrays are another type to the compiler: with copies, one version serves all.
    reduced, within, chosen, outside = _coordinates(np.array(arms), np.array(vectors), rank)
    unit = np.abs(arms).max(axis=0)
    unit[unit == 0] = 1.0
    basis = arms[chosen]
    length = np.linalg.norm(basis / unit, axis=1)
    rows = basis / unit / length[:, np.newaxis]
    if rank > 1 and np.linalg.svd(rows, compute_uv=False)[-1] < NARROW:
        back = np.linalg.pinv(rows, rcond=0.0) / length
        back /= unit[:, np.newaxis]
        others = np.ones(len(arms), dtype=bool)
        others[chosen] = False  # these are unit vectors
        reduced[others] = _refined(reduced[others], arms[others], 0.0, basis, back)
        rests = 0.0 if rests is None else rests
        within = _refined(within, np.asarray(vectors), rests, basis, back)
    return reduced, within, chosen, outside


def _refined(along, rows, rests, basis, back):
    """Coordinates with the digits that a narrow basis took: what they leave is solved for again."""
    for _ in range(REFINEMENTS):
        along = along + _left(along, rows, rests, basis) @ back
    return along


def _left(along, rows, rests, basis):
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


def _halves(value):
    """A number as the sum of two of half as many digits."""
    shifted = (2.0**27 + 1) * value
    high = shifted - (shifted - value)
    return high, value - high


@njit(**DOOR)
def _coordinates(arms, vectors, rank):
    """The compiled part of `coordinates`."""
    number, features = arms.shape
    total = number + vectors.shape[0]
    rows = np.empty((total, features))
    for j in range(features):
        unit = 0.0
        for i in range(number):
            unit = max(unit, abs(arms[i, j]))
        for i in range(total):
            entry = arms[i, j] if i < number else vectors[i - number, j]
            rows[i, j] = entry / unit if unit > 0 else entry
    length = np.empty(total)
    for i in range(total):
        length[i] = np.sqrt(dot(rows[i], rows[i]))
    left = length.copy()
    along = np.zeros((total, rank))
    axes = np.zeros((rank, features))
    chosen = np.zeros(rank, np.int64)
    for step in range(rank):
        best = _next_basis_arm(left[:number], length)
        axis = axes[step]
        _subtract(axis, -1.0, rows[best])
        for j in range(step):  # once more: a short remainder has lost digits of orthogonality
            _subtract(axis, dot(axes[j], axis), axes[j])
        _subtract(axis, 1 - 1 / np.sqrt(dot(axis, axis)), axis)
        chosen[step] = best
        for i in range(total):
            share = dot(axis, rows[i])
            along[i, step] = share
            _subtract(rows[i], share, axis)
            left[i] = np.sqrt(dot(rows[i], rows[i]))
        left[best] = 0.0
    basis = np.empty((rank, rank))  # lower triangular
    for j in range(rank):
        for k in range(rank):
            basis[j, k] = along[chosen[j], k]
    for i in range(total):
        for j in range(rank - 1, -1, -1):
            along[i, j] /= basis[j, j]
            _subtract(along[i, :j], along[i, j], basis[j, :j])
    for j in range(rank):
        for k in range(rank):
            along[chosen[j], k] = 1.0 if k == j else 0.0
    outside = np.zeros(vectors.shape[0])
    for i in range(vectors.shape[0]):
        if length[number + i] > 0:
            outside[i] = left[number + i] / length[number + i]
    return along[:number].copy(), along[number:].copy(), chosen, outside


@njit(**INNER)
def _next_basis_arm(left, length):
    """The arm furthest from the span so far, in absolute terms among those clearly outside it."""
    furthest, widest = -1, 0
    for i in range(left.size):
        if left[i] > COLLINEAR * length[i] and (furthest < 0 or left[i] > left[furthest]):
            furthest = i
        if left[i] * length[widest] > left[widest] * length[i]:
            widest = i
    return furthest if furthest >= 0 else widest


@njit(**INNER)
def _largest_first(size):
    """Order by decreasing size, up to a factor of two: a counting sort by binary exponents."""
    top = math.frexp(largest(size))[1]
    bucket = np.empty(size.size, np.int64)
    first = np.zeros(MAGNITUDES + 2, np.int64)
    for i in range(size.size):
        below = top - math.frexp(size[i])[1] if size[i] > 0 else MAGNITUDES
        bucket[i] = min(max(below, 0), MAGNITUDES)
        first[bucket[i] + 1] += 1
    for b in range(MAGNITUDES):
        first[b + 1] += first[b]
    order = np.empty(size.size, np.int64)
    for i in range(size.size):
        order[first[bucket[i]]] = i
        first[bucket[i]] += 1
    return order


@njit(**DOOR)
def triangle(arms, weights):
    r"""Lower triangle L and feature order with :math:`V_w = L L^\top` in that order."""
    lower, order, _ = least_squares(arms, weights, np.empty((arms.shape[0], 0)))
    return lower, order


@njit(**DOOR)
def least_squares(arms, weights, right):
    r"""Factor of a weighted least-squares problem, and its right-hand sides turned with it.

    Householder QR of the arms times the roots of their weights, largest rows first and with
    column pivoting, which keeps the digits of rows of very different size (Cox and Higham 1998,
    "Stability of Householder QR factorization for weighted least squares problems").

    Returns
    -------
    lower : array (rank, rank)
        Triangle L with :math:`V_w = L L^\top` in the order of features that follows.
    order : array (rank,)
    turned : array (side, rank)
        The solutions are :math:`L^{-\top}` times these: `unwhiten_rows(lower, order, turned)`.
    """
    number, rank = arms.shape
    sides = right.shape[1]
    root, size = np.empty(number), np.zeros(number)
    for i in range(number):
        root[i] = np.sqrt(weights[i])
        for j in range(rank):
            size[i] = max(size[i], root[i] * abs(arms[i, j]))
    rows = _largest_first(size)
    work = np.empty((rank + sides, number))  # transposed: the inner loops run along memory
    for i in range(number):
        for j in range(rank):
            work[j, i] = root[rows[i]] * arms[rows[i], j]
        for j in range(sides):
            work[rank + j, i] = root[rows[i]] * right[rows[i], j]
    order = np.empty(rank, np.int64)
    for j in range(rank):
        order[j] = j
    norm = np.empty(rank)
    for j in range(rank):
        for k in range(j, rank):
            norm[k] = dot(work[k, j:], work[k, j:])
        pivot = j
        for k in range(j + 1, rank):
            if norm[k] > norm[pivot]:
                pivot = k
        for i in range(number):
            work[j, i], work[pivot, i] = work[pivot, i], work[j, i]
        order[j], order[pivot] = order[pivot], order[j]
        mirror = work[j, j:].copy()
        diagonal = -np.sqrt(norm[pivot]) if mirror[0] > 0 else np.sqrt(norm[pivot])
        mirror[0] -= diagonal
        half = 0.5 * dot(mirror, mirror)
        for k in range(j + 1, rank + sides):
            share = dot(mirror, work[k, j:]) / half
            _subtract(work[k, j:], share, mirror)
        work[j, j] = diagonal
    return work[:rank, :rank].copy(), order, work[rank:, :rank].copy()


@njit(**DOOR)
def whiten(lower, order, vectors):
    r"""Rows :math:`L^{-1} v`, so that inner products become :math:`v^\top V_w^{-1} v'`."""
    number, rank = vectors.shape
    white = np.empty((number, rank))
    for i in range(number):
        for j in range(rank):
            known = dot(lower[j, :j], white[i, :j])
            white[i, j] = (vectors[i, order[j]] - known) / lower[j, j]
    return white


@njit(**DOOR)
def unwhiten(lower, order, white):
    r"""The vector :math:`L^{-\top} s`: after `whiten` this completes :math:`V_w^{-1} v`."""
    row, solved = white.copy(), np.empty_like(white)
    for j in range(row.size - 1, -1, -1):
        row[j] /= lower[j, j]
        _subtract(row[:j], row[j], lower[j, :j])
        solved[order[j]] = row[j]
    return solved


@njit(**DOOR)
def unwhiten_rows(lower, order, white):
    """`unwhiten` for each row."""
    solved = np.empty_like(white)
    for i in range(len(white)):
        row = unwhiten(lower, order, white[i])
        for j in range(row.size):  # assigning the row would compile the text of an error
            solved[i, j] = row[j]
    return solved


@njit(**INNER)
def cholesky(matrix):
    """Overwrite the lower triangle of a positive definite matrix with its Cholesky factor.

    A pivot that rounding has made non-positive is replaced by a huge one, which leaves that
    coordinate out of the solution.
    """
    size = matrix.shape[0]
    for i in range(size):
        for j in range(i):
            matrix[i, j] = (matrix[i, j] - dot(matrix[i, :j], matrix[j, :j])) / matrix[j, j]
        pivot = matrix[i, i] - dot(matrix[i, :i], matrix[i, :i])
        matrix[i, i] = np.sqrt(pivot) if pivot > 0 else 1e64


@njit(**INNER)
def cholesky_solve(factor, right):
    """Solve with the factor of `cholesky`."""
    solution = right.copy()
    for i in range(right.size):
        solution[i] = (solution[i] - dot(factor[i, :i], solution[:i])) / factor[i, i]
    for i in range(right.size - 1, -1, -1):
        solution[i] /= factor[i, i]
        _subtract(solution[:i], solution[i], factor[i, :i])
    return solution
