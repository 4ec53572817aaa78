"""Rewards and costs that happen or do not: conversions, adverse events."""

import pymc as pm

from bayes_feasible.history import History
from bayes_feasible.models._data import begin, column, declare_parameter, finish, linear
from bayes_feasible.posterior import Posterior


def logistic(data: Posterior | History) -> pm.Model:
    r"""Rewards and costs of 0 or 1, with linear log-odds.

    .. math::
        \theta_r \sim N(0, \sigma^2 I), \quad
        P(y_t = 1) = \frac{1}{1 + \exp(-\langle\theta_r, x_t\rangle)}

    and the same with :math:`\gamma_j` for each cost. The `reward_noise` :math:`\sigma` and
    `cost_noise` :math:`\gamma_j` of the problem are the scales of the prior and nothing else here.

    All means are log-odds: `candidate_cost` and the thresholds of the problem too. A probability
    of at most `p` is a threshold of :math:`\log(p / (1 - p))`, `scipy.special.logit(p)`. Rewards
    are compared by their log-odds, which puts them in the same order as their probabilities.

    The observations are how many of each arm's pulls gave a 1, so the model is as large as the
    number of arms pulled so far.

    Parameters
    ----------
    data : Posterior or History
        With rewards and costs of 0 or 1; `set_data` replaces it later.

    Returns
    -------
    Model
        With `theta_reward`, `theta_cost`, `candidate_reward` and `candidate_cost` as in
        `linear_gaussian`.

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> arms = [0, 2] * 10
    >>> history = History(instance.problem, arms, *instance.pull(arms, seed=1, noise="logistic"))
    >>> model = models.logistic(history)
    >>> model["reward_successes"].get_value().tolist()
    [8, 5]
    """
    model, given, outcomes = begin(data)
    with model:
        for outcome, dims in outcomes:
            pulls, ones = column(given("pulls"), dims), given(f"{outcome}_successes")
            theta = declare_parameter(outcome, given(f"{outcome}_noise"), dims)
            odds = linear(given("arms"), theta)
            pm.Binomial(outcome, pulls, logit_p=odds, observed=ones, dims=("arm", *dims))
    return finish(model, given, data.problem)
