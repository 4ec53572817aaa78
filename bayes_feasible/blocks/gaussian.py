r"""Gaussian outcomes of known noise: the posterior is Gaussian.

With prior :math:`N(\mu, \Sigma)` and sums over pulls,
:math:`H = \Sigma^{-1} + \sum_x n_x x x^\top / \sigma^2` is the precision.
"""

import numpy as np
from scipy.special import log_ndtr

from bayes_feasible._check import Array
from bayes_feasible.alternative.normal import draw_excess
from bayes_feasible.blocks.base import Tails, Weighted, invert_triangle, normal_draws, whitened


def conjugate(
    arms: Array, counts: Array, sums: Array, variance: float, mean: Array, covariance: Array
) -> tuple[Array, Array]:
    """Posterior mean and a root of the posterior covariance.

    From a QR factorisation of prior and weighted arms, which never squares their condition.
    """
    pulled = counts > 0
    lower = np.linalg.cholesky(covariance)
    rows = arms[pulled] @ lower * np.sqrt(counts[pulled] / variance)[:, np.newaxis]
    excess = sums[pulled] / counts[pulled] - arms[pulled] @ mean
    target = np.sqrt(counts[pulled] / variance) * excess
    order = np.argsort(-np.abs(rows).max(axis=1, initial=0.0), kind="stable")
    stacked = np.vstack([rows[order], np.eye(mean.size)])
    q, r = np.linalg.qr(stacked)
    right = q.T @ np.concatenate([target[order], np.zeros(mean.size)])
    inverse = invert_triangle(r, lower=False)
    return mean + lower @ (inverse @ right), lower @ inverse


class GaussianBlock:
    """A Gaussian posterior."""

    exact = True

    def __init__(self, mean: Array, root: Array) -> None:
        self.mean, self.root = mean, root

    def tails(self, vectors: Array, limits: Array) -> Tails:
        """Normal tails."""
        offset = (limits - vectors @ self.mean) / np.linalg.norm(vectors @ self.root, axis=1)
        none = np.zeros(len(limits))
        return Tails(log_ndtr(-offset), none, none - np.inf)

    def draw(
        self, rng: np.random.Generator, size: int, vector: Array | None, limit: float
    ) -> Weighted:
        """A truncated coordinate, and the rest as it is."""
        normal = along = None
        if vector is not None:
            normal, offset, _ = whitened(vector, limit, self.mean, self.root)
            along = offset + draw_excess(rng, np.full(size, offset))
        u = normal_draws(rng, size, self.root.shape[1], normal, along)
        return Weighted(self.mean + u @ self.root.T, np.zeros(size))
