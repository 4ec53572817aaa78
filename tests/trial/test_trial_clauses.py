"""Trials with a stop and a safety: kept in the journal, heeded, replayed to the bit."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.safety import SHARED
from bayes_feasible.trial.journal import Journal
from bayes_feasible.trial.record import KIND

DOSES = {"5 mg": [1, 0.25], "10 mg": [1, 0.5], "20 mg": [1, 1]}
PROBLEM = bf.Problem(DOSES, {"toxicity": 0.5}, reward_noise=0.3, cost_noise=0.3)
SAFETY = bf.Safety(order=list(DOSES), before=3, cohort=3, risk=0.6)
TOML = """
reward_noise = 0.3
cost_noise = 0.3
[thresholds]
toxicity = 0.5
[arms]
"5 mg" = [1, 0.25]
"10 mg" = [1, 0.5]
"20 mg" = [1, 1]
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "drug.trial")


def test_it_goes_on_as_if_it_had_never_stopped(path, tmp_path):
    """A session that is opened anew for every step asks for the same arms."""
    instance = bf.Instance(PROBLEM, [0.0, 1.0], [0.0, 0.5])
    given = {"rule": "TopTwo", "seed": 3, "safety": SAFETY}
    whole = bf.Trial.new(path, PROBLEM, **given)
    bf.Trial.new(tmp_path / "other.trial", PROBLEM, **given)
    for step in range(6):
        again = bf.Trial(tmp_path / "other.trial")
        arms = whole.ask(4)
        assert_array_equal(again.ask(4), arms)
        rewards, costs = instance.pull(arms, seed=step)
        for trial in (whole, again):
            trial.tell(arms, rewards, costs)
    asks = [event for event in whole.events if event["event"] == "ask"]
    assert asks[0]["arms"] == [0, 0, 0, 0]
    assert asks[1]["completed"] == 2
    assert asks[1]["cohort"] == 3
    again = bf.Trial(path)
    assert (again.safety, again.stop) == (SAFETY, None)


def test_what_is_pending_counts_in_cohorts(path):
    trial = bf.Trial.new(path, PROBLEM, safety=SAFETY)
    assert [trial.ask() for _ in range(5)] == [0] * 5
    trial.tell([0] * 3, [0.2] * 3, [0.1] * 3)
    assert trial.ask() == 0
    assert trial.ask() in (0, 1)


def test_only_these_arms(path):
    trial = bf.Trial.new(path, PROBLEM, safety=bf.Safety(allowed=["5 mg", "10 mg"]))
    assert set(trial.ask(6)) <= {0, 1}
    assert trial.ask(2, allowed=["10 mg", "20 mg"]).tolist() == [1, 1]
    with pytest.raises(ValueError, match="allowed: expected an arm that the trial allows"):
        trial.ask(allowed=["20 mg"])
    before = len(trial.events)
    trial.tell([0, 1] * 9, [0.0] * 18, [2.0] * 18)
    strict = bf.Trial.new(path + "2", PROBLEM, safety=bf.Safety(risk=0.01))
    with pytest.raises(ValueError, match="no arm may be asked for now"):
        strict.ask()
    assert len(strict.events) == 1
    assert len(trial.events) == before + 1


def test_shares(path):
    trial = bf.Trial.new(path, PROBLEM, rule="Uniform", seed=1)
    arms = trial.ask(4001, shares=True)
    pulls = np.bincount(arms)
    assert pulls.sum() == 4001
    assert trial.events[1]["shares"] is True
    assert bf.Trial(path).ask(5).size == 5  # after a replay, without a warning
    assert pulls.max() - pulls.min() < 4001 / SHARED * 200
    with pytest.raises(ValueError, match="shares: expected a cohort of 1"):
        bf.Trial.new(path + "2", PROBLEM, safety=SAFETY).ask(10, shares=True)


def test_a_stop_and_a_forecast(path):
    stop = bf.Stop(error=0.05, epsilon={"reward": 0.1}, delta=0.01, futility=0.01, pulls=200)
    trial = bf.Trial.new(path, PROBLEM, stop=stop)
    assert bf.Trial(path).stop == stop
    assert not trial.done()
    trial.tell(["5 mg", "10 mg", "20 mg"] * 4, [0.3, 0.5, 0.9] * 4, [0.2, 0.3, 0.6] * 4)
    status = trial.status(forecast=True)
    assert "Sure enough? Not yet. P(error by more than epsilon) = " in str(status)
    assert "more pulls until it is: " in str(status)
    assert status.forecast.low <= status.forecast.median <= status.forecast.high
    assert status.to_dict()["stop"]["stop"] is False
    assert json.dumps(status.to_dict()["forecast"], allow_nan=False)
    trial.tell(["5 mg", "10 mg", "20 mg"], [60, 100, 180.0], [40, 60, 180.0], count=200)
    assert trial.done().reason == "error"
    assert "Sure enough? Yes (error): 10 mg." in str(trial.status())
    assert trial.forecast().high == 0
    without = bf.Trial.new(path + "2", PROBLEM)
    for ask in (without.done, without.forecast):
        with pytest.raises(ValueError, match="begun without a stop"):
            ask()


def test_clauses_that_do_not_go_with_the_problem(path, tmp_path):
    for clause in (
        {"stop": bf.Stop(error=0.1, epsilon={"pain": 1.0})},
        {"safety": bf.Safety(order=["5 mg", "30 mg"])},
    ):
        with pytest.raises(ValueError, match="unknown"):
            bf.Trial.new(path, PROBLEM, **clause)
    with pytest.raises(TypeError, match="stop: "):
        bf.Trial.new(path, PROBLEM, stop=0.05)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [{"allowed": []}, {"allowed": [7]}, {"completed": 9}, {"cohort": 0}, {"shares": False},
     {"cohort": "3"}],
    ids=str,
)  # fmt: skip
def test_an_ask_that_makes_no_sense(path, change):
    trial = bf.Trial.new(path, PROBLEM)
    with trial._journal.writing() as append:
        append({"event": "ask", "arms": [0, 1], **change})
    with pytest.raises(ValueError, match="makes no sense"):
        bf.Trial(path)


def command(*arguments):
    return cli.main(["trial", *map(str, arguments)])


def test_on_the_command_line(path, tmp_path, capsys):
    file = tmp_path / "drug.toml"
    file.write_text(TOML)
    assert command(
        "new", path, file, "--stop-error", 0.05, "--stop-epsilon", "reward=0.1", "--stop-pulls",
        90, "--order", *DOSES, "--before", 3, "--cohort", 3, "--risk", 0.6,
    ) == 0  # fmt: skip
    assert "stop: error 0.05, epsilon {'reward': 0.1}, pulls 90" in capsys.readouterr().out
    trial = bf.Trial(path)
    assert trial.stop == bf.Stop(error=0.05, epsilon={"reward": 0.1}, pulls=90)
    assert trial.safety == SAFETY
    assert command("ask", path, "-n", 3) == 0
    assert capsys.readouterr().out == "5 mg\n5 mg\n5 mg\n"
    assert command("tell", path, "5 mg", 0.9, 2.7, "--count", 3) == 0
    assert command("ask", path, "--allowed", "20 mg") == cli.BAD_INPUT
    assert "20 mg: only after 3 pulls of 10 mg" in capsys.readouterr().err
    assert command("status", path, "--forecast", "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert status["stop"]["stop"] is False
    assert set(status["forecast"]) == {"median", "low", "high", "probability", "most"}
    assert command("new", path + "2", file) == 0
    capsys.readouterr()
    assert command("ask", path + "2", "-n", 100, "--shares") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(int(line.split()[0]) for line in lines) == 100
    assert command("new", path + "3", file, "--stop-error", 0.1, "--stop-epsilon", "x") == 2
    assert "--stop-epsilon: expected a number" in capsys.readouterr().err


@pytest.mark.parametrize(
    "clauses",
    [{"stop": {"error": 7}}, {"stop": {"sure": 0.1}}, {"stop": [0.1]}, {"safety": {"order": 3}},
     {"safety": {"cohort": 0}}, {"safety": {"allowed": ["30 mg"]}}],
    ids=str,
)  # fmt: skip
def test_a_journal_with_clauses_that_make_no_sense(path, clauses):
    header = bf.Trial.new(path, PROBLEM).events[0]
    for stamp in ("n", "time", "event", "format", "version", "after", "check"):
        del header[stamp]
    Journal.create(path + "2", KIND, header | clauses)
    with pytest.raises(ValueError, match="line 1 is not the beginning of a trial"):
        bf.Trial(path + "2")
