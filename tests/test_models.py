"""The PyMC models, against the closed form and against `Alternative.contains`."""

import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible import models


def _problem(**options):
    arms = {"a": [1.0, 0.0], "b": [0.3, 0.9], "c": [-0.5, 0.4], "d": [0.2, 0.2]}
    candidates = {"u": [1.0, 0.2], "v": [0.1, 0.8], "copy of u": [1.0, 0.2], "w": [0.6, -0.4]}
    return bf.Problem(
        arms,
        {"dose": 0.4, "price": 0.2},
        candidates=candidates,
        reward_noise=0.7,
        cost_noise=[0.5, 1.5],
        **options,
    )


def _posterior(problem, arms, seed):
    """The arms that are not listed have never been pulled."""
    rng = np.random.default_rng(seed)
    costs = rng.normal(0.3, 1.0, (len(arms), problem.thresholds.size))
    return bf.Posterior.from_history(problem, arms, rng.normal(0.5, 1.0, len(arms)), costs)


def _points(problem, number, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    features, constraints = problem.arms.shape[1], problem.thresholds.size
    points = []
    for _ in range(number):
        point = {"theta_reward": spread * rng.standard_normal(features)}
        if constraints:
            point["theta_cost"] = spread * rng.standard_normal((constraints, features))
        points.append(point)
    return points


def _log_density(posterior, point):
    """Log-density of the closed form up to a constant, from its definition."""
    problem = posterior.problem
    blocks = [(point["theta_reward"], posterior.mean_reward, problem.reward_noise)]
    if problem.thresholds.size:
        blocks += zip(point["theta_cost"], posterior.mean_cost, problem.cost_noise, strict=True)
    precision = posterior.precision
    return -0.5 * sum(
        (theta - mean) @ precision @ (theta - mean) / noise**2 for theta, mean, noise in blocks
    )


def _compiled(model):
    return model.compile_logp(mode="FAST_COMPILE")


def _differences(values):
    values = np.asarray(values)
    return values[1:] - values[0]


def test_the_posterior_is_the_closed_form_and_new_data_need_no_new_model():
    problem = _problem()
    first = _posterior(problem, [0, 0, 1, 1, 1, 3], seed=1)
    model = models.linear_gaussian(first)
    log_density = _compiled(model)
    points = _points(problem, 6, seed=2)
    many = _posterior(problem, np.arange(5000) % 3, seed=3)
    for posterior in (first, many, bf.Posterior(problem)):
        models.observe(model, posterior)
        np.testing.assert_allclose(
            _differences([log_density(point) for point in points]),
            _differences([_log_density(posterior, point) for point in points]),
            rtol=1e-9,
        )


def test_dimensions_carry_the_names_of_the_problem():
    problem = _problem()
    model = models.linear_gaussian(_posterior(problem, [1, 3, 3], seed=1))
    models.alternative(model, bf.Alternative(problem, 1))
    assert model.named_vars_to_dims["theta_cost"] == ("constraint", "feature")
    assert model.coords["arm"] == ("b", "d")
    assert model.coords["constraint"] == ("dose", "price")
    assert model.coords["candidate"] == ("u", "v", "copy of u", "w")
    models.observe(model, _posterior(problem, [0, 1, 2], seed=1))
    assert model.coords["arm"] == ("a", "b", "c")


@pytest.mark.parametrize(
    "problem",
    [_problem(), bf.Problem(_problem().arms), _problem(parameter_radius=(1.5, 2.0))],
    ids=["two constraints", "no constraint", "bounded"],
)
def test_the_hard_potential_is_the_alternative_set(problem):
    posterior = _posterior(problem, [0, 1, 2, 2], seed=4)
    model = models.linear_gaussian(posterior)
    alternatives = [bf.Alternative(problem, i) for i in range(len(problem.candidates))]
    models.alternative(model, alternatives[0])
    log_density = _compiled(model)
    points = _points(problem, 150, seed=5)
    for alternative in alternatives:
        models.doubt(model, alternative)
        inside = [
            bool(alternative.contains(point["theta_reward"], point.get("theta_cost")))
            for point in points
        ]
        assert 0 < sum(inside) < len(points)
        values = np.array([log_density(point) for point in points])
        assert (values > -np.inf).tolist() == inside
        kept = [point for point, is_in in zip(points, inside, strict=True) if is_in]
        np.testing.assert_allclose(
            _differences(values[inside]),
            _differences([_log_density(posterior, point) for point in kept]),
            rtol=1e-9,
        )


def test_a_tie_and_a_cost_on_the_threshold_count_as_in_contains():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], thresholds=0.5)
    model = models.linear_gaussian(bf.Posterior(problem))
    alternative = bf.Alternative(problem, 0)
    log_density = _compiled(models.alternative(model, alternative))
    for cost, inside in [([0.5, 0.5], True), ([0.5, 0.6], False), ([0.6, 0.6], True)]:
        point = {"theta_reward": np.ones(2), "theta_cost": np.array([cost])}
        assert bool(alternative.contains(point["theta_reward"], point["theta_cost"])) is inside
        assert bool(np.isfinite(log_density(point))) is inside


def test_a_threshold_that_never_binds_leaves_only_the_rivals():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], thresholds=np.inf)
    model = models.linear_gaussian(bf.Posterior(problem))
    log_density = _compiled(models.alternative(model, bf.Alternative(problem, 0)))
    cost = np.array([[1e6, 1e6]])
    assert np.isfinite(log_density({"theta_reward": np.array([0.0, 1.0]), "theta_cost": cost}))
    assert np.isneginf(log_density({"theta_reward": np.array([1.0, 0.0]), "theta_cost": cost}))
