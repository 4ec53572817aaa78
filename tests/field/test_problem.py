"""A problem keeps what it is given, names included, and knows the span of its arms."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_feasible as bf
from bayes_feasible.span import span

ROWS = [[1.0, 0.2], [1.0, 0.9], [0.5, 0.0]]
NAMES = ["low", "high", "none"]
FEATURES = ["constant", "dose"]


def labelled(problem):
    return {name: values.tolist() for name, values in problem.coords.items()}


# --- the forms that arms and thresholds may take ---


@pytest.mark.parametrize("form", [list, tuple, np.array, lambda rows: np.array(rows, order="F")])
def test_plain_arrays_get_numbers_as_names(form):
    problem = bf.Problem(form(ROWS), [0.5, np.inf])
    assert np.array_equal(problem.arms, ROWS)
    assert problem.candidates is problem.arms
    assert labelled(problem) == {
        "arm": [0, 1, 2],
        "candidate": [0, 1, 2],
        "feature": [0, 1],
        "constraint": [0, 1],
    }


ARRAY = xr.DataArray(ROWS, coords={"arm": NAMES, "feature": FEATURES})


@pytest.mark.parametrize(
    ("arms", "features"),
    [
        (dict(zip(NAMES, ROWS, strict=True)), [0, 1]),
        (pd.DataFrame(ROWS, index=NAMES, columns=FEATURES), FEATURES),
        (ARRAY, FEATURES),
        (ARRAY.transpose("feature", "arm"), FEATURES),
        (xr.DataArray(ROWS, dims=("arm", "feature"), coords={"arm": NAMES}), [0, 1]),
    ],
)
def test_names_are_kept(arms, features):
    thresholds = {"toxicity": 0.3}
    for limits in (
        thresholds,
        pd.Series(thresholds),
        xr.DataArray([0.3], {"c": ["toxicity"]}, "c"),
    ):
        problem = bf.Problem(arms, limits)
        assert np.array_equal(problem.arms, ROWS)
        names = labelled(problem)
        assert names["arm"] == names["candidate"] == NAMES
        assert (names["feature"], names["constraint"]) == (features, ["toxicity"])


def test_candidates_have_names_of_their_own():
    problem = bf.Problem(ROWS, candidates=pd.DataFrame([[2.0, 0.2]], ["z"], FEATURES))
    names = labelled(problem)
    assert (names["candidate"], names["arm"], names["feature"]) == (["z"], [0, 1, 2], FEATURES)
    assert problem.name(0) == "z"


def test_whole_numbers_and_unicode_as_names():
    assert labelled(bf.Problem({10: [1.0], -3: [2.0]}))["arm"] == [10, -3]
    assert labelled(bf.Problem({"é": [1.0], "日本": [2.0]}))["arm"] == ["é", "日本"]
    assert labelled(bf.Problem({2**70: [1.0]}))["arm"] == [str(2**70)]


@pytest.mark.parametrize("nothing", [(), [], None, {}])
def test_no_threshold_is_no_constraint(nothing):
    problem = bf.Problem(ROWS, nothing)
    assert problem.thresholds.shape == problem.cost_noise.shape == (0,)
    assert problem.coords["constraint"].dtype.kind == "i"


def test_cost_noise_by_name_is_put_in_the_order_of_the_thresholds():
    thresholds = {"a": 1, "b": 2}
    for noise in ({"b": 5, "a": 4}, pd.Series({"b": 5, "a": 4})):
        assert bf.Problem(ROWS, thresholds, cost_noise=noise).cost_noise.tolist() == [4, 5]
    assert bf.Problem(ROWS, [1, 2], cost_noise={1: 5, 0: 4}).cost_noise.tolist() == [4, 5]
    assert bf.Problem(ROWS, thresholds, cost_noise=3).cost_noise.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("radius", "kept"),
    [(2, (2.0, 2.0)), ((2, np.inf), (2.0, np.inf)), (np.inf, None), (None, None)],
)
def test_parameter_radius(radius, kept):
    assert bf.Problem(ROWS, parameter_radius=radius).parameter_radius == kept


def test_what_was_passed_in_is_neither_shared_nor_writable():
    arms = np.array(ROWS)
    problem = bf.Problem(arms, 0.5)
    arms[0, 0] = 99
    assert problem.arms[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        problem.arms[0, 0] = 99


# --- span, copies ---


def test_rank_deficient_arms():
    assert np.array_equal(bf.Problem(ROWS).basis, np.eye(2))
    np.testing.assert_allclose(np.abs(span(np.array([[3.0, 4.0], [6.0, 8.0]]))), [[0.6], [0.8]])
    generator = np.random.default_rng(1)
    arms = generator.standard_normal((7, 3)) @ generator.standard_normal((3, 6))
    problem = bf.Problem(arms)
    basis = problem.basis
    assert problem.rank == 3
    assert basis.shape == (6, 3)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(arms @ basis @ basis.T, arms, atol=1e-12)


def test_neither_units_nor_lengths_hide_a_direction():
    assert span(np.array([[1.0, 0.0], [1.0, 1e-30]])).shape == (2, 2)
    assert span(np.array([[1e50, 0.0], [0.0, 1e-50]])).shape == (2, 2)
    assert span(np.array([[1.0, 1.0], [3.0, 3.0], [0.0, 0.0]])).shape == (2, 1)


def test_rank_survives_any_units_and_lengths():
    """Whole-number tables of known rank, rows and columns multiplied by powers of ten."""
    generator = np.random.default_rng(6)
    for _ in range(300):
        arms, inner, features = generator.integers(1, 6, 3)
        table = generator.integers(-3, 4, (arms, inner)) @ generator.integers(
            -3, 4, (inner, features)
        )
        if not table.any():
            continue
        rows, columns = (10.0 ** generator.integers(-20, 20, n) for n in (arms, features))
        scaled = table * rows[:, np.newaxis] * columns
        assert span(scaled).shape[1] == np.linalg.matrix_rank(table)


@pytest.mark.parametrize(
    "arms",
    [
        [[1e13, 0, 1.4e13], [0, 1, 1e-50], [1, 1.5, 1.5]],
        [[1e100, 1.5, 1e100], [1, 2, 0], [1e-50, 1, 1]],
        [[1, 1, 1.5], [1, 2, 1], [1e50, 1e100, 1e100]],
    ],
)
def test_an_arm_is_always_in_the_span_of_the_arms(arms):
    assert bf.Problem(arms, candidates=np.array(arms) / 2).rank == 3


def test_candidate_inside_the_span_of_deficient_arms():
    problem = bf.Problem([[1, 1, 0], [1, -1, 0]], candidates=[[0.3, 0.7, 0], [0, 0, 0]])
    assert (problem.rank, len(problem.candidates)) == (2, 2)


# --- equality, representation ---


def everything(**change):
    given = {
        "arms": dict(zip(NAMES, ROWS, strict=True)),
        "thresholds": {"a": 0.5},
        "candidates": {"z": [1, 1]},
        "reward_noise": 2,
        "cost_noise": 3,
        "parameter_radius": 4,
    }
    return bf.Problem(**(given | change))


@pytest.mark.parametrize(
    "change",
    [
        {"arms": dict(zip(["x", "y", "z"], ROWS, strict=True))},
        {"arms": dict(zip(NAMES, [[1.0, 0.3], *ROWS[1:]], strict=True))},
        *({"arms": ROWS}, {"thresholds": {"a": 0.6}}, {"thresholds": {"b": 0.5}}),
        *({"candidates": None}, {"candidates": {"z": [1, 2]}}, {"reward_noise": 1}),
        *({"cost_noise": 1}, {"parameter_radius": None}, {"parameter_radius": (4, 5)}),
    ],
)
def test_every_difference_counts(change):
    assert everything() == everything()
    assert everything() != everything(**change)
    assert everything() != "problem"


def test_repr():
    problem = bf.Problem(
        [[1, 0], [0, 1]],
        {"toxicity": 0.3, "price": np.inf},
        candidates=[[1, 1]],
        cost_noise=[1, 0.5],
        parameter_radius=(2, 3),
    )
    lines = repr(problem).splitlines()
    assert lines[0] == "Problem: 2 arms, 1 candidate, 2 features, 2 constraints"
    assert lines[2:4] == ["  price <= inf, noise 0.5", "  reward noise 1"]
    assert lines[-1].endswith("reward <= 2, costs <= 3")


def test_candidates_that_are_the_arms_are_the_arms():
    arms = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    same = bf.Problem(arms, candidates=arms)
    assert same.candidates is same.arms
    for other in ([[1.0, 0.0], [0.0, 1.0]], {"a": [1.0, 0.0], "c": [0.0, 1.0]}):
        problem = bf.Problem(arms, candidates=other)
        assert problem.candidates is not problem.arms  # under names of their own
    truth = bf.Instance(same, [1.0, 0.5])
    assert bf.TopTwo(truth, beta="optimal").beta == pytest.approx(0.5)


@pytest.mark.parametrize("scale", [1.0, 1e10])
def test_a_candidate_cannot_hide_in_a_feature_of_small_units(scale):
    arms = [[scale, 0.0, 0.0], [0.0, 1.0, 0.0]]
    bf.Problem(arms, candidates=[[scale, 2.0, 0.0]])
    with pytest.raises(ValueError, match=r"^candidates: .* lies outside the span of the arms"):
        bf.Problem(arms, candidates=[[scale, 0.0, 1e-3]])
    with pytest.raises(ValueError, match=r"^candidates: .* lies outside the span of the arms"):
        bf.Problem([[scale, 1.0, 1.0]], candidates=[[scale, 1.0, 1.001]])
