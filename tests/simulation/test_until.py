"""Simulated experiments that end early, and arms that may not always be pulled."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import bayes_feasible as bf
from bayes_feasible.simulation.until import EVERY, SPACING

INSTANCE = bf.instances.end_of_optimism(alpha=0.4)
DOSES = bf.Problem(
    {"5 mg": [1, 0.25], "10 mg": [1, 0.5], "20 mg": [1, 1]}, {"toxicity": 0.3},
    reward=bf.Bernoulli(), costs=bf.Bernoulli(),
)  # fmt: skip


class InTurn:
    """A rule in plain Python."""

    def __init__(self, problem, seed, limits=True):
        self.posterior, self.limits, self.asked = bf.Posterior(problem), limits, 0
        self.every = list(range(len(problem.arms)))

    def ask(self, allowed=None):
        self.asked += 1
        arms = self.every if allowed is None else allowed
        return arms[self.asked % len(arms)]

    def tell(self, arm, reward, cost):
        self.posterior.update(arm, reward, cost)

    def recommend(self):
        return self.posterior.best()


def test_it_ends_at_the_first_look_at_which_the_stop_applies():
    stop = bf.Stop(error=0.2, pulls=400)
    rules = {"InTurn": InTurn, "Uniform": bf.Uniform}
    result = bf.simulate(INSTANCE, rules, 500, 6, [5, 100, 500], seed=3, executor=False, stop=stop)
    plain = bf.simulate(INSTANCE, rules, 500, 6, seed=3, executor=False,
                        checkpoints=range(1, 501))  # fmt: skip
    looks, now = [1], 1
    while now < 400:
        now = now + 1 if now < EVERY else math.ceil(SPACING * now)
        looks.append(now)
    for name in rules:
        for i in range(6):
            stopped = int(result.stopped.sel(rule=name)[i])
            assert stopped in looks
            own = plain.sel(rule=name, replicate=i)
            reason = str(result.reason.sel(rule=name)[i].values)
            assert reason == ("error" if stopped < 400 else reason)
            assert result.recommended_at_stop.sel(rule=name)[i] == own.recommended.sel(time=stopped)
            at_end = result.sel(rule=name, replicate=i, time=500)
            assert_array_equal(at_end.allocation, own.allocation.sel(time=stopped))
            assert at_end.log_error == pytest.approx(
                float(own.log_error.sel(time=stopped)), abs=0.1
            )
    assert_array_equal(result.correct_at_stop, result.recommended_at_stop == INSTANCE.best)
    assert {"error"} <= set(result.reason.values.ravel().tolist())


def test_no_stop_no_change():
    plain = bf.simulate(INSTANCE, {"Descent": bf.Descent}, 60, 3, seed=1, executor=False)
    never = bf.simulate(INSTANCE, {"Descent": bf.Descent}, 60, 3, seed=1, executor=False,
                        stop=bf.Stop(error=1e-12))  # fmt: skip
    for name in plain.data_vars:
        assert_array_equal(plain[name], never[name])
    assert (never.stopped == -1).all()
    assert (never.reason == "").all()
    assert "stopped" not in plain


def test_a_list_of_arms_is_kept_to():
    rules = {"Descent": bf.Descent, "InTurn": InTurn, "TopTwo": bf.TopTwo}
    result = bf.simulate(INSTANCE, rules, 80, 3, seed=1, executor=False, allowed=[1, 2])
    used = result.allocation.sel(time=80)
    assert (used.isel(arm=[0, 3, 4]) == 0).all()
    assert (result.stopped == -1).all()
    with pytest.raises(ValueError, match="allowed: "):
        bf.simulate(INSTANCE, rules, 80, 3, allowed=[9])


@pytest.mark.parametrize("rule", [bf.Descent, bf.TopTwo, InTurn])
def test_doses_in_cohorts_without_skipping(rule):
    order = list(DOSES.coords["arm"])
    safety = bf.Safety(order=order, before=3, cohort=3, risk=0.8)
    instance = bf.Instance(DOSES, [0.0, 1.0], [[-3.0, 1.0]])
    result = bf.simulate(instance, {"one": rule}, 30, 2, range(3, 31, 3), seed=2, executor=False,
                         allowed=safety)  # fmt: skip
    pulls = (result.allocation * result.time).round().astype(int).isel(rule=0)
    for i in range(2):
        table = pulls.isel(replicate=i).transpose("time", "arm").values
        cohorts = np.diff(np.vstack([np.zeros(3, dtype=int), table]), axis=0)
        assert_array_equal(np.sort(cohorts, axis=1), [[0, 0, 3]] * 10)
        arms = cohorts.argmax(axis=1).tolist()
        assert arms[0] == 0
        first = [arms.index(dose) for dose in range(3) if dose in arms]
        assert first == sorted(first)


def test_an_experiment_ends_where_nothing_is_safe():
    instance = bf.Instance(DOSES, [0.0, 1.0], [[2.0, 2.0]])
    result = bf.simulate(instance, {"one": bf.Descent}, 60, 5, [60], seed=2, executor=False,
                         allowed=bf.Safety(risk=0.9))  # fmt: skip
    assert (result.reason == "safety").all()
    assert (result.stopped < 60).all()
    assert (result.recommended_at_stop == -1).all()
    assert result.correct_at_stop.all()


def test_right_by_more_than_epsilon():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]])
    instance = bf.Instance(problem, [1.0, 0.95])
    result = bf.simulate(instance, {"one": bf.Uniform}, 3000, 6, [3000], seed=0, executor=False,
                         stop=bf.Stop(error=0.05, epsilon=0.2))  # fmt: skip
    assert (result.stopped > 0).all()
    assert result.correct_at_stop.all()
    assert not (result.recommended_at_stop == instance.best).all()


def test_workers_give_the_same():
    asked = {"stop": bf.Stop(error=0.2), "allowed": bf.Safety(cohort=2), "seed": 5}
    rules = {"two": partial(bf.TopTwo, beta=0.4)}
    here = bf.simulate(INSTANCE, rules, 60, 4, executor=False, **asked)
    with ThreadPoolExecutor(2) as pool:
        there = bf.simulate(INSTANCE, rules, 60, 4, executor=pool, **asked)
    assert here.identical(there)
