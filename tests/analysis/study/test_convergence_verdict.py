"""The verdict: does the error fall at the optimal rate?"""

from functools import partial

import numpy as np
import pytest
import xarray as xr
from error_curves import brownian, results
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.analysis.study import convergence, judge
from bayes_feasible.analysis.study.decay import RateRegression

TIMES = [m * 10**p for p in range(1, 6) for m in (1, 2, 5)] + [10**6]


@pytest.fixture(scope="module")
def instance():
    return bf.instances.end_of_optimism(0.3)


@pytest.fixture(scope="module")
def optimum(instance):
    return bf.optimal_rate(instance)


@pytest.fixture(scope="module")
def data(instance, optimum):
    """Two true rules of fixed allocation, and two curves that no such rule can have."""
    shares = optimum.allocation.values / optimum.allocation.values.sum()
    found = results(instance, {"Oracle": shares, "Uniform": np.full(5, 0.2)}, TIMES, 50, seed=2)
    made_up = found.sel(rule=["Oracle", "Oracle"]).assign_coords(rule=["too fast", "improving"])
    made_up = made_up.copy(deep=True)
    rate, time = optimum.value, np.array(TIMES)
    made_up.log_error[0] = brownian(1.1 * rate, time, 50, 4)
    made_up.log_error[1] = brownian(0.7 * rate, time, 50, 5)
    made_up.efficiency[1] = 1 - 0.3 * (time / 1e6) ** -0.25
    return xr.concat([found, made_up], "rule")


@pytest.fixture(scope="module")
def summary(data, instance):
    return convergence.summarise(data, instance, progress=False)


def test_the_oracle_attains_the_optimal_rate_with_a_narrow_interval(summary, optimum):
    one = summary.sel(rule="Oracle")
    assert one.verdict == "attains"
    assert float(one.relative_upper - one.relative_lower) < 0.02
    spread = float(one.rate_draws.std())
    assert abs(float(one.relative_rate) - 1) < 4 * spread  # false alarm 6e-5
    assert float(one.relative_lower) < 1 < float(one.relative_upper)
    assert float(one.rate) == pytest.approx(float(one.relative_rate) * optimum.value)
    assert float(one.rate_lower) == pytest.approx(float(one.relative_lower) * optimum.value)
    draws = one.rate_draws.values.ravel()
    allowed = draws[draws <= 1]  # nothing beats the optimum
    np.testing.assert_allclose(
        [one.bounded_lower, one.bounded_upper], np.quantile(allowed, [0.025, 0.975])
    )
    assert float(one.within) == np.mean(allowed >= 0.95) >= 0.95


def test_the_fits_are_sound_and_the_table_reads_well(summary):
    assert float(summary.rhat.max()) <= 1.01
    assert float(summary.ess_bulk.min()) >= 400
    assert float(summary.divergences.sum()) == 0
    assert set(summary.trouble.values) == {""}
    text = convergence.table(summary)
    assert text.startswith("Verdict after 1,000,000 pulls, 50 replicates")
    for expected in ("95 % interval", "Oracle", "attains Γ", "below Γ", "undecided", "FAULT"):
        assert expected in text
    assert "nan" not in text
    assert max(map(len, text.splitlines())) <= 110


def test_uniform_is_below_with_its_own_exponent(summary, instance, optimum):
    one = summary.sel(rule="Uniform")
    own = float(bf.exponents(instance, np.full(5, 0.2)).min()) / optimum.value
    assert one.verdict == "below"
    assert abs(float(one.relative_rate) - own) < 4 * float(one.rate_draws.std())
    assert abs(float(one.relative_rate) - 1) > 4 * float(one.rate_draws.std())  # the control
    assert float(one.relative_lower) < own < float(one.relative_upper)
    assert float(one.final_efficiency) == pytest.approx(own, rel=0.01)
    assert "not on the way" in one.explanation.item()


def test_a_rate_above_the_optimum_is_a_fault(summary):
    one = summary.sel(rule="too fast")
    assert one.verdict == "fault"
    assert "do not trust" in one.explanation.item()
    assert float(one.above) > 0.999
    assert float(one.bounded_upper) <= 1


def test_a_rule_whose_allocation_improves_is_undecided(summary):
    one = summary.sel(rule="improving")
    assert one.verdict == "undecided"
    # Its shortfall of 0.3 falls as t^(-1/4), to 0.05 at 1e6 * 6^4; log-odds say a little sooner.
    assert 1e8 < float(one.needs) < 1.4e9
    needed = f"{float(one.needs):.0e}".replace("+0", "")
    text = one.explanation.item()
    assert text.startswith(f"needs T ≈ {needed}: its allocation can reach 70 % of Γ so far")
    assert "still improves" in text


@pytest.mark.parametrize(("gain", "verdict"), [(0.06, "undecided"), (0.04, "below")])
def test_whatever_improves_by_more_than_the_region_is_not_called_below(
    data, instance, gain, verdict
):
    """Even if it would take for ever at that pace: rules begin slowly, and 0.05 is the region."""
    slow = data.sel(rule=["improving"]).copy(deep=True)
    slow.efficiency[:] = 0.5 + gain * (np.log10(np.array(TIMES)) - 6)
    found = convergence.summarise(slow, instance, regression=False, progress=False)
    assert found.verdict.item() == verdict
    if verdict == "undecided":
        assert found.explanation.item().startswith("needs T ≈ 1e7: its allocation can reach 50 %")


@pytest.mark.parametrize(
    ("shortfall", "verdict", "reached"), [(0.06, "undecided", "94 %"), (0.04, "attains", "96 %")]
)
def test_a_fit_that_overshoots_while_the_allocation_improves_is_no_fault(
    data, instance, shortfall, verdict, reached
):
    """The same curves are a fault where the allocation has not changed."""
    fast = data.sel(rule=["too fast"]).copy(deep=True)
    fast.efficiency[:] = 1 - shortfall * (np.array(TIMES) / 1e6) ** -0.25
    found = convergence.summarise(fast, instance, regression=False, progress=False)
    assert found.above.item() > 0.999
    assert found.verdict.item() == verdict
    text = found.explanation.item()
    for words in (f"can reach {reached} of Γ", "overshoots", "nothing beats Γ"):
        assert words in text
    assert text.startswith("needs T ≈ ") == (verdict == "undecided")
    table = convergence.table(found)
    assert f"{found.relative_upper.item():.4f} †" in table
    assert "(† wholly above 1, where no rule can be in the long run" in table
    fast.efficiency[:] = np.minimum(0.8, 0.3 + 0.1 * np.log10(np.array(TIMES)))
    fast.efficiency[..., -4:] = 0.8  # the control: an allocation that stalled explains nothing
    found = convergence.summarise(fast, instance, regression=False, progress=False)
    assert found.verdict.item() == "fault"
    assert "†" not in convergence.table(found)


def test_an_allocation_that_is_not_there_yet_does_not_attain(data, instance):
    """Its error curve bends towards the optimal rate, but the pulls could not reach it so far."""
    late = data.sel(rule=["Oracle"]).copy(deep=True)
    late.efficiency[:] = 1 - 0.1 * (np.array(TIMES) / 1e6) ** -0.25
    found = convergence.summarise(late, instance, regression=False, progress=False)
    assert found.within.item() >= 0.95
    assert found.verdict.item() == "undecided"
    assert "can reach 90 % of Γ so far" in found.explanation.item()
    # A shortfall of 0.1 that falls as t^(-1/4) is 0.05 after 1e6 * 2^4.
    assert 1e7 <= found.needs.item() <= 2e7


def test_curves_are_means_and_bands_over_replicates(summary, data, optimum):
    errors = data.log_error.sel(rule="Uniform").values
    one = summary.sel(rule="Uniform")
    np.testing.assert_allclose(one.log_error, errors.mean(0))
    np.testing.assert_allclose(one.log_error_lower, np.quantile(errors, 0.025, axis=0))
    np.testing.assert_allclose(one.decay[-1], -errors[:, -1].mean() / 1e6 / optimum.value)
    slope = -(errors[:, -1] - errors[:, TIMES.index(10**5)]) / 9e5 / optimum.value
    np.testing.assert_allclose(one.slope[-1], slope.mean())
    np.testing.assert_allclose(one.local_exponent, slope.mean())
    half = stats.t.ppf(0.975, 49) * slope.std(ddof=1) / np.sqrt(50)
    np.testing.assert_allclose(one.local_upper - one.local_lower, 2 * half)
    away = np.abs(data.allocation.sel(rule="Uniform").values - optimum.allocation.values).sum(-1)
    np.testing.assert_allclose(one.distance, away.mean(0) / 2)


def test_accuracy_bands_are_wilsons(data, instance):
    half = data.sel(rule=["Oracle"]).copy(deep=True)
    half.correct[0, :20] = False
    one = convergence.summarise(half, instance, regression=False, progress=False).isel(time=0)
    low, high = stats.binomtest(30, 50).proportion_ci(2 * stats.norm.cdf(2) - 1, method="wilson")
    assert float(one.accuracy.item()) == 0.6
    np.testing.assert_allclose([one.accuracy_lower.item(), one.accuracy_upper.item()], [low, high])


def test_without_the_regression_the_last_decade_decides(data, instance, monkeypatch):
    monkeypatch.setattr(RateRegression, "fit", pytest.fail)
    found = convergence.summarise(data, instance, regression=False, progress=False)
    expected = ["attains", "below", "fault", "undecided"]
    assert found.verdict.values.tolist() == expected
    factor = 0.75 * np.log(10) / 9e5 / found.attrs["rate"]  # what the polynomial factor adds
    np.testing.assert_allclose(found.relative_rate, found.local_exponent - factor, rtol=1e-6)
    assert "rate_draws" not in found
    assert np.isnan(found.rhat).all()


@pytest.mark.parametrize("regression", [True, False])
def test_little_data_neither_convicts_nor_acquits_the_oracle(data, instance, regression):
    short = data.sel(rule=["Oracle"]).isel(time=slice(0, 7))  # 1000 pulls
    found = convergence.summarise(short, instance, regression=regression, progress=False)
    assert found.verdict.item() == "undecided"
    assert found.needs.item() > 1000
    assert found.explanation.item().startswith(f"needs T ≈ {found.needs.item():,.0f}: its rate may")
    assert f"Oracle: undecided: needs T ≈ {found.needs.item():,.0f}: " in convergence.table(found)
    hardly = short.isel(time=slice(0, 5))
    found = convergence.summarise(hardly, instance, regression=regression, progress=False)
    assert found.verdict.item() == "undecided"
    # From a horizon of 200 pulls: until there is something to fit, 40 / Γ, rounded up.
    assert found.explanation.item().startswith("needs T ≈ 5,000: the error has hardly begun")


def test_one_replicate_decides_nothing_without_a_model(data, instance):
    single = data.isel(replicate=[0])
    found = convergence.summarise(single, instance, regression=False, progress=False)
    assert set(found.verdict.values) == {"undecided"}
    oracle = found.sel(rule="Oracle")
    assert oracle.explanation.item() == "needs more replicates: its rate may be 0 % to 100 % of Γ"
    assert float(oracle.needs) == np.inf
    evidence = judge.Evidence(np.abs(np.random.default_rng(0).normal(size=4000)), 0.95)  # a prior
    within = float(np.mean(evidence.at_most_optimal >= 0.95))
    approach = judge.Approach(1e4, np.inf, 0.5, moved=False, improves=False)
    assert judge.reach_verdict(evidence, within, approach, 0.05)["verdict"] == "undecided"


def test_ties_and_certainty_have_no_rate():
    tie = bf.Instance(bf.Problem(np.eye(2)), [1.0, 1.0])
    with pytest.warns(UserWarning, match="tie"):
        simulated = bf.simulate(tie, {"u": bf.Uniform}, 100, 2, [10, 100], executor=False)
    tied = convergence.summarise(simulated, tie, progress=False)
    certain = bf.Instance(bf.Problem([[1, 0]]), [1, 1])
    simulated = bf.simulate(certain, {"u": bf.Uniform}, 100, 2, [10, 100], executor=False)
    sure = convergence.summarise(simulated, certain, progress=False)
    for found, words in ((tied, "candidates tie"), (sure, "no mistake is possible")):
        assert found.verdict.item() == "undefined"
        assert words in found.explanation.item()
        assert "undefined" in convergence.table(found)


def test_bad_input(data, instance):
    run = partial(convergence.summarise, progress=False)
    for arguments, message in (
        (partial(run, data, instance, region=1.5), "region: expected a number .* got 1.5"),
        (partial(run, data, instance, probability=0.0), "probability: expected"),
        (partial(run, None, instance), "results: expected a Dataset"),
        (partial(run, data, 3), "instance: expected an Instance, got 3"),
        (partial(run, data.drop_vars("correct"), instance), "no variable 'correct'"),
        (partial(run, data.isel(replicate=slice(0)), instance), "nothing is finished"),
        (partial(run, data, bf.instances.random_ball(2, 3, 0)), "5 arms, but the instance has 3"),
        (partial(run, data.assign(log_error=data.log_error * np.nan), instance), "holds NaN"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            arguments()


@pytest.mark.slow
def test_simulated_rules_over_a_million_pulls(instance, optimum):
    rules = {"Oracle": bf.Oracle, "Uniform": bf.Uniform}
    found = bf.simulate(instance, rules, 10**6, 50, seed=3)
    summary = convergence.summarise(found, instance, progress=False)
    oracle, uniform = summary.sel(rule="Oracle"), summary.sel(rule="Uniform")
    assert (oracle.verdict, uniform.verdict) == ("attains", "below")
    assert float(oracle.relative_upper - oracle.relative_lower) < 0.02
    assert float(oracle.relative_lower) < 1 < float(oracle.relative_upper)
    own = float(bf.exponents(instance, np.full(5, 0.2)).min()) / optimum.value
    assert float(uniform.relative_lower) < own < float(uniform.relative_upper)


@pytest.mark.slow
def test_blfaips_over_a_million_pulls(instance):
    found = bf.simulate(instance, {"BLFAIPS": bf.BLFAIPS}, 10**6, 8, seed=3)
    summary = convergence.summarise(found, instance, progress=False)
    assert float(summary.local_exponent.item()) >= 0.95
    assert summary.verdict.item() == "attains"
