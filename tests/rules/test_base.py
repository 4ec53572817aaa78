"""Every rule: one step at a time and compiled, saved and resumed, and at the edges."""

import copy
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from rule_cases import (
    CASES,
    CONSTRAINED,
    INSTANCES,
    UNCONSTRAINED,
    assert_same_state,
    drive,
    environment,
    maker,
    random_instance,
)

import bayes_feasible as bf
from bayes_feasible.rules import saving
from bayes_feasible.rules.saving import rule_document, rule_from_document


@pytest.mark.parametrize(("name", "case"), CASES)
def test_ask_and_tell_are_the_compiled_loop(name, case):
    instance = INSTANCES[case]
    stepped, recorded, whole = (maker(name)(instance, seed=5) for _ in range(3))
    worlds = [environment(instance) for _ in range(3)]
    arms = drive(stepped, worlds[0], 250)
    one_by_one = []
    for _ in range(250):
        before = recorded._state.pulls.copy()
        worlds[1].play(recorded, 1)
        one_by_one.append(int(np.argmax(recorded._state.pulls - before)))
    worlds[2].play(whole, 250)
    assert arms == one_by_one
    assert_same_state(stepped, recorded)
    assert_same_state(stepped, whole)
    assert_array_equal(stepped.allocation * 250, np.bincount(arms, minlength=len(worlds[0].pulls)))
    assert_array_equal(worlds[2].pulls, whole._state.pulls)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_saved_and_resumed(name, case, tmp_path):
    instance = INSTANCES[case]
    rule, world = maker(name)(instance, seed=6), environment(instance)
    drive(rule, world, 77)
    rule.recommend()
    rule.save(tmp_path / "rule.json")
    again = bf.Rule.load(tmp_path / "rule.json")
    assert type(again) is type(rule)
    assert again.problem == rule.problem
    assert repr(again) == repr(rule)
    assert_same_state(again, rule)
    assert rule.recommend() == again.recommend()
    for _ in range(60):
        arm = rule.ask()
        assert again.ask() == arm
        shown = world.pull(arm)
        rule.tell(arm, *shown)
        again.tell(arm, *shown)
    assert_same_state(again, rule)
    assert str(rule.recommend()) == str(again.recommend())


def test_settings_are_saved(tmp_path):
    instance = INSTANCES["m=0"]
    for rule in (
        bf.BLFAIPS(instance, eta=0.3, exploration=0.4, arm_norm=2, recommendation="mean"),
        bf.BLFAIPS(instance, parameter_radius=np.array([1.0, 2.0]), recommendation="probable"),
        bf.PEPS(instance, horizon=50, learner="hedge"),
        bf.PEPS(instance, keep_data=True),
        bf.TopTwo(instance, beta="optimal", select="information", exploration=0.3),
        bf.FixedAllocation(instance, allocation=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1]),
    ):
        rule.save(tmp_path / "rule.json")
        again = bf.Rule.load(tmp_path / "rule.json")
        for left, right in zip(again._options, rule._options, strict=True):
            assert_array_equal(left, right)
        assert again.recommendation == rule.recommendation
        for name in rule.settings:
            assert getattr(again, name) == getattr(rule, name)


def damaged(rule, path, value):
    """What was saved of a rule, with the value at a path replaced and a checksum that agrees."""
    document = json.loads(json.dumps(rule_document(rule)))
    *way, last = path
    inner = document
    for key in way:
        inner = inner[key]
    inner[last] = value
    del document["checksum"]
    return document | {"checksum": saving._checksum(document)}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("rule", "NoSuchRule", "NoSuchRule"),
        ("rule", ["BLFAIPS"], "unhashable"),
        ("settings", {"eta": -1.0}, "eta: expected a positive"),
        ("settings", {"unknown": 1.0}, "unexpected keyword"),
        ("recommendation", "best", "recommendation"),
        ("problem", {}, "problem|arms|format"),
        ("generators", [], "zip"),
        ("generators 0", {"bit_generator": "MT19937"}, "PCG64"),
        ("generators 0 state state", -1, "OverflowError"),
        ("state", {}, "missing"),
        ("state counts", [1, 2, 3], "counts: expected shape"),
        ("state counts", "many", "could not convert"),
        ("state counts 0", 1.5, "counts: expected whole numbers"),
        ("state counts 0", 10**40, "counts: expected whole numbers"),
        ("state counts 4", -1, "counts: expected no negative number, got -1"),
        ("state counts 0", 10_000, "pulls: expected at least as many as counts"),
        ("state pulls 0", 10_000, "clock: expected"),
        ("state clock 0", -3, "clock: expected no negative number"),
        ("state variances 3", -1.0, "variances: expected no negative number"),
        ("state sums 2 1", float("nan"), "sums: expected finite numbers"),
        ("state sums 2 1", 1e150, "sums: expected at most"),
        ("state sums 2 0", 1e6, "candidate_means: does not go with"),
        ("state candidate_means 1 2", 55.0, "candidate_means: does not go with"),
        ("state means 0 0", 55.0, "'means: does not go with"),
        ("state variances 3", 1.0, "variances: does not go with"),
        ("state lower 1 0", 1e3, "lower: does not go with"),
        ("state weights", [0.5] * 5, "weights: expected shares"),
        ("state weights", [2.0, -1.0, 0.0, 0.0, 0.0], "weights: expected shares"),
        ("state gap 0", -1.0, "gap: expected no negative number"),
    ],
)
def test_files_with_a_sound_checksum_that_no_rule_wrote(path, value, message, tmp_path):
    rule = bf.BLFAIPS(INSTANCES["m=1"], seed=2)
    drive(rule, environment(INSTANCES["m=1"]), 40)
    path = [int(key) if key.isdigit() else key for key in path.split()]
    (tmp_path / "bad.json").write_text(json.dumps(damaged(rule, path, value)))
    with pytest.raises(ValueError, match=rf"bad\.json: not a rule that was saved .*({message})"):
        bf.Rule.load(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("make", "path", "value", "message"),
    [
        (bf.PEPS, "restarted 0", 99, "restarted: expected a round so far, got 99"),
        (bf.PlugIn, "plan 0", 2.0, "plan: expected shares"),
        (bf.BestResponse, "gap 0", -1.0, "gap: expected"),
    ],
)
def test_memories_that_no_rounds_led_to(make, path, value, message):
    name, place = path.split()
    rule = make(INSTANCES["m=0"], seed=2)
    drive(rule, environment(INSTANCES["m=0"]), 40)
    assert_same_state(rule_from_document(rule_document(rule)), rule)
    with pytest.raises(ValueError, match=message):
        rule_from_document(damaged(rule, ["state", name, int(place)], value))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_recorded_steps_are_replayed(name, case):
    instance = INSTANCES[case]
    rule, again = (maker(name)(instance, seed=3) for _ in range(2))
    steps, asked = [], []
    for size in (1, 3, 2, 1):
        arms = rule.ask(size)
        told = arms, *instance.pull(arms, seed=size)
        rule.tell(*told)
        asked.append(arms.tolist())
        steps += [size, tuple(part.tolist() for part in told)]
    assert [arms.tolist() for arms in again.replay(steps)] == asked
    assert_same_state(rule, again)


def test_named_problems_are_saved(tmp_path):
    problem = bf.Problem(
        {"low": [1, 0.2], "high": [1, 0.9]}, {"toxicity": 0.3, "price": np.inf},
        candidates={"low": [1, 0.2], "middle": [1, 0.5]}, cost_noise=[0.5, 2.0],
    )  # fmt: skip
    rule = bf.BLFAIPS(problem, seed=1)
    rule.tell([0, 1, 0], [1.0, 2.0, 0.5], [[0.1, 5.0], [0.4, 7.0], [0.2, 1.0]])
    rule.save(tmp_path / "rule.json")
    assert bf.Rule.load(tmp_path / "rule.json").problem == problem


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"rule"', "{}"])
def test_files_that_are_no_rule(text, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match="not a rule that was saved"):
        bf.Rule.load(tmp_path / "bad.json")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        bf.Rule.load(tmp_path / "none.json")


@pytest.mark.parametrize("name", CONSTRAINED)
def test_a_loaded_rule_survives_long_runs(name, tmp_path):
    """Rounding in what is kept between two refreshes must not be taken for a corrupt file."""
    instance = bf.instances.end_of_optimism(0.1)
    rule = maker(name)(instance, seed=3)
    environment(instance).play(rule, 12_000)
    rule.save(tmp_path / "rule.json")
    assert_same_state(bf.Rule.load(tmp_path / "rule.json"), rule)


def test_a_saved_rule_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "rule.json"
    rule = bf.BLFAIPS(bf.instances.end_of_optimism().problem)
    rule.save(path)
    document = json.loads(path.read_text())
    document["state"]["losses"][0] -= 1.0
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="checksum"):
        bf.Rule.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="not a rule that was saved"):
        bf.Rule.load(path)


def test_a_rule_of_ones_own_is_not_saved_as_another(tmp_path):
    class Own(bf.BLFAIPS):
        pass

    problem = bf.instances.end_of_optimism().problem
    with pytest.raises(ValueError, match="Own cannot be saved"):
        Own(problem).save(tmp_path / "rule.json")
    Own.__name__ = "BLFAIPS"
    with pytest.raises(ValueError, match="cannot be saved"):
        Own(problem).save(tmp_path / "rule.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", [1e-50, 1e3, 1e7, 1e12, 1e30])
def test_a_rule_on_arms_of_any_length_is_saved_and_goes_on(length, tmp_path):
    arms = length * np.random.default_rng(5).standard_normal((4, 3))
    problem = bf.Problem(arms, 0.5, cost_noise=1e-6)
    for rule in (bf.BLFAIPS(problem, 1, eta=1.0), bf.BestResponse(problem, 1)):
        rule.tell([0, 1, 0], [1.0, 2.0, 0.0], [0.1, 0.2, 0.3])
        rule.ask(5)
        assert all(np.isfinite(array).all() for array in rule._state)
        rule.save(tmp_path / "rule.json")
        assert_array_equal(bf.Rule.load(tmp_path / "rule.json").ask(20), rule.ask(20))


# Descent counts the pulls of a batch before they are told: see test_descent.py.
@pytest.mark.parametrize("name", [name for name in CONSTRAINED if name != "Descent"])
def test_batches(name):
    instance = INSTANCES["m=1"]
    batch, single = maker(name)(instance, seed=7), maker(name)(instance, seed=7)
    for size in (1, 5, 30):
        arms = batch.ask(size)
        assert arms.shape == (size,)
        assert np.issubdtype(arms.dtype, np.integer)
        assert_array_equal(arms, [single.ask() for _ in range(size)])
        shown = instance.pull(arms, seed=size)
        batch.tell(arms, *shown)
        for i, arm in enumerate(arms):
            single.tell(int(arm), shown[0][i], shown[1][i])
        assert_same_state(batch, single)


def test_late_and_unasked_data():
    instance = INSTANCES["m=3"]
    rule = bf.BLFAIPS(instance.problem, seed=8)
    asked = rule.ask(20)
    rewards, costs = instance.pull(asked, seed=0)
    order = np.random.default_rng(0).permutation(20)
    rule.tell(asked[order], rewards[order], costs[order])
    unasked = np.array([6, 6, 0])
    more = instance.pull(unasked, seed=1)
    rule.tell(unasked, *more)
    history = np.concatenate([asked, unasked])
    posterior = bf.Posterior.from_history(
        instance.problem, history, np.concatenate([rewards, more[0]]),
        np.concatenate([costs, more[1]]),
    )  # fmt: skip
    assert_array_equal(rule.posterior.counts, posterior.counts)
    assert_allclose(rule.posterior.theta_reward, posterior.theta_reward, rtol=1e-12)
    assert_allclose(rule.posterior.theta_cost, posterior.theta_cost, rtol=1e-12)
    assert "20 asked, 23 told" in repr(rule)
    rule.ask()


def test_nothing_told_yet():
    rule = bf.BLFAIPS(INSTANCES["m=1"].problem)
    assert_array_equal(rule.allocation, np.zeros(5))
    assert rule.posterior.pulls == 0
    assert rule.recommend().log_error <= 0
    rule.tell([], [], [])
    assert rule.posterior.pulls == 0


@pytest.mark.parametrize(
    ("arm", "reward", "cost", "named"),
    [
        (5, 1.0, [0.0], "arm"),
        ([0, 5], [1.0, 1.0], [[0.0], [0.0]], "arm"),
        (0, 1e200, [0.0], "reward"),
        ([0, 1], [1.0, np.inf], [[0.0], [0.0]], "reward"),
        (0, 1.0, None, "cost"),
        ([0, 1], [1.0, 2.0], [[0.0], [np.inf]], "cost"),
    ],
)
def test_bad_data_change_nothing(arm, reward, cost, named):
    instance = INSTANCES["m=1"]
    rule = bf.BLFAIPS(instance, seed=9)
    drive(rule, environment(instance), 10)
    before = copy.deepcopy(rule)
    with pytest.raises((TypeError, ValueError), match=named):
        rule.tell(arm, reward, cost)
    assert_same_state(rule, before)


@pytest.mark.parametrize("n", [0, -1, 2.0, "3", True])
def test_bad_batch(n):
    with pytest.raises((TypeError, ValueError), match="n: expected"):
        bf.BLFAIPS(INSTANCES["m=1"]).ask(n)


def without_constraints(instance):
    problem = instance.problem
    shared = problem.candidates is problem.arms
    return bf.Instance(
        bf.Problem(
            problem.arms, candidates=None if shared else problem.candidates,
            reward_noise=problem.reward_noise,
        ),
        instance.theta_reward,
    )  # fmt: skip


@pytest.mark.parametrize("name", UNCONSTRAINED)
@pytest.mark.parametrize("others", [None, 6])
def test_a_threshold_that_never_binds_is_no_threshold(name, others):
    if others and name == "TopTwo optimal":
        with pytest.raises(ValueError, match="beta"):
            maker(name)(random_instance(3, 5, 2, others=others))
        return
    loose = random_instance(3, 5, 2, others=others, infinite=True)
    free = without_constraints(loose)
    rules = [maker(name)(some, seed=14) for some in (loose, free)]
    worlds = [environment(some) for some in (loose, free)]
    arms = [drive(rule, world, 200) for rule, world in zip(rules, worlds, strict=True)]
    assert arms[0] == arms[1]
    assert rules[0].recommend() == rules[1].recommend()
    for rule, world in zip(rules, worlds, strict=True):
        world.play(rule, 5000)
    assert_array_equal(rules[0]._state.pulls, rules[1]._state.pulls)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_more_features_than_arms(name):
    instance = bf.instances.random_ball(50, 20, seed=1)
    rule = maker(name)(instance, seed=17)
    environment(instance).play(rule, 500)
    assert rule.posterior.pulls == 500
    answer = rule.recommend()
    assert np.isfinite(answer.log_error)
    assert 0 <= rule.ask() < 20


@pytest.mark.parametrize("name", [*CONSTRAINED, "TopTwo optimal"])
@pytest.mark.parametrize("constraints", [0, 1, 2])
def test_one_arm(name, constraints):
    instance = bf.Instance(
        bf.Problem([[1.0, 0.5]], [0.5] * constraints), [1.0, 0.0], [[0.3, 0.0]] * constraints
    )
    rule = maker(name)(instance, seed=19, recommendation="mean")
    environment(instance).play(rule, 600)
    drive(rule, environment(instance), 20)
    assert_array_equal(rule.allocation, [1.0])
    answer = rule.recommend()
    if constraints == 0:
        assert answer.candidate == 0
        assert answer.log_error == -np.inf
        assert answer.runner_up is None
        assert answer.reason == "nothing can make it wrong"
    else:
        assert answer.candidate == 0
        assert answer.log_error < -3


@pytest.mark.parametrize("name", CONSTRAINED)
def test_zero_vector_among_the_arms(name):
    arms = [[1.0, 0.0], [0.0, 0.0], [0.5, 0.8]]
    instance = bf.Instance(bf.Problem(arms, 0.4), [-1.0, 0.2], [0.1, 0.3])
    rule = maker(name)(instance, seed=20, recommendation="mean")
    environment(instance).play(rule, 2000)
    answer = rule.recommend()
    assert answer.candidate == instance.best == 1
    assert answer.log_error < -1


@pytest.mark.parametrize("name", UNCONSTRAINED)
def test_seeds(name):
    instance = INSTANCES["m=0"]
    sequence = np.random.SeedSequence(3)
    arms = [
        drive(maker(name)(instance, seed=seed), environment(instance), 60)
        for seed in (3, 3, sequence, sequence, 4)
    ]
    assert arms[0] == arms[1] == arms[2] == arms[3]
    if name not in ("BestResponse", "Descent", "PlugIn"):  # these draw nothing
        assert arms[4] != arms[0]
    assert sequence.n_children_spawned == 0


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda p: bf.BLFAIPS(p, eta="papers"), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=0.0), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=None), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=[1.0, 2.0]), "eta"),
        (lambda p: bf.BLFAIPS(p, exploration=0.0), "exploration"),
        (lambda p: bf.BestResponse(p, exploration=-0.5), "exploration"),
        (lambda p: bf.PlugIn(p, exploration=np.inf), "exploration"),
        (lambda p: bf.TopTwo(p, exploration=None), "exploration"),
        (lambda p: bf.BLFAIPS(p, arm_norm=-1.0), "arm_norm"),
        (lambda p: bf.BLFAIPS(p, parameter_radius=(1.0, 2.0, 3.0)), "parameter_radius"),
        (lambda p: bf.BLFAIPS(p, parameter_radius=0.0), "parameter_radius"),
        (lambda p: bf.BLFAIPS(p, seed=-1), "seed"),
        (lambda p: bf.BLFAIPS(p, recommendation="best"), "recommendation"),
        (lambda p: bf.BLFAIPS(p.arms), "problem"),
        (lambda p: bf.TopTwo(p, beta=1.5), "beta"),
        (lambda p: bf.TopTwo(p, beta="best"), "beta"),
        (lambda p: bf.TopTwo(p, beta=[0.5, 0.5]), "beta"),
        (lambda p: bf.TopTwo(p, beta=None), "beta"),
        (lambda p: bf.TopTwo(p, beta="optimal"), "beta: 'optimal' needs an Instance"),
        (lambda p: bf.TopTwo(p, select="arm"), "select"),
        (lambda p: bf.Oracle(p), "Oracle needs an Instance"),
        (lambda p: bf.PEPS(p), "PEPS knows no constraint"),
        (lambda p: bf.PEPS(p, horizon=0), "horizon"),
        (lambda p: bf.PEPS(p, learner="ada"), "learner"),
        (lambda p: bf.PEPS(p, learner="hedge"), "horizon"),
        (lambda p: bf.FixedAllocation(p), "allocation"),
        (lambda p: bf.FixedAllocation(p, allocation=[1.0]), "allocation"),
        (lambda p: bf.FixedAllocation(p, allocation=[0.5, 0.5, 0.5, 0.0, 0.0]), "allocation"),
    ],
)
def test_bad_options(make, named):
    with pytest.raises((TypeError, ValueError), match=named):
        make(INSTANCES["m=1"].problem)


def test_rules_do_not_share_their_state():
    problem = INSTANCES["m=1"].problem
    one, other = bf.BLFAIPS(problem, seed=1), bf.BLFAIPS(problem, seed=1)
    one.tell(0, 1.0, [0.0])
    assert other.posterior.pulls == 0
    posterior = one.posterior
    posterior.update(1, 5.0, [1.0])
    assert one.posterior.pulls == 1
    one.allocation[:] = 0.0
    assert one.allocation[0] == 1.0


def test_what_pulls_show_stays_within_what_sums_can_hold():
    rule = bf.BLFAIPS(bf.Problem([[1, 0], [0, 1]], thresholds=0.5))
    with pytest.raises(ValueError, match=r"reward: expected at most 1e\+80"):
        rule.tell(0, 1e90, 0.0)
    rule.tell(0, 1e80, -1e80)
    rule.tell(0, 1e80, 1e80)
    assert rule.recommend().log_error <= 0
