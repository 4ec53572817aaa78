"""Linear mean rewards and costs, Gaussian noise whose scale is learnt."""

from typing import NamedTuple

import numpy as np
import pymc as pm

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import block_means, block_noise
from bayes_feasible.history import History
from bayes_feasible.models._data import Pulls, begin, column, declare_parameter, finish, linear

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
        `set_data` replaces it later.
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
    model, given, outcomes = begin(data)
    with model:
        shape = pm.Data("prior_pulls", prior_pulls) / 2
        pulls = given("pulls")
        repeats = pm.math.sum(pulls - 1)
        for outcome, dims in outcomes:
            observed, squares = given(f"{outcome}_mean"), given(f"{outcome}_squares")
            prior = shape * given(f"{outcome}_noise") ** 2
            variance = pm.InverseGamma(f"{outcome}_variance", shape, prior, dims=dims or None)
            scale = pm.Deterministic(f"{outcome}_scale", pm.math.sqrt(variance), dims=dims or None)
            mean = linear(given("arms"), declare_parameter(outcome, scale, dims))
            spread = scale / column(pm.math.sqrt(pulls), dims)
            pm.Normal(outcome, mean, spread, observed=observed, dims=("arm", *dims))
            within = repeats * pm.math.log(variance) + pm.math.sum(squares, axis=0) / variance
            pm.Potential(f"{outcome}_within", -0.5 * within, dims=dims or None)
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
    \|\mu\|^2`. A `parameter_radius` is ignored.

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
    observed = Pulls(data).observed
    posterior, noise = data.posterior(), block_noise(data.problem)
    mean = block_means(posterior)
    errors = observed - (data.problem.arms @ mean.T)[data.arms]
    squares = np.sum(errors**2, axis=0) + np.sum(mean**2, axis=1)
    degrees = prior_pulls + len(data)
    variance = (prior_pulls * noise**2 + squares) / degrees
    scale = variance[:, np.newaxis, np.newaxis] * posterior.covariance
    return Student(degrees, mean, scale)
