"""A Gaussian that stands beside a model's posterior: to whiten it, and to measure distances."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.pytensorf import join_nonshared_inputs
from pytensor.gradient import grad, jacobian
from scipy.linalg import null_space

from bayes_feasible._check import Array
from bayes_feasible._draws import block_means, block_noise
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.history import History
from bayes_feasible.models._events import half_spaces
from bayes_feasible.models._interpreted import INTERPRETED
from bayes_feasible.posterior import Posterior

LOG_2PI = float(np.log(2.0 * np.pi))
STEPS = 200  # of Newton's method; more than a dozen are rare
_COMPILED: WeakKeyDictionary[pm.Model, "_LogDensity"] = WeakKeyDictionary()


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

        A `parameter_radius` is left out of account.

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
        shown = np.column_stack([data.rewards, data.costs])
        errors, weight = shown - (arms @ theta.T)[data.arms], np.ones(len(shown))
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


def laplace(
    model: pm.Model, alternative: Alternative | None = None, event: int | None = None
) -> Reference:
    r"""A Gaussian with the model's own slope and curvature at a mode.

    Without an event it is Laplace's approximation at the mode of the posterior, exact for
    `linear_gaussian`. With one, the expansion is made at the mode within the event, usually on its
    edge: there a Gaussian with the same logarithm, slope and curvature as the posterior has mean
    :math:`\theta + C g` and covariance `C`, where `g` is the slope and :math:`C^{-1}` the
    curvature. Given the event, that is close to the posterior however rare the event is; the
    expansion at the global mode is not.

    Scales, where the model learns them, are held at their values at the mode. A
    `parameter_radius` is left out of account. `log_evidence` is Laplace's approximation at the
    global mode in either case, so that the weights of all events are on one scale.

    The functions are compiled once for each model, and serve whatever data `observe` gives it.

    Parameters
    ----------
    model : Model
        A model of this package, before `alternative` is added to it.
    alternative : Alternative, optional
    event : int, optional
        Which of `alternative.events`.

    Returns
    -------
    Reference

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> from bayes_feasible import models
    >>> instance = bf.instances.end_of_optimism()
    >>> posterior = bf.Posterior(instance.problem)
    >>> posterior.update([0, 2], *instance.pull([0, 2], seed=1))
    >>> found = models.laplace(models.linear_gaussian(posterior))
    >>> np.allclose(found.mean[0], posterior.theta_reward)
    True
    >>> np.allclose(found.covariance[0], posterior.covariance)
    True
    """
    if "theta_reward" not in {rv.name for rv in model.free_RVs}:
        raise ValueError("model: expected a free variable `theta_reward`, as the models here have")
    if (alternative is None) != (event is None):
        raise ValueError("event: expected an alternative and the index of one of its events")
    if model not in _COMPILED:
        _COMPILED[model] = _LogDensity(model)
    density = _COMPILED[model]
    mode = density.maximise(density.start, np.eye(density.size))
    value, _, curvature = density(mode)
    curvatures = np.linalg.eigvalsh(curvature)
    if curvatures.min() <= 0:
        raise ValueError("model: its log-density is not curved downwards at its mode")
    evidence = value + 0.5 * np.sum(LOG_2PI - np.log(curvatures))
    if alternative is not None:
        mode = density.within(mode, curvature, *half_spaces(alternative, event))
    return density.expansion(mode, float(evidence))


class _LogDensity:
    """A model's log-density with slope and curvature, in its unconstrained coordinates."""

    def __init__(self, model: pm.Model) -> None:
        values = model.value_vars
        point = model.initial_point(0)
        terms = [*model.free_RVs, *model.observed_RVs]
        terms += [term for term in model.potentials if term.name != "parameter_radius"]
        [joint], joined = join_nonshared_inputs(point, [model.logp(terms)], values)
        slope = grad(joint, joined)
        curvature = -jacobian(slope, joined, vectorize=True)
        self._function = pm.compile([joined], [joint, slope, curvature], mode=INTERPRETED)
        self.places: dict[str, NDArray[np.int64]] = {}
        last = 0
        for variable in values:
            shape = np.shape(point[variable.name])
            number = int(np.prod(shape))
            self.places[variable.name] = np.arange(last, last + number).reshape(shape)
            last += number
        self.size = last
        names = [variable.name for variable in values]
        self.start: Array = np.concatenate([np.ravel(point[name]) for name in names]).astype(float)

    def __call__(self, at: Array) -> tuple[float, Array, Array]:
        value, slope, curvature = self._function(at)
        return float(value), slope, curvature

    @property
    def blocks(self) -> NDArray[np.int64]:
        """Where each parameter vector is, (parameter, feature)."""
        cost = self.places.get("theta_cost")
        reward = self.places["theta_reward"][np.newaxis]
        return reward if cost is None else np.vstack([reward, cost])

    def maximise(self, start: Array, directions: Array) -> Array:
        """The mode over `start` plus the span of the directions, by Newton's method, damped."""
        at, (value, slope, curvature) = start, self(start)
        if not np.isfinite(value):
            raise ValueError("model: its log-density is not finite at its initial point")
        for _ in range(STEPS):
            reduced = directions.T @ slope
            step = directions @ _solve(directions.T @ curvature @ directions, reduced)
            gain = float(slope @ step)  # twice what a parabola would gain
            if gain <= 1e-20 * max(1.0, abs(value)):
                return at
            length = 1.0
            while True:
                there = self(at + length * step)
                if there[0] >= value + 1e-4 * length * gain:
                    break
                length *= 0.5
                if length < 1e-10:  # rounding hides the rest of the climb
                    return at + step if gain < 1e-9 * max(1.0, abs(value)) else _no_mode()
            at, (value, slope, curvature) = at + length * step, there
        return _no_mode()

    def within(self, mode: Array, curvature: Array, vectors: Array, limits: Array) -> Array:
        """The mode within an event.

        The parameter vectors are independent of each other, so those whose half-space holds at
        the global mode stay there, and the others go to the edge of theirs.
        """
        start, normals = mode.copy(), []
        covariance = np.linalg.inv(curvature)
        for block, vector, limit in zip(self.blocks, vectors, limits, strict=True):
            lack = limit - vector @ mode[block] if limit > -np.inf else 0.0
            if lack > 0:
                normal = np.zeros(self.size)
                normal[block] = vector
                toward = covariance @ normal
                start += lack / (normal @ toward) * toward
                normals.append(normal)
        if not normals:
            return mode
        return self.maximise(start, null_space(np.array(normals)))

    def expansion(self, at: Array, evidence: float) -> Reference:
        _, slope, curvature = self(at)
        means, roots = [], []
        for block in self.blocks:
            own = curvature[np.ix_(block, block)]
            root = _inverse_root(own)
            means.append(at[block] + root @ (root.T @ slope[block]))
            roots.append(root)
        return Reference(np.array(means), np.array(roots), evidence)


def _no_mode() -> Array:
    raise ValueError("model: Newton's method has not found a mode of its log-density")


def _curved_down(curvature: Array) -> tuple[Array, Array]:
    """Eigenvalues, made positive, and eigenvectors."""
    values, axes = np.linalg.eigh(curvature)
    size = np.abs(values)
    return np.maximum(size, 1e-14 * size.max(initial=0.0) + np.finfo(float).tiny), axes


def _solve(curvature: Array, slope: Array) -> Array:
    values, axes = _curved_down(curvature)
    return axes @ ((axes.T @ slope) / values)


def _inverse_root(curvature: Array) -> Array:
    """A root of the inverse; of its absolute value where a curvature is negative."""
    values, axes = _curved_down(curvature)
    return axes / np.sqrt(values)
