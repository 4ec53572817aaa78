"""A live experiment on disk."""

import math
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import replayed
from hypothesis import given, settings
from hypothesis import strategies as st
from trial_cases import DRUG, PATIENTS, world

import bayes_feasible as bf
from bayes_feasible.rules import RULES
from bayes_feasible.trial import journal
from bayes_feasible.trial.record import KIND
from bayes_feasible.trial.trial import Trial


def same_rule(left, right):
    for name, array in left._arrays().items():
        assert np.array_equal(array, right._arrays()[name]), name
    assert left._rng.bit_generator.state == right._rng.bit_generator.state


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_trial_that_is_reopened_at_every_step_is_a_rule_that_never_stopped(
    name, tmp_path, unsynced
):
    instance = bf.instances.end_of_optimism(alpha=0.3)
    if name == "PEPS":
        instance = bf.Instance(bf.Problem(instance.problem.arms), instance.theta_reward)
    options = {"allocation": [0.1, 0.2, 0.3, 0.15, 0.25]} if name == "FixedAllocation" else {}
    if name in ("SuccessiveRejects", "SequentialHalving", "ODLinBAI", "GSE"):
        options = {"horizon": 60}
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


@given(steps=STEPS, name=st.sampled_from(["Descent", "BLFAIPS", "PlugIn"]))
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
    rule = bf.Descent(DRUG)
    assert arms == [rule.ask() for _ in range(3)]
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
    other = next(arm for arm in range(3) if arm != bf.Descent(DRUG).ask())
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


def test_late_and_unasked_data_are_taken(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG, "BestResponse")
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
        ((3, 1, 1), "arm: 3 is out of range"),
        ((True, 1, 1), "arm: expected the index or name of an arm"),
        ((0, math.inf, 1), "reward: expected finite numbers, got inf"),
        ((0, 1e200, 1), "reward: 1e+200 is too large"),
        ((0, 1, math.inf), "cost: expected finite numbers, got inf"),
        ((0, 1), "cost: expected 1 cost (toxicity), got 0"),
        ((0, 1, {"toxicty": 1}), "unknown constraint 'toxicty'; did you mean 'toxicity'?"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "BestRespons"}, "unknown rule 'BestRespons'; did you mean 'BestResponse'?"),
        ({"rule": "Oracle"}, "problem: Oracle needs an Instance"),
        ({"rule": bf.BLFAIPS}, "rule: unknown rule"),
        ({"rule": "PlugIn", "exploraton": 0.5}, "'exploraton'; did you mean 'exploration'?"),
        ({"rule": "PlugIn", "exploration": -1}, "exploration: expected a positive number"),
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
