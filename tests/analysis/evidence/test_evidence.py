"""Log-probabilities of error from PyMC models, against quadrature, closed forms and brute force."""

import numpy as np
import pymc as pm
import pytest
from helpers import agrees, closed_form, counted, honest, noise
from model_helpers import student_draws
from planar import events_of, log_plane_integral, log_union, logistic_density
from scipy import stats
from scipy.special import expit, log_expit, logsumexp

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.alternative.events import Events
from bayes_feasible.analysis.evidence import scales
from bayes_feasible.analysis.evidence.evidence import METHODS, Evidence, Refused, log_error
from bayes_feasible.analysis.evidence.expansion import Weighted, fit, weigh
from bayes_feasible.analysis.evidence.result import judge_weights
from bayes_feasible.analysis.samplers.targets import target
from bayes_feasible.models import density as density_module
from bayes_feasible.models.density import Density, density
from bayes_feasible.models.modes import event_modes, global_modes

FALSE_ALARM = 1e-4  # of every statistical test here, and in all over its cases
ARMS = np.array([[1.0, 0.2], [0.3, 0.9], [-0.5, 0.8]])
SCALE = 3.0
# Pulls of each arm that make the error about e^-4, e^-20, e^-44 and e^-410.
PULLS = {-4: 2, -20: 21, -44: 52, -410: 505}


def logistic_problem():
    return bf.Problem(ARMS, 0.5, reward_noise=SCALE, cost_noise=SCALE)


def logistic_data(pulls):
    """Successes at the means of a truth far from the boundary of the alternative set."""
    successes = np.round(pulls * expit(ARMS @ np.array([[2.5, -3.0], [-1.5, 0.5]])))
    counts = np.full(3, pulls)
    return bf.Posterior.from_sums(logistic_problem(), counts, successes[:, 0], successes[:, 1:])


def logistic_truth(posterior):
    """Log-probability of the union and of each event by quadrature."""
    pulls = posterior.counts.astype(float)
    shown = [posterior.reward_sums, posterior.cost_sums[:, 0]]
    densities = [logistic_density(ARMS, pulls, successes, SCALE) for successes in shown]
    return log_union(densities, events_of(posterior.problem, 0))


def is_exact(found, alternative, posterior, wider, tests=1):
    """Whether an answer is the exact one, and (the control) not that of a wider posterior."""
    answers = [alternative.log_probability(posterior, scale=scale) for scale in (1.0, wider)]
    return [
        agrees(
            found.value, exact.value, np.hypot(found.standard_error, exact.standard_error), tests,
            FALSE_ALARM,
        )
        for exact in answers
    ] == [True, False]  # fmt: skip


def is_that_of(found, pulls, others, tests=1):
    """Whether an answer is that of logistic data, and (the control) not that of other pulls."""
    truths = [logistic_truth(logistic_data(number))[0] for number in (pulls, others)]
    right = [agrees(found.value, one, found.standard_error, tests, FALSE_ALARM) for one in truths]
    return right == [True, False]


@pytest.fixture(scope="module")
def logistic():
    """One model; each test gives it data."""
    return models.logistic(logistic_data(2))


@pytest.fixture(scope="module")
def gaussian():
    return models.linear_gaussian(target("b", -4)[0])


def test_the_quadrature_is_right_where_the_answer_is_known():
    def log_density(theta):
        return -0.5 * np.sum(theta**2, axis=-1)

    whole = log_plane_integral(log_density, [])
    assert whole == pytest.approx(np.log(2 * np.pi), abs=1e-10)
    corner = log_plane_integral(log_density, [([1.0, 0.0], 3.0), ([0.0, -2.0], 4.0)]) - whole
    assert corner == pytest.approx(stats.norm.logsf(3) + stats.norm.logsf(2), abs=1e-9)
    far = log_plane_integral(log_density, [([0.6, 0.8], 30.0)]) - whole
    assert far == pytest.approx(stats.norm.logsf(30), abs=1e-9)
    joint = log_plane_integral(log_density, [([1.0, 0.0], 1.0), ([0.6, 0.8], 0.5)]) - whole
    covariance = [[1.0, 0.6], [0.6, 1.0]]
    expected = stats.multivariate_normal([0, 0], covariance).cdf([-1.0, -0.5])
    assert joint == pytest.approx(np.log(expected), abs=1e-4)


@pytest.mark.parametrize(
    "goal", [pytest.param(goal, marks=[pytest.mark.slow] * (goal > -400)) for goal in PULLS]
)
def test_local_is_within_a_hundredth_of_quadrature_however_rare_the_error(logistic, goal):
    data = logistic_data(PULLS[goal])
    models.set_data(logistic, data)
    truth, events = logistic_truth(data)
    assert truth == pytest.approx(goal, rel=0.1)
    found = log_error(logistic, bf.Alternative(data.problem, 0), draws=200_000, seed=1)
    assert abs(found.value - truth) < 0.01
    assert is_that_of(found, PULLS[goal], PULLS[goal] + 1, len(PULLS))
    assert found.diagnostics["khat"] < 0.7
    assert found.diagnostics["khat_whole"] < 0.7
    assert 0.3 < found.diagnostics["efficiency"] <= 1.0
    np.testing.assert_allclose(found.log_probabilities, events, atol=0.03)
    assert found.likeliest == "1 better"
    assert float(found.to_dataset().log_error) == found.value


def test_the_global_expansion_is_right_near_the_centre_and_refused_in_the_tail(logistic):
    near = logistic_data(PULLS[-20])
    models.set_data(logistic, near)
    alternative = bf.Alternative(near.problem, 0)
    found = log_error(logistic, alternative, "global", seed=2)
    assert is_that_of(found, PULLS[-20], PULLS[-20] + 1)
    models.set_data(logistic, logistic_data(PULLS[-410]))
    with pytest.raises(Refused, match=r"alternative set .*(k-hat|% of the draws)") as refusal:
        log_error(logistic, alternative, "global", seed=2)
    assert refusal.value.evidence.method == "global"
    assert np.isfinite(refusal.value.evidence.value)


@pytest.mark.slow
def test_standard_errors_are_honest_over_seeds(logistic):
    data = logistic_data(9)
    models.set_data(logistic, data)
    truth, _ = logistic_truth(data)
    alternative = bf.Alternative(data.problem, 0)
    found = [log_error(logistic, alternative, draws=5000, seed=seed) for seed in range(50)]
    scores = np.array([(one.value - truth) / one.standard_error for one in found])
    assert honest(scores, FALSE_ALARM)
    # the control: standard errors half or twice as large, and values that are off by one of them
    assert not any(honest(wrong, FALSE_ALARM) for wrong in (2 * scores, scores / 2, scores + 1))


@pytest.mark.parametrize("kind", ["a", "b"])
@pytest.mark.parametrize("goal", [-4, -40, -400, -4000])
def test_local_is_the_closed_form_for_the_gaussian_model(gaussian, kind, goal):
    posterior, alternative = target(kind, goal)
    models.set_data(gaussian, posterior)
    exact = alternative.log_probability(posterior)
    for method in ("local", "global"):
        found = log_error(gaussian, alternative, method, seed=3)
        assert is_exact(found, alternative, posterior, wider=1.03, tests=16)
        assert found.standard_error < 0.002
        near = exact.log_probabilities > exact.value - 20
        np.testing.assert_allclose(
            found.log_probabilities[near], exact.log_probabilities[near], atol=0.05
        )


def test_twenty_events_in_ten_dimensions():
    posterior, alternative = target("c", -40)
    found = log_error(models.linear_gaussian(posterior), alternative, seed=4)
    assert is_exact(found, alternative, posterior, wider=1.01)


@pytest.mark.slow
def test_ten_dimensions_down_to_minus_1752():
    """Two seeds agree; one Gaussian at the global mode is hundreds of nats off, and refused."""
    rng = np.random.default_rng(5)
    arms = rng.standard_normal((20, 10))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    problem = bf.Problem(arms, 2.5, reward_noise=3.0, cost_noise=3.0)
    truth = 4.0 * rng.standard_normal((2, 10))
    feasible = arms @ truth[1] <= 2.5
    best = int(np.argmax(np.where(feasible, arms @ truth[0], -np.inf)))
    pulls = 7700
    shown = np.round(pulls * expit(arms @ truth.T))
    data = bf.Posterior.from_sums(problem, np.full(20, pulls), shown[:, 0], shown[:, 1:])
    model, alternative = models.logistic(data), bf.Alternative(problem, best)
    first, second = (log_error(model, alternative, seed=seed) for seed in (1, 2))
    assert first.value == pytest.approx(-1752, rel=0.01)
    error = np.hypot(first.standard_error, second.standard_error)
    assert agrees(first.value, second.value, error, 1, FALSE_ALARM)
    assert first.standard_error < 0.005
    # the control: one success more, of 154,000
    more = shown.copy()
    more[0, 0] += 1
    other = bf.Posterior.from_sums(problem, np.full(20, pulls), more[:, 0], more[:, 1:])
    models.set_data(model, other)
    assert not agrees(first.value, log_error(model, alternative).value, error, 1, FALSE_ALARM)
    models.set_data(model, data)
    assert first.diagnostics["khat"] < 0.7
    with pytest.raises(Refused, match=r"global: .* of the alternative set") as refusal:
        log_error(model, alternative, "global")
    assert refusal.value.evidence.value < first.value - 100


def test_without_constraints_and_with_one_that_never_binds():
    for thresholds in ((), np.inf):
        problem = bf.Problem(ARMS, thresholds)
        pulls = np.arange(60) % 3
        rewards = ARMS[pulls] @ [1.0, 0.3] + np.random.default_rng(1).standard_normal(60)
        costs = np.zeros((60, problem.thresholds.size))
        posterior = bf.Posterior.from_history(problem, pulls, rewards, costs)
        alternative = bf.Alternative(problem, 0)
        found = log_error(models.linear_gaussian(posterior), alternative, seed=5)
        assert is_exact(found, alternative, posterior, wider=1.1, tests=2)


def test_a_bounded_parameter_set_is_respected_or_refused():
    arms, noises = np.arange(60) % 3, np.random.default_rng(3).standard_normal((2, 60))
    model, values = None, []
    refusals = {0.3: "only 0.76 % of the draws", 0.05: "no draw lies within the parameter_radius"}
    for radius in (2.0, 1.05, *refusals):
        problem = bf.Problem(ARMS, 0.5, parameter_radius=radius)
        rewards, costs = ARMS[arms] @ [0.9, 0.3] + noises[0], ARMS[arms] @ [-0.2, 0.1] + noises[1]
        posterior = bf.Posterior.from_history(problem, arms, rewards, costs)
        if model is None:
            model = models.linear_gaussian(posterior)
        models.set_data(model, posterior)
        alternative = bf.Alternative(problem, 0)
        if radius in refusals:
            with pytest.raises(Refused, match=refusals[radius]):
                log_error(model, alternative, seed=6)
            continue
        found, exact = log_error(model, alternative, seed=6), alternative.log_probability(posterior)
        error = np.hypot(found.standard_error, exact.standard_error)
        assert agrees(found.value, exact.value, error, 2, FALSE_ALARM)
        values.append(exact.value)
    assert not agrees(found.value, values[0], error, 2, FALSE_ALARM)  # the control: the other ball


def test_before_any_pull_it_is_the_prior_that_is_measured(gaussian, logistic):
    """The prior of the parameters is the same Gaussian in both models."""
    for model, problem in ((gaussian, target("b", -4)[1].problem), (logistic, logistic_problem())):
        nothing, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
        models.set_data(model, nothing)
        some = bf.Posterior.from_history(problem, [0] * 9, [1.0] * 9, [[-1.0]] * 9)
        found = log_error(model, alternative, seed=7)
        for posterior, right in ((nothing, True), (some, False)):  # the control: after pulls
            exact = alternative.log_probability(posterior)
            error = np.hypot(found.standard_error, exact.standard_error)
            assert agrees(found.value, exact.value, error, 2, FALSE_ALARM) == right


@pytest.mark.parametrize(
    ("shape", "least", "reason"),
    [
        (0.3, 0.0, None),
        (1.0, 100.0, r"tails too heavy for an average \(Pareto k-hat 0\.9"),
        (1.5, 0.0, "only 0.26 % of the draws of the set count"),
    ],
)
def test_weights_that_cannot_carry_an_average_are_refused(shape, least, reason):
    """Weights at the quantiles of Pareto's law, of finite variance below a shape of 0.5."""
    number = 1000
    log_weights = np.log(least + ((np.arange(number) + 0.5) / number) ** -shape)
    weighted = Weighted(
        log_weights,
        np.zeros(number, dtype=int),
        np.ones((number, 1), dtype=bool),
        np.empty((number, 0)),
    )
    evidence = Evidence(-1.0, weighted.standard_error, "local", ["only"], np.array([-1.0]))
    if reason is None:
        judge_weights(evidence, "the set", weighted)
        return
    with pytest.raises(Refused, match=reason) as refusal:
        judge_weights(evidence, "the set", weighted)
    assert refusal.value.evidence is evidence


def test_a_candidate_that_nothing_can_make_wrong():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], candidates=[[1.0, 1.0]])
    model = models.linear_gaussian(bf.Posterior.from_history(problem, [0, 1], [1.0, 0.5]))
    for method in METHODS:
        found = log_error(model, bf.Alternative(problem, 0), method)
        assert found.value == -np.inf
        assert found.likeliest == "none"


def gaussian_history(pulls, seed, thresholds=(0.5, 0.8)):
    problem = bf.Problem(ARMS, thresholds, reward_noise=1.0, cost_noise=[1.0, 0.5])
    rng = np.random.default_rng(seed)
    arms = np.arange(pulls) % 3
    truth = np.array([[1.0, -0.2, 0.2], [0.3, 0.1, 0.1]])
    shown = ARMS[arms] @ truth + rng.standard_normal((pulls, 3)) * [1.0, 1.0, 0.4]
    return bf.History(problem, arms, shown[:, 0], shown[:, 1:])


def student_posterior(history, prior_pulls=4.0):
    """Degrees, means (block, feature), variances (block,) and inverse precision: textbook."""
    mean, inverse = closed_form(history.posterior())
    shown = np.column_stack([history.rewards, history.costs])
    squares = np.sum((shown - ARMS[history.arms] @ mean.T) ** 2, axis=0) + np.sum(mean**2, axis=1)
    degrees = prior_pulls + len(history)
    variances = (prior_pulls * noise(history.problem) ** 2 + squares) / degrees
    return degrees, mean, variances, inverse


@pytest.fixture(scope="module")
def unknown():
    return models.unknown_noise(gaussian_history(20, seed=1))


@pytest.mark.parametrize("pulls", [0, 4, 20, 300, 2000])
def test_unknown_scales_give_the_events_of_student_in_closed_form(unknown, pulls):
    history = gaussian_history(pulls, seed=1)
    models.set_data(unknown, history)
    degrees, mean, variances, inverse = student_posterior(history)
    expected = []
    for event in events_of(history.problem, 0):
        logs = [
            stats.t.logsf(
                (limit - vector @ mean[b]) / np.sqrt(variances[b] * vector @ inverse @ vector),
                degrees,
            )
            for b, (vector, limit) in event.items()
        ]
        expected.append(sum(logs))
    found = log_error(unknown, bf.Alternative(history.problem, 0))
    reached = np.isfinite(expected)  # SciPy's ends at -745
    assert reached.sum() >= 3
    np.testing.assert_allclose(
        found.log_probabilities[reached], np.array(expected)[reached], rtol=1e-9, atol=1e-9
    )
    assert found.method == "local, scales by quadrature"
    assert logsumexp(expected) - np.log(4) < found.value < logsumexp(expected) + 1e-9


@pytest.mark.parametrize(
    ("prior_pulls", "most_nodes"), [(0.01, scales.MOST_NODES), (4.0, 50)], ids=["range", "nodes"]
)
def test_scales_too_uncertain_for_a_grid_are_refused(unknown, prior_pulls, most_nodes, monkeypatch):
    """With such a prior and no pulls, e^8000 is a probable scale; or a grid of few nodes."""
    models.set_data(unknown, gaussian_history(0, seed=1))
    monkeypatch.setattr(scales, "MOST_NODES", most_nodes)
    with unknown:
        pm.set_data({"prior_pulls": prior_pulls})
    try:
        with pytest.raises(Refused, match=r"quadrature: the scale of .* is too uncertain"):
            log_error(unknown, bf.Alternative(gaussian_history(0, seed=1).problem, 0))
    finally:
        with unknown:
            pm.set_data({"prior_pulls": 4.0})


def test_unknown_scales_give_the_union_of_brute_force(unknown):
    history = gaussian_history(20, seed=1)
    models.set_data(unknown, history)
    theta = student_draws(history, 400_000, 6)
    alternative = bf.Alternative(history.problem, 0)
    truth, sampling = counted(alternative.contains(theta[:, 0], theta[:, 1:]))
    found = log_error(unknown, alternative, draws=100_000, seed=7)
    error = np.hypot(found.standard_error, sampling)
    assert agrees(found.value, truth, error, 1, FALSE_ALARM)
    known = alternative.log_probability(history.posterior())  # the control: as if scales were known
    assert not agrees(known.value, truth, error, 1, FALSE_ALARM)


def test_outliers_against_brute_force():
    history = gaussian_history(15, seed=2, thresholds=(0.9, 1.2))
    rewards = history.rewards.copy()
    rewards[3] += 25.0
    history = bf.History(history.problem, history.arms, rewards, history.costs)
    alternative = bf.Alternative(history.problem, 0)
    found = log_error(models.student_t(history), alternative, draws=50_000, seed=8)

    # Weighted draws of a Gaussian about least squares without the outlier, twice as wide.
    kept = np.arange(15) != 3
    tame = bf.History(history.problem, history.arms[kept], rewards[kept], history.costs[kept])
    mean, inverse = closed_form(tame.posterior())
    rng, draws = np.random.default_rng(9), 400_000
    spread = noise(history.problem)
    white = rng.standard_normal((draws, 3, 2))
    theta = mean + 2 * spread[:, np.newaxis] * (white @ np.linalg.cholesky(inverse).T)
    shown = np.column_stack([history.rewards, history.costs])
    log_weights = 0.5 * np.sum(white**2, axis=(1, 2))
    for b in range(3):
        log_weights -= 0.5 * np.sum(theta[:, b] ** 2, axis=1) / spread[b] ** 2
        errors = (shown[:, b] - theta[:, b] @ ARMS[history.arms].T) / spread[b]
        log_weights += np.sum(-2.5 * np.log1p(errors**2 / 4), axis=1)
    weights = np.exp(log_weights - log_weights.max())
    inside = alternative.contains(theta[:, 0], theta[:, 1:])
    share = weights[inside].sum() / weights.sum()
    error = np.sqrt(np.sum((weights * (inside - share)) ** 2)) / weights.sum() / share
    assert -6 < np.log(share) < -1
    assert error < 0.02
    error = np.hypot(found.standard_error, error)
    assert agrees(found.value, np.log(share), error, 1, FALSE_ALARM)
    believed = alternative.log_probability(history.posterior())  # the control: a Gaussian model
    assert not agrees(believed.value, np.log(share), error, 1, FALSE_ALARM)


class Correlated:
    """A Gaussian log-density that ties the half-spaces of an event to each other."""

    size = 3
    start = np.zeros(3)
    parameters = np.array([[0], [1]])  # two blocks of one feature, and another coordinate
    normals, everywhere, blocks = Density.normals, Density.everywhere, Density.blocks
    covariance = np.array([[1.0, 0.7, 0.2], [0.7, 1.5, -0.3], [0.2, -0.3, 0.8]])
    precision = np.linalg.inv(covariance)

    def value(self, points):
        return -0.5 * np.einsum("pi,ij,pj->p", points, self.precision, points)

    def within(self, points):
        return np.ones(len(points), dtype=bool)

    def draw_prior(self, number, seed):
        return np.random.default_rng(seed).normal(scale=3.0, size=(number, 3))

    def affordable(self, number):
        return number

    def bends(self, points):
        return -points @ self.precision, np.tile(self.precision, (len(points), 1, 1))


def test_half_spaces_that_are_tied_to_each_other():
    functions = Correlated()
    none = np.array([-1])
    events = Events(["both"], np.ones((1, 2, 1)), np.array([[2.0, 2.5]]), none, none)
    found = event_modes(functions, events, global_modes(functions))
    proposals, _ = fit(functions, found, events, wide=True)
    drawn = weigh(functions, events, proposals, 100_000, np.random.default_rng(1))
    whole = 0.5 * np.linalg.slogdet(functions.covariance)[1] + 1.5 * np.log(2 * np.pi)
    tied = functions.covariance[:2, :2]
    # the control: as if the two were not tied
    for covariance, right in ((tied, True), (np.diag(np.diag(tied)), False)):
        law = stats.multivariate_normal([0, 0], covariance)
        expected = np.log(law.cdf([-2.0, -2.5])) + whole
        found = drawn.log_integral()
        assert agrees(found, expected, drawn.standard_error, 1, FALSE_ALARM) == right
    assert drawn.standard_error < 0.01


def test_the_density_keeps_its_digits_at_odds_beyond_the_range_of_exp(logistic):
    data = logistic_data(21)
    models.set_data(logistic, data)
    points = np.random.default_rng(1).normal(0.0, 500.0, (20, 4))
    blocks = density(logistic).blocks(points)
    expected = np.zeros(20)
    for b, successes in enumerate([data.reward_sums, data.cost_sums[:, 0]]):
        odds = blocks[:, b] @ ARMS.T
        expected += np.sum(
            successes * log_expit(odds) + (21 - successes) * log_expit(-odds), axis=1
        )
        expected -= 0.5 * np.sum(blocks[:, b] ** 2, axis=1) / SCALE**2
    found = density(logistic).value(points)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-10)


def test_one_compilation_serves_all_checkpoints(logistic, monkeypatch):
    log_error(logistic, bf.Alternative(logistic_problem(), 0), draws=1000)

    def none(*_, **__):
        raise AssertionError("compiled again")

    monkeypatch.setattr(density_module.pytensor, "function", none)
    values = []
    for pulls in (5, 10, 40):
        models.set_data(logistic, logistic_data(pulls))
        values.append(log_error(logistic, bf.Alternative(logistic_problem(), 0), draws=1000).value)
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "laplace"}, "method: expected one of local, global"),
        ({"draws": 10}, "draws: expected at least 1000, got 10"),
        ({"tune": 10}, "tune: local has no such option"),
        ({"alternative": bf.Alternative(bf.Problem(np.eye(3), 0.5), 0)}, r"of shape \(3,\)"),
        ({"alternative": 0}, "alternative: expected an Alternative, got 0"),
    ],
)
def test_bad_input_is_named(logistic, change, message):
    alternative = bf.Alternative(logistic_problem(), 0)
    with pytest.raises((TypeError, ValueError), match=message):
        log_error(**{"model": logistic, "alternative": alternative} | change)
    with pytest.raises(ValueError, match="model: it is already restricted by the potential `hard`"):
        log_error(models.alternative(logistic, alternative), alternative)
