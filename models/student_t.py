"""Linear mean rewards and costs, noise with outliers."""

import pymc as pm

from bayes_feasible import _check
from bayes_feasible.history import History
from bayes_feasible.models._data import begin, declare_parameter, finish, linear


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
        `set_data` replaces it later.
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
    model, given, outcomes = begin(data)
    with model:
        freedom = pm.Data("degrees", degrees)
        for outcome, dims in outcomes:
            observed, noise = given(f"{outcome}_observed"), given(f"{outcome}_noise")
            theta = declare_parameter(outcome, noise, dims)
            mean = linear(given("arms"), theta)[given("pulled")]
            pm.StudentT(
                outcome, freedom, mean, sigma=noise, observed=observed, dims=("pull", *dims)
            )
    return finish(model, given, data.problem)
