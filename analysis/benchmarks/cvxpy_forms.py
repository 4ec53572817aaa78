r"""The rate as a semidefinite and as a second-order cone program: slow, and independent.

Nothing is shared with the package's own solver. With the pieces of the exponents, vectors
:math:`u_k` with coefficients :math:`\kappa_k`, both forms bound each piece by a variable
:math:`t_k \le \kappa_k / (u_k^\top V_w^{-1} u_k)`:

- semidefinite: :math:`V_w \succeq (t_k / \kappa_k) \, u_k u_k^\top`;
- second-order cone: there are :math:`b_k` with :math:`\sum_x b_{kx} x = (t_k / \kappa_k) u_k` and
  :math:`\sum_x b_{kx}^2 / w_x \le t_k / \kappa_k`.
"""

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from bayes_feasible.instance import Instance

Array = NDArray[np.float64]
TIGHT = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def pieces(instance: Instance) -> tuple[Array, Array, list[list[int]]]:
    """Vectors, coefficients, and the numbers of the pieces of each candidate that matters."""
    problem, best = instance.problem, instance.best
    star = problem.candidates[best]
    vectors: list[Array] = []
    coefficients: list[float] = []
    groups: list[list[int]] = []
    for candidate in problem.candidates:
        cost = instance.theta_cost @ candidate - problem.thresholds
        terms = []
        if np.array_equal(candidate, star):  # a copy of the best adds nothing, nor does it harm
            margins = (cost / problem.cost_noise)[np.isfinite(cost)]
            terms.append((star, float(np.min(margins**2, initial=np.inf)) / 2))
        else:
            reward = max(float(instance.theta_reward @ (star - candidate)), 0.0)
            terms.append((candidate - star, reward**2 / (2 * problem.reward_noise**2)))
            excess = np.maximum(cost, 0.0) / problem.cost_noise
            terms.append((candidate, float(excess @ excess) / 2))
        terms = [(u, kappa) for u, kappa in terms if kappa > 0]
        if any(not u.any() or np.isinf(kappa) for u, kappa in terms):
            continue  # cannot be mistaken
        groups.append(list(range(len(vectors), len(vectors) + len(terms))))
        vectors += [u for u, _ in terms]
        coefficients += [kappa for _, kappa in terms]
    return np.array(vectors), np.array(coefficients), groups


def _scaled(instance: Instance) -> tuple[Array, Array, Array, list[list[int]], float]:
    """Whitened arms and vectors, coefficients that make the rate of order one, and the scale."""
    vectors, coefficients, groups = pieces(instance)
    arms = instance.problem.arms
    _, size, directions = np.linalg.svd(arms, full_matrices=False)
    keep = size > 1e-10 * size[0]
    white = directions[keep].T / size[keep] * np.sqrt(len(arms))
    arms, vectors = arms @ white, vectors @ white
    uniform = coefficients / np.einsum("kr,kr->k", vectors, vectors)
    scale = min(uniform[group].sum() for group in groups)
    return arms, vectors, coefficients / scale, groups, scale


def sdp(instance: Instance) -> tuple[cp.Problem, cp.Variable, float]:
    """The semidefinite form, its allocation, and the factor from its value to the rate."""
    arms, vectors, coefficients, groups, scale = _scaled(instance)
    number, rank = arms.shape
    weights, rate = cp.Variable(number, nonneg=True), cp.Variable()
    piece = cp.Variable(len(vectors), nonneg=True)
    outer = np.einsum("xi,xj->ijx", arms, arms).reshape(rank * rank, number)
    information = cp.reshape(outer @ weights, (rank, rank), order="C")
    constraints = [cp.sum(weights) == 1]
    constraints += [cp.sum(piece[group]) >= rate for group in groups]
    constraints += [
        information - (piece[k] / kappa) * np.outer(u, u) >> 0
        for k, (u, kappa) in enumerate(zip(vectors, coefficients, strict=True))
    ]
    return cp.Problem(cp.Maximize(rate), constraints), weights, scale


def socp(instance: Instance) -> tuple[cp.Problem, cp.Variable, float]:
    """The second-order cone form, its allocation, and the factor from its value to the rate."""
    arms, vectors, coefficients, groups, scale = _scaled(instance)
    number = len(arms)
    weights, rate = cp.Variable(number, nonneg=True), cp.Variable()
    piece = cp.Variable(len(vectors), nonneg=True)
    combination = cp.Variable((len(vectors), number))
    bound = cp.Variable((len(vectors), number), nonneg=True)
    share = cp.multiply(piece, 1 / coefficients)
    spread = np.ones((len(vectors), 1))
    across = spread @ cp.reshape(weights, (1, number), order="C")
    # b^2 <= bound * weight, as the cone |(2 b, bound - weight)| <= bound + weight
    left = cp.vec(bound + across, order="C")
    right = cp.vstack([cp.vec(2 * combination, order="C"), cp.vec(bound - across, order="C")])
    constraints = [
        cp.sum(weights) == 1,
        combination @ arms == cp.multiply(cp.reshape(share, (len(vectors), 1), order="C"), vectors),
        cp.SOC(left, right, axis=0),
        cp.sum(bound, axis=1) <= share,
    ]
    constraints += [cp.sum(piece[group]) >= rate for group in groups]
    return cp.Problem(cp.Maximize(rate), constraints), weights, scale


def solve(form: tuple[cp.Problem, cp.Variable, float], **settings: float) -> float:
    """The rate by Clarabel."""
    problem, _, scale = form
    problem.solve(solver=cp.CLARABEL, **settings)
    return float(problem.value) * scale
