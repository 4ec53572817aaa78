"""Lemmas F.1 to F.9: regret terms, AdaHedge and Jensen's step, against plain computations."""

import numpy as np
import pytest
import xarray as xr
from helpers import gaussian_draws, membership, posterior_at, z_bound
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from theory_helpers import ridged_exponent, seed_of

import bayes_feasible as bf
from bayes_feasible.analysis.paper import theory_rate, theory_regret
from bayes_feasible.analysis.paper.theory_trace import watch


def gains_by_rejection(instance, counts, seed, scale=1.0):
    """Gains of plain draws that happen to be in the alternative set, and of all of them."""
    posterior = posterior_at(instance.problem, *theory_rate.parameters(instance), counts)
    plain = gaussian_draws(posterior, 400_000, seed=seed, scale=scale)
    inside = membership(bf.Alternative(instance.problem, instance.best), plain).any(axis=1)
    off = (plain - theory_rate.parameters(instance)) @ instance.problem.arms.T
    every = np.sum(off**2, axis=1)
    return every[inside], every


@pytest.fixture(scope="module")
def watched(optimism):
    return watch(optimism, [100, 1000, 5000], seed_of(4))


def test_how_fast_a_root_mean_square_falls():
    times, size = np.array([10.0, 100.0, 1000.0]), np.array([1.0, 2.0, 3.0, 4.0])
    same_shape = size[:, np.newaxis] * times**-0.7
    assert theory_regret.falling_speed(times, same_shape).startswith("0.7 ± ")
    # With one row the speed is its own slope, so leaving out each of two gives the two slopes.
    two = np.array([times**-0.4, times**-0.6])
    expected = abs(0.6 - 0.4) / 2
    assert theory_regret.falling_speed(times, two).endswith(f"± {expected:.2f}")
    assert not theory_regret.falling_speed(times, two[::-1] ** 2).endswith(f"± {expected:.2f}")


def test_regret_terms_add_up(optimism, watched):
    found = theory_regret.regret_terms(optimism, watched)
    time = watched.time.values
    theta = theory_rate.parameters(optimism)
    arms = optimism.problem.arms
    for i, length in enumerate(time):
        counts = np.bincount(watched.pulled.values[:length], minlength=5)
        infimum = 2 * ridged_exponent(arms, counts, 1, theta, optimism.best)
        gap = watched.about_truth.values[i].max() / length - infimum
        assert_allclose(found.total[i], gap, rtol=1e-4)
        assert_allclose(found.shortfall[i], 2 * bf.optimal_rate(optimism).value - infimum,
                        atol=1e-4 * infimum)  # fmt: skip
    assert_allclose(found.F21 + found.F22 + found.F23, found.F2)
    assert np.all(found.regret <= found.tight)
    assert np.all(found.tight <= found.bound)


def test_regret_terms_vanish(optimism):
    """Each is a mean over rounds that falls nearly as 1/t; the control: the sums do not fall."""
    found = theory_regret.regret_over_time(optimism, (100, 1000, 10_000), 6, 0)
    assert np.all(np.isfinite(found.to_array()))

    def falls(terms):
        sizes = np.sqrt((terms**2).mean("replicate").values)
        return bool(np.all(sizes[1:] < sizes[:-1] / 3))

    for name in ("F1", "F2", "F5", "total"):
        assert falls(found[name]), name
        assert not falls(found[name] * found.time), name


def test_what_falls_and_what_does_not():
    """Over 200 sets of made-up terms; 3 standard errors on 15 degrees of freedom: 0.0045."""
    rng = np.random.default_rng(0)
    size = np.exp(rng.standard_normal((200, 16, 2)))
    fell = {
        last: sum(
            theory_regret.shrinks(xr.DataArray(one * [1.0, last], dims=("replicate", "time")))
            for one in size
        )
        for last in (1.0, 0.1)
    }
    assert fell[1.0] <= stats.binom.isf(1e-4, 200, 0.0045)
    assert fell[0.1] >= 190


def test_gain_bound(optimism):
    longest = np.hypot(1.2, 1.2)
    beta = 1 + np.sqrt(2 * np.log(1000**2) + 2 * np.log1p(1000 * longest**2 / 2))
    expected = 2 * (longest * 1 + (longest + longest * beta)) ** 2
    assert_allclose(theory_regret.gain_bound(optimism, 1000), expected)


def test_the_printed_recursion_is_frozen():
    losses = np.random.default_rng(0).random((500, 4))
    losses[0] = [0.4, 0.1, 0.3, 0.2]
    losses[1:, 3] -= 0.5  # by far the best from then on
    weights = theory_regret.literal_hedge(losses)
    assert_array_equal(weights[0], np.full(4, 0.25))
    assert_array_equal(weights[1:], np.tile([0.0, 1.0, 0.0, 0.0], (499, 1)))
    regret, bound = theory_regret.regret_and_bound(losses, weights)
    assert regret > 0.4 * 499
    spread = np.ptp(losses, axis=1).max()
    expected = spread * (2 * np.sqrt(500 * np.log(4)) + 16 / 3 * np.log(4) + 2)
    assert_allclose(bound, expected)
    cumulative = theory_regret.regret_and_bound(losses, theory_regret.adahedge_weights(losses))
    assert cumulative[0] < 0.2 * regret


def test_the_printed_recursion_learns_between_tied_leaders():
    losses = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, -5.0], [0.0, 1.0, -5.0]])
    weights = theory_regret.literal_hedge(losses)
    assert_array_equal(weights[1], [0.5, 0.5, 0.0])
    rate = np.log(3) / (1 / 3)
    expected = np.array([1.0, np.exp(-rate), 0.0])
    assert_allclose(weights[2], expected / expected.sum())


def test_stationary_losses_are_those_of_the_alternatives(optimism):
    losses = theory_regret.stationary_losses(optimism, 4000, 3)
    counts = np.floor(optimism.problem.design * 2000 + 0.5).astype(int)
    gains, every = gains_by_rejection(optimism, counts, seed=2)
    error = np.sqrt(gains.var(axis=0) / len(gains) + losses.var(axis=0) / len(losses))
    score = (losses.mean(axis=0) + gains.mean(axis=0)) / error
    assert np.abs(score).max() < z_bound(5, 1e-4)
    wrong = (losses.mean(axis=0) + every.mean(axis=0)) / error  # a control: need not be in the set
    assert np.abs(wrong).max() > z_bound(5, 1e-4)


def test_jensen_loss_is_half_a_variance(optimism):
    """Far from the start Γ_1 is small, and log E exp(-Γ_1) + E Γ_1 is half its variance."""
    found = theory_regret.jensen_loss(optimism, (3000,), 100_000, 0)
    shares, scale = bf.optimal_rate(optimism).allocation.values, 8 * 1.2**2 * 2
    counts = np.round(3000 * shares).astype(int)
    gains, every = gains_by_rejection(optimism, counts, seed=3, scale=scale)
    assert_allclose(found.loss[0], shares @ (gains / scale).var(axis=0) / 2, rtol=0.1)
    wrong = shares @ (every / scale).var(axis=0) / 2  # a control: draws need not be in the set
    assert not np.allclose(found.loss[0], wrong, rtol=0.1)
    assert float(found.loss[0]) > 10 * float(found.standard_error[0])
