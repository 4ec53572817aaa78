"""The probability of the alternative set against quadrature, rejection and many digits."""

import itertools
import math
import time

import mpmath as mp
import numpy as np
import pytest
from cases import CASES, FREE, HELD, eoo_early, three_comparable
from helpers import (
    agrees,
    closed_form,
    counted,
    gaussian_draws,
    line_union,
    membership,
    noise,
    planar_union,
    posterior_at,
    z_bound,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import bayes_feasible as bf

PLANAR = [name for name, case in FREE.items() if case[0].problem.arms.shape[1] == 2]


@pytest.mark.parametrize("name", FREE)
def test_event_log_probabilities_by_scipy_and_by_counting(name, reference):
    posterior, alternative, _, events = reference(name)
    problem = posterior.problem
    mean, covariance = closed_form(posterior)
    own = problem.candidates[alternative.candidate]

    def above(block, vector, limit):
        sd = noise(problem)[block] * np.sqrt(vector @ covariance @ vector)
        if sd == 0:
            return 0.0 if limit <= 0 else -np.inf
        return stats.norm.logsf((limit - vector @ mean[block]) / sd)

    finite = [(j, tau) for j, tau in enumerate(problem.thresholds) if np.isfinite(tau)]
    expected = [above(1 + j, own, tau) for j, tau in finite]
    for rival in problem.candidates[alternative.rivals]:
        costs = sum(above(1 + j, -rival, -tau) for j, tau in finite)
        expected.append(above(0, rival - own, 0.0) + costs)
    found = alternative.event_log_probabilities(posterior)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)
    assert found.event.values.tolist() == alternative.events.names
    size = len(events)

    def largest_z(share):
        z = (events.mean(axis=0) - share) / np.sqrt(share * (1 - share) / size + 1e-12)
        return np.abs(z).max()

    assert largest_z(np.exp(expected)) < z_bound(len(expected), 1e-6)
    assert largest_z(0.9 * np.exp(expected)) > z_bound(len(expected), 1e-6)


@pytest.mark.parametrize("name", CASES)
def test_log_probability_by_rejection(name, reference):
    posterior, alternative, draws, events = reference(name)
    truth, sampling = counted(events.any(axis=1))
    assert len(draws) > 2000
    assert truth > math.log(0.02) or name in FREE
    estimate = alternative.log_probability(posterior, seed=1, draws=200_000)
    error = math.hypot(sampling, estimate.standard_error)
    assert agrees(estimate.value, truth, error, len(CASES))
    assert not agrees(estimate.value + 0.2, truth, error, len(CASES)) or name in HELD
    assert estimate.standard_error < 0.03
    # Bounds that hold for certain can be broken by the counted share only by chance.
    slack = z_bound(2 * len(CASES), 1e-5) * sampling
    assert estimate.lower <= truth + slack
    assert estimate.upper >= truth - slack
    assert estimate.lower - 1e-12 <= estimate.value <= estimate.upper + 1e-12


@pytest.mark.parametrize("name", PLANAR)
def test_log_probability_by_quadrature(name):
    posterior, candidate = CASES[name]
    alternative = bf.Alternative(posterior.problem, candidate)
    exact = math.log(planar_union(alternative, posterior))
    estimate = alternative.log_probability(posterior, seed=2, draws=2**20)
    assert estimate.standard_error < 1e-3
    allowed = z_bound(len(PLANAR), 1e-5) * estimate.standard_error
    assert abs(estimate.value - exact) < allowed
    # With every overlap counted in each of its events it would be too large.
    assert special.logsumexp(estimate.log_probabilities) > exact + allowed
    assert estimate.lower - 1e-9 <= exact <= estimate.upper + 1e-9


@pytest.mark.parametrize("pulls", [1, 10, 100, 1000])
@pytest.mark.parametrize("constraints", [0, 1])
def test_two_events_are_exact(pulls, constraints):
    arms = np.array([[1.0, 0.1], [0.3, 0.9], [-0.4, 0.7]])[: 3 - constraints]
    problem = bf.Problem(arms, np.full(constraints, 0.9))
    costs = np.tile([0.2, 0.3], (constraints, 1))
    counts = [pulls, 2 * pulls, pulls][: len(arms)]
    posterior = posterior_at(problem, [0.6, 0.2], costs, counts)
    alternative = bf.Alternative(problem, 0)
    estimate = alternative.log_probability(posterior)
    assert estimate.standard_error == 0
    assert estimate.value == pytest.approx(math.log(planar_union(alternative, posterior)), abs=1e-9)


@pytest.mark.parametrize("log_probability", [-40, -400, -1e4, -1e6])
@pytest.mark.parametrize("cost", [False, True])
def test_a_single_event_far_out_against_mpmath(log_probability, cost):
    """One rival and no constraint, or one constraint and no rival: P = Φ(-z), V = diag(1 + n)."""
    far = math.sqrt(-2 * log_probability)
    if cost:
        problem = bf.Problem([[1.0]], [0.5])
        total = 10_001 * (0.5 - far / math.sqrt(10_001))
        posterior = bf.Posterior.from_sums(problem, [10_000], [1.0], [[total]])
    else:
        problem = bf.Problem(np.eye(2), reward_noise=0.1)
        total = 1001 * far * 0.1 * math.sqrt(1 / 1001 + 1 / 3001)
        posterior = bf.Posterior.from_sums(problem, [1000, 3000], [total, 0.0], None)
    with mp.workdps(40):
        z = (mp.mpf(0.5) - mp.mpf(total) / 10_001) * mp.sqrt(10_001)
        if not cost:
            z = mp.mpf(total) / 1001 / (mp.mpf(0.1) * mp.sqrt(mp.mpf(1) / 1001 + mp.mpf(1) / 3001))
        exact = float(mp.log(mp.erfc(z / mp.sqrt(2)) / 2))
    estimate = bf.Alternative(problem, 0).log_probability(posterior)
    assert estimate.value == pytest.approx(exact, rel=1e-12 if cost else 1e-13)
    assert estimate.value == estimate.lower == estimate.upper < log_probability
    assert estimate.standard_error == 0


def bracketed(estimate, exact):
    slack = 1e-9 * max(1.0, -exact)
    return estimate.lower - slack <= exact <= estimate.upper + slack


def near(estimate, exact):
    """Within 7 standard errors: the heavy tails of a small sample are allowed for."""
    slack = 1e-9 * max(1.0, -exact)
    return abs(estimate.value - exact) <= 7 * estimate.standard_error + slack


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(0, 2), st.integers(2, 7))
def test_brackets_hold_on_a_line(seed, constraints, candidates):
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((candidates, 1)) * 10.0 ** rng.uniform(-1, 1)
    thresholds = rng.uniform(-0.5, 1.5, constraints)
    problem = bf.Problem(numbers, thresholds)
    counts = rng.integers(0, 10 ** int(rng.integers(1, 4)), candidates)
    counts[0] += 1
    sums = rng.standard_normal((candidates, 1 + constraints)) * counts[:, np.newaxis]
    posterior = bf.Posterior.from_sums(problem, counts, sums[:, 0], sums[:, 1:])
    for candidate in range(candidates):
        alternative = bf.Alternative(problem, candidate)
        estimate = alternative.log_probability(posterior, seed=seed, draws=2000)
        exact = line_union(alternative, posterior)
        if exact < 1e-200:
            continue
        exact = math.log(min(exact, 1.0))
        assert bracketed(estimate, exact)
        assert near(estimate, exact)


def planar_case(seed, constraints):
    """A random alternative set in two features, and a posterior."""
    rng = np.random.default_rng(seed)
    problem = bf.Problem(rng.standard_normal((4, 2)), rng.uniform(0, 1.5, constraints))
    theta = rng.standard_normal((1 + constraints, 2))
    posterior = posterior_at(problem, theta[0], theta[1:], rng.integers(1, 30, 4))
    return bf.Alternative(problem, int(rng.integers(4))), posterior


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(0, 1))
def test_brackets_hold_in_the_plane(seed, constraints):
    alternative, posterior = planar_case(seed, constraints)
    estimate = alternative.log_probability(posterior, seed=seed, draws=4000)
    exact = math.log(planar_union(alternative, posterior))
    assert bracketed(estimate, exact)
    assert near(estimate, exact)


def test_brackets_and_errors_are_narrow_enough_to_fail():
    """The control of the two tests above: a posterior that is a little wider is noticed."""
    refused = []
    for seed in range(20):
        alternative, posterior = planar_case(seed, 1)
        wider = alternative.log_probability(posterior, seed=seed, draws=4000, scale=1.1)
        exact = math.log(planar_union(alternative, posterior))
        refused.append((not bracketed(wider, exact), not near(wider, exact)))
    assert np.all(np.sum(refused, axis=0) >= 5), np.sum(refused, axis=0)


@pytest.mark.parametrize(
    "name", ["eoo_early", "no_constraint", "one_infinite_threshold", "zero_and_twin_candidates"]
)
def test_standard_error_is_honoured(name):
    """Over 200 seeds the errors spread as promised: not more, and at least two thirds of it."""
    posterior, candidate = CASES[name]
    alternative = bf.Alternative(posterior.problem, candidate)
    exact = math.log(planar_union(alternative, posterior))
    results = [alternative.log_probability(posterior, seed=s, draws=8000) for s in range(200)]
    error = np.array([result.value - exact for result in results])
    squares = np.sum((error / [result.standard_error for result in results]) ** 2)
    assert squares < stats.chi2.isf(1e-5, 200) < 2**2 * squares  # half of it is too small a promise
    assert squares * 1.5**2 > stats.chi2.ppf(1e-5, 200) > squares / 2**2  # and twice too large
    allowed = z_bound(4, 1e-5) * error.std() / math.sqrt(200)
    assert abs(error.mean()) < allowed < abs(error.mean() + error.std())


def test_where_no_three_events_meet_the_value_is_exact():
    """Then one over the number of events is linear in it, and the pairs tell all."""
    posterior, candidate = three_comparable()
    alternative = bf.Alternative(posterior.problem, candidate)
    exact = math.log(planar_union(alternative, posterior))
    for seed in range(20):
        estimate = alternative.log_probability(posterior, seed=seed, draws=2000)
        assert estimate.value == pytest.approx(exact, abs=1e-12)
        # The error cannot know that, and allows for one unseen triple among the draws.
        assert 1e-5 < estimate.standard_error < 1e-3


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_a_handful_of_draws_still_gives_a_value_in_the_bracket(draws):
    """Fifteen rivals overlap almost wholly, one stands apart: a draw from that one misleads."""
    turns = np.append(np.linspace(-0.3, 0.3, 15), np.pi)
    rivals = np.column_stack([np.cos(turns), np.sin(turns)])
    problem = bf.Problem(np.vstack([[0.0, 0.0], rivals]))
    posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
    for seed in range(100):
        estimate = alternative.log_probability(posterior, seed=seed, draws=draws)
        assert estimate.lower <= estimate.value <= estimate.upper
        assert estimate.standard_error > 0


def test_rivals_of_one_direction_are_one_event():
    """Their events are equal, so bracket and value are the probability of one of them."""
    for rivals in range(1, 6):
        problem = bf.Problem(np.arange(1.0 + rivals)[:, np.newaxis])
        for mean in (4.4, 0.0, -3.0, -40.0):
            posterior = posterior_at(problem, [mean], np.zeros((0, 1)), [0, 3, *[0] * (rivals - 1)])
            estimate = bf.Alternative(problem, 0).log_probability(posterior)
            exact = stats.norm.logcdf(2 * mean)  # V = 1 + 3
            assert estimate.value == pytest.approx(exact, rel=1e-12, abs=1e-13)
            assert estimate.lower == pytest.approx(exact, rel=1e-12, abs=1e-13)
            assert estimate.upper == pytest.approx(exact, rel=1e-12, abs=1e-13)


def test_nothing_can_be_wrong():
    alone = bf.Problem([[1.0, 0.0]], [np.inf])
    twins = bf.Problem([[1.0, 0.0], [1.0, 0.0]])
    zero = bf.Problem(np.eye(2), [0.5], candidates=[[0.0, 0.0]])
    for problem in (alone, twins, zero):
        posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
        estimate = alternative.log_probability(posterior)
        assert (estimate.value, estimate.standard_error) == (-np.inf, 0)
        assert (estimate.lower, estimate.upper) == (-np.inf, -np.inf)
        with pytest.raises(ValueError, match=r"^candidate: "):
            alternative.sample(posterior, 5)


def test_end_of_optimism_falls_at_the_rate():
    """With the optimal shares and the mean at the truth, -log P / T falls to Γ = 0.00113559."""
    instance = bf.instances.end_of_optimism(0.1)
    problem, share = instance.problem, 0.04765687677
    rates = []
    for exponent in range(4, 8):
        first = round(share * 10**exponent)
        counts = [first, 0, 10**exponent - first, 0, 0]
        posterior = posterior_at(problem, instance.theta_reward, instance.theta_cost, counts)
        estimate = bf.Alternative(problem, 0).log_probability(posterior)
        rates.append(-estimate.value / 10**exponent)
    assert rates[0] == pytest.approx(0.0013879, abs=5e-8)
    assert rates[3] == pytest.approx(0.0011362, abs=5e-8)
    assert all(left > right > 0.00113559 for left, right in itertools.pairwise(rates))


def test_many_candidates_whose_pairs_are_not_integrated():
    rng = np.random.default_rng(0)
    problem = bf.Problem(rng.standard_normal((200, 4)), [0.7])
    theta = rng.standard_normal((2, 4))
    posterior = posterior_at(problem, theta[0], theta[1], rng.integers(0, 3, 200) + 1)
    candidate = posterior.best()
    alternative = bf.Alternative(problem, candidate)
    estimate = alternative.log_probability(posterior, seed=1, draws=2**16)
    truth, sampling = counted(membership(alternative, gaussian_draws(posterior, 100_000, 2)).any(1))
    error = math.hypot(sampling, estimate.standard_error)
    assert math.log(0.001) < truth < math.log(0.999)
    assert agrees(estimate.value, truth, error)
    union = special.logsumexp(estimate.log_probabilities)  # with every overlap counted again
    assert not agrees(union, truth, error)
    slack = z_bound(2, 1e-5) * sampling  # bounds that hold can be broken only by the counting
    assert estimate.lower <= truth + slack
    assert estimate.upper >= truth - slack


def seconds_with_candidates(number):
    """Probability and draws with so many candidates."""
    rng = np.random.default_rng(1)
    problem = bf.Problem(np.eye(5), [0.9], candidates=rng.standard_normal((number, 5)))
    posterior = posterior_at(problem, rng.standard_normal(5), rng.standard_normal(5), [400] * 5)
    alternative = bf.Alternative(problem, posterior.best())
    start = time.process_time()
    estimate = alternative.log_probability(posterior)
    draws = alternative.sample(posterior, 100)
    seconds = time.process_time() - start
    assert estimate.lower <= estimate.value <= estimate.upper
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    return seconds


@pytest.mark.slow
def test_ten_thousand_candidates_take_no_longer_each_than_a_thousand():
    seconds_with_candidates(1000)  # compiles
    # Were each compared with all, it would be ten times as long for each.
    assert seconds_with_candidates(10_000) < 10 * seconds_with_candidates(1000)


def test_likeliest_and_float():
    posterior, candidate = eoo_early()
    estimate = bf.Alternative(posterior.problem, candidate).log_probability(posterior)
    assert float(estimate) == estimate.value
    assert estimate.likeliest == str(estimate.events.idxmax().item())
    assert f"{estimate.value:.6g}" in repr(estimate)


def test_a_difference_whose_square_vanishes_has_its_probability():
    """Mean and standard deviation of the difference are both 1e-200: the tail at one of them."""
    problem = bf.Problem([[1e100]], candidates=[[1e-100], [2e-100]])
    posterior = bf.Posterior.from_history(problem, [0], [1.0])
    error = bf.Alternative(problem, 0).log_probability(posterior)
    assert error.value == pytest.approx(special.log_ndtr(1.0), rel=1e-12)
    assert bf.Alternative(problem, 1).log_probability(posterior).value == pytest.approx(
        special.log_ndtr(-1.0), rel=1e-12
    )


def test_candidates_that_differ_by_a_rounding_outside_the_span():
    """The arms count as collinear; what tells them apart is known from the prior alone."""
    arms = [[1.0, 1.0], [1.0 + 1e-15, 1.0 - 1e-15]]
    problem = bf.Problem(arms, thresholds=[np.inf, 2.0])
    assert problem.rank == 1
    shown = [1.0, 2.0]
    posterior = bf.Posterior.from_history(problem, [0, 1], shown, [[0.1, 0.1], [0.2, 0.2]])
    with mp.workdps(50):
        pulled = mp.matrix(arms)
        covariance = (mp.eye(2) + pulled.T * pulled) ** -1
        difference = mp.matrix(arms[1]) - mp.matrix(arms[0])
        mean = (difference.T * covariance * pulled.T * mp.matrix(shown))[0]
        exact = mp.log(mp.ncdf(mean / mp.sqrt((difference.T * covariance * difference)[0])))
    alternative = bf.Alternative(problem, 0)
    found = alternative.event_log_probabilities(posterior).values
    cost = float(special.log_ndtr((2.0 - 0.12) / math.sqrt(0.4)))  # that the rival is feasible
    assert found[1] == pytest.approx(float(exact) + cost, rel=1e-9)
    draws = alternative.sample(posterior, 2000, seed=0)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    near = alternative.nearest([-1.0, 1.0], np.zeros((2, 2)), [0.5, 0.5])
    assert near.exponent == 0.0
    assert alternative.contains(near.theta_reward * (1 + 1e-9), near.theta_cost)
