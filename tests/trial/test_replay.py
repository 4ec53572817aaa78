"""The rule of a trial, replayed beside others at work, and kept in a file beside the journal."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers import replayed
from trial_cases import DRUG, world

import bayes_feasible as bf
from bayes_feasible.rules.base import Rule
from bayes_feasible.trial import replay
from bayes_feasible.trial.trial import Trial

NAMES = ["BLFAIPS", "PlugIn", "GOptimal"]
pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def steps(monkeypatch):
    """How many steps each replay took, while a file is kept from 5 events on."""
    taken, original = [], Rule.replay

    def counted(self, recorded):
        recorded = list(recorded)
        taken.append(len(recorded))
        return original(self, recorded)

    monkeypatch.setattr(Rule, "replay", counted)
    monkeypatch.setattr(replay, "WORTH_KEEPING", 5)
    return taken


def played(path, name, rounds=10):
    """A trial of so many rounds, and the rule that never stopped."""
    trial, rule = Trial.new(path, DRUG, name, seed=4), getattr(bf, name)(DRUG, seed=4)
    pull = world(DRUG)
    for _ in range(rounds):
        arm = trial.ask()
        assert arm == rule.ask()
        told = [arm], *pull([arm])
        trial.tell(*told)
        rule.tell(*told)
    return trial, rule


def asks_as(rule, path):
    """Whether a new session asks as the rule does."""
    return Trial(path).ask(12).tolist() == rule.ask(12).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_new_session_begins_where_the_file_ends(name, tmp_path, steps):
    trial, rule = played(tmp_path / "a.trial", name)
    assert json.loads((tmp_path / "a.trial.replayed").read_bytes())["events"] > 10
    steps.clear()
    assert asks_as(rule, trial.path)
    assert max(steps) < 10
    (tmp_path / "a.trial.replayed").unlink()
    steps.clear()
    rule = replayed(Trial(trial.path))
    assert max(steps) == 21  # the control: all of it
    assert asks_as(rule, trial.path)


def damage(kept, trial, other):
    """What may have become of the file."""
    content = json.loads(kept.read_bytes())
    document = content["rule"]
    yield b""
    yield b"\0" * 100
    yield kept.read_bytes()[:-40]
    yield b"[1]"
    yield json.dumps(content | {"head": "0" * 16}).encode()
    yield json.dumps(content | {"events": 10**6}).encode()
    yield json.dumps(content | {"rule": document | {"recommendation": "draw"}}).encode()
    yield Path(f"{other.path}.replayed").read_bytes()


def test_a_file_that_is_not_of_this_trial_is_left_aside(tmp_path, steps):
    trial, _ = played(tmp_path / "a.trial", "BLFAIPS")
    other, _ = played(tmp_path / "b.trial", "PlugIn")
    kept = tmp_path / "a.trial.replayed"
    expected = Trial(shutil.copy(trial.path, tmp_path / "c.trial")).ask(12).tolist()
    for i, content in enumerate(list(damage(kept, trial, other))):
        again = tmp_path / f"{i}.trial"
        shutil.copy(trial.path, again)
        Path(f"{again}.replayed").write_bytes(content)
        assert Trial(again).ask(12).tolist() == expected
        assert json.loads(Path(f"{again}.replayed").read_bytes())["events"] == 22  # made anew


def test_what_was_taken_back_since_is_not_in_the_rule(tmp_path, steps):
    trial, _ = played(tmp_path / "a.trial", "BLFAIPS")
    Trial(trial.path).undo(5)  # before the file ends
    rule = bf.BLFAIPS(DRUG, seed=4)
    for event in trial.events[1:-1]:
        if event["event"] == "ask":
            rule.ask(len(event["arms"]))
        elif event["n"] != 5:
            rule.tell(event["arms"], event["rewards"], event["costs"])
    assert asks_as(rule, trial.path)


def test_a_folder_that_takes_no_file_is_no_obstacle(tmp_path, steps, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replay, "write_bytes", full)
    trial, rule = played(tmp_path / "a.trial", "BLFAIPS")
    assert asks_as(rule, trial.path)


def test_others_may_tell_and_take_back_while_a_rule_is_replayed(tmp_path, monkeypatch):
    trial, _ = played(tmp_path / "a.trial", "BLFAIPS", 3)
    other, original, begun = Trial(trial.path, wait=0), Rule.replay, []

    def meanwhile(self, recorded):
        if not begun:  # both would be refused if the lock were held
            begun.append(other.tell(0, 7.0, 0.5))
            other.undo(3)
        return original(self, recorded)

    monkeypatch.setattr(Rule, "replay", meanwhile)
    arms = Trial(trial.path).ask(12).tolist()
    assert begun
    monkeypatch.undo()
    rule = bf.BLFAIPS(DRUG, seed=4)
    for event in trial.events[1:]:
        if event["event"] == "ask" and len(event["arms"]) == 1:
            rule.ask()
        elif event["event"] == "tell" and event["n"] != 3:
            rule.tell(event["arms"], event["rewards"], event["costs"])
    assert arms == rule.ask(12).tolist()


@pytest.mark.parametrize("what", ["rewards", "costs"])
@pytest.mark.parametrize("size", [1.7e308, -1e81])
def test_numbers_that_tell_would_refuse_are_refused_in_the_file(what, size, tmp_path):
    trial = Trial.new(tmp_path / "a.trial", DRUG, "BLFAIPS")
    shown = {"rewards": [1.0], "costs": [[1.0]]}
    shown[what] = [size] if what == "rewards" else [[size]]
    with trial._journal.writing() as append:
        append({"event": "tell", "arms": [0]} | shown)
    with pytest.raises(ValueError, match=rf"trial: line 2: {what}: expected at most 1e\+80, got"):
        Trial(trial.path)


def test_the_largest_numbers_that_tell_takes_are_read(tmp_path):
    trial = Trial.new(tmp_path / "a.trial", DRUG, "BLFAIPS")
    trial.tell(0, 1e80, -1e80)
    assert Trial(trial.path).ask() in range(3)
    assert np.isfinite(Trial(trial.path).recommend().log_error)
