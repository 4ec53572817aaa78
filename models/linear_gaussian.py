"""Linear mean rewards and costs, Gaussian noise of known scale: the model of the paper."""

import pymc as pm

from bayes_feasible.history import History
from bayes_feasible.models._data import begin, column, declare_parameter, finish, linear
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
        `set_data` replaces it later.

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
    model, given, outcomes = begin(data)
    with model:
        for outcome, dims in outcomes:
            noise = given(f"{outcome}_noise")
            theta = declare_parameter(outcome, noise, dims)
            mean = linear(given("arms"), theta)
            if isinstance(data, History):
                mean, spread, unit = mean[given("pulled")], noise, "pull"
                observed = given(f"{outcome}_observed")
            else:
                spread, unit = noise / column(pm.math.sqrt(given("pulls")), dims), "arm"
                observed = given(f"{outcome}_mean")
            pm.Normal(outcome, mean, spread, observed=observed, dims=(unit, *dims))
    return finish(model, given, data.problem)
