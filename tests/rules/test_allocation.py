"""Rules that follow an allocation."""

import numpy as np
from numpy.testing import assert_array_equal
from rule_cases import FALSE_ALARM, INSTANCES, environment
from scipy import stats

import bayes_feasible as bf


def test_shares_are_followed():
    instance = INSTANCES["m=1"]
    optimal = bf.optimal_rate(instance).allocation.values
    design = bf.g_optimal(instance.problem).allocation.values
    given = [0.1, 0.0, 0.6, 0.3, 0.0]
    for rule, shares in (
        (bf.Uniform(instance), np.full(5, 0.2)),
        (bf.GOptimal(instance), design),
        (bf.Oracle(instance), optimal),
        (bf.FixedAllocation(instance, allocation=given), np.array(given)),
    ):
        environment(instance).play(rule, 20_000)
        pulls = rule._state.pulls
        assert_array_equal(pulls[shares == 0], 0)
        there = shares * 20_000 > 5
        expected = shares[there] / shares[there].sum() * pulls[there].sum()
        assert stats.chisquare(pulls[there], expected).pvalue > FALSE_ALARM
        shifted = 0.97 * expected
        shifted[0] += 0.03 * expected.sum()
        assert stats.chisquare(pulls[there], shifted).pvalue < FALSE_ALARM


def test_oracle_follows_an_allocation_without_the_truth():
    rule = bf.Oracle(INSTANCES["m=1"].problem, allocation=[0.0, 0.0, 1.0, 0.0, 0.0])
    assert_array_equal(rule.ask(20), 2)
