r"""The best allocation for any concave exponents, by a primal-dual interior point.

.. math:: \max_w \min_e f_e(w), \qquad f_e(w) = \min_{\theta'} \sum_x w_x \, \ell_{\theta'}(x) .

At any allocation :math:`\min_e f_e(w)` is a lower bound, and for any weights :math:`q` on the
events :math:`\max_x \sum_e q_e \ell_e(x)` an upper one, with :math:`\ell_e` that of the nearest
alternative. The two close in on each other, and prove what is returned.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayes_feasible._check import Array

ROUNDS = 300
SHRINK = 0.1  # of the complementarity, aimed for by each step
CENTRE = 0.8  # the same after a short step: the exponents bend, so first away from the edges
SHORT = 0.4
EDGE = 0.99  # of the way to the boundary
SHORTEST = 1e-6  # step that is worth making
PATIENCE = 30  # rounds in which the gap has to halve


class Exponents(NamedTuple):
    """Exponents at an allocation."""

    value: Array  # (event,)
    each: Array  # (event, arm): value = each @ w, and value(w') <= each @ w' for every w'
    hessian: Callable[[Array], Array]  # of q @ value, over (arm, arm)


class Saddle(NamedTuple):
    """An allocation, weights on the events, and the bounds these prove."""

    allocation: Array
    weights: Array
    lower: float
    upper: float


def solve(exponents: Callable[[Array], Exponents], arms: int, tol: float) -> Saddle:
    """Solve the game until the bounds are within `tol` of each other, relatively."""
    w = np.full(arms, 1.0 / arms)
    now = exponents(w)
    unit = float(now.value.min())
    if not unit > 0:
        return Saddle(w, np.where(now.value <= 0, 1.0, 0.0), 0.0, 0.0)
    events = len(now.value)
    t = 0.5  # everything in units of the smallest exponent under equal shares
    q, u = np.full(events, 1.0 / events), np.full(arms, 1.0 / arms)
    slack = now.value / unit - t
    best = Saddle(w, q, unit, float((q @ now.each).max()))
    gaps, size = [np.inf] * PATIENCE, 1.0
    for _ in range(ROUNDS):
        pressure = (slack @ q + u @ w) / (events + arms)
        shrink = SHRINK if size > SHORT else CENTRE
        dw, dq, du, dt = _newton(now, unit, w, q, u, slack, shrink * pressure)
        size = min([1.0, *(EDGE * _reach(v, dv) for v, dv in ((w, dw), (q, dq), (u, du)))])
        while size > SHORTEST:
            new = exponents(w + size * dw)
            rest = new.value / unit - (t + size * dt)
            if rest.min() > 0 and rest @ (q + size * dq) <= 3 * max(slack @ q, pressure * events):
                break
            size *= 0.5
        else:
            break
        w, q, u, t = w + size * dw, q + size * dq, u + size * du, t + size * dt
        w = w / w.sum()
        now, slack = new, rest
        best = _better(best, w, q / q.sum(), now)
        gaps.append(best.upper - best.lower)
        if gaps[-1] <= tol * best.lower or gaps[-1] > 0.5 * gaps[-1 - PATIENCE :][0]:
            break
    return best


def _better(best: Saddle, w: Array, q: Array, now: Exponents) -> Saddle:
    """The tighter bounds, with what proves them."""
    lower, upper = float(now.value.min()), float((q @ now.each).max())
    if lower > best.lower:
        best = best._replace(allocation=w, lower=lower)
    if upper < best.upper:
        best = best._replace(weights=q, upper=upper)
    return best


def _newton(
    now: Exponents, unit: float, w: Array, q: Array, u: Array, slack: Array, target: float
) -> tuple[Array, Array, Array, float]:
    """A step towards complementarity `target`: in allocation, weights, and multipliers."""
    arms, ratio = w.size, q / slack
    slope = now.each / unit
    slope = slope - slope.mean(axis=1, keepdims=True)  # steps keep the sum of the shares
    left = np.zeros((arms + 2, arms + 2))
    left[:arms, :arms] = -now.hessian(q) / unit + np.diag(u / w) + (slope.T * ratio) @ slope
    left[:arms, arms] = left[arms, :arms] = -(ratio @ slope)
    left[arms, arms] = ratio.sum()
    left[:arms, arms + 1] = left[arms + 1, :arms] = 1.0
    pull = target / slack
    right = np.concatenate([pull @ slope + target / w, [1.0 - pull.sum(), 0.0]])
    # Rows and columns in units of the shares, for these may be tiny.
    unit_of = np.concatenate([w, [1.0, 1.0]])
    left *= np.outer(unit_of, unit_of)
    try:
        solution = unit_of * np.linalg.solve(left, right * unit_of)
    except np.linalg.LinAlgError:
        solution = unit_of * np.linalg.lstsq(left, right * unit_of, rcond=1e-18)[0]
    dw, dt = solution[:arms], float(solution[arms])
    dw -= w * dw.sum()
    dq = pull - q - ratio * (slope @ dw - dt)
    du = target / w - u - u / w * dw
    return dw, dq, du, dt


def _reach(value: Array, step: Array) -> float:
    """How far positive values can go along a step before one of them is 0."""
    falling = step < 0
    return float(np.min(-value[falling] / step[falling])) if falling.any() else np.inf
