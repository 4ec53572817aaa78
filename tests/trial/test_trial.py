"""A live experiment on disk."""

import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import closed_form, replayed, z_bound
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.rules import RULES
from bayes_feasible.trial import journal
from bayes_feasible.trial import status as trial_status
from bayes_feasible.trial.halving import pulls_to_halve
from bayes_feasible.trial.trial import KIND, Trial

COMMAND = str(Path(sys.executable).with_name("bayes-feasible"))
DRUG = bf.Problem(
    {"placebo": [1, 0], "10 mg": [1, 0.5], "20 mg": [1, 1]},
    thresholds={"toxicity": 0.5},
    reward_noise=0.3,
    cost_noise=0.1,
)
PATIENTS = [
    ("20 mg", 1.31, 0.92),
    ("placebo", 0.05, 0.01),
    ("10 mg", 0.61, 0.35),
    ("20 mg", 0.84, 0.81),
    ("10 mg", 0.40, 0.42),
    ("placebo", -0.21, 0.07),
]
TWO_LIMITS = bf.Problem(
    [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]],
    {"price": 0.4, "weight": 0.6},
    candidates=[[0.5, 0.2], [0.3, 0.9], [0.0, 0.4], [0.8, 0.8]],
    cost_noise=[0.5, 2.0],
)


@pytest.fixture
def unsynced(monkeypatch):
    """Leave the disk alone where only the content matters."""
    monkeypatch.setattr(journal.os, "fsync", lambda descriptor: None)


@pytest.fixture
def drug(tmp_path, unsynced):
    """Six patients, three doses."""
    trial = Trial.new(tmp_path / "drug.trial", DRUG, seed=1)
    for patient in PATIENTS:
        trial.tell(*patient)
    return trial


def world(problem, seed=0):
    """Rewards and costs that nobody could have foreseen, one pull at a time."""
    rng = np.random.default_rng(seed)

    def pull(arms):
        size = np.size(arms)
        return rng.normal(size=size), rng.normal(size=(size, problem.thresholds.size))

    return pull


def same_rule(left, right):
    for name, array in left._arrays().items():
        assert np.array_equal(array, right._arrays()[name]), name
    assert left._rng.bit_generator.state == right._rng.bit_generator.state


# The state, rebuilt


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_trial_that_is_reopened_at_every_step_is_a_rule_that_never_stopped(
    name, tmp_path, unsynced
):
    instance = bf.instances.end_of_optimism(alpha=0.3)
    if name == "PEPS":
        instance = bf.Instance(bf.Problem(instance.problem.arms), instance.theta_reward)
    options = {"allocation": [0.1, 0.2, 0.3, 0.15, 0.25]} if name == "FixedAllocation" else {}
    rule = RULES[name](instance, seed=5, **options)
    path = tmp_path / "a.trial"
    Trial.new(path, instance, name, seed=5, **options)
    pull = world(instance.problem)
    for i in range(25):
        asked = rule.ask(1 + i % 3)
        assert Trial(path).ask(1 + i % 3).tolist() == asked.tolist()
        rewards, costs = pull(asked)
        rule.tell(asked, rewards, costs)
        Trial(path).tell(asked, rewards, costs)
    same_rule(replayed(Trial(path)), rule)
    assert [Trial(path).ask() for _ in range(3)] == [rule.ask() for _ in range(3)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(1, 3)),
        st.tuples(st.just("tell"), st.lists(st.integers(0, 2), min_size=1, max_size=3)),
        st.tuples(st.just("undo"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
    ),
    min_size=5,
    max_size=25,
)


@given(steps=STEPS, name=st.sampled_from(["BestResponse", "BLFAIPS", "PlugIn"]))
@settings(max_examples=15)
def test_whatever_happens_the_state_is_that_of_what_stands(steps, name, tmp_path_factory):
    path = tmp_path_factory.mktemp("trial") / "a.trial"
    trial, standing, pull = Trial.new(path, DRUG, name, seed=2), [], world(DRUG)
    for kind, what in steps:
        if kind == "ask":
            standing.append(("ask", trial.ask(what).tolist()))
        elif kind == "tell":
            shown = pull(what)
            trial.tell(what, *shown)
            standing.append(("tell", what, *shown))
        elif kind == "reopen":
            trial = Trial(path)
        elif standing:
            taken = trial.undo()
            assert taken["event"] == standing.pop()[0]
        else:
            with pytest.raises(ValueError, match="nothing to take back"):
                trial.undo()
    rule, pending, unseen = RULES[name](DRUG, seed=2), [0, 0, 0], bf.Posterior(DRUG)
    for kind, arms, *shown in standing:
        if kind == "ask":
            assert rule.ask(len(arms)).tolist() == arms
        else:
            rule.tell(arms, *shown)
            unseen.update(arms, *shown)
        for arm in arms:
            pending[arm] = max(pending[arm] + (1 if kind == "ask" else -1), 0)
    for some in (trial, Trial(path)):
        same_rule(replayed(some), rule)
        assert some.pending.values.tolist() == pending
        assert some.posterior.counts.tolist() == unseen.counts.tolist()
        assert np.allclose(some.posterior.reward_sums, unseen.reward_sums, rtol=0, atol=1e-12)
    assert str(trial.status()) == str(Trial(path).status())


def test_status_and_recommendation_are_the_same_to_the_last_bit_after_reopening(drug):
    drug.ask(2)
    before = drug.status()
    again = Trial(drug.path).status()
    assert before.to_dict() == again.to_dict()
    assert drug.recommend().log_error == Trial(drug.path).recommend().log_error
    assert drug.recommend() == drug.recommend()  # and asking changes nothing
    assert drug.status().to_dict() == before.to_dict()


@pytest.mark.parametrize("how", ["mean", "probable", "draw"])
def test_ways_to_recommend(how, tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG, recommendation=how)
    trial.tell([1] * 50 + [2] * 50, [1.0] * 50 + [2.0] * 50, [0.2] * 50 + [0.9] * 50)
    assert [trial.recommend().name, Trial(trial.path).recommend().name] == ["10 mg"] * 2


def test_a_rule_that_forgets_its_data_does_not_make_the_trial_forget(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", bf.Problem([[1, 0], [0, 1]]), "PEPS")
    for _ in range(20):
        trial.tell(trial.ask(), 1.0)
    assert trial.status().arms.pulls.sum() == 20
    assert replayed(trial).posterior.pulls < 20


def test_two_sessions_see_each_other(tmp_path, unsynced):
    first = Trial.new(tmp_path / "a.trial", DRUG)
    second = Trial(first.path)
    arms = [first.ask(), second.ask(), first.ask()]
    assert second.pending.sum() == 3
    rule = bf.BestResponse(DRUG)
    assert arms == rule.ask(3).tolist()
    second.tell(arms[0], 1.0, 0.2)
    assert first.posterior.pulls == 1
    second.undo()
    assert first.posterior.pulls == 0
    assert first.pending.sum() == 3


def test_threads_take_turns(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG)

    def work():
        for _ in range(10):
            trial.tell(trial.ask(), 1.0, 0.1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trial.posterior.pulls == 40
    assert trial.pending.sum() == 0
    same_rule(replayed(trial), replayed(Trial(trial.path)))


def test_an_ask_that_could_not_be_written_did_not_happen(tmp_path, monkeypatch):
    trial, rule = Trial.new(tmp_path / "a.trial", DRUG, "BLFAIPS"), bf.BLFAIPS(DRUG)
    assert trial.ask() == rule.ask()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal.os, "fsync", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left on device"):
                trial.ask(2)
            with pytest.raises(OSError, match="nothing was recorded"):
                trial.tell(0, 1.0, 1.0)
    assert trial.pending.sum() == 1
    assert trial.posterior.pulls == 0
    assert trial.ask(2).tolist() == rule.ask(2).tolist()
    same_rule(replayed(trial), rule)


def test_arms_that_this_machine_would_not_have_asked_for_stand(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG)
    other = next(arm for arm in range(3) if arm != bf.BestResponse(DRUG).ask())
    with trial._journal.writing() as append:
        append({"event": "ask", "arms": [other]})
    again = Trial(trial.path)
    assert again.pending.values[other] == 1
    with pytest.warns(UserWarning, match="event 2 asked for arms that this version or machine"):
        again.ask()
    again.ask()  # told once


def seconds_to_rebuild(path, pulls):
    """A trial of so many pulls, one by one, is made; its rule comes back from its journal."""
    instance = bf.instances.end_of_optimism(alpha=0.1)
    rule = bf.BLFAIPS(instance.problem, seed=3)
    trial = Trial.new(path, instance.problem, "BLFAIPS", seed=3)
    rng = np.random.default_rng(0)
    with trial._journal.writing() as append:
        for _ in range(pulls):
            arm = rule.ask()
            rewards, costs = instance.pull([arm], rng)
            rule.tell(arm, rewards[0], costs[0])
            append({"event": "ask", "arms": [arm]})
            shown = {"rewards": rewards.tolist(), "costs": costs.tolist()}
            append({"event": "tell", "arms": [arm], **shown})
    begin = time.process_time()
    same_rule(replayed(Trial(path)), rule)
    return time.process_time() - begin


@pytest.mark.slow
def test_a_hundred_thousand_events_are_rebuilt_as_fast_each_as_a_few(tmp_path, unsynced):
    few, many = 4000, 50_000
    base = seconds_to_rebuild(tmp_path / "few.trial", few)
    # Three times as long for each at the most; were each compared with all, it would be twelve.
    assert seconds_to_rebuild(tmp_path / "many.trial", many) < 3 * many / few * base


# Undo


def test_undo_appends_and_the_pull_is_pending_again(drug):
    arm = drug.ask()
    size = Path(drug.path).stat().st_size
    number = drug.tell(arm, 9.0, 9.0)
    before = Path(drug.path).read_bytes()
    assert drug.pending.sum() == 0
    taken = drug.undo()
    assert (taken["n"], taken["rewards"]) == (number, [9.0])
    assert Path(drug.path).read_bytes().startswith(before)
    assert len(before) > size
    assert drug.pending.values[arm] == 1
    assert drug.undone(number) == number + 1
    assert drug.undo()["event"] == "ask"
    assert drug.pending.sum() == 0
    assert drug.undo()["arms"] == [0]  # the last patient; then the one before
    assert drug.undo()["arms"] == [1]
    assert drug.posterior.pulls == 4


def test_after_an_undo_the_same_is_asked_again(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG, "BLFAIPS", seed=8)
    trial.tell([0, 1, 2], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    arms = trial.ask(10).tolist()
    trial.undo()
    assert trial.ask(10).tolist() == arms


def test_an_earlier_tell_can_be_taken_back_and_what_was_asked_since_stays(drug, recwarn):
    first = drug.ask(2).tolist()
    wrong = drug.tell(first[0], 100.0, 50.0)
    later = drug.ask(2).tolist()
    drug.tell(later[0], 0.5, 0.2)
    drug.undo(wrong)
    again = Trial(drug.path)
    assert again.history.rewards.tolist() == [p[1] for p in PATIENTS] + [0.5]
    expected = np.bincount([*first, *later], minlength=3) - np.bincount(later[:1], minlength=3)
    assert again.pending.values.tolist() == expected.tolist()
    more = again.ask(3).tolist()
    same_rule(replayed(again), replayed(Trial(drug.path)))
    assert drug.undo()["arms"] == more
    assert not recwarn.list


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1, "event: 1 is of kind 'new'"),
        (8, "event: 8 is of kind 'ask'"),
        (2, "event: 2 was already taken back by event 10"),
        (99, "event: there are 10 events, got 99"),
        (0, "event: expected at least 1"),
        ("2", "event: expected a whole number"),
    ],
)
def test_what_cannot_be_taken_back(drug, number, message):
    drug.ask()
    drug.tell(0, 0.0, 0.0)
    drug.undo(2)
    size = Path(drug.path).stat().st_size
    with pytest.raises((TypeError, ValueError), match=message):
        drug.undo(number)
    assert Path(drug.path).stat().st_size == size


# What is told


def test_late_and_unasked_data_are_taken(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG)
    first, second = trial.ask(2).tolist()
    unasked = next(arm for arm in range(3) if arm not in (first, second))
    number = trial.tell([unasked, second], [1.0, 2.0], [0.1, 0.2])
    assert trial.unasked(number) == 1
    assert trial.pending.values[[first, second, unasked]].tolist() == [1, 0, 0]
    assert trial.unasked(trial.tell(first, 1.0, 0.1)) == 0
    assert trial.pending.sum() == 0


def test_ways_to_tell(tmp_path, unsynced):
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, {"price": 1.0, "weight": 2.0})
    trial = Trial.new(tmp_path / "a.trial", problem)
    trial.tell("a", 1.0, [2.0, 3.0])
    trial.tell(np.int64(1), np.float64(4.0), {"weight": 6.0, "price": 5.0})
    trial.tell(["b", 0], [7.0, 8.0], {"price": [9.0, 10.0], "weight": [11.0, 12.0]})
    trial.tell(np.array([1, 0]), np.array([0.1, 0.2]), np.array([[0.3, 0.4], [0.5, 0.6]]))
    history = Trial(trial.path).history
    assert history.arms.tolist() == [0, 1, 1, 0, 1, 0]
    assert history.rewards.tolist() == [1, 4, 7, 8, 0.1, 0.2]
    expected = [[2, 3], [5, 6], [9, 11], [10, 12], [0.3, 0.4], [0.5, 0.6]]
    assert history.costs.tolist() == expected


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("10mg", 1, 1), "arm: unknown arm '10mg'; did you mean '10 mg'?"),
        (("x", 1, 1), "expected one of placebo, 10 mg, 20 mg"),
        (("7", 1, 1), "arm: 7 is out of range, there are 3 arms"),
        ((3, 1, 1), "arm: 3 is out of range"),
        ((-1, 1, 1), "arm: -1 is out of range"),
        ((1.5, 1, 1), "arm: expected the index or name of an arm"),
        ((True, 1, 1), "arm: expected the index or name of an arm"),
        ((0, math.nan, 1), "reward: expected finite numbers, got nan"),
        ((0, math.inf, 1), "reward: expected finite numbers, got inf"),
        ((0, 1e200, 1), "reward: 1e+200 is too large"),
        ((0, "1", 1), "reward: expected numbers"),
        ((0, None, 1), "reward: expected"),
        ((0, 1, math.nan), "cost: expected finite numbers, got nan"),
        ((0, 1), "cost: expected 1 cost (toxicity), got 0"),
        ((0, 1, [1, 2]), "cost: expected 1 cost (toxicity), got 2"),
        ((0, 1, {"toxicty": 1}), "unknown constraint 'toxicty'; did you mean 'toxicity'?"),
        ((0, 1, {}), "got none for toxicity"),
        (([0, 1], [1], [1, 1]), "reward: expected 2 numbers"),
        (([0, 1], [1, 1], [1]), "cost: expected shape (2, 1)"),
        (([], [], []), "arm: there is no pull to tell of"),
        ((["10 mg", 9], [1, 1], [1, 1]), "arm: 9 is out of range"),
    ],
)
def test_bad_data_are_refused_and_leave_no_trace(drug, told, message):
    before = Path(drug.path).read_bytes()
    with pytest.raises((TypeError, ValueError)) as caught:
        drug.tell(*told)
    assert message in str(caught.value)
    assert Path(drug.path).read_bytes() == before
    assert drug.posterior.pulls == 6


def test_names_that_are_numbers_are_names(tmp_path, unsynced):
    arms = {10: [1, 0], 20: [0, 1], 2: [1, 1]}
    trial = Trial.new(tmp_path / "a.trial", bf.Problem(arms))
    trial.tell("20", 1.0)
    trial.tell("2", 1.0)
    assert trial.history.arms.tolist() == [1, 2]
    with pytest.raises(ValueError, match="unknown arm '0'"):
        trial.tell("0", 1.0)  # an index, or a slip of the pen?
    plain = Trial.new(tmp_path / "b.trial", bf.Problem([[1, 0], [0, 1]]))
    plain.tell("1", 1.0)
    assert plain.history.arms.tolist() == [1]


@pytest.mark.parametrize("problem", [DRUG, TWO_LIMITS, bf.Problem([[1, 0.1], [0.1, 1]])])
def test_tables_of_pulls_keep_every_digit(problem, tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", problem)
    arms = [1, 0, 1]
    trial.tell(arms, *world(problem)(arms))
    _call("export", trial.path, "--out", tmp_path / "pulls.csv")
    other = Trial.new(tmp_path / "b.trial", problem)
    _call("tell", other.path, "--csv", tmp_path / "pulls.csv")
    loaded = bf.History.load(tmp_path / "pulls.csv", problem)
    for history in (other.history, loaded):
        assert history.arms.tolist() == arms
        assert history.rewards.tolist() == trial.history.rewards.tolist()
        assert history.costs.tolist() == trial.history.costs.tolist()


# New


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "BestRespons"}, "unknown rule 'BestRespons'; did you mean 'BestResponse'?"),
        ({"rule": "Oracle"}, "problem: Oracle needs an Instance"),
        ({"rule": bf.BLFAIPS}, "rule: unknown rule"),
        ({"exploraton": 0.5}, "unknown option 'exploraton'; did you mean 'exploration'?"),
        ({"exploration": -1}, "exploration: expected a positive number"),
        ({"rule": "BLFAIPS", "eta": math.nan}, "eta: expected finite numbers"),
        ({"seed": -1}, "seed: expected at least 0"),
        ({"seed": 1.5}, "seed: expected a whole number"),
        ({"recommendation": "best"}, "recommendation: expected one of"),
        ({"problem": "drug"}, "problem: expected a Problem or an Instance"),
        ({"wait": -1}, "wait: expected a number of seconds"),
    ],
)
def test_bad_beginnings(arguments, message, tmp_path):
    arguments = {"problem": DRUG} | arguments
    with pytest.raises((TypeError, ValueError), match=message):
        Trial.new(tmp_path / "a.trial", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_trial_is_left_alone(drug):
    before = Path(drug.path).read_bytes()
    with pytest.raises(FileExistsError, match="there is such a file already"):
        Trial.new(drug.path, DRUG)
    assert Path(drug.path).read_bytes() == before


def test_the_truth_is_used_where_needed_and_never_kept(tmp_path, unsynced):
    instance = bf.instances.end_of_optimism(alpha=0.1)
    trial = Trial.new(tmp_path / "a.trial", instance, "Oracle", seed=4)
    assert "theta" not in Path(trial.path).read_text()
    assert trial.ask(50).tolist() == bf.Oracle(instance, seed=4).ask(50).tolist()
    assert Trial(trial.path).problem == instance.problem


def test_names_and_infinite_limits_survive(tmp_path, unsynced):
    problem = bf.Problem({"größer": [1, 0.25], "🙂": [0.5, 1 / 3]}, {"Preis": np.inf, "x": 0.1})
    assert Trial.new(tmp_path / "a.trial", problem).problem == problem


def test_data_that_nothing_can_be_made_of_can_be_taken_back(drug):
    drug.tell([0, 0], [1e80, 1e80], [1.0, 1.0])
    drug.undo()
    assert drug.status().recommendation.name == "10 mg"


@pytest.mark.parametrize(
    "events",
    [
        [{"event": "dance"}],
        [{"event": "tell", "arms": [0]}],
        [{"event": "tell", "arms": "many", "rewards": [1], "costs": [[1]]}],
        [{"event": "tell", "arms": [7], "rewards": [1.0], "costs": [[1.0]]}],
        [{"event": "tell", "arms": [0], "rewards": ["x"], "costs": [[1.0]]}],
        [{"event": "tell", "arms": [0], "rewards": [1.0], "costs": [[1.0, 2.0]]}],
        [{"event": "ask", "arms": None}],
        [{"event": "ask", "arms": [5]}],
        [{"event": "undo", "of": 5}],
        [{"event": "undo", "of": [1]}],
        [{"event": "undo"}],
        [{"arms": [1]}],
    ],
)
def test_sound_lines_with_senseless_events_are_refused(events, tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG)
    with trial._journal.writing() as append:
        for event in events:
            append(event)
    with pytest.raises(ValueError, match=r"a\.trial: event 2"):
        Trial(trial.path)


def test_a_first_line_without_a_problem_is_refused(tmp_path):
    journal.Journal.create(tmp_path / "a.trial", KIND, {"rule": "BLFAIPS"})
    with pytest.raises(ValueError, match="not the beginning of a trial"):
        Trial(tmp_path / "a.trial")


# Status


def _candidates_by_hand(posterior):
    """Means, standard deviations and feasibility of the candidates, by the textbook formulas."""
    problem = posterior.problem
    mean, covariance = closed_form(posterior)
    spread = np.sqrt(np.einsum("zi,ij,zj->z", problem.candidates, covariance, problem.candidates))
    costs = problem.candidates @ mean[1:].T
    sd_costs = spread[:, np.newaxis] * problem.cost_noise
    feasible = stats.norm.cdf((problem.thresholds - costs) / sd_costs).prod(axis=1)
    return problem.candidates @ mean[0], spread * problem.reward_noise, costs, sd_costs, feasible


@pytest.mark.parametrize("problem", [DRUG, TWO_LIMITS, bf.Problem([[1, 0.1], [0.1, 1]])])
def test_the_table_of_candidates(problem, tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", problem)
    arms = [0, 1, 1, 0, 1]
    trial.tell(arms, *world(problem)(arms))
    shown = trial.status().candidates
    names = ("mean_reward", "sd_reward", "mean_cost", "sd_cost", "feasible")
    for name, expected in zip(names, _candidates_by_hand(trial.posterior), strict=True):
        assert np.allclose(shown[name], expected, rtol=1e-9, atol=1e-12), name
    assert np.allclose(np.exp(shown.log_infeasible), 1 - shown.feasible, atol=1e-12)


def test_a_candidate_that_costs_nothing_for_certain(tmp_path, unsynced):
    problem = bf.Problem([[1, 0], [0, 1]], 0.5, candidates=[[0, 0], [1, 0]])
    trial = Trial.new(tmp_path / "a.trial", problem)
    trial.tell(0, -3.0, 1.0)
    status = trial.status()
    assert status.recommendation.candidate == 0
    assert status.candidates.feasible.values[0] == 1
    assert status.candidates.log_infeasible.values[0] == -np.inf
    lines = [line.split() for line in str(status).splitlines()]
    assert ["0", "0", "0", "1"] in lines
    assert lines[-2:] == [["0", "1", "100.0%"], ["1", "0", "0.0%"]]  # unpulled arms are listed


def test_the_status_says_how_sure_and_by_which_mistake(drug):
    drug.ask(2)
    status, posterior = drug.status(), drug.posterior
    alternative = bf.Alternative(DRUG, 1)
    assert status.recommendation.name == "10 mg"
    exact = alternative.log_probability(posterior)
    assert status.recommendation.log_error == pytest.approx(exact.value, abs=4 * 0.01)
    assert exact.lower <= status.recommendation.log_error <= exact.upper
    events = alternative.event_log_probabilities(posterior)
    assert status.mistakes.equals(events)
    text = str(status)
    probability = math.exp(status.recommendation.log_error)
    assert f"wrong with probability {probability:.2g} (log {math.log(probability):.2f})" in text
    assert f"20 mg better ({math.exp(events.values.max()):.2g})" in text
    assert "BestResponse, 6 pulls, 2 pending" in text
    fields = status.to_dict()
    assert fields["probability_wrong"] == probability
    assert fields["candidates"]["20 mg"]["costs"]["toxicity"]["mean"] == pytest.approx(
        float(status.candidates.mean_cost[2, 0])
    )
    assert fields["arms"]["placebo"]["pulls"] == 2


def test_no_candidate_looks_feasible_is_an_answer(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG)
    trial.tell([0, 1, 2] * 40, [1.0] * 120, [0.54, 0.6, 0.65] * 40)
    status = trial.status()
    assert status.recommendation.candidate is None
    text = str(status)
    assert "Recommended: none, for no candidate looks feasible" in text
    assert "likeliest: placebo feasible" in text
    assert "more pulls with the current allocation" in text
    _, _, costs, sd, feasible = _candidates_by_hand(trial.posterior)
    assert costs.min() > 0.5
    some = math.exp(status.recommendation.log_error)
    assert feasible.max() * (1 - 1e-9) <= some <= feasible.sum() * (1 + 1e-9)
    assert status.to_dict()["recommended"] is None
    assert status.to_dict()["mistakes"]["placebo feasible"] == pytest.approx(
        stats.norm.logcdf((0.5 - costs[0, 0]) / sd[0, 0])
    )


def test_a_status_before_the_first_pull(tmp_path, unsynced):
    status = Trial.new(tmp_path / "a.trial", DRUG).status()
    assert "0 pulls, none pending" in str(status)
    assert "not known before the first pull" in str(status)
    assert status.to_dict()["pulls_to_halve"] is None


def test_nothing_can_be_wrong(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", bf.Problem([[1.0, 2.0]]))
    trial.tell(0, 1.0)
    text = str(trial.status())
    assert "wrong with probability 0\n" in text
    assert "it cannot be wrong" in text


def test_long_tables_are_cut(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", bf.instances.random_ball(5, 60, 1).problem)
    trial.tell(list(range(60)), [0.5] * 60, [0.1] * 60)
    trial.ask(30)
    status = trial.status()
    text = str(status)
    assert text.count("... and 40 more (--json shows all)") == 2
    assert max(map(len, text.splitlines())) < 250
    assert len(status.to_dict()["candidates"]) == 60


def test_the_status_reads_well(drug):
    lines = str(drug.status()).splitlines()
    assert lines[2] == "Recommended: 10 mg"
    title = "Candidates: posterior mean ± standard deviation, probability of being feasible"
    begin = lines.index(title)
    assert lines[begin + 1 :] == [
        "candidate       reward       toxicity     feasible",
        "10 mg      0.47 ± 0.11  0.401 ± 0.038        0.995",
        "placebo    0.16 ± 0.14  0.173 ± 0.048  1 - 3.1e-12",
        "20 mg      0.78 ± 0.16  0.629 ± 0.054        0.008",
        "",
        "Pulls so far",
        "arm      pulls  share",
        "placebo      2  33.3%",
        "10 mg        2  33.3%",
        "20 mg        2  33.3%",
    ]


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (0.4711, 0.1234, "0.47 ± 0.12"),
        (123.4, 45.6, "123 ± 46"),
        (-1.5, 0.00123, "-1.5000 ± 0.0012"),
        (2.0, 0.0, "2"),
        (1e-12, 1e-12, "1e-12 ± 1e-12"),
        (3e8, 1e7, "3e+08 ± 1e+07"),
        (0.0999, 0.0999, "0.100 ± 0.100"),
    ],
)
def test_means_with_their_deviations(mean, deviation, text):
    assert trial_status._spread(mean, deviation) == text


@pytest.mark.parametrize(
    ("pulls", "text"), [(0.2, "1"), (9.1, "10"), (12.4, "12"), (444, "440"), (123456, "120 000")]
)
def test_pulls_are_told_with_two_digits(pulls, text):
    assert trial_status._rounded(pulls) == text


# How many more pulls


def _after(instance, shares, pulls):
    """The posterior after pulls in these shares that show exactly the truth's means."""
    counts = np.round(shares * pulls).astype(int)
    arms = np.repeat(np.arange(counts.size), counts)
    rewards = instance.problem.arms[arms] @ instance.theta_reward
    costs = instance.problem.arms[arms] @ instance.theta_cost.T
    return bf.Posterior.from_history(instance.problem, arms, rewards, costs)


@pytest.mark.parametrize(
    "instance",
    [
        bf.instances.end_of_optimism(alpha=0.3),
        bf.instances.random_ball(3, 8, 2),
        bf.instances.soare(d=3),
    ],
)
@pytest.mark.parametrize("best", [True, False])
def test_in_the_long_run_a_halving_takes_ln_2_over_the_exponent(instance, best):
    arms = len(instance.problem.arms)
    shares = bf.optimal_rate(instance).allocation.values if best else np.full(arms, 1 / arms)
    exponent = float(bf.exponents(instance, shares).min())
    posterior = _after(instance, shares, 400 / exponent)
    assert posterior.best() == instance.best
    found = pulls_to_halve(bf.Alternative(instance.problem, instance.best), posterior, shares)
    assert found == pytest.approx(math.log(2) / exponent, rel=0.01)


@pytest.mark.parametrize("log_error", [-2, -8])
def test_half_of_all_experiments_have_halved_the_error_by_then(log_error):
    """Where one mistake dominates, the estimate is the median if the means are the truth."""
    instance = bf.instances.end_of_optimism(alpha=0.1)
    problem, shares = instance.problem, bf.optimal_rate(instance).allocation.values
    exponent = float(bf.exponents(instance, shares).min())
    posterior = _after(instance, shares, -log_error / exponent)
    truth = bf.Instance(problem, posterior.theta_reward, posterior.theta_cost)
    alternative = bf.Alternative(problem, truth.best)
    now = alternative.log_probability(posterior).value
    more = pulls_to_halve(alternative, posterior, shares)

    def half_have_halved(pulls):
        counts = np.round(pulls * shares).astype(int)
        pulled = np.repeat(np.arange(counts.size), counts)
        rng, repetitions, halved = np.random.default_rng(11), 800, 0
        for _ in range(repetitions):
            later = posterior.copy()
            later.update(pulled, *truth.pull(pulled, rng))
            halved += alternative.log_probability(later).value <= now - math.log(2)
        off = (halved - repetitions / 2) / math.sqrt(repetitions / 4)
        return abs(off) < z_bound(2, 1e-4)

    assert half_have_halved(more)
    assert not half_have_halved(more / 2)  # the control


def test_a_halving_without_any_chance_takes_for_ever():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]])
    posterior = bf.Posterior.from_history(problem, [0, 1] * 50, [1.0, 0.0] * 50)
    for shares, wrong in (([0.5, 0.5], 1), ([0.0, 1.0], 1)):
        assert pulls_to_halve(bf.Alternative(problem, wrong), posterior, shares) == np.inf
    assert pulls_to_halve(bf.Alternative(problem, 0), posterior, [0.5, 0.5]) < 10
    with pytest.raises(ValueError, match="shares: expected shares with sum 1"):
        pulls_to_halve(bf.Alternative(problem, 0), posterior, [0.5, 0.6])


# The command


def _call(*arguments):
    return cli.main(["trial", *map(str, arguments)])


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys, unsynced):
    """Run a step in a folder with a problem file: code, output, errors."""
    monkeypatch.chdir(tmp_path)
    bf.save(DRUG, "drug.toml")

    def run(*arguments):
        code = _call(*arguments)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_an_experiment_from_the_shell(shell):
    code, out, err = shell("new", "drug.trial", "drug.toml", "--seed", 3)
    assert (code, err) == (0, "")
    assert out.startswith("drug.trial: Problem: 3 arms")
    code, asked, err = shell("ask", "drug.trial", "-n", 2)
    assert (code, err) == (0, "")
    asked = asked.splitlines()
    assert asked == [DRUG.coords["arm"][i] for i in bf.BestResponse(DRUG, seed=3).ask(2)]
    code, out, _ = shell("tell", "drug.trial", asked[0], "0.6", "0.35")
    assert out == (
        f"Event 3: tell: {asked[0]} showed reward 0.6, toxicity 0.35\n1 pull so far, 1 pending\n"
    )
    _, out, _ = shell("tell", "drug.trial", "10 mg", "toxicity=-1e-3", "reward=-2.5e-1")
    assert "It was not asked for" in out
    assert Trial("drug.trial").history.rewards.tolist() == [0.6, -0.25]
    assert Trial("drug.trial").history.costs.tolist() == [[0.35], [-0.001]]
    assert shell("status", "drug.trial")[1] == f"{Trial('drug.trial').status()}\n"
    assert shell("recommend", "drug.trial")[1] == f"{Trial('drug.trial').recommend()}\n"
    code, out, _ = shell("undo", "drug.trial")
    assert out == "Taken back: event 4, tell: 10 mg showed reward -0.25, toxicity -0.001\n"
    code, out, _ = shell("log", "drug.trial")
    assert "tell: 10 mg showed reward -0.25, toxicity -0.001 (taken back by 5)" in out
    assert len(out.splitlines()) == 5
    assert len(shell("log", "drug.trial", "-n", 2)[1].splitlines()) == 2
    assert shell("export", "drug.trial")[1] == f"arm,reward,toxicity\n{asked[0]},0.6,0.35\n"


def test_options_may_stand_anywhere_and_numbers_may_be_negative(shell):
    shell("new", "a.trial", "drug.toml")
    for words in (
        ["--json", "a.trial", "10 mg", "-1", "-.5"],
        ["a.trial", "--json", "10 mg", "-1.0", "-5e-1"],
        ["a.trial", "10 mg", "--json", "-1", "toxicity=-0.5"],
        ["a.trial", "10 mg", "-1", "-0.5", "--json"],
        ["a.trial", "1", "-1", "--wait", "5", "-0.5", "--json"],
    ):
        code, out, _ = shell("tell", *words)
        assert (code, json.loads(out)["told"]) == (0, 1)
    assert Trial("a.trial").history.rewards.tolist() == [-1.0] * 5
    assert Trial("a.trial").history.costs.tolist() == [[-0.5]] * 5
    assert Trial("a.trial").history.arms.tolist() == [1] * 5


def test_json_everywhere(shell):
    steps = [
        ["new", "a.trial", "--instance", "end_of_optimism", "alpha=0.2", "--rule", "BLFAIPS"],
        ["ask", "a.trial", "-n", "3"],
        ["tell", "a.trial", "0", "1.0", "0.5"],
        ["status", "a.trial"],
        ["recommend", "a.trial"],
        ["undo", "a.trial"],
        ["log", "a.trial"],
        ["export", "a.trial"],
    ]
    shown = {}
    for step in steps:
        code, out, err = shell(*step, "--json")
        assert (code, err) == (0, "")
        shown[step[0]] = json.loads(out, parse_constant=pytest.fail)
    assert shown["new"]["rule"] == "BLFAIPS"
    assert len(shown["ask"]["asked"]) == sum(shown["ask"]["pending"].values()) == 3
    assert shown["tell"]["event"] == shown["undo"]["taken_back"] == 3
    assert shown["status"]["pulls"] == 1
    assert shown["recommend"]["recommended"] == shown["status"]["recommended"]
    assert [event["event"] for event in shown["log"]["events"]] == ["new", "ask", "tell", "undo"]
    assert shown["log"]["head"] == Trial("a.trial").head
    assert shown["export"]["csv"] == "arm,reward,cost_0\n"


def test_options_of_a_rule(shell):
    new = ["new", "a.trial", "drug.toml", "--rule"]
    code, out, _ = shell(*new, "TopTwo", "--set", "beta=0.3", "select=information", "--json")
    assert code == 0
    assert json.loads(out)["settings"] == {"beta": 0.3, "select": "information", "exploration": 0.5}
    new[1] = "b.trial"
    code, out, _ = shell(*new, "FixedAllocation", "--set", "allocation=[0, 0, 1]")
    assert shell("ask", "b.trial", "-n", "4")[1] == "20 mg\n" * 4


def test_tables_from_a_file_and_from_the_input(shell, tmp_path):
    shell("new", "a.trial", "drug.toml")
    table = '\ufefftoxicity, arm ,reward\n0.25,"10 mg",1.5\n\n-1e-3,placebo,2\n'
    Path("pulls.csv").write_text(table, encoding="utf-8")
    code, out, _ = shell("tell", "a.trial", "--csv", "pulls.csv")
    assert code == 0
    assert out.splitlines()[0] == "Event 2: tell of 2 pulls"
    done = subprocess.run(
        [COMMAND, "trial", "tell", "a.trial", "--csv", "-"],
        input="arm,reward,cost\n2,3,4\n", text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "3 pulls so far, 0 pending"
    history = Trial("a.trial").history
    assert history.arms.tolist() == [1, 0, 2]
    assert history.rewards.tolist() == [1.5, 2.0, 3.0]
    assert history.costs.tolist() == [[0.25], [-0.001], [4.0]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "line 1: column 'arm' is missing"),
        ("arm,reward\n", "line 1: column 'toxicity' is missing"),
        ("arm,reward,toxicity,reward\n", "column 'reward' occurs more than once"),
        ("arm,reward,toxicity,weight\n", "column 'weight' is not one of arm, reward, toxicity"),
        ("arm,reward,toxicity\n", "there is no pull to tell of"),
        ("arm,reward,toxicity\n0,1,2\n0,1\n", "line 3: expected 3 cells, got 2"),
        ("arm,reward,toxicity\n20mg,1,2\n", "line 2: arm: unknown arm '20mg'; did you mean"),
        ("arm,reward,toxicity\n0,one,2\n", "line 2, reward: expected a finite number, got 'one'"),
        ("arm,reward,toxicity\n0,1,nan\n", "line 2, toxicity: expected a finite number, got"),
        ('arm,reward,toxicity\n0,1,"2\n', "line 2: "),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_bad_tables_are_refused_whole(shell, table, message):
    shell("new", "a.trial", "drug.toml")
    Path("pulls.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
    code, out, err = shell("tell", "a.trial", "--csv", "pulls.csv")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert len(Trial("a.trial").events) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "b.trial"], "b.trial: no such trial; start one with: bayes-feasible trial new"),
        (["status", "drug.toml"], "drug.toml: not a trial of bayes-feasible: line 1"),
        (["status", "."], "this is a folder"),
        (["new", "a.trial", "drug.toml"], "a.trial: there is such a file already"),
        (["new", "b.trial"], "expected a problem: a FILE, or --instance"),
        (["new", "b.trial", "drug.toml", "--instance", "soare"], "expected a problem"),
        (["new", "b.trial", "nowhere.toml"], "nowhere.toml: no such file"),
        (["new", "no/b.trial", "drug.toml"], "there is no folder no"),
        (["new", "b.trial", "drug.toml", "--rule", "Blfaips"], "did you mean 'BLFAIPS'?"),
        (["new", "b.trial", "--instance", "saore"], "did you mean 'soare'?"),
        (["new", "b.trial", "drug.toml", "--set", "eta"], "--set: expected KEY=VALUE"),
        (["new", "b.trial", "drug.toml", "--set", "a=1", "a=2"], "--set: a is given twice"),
        (["new", "b.trial", "drug.toml", "--set", "seed=1"], "seed is not an option of a rule"),
        (["new", "b.trial", "drug.toml", "--seed", "-1"], "seed: expected at least 0"),
        (["ask", "a.trial", "-n", "0"], "n: expected at least 1, got 0"),
        (["log", "a.trial", "-n", "0"], "-n: expected at least 1, got 0"),
        (["tell", "a.trial"], "expected an arm and what it showed, or --csv"),
        (["tell", "a.trial", "10 mg"], "reward: expected a reward and toxicity after the arm"),
        (["tell", "a.trial", "10 mg", "1"], "cost: expected 1 cost (toxicity), got 0"),
        (["tell", "a.trial", "10 mg", "one", "1"], "value: expected a number, got 'one'"),
        (["tell", "a.trial", "10 mg", "nan", "1"], "reward: expected finite numbers, got nan"),
        (["tell", "a.trial", "10 mg", "1", "2", "toxicity=1"], "all costs by name, or all in"),
        (["tell", "a.trial", "10 mg", "reward=1", "reward=1"], "reward: given twice"),
        (["tell", "a.trial", "10 mg", "1", "tox=2"], "unknown constraint 'tox'"),
        (["tell", "a.trial", "--csv", "nowhere.csv"], "nowhere.csv: cannot be read (No such"),
        (["undo", "a.trial"], "a.trial: there is nothing to take back"),
        (["undo", "a.trial", "--event", "1"], "there is nothing to take back"),
        (["export", "a.trial", "--out", "no/x.csv"], "there is no folder"),
        (["ask", "a.trial", "--wait", "-3"], "wait: expected a number of seconds"),
    ],
)
def test_mistakes_are_told_in_one_line(shell, arguments, message):
    shell("new", "a.trial", "drug.toml")
    before = Path("a.trial").read_bytes()
    code, out, err = shell(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayes-feasible trial: ")
    assert message in err
    assert err.count("\n") == 1
    assert Path("a.trial").read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["a.trial", "drug.toml"]


def test_a_cut_last_line_is_noted_and_the_step_taken(shell):
    shell("new", "a.trial", "drug.toml")
    with open("a.trial", "ab") as stream:
        stream.write(b'{"n": 2, "time": "20')
    code, out, err = shell("tell", "a.trial", "10 mg", "1", "0.1")
    assert (code, out.splitlines()[0][:8]) == (0, "Event 2:")
    assert err.startswith("bayes-feasible trial: a.trial: line 2 was cut short and is dropped")
    assert shell("status", "a.trial")[2] == ""


def test_a_trial_in_use_is_told(shell):
    shell("new", "a.trial", "drug.toml")
    with Trial("a.trial")._journal.writing():
        code, _, err = shell("ask", "a.trial", "--wait", "0.1")
    assert code == 1  # nothing wrong with what was asked
    assert "a.trial: another process is using it, and still was after 0.1 s" in err


@pytest.mark.parametrize("arguments", ["trial --help", "trial tell --help"])
def test_help_imports_nothing_heavy(arguments):
    code = f"""
import contextlib, io, sys
from bayes_feasible.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({arguments.split()!r})
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "xarray", "numba", "pymc"} & set(done.stdout.split())


def test_a_step_imports_neither_pymc_nor_matplotlib(tmp_path):
    bf.save(DRUG, tmp_path / "drug.toml")
    code = f"""
import sys
from bayes_feasible.cli import main
path = {str(tmp_path / "a.trial")!r}
assert main(["trial", "new", path, {str(tmp_path / "drug.toml")!r}]) == 0
assert main(["trial", "ask", path]) == main(["trial", "tell", path, "0", "1", "1"]) == 0
assert main(["trial", "status", path]) == 0
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {"pymc", "pytensor", "arviz", "matplotlib", "nutpie"} & loaded
