"""A Gaussian that stands beside a model's posterior: to whiten it, and to measure distances."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from bayes_feasible._check import Array
from bayes_feasible._draws import block_means, block_noise
from bayes_feasible.history import History
from bayes_feasible.posterior import Posterior

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Reference:
    r"""Independent Gaussians :math:`N(\mu_b, A_b A_b^\top)`, one for each parameter vector `b`.

    Attributes
    ----------
    mean : ndarray (parameter, feature)
        The reward parameter first, then the cost parameters.
    root : ndarray (parameter, feature, feature)
        The matrices :math:`A_b`, invertible.
    log_evidence : float
        Log-density of the data under the model, or an approximation of it. Weights are relative
        to it, so that with the exact value they average to posterior probabilities.

    Examples
    --------
    >>> from bayes_feasible import Posterior, instances, models
    >>> posterior = Posterior(instances.end_of_optimism().problem)
    >>> reference = models.Reference.from_posterior(posterior)
    >>> reference.mean.shape, reference.root.shape
    ((2, 2), (2, 2, 2))
    """

    mean: Array
    root: Array
    log_evidence: float

    def __post_init__(self) -> None:
        parameters, features = self.mean.shape
        if self.root.shape != (parameters, features, features):
            raise ValueError(
                f"root: expected shape {(parameters, features, features)}, got {self.root.shape}"
            )
        numbers = [self.mean, self.root, np.array(self.log_evidence), np.array(self.log_volume)]
        if not all(np.isfinite(array).all() for array in numbers):
            raise ValueError("reference: its mean, root or log_evidence is not finite")

    @cached_property
    def log_volume(self) -> float:
        """Logarithm of the integral of the Gaussians, each scaled to 1 at its mean."""
        signs, logs = np.linalg.slogdet(self.root)
        if np.any(signs == 0):
            raise ValueError("root: expected invertible matrices")
        return float(np.sum(logs) + 0.5 * self.mean.size * LOG_2PI)

    @property
    def covariance(self) -> Array:
        """The covariance of each parameter vector, (parameter, feature, feature)."""
        return self.root @ self.root.transpose(0, 2, 1)

    @classmethod
    def from_posterior(cls, data: Posterior | History) -> Self:
        """The posterior of `linear_gaussian(data)` itself, in closed form.

        A `parameter_radius` is ignored.

        Examples
        --------
        >>> from bayes_feasible import Posterior, instances, models
        >>> posterior = Posterior(instances.end_of_optimism().problem)
        >>> round(models.Reference.from_posterior(posterior).log_evidence, 9)
        0.0
        """
        posterior = data.posterior() if isinstance(data, History) else data
        mean, noise = block_means(posterior), block_noise(posterior.problem)
        shared = np.hstack(posterior.covariance_root())
        result = cls(mean, noise[:, np.newaxis, np.newaxis] * shared, 0.0)
        evidence = result.log_volume + _log_joint(data, mean, noise)
        return cls(mean, result.root, float(evidence))


def _log_joint(data: Posterior | History, theta: Array, noise: Array) -> float:
    """Log-density of parameters and data as `linear_gaussian` states it."""
    arms = data.problem.arms
    if isinstance(data, History):
        observed = np.column_stack([data.rewards, data.costs])
        errors, weight = observed - (arms @ theta.T)[data.arms], np.ones(len(observed))
    else:
        seen = np.flatnonzero(data.counts)
        weight = data.counts[seen].astype(float)
        sums = np.column_stack([data.reward_sums, data.cost_sums])[seen]
        errors = sums / weight[:, np.newaxis] - arms[seen] @ theta.T
    errors = errors / noise * np.sqrt(weight)[:, np.newaxis]
    scale = np.log(noise) - 0.5 * np.log(weight)[:, np.newaxis]
    likelihood = -np.sum(0.5 * errors**2 + 0.5 * LOG_2PI + scale)
    shrunk = theta / noise[:, np.newaxis]
    prior = -np.sum(0.5 * shrunk**2 + 0.5 * LOG_2PI + np.log(noise)[:, np.newaxis])
    return float(likelihood + prior)
