"""The posterior against the textbook formula, in double, in rational and in 60-digit arithmetic."""

import math
from fractions import Fraction

import arviz as az
import mpmath as mp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from helpers import closed_form, noise, z_bound
from hypothesis import given
from hypothesis import strategies as st

import bayes_feasible as bf


def random_history(seed, arms=5, features=3, constraints=1, pulls=40, **settings):
    rng = np.random.default_rng(seed)
    problem = bf.Problem(rng.standard_normal((arms, features)), np.ones(constraints), **settings)
    pulled = rng.integers(arms, size=pulls)
    return problem, pulled, rng.standard_normal(pulls), rng.standard_normal((pulls, constraints))


def exact(problem, counts, sums):
    """Means (block, feature) and covariance with 60 digits."""
    with mp.workdps(60):
        arms = mp.matrix(problem.arms.tolist())
        weights = mp.diag([mp.mpf(int(n)) for n in counts])
        precision = mp.eye(arms.cols) + arms.T * weights * arms
        covariance = precision**-1
        means = covariance * arms.T * mp.matrix(np.asarray(sums).tolist())
        return means.T, covariance


def floats(matrix):
    return np.array([[float(matrix[i, j]) for j in range(matrix.cols)] for i in range(matrix.rows)])


# --- the closed form ---


@pytest.mark.parametrize("constraints", [0, 1, 3])
@pytest.mark.parametrize(("arms", "features"), [(1, 1), (5, 2), (4, 4), (3, 6)])
def test_closed_form(constraints, arms, features):
    history = random_history(arms + 10 * features, arms, features, constraints)
    problem = history[0]
    posterior = bf.Posterior.from_history(*history)
    mean, covariance = closed_form(posterior)
    np.testing.assert_allclose(posterior.theta_reward, mean[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(posterior.theta_cost, mean[1:], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(posterior.covariance, covariance, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        posterior.precision @ covariance, np.eye(features), rtol=0, atol=1e-12
    )
    white = posterior.whiten(problem.arms)
    np.testing.assert_allclose(
        white @ white.T, problem.arms @ covariance @ problem.arms.T, rtol=1e-12, atol=1e-13
    )
    assert posterior.theta_cost.shape == (constraints, features)
    assert posterior.pulls == 40


@given(st.integers(0, 10**6), st.integers(0, 3))
def test_one_by_one_in_any_order_in_batches_and_from_sums_agree(seed, constraints):
    problem, arms, rewards, costs = random_history(seed, constraints=constraints)
    rng = np.random.default_rng(seed)
    whole = bf.Posterior.from_history(problem, arms, rewards, costs)
    single, batches = bf.Posterior(problem), bf.Posterior(problem)
    for t in rng.permutation(arms.size):
        single.update(int(arms[t]), rewards[t], costs[t])
    for part in np.array_split(np.arange(arms.size), 7):
        batches.update(arms[part], rewards[part], costs[part])
    counts = np.bincount(arms, minlength=5)
    sums = np.zeros((5, 1 + constraints))
    np.add.at(sums, arms, np.column_stack([rewards, costs]))
    summed = bf.Posterior.from_sums(problem, counts, sums[:, 0], sums[:, 1:])
    for other in (single, batches, summed):
        assert np.array_equal(other.counts, whole.counts)
        np.testing.assert_allclose(other.theta_reward, whole.theta_reward, rtol=0, atol=1e-13)
        np.testing.assert_allclose(other.theta_cost, whole.theta_cost, rtol=0, atol=1e-13)
        assert np.array_equal(other.covariance, whole.covariance)


def test_reading_between_updates_changes_nothing():
    problem, arms, rewards, costs = random_history(3)
    read, unread = bf.Posterior(problem), bf.Posterior(problem)
    for arm, reward, cost in zip(arms, rewards, costs, strict=True):
        for posterior in (read, unread):
            posterior.update(arm, reward, cost)
        read.theta_reward[:] = 7.0  # a copy, not the state
        read.covariance[:] = 7.0
    assert np.array_equal(read.theta_reward, unread.theta_reward)
    assert np.array_equal(read.covariance, unread.covariance)


def test_ten_million_pulls_against_rational_arithmetic():
    problem = bf.Problem([[1, 0.25], [0.5, -1], [-0.125, 2]], [1.0])
    rng = np.random.default_rng(0)
    posterior = bf.Posterior(problem)
    counts, sums = np.zeros(3, dtype=int), [[Fraction(0)] * 2 for _ in range(3)]
    for _ in range(40):
        arms = rng.integers(3, size=250_000).astype(np.int8)
        ticks = rng.integers(-(2**20), 2**20 + 2**17, size=(250_000, 2))
        observed = ticks / 2**20 * 1.7  # not exact in binary, so that the sums do round
        posterior.update(arms, observed[:, 0], observed[:, 1:])
        counts += np.bincount(arms, minlength=3)
        for a in range(3):
            for b in range(2):
                sums[a][b] += Fraction(math.fsum(observed[arms == a, b].tolist()))
    assert posterior.pulls == 10**7
    vectors = [[Fraction(v) for v in arm] for arm in problem.arms.tolist()]
    v = [
        [
            sum(int(n) * x[i] * x[j] for n, x in zip(counts, vectors, strict=True)) + (i == j)
            for j in range(2)
        ]
        for i in range(2)
    ]
    determinant = v[0][0] * v[1][1] - v[0][1] ** 2
    for b, found in enumerate((posterior.theta_reward, posterior.theta_cost[0])):
        u = [sum(sums[a][b] * vectors[a][i] for a in range(3)) for i in range(2)]
        mean = [v[1][1] * u[0] - v[0][1] * u[1], v[0][0] * u[1] - v[0][1] * u[0]]
        np.testing.assert_allclose(found, [float(m / determinant) for m in mean], rtol=1e-10)
    inverse = np.array([[v[1][1], -v[0][1]], [-v[0][1], v[0][0]]], dtype=object) / determinant
    np.testing.assert_allclose(posterior.covariance, inverse.astype(float), rtol=1e-12)


# --- bad scaling ---


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("what", ["all", "arms", "features"])
def test_badly_scaled_arms_against_sixty_digits(unit, what):
    rng = np.random.default_rng(5)
    arms = rng.standard_normal((6, 3))
    if what == "all":
        arms *= unit
    elif what == "arms":
        arms *= unit ** np.linspace(-1, 1, 6)[:, np.newaxis]
    else:
        arms *= unit ** np.array([-1.0, 0.0, 1.0])
    problem = bf.Problem(arms, [1.0])
    counts = rng.integers(1, 10**6, 6)
    sums = rng.standard_normal((6, 2)) * np.sqrt(counts)[:, np.newaxis] + counts[:, np.newaxis]
    posterior = bf.Posterior.from_sums(problem, counts, sums[:, 0], sums[:, 1:])
    mean, covariance = exact(problem, counts, sums)
    root = np.sqrt(np.diag(floats(covariance)))
    # An error is judged in the posterior's own standard deviations, beside the size of the mean.
    size = root * (1 + np.linalg.norm(sums / np.sqrt(counts)[:, np.newaxis]))
    found = np.vstack([posterior.theta_reward, posterior.theta_cost])
    assert np.max(np.abs(found - floats(mean)) / size) < 1e-13
    difference = np.abs(posterior.covariance - floats(covariance)) / np.outer(root, root)
    assert difference.max() < 1e-12
    white = posterior.whiten(problem.arms)
    with mp.workdps(60):
        vectors = mp.matrix(arms.tolist())
        spread = floats(vectors * covariance * vectors.T)
    np.testing.assert_allclose(np.sum(white**2, axis=1), np.diag(spread), rtol=1e-12)


def test_nearly_collinear_arms_against_sixty_digits():
    angle = 1e-6
    problem = bf.Problem([[1, 0], [np.cos(angle), np.sin(angle)]], [1.0])
    counts, sums = np.array([10**7, 10**7]), np.array([[3e6, 1e6], [3.1e6, 0.9e6]])
    posterior = bf.Posterior.from_sums(problem, counts, sums[:, 0], sums[:, 1:])
    mean, covariance = exact(problem, counts, sums)
    found = np.vstack([posterior.theta_reward, posterior.theta_cost])
    np.testing.assert_allclose(found, floats(mean), rtol=1e-9)
    np.testing.assert_allclose(posterior.covariance, floats(covariance), rtol=1e-12)
    white = posterior.whiten(np.diff(problem.arms, axis=0))[0]
    with mp.workdps(60):
        gap = mp.matrix(np.diff(problem.arms, axis=0).tolist())
        spread = float((gap * covariance * gap.T)[0, 0])
    assert white @ white == pytest.approx(spread, rel=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_noise_scales_the_draws_and_nothing_else(size):
    history = random_history(8, constraints=2, reward_noise=size, cost_noise=[size, 3 * size])
    posterior = bf.Posterior.from_history(*history)
    mean, covariance = closed_form(posterior)
    np.testing.assert_allclose(posterior.theta_reward, mean[0], rtol=1e-12)
    draws = posterior.sample(20_000, seed=1)
    sd = draws.theta_cost.std(("chain", "draw")).values
    expected = np.outer([size, 3 * size], np.sqrt(np.diag(covariance)))
    # The standard error of a sample standard deviation is sd / √(2n).
    allowed = z_bound(6, 1e-6) / np.sqrt(40_000)
    assert np.max(np.abs(sd / expected - 1)) < allowed
    assert np.max(np.abs(sd / (1.05 * expected) - 1)) > allowed


# --- more features than arms ---


def test_the_prior_stands_where_no_arm_reaches():
    history = random_history(4, arms=2, features=5, constraints=1, reward_noise=2.0)
    posterior = bf.Posterior.from_history(*history)
    arms = history[0].arms
    outside = np.linalg.svd(arms)[2][2:]
    np.testing.assert_allclose(outside @ posterior.theta_reward, 0, atol=1e-14)
    np.testing.assert_allclose(outside @ posterior.theta_cost[0], 0, atol=1e-14)
    np.testing.assert_allclose(
        outside @ posterior.covariance @ outside.T, np.eye(3), rtol=0, atol=1e-14
    )
    draws = posterior.sample(50_000, seed=2).theta_reward.values[0] @ outside.T
    allowed = z_bound(3, 1e-6) * np.sqrt(2 / len(draws))
    assert np.abs(np.var(draws, axis=0) / 4.0 - 1).max() < allowed
    assert np.abs(np.var(draws, axis=0) / 4.2 - 1).max() > allowed


# --- draws ---


@pytest.mark.parametrize(("arms", "features", "constraints"), [(5, 3, 2), (2, 4, 1), (3, 1, 0)])
def test_draws_have_the_closed_form_moments(arms, features, constraints):
    history = random_history(11, arms, features, constraints, reward_noise=0.5, cost_noise=2.0)
    posterior = bf.Posterior.from_history(*history)
    problem = history[0]
    mean, covariance = closed_form(posterior)
    size = 100_000
    dataset = posterior.sample(size // 2, seed=3, chains=2)
    stacked = np.concatenate(
        [dataset.theta_reward.values[:, :, np.newaxis], dataset.theta_cost.values], axis=2
    ).reshape(size, -1)

    def fits(mean, full):
        z_mean = (stacked.mean(axis=0) - mean.ravel()) / np.sqrt(np.diag(full) / size)
        deviation = np.cov(stacked.T, ddof=1).reshape(full.shape) - full
        variance = (np.outer(np.diag(full), np.diag(full)) + full**2) / size
        z = np.concatenate([z_mean, (deviation / np.sqrt(variance)).ravel()])
        return np.abs(z).max() < z_bound(z.size, 1e-6)

    full = np.kron(np.diag(noise(problem) ** 2), covariance)
    assert fits(mean, full)
    assert not fits(mean + 0.05 * np.sqrt(np.diag(full)).reshape(mean.shape), full)
    assert not fits(mean, 1.05 * full)
    if features > 1:
        assert not fits(mean, np.diag(np.diag(full)))  # the features are not independent


def test_draws_are_labelled_and_reproducible():
    problem = bf.Problem(
        {"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3, "price": 2.0}
    )
    posterior = bf.Posterior(problem)
    draws = posterior.sample(7, seed=5, chains=3)
    assert draws.theta_reward.dims == ("chain", "draw", "feature")
    assert draws.theta_cost.dims == ("chain", "draw", "constraint", "feature")
    assert draws.theta_cost.shape == (3, 7, 2, 2)
    assert draws.constraint.values.tolist() == ["toxicity", "price"]
    assert draws.identical(posterior.sample(7, seed=5, chains=3))
    assert not draws.equals(posterior.sample(7, seed=6, chains=3))
    generator = np.random.default_rng(5)
    assert draws.identical(posterior.sample(7, seed=generator, chains=3))


# --- best ---


def test_best_is_the_best_feasible_candidate_or_none():
    problem = bf.Problem(np.eye(3), [0.5])
    posterior = bf.Posterior(problem)
    assert not posterior.theta_reward.any()
    np.testing.assert_allclose(posterior.covariance, np.eye(3), atol=1e-15)
    assert (posterior.best(), posterior.pulls) == (0, 0)  # all means are 0: the first
    posterior.update([0, 1, 2], [4.0, 2.0, 1.0], [2.0, 0.5, 0.1])
    np.testing.assert_allclose(posterior.theta_cost[0], [1.0, 0.25, 0.05])
    assert posterior.best() == 1
    posterior.update([1, 2], [0.0, 0.0], [8.0, 8.0])
    assert posterior.best() is None
    assert "no candidate looks feasible" in repr(posterior)
    free = bf.Posterior(bf.Problem(np.eye(2), [np.inf, 0.5]))  # infinite: never binds
    free.update([0, 1], [2.0, 1.0], [[1e6, 0.1], [1e9, 0.1]])
    assert free.best() == 0
    assert np.isfinite(free.theta_cost).all()


@given(st.integers(0, 10**6), st.integers(0, 2))
def test_best_by_a_plain_loop(seed, constraints):
    history = random_history(seed, arms=4, features=2, constraints=constraints, pulls=6)
    posterior = bf.Posterior.from_history(*history)
    mean, _ = closed_form(posterior)
    choice, top = None, -np.inf
    for i, z in enumerate(history[0].candidates):
        if all(mean[1 + j] @ z <= 1.0 for j in range(constraints)) and mean[0] @ z > top:
            choice, top = i, mean[0] @ z
    assert posterior.best() == choice


# --- copies, files, ArviZ ---


def test_a_copy_is_independent():
    history = random_history(1)
    posterior = bf.Posterior.from_history(*history)
    before = posterior.to_dataset()
    other = posterior.copy()
    assert other.to_dataset().identical(before)
    other.update(0, 100.0, [100.0])
    assert posterior.to_dataset().identical(before)
    assert other.pulls == posterior.pulls + 1
    dataset = posterior.to_dataset()
    dataset["pulls"].values[:] = 0
    assert posterior.to_dataset().identical(before)


def test_datatree_is_labelled_read_by_arviz_and_survives_a_file(tmp_path):
    problem = bf.Problem(
        {"low": [1, 0.2], "high": [1, 0.9]}, {"toxicity": 0.3, "price": np.inf}, cost_noise=[1, 2]
    )
    posterior = bf.Posterior(problem)
    posterior.update([0, 1, 1], [1.0, 2.0, 3.0], np.ones((3, 2)))
    tree = posterior.to_datatree(200, chains=4, seed=1)
    assert set(tree.children) == {"posterior", "closed_form", "constant_data"}
    assert tree["closed_form"].arm.values.tolist() == ["low", "high"]
    assert tree["closed_form"]["pulls"].sel(arm="high") == 2
    assert tree["constant_data"]["thresholds"].sel(constraint="price") == np.inf
    summary = az.summary(tree)
    assert "theta_cost[toxicity, 0]" in summary.index
    assert len(summary) == 6
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    with xr.open_datatree(path, engine="h5netcdf") as back:
        for name in tree.children:
            xr.testing.assert_equal(back[name].to_dataset(), tree[name].to_dataset())


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((5, 1.0, [1.0, 1.0]), "arm"),
        ((0, [1.0, 2.0], [1.0, 1.0]), "reward"),
        ((0, 1.0, None), "cost"),
        (([0, 9], [1.0, 1.0], np.ones((2, 2))), "arm"),
        (([0, 1], [1.0], np.ones((2, 2))), "reward"),
        (([0, 1], [1.0, 1.0], np.ones((2, 3))), "cost"),
    ],
)
def test_a_bad_update_names_the_argument_and_adds_nothing(arguments, name):
    history = random_history(2, constraints=2)
    posterior = bf.Posterior.from_history(*history)
    before = posterior.to_dataset()
    with pytest.raises((TypeError, ValueError), match=f"^{name}"):
        posterior.update(*arguments)
    assert posterior.to_dataset().identical(before)


@pytest.mark.parametrize(
    ("counts", "rewards", "costs", "name"),
    [
        ([1, -1], [1, 1], [[1], [1]], "counts"),
        ([1, 0.5], [1, 1], [[1], [1]], "counts"),
        ([1, 0], [1, 1], [[1], [0]], "counts"),
        ([1, 1], [1, np.nan], [[1], [1]], "reward_sums"),
        ([1, 1], [1, 1], None, "cost_sums"),
    ],
)
def test_bad_sums_are_refused(counts, rewards, costs, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        bf.Posterior.from_sums(bf.Problem(np.eye(2), [1.0]), counts, rewards, costs)


def test_sums_that_carry_names_are_put_in_the_order_of_arms_and_constraints():
    problem = bf.Problem({"low": [1.0, 0.2], "high": [1.0, 0.9]}, {"a": 0.5, "b": 0.6})
    plain = bf.Posterior.from_sums(problem, [2, 1], [0.5, 0.9], [[1.0, 2.0], [3.0, 4.0]])
    costs = pd.DataFrame({"b": [4.0, 2.0], "a": [3.0, 1.0]}, index=["high", "low"])
    for form in (pd.Series, dict):
        given = form({"high": 1, "low": 2}), form({"high": 0.9, "low": 0.5})
        for table in (costs, xr.DataArray(costs.T, dims=("constraint", "arm"))):
            named = bf.Posterior.from_sums(problem, *given, table)
            assert named.counts.tolist() == plain.counts.tolist()
            np.testing.assert_array_equal(named.theta_reward, plain.theta_reward)
            np.testing.assert_array_equal(named.theta_cost, plain.theta_cost)
