"""Log-probabilities of error by PyMC's samplers, and the cost of many checkpoints."""

import numpy as np
import pytest
import xarray as xr
from helpers import agrees, gaussian_draws, honest
from scipy import stats
from test_evidence import (
    FALSE_ALARM,
    PULLS,
    gaussian_history,
    is_exact,
    is_that_of,
    logistic_data,
    logistic_truth,
)

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible._draws import stack_blocks
from bayes_feasible.analysis.evidence import result, sampled
from bayes_feasible.analysis.evidence.evidence import Refused, log_error
from bayes_feasible.analysis.samplers import components, mcmc
from bayes_feasible.analysis.samplers.bridge import EventMap, bridge
from bayes_feasible.analysis.samplers.targets import target


def test_a_bridge_between_gaussians_has_the_known_ratio_and_an_honest_error():
    """From N(0, 1) to 3 exp(-(x - 0.5)² / (2 · 0.8²)), whose integral over that of the base is."""
    expected = np.log(3 * 0.8)

    def log_weight(x):
        return np.log(3) - 0.5 * ((x - 0.5) / 0.8) ** 2 + 0.5 * x**2

    def scores(spread):
        found = []
        for seed in range(50):
            rng = np.random.default_rng(seed)
            own, there = 0.5 + spread * rng.standard_normal((4, 500)), rng.standard_normal(2000)
            value, error = bridge(log_weight(own), log_weight(there))
            found.append((value - expected) / error)
        return np.array(found)

    right = scores(0.8)
    assert honest(right, FALSE_ALARM)
    # the control: draws of a law a tenth too wide, and errors half or twice as large
    assert not any(honest(wrong, FALSE_ALARM) for wrong in (scores(0.88), 2 * right, right / 2))


def test_a_bridge_of_equal_weights_is_exact():
    assert bridge(np.full((4, 10), -700.0), np.full(40, -700.0)) == (-700.0, 0.0)


# --- What is refused, on draws that are right and on the same made wrong.


@pytest.fixture(scope="module")
def gaussian():
    """One model for the targets a and b; each test gives it data."""
    return models.linear_gaussian(target("a", -4)[0])


def _chains(parameters, **more):
    """Draws (chain, draw, block, feature) as nutpie would give them."""
    dims = ("chain", "draw")
    values = {
        "theta_reward": ((*dims, "feature"), parameters[:, :, 0]),
        "theta_cost": ((*dims, "constraint", "feature"), parameters[:, :, 1:]),
        **{name: (dims, value) for name, value in more.items()},
    }
    return xr.Dataset(values), xr.Dataset({"diverging": (dims, np.zeros(parameters.shape[:2]))})


def _apart(drawn, statistics):
    """One chain half a standard deviation off, where no event asks anything."""
    free = drawn["theta_cost"][..., 1]
    drawn["theta_cost"][0, ..., 1] += 0.5 * free.std()


def _diverged(drawn, statistics):
    statistics["diverging"][2, 5] = 1


def _uneven(drawn, statistics):
    """Weights nothing like those of the standard normal: there is nothing to bridge."""
    drawn["log_weight"] += 100.0 + 10.0 * np.random.default_rng(0).standard_normal((4, 1000))


REFUSALS = [
    (None, None),
    (_apart, r"{}: the chains disagree \(R-hat 1\.\d+, at most 1\.01 is allowed\)"),
    (_diverged, "{}: 1 transitions diverged"),
]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [*REFUSALS, (_uneven, r"{}: the standard error is .* nats, at most 0\.5 is allowed")],
)
def test_components_are_refused_where_their_chains_are_wrong(spoil, reason, gaussian, monkeypatch):
    """Under the Gaussian model a component is a standard normal, so independent draws are right."""
    posterior, alternative = target("a", -40)

    def independent(task, model, starts, draws, stream):
        rng = np.random.default_rng([task.seed, stream - 100])
        dims = ("chain", "draw", "parameter", "axis")
        white = xr.Dataset({"whitened": (dims, rng.standard_normal((4, draws, 2, 2)))})
        statistics = xr.Dataset({"diverging": (dims[:2], np.zeros((4, draws)))})
        return mcmc.Run(white, statistics, 0.0)

    class Spoilt(EventMap):
        """The draws in the event, with what is wrong added to them."""

        def __call__(self, draws):
            parameters, log_weight = super().__call__(draws)
            drawn, _ = _chains(parameters, log_weight=log_weight)
            spoil(drawn, statistics)
            return stack_blocks(drawn), drawn["log_weight"].values

    statistics = xr.Dataset({"diverging": (("chain", "draw"), np.zeros((4, 1000)))})
    if spoil:
        monkeypatch.setattr(components, "event_map", Spoilt)
        monkeypatch.setattr(
            components.mcmc, "trajectory_figures",
            lambda _: {"divergences": float(statistics["diverging"].sum())},
        )  # fmt: skip
    monkeypatch.setattr(mcmc, "nutpie_chains", independent)
    models.set_data(gaussian, posterior)
    if reason is None:
        found = log_error(gaussian, alternative, "component", draws=4000)
        assert is_exact(found, alternative, posterior, wider=1.01)
        return
    with pytest.raises(Refused, match=reason.format("component")) as refusal:
        log_error(gaussian, alternative, "component", draws=4000)
    assert np.isfinite(refusal.value.evidence.value)


@pytest.mark.parametrize(
    ("goal", "spoil", "reason"),
    [
        *((-4, *one) for one in REFUSALS),
        (-40, None, r"{}: 0 of 20000 draws hit the set, worth 0 independent ones; at least 50"),
    ],
)
def test_frequencies_are_refused_where_they_are_rare_or_their_chains_wrong(
    goal, spoil, reason, gaussian, monkeypatch
):
    posterior, alternative = target("b", goal)

    def independent(model, names, draws, tune, chains, seed, progress):
        rng = np.random.default_rng(seed)
        found = _chains(gaussian_draws(posterior, chains * draws, rng).reshape(4, -1, 2, 2))
        if spoil:
            spoil(*found)
        return found

    monkeypatch.setattr(sampled.mcmc, "nuts", independent)
    models.set_data(gaussian, posterior)
    if reason is None:
        assert is_exact(log_error(gaussian, alternative, "frequency"), alternative, posterior, 1.5)
        return
    with pytest.raises(Refused, match=reason.format("frequency")):
        log_error(gaussian, alternative, "frequency")


@pytest.mark.slow
def test_smc_is_refused_where_no_particle_arrives_or_the_populations_differ(gaussian, monkeypatch):
    """Steps so long that no particle survives them; and less tolerance than 1000 particles have."""
    posterior, alternative = target("a", -40)
    models.set_data(gaussian, posterior)
    with pytest.raises(Refused, match="smc: SMC: no particle is inside the set at the end"):
        log_error(gaussian, alternative, "smc", draws=1000, threshold=0.05)
    monkeypatch.setattr(result, "MOST_ERROR", 1e-3)
    with pytest.raises(Refused, match=r"smc: the standard error is .* nats, at most 0\.001 is"):
        log_error(gaussian, alternative, "smc", draws=1000)


@pytest.fixture(scope="module")
def logistic():
    return models.logistic(logistic_data(2))


@pytest.mark.slow
@pytest.mark.parametrize("goal", [-4, -44, -410])
def test_components_of_nuts_however_rare_the_error(logistic, goal):
    data = logistic_data(PULLS[goal])
    models.set_data(logistic, data)
    found = log_error(logistic, bf.Alternative(data.problem, 0), "component", draws=8000, seed=1)
    assert found.standard_error < 0.02
    assert is_that_of(found, PULLS[goal], PULLS[goal] + 1, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "within"), [(-4, 0.1), (-44, 0.2), (-410, 0.5)])
def test_smc_of_the_events(logistic, goal, within):
    data = logistic_data(PULLS[goal])
    models.set_data(logistic, data)
    found = log_error(logistic, bf.Alternative(data.problem, 0), "smc", draws=8000, seed=2)
    # Four runs give three degrees of freedom.
    bound = stats.t.isf(FALSE_ALARM / 6, found.diagnostics["freedom"]) * found.standard_error
    for pulls, right in ((PULLS[goal], True), (PULLS[goal] + 1, False)):  # the control: one more
        truth, _ = logistic_truth(logistic_data(pulls))
        assert (abs(found.value - truth) < min(bound, within)) == right


@pytest.mark.slow
def test_frequency_of_nuts_where_it_is_not_rare_and_refused_where_it_is(logistic):
    data = logistic_data(PULLS[-4])
    models.set_data(logistic, data)
    alternative = bf.Alternative(data.problem, 0)
    found = log_error(logistic, alternative, "frequency", draws=20_000, seed=3)
    assert is_that_of(found, PULLS[-4], 2 * PULLS[-4])
    models.set_data(logistic, logistic_data(PULLS[-20]))
    with pytest.raises(Refused, match="frequency: 0 of 20000 draws hit the set"):
        log_error(logistic, alternative, "frequency", draws=20_000, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("goal", [-4, -40, -400])
def test_components_are_the_closed_form_for_the_gaussian_model(goal):
    posterior, alternative = target("b", goal)
    model = models.linear_gaussian(posterior)
    found = log_error(model, alternative, "component", draws=8000, seed=4)
    assert is_exact(found, alternative, posterior, wider=1.03, tests=3)
    assert abs(found.value - alternative.log_probability(posterior).value) < 0.01


@pytest.mark.slow
def test_components_and_quadrature_agree_where_scales_are_unknown():
    history = gaussian_history(40, seed=1)
    model, alternative = models.unknown_noise(history), bf.Alternative(history.problem, 0)
    exact = log_error(model, alternative, draws=100_000)
    # the control: the number of those who take the scales for known
    known = alternative.log_probability(history.posterior()).value
    found = log_error(model, alternative, "component", draws=20_000, seed=5)
    error = np.hypot(found.standard_error, exact.standard_error)
    assert agrees(found.value, exact.value, error, 1, FALSE_ALARM)
    assert not agrees(found.value, known, error, 1, FALSE_ALARM)
    found = log_error(model, alternative, "smc", draws=8000, seed=5)
    bound = stats.t.isf(FALSE_ALARM / 2, found.diagnostics["freedom"]) * found.standard_error
    assert abs(found.value - exact.value) < min(bound, 0.2) < abs(found.value - known)
