"""The G-optimal design against cvxpy, closed forms and the Kiefer-Wolfowitz theorem."""

import cvxpy as cp
import numpy as np
import pytest
import xarray as xr

from bayes_feasible import Problem, g_optimal


def random_arms(seed: int) -> np.ndarray:
    rng = np.random.default_rng([3, seed])
    features = int(rng.integers(1, 8))
    arms = rng.standard_normal((features + int(rng.integers(0, 30)), features))
    if seed % 3 == 1:  # duplicates and a zero arm
        arms = np.vstack([arms, arms[:2], np.zeros((1, features))])
    if seed % 3 == 2:  # more features than directions
        arms = arms @ rng.standard_normal((features, features + 3))
    return arms


def in_span(arms: np.ndarray) -> np.ndarray:
    _, size, directions = np.linalg.svd(arms, full_matrices=False)
    return arms @ directions[size > 1e-10 * size[0]].T


@pytest.mark.parametrize("seed", range(9))
def test_determinant_matches_cvxpy(seed):
    arms = in_span(random_arms(seed))
    weights = cp.Variable(len(arms), nonneg=True)
    information = sum(weights[i] * np.outer(x, x) for i, x in enumerate(arms))
    program = cp.Problem(cp.Maximize(cp.log_det(information)), [cp.sum(weights) == 1])
    program.solve(solver=cp.CLARABEL)
    design = g_optimal(random_arms(seed))
    ours = np.linalg.slogdet(arms.T @ (design.allocation.values[:, None] * arms))[1]
    assert ours == pytest.approx(program.value, abs=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_kiefer_wolfowitz(seed):
    arms = random_arms(seed)
    design = g_optimal(arms)
    reduced = in_span(arms)
    weights = design.allocation.values
    inverse = np.linalg.inv(reduced.T @ (weights[:, None] * reduced))
    variance = np.einsum("xi,ij,xj->x", reduced, inverse, reduced)
    assert design.rank == reduced.shape[1]
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert variance.max() == pytest.approx(design.value, rel=1e-9)
    assert 0 <= design.gap <= 1e-8
    np.testing.assert_allclose(variance[weights > 1e-6], design.rank, rtol=1e-4)


def test_closed_forms():
    """One direction: the longest arm. A basis: equal shares. A polygon's corners: a circle."""
    np.testing.assert_allclose(g_optimal([[1.0], [-3.0], [2.0]]).allocation, [0, 1, 0], atol=1e-7)
    np.testing.assert_allclose(g_optimal(np.diag([1.0, 1e-6, 1e6])).allocation, 1 / 3, rtol=1e-8)
    angle = 2 * np.pi * np.arange(5) / 5
    circle = g_optimal(np.column_stack([np.cos(angle), np.sin(angle)]))
    moments = circle.allocation.values @ np.column_stack([np.cos(2 * angle), np.sin(2 * angle)])
    np.testing.assert_allclose(moments, 0, atol=1e-6)


@pytest.mark.parametrize(("arms", "features"), [(10_000, 4), (2000, 30), (300, 100)])
def test_large(arms, features):
    design = g_optimal(np.random.default_rng(5).standard_normal((arms, features)))
    assert design.gap <= 1e-8
    assert design.rank == features


@pytest.mark.parametrize("seed", range(5))
def test_scales(seed):
    """Arms of lengths 1e-6 to 1e6 and nearly collinear ones are certified, and rank is kept."""
    rng = np.random.default_rng([4, seed])
    arms = rng.standard_normal((20, 4))
    assert g_optimal(arms * 10 ** rng.uniform(-6, 6, (20, 1))).gap <= 1e-8
    assert g_optimal(arms * 10.0 ** np.array([-6, 0, 3, 6])).gap <= 1e-8
    near = g_optimal(arms[:1] + 1e-6 * arms)
    assert near.rank == 4
    assert near.gap <= 1e-8


def test_labels_and_problem():
    arms = {"left": [1.0, 0.0], "right": [0.0, 2.0], "short": [0.1, 0.1]}
    by_name = g_optimal(Problem(arms)).allocation
    assert list(by_name.coords["arm"].values) == ["left", "right", "short"]
    assert by_name.dims == ("arm",)
    xr.testing.assert_equal(by_name, g_optimal(arms).allocation)
    assert "2 of 3 arms pulled" in repr(g_optimal(arms))
