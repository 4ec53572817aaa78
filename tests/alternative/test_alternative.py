"""The alternative set against its definition, quadrature, rejection and high-precision values."""

import itertools
import math
import time

import arviz as az
import mpmath as mp
import numpy as np
import pytest
from helpers import (
    agrees,
    blocks,
    closed_form,
    counted,
    gaussian_draws,
    least_exponents,
    line_union,
    membership,
    noise,
    planar_union,
    posterior_at,
    same_law,
    z_bound,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

import bayes_feasible as bf

# --- cases whose alternative set is common enough for plain rejection ---


def eoo_early():
    instance = bf.instances.end_of_optimism(0.1)
    problem = instance.problem
    posterior = posterior_at(problem, instance.theta_reward, instance.theta_cost, [4, 2, 6, 3, 5])
    return posterior, 0


def three_comparable():
    turns = 2 * np.pi * np.arange(3) / 3
    rivals = np.column_stack([np.cos(turns), np.sin(turns)])
    problem = bf.Problem(np.vstack([[0.1, 0.0], rivals]), [0.8])
    return posterior_at(problem, [0.05, 0.0], [0.1, 0.2], [3, 5, 6, 4]), 0


def two_constraints():
    rng = np.random.default_rng(3)
    problem = bf.Problem(rng.standard_normal((6, 3)), [0.5, 1.0], cost_noise=[1.0, 0.5])
    theta = rng.standard_normal((3, 3)) / 2
    posterior = posterior_at(problem, theta[0], theta[1:], [3, 4, 5, 3, 4, 5])
    return posterior, posterior.best()


def other_candidates():
    rng = np.random.default_rng(4)
    arms, candidates = rng.standard_normal((4, 3)), rng.standard_normal((5, 3))
    problem = bf.Problem(arms, [0.3], candidates=candidates, reward_noise=2.0, cost_noise=0.7)
    return posterior_at(problem, [0.4, -0.2, 0.1], [0.2, 0.1, 0.3], [7, 9, 2, 5]), 1


def more_features_than_arms():
    rng = np.random.default_rng(5)
    arms = rng.standard_normal((3, 5))
    problem = bf.Problem(arms, [0.4])
    theta = rng.standard_normal((2, 3)) @ arms / 5
    return posterior_at(problem, theta[0], theta[1], [4, 3, 2]), 0


def no_constraint():
    rng = np.random.default_rng(6)
    problem = bf.Problem(rng.standard_normal((5, 2)))
    posterior = posterior_at(problem, [0.3, 0.5], np.zeros((0, 2)), [2, 3, 4, 5, 6])
    return posterior, posterior.best()


def one_infinite_threshold():
    rng = np.random.default_rng(7)
    problem = bf.Problem(rng.standard_normal((4, 2)), [np.inf, 0.6], cost_noise=[3.0, 1.0])
    theta = rng.standard_normal((3, 2)) / 2
    return posterior_at(problem, theta[0], theta[1:], [4, 2, 3, 5]), 3


def zero_and_twin_candidates():
    candidates = [[0.0, 0.0], [1.0, 0.3], [1.0, 0.3], [-0.2, 1.0], [0.5, 0.5]]
    problem = bf.Problem(np.eye(2), [0.5], candidates=candidates)
    return posterior_at(problem, [0.2, 0.3], [0.1, 0.4], [6, 8]), 1


CASES = {
    case.__name__: case
    for case in (
        eoo_early, three_comparable, two_constraints, other_candidates, more_features_than_arms,
        no_constraint, one_infinite_threshold, zero_and_twin_candidates,
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    """Plain posterior draws of each case, and which events contain them; made once."""
    store = {}

    def get(name):
        if name not in store:
            posterior, candidate = CASES[name]()
            alternative = bf.Alternative(posterior.problem, candidate)
            draws = gaussian_draws(posterior, 300_000, seed=len(name))
            store[name] = posterior, alternative, draws, membership(alternative, draws)
        return store[name]

    return get


# --- contains ---


def is_best(problem, candidate, reward, cost):
    """From the definition, in plain Python: feasible, and better than every other feasible one."""

    def dot(left, right):
        return sum(float(a) * float(b) for a, b in zip(left, right, strict=True))

    own = problem.candidates[candidate]
    pairs = list(zip(cost, problem.thresholds, strict=True))
    if any(dot(theta, own) > tau for theta, tau in pairs):
        return False
    for other in problem.candidates:
        if list(other) == list(own) or any(dot(theta, other) > tau for theta, tau in pairs):
            continue
        if dot(reward, other - own) >= 0:
            return False
    return True


@given(st.integers(0, 10**6), st.integers(0, 3), st.booleans())
def test_contains_by_definition(seed, constraints, whole):
    rng = np.random.default_rng(seed)
    # Small whole numbers make ties, zero vectors and twins common, and every sum exact.
    draw = (lambda *s: rng.integers(-2, 3, s).astype(float)) if whole else rng.standard_normal
    candidates = draw(*(5, 2)) if whole else draw((5, 2))
    thresholds = rng.integers(-1, 3, constraints).astype(float)
    thresholds[rng.random(constraints) < 0.2] = np.inf
    problem = bf.Problem(np.eye(2), thresholds, candidates=candidates)
    reward = draw(*(3, 4, 2)) if whole else draw((3, 4, 2))
    cost = draw(*(3, 4, constraints, 2)) if whole else draw((3, 4, constraints, 2))
    for candidate in range(5):
        found = bf.Alternative(problem, candidate).contains(reward, cost)
        assert found.shape == (3, 4)
        for i, j in np.ndindex(3, 4):
            assert found[i, j] != is_best(problem, candidate, reward[i, j], cost[i, j])


def test_contains_one_parameter_and_optional_costs():
    plain = bf.Alternative(bf.Problem(np.eye(2)), 0)
    assert not plain.contains([1.0, 0.5])
    assert plain.contains([0.5, 0.5])
    assert plain.contains([[0.5, 1.0], [1.0, 0.5]]).tolist() == [True, False]
    one = bf.Alternative(bf.Problem(np.eye(2), 0.5), 0)
    assert one.contains([1.0, 0.0], [0.6, 0.0])
    assert not one.contains([1.0, 0.0], [[0.5, 0.0]])
    np.testing.assert_array_equal(one.contains(np.ones((3, 2)), np.ones((3, 2))), [True] * 3)


def test_reference_membership_by_definition(reference):
    for name in CASES:
        _, alternative, draws, events = reference(name)
        inside = alternative.contains(draws[:2000, 0], draws[:2000, 1:])
        np.testing.assert_array_equal(inside, events[:2000].any(axis=1))
        for draw, found in zip(draws[:50], inside, strict=False):
            best = is_best(alternative.problem, alternative.candidate, draw[0], draw[1:])
            assert found != best


# --- probabilities ---


@pytest.mark.parametrize("name", CASES)
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
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_log_probability_by_counting(name, scale, reference):
    posterior, alternative, _, _ = reference(name)
    draws = gaussian_draws(posterior, 300_000, seed=9, scale=scale)
    inside = membership(alternative, draws).any(axis=1)
    estimate = alternative.log_probability(posterior, seed=1, scale=scale, draws=200_000)
    share = inside.mean()
    error = math.hypot(math.sqrt((1 - share) / share / inside.size), estimate.standard_error)
    allowed = z_bound(2 * len(CASES), 1e-5) * error
    assert abs(estimate.value - math.log(share)) < allowed
    assert abs(estimate.value + 0.2 - math.log(share)) > allowed
    assert estimate.lower - 1e-12 <= estimate.value <= estimate.upper + 1e-12


PLANAR = [name for name, case in CASES.items() if case()[0].problem.arms.shape[1] == 2]


@pytest.mark.parametrize("name", PLANAR)
def test_log_probability_by_quadrature(name):
    posterior, candidate = CASES[name]()
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
def test_a_single_event_far_out_against_mpmath(log_probability):
    # One rival, no constraint: P = Φ(-gap/sd) with V = diag(1 + n).
    problem = bf.Problem(np.eye(2), reward_noise=0.1)
    counts = np.array([1000, 3000])
    far = math.sqrt(-2 * log_probability)
    gap = far * 0.1 * math.sqrt(1 / 1001 + 1 / 3001)
    posterior = bf.Posterior.from_sums(problem, counts, [gap * 1001, 0.0], None)
    with mp.workdps(40):
        top = mp.mpf(posterior.reward_sums[0]) / 1001
        sd = mp.mpf(0.1) * mp.sqrt(mp.mpf(1) / 1001 + mp.mpf(1) / 3001)
        exact = float(mp.log(mp.erfc(top / sd / mp.sqrt(2)) / 2))
    estimate = bf.Alternative(problem, 0).log_probability(posterior)
    assert estimate.value == pytest.approx(exact, rel=1e-13)
    assert estimate.value == estimate.lower == estimate.upper
    assert estimate.standard_error == 0
    assert estimate.value < log_probability


@pytest.mark.parametrize("log_probability", [-40, -400, -1e4])
def test_a_cost_event_far_out_against_mpmath(log_probability):
    # The rival is the worse by 1000 sd, so only the constraint can be violated.
    problem = bf.Problem([[1.0]], [0.5])
    n = 10_000
    far = math.sqrt(-2 * log_probability)
    sum_of_costs = (n + 1) * (0.5 - far / math.sqrt(n + 1))
    posterior = bf.Posterior.from_sums(problem, [n], [1.0], [[sum_of_costs]])
    with mp.workdps(40):
        z = (mp.mpf(0.5) - mp.mpf(sum_of_costs) / (n + 1)) * mp.sqrt(n + 1)
        exact = float(mp.log(mp.erfc(z / mp.sqrt(2)) / 2))
    estimate = bf.Alternative(problem, 0).log_probability(posterior)
    assert estimate.value == pytest.approx(exact, rel=1e-12)


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
    posterior, candidate = CASES[name]()
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


def test_something_is_certainly_wrong():
    # The zero vector costs 0, more than the threshold, whatever the parameter.
    problem = bf.Problem(np.eye(2), [-0.5], candidates=[[0.0, 0.0], [1.0, 0.0]])
    posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
    estimate = alternative.log_probability(posterior)
    assert (estimate.value, estimate.lower, estimate.upper) == (0, 0, 0)
    draws = alternative.sample(posterior, 20_000)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    plain = gaussian_draws(posterior, 100_000, 1)
    assert same_law(alternative, blocks(draws), plain)
    # the control: draws in the rival's event, which is not certain
    rival = plain[membership(alternative, plain)[:, 1]][:20_000]
    assert not same_law(alternative, rival, plain)


@pytest.mark.parametrize("name", ["eoo_early", "no_constraint", "one_infinite_threshold"])
@pytest.mark.parametrize("scale", [0.3, 7.0])
def test_scale_inflates_the_covariance(name, scale):
    posterior, candidate = CASES[name]()
    p = posterior.problem
    louder = bf.Problem(
        p.arms, p.thresholds, reward_noise=p.reward_noise * math.sqrt(scale),
        cost_noise=p.cost_noise * math.sqrt(scale),
    )  # fmt: skip
    sums = posterior.counts, posterior.reward_sums, posterior.cost_sums
    other = bf.Posterior.from_sums(louder, *sums)
    left = bf.Alternative(p, candidate).log_probability(posterior, seed=3, scale=scale)
    right = bf.Alternative(louder, candidate).log_probability(other, seed=3)
    assert left.value == pytest.approx(right.value, abs=1e-12)
    assert left.lower == pytest.approx(right.lower, abs=1e-12)
    one = bf.Alternative(p, candidate).sample(posterior, 50, seed=4, scale=scale)
    two = bf.Alternative(louder, candidate).sample(other, 50, seed=4)
    np.testing.assert_allclose(one.theta_reward, two.theta_reward, rtol=1e-9, atol=1e-12)


def test_end_of_optimism_falls_at_the_rate():
    """With the optimal shares and the mean at the truth, -log P / T falls to Γ = 0.00113559."""
    instance = bf.instances.end_of_optimism(0.1)
    problem = instance.problem

    def least_exponent(share):
        covariance = np.linalg.inv(np.diag([share, 1 - share]))  # arms (1, 0) and (0, 1)
        z = problem.arms
        result = [0.5**2 / (2 * z[0] @ covariance @ z[0])]
        for other in z[1:]:
            gap, reward, excess = z[0] - other, 1 - other[0], other[1] - 0.5
            result.append(
                max(reward, 0) ** 2 / (2 * gap @ covariance @ gap)
                + max(excess, 0) ** 2 / (2 * other @ covariance @ other)
            )
        return min(result)

    best = optimize.minimize_scalar(
        lambda s: -least_exponent(s), bounds=(0.01, 0.2), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    assert -best.fun == pytest.approx(0.00113559, abs=5e-9)
    assert best.x == pytest.approx(0.0477, abs=5e-5)
    rates = {}
    for exponent in range(4, 8):
        horizon = 10**exponent
        first = round(best.x * horizon)
        posterior = posterior_at(
            problem, instance.theta_reward, instance.theta_cost, [first, 0, horizon - first, 0, 0]
        )
        estimate = bf.Alternative(problem, 0).log_probability(posterior)
        rates[exponent] = -estimate.value / horizon
    assert rates[4] == pytest.approx(0.0013879, abs=5e-8)
    assert rates[7] == pytest.approx(0.0011362, abs=5e-8)
    values = list(rates.values())
    assert all(left > right > 0.00113559 for left, right in itertools.pairwise(values))


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


# --- draws ---


@pytest.mark.parametrize("name", CASES)
def test_draws_follow_the_conditional_law(name, reference):
    """Total false-alarm rate 1e-4 a case."""
    posterior, alternative, draws, events = reference(name)
    found = alternative.sample(posterior, 20_000, seed=11)
    assert alternative.contains(found.theta_reward, found.theta_cost).all()
    assert same_law(alternative, blocks(found), draws[events.any(axis=1)])
    chosen = np.take_along_axis(membership(alternative, blocks(found)), found.event.values.T, 1)
    assert chosen.all()


@pytest.mark.parametrize("name", ["three_comparable", "no_constraint", "eoo_early"])
def test_a_sampler_that_forgets_the_overlaps_is_caught(name, reference):
    """Without acceptance 1/N a draw in N events is N times too frequent."""
    _, alternative, draws, events = reference(name)
    count = events.sum(axis=1)
    kept = np.random.default_rng(0).random(len(count)) * count.max() < count
    wrong = draws[kept][:20_000]
    right = draws[count > 0]
    right = right[len(right) // 2 :]
    assert not same_law(alternative, wrong, right)


def test_scaled_draws_follow_the_wider_law():
    posterior, candidate = eoo_early()
    alternative = bf.Alternative(posterior.problem, candidate)
    plain = gaussian_draws(posterior, 200_000, seed=1, scale=6.0)
    expected = plain[membership(alternative, plain).any(axis=1)]
    found, narrower = (
        blocks(alternative.sample(posterior, 20_000, seed=2, scale=scale)) for scale in (6.0, 5.0)
    )
    assert same_law(alternative, found, expected)
    assert not same_law(alternative, narrower, expected)


FAR = [-40, -400, -1e4, -1e6]


@pytest.mark.parametrize("log_probability", FAR)
@pytest.mark.parametrize("constraints", [0, 1])
def test_far_draws_lie_inside_and_follow_the_exact_law(log_probability, constraints):
    arms = np.array([[1.0, 0.2], [0.4, 1.0]])
    problem = bf.Problem(arms, np.full(constraints, 0.5), reward_noise=0.7, cost_noise=0.7)
    counts = np.array([40_000, 20_000])
    covariance = np.linalg.inv(np.eye(2) + arms.T @ (counts[:, np.newaxis] * arms))
    far = math.sqrt(-2 * log_probability)
    direction = arms[1] - arms[0] if constraints == 0 else arms[0]
    sd = 0.7 * math.sqrt(direction @ covariance @ direction)
    if constraints == 0:
        reward, cost, limit = np.linalg.solve(arms, [far * sd, 0.0]), np.zeros((0, 2)), 0.0
    else:  # the rival is far more expensive than allowed, so its event is negligible
        reward = np.linalg.solve(arms, [1.0, 0.0])
        cost, limit = np.linalg.solve(arms, [0.5 - far * sd, 0.5 + 40 * far * sd]), 0.5
    posterior = posterior_at(problem, reward, cost, counts)
    alternative = bf.Alternative(problem, 0)
    draws = alternative.sample(posterior, 20_000, seed=7)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
    theta = blocks(draws)[:, constraints]
    mean, _ = closed_form(posterior)
    bound = (limit - direction @ mean[constraints]) / sd
    excess = (theta @ direction - limit) / sd

    def p_value(bound):
        # P(excess > e) = e^{-e (bound + e/2)} erfcx((bound + e)/√2) / erfcx(bound/√2)
        scaled = special.erfcx((bound + excess) / math.sqrt(2))
        scaled /= special.erfcx(bound / math.sqrt(2))
        return stats.kstest(np.exp(-excess * (bound + excess / 2)) * scaled, "uniform").pvalue

    assert p_value(bound) > 1e-5 > p_value(1.1 * bound)
    # Across the constrained direction the posterior is as it was.
    across = theta - np.outer(theta @ direction, covariance @ direction) / (
        direction @ covariance @ direction
    )
    other = np.array([-direction[1], direction[0]])
    slope = (other @ covariance @ direction) / (direction @ covariance @ direction)
    rest = 0.7 * math.sqrt(other @ covariance @ other - slope * (other @ covariance @ direction))
    at = other @ mean[constraints] - slope * (direction @ mean[constraints])
    assert stats.kstest((across @ other - at) / rest, "norm").pvalue > 1e-5
    assert stats.kstest((across @ other - at) / (1.1 * rest), "norm").pvalue < 1e-5


def test_draws_are_independent():
    posterior, candidate = three_comparable()
    alternative = bf.Alternative(posterior.problem, candidate)
    draws = alternative.sample(posterior, 5000, seed=1, chains=4)
    values = draws.theta_reward.values - draws.theta_reward.values.mean(axis=1, keepdims=True)

    def lagged(chains):
        products = np.sum(chains[:, 1:] * chains[:, :-1], axis=(0, 1))
        return np.abs(products / np.sum(chains**2, axis=(0, 1))).max()

    allowed = z_bound(2, 1e-5) / math.sqrt(20_000)
    tied = values[:, 1:] + 0.1 * values[:, :-1]  # each a tenth of the one before
    assert lagged(values) < allowed < lagged(tied)
    assert az.ess(draws[["theta_reward", "theta_cost"]]).to_array().min() > 18_000
    assert min(az.ess(tied[..., feature]) for feature in range(2)) < 18_000
    assert float(az.rhat(draws[["theta_reward"]]).theta_reward.max()) < 1.01
    apart = values[..., 0] + [[0.5 * values.std()], [0.0], [0.0], [0.0]]  # one chain of four
    assert float(az.rhat(apart)) > 1.01


def test_the_same_seed_gives_the_same_bits():
    posterior, candidate = two_constraints()
    alternative = bf.Alternative(posterior.problem, candidate)
    one = alternative.sample(posterior, 100, seed=5, chains=2)
    assert one.identical(alternative.sample(posterior, 100, seed=5, chains=2))
    assert one.identical(alternative.sample(posterior, 100, np.random.default_rng(5), chains=2))
    assert not one.equals(alternative.sample(posterior, 100, seed=6, chains=2))
    left = alternative.log_probability(posterior, seed=5)
    assert left.value == alternative.log_probability(posterior, seed=5).value
    assert left.value != alternative.log_probability(posterior, seed=6).value


def test_draws_are_labelled():
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, {"dose": 1.0, "price": np.inf})
    alternative = bf.Alternative(problem, 0)
    assert alternative.events.names == ["dose of a too high", "b better"]
    draws = alternative.sample(bf.Posterior(problem), 6, chains=3)
    assert draws.theta_reward.dims == ("chain", "draw", "feature")
    assert draws.theta_cost.dims == ("chain", "draw", "constraint", "feature")
    assert dict(draws.sizes) == {"chain": 3, "draw": 6, "feature": 2, "constraint": 2}
    assert draws.constraint.values.tolist() == ["dose", "price"]
    assert draws.event.dims == ("chain", "draw")


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_noise_of_any_size(size):
    """In units of the noise nothing changes, so draws and probabilities only scale."""
    rng = np.random.default_rng(2)
    arms, theta = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    results = []
    for unit in (1.0, size):
        problem = bf.Problem(arms, [0.6 * unit], reward_noise=unit, cost_noise=unit)
        posterior = posterior_at(problem, unit * theta[0], unit * theta[1], [5, 6, 7, 8])
        alternative = bf.Alternative(problem, 1)
        draws = alternative.sample(posterior, 2000, seed=1)
        assert alternative.contains(draws.theta_reward, draws.theta_cost).all()
        results.append((alternative.log_probability(posterior, seed=1).value, blocks(draws) / unit))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-9)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-7, atol=1e-9)


def test_draws_beyond_badly_scaled_arms_in_few_of_many_features():
    rng = np.random.default_rng(8)
    arms = rng.standard_normal((3, 6)) * 10.0 ** np.linspace(-4, 4, 6)
    problem = bf.Problem(arms, [0.3], reward_noise=1e-3, cost_noise=1e-3)
    posterior = bf.Posterior.from_sums(
        problem, [10**6, 10**4, 10**5], [10**6, 10**3, 10**4], [[1e5], [1e3], [1e4]]
    )
    alternative = bf.Alternative(problem, 0)
    assert alternative.log_probability(posterior).value < -1000
    draws = alternative.sample(posterior, 5000)
    assert alternative.contains(draws.theta_reward, draws.theta_cost).all()


# --- the nearest alternative ---


def random_instance(seed, features=3, arms=5, constraints=1, **settings):
    """A random problem, parameters with a unique best feasible candidate, and shares."""
    rng = np.random.default_rng(seed)
    vectors = settings.pop("vectors", None)
    vectors = rng.standard_normal((arms, features)) if vectors is None else np.array(vectors)
    problem = bf.Problem(vectors, rng.uniform(0.3, 1.0, constraints), **settings)
    while True:
        theta = rng.standard_normal((1 + constraints, features))
        if np.any(np.all(problem.candidates @ theta[1:].T <= problem.thresholds, axis=1)):
            break
    allocation = rng.dirichlet(np.ones(len(vectors)))
    return bf.Instance(problem, theta[0], theta[1:]), allocation


def exponent_of(problem, theta, found, allocation):
    """What an allocation tells apart: half the mean squared differences over the noise."""
    moved = np.concatenate([[found.theta_reward.values], found.theta_cost.values]) - theta
    return sum(
        allocation @ (problem.arms @ moved[b]) ** 2 / (2 * noise(problem)[b] ** 2)
        for b in range(len(theta))
    )


@pytest.mark.parametrize("seed", range(6))
def test_nearest_against_a_convex_solver(seed):
    instance, allocation = random_instance(
        seed, constraints=seed % 3, reward_noise=0.5, cost_noise=2.0
    )
    problem = instance.problem
    theta = np.vstack([instance.theta_reward, instance.theta_cost])
    alternative = bf.Alternative(problem, instance.best)
    found = alternative.nearest(theta[0], theta[1:], allocation)
    least = least_exponents(alternative, theta, allocation)
    assert float(found.exponent) == pytest.approx(least.min(), rel=1e-6, abs=1e-9)
    assert str(found.event.item()) == alternative.events.names[int(np.argmin(least))]
    assert exponent_of(problem, theta, found, allocation) == pytest.approx(
        float(found.exponent), rel=1e-9
    )
    # It lies on the edge of the set: a hair further is inside, and a hair nearer is not.
    moved = np.concatenate([[found.theta_reward.values], found.theta_cost.values]) - theta
    for step, inside in ((1 + 1e-7, True), (1 - 1e-7, False)):
        point = theta + step * moved
        assert alternative.contains(point[0], point[1:]) == inside
    assert float(found.exponent) == pytest.approx(
        float(bf.exponents(instance, allocation).min()), rel=1e-10
    )


@given(st.integers(0, 10**6), st.integers(0, 3), st.integers(1, 6))
def test_nearest_is_the_least_exponent_of_the_rate(seed, constraints, features):
    instance, allocation = random_instance(seed, features, 4, constraints)
    found = bf.Alternative(instance.problem, instance.best).nearest(
        instance.theta_reward, instance.theta_cost, allocation
    )
    expected = float(bf.exponents(instance, allocation).min())
    assert float(found.exponent) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert found.theta_reward.dims == ("feature",)
    assert found.theta_cost.dims == ("constraint", "feature")


def test_nearest_to_a_parameter_in_the_set_is_itself():
    instance, allocation = random_instance(1)
    theta = instance.theta_reward, instance.theta_cost
    for candidate in range(5):
        if candidate == instance.best:
            continue
        found = bf.Alternative(instance.problem, candidate).nearest(*theta, allocation)
        assert float(found.exponent) == 0
        np.testing.assert_allclose(found.theta_reward, theta[0], atol=1e-15)
        np.testing.assert_allclose(found.theta_cost, theta[1], atol=1e-15)


def test_nearest_where_the_allocation_leaves_a_direction_unseen():
    # Arm 1 is never pulled, so feature 1 may change for nothing.
    problem = bf.Problem(np.eye(2), [0.5])
    found = bf.Alternative(problem, 0).nearest([1.0, 0.2], [[0.1, 0.1]], [1.0, 0.0])
    assert float(found.exponent) == pytest.approx(0, abs=1e-15)
    assert found.theta_reward.values[1] >= 1.0 - 1e-12
    assert found.theta_reward.values[0] == pytest.approx(1.0, abs=1e-12)


# --- bad input ---


def test_bad_input_names_the_argument():
    problem = bf.Problem(np.eye(2), [0.5])
    posterior, alternative = bf.Posterior(problem), bf.Alternative(problem, 0)
    other = bf.Posterior(bf.Problem(np.eye(2), [0.6]))
    for name, call in {
        "problem": lambda: bf.Alternative(np.eye(2), 0),
        "candidate": lambda: bf.Alternative(problem, 2),
        "posterior": lambda: alternative.log_probability(other),
        "scale": lambda: alternative.log_probability(posterior, scale=0.0),
        "draws": lambda: alternative.sample(posterior, 0),
        "chains": lambda: alternative.sample(posterior, 1, chains=-1),
        "seed": lambda: alternative.sample(posterior, 1, seed="x"),
        "theta_reward": lambda: alternative.contains([1.0, 2.0, 3.0], [1.0, 2.0]),
        "theta_cost": lambda: alternative.contains([1.0, 2.0]),
    }.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            call()
    with pytest.raises((TypeError, ValueError), match=r"^posterior: "):
        alternative.sample(problem, 3)
    with pytest.raises((TypeError, ValueError), match=r"^seed: "):
        alternative.log_probability(posterior, seed=-1)


# --- sizes at which squares vanish, features in very different units, directions no arm shows ---


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


@pytest.mark.parametrize("radius", [None, 1e40])
@pytest.mark.parametrize("arms", [2, 5])
@pytest.mark.parametrize("share", [0.2, 1e-40])
def test_nearest_in_features_of_very_different_units(arms, share, radius):
    rng = np.random.default_rng([arms, 4])
    unit = np.array([1e9, 1.0, 1e-9])
    vectors, theta = rng.standard_normal((arms, 3)), rng.standard_normal((2, 3))
    problem = bf.Problem(vectors * unit, 2.0, parameter_radius=radius)
    instance = bf.Instance(problem, theta[0] / unit, theta[1] / unit)
    weights = np.full(arms, (1 - share) / (arms - 1))
    weights[0] = share
    near = bf.Alternative(problem, instance.best).nearest(
        instance.theta_reward, instance.theta_cost, weights
    )
    smallest = bf.exponents(instance, weights).values.min()
    assert near.exponent.item() == pytest.approx(smallest, rel=1e-9)
    moved = np.vstack([near.theta_reward, near.theta_cost]) * unit - theta
    paid = 0.5 * np.sum(weights * np.sum((moved @ vectors.T) ** 2, axis=0))
    assert paid == pytest.approx(smallest, rel=1e-6)
