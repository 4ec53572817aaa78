"""Every rule: one step at a time and compiled, saved and resumed, at the edges, and its answers."""

import json
from functools import partial

import numpy as np
import pytest
from helpers import RULES, blocks, gaussian_draws
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.alternative.feasible import best_of_draws
from bayes_feasible.recommendation import Recommendation
from bayes_feasible.simulation.world import Environment

FALSE_ALARM = 1e-6  # of each comparison with frequencies

CONSTRAINED = RULES | {"Oracle": bf.Oracle, "Uniform": bf.Uniform}
WITH_OPTIMAL_SHARE = CONSTRAINED | {"TopTwo optimal": partial(bf.TopTwo, beta="optimal")}
UNCONSTRAINED = WITH_OPTIMAL_SHARE | {
    "PEPS": bf.PEPS,
    "PEPS horizon": partial(bf.PEPS, horizon=300),
    "PEPS keep data": partial(bf.PEPS, keep_data=True),
    "PEPS hedge": partial(bf.PEPS, horizon=300, learner="hedge", eta=0.5),
}


def random_instance(features, arms, constraints, *, others=None, seed=0, infinite=False):
    """A random instance with some candidate feasible; the truth and the arms are in the unit ball.

    With `infinite` the thresholds are infinite, and everything else as without constraints.
    """
    for attempt in range(1000):
        rng = np.random.default_rng([seed, features, arms, attempt])
        vectors = rng.standard_normal((arms, features))
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1.0)
        candidates = None
        if others is not None:
            candidates = rng.standard_normal((others, arms)) @ vectors / np.sqrt(arms)
        reward = rng.standard_normal(features) / np.sqrt(features)
        cost = rng.standard_normal((constraints, features)) / np.sqrt(features)
        problem = bf.Problem(
            vectors, [np.inf if infinite else 0.3] * constraints, candidates=candidates,
            reward_noise=0.8, cost_noise=0.6,
        )  # fmt: skip
        try:
            return bf.Instance(problem, reward, cost)
        except ValueError:
            continue
    raise AssertionError("no feasible instance")


CASES = [
    (name, case)
    for case in ("m=1", "m=3", "X!=Z", "d>K")
    for name in (WITH_OPTIMAL_SHARE if case in ("m=1", "m=3") else CONSTRAINED)
] + [(name, "m=0") for name in UNCONSTRAINED]
INSTANCES = {
    "m=0": random_instance(3, 6, 0),
    "m=1": random_instance(2, 5, 1),
    "m=3": random_instance(4, 7, 3),
    "X!=Z": random_instance(3, 4, 2, others=6),
    "d>K": random_instance(8, 4, 1),
}


def maker(name):
    return UNCONSTRAINED[name]


def environment(instance, seed=1):
    return Environment(instance, *np.random.SeedSequence(seed).spawn(2))


def drive(rule, world, rounds):
    """Ask and tell so many times; the arms."""
    arms = []
    for _ in range(rounds):
        arm = rule.ask()
        rule.tell(arm, *world.pull(arm))
        arms.append(arm)
    return arms


def state_of(rule):
    return {name: array.copy() for name, array in rule._state._asdict().items()} | {
        "generators": [g.bit_generator.state for g in (rule._rng, rule._recommend_rng)]
    }


def assert_same_state(left, right):
    for name, value in state_of(left).items():
        if name == "generators":
            assert value == state_of(right)[name]
        else:
            assert_array_equal(value, state_of(right)[name], err_msg=name)


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
        assert again._options == rule._options
        assert again.recommendation == rule.recommendation
        for name in rule.settings:
            assert getattr(again, name) == getattr(rule, name)


def test_named_problems_are_saved(tmp_path):
    problem = bf.Problem(
        {"low": [1, 0.2], "high": [1, 0.9]}, {"toxicity": 0.3, "price": np.inf},
        candidates={"low": [1, 0.2], "middle": [1, 0.5]}, cost_noise=[0.5, 2.0],
    )  # fmt: skip
    rule = bf.BLFAIPS(problem, seed=1)
    rule.tell([0, 1, 0], [1.0, 2.0, 0.5], [[0.1, 5.0], [0.4, 7.0], [0.2, 1.0]])
    rule.save(tmp_path / "rule.json")
    assert bf.Rule.load(tmp_path / "rule.json").problem == problem


def corrupt(document, path, value):
    """A copy of a document with the value at a path replaced."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is KeyError:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["rule"], "NoSuchRule"),
        (["rule"], KeyError),
        (["rule"], ["BLFAIPS"]),
        (["settings"], {"eta": -1.0}),
        (["settings"], {"unknown": 1.0}),
        (["settings"], None),
        (["recommendation"], "best"),
        (["problem"], KeyError),
        (["problem", "arms"], [[1.0, 2.0]]),
        (["problem", "thresholds"], []),
        (["generators"], []),
        (["generators", 0], {"bit_generator": "MT19937"}),
        (["generators", 0, "state", "state"], "x"),
        (["generators", 0, "state", "state"], -1),
        (["state"], KeyError),
        (["state"], []),
        (["state", "counts"], KeyError),
        (["state", "counts"], [1, 2, 3]),
        (["state", "counts"], [1, 1, 1, 1, -1]),
        (["state", "counts"], [1.5, 1, 1, 1, 1]),
        (["state", "counts"], [10**40, 1, 1, 1, 1]),
        (["state", "counts", 0], 10_000),
        (["state", "pulls", 0], 10_000),
        (["state", "counts"], "many"),
        (["state", "sums", 2, 0], 1e6),
        (["state", "sums", 2, 1], float("nan")),
        (["state", "sums", 2, 1], float("inf")),
        (["state", "lower", 0, 0], 0.0),
        (["state", "lower", 1, 0], 1e3),
        (["state", "means", 0, 0], 55.0),
        (["state", "candidate_means", 1, 2], 55.0),
        (["state", "variances", 3], 1.0),
        (["state", "weights"], [0.5, 0.5, 0.5, 0.5, 0.5]),
        (["state", "weights"], [2.0, -1.0, 0.0, 0.0, 0.0]),
        (["state", "weights"], [[1.0], [0.0], [0.0], [0.0], [0.0]]),
        (["state", "plan"], [0.0, 0.0, 0.0, 0.0, 0.0]),
        (["state", "gap"], [-1.0]),
        (["state", "clock", 0], -3),
        (["state", "clock", 1], 3),
        (["state", "clock", 2], 10_000),
    ],
)
def test_corrupt_files(path, value, tmp_path):
    instance = INSTANCES["m=1"]
    rule = bf.BLFAIPS(instance, seed=2)
    drive(rule, environment(instance), 40)
    rule.save(tmp_path / "rule.json")
    document = json.loads((tmp_path / "rule.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps(corrupt(document, path, value)))
    with pytest.raises(ValueError, match=r"bad\.json: not a rule that was saved"):
        bf.Rule.load(tmp_path / "bad.json")


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


@pytest.mark.parametrize("name", CONSTRAINED)
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
        (-1, 1.0, [0.0], "arm"),
        (1.0, 1.0, [0.0], "arm"),
        ("a", 1.0, [0.0], "arm"),
        ([0, 5], [1.0, 1.0], [[0.0], [0.0]], "arm"),
        (0, np.nan, [0.0], "reward"),
        (0, [1.0, 2.0], [0.0], "reward"),
        ([0, 1], [1.0], [[0.0], [0.0]], "reward"),
        ([0, 1], [1.0, np.inf], [[0.0], [0.0]], "reward"),
        (0, 1.0, None, "cost"),
        (0, 1.0, [0.0, 1.0], "cost"),
        (0, 1.0, [np.nan], "cost"),
        ([0, 1], [1.0, 2.0], [[0.0], [np.inf]], "cost"),
        ([0, 1], [1.0, 2.0], [[0.0, 1.0]], "cost"),
        (0, 1.0, "free", "cost"),
    ],
)
def test_bad_data_change_nothing(arm, reward, cost, named):
    instance = INSTANCES["m=1"]
    rule = bf.BLFAIPS(instance, seed=9)
    drive(rule, environment(instance), 10)
    before = state_of(rule)
    with pytest.raises((TypeError, ValueError), match=named):
        rule.tell(arm, reward, cost)
    for name, value in state_of(rule).items():
        assert_array_equal(value, before[name])


@pytest.mark.parametrize("n", [0, -1, 2.0, "3", True])
def test_bad_batch(n):
    with pytest.raises((TypeError, ValueError), match="n: expected"):
        bf.BLFAIPS(INSTANCES["m=1"]).ask(n)


def brute_best(posterior, size, seed):
    """Frequencies of best candidates, the last one that of no candidate being feasible."""
    draws = gaussian_draws(posterior, size, seed)
    rewards = draws[:, 0] @ posterior.problem.candidates.T
    costs = np.einsum("sjf,zf->szj", draws[:, 1:], posterior.problem.candidates)
    feasible = np.all(costs <= posterior.problem.thresholds, axis=2)
    best = np.where(feasible, rewards, -np.inf).argmax(axis=1)
    best[~feasible.any(axis=1)] = len(posterior.problem.candidates)
    return best


def agree(value, error):
    """Whether two independent estimates are within 6 standard errors: but for chance of 2e-9."""
    return abs(value - error.value) <= 6 * np.sqrt(2) * error.standard_error + 1e-12


@pytest.mark.parametrize("case", INSTANCES)
@pytest.mark.parametrize("method", ["draw", "mean", "probable"])
def test_recommendation(case, method):
    instance = INSTANCES[case]
    rule = bf.BLFAIPS(instance, seed=10, eta=1.0, recommendation=method)
    environment(instance).play(rule, 60)
    answer = rule.recommend()
    posterior, problem = rule.posterior, rule.problem
    candidate = answer.candidate
    assert candidate is not None
    assert answer.name == problem.name(candidate)
    error = bf.Alternative(problem, candidate).log_probability(posterior, seed=1)
    assert agree(answer.log_error, error)
    rival = bf.Alternative(problem, answer.runner_up).log_probability(posterior, seed=1)
    assert not agree(answer.log_error, rival)
    assert answer.reason.replace("candidate ", "").replace(" is ", " ") == error.likeliest
    assert problem.candidates[answer] is not None
    assert [10, 20, 30, 40, 50, 60, 70][answer] == 10 * (candidate + 1)
    assert int(answer) == candidate
    assert answer == candidate
    assert answer.name in str(answer)
    if method == "mean":
        assert candidate == posterior.best()
    best = brute_best(posterior, 200_000, seed=2)
    frequency = np.bincount(best, minlength=len(problem.candidates) + 1)
    if method == "probable":
        assert frequency[candidate] >= frequency.max() - 5 * np.sqrt(frequency.max())
    others = frequency[:-1].copy()
    others[problem.copies(candidate)] = 0
    assert others[answer.runner_up] >= 0.8 * others.max()
    low, high = stats.beta.interval(
        1 - FALSE_ALARM, frequency[-1] + 0.5, len(best) - frequency[-1] + 0.5
    )
    if frequency[-1] > 100:
        # Another 10 % for the 2048 draws behind the answer.
        least, most = np.log(low) - 0.1, np.log(high) + 0.1
        assert least <= answer.log_none_feasible <= most
        some = np.log1p(-np.exp(answer.log_none_feasible))  # the control: that some candidate is
        assert not least <= some <= most
    elif problem.thresholds.size == 0:
        assert answer.log_none_feasible == -np.inf


def test_drawn_recommendations_follow_the_posterior():
    instance = INSTANCES["m=1"]
    rule = bf.Uniform(instance, seed=11, recommendation="draw")
    environment(instance).play(rule, 8)
    drawn = [rule._choice() for _ in range(20_000)]
    drawn = np.where(np.array(drawn) < 0, 5, drawn)

    def p_value(posterior):
        expected = brute_best(posterior, 20_000, 3)
        table = np.array([np.bincount(some, minlength=6) for some in (drawn, expected)])
        table = table[:, table.sum(axis=0) > 20]
        assert table.shape[1] > 2
        return stats.chi2_contingency(table).pvalue

    assert p_value(rule.posterior) > FALSE_ALARM
    rule.tell(0, 1.0, 0.3)
    assert p_value(rule.posterior) < FALSE_ALARM  # one pull more would be noticed


def test_probable_is_not_always_the_mean():
    """The mean's best candidate may be probably infeasible; frequencies tell which to prefer."""
    different, caught = 0, 0
    for seed in range(12):
        instance = random_instance(3, 6, 2, seed=seed)
        rule = bf.Uniform(instance, seed=seed, recommendation="probable")
        environment(instance, seed).play(rule, 15)
        frequency = np.bincount(brute_best(rule.posterior, 100_000, seed), minlength=7)
        answer = rule._choice()
        answer = 6 if answer < 0 else answer
        # At most 2048 draws decide: a wrong answer must be nearly as probable as the right one.
        least = 0.93 * frequency.max() - 300
        assert frequency[answer] >= least
        mean = 6 if rule.posterior.best() is None else rule.posterior.best()
        different += answer != mean
        caught += frequency[mean] < least
    assert different > 0
    assert caught > 0  # the control: the answer of the means would not do


def none_feasible_rule(pulls, recommendation="mean", radius=None, seed=12):
    """A rule that has pulled arms which all cost too much."""
    problem = bf.Problem(
        {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.6]}, {"dose": 0.2, "price": 0.3},
        parameter_radius=radius,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    rule = bf.BLFAIPS(problem, seed=seed, eta=1.0, recommendation=recommendation)
    for _ in range(pulls):
        arm = rule.ask()
        vector = problem.arms[arm]
        rule.tell(arm, vector.sum() + rng.normal(), vector @ [0.7, 0.8] + rng.normal(size=2))
    return rule


@pytest.mark.parametrize("recommendation", ["mean", "draw", "probable"])
def test_no_candidate_looks_feasible(recommendation):
    rule = none_feasible_rule(300, recommendation)
    answer = rule.recommend()
    assert isinstance(answer, Recommendation)
    assert answer.candidate is None
    assert answer.name == "none"
    assert answer == None  # noqa: E711 (equality with None is what is tested)
    assert "no candidate looks feasible" in str(answer)
    assert answer.reason == f"{answer.runner_up_name} is feasible"
    with pytest.raises(ValueError, match="no candidate looks feasible"):
        [1, 2, 3][answer]


@pytest.mark.parametrize("pulls", [3, 20, 40])
@pytest.mark.parametrize("radius", [None, 2.0])
def test_probability_that_none_is_feasible(pulls, radius):
    rule = none_feasible_rule(pulls, radius=radius)
    posterior, size = rule.posterior, 400_000
    draws = posterior.sample(size, seed=3)
    some = np.sum(best_of_draws(rule.problem, blocks(draws)) >= 0)
    low, high = stats.beta.interval(1 - FALSE_ALARM, some + 0.5, size - some + 0.5)
    from bayes_feasible.alternative.feasible import log_feasible

    log_some, log_none = log_feasible(posterior, np.random.default_rng(4))
    assert_allclose(np.exp(log_some) + np.exp(log_none), 1.0, rtol=1e-12)
    assert np.log(low) - 0.05 <= log_some <= np.log(high) + 0.05
    posterior.update(0, 1.0, [-2.0, -2.0])  # a cheap pull, which must make a difference
    assert log_feasible(posterior, np.random.default_rng(4))[0] > np.log(high) + 0.05


def test_probability_of_a_rare_feasible_candidate_does_not_vanish():
    rule = none_feasible_rule(20_000)
    answer = rule.recommend()
    events = [
        sum(
            stats.norm.logcdf((tau - z @ mean) / np.sqrt(z @ rule.posterior.covariance @ z))
            for tau, mean in zip(rule.problem.thresholds, rule.posterior.theta_cost, strict=True)
        )
        for z in rule.problem.candidates
    ]
    assert max(events) < -500
    assert max(events) - 1e-6 <= answer.log_error <= np.logaddexp.reduce(events) + 1e-6
    assert answer.runner_up == int(np.argmax(events))
    assert answer.log_none_feasible == 0.0


@pytest.mark.parametrize("name", CONSTRAINED)
def test_an_infeasible_problem_is_no_obstacle(name):
    """No candidate is feasible in truth, which a rule that needs the truth cannot be told."""
    if name == "Oracle":
        rule = bf.Oracle(none_feasible_rule(1).problem, allocation=[0.5, 0.25, 0.25])
    else:
        rule = maker(name)(none_feasible_rule(1).problem, seed=13)
    rng = np.random.default_rng(0)
    for _ in range(200):
        arm = rule.ask()
        vector = rule.problem.arms[arm]
        rule.tell(arm, vector.sum() + rng.normal(), vector @ [2.0, 2.5] + rng.normal(size=2))
    assert rule._state.pulls.sum() == 200
    rule.recommend()


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


@pytest.mark.parametrize("eta", ["paper", 1.0])
def test_without_constraints_blfaips_is_peps(eta):
    instance = INSTANCES["m=0"]
    rules = [
        bf.BLFAIPS(instance, seed=15, eta=eta),
        bf.PEPS(instance, seed=15, eta=eta, horizon=400),
    ]
    arms = [drive(rule, environment(instance), 400) for rule in rules]
    assert arms[0] == arms[1]
    assert_same_state(*rules)


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
        assert forgetful._state.clock[2] == keeping._state.clock[2] == last
        assert_allclose(forgetful.allocation.sum(), 1.0)
        if rounds - 1 == last:  # one loss since the restart
            for rule in (forgetful, keeping):
                assert_array_equal(rule._state.losses, rule._work.loss)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_more_features_than_arms(name):
    instance = bf.instances.random_ball(50, 20, seed=1)
    rule = maker(name)(instance, seed=17)
    environment(instance).play(rule, 500)
    assert rule.posterior.pulls == 500
    answer = rule.recommend()
    assert np.isfinite(answer.log_error)
    assert 0 <= rule.ask() < 20


@pytest.mark.parametrize("name", CONSTRAINED)
def test_copies_of_the_best_candidate(name):
    """Copies are one recommendation: they are no error, and no rule gets stuck between them."""
    base = bf.instances.end_of_optimism(0.3)
    arms = np.vstack([base.problem.arms, base.problem.arms[[0, 0]]])
    instance = bf.Instance(bf.Problem(arms, 0.5), base.theta_reward, base.theta_cost)
    rule = maker(name)(instance, seed=18, recommendation="mean")
    environment(instance).play(rule, 3000)
    answer = rule.recommend()
    assert answer.candidate in (0, 5, 6)
    assert answer.runner_up not in (0, 5, 6)
    apart = bf.Problem(arms, 0.5, candidates=base.problem.arms)  # without the copies
    posterior = bf.Posterior.from_sums(
        apart, rule.posterior.counts, rule.posterior.reward_sums, rule.posterior.cost_sums
    )
    once = bf.Alternative(apart, 0).log_probability(posterior)
    assert agree(answer.log_error, once)
    assert not agree(answer.log_error, bf.Alternative(apart, 4).log_probability(posterior))


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


def test_one_arm_without_constraint_under_peps():
    instance = bf.Instance(bf.Problem([[1.0]]), [1.0])
    for rule in (bf.PEPS(instance), bf.PEPS(instance, horizon=9, learner="hedge")):
        environment(instance).play(rule, 300)
        assert rule.recommend() == 0


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
    if name not in ("BestResponse", "PlugIn"):  # these draw nothing
        assert arms[4] != arms[0]
    assert sequence.n_children_spawned == 0


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


def test_top_two_share_of_the_leader():
    """Far into a run the leader is the best candidate, and it gets beta of the pulls."""
    instance = bf.instances.end_of_optimism(0.3)
    allowed = 5 * np.sqrt(0.25 / 10_000) + 0.002
    shares = {}
    for beta in (0.2, 0.25, 0.5, "optimal"):
        rule = bf.TopTwo(instance, seed=21, beta=beta)
        world = environment(instance)
        world.play(rule, 20_000)
        before = rule._state.pulls[0]
        world.play(rule, 10_000)
        shares[beta] = (rule._state.pulls[0] - before) / 10_000
        assert abs(shares[beta] - rule.beta) < allowed
    assert abs(shares[0.25] - 0.2) > allowed  # another beta would be noticed


def test_paper_eta():
    problem = bf.Problem(
        [[3.0, 0.0], [0.0, 1.0]], [0.5, 0.5], reward_noise=0.5, cost_noise=[2.0, 0.25],
        parameter_radius=(2.0, 0.5),
    )  # fmt: skip
    eta = min(0.5**2 / (8 * 9 * 4), 2.0**2 / (8 * 9 * 0.25), 0.25**2 / (8 * 9 * 0.25))
    assert_allclose(bf.BLFAIPS(problem)._options.scale, 1 / eta)
    eta = min(0.5**2 / (8 * 4 * 1), 0.25**2 / (8 * 4 * 9))
    rule = bf.BLFAIPS(problem, arm_norm=2.0, parameter_radius=(1.0, 3.0))
    assert_allclose(rule._options.scale, 1 / eta)
    assert bf.BLFAIPS(problem, eta=0.25)._options.scale == 4.0


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda p: bf.BLFAIPS(p, eta="papers"), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=0.0), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=-1.0), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=np.nan), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=None), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=[1.0, 2.0]), "eta"),
        (lambda p: bf.BLFAIPS(p, eta=np.array([1.0, 2.0])), "eta"),
        (lambda p: bf.BLFAIPS(p, exploration=0.0), "exploration"),
        (lambda p: bf.BLFAIPS(p, exploration="some"), "exploration"),
        (lambda p: bf.BestResponse(p, exploration=-0.5), "exploration"),
        (lambda p: bf.PlugIn(p, exploration=np.inf), "exploration"),
        (lambda p: bf.TopTwo(p, exploration=None), "exploration"),
        (lambda p: bf.BLFAIPS(p, arm_norm=-1.0), "arm_norm"),
        (lambda p: bf.BLFAIPS(p, parameter_radius=(1.0, 2.0, 3.0)), "parameter_radius"),
        (lambda p: bf.BLFAIPS(p, parameter_radius=0.0), "parameter_radius"),
        (lambda p: bf.BLFAIPS(p, seed=-1), "seed"),
        (lambda p: bf.BLFAIPS(p, seed="x"), "seed"),
        (lambda p: bf.BLFAIPS(p, recommendation="best"), "recommendation"),
        (lambda p: bf.BLFAIPS(p.arms), "problem"),
        (lambda p: bf.TopTwo(p, beta=1.5), "beta"),
        (lambda p: bf.TopTwo(p, beta=-0.1), "beta"),
        (lambda p: bf.TopTwo(p, beta=np.nan), "beta"),
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
        (lambda p: bf.FixedAllocation(p, allocation=[1.5, -0.5, 0.0, 0.0, 0.0]), "allocation"),
    ],
)
def test_bad_options(make, named):
    with pytest.raises((TypeError, ValueError), match=named):
        make(INSTANCES["m=1"].problem)


def test_peps_takes_infinite_thresholds():
    assert bf.PEPS(random_instance(3, 5, 1, infinite=True)).ask() in range(5)


def test_oracle_follows_an_allocation_without_the_truth():
    rule = bf.Oracle(INSTANCES["m=1"].problem, allocation=[0.0, 0.0, 1.0, 0.0, 0.0])
    assert_array_equal(rule.ask(20), 2)


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


def test_what_pulls_show_stays_within_what_sums_can_hold():
    rule = bf.BLFAIPS(bf.Problem([[1, 0], [0, 1]], thresholds=0.5))
    with pytest.raises(ValueError, match=r"reward: expected at most 1e\+80"):
        rule.tell(0, 1e90, 0.0)
    rule.tell(0, 1e80, -1e80)
    rule.tell(0, 1e80, 1e80)
    assert rule.recommend().log_error <= 0


def test_certainty_is_printed_as_probability_0():
    posterior = bf.Posterior(bf.Problem([[1.0, 0.0]]))
    rule = bf.Uniform(posterior.problem)
    assert str(rule.recommend()) == "Recommended: 0. P(error) = 0."


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


@pytest.mark.parametrize("radius", [(np.inf, 3.0), (3.0, np.inf)])
def test_a_radius_that_is_not_bounded_counts_as_one(radius):
    """In the paper's eta, as for a problem without any radius."""
    arms = [[1.0, 0.0], [0.0, 1.0]]
    rule = bf.BLFAIPS(bf.Problem(arms, 0.5, parameter_radius=radius))
    given = [1.0 if np.isinf(bound) else bound for bound in radius]
    same = bf.BLFAIPS(bf.Problem(arms, 0.5), parameter_radius=given)
    assert rule._options.scale == same._options.scale == 72.0


def test_asked_twice_a_rule_answers_the_same():
    """By one draw of these parameters it would name two candidates."""
    rule = bf.Uniform(bf.Problem(np.eye(3), thresholds=0.2), seed=4)
    rule.tell([0, 1, 2], [1.0, 0.9, 0.8], [0.1, 0.0, 0.1])
    answers = [rule.recommend() for _ in range(8)]
    assert len({(answer.candidate, answer.log_error) for answer in answers}) == 1
    drawn = bf.Uniform(rule.problem, seed=4, recommendation="draw")
    drawn.tell([0, 1, 2], [1.0, 0.9, 0.8], [0.1, 0.0, 0.1])
    assert len({drawn.recommend().candidate for _ in range(8)}) > 1


def test_recommendations_equal_the_index_and_each_other():
    problem = bf.Problem(np.eye(2))
    few, many = bf.Uniform(problem), bf.Uniform(problem)
    few.tell([0, 1], [1.0, 0.0])
    many.tell([0, 1] * 9, [1.0, 0.0] * 9)
    few, many = few.recommend(), many.recommend()
    assert few.log_error != many.log_error
    assert few == 0 == many == few
    assert hash(few) == hash(0)
    assert few != 1
