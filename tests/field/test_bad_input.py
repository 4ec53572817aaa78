"""Bad input of any kind is a TypeError or a ValueError that names the argument, nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
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
    *([], {}, [1, 2], [[[1, 2]]], np.zeros((0, 2)), {"a": [1, 2], "b": [1]}),
    *({1: [1, 2], "1": [3, 4]}, xr.DataArray([1.0, 2.0])),
    *(pd.DataFrame([[1, 2]] * 2, index=["a", "a"]), pd.DataFrame([[1, 2]], columns=["a", "a"])),
]
BAD: list[tuple[Callable[..., Any], str, list[Any]]] = [
    (problem, "arms", [None, *TABLES, [[0, 0], [0, 0]]]),
    (problem, "candidates", [*TABLES, [[1, 2, 3]]]),
    (problem, "thresholds", [NAN, [1, -INF], [[1]], {"a": None}, {1: 1, "1": 2}, {"a\0": 1}]),
    (problem, "thresholds", [pd.Series([1, 2], index=["a", "a"]), pd.DataFrame([[1]])]),
    (problem, "reward_noise", [0]),
    (problem, "cost_noise", [0, [], [1, 2], [[1]], {"a": 1}, {0: -1}]),
    (problem, "parameter_radius", [0, NAN, -INF, [1, 2, 3], [1, 0], [[1]], 1e101]),
    (instance, "problem", [EYE]),
    (instance, "theta_reward", [None, 1, [1], [[1, 2]], {"a": 1}]),
    (instance, "theta_cost", [[], 1, [1], [[1, 2]] * 2, [[[1, 2]]], {"a": [1, 2]}, {}]),
    (instance, "theta_cost", [{0: [1]}, {0: "a"}, pd.DataFrame([[1]])]),
    (pull, "arms", [[2]]),
    (pull, "seed", [-1]),
    (bf.instances.end_of_optimism, "alpha", [0, 1e-9, np.pi / 2]),
    (bf.instances.soare, "d", [1, 10**6]),
    (random_ball, "k", [0, 10**9]),
    (random_ball, "seed", [-1]),
    (random_ball, "threshold", [NAN, -INF, [1, 2], -2]),
    (bf.instances.movielens, "threshold", [NAN, -INF, [1, 2], 5.3]),
    (bf.instances.movielens, "films", [0, 61]),
    (bf.instances.movielens, "features", [None, "genre", ["genres"]]),
    (bf.Posterior, "problem", [EYE]),
    (history, "arms", [[2, 0]]),
    (history, "costs", [None, [1], {"a": 1}]),
    (alternative, "candidate", [2]),
    (exponents, "instance", [problem()]),
    (exponents, "allocation", [[1, 2, 3], [0.5, 0.4], [1.5, -0.5]]),
    (bf.g_optimal, "arms", [None, [1, 2], [[0, 0], [0, 0]]]),
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
# Numbers beyond these would ask for as many draws or arms.
few = (value | st.integers(-2, 6)).filter(
    lambda each: not (isinstance(each, int | np.integer) and each > 50)
)
a_problem = st.sampled_from(
    [
        problem(),
        problem(thresholds=()),
        problem(thresholds=[INF, 0.5]),
        bf.Problem([[1, 1], [2, 2], [1, 1]], 1, candidates=[[0, 0], [-1, -1]]),
        bf.Problem([[1e100, 0], [0, 1e-100]], [1], cost_noise=1e-100, reward_noise=1e100),
    ]
)
a_candidate = st.integers(0, 1)
shares = st.sampled_from([0.0, 1.0, 1e-200, 1e-9]) | st.floats(0, 1)


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
    sizes = *made.arms.shape, len(made.candidates), made.thresholds.size
    return (
        finite(made.arms, made.candidates, made.cost_noise, made.reward_noise, made.basis)
        and not np.isnan(made.thresholds).any()
        and min([made.reward_noise, *made.cost_noise]) > 0
        and (radius is None or (min(radius) > 0 and not np.isnan(radius).any()))
        and sizes
        == tuple(len(made.coords[k]) for k in ("arm", "feature", "candidate", "constraint"))
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


def valid_posterior(made: Any) -> bool:
    features = made.problem.arms.shape[1]
    return (
        finite(made.theta_reward, made.theta_cost, made.precision)
        and made.theta_reward.shape == (features,)
        and made.theta_cost.shape == (made.problem.thresholds.size, features)
        and made.precision.shape == (features, features)
        and made.best() in (None, *range(len(made.problem.candidates)))
    )


def valid_probability(found: bf.LogProbability) -> bool:
    return (
        not np.isnan([found.value, found.standard_error]).any()
        and found.lower <= found.upper + 1e-9
        and found.value <= 1e-9
    )


def valid_exponents(made: Any) -> bool:
    return bool(((made >= 0) & ~np.isnan(made)).all())


def valid_design(made: bf.Design) -> bool:
    weights = np.asarray(made.allocation)
    return finite(weights, made.value) and weights.min() >= 0 and abs(weights.sum() - 1) < 1e-9


def updated(**given: Any) -> bf.Posterior:
    """A posterior after an update that is refused or not."""
    made = bf.Posterior(problem())
    outcome(made.update, **given)
    return made


def drawn(of: bf.Problem, candidate: int, **given: Any) -> Any:
    asked = {"posterior": bf.Posterior(of), "draws": 2, "seed": 0} | given
    return bf.Alternative(of, candidate).sample(**asked)


def probability(of: bf.Problem, candidate: int, seed: Any) -> bf.LogProbability:
    return bf.Alternative(of, candidate).log_probability(bf.Posterior(of), seed=seed)


def inside(of: bf.Problem, candidate: int, theta_reward: Any, theta_cost: Any) -> Any:
    return np.asarray(bf.Alternative(of, candidate).contains(theta_reward, theta_cost))


ball = {"d": st.integers(1, 5), "k": st.integers(1, 8), "threshold": st.floats(-1, 1)}
films = {"threshold": st.floats(4, 10), "films": st.integers(1, 60)}
ANY: list[tuple[Callable[..., Any], dict[str, Any], Callable[[Any], bool]]] = [
    (bf.Problem, {"arms": value, "thresholds": value | st.just(())}, valid_problem),
    (problem, {"arms": nearly, "candidates": value, "thresholds": value}, valid_problem),
    (problem, {"reward_noise": value}, valid_problem),
    (problem, {"cost_noise": value}, valid_problem),
    (problem, {"parameter_radius": value}, valid_problem),
    (instance, {"problem": a_problem | value, "theta_reward": value, "theta_cost": value},
     valid_instance),
    (pull, {"arms": value, "seed": value}, lambda made: finite(*made)),
    (bf.instances.end_of_optimism, {"alpha": value}, lambda m: valid_instance(m) and m.best == 0),
    (bf.instances.soare, {"d": few, "angle": value}, lambda m: valid_instance(m) and m.best == 0),
    *((random_ball, ball | {name: few}, valid_instance) for name in (*ball, "seed")),
    *((bf.instances.movielens, films | {name: value}, valid_instance)
      for name in (*films, "features")),
    (bf.instances.movielens, films | {"features": st.just("genres")}, valid_instance),
    (bf.Posterior, {"problem": a_problem | value}, valid_posterior),
    (history, {"problem": a_problem | value, "arms": value, "rewards": value, "costs": value},
     valid_posterior),
    (updated, {"arm": few, "reward": value, "cost": value}, valid_posterior),
    (inside, {"of": a_problem, "candidate": a_candidate, "theta_reward": value,
              "theta_cost": value}, lambda made: made.dtype == bool),
    *((drawn, {"of": a_problem, "candidate": a_candidate, name: few},
       lambda made: finite(made.theta_reward, made.theta_cost))
      for name in ("draws", "seed", "scale", "posterior")),
    (probability, {"of": a_problem, "candidate": a_candidate, "seed": value}, valid_probability),
    (exponents, {"instance": st.sampled_from([instance(), bf.instances.soare(2)]) | value,
                 "allocation": value}, valid_exponents),
    (bf.g_optimal, {"arms": value}, valid_design),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "arguments", "valid"),
    [pytest.param(*row, id=f"{row[0].__name__}-{'-'.join(row[1])}") for row in ANY],
)
@given(data=st.data())
def test_anything_at_all_is_refused_or_gives_what_is_valid(make, arguments, valid, data):
    made = outcome(make, **data.draw(st.fixed_dictionaries(arguments)))
    assert made is None or valid(made)


@given(of=a_problem, data=st.data())
def test_any_parameters_of_the_right_shape(of, data):
    features, constraints = of.arms.shape[1], of.thresholds.size
    theta_reward = data.draw(hnp.arrays(float, features, elements=rough))
    theta_cost = data.draw(hnp.arrays(float, (constraints, features), elements=rough))
    made = outcome(bf.Instance, of, theta_reward, theta_cost)
    assert made is None or valid_instance(made)


@given(of=a_problem, candidate=a_candidate, data=st.data())
def test_any_history_of_the_right_shape(of, candidate, data):
    """After it the probability is a number with bounds in order, and draws are finite."""
    pulls = data.draw(st.integers(0, 5))
    arms = data.draw(hnp.arrays(np.int64, pulls, elements=st.integers(0, len(of.arms) - 1)))
    rewards = data.draw(hnp.arrays(float, pulls, elements=rough))
    costs = data.draw(hnp.arrays(float, (pulls, of.thresholds.size), elements=rough))
    posterior = outcome(bf.Posterior.from_history, of, arms, rewards, costs)
    if posterior is None:
        return
    assert valid_posterior(posterior)
    wrong = bf.Alternative(of, candidate)
    estimate = outcome(wrong.log_probability, posterior, seed=0)
    assert estimate is None or valid_probability(estimate)
    draws = outcome(wrong.sample, posterior, 3, seed=0)
    assert draws is None or finite(draws.theta_reward, draws.theta_cost)


@given(data=st.data())
def test_any_exponents_of_an_allocation(data):
    of = data.draw(st.sampled_from([instance(), bf.instances.soare(3), bf.instances.movielens()]))
    arms = len(of.problem.arms)
    weights = data.draw(hnp.arrays(float, arms, elements=shares).filter(np.any))
    made = outcome(bf.exponents, of, weights / weights.sum())
    assert made is None or valid_exponents(made)
