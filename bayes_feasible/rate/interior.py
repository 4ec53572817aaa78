r"""Interior-point methods for the rate on given arms and candidates.

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.span import Factor, cholesky, cholesky_solve, triangle, whiten

FASTEST = 1e-4  # smallest factor by which one step reduces the center
CURVED = 0.2  # share of what the linear model promises that a step must leave of each exponent
PATIENCE = 6  # iterations without progress after which the method is changed
REFINEMENTS = 2
PRECISE = 1e-15  # relative size of what a step may leave
FLAT = 1e-9  # arm_dual in the Newton matrix: keeps rounding out of directions of no curvature


class Game(NamedTuple):
    """Arms, and the pieces of the candidates' exponents."""

    arms: Array  # (arm, rank)
    vectors: Array  # (piece, rank)
    coefficients: Array  # (piece,), positive
    owner: NDArray[np.int64]  # (piece,): the candidate
    candidates: int


class Iterate(NamedTuple):
    """The unknowns, or a step of each; the arms come first, then the candidates."""

    primal: Array  # weights and slacks
    dual: Array  # their multipliers

    def moved(self, step: "Iterate", primal: float, other: float) -> "Iterate":
        """The iterate after parts of a step."""
        return Iterate(self.primal + primal * step.primal, self.dual + other * step.dual)

    def longest(self, step: "Iterate", share: float) -> tuple[float, float]:
        """Sizes, at most 1, of the two parts of a step that stay positive."""
        sizes = longest_step(self.primal, step.primal), longest_step(self.dual, step.dual)
        return min(1.0, share * sizes[0]), min(1.0, share * sizes[1])


class Point(NamedTuple):
    """The exponents under some weights, and what they were computed from."""

    value: Array  # (candidate,)
    white: Array  # (piece, rank): whitened vectors
    squares: Array  # (piece,): their squared lengths
    factor: Factor


class Best:
    """The best bounds of the iterates so far, and what proves them."""

    def __init__(self, arms: int, start: Iterate) -> None:
        self.arms = arms
        self.low = self.up = start.primal[:arms]
        self.up_dual = start.dual[arms:]
        self.lower, self.upper = 0.0, np.inf

    def note(self, at: Iterate, value: Array, slope: Array) -> float:
        """Take in an iterate; returns the relative gap of its own bounds."""
        weights, dual = at.primal[: self.arms], at.dual[self.arms :]
        lower = float(value.min() / weights.sum())
        upper = float(slope.max() / dual.sum())
        if lower > self.lower:
            self.low, self.lower = weights, lower
        if upper < self.upper:
            self.up, self.up_dual, self.upper = weights, dual, upper
        return upper / lower - 1

    @property
    def gap(self) -> float:
        """Relative difference of the best bounds."""
        return self.upper / self.lower - 1


class Newton:
    """The linear model of the exponents at an iterate."""

    def __init__(self, game: Game, owned: Array | None, point: Point, at: Iterate) -> None:
        self.arms, self.at = len(game.arms), at
        self.white_arms = whiten(point.factor, game.arms)
        self.product = self.white_arms @ (point.white / point.squares[:, np.newaxis]).T
        self.square = self.product * self.product
        self.gradient = game.coefficients * self.square  # of the exponents, (arm, candidate)
        if owned is not None:
            self.gradient = self.gradient @ owned
        self.slope = self.gradient @ at.dual[self.arms :]

    def prepare(self, game: Game, point: Point) -> None:
        r"""The Newton matrix, and the factor of it with the candidates' multipliers eliminated.

        Minus the Hessian of an exponent is, with p = <x, y> and g = u' V^-1 u,
        :math:`2 \kappa p_x p_{x'} (x^\top V^{-1} x' - g \, p_x p_{x'})`. Complementarity adds a
        diagonal for the arms and, once the multipliers of the candidates are eliminated, a
        weighted product of gradients.
        """
        n, at, gradient = self.arms, self.at, self.gradient
        self.ratio = at.dual / at.primal
        factor = 2 * at.dual[n:][game.owner] * game.coefficients
        matrix = (self.white_arms @ self.white_arms.T) * ((factor * self.product) @ self.product.T)
        matrix -= (factor * point.squares * self.square) @ self.square.T
        matrix.ravel()[:: n + 1] += np.maximum(at.dual[:n], FLAT) / at.primal[:n]
        self.factor = cholesky(matrix + (self.ratio[n:] * gradient) @ gradient.T)
        self.matrix = np.zeros((at.primal.size, at.primal.size))
        self.matrix[:n, :n] = matrix
        self.matrix[:n, n:] = -gradient
        self.matrix[n:, :n] = gradient.T
        self.matrix.ravel()[n * (at.primal.size + 1) :: at.primal.size + 1] = 1 / self.ratio[n:]

    def step(self, missing: Array | float, products: Array | float) -> Iterate:
        """The step towards these products of unknowns and multipliers.

        `missing` is how far the slacks are from f - 1.
        """
        n, at, aim = self.arms, self.at, products / self.at.primal
        right = aim - at.dual
        right[:n] = self.slope - 1 + aim[:n]
        right[n:] = right[n:] / self.ratio[n:] - missing
        found = self._solve(right)
        weights, dual = found[:n], found[n:]
        slack = weights @ self.gradient + missing
        arm_dual = aim[:n] - at.dual[:n] - self.ratio[:n] * weights
        return Iterate(np.concatenate((weights, slack)), np.concatenate((arm_dual, dual)))

    def _solve(self, right: Array) -> Array:
        """Solve for the step of the weights and of the candidates' multipliers.

        Eliminating the multipliers loses digits where the ratio of multiplier to slack is large.
        Refinement with the two unknowns apart restores them.
        """
        n, gradient, ratio = self.arms, self.gradient, self.ratio[self.arms :]
        found, left, before = np.zeros(right.size), right, np.inf
        enough = PRECISE * np.abs(right[:n]).sum()
        for _ in range(1 + REFINEMENTS):
            scaled = ratio * left[n:]
            extra = cholesky_solve(self.factor, left[:n] + gradient @ scaled)
            new = found + np.concatenate((extra, scaled - ratio * (extra @ gradient)))
            rest = right - self.matrix @ new
            size = np.abs(rest[:n]).sum()
            if not size < before:
                break
            found, left, before = new, rest, size
            if size <= enough:
                break
        return found


def exponents(game: Game, weights: Array) -> Point:
    """The exponents at positive weights."""
    factor = triangle(game.arms, weights)
    white = whiten(factor, game.vectors)
    squares = np.add.reduce(white * white, axis=1)
    each = game.coefficients / squares
    return Point(np.bincount(game.owner, each, game.candidates), white, squares, factor)


def longest_step(value: Array, change: Array) -> float:
    """The largest multiple of the change that keeps all values non-negative."""
    fastest = -float((change / value).min())
    return 1.0 / fastest if fastest > 0 else np.inf


def central_start(game: Game, weights: Array, room: float) -> Iterate:
    """Weights scaled so that all exponents exceed 1 by `room` or more, and central multipliers."""
    value = exponents(game, weights).value
    scale = (1 + room) / value.min()
    weights, value = weights * scale, value * scale
    slack = value - 1
    center = weights.sum() / ((value / slack).sum() + weights.size)
    primal = np.concatenate((weights, slack))
    return Iterate(primal, center / primal)


def _owned(game: Game) -> Array | None:
    """Which candidate (column) owns which piece (row); None where each owns the one of its own."""
    pieces = np.arange(game.owner.size)
    if game.candidates == pieces.size and (game.owner == pieces).all():
        return None
    owned = np.zeros((pieces.size, game.candidates))
    owned[pieces, game.owner] = 1.0
    return owned


def predictor_corrector(
    game: Game, start: Iterate, aim: float, target: float
) -> tuple[Iterate, Best]:
    """Mehrotra's primal-dual method: quick, and nearly always successful.

    Slacks are unknowns of their own, so that steps are not cut short by the curvature of the
    exponents. It stops at the relative gap `aim`; the center stays at what the `target`, the gap
    wanted in the end, needs. Gives the last iterate, and the bounds over these arms and candidates.
    """
    n, owned, at = len(game.arms), _owned(game), start
    best, progress, waited = Best(n, at), np.inf, 0
    point = exponents(game, at.primal[:n])
    for _ in range(100):
        newton = Newton(game, owned, point, at)
        own_gap = best.note(at, point.value, newton.slope)
        waited = 0 if best.gap < 0.7 * progress else waited + 1
        progress = best.gap if waited == 0 else progress
        if best.gap <= aim or waited >= PATIENCE:
            break
        newton.prepare(game, point)
        missing = point.value - 1 - at.primal[n:]
        # Predictor: as if the solution could be reached at once.
        step = newton.step(missing, 0.0)
        total = float(at.primal @ at.dual)
        ahead = at.moved(step, *at.longest(step, 1.0))
        reduction = max(FASTEST, (float(ahead.primal @ ahead.dual) / total) ** 3)
        # The center must neither run far ahead of the bounds nor fall below what is needed.
        relative = total / float(at.primal[:n].sum())
        reduction = max(reduction, 0.3 * target / relative)
        if own_gap > 100 * relative:
            reduction = max(reduction, 0.5)
        center = total / at.primal.size * min(reduction, 1.0)
        # Corrector: towards the central path, with the second-order terms of the predictor.
        step = newton.step(missing, center - step.primal * step.dual)
        primal, other = at.longest(step, 0.99)
        for _ in range(30):
            moved = at.moved(step, primal, other)
            point = exponents(game, moved.primal[:n])
            if (point.value >= CURVED * (1 + moved.primal[n:])).all():
                break
            primal *= 0.5
        at = moved
    return at, best


def barrier(game: Game, start: Iterate, aim: float, target: float) -> tuple[Iterate, Best]:
    """Path following with exact slacks and a line search: slower, and sure.

    For a given center c the function sum(w) - c sum(log(f - 1)) - c sum(log w) is convex. Newton
    steps reduce it until the iterate is nearly central; then c is reduced. Arguments and results
    are those of `predictor_corrector`; the slacks must be exact and the multipliers central.
    """
    n, owned, at = len(game.arms), _owned(game), start
    best, center = Best(n, at), float(at.primal[-1] * at.dual[-1])
    point = exponents(game, at.primal[:n])
    for _ in range(200):
        newton = Newton(game, owned, point, at)
        best.note(at, point.value, newton.slope)
        if best.gap <= aim:
            break
        residual = np.abs(1 - newton.slope - at.dual[:n]).max()
        deviation = np.abs(at.primal * at.dual / center - 1).max()
        needed = 0.3 * target * at.primal[:n].sum() / at.primal.size
        if residual < 0.1 and deviation < 0.5 and center > needed:
            center *= 0.2
        newton.prepare(game, point)
        step = newton.step(0.0, center)
        size, other = at.longest(step, 0.95)
        decrease = center * (step.primal / at.primal).sum() - step.primal[:n].sum()
        for _ in range(40):
            weights = at.primal[:n] + size * step.primal[:n]
            point = exponents(game, weights)
            primal = np.concatenate((weights, point.value - 1))
            if primal.min() > 0:
                change = (weights - at.primal[:n]).sum()
                change -= center * np.log(primal / at.primal).sum()
                if change <= 1e-14 - 1e-4 * size * decrease:
                    break
            size *= 0.5
        # Multipliers far from central ones would spoil the next matrix.
        central = center / primal
        dual = np.clip(at.dual + other * step.dual, 0.01 * central, 100 * central)
        at = Iterate(primal, dual)
    return at, best
