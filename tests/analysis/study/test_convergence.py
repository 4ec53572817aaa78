"""Where the rules end up: their allocation's efficiency, and the decay of the error.

Means are over replicates with fixed seeds; each bound of an efficiency is at least three standard
errors from what is measured, so that another stream of random numbers would pass too. Rules that do
not adapt stay below all of them. Slopes are compared with a false-alarm rate of 1e-4 a test.
"""

from functools import partial

import numpy as np
import pytest
from scipy import stats

import bayes_feasible as bf

FALSE_ALARM = 1e-4
TRUE_POSTERIOR = partial(bf.BLFAIPS, eta=1.0)
RULES = {
    "BLFAIPS": bf.BLFAIPS,
    "BLFAIPS eta=1": TRUE_POSTERIOR,
    "BestResponse": bf.BestResponse,
    "PlugIn": bf.PlugIn,
    "TopTwo information": partial(bf.TopTwo, select="information"),
    "TopTwo": bf.TopTwo,
    "TopTwo optimal": partial(bf.TopTwo, beta="optimal"),
    "LinearThompson": bf.LinearThompson,
    "Uniform": bf.Uniform,
    "GOptimal": bf.GOptimal,
    "Oracle": bf.Oracle,
}


def efficiency(instance, rules, times, replicates, seed=0):
    """Mean efficiency (rule, time)."""
    result = bf.simulate(instance, rules, times[-1], replicates, times, seed, executor=False)
    return result.efficiency.mean("replicate")


def two_constraints():
    rng = np.random.default_rng(3)
    arms = rng.standard_normal((8, 3))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    axes = np.eye(3)
    return bf.Instance(bf.Problem(arms, [0.4, 0.4]), axes[0], axes[1:])


def decay(instance, rules, times, replicates, seed):
    """Decay rate of each rule's error over the optimal rate, and its standard error.

    Least squares of -log P on 1, t and log t (the polynomial factor), weighted for a variance
    that grows as t, for each replicate; replicates are independent, so they show the error.
    """
    result = bf.simulate(instance, rules, times[-1], replicates, times, seed, executor=False)
    time = result.time.values.astype(float)
    weight = 1 / np.sqrt(time)[:, np.newaxis]
    design = np.column_stack([np.ones(time.size), time, np.log(time)])
    optimal = bf.optimal_rate(instance).value
    found = {}
    for name in rules:
        curves = -result.log_error.sel(rule=name).transpose("time", "replicate").values
        slopes = np.linalg.lstsq(design * weight, curves * weight, rcond=None)[0][1] / optimal
        found[name] = slopes.mean(), slopes.std(ddof=1) / np.sqrt(replicates)
    return found


# What the slowest of the rules that converge reach in 20,000 pulls: the least bounds of this file.
SLOWEST = [(bf.instances.end_of_optimism(0.1), 0.57), (two_constraints(), 0.68)]


@pytest.mark.parametrize("rule", [bf.BestResponse, bf.PlugIn])
def test_tracking_rules_are_near_the_optimum_early(rule):
    instance = bf.instances.end_of_optimism(0.1)
    assert efficiency(instance, {"rule": rule}, [2000], 16).item() >= 0.95


def test_rising_towards_the_optimum():
    rules = {"eta=1": TRUE_POSTERIOR, "paper": bf.BLFAIPS, "response": bf.BestResponse}
    for instance, paper in SLOWEST:
        found = efficiency(instance, rules, [2000, 20_000], 16)
        assert np.all(found.sel(time=20_000) > found.sel(time=2000))
        assert found.sel(rule="eta=1", time=20_000) >= 0.8
        assert found.sel(rule="paper", time=20_000) >= paper
        assert found.sel(rule="response", time=20_000) >= 0.98


def test_top_two_and_thompson_stay_away_from_it():
    """They pull the best candidate, which here says little: why the paper's rule is needed."""
    rules = {"top two": bf.TopTwo, "thompson": bf.LinearThompson}
    found = efficiency(bf.instances.end_of_optimism(0.1), rules, [20_000], 8)
    assert np.all(found <= 0.02)


@pytest.mark.parametrize(("instance", "bound"), SLOWEST)
def test_rules_that_do_not_adapt_reach_no_bound_of_this_file(instance, bound):
    """The control: their allocation is what it is from the start, and that is not enough."""
    found = efficiency(instance, {"uniform": bf.Uniform, "design": bf.GOptimal}, [20_000], 2)
    assert np.all(found < bound)


def faster_than_possible(found, replicates):
    """Rules whose error falls faster than the optimal rate, by more than chance would have it."""
    bound = stats.t.isf(FALSE_ALARM / len(found), replicates - 1)
    return [name for name, (rate, error) in found.items() if rate > 1 + bound * error]


def at_the_optimal_rate(rate, error, replicates):
    """Whether a rate over the optimal one is 1, as far as the replicates can tell."""
    return abs(rate - 1) <= stats.t.isf(FALSE_ALARM / 2, replicates - 1) * error


@pytest.mark.slow
def test_no_rule_beats_the_optimal_rate():
    times = np.geomspace(1000, 20_000, 10).astype(int)
    found = decay(bf.instances.end_of_optimism(0.3), RULES, times, 32, seed=5)
    assert faster_than_possible(found, 32) == []
    assert at_the_optimal_rate(*found["Oracle"], 32)
    # the control: an optimal rate that is a third too low would be beaten, and not by one rule
    found = {name: (1.5 * rate, 1.5 * error) for name, (rate, error) in found.items()}
    assert {"Oracle", "BestResponse", "PlugIn"} <= set(faster_than_possible(found, 32))
    assert not at_the_optimal_rate(*found["Oracle"], 32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "bounds"),
    [
        (TRUE_POSTERIOR, {10**5: 0.93, 10**6: 0.97}),
        (bf.BLFAIPS, {10**5: 0.66, 10**6: 0.92}),
        (bf.BestResponse, {2000: 0.95, 10**5: 0.99}),
        (bf.PlugIn, {2000: 0.95, 10**5: 0.99}),
    ],
)
def test_rules_converge(rule, bounds):
    instance = bf.instances.end_of_optimism(0.1)
    found = efficiency(instance, {"rule": rule}, list(bounds), 16)
    for time, bound in bounds.items():
        assert found.sel(time=time).item() >= bound


@pytest.mark.slow
def test_two_constraints_converge():
    rules = {"eta=1": TRUE_POSTERIOR, "paper": bf.BLFAIPS, "response": bf.BestResponse,
             "plug-in": bf.PlugIn}  # fmt: skip
    found = efficiency(two_constraints(), rules, [2000, 20_000, 200_000], 16)
    assert np.all(found.diff("time") > 0)
    final = found.sel(time=200_000)
    for name, bound in {"eta=1": 0.95, "paper": 0.8, "response": 0.99, "plug-in": 0.99}.items():
        assert final.sel(rule=name).item() >= bound


@pytest.mark.slow
def test_twenty_features_converge():
    rules = {"eta=1": TRUE_POSTERIOR, "response": bf.BestResponse, "plug-in": bf.PlugIn}
    instance = bf.instances.random_ball(20, 20, seed=10)
    found = efficiency(instance, rules, [20_000, 200_000, 1_000_000], 4)
    assert np.all(found.diff("time") > 0)
    assert np.all(found.sel(time=1_000_000) >= 0.85)


@pytest.mark.slow
def test_error_decays_at_the_optimal_rate_and_no_faster():
    instance = bf.instances.end_of_optimism(0.1)
    times = np.geomspace(20_000, 400_000, 10).astype(int)
    found = decay(instance, RULES, times, 24, seed=6)
    assert faster_than_possible(found, 24) == []
    found = {name: (1.5 * rate, 1.5 * error) for name, (rate, error) in found.items()}
    assert "Oracle" in faster_than_possible(found, 24)  # the control
    times = np.geomspace(50_000, 2_000_000, 10).astype(int)
    rate, error = decay(instance, {"Oracle": bf.Oracle}, times, 128, seed=7)["Oracle"]
    assert at_the_optimal_rate(rate, error, 128)
    assert error <= 0.007
    assert not at_the_optimal_rate(1.05 * rate, 1.05 * error, 128)  # the control
