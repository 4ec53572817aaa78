"""Linear mean rewards and costs, Gaussian noise of known scale: the model of the paper."""

import numpy as np
import pymc as pm

from bayes_feasible.history import History
from bayes_feasible.models._data import begin, finish, linear
from bayes_feasible.posterior import Posterior


def linear_gaussian(data: Posterior | History) -> pm.Model:
    r"""The model whose posterior `Posterior` knows in closed form.

    .. math::
        \theta_r \sim N(0, \sigma^2 I), \quad \theta_{c,j} \sim N(0, \gamma_j^2 I), \quad
        y_t \sim N(\langle\theta_r, x_t\rangle, \sigma^2), \quad
        c_{t,j} \sim N(\langle\theta_{c,j}, x_t\rangle, \gamma_j^2)

    From a `Posterior` the observations are the means of each arm, with variances
    :math:`\sigma^2 / n_x` and :math:`\gamma_j^2 / n_x`, so that the model is as large as the
    number of arms pulled so far (dimension `arm`); from a `History` they are the pulls themselves
    (dimension `pull`). Both have the same posterior. A `parameter_radius` of the problem truncates
    the prior.

    Parameters
    ----------
    data : Posterior or History
        `observe` replaces it later.

    Returns
    -------
    Model
        With `theta_reward` (feature), `theta_cost` (constraint, feature), `candidate_reward`
        (candidate) and `candidate_cost` (candidate, constraint); the costs only if there are
        constraints.

    Examples
    --------
    >>> from bayes_feasible import Posterior, instances, models
    >>> instance = instances.end_of_optimism()
    >>> posterior = Posterior(instance.problem)
    >>> posterior.update([0, 2, 2], *instance.pull([0, 2, 2], seed=1))
    >>> model = models.linear_gaussian(posterior)
    >>> model.named_vars_to_dims["theta_cost"]
    ('constraint', 'feature')
    >>> [int(arm) for arm in model.coords["arm"]]  # those pulled so far
    [0, 2]
    """
    model, given, constrained = begin(data)
    one_by_one = isinstance(data, History)
    with model:
        noise = given("reward_noise")
        theta_reward = pm.Normal("theta_reward", 0.0, noise, dims="feature")
        mean = linear(given("arms"), theta_reward)
        if one_by_one:
            seen = given("shown_reward")
            pm.Normal("reward", mean[given("pulled")], noise, observed=seen, dims="pull")
        else:
            spread = noise / pm.math.sqrt(given("pulls"))
            pm.Normal("reward", mean, spread, observed=given("mean_reward"), dims="arm")

        if constrained:
            noise = given("cost_noise")
            theta_cost = pm.Normal(
                "theta_cost", 0.0, noise[:, np.newaxis], dims=("constraint", "feature")
            )
            mean = linear(given("arms"), theta_cost)
            if one_by_one:
                dims, seen = ("pull", "constraint"), given("shown_cost")
                pm.Normal("cost", mean[given("pulled")], noise, observed=seen, dims=dims)
            else:
                dims, seen = ("arm", "constraint"), given("mean_cost")
                spread = noise / pm.math.sqrt(given("pulls"))[:, np.newaxis]
                pm.Normal("cost", mean, spread, observed=seen, dims=dims)
    return finish(model, given, data.problem)
