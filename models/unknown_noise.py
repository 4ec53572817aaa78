"""Linear mean rewards and costs, Gaussian noise whose scale is learnt."""

from typing import NamedTuple

import numpy as np
import pymc as pm

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import block_means, block_noise
from bayes_feasible.history import History
from bayes_feasible.models._data import Pulls, begin, finish, linear

PRIOR_PULLS = 4.0


def unknown_noise(data: History, prior_pulls: float = PRIOR_PULLS) -> pm.Model:
    r"""`linear_gaussian` with the scales of the noise unknown.

    .. math::
        \sigma^2 \sim \text{InverseGamma}(\nu_0 / 2, \; \nu_0 \sigma_0^2 / 2), \quad
        \theta_r \mid \sigma \sim N(0, \sigma^2 I), \quad
        y_t \sim N(\langle\theta_r, x_t\rangle, \sigma^2)

    and the same with :math:`\gamma_j` for each cost. The prior knows as much about the scale as
    :math:`\nu_0` = `prior_pulls` pulls would tell, that it is about the problem's `reward_noise`
    :math:`\sigma_0` (or `cost_noise`). Given the scales everything is as in `linear_gaussian`, and
    with the scales integrated out the parameters have Student's distribution,
    `unknown_noise_student`.

    What the model is given of the pulls is how often each arm was pulled, the means, and the sums
    of squares about them; they say all there is to know, so the model is as large as the number
    of arms pulled so far.

    Parameters
    ----------
    data : History
        `observe` replaces it later.
    prior_pulls : float

    Returns
    -------
    Model
        With `theta_reward`, `theta_cost`, `candidate_reward` and `candidate_cost` as in
        `linear_gaussian`, and `reward_scale` and `cost_scale` (constraint).

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> arms = [0, 2] * 10
    >>> model = models.unknown_noise(History(instance.problem, arms, *instance.pull(arms, seed=1)))
    >>> [rv.name for rv in model.free_RVs]
    ['reward_variance', 'theta_reward', 'cost_variance', 'theta_cost']
    """
    prior_pulls = _check.positive("prior_pulls", prior_pulls)
    model, given, constrained = begin(data)
    with model:
        shape = pm.Data("prior_pulls", prior_pulls) / 2
        pulls = given("pulls")
        repeats = pm.math.sum(pulls - 1)

        variance = pm.InverseGamma("reward_variance", shape, shape * given("reward_noise") ** 2)
        scale = pm.Deterministic("reward_scale", pm.math.sqrt(variance))
        theta_reward = pm.Normal("theta_reward", 0.0, scale, dims="feature")
        spread, seen = scale / pm.math.sqrt(pulls), given("mean_reward")
        pm.Normal("reward", linear(given("arms"), theta_reward), spread, observed=seen, dims="arm")
        squares = pm.math.sum(given("reward_squares"))
        pm.Potential("reward_within", -0.5 * (repeats * pm.math.log(variance) + squares / variance))

        if constrained:
            variance = pm.InverseGamma(
                "cost_variance", shape, shape * given("cost_noise") ** 2, dims="constraint"
            )
            scale = pm.Deterministic("cost_scale", pm.math.sqrt(variance), dims="constraint")
            theta_cost = pm.Normal(
                "theta_cost", 0.0, scale[:, np.newaxis], dims=("constraint", "feature")
            )
            spread, seen = scale / pm.math.sqrt(pulls)[:, np.newaxis], given("mean_cost")
            both = ("arm", "constraint")
            pm.Normal("cost", linear(given("arms"), theta_cost), spread, observed=seen, dims=both)
            squares = pm.math.sum(given("cost_squares"), axis=0)
            within = -0.5 * (repeats * pm.math.log(variance) + squares / variance)
            pm.Potential("cost_within", within, dims="constraint")
    return finish(model, given, data.problem)


class Student(NamedTuple):
    r"""Independent multivariate Student distributions, one for each parameter vector.

    A projection :math:`\langle\theta, v\rangle` is :math:`\langle\mu, v\rangle` plus
    :math:`\sqrt{v^\top S v}` times Student's t with that many degrees of freedom.

    Attributes
    ----------
    degrees : float
        One number, for every pull tells as much about every scale.
    location : ndarray (parameter, feature)
        The vectors :math:`\mu`, that of the reward first.
    scale : ndarray (parameter, feature, feature)
        The matrices :math:`S`.

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> arms = [0, 2] * 10
    >>> history = History(instance.problem, arms, *instance.pull(arms, seed=1))
    >>> student = models.unknown_noise_student(history)
    >>> student.degrees, student.location.shape, student.scale.shape
    (24.0, (2, 2), (2, 2, 2))
    """

    degrees: float
    location: Array
    scale: Array


def unknown_noise_student(data: History, prior_pulls: float = PRIOR_PULLS) -> Student:
    r"""The posterior of `unknown_noise` with the scales integrated out, in closed form.

    With :math:`V` and :math:`\mu` as in `Posterior` and `n` pulls, :math:`\theta_r` has Student's
    distribution with :math:`\nu_0 + n` degrees of freedom, location :math:`\mu` and scale matrix
    :math:`\hat\sigma^2 V^{-1}`, where
    :math:`(\nu_0 + n) \hat\sigma^2 = \nu_0 \sigma_0^2 + \sum_t (y_t - \langle\mu, x_t\rangle)^2 +
    \|\mu\|^2`. A `parameter_radius` is left out of account.

    Parameters
    ----------
    data : History
    prior_pulls : float
        As in `unknown_noise`.

    Returns
    -------
    Student

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> arms = [0, 2] * 10
    >>> history = History(instance.problem, arms, *instance.pull(arms, seed=1))
    >>> student = models.unknown_noise_student(history)
    >>> np.allclose(student.location[0], history.posterior().theta_reward)
    True
    """
    prior_pulls = _check.positive("prior_pulls", prior_pulls)
    history = Pulls(data).recorded()
    posterior, noise = history.posterior(), block_noise(history.problem)
    mean = block_means(posterior)
    shown = np.column_stack([history.rewards, history.costs])
    errors = shown - (history.problem.arms @ mean.T)[history.arms]
    squares = np.sum(errors**2, axis=0) + np.sum(mean**2, axis=1)
    degrees = prior_pulls + len(history)
    variance = (prior_pulls * noise**2 + squares) / degrees
    scale = variance[:, np.newaxis, np.newaxis] * posterior.covariance
    return Student(degrees, mean, scale)
