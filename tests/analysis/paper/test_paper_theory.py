"""The paper's statements as code: each computation against one that shares nothing with it."""

import re

import mpmath as mp
import numpy as np
import pytest
import xarray as xr
from helpers import bare_numbers, closed_form, gaussian_draws, least_exponents, membership, z_bound
from numpy.testing import assert_allclose
from scipy import integrate, optimize, special, stats
from theory_helpers import ridged_exponent, seed_of

import bayes_feasible as bf
from bayes_feasible.analysis.paper import (
    quote,
    runs,
    theory,
    theory_convergence,
    theory_decay,
    theory_events,
    theory_rate,
    theory_tails,
)
from bayes_feasible.analysis.paper.theory_trace import watch
from bayes_feasible.rate.rate import Rate

SOLVER = 2e-8  # absolute; the cone solver stops at gaps of 1e-8
VERDICTS = ("holds", "holds in part", "does not hold", "cannot be told")


@pytest.fixture(scope="module")
def ball():
    """A best candidate that the prior mean does not point at."""
    instance = bf.instances.random_ball(2, 5, 1)
    assert instance.best != 0
    return instance


# Numbers as text


def test_quoted_and_share():
    values = np.random.default_rng(0).standard_normal(50)
    assert_allclose(quote.mean_and_error(values), (values.mean(), stats.sem(values)))
    assert quote.quoted([1234.0, 1236.0]) == "1235.0 ± 1.0"
    assert quote.quoted([2.0, 2.0]) == "2 ± 0"
    for successes in (0, 3, 40):
        interval = stats.binomtest(successes, 40).proportion_ci(method="exact")
        expected = f"interval {interval.low:.3g} to {interval.high:.3g}"
        assert expected in quote.share(successes, 40)


def test_a_quantile_has_an_interval():
    found = stats.quantile_test(np.arange(1.0, 301), q=0, p=0.95).confidence_interval(0.95)
    expected = f"(95 % interval {found.low:g} to {found.high:g})"
    assert quote.quantile(np.arange(300, 0, -1), 0.95).endswith(expected)
    assert quote.quantile(range(30), 0.95).endswith("to ∞)")
    assert quote.quantile([0.25] * 100, 0.5, ".3f").startswith("0.250 (")
    values = np.random.default_rng(1).standard_normal(100)
    assert quote.compatible(values, 0.0)
    assert not quote.compatible(values, 1.0)
    times = np.array([10.0, 100.0, 1000.0])
    assert_allclose(quote.power(times, np.array([7 * times**-0.3])), [0.3])


def test_the_largest_exceeds_the_quantile_it_names():
    """Of uniform values the quantile of level p is p: coverage 95 %, false alarm 1e-4."""
    rng = np.random.default_rng(1)
    level = float(re.search(r"above the ([\d.]+) %", quote.largest(np.zeros(30)))[1]) / 100
    largest = rng.random((4000, 30)).max(axis=1)
    assert stats.binomtest(int((largest > level).sum()), 4000, 0.95).pvalue > 1e-4
    # A control: of 20 values it does not cover so often.
    fewer = rng.random((4000, 20)).max(axis=1)
    assert stats.binomtest(int((fewer > level).sum()), 4000, 0.95).pvalue < 1e-4
    assert quote.largest([1.0, 3.0, 2.0], ".1f").startswith("3.0 (largest of 3; ")


# Theorems 4.1 and 4.2


@pytest.mark.parametrize("threshold", [0.5, np.inf])
def test_separation_is_the_least_distance(threshold):
    instance = bf.instances.random_ball(2, 5, 3, threshold=threshold)
    theta = theory_rate.parameters(instance)
    shares = np.random.default_rng(0).dirichlet(np.ones(5))
    arms = instance.problem.arms
    precision = arms.T @ (shares[:, np.newaxis] * arms)
    alternative = bf.Alternative(instance.problem, instance.best)
    expected = least_exponents(alternative, theta, shares).min()
    found = theory_rate.separation(instance.problem, instance.best, theta, precision)
    assert_allclose(found / 2, expected, rtol=1e-5, atol=SOLVER)
    if threshold == 0.5:  # 0 inside the set: the best costs more than 0.5
        theta[1] *= 10 * np.sign(theta[1] @ arms[instance.best])
        assert theta[1] @ arms[instance.best] > threshold
        assert theory_rate.separation(instance.problem, instance.best, theta, precision) == 0


def test_printed_exponents(optimism, ball):
    rng = np.random.default_rng(2)
    for instance in (optimism, ball):
        for shares in rng.dirichlet(np.ones(5), 5):
            found = theory_rate.smallest_printed(instance, shares[np.newaxis])[0]
            theta = theory_rate.parameters(instance)
            alternative = bf.Alternative(instance.problem, instance.best)
            expected = least_exponents(alternative, theta, shares).min()
            assert_allclose(found, expected, rtol=1e-5, atol=SOLVER)
            assert_allclose(found, bf.exponents(instance, shares).min(), rtol=1e-9)
            assert theory_rate.smallest_printed(instance, shares[np.newaxis], literal=True) == 0


def test_brute_force_needs_only_the_definition(ball):
    shares = np.random.default_rng(3).dirichlet(np.ones(5))
    theta = theory_rate.parameters(ball)
    alternative = bf.Alternative(ball.problem, ball.best)
    expected = least_exponents(alternative, theta, shares).min()
    found = theory_rate.brute_infimum(ball, shares, np.random.default_rng(0))
    assert expected * (1 - 1e-5) <= found <= expected * (1 + 1e-4)


def test_two_forms(ball):
    found = theory_rate.two_forms({"ball": ball}, allocations=2)
    assert_allclose(found.dual, found.lower, rtol=1e-6)
    assert_allclose(found.searched, found.lower, rtol=1e-4)
    assert float(found.worst[0]) < 1e-4
    assert float(found.least[0]) > -1e-6


@pytest.mark.slow
def test_three_arms_suffice_with_two_features():
    for seed in range(3):
        instance = bf.instances.random_ball(2, 12, seed)
        shares, value = theory_rate.exhaust(instance, np.random.default_rng(0))
        assert_allclose(value, bf.optimal_rate(instance).value, rtol=1e-4)
        assert_allclose(value, bf.exponents(instance, shares).min(), rtol=1e-8)
        assert np.count_nonzero(shares) <= 3
    with pytest.raises(ValueError, match="two features, got 3"):
        theory_rate.exhaust(bf.instances.random_ball(3, 5, 0), np.random.default_rng(0))


def test_any_other_distribution_on_alternatives_gives_a_larger_value(ball):
    """The bound is one-sided: weights that are not optimal cannot go below the rate."""
    rate = bf.optimal_rate(ball)
    rng = np.random.default_rng(4)
    for _ in range(5):
        weights = rng.dirichlet(np.ones(5))
        other = Rate(
            rate.value, rate.lower, rate.upper, rate.hardest, rate.mistake, rate.problem,
            (rng.dirichlet(np.ones(5)), weights, rate.arrays[2]),
        )  # fmt: skip
        assert theory_rate.dual_value(ball, other) > rate.lower


def test_decay_slopes_recover_a_rate_behind_a_polynomial():
    times = np.array([100, 300, 1000, 3000])
    log_error = -(0.02 * times + 0.7 * np.log(times) + 3)
    assert_allclose(theory_decay.decay_slopes(times, np.array([log_error, 2 * log_error])),
                    [0.02, 0.04], rtol=1e-9)  # fmt: skip


def test_fixed_allocations_decay_at_their_exponents():
    instance = bf.instances.end_of_optimism(0.3)
    allocations = {"uniform": np.full(5, 0.2), "other": np.array([0.1, 0.1, 0.5, 0.2, 0.1])}
    found = theory_decay.fixed_allocation_decay(instance, allocations, (2000, 5000, 20_000), 24, 0)
    assert_allclose(found.exact, found.exponent, rtol=1e-3)
    for name in allocations:
        ratio = (found.slope / found.exponent).sel(allocation=name)
        assert quote.compatible(ratio, 1.0, len(allocations))
        # A control: at the optimal rate, which is that of neither, they do not.
        too_fast = found.slope.sel(allocation=name) / bf.optimal_rate(instance).value
        assert not quote.compatible(too_fast, 1.0, len(allocations))


def test_error_frequency_in_closed_form():
    """One feature: the sign of the estimate decides, and the ridge is in the formula."""
    theta, pulls, replicates = 0.2, 40, 200_000
    instance = bf.Instance(bf.Problem([[1.0], [-1.0]]), [theta])
    found = theory_decay.error_frequency(instance, np.array([0.5, 0.5]), pulls, replicates, 0)
    mean, variance = pulls * theta / (1 + pulls), pulls / (1 + pulls) ** 2
    exact = stats.norm.sf(mean / np.sqrt([variance, variance + 1 / (1 + pulls)]))
    for wrong, probability in zip(found.wrong.values, exact, strict=True):
        assert stats.binomtest(int(wrong), replicates, probability).pvalue > 1e-4
    for wrong, other in zip(found.wrong.values, exact[::-1], strict=True):  # a control
        assert stats.binomtest(int(wrong), replicates, other).pvalue < 1e-4
    without_ridge = stats.norm.logsf(theta * np.sqrt((1 + pulls) / np.array([1.0, 2.0])))
    assert_allclose(found.log_exact, without_ridge, rtol=1e-10)


# Theorem 4.3


def test_a_long_run_splits_into_its_parts(optimism):
    times = (500, 2000)
    found = theory_convergence.long_runs(optimism, ("paper", 1.0), times, 2, seed=5)
    same = bf.simulate(optimism, {"paper": bf.BLFAIPS}, 2000, 2, times, 5, executor=False)
    paper = found.sel(eta="paper")
    # Both measure the same posterior; triple overlaps are sampled with different draws.
    assert_allclose(paper.log_error, same.log_error.sel(rule="paper"), atol=0.02)
    other = found.isel(eta=1)  # A control: the other rule is told from it.
    assert not np.allclose(other.log_error, same.log_error.sel(rule="paper"), atol=0.02)
    assert_allclose(paper.efficiency, same.efficiency.sel(rule="paper"), rtol=0.05)  # the ridge
    assert np.all(paper.log_error_scaled > paper.log_error)
    assert_allclose(found.at_mean + found.polynomial, -found.log_error)


def first_number(seed):
    return xr.Dataset({"number": int(seed.generate_state(1)[0])})


@pytest.mark.slow
def test_repeated_runs_have_their_own_seeds_wherever_they_run():
    expected = [int(first_number(s).number) for s in np.random.SeedSequence([3, 2]).spawn(3)]
    for horizon in (1, 10**9):
        found = runs.repeat(first_number, [3, 2], 3, horizon)
        assert found.number.values.tolist() == expected


# Lemmas B.1 to B.5 and G.3


def test_gaussian_tail_in_high_precision():
    found = theory_tails.gaussian_tail([0.0, 0.1, 1.0, 10.0, 100.0])
    with mp.workdps(40):
        for x, value in zip(found.distance.values, found.probability.values, strict=True):
            exact = mp.erfc(mp.mpf(float(x)) / mp.sqrt(2)) / 2 * mp.exp(mp.mpf(float(x)) ** 2 / 2)
            assert_allclose(value, float(exact), rtol=1e-13)
    assert np.all(found.lower <= found.probability)
    assert np.all(found.probability <= found.upper)
    x = np.linspace(0, 30, 100)
    scaled = np.log(theory_tails.gaussian_tail(x).probability) - x**2 / 2
    assert_allclose(scaled, special.log_ndtr(-x), rtol=1e-12)


def test_mistakes_are_normal_tails(optimism):
    shares = np.full(5, 0.2)
    found = theory_tails.mistakes(optimism, shares, [1000])
    assert set(found.kind.values) == set(theory_tails.KINDS)
    arms = optimism.problem.arms
    inverse = np.linalg.inv(np.eye(2) + 200 * arms.T @ arms)
    star = arms[0]
    exact = stats.norm.logsf(0.5 / np.sqrt(star @ inverse @ star))  # its cost is 0, the limit 0.5
    information = np.linalg.inv(arms.T @ arms / 5)
    exponent = 0.25 / (2 * star @ information @ star)
    assert_allclose(found.excess[0, 0], (exact + 1000 * exponent) / 1000, rtol=1e-8)


@pytest.mark.parametrize("low", [[0.3, -0.5], [-0.9, 0.2], [-0.9, -0.7]])
def test_laplace_on_a_box_by_quadrature(low):
    low, precision, time = np.array(low), np.array([0.7, 1.9]), 60.0
    high = low + np.array([0.4, 0.3])
    value = 1.0
    nearest = 0.0
    for a, b, p in zip(low, high, precision, strict=True):
        value *= integrate.quad(lambda x, p=p: np.exp(-time / 2 * p * x * x), a, b, epsrel=1e-12)[0]
        nearest += p * min(abs(np.linspace(a, b, 100_001))) ** 2 / 2
    found = theory_tails.laplace_box(low, high, precision, time)
    assert_allclose(found, (np.log(value) / time, -nearest), rtol=1e-8, atol=1e-12)


def test_laplace_on_the_bounded_alternatives():
    instance = bf.instances.end_of_optimism(0.3)
    found = theory_tails.laplace_alternative(instance, 1.5, (1000, 10_000))
    arms, theta = instance.problem.arms, theory_rate.parameters(instance)
    counts = np.round(1000 * bf.optimal_rate(instance).allocation.values)
    for name, ridge in (("exponent", 1), ("printed", 1000)):
        expected = ridged_exponent(arms, counts, ridge, theta, instance.best, radius=1.5)
        assert_allclose(found[name][0], expected, rtol=1e-4)
    left = found.log_error / found.time + found.exponent
    assert abs(float(left[1])) < 0.3 * abs(float(left[0]))
    assert np.all(found.printed > 2 * found.exponent)


# Lemmas E.1 to E.6


@pytest.fixture(scope="module")
def short_run(optimism):
    return watch(optimism, [50, 200], seed_of(0), draws=0)


def test_a_trace_is_what_the_rule_does(optimism, ball):
    for instance in (optimism, ball):
        for eta in ("paper", 1.0):
            run = watch(instance, [300], seed_of(1), eta=eta)
            rules = {"rule": lambda problem, seed, eta=eta: bf.BLFAIPS(problem, seed, eta=eta)}
            same = bf.simulate(instance, rules, 300, 2, [300], 0, executor=False)
            pulls = same.allocation.isel(rule=0, replicate=1, time=0) * 300
            assert_allclose(np.bincount(run.pulled, minlength=5), pulls)


def test_trace_sums_round_by_round(ball):
    """Gains, shares and leaders as `ask` leaves them, one call a round."""
    rounds = 60
    run = watch(ball, [rounds], seed_of(2), draws=0)
    own = np.random.SeedSequence(seed_of(2).entropy, spawn_key=(*seed_of(2).spawn_key, 0))
    rule = bf.BLFAIPS(ball, own)
    drawn, own_gain, mixed_gain, wrong, largest, last = np.zeros(5), 0.0, 0.0, 0, 0.0, 0
    for t in range(rounds):
        weights, best = rule._memory.weights.copy(), rule.posterior.best()
        arm = rule.ask()
        assert arm == int(run.pulled[t])
        gain = np.sum((ball.problem.arms @ rule._work.draw.T) ** 2, axis=1)
        explore = (t + 1) ** -0.25
        drawn += gain
        own_gain += gain @ weights
        mixed_gain += gain @ ((1 - explore) * weights + explore * ball.problem.design)
        largest = max(largest, gain.max())
        if best is not None and best != ball.best:
            wrong, last = wrong + 1, t + 1
        rule.tell(arm, run.shown.values[t, 0], run.shown.values[t, 1:])
    assert_allclose(run.drawn[0], drawn)
    assert_allclose(run.drawn_own[0], own_gain)
    assert_allclose(run.drawn_mixed[0], mixed_gain)
    assert_allclose(run.largest_gain[0], largest)
    assert int(run.wrong_rounds[0]) == wrong > 0
    assert int(run.last_wrong[0]) == last


def test_expected_gains_by_rejection(ball):
    """The first round's expectations, from the prior: plain draws that happen to be in the set."""
    draws = 40_000
    run = watch(ball, [1], seed_of(3), draws=draws, eta=0.5)
    prior, arms = bf.Posterior(ball.problem), ball.problem.arms
    plain = gaussian_draws(prior, 200_000, seed=1, scale=2.0)
    theta = theory_rate.parameters(ball)
    checks, controls = [], []
    for candidate, name, about in ((0, "expected", 0.0), (0, "about_truth", theta),
                                   (ball.best, "given_best", 0.0)):  # fmt: skip
        inside = membership(bf.Alternative(ball.problem, candidate), plain).any(axis=1)
        gains = np.sum(((plain[inside] - about) @ arms.T) ** 2, axis=1)
        error = gains.std(axis=0) * np.sqrt(1 / len(gains) + 1 / draws)
        checks.append((run[name].values[0] - gains.mean(axis=0)) / error)
        # A control: draws that need not be in the set gain something else.
        every = np.sum(((plain - about) @ arms.T) ** 2, axis=1)
        controls.append((run[name].values[0] - every.mean(axis=0)) / error)
    assert np.abs(checks).max() < z_bound(15, 1e-4)
    assert all(np.abs(control).max() > z_bound(15, 1e-4) for control in controls)
    assert not np.allclose(run.expected, run.given_best, rtol=0.05)
    mixed = ball.problem.design  # the first round explores for certain
    assert_allclose(run.expected_mixed[0], run.expected.values[0] @ mixed)
    assert_allclose(run.given_best_mixed[0], run.given_best.values[0] @ mixed)
    assert_allclose(run.given_best_pulled[0], run.given_best[0, int(run.pulled[0])])


def posterior_after(instance, run, time):
    pulled, shown = run.pulled.values[:time], run.shown.values[:time]
    return bf.Posterior.from_history(instance.problem, pulled, shown[:, 0], shown[:, 1:])


def test_estimates_at_every_round(optimism, short_run):
    means, precisions = theory_events.estimates(optimism, short_run)
    for t in (0, 1, 17, 200):
        posterior = posterior_after(optimism, short_run, t)
        assert_allclose(means[t], [posterior.theta_reward, posterior.theta_cost[0]], atol=1e-10)
        assert_allclose(precisions[t], posterior.precision)


def test_good_events_by_loops(optimism, short_run):
    found = theory_events.good_events(optimism, 200, (0.1,), seed_of(0))
    arms, theta = optimism.problem.arms, theory_rate.parameters(optimism)
    longest, design = np.hypot(1.2, 1.2), optimism.problem.design
    explored = arms.T @ np.diag(design) @ arms
    ratio, cited, bounded, failed = 0.0, 0.0, 0.0, 0
    precision, sums = np.eye(2), np.zeros((2, 2))
    final = 1 + np.sqrt(2 * np.log(100) + 2 * np.log((2 + 200 * longest**2) / 2))
    for t in range(1, 201):
        for b in range(2):
            mean = np.linalg.solve(precision, sums[b])
            off = mean - theta[b]
            size = np.sqrt(off @ precision @ off)
            grows = 2 * np.log((2 + t * longest**2) / 2)
            ratio = max(ratio, size / (1 + np.sqrt(2 * np.log(1 / 0.1**2) + grows)))
            cited = max(cited, size / (1 + np.sqrt(2 * np.log(1 / 0.1) + grows)))
            bounded = max(bounded, np.abs(arms @ mean).max() / (longest + longest * final))
        x = arms[short_run.pulled.values[t - 1]]
        precision = precision + np.outer(x, x)
        sums = sums + np.outer(short_run.shown.values[t - 1], x)
        if np.linalg.eigvalsh(precision - 0.75 * t**0.75 * explored)[0] < 0:
            failed = t
    assert_allclose(found["confidence"], [[ratio, cited]])
    assert_allclose(found["estimate"], [bounded])
    assert int(found["explored"]) == failed + 1


def test_horizons():
    for holds, first in (([True, True], 1), ([False, True, False, True], 4), ([True, False], 3)):
        assert theory_events.settle(np.array(holds)) == first
    assert_allclose(theory_events.first_horizon(lambda delta, time: 1000.0), 1000.0)
    # T > (log T²)²: the largest root of T = 4 log² T
    root = optimize.brentq(lambda t: t - 4 * np.log(t) ** 2, 50, 1e4)
    found = theory_events.first_horizon(lambda delta, time: np.log(time / delta) ** 2)
    assert_allclose(found, root, rtol=1e-8)
    assert theory_events.first_horizon(lambda delta, time: 2 * time) == np.inf


def test_exploration_time(optimism):
    problem = optimism.problem
    assert theory_events.exploration_time(problem, 0.1, 1e6, support=False) == np.inf
    least = problem.design[problem.design > 0].min()
    expected = (6 * np.sqrt(np.log(5 * 1e6 / 0.1)) / least) ** 4
    assert_allclose(theory_events.exploration_time(problem, 0.1, 1e6, support=True), expected)


def test_identification_time(optimism):
    assert_allclose(theory_events.largest_coefficient(np.eye(2), np.array([[0.3, -0.7]])), 0.7)
    doubled_arms = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert_allclose(theory_events.largest_coefficient(doubled_arms, np.array([[1.0, 0.2]])), 0.5)
    coefficients = (0.5, 0.8)
    beta = 1 + np.sqrt(4 * np.log(10) + 2 * np.log1p(1e4 * 1.44))
    reward = 0.5 * 5 / (1 - np.cos(0.1)) * np.sqrt(2) * beta
    cost = 0.8 * 5 / min(0.35, 0.5 - np.sin(0.1)) * np.sqrt(2) * beta
    found = theory_events.identification_time(optimism, coefficients, 0.1, 1e4)
    assert_allclose(found, max(reward, cost) ** (8 / 3))


def test_likelihood_remainder_is_the_supremum(optimism):
    times = (50, 200)
    found = theory_events.likelihood_remainder(optimism, times, 1.0, seed_of(0))
    run = watch(optimism, times, seed_of(0), draws=0)
    theta = theory_rate.parameters(optimism)
    angle = np.linspace(0, 2 * np.pi, 20_001)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])  # linear: its extremes lie here
    for i, time in enumerate(times):
        means, covariance = closed_form(posterior_after(optimism, run, time))
        precision = np.linalg.inv(covariance)
        extremes = []
        for b in range(2):
            law = stats.multivariate_normal(means[b], covariance)
            off = circle - theta[b]
            bracket = law.logpdf(circle) - law.logpdf(theta[b])
            bracket += np.einsum("ni,ij,nj->n", off, precision, off) / 2
            extremes.append((bracket.max(), -bracket.min()))
        expected = np.max(np.sum(extremes, axis=0)) / time
        assert expected <= found["remainder"][i] * (1 + 1e-6)
        # the two blocks may take opposite signs at their largest: then the sum is an upper bound
        largest = np.sum(np.max(extremes, axis=1)) / time
        assert_allclose(found["remainder"][i], largest, rtol=1e-5)
        assert found["printed"][i] > 3.0


# The table


QUICK = ("bound", "frequency", "tails", "laplace", "jensen")


@pytest.mark.parametrize(
    "piece", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in theory.PIECES]
)
def test_claims_of_a_piece(piece):
    found = theory.prove(True, 0, piece)
    assert found
    for claim in found:
        assert claim.verdict.startswith(VERDICTS)
        assert f"theory {piece} --seed 0 --quick" in claim.command
        assert "nan" not in claim.result
        assert not bare_numbers(claim.result), claim


def test_what_the_pieces_say():
    pieces = ("bound", "frequency", "jensen")
    verdicts = {c.name: c.verdict for piece in pieces for c in theory.prove(True, 1, piece)}
    assert verdicts["No allocation's exponent exceeds Γ"].startswith("holds (exact")
    assert [v.split(":")[0] for v in verdicts.values()].count("does not hold as printed") == 1
    name = "The error probability that decays at Γ is the probability of a wrong answer"
    assert "Γ/2" in verdicts[name]


def test_the_command_prints_the_claims(capsys):
    theory.main(["tails", "--quick"])
    printed = capsys.readouterr().out
    assert "Lemma B.1" in printed
    assert "holds" in printed
    with pytest.raises(SystemExit):
        theory.main(["nothing"])
    assert "piece: expected one of" in capsys.readouterr().err
