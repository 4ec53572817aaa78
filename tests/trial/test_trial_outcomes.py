"""Trials of other outcomes: late, missing and summed results, on disk and by the command."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_feasible as bf
from bayes_feasible.cli import main
from bayes_feasible.trial.journal import Journal
from bayes_feasible.trial.record import KIND

NAN = float("nan")


@pytest.fixture
def dose():
    return bf.Problem(
        {"10 mg": [1, 0], "20 mg": [1, 1], "40 mg": [1, 2]},
        {"toxicity": 0.3},
        reward={"efficacy": bf.Bernoulli()},
        costs=bf.Bernoulli(prior=bf.Prior(mean=[-2, 0.5], sd=[1, 0.5])),
    )


@pytest.fixture
def trial(dose, tmp_path):
    return bf.Trial.new(tmp_path / "dose.trial", dose, "BLFAIPS", seed=1, eta=1.0)


def test_late_results_complete_pulls_and_answer_no_ask(trial):
    arms = trial.ask(3)
    trial.tell(arms, [1, 0, 1], [NAN, 0, NAN])
    assert not any(trial.waiting.values())
    event = trial.tell(arms[0], NAN, 1)
    assert trial.unasked(event) == 0
    assert trial.posterior.pulls == 3
    assert trial.tell(1, NAN, NAN) == 5  # of a pull that nobody asked for nothing is known
    assert trial.unasked(5) == 1
    again = bf.Trial(trial.path)
    assert_array_equal(again.posterior.seen, trial.posterior.seen)
    assert_array_equal(again.ask(5), trial_twin(trial).ask(5))
    trial.undo(event)
    assert trial.posterior.missing.sum() == 2


def trial_twin(trial):
    """The rule of a trial, told the same without a file."""
    rule = bf.BLFAIPS(trial.problem, seed=1, eta=1.0)
    for event in trial.events[1:]:
        if event["event"] == "ask" and event["n"] == 2:
            rule.ask(3)
        elif event["event"] == "tell":
            rewards, costs = (np.array(event[name], dtype=float) for name in ("rewards", "costs"))
            rule.tell(event["arms"], rewards, costs)
    return rule


def test_totals_are_told_at_once(trial):
    trial.ask(5)
    event = trial.tell(["10 mg", "20 mg"], [2, 5], [0, 1], [6, 9])
    assert trial.events[event - 1]["counts"] == [6, 9]
    posterior = bf.Posterior(trial.problem)
    posterior.update([0, 1], [2, 5], [0, 1], [6, 9])
    assert_allclose(trial.posterior.theta_reward, posterior.theta_reward)
    assert trial.unasked(event) >= 10
    assert repr(trial.history) == "History of 15 pulls in 2 rows of 3 arms"
    assert len(bf.Trial(trial.path).ask(4)) == 4


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ((0, 2, 0), "reward: expected 0 or 1 a pull, got 2"),
        ((0, 1, 0.5), r"cost toxicity: expected 0 or 1, got 0\.5"),
        ((0, 7, 1, 6), "reward: expected 0 or 1 a pull, got 7 in 6"),
        ((0, 1, 1, 0), "count: expected whole numbers of at least 1, got 0"),
        ((0, 1, 1, 2.5), "count: .*2.5"),
    ],
)
def test_what_no_pulls_show_leaves_no_trace(trial, told, message):
    head = trial.head
    with pytest.raises(ValueError, match=message):
        trial.tell(*told)
    assert bf.Trial(trial.path).head == head


@pytest.mark.parametrize(
    "change",
    [{"rewards": [2.0]}, {"counts": [0]}, {"counts": [1.0]}, {"sds": [[1.0, None]], "counts": [2]},
     {"sds": [[None]], "counts": [2]}, {"rewards": ["1"]}],
)  # fmt: skip
def test_journals_that_no_trial_wrote(trial, change):
    journal = Journal(trial.path, KIND)
    event = {"event": "tell", "arms": [0], "rewards": [1.0], "costs": [[0.0]]} | change
    with journal.writing() as append:
        append(event)
    with pytest.raises(ValueError, match=r"event 2 makes no sense|line 2: "):
        bf.Trial(trial.path)


def run(capsys, *words):
    assert main(["trial", *map(str, words)]) in (0, None)
    return capsys.readouterr().out


def test_by_the_command(dose, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bf.save(dose, "dose.toml")
    shown = run(capsys, "new", "a.trial", "dose.toml", "--rule", "Uniform")
    assert "What the priors believe: mean [95 % interval]" in shown
    believed = dose.prior_summary().sel(candidate="10 mg")
    assert f"feasible with probability {believed.feasible.item():.2f}" in shown
    run(capsys, "tell", "a.trial", "10 mg", "efficacy=1")
    run(capsys, "tell", "a.trial", "10 mg", "toxicity=0")
    run(capsys, "tell", "a.trial", "20 mg", "5", "1", "--count", "9")
    (tmp_path / "pulls.csv").write_text("dose,n,responders,tox\n40 mg,6,5,3\n20 mg,3,1,\n")
    columns = "arm=dose,count=n,efficacy=responders,toxicity=tox"
    run(capsys, "tell", "a.trial", "--csv", "pulls.csv", "--columns", columns)
    log = run(capsys, "log", "a.trial")
    assert "tell: 10 mg showed toxicity 0" in log
    assert "tell: 20 mg showed efficacy 5, toxicity 1 in 9 pulls" in log
    status = json.loads(run(capsys, "status", "a.trial", "--json"))
    assert status["pulls"] == 19
    posterior = bf.Trial("a.trial").posterior
    summary = posterior.summary()
    for z, name in enumerate(("10 mg", "20 mg", "40 mg")):
        known = status["candidates"][name]
        assert known["reward"]["mean"] == pytest.approx(summary["mean"].values[0, z])
        assert known["costs"]["toxicity"]["sd"] == pytest.approx(summary["sd"].values[1, z])
        assert known["feasible"] == pytest.approx(summary.feasible.values[z])
    assert status["pulls_to_halve"] > 0
    table = run(capsys, "export", "a.trial")
    assert table.splitlines()[0] == "arm,efficacy,toxicity,count"
    (tmp_path / "again.csv").write_text(table)
    run(capsys, "new", "b.trial", "dose.toml", "--rule", "Uniform")
    run(capsys, "tell", "b.trial", "--csv", "again.csv")
    assert_array_equal(bf.Trial("b.trial").posterior.seen, posterior.seen)


def test_noise_that_is_learnt_needs_the_spread_of_totals(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = bf.Problem(np.eye(2), {"delay": 1.0}, costs=bf.Gaussian())
    bf.save(problem, "p.toml")
    run(capsys, "new", "a.trial", "p.toml", "--rule", "Uniform")
    assert main(["trial", "tell", "a.trial", "0", "3.0", "0.4", "--count", "5"]) == 2
    assert "sd: cost delay has noise that is learnt" in capsys.readouterr().err
    run(capsys, "tell", "a.trial", "0", "3.0", "0.4", "--count", "5", "--sd", "delay=0.2")
    direct = bf.Posterior(problem)
    direct.update(0, 3.0, 0.4, 5, sd=[NAN, 0.2])
    assert_allclose(bf.Trial("a.trial").posterior.noise, direct.noise)
    assert direct.cost_sums[0, 0] == pytest.approx(2.0)  # 0.4 is the mean of five
