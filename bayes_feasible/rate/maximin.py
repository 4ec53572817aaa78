"""The rate on plain arrays: working sets of arms and candidates around the interior-point methods.

Few arms are pulled at the optimum and few candidates matter. The methods of `interior` work on
small sets, which grow by what they have missed, loosely at first. Both bounds are taken over all
arms and candidates.
"""

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.rate.interior import (
    Best,
    Game,
    Iterate,
    Point,
    barrier,
    central_start,
    exponents,
    predictor_corrector,
)
from bayes_feasible.span import inverse_information, unwhiten

WARM_UP = 10  # multiplicative steps on all arms before the first working set
LOOSE = 0.1  # relative gap at which a working set is first compared with everything
GROWTH = 8  # least number of arms or candidates that join a working set
WIDE = 3  # arms of the first working set, in multiples of the rank
NEAR = 0.2  # how near to violation, relatively, arms and candidates join
FAR = 1e60  # times the smallest exponent: so large that it limits nothing, however large it is
ENTRY = 0.3  # slack of a newcomer
FICKLE = 10  # rounds in which arms may leave the working set
CHUNK = 2**20  # numbers in one table of products


def slopes(arms: Array, game: Game, multiplier: Array, point: Point) -> Array:
    r"""The upper bound of each arm, :math:`\sum_k q_k \kappa_k \langle x, y_k \rangle^2`.

    The multipliers are those of the candidates of the game.
    """
    y = unwhiten(point.factor, point.white)
    along = np.add.reduce(y * game.vectors, axis=1)  # divided by, so that <y, u> = 1
    return _squared_sum(arms, y, multiplier[game.owner] * game.coefficients / along**2)


def _squared_sum(arms: Array, moves: Array, factor: Array) -> Array:
    """Sum over moves of factor times the squared inner products with each arm."""
    counted = np.flatnonzero(factor)
    moves, factor = moves[counted], factor[counted]
    total = np.zeros(len(arms))
    size = max(CHUNK // len(arms), 1)
    for start in range(0, counted.size, size):
        part = slice(start, start + size)
        total += (arms @ moves[part].T) ** 2 @ factor[part]
    return total


def warm_up(game: Game, steps: int) -> tuple[Array, Array]:
    """A few multiplicative steps on all arms: weight times slope, the smallest exponents counted.

    They do not converge, but they tell which arms and candidates to begin with.
    """
    weights = uniform = np.full(len(game.arms), 1 / len(game.arms))
    for _ in range(steps):
        moves = game.vectors @ inverse_information(game.arms, weights)
        along = np.add.reduce(moves * game.vectors, axis=1)
        each = game.coefficients / along
        value = np.bincount(game.owner, each, game.candidates)
        softmin = (value.min() / value) ** 4
        softmin[softmin < 1e-2] = 0.0
        weights = weights * _squared_sum(game.arms, moves, softmin[game.owner] * each / along)
        weights = 0.95 * weights / weights.sum() + 0.05 * uniform
    return weights, exponents(game, weights).value


def lowest(value: Array, eligible: NDArray[np.bool_], number: int) -> NDArray[np.int64]:
    """Indices of the `number` smallest values among the eligible."""
    index = np.flatnonzero(eligible)
    return index[np.argsort(value[index], kind="stable")[:number]]


def _raise_products(left: Array, right: Array, center: float) -> tuple[Array, Array]:
    """Raise the smaller factor of every product that is below the center."""
    low = left * right < center
    return (
        np.where(low & (left < right), center / right, left),
        np.where(low & (left >= right), center / left, right),
    )


def _restricted(game: Game, start: Iterate, aim: float, target: float) -> tuple[Iterate, Best]:
    """Solve on a working set: by the quick method, and by the sure one where that stalls."""
    at, best = predictor_corrector(game, start, aim, target)
    if best.upper <= (1 + max(aim, 5 * target)) * best.lower:
        return at, best
    weights = 0.9 * best.low / best.low.sum() + 0.1 / best.low.size
    return barrier(game, central_start(game, weights, 0.2), aim, target)


def maximin(
    game: Game, basis: NDArray[np.int64], target: float
) -> tuple[Array, Array, float, float]:
    """Solve over growing working sets of arms and candidates; the bounds hold over all of them.

    The arms are of full column rank, those of the `basis` span the space, and each candidate owns a
    piece; `target` is the relative gap at which to stop. Gives the allocation that proves the lower
    bound, the weights on candidates that prove the upper one, and the two.
    """
    arms, candidates = game.arms, game.candidates
    number, rank = arms.shape
    weights, value = warm_up(game, WARM_UP if number > GROWTH + (1 + WIDE) * rank else 0)
    scale = value.min()
    with np.errstate(over="ignore"):
        most = FAR * np.sum(game.vectors**2, axis=1)
        game = game._replace(coefficients=np.minimum(game.coefficients / scale, most))
    inside, counted = np.zeros(number, bool), np.zeros(candidates, bool)
    inside[basis] = True
    needed = inside.copy()  # the other arms may leave a working set again
    inside[lowest(-weights, ~inside, GROWTH + WIDE * rank)] = True
    counted[lowest(value, ~counted, GROWTH + rank)] = True
    a, c = np.flatnonzero(inside), np.flatnonzero(counted)
    some = _restrict(game, a, c)
    at = central_start(some, weights[a] + 0.3 / a.size, 1.0)
    best, best_dual, lower, upper, aim = weights, np.zeros(candidates), 0.0, np.inf, LOOSE
    if inside.all() and counted.all():  # nothing can be missing
        aim = target
    for rounds in range(200):
        at, found = _restricted(some, at, aim, target)
        everyone = game._replace(arms=some.arms)
        value = exponents(everyone, found.low).value / found.low.sum()
        if value.min() > lower:
            lower, best = value.min(), np.zeros(number)
            best[a] = found.low / found.low.sum()
        dual = found.up_dual / found.up_dual.sum()
        slope = slopes(arms, some, dual, exponents(some, found.up))
        if slope.max() < upper:
            upper, best_dual = slope.max(), np.zeros(candidates)
            best_dual[c] = dual
        gap = upper / lower - 1
        if gap <= target:
            break
        near = min(NEAR, gap)
        outer = ~inside & (slope > (1 - near) * found.lower)
        new_arms = lowest(-slope, outer, GROWTH + rank)
        outer = ~counted & (value < (1 + near) * found.upper)
        new_candidates = lowest(value, outer, max(GROWTH, c.size // 2))
        if new_arms.size + new_candidates.size == 0:
            if aim <= target:
                break
            aim = max(target, 1e-3 * gap)
            continue
        # Only at first may arms leave again: later on they would come and go for ever.
        stay = needed[a] | (slope[a] > (1 - 2 * near) * found.lower) | (rounds >= FICKLE)
        at = _enlarged(at, stay, gap, new_arms.size, value[new_candidates])
        a, c = np.concatenate((a[stay], new_arms)), np.concatenate((c, new_candidates))
        inside[:] = False
        inside[a] = True
        counted[new_candidates] = True
        some = _restrict(game, a, c)
        aim = max(target, min(aim, 0.05 * gap))
    return best, best_dual, lower * scale, upper * scale


def _restrict(game: Game, a: NDArray[np.int64], c: NDArray[np.int64]) -> Game:
    """The problem with arms a and candidates c only."""
    place = np.full(game.candidates, -1)
    place[c] = np.arange(c.size)
    owner = place[game.owner]
    kept = np.flatnonzero(owner >= 0)
    return Game(game.arms[a], game.vectors[kept], game.coefficients[kept], owner[kept], c.size)


def _enlarged(
    at: Iterate, stay: NDArray[np.bool_], gap: float, new_arms: int, new_values: Array
) -> Iterate:
    """The iterate without the arms that leave, and with newcomers near the central path.

    The center is one that fits the present gap.
    """
    arms = stay.size
    kept = np.concatenate((stay, np.ones(at.primal.size - arms, dtype=bool)))
    total = at.primal[:arms][stay].sum()
    center = 0.1 * min(1.0, gap) * total / kept.sum()
    primal, dual = _raise_products(at.primal[kept], at.dual[kept], center)
    arms = int(stay.sum())
    entry = np.full(new_arms, ENTRY)
    distance = np.maximum(new_values * primal[:arms].sum() - 1, ENTRY)
    return Iterate(
        np.concatenate((primal[:arms], center / entry, primal[arms:], distance)),
        np.concatenate((dual[:arms], entry, dual[arms:], center / distance)),
    )
