"""The PyMC models, against their densities written with SciPy and against closed forms."""

from functools import partial

import numpy as np
import pymc as pm
import pytest
from helpers import closed_form, noise, z_bound
from model_helpers import (
    DEGREES,
    KINDS,
    LONG,
    build,
    compiled,
    differences,
    evaluated,
    history,
    log_density,
    points,
    problem,
)
from scipy import stats

import bayes_feasible as bf
from bayes_feasible import models

SHORT = np.array([0, 0, 1, 1, 1, 3])


# --- densities ---


def assert_same_density(function, exact, some, rtol=1e-9):
    """Up to a constant, at these points."""
    left, right = ([one(point) for point in some] for one in (function, exact))
    np.testing.assert_allclose(differences(left), differences(right), rtol=rtol)


@pytest.mark.parametrize("constraints", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_each_model_has_the_density_it_says_and_takes_new_data(kind, constraints):
    this = problem(constraints)
    first = history(this, kind, SHORT, seed=1)
    model = build(kind, first)
    function, some = compiled(model), points(model, 6, seed=2)
    for data in (first, history(this, kind, LONG, seed=3), first.first(0), first.first(1)):
        models.set_data(model, data)
        assert_same_density(function, partial(log_density, kind, data), some)


@pytest.mark.parametrize("kind", ["linear_gaussian", "logistic"])
def test_sums_say_the_same_as_the_pulls(kind):
    data = history(problem(), kind, LONG, seed=5)
    one, other = build(kind, data), build(kind, data.posterior())
    assert_same_density(compiled(one), compiled(other), points(one, 6, seed=2), rtol=1e-10)


def test_linear_gaussian_is_the_closed_form():
    this = problem()
    posterior = history(this, "linear_gaussian", np.arange(5000) % 3, seed=3).posterior()
    model = models.linear_gaussian(posterior)
    mean, covariance = closed_form(posterior)
    precision = np.linalg.inv(covariance)

    def exact(point):
        off = np.vstack([point["theta_reward"], point["theta_cost"]]) - mean
        return -0.5 * np.sum((off @ precision * off).sum(axis=1) / noise(this) ** 2)

    assert_same_density(compiled(model), exact, points(model, 6, seed=2))


@pytest.mark.parametrize("kind", ["linear_gaussian", "logistic"])
def test_a_parameter_radius_truncates_and_changes_nothing_else(kind):
    this = problem(parameter_radius=(1.5, 2.0))
    data = history(problem(), kind, LONG, seed=4)
    data = bf.History(this, data.arms, data.rewards, data.costs)
    model = build(kind, data)
    function, some = compiled(model), points(model, 60, seed=5)
    within = [
        np.linalg.norm(point["theta_reward"]) <= 1.5
        and np.linalg.norm(point["theta_cost"], axis=1).max() <= 2.0
        for point in some
    ]
    assert 0 < sum(within) < len(some)
    values = np.array([function(point) for point in some])
    assert (values > -np.inf).tolist() == within
    exact = [log_density(kind, data, p) for p, inside in zip(some, within, strict=True) if inside]
    np.testing.assert_allclose(differences(values[within]), differences(exact), rtol=1e-9)


def test_logistic_keeps_its_digits_where_probabilities_round_to_one():
    this = bf.Problem([[1.0]], reward_noise=1.0)
    data = bf.History(this, [0, 0, 0], [1.0, 1.0, 0.0])
    function = compiled(models.logistic(data))
    for odds in (-800.0, -40.0, 40.0, 800.0):
        likelihood = -(2 * np.logaddexp(0, -odds) + np.logaddexp(0, odds))
        exact = likelihood - 0.5 * odds**2 - 3 * np.log(0.5)
        change = function({"theta_reward": [odds]}) - function({"theta_reward": [0.0]})
        assert change == pytest.approx(exact, rel=1e-12)


def test_student_t_takes_other_degrees_of_freedom():
    data = history(problem(0), "student_t", SHORT, seed=1)
    function = compiled(models.student_t(data, degrees=1.0))
    mean = data.problem.arms[data.arms] @ [1.0, 2.0]
    exact = stats.cauchy.logpdf(data.rewards, mean, 0.7).sum() - 0.5 * 5 / 0.49
    exact -= stats.cauchy.logpdf(data.rewards, 0, 0.7).sum()
    change = function({"theta_reward": [1.0, 2.0]}) - function({"theta_reward": [0.0, 0.0]})
    assert change == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("constraints", [0, 2])
def test_unknown_noise_has_students_distribution(constraints):
    """The density of pulls and parameters, integrated over the variance by quadrature."""
    data = history(problem(constraints), "unknown_noise", LONG[:9], seed=6)
    student = models.unknown_noise_student(data)
    assert student.degrees == 4 + 9
    rng = np.random.default_rng(7)
    logs = np.linspace(-9, 9, 301)
    for block in range(1 + constraints):
        exact, found = [], []
        for _ in range(4):
            theta = np.zeros((1 + constraints, 2))
            theta[block] = rng.normal(0, 2, 2)
            total = []
            for log_variance in logs:
                log_variances = np.zeros(1 + constraints)
                log_variances[block] = log_variance
                point = {
                    "theta_reward": theta[0],
                    "theta_cost": theta[1:],
                    "reward_variance_log__": log_variances[:1],
                    "cost_variance_log__": log_variances[1:],
                }
                total.append(log_density("unknown_noise", data, point))
            exact.append(np.logaddexp.reduce(total))
            found.append(
                stats.multivariate_t.logpdf(
                    theta[block], student.location[block], student.scale[block], df=student.degrees
                )
            )
        np.testing.assert_allclose(differences(found), differences(exact), rtol=1e-6)


# --- names and shapes ---


@pytest.mark.parametrize("kind", KINDS)
def test_all_models_have_the_same_variables_and_the_names_of_the_problem(kind):
    this = problem()
    model = build(kind, history(this, kind, [1, 3, 3], seed=1))
    dims = model.named_vars_to_dims
    assert dims["theta_reward"] == ("feature",)
    assert dims["theta_cost"] == ("constraint", "feature")
    assert dims["candidate_reward"] == ("candidate",)
    assert dims["candidate_cost"] == ("candidate", "constraint")
    assert model.coords["arm"] == ("b", "d")
    assert model.coords["constraint"] == ("dose", "price")
    assert model.coords["candidate"] == ("u", "v", "copy of u", "w")
    assert {"arms", "candidates", "thresholds"} <= {data.name for data in model.data_vars}
    models.set_data(model, history(this, kind, [0, 1, 2, 2], seed=1))
    assert model.coords["arm"] == ("a", "b", "c")
    pull_by_pull = kind in ("linear_gaussian", "student_t")
    assert model.coords.get("pull") == ((1, 2, 3, 4) if pull_by_pull else None)


def test_means_of_the_candidates_and_scales():
    this = problem()
    model = models.unknown_noise(history(this, "unknown_noise", SHORT, seed=1))
    names = ("candidate_reward", "candidate_cost", "reward_scale", "cost_scale")
    point = points(model, 1, seed=3)[0]
    reward, cost, scale, scales = evaluated(model, *names)(point)
    np.testing.assert_allclose(reward, this.candidates @ point["theta_reward"], rtol=1e-12)
    np.testing.assert_allclose(cost, this.candidates @ point["theta_cost"].T, rtol=1e-12)
    assert scale**2 == pytest.approx(np.exp(point["reward_variance_log__"]))
    np.testing.assert_allclose(scales**2, np.exp(point["cost_variance_log__"]))


def test_without_constraints_there_are_no_costs():
    for kind in KINDS:
        model = build(kind, history(problem(0), kind, SHORT, seed=1))
        assert {rv.name for rv in model.free_RVs} <= {"theta_reward", "reward_variance"}
        assert "constraint" not in model.coords


def test_the_data_of_another_problem_go_into_the_same_model():
    """More arms, other candidates and thresholds; only features and constraints must agree."""
    first, rng = problem(), np.random.default_rng(8)
    other = bf.Problem(
        rng.standard_normal((6, 2)),
        {"dose": 1.0, "price": 2.0},
        candidates=rng.standard_normal((5, 2)),
        reward_noise=0.7,
        cost_noise=[0.5, 1.5],
    )
    arms = np.arange(30) % 6
    data = bf.History(other, arms, rng.standard_normal(30), rng.standard_normal((30, 2)))
    model = models.linear_gaussian(history(first, "linear_gaussian", SHORT, seed=1).posterior())
    function, some = compiled(model), points(model, 4, seed=2)
    means = evaluated(model, "candidate_cost")
    models.set_data(model, data.posterior())
    assert_same_density(function, partial(log_density, "linear_gaussian", data), some)
    np.testing.assert_allclose(means(some[0])[0], other.candidates @ some[0]["theta_cost"].T)
    assert model["thresholds"].get_value().tolist() == [1.0, 2.0]


# --- what is refused ---


def test_data_that_a_model_cannot_take_are_refused():
    this = problem()
    data = history(this, "linear_gaussian", SHORT, seed=1)
    sums = data.posterior()
    two = bf.History(this, [0, 1], [1.0, 0.0], [[1.0, 0.0], [0.0, 2.0]])
    three = bf.History(this, [0, 0], [1, 0], [[1, 0], [2, 0.0]]).posterior()
    for message, call in {
        "this model needs the pulls one by one": lambda: models.unknown_noise(sums),
        "this model needs the pulls one": lambda: models.student_t(sums),
        "this model needs the pulls": lambda: models.unknown_noise_student(sums),
        "expected rewards of 0 or 1, got .* at pull 0": lambda: models.logistic(data),
        "expected rewards of 0 or 1, got a sum of": lambda: models.logistic(sums),
        "expected costs of 0 or 1, got 2 at pull 1": lambda: models.logistic(two),
        "expected costs of 0 or 1, got a sum of 3 over 2": lambda: models.logistic(three),
    }.items():
        with pytest.raises(ValueError, match=f"^data: {message}"):
            call()
    for kind in KINDS:
        with pytest.raises(TypeError, match=r"^data: expected a Posterior or a History, got list"):
            build(kind, [1, 2])
    for function in (models.unknown_noise, models.unknown_noise_student):
        with pytest.raises(ValueError, match=r"^prior_pulls: "):
            function(data, prior_pulls=-1)
    with pytest.raises(ValueError, match=r"^degrees: "):
        models.student_t(data, degrees=0)


def test_set_data_refuses_what_does_not_fit():
    this = problem()
    data = history(this, "linear_gaussian", SHORT, seed=1)
    sums = data.posterior()
    model, one_by_one = models.linear_gaussian(sums), models.linear_gaussian(data)
    fewer = history(problem(1), "linear_gaussian", SHORT, seed=1)
    bounded = bf.Posterior(problem(parameter_radius=1.0))
    with pm.Model(coords={name: this.coords[name] for name in ("feature", "constraint")}) as own:
        pm.Normal("theta_reward", dims="feature")
    for message, arguments in {
        "data: expected the constraints of the model": (model, fewer),
        "data: expected a problem with no parameter_radius": (model, bounded),
        "data: this model needs the pulls one by one": (one_by_one, sums),
        "model: expected one of this package": (own, data),
    }.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            models.set_data(*arguments)
    with pytest.raises(TypeError, match=r"^data: expected a Posterior or a History, got int"):
        models.set_data(model, 3)


# --- pulls of an instance ---


def two_arms():
    this = bf.Problem([[1, 0], [1, 2]], [9, 9], reward_noise=0.5, cost_noise=[2, 3])
    return bf.Instance(this, [0.3, -0.4], [[0, 1], [-0.5, 0]])


MEANS = np.array([[0.3, 0.0, -0.5], [-0.5, 2.0, -0.5]])  # (arm, block)


def student_p_value(degrees):
    """The least of 6 Kolmogorov-Smirnov p-values of scaled noise against Student's t with 4."""
    pulls = 4000
    rewards, costs = two_arms().pull(
        np.tile([0, 1], pulls), seed=5, noise="student_t", degrees=degrees
    )
    seen = np.column_stack([rewards, costs]).reshape(pulls, 2, 3)
    noises = (seen - MEANS) / [0.5, 2, 3]
    return min(
        stats.kstest(noises[:, arm, block], stats.t(DEGREES).cdf).pvalue
        for arm in range(2)
        for block in range(3)
    )


def test_student_t_pulls_have_the_right_law():
    """False alarm with probability 1e-4 (and the seed is fixed); Gaussian noise is told apart."""
    assert student_p_value(4.0) > 1e-4 / 6
    assert student_p_value(1e6) < 1e-4 / 6


def logistic_scores(means):
    pulls = 4000
    rewards, costs = two_arms().pull(np.tile([0, 1], pulls), seed=6, noise="logistic")
    seen = np.column_stack([rewards, costs]).reshape(pulls, 2, 3)
    assert set(np.unique(seen)) == {0.0, 1.0}
    chance = 1 / (1 + np.exp(-means))
    scores = (seen.mean(axis=0) - chance) / np.sqrt(chance * (1 - chance) / pulls)
    correlation = np.corrcoef(seen[:, 0].T)[np.triu_indices(3, 1)] * np.sqrt(pulls)
    return np.abs(scores).max(), np.abs(correlation).max()


def test_logistic_pulls_have_the_right_law():
    """Normal approximations of 9 scores, false alarm with probability 1e-4 in all."""
    scores, correlation = logistic_scores(MEANS)
    assert max(scores, correlation) < z_bound(9, 1e-4)
    assert logistic_scores(1.2 * MEANS)[0] > z_bound(9, 1e-4)


def test_gaussian_pulls_are_the_default_and_as_before():
    plain, named = (two_arms().pull([0, 1], 3, **kw)[0] for kw in ({}, {"noise": "gaussian"}))
    assert np.array_equal(plain, named)
    normal = np.random.default_rng(3).standard_normal((2, 3))
    assert plain == pytest.approx(MEANS[:, 0] + 0.5 * normal[:, 0])


# --- sampled ---


@pytest.mark.slow
def test_nuts_finds_the_closed_form():
    """Means and variances within Monte Carlo error, at a total false-alarm rate of 1e-4."""
    this = problem()
    posterior = history(this, "linear_gaussian", LONG, seed=9).posterior()
    model = models.linear_gaussian(posterior)
    with model:
        tree = pm.sample(1000, tune=500, chains=4, cores=1, random_seed=1, progressbar=False)
    import arviz as az

    mean, covariance = closed_form(posterior)
    scores = {}
    for shift in (0.0, 0.5):  # the second must be told apart
        worst = 0.0
        for block, spread in enumerate(noise(this)):
            draws = tree.posterior["theta_reward" if block == 0 else "theta_cost"]
            draws = draws if block == 0 else draws.isel(constraint=block - 1)
            sd = spread * np.sqrt(np.diag(covariance))
            for feature in range(2):
                standard = (draws.isel(feature=feature) - mean[block, feature]) / sd[feature]
                standard = standard + shift
                for power in (standard, standard**2 - 1):
                    error = float(power.std()) / np.sqrt(float(az.ess(power.values)))
                    worst = max(worst, abs(float(power.mean())) / error)
        scores[shift] = worst
    assert scores[0.0] < z_bound(12, 1e-4)
    assert scores[0.5] > z_bound(12, 1e-4)
