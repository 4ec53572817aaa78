"""The samplers of an alternative set: same law as the exact one, same shape of result."""

import gc
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from helpers import agrees, blocks, counted, gaussian_draws, in_balls, membership, same_law, z_bound
from model_helpers import history, problem, student_draws
from scipy import stats

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.analysis.samplers import components as _components
from bayes_feasible.analysis.samplers import mcmc
from bayes_feasible.analysis.samplers import sample as samplers
from bayes_feasible.analysis.samplers import smc as _smc
from bayes_feasible.analysis.samplers.sample import SamplerError, sample_alternative
from bayes_feasible.analysis.samplers.targets import KINDS, LOG_PROBABILITIES, target
from bayes_feasible.analysis.samplers.tasks import Task
from bayes_feasible.analysis.samplers.yardstick import Yardstick, convergence, coordinates
from bayes_feasible.files.atomic import write_netcdf
from bayes_feasible.models.exact_step import ExactStep

REGIMES = [(kind, value) for kind in KINDS for value in LOG_PROBABILITIES]
FALSE_ALARM = 1e-4
SHORT = {"draws": 200, "tune": 200, "chains": 2, "progress": False}


def _draws(tree):
    return tree["posterior"].to_dataset()


def _reference(posterior, alternative, seed=99):
    return blocks(alternative.sample(posterior, 20_000, seed=seed))


def _round_trip(tree, path):
    write_netcdf(path, tree)
    with xr.open_datatree(path, engine="h5netcdf") as stored:
        stored = stored.load()
    assert stored.attrs == tree.attrs
    for group in tree.children:
        xr.testing.assert_identical(stored[group].to_dataset(), tree[group].to_dataset())


@pytest.fixture(scope="module")
def four_events():
    return target("b", -4)


@pytest.mark.parametrize(("kind", "goal"), REGIMES)
def test_exact_draws_have_the_shape_and_the_probability(kind, goal, tmp_path):
    posterior, alternative = target(kind, goal)
    tree = sample_alternative(posterior, alternative, draws=50, chains=3, seed=4, progress=False)
    draws = _draws(tree)
    problem = posterior.problem
    features, constraints = problem.arms.shape[1], problem.thresholds.size
    assert draws.theta_reward.shape == (3, 50, features)
    assert draws.theta_cost.shape == (3, 50, constraints, features)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    assert tree.attrs["log_probability"] == pytest.approx(goal, rel=0.02)
    assert tree.attrs["sampler"] == "exact"
    assert tree.attrs["seed"] == 4
    assert tree.attrs["pymc_version"] == pm.__version__
    assert tree.attrs["seconds"] > 0
    _round_trip(tree, tmp_path / "exact.nc")


@pytest.fixture(scope="module")
def stepped(four_events):
    """The exact step method inside `pm.sample`, in one process and in two."""
    return [
        sample_alternative(*four_events, "exact_step", cores=cores, seed=3, progress=False)
        for cores in (1, 2)
    ]


def test_every_draw_of_the_exact_step_is_inside_and_worth_one(stepped, four_events, tmp_path):
    xr.testing.assert_equal(_draws(stepped[0]), _draws(stepped[1]))
    posterior, alternative = four_events
    draws = _draws(stepped[0])
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    figures = convergence(coordinates(draws))
    size = draws.sizes["chain"] * draws.sizes["draw"]
    # The effective sample size of independent draws scatters about their number, by 5 % or so.
    assert np.all(figures["ess_bulk"] > 0.8 * size)
    assert np.all(figures["rhat"] < 1.01)
    twice = coordinates(draws.isel(draw=np.arange(1000) // 2))  # the control: every draw is kept
    assert np.all(convergence(twice)["ess_bulk"] < 0.8 * size)
    assert same_law(alternative, blocks(draws), _reference(posterior, alternative), FALSE_ALARM)
    first = draws.isel(draw=0).theta_reward.values
    assert len(np.unique(first, axis=0)) == draws.sizes["chain"]
    _round_trip(stepped[0], tmp_path / "step.nc")


@pytest.mark.parametrize(("draws", "scale"), [(1000, 1.4), (250, 1.5)])
def test_so_few_draws_of_a_wider_law_are_told(draws, scale, four_events):
    """The control of the exact step above (4000 draws) and of NUTS on components below (1000)."""
    posterior, alternative = four_events
    for by, right in ((1.0, True), (scale, False)):
        found = blocks(alternative.sample(posterior, draws, seed=8, chains=4, scale=by))
        assert same_law(alternative, found, _reference(*four_events), FALSE_ALARM) == right


@pytest.fixture(scope="module")
def unconstrained():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    posterior = bf.Posterior.from_history(problem, [0, 1, 2] * 20, np.tile([1.0, 0.2, 0.6], 20))
    return posterior, bf.Alternative(problem, posterior.best())


def test_the_exact_step_after_tuning_and_without_constraints(unconstrained):
    posterior, alternative = unconstrained
    with models.linear_gaussian(posterior):
        step = ExactStep(posterior=posterior, alternative=alternative)
        tree = pm.sample(
            50, tune=10, chains=2, cores=1, step=step, random_seed=1, progressbar=False,
            quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    theta = tree["posterior"]["theta_reward"].values
    assert theta.shape == (2, 50, 2)
    assert alternative.contains(theta).all()
    assert set(np.unique(tree["sample_stats"]["event"])) <= {0, 1}


@pytest.mark.parametrize(
    "sampler",
    ["exact", "exact_step"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in samplers.FULL[2:]],
)
def test_problems_without_constraints(sampler, unconstrained):
    _, alternative = unconstrained
    tree = sample_alternative(*unconstrained, sampler, **SHORT)
    draws = _draws(tree)
    assert draws.theta_reward.shape == (2, 200, 2)
    assert draws.theta_cost.shape == (2, 200, 0, 2)
    outside = 1 - alternative.contains(draws.theta_reward, draws.theta_cost).mean()
    assert tree.attrs["outside"] == float(outside)
    assert outside <= (0.1 if "smooth" in sampler else 0.0)


def test_the_exact_step_refuses_another_model(four_events):
    posterior, alternative = four_events
    with pm.Model():
        pm.Normal("theta_reward", shape=3)
        with pytest.raises(ValueError, match="model: expected the variables"):
            ExactStep(posterior=posterior, alternative=alternative)
        pm.Normal("theta_cost", shape=(1, 2))
        with pytest.raises(ValueError, match="model: theta_reward is not of the shape"):
            ExactStep(posterior=posterior, alternative=alternative)


@pytest.mark.parametrize(("kind", "goal"), REGIMES)
def test_chains_start_inside_one_probable_region_a_chain_in_turn(kind, goal):
    posterior, alternative = target(kind, goal)
    task = Task(posterior, alternative, 10, 10, 8, 0, 1, False)
    starts = task.parameters(np.array(task.starts()))
    inside = membership(alternative, starts)
    assert inside.any(axis=1).all()
    logs = alternative.event_log_probabilities(posterior).values
    near = np.flatnonzero(logs >= logs.max() + np.log(0.05))
    order = near[np.argsort(-logs[near], kind="stable")]
    wanted = [order[chain % len(order)] for chain in range(8)]
    assert all(inside[chain, event] for chain, event in enumerate(wanted))


def test_the_gaussian_beside_the_model_gives_the_events_probabilities(four_events):
    posterior, alternative = four_events
    task = Task(posterior, alternative, 10, 10, 2, 0, 1, False)
    expected = alternative.event_log_probabilities(posterior).values
    np.testing.assert_allclose(task.event_log_probabilities(), expected, rtol=1e-9)


def _rejected(posterior, alternative, event, shape, seed):
    """Draws given an event by plain rejection."""
    number = int(np.prod(shape))
    share = np.exp(alternative.event_log_probabilities(posterior).values[event])
    draws = gaussian_draws(posterior, int(1.3 * number / share) + 1000, seed)
    draws = draws[membership(alternative, draws)[:, event]]
    assert len(draws) >= number
    return draws[:number].reshape(*shape, *draws.shape[1:])


def test_events_that_overlap_are_put_together_to_the_union():
    """With components drawn by rejection, so that nothing is shared but the putting together."""
    instance = bf.instances.random_ball(3, 6, seed=5)
    arms = np.arange(30) % 6
    posterior = bf.Posterior.from_history(instance.problem, arms, *instance.pull(arms, seed=2))
    alternative = bf.Alternative(instance.problem, instance.best)
    every = gaussian_draws(posterior, 200_000, 77)
    contained = membership(alternative, every)
    inside = contained.any(axis=1)
    assert contained[inside].sum(axis=1).mean() > 1.5  # so that it matters
    chains, size = 2, 500
    task = Task(posterior, alternative, size, 0, chains, 0, 1, False)
    logs = alternative.event_log_probabilities(posterior).values
    chosen = _components.sampled_events(logs)
    proposals = _components.proposals_needed(task, logs)
    shape = (chains, proposals)
    parts = [
        _components.Component(
            event, _rejected(posterior, alternative, event, shape, seed=event),
            np.full(chains, logs[event]), 0.0, {},
        )
        for event in chosen
    ]  # fmt: skip
    drawn, by_chain = _components.combine(task, parts, np.delete(logs, chosen), 0.0)
    left = drawn.parameters.reshape(-1, *drawn.parameters.shape[2:])
    assert drawn.parameters.shape[:2] == (chains, size)
    assert same_law(alternative, left, every[inside], FALSE_ALARM)
    with pytest.MonkeyPatch.context() as patch:  # as if events did not overlap
        ones = lambda _, part: np.ones(part.draws.shape[:2], int)  # noqa: E731
        patch.setattr(_components, "count_events", ones)
        wrong = _components.combine(task, parts, np.delete(logs, chosen), 0.0)[0]
    wrong_draws = wrong.parameters.reshape(left.shape)
    assert not same_law(alternative, wrong_draws, every[inside], FALSE_ALARM)
    truth, rejection = counted(inside)
    own = drawn.attributes["log_probability_standard_error"]
    error, tests = np.hypot(own, rejection), 1 + chains
    assert agrees(drawn.attributes["log_probability"], truth, error, tests, FALSE_ALARM)
    assert not agrees(wrong.attributes["log_probability"], truth, error, tests, FALSE_ALARM)
    bound = z_bound(tests, FALSE_ALARM)
    np.testing.assert_allclose(by_chain, truth, atol=bound * (2 * own + rejection))


def test_too_few_draws_of_the_events_are_an_error_not_a_short_chain(four_events):
    posterior, alternative = four_events
    task = Task(posterior, alternative, 1000, 0, 1, 0, 1, False)
    draws = _rejected(posterior, alternative, 1, (1, 20), seed=1)
    part = _components.Component(1, draws, np.array([-4.0]), 0.0, {})
    with pytest.raises(SamplerError, match="only 20 of 20 draws"):
        _components.combine(task, [part], np.array([]), 0.0)


def test_nuts_on_components_is_right(four_events, tmp_path):
    posterior, alternative = four_events
    component = sample_alternative(
        *four_events, "nuts_component", draws=500, tune=300, seed=1, progress=False
    )
    _check_component(component, posterior, alternative)
    some = blocks(_draws(component))[::2]
    assert same_law(alternative, some, _reference(posterior, alternative), FALSE_ALARM)
    table = component["components"].to_dataset()
    logs = alternative.event_log_probabilities(posterior).values
    known = dict(zip(alternative.events.names, logs, strict=True))
    expected = [known[str(name)] for name in table.component.values]
    np.testing.assert_allclose(table.log_probability, expected, atol=1e-8)
    _round_trip(component, tmp_path / "component.nc")


def _check_component(tree, posterior, alternative):
    """What is promised of NUTS on components, in every regime."""
    assert tree.attrs["divergences"] == 0
    values = coordinates(_draws(tree))
    figures = convergence(values)
    assert figures["rhat"].max() <= 1.01
    yardstick = Yardstick.of(posterior, alternative, seed=5)
    exact = yardstick.draws
    error = np.hypot(figures["mcse"], exact.std(axis=1) / np.sqrt(exact.shape[1]))
    assert np.all(np.abs(values.mean(axis=(1, 2)) - exact.mean(axis=1)) <= 4 * error)
    truth = alternative.log_probability(posterior).value
    assert tree.attrs["log_probability"] == pytest.approx(truth, abs=0.005)
    draws = _draws(tree)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()


@pytest.mark.parametrize("wrong", [None, "mean", "log P", "divergence"])
def test_what_is_promised_of_components_can_fail(wrong, four_events):
    """Exact draws pass for those of NUTS, until something is wrong with them."""
    tree = sample_alternative(*four_events, seed=1, progress=False)
    tree.attrs["divergences"] = 1 if wrong == "divergence" else 0
    if wrong == "mean":
        cost = tree["posterior"]["theta_cost"]
        cost[..., 1] += 0.15 * cost[..., 1].std()  # nothing is asked of this coordinate
    if wrong == "log P":
        tree.attrs["log_probability"] += 0.01
    with nullcontext() if wrong is None else pytest.raises(AssertionError):
        _check_component(tree, *four_events)


@pytest.mark.parametrize(
    ("sampler", "kind", "goal"),
    [
        pytest.param(name, *one, marks=[pytest.mark.slow] * (name != "exact_step" or one[1] != -40))
        for name in ("exact_step", "nutpie_component", "nuts_component")
        for one in REGIMES
    ],
)
def test_samplers_of_components_are_right_in_all_regimes(sampler, kind, goal):
    posterior, alternative = target(kind, goal)
    tree = sample_alternative(posterior, alternative, sampler, progress=False)
    if sampler == "exact_step":
        tree.attrs["divergences"] = 0  # it has no trajectories
        assert np.all(convergence(coordinates(_draws(tree)))["ess_bulk"] > 0.8 * 4000)
    _check_component(tree, posterior, alternative)


def _measured(tree, truth, tests):
    """Whether SMC found the log-probability, by Student's t over its independent runs."""
    bound = stats.t.isf(FALSE_ALARM / tests / 2, tree.attrs["log_probability_freedom"])
    error = tree.attrs["log_probability_standard_error"]
    return abs(tree.attrs["log_probability"] - truth) <= bound * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("regime", "sampler", "draws", "least", "wider", "tests"),
    [
        (regime, "smc_events", 1000, 0.1 if regime[1] > -100 else 0.25, 1.1, 6)
        for regime in REGIMES
        if regime[1] < -4
    ]
    + [(("b", -4), "smc_graded", 500, 0.15, 2.0, 1)],
)
def test_smc_finds_the_probability(regime, sampler, draws, least, wider, tests):
    posterior, alternative = target(*regime)
    tree = sample_alternative(
        posterior, alternative, sampler, draws=draws, chains=8, progress=False
    )
    assert tree.attrs["log_probability_standard_error"] < least
    for scale, right in ((1.0, True), (wider, False)):  # the control: a wider posterior
        truth = alternative.log_probability(posterior, scale=scale).value
        assert _measured(tree, truth, tests) == right


def test_smc_ends_inside_and_says_how_it_got_there(four_events, tmp_path):
    _, alternative = four_events
    tree = sample_alternative(*four_events, "smc_graded", draws=100, chains=2, progress=False)
    draws = _draws(tree)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    assert tree["sample_stats"]["beta"].dtype == float
    assert float(tree["sample_stats"]["beta"].max()) == 1.0
    settings = {"particles": 100, "threshold": 0.5, "sharpness": 4.0}
    assert settings.items() <= tree.attrs.items()
    _round_trip(tree, tmp_path / "smc.nc")


def test_smc_on_a_wall_breaks_off_with_a_message():
    posterior, alternative = target("b", -400)
    with pytest.raises(SamplerError, match="SMC: none of 100 particles starts inside the set"):
        sample_alternative(posterior, alternative, "smc_hard", draws=100, progress=False)


@pytest.mark.slow
def test_slice_stays_in_the_region_it_started_in(tmp_path):
    posterior, alternative = target("b", -400)
    tree = sample_alternative(
        posterior, alternative, "slice", draws=50, tune=50, seed=2, progress=False
    )
    inside = membership(alternative, blocks(_draws(tree))).reshape(4, 50, -1)
    assert inside.any(axis=2).all()
    visited = inside.any(axis=1)
    assert visited.sum(axis=1).tolist() == [1, 1, 1, 1]
    assert visited.sum(axis=0).tolist() == [1, 1, 1, 1]
    _round_trip(tree, tmp_path / "slice.nc")


@pytest.mark.slow
@pytest.mark.parametrize("sampler", samplers.FULL)
def test_every_sampler_gives_the_same_shape_and_saves(sampler, four_events, tmp_path):
    tree = sample_alternative(*four_events, sampler, **SHORT)
    assert set(tree.children) >= {"posterior", "sample_stats"}
    draws = _draws(tree)
    assert draws.theta_reward.shape == (2, 200, 2)
    assert draws.theta_cost.shape == (2, 200, 1, 2)
    for name in ("sampler", "seconds", "compile_seconds", "seed", "pymc_version"):
        assert name in tree.attrs
    xr.testing.assert_equal(draws, _draws(sample_alternative(*four_events, sampler, **SHORT)))
    _round_trip(tree, tmp_path / "tree.nc")


@pytest.mark.slow
def test_another_model_with_the_same_posterior_gives_the_same(four_events):
    """From the pulls one by one, with Laplace's reference instead of the closed form."""
    instance = bf.instances.end_of_optimism(0.3)
    arms = np.arange(200) % 5
    history = bf.History(instance.problem, arms, *instance.pull(arms, seed=1))
    posterior = history.posterior()
    alternative = bf.Alternative(instance.problem, posterior.best())
    tree = sample_alternative(
        posterior, alternative, "nuts_component", model=models.linear_gaussian(history),
        progress=False,
    )  # fmt: skip
    _check_component(tree, posterior, alternative)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "gibbs"}, "sampler: expected one of exact, exact_step"),
        ({"draws": 0}, "draws: expected at least 1, got 0"),
        ({"softness": 0.1}, "softness: exact has no such option"),
        ({"posterior": None}, "posterior: expected a Posterior, got None"),
        ({"alternative": 3}, "alternative: expected an Alternative, got 3"),
        ({"model": "any"}, "model: exact needs the closed form"),
    ],
)
def test_bad_input(four_events, changes, message):
    posterior, alternative = four_events
    arguments = {"posterior": posterior, "alternative": alternative, "progress": False, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        sample_alternative(**arguments)


def test_models_are_freed_with_their_step_methods(four_events):
    """A step method refers to its model, so a weak dictionary of them freed neither."""
    model = models.linear_gaussian(four_events[0])
    with mcmc.light_functions():
        step = mcmc.step_method(model, pm.NUTS, {})
        assert mcmc.step_method(model, pm.NUTS, {}) is step
    model, step = weakref.ref(model), None
    gc.collect()
    assert model() is None


# --- Bounded parameters ---


def bounded(radius):
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], thresholds=0.5, parameter_radius=radius)
    posterior = bf.Posterior.from_history(problem, [0, 1], [1.0, 0.2], [[0.1], [0.2]])
    return posterior, bf.Alternative(problem, 0)


def test_components_of_a_bounded_problem_are_refused():
    with pytest.raises(SamplerError, match="parameter_radius"):
        sample_alternative(*bounded(2.0), "nuts_component", progress=False)


def test_starts_lie_within_the_bounds():
    posterior, alternative = bounded(0.7)
    task = Task(posterior, alternative, 10, 10, 50, 0, 1, False)
    starts = task.parameters(np.array(task.starts()))
    assert membership(alternative, starts).any(axis=1).all()
    assert np.linalg.norm(starts, axis=2).max() <= 0.7
    task = Task(*bounded(1e-3), 10, 10, 2, 0, 1, False)
    with pytest.raises(SamplerError, match=r"starts: of .* none lies within the parameter_radius"):
        task.starts()


def rejected_from_the_ball():
    """Draws of the bounded posterior that are in the set, and which ones those are."""
    posterior, alternative = bounded(1.0)
    every = gaussian_draws(posterior, 400_000, 5)
    every = every[in_balls(posterior.problem, every)]
    inside = membership(alternative, every).any(axis=1)
    return every[inside], inside


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["smc_events", "smc_graded", "smc_hard", "slice"])
def test_samplers_of_a_bounded_problem_against_rejection(sampler):
    tree = sample_alternative(*bounded(1.0), sampler, progress=False)
    _check_against(tree, *rejected_from_the_ball())


def _check_against(tree, reference, inside):
    """Means of the draws and log P, against draws of the posterior that were kept."""
    values = coordinates(_draws(tree))
    exact = reference.reshape(len(reference), -1).T
    error = np.hypot(convergence(values)["mcse"], exact.std(axis=1) / np.sqrt(exact.shape[1]))
    bound = z_bound(len(exact), FALSE_ALARM)
    assert np.all(np.abs(values.mean(axis=(1, 2)) - exact.mean(axis=1)) < bound * error)
    if "log_probability" in tree.attrs:
        own = tree.attrs["log_probability_standard_error"]
        truth, rejection = counted(inside)
        off = tree.attrs["log_probability"] - truth
        freedom = tree.attrs.get("log_probability_freedom", np.inf)
        assert abs(off) < stats.t.isf(FALSE_ALARM / 2, freedom) * np.hypot(own, rejection)
        assert abs(off) < 0.2


@pytest.mark.parametrize("wrong", [None, "bounds", "mean", "log P"])
def test_what_is_checked_against_rejection_can_fail(wrong):
    """Exact draws pass for those of a sampler, until something is wrong with them."""
    reference, inside = rejected_from_the_ball()
    tree = sample_alternative(*bounded(None if wrong == "bounds" else 1.0), seed=1, progress=False)
    tree.attrs["log_probability"] = counted(inside)[0] + (0.1 if wrong == "log P" else 0.0)
    tree.attrs["log_probability_standard_error"] = 0.01
    if wrong == "mean":
        cost = tree["posterior"]["theta_cost"]
        cost[..., 1] += 0.15 * cost[..., 1].std()
    with nullcontext() if wrong is None else pytest.raises(AssertionError):
        _check_against(tree, reference, inside)


# --- Models with other variables than the parameters ---


def test_a_model_with_another_prior_of_the_scales_is_not_the_same():
    """Data that free variables depend on are constants of the model that is sampled."""
    data = history(problem(1), "unknown_noise", np.arange(60) % 3, seed=8)
    model, alternative = models.unknown_noise(data), bf.Alternative(data.problem, 0)
    task = Task(bf.Posterior(data.problem), alternative, 10, 10, 2, 0, 1, False, model)
    first = task.whitened("hard")
    assert task.whitened("hard") is first
    pm.set_data({"prior_pulls": 9.0}, model)
    assert task.whitened("hard") is not first


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler",
    ["nutpie_component", "nuts_component", "smc_events", "smc_graded", "slice", "demetropolis"],
)
def test_samplers_of_a_model_that_learns_scales_against_rejection(sampler):
    """DEMetropolisZ in a set of one region, and with more draws: it learns its steps slowly."""
    this, draws = problem(1), 1000
    if sampler == "demetropolis":
        draws = 10_000
        this = bf.Problem(
            this.arms, this.thresholds, candidates=this.candidates[:2],
            reward_noise=this.reward_noise, cost_noise=this.cost_noise,
        )  # fmt: skip
    data = history(this, "unknown_noise", np.arange(60) % 3, seed=8)
    alternative = bf.Alternative(this, 0)
    every = student_draws(data, 400_000, 6)
    inside = membership(alternative, every).any(axis=1)
    tree = sample_alternative(
        bf.Posterior(this), alternative, sampler, draws=draws, model=models.unknown_noise(data),
        progress=False,
    )  # fmt: skip
    found = _draws(tree)
    assert alternative.contains(found.theta_reward, found.theta_cost).all()
    _check_against(tree, every[inside], inside)


@pytest.mark.slow
def test_demetropolis_lacks_a_small_region_and_r_hat_does_not_tell():
    """No chain starts where less than a twentieth of the probability lies, and few get there."""
    data = history(problem(1), "linear_gaussian", np.arange(60) % 3, seed=8)
    posterior, alternative = data.posterior(), bf.Alternative(data.problem, 0)
    exact = membership(alternative, _reference(posterior, alternative)).mean(axis=0)
    small = alternative.events.index("w better")
    assert 0.01 < exact[small] < 0.05
    tree = sample_alternative(posterior, alternative, "demetropolis", draws=10_000, progress=False)
    assert convergence(coordinates(_draws(tree)))["rhat"].max() < 1.01
    share = membership(alternative, blocks(_draws(tree))).mean(axis=0)
    assert share[small] < 0.5 * exact[small]


def test_particles_of_a_model_with_other_variables_are_taken_apart():
    kernel = SimpleNamespace(
        var_info={"before_log__": ((), 1), "whitened": ((2, 2), 4), "after_log__": ((2,), 2)},
        tempered_posterior=np.arange(14.0).reshape(2, 7),
    )
    found = _smc._whitened(kernel)
    assert found.tolist() == [[[1, 2], [3, 4]], [[8, 9], [10, 11]]]
