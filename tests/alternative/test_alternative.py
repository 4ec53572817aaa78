"""The alternative set against its definition."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cases import FREE
from hypothesis import given
from hypothesis import strategies as st

import bayes_feasible as bf


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


NAMED = bf.Problem(pd.DataFrame([[1.0, 2.0], [3.0, 1.0]], ["a", "b"], ["x", "y"]), {"p": 1, "q": 2})


@pytest.mark.parametrize(
    ("reward", "cost"),
    [
        ({"y": 1.0, "x": -2.0}, {"q": [0.3, 0.4], "p": {"y": 0.2, "x": 0.1}}),
        (pd.Series({"y": 1.0, "x": -2.0}),
         pd.DataFrame({"y": [0.4, 0.2], "x": [0.3, 0.1]}, ["q", "p"])),
        (xr.DataArray([1.0, -2.0], {"feature": ["y", "x"]}),
         xr.DataArray([[0.3, 0.1], [0.4, 0.2]], {"feature": ["x", "y"], "constraint": ["q", "p"]})),
    ],
)  # fmt: skip
def test_parameters_and_candidates_by_name(reward, cost):
    plain = [-2.0, 1.0], [[0.1, 0.2], [0.3, 0.4]]
    for index, name in enumerate("ab"):
        alternative = bf.Alternative(NAMED, name)
        assert alternative.candidate == index
        assert alternative.contains(reward, cost) == alternative.contains(*plain)
        found, expected = (alternative.nearest(*at, [0.5, 0.5]) for at in ((reward, cost), plain))
        assert found.identical(expected)
        # many parameters at once: an axis before, whatever its place
        many = xr.DataArray([[1.0, 1.0], [-2.0, 9.0]], {"feature": ["y", "x"]}, ("feature", "draw"))
        costs = {"q": [[0.3, 0.4]] * 2, "p": [[0.1, 0.2]] * 2}
        expected = alternative.contains([[-2.0, 1.0], [9.0, 1.0]], [plain[1]] * 2)
        np.testing.assert_array_equal(alternative.contains(many, costs), expected)
    with pytest.raises(ValueError, match=r"^theta_cost: unknown constraint 'r'"):
        alternative.contains(reward, {"p": [0, 0], "r": [0, 0]})
    with pytest.raises(ValueError, match=r"^candidate: unknown candidate 'c'"):
        bf.Alternative(NAMED, "c")


def test_reference_membership_by_definition(reference):
    for name in FREE:
        _, alternative, draws, events = reference(name)
        inside = alternative.contains(draws[:2000, 0], draws[:2000, 1:])
        np.testing.assert_array_equal(inside, events[:2000].any(axis=1))
        for draw, found in zip(draws[:50], inside, strict=False):
            best = is_best(alternative.problem, alternative.candidate, draw[0], draw[1:])
            assert found != best


def test_draws_are_labelled():
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, {"dose": 1.0, "price": np.inf})
    alternative = bf.Alternative(problem, 0)
    assert alternative.events.names == ["dose of a too high", "b better"]
    draws = alternative.sample(bf.Posterior(problem), 6, chains=3)
    assert draws.theta_cost.dims == ("chain", "draw", "constraint", "feature")
    assert dict(draws.sizes) == {"chain": 3, "draw": 6, "feature": 2, "constraint": 2}
    assert draws.constraint.values.tolist() == ["dose", "price"]
    assert draws.event.dims == ("chain", "draw")
