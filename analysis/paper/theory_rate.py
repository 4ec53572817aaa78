r"""Theorems 4.1 and 4.2: the optimal rate in its two forms.

Everything here is written from the definitions, in plain NumPy, so that the package's solver has
something to be compared with. The slip of the paper that matters here: a 0/1 indicator in
:math:`f_1, \ldots, f_4` would make every minimum 0; a false one has to mean :math:`+\infty`.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.quote import tabulate
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism, random_ball
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import Rate, optimal_rate

INVISIBLE = 1e-12  # added to singular information matrices, relative to their trace
STARTS = 5  # parts of the set in which the brute force looks for the nearest point
INTERIOR = 1e-9  # share of the uniform allocation that keeps an optimum's matrix regular


def parameters(instance: Instance) -> Array:
    """Stack the true parameters as rows: reward first, then costs."""
    return np.vstack([instance.theta_reward, instance.theta_cost])


def separation(problem: Problem, best: int, theta: Array, precision: Array) -> float:
    r"""Measure how far the alternative set lies from parameters.

    .. math:: \inf_{\theta' \in \overline\Theta_{z^*}} \Big( \|\theta_1' - \theta_1\|_V^2 / \sigma^2
              + \sum_j \|\theta_{2,j}' - \theta_{2,j}\|_V^2 / \gamma_j^2 \Big)

    for parameters that need not be the truth, candidate `best` = :math:`z^*` and V = `precision`.
    The parameters are unbounded. 0 if they lie in the alternative set themselves.
    """
    inverse = np.linalg.inv(precision)
    room, moves, lag, excess = _gaps(problem, best, theta)
    own = _squared_norms(problem.candidates, inverse)
    tight = np.maximum(room, 0.0) ** 2 / own[best]
    rivals = ~problem.copies(best)
    cost = np.sum(excess**2, axis=1)
    behind = lag[rivals] ** 2 / _squared_norms(moves[rivals], inverse)
    beyond = np.divide(cost, own, out=np.zeros_like(cost), where=cost > 0)[rivals]
    return float(np.min([*tight, *(behind + beyond)], initial=np.inf))


def _gaps(problem: Problem, best: int, theta: Array) -> tuple[Array, Array, Array, Array]:
    """Room of the best, and move to, lag and excess of each candidate; in units of the noise."""
    star, noise = problem.candidates[best], block_noise(problem)
    moves = problem.candidates - star
    room = (problem.thresholds - theta[1:] @ star) / noise[1:]
    lag = np.maximum(-(moves @ theta[0]), 0.0) / noise[0]
    excess = np.maximum(problem.candidates @ theta[1:].T - problem.thresholds, 0.0) / noise[1:]
    return room, moves, lag, excess


def _squared_norms(vectors: Array, inverse: Array) -> Array:
    return np.einsum("zi,...ij,zj->...z", vectors, inverse, vectors)


def printed_pieces(instance: Instance, allocations: Array) -> tuple[Array, Array]:
    """Compute f_1, ..., f_4 of Theorem 4.1 as if every indicator were true, and the indicators.

    Over (allocation, piece, candidate) and (piece, candidate). The best candidate, which the
    printed set A2 contains, is left out of it: its f_2 would be 0/0.
    """
    problem, best = instance.problem, instance.best
    if problem.thresholds.size != 1:
        raise ValueError("instance: the theorem is about one constraint")
    arms, candidates = problem.arms, problem.candidates
    information = np.einsum("nx,xi,xj->nij", allocations, arms, arms)
    trace = np.trace(information, axis1=1, axis2=2)
    information += INVISIBLE * trace[:, np.newaxis, np.newaxis] * np.eye(arms.shape[1])
    inverse = np.linalg.inv(information)
    moves = candidates - candidates[best]
    gap = -(moves @ instance.theta_reward)
    excess = candidates @ instance.theta_cost[0] - problem.thresholds[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        reward = gap**2 / (2 * problem.reward_noise**2 * _squared_norms(moves, inverse))
    cost = excess**2 / (2 * problem.cost_noise[0] ** 2 * _squared_norms(candidates, inverse))
    infeasible, superoptimal = excess > 0, gap < 0
    is_best = np.arange(len(candidates)) == best
    applies = [
        infeasible & superoptimal,
        ~infeasible & ~superoptimal & ~is_best,
        infeasible & ~superoptimal,
        is_best,
    ]
    return np.stack([cost, reward, cost + reward, cost], axis=1), np.array(applies)


def smallest_printed(instance: Instance, allocations: Array, *, literal: bool = False) -> Array:
    """Compute the smallest exponent under each allocation, from the formulas of Theorem 4.1.

    With `literal` a false indicator is a factor 0, as printed; otherwise it means infinity.
    """
    values, applies = printed_pieces(instance, allocations)
    return np.where(applies, values, 0.0 if literal else np.inf).min(axis=(1, 2))


def random_allocations(instance: Instance, number: int, rng: np.random.Generator) -> Array:
    """Draw allocations all over the simplex: even, sparse, and near the optimum, a third each."""
    arms = len(instance.problem.arms)
    third = number // 3
    optimal = optimal_rate(instance).allocation.values
    even = rng.dirichlet(np.ones(arms), number - 2 * third)
    sparse = rng.dirichlet(np.full(arms, 0.2), third)
    nearness = 10.0 ** rng.uniform(-6, 0, (third, 1))
    near = (1 - nearness) * optimal + nearness * rng.dirichlet(np.ones(arms), third)
    return np.vstack([even, sparse, near])


def exhaust(instance: Instance, rng: np.random.Generator, kept: int = 100) -> tuple[Array, float]:
    """Search for the largest smallest exponent without derivatives; returns where, and the value.

    With two features it is exhaustive: information matrices have three coordinates, the exponents
    grow with them, and so, by Carathéodory's theorem, three arms suffice. All triples are tried
    with the same random shares, and the best of them refined.
    """
    arms, features = instance.problem.arms.shape
    if features != 2:
        raise ValueError(f"instance: the search is for two features, got {features}")
    triples = np.array(list(combinations(range(arms), min(3, arms))))
    size = triples.shape[1]
    shares = np.vstack([rng.dirichlet(np.full(size, even), 150) for even in (1.0, 0.4, 0.2)])
    tops = np.array([smallest_printed(instance, _spread(arms, t, shares)).max() for t in triples])
    found = [_refine(instance, t, rng) for t in triples[np.argsort(-tops)[:kept]]]
    return max(found, key=lambda pair: pair[1])


def _spread(arms: int, triple: NDArray[np.int64], shares: Array) -> Array:
    """Shares of three arms as shares of all."""
    allocations = np.zeros((len(shares), arms))
    allocations[:, triple] = shares
    return allocations


def _refine(
    instance: Instance, triple: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Array, float]:
    """The best shares of three arms: random steps from the best so far, ever smaller."""
    arms = len(instance.problem.arms)
    best = np.full(triple.size, 1 / triple.size)
    value = float(smallest_printed(instance, _spread(arms, triple, best[np.newaxis]))[0])
    size = 1.0
    while size > 1e-7:
        moved = np.abs(best + size * rng.standard_normal((100, triple.size)) * (best + 0.1 * size))
        moved /= moved.sum(axis=1, keepdims=True)
        values = smallest_printed(instance, _spread(arms, triple, moved))
        if values.max() > value:
            best, value = moved[np.argmax(values)], float(values.max())
        else:
            size *= 0.8
    return _spread(arms, triple, best[np.newaxis])[0], value


def brute_infimum(
    instance: Instance, allocation: Array, rng: np.random.Generator, rays: int = 5000
) -> float:
    """Search the infimum of Theorem 4.2 under one allocation, from the set's definition alone.

    Rays from the truth are followed until they enter the alternative set (`Alternative.contains`)
    and the cheapest entry is improved by a random search. It approaches the infimum from above.
    """
    problem, theta = instance.problem, parameters(instance)
    alternative = Alternative(problem, instance.best)
    information = problem.arms.T @ (allocation[:, np.newaxis] * problem.arms)
    root = np.linalg.inv(np.linalg.cholesky(information)).T  # |root @ u|² = u V⁻¹ u
    noise = block_noise(problem)[:, np.newaxis]

    def reach(directions: Array, length: Array) -> Array:
        return theta + length[:, np.newaxis, np.newaxis] * noise * (directions @ root.T)

    def inside(directions: Array, length: Array) -> NDArray[np.bool_]:
        points = reach(directions, length)
        return alternative.contains(points[:, 0], points[:, 1:])

    def entry(directions: Array, limit: float) -> tuple[Array, Array]:
        """Shortest lengths, below `limit`, at which directions are found inside."""
        directions = directions[inside(directions, np.full(len(directions), limit))]
        low, high = np.zeros(len(directions)), np.full(len(directions), limit)
        for _ in range(30):
            middle = (low + high) / 2
            within = inside(directions, middle)
            low, high = np.where(within, low, middle), np.where(within, middle, high)
        return directions, high

    def improve(start: Array, length: float) -> float:
        """The shortest length that random steps from a direction find."""
        spread = 0.5
        while spread > 1e-5:
            trial = _unit(start + spread * rng.standard_normal((100, *theta.shape)))
            found, lengths = entry(trial, length)
            if len(found) and lengths.min() < length * (1 - 1e-9):
                start, length = found[np.argmin(lengths)], float(lengths.min())
            else:
                spread *= 0.8
        return length

    directions = _unit(rng.standard_normal((rays, *theta.shape)))
    limit, found = 1e-3, np.empty((0, *theta.shape))
    while len(found) < rays // 10:
        limit *= 1.3
        found, lengths = entry(directions, limit)
    # The set has many parts: start from the nearest entry of each part that was met.
    order = np.argsort(lengths)
    points = reach(found, (1 + 1e-9) * lengths)[order]
    first = np.unique(_best_feasible(problem, points), return_index=True)[1]
    starts = order[np.sort(first)[:STARTS]]
    return min(improve(found[i], float(lengths[i])) for i in starts) ** 2 / 2


def _best_feasible(problem: Problem, points: Array) -> NDArray[np.int64]:
    """The best feasible candidate under each of many parameters, -1 for none."""
    values = points @ problem.candidates.T
    feasible = np.all(values[:, 1:] <= problem.thresholds[:, np.newaxis], axis=1)
    best = np.argmax(np.where(feasible, values[:, 0], -np.inf), axis=1)
    return np.where(feasible.any(axis=1), best, -1)


def _unit(directions: Array) -> Array:
    return directions / np.sqrt(np.sum(directions**2, axis=(1, 2), keepdims=True))


def dual_value(instance: Instance, rate: Rate) -> float:
    r"""Compute the last form of Γ in Section 3: :math:`\max_x E_p[\ell_\theta(x)]`, optimal p.

    The distribution p puts the solver's weights on the nearest alternative of each candidate.
    Any p gives an upper bound of Γ; this one has to meet the lower.
    """
    problem, best, theta = instance.problem, instance.best, parameters(instance)
    room, moves, lag, excess = _gaps(problem, best, theta)
    shares = _interior(rate)
    inverse = np.linalg.inv(problem.arms.T @ (shares[:, np.newaxis] * problem.arms))
    expected = np.zeros(len(problem.arms))
    for index in np.flatnonzero(rate.weights.values):
        offsets = np.zeros_like(theta)
        own = inverse @ problem.candidates[index]
        own /= problem.candidates[index] @ own
        if index == best:
            j = int(np.argmin(room))
            offsets[1 + j] = room[j] * own
        else:
            move = inverse @ moves[index]
            offsets[0] = lag[index] * move / (moves[index] @ move)
            offsets[1:] = -excess[index][:, np.newaxis] * own
        expected += rate.weights.values[index] * 0.5 * np.sum((problem.arms @ offsets.T) ** 2, 1)
    return float(expected.max())


def _interior(rate: Rate) -> Array:
    return (1 - INTERIOR) * rate.allocation.values + INTERIOR / rate.allocation.size


def two_forms(instances: Mapping[str, Instance], seed: int = 0, allocations: int = 6) -> xr.Dataset:
    """Theorem 4.2 on several instances.

    Gives over `instance`: `lower`, `upper` (the solver's certificate), `dual` (`dual_value`),
    `searched` (form one by `exhaust`), and `worst` and `least`: over the optimal and some random
    allocations, the largest and smallest relative excess of `brute_infimum` (form two, inner
    problem) over the smallest exponent (form one, inner problem).
    """
    rows = []
    for place, instance in enumerate(instances.values()):
        rng = np.random.default_rng([seed, place])
        rate = optimal_rate(instance)
        tried = rng.dirichlet(np.ones(len(instance.problem.arms)), allocations)
        tried[0] = _interior(rate)
        smallest = smallest_printed(instance, tried)
        excess = np.array([brute_infimum(instance, w, rng) for w in tried]) / smallest - 1
        searched = exhaust(instance, rng)[1]
        dual = dual_value(instance, rate)
        rows.append((rate.lower, rate.upper, dual, searched, excess.max(), excess.min()))
    names = ("lower", "upper", "dual", "searched", "worst", "least")
    return tabulate("instance", instances, names, rows)


def claim_bound(quick: bool, seed: int) -> list[Claim]:
    """Theorem 4.1: no allocation's exponent exceeds Γ."""
    instance, number = end_of_optimism(0.1), 20_000 if quick else 200_000
    rate = optimal_rate(instance)
    allocations = random_allocations(instance, number, np.random.default_rng(seed))
    ratio = smallest_printed(instance, allocations) / rate.upper
    literal = smallest_printed(instance, allocations, literal=True).max()
    return [
        state("bound", ratio.max() <= 1, number=number, ratio=ratio, rate=rate),
        state("indicators", literal > 0, most=literal),
    ]


def claim_two_forms(quick: bool, seed: int) -> list[Claim]:
    """Theorem 4.2."""
    instances = {f"End of Optimism {alpha:g}": end_of_optimism(alpha) for alpha in (0.1, 0.2, 0.3)}
    for k, number in [(5, 0)] if quick else [(5, 0), (5, 1), (20, 0), (20, 1), (50, 0)]:
        instances[f"ball d=2 K={k} seed {number}"] = random_ball(2, k, number)
    found = two_forms(instances, seed, 3 if quick else 8)
    dual = (found.dual / found.lower - 1).max()
    searched = found.searched / found.upper
    passed = (found.dual < found.lower * (1 - 1e-9)).any() or (found.least < -1e-6).any()
    answer = "unclear"
    if passed or (searched > 1 + 1e-6).any():
        answer = "fails"
    elif dual < 1e-6 and (found.worst < 1e-4).all() and (searched > 0.999).all():
        answer = "holds"
    short = 1 - searched.min()
    return [state("two_forms", answer, number=len(instances), dual=dual, found=found, short=short)]
