"""PEPS: BLFAIPS without constraint, its restarts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from rule_cases import INSTANCES, drive, environment, random_instance

import bayes_feasible as bf


@pytest.mark.parametrize("eta", ["paper", 1.0])
def test_without_constraints_blfaips_is_peps(eta):
    instance = INSTANCES["m=0"]
    rules = [
        bf.BLFAIPS(instance, seed=15, eta=eta),
        bf.PEPS(instance, seed=15, eta=eta, horizon=400),
    ]
    arms = [drive(rule, environment(instance), 400) for rule in rules]
    assert arms[0] == arms[1]
    for name, value in rules[0]._arrays().items():
        assert_array_equal(value, rules[1]._arrays()[name])


def test_peps_restarts_where_the_horizon_is_unknown():
    instance = INSTANCES["m=0"]
    forgetful = bf.PEPS(instance, seed=16)
    keeping = bf.PEPS(instance, seed=16, keep_data=True)
    worlds = environment(instance), environment(instance)
    for rounds in range(1, 140):
        drive(forgetful, worlds[0], 1)
        drive(keeping, worlds[1], 1)
        last = 0 if rounds == 1 else 2 ** int(np.log2(rounds - 1))
        assert forgetful.posterior.pulls == rounds - last
        assert keeping.posterior.pulls == rounds
        assert forgetful._memory.restarted[0] == keeping._memory.restarted[0] == last
        assert_allclose(forgetful.allocation.sum(), 1.0)
        if rounds - 1 == last:  # one loss since the restart
            for rule in (forgetful, keeping):
                assert_array_equal(rule._memory.losses, rule._work.loss)


def test_one_arm_without_constraint_under_peps():
    instance = bf.Instance(bf.Problem([[1.0]]), [1.0])
    for rule in (bf.PEPS(instance), bf.PEPS(instance, horizon=9, learner="hedge")):
        environment(instance).play(rule, 300)
        assert rule.recommend() == 0


def test_peps_takes_infinite_thresholds():
    assert bf.PEPS(random_instance(3, 5, 1, infinite=True)).ask() in range(5)
