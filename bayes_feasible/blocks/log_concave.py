r"""Bernoulli and Poisson outcomes: a log-concave posterior, with a Gaussian at its mode.

For a half-space the Gaussian is expanded at the mode constrained to it. There the slope of the
log density is that with which the tail falls, so the truncated Gaussian is close to the posterior
however rare the half-space, and importance weights make up the rest. A half-space and its
complement are measured alike; one over the sum of both is a probability whatever their common
constant.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_ndtr, logsumexp

from bayes_feasible._check import Array
from bayes_feasible.alternative.normal import draw_excess
from bayes_feasible.blocks.base import Tails, Weighted, invert_triangle, normal_draws, whitened
from bayes_feasible.outcomes import Bernoulli, Outcome

NEWTON = 100
CONVERGED = 1e-20  # squared Newton decrement: of the log density
QUADRATURE = 60  # nodes over a Gaussian natural parameter
DRAWS = 2**11  # for the probability of one half-space
SEED = 20250101  # of the draws behind a probability: asked twice, the answer is the same
LOG_2PI = float(np.log(2 * np.pi))


class Expansion(NamedTuple):
    """A Gaussian that touches the log density at a point, perhaps cut off by a half-space."""

    mean: Array
    root: Array  # covariance is root @ root.T
    log_scale: float  # of its density
    normal: Array | None  # of the half-space, in coordinates of the root
    offset: float
    log_mass: float  # of the half-space under the Gaussian


class LogConcaveBlock:
    """The posterior of one block from counts and sums; `mean` and `covariance` are the prior's."""

    exact = False

    def __init__(
        self, outcome: Outcome, arms: Array, counts: Array, sums: Array, mean: Array,
        covariance: Array,
    ) -> None:  # fmt: skip
        pulled = counts > 0
        self.outcome = outcome
        self.arms, self.counts, self.sums = arms[pulled], counts[pulled], sums[pulled]
        self.prior_mean = mean
        lower = np.linalg.cholesky(covariance)
        inverse = invert_triangle(lower, lower=True)
        self.whitening = inverse.T
        self.precision = inverse.T @ inverse
        self._measured: dict[tuple[bytes, float], tuple[Expansion, float, float, float, float]] = {}
        self._whole = self._expand(None, -np.inf)
        self.mean, self.root = self._whole.mean, self._whole.root

    def log_density(self, theta: Array) -> Array:
        """Up to a constant, for rows of parameters."""
        natural = theta @ self.arms.T
        white = (theta - self.prior_mean) @ self.whitening
        prior = -0.5 * np.einsum("nf,nf->n", white, white)
        return prior + natural @ self.sums - self._cumulant(natural) @ self.counts

    def _cumulant(self, natural: Array) -> Array:
        if isinstance(self.outcome, Bernoulli):
            return np.maximum(natural, 0.0) + np.log1p(np.exp(-np.abs(natural)))
        with np.errstate(over="ignore"):
            return np.exp(natural)

    def _gradient(self, theta: Array) -> tuple[Array, Array]:
        natural = self.arms @ theta
        slope = self.sums - self.counts * self.outcome.mean(natural)
        gradient = slope @ self.arms - self.precision @ (theta - self.prior_mean)
        weight = self.counts * self.outcome.variance(natural)
        return gradient, self.precision + (self.arms.T * weight) @ self.arms

    def _climb(self, theta: Array, vector: Array | None) -> Array:
        """The mode, among the points of a hyperplane where a vector is given."""
        value = float(self.log_density(theta[np.newaxis])[0])
        for _ in range(NEWTON):
            gradient, hessian = self._gradient(theta)
            factor = cho_factor(hessian)
            step = cho_solve(factor, gradient)
            if vector is not None:
                toward = cho_solve(factor, vector)
                step -= (vector @ step) / (vector @ toward) * toward
            decrement = float(gradient @ step)
            if decrement <= CONVERGED + 1e-13 * abs(value):
                return theta + step if decrement <= 1e-6 else theta
            size = 1.0
            while size > 1e-12:
                new = float(self.log_density((theta + size * step)[np.newaxis])[0])
                if new >= value + 1e-4 * size * decrement:
                    break
                size *= 0.5
            else:
                return theta
            theta, value = theta + size * step, new
        return theta

    def _top(self, vector: Array, limit: float) -> Array:
        """The mode constrained to a half-space."""
        at = self._whole.mean
        if vector @ at >= limit:
            return at
        toward = self._whole.root @ (self._whole.root.T @ vector)
        return self._climb(at + (limit - vector @ at) / (vector @ toward) * toward, vector)

    def _expand(self, vector: Array | None, limit: float) -> Expansion:
        """The Gaussian at the mode, constrained to a half-space where one is given."""
        at = self._climb(self.prior_mean, None) if vector is None else self._top(vector, limit)
        gradient, hessian = self._gradient(at)
        lower = np.linalg.cholesky(hessian)
        root = invert_triangle(lower, lower=True).T
        mean = at + root @ (root.T @ gradient)
        log_scale = float(np.log(np.diag(lower)).sum()) - 0.5 * at.size * LOG_2PI
        if vector is None:
            return Expansion(mean, root, log_scale, None, -np.inf, 0.0)
        normal, offset, _ = whitened(vector, limit, mean, root)
        return Expansion(mean, root, log_scale, normal, offset, float(log_ndtr(-offset)))

    def _propose(self, rng: np.random.Generator, size: int, at: Expansion) -> Weighted:
        """Draws from the truncated Gaussian, with unnormalised weights towards the posterior."""
        along = None
        if at.normal is not None:
            along = at.offset + draw_excess(rng, np.full(size, at.offset))
        u = normal_draws(rng, size, at.root.shape[1], at.normal, along)
        theta = at.mean + u @ at.root.T
        log_proposal = at.log_scale - at.log_mass - 0.5 * np.einsum("na,na->n", u, u)
        return Weighted(theta, self.log_density(theta) - log_proposal)

    def peak(self, vector: Array, limit: float) -> float:
        """The largest log density in a half-space."""
        return float(self.log_density(self._top(vector, limit)[np.newaxis])[0])

    def log_marginal_bound(self) -> float:
        r"""A lower bound of the log marginal likelihood, up to what the data alone fix.

        :math:`E_q[\log p(y, \theta)] - E_q[\log q]`, by Jensen's inequality, with q the Gaussian
        at the mode.
        """
        natural, sd = self.arms @ self.mean, np.linalg.norm(self.arms @ self.root, axis=1)
        nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE)
        cumulant = self._cumulant(natural[:, np.newaxis] + sd[:, np.newaxis] * nodes)
        spread = self.whitening.T @ self.root
        shift = (self.mean - self.prior_mean) @ self.whitening
        penalty = shift @ shift + np.square(spread).sum() - self.mean.size
        fit = natural @ self.sums - self.counts @ (cumulant @ weights) / weights.sum()
        return float(fit - 0.5 * penalty + np.linalg.slogdet(spread)[1])

    def tails(self, vectors: Array, limits: Array) -> Tails:
        """A half-space over the sum of itself and its complement."""
        found = [self._measure(*each)[1:] for each in zip(vectors, limits, strict=True)]
        return Tails(*np.array(found, dtype=float).reshape(-1, 4)[:, 1:].T)

    def _measure(self, vector: Array, limit: float) -> tuple[Expansion, float, float, float, float]:
        """Expansion in a half-space; logarithms of the integral and the probability; its error."""
        key = vector.tobytes(), float(limit)
        if key not in self._measured:
            rng = np.random.default_rng(SEED)
            sides = [self._expand(sign * vector, sign * limit) for sign in (1.0, -1.0)]
            weights = [self._propose(rng, DRAWS, side).log_weight for side in sides]
            (inside, error), (outside, other) = map(log_mean, weights)
            both = float(np.logaddexp(inside, outside))
            error = float(np.exp(outside - both)) * float(np.hypot(error, other))
            k_hat = max(map(pareto_k, weights))
            self._measured[key] = sides[0], inside, inside - both, error, k_hat
        return self._measured[key]

    @cached_property
    def _log_normaliser(self) -> float:
        """Logarithm of the integral of the density."""
        rng = np.random.default_rng(SEED)
        return log_mean(self._propose(rng, 8 * DRAWS, self._whole).log_weight)[0]

    def draw(
        self, rng: np.random.Generator, size: int, vector: Array | None, limit: float
    ) -> Weighted:
        """Draws given a half-space, with weights whose expectation is 1."""
        if vector is None:
            at, log_integral = self._whole, self._log_normaliser
        else:
            at, log_integral = self._measure(vector, limit)[:2]
        theta, log_weight = self._propose(rng, size, at)
        return Weighted(theta, log_weight - log_integral)


def log_mean(log_weight: Array) -> tuple[float, float]:
    """Logarithm of the mean of weights, and its standard error."""
    total = float(logsumexp(log_weight))
    share = np.exp(log_weight - total)
    error = np.sqrt(max(float(np.square(share).sum()) - 1.0 / share.size, 0.0))
    return total - float(np.log(share.size)), error


def pareto_k(log_weight: Array) -> float:
    """The shape of the weights' tail; above 0.7 they are not to be trusted (Vehtari et al. 2024).

    By Zhang and Stephens' estimate of a generalised Pareto distribution (Technometrics 2009).
    """
    size = log_weight.size
    most = int(np.ceil(min(0.2 * size, 3 * np.sqrt(size))))
    tail = np.sort(np.exp(log_weight - log_weight.max()))[-most - 1 :]
    excess = tail[1:] - tail[0]
    if most < 5 or excess[-1] <= 1e-12:
        return -np.inf
    excess = excess[excess > 0]
    n = excess.size
    points = 30 + int(np.sqrt(n))
    rates = 1 / excess[-1] + (
        1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    ) / (3 * excess[int(n / 4 + 0.5) - 1])  # fmt: skip
    k = np.log1p(-rates[:, np.newaxis] * excess).mean(axis=1)
    likelihood = n * (np.log(-(rates / k)) - k - 1)
    weights = np.exp(likelihood - logsumexp(likelihood))
    rate = float(np.sum(rates * weights))
    shape = float(np.log1p(-rate * excess).mean())
    return (shape * n + 5.0) / (n + 10)
