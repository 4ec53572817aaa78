r"""Evidence against every mistake that holds for any fixed truth, whenever one looks.

A mixture of likelihood ratios against the truth, :math:`M_t = \int L_t(\theta) / L_t(\theta^*)
\, d\pi(\theta)`, is a martingale of mean 1, whatever chooses the arms. By Ville's inequality it
ever exceeds :math:`1/\delta` with probability at most :math:`\delta`. So if :math:`M_t` with
:math:`\theta'` in place of the truth exceeds :math:`1/\delta` for every :math:`\theta'` under which
the answer is wrong, then the answer is right, but for a probability of :math:`\delta`. That is the
generalised likelihood ratio over the alternatives, :math:`\min_z t f(w_t, z)`, less the price of
not knowing the parameter, against :math:`\log(1/\delta)`:

- Gaussian of known noise: the mixture is centred at :math:`\theta'`, :math:`N(\theta', \sigma^2
  V_0^{-1})` with :math:`V_0` one pull in equal shares. It is the ellipsoid of Abbasi-Yadkori, Pál
  and Szepesvári (NIPS 2011, theorem 1), its price :math:`\frac12 \log \det (I + V_0^{-1} A_t)`.
- Learnt noise, 0/1 and counts: the mixture is the problem's own prior, so the price is the log of
  the largest over the marginal likelihood (mixture martingales: Kaufmann and Koolen, JMLR 2021;
  prior-posterior ratio: Waudby-Smith and Ramdas, NeurIPS 2020). A prior far off makes it slow, not
  wrong. For 0/1 and counts a lower bound stands for the marginal likelihood (Jensen's, with the
  Gaussian at the mode), and natural parameters are taken to have a norm of at most `LARGEST`.

Blocks multiply. A mistake often concerns one of them only, and the others would but cost, so what
is multiplied is :math:`(1 + M_b) / 2`, a martingale of mean 1 too.
"""

import math
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from bayes_feasible._check import Array
from bayes_feasible.alternative.events import Events
from bayes_feasible.blocks.log_concave import LogConcaveBlock
from bayes_feasible.blocks.student import StudentBlock
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.posterior import Posterior

UNSEEN = 1e-12  # of the largest eigenvalue: no pull tells of such a direction
RIDGE = 1e-6  # on the likelihood of 0/1 and counts, whose maximum may lie at infinity
LARGEST = 100.0  # norm of their parameters
LOG_2PI = math.log(2 * math.pi)


class _Evidence(Protocol):
    def against(self, vectors: Array, limits: Array) -> Array:
        """Log of the mixture ratio against the likeliest point of `vectors @ theta >= limits`."""


def log_evidence(events: Events, posterior: Posterior) -> float:
    """The smallest log-evidence against an event: all are wrong where it is large."""
    possible = events.possible
    if not possible.size:
        return np.inf
    number = len(posterior.problem.outcomes)
    each = np.full((possible.size, number), -np.inf)
    for b in range(number):
        limits = events.limits[possible, b]
        asked = np.flatnonzero(np.isfinite(limits))
        if asked.size:
            vectors = events.vectors[possible[asked], b]
            each[asked, b] = _evidence(posterior, b).against(vectors, limits[asked])
    if number > 1:
        each = np.logaddexp(0.0, each) - math.log(2.0)
    return float(each.sum(axis=1).min())


def _evidence(posterior: Posterior, b: int) -> _Evidence:
    outcome = posterior.problem.outcomes[b]
    if not isinstance(outcome, Gaussian):
        return _LogConcave(posterior, b)
    return _Student(posterior, b) if outcome.learnt else _Ellipsoid(posterior, b)


class _LeastSquares:
    """The fit without a prior, in axes where the pulls so far are independent directions."""

    def __init__(self, posterior: Posterior, b: int) -> None:
        problem = posterior.problem
        counts = posterior.seen[:, b].astype(float)
        sums = posterior.reward_sums if b == 0 else posterior.cost_sums[:, b - 1]
        arms = problem.arms @ problem.basis
        triangle = np.linalg.qr(arms / math.sqrt(len(arms)), mode="r")  # V0 = R'R
        self.to_white = problem.basis @ np.linalg.inv(triangle)
        white = problem.arms @ self.to_white
        axes = np.linalg.svd(np.sqrt(counts)[:, np.newaxis] * white)[2].T
        self.to_white = self.to_white @ axes
        white = white @ axes
        self.size = np.einsum("x,xa,xa->a", counts, white, white)  # eigenvalues of V0^-1 A
        self.size[self.size <= UNSEEN * self.size.max(initial=0.0)] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            self.fit = np.where(self.size > 0, sums @ white / self.size, 0.0)
        self.pulls = counts.sum()
        pulled = counts > 0
        off = sums[pulled] / counts[pulled] - white[pulled] @ self.fit
        self.squares = posterior.squares[:, b].sum() + counts[pulled] @ np.square(off)

    def excess(self, vectors: Array, limits: Array, inverse: Array) -> Array:
        """Smallest `|theta - fit|²` on half-spaces, in the norm whose inverse is diagonal."""
        along = vectors @ self.to_white
        length = np.linalg.norm(along, axis=1, keepdims=True)
        square = np.where(np.abs(along) > 1e-9 * length, np.square(along), 0.0)
        with np.errstate(invalid="ignore"):
            spread = np.where(square > 0, square * inverse, 0.0).sum(axis=1)
        gap = np.maximum(limits - along @ self.fit, 0.0)
        return np.square(gap) / spread


class _Ellipsoid:
    """Known noise: a mixture centred at what is put in question."""

    def __init__(self, posterior: Posterior, b: int) -> None:
        self.fit, self.noise = _LeastSquares(posterior, b), posterior.problem.noise[b]

    def against(self, vectors: Array, limits: Array) -> Array:
        size = self.fit.size
        with np.errstate(divide="ignore"):
            inverse = np.where(size > 0, (1.0 + size) / np.square(size), np.inf)
        excess = self.fit.excess(vectors, limits, inverse)
        return excess / (2 * self.noise**2) - 0.5 * np.log1p(size).sum()


class _Student:
    """Learnt noise: the prior's mixture over the likelihood at its largest, over the noise too."""

    def __init__(self, posterior: Posterior, b: int) -> None:
        self.fit = _LeastSquares(posterior, b)
        outcome, block = posterior.problem.outcomes[b], posterior.blocks[b]
        assert isinstance(outcome, Gaussian)
        assert isinstance(block, StudentBlock)
        shape, scale = outcome.noise_prior
        unit = posterior.problem.priors[b][1] / (scale / shape)
        self.log_marginal = (
            gammaln(block.shape) - gammaln(shape)
            + shape * math.log(scale) - block.shape * math.log(block.scale)
            + np.linalg.slogdet(block.inner)[1] - 0.5 * np.linalg.slogdet(unit)[1]
            - 0.5 * self.fit.pulls * LOG_2PI
        )  # fmt: skip

    def against(self, vectors: Array, limits: Array) -> Array:
        fit = self.fit
        if not fit.pulls:
            return np.zeros(len(limits))
        with np.errstate(divide="ignore"):
            inverse = np.where(fit.size > 0, 1.0 / fit.size, np.inf)
            square = fit.squares + fit.excess(vectors, limits, inverse)
            largest = -0.5 * fit.pulls * (LOG_2PI + np.log(square / fit.pulls) + 1.0)
        return np.asarray(self.log_marginal - largest)


class _LogConcave:
    """0/1 and counts: a bound on the prior's mixture over the likelihood at its largest."""

    def __init__(self, posterior: Posterior, b: int) -> None:
        problem, block = posterior.problem, posterior.blocks[b]
        assert isinstance(block, LogConcaveBlock)
        self.log_marginal = block.log_marginal_bound()
        counts = posterior.seen[:, b].astype(float)
        sums = posterior.reward_sums if b == 0 else posterior.cost_sums[:, b - 1]
        features = problem.arms.shape[1]
        self.flat = LogConcaveBlock(
            problem.outcomes[b], problem.arms, counts, sums, np.zeros(features),
            np.eye(features) / RIDGE,
        )  # fmt: skip

    def against(self, vectors: Array, limits: Array) -> Array:
        largest = [self.flat.peak(*each) for each in zip(vectors, limits, strict=True)]
        return self.log_marginal - np.array(largest) - 0.5 * RIDGE * LARGEST**2
