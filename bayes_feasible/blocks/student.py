r"""Gaussian outcomes whose noise is learnt: the posterior is Student's.

With :math:`\sigma^2 \sim IG(a_0, b_0)` and
:math:`\theta \mid \sigma^2 \sim N(\mu, \sigma^2 \, \Sigma / s_0^2)`, :math:`s_0^2 = b_0/a_0`, the
posterior is of the same kind with :math:`a = a_0 + n/2`, and :math:`\theta` is Student with
:math:`\nu = 2a` degrees of freedom and scale matrix :math:`(b/a) \Lambda^{-1}`.
"""

import numpy as np

from bayes_feasible._check import Array
from bayes_feasible.alternative.student import draw_beyond, log_tail
from bayes_feasible.blocks.base import Tails, Weighted, normal_draws, whitened
from bayes_feasible.blocks.gaussian import conjugate


class StudentBlock:
    """A normal-inverse-gamma posterior.

    `squares` are the sums of squares of what the pulls showed, about each arm's own mean; `shape`
    and `scale` are those of the inverse-gamma prior of the variance, `mean` and `covariance` those
    of the prior of the parameters at its prior guess.
    """

    exact = True

    def __init__(
        self, arms: Array, counts: Array, sums: Array, squares: Array, shape: float, scale: float,
        mean: Array, covariance: Array,
    ) -> None:  # fmt: skip
        unit = covariance / (scale / shape)
        self.mean, self.inner = conjugate(arms, counts, sums, 1.0, mean, unit)
        pulled = counts > 0
        means = sums[pulled] / counts[pulled]
        off = means - arms[pulled] @ self.mean
        shift = np.linalg.solve(np.linalg.cholesky(unit), self.mean - mean)
        within = squares[pulled].sum() + counts[pulled] @ np.square(off) + shift @ shift
        self.shape = shape + 0.5 * counts.sum()
        self.scale = scale + 0.5 * within
        self.root = np.sqrt(self.scale / self.shape) * self.inner

    @property
    def freedom(self) -> float:
        """Degrees of freedom."""
        return 2.0 * self.shape

    def tails(self, vectors: Array, limits: Array) -> Tails:
        """Student tails."""
        offset = (limits - vectors @ self.mean) / np.linalg.norm(vectors @ self.root, axis=1)
        none = np.zeros(len(limits))
        return Tails(log_tail(offset, np.full(len(limits), self.freedom)), none, none - np.inf)

    def draw(
        self, rng: np.random.Generator, size: int, vector: Array | None, limit: float
    ) -> Weighted:
        """A truncated coordinate, the variance given it, and the rest given both."""
        normal = along = None
        shape, scale = self.shape, np.full(size, self.scale)
        unit = np.sqrt(self.scale / self.shape)
        if vector is not None:
            normal, offset, _ = whitened(vector, limit, self.mean, self.root)
            coordinate = unit * draw_beyond(rng, np.full(size, offset), self.freedom)
            shape, scale = shape + 0.5, scale + 0.5 * np.square(coordinate)
        noise = np.sqrt(scale / rng.standard_gamma(shape, size))
        if vector is not None:
            along = coordinate / noise
        u = normal_draws(rng, size, self.mean.size, normal, along)
        theta = self.mean + noise[:, np.newaxis] * (u @ self.inner.T)
        return Weighted(theta, np.zeros(size))
