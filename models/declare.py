"""The model of any problem: one block an outcome, each with its own family and prior."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_feasible.history import History
from bayes_feasible.models._data import linear
from bayes_feasible.outcomes import Bernoulli, Gaussian, Outcome
from bayes_feasible.posterior import Posterior


def declare(data: Posterior | History) -> pm.Model:
    r"""Declare the PyMC model of a problem: what `Posterior` computes, for any sampler.

    For each outcome b, with natural parameter :math:`s = \langle x, \theta_b \rangle`:

    .. math:: \theta_b \sim N(\mu_b, \Sigma_b), \qquad
              y \sim N(s, \sigma_b^2), \; \text{Bernoulli}(1 / (1 + e^{-s}))
              \; \text{or} \; \text{Poisson}(e^s),

    and where the noise is learnt :math:`\sigma_b^2 \sim IG(a, b)` with the prior covariance in
    units of :math:`\sigma_b^2` over its prior guess :math:`b / a`. Only what was seen is observed.

    Parameters
    ----------
    data : Posterior or History

    Returns
    -------
    Model
        With `theta_reward` (feature) and `theta_cost` (constraint, feature), and the variances of
        learnt noise.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem([[1, 0], [1, 1]], {"harm": 0.3}, costs=bf.Bernoulli())
    >>> posterior = bf.Posterior(problem)
    >>> posterior.update([0, 1], [0.2, 1.1], [0, 1])
    >>> model = bf.models.declare(posterior)
    >>> [variable.name for variable in model.free_RVs]
    ['theta_reward', 'theta_cost']
    """
    posterior = data.posterior() if isinstance(data, History) else data
    problem, names = posterior.problem, posterior.problem.outcome_names
    coords = {dim: problem.coords[dim].tolist() for dim in ("feature", "constraint")}
    if not coords["constraint"]:
        del coords["constraint"]
    means, covariances = map(np.array, zip(*problem.priors, strict=True))
    with pm.Model(coords=coords) as model:
        noise = [_noise(*each) for each in zip(names, problem.outcomes, strict=True)]
        widen = pt.stack([pt.sqrt(factor) for _, factor in noise])
        thetas = [_parameter("theta_reward", means[0], covariances[0], widen[0], "feature")]
        if names[1:]:
            dims = ("constraint", "feature")
            cost = _parameter("theta_cost", means[1:], covariances[1:], widen[1:], dims)
            thetas += [cost[j] for j in range(len(names) - 1)]
        for b, (name, outcome) in enumerate(zip(names, problem.outcomes, strict=True)):
            _observe(name, outcome, posterior, b, thetas[b], noise[b][0])
    return model


def _noise(name: str, outcome: Outcome) -> tuple[Any, Any]:
    """The variance of a pull, and the factor of the prior's covariance: 1 unless it is learnt."""
    if not isinstance(outcome, Gaussian):
        return None, 1.0
    if outcome.noise is not None:
        return outcome.noise**2, 1.0
    shape, scale = outcome.noise_prior
    variance = pm.InverseGamma(f"variance_{name}", shape, scale)
    return variance, variance / (scale / shape)


def _parameter(name: str, mean: Any, covariance: Any, widen: Any, dims: Any) -> Any:
    """A Gaussian prior with each block's standard deviations times `widen`."""
    sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    if np.array_equal(covariance, np.square(sd)[..., np.newaxis] * np.eye(sd.shape[-1])):
        return pm.Normal(name, mean, sd * widen[..., np.newaxis], dims=dims)
    root = np.linalg.cholesky(covariance) * widen[..., np.newaxis, np.newaxis]
    return pm.MvNormal(name, mean, chol=root, dims=dims)


def _observe(
    name: str, outcome: Outcome, posterior: Posterior, b: int, theta: Any, variance: Any
) -> None:
    """What the pulls showed of one outcome, as counts and sums of each arm that was seen."""
    seen = posterior.seen[:, b] > 0
    arms, counts = posterior.problem.arms[seen], posterior.seen[seen, b].astype(float)
    sums = (posterior.cost_sums[:, b - 1] if b else posterior.reward_sums)[seen]
    natural = linear(arms, theta)
    if isinstance(outcome, Bernoulli):
        pm.Binomial(name, counts.astype(int), logit_p=natural, observed=sums)
    elif not isinstance(outcome, Gaussian):
        pm.Poisson(name, counts * pt.exp(natural), observed=sums)
    else:
        pm.Normal(name, natural, pt.sqrt(variance / counts), observed=sums / counts)
        if outcome.learnt:  # the squares about the means of the arms, chi-squared
            within, free = posterior.squares[seen, b].sum(), counts.sum() - counts.size
            pm.Potential(f"within_{name}", -0.5 * (free * pt.log(variance) + within / variance))
