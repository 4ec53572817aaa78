r"""How far the truth is from a half-space, in nats a pull, for every kind of outcome.

Under shares :math:`w` of the pulls, a block with parameter :math:`\theta` gives a half-space
:math:`\langle a, \theta' \rangle \ge c` away at the rate

.. math:: D(w) = \min_{\theta'} \Big\{ \sum_x w_x \, KL_x(\theta, \theta') :
                 \langle a, \theta' \rangle = c \Big\}, \qquad
          KL_x(\theta, \theta') = A(s') - A(s) - A'(s)(s' - s),

with :math:`s = \langle x, \theta \rangle` the natural parameter and :math:`A` its cumulant. As a
minimum of functions linear in :math:`w` it is concave. Where the noise of a Gaussian is learnt, an
alternative is :math:`(\theta', \sigma')` and :math:`D = \frac12 \log(1 + 2 D_\sigma)` with
:math:`D_\sigma` that of the known noise.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.outcomes import Gaussian, Outcome

NEWTON_STEPS = 100
HALVINGS = 60
CONVERGED = 1e-13  # squared Newton decrement over the value: one more step uses up the digits


class Divergence(NamedTuple):
    """Divergences from half-spaces of one block, and what their derivatives are made of."""

    value: Array  # (half-space,), D
    each: Array  # (half-space, arm), KL_x at the nearest parameters: D = each @ w
    steps: Array  # (half-space, arm), s' - s
    slope: Array  # (half-space, arm), A'(s') - A'(s), in units of the Hessian
    projector: Array  # (half-space, feature, feature), how the nearest parameters move
    damping: Array  # (half-space,), what learnt noise multiplies the Hessian by; 1 elsewhere

    def hessian(self, arms: Array, weights: Array) -> Array:
        """`sum_h weights_h D_h''(w)`, over (arm, arm); negative semidefinite."""
        scaled = np.einsum("hk,kf->hkf", self.slope, arms)
        moved = np.einsum("hkf,hfg->hkg", scaled, self.projector)
        weight = weights * self.damping
        bent = -np.einsum("h,hkg,hlg->kl", weight, moved, scaled, optimize=True)
        learnt = self.damping < 1.0
        if learnt.any():  # of log(1 + 2 D) / 2 with D' = bowl
            bowl = self.each[learnt] - self.each[learnt].min(axis=1, keepdims=True)
            bent -= 2.0 * np.einsum("h,hk,hl->kl", weights[learnt], bowl, bowl)
        return bent


def divergences(
    arms: Array, weights: Array, outcome: Outcome, noise: float, theta: Array,
    vectors: Array, limits: Array,
) -> Divergence:  # fmt: skip
    """Divergences of one block from half-spaces `vectors @ theta' >= limits`.

    The arms are of full column rank, their shares positive, and the truth `theta` is outside of
    every half-space. The `noise` is that of a Gaussian outcome.
    """
    if isinstance(outcome, Gaussian):
        return _gaussian(arms, weights, outcome.noise is None, noise, theta, vectors, limits)
    return _newton(arms, weights, outcome, theta, vectors, limits)


def _gaussian(
    arms: Array, weights: Array, learnt: bool, noise: float, theta: Array,
    vectors: Array, limits: Array,
) -> Divergence:  # fmt: skip
    """In closed form."""
    gap = limits - vectors @ theta
    inverse, toward, length = _project(arms, np.broadcast_to(weights, (len(gap), weights.size)),
                                       vectors)  # fmt: skip
    step = (gap / length)[:, np.newaxis] * toward @ arms.T
    each = 0.5 * np.square(step / noise)
    value = 0.5 * np.square(gap / noise) / length
    damping = np.ones(gap.size)
    if learnt:
        damping = 1.0 / (1.0 + 2.0 * value)
        value = 0.5 * np.log1p(2.0 * value)
        each = damping[:, np.newaxis] * each + (value + 0.5 * damping - 0.5)[:, np.newaxis]
    return Divergence(value, each, step, step / noise, inverse, damping)


def _newton(
    arms: Array, weights: Array, outcome: Outcome, theta: Array, vectors: Array, limits: Array
) -> Divergence:
    """Damped Newton on the hyperplane, for all half-spaces at once."""
    truth = arms @ theta
    mean = outcome.mean(truth)
    shares = weights * outcome.variance(truth)
    shares = np.broadcast_to(shares, (len(limits), weights.size))
    _, toward, length = _project(arms, shares, vectors)
    # Of the natural parameters, from the truth to the nearest ones.
    steps = ((limits - vectors @ theta) / length)[:, np.newaxis] * toward @ arms.T
    value = outcome.divergence(truth, truth + steps) @ weights
    open_ = np.ones(len(limits), dtype=bool)
    for _ in range(NEWTON_STEPS):
        slope = outcome.mean(truth + steps[open_]) - mean
        shares = weights * outcome.variance(truth + steps[open_])
        projector, _, _ = _project(arms, shares, vectors[open_])
        gradient = (weights * slope) @ arms
        newton = -np.einsum("hfg,hg->hf", projector, gradient)
        decrement = -np.einsum("hf,hf->h", newton, gradient)
        along = newton @ arms.T
        at = np.flatnonzero(open_)
        done = decrement <= CONVERGED * value[at]
        size = _halve(outcome, weights, truth, steps[at], along, value, decrement, at, done)
        steps[at] += size[:, np.newaxis] * along
        open_[at[done | (size == 0.0)]] = False
        if not open_.any():
            break
    slope = outcome.mean(truth + steps) - mean
    projector, _, _ = _project(arms, weights * outcome.variance(truth + steps), vectors)
    each = outcome.divergence(truth, truth + steps)
    return Divergence(each @ weights, each, steps, slope, projector, np.ones(len(limits)))


def _halve(
    outcome: Outcome, weights: Array, truth: Array, steps: Array, along: Array, value: Array,
    decrement: Array, at: NDArray[np.int64], done: NDArray[np.bool_],
) -> Array:  # fmt: skip
    """How far to go along each Newton step, 0 where nothing is gained; `value[at]` is moved on."""
    size, found = np.ones(at.size), done.copy()
    for _ in range(HALVINGS):
        if found.all():
            break
        with np.errstate(over="ignore", invalid="ignore"):
            new = outcome.divergence(truth, truth + steps + size[:, np.newaxis] * along) @ weights
        good = ~found & (new <= value[at] - 1e-4 * size * decrement)
        value[at[good]] = new[good]
        found |= good
        size[~found] *= 0.5
    return np.where(found, size, 0.0)


def _project(arms: Array, shares: Array, vectors: Array) -> tuple[Array, Array, Array]:
    """For `H = arms' diag(shares) arms`: H^-1 less its part along a, H^-1 a, and a' H^-1 a.

    H itself is never formed: shares of very different size, largest first, keep their digits in a
    QR factorisation.
    """
    order = np.argsort(-shares, axis=1)
    rows = np.sqrt(np.take_along_axis(shares, order, axis=1))[:, :, np.newaxis] * arms[order]
    triangle = np.linalg.qr(rows, mode="r")
    root = np.linalg.inv(triangle)
    white = np.einsum("hf,hfg->hg", vectors, root)
    length = np.einsum("hg,hg->h", white, white)
    unit = white / np.sqrt(length)[:, np.newaxis]
    across = root - np.einsum("hfg,hg,hk->hfk", root, unit, unit)
    projector = np.einsum("hfg,hkg->hfk", across, across)
    return projector, np.einsum("hfg,hg->hf", root, white), length
