"""The ready-made instances are what they say."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import bayes_feasible as bf
from bayes_feasible import instances

DATA = Path(bf.__file__).parent / "data" / "movielens_imdb_top60.csv"


def films():
    with DATA.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- end of optimism ---


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.3])
def test_end_of_optimism(alpha):
    instance = bf.instances.end_of_optimism(alpha)
    problem = instance.problem
    last = [np.cos(alpha), np.sin(alpha)]
    np.testing.assert_array_equal(problem.arms, [[1, 0], [0, 0.15], [0, 1], [1.2, 1.2], last])
    assert problem.candidates is problem.arms
    assert (problem.thresholds.tolist(), problem.cost_noise.tolist()) == ([0.5], [1])
    assert problem.reward_noise == 1
    assert instance.theta_reward.tolist() == [1, 0]
    assert instance.theta_cost.tolist() == [[0, 1]]
    assert [kind[-4:] for kind in instance.kind] == ["best", "(A2)", "(A3)", "(A1)", "(A2)"]


@pytest.mark.parametrize("alpha", [2e-8, 1e-3, np.pi / 6 + 1e-9, 1.57])
def test_first_arm_is_the_only_best_at_any_allowed_angle(alpha):
    instance = bf.instances.end_of_optimism(alpha)
    assert instance.best == 0
    assert instance.reward_gap[instance.feasible].tolist().count(0) == 1
    assert instance.feasible[4] == (alpha < np.pi / 6)


# --- random ball ---


@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 7), (2, 5), (20, 20), (50, 20)])
def test_random_ball_shape_and_parameters(d, k):
    instance = bf.instances.random_ball(d, k, seed=d * k)
    problem = instance.problem
    assert problem.arms.shape == (k, d)
    assert problem.rank == min(d, k)
    assert np.linalg.norm(problem.arms, axis=1).max() < 1
    assert np.array_equal(instance.theta_reward, np.eye(d)[0])
    assert np.array_equal(instance.theta_cost, np.eye(d)[[-1]])
    assert problem.thresholds.tolist() == [0.5]
    assert (problem.reward_noise, problem.cost_noise.tolist()) == (1, [1])


@pytest.mark.parametrize("threshold", [0.5, 0.0, -0.4, np.inf])
def test_random_ball_has_a_clear_best(threshold):
    for seed in range(50):
        instance = bf.instances.random_ball(2, 4, seed, threshold=threshold)
        summary = instance.summary()
        others = summary.feasible.values & (np.arange(4) != instance.best)
        assert summary.feasible.values[instance.best]
        assert np.all(summary.reward_gap.values[others] > 0)
        assert np.all(summary.cost_margin.values != 0)


def test_random_ball_draws_again_until_something_is_feasible():
    """With threshold -0.8 in two dimensions most single draws have no feasible arm."""
    generator = np.random.default_rng(0)
    first = generator.standard_normal((3, 2))
    first *= generator.random((3, 1)) ** 0.5 / np.linalg.norm(first, axis=1, keepdims=True)
    assert first[:, 1].min() > -0.8
    instance = bf.instances.random_ball(2, 3, 0, threshold=-0.8)
    assert instance.mean_cost[instance.best, 0] < -0.8


def test_random_ball_ties_are_drawn_again(monkeypatch):
    draws = iter([[[0.2, 0.1], [0.2, 0.3]], [[0.3, 0.5], [0.1, 0.2]], [[0.1, 0.2], [0.3, 0.4]]])
    monkeypatch.setattr(instances, "_uniform_in_ball", lambda *_: np.array(next(draws)))
    assert bf.instances.random_ball(2, 2, 0).problem.arms.tolist() == [[0.1, 0.2], [0.3, 0.4]]


def test_random_ball_repeats_with_the_seed():
    same = [bf.instances.random_ball(3, 4, seed) for seed in (5, 5, np.random.default_rng(5))]
    assert same[0] == same[1] == same[2]
    assert same[0] != bf.instances.random_ball(3, 4, 6)


def uniform_in_the_ball(arms, false_alarm=1e-4):
    """Whether radius^d and the angles look uniform, and the radius independent of the direction."""
    d, radius = arms.shape[1], np.linalg.norm(arms, axis=1)
    p_values = [stats.kstest(radius**d, "uniform").pvalue]
    if d == 1:
        p_values.append(stats.binomtest(int((arms > 0).sum()), len(arms)).pvalue)
        return min(p_values) > false_alarm
    # a coordinate of a uniform direction: (1 + u)/2 is Beta((d-1)/2, (d-1)/2)
    shape = (d - 1) / 2
    for coordinate in (0, d - 1):
        share = (1 + arms[:, coordinate] / radius) / 2
        p_values.append(stats.kstest(share, stats.beta(shape, shape).cdf).pvalue)
    p_values.append(stats.spearmanr(radius, arms[:, 0]).pvalue)
    return min(p_values) > false_alarm


@pytest.mark.parametrize("d", [1, 2, 3, 20])
def test_arms_are_uniform_in_the_ball_and_others_are_noticed(d):
    """The threshold is infinite, so that no draw is thrown away and the arms are independent."""
    rng = np.random.default_rng(12)
    arms = bf.instances.random_ball(d, 20_000, 11, threshold=np.inf).problem.arms
    assert uniform_in_the_ball(arms)
    radius = np.linalg.norm(arms, axis=1, keepdims=True)
    assert not uniform_in_the_ball(arms * radius**0.1)  # too near the centre
    if d == 1:
        assert not uniform_in_the_ball(np.where(rng.random(arms.shape) < 0.05, abs(arms), arms))
        return
    cube = rng.uniform(-1, 1, arms.shape)
    assert not uniform_in_the_ball(cube / np.linalg.norm(cube, axis=1, keepdims=True) * radius)
    smaller, larger = np.sort(rng.random((2, *radius.shape)) ** (1 / d), axis=0)
    linked = np.where(arms[:, :1] > 0, larger, smaller)  # the right law, but not of each side
    assert not uniform_in_the_ball(arms / radius * linked)


# --- soare ---


@pytest.mark.parametrize(("d", "angle"), [(2, 0.1), (5, 0.01)])
def test_soare(d, angle):
    instance = bf.instances.soare(d, angle)
    rival = np.zeros(d)
    rival[:2] = np.cos(angle), np.sin(angle)
    np.testing.assert_array_equal(instance.problem.arms, np.vstack([np.eye(d), rival]))
    assert instance.theta_reward.tolist() == [2.0] + [0.0] * (d - 1)
    assert instance.problem.thresholds.size == 0
    assert instance.best == 0
    assert instance.reward_gap[-1] == pytest.approx(4 * np.sin(angle / 2) ** 2, rel=1e-9)


# --- films ---


def test_movielens():
    instance = bf.instances.movielens()
    rows = films()
    assert instance.problem.name(instance.best) == "X-Men (2000)"
    assert instance.mean_reward[instance.best] == pytest.approx(3.6992, abs=5e-5)
    assert instance.feasible.sum() == 12
    free = bf.instances.movielens(np.inf)
    assert free.problem.name(free.best) == "Shawshank Redemption, The (1994)"
    assert instance.problem.coords["arm"].tolist() == [row["title"] for row in rows]
    assert instance.problem.coords["constraint"].tolist() == ["imdb_score"]
    np.testing.assert_array_equal(instance.problem.arms, np.eye(60))
    np.testing.assert_array_equal(instance.mean_reward, [float(row["rating_mean"]) for row in rows])
    np.testing.assert_array_equal(
        instance.mean_cost[:, 0], [float(row["imdb_score"]) for row in rows]
    )


def test_mean_ratings_agree_with_the_histograms():
    for row in films():
        counts = {float(key[2:]): int(row[key]) for key in row if key.startswith("n_")}
        assert sum(counts.values()) == int(row["ratings"])
        mean = sum(value * count for value, count in counts.items()) / sum(counts.values())
        assert float(row["rating_mean"]) == pytest.approx(mean, abs=5e-7)


def test_movielens_keeps_the_most_rated():
    kept = bf.instances.movielens(films=20)
    by_ratings = sorted(films(), key=lambda row: -int(row["ratings"]))
    assert kept.problem.coords["candidate"].tolist() == [row["title"] for row in by_ratings[:20]]


def test_movielens_genres_are_indicators():
    problem = bf.instances.movielens(features="genres").problem
    names = problem.coords["feature"].tolist()
    assert names[0] == "constant"
    assert np.all(problem.arms[:, 0] == 1)
    for row, arm in zip(films(), problem.arms, strict=True):
        having = {name for name, value in zip(names[1:], arm[1:], strict=True) if value == 1}
        assert having == set(row["genres"].split("|"))
        assert set(arm) <= {0.0, 1.0}
    fewer = bf.instances.movielens(np.inf, films=2, features="genres").problem
    assert len(fewer.coords["feature"]) == 6  # genres of dropped films are dropped


def test_movielens_genres_truth_is_the_least_squares_fit():
    """The residuals of a least-squares fit are orthogonal to every feature."""
    instance = bf.instances.movielens(features="genres")
    arms, rows = instance.problem.arms, films()
    ratings = np.array([float(row["rating_mean"]) for row in rows])
    scores = np.array([float(row["imdb_score"]) for row in rows])
    np.testing.assert_allclose(arms.T @ (ratings - instance.mean_reward), 0, atol=1e-10)
    np.testing.assert_allclose(arms.T @ (scores - instance.mean_cost[:, 0]), 0, atol=1e-10)
    assert instance.problem.name(instance.best) == "Princess Bride, The (1987)"
    assert instance.mean_reward[instance.best] == pytest.approx(3.658, abs=5e-4)
    assert instance.feasible.sum() == 6


def test_films_of_the_same_genres_are_copies():
    instance = bf.instances.movielens(features="genres")
    names = instance.problem.coords["candidate"].tolist()
    copies = instance.problem.copies(names.index("X-Men (2000)"))
    same = {row["title"] for row in films() if row["genres"] == "Action|Adventure|Sci-Fi"}
    assert {name for name, copy in zip(names, copies, strict=True) if copy} == same
    assert len(same) > 1
