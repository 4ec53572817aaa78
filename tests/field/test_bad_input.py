"""Bad input of any kind is a TypeError or a ValueError that names the argument, nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bayes_feasible as bf

NAN, INF = float("nan"), float("inf")
EYE = [[1.0, 0.0], [0.0, 1.0]]


def problem(**given: Any) -> bf.Problem:
    return bf.Problem(**({"arms": EYE, "thresholds": [0.5]} | given))


def instance(**given: Any) -> bf.Instance:
    fixed = {"problem": problem(), "theta_reward": [1, 0], "theta_cost": [0, 0]}
    return bf.Instance(**(fixed | given))


def pull(**given: Any) -> Any:
    return instance().pull(**({"arms": [0], "seed": 0} | given))


def random_ball(**given: Any) -> bf.Instance:
    return bf.instances.random_ball(**({"d": 2, "k": 3, "seed": 0} | given))


def history(**given: Any) -> Any:
    fixed = {"problem": problem(), "arms": [0, 1], "rewards": [1, 2], "costs": [[1], [2]]}
    return bf.Posterior.from_history(**(fixed | given))


def alternative(**given: Any) -> Any:
    return bf.Alternative(**({"problem": problem(), "candidate": 0} | given))


def exponents(**given: Any) -> Any:
    return bf.exponents(**({"instance": instance(), "allocation": [0.5, 0.5]} | given))


# `test_check_arguments` tries every kind of object; here stand those that only an argument refuses.
TABLES = [
    *("a", [[1, NAN]], [], {}, [1, 2], [[[1, 2]]], np.zeros((0, 2)), {"a": 1}),
    *(
        {"a": [1, 2], "b": [1]},
        {1: [1, 2], "1": [3, 4]},
        pd.Series([1, 2]),
        xr.DataArray([1.0, 2.0]),
    ),
    *(pd.DataFrame([[1, 2]] * 2, index=["a", "a"]), pd.DataFrame([[1, 2]], columns=["a", "a"])),
]
ANGLES = ["1", 0, 1e-9, np.pi / 2, 10]
THRESHOLDS = ["1", NAN, -INF, [1, 2]]
BAD: list[tuple[Callable[..., Any], str, list[Any]]] = [
    (problem, "arms", [None, *TABLES, [[0, 0], [0, 0]]]),
    (problem, "candidates", [*TABLES, [[1, 2, 3]], [[1]]]),
    (problem, "thresholds", ["a", NAN, [1, -INF], [[1]], {"a": None}, {1: 1, "1": 2}, {"a\0": 1}]),
    (problem, "thresholds", [pd.Series([1, 2], index=["a", "a"]), pd.DataFrame([[1]])]),
    (problem, "reward_noise", ["1", 0]),
    (problem, "cost_noise", [0, [], [1, 2], [[1]], {"a": 1}, {}, {0: -1}]),
    (problem, "parameter_radius", [0, NAN, -INF, "1", [], [1, 2, 3], [1, 0], [[1]], 1e101]),
    (instance, "problem", [None, EYE, bf.Problem]),
    (instance, "theta_reward", [None, [], 1, [1], [[1, 2]], [1, NAN], {"a": 1}]),
    (instance, "theta_cost", ["a", [], 1, [1], [[1, 2]] * 2, [[[1, 2]]], {"a": [1, 2]}, {}]),
    (instance, "theta_cost", [{0: [1]}, {0: "a"}, pd.DataFrame([[1]])]),
    (pull, "arms", [None, [0.0], [2]]),
    (pull, "seed", ["a", -1]),
    (bf.instances.end_of_optimism, "alpha", ANGLES),
    (bf.instances.soare, "d", [1.0, 1, 10**6]),
    (random_ball, "k", [0, 10**9]),
    (random_ball, "seed", [-1]),
    (random_ball, "threshold", [*THRESHOLDS, -1, -2]),
    (bf.instances.movielens, "threshold", [*THRESHOLDS, 5.3, -3]),
    (bf.instances.movielens, "films", [0, 61]),
    (bf.instances.movielens, "features", [None, "genre", ["genres"]]),
    (history, "arms", [None, [2, 0]]),
    (history, "costs", [None, [1], {"a": 1}]),
    (alternative, "candidate", [0.0, "x", 2]),
    (exponents, "instance", [None, problem()]),
    (exponents, "allocation", ["a", [1, 2, 3], [0.5, 0.4], [1.5, -0.5]]),
    (bf.g_optimal, "arms", [None, *TABLES[:6], [[0, 0], [0, 0]]]),
]


@pytest.mark.parametrize(
    ("make", "argument", "value"),
    [
        pytest.param(make, argument, value, id=f"{make.__name__}-{argument}-{number}")
        for make, argument, values in BAD
        for number, value in enumerate(values)
    ],
)
def test_bad_argument_is_named(make, argument, value):
    with pytest.raises((TypeError, ValueError), match=f"^{argument}: "):
        make(**{argument: value})


def test_thresholds_and_cost_parameters_must_match():
    for thresholds, theta_cost in [((), [[1, 0]]), ([1, 2], [1, 0]), ([1], [[1, 0], [0, 1]])]:
        with pytest.raises(ValueError, match=r"^theta_cost: expected shape"):
            instance(problem=problem(thresholds=thresholds), theta_cost=theta_cost)
    with pytest.raises(ValueError, match=r"^theta_cost: unknown constraint 'b'"):
        instance(problem=problem(thresholds={"a": 1}), theta_cost={"b": [1, 0]})


def test_features_of_arms_and_candidates_must_match():
    arms = pd.DataFrame(EYE, columns=["x", "y"])
    with pytest.raises(ValueError, match=r"^candidates: expected the features of the arms"):
        bf.Problem(arms, candidates=pd.DataFrame(EYE, columns=["y", "x"]))


# --- anything at all ---

scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.decimals()),
    *(st.text(max_size=3), st.binary(max_size=3), st.fractions(), st.dates(), st.just(10**400)),
    st.builds(object),
)
lists = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=8)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
dtypes = st.one_of(
    *(hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes()),
    *(hnp.floating_dtypes(), hnp.complex_number_dtypes(), hnp.datetime64_dtypes()),
    hnp.unicode_string_dtypes(max_len=3),
)
arrays = hnp.arrays(dtypes, shapes)
plain = arrays.filter(lambda array: array.dtype.kind in "bifuc")
anything = (
    lists
    | arrays
    | st.dictionaries(st.none() | st.integers() | st.text(max_size=3), lists, max_size=3)
    | plain.filter(lambda array: array.ndim == 2).map(pd.DataFrame)
    | plain.map(xr.DataArray)
)
# nearly right: the shape or a value may be off, so that every check is reached
rough = st.floats(-3, 3) | st.sampled_from([0.0, 1e100, -1e100, 1e-100, 1e90, 1e-90, 5e-324])
nearly = hnp.arrays(float, hnp.array_shapes(min_dims=1, max_dims=2, max_side=3), elements=rough)
value = anything | nearly | rough
a_problem = st.sampled_from(
    [
        problem(),
        problem(thresholds=()),
        problem(thresholds=[INF, 0.5]),
        bf.Problem([[1, 1], [2, 2], [1, 1]], 1, candidates=[[0, 0], [-1, -1]]),
        bf.Problem([[1e100, 0], [0, 1e-100]], [1], cost_noise=1e-100, reward_noise=1e100),
    ]
)


def outcome(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The object made, or None for a TypeError or ValueError; any other exception is a failure."""
    try:
        return make(*args, **kwargs)
    except (TypeError, ValueError):
        return None


def finite(*arrays: Any) -> bool:
    return all(np.isfinite(array).all() for array in arrays)


def valid_problem(made: bf.Problem) -> bool:
    radius = made.parameter_radius
    return (
        finite(made.arms, made.candidates, made.cost_noise, made.reward_noise, made.basis)
        and not np.isnan(made.thresholds).any()
        and made.reward_noise > 0
        and bool(np.all(made.cost_noise > 0))
        and (radius is None or (min(radius) > 0 and not np.isnan(radius).any()))
        and all(
            len(made.coords[name]) == size
            for name, size in {
                "arm": len(made.arms),
                "candidate": len(made.candidates),
                "feature": made.arms.shape[1],
                "constraint": made.thresholds.size,
            }.items()
        )
        and len(repr(made)) > 0
    )


def valid_instance(made: bf.Instance) -> bool:
    return (
        valid_problem(made.problem)
        and finite(made.theta_reward, made.theta_cost, made.mean_reward, made.mean_cost)
        and finite(made.reward_gap)
        and (made.best is None or bool(made.feasible[made.best]))
        and not made.summary().isnull().to_array().any()
        and len(repr(made)) > 0
    )


@given(arms=value, thresholds=value | st.just(()))
def test_any_arms_and_thresholds(arms, thresholds):
    made = outcome(bf.Problem, arms, thresholds)
    assert made is None or valid_problem(made)


@given(arms=nearly, candidates=value, thresholds=value | st.just(()))
def test_any_candidates(arms, candidates, thresholds):
    made = outcome(bf.Problem, arms, thresholds, candidates=candidates)
    assert made is None or valid_problem(made)


@given(reward_noise=value, cost_noise=value, radius=value)
def test_any_noise_and_radius(reward_noise, cost_noise, radius):
    for change in (
        {"reward_noise": reward_noise},
        {"cost_noise": cost_noise},
        {"parameter_radius": radius},
    ):
        made = outcome(problem, **change)
        assert made is None or valid_problem(made)


@given(of=a_problem | value, theta_reward=value, theta_cost=value)
def test_any_instance(of, theta_reward, theta_cost):
    made = outcome(bf.Instance, of, theta_reward, theta_cost)
    assert made is None or valid_instance(made)


@given(of=a_problem, data=st.data())
def test_any_parameters_of_the_right_shape(of, data):
    features, constraints = of.arms.shape[1], of.thresholds.size
    theta_reward = data.draw(hnp.arrays(float, features, elements=rough))
    theta_cost = data.draw(hnp.arrays(float, (constraints, features), elements=rough))
    made = outcome(bf.Instance, of, theta_reward, theta_cost)
    assert made is None or valid_instance(made)


@given(arms=value, seed=value)
def test_any_pull(arms, seed):
    made = outcome(instance().pull, arms, seed)
    assert made is None or finite(*made)


@given(alpha=value, d=value | st.integers(-2, 5))
def test_any_fixed_instance(alpha, d):
    for made in (
        outcome(bf.instances.end_of_optimism, alpha),
        outcome(bf.instances.soare, d, alpha),
        outcome(bf.instances.soare, d),
    ):
        assert made is None or (valid_instance(made) and made.best == 0)


small = st.integers(-2, 6)


@given(value=value | small, d=st.integers(1, 5), k=st.integers(1, 8), threshold=st.floats(-1, 1))
def test_any_random_ball(value, d, k, threshold):
    # a few dozen arms, so that a threshold that nothing meets is found out quickly
    assume(not (isinstance(value, int | np.integer) and value > 50))
    for change in ({}, {"d": value}, {"k": value}, {"seed": value}, {"threshold": value}):
        given = {"d": d, "k": k, "seed": 0, "threshold": threshold} | change
        made = outcome(bf.instances.random_ball, **given)
        assert made is None or valid_instance(made)


@given(value=value, threshold=st.floats(4, 10), films=st.integers(1, 60))
def test_any_movielens(value, threshold, films):
    for change in ({}, {"threshold": value}, {"films": value}, {"features": value}):
        for features in ("one-hot", "genres"):
            given = {"threshold": threshold, "films": films, "features": features} | change
            made = outcome(bf.instances.movielens, **given)
            assert made is None or valid_instance(made)


def valid_posterior(made: Any) -> bool:
    features = made.problem.arms.shape[1]
    return (
        finite(made.theta_reward, made.theta_cost, made.precision)
        and made.theta_reward.shape == (features,)
        and made.theta_cost.shape == (made.problem.thresholds.size, features)
        and made.precision.shape == (features, features)
        and made.best() in (None, *range(len(made.problem.candidates)))
    )


@given(of=a_problem | value)
def test_any_posterior(of):
    made = outcome(bf.Posterior, of)
    assert made is None or valid_posterior(made)


@given(of=a_problem | value, arms=value, rewards=value, costs=value)
def test_any_history(of, arms, rewards, costs):
    made = outcome(bf.Posterior.from_history, of, arms, rewards, costs)
    assert made is None or valid_posterior(made)


@st.composite
def pulled(draw, of):
    """A posterior after a history of the right shape; None if its numbers are refused."""
    pulls = draw(st.integers(0, 5))
    arms = draw(hnp.arrays(np.int64, pulls, elements=st.integers(0, len(of.arms) - 1)))
    rewards = draw(hnp.arrays(float, pulls, elements=rough))
    costs = draw(hnp.arrays(float, (pulls, of.thresholds.size), elements=rough))
    return outcome(bf.Posterior.from_history, of, arms, rewards, costs)


@given(of=a_problem, data=st.data())
def test_any_history_of_the_right_shape(of, data):
    made = data.draw(pulled(of))
    assert made is None or valid_posterior(made)


@given(arm=value | small, reward=value, cost=value)
def test_any_update(arm, reward, cost):
    made = bf.Posterior(problem())
    outcome(made.update, arm, reward, cost)
    assert valid_posterior(made)


@given(of=a_problem, candidate=st.integers(0, 1), theta_reward=value, theta_cost=value)
def test_any_parameters_of_an_alternative(of, candidate, theta_reward, theta_cost):
    inside = outcome(bf.Alternative(of, candidate).contains, theta_reward, theta_cost)
    assert inside is None or np.asarray(inside).dtype == bool


@given(of=a_problem, candidate=st.integers(0, 1), data=st.data())
def test_any_probability_of_an_alternative(of, candidate, data):
    """After any history the probability is a number with bounds in order, and draws are finite."""
    posterior = data.draw(pulled(of))
    assume(posterior is not None)
    alternative = bf.Alternative(of, candidate)
    estimate = outcome(alternative.log_probability, posterior, seed=0)
    if estimate is not None:
        assert not np.isnan([estimate.value, estimate.standard_error]).any()
        assert estimate.lower <= estimate.upper + 1e-9
        assert estimate.value <= 1e-9
    drawn = outcome(alternative.sample, posterior, 3, seed=0)
    assert drawn is None or finite(drawn.theta_reward, drawn.theta_cost)


@given(of=a_problem, candidate=st.integers(0, 1), value=value | small)
def test_any_sampling(of, candidate, value):
    assume(not (isinstance(value, int | np.integer) and value > 1000))
    alternative, posterior = bf.Alternative(of, candidate), bf.Posterior(of)
    for change in ({}, {"draws": value}, {"seed": value}, {"scale": value}, {"posterior": value}):
        given = {"posterior": posterior, "draws": 2, "seed": 0} | change
        drawn = outcome(alternative.sample, **given)
        assert drawn is None or finite(drawn.theta_reward, drawn.theta_cost)
    estimate = outcome(alternative.log_probability, posterior, seed=value)
    assert estimate is None or not np.isnan(estimate.value)


@given(of=st.sampled_from([instance(), bf.instances.soare(2)]) | value, allocation=value)
def test_any_exponents(of, allocation):
    made = outcome(bf.exponents, of, allocation)
    assert made is None or bool(((made >= 0) & ~np.isnan(made)).all())


@given(data=st.data())
def test_any_exponents_of_an_allocation(data):
    of = data.draw(st.sampled_from([instance(), bf.instances.soare(3), bf.instances.movielens()]))
    weights = data.draw(
        hnp.arrays(
            float,
            len(of.problem.arms),
            elements=st.sampled_from([0.0, 1.0, 1e-200, 1e-9]) | st.floats(0, 1),
        ).filter(np.any)
    )
    made = outcome(bf.exponents, of, weights / weights.sum())
    assert made is None or bool(((made >= 0) & ~np.isnan(made)).all())


@given(arms=value)
def test_any_design(arms):
    made = outcome(bf.g_optimal, arms)
    if made is not None:
        weights = np.asarray(made.allocation)
        assert finite(weights, made.value)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bf.BLFAIPS(bf.Problem([[1.0]]), seed=True), "seed: .*True"),
        (lambda: bf.PEPS(bf.Problem([[1.0]]), keep_data="no"), "keep_data: .*'no'"),
        (lambda: bf.Problem({"\ud800": [1.0]}), "names must be text that can be written"),
        (lambda: bf.Problem([[1.0]], {"\ud800": 1.0}), "names must be text that can be written"),
    ],
)
def test_what_looks_like_something_else_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
