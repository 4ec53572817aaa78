"""The nearest alternative against convex solvers and the rate."""

import math

import numpy as np
import pytest
from helpers import least_exponents, noise
from hypothesis import given
from hypothesis import strategies as st

import bayes_feasible as bf


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


@pytest.mark.parametrize("seed", range(8))
def test_nearest_within_the_balls_against_a_cone_solver(seed):
    rng = np.random.default_rng(seed)
    constraints = seed % 3
    radius = (0.6, 0.5)
    problem = bf.Problem(
        rng.standard_normal((4, 3)), rng.uniform(0.2, 0.6, constraints),
        reward_noise=0.7, cost_noise=1.3, parameter_radius=radius,
    )  # fmt: skip
    theta = rng.standard_normal((1 + constraints, 3))
    theta *= np.array([0.58, *[0.45] * constraints])[:, np.newaxis] / np.linalg.norm(
        theta, axis=1, keepdims=True
    )
    allocation = rng.dirichlet(np.ones(4))
    for candidate in range(4):
        alternative = bf.Alternative(problem, candidate)
        found = alternative.nearest(theta[0], theta[1:], allocation)
        least = least_exponents(alternative, theta, allocation)
        assert float(found.exponent) == pytest.approx(least.min(), rel=1e-5, abs=1e-8)
        point = np.concatenate([[found.theta_reward.values], found.theta_cost.values])
        length = np.linalg.norm(point, axis=1)
        assert length[0] <= radius[0] * (1 + 1e-9)
        assert (length[1:] <= radius[1] * (1 + 1e-9)).all()
        moved = problem.arms @ (point - theta).T
        spent = allocation @ (moved**2 / (2 * noise(problem) ** 2)).sum(axis=1)
        assert spent == pytest.approx(float(found.exponent), rel=1e-6, abs=1e-12)
        if alternative.contains(theta[0], theta[1:]):
            assert float(found.exponent) == 0


def test_nearest_with_an_unseen_direction_stays_in_the_ball():
    problem = bf.Problem(np.eye(2), [0.9], parameter_radius=1.0)
    theta = np.array([[0.9, 0.1], [0.1, 0.1]])
    allocation = np.array([1.0, 0.0])
    alternative = bf.Alternative(problem, 0)
    found = alternative.nearest(theta[0], theta[1:], allocation)
    # Feature 1 is free but for the ball, so both reward entries end at √½: (0.9 - √½)² / 2.
    assert float(found.exponent) == pytest.approx((0.9 - math.sqrt(0.5)) ** 2 / 2, rel=1e-5)


def test_nearest_refuses_a_parameter_beyond_the_ball():
    alternative = bf.Alternative(bf.Problem(np.eye(2), [0.5], parameter_radius=1.0), 0)
    with pytest.raises(ValueError, match=r"^theta_reward"):
        alternative.nearest([2.0, 0.0], [[0.0, 0.0]], [0.5, 0.5])
