"""The rate on plain arrays: working sets of arms and candidates around the compiled solver.

Few arms are pulled at the optimum and few candidates matter. The solver of `_interior` works on
small sets, which grow by what they have missed, loosely at first. Both bounds are taken over all
arms and candidates.
"""

import numpy as np
from numba import njit

from bayes_feasible.rate.interior import (
    barrier,
    central_start,
    exponents,
    predictor_corrector,
    total_by_owner,
)
from bayes_feasible.span import dot, triangle, unwhiten, whiten

WARM_UP = 10  # multiplicative steps on all arms before the first working set
LOOSE = 0.1  # relative gap at which a working set is first compared with everything
GROWTH = 8  # least number of arms or candidates that join a working set
WIDE = 3  # arms of the first working set, in multiples of the rank
NEAR = 0.2  # how near to violation, relatively, arms and candidates join
FAR = 1e60  # times the smallest exponent: so large that it limits nothing, however large it is
ENTRY = 0.3  # slack of a newcomer
FICKLE = 10  # rounds in which arms may leave the working set


@njit(cache=True, error_model="numpy")
def slopes(arms, vectors, coefficients, multiplier, white, lower, order):
    r"""The upper bound of each arm, :math:`\sum_k q_k \kappa_k \langle x, y_k \rangle^2`."""
    slope = np.zeros(arms.shape[0])
    for k in range(multiplier.size):
        if multiplier[k] > 0:
            y = unwhiten(lower, order, white[k])
            factor = multiplier[k] * coefficients[k] / dot(y, vectors[k]) ** 2  # so that <y, u> = 1
            for i in range(arms.shape[0]):
                slope[i] += factor * dot(arms[i], y) ** 2
    return slope


def warm_up(arms, vectors, coefficients, owner, candidates, steps):
    """A few multiplicative steps on all arms: weight times slope, the smallest exponents counted.

    They do not converge, but they tell which arms and candidates to begin with.
    """
    uniform = np.full(len(arms), 1 / len(arms))
    weights = uniform
    value, white, *factor = exponents(arms, weights, vectors, coefficients, owner, candidates)
    for _ in range(steps):
        softmin = (value.min() / value) ** 4
        softmin[softmin < 1e-2] = 0.0
        weights = weights * slopes(arms, vectors, coefficients, softmin[owner], white, *factor)
        weights = 0.95 * weights / weights.sum() + 0.05 * uniform
        value, white, *factor = exponents(arms, weights, vectors, coefficients, owner, candidates)
    return weights, value


def lowest(value, eligible, number):
    """Indices of the `number` smallest values among the eligible."""
    index = np.flatnonzero(eligible)
    return index[np.argsort(value[index], kind="stable")[:number]]


def _raise_products(left, right, center):
    """Raise the smaller factor of every product that is below the center."""
    low = left * right < center
    return (
        np.where(low & (left < right), center / right, left),
        np.where(low & (left >= right), center / left, right),
    )


def _restricted(data, state, aim, target):
    """Solve on a working set: by the quick method, and by the sure one where that stalls."""
    arms, vectors, coefficients, owner, candidates = data
    solution = predictor_corrector(
        arms, vectors, coefficients, owner, candidates, state, aim, target
    )
    _, low, _, _, low_bound, up_bound = solution
    if up_bound <= (1 + max(aim, 5 * target)) * low_bound:
        return solution
    start = 0.9 * low / low.sum() + 0.1 / low.size
    state = central_start(arms, start, vectors, coefficients, owner, candidates, 0.2)
    return barrier(arms, vectors, coefficients, owner, candidates, state, aim, target)


def _all_exponents(some_arms, weights, vectors, coefficients, owner, candidates):
    """Exponents of all candidates under weights on some arms, scaled to sum 1."""
    lower, order = triangle(some_arms, weights)
    white = whiten(lower, order, vectors)
    return total_by_owner(white, coefficients, owner, candidates) / weights.sum()


def _all_slopes(arms, data, weights, dual):
    """Slopes of all arms for the alternatives of a working set, its multipliers scaled to sum 1."""
    some_arms, vectors, coefficients, owner, _ = data
    lower, order = triangle(some_arms, weights)
    white = whiten(lower, order, vectors)
    return slopes(arms, vectors, coefficients, dual[owner] / dual.sum(), white, lower, order)


def maximin(arms, basis, vectors, coefficients, owner, candidates, target):
    """Solve over growing working sets of arms and candidates; the bounds hold over all of them.

    Parameters
    ----------
    arms : array (arm, rank)
        Of full column rank.
    basis : array (rank,)
        Arms that span the space.
    vectors, coefficients, owner : arrays (piece, rank), (piece,), (piece,)
        Coefficients are positive and each of the candidates owns a piece.
    candidates : int
    target : float
        Relative gap of the bounds at which to stop.

    Returns
    -------
    weights : array (arm,)
        The allocation of the lower bound.
    dual : array (candidate,)
        Weights on candidates of the upper bound.
    lower, upper : float
    """
    number, rank = arms.shape
    steps = WARM_UP if number > GROWTH + (1 + WIDE) * rank else 0
    weights, value = warm_up(arms, vectors, coefficients, owner, candidates, steps)
    scale = value.min()
    with np.errstate(over="ignore"):
        coefficients = np.minimum(coefficients / scale, FAR * np.sum(vectors**2, axis=1))
    inside, counted = np.zeros(number, bool), np.zeros(candidates, bool)
    inside[basis] = True
    needed = inside.copy()  # the other arms may leave a working set again
    inside[lowest(-weights, ~inside, GROWTH + WIDE * rank)] = True
    counted[lowest(value, ~counted, GROWTH + rank)] = True
    a, c = np.flatnonzero(inside), np.flatnonzero(counted)
    data = _restrict(arms, vectors, coefficients, owner, candidates, a, c)
    some_arms, some_vectors, some_coefficients, places, _ = data
    state = central_start(
        some_arms, weights[a] + 0.3 / a.size, some_vectors, some_coefficients, places, c.size, 1.0
    )
    best, best_dual, low_bound, up_bound, aim = weights, np.zeros(candidates), 0.0, np.inf, LOOSE
    for rounds in range(200):
        state, low, up, dual, some_low, some_up = _restricted(data, state, aim, target)
        value = _all_exponents(data[0], low, vectors, coefficients, owner, candidates)
        if value.min() > low_bound:
            low_bound, best = value.min(), np.zeros(number)
            best[a] = low / low.sum()
        slope = _all_slopes(arms, data, up, dual)
        if slope.max() < up_bound:
            up_bound, best_dual = slope.max(), np.zeros(candidates)
            best_dual[c] = dual / dual.sum()
        gap = up_bound / low_bound - 1
        if gap <= target:
            break
        near = min(NEAR, gap)
        outer = ~inside & (slope > (1 - near) * some_low)
        new_arms = lowest(-slope, outer, GROWTH + rank)
        outer = ~counted & (value < (1 + near) * some_up)
        new_candidates = lowest(value, outer, max(GROWTH, c.size // 2))
        if new_arms.size + new_candidates.size == 0:
            if aim <= target:
                break
            aim = max(target, 1e-3 * gap)
            continue
        # Only at first may arms leave again: later on they would come and go for ever.
        stay = needed[a] | (slope[a] > (1 - 2 * near) * some_low) | (rounds >= FICKLE)
        a, state = a[stay], (state[0][stay], state[1], state[2], state[3][stay])
        state = _enlarged(state, gap, new_arms.size, value[new_candidates])
        a, c = np.concatenate((a, new_arms)), np.concatenate((c, new_candidates))
        inside[:] = False
        inside[a] = True
        counted[new_candidates] = True
        data = _restrict(arms, vectors, coefficients, owner, candidates, a, c)
        aim = max(target, min(aim, 0.05 * gap))
    return best, best_dual, low_bound * scale, up_bound * scale


def _restrict(arms, vectors, coefficients, owner, candidates, a, c):
    """The problem with arms a and candidates c only."""
    place = np.full(candidates, -1)
    place[c] = np.arange(c.size)
    pieces = np.flatnonzero(place[owner] >= 0)
    return (arms[a], vectors[pieces], coefficients[pieces], place[owner[pieces]], c.size)


def _enlarged(state, gap, new_arms, new_values):
    """The state with newcomers near the central path, at a center that fits the present gap."""
    weights, slack, dual, arm_dual = state
    center = 0.1 * min(1.0, gap) * weights.sum() / (weights.size + slack.size)
    weights, arm_dual = _raise_products(weights, arm_dual, center)
    slack, dual = _raise_products(slack, dual, center)
    entry = np.full(new_arms, ENTRY)
    distance = np.maximum(new_values * weights.sum() - 1, ENTRY)
    return (
        np.concatenate((weights, center / entry)),
        np.concatenate((slack, distance)),
        np.concatenate((dual, center / distance)),
        np.concatenate((arm_dual, entry)),
    )
