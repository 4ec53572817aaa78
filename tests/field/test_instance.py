"""An instance knows its best feasible candidate, the gaps and the classes of the others."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import bayes_feasible as bf

A1, A2, A3 = (
    "infeasible superoptimal (A1)",
    "feasible suboptimal (A2)",
    "infeasible suboptimal (A3)",
)
# reward = first coordinate, cost = second, threshold 1
POINTS = {
    "slow": [1.0, 0.0],
    "best": [2.0, 0.5],
    "dear": [3.0, 1.5],
    "bad": [0.5, 4.0],
    "edge": [1.5, 1.0],
}


def hand_made():
    return bf.Instance(bf.Problem(POINTS, {"cost": 1.0}), [1, 0], [0, 1])


def test_summary_by_hand():
    summary = hand_made().summary()
    assert summary.mean_reward.values.tolist() == [1, 2, 3, 0.5, 1.5]
    assert summary.reward_gap.values.tolist() == [1, 0, -1, 1.5, 0.5]
    assert summary.mean_cost.values.tolist() == [[0], [0.5], [1.5], [4], [1]]
    assert summary.cost_margin.values.tolist() == [[1], [0.5], [-0.5], [-3], [0]]
    assert summary.feasible.values.tolist() == [True, True, False, False, True]
    assert summary.kind.values.tolist() == [A2, "best", A1, A3, A2]
    assert summary.mean_cost.dims == ("candidate", "constraint")
    assert summary.candidate.values.tolist() == list(POINTS)
    assert summary.constraint.values.tolist() == ["cost"]
    assert summary.attrs["best"] == "best"


@pytest.mark.parametrize(
    ("problem", "theta", "kinds"),
    [
        # both constraints must hold
        (bf.Problem(np.eye(3), {"a": 1, "b": 1}),
         ([3, 2, 1], {"b": [0, 9, 0], "a": [9, 0, 0]}), [A1, A1, "best"]),
        # ties go to the first
        (bf.Problem([[1, 1], [2, 0], [2, 3]]), ([1, 0],), [A2, "best", A2]),
        # an infeasible candidate of equal reward is not superoptimal
        (bf.Problem([[1, 0], [1, 9]], 1), ([1, 0], [0, 1]), ["best", A3]),
        # copies of the best are best too
        (bf.Problem([[1, 0], [2, 0], [2, 0]]), ([1, 0],), [A2, "best", "best"]),
    ],
)  # fmt: skip
def test_classes_of_special_cases(problem, theta, kinds):
    instance = bf.Instance(problem, *theta)
    assert instance.kind.tolist() == kinds
    assert instance.best == kinds.index("best")


def test_infinite_threshold_never_binds():
    free = bf.Instance(bf.Problem(POINTS, np.inf), [1, 0], [0, 1])
    plain = bf.Instance(bf.Problem(POINTS), [1, 0])
    assert free.best == plain.best == 2
    assert free.feasible.all()
    assert np.isposinf(free.summary().cost_margin).all()


@given(seed=st.integers(0, 2**32), features=st.integers(1, 30), arms=st.integers(2, 60))
def test_copies_agree_to_the_last_bit(seed, features, arms):
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((arms, features))
    vectors[-1] = vectors[arms // 2] = vectors[0]
    problem = bf.Problem(vectors, [np.inf, np.inf])
    instance = bf.Instance(problem, vectors[0], generator.standard_normal((2, features)))
    same = problem.copies(0)
    for values in (instance.mean_reward, instance.reward_gap, *instance.mean_cost.T):
        assert len(set(values[same])) == 1
    assert not same[: instance.best].any() or not same[instance.best]


def test_memory_layout_does_not_change_a_bit():
    rows = np.random.default_rng(3).standard_normal((50, 37))
    theta = np.random.default_rng(4).standard_normal(37)
    by_row, by_column = (
        bf.Instance(bf.Problem(np.array(rows, order=order)), theta) for order in "CF"
    )
    assert np.array_equal(by_row.mean_reward, by_column.mean_reward)


# --- the forms that parameters may take ---


@pytest.mark.parametrize(
    "theta_cost",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]]),
        {"b": [3, 4], "a": [1, 2]},
        {"b": pd.Series({"y": 4, "x": 3}), "a": [1, 2]},
        pd.DataFrame([[1, 2], [3, 4]]),
        pd.DataFrame([[4, 3], [2, 1]], index=["b", "a"], columns=["y", "x"]),
        xr.DataArray([[3, 4], [1, 2]], coords={"constraint": ["b", "a"], "feature": ["x", "y"]}),
        xr.DataArray([[1, 3], [2, 4]], coords={"feature": ["x", "y"], "constraint": ["a", "b"]}),
    ],
)
def test_cost_parameters_follow_their_names(theta_cost):
    arms = pd.DataFrame([[0.1, 0.1]], columns=["x", "y"])
    instance = bf.Instance(bf.Problem(arms, {"a": 9, "b": 9}), [1, 2], theta_cost)
    assert instance.theta_cost.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "theta_reward",
    [
        [1, 2],
        (1, 2),
        pd.Series([1, 2]),
        pd.Series({"y": 2, "x": 1}),
        xr.DataArray([2, 1], coords={"feature": ["y", "x"]}),
    ],
)
def test_reward_parameter_follows_its_names(theta_reward):
    arms = pd.DataFrame([[0.1, 0.1]], columns=["x", "y"])
    assert bf.Instance(bf.Problem(arms), theta_reward).theta_reward.tolist() == [1, 2]


@pytest.mark.parametrize("nothing", [None, [], np.zeros((0, 2)), {}])
def test_no_cost_parameter_without_constraints(nothing):
    assert bf.Instance(bf.Problem(np.eye(2)), [1, 0], nothing).theta_cost.shape == (0, 2)


def test_radius_is_checked():
    problem = bf.Problem(np.eye(2), 1, parameter_radius=(2, 1))
    assert bf.Instance(problem, [2, 0], [1, 0]).best == 0
    with pytest.raises(ValueError, match=r"^theta_reward: norm 2\.5 exceeds"):
        bf.Instance(problem, [2.5, 0], [1, 0])
    with pytest.raises(ValueError, match=r"^theta_cost: norm 1\.5 exceeds"):
        bf.Instance(problem, [2, 0], [0, 1.5])


def test_no_candidate_may_be_feasible():
    instance = bf.Instance(bf.Problem({"a": [4.0], "b": [3.0]}, 1), [1], [1])
    assert instance.best is None
    assert not instance.feasible.any()
    assert instance.summary().attrs["best"] == "none"
    assert instance.reward_gap.tolist() == [0.0, 1.0]
    assert "infeasible" in repr(instance)


# --- pulls ---


def test_pulls_have_the_right_law():
    """Each of 8 checks raises a false alarm with probability 1e-5 (and the seed is fixed)."""
    problem = bf.Problem([[1, 0], [1, 2]], [9, 9], reward_noise=0.5, cost_noise=[2, 3])
    instance = bf.Instance(problem, [1, 1], [[0, 1], [2, 0]])
    pulls = 4000
    rewards, costs = instance.pull(np.tile([0, 1], pulls), seed=5)
    assert (rewards.shape, costs.shape) == ((2 * pulls,), (2 * pulls, 2))
    expected = np.array([[1, 0, 2], [3, 2, 2]])
    seen = np.column_stack([rewards, costs]).reshape(pulls, 2, 3)
    noise = (seen - expected) / [0.5, 2, 3]

    def largest(noise):
        correlation = np.corrcoef(noise.reshape(-1, 3).T)
        return np.abs(correlation[np.triu_indices(3, 1)]).max()

    for arm in range(2):
        for column in range(3):
            one = noise[:, arm, column]
            assert stats.kstest(one, "norm").pvalue > 1e-5
            assert stats.kstest(1.2 * one, "norm").pvalue < 1e-5
            assert stats.kstest(one + 0.1, "norm").pvalue < 1e-5
    allowed = stats.norm.isf(1e-5 / 6) / np.sqrt(2 * pulls)
    assert largest(noise) < allowed
    assert (
        largest(noise + 0.1 * noise[:, :, :1] * [0, 1, 0]) > allowed
    )  # a cost with a bit of reward


def test_pulls_repeat_with_the_seed():
    instance = hand_made()
    assert [part.shape for part in instance.pull([], seed=0)] == [(0,), (0, 1)]
    first, again, other = (instance.pull([0, 1, 2], seed)[0] for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# --- equality, representation ---


def test_equality():
    assert hand_made() == hand_made()
    problem = hand_made().problem
    assert hand_made() != bf.Instance(problem, [2, 0], [0, 1])
    assert hand_made() != bf.Instance(problem, [1, 0], [0, 0.5])
    assert hand_made() != bf.Instance(bf.Problem(POINTS, {"cost": 1.1}), [1, 0], [0, 1])
    assert hand_made() != hand_made().problem


def test_repr_shows_the_best_first_and_then_by_reward():
    lines = repr(hand_made()).splitlines()
    assert lines[0].startswith("Instance of a Problem: 5 arms")
    assert lines[3].split() == ["candidate", "reward", "gap", "cost", "cost", "class"]
    assert [line.split()[0] for line in lines[4:]] == ["best", "edge", "slow", "dear", "bad"]
    assert lines[4].split() == ["best", "2", "0", "0.5", "best"]


def test_repr_of_many_candidates_is_cut():
    instance = bf.Instance(bf.Problem(np.arange(1.0, 31)[:, np.newaxis]), [1])
    lines = repr(instance).splitlines()
    assert lines[-1].strip() == "... and 10 more"
    assert lines[3].split() == ["29", "30", "0", "best"]
    assert "... and 10 more" in instance._repr_html_()


def test_html_is_escaped():
    problem = bf.Problem({"<script>&": [1.0], "b": [0.5]}, {"<i>": 2})
    html = bf.Instance(problem, [1], [1])._repr_html_()
    assert "<script>" not in html
    assert "<i>" not in html
    assert "<td>&lt;script&gt;&amp;</td>" in html
    assert "<th>cost &lt;i&gt;</th>" in html
    assert html.count("<tr>") == 3


def test_the_best_is_found_beside_numbers_that_hide_the_difference():
    """Rewards of 10^17 + 1 and 10^17 + 2 are the same number; their difference is not 0."""
    problem = bf.Problem([[1e17, 1.0], [1e17, 2.0], [1e17, 0.5]])
    instance = bf.Instance(problem, [1.0, 1.0])
    assert len(set(instance.mean_reward)) == 1
    assert instance.best == 1
    assert instance.reward_gap.tolist() == [1.0, 0.0, 1.5]
    # arms 1.5 apart tell of a gap of 1, half of the pulls each: 1.5² / 8
    assert bf.optimal_rate(instance).value == pytest.approx(9 / 32, rel=1e-8)
