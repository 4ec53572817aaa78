r"""Compiled interior-point methods for the rate on given arms and candidates.

The rate is :math:`\Gamma = \max_w \min_z f_z(w)`. The exponent of candidate z is a sum over its
pieces, vectors u with coefficients :math:`\kappa > 0`,

.. math:: f_z(w) = \sum_{k \in z} \kappa_k / (u_k^\top V_w^{-1} u_k),
          \qquad V_w = \sum_x w_x x x^\top .

Each f is concave and homogeneous of degree one, so the problem has the same solution, up to
scale, as

.. math:: \min_w \sum_x w_x \quad\text{with}\quad f_z(w) \ge 1, \; w \ge 0,

and :math:`\Gamma` is one over its value. With :math:`y = V_w^{-1} u / (u^\top V_w^{-1} u)` the
gradient is :math:`\partial f_z / \partial w_x = \sum_k \kappa_k \langle x, y_k \rangle^2`.
For any w the smallest exponent is a lower bound of :math:`\Gamma`. For any weights q on
candidates and any y with :math:`\langle y_k, u_k \rangle = 1`, the largest over arms of
:math:`\sum_z q_z \sum_k \kappa_k \langle x, y_k \rangle^2` is an upper bound, because each f is a
minimum over such y of functions linear in w. The two together certify a solution.

The unknowns are the weights, the slacks f - 1 of the candidates, a multiplier for each
candidate (`dual`) and one for each arm (`arm_dual`). At the solution
:math:`\sum_z \text{dual}_z \, \partial f_z / \partial w_x + \text{arm\_dual}_x = 1`, and slack
times dual and weight times arm_dual vanish; on the central path these products have a common value,
the `center`.
"""

import numpy as np
from numba import njit

from bayes_feasible.compiled import INNER
from bayes_feasible.span import (
    cholesky,
    cholesky_solve,
    dot,
    largest,
    smallest,
    total,
    triangle,
    whiten,
)

FASTEST = 1e-4  # smallest factor by which one step reduces the center
CURVED = 0.2  # share of what the linear model promises that a step must leave of each exponent
PATIENCE = 6  # iterations without progress after which the method is changed
REFINEMENTS = 2
FLAT = 1e-9  # arm_dual in the Newton matrix: keeps rounding out of directions of no curvature


@njit(**INNER)
def times(matrix, vector):
    """Matrix times vector, without the threads that a library would start for it."""
    result = np.empty(matrix.shape[0])
    for i in range(matrix.shape[0]):
        result[i] = dot(matrix[i], vector)
    return result


@njit(**INNER)
def transposed_times(matrix, vector):
    """Transposed matrix times vector."""
    result = np.zeros(matrix.shape[1])
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            result[j] += vector[i] * matrix[i, j]
    return result


@njit(cache=True)
def moved(value, size, step):
    """Value + size * step."""
    result = np.empty_like(value)
    for i in range(value.size):
        result[i] = value[i] + size * step[i]
    return result


@njit(cache=True, error_model="numpy")
def total_by_owner(white, coefficients, owner, candidates):
    """Exponents from the whitened vectors of the pieces."""
    value = np.zeros(candidates)
    for k in range(owner.size):
        value[owner[k]] += coefficients[k] / dot(white[k], white[k])
    return value


@njit(cache=True, error_model="numpy")
def exponents(arms, weights, vectors, coefficients, owner, candidates):
    """Exponents at positive weights, the whitened vectors, and the factor that whitens."""
    lower, order = triangle(arms, weights)
    white = whiten(lower, order, vectors)
    return total_by_owner(white, coefficients, owner, candidates), white, lower, order


@njit(**INNER)
def _gradients(white_arms, white, coefficients, owner, candidates):
    """Products <x, y> (arm, piece) and gradients of the exponents (arm, candidate)."""
    arms, pieces = white_arms.shape[0], owner.size
    product = np.empty((arms, pieces))
    gradient = np.zeros((arms, candidates))
    for k in range(pieces):
        size = dot(white[k], white[k])
        for i in range(arms):
            product[i, k] = dot(white_arms[i], white[k]) / size
            gradient[i, owner[k]] += coefficients[k] * product[i, k] ** 2
    return product, gradient


@njit(**INNER)
def _newton_matrix(product, gradient, white_arms, white, coefficients, owner, state):
    r"""The Newton matrix in the weights, without and with the multipliers eliminated.

    Minus the Hessian of an exponent is, with p = <x, y> and g = u' V^-1 u,
    :math:`2 \kappa p_x p_{x'} (x^\top V^{-1} x' - g \, p_x p_{x'})`. Complementarity adds a
    diagonal for the arms and, once the multipliers of the candidates are eliminated, a weighted
    product of gradients. The second matrix is returned as its Cholesky factor.
    """
    weights, slack, dual, arm_dual = state
    arms, pieces = product.shape
    square = np.empty_like(product)
    bent, flattened, steep = np.empty_like(product), np.empty_like(product), np.empty_like(gradient)
    for k in range(pieces):
        factor = 2 * dual[owner[k]] * coefficients[k]
        size = dot(white[k], white[k])
        for i in range(arms):
            square[i, k] = product[i, k] * product[i, k]
            bent[i, k] = factor * product[i, k]
            flattened[i, k] = factor * size * square[i, k]
    for z in range(dual.size):
        for i in range(arms):
            steep[i, z] = dual[z] / slack[z] * gradient[i, z]
    matrix, eliminated = np.empty((arms, arms)), np.empty((arms, arms))
    for i in range(arms):
        for j in range(i + 1):
            entry = dot(white_arms[i], white_arms[j]) * dot(bent[i], product[j])
            entry -= dot(flattened[i], square[j])
            if i == j:
                entry += max(arm_dual[i], FLAT) / weights[i]
            matrix[i, j] = matrix[j, i] = entry
            eliminated[i, j] = entry + dot(steep[i], gradient[j])
    cholesky(eliminated)
    return matrix, eliminated


@njit(**INNER)
def _newton_step(matrix, factor, gradient, ratio, first, second):
    """Solve matrix @ step - gradient @ change = first, gradient' @ step + change / ratio = second.

    Eliminating the change loses digits where the ratio of multiplier to slack is large.
    Refinement with the two unknowns apart restores them.
    """
    step, change = np.zeros_like(first), np.zeros_like(second)
    left, other, before = first, second.copy(), np.inf
    scaled = np.empty_like(second)
    for _ in range(1 + REFINEMENTS):
        for z in range(ratio.size):
            scaled[z] = ratio[z] * other[z]
        extra = cholesky_solve(factor, moved(left, 1.0, times(gradient, scaled)))
        new_step, new_change = moved(step, 1.0, extra), moved(change, 1.0, scaled)
        told = transposed_times(gradient, extra)
        for z in range(ratio.size):
            new_change[z] -= ratio[z] * told[z]
        left = moved(first, -1.0, times(matrix, new_step))
        left = moved(left, 1.0, times(gradient, new_change))
        size = 0.0
        for i in range(left.size):
            size += abs(left[i])
        if not size < before:
            break
        step, change, before = new_step, new_change, size
        told = transposed_times(gradient, step)
        for z in range(ratio.size):
            other[z] = second[z] - told[z] - change[z] / ratio[z]
    return step, change


@njit(cache=True)
def longest_step(value, change):
    """The largest multiple of the change that keeps all values non-negative."""
    longest = np.inf
    for i in range(value.size):
        if change[i] < 0:
            longest = min(longest, -value[i] / change[i])
    return longest


@njit(**INNER)
def _direction(matrix, factor, gradient, slope, missing, state, center, before):
    """The step of all unknowns towards products equal to the center.

    `missing` is how far the slacks are from f - 1; `before` is an earlier step whose
    second-order effect on the products is to be corrected.
    """
    weights, slack, dual, arm_dual = state
    arm_aim, first = np.empty_like(weights), np.empty_like(weights)
    for i in range(weights.size):
        arm_aim[i] = (center - before[3][i] * before[0][i]) / weights[i]
        first[i] = slope[i] - 1 + arm_aim[i]
    ratio, second = np.empty_like(slack), np.empty_like(slack)
    for z in range(slack.size):
        ratio[z] = dual[z] / slack[z]
        dual_aim = (center - before[2][z] * before[1][z]) / slack[z]
        second[z] = (dual_aim - dual[z]) / ratio[z] - missing[z]
    step, dual_step = _newton_step(matrix, factor, gradient, ratio, first, second)
    slack_step = transposed_times(gradient, step)
    for z in range(slack.size):
        slack_step[z] += missing[z]
    arm_step = np.empty_like(step)
    for i in range(weights.size):
        arm_step[i] = arm_aim[i] - arm_dual[i] - arm_dual[i] / weights[i] * step[i]
    return step, slack_step, dual_step, arm_step


@njit(**INNER)
def _step_sizes(state, step, share):
    """Sizes of the steps of (weights, slack) and of (dual, arm_dual) that stay positive."""
    primal = min(longest_step(state[0], step[0]), longest_step(state[1], step[1]))
    other = min(longest_step(state[2], step[2]), longest_step(state[3], step[3]))
    return min(1.0, share * primal), min(1.0, share * other)


@njit(**INNER)
def _mean_product(state, step, primal, other):
    """Mean of slack times dual and weight times arm_dual after a step."""
    total = dot(moved(state[0], primal, step[0]), moved(state[3], other, step[3]))
    total += dot(moved(state[1], primal, step[1]), moved(state[2], other, step[2]))
    return total / (state[0].size + state[1].size)


@njit(**INNER)
def _less_one(value, slack):
    """Value - 1 - slack."""
    result = np.empty_like(value)
    for z in range(value.size):
        result[z] = value[z] - 1 - slack[z]
    return result


@njit(**INNER)
def _holds(value, slack):
    """Whether the exponents keep their share of what the slacks promise."""
    kept = True
    for z in range(value.size):
        kept &= value[z] >= CURVED * (1 + slack[z])
    return kept


def central_start(arms, weights, vectors, coefficients, owner, candidates, room):
    """Weights scaled so that all exponents exceed 1 by `room` or more, and central multipliers."""
    value = exponents(arms, weights, vectors, coefficients, owner, candidates)[0]
    weights, value = weights * ((1 + room) / value.min()), value * ((1 + room) / value.min())
    slack = value - 1
    center = weights.sum() / ((value / slack).sum() + weights.size)
    return weights, slack, center / slack, center / weights


@njit(cache=True, error_model="numpy")
def predictor_corrector(arms, vectors, coefficients, owner, candidates, state, aim, target):
    """Mehrotra's primal-dual method: quick, and nearly always successful.

    Slacks are unknowns of their own, so that steps are not cut short by the curvature of the
    exponents.

    Parameters
    ----------
    state : tuple
        Weights, slack, dual and arm_dual to start from.
    aim : float
        Relative gap at which to stop.
    target : float
        Relative gap wanted in the end; the center stays at what this needs.

    Returns
    -------
    state : tuple
        The last iterate.
    low : array
        Weights of the best lower bound.
    up, up_dual : arrays
        Weights and multipliers of the best upper bound.
    low_bound, up_bound : float
        The bounds, over these arms and candidates.
    """
    low, up, up_dual, low_bound, up_bound = state[0], state[0], state[2], 0.0, np.inf
    rest = (np.zeros_like(state[0]), np.zeros(candidates), np.zeros(candidates), np.zeros_like(up))
    products = low.size + candidates
    progress, waited = np.inf, 0
    value, white, lower, order = exponents(arms, low, vectors, coefficients, owner, candidates)
    for _ in range(100):
        weights, slack, dual, arm_dual = state
        white_arms = whiten(lower, order, arms)
        product, gradient = _gradients(white_arms, white, coefficients, owner, candidates)
        slope = times(gradient, dual)
        at_low, at_up = smallest(value) / total(weights), largest(slope) / total(dual)
        if at_low > low_bound:
            low, low_bound = weights, at_low
        if at_up < up_bound:
            up, up_dual, up_bound = weights, dual, at_up
        gap = up_bound / low_bound - 1
        waited = 0 if gap < 0.7 * progress else waited + 1
        progress = gap if waited == 0 else progress
        if gap <= aim or waited >= PATIENCE:
            break
        matrix, factor = _newton_matrix(
            product, gradient, white_arms, white, coefficients, owner, state
        )
        missing = _less_one(value, slack)
        # Predictor: as if the solution could be reached at once.
        step = _direction(matrix, factor, gradient, slope, missing, state, 0.0, rest)
        primal, other = _step_sizes(state, step, 1.0)
        center = _mean_product(state, step, 0.0, 0.0)
        reduction = max(FASTEST, (_mean_product(state, step, primal, other) / center) ** 3)
        # The center must neither run far ahead of the bounds nor fall below what is needed.
        relative = products * center / total(weights)
        reduction = max(reduction, 0.3 * target / relative)
        if at_up / at_low - 1 > 100 * relative:
            reduction = max(reduction, 0.5)
        center *= min(reduction, 1.0)
        # Corrector: towards the central path, with the second-order terms of the predictor.
        step = _direction(matrix, factor, gradient, slope, missing, state, center, step)
        primal, other = _step_sizes(state, step, 0.99)
        for _ in range(30):
            weights, slack = moved(state[0], primal, step[0]), moved(state[1], primal, step[1])
            value, white, lower, order = exponents(
                arms, weights, vectors, coefficients, owner, candidates
            )
            if _holds(value, slack):
                break
            primal *= 0.5
        state = weights, slack, moved(dual, other, step[2]), moved(arm_dual, other, step[3])
    return state, low, up, up_dual, low_bound, up_bound


@njit(**INNER)
def _centrality(slope, state, center):
    """Largest dual residual, and largest relative deviation of a product from the center."""
    weights, slack, dual, arm_dual = state
    residual, deviation = 0.0, 0.0
    for i in range(weights.size):
        residual = max(residual, abs(1 - slope[i] - arm_dual[i]))
        deviation = max(deviation, abs(weights[i] * arm_dual[i] / center - 1))
    for z in range(slack.size):
        deviation = max(deviation, abs(slack[z] * dual[z] / center - 1))
    return residual, deviation


@njit(**INNER)
def _barrier_change(old, weights, slack, center):
    """Change of sum(w) - c sum(log slack) - c sum(log w); infinite outside the domain."""
    change = 0.0
    for i in range(weights.size):
        change += weights[i] - old[0][i] - center * np.log(weights[i] / old[0][i])
    for z in range(slack.size):
        if not slack[z] > 0:
            return np.inf
        change -= center * np.log(slack[z] / old[1][z])
    return change


@njit(**INNER)
def _clipped(dual, value, center):
    """Multipliers within a factor of 100 of central ones: others would spoil the next matrix."""
    for i in range(dual.size):
        dual[i] = min(max(dual[i], 0.01 * center / value[i]), 100 * center / value[i])
    return dual


@njit(cache=True, error_model="numpy")
def barrier(arms, vectors, coefficients, owner, candidates, state, aim, target):
    """Path following with exact slacks and a line search: slower, and sure.

    For a given center c the function sum(w) - c sum(log(f - 1)) - c sum(log w) is convex. Newton
    steps reduce it until the iterate is nearly central; then c is reduced. Arguments and results
    are those of `predictor_corrector`; the slacks must be exact and the multipliers central.
    """
    low, up, up_dual, low_bound, up_bound = state[0], state[0], state[2], 0.0, np.inf
    rest = (np.zeros_like(state[0]), np.zeros(candidates), np.zeros(candidates), np.zeros_like(up))
    products = low.size + candidates
    center = state[1][0] * state[2][0]
    value, white, lower, order = exponents(arms, low, vectors, coefficients, owner, candidates)
    for _ in range(200):
        weights, slack, dual, arm_dual = state
        white_arms = whiten(lower, order, arms)
        product, gradient = _gradients(white_arms, white, coefficients, owner, candidates)
        slope = times(gradient, dual)
        at_low, at_up = smallest(value) / total(weights), largest(slope) / total(dual)
        if at_low > low_bound:
            low, low_bound = weights, at_low
        if at_up < up_bound:
            up, up_dual, up_bound = weights, dual, at_up
        if up_bound / low_bound - 1 <= aim:
            break
        residual, deviation = _centrality(slope, state, center)
        needed = 0.3 * target * total(weights) / products
        if residual < 0.1 and deviation < 0.5 and center > needed:
            center *= 0.2
        matrix, factor = _newton_matrix(
            product, gradient, white_arms, white, coefficients, owner, state
        )
        step = _direction(matrix, factor, gradient, slope, rest[1], state, center, rest)
        primal, other = _step_sizes(state, step, 0.95)
        decrease = -total(step[0])
        for i in range(weights.size):
            decrease += center / weights[i] * step[0][i]
        for z in range(slack.size):
            decrease += center / slack[z] * step[1][z]
        for _ in range(40):
            weights = moved(state[0], primal, step[0])
            value, white, lower, order = exponents(
                arms, weights, vectors, coefficients, owner, candidates
            )
            slack = _less_one(value, rest[1])
            change = _barrier_change(state, weights, slack, center)
            if change <= 1e-14 - 1e-4 * primal * decrease:
                break
            primal *= 0.5
        dual = _clipped(moved(dual, other, step[2]), slack, center)
        state = weights, slack, dual, _clipped(moved(arm_dual, other, step[3]), weights, center)
    return state, low, up, up_dual, low_bound, up_bound
