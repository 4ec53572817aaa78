"""The exponents and the optimal rate against other solvers, closed forms and known values."""

import re
import warnings

import mpmath as mp
import numpy as np
import pytest
from helpers import least_exponents
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from bayes_feasible import Alternative, Instance, Problem, exponents, instances, optimal_rate
from bayes_feasible._plainly import plainly
from bayes_feasible.analysis.benchmarks import cvxpy_forms

TOL = 1e-8


def random_instance(seed: int) -> Instance:
    """A random instance; the seed decides its shape too."""
    rng = np.random.default_rng([7, seed])
    while True:
        features = int(rng.integers(1, 6))
        arms = rng.standard_normal((features + int(rng.integers(0, 12)), features))
        kind = seed % 4
        if kind == 1:  # candidates are not the arms, and more
            candidates = rng.standard_normal((2 * len(arms), len(arms))) @ arms
        else:
            candidates = None
        if kind == 2:  # duplicates and a zero arm
            arms = np.vstack([arms, arms[:2], np.zeros((1, features))])
        if kind == 3:  # fewer directions than features
            arms = arms @ rng.standard_normal((features, features + 2))
        constraints = int(rng.integers(0, 4))
        problem = Problem(
            arms,
            rng.uniform(-0.2, 1.5, constraints),
            candidates=candidates,
            reward_noise=float(rng.uniform(0.5, 2)),
            cost_noise=rng.uniform(0.5, 2, constraints),
        )
        theta = rng.standard_normal((1 + constraints, problem.arms.shape[1]))
        instance = Instance(problem, theta[0], theta[1:])
        if instance.best is not None and (~problem.copies(instance.best)).any():
            return instance


def direct_exponents(instance: Instance, weights: np.ndarray) -> np.ndarray:
    """Theorem 4.2: the information needed to reach each alternative, by quadratic programs."""
    problem, wrong = instance.problem, Alternative(instance.problem, instance.best)
    theta = np.vstack([instance.theta_reward[None], instance.theta_cost])
    found = least_exponents(wrong, theta, weights, **cvxpy_forms.TIGHT)
    values = np.full(len(problem.candidates), np.inf)
    values[instance.best] = found[: problem.thresholds.size].min()
    values[wrong.rivals] = found[problem.thresholds.size :]
    return values


@pytest.mark.parametrize(
    ("alpha", "value"), [(0.1, 0.00113559), (0.2, 0.00415741), (0.3, 0.00861884)]
)
def test_end_of_optimism(alpha, value):
    rate = optimal_rate(instances.end_of_optimism(alpha))
    assert rate.value == pytest.approx(value, abs=5e-9)
    assert rate.gap <= TOL
    if alpha == 0.1:
        np.testing.assert_allclose(rate.allocation, [0.0477, 0, 0.9523, 0, 0], atol=5e-5)
        assert (rate.allocation == 0).sum() == 3
    assert rate.hardest == 4
    assert rate.exponents.dims == ("candidate",)
    assert rate.weights.sum() == pytest.approx(1)
    assert re.search(rf"{str(rate.value)[:8]}(.|\n)*hardest candidate 4 .*lower reward", repr(rate))


@pytest.mark.parametrize("seed", range(24))
def test_rate_matches_the_conic_programs(seed):
    instance = random_instance(seed)
    rate = optimal_rate(instance)
    assert rate.gap <= TOL
    assert rate.lower <= rate.value <= rate.upper
    for form in [cvxpy_forms.sdp] + [cvxpy_forms.socp] * (seed < 3):
        expected = cvxpy_forms.solve(form(instance), **cvxpy_forms.TIGHT)
        assert rate.value == pytest.approx(expected, rel=1e-6)


# One instance for each class of the paper; the named candidate limits the rate.
CASES = {
    "infeasible superoptimal (A1)": ([0, 1, 0.6], [0.2, 0.6, 0.0], 1),
    "feasible suboptimal (A2)": ([0.9, 1, 0.2], [0.0, 0.0, 0.1], 0),
    "infeasible suboptimal (A3)": ([0.9, 1, 0.3], [0.7, 0.0, 0.1], 0),
    "best": ([0.0, 1, 0.2], [0.0, 0.4, 0.0], 1),
}


@pytest.mark.parametrize("kind", CASES)
def test_exponents_are_the_nearest_alternatives(kind):
    rewards, costs, hardest = CASES[kind]
    arms = np.array([[1, 0.2, 0], [0.1, 1, 0.3], [0, -0.2, 1], [1, 1, 1]])
    solve = np.linalg.solve
    instance = Instance(
        Problem(arms, [0.5], candidates=arms[:3], reward_noise=1.3, cost_noise=0.8),
        solve(arms[:3], rewards),
        solve(arms[:3], costs),
    )
    assert instance.kind[hardest] == kind
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    values = exponents(instance, weights)
    np.testing.assert_allclose(values, direct_exponents(instance, weights), rtol=1e-6)
    assert np.argmin(values.values) == hardest
    assert optimal_rate(instance).hardest == hardest


def test_exponents_with_several_constraints():
    instance = next(
        instance
        for instance in map(random_instance, range(100))
        if instance.problem.thresholds.size == 3 and instance.problem.rank == 4
    )
    weights = np.random.default_rng(1).dirichlet(np.ones(len(instance.problem.arms)))
    values, expected = exponents(instance, weights).values, direct_exponents(instance, weights)
    np.testing.assert_allclose(values, expected, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.integers(0, 10**6))
def test_bounds_hold_for_every_allocation(seed, data):
    instance = random_instance(seed)
    rate = optimal_rate(instance)
    assert rate.gap <= TOL
    rng = np.random.default_rng(data)
    near = np.abs(rate.allocation.values * np.exp(0.1 * rng.standard_normal(rate.allocation.size)))
    for weights in (rng.dirichlet(np.ones(near.size)), near / near.sum()):
        assert exponents(instance, weights).min() <= rate.upper
    assert exponents(instance, rate.allocation).min() == pytest.approx(rate.lower, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.integers(0, 10**6))
def test_invariances(seed, data):
    """Noise scales the rate, a linear map of the features leaves it, more arms do not lower it."""
    instance, rng = random_instance(seed), np.random.default_rng(data)
    problem, value = instance.problem, optimal_rate(instance).value
    features = problem.arms.shape[1]
    change = np.linalg.qr(rng.standard_normal((features, features)))[0] * rng.uniform(0.1, 10)

    def rate(arms, noise):
        changed = Problem(
            arms,
            problem.thresholds,
            candidates=problem.candidates @ change,
            reward_noise=noise * problem.reward_noise,
            cost_noise=noise * problem.cost_noise,
        )
        back = np.linalg.inv(change)
        theta = back @ instance.theta_reward, instance.theta_cost @ back.T
        return optimal_rate(Instance(changed, *theta)).value

    assert rate(problem.arms @ change, 3.0) == pytest.approx(value / 9, rel=1e-7)
    assert rate(2 * problem.arms @ change, 1.0) == pytest.approx(4 * value, rel=1e-7)
    more = rng.standard_normal((2, len(problem.arms))) @ problem.arms
    assert rate(np.vstack([problem.arms, more]) @ change, 1.0) >= value * (1 - TOL)


def two_arms(gap: float, scale: float = 1.0) -> Instance:
    return Instance(Problem(scale * np.eye(2)), [1 + gap, 1])


@pytest.mark.parametrize("gap", [1e-8, 1e-3, 1.0, 1e3])
def test_closed_form_of_two_arms(gap):
    """Two orthogonal arms are pulled equally often and give gap^2 / 8."""
    rate = optimal_rate(two_arms(gap))
    exact = ((1 + gap) - 1) ** 2 / 8
    assert rate.value == pytest.approx(exact, rel=1e-8)
    np.testing.assert_allclose(rate.allocation, 0.5, atol=1e-4)


HARD = {
    "clustered": lambda rng: 1 + 1e-3 * rng.standard_normal((30, 4)),
    "collinear": lambda rng: (
        np.repeat(rng.standard_normal((12, 3)), 2, axis=0) + 1e-6 * rng.standard_normal((24, 3))
    ),
    "scaled": lambda rng: rng.standard_normal((25, 4)) * 10 ** rng.uniform(-6, 6, (25, 1)),
    "scaled features": lambda rng: rng.standard_normal((25, 4)) * 10.0 ** np.array([-6, 6, 0, 3]),
    "one-hot": lambda rng: np.diag(rng.uniform(0.5, 2, 12)),
    "fewer arms than features": lambda rng: rng.standard_normal((20, 50)) / 7,
    "one more arm than features": lambda rng: rng.standard_normal((9, 8)),
    "many": lambda rng: rng.standard_normal((10_000, 3)),
}


@pytest.mark.parametrize("shape", HARD)
@pytest.mark.parametrize("seed", range(4))
def test_hard_shapes_are_certified(shape, seed):
    rng = np.random.default_rng([11, seed])
    arms = HARD[shape](rng)
    unit = np.abs(arms).max(axis=0)
    theta = rng.standard_normal((2, arms.shape[1])) / unit
    threshold = np.quantile(arms @ theta[1], 0.6)
    instance = Instance(Problem(arms, threshold + 1e-9 * abs(threshold)), *theta)
    rate = optimal_rate(instance)
    assert 0 <= rate.gap <= TOL
    assert 0 < rate.lower < np.inf
    assert rate.allocation.sum() == pytest.approx(1)
    assert exponents(instance, rate.allocation).min() == pytest.approx(rate.lower, rel=1e-9)


def test_singular_information():
    """Arms that are not pulled leave directions unseen: exponent 0 there, exact elsewhere."""
    arms = np.eye(3)
    instance = Instance(Problem(arms), [3.0, 2.0, 1.0])
    values = exponents(instance, [0.5, 0.5, 0.0])
    np.testing.assert_allclose(values, [np.inf, 1 / 8, 0.0])
    tiny = exponents(instance, [0.5, 0.5 - 1e-90, 1e-90])
    np.testing.assert_allclose(tiny, [np.inf, 1 / 8, 4 / 2 * 1e-90])


def test_copies_of_the_best_are_no_alternatives():
    arms = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    instance = Instance(Problem(arms), [2.0, 1.0])
    single = Instance(Problem(arms[:2]), [2.0, 1.0])
    rate = optimal_rate(instance)
    assert rate.value == pytest.approx(optimal_rate(single).value, rel=1e-8)
    assert np.isinf(rate.exponents.values[[0, 2]]).all()


def test_zero_vectors():
    """A zero candidate is infeasible for certain under a negative threshold, feasible under 0."""
    arms = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    certain = Instance(Problem(arms, [-0.5]), [1.0, 2.0], [-1.0, -2.0])
    assert np.isinf(optimal_rate(certain).exponents[2])
    best = Instance(Problem(arms, [0.0]), [-1.0, -2.0], [1.0, 1.0])
    assert best.best == 2
    rate = optimal_rate(best)
    assert np.isinf(rate.exponents[2])
    assert 0 < rate.value < np.inf


@pytest.mark.parametrize(
    ("instance", "hardest", "message"),
    [
        (Instance(Problem({"a": [1, 0], "b": [0, 1], "c": [-1, 0]}), [1.0, 1.0]), 1,
         "'b' tie with the best candidate 'a'"),
        (Instance(Problem({"a": [1, 0], "b": [0, 1]}, {"toxicity": 0.5}), [1.0, 0.2], [0.5, 0.1]),
         0, "'a' lies exactly on the threshold .*toxicity"),
    ],
)  # fmt: skip
def test_ties_give_rate_zero(instance, hardest, message):
    with pytest.warns(UserWarning, match=message):
        rate = optimal_rate(instance)
    assert (rate.lower, rate.value, rate.upper, rate.hardest) == (0, 0, 0, hardest)
    assert rate.allocation.sum() == pytest.approx(1)


@pytest.mark.parametrize("thresholds", [(), (np.inf,)])
def test_no_alternative_gives_an_infinite_rate(thresholds):
    problem = Problem(np.eye(2), thresholds, candidates=[[1.0, 1.0]])
    rate = optimal_rate(Instance(problem, [1.0, 0.0], np.ones((len(thresholds), 2))))
    assert rate.value == rate.lower == rate.upper == np.inf
    assert (rate.hardest, rate.gap) == (None, 0)
    assert "no mistake is possible" in repr(rate)


def test_infinite_thresholds_never_bind():
    instance = random_instance(4)
    problem = instance.problem
    free = Problem(
        problem.arms,
        [np.inf, *problem.thresholds],
        reward_noise=problem.reward_noise,
        cost_noise=[1.0, *problem.cost_noise],
    )
    theta_cost = np.vstack([np.ones(problem.arms.shape[1]), instance.theta_cost])
    value = optimal_rate(Instance(free, instance.theta_reward, theta_cost)).value
    assert value == pytest.approx(optimal_rate(instance).value, rel=1e-8)


def test_an_unreachable_tolerance_is_reported():
    with pytest.warns(RuntimeWarning, match="relative gap of .* instead of 1.0e-17"):
        rate = optimal_rate(random_instance(2), tol=1e-17)
    assert rate.lower < rate.upper
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert optimal_rate(random_instance(2), tol=1e-3).gap <= 1e-3


# --- arms nearly collinear, differences that no arm shows, candidates beyond the arms' scale ---


def exact_exponent(instance, weights, candidate):
    """Of a candidate that falls short of the best, in 60 digits but for the gap itself."""
    with mp.workdps(60):
        information = mp.zeros(instance.problem.arms.shape[1])
        for weight, arm in zip(weights.tolist(), instance.problem.arms.tolist(), strict=True):
            information += mp.mpf(weight) * mp.matrix(arm) * mp.matrix(arm).T
        best, other = (
            mp.matrix(instance.problem.candidates[i].tolist()) for i in (instance.best, candidate)
        )
        square = ((best - other).T * information**-1 * (best - other))[0]
        return float(mp.mpf(float(instance.reward_gap[candidate])) ** 2 / (2 * square))


@pytest.mark.parametrize("apart", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("own", [True, False])
def test_exponents_of_nearly_collinear_arms_keep_their_digits(apart, own):
    rng = np.random.default_rng([7, int(-np.log10(apart)), own])
    arms = rng.standard_normal(3) + apart * rng.standard_normal((5, 3))
    candidates = None if own else rng.standard_normal((4, 5)) @ arms
    instance = Instance(Problem(arms, candidates=candidates), rng.standard_normal(3))
    weights = np.full(5, 0.2)
    found = exponents(instance, weights).values
    for candidate in np.flatnonzero(np.isfinite(found)):
        exact = exact_exponent(instance, weights, candidate)
        assert found[candidate] == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("apart", [1e-8, 1e-12, 1e-14])
def test_the_bounds_hold_for_nearly_collinear_arms(apart):
    """Two arms are told apart fastest half and half: the rate is an eighth of the squared gap."""
    arms = np.array([[1.0, 1.0], [1.0 + apart, 1.0 - apart]])
    gap = np.array([1.0, -1.0]) @ (arms[1] - arms[0])
    rate = optimal_rate(Instance(Problem(arms), [1.0, -1.0]))
    assert rate.lower * (1 - 1e-15) <= gap**2 / 8 <= rate.upper
    assert rate.gap <= 1e-8


@pytest.mark.parametrize("cost_noise", [1.0, 1e-30, 1e-80, 1e-100])
def test_a_constraint_that_is_all_but_certain_changes_nothing(cost_noise):
    arms = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    costs = [-100.0, -200.0]
    certain = Instance(Problem(arms, 1.0, cost_noise=cost_noise), [1.0, 0.5], costs)
    assert optimal_rate(certain).value == pytest.approx(1 / 32, rel=1e-8)
    rivals = [[1.0, 0.0], [-2e40, 2e40]]  # one much longer than the arms is told as easily
    long = Problem(arms, 1.0, candidates=rivals, cost_noise=cost_noise)
    assert optimal_rate(Instance(long, [1.0, 0.5], costs)).value == pytest.approx(1 / 32, rel=1e-8)


def test_arms_that_differ_by_a_rounding_tie_as_far_as_they_can_tell():
    arms = [[1.0, 1.0], [1.0 + 1e-15, 1.0 - 1e-15]]
    instance = Instance(Problem(arms), [1.0, -1.0])
    assert instance.problem.rank == 1
    with pytest.warns(UserWarning, match="'0' tie with the best candidate '1' as far as the arms"):
        rate = optimal_rate(instance)
    assert rate.value == rate.upper == 0.0
    assert rate.gap == 0.0
    assert exponents(instance, [0.5, 0.5]).values.tolist() == [0.0, np.inf]


@pytest.mark.parametrize(("arm", "candidate"), [(1e100, 1e-100), (1e-100, 4e99)])
def test_candidates_beyond_the_scale_of_the_arms_are_refused(arm, candidate):
    instance = Instance(Problem([[arm]], candidates=[[candidate], [2 * candidate]]), [1.0])
    for ask in (optimal_rate, lambda instance: exponents(instance, [1.0])):
        with pytest.raises(ValueError, match=r"^candidates: .* beyond double precision"):
            ask(instance)


def test_solvers_run_on_one_blas_thread_and_give_the_others_back():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        inside = plainly(lambda: (threads(), plainly(threads)(), threads()))()
        assert inside == ([1] * len(before),) * 3
        with pytest.raises(ZeroDivisionError):
            plainly(lambda: 1 // 0)()
        assert threads() == before
        assert max(before) == 2
