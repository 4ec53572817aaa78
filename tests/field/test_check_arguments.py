"""Every check of an argument: what it takes, and the type of what it raises otherwise."""

import datetime
import io
import math
from array import array
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr

import bayes_feasible as bf
from bayes_feasible import _check

NAN, INF = math.nan, math.inf
DRUG = bf.Problem({"low": [1.0, 0.2], "high": [1.0, 0.9]}, {"toxicity": 0.5, "price": 2.0})
PLAIN = bf.Problem([[1.0, 0.0], [0.0, 1.0]])


class Raises:
    """An object that raises what it likes when it is to become a number or an array."""

    def __init__(self, error):
        self.error = error

    def __array__(self, *_, **__):
        raise self.error

    __float__ = __array__


def holding_itself():
    made = [1.0]
    made.append(made)
    return made


def refuses(error, check, *arguments, **options):
    with pytest.raises(error, match=r"^it: ") as caught:
        check("it", *arguments, **options)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        *(None, "a", "1", b"1", object(), {1, 2}, 1 + 2j, datetime.date(2020, 1, 1), len, np, ...),
        *([1, None], [1, "2"], [1j, 2], [["1", "2"]], slice(3), iter([1.0]), io.StringIO("1")),
        *(np.array(["1"]), np.array([1], "M8[s]"), np.array([1], "m8[s]"), [1, pd.NA]),
        *(pd.Series(["a"]), pd.DataFrame({"a": pd.Categorical(["1"])}), scipy.sparse.eye(2)),
        np.array([(1, 2)], dtype=[("a", float), ("b", float)]),
        *(Raises(KeyError("no")), Raises(RuntimeError("detach it first")), [Raises(LookupError())]),
    ],
)
def test_what_holds_no_numbers_is_a_wrong_type(value):
    refuses(TypeError, _check.numbers, value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((NAN, "nan"), ([[1, 2], [NAN, 3]], r"nan at index (1, 0)"), ([1, INF], "inf at index")),
        *(([1, 1e101], "1e+101"), ([1, 1e-101], "1e-101"), (5e-324, "too small"), (10**400, "")),
        *(([1, [2, 3]], ""), (holding_itself(), ""), (Decimal("NaN"), "nan"), (2**1100, "")),
        (np.array(["1e4000"]).astype(np.longdouble), "inf"),
        (np.ma.masked_array([1.0, 2.0], mask=[False, True]), "missing"),
    ],
)
def test_what_no_calculation_can_use_is_a_wrong_value(value, shown):
    assert shown in refuses(ValueError, _check.numbers, value)


def test_numbers_of_every_kind():
    given = [[Decimal("0.5"), Fraction(1, 4)], [np.float32(2), np.int8(3)]]
    assert _check.numbers("it", given).tolist() == [[0.5, 0.25], [2, 3]]
    assert _check.numbers("it", [True, 0, 1e100, -1e-100]).tolist() == [1, 0, 1e100, -1e-100]
    assert _check.numbers("it", [INF, 1], infinite=True).tolist() == [INF, 1]
    assert _check.numbers("it", array("d", [1.0, 2.0])).tolist() == [1, 2]
    refuses(ValueError, _check.numbers, [NAN], infinite=True)
    mine = np.ones(2)
    assert not np.shares_memory(_check.numbers("it", mine), mine)


def test_positive():
    assert _check.positive("it", [2]) == 2.0
    for value in (0, -1, NAN, INF, [], [1, 2], [[1]]):
        refuses(ValueError, _check.positive, value)
    for value in (None, "1", 1j):
        refuses(TypeError, _check.positive, value)


def test_count():
    assert [_check.count("it", value) for value in (1, np.int8(3), 10**30)] == [1, 3, 10**30]
    for value in (None, "2", 1.0, 2.5, True, NAN, [2], np.array([2]), np.float64(2), 1j):
        refuses(TypeError, _check.count, value)
    for value in (0, -1):
        assert "at least 1" in refuses(ValueError, _check.count, value)
    assert "at most 4, got 5" in refuses(ValueError, _check.count, 5, most=4)
    assert len(refuses(ValueError, _check.count, 10**400, most=4)) < 120


def test_kind():
    _check.kind("it", DRUG, bf.Problem, bf.Instance)
    for value in (None, "a", 3, bf.Problem):
        assert "expected a Problem or an Instance" in refuses(
            TypeError, _check.kind, value, bf.Problem, bf.Instance
        )


def test_one_of_several_things_by_index_or_name():
    place = _check.place
    assert [place("it", v, ["a", "b"], "arm") for v in (0, np.uint8(1), "a", "b", "1")] == [
        *(0, 1, 0, 1, 1)
    ]
    numbered = [10, 20]
    assert [place("it", v, numbered, "arm") for v in (0, "10", "20")] == [0, 0, 1]
    for value in (None, 0.0, True, [0], NAN, np.array([0]), b"a"):
        refuses(TypeError, place, value, ["a", "b"], "arm")
    for value in (-1, 2, 2**70, "2"):
        assert "there are 2 arms" in refuses(ValueError, place, value, ["a", "b"], "arm")
    assert "did you mean 'low'" in refuses(ValueError, place, "lwo", ["low", "high"], "arm")
    assert "unknown arm '1'" in refuses(ValueError, place, "1", numbered, "arm")
    for value in ("0", None, 0.0):
        refuses(TypeError, _check.index, value, 2, "event")
    refuses(ValueError, _check.index, 2, 2, "event")


def test_several_things_by_index_or_name():
    places, labels = _check.places, ["a", "b"]
    for value in ([1, 0], ("b", "a"), ["b", 0], np.array(["b", "a"]), np.array([1, 0], dtype="O")):
        assert places("it", value, labels, "arm").tolist() == [1, 0]
    assert places("it", [], labels, "arm").dtype == np.int64
    for value in ([0.0], [True], [NAN], [1j], [None], ["a", 0.5], ["a", True], [object()]):
        refuses(TypeError, places, value, labels, "arm")
    for value in ([-1], [2], [2**64 - 1], [10**30], [[0]], 0, "01", [[0], [0, 1]], ["c"]):
        refuses(ValueError, places, value, labels, "arm")
    refuses(ValueError, places, np.ma.masked_array([0, 1], mask=[True, False]), labels, "arm")


def test_seeds():
    sequence = np.random.SeedSequence(3)
    sequence.spawn(2)
    copied = _check.seed_sequence(sequence)
    assert copied is not sequence
    assert copied.state == sequence.state
    rng = np.random.default_rng(1)
    assert _check.generator("it", rng) is rng
    for value in (True, "a", b"a", 1.5, object(), np.float32(2)):
        refuses(TypeError, _check.generator, value)
    for value in (-1, [-1]):
        refuses(ValueError, _check.generator, value)
    with pytest.raises(TypeError, match=r"^seed: .*SeedSequence"):
        _check.seed_sequence(rng)


def test_the_costs_of_one_pull():
    for cost in ([0.1, 2], {"price": 2, "toxicity": 0.1}, pd.Series({"price": 2, "toxicity": 0.1})):
        arms, rewards, costs = _check.pulls(DRUG, "high", 1, cost)
        assert (arms.tolist(), rewards.tolist(), costs.tolist()) == ([1], [1], [[0.1, 2]])
    assert _check.pulls(PLAIN, 0, 1.0, None)[2].shape == (1, 0)
    for cost, message in [
        (None, r"expected 2 costs \(toxicity, price\), got 0"),
        ([1, 2, 3], r"expected 2 costs \(toxicity, price\), got 3"),
        ({"price": 1}, "none for toxicity"),
        ({"0": 1, "1": 2}, "unknown constraint '0'"),  # a dict has names, never places
        ({"price": 1, "toxicity": [1, 2]}, "as many numbers for each constraint"),
        ([1, 1e81], "at most 1e.80"),
    ]:
        with pytest.raises(ValueError, match=f"^cost: .*{message}"):
            _check.pulls(DRUG, 0, 1.0, cost)
    with pytest.raises(ValueError, match=r"^cost: expected no cost"):
        _check.pulls(PLAIN, 0, 1.0, 2.0)
    with pytest.raises(TypeError, match=r"^cost price: expected numbers, got 'x'"):
        _check.pulls(DRUG, 0, 1.0, {"price": "x", "toxicity": 1})


def test_the_costs_of_several_pulls():
    table = [[0.1, 2], [0.2, 3]]
    frame = pd.DataFrame(table, columns=["toxicity", "price"])
    labels = {"constraint": ["toxicity", "price"]}
    for cost in (
        *(table, frame, frame[["price", "toxicity"]], frame.to_dict("list"), pd.DataFrame(table)),
        xr.DataArray(np.transpose(table), labels, ("constraint", "pull")),
    ):
        arms, _, costs = _check.pulls(DRUG, ["low", 1], [1, 2], cost)
        assert (arms.tolist(), costs.tolist()) == ([0, 1], table)
    for argument, given in {
        "reward": ([0, 1], [1], table),
        "cost": ([0, 1], [1, 2], [[0.1, 2]]),
        "arm": ([[0, 1]], [1, 2], table),
    }.items():
        with pytest.raises(ValueError, match=f"^{argument}: "):
            _check.pulls(DRUG, *given)


def test_names():
    assert _check.names("it", None, 2).tolist() == [0, 1]
    assert _check.names("it", [10, np.int64(20)], 2).tolist() == [10, 20]
    assert _check.names("it", ["a", 1, 2**70], 3).tolist() == ["a", "1", str(2**70)]
    for value in (["a", "a"], [1, "1"], [NAN, NAN], ["\ud800"], ["a\0"]):
        refuses(ValueError, _check.names, value, len(value))


def test_an_allocation():
    for shares in ([0.1, 0.9], {"high": 0.9, "low": 0.1}, pd.Series({"high": 0.9, "low": 0.1})):
        assert _check.allocation(DRUG, shares).tolist() == [0.1, 0.9]
    for shares in ([1], [0.5, 0.4], [1.5, -0.5], [0, 0], {"low": 0.5, "hihg": 0.5}, {"low": 1}):
        with pytest.raises(ValueError, match=r"^allocation: "):
            _check.allocation(DRUG, shares)
    with pytest.raises(TypeError, match=r"^allocation: expected numbers, got 'x'"):
        _check.allocation(DRUG, "x")


def test_a_path():
    assert _check.path("it", b"a.csv").name == "a.csv"
    for value in (None, 3, 3.5, ["a"]):
        refuses(TypeError, _check.path, value)
    refuses(ValueError, _check.path, "a\0b")
