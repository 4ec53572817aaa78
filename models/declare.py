"""The model of any problem: one block an outcome, each with its own family and prior."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_feasible.history import History
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
    ['theta_reward', 'theta_harm']
    """
    posterior = data.posterior() if isinstance(data, History) else data
    problem = posterior.problem
    coords: dict[str, Any] = {"feature": problem.coords["feature"].tolist()}
    names = [str(name) for name in problem.coords["constraint"]]
    if names:
        coords["constraint"] = names
    labels = ["reward", *names]
    sums = np.column_stack([posterior.reward_sums, posterior.cost_sums])
    with pm.Model(coords=coords) as model:
        thetas = [
            _declare_block(
                label, outcome, *problem.priors[b], problem.arms, posterior.seen[:, b],
                sums[:, b], posterior.squares[:, b],
            )
            for b, (label, outcome) in enumerate(zip(labels, problem.outcomes, strict=True))
        ]  # fmt: skip
        if names:
            pm.Deterministic("theta_cost", pt.stack(thetas[1:]), dims=("constraint", "feature"))
    return model


def _declare_block(
    label: str, outcome: Outcome, mean: Any, covariance: Any, arms: Any, counts: Any, sums: Any,
    squares: Any,
) -> Any:  # fmt: skip
    """The parameter of one block, and what its pulls showed."""
    seen = counts > 0
    arms, counts, sums = arms[seen], counts[seen].astype(float), sums[seen]
    if not isinstance(outcome, Gaussian):
        theta = pm.MvNormal(f"theta_{label}", mean, cov=covariance, dims="feature")
        natural = pt.dot(arms, theta)
        if isinstance(outcome, Bernoulli):
            pm.Binomial(label, counts.astype(int), logit_p=natural, observed=sums)
        else:
            pm.Poisson(label, counts * pt.exp(natural), observed=sums)
        return theta
    if outcome.noise is None:
        shape, scale = outcome.noise_prior
        variance = pm.InverseGamma(f"variance_{label}", shape, scale)
        covariance = covariance * variance / (scale / shape)
    else:
        variance = pt.constant(outcome.noise**2)
    theta = pm.MvNormal(f"theta_{label}", mean, cov=covariance, dims="feature")
    pm.Normal(label, pt.dot(arms, theta), pt.sqrt(variance / counts), observed=sums / counts)
    if outcome.noise is None:  # the squares about the means of the arms, chi-squared
        within = squares[seen].sum()
        free = counts.sum() - len(counts)
        pm.Potential(f"within_{label}", -0.5 * (free * pt.log(variance) + within / variance))
    return theta
