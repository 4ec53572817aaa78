"""Linear mean rewards and costs, noise with outliers."""

import numpy as np
import pymc as pm

from bayes_feasible import _check
from bayes_feasible.history import History
from bayes_feasible.models._data import begin, finish, linear


def student_t(data: History, degrees: float = 4.0) -> pm.Model:
    r"""`linear_gaussian` with Student's t in place of Gaussian noise.

    .. math::
        \theta_r \sim N(0, \sigma^2 I), \quad
        y_t = \langle\theta_r, x_t\rangle + \sigma \varepsilon_t, \quad
        \varepsilon_t \sim t_\nu

    and the same with :math:`\gamma_j` for each cost. A pull far from the others counts for little,
    so the parameters survive a broken measurement. The scales are those of the problem; the
    standard deviation of the noise is :math:`\sqrt{\nu / (\nu - 2)}` times them.

    Parameters
    ----------
    data : History
        `observe` replaces it later.
    degrees : float
        Degrees of freedom :math:`\nu`.

    Returns
    -------
    Model
        With `theta_reward`, `theta_cost`, `candidate_reward` and `candidate_cost` as in
        `linear_gaussian`, and the pulls along `pull`.

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> arms = [0, 2] * 10
    >>> history = History(instance.problem, arms, *instance.pull(arms, seed=1, noise="student_t"))
    >>> model = models.student_t(history, degrees=3.0)
    >>> model.named_vars_to_dims["cost"], len(model.coords["pull"])
    (('pull', 'constraint'), 20)
    """
    degrees = _check.positive("degrees", degrees)
    model, given, constrained = begin(data)
    with model:
        freedom = pm.Data("degrees", degrees)
        pulled, seen = given("pulled"), given("shown_reward")
        noise = given("reward_noise")
        theta_reward = pm.Normal("theta_reward", 0.0, noise, dims="feature")
        mean = linear(given("arms"), theta_reward)[pulled]
        pm.StudentT("reward", freedom, mean, sigma=noise, observed=seen, dims="pull")

        if constrained:
            noise, seen = given("cost_noise"), given("shown_cost")
            theta_cost = pm.Normal(
                "theta_cost", 0.0, noise[:, np.newaxis], dims=("constraint", "feature")
            )
            mean = linear(given("arms"), theta_cost)[pulled]
            both = ("pull", "constraint")
            pm.StudentT("cost", freedom, mean, sigma=noise, observed=seen, dims=both)
    return finish(model, given, data.problem)
