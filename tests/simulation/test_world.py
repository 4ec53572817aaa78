"""The simulated world: whose outcomes count, what a user's rule costs, and Ctrl-C."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_feasible as bf
from bayes_feasible.simulation import world as simulated
from bayes_feasible.simulation.world import Environment, world_of


class Student(bf.Instance):
    """Noise with outliers: a pull of the user's own."""

    def pull(self, arms, seed=None):
        return super().pull(arms, seed, noise="student_t", degrees=3.0)


def in_turn(environment, rounds=60):
    """What pulls of the arms in turn show."""
    return np.array([np.hstack(environment.pull(i % 5)) for i in range(rounds)])


@pytest.fixture(scope="module")
def instance():
    return bf.instances.end_of_optimism(0.3)


def test_a_pull_of_the_users_own_is_what_rules_see(instance):
    student = Student(instance.problem, instance.theta_reward, instance.theta_cost)
    seen = in_turn(Environment(student, 1, 2))
    rng = np.random.default_rng(1)
    expected = [np.column_stack(student.pull([i % 5], rng)) for i in range(60)]
    assert_array_equal(seen, np.reshape(expected, (60, 2)))
    assert not np.isclose(seen, in_turn(Environment(instance, 1, 2))).any()
    rules = {"BLFAIPS": bf.BLFAIPS, "Uniform": bf.Uniform}
    own, plain = (
        bf.simulate(some, rules, 80, 2, [80], executor=False) for some in (student, instance)
    )
    assert (own.log_error != plain.log_error).all()
    rule, world = bf.Uniform(student, seed=3), Environment(student, 1, 2)
    world.play(rule, 60)
    assert_array_equal(world.pulls, rule.posterior.counts)
    assert world.posterior(rule).pulls == 60


@pytest.mark.parametrize(
    "shown", [([np.nan], [[0.0]]), ([1.0], [[0.0, 1.0]]), ([1.0, 2.0], [[0.0]])]
)
def test_a_pull_of_the_users_own_is_checked(instance, shown):
    class Wrong(bf.Instance):
        def pull(self, arms, seed=None):
            return shown

    wrong = Wrong(instance.problem, instance.theta_reward, instance.theta_cost)
    with pytest.raises(ValueError, match=r"(reward|costs) of pull\(\)"):
        Environment(wrong, 1, 2).pull(0)


@pytest.mark.parametrize("rule", [bf.Uniform, bf.PlugIn, bf.BLFAIPS])
def test_rewards_from_a_table(instance, rule):
    """Compiled and step by step the same; only what is in an arm's row; costs as ever."""
    table = np.arange(15.0).reshape(5, 3)
    entries = np.array([3, 1, 2, 3, 3])
    world = world_of(instance)._replace(table=table, entries=entries)
    whole, stepped = rule(instance, seed=1), rule(instance, seed=1)
    Environment(instance, 4, 5, world).play(whole, 300)
    environment, seen = Environment(instance, 4, 5, world), set()
    for _ in range(300):
        arm = stepped.ask()
        reward, costs = environment.pull(arm)
        stepped.tell(arm, reward, costs)
        seen.add((arm, reward))
    assert_array_equal(whole._state.sums, stepped._state.sums)
    assert all(reward in table[arm, : entries[arm]] for arm, reward in seen)
    assert len(seen) > 5
    plain, other = Environment(instance, 4, 5), Environment(instance, 4, 5, world)
    assert_array_equal(other.pull(0)[1], plain.pull(0)[1])


class InTurn:
    """A user's rule that does next to nothing."""

    def __init__(self, problem, seed):
        self.pulls, self.arms = 0, len(problem.arms)

    def ask(self):
        return self.pulls % self.arms

    def tell(self, arm, reward, cost):
        self.pulls += 1

    def recommend(self):
        return 0


LEARNT = bf.Instance(
    bf.Problem(np.eye(5), {"cost": 0.6}, reward=bf.Gaussian(), costs={"cost": bf.Bernoulli()}),
    np.arange(5.0), [[-1.0, 1.0, -0.5, 0.0, 1.0]], reward_noise=1.0,
)  # fmt: skip


@pytest.mark.parametrize("case", ["known", "learnt"])
def test_the_posterior_takes_in_what_a_users_rule_has_seen(instance, case, monkeypatch):
    monkeypatch.setattr(simulated, "BLOCK", 64)
    chosen = instance if case == "known" else LEARNT
    environment, rule = Environment(chosen, 1, 2), InTurn(chosen.problem, 0)
    seen = in_turn(Environment(chosen, 1, 2), 200)
    environment.play(rule, 150)
    environment.play(rule, 50)
    expected = bf.Posterior.from_history(
        chosen.problem, np.arange(200) % 5, seen[:, 0], seen[:, 1:]
    )
    found = environment.posterior(rule)
    for name in ("counts", "missing", "reward_sums", "cost_sums", "squares"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12)
    assert_array_equal(environment.pulls, found.counts)


@pytest.mark.parametrize("case", ["known", "learnt"])
def test_a_round_of_a_users_rule_costs_little_beside_its_own_work(instance, case):
    chosen = instance if case == "known" else LEARNT
    rule, environment, taken = InTurn(chosen.problem, 0), Environment(chosen, 1, 2), []
    for _ in range(7):
        start = time.perf_counter()
        environment.play(rule, 500)
        taken.append(time.perf_counter() - start)
    assert min(taken) / 500 < 60e-6


def test_ctrl_c_ends_compiled_rounds_soon(instance):
    rule, world = bf.BLFAIPS(instance, seed=0), Environment(instance, 1, 2)
    world.play(rule, 10)  # compiles
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        world.play(rule, 2 * 10**9)
    assert time.process_time() - began < 3
    assert rule._state.clock[0] == rule._state.pulls.sum() > 10  # and may go on


def test_slices_change_nothing(instance, monkeypatch):
    whole, sliced = (bf.PlugIn(instance, seed=0) for _ in range(2))
    Environment(instance, 1, 2).play(whole, 500)
    monkeypatch.setattr(simulated, "SLICE", 70)  # 7 rounds
    Environment(instance, 1, 2).play(sliced, 500)
    for name, value in whole._arrays().items():
        assert_array_equal(value, sliced._arrays()[name])
