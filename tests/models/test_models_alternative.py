"""The alternative set in a PyMC model: every form, on every model."""

import cvxpy as cp
import numpy as np
import pymc as pm
import pytest
from helpers import closed_form, gaussian_draws, membership, noise, posterior_at, z_bound
from model_helpers import (
    compiled,
    component,
    differences,
    evaluated,
    event_vectors,
    history,
    log_density,
    points,
    problem,
)
from pytensor.compile.maker import FunctionMaker
from scipy import special, stats

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.models._interpreted import INTERPRETED


def posterior_of(this, seed=4, arms=(0, 1, 2, 2)):
    return history(this, "linear_gaussian", np.array(arms), seed).posterior()


def gaussian_parts(this, candidate=1):
    """A posterior, its model, the alternative set of a candidate, and the exact reference."""
    posterior = posterior_of(this)
    reference = models.Reference.from_posterior(posterior)
    return posterior, models.linear_gaussian(posterior), bf.Alternative(this, candidate), reference


def stacked(point):
    rows = [np.atleast_2d(point["theta_reward"])]
    return np.vstack([*rows, point["theta_cost"]] if "theta_cost" in point else rows)


# --- hard ---


@pytest.mark.parametrize(
    ("this", "whiten"),
    [
        (problem(), False),
        (problem(), True),
        (problem(0), False),
        (problem(parameter_radius=(1.5, 2.0)), False),
    ],
    ids=["two constraints", "whitened", "no constraint", "bounded"],
)
def test_the_hard_potential_is_the_alternative_set(this, whiten):
    posterior = posterior_of(this)
    alternatives = [bf.Alternative(this, i) for i in range(len(this.candidates))]
    base = models.linear_gaussian(posterior)
    reference = models.Reference.from_posterior(posterior) if whiten else None
    model = models.alternative(base, alternatives[0], whiten=whiten, reference=reference)
    log_weight = compiled(model)
    names = ["theta_reward", "theta_cost"][: 1 + bool(this.thresholds.size)]
    parameters = evaluated(model, *names)
    some = points(model, 40, seed=5)
    thetas = [np.vstack([np.atleast_2d(one) for one in parameters(point)]) for point in some]
    draws = np.array(thetas)
    for alternative in alternatives:
        models.set_alternative(model, alternative)
        inside = alternative.contains(draws[:, 0], draws[:, 1:])
        assert 0 < sum(inside) < len(draws)
        values = np.array([log_weight(point) for point in some])
        assert np.array_equal(values > -np.inf, inside)
        if this.parameter_radius is None and alternative.candidate == 1:
            events = membership(alternative, draws)
            for event in range(len(alternative.events)):
                models.set_alternative(model, alternative, event)
                values = np.array([log_weight(point) for point in some])
                assert np.array_equal(values > -np.inf, events[:, event])


@pytest.mark.parametrize(
    ("threshold", "rows"),
    [
        (0.5, [([1, 1], [0.5, 0.5], 1), ([1, 1], [0.5, 0.6], 0), ([1, 1], [0.6, 0.6], 1)]),
        (np.inf, [([0, 1], [1e6, 1e6], 1), ([1, 0], [1e6, 1e6], 0)]),  # it never binds
    ],
)
def test_ties_costs_on_the_threshold_and_infinite_ones_count_as_in_contains(threshold, rows):
    this = bf.Problem([[1.0, 0.0], [0.0, 1.0]], thresholds=threshold)
    alternative = bf.Alternative(this, 0)
    function = compiled(models.alternative(models.linear_gaussian(bf.Posterior(this)), alternative))
    for reward, cost, inside in rows:
        point = {"theta_reward": np.array(reward, float), "theta_cost": np.array([cost])}
        assert alternative.contains(point["theta_reward"], point["theta_cost"]) == inside
        assert np.isfinite(function(point)) == inside


# --- margins, smooth and graded ---


def margins(alternative, posterior, theta):
    """By event, the margins of what it asks, in posterior standard deviations."""
    _, covariance = closed_form(posterior)
    spread = noise(alternative.problem)
    return [
        [
            (vector @ theta[b] - limit) / (spread[b] * np.sqrt(vector @ covariance @ vector))
            for b, (vector, limit) in event_vectors(alternative, event).items()
        ]
        for event in range(len(alternative.events))
    ]


@pytest.mark.parametrize("constraints", [0, 2])
def test_the_smooth_potential_is_its_formula(constraints):
    posterior, base, alternative, reference = gaussian_parts(problem(constraints))
    model = models.alternative(base, alternative, "smooth", softness=0.5, reference=reference)
    smooth, some = evaluated(model, "smooth"), points(model, 10, seed=6)
    for softness in (0.5, 0.05):
        pm.set_data({"softness": softness}, model)
        for event in (None, 0, 1):
            models.set_alternative(model, alternative, event)
            for point in some:
                each = np.array(
                    [
                        sum(special.log_expit(np.array(one) / softness))
                        for one in margins(alternative, posterior, stacked(point))
                    ]
                )
                each = each if event is None else each[[event]]
                if np.exp(each).max() < 1e-10:
                    exact = special.logsumexp(each)
                else:
                    exact = np.log1p(-np.prod(-np.expm1(each)))
                assert float(smooth(point)[0]) == pytest.approx(exact, rel=1e-6, abs=1e-7)


def test_the_smooth_potential_has_a_gradient_everywhere_and_becomes_the_hard_one():
    _, base, alternative, reference = gaussian_parts(problem())
    model = models.alternative(base, alternative, "smooth", softness=1e-4, reference=reference)
    smooth, slope = evaluated(model, "smooth"), model.compile_dlogp(mode=INTERPRETED)
    inside_seen = set()
    for point in points(model, 30, seed=6) + points(model, 10, seed=7, spread=1e3):
        inside = bool(alternative.contains(point["theta_reward"], point["theta_cost"]))
        inside_seen.add(inside)
        value = float(smooth(point)[0])
        # None of these points lies within 30 softness of an edge.
        assert abs(value) < 1e-11 if inside else value < -30
        assert np.isfinite(slope(point)).all()
    assert inside_seen == {True, False}


@pytest.mark.slow
def test_the_bias_of_the_smooth_potential_is_what_its_description_says():
    """On a line, by summing the density: the share outside is about softness times distance."""
    this, distance = bf.Problem([[1.0], [2.0]]), 9.0  # log P = -43
    sums = np.array([-distance * np.sqrt(1001), 0.0])
    posterior = bf.Posterior.from_sums(this, [1000, 0], sums, np.empty((2, 0)))
    alternative = bf.Alternative(this, 0)  # wrong where the parameter is positive
    model = models.alternative(
        models.linear_gaussian(posterior), alternative, "smooth",
        reference=models.Reference.from_posterior(posterior),
    )  # fmt: skip
    function = compiled(model)
    theta = np.linspace(-14.0, 5.0, 1901) / np.sqrt(1001)

    def outside(softness):
        pm.set_data({"softness": softness}, model)
        weights = special.softmax([float(function({"theta_reward": [one]})) for one in theta])
        return weights[theta < 0].sum()

    for softness in (0.02, 0.04):
        assert 0.5 < outside(softness) / (softness * distance) < 1
    assert outside(0.5) > 0.99


def distance(alternative, posterior, theta, events):
    """Least Mahalanobis distance to an event, by a cone solver."""
    mean, covariance = closed_form(posterior)
    root, spread = np.linalg.cholesky(np.linalg.inv(covariance)), noise(alternative.problem)
    result = np.inf
    for event in events:
        found = cp.Variable(mean.shape)
        asked = [
            vector @ found[b] >= limit
            for b, (vector, limit) in event_vectors(alternative, event).items()
        ]
        squares = sum(
            cp.sum_squares(root.T @ (found[b] - theta[b])) / spread[b] ** 2
            for b in range(len(mean))
        )
        result = min(result, cp.Problem(cp.Minimize(squares), asked).solve(solver=cp.CLARABEL))
    return np.sqrt(max(result, 0.0))


def test_the_graded_potential_is_a_distance():
    posterior, base, alternative, reference = gaussian_parts(problem())
    model = models.alternative(
        base, alternative, "graded", whiten=False, sharpness=3.0, reference=reference
    )
    graded, some = evaluated(model, "graded"), points(model, 6, seed=6)
    mean, everything = closed_form(posterior)[0], range(len(alternative.events))
    outside = 0
    for event in (None, 0):
        models.set_alternative(model, alternative, event)
        events = everything if event is None else [event]
        sharpness = 3.0 * (1 + distance(alternative, posterior, mean, events) ** 2)
        for point in some:
            theta, value = stacked(point), float(graded(point)[0])
            exact = -0.5 * sharpness * distance(alternative, posterior, theta, events) ** 2
            assert value == pytest.approx(exact, rel=1e-5, abs=1e-6)
            if membership(alternative, theta[np.newaxis])[0, list(events)].any():
                assert value == 0.0
            else:
                outside += 1
    assert 0 < outside < 2 * len(some)


# --- whitening ---


COMBINATIONS = [("linear_gaussian", 1), ("unknown_noise", 1), ("student_t", 2), ("logistic", 0)]


def flat_parameters(functions, point, flat):
    moved = point | {"whitened": flat.reshape(point["whitened"].shape)}
    return np.concatenate([np.ravel(one) for one in functions(moved)[1:]])


@pytest.mark.parametrize(("kind", "constraints"), COMBINATIONS)
def test_a_component_is_the_model_in_other_coordinates(kind, constraints):
    """Its density is the model's own times the determinant of the map, by finite differences."""
    data, _, alternative, model, log_joint, functions = component(kind, constraints)
    left, right = [], []
    for event in range(len(alternative.events)):
        models.set_alternative(model, alternative, event)
        for point in points(model, 2, seed=9):
            flat, step = np.ravel(point["whitened"]), 1e-5
            columns = [
                flat_parameters(functions, point, flat + step * unit)
                - flat_parameters(functions, point, flat - step * unit)
                for unit in np.eye(flat.size)
            ]
            determinant = np.linalg.slogdet(np.array(columns) / (2 * step))[1]
            log_weight, *rows = functions(point)
            rows = [np.atleast_2d(row) for row in rows]
            assert membership(alternative, np.vstack(rows)[np.newaxis])[0, event]
            theta = dict(zip(("theta_reward", "theta_cost"), rows, strict=False))
            scales = {name: value for name, value in point.items() if name != "whitened"}
            left.append(log_joint(point))
            right.append(log_density(kind, data, theta | scales) + determinant)
            if not scales:  # the coordinates are all that has a prior
                prior = stats.norm.logpdf(flat).sum()
                assert float(log_weight) == pytest.approx(left[-1] - prior, rel=1e-9)
    np.testing.assert_allclose(differences(left), differences(right), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "constraints"), [("unknown_noise", 1), ("logistic", 0)])
def test_gradients_of_a_component_are_finite_differences(kind, constraints):
    _, _, alternative, model, log_joint, _ = component(kind, constraints)
    models.set_alternative(model, alternative, 0)
    slope = model.compile_dlogp(vars=[model["whitened"]], mode=INTERPRETED)
    for point in points(model, 2, seed=11):
        flat = np.ravel(point["whitened"])
        found = [
            log_joint(point | {"whitened": (flat + step).reshape(point["whitened"].shape)})
            - log_joint(point | {"whitened": (flat - step).reshape(point["whitened"].shape)})
            for step in 1e-5 * np.eye(flat.size)
        ]
        np.testing.assert_allclose(slope(point), np.array(found) / 2e-5, rtol=1e-5, atol=1e-6)


# --- components of the Gaussian model, where everything is known ---


def rare_posterior(this, deviations):
    """A posterior under which the rival's event is so many standard deviations away."""
    pulls = 1000
    spread = np.sqrt(2.0 / (1.0 + pulls))  # of <theta, second - first>
    return posterior_at(
        this, [deviations * spread, 0.0], [0.3 + 3.0 / np.sqrt(1 + pulls), 0.3], [pulls] * 2
    )


@pytest.fixture(scope="module")
def two_arms():
    this = bf.Problem([[1.0, 0.0], [0.0, 1.0]], thresholds=0.3)
    alternative = bf.Alternative(this, 0)
    posterior = rare_posterior(this, 4.0)
    model = models.alternative(
        models.linear_gaussian(posterior),
        alternative,
        "component",
        event=1,
        reference=models.Reference.from_posterior(posterior),
    )
    functions = evaluated(model, "log_weight", "theta_reward", "theta_cost")
    slope = model.compile_dlogp(mode=INTERPRETED)
    return this, alternative, model, functions, slope


@pytest.mark.parametrize("deviations", [-3.0, 4.0, 40.0, 400.0, 1e4])
def test_a_rare_event_is_a_standard_normal_whose_weight_is_its_probability(two_arms, deviations):
    """One compiled function serves all of them."""
    this, alternative, model, functions, slope = two_arms
    posterior = rare_posterior(this, deviations)
    models.set_data(model, posterior)
    models.set_alternative(model, alternative, 1, models.Reference.from_posterior(posterior))
    exact = stats.norm.logcdf(-deviations) + stats.norm.logcdf(0.0)
    for point in points(model, 20, seed=12):
        log_weight, reward, cost = functions(point)
        assert float(log_weight) == pytest.approx(exact, rel=1e-12, abs=1e-9)
        assert reward[1] - reward[0] >= -1e-15 * abs(reward[0])
        assert cost[0, 1] <= 0.3 * (1 + 1e-15)
        size = 1e-9 * (1 + abs(deviations))
        np.testing.assert_allclose(slope(point), -np.ravel(point["whitened"]), atol=size)


def event_p_value(alternative, posterior, event, scale):
    """The least p-value that images of normal draws have the law of draws that were kept.

    With a `scale` other than 1 the reference is wrong, and the weights are left out.
    """
    kept = gaussian_draws(posterior, 60_000, seed=1)
    kept = kept[membership(alternative, kept)[:, event]][:1000]
    exact = models.Reference.from_posterior(posterior)
    reference = models.Reference(exact.mean, scale * exact.root, exact.log_evidence)
    base = models.linear_gaussian(posterior)
    model = models.alternative(base, alternative, "component", event=event, reference=reference)
    functions = evaluated(model, "theta_reward", "theta_cost")
    shape = model.initial_point(0)["whitened"].shape
    normal = np.random.default_rng(2).standard_normal((len(kept), *shape))
    mapped = np.array([np.vstack(functions({"whitened": one})) for one in normal])
    columns = alternative.problem.candidates.T
    values = [(np.concatenate([x, x @ columns], 2)).reshape(len(x), -1).T for x in (mapped, kept)]
    tests = [stats.ks_2samp(left, right).pvalue for left, right in zip(*values, strict=True)]
    return min(tests), len(tests)


@pytest.mark.slow
def test_a_component_has_the_law_of_draws_that_were_kept():
    """False alarm with probability 1e-4 in all; a reference twice as wide is told apart."""
    this = problem()
    posterior, alternative = posterior_of(this, arms=np.arange(12) % 3), bf.Alternative(this, 1)
    for event in (0, len(alternative.events) - 1):
        least, tests = event_p_value(alternative, posterior, event, scale=1.0)
        assert least > 1e-4 / tests / 2
    least, tests = event_p_value(alternative, posterior, event, scale=2.0)
    assert least < 1e-4 / tests / 2


# --- weights of other models, against quadrature ---


def grid_probabilities(data, alternative):
    """Log-probability of each rival's event in the logistic model without costs, on a grid."""
    axis = np.linspace(-5, 5, 801)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    counts, mean = data.posterior(), theta @ data.problem.arms.T
    log_joint = special.log_expit(mean) @ counts.reward_sums
    log_joint += special.log_expit(-mean) @ (counts.counts - counts.reward_sums)
    log_joint += stats.norm.logpdf(theta, 0, data.problem.reward_noise).sum(axis=1)
    inside = membership(alternative, theta[:, np.newaxis])
    total = special.logsumexp(log_joint)
    cell = 2 * np.log(axis[1] - axis[0])
    events = [special.logsumexp(log_joint[column]) - total for column in inside.T]
    return np.array(events), total + cell


@pytest.mark.slow
def test_weights_average_to_probabilities_in_the_logistic_model():
    """Normal approximations of 4 scores, false alarm with probability 1e-4 in all.

    An edge of an event cuts the cells of the grid, which leaves an error of half a per cent.
    """
    data, base, alternative, model, _, function = component("logistic", 0)
    exact, evidence = grid_probabilities(data, alternative)
    everything = models.whitened(base)
    rng = np.random.default_rng(14)
    draws = rng.standard_normal((500, 1, 2))

    def mean_weight(function):
        weights = np.exp([float(function({"whitened": one})[0]) for one in draws])
        return weights.mean(), weights.std() / np.sqrt(len(weights)) / weights.mean()

    whole, whole_error = mean_weight(evaluated(everything, "log_weight"))
    log_evidence = models.laplace(base).log_evidence
    # The grid has the pulls one by one, the model how many of each arm's showed a 1.
    counts = data.posterior()
    ways = special.gammaln(counts.counts + 1) - special.gammaln(counts.reward_sums + 1)
    ways = (ways - special.gammaln(counts.counts - counts.reward_sums + 1)).sum()
    bound = z_bound(1 + len(exact), 1e-4)
    off = np.log(whole) + log_evidence - ways - evidence
    assert abs(off) < bound * whole_error + 1e-6 < abs(off + 0.3)
    for event, log_probability in enumerate(exact):
        reference = models.laplace(base, alternative, event)
        models.set_alternative(model, alternative, event, reference)
        part, error = mean_weight(function)
        found = np.log(part) - np.log(whole)
        assert abs(found - log_probability) < bound * np.hypot(error, whole_error) + 5e-3
        assert abs(found + 0.3 - log_probability) > bound * np.hypot(error, whole_error) + 5e-3


# --- one compilation ---


def test_one_compilation_serves_every_candidate_event_reference_and_checkpoint(monkeypatch):
    data, base, alternative, model, _, functions = component("student_t", 2)
    for own in (base, model):  # whatever is made on first use is made now
        models.set_data(own, data.first(5))
    models.set_alternative(model, alternative, 0, models.laplace(base))
    made, original = [], FunctionMaker.__init__
    monkeypatch.setattr(
        FunctionMaker, "__init__", lambda *a, **k: (made.append(1), original(*a, **k))[1]
    )
    point, results = {"whitened": np.full((3, 2), 0.3)}, {}
    for pulls in (10, 30):
        for own in (base, model):
            models.set_data(own, data.first(pulls))
        for candidate in (0, 3):
            alternative = bf.Alternative(data.problem, candidate)
            for event in range(len(alternative.events)):
                reference = models.laplace(base, alternative, event)
                models.set_alternative(model, alternative, event, reference)
                results[pulls, candidate, event] = functions(point)
    assert not made
    fresh = models.alternative(
        models.student_t(data.first(30)), alternative, "component", event=2, reference=reference
    )
    models.set_alternative(fresh, alternative, 2, models.laplace(base, alternative, 2))
    again = evaluated(fresh, "log_weight", "theta_reward", "theta_cost")(point)
    for left, right in zip(results[30, 3, 2], again, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9)
    assert made  # the count counts
    assert len({float(result[0]) for result in results.values()}) > 10
    for own in (base, model):
        models.set_data(own, data)


def test_the_model_that_was_given_is_left_as_it_is():
    _, base, alternative, reference = gaussian_parts(problem())
    before = sorted(base.named_vars)
    for form in ("hard", "smooth", "graded"):
        models.alternative(base, alternative, form, reference=reference)
    assert sorted(base.named_vars) == before
    assert {rv.name for rv in base.free_RVs} == {"theta_reward", "theta_cost"}


# --- what is refused ---


def test_what_does_not_fit_is_refused():
    _, base, alternative, reference = gaussian_parts(problem())
    given = {"reference": reference}
    one_event = models.alternative(base, alternative, "component", event=0, **given)
    hard = models.alternative(base, alternative)
    other = models.Reference.from_posterior(posterior_of(problem(0)))
    with pm.Model(coords={"feature": [0, 1]}) as foreign:
        pm.Normal("slope", dims="feature")
    build, replace = models.alternative, models.set_alternative
    whitened = models.whitened(base, **given)
    for message, call in {
        "form: .*hard, .*'penalty'": lambda: build(base, alternative, "penalty"),
        "event: a component is one": lambda: build(base, alternative, "component"),
        "event: a component is": lambda: replace(one_event, alternative),
        "event: 9 is out of range, there are 5": lambda: build(base, alternative, event=9),
        "event: 9 is out of range": lambda: replace(hard, alternative, event=9),
        "whiten: ": lambda: build(base, alternative, "component", event=0, whiten=False),
        "softness: .*, got 0": lambda: build(base, alternative, "smooth", softness=0, **given),
        "sharpness: .*, got -1": lambda: build(base, alternative, "graded", sharpness=-1, **given),
        "alternative: .*constraints": lambda: build(base, bf.Alternative(problem(0), 1)),
        "model: expected one that `alternative`": lambda: replace(base, alternative),
        "reference: this model uses none": lambda: replace(hard, alternative, **given),
        "reference: this model uses": lambda: models.set_reference(base, given["reference"]),
        "model: it has an alternative set": lambda: build(hard, alternative),
        "model: it has a reference": lambda: build(whitened, alternative, "graded", **given),
        r"reference: .*\(3, 2\)": lambda: build(base, alternative, "graded", reference=other),
        "model: .*free variable `theta_reward`": lambda: models.laplace(one_event),
        "event: expected an alternative and": lambda: models.laplace(base, alternative),
        "model: .*`theta_reward`": lambda: build(foreign, bf.Alternative(problem(0), 1)),
        "model: expected a variable `theta_": lambda: models.whitened(foreign),
    }.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            call()
    with pytest.raises(TypeError, match=r"^alternative: expected an Alternative, got int"):
        build(base, 1)
    with pytest.raises(TypeError, match=r"^reference: expected a Reference, got int"):
        build(base, alternative, "graded", reference=1)


def test_impossible_events_are_left_out_or_refused():
    """A candidate of zero cost and reward is always feasible, and nothing beats itself."""
    this = bf.Problem([[1.0, 0.0], [0.0, 1.0]], [0.5], candidates=[[0.0, 0.0], [1.0, 0.0]])
    base = models.linear_gaussian(bf.Posterior(this))
    alternative = bf.Alternative(this, 0)
    assert len(alternative.events) == 2
    model = models.alternative(base, alternative)
    assert model.coords["event"] == ("1 better",)
    with pytest.raises(ValueError, match=r"^event: 'cost 0 of 0 too high' is impossible"):
        models.alternative(base, alternative, event=0)
    alone = bf.Problem([[1.0, 0.0], [0.0, 1.0]], [0.5], candidates=[[0.0, 0.0]])
    base = models.linear_gaussian(bf.Posterior(alone))
    with pytest.raises(ValueError, match=r"^alternative: nothing can make '0' wrong"):
        models.alternative(base, bf.Alternative(alone, 0))


def test_references_are_checked():
    good = models.Reference.from_posterior(posterior_of(problem()))
    with pytest.raises(ValueError, match=r"^root: expected shape \(3, 2, 2\), got \(2, 2, 2\)"):
        models.Reference(good.mean, good.root[:2], 0.0)
    with pytest.raises(ValueError, match=r"^root: expected invertible matrices"):
        models.Reference(good.mean, 0 * good.root, 0.0)
    with pytest.raises(ValueError, match=r"^reference: its mean, root or log_evidence is not fin"):
        models.Reference(good.mean, good.root, np.inf)
