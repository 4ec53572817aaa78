"""Rewards and costs that happen or do not: conversions, adverse events."""

import numpy as np
import pymc as pm

from bayes_feasible.history import History
from bayes_feasible.models._data import begin, finish, linear
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

    The observations are how many of each arm's pulls showed a 1, so the model is as large as the
    number of arms pulled so far.

    Parameters
    ----------
    data : Posterior or History
        With rewards and costs of 0 or 1; `observe` replaces it later.

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
    model, given, constrained = begin(data)
    with model:
        pulls, seen = given("pulls"), given("reward_successes")
        theta_reward = pm.Normal("theta_reward", 0.0, given("reward_noise"), dims="feature")
        odds = linear(given("arms"), theta_reward)
        pm.Binomial("reward", pulls, logit_p=odds, observed=seen, dims="arm")

        if constrained:
            both, seen = ("arm", "constraint"), given("cost_successes")
            scale = given("cost_noise")[:, np.newaxis]
            theta_cost = pm.Normal("theta_cost", 0.0, scale, dims=("constraint", "feature"))
            odds = linear(given("arms"), theta_cost)
            pm.Binomial("cost", pulls[:, np.newaxis], logit_p=odds, observed=seen, dims=both)
    return finish(model, given, data.problem)
