"""Models as people write them: computed, transformed and renamed parameters, hierarchies, draws."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import integrate, special, stats

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.analysis.evidence.best import probability_best
from bayes_feasible.analysis.evidence.evidence import log_error
from bayes_feasible.analysis.samplers.sample import sample_alternative
from bayes_feasible.models.density import density
from bayes_feasible.models.parameters import in_parameters

PULLS, NOISE = 12, 0.5


def hierarchy(means, centred, pulls=PULLS):
    """Arms about a group's mean with a scale that is learnt."""
    size = len(means)
    with pm.Model() as model:
        group, scale = pm.Normal("group"), pm.HalfNormal("scale")
        if centred:
            theta = pm.Normal("theta_reward", group, scale, shape=size)
        else:
            standard = pm.Normal("standard", shape=size)
            theta = pm.Deterministic("theta_reward", group + scale * standard)
        pm.Normal("shown", theta, NOISE / np.sqrt(pulls), observed=means)
    return model


def log_worse(means, pulls=PULLS):
    """Log-probability that the second of two arms is better, by quadrature over the scale."""
    error = NOISE**2 / pulls

    def given(log_scale):
        """Of the scale with the data; and of the event given both."""
        prior = np.exp(2 * log_scale)
        covariance = np.ones((2, 2)) + (prior + error) * np.eye(2)
        weight = stats.multivariate_normal([0, 0], covariance).logpdf(means)
        weight += stats.halfnorm.logpdf(np.exp(log_scale)) + log_scale
        gap, known = means[0] - means[1], 2 * prior / (prior + error)
        mean, sd = gap * prior / (prior + error), np.sqrt(known * error)
        return weight, weight + special.log_ndtr(-mean / sd)

    nodes = np.linspace(-25, 4, 20_001)
    found = np.array([given(node) for node in nodes])
    top = found.max(axis=0)
    return float(np.diff(np.log(integrate.simpson(np.exp(found - top), x=nodes, axis=0)) + top)[0])


@pytest.mark.parametrize(
    ("gap", "centred"),
    [(6.0, True), (1.5, False)]
    + [pytest.param(*one, marks=pytest.mark.slow) for one in
       ((0.3, True), (1.5, True), (0.3, False), (6.0, False))],
)  # fmt: skip
def test_hierarchies_are_those_of_quadrature(gap, centred):
    """Log P about -2, -25 and -300; five standard errors, and a control half as wide off."""
    means, wrong = np.array([gap, 0.0]) + 0.1, bf.Alternative(bf.Problem(np.eye(2)), 0)
    found = log_error(hierarchy(means, centred), wrong, draws=4000)
    assert found.standard_error < 0.05
    assert abs(found.value - log_worse(means)) < 5 * found.standard_error
    # the control: the scale at its likeliest value
    assert abs(found.value - log_worse(means, PULLS * 1.5)) > 5 * found.standard_error


def test_exchanged_coordinates_keep_the_density():
    """Centred and non-centred are one density in the parameters; so are its slopes."""
    wrong = bf.Alternative(bf.Problem(np.eye(3)), 0)
    means = np.array([0.3, 0.1, -0.2])
    one = density(in_parameters(hierarchy(means, True), wrong))
    other = density(in_parameters(hierarchy(means, False), wrong))
    rng = np.random.default_rng(0)
    theta, rest = rng.standard_normal((7, 3)), rng.standard_normal((7, 2))
    here, there = np.empty((2, 7, 5))
    for name, values in (("theta_reward", theta), ("group", rest[:, 0]), ("scale", rest[:, 1])):
        here[:, one.places[name]] = values
    there[:, other.places["theta_reward"]] = theta
    there[:, other.places["others"]] = rest
    np.testing.assert_allclose(one.value(here), other.value(there), rtol=1e-10)
    assert one.scales.tolist() == one.places["scale"].ravel().tolist()
    assert other.scales.tolist() == other.places["others"][1:].tolist()
    assert other.draw_prior(5, 1).shape == (5, 5)


def regression(observed):
    """Two parameters computed from three coefficients, not each from its own."""
    mix = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 0.7]])
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", 0, 2, shape=3)
        theta = pm.Deterministic("theta_reward", pt.dot(mix, coefficients))
        pm.Normal("shown", theta, 0.4, observed=observed)
    return model, mix


@pytest.mark.slow
def test_a_regression_is_its_closed_form():
    """Without overlap the error is one normal tail."""
    observed = np.array([1.3, 0.1])
    model, mix = regression(observed)
    prior = 4 * mix @ mix.T
    gain = prior @ np.linalg.inv(prior + 0.16 * np.eye(2))
    mean, covariance = gain @ observed, prior - gain @ prior
    along = np.array([-1.0, 1.0])
    exact = special.log_ndtr(along @ mean / np.sqrt(along @ covariance @ along))
    found = log_error(model, bf.Alternative(bf.Problem(np.eye(2)), 0), draws=4000)
    assert found.value == pytest.approx(exact, abs=5 * found.standard_error + 1e-6)
    assert found.standard_error < 0.02


def test_a_transformed_parameter_and_other_names():
    """Positive rewards; and the candidates' values instead of parameters, beside a cost."""
    with pm.Model() as positive:
        pm.Gamma("effect", 40.0, [30.0, 60.0], shape=2)
    exact = stats.beta(40, 40).cdf(30 / 90)  # of a ratio of gammas
    wrong = bf.Alternative(bf.Problem(np.eye(2)), 0)
    names = {"theta_reward": "effect"}
    found = log_error(positive, wrong, variables=names, draws=8000)
    assert found.value == pytest.approx(np.log(exact), abs=5 * found.standard_error)

    with pm.Model() as by_candidate:
        pm.Normal("gain", [1.0, 0.0, 2.0], 0.5, shape=3)
        pm.Normal("harm", [[0.0], [0.1], [0.9]], 0.3, shape=(3, 1))
    problem = bf.Problem({"a": [1, 0], "b": [0, 1], "c": [1, 1]}, thresholds={"harm": 0.5})
    found = log_error(
        by_candidate, bf.Alternative(problem, "a"), variables={"reward": "gain", "cost": "harm"}
    )
    rng = np.random.default_rng(1)
    gain = rng.normal([1.0, 0.0, 2.0], 0.5, (10**6, 3))
    harm = rng.normal([0.0, 0.1, 0.9], 0.3, (10**6, 3))
    best = np.where(harm <= 0.5, gain, -np.inf).argmax(axis=1)
    share = np.mean((best != 0) | (harm > 0.5).all(axis=1))
    error = np.hypot(found.standard_error, np.sqrt((1 - share) / share / 1e6))
    assert abs(found.value - np.log(share)) < 5 * error
    assert found.names[0] == "harm of a too high"


def test_draws_of_any_program_are_counted():
    problem = bf.Problem({"a": [1, 0], "b": [0, 1], "c": [1, 1]}, thresholds={"harm": 0.5})
    rng = np.random.default_rng(2)
    gain, harm = rng.normal([1.0, 0.0, 2.0], 0.5, (4, 500, 3)), rng.normal(0.3, 0.3, (4, 500, 3, 1))
    posterior = xr.Dataset(
        {
            "gain": (("chain", "draw", "gain_dim_0"), gain),
            "harm": (("chain", "draw", "harm_dim_0", "harm_dim_1"), harm),
        }
    )
    best = np.where(harm[..., 0] <= 0.5, gain, -np.inf).argmax(axis=2)
    none = (harm[..., 0] > 0.5).all(axis=2)
    names = {"reward": "gain", "cost": "harm"}
    for draws in (posterior, xr.DataTree.from_dict({"posterior": posterior})):
        found = log_error(draws, bf.Alternative(problem, "c"), variables=names)
        assert np.exp(found.value) == pytest.approx(np.mean((best != 2) | none))
        chances = probability_best(draws, problem, variables=names)
        expected = [np.mean((best == z) & ~none) for z in range(3)]
        np.testing.assert_allclose(chances.best, expected)
        np.testing.assert_allclose(chances.feasible, (harm[..., 0] <= 0.5).mean(axis=(0, 1)))
        assert chances.none.item() == pytest.approx(none.mean())
        assert np.all((chances.best_error > 0.005) & (chances.best_error < 0.02))
    tree = xr.DataTree.from_dict(
        {
            "posterior": posterior,
            "sample_stats": xr.Dataset(
                {"diverging": (("chain", "draw"), none & (gain[..., 0] > 0))}
            ),
        }
    )
    with pytest.raises(ValueError, match="transitions diverged"):
        log_error(tree, bf.Alternative(problem, "c"), variables=names)
    assert log_error(tree, bf.Alternative(problem, "c"), variables=names, divergent=1.0)
    with pytest.raises(ValueError, match="draws can only be counted"):
        log_error(posterior, bf.Alternative(problem, "c"), "local", variables=names)


def test_what_a_method_cannot_do_it_refuses_by_name():
    wrong = bf.Alternative(bf.Problem(np.eye(2)), 0)
    with pm.Model() as bent:
        z = pm.Normal("z", shape=2)
        pm.Deterministic("theta_reward", pt.exp(z) + z**3)
    with pytest.raises(ValueError, match=r'not affine in free variables .* method="frequency"'):
        log_error(bent, wrong)
    with pm.Model() as small:
        z = pm.Normal("z")
        pm.Deterministic("theta_reward", pt.stack([z, 2 * z]))
    with pytest.raises(ValueError, match=r'not affine .* method="frequency" counts draws'):
        log_error(small, wrong)
    skew = hierarchy(np.array([0.3, 0.1]), centred=False)
    for method in ("smc", "component"):
        with pytest.raises(ValueError, match=f'method: {method} draws from the prior .*"local"'):
            log_error(skew, wrong, method)
    with pytest.raises(ValueError, match=r"sampler: smc_hard draws .* slice, demetropolis"):
        sample_alternative(bf.Posterior(wrong.problem), wrong, "smc_hard", model=skew)
    for variables, message in (
        ({"theta": "z"}, "variables: expected theta_reward, or the candidates' reward, got theta"),
        ({}, "got nothing"),
        ({"reward": "gone"}, "model: expected a variable `gone`, it has z"),
        ({"theta_reward": "z"}, r"model: expected z of shape \(2,\), got \(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            log_error(small, wrong, variables=variables)
    with pytest.raises(TypeError, match="variables"):
        log_error(small, wrong, variables=["z"])


def test_forms_of_the_alternative_set_take_computed_parameters():
    model, _ = regression(np.array([0.3, 0.1]))
    wrong = bf.Alternative(bf.Problem(np.eye(2)), 0)
    hard = models.alternative(model, wrong)
    assert {one.name for one in hard.free_RVs} == {"theta_reward", "others"}
    inside, outside = (
        hard.compile_logp(mode="FAST_COMPILE")({"theta_reward": at, "others": np.zeros(1)})
        for at in (np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    )
    assert np.isfinite(inside)
    assert outside == -np.inf


# --- Beside long runs of NUTS.


def horseshoe():
    """Rewards of five arms by six features, few of which matter; scales of each and of all."""
    rng = np.random.default_rng(4)
    features = rng.standard_normal((5, 6))
    shown = features @ np.array([1.0, 0.0, 0.0, -0.6, 0.0, 0.0]) + rng.standard_normal(5)
    with pm.Model() as model:
        all_of_them = pm.HalfNormal("all", 0.5)
        local = pm.HalfStudentT("local", 3.0, shape=6)
        z = pm.Normal("z", shape=6)
        values = pm.Deterministic("value", pt.dot(features, z * local * all_of_them))
        pm.Normal("shown", values, 1.0, observed=shown)
    return model, {"reward": "value"}, int(np.argmax(shown))


def gibbs(means, draws, seed):
    """The hierarchy of four arms by Gibbs sampling with a grid for the scale, without PyMC."""
    rng, size, error = np.random.default_rng(seed), len(means), NOISE**2 / PULLS
    grid = np.exp(np.linspace(-8, 2.5, 800))
    theta, group, kept = means.copy(), 0.0, []
    for _ in range(draws):
        squares = np.sum((theta - group) ** 2)
        log_p = -0.5 * squares / grid**2 - size * np.log(grid) - 0.5 * grid**2 + np.log(grid)
        scale = rng.choice(grid, p=special.softmax(log_p))
        precision = 1 + size / scale**2
        group = rng.normal(theta.sum() / scale**2 / precision, precision**-0.5)
        precision = 1 / error + 1 / scale**2
        centre = (means / error + group / scale**2) / precision
        theta = rng.normal(centre, precision**-0.5)
        kept.append(theta)
    return np.array(kept[draws // 10 :])


FOUR = np.array([0.5, 0.42, 0.2, -0.3])


@pytest.mark.slow
def test_hierarchies_of_four_arms_beside_nuts_and_beside_gibbs():
    wrong = bf.Alternative(bf.Problem(np.eye(4)), 0)
    found = [np.exp(log_error(hierarchy(FOUR, centred), wrong).value) for centred in (True, False)]
    options = {"draws": 40_000, "tune": 2000, "target_accept": 0.995}
    nuts = log_error(hierarchy(FOUR, False), wrong, "frequency", **options)
    chains = np.array([gibbs(FOUR, 20_000, seed) for seed in range(4)])
    tree = xr.Dataset({"theta_reward": (("chain", "draw", "arm"), chains)})
    outside = log_error(tree, wrong)
    for each in (*found, np.exp(outside.value)):
        assert each == pytest.approx(np.exp(nuts.value), abs=0.01)
    best = probability_best(hierarchy(FOUR, False), wrong.problem, target_accept=0.95)
    assert best.best[0].item() == pytest.approx(1 - np.exp(nuts.value), abs=0.01)


@pytest.mark.slow
def test_a_horseshoe_regression_beside_long_nuts():
    model, names, best = horseshoe()
    wrong = bf.Alternative(bf.Problem(np.eye(5)), best)
    short, long = (
        log_error(
            model, wrong, "frequency", variables=names, draws=draws, tune=3000,
            target_accept=0.995, divergent=1e-3, seed=seed,
        )
        for seed, draws in ((1, 20_000), (2, 60_000))
    )  # fmt: skip
    assert np.exp(short.value) == pytest.approx(np.exp(long.value), abs=0.01)
