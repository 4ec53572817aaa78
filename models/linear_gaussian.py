"""Linear mean rewards and costs, Gaussian noise of known scale: the model of the paper."""

from typing import Any

import numpy as np
import pymc as pm

from bayes_feasible.posterior import Posterior


def linear_gaussian(posterior: Posterior) -> pm.Model:
    r"""The model whose posterior `Posterior` knows in closed form.

    .. math::
        \theta_r \sim N(0, \sigma^2 I), \quad \theta_{c,j} \sim N(0, \gamma_j^2 I), \quad
        \bar y_x \sim N(\langle\theta_r, x\rangle, \sigma^2 / n_x), \quad
        \bar c_{x,j} \sim N(\langle\theta_{c,j}, x\rangle, \gamma_j^2 / n_x)

    with :math:`\bar y_x` the mean of the :math:`n_x` rewards that arm :math:`x` has shown. The
    dimension `arm` holds the arms pulled so far. A `parameter_radius` of the problem truncates
    the prior.

    Parameters
    ----------
    posterior : Posterior
        Gives the problem and the data; `observe` replaces the data later.

    Returns
    -------
    Model
        With `theta_reward` (feature) and, if there are constraints, `theta_cost` (constraint,
        feature).
    """
    problem = posterior.problem
    constrained = problem.thresholds.size > 0
    data, pulled = _summary(posterior)
    coords = {"feature": problem.coords["feature"], "arm": pulled}
    if constrained:
        coords["constraint"] = problem.coords["constraint"]
    with pm.Model(coords=coords) as model:
        arms = pm.Data("arms", data["arms"], dims=("arm", "feature"))
        pulls = pm.Data("pulls", data["pulls"], dims="arm")

        noise = problem.reward_noise
        theta_reward = pm.Normal("theta_reward", 0.0, noise, dims="feature")
        mean_reward = pm.Data("mean_reward", data["mean_reward"], dims="arm")
        spread = noise / pm.math.sqrt(pulls)
        pm.Normal("reward", arms @ theta_reward, spread, observed=mean_reward, dims="arm")

        if constrained:
            noise = pm.Data("cost_noise", problem.cost_noise, dims="constraint")
            prior = noise[:, np.newaxis]
            theta_cost = pm.Normal("theta_cost", 0.0, prior, dims=("constraint", "feature"))
            both = ("arm", "constraint")
            mean_cost = pm.Data("mean_cost", data["mean_cost"], dims=both)
            spread = noise / pm.math.sqrt(pulls)[:, np.newaxis]
            pm.Normal("cost", arms @ theta_cost.T, spread, observed=mean_cost, dims=both)

        if problem.parameter_radius is not None:
            reward_radius, cost_radius = problem.parameter_radius
            within = pm.math.sum(theta_reward**2) <= reward_radius**2
            if constrained:
                lengths = pm.math.sum(theta_cost**2, axis=-1)
                within &= pm.math.all(lengths <= cost_radius**2)
            pm.Potential("parameter_radius", pm.math.switch(within, 0.0, -np.inf))
    return model


def observe(model: pm.Model, posterior: Posterior) -> None:
    """Give the model the data of another posterior of the same problem; nothing is recompiled."""
    data, pulled = _summary(posterior)
    if not posterior.problem.thresholds.size:
        del data["mean_cost"]
    with model:
        pm.set_data(data, coords={"arm": pulled})


def _summary(posterior: Posterior) -> tuple[dict[str, Any], Any]:
    """Pulls and means of the arms pulled so far, and the names of these arms."""
    problem = posterior.problem
    pulled = np.flatnonzero(posterior.counts)
    pulls = posterior.counts[pulled].astype(float)
    data = {
        "arms": problem.arms[pulled],
        "pulls": pulls,
        "mean_reward": posterior.reward_sums[pulled] / pulls,
        "mean_cost": posterior.cost_sums[pulled] / pulls[:, np.newaxis],
    }
    return data, problem.coords["arm"][pulled]
