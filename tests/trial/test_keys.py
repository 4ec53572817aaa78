"""A step that is sent again under its key is taken once."""

import json

import pytest
from helpers import replayed
from trial_cases import DRUG

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.trial.trial import Trial


@pytest.fixture
def trial(tmp_path, unsynced):
    return Trial.new(tmp_path / "a.trial", DRUG, seed=1)


def test_a_tell_is_counted_once(trial):
    numbers = [trial.tell(1, 0.5, 0.2, key="a"), Trial(trial.path).tell(1, 0.5, 0.2, key="a")]
    numbers.append(trial.tell(1, 0.5, 0.2))  # without a key it is another one
    assert numbers == [2, 2, 3]
    assert trial.posterior.pulls == 2


def test_an_ask_gives_the_same_arms(trial):
    arms = trial.ask(3, key="a")
    assert Trial(trial.path).ask(3, key="a").tolist() == arms.tolist()
    assert trial.pending.sum() == 3
    rule = bf.Descent(DRUG, seed=1)
    assert [*arms, *trial.ask(2)] == [*rule.ask(3), *rule.ask(2)]
    assert replayed(Trial(trial.path))._state.pulls.sum() == 0


def test_what_was_taken_back_stays_so(trial):
    trial.tell(1, 0.5, 0.2, key="a")
    trial.undo()
    assert trial.tell(1, 0.5, 0.2, key="a") == 2
    assert trial.posterior.pulls == 0


@pytest.mark.parametrize("again", [
    lambda trial: trial.tell(1, 0.5, 0.3, key="a"),
    lambda trial: trial.tell(1, 1.0, 0.4, 2, key="a"),
    lambda trial: trial.tell([1, 1], [0.5, 0.5], [0.2, 0.2], key="a"),
    lambda trial: trial.ask(key="a"),
    lambda trial: trial.ask(3, key="b"),
])  # fmt: skip
def test_another_step_under_a_key_is_refused(trial, again):
    trial.tell(1, 0.5, 0.2, key="a")
    trial.ask(2, key="b")
    before = trial.head
    with pytest.raises(ValueError, match=r"^key: "):
        again(trial)
    assert trial.head == before


@pytest.mark.parametrize("key", ["", "x" * 201, 3])
def test_keys_are_short_texts(trial, key):
    for step in (lambda: trial.ask(key=key), lambda: trial.tell(1, 0.5, 0.2, key=key)):
        with pytest.raises(ValueError, match="key: expected a text of 1 to 200 characters"):
            step()


def test_on_the_command_line(trial, capsys):
    for _ in range(2):
        assert cli.main(["trial", "tell", trial.path, "10 mg", "0.5", "0.2", "--key", "a"]) == 0
        assert cli.main(["trial", "ask", trial.path, "--key", "b", "--json"]) == 0
    assert trial.posterior.pulls == trial.pending.sum() == 1
    assert len(trial.events) == 3


def test_a_journal_with_a_key_twice_is_no_trial(trial):
    trial.tell(1, 0.5, 0.2, key="a")
    again = {key: trial.events[1][key] for key in ("event", "arms", "rewards", "costs", "key")}
    with trial._journal.writing() as append:
        append(again)
    with pytest.raises(ValueError, match="event 3 makes no sense"):
        Trial(trial.path)


def test_another_version_is_told(trial, monkeypatch, tmp_path):
    assert json.loads((tmp_path / "a.trial").read_text())["bayes_feasible"] == bf.__version__
    monkeypatch.setattr(bf, "__version__", "9.9")
    with pytest.warns(UserWarning, match=r"begun with bayes_feasible .*, this is 9\.9"):
        Trial(trial.path)
