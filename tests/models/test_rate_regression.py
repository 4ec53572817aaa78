"""The regression of log errors on time, and that its intervals are honest."""

import numpy as np
import nutpie
import pytest
from error_curves import brownian, log_errors
from scipy import optimize, stats

import bayes_feasible as bf
from bayes_feasible.analysis.study import decay
from bayes_feasible.models.rate_regression import rate_data, rate_regression

TIMES = np.array([1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000])
RATE = 0.01


@pytest.fixture(scope="module")
def regression():
    """One compilation for all tests of this file."""
    return decay.RateRegression()


def test_steps_are_independent_with_unit_variance_in_theory():
    """The map from log errors to steps, as a matrix, whitens the covariance theory gives."""
    columns = rate_data(TIMES, -np.eye(TIMES.size), RATE)["growth"]  # row i: of the i-th value
    scaled = RATE * TIMES
    before = np.minimum.outer(scaled, scaled)
    motion = columns.T @ (2 * before) @ columns
    squares = columns.T @ (before / np.maximum.outer(scaled, scaled) / 2) @ columns
    np.testing.assert_allclose(np.diag(motion + squares), 1, atol=0.01)
    # Squares of a standardised Brownian motion are not quite uncorrelated from step to step.
    assert np.abs(motion + squares - np.eye(6)).max() < 0.02


def test_each_term_is_what_its_curve_adds_to_the_steps():
    data = rate_data(TIMES, np.zeros((1, TIMES.size)), RATE)
    curves = {
        "per_rate": RATE * TIMES,
        "per_bend": np.sqrt(RATE * TIMES),
        "per_power": np.log(TIMES),
    }
    for name, curve in curves.items():
        growth = rate_data(TIMES, -curve[np.newaxis], RATE)["growth"][0]
        np.testing.assert_allclose(data[name], growth, atol=1e-9)
    assert np.count_nonzero(data["per_rate"]) == 1


@pytest.mark.parametrize(
    ("time", "log_error", "unit", "message"),
    [
        ([10, 5], np.zeros((2, 2)), 1.0, "time: expected at least two rising"),
        ([10], np.zeros((2, 1)), 1.0, "time: expected at least two rising"),
        ([5, 10], np.zeros((2, 3)), 1.0, r"log_error: expected shape \(replicate, 2\)"),
        ([5, 10], np.array([[0.0, -np.inf]]), 1.0, "log_error: expected finite numbers"),
        ([5, 10], np.zeros((2, 2)), 0.0, "unit: expected a positive number"),
    ],
)
def test_bad_input(time, log_error, unit, message):
    with pytest.raises(ValueError, match=message):
        rate_regression(time, log_error, unit)


def _log_posterior(parameters, times, logs, unit):
    """The model written once more, in its original coordinates, up to a constant.

    Parameters, one row a point: log rate, bend, power, log noise, log spread of rates.
    """
    rate, bend, power, noise, spread = parameters.T[:, :, np.newaxis]
    # Beyond e^3 the prior leaves nothing of a spread, and the covariance would be singular.
    rate, noise, spread = np.exp(rate), np.exp(noise), np.exp(np.minimum(spread, 3.0))
    scaled = unit * times
    elapsed = np.diff(scaled)
    mean = rate * elapsed - bend * np.diff(np.sqrt(scaled)) + power * np.diff(np.log(times))
    theory = 2 * elapsed + 1 - scaled[:-1] / scaled[1:]
    own = noise[:, np.newaxis] ** 2 * np.diag(theory)
    covariance = own + spread[:, np.newaxis] ** 2 * np.outer(elapsed, elapsed)
    off = -np.diff(logs) - mean[:, np.newaxis]
    distance = np.einsum("nrk,nrk->n", off, np.linalg.solve(covariance, off.mT).mT)
    value = -distance / 2 - len(logs) / 2 * np.linalg.slogdet(covariance)[1]
    value -= (rate**2 / 2 + (spread / 0.1) ** 2 / 2 + 2 * np.log1p(bend**2 / 3))[:, 0]
    value -= ((power - 0.75) ** 2 / 0.5 + (np.log(noise) + 0.5) ** 2 / 2)[:, 0]
    return value + np.log(rate * spread)[:, 0]  # rate and spread are drawn as logarithms


def test_nuts_agrees_with_importance_sampling(regression):
    """Weighted draws from Student's distribution, centred where the posterior is highest."""
    logs = brownian(0.8 * RATE, TIMES, 12, 3, unit=RATE, bend=0.5, power=0.5, spread=0.05)
    start = [np.log(0.8), 0.0, 0.75, 0.0, np.log(0.05)]
    found = optimize.minimize(
        lambda x: -_log_posterior(x[np.newaxis], TIMES, logs, RATE)[0], start,
        method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-8},
    )  # fmt: skip
    shape = np.diag([0.07, 0.9, 0.65, 0.14, 1.3]) ** 2
    proposal = stats.multivariate_t(found.x, shape, df=5, seed=1)
    draws = proposal.rvs(40_000)
    weights = _log_posterior(draws, TIMES, logs, RATE) - proposal.logpdf(draws)
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    rates = np.exp(draws[:, 0])
    mean = weights @ rates
    spread = np.sqrt(weights @ (rates - mean) ** 2)
    error = np.sqrt(weights**2 @ (rates - mean) ** 2)
    assert 1 / (weights**2).sum() > 2000  # the reference itself is sound

    def nuts_agrees(logs):
        tree = regression.fit(TIMES, logs, RATE)
        sampled = tree.posterior.relative_rate
        allowed = 4 * np.hypot(error, decay.sampling_diagnostics(tree)["mcse"])  # false alarm 6e-5
        right_spread = float(sampled.std()) == pytest.approx(spread, rel=0.1)
        return abs(float(sampled.mean()) - mean) < allowed, right_spread

    assert nuts_agrees(logs) == (True, True)
    # the control: without its last replicate, and with every replicate twice
    assert not nuts_agrees(logs[:-1])[0]
    assert not nuts_agrees(np.tile(logs, (2, 1)))[1]


def rate_is(value, tree):
    """Within four standard deviations of the posterior: but for chance of 6e-5."""
    rate = tree.posterior.relative_rate
    return abs(float(rate.mean()) - value) < 4 * float(rate.std())


def test_the_rate_is_found_and_the_fit_is_sound(regression):
    logs = brownian(0.4 * RATE, TIMES, 40, 1, unit=RATE, power=0.5)
    tree = regression.fit(TIMES, logs, RATE)
    assert rate_is(0.4, tree)
    assert not rate_is(0.35, tree)  # the control: such curves are told from these
    assert not rate_is(0.45, tree)
    assert float(tree.posterior.noise.mean()) == pytest.approx(np.sqrt(0.4), rel=0.15)
    diagnostics = decay.sampling_diagnostics(tree)
    assert decay.complaints(diagnostics) == []


def test_one_compilation_serves_curves_of_any_shape(regression, monkeypatch):
    regression.fit(TIMES, brownian(RATE, TIMES, 5, 0), RATE)
    monkeypatch.setattr(nutpie, "compile_pymc_model", pytest.fail)
    for times, replicates in ((TIMES[2:], 3), (np.geomspace(500, 1e6, 11), 30)):
        tree = regression.fit(times, brownian(RATE, times, replicates, 0), RATE)
        assert rate_is(1.0, tree)
        assert not rate_is(0.5, tree)  # the control


def test_the_same_seed_gives_the_same_draws(regression):
    logs = brownian(RATE, TIMES, 5, 0)
    first, second, other = (
        regression.fit(TIMES, logs, RATE, seed).posterior.relative_rate for seed in (1, 1, 2)
    )
    assert first.equals(second)
    assert not first.equals(other)


def test_complaints_name_what_is_wrong():
    sound = {"rhat": 1.001, "ess_bulk": 2000.0, "ess_tail": 1000.0, "divergences": 0.0}
    assert decay.complaints(sound) == []
    assert "chains disagree" in decay.complaints(sound | {"rhat": 1.2})[0]
    assert "150 effective" in decay.complaints(sound | {"ess_tail": 150.0})[0]
    assert "3 divergent" in decay.complaints(sound | {"divergences": 3.0})[0]
    assert decay.complaints(sound | {"rhat": np.nan})


def test_chains_that_disagree_are_seen(regression):
    tree = regression.fit(TIMES, brownian(RATE, TIMES, 5, 0), RATE)
    assert decay.sampling_diagnostics(tree)["rhat"] < 1.01
    tree.posterior["relative_rate"][0] += 1.0
    assert decay.sampling_diagnostics(tree)["rhat"] > 1.1


def test_local_exponents_are_slopes_over_a_decade():
    times = np.array([10, 30, 100, 300, 1000])
    slopes = decay.local_exponents(times, -np.array([0.3 * times, times**2 / 1e3]))
    assert np.isnan(slopes[:, :2]).all()
    np.testing.assert_allclose(slopes[0, 2:], 0.3)
    np.testing.assert_allclose(slopes[1, 4], (1e6 - 1e4) / 1e3 / 900)


def _intervals(regression, curves, times, unit):
    """95 % intervals of the relative rate, (end, data set)."""
    fits = (regression.fit(times, logs, unit).posterior.relative_rate for logs in curves)
    return np.array([np.quantile(draws, [0.025, 0.975]) for draws in fits]).T


def _cover(intervals, truth=1.0):
    """Whether so many 95 % intervals hold the truth that fewer have a probability of 1e-5."""
    low, high = intervals
    hits = np.sum((low <= truth) & (truth <= high))
    return bool(hits >= stats.binom.ppf(1e-5, low.size, 0.95))


def _halved(intervals):
    return (intervals + intervals.mean(axis=0)) / 2


@pytest.mark.slow
@pytest.mark.parametrize("settled", [20, 1000])
def test_intervals_of_the_oracle_cover_the_optimal_rate(regression, settled):
    """95 % intervals over 100 data sets; fewer than 84 hits have probability 1e-5."""
    instance = bf.instances.end_of_optimism(0.3)
    optimum = bf.optimal_rate(instance)
    horizon = settled / optimum.value
    times = np.unique((horizon / 10 ** np.arange(0, 3.1, 1 / 3)).astype(int))
    times = times[decay.window(times, optimum.value)]
    shares = optimum.allocation.values / optimum.allocation.values.sum()
    curves = [log_errors(instance, shares, times, 20, [7, i])[0] for i in range(100)]
    intervals = _intervals(regression, curves, times, optimum.value)
    assert _cover(intervals)
    assert not _cover(_halved(intervals))  # the control: half as wide they promise too much


@pytest.mark.slow
def test_ties_need_the_bend(regression):
    """Two mistakes as likely as each other: without the root of t, intervals miss the rate."""
    instance = bf.Instance(bf.Problem(np.eye(3)), [1.0, 0.8, 0.8])
    optimum = bf.optimal_rate(instance)
    times = np.unique((10_000 / optimum.value / 10 ** np.arange(0, 3.1, 1 / 3)).astype(int))
    shares = optimum.allocation.values / optimum.allocation.values.sum()
    curves = [log_errors(instance, shares, times, 30, [8, i])[0] for i in range(60)]
    assert _cover(_intervals(regression, curves, times, optimum.value))
    plain = []
    for logs in curves:  # the control: least squares with the same steps, and no bend
        data = rate_data(times, logs, optimum.value)
        design = np.column_stack([data["per_rate"], data["per_power"]])
        covariance = np.linalg.inv(len(logs) * design.T @ design)
        estimate = covariance @ design.T @ data["growth"].sum(0)
        plain.append(estimate[0] + 1.96 * np.sqrt(covariance[0, 0]) * np.array([-1, 1]))
    assert not _cover(np.array(plain).T)


def test_independent_errors_would_promise_too_much():
    """Why steps are regressed: least squares on values takes each look at a walk for news.

    With 7 checkpoints that costs little, with 25 a third of the intervals miss.
    """
    times, intervals = np.geomspace(1000, 100_000, 25), []
    design = np.tile(np.column_stack([times, np.log(times), np.ones(25)]), (10, 1))
    inverse = np.linalg.inv(design.T @ design)
    for seed in range(100):
        logs = brownian(RATE, times, 10, seed)
        solution, residual, *_ = np.linalg.lstsq(design, -logs.ravel(), rcond=None)
        error = np.sqrt(residual[0] / (len(design) - 3) * inverse[0, 0])
        intervals.append(solution[0] + 1.96 * error * np.array([-1, 1]))
    assert not _cover(np.array(intervals).T, RATE)


def sbc_ranks(draw_given, replications=150, spread=0.1):
    """Shares of the posterior's draws below the truth, of the rate and of how far it is off.

    Truths are drawn from the prior, in which rates of replicates differ by `spread`. How far a
    rate is from the slope of the curves depends on these: draws that ignore them are found out.
    """
    rng, ranks = np.random.default_rng(5), []
    scaled = RATE * TIMES
    elapsed = np.diff(scaled)
    theory = 2 * elapsed + 1 - scaled[:-1] / scaled[1:]
    for seed in range(replications):
        noise = np.exp(rng.normal(-0.5, 1.0))
        rate, own_spread = abs(rng.normal(0, 1.0)), abs(rng.normal(0, spread))
        bend, power = rng.standard_t(3), rng.normal(0.75, 0.5)
        own = rate + own_spread * rng.standard_normal((8, 1))
        steps = own * elapsed - bend * np.diff(np.sqrt(scaled)) + power * np.diff(np.log(TIMES))
        steps = steps + noise * np.sqrt(theory) * rng.standard_normal((8, elapsed.size))
        logs = -np.concatenate([np.zeros((8, 1)), np.cumsum(steps, axis=1)], axis=1)
        draws, slope = draw_given(logs, seed), -logs[:, -1].mean() / elapsed.sum()
        ranks.append([np.mean(draws < rate), np.mean(abs(draws - slope) < abs(rate - slope))])
    return np.array(ranks)


def calibrated(ranks):
    """Which of the two are uniform, with a false alarm of 1e-4 in all."""
    return [bool(stats.kstest(column, "uniform").pvalue > 1e-4 / 2) for column in ranks.T]


@pytest.fixture(scope="module")
def fitted(regression):
    def draw_given(logs, seed):
        return regression.fit(TIMES, logs, RATE, seed).posterior.relative_rate.values.ravel()

    return draw_given


@pytest.mark.slow
def test_simulation_based_calibration(fitted):
    """Truths drawn from the prior have uniform ranks among their posterior's draws."""
    assert calibrated(sbc_ranks(fitted)) == [True, True]


@pytest.mark.slow
def test_replicates_that_differ_more_than_the_model_says_are_noticed(fitted):
    """The control: the model takes them for more alike, and is surer of the rate than it may be."""
    assert not all(calibrated(sbc_ranks(fitted, spread=1.0)))


def test_draws_that_ignore_the_curves_are_noticed():
    """The control: ranks of the rate alone would pass them, for the truth is from the prior too."""

    def prior_draws(logs, seed):
        return np.abs(np.random.default_rng([seed, 1]).standard_normal(2000))

    assert calibrated(sbc_ranks(prior_draws)) == [True, False]
