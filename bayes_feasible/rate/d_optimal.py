r"""The D-optimal design, which is G-optimal too, on plain arrays.

The weights that maximise :math:`\log\det V_w` on the simplex also minimise the largest
:math:`x^\top V_w^{-1} x`, which is then the rank of the arms (Kiefer and Wolfowitz 1960). Up to
scale they solve

.. math:: \min_w \sum_x w_x - \log\det V_w \quad\text{with}\quad w \ge 0 .
"""

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible._plainly import plainly
from bayes_feasible.rate.interior import longest_step
from bayes_feasible.rate.maximin import lowest
from bayes_feasible.span import (
    cholesky,
    cholesky_solve,
    coordinates,
    inverse_information,
    triangle,
    whiten,
)

TARGET = 1e-9  # relative gap between value and rank aimed at
NEGLIGIBLE = 1e-8  # shares below this are tried at zero
WARM_UP = 20  # multiplicative steps on all arms before the first working set
GROWTH = 8  # least number of arms that join the working set


def leverages(arms: Array, weights: Array) -> tuple[Array, Array]:
    r"""Whitened arms and their squared lengths :math:`x^\top V_w^{-1} x`."""
    white = whiten(triangle(arms, weights), arms)
    return white, np.add.reduce(white * white, axis=1)


def interior_point(arms: Array, weights: Array, arm_dual: Array, aim: float) -> tuple[Array, Array]:
    """Mehrotra's method on a working set, until the largest leverage is near the rank."""
    number, rank = arms.shape
    for _ in range(100):
        white, leverage = leverages(arms, weights)
        if leverage.max() * weights.sum() <= (1 + aim) * rank:
            break
        matrix = (white @ white.T) ** 2
        matrix.flat[:: number + 1] += arm_dual / weights
        factor = cholesky(matrix)

        def direction(products: Array | float) -> tuple[Array, Array]:
            """Newton step towards these products of weights and multipliers."""
            aim = products / weights  # noqa: B023
            step = cholesky_solve(factor, leverage - 1 + aim)  # noqa: B023
            return step, aim - arm_dual - arm_dual / weights * step  # noqa: B023

        center = arm_dual @ weights / number
        step, arm_step = direction(0.0)
        primal = min(1.0, longest_step(weights, step))
        other = min(1.0, longest_step(arm_dual, arm_step))
        ahead = (arm_dual + other * arm_step) @ (weights + primal * step) / number
        reduction = max(1e-4, (ahead / center) ** 3, 0.1 * aim * rank / number / center)
        # With the second-order effect of the first step on the products.
        step, arm_step = direction(center * min(1.0, reduction) - step * arm_step)
        weights = weights + min(1.0, 0.95 * longest_step(weights, step)) * step
        arm_dual = arm_dual + min(1.0, 0.95 * longest_step(arm_dual, arm_step)) * arm_step
    return weights, arm_dual


def d_optimal(arms: Array, basis: NDArray[np.int64], target: float) -> tuple[Array, float]:
    """The optimal weights and the largest leverage under them.

    The arms are of full column rank, and those of the `basis` span the space. It stops where the
    largest leverage exceeds the rank by no more than `target`, relatively.
    """
    number, rank = arms.shape
    weights = np.full(number, 1 / number)
    for _ in range(WARM_UP):
        inverse = inverse_information(arms, weights)
        weights = weights * np.add.reduce(arms @ inverse * arms, axis=1) / rank
    inside = np.zeros(number, np.bool_)
    inside[basis] = True
    inside[lowest(-weights, ~inside, GROWTH + 3 * rank)] = True
    a = np.flatnonzero(inside)
    some, aim = weights[a] + 0.1 / a.size, 1e-1
    some *= rank / some.sum()
    arm_dual = 0.1 * rank / a.size / some
    best, value = weights, np.inf
    for _ in range(200):
        some, arm_dual = interior_point(arms[a], some, arm_dual, aim)
        weights = np.zeros(number)
        weights[a] = some / some.sum()
        leverage = leverages(arms, weights)[1]
        if leverage.max() < value:
            best, value = weights, leverage.max()
        if value <= (1 + target) * rank:
            break
        gap = value / rank - 1
        outer = ~inside & (leverage > (1 - min(0.1, gap)) * rank)
        newcomers = lowest(-leverage, outer, max(GROWTH, a.size // 2))
        if newcomers.size == 0:
            if aim <= target:
                break
            aim = max(target, min(aim, 1e-3 * gap))
            continue
        entry = 0.02 * min(1.0, gap) * rank / a.size
        a = np.concatenate((a, newcomers))
        inside[newcomers] = True
        some = np.concatenate((some, np.full(newcomers.size, entry / 0.3)))
        arm_dual = np.concatenate((arm_dual, np.full(newcomers.size, 0.3)))
        aim = max(target, min(aim, 0.05 * gap))
    return best, value


@plainly
def g_optimal_shares(vectors: Array, rank: int) -> tuple[Array, float]:
    """The shares of the arms, few of them positive, and the largest leverage under them."""
    reduced, _, basis, _ = coordinates(vectors, vectors[:0], rank)
    weights, value = d_optimal(reduced, basis, TARGET)
    sparse = np.where(weights > NEGLIGIBLE, weights, 0.0)
    sparse /= sparse.sum()
    if np.linalg.matrix_rank(reduced[sparse > 0]) == rank:
        sparse_value = leverages(reduced, sparse)[1].max()
        if sparse_value <= max(value, (1 + 2 * TARGET) * rank):
            weights, value = sparse, sparse_value
    return weights, max(float(value), float(rank))
