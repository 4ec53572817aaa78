"""Every rule asks for allowed arms alone, if only some are, and as it would otherwise if not."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from rule_cases import (
    CASES,
    FALSE_ALARM,
    INSTANCES,
    assert_same_state,
    drive,
    environment,
    maker,
)
from scipy import stats

import bayes_feasible as bf


@pytest.mark.parametrize(("name", "case"), CASES)
def test_only_these_arms(name, case):
    instance = INSTANCES[case]
    rule, world = maker(name)(instance, seed=4), environment(instance)
    drive(rule, world, 25)
    for allowed in ([1], [3, 1], [0, 1, 2]):
        assert set(rule.ask(15, allowed=allowed).tolist()) <= set(allowed)
        assert rule.ask(allowed=allowed) in allowed
    assert rule._work.allowed.all()


@pytest.mark.parametrize("name", ["Descent", "BLFAIPS", "TopTwo", "PlugIn", "Uniform"])
def test_all_arms_are_no_restriction(name):
    instance = INSTANCES["m=1"]
    free, named = (maker(name)(instance, seed=8) for _ in range(2))
    for rule in (free, named):
        drive(rule, environment(instance), 40)
    labels = instance.problem.coords["arm"].tolist()
    assert_array_equal(free.ask(30), named.ask(30, allowed=labels))
    assert_same_state(free, named)


def test_shares_of_the_allowed_arms_keep_their_proportions():
    problem = bf.Problem(np.eye(4))
    rule = bf.FixedAllocation(problem, seed=2, allocation=[0.1, 0.5, 0.2, 0.2])
    draws = 4000
    counts = np.bincount(rule.ask(draws, allowed=[0, 2]), minlength=4)
    low, high = stats.binom.interval(1 - FALSE_ALARM, draws, 1 / 3)
    assert low <= counts[0] <= high
    assert counts[0] + counts[2] == draws
    assert not low <= draws / 2 <= high  # the control: equal shares
    only = bf.FixedAllocation(problem, seed=2, allocation=[0.0, 1.0, 0.0, 0.0])
    assert set(only.ask(40, allowed=[0, 3]).tolist()) == {0, 3}  # neither has a share


def test_what_the_others_are_owed_stays():
    instance = INSTANCES["m=1"]
    rule = bf.PlugIn(instance)
    first = rule.ask(20, allowed=[0])
    assert set(first.tolist()) == {0}
    assert 0 not in rule.ask(15)


def test_names():
    problem = bf.Problem({"low": [1, 0], "mid": [0.5, 0.5], "high": [0, 1]})
    rule = bf.LinearThompson(problem, seed=1)
    assert set(rule.ask(20, allowed=["mid", "low"]).tolist()) <= {0, 1}
    assert rule.ask(allowed=["high"]) == 2


@pytest.mark.parametrize(
    ("allowed", "error", "named"),
    [
        ([], ValueError, "allowed: expected at least one arm"),
        ([5], ValueError, "allowed"),
        (["medium"], ValueError, "allowed: unknown arm 'medium'"),
        ([0.5], TypeError, "allowed"),
    ],
)
def test_arms_that_are_none(allowed, error, named):
    rule = bf.Uniform(INSTANCES["m=1"].problem)
    with pytest.raises(error, match=named):
        rule.ask(allowed=allowed)
    assert rule._work.allowed.all()
    assert rule._state.clock[0] == 0
