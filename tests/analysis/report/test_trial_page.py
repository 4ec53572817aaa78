"""The page of a trial: what it says is what the trial says, and names are shown, never run."""

import base64
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
from page import Page

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.report import trial_page, trial_view

EVIL = "<script>alert(1)</script>"
BOLD = "10 <b>mg</b> & 'x' $\\frac$"
PROBLEM = bf.Problem(
    {EVIL: [1, 0], BOLD: [1, 0.5], "20 mg": [1, 1]},
    thresholds={"toxicity": 0.5}, reward_noise=0.3, cost_noise=0.1,
)  # fmt: skip


def told(path, problem, rows, **options):
    trial = bf.Trial.new(path, problem, seed=1, **options)
    for row in rows:
        trial.tell(*row)
    return trial


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    rows = [("20 mg", 0.9, 0.8), (BOLD, 0.5, 0.4), (EVIL, 0.1, 0.0), (0, 0.1, 0.1), (1, 0.4, 0.41)]
    path = tmp_path_factory.mktemp("trial") / "drug.trial"
    trial = told(path, PROBLEM, rows)
    trial.undo()
    trial.tell([1, 2], [0.6, np.nan], [0.39, 0.82])
    trial.ask(3)
    return trial


@pytest.fixture(scope="module")
def text(trial):
    return trial_page.write(trial.path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_it_stands_alone_and_names_are_inert(page, text):
    assert page.all("script") == []
    assert page.all("b") == [{}]  # the recommended one: none from a name
    for _, attributes in page.elements:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:")
        assert not any(name.startswith("on") for name in attributes)
    assert EVIL not in text
    assert EVIL in page.text  # shown as it is
    assert BOLD in page.text


def test_it_says_what_the_trial_says(page, trial):
    status = trial.status()
    assert f"P(error) = {math.exp(status.recommendation.log_error):.2g}" in page.text
    assert BOLD in page.text.split("Recommendation")[1].split("P(error)")[0]
    assert status.head in page.text
    assert bf.__version__ in page.text
    assert "Tell what 3 pending pulls showed" in page.text
    best = trial.posterior.probability_best([1, len(trial.events)])
    assert f"{best.best.values[1]:.3f}" in page.text
    assert "taken back" in page.text
    assert page.text.count("by 7") == 1
    links = [a["href"] for a in page.all("a")]
    kind, content = links[0].split(",", 1)
    assert kind == "data:text/csv;base64"
    assert base64.b64decode(content).decode().startswith("arm,reward,toxicity\n")


def test_every_figure_is_described_with_its_numbers(page):
    pictures = page.all("img")
    assert len(pictures) == 5  # two outcomes, P(best), allocation, the error over time
    for picture in pictures:
        content = base64.b64decode(picture["src"].split(",", 1)[1])
        assert b"<script" not in content
        assert content.rstrip().endswith(b"</svg>")
    assert "at most 0.5" in pictures[1]["alt"]
    assert "none feasible" in pictures[2]["alt"]
    assert "1 pulls" in pictures[4]["alt"]


def test_the_same_file_gives_the_same_bytes_elsewhere(trial, text, tmp_path):
    copy = shutil.copy(trial.path, tmp_path / "drug.trial")
    code = "import sys; from bayes_feasible import analysis as a; a.write_trial_page(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, copy], check=True, cwd=tmp_path)
    assert (tmp_path / "drug.html").read_text(encoding="utf-8") == text


def test_the_error_over_time_ends_where_the_trial_is(trial):
    view = trial_view.look(trial)
    assert [moment.pulls for moment in view.course] == [1, 2, 3, 4, 5, 6]
    last = trial.recommend()
    assert view.course[-1].name == last.name
    assert view.course[-1].log_error == pytest.approx(last.log_error, abs=0.01)
    first = trial.history.first(1).posterior()
    assert view.course[0].name == PROBLEM.name(first.best())


def test_relative_costs_are_shown_as_they_are_limited(tmp_path):
    """Against draws: contrasts of Gaussian means, odds ratios."""
    problem = bf.Problem(
        {"control": [1, 0], "new": [1, 1]},
        {"latency": bf.Relative("control", 10.0), "refunds": bf.Relative("control", 1.5)},
        costs={"latency": bf.Gaussian(20.0), "refunds": bf.Bernoulli()},
    )  # fmt: skip
    trial = told(tmp_path / "ab.trial", problem, [
        (["control", "new"], [40, 60], [[10000, 30], [10500, 44]], [100, 100])
    ])  # fmt: skip
    view = trial_view.look(trial)
    theta = trial.posterior.sample(40_000, seed=0).theta_cost.values[0]
    for one, draws in (
        (view.outcomes[1], theta[:, 0, 1]), (view.outcomes[2], np.exp(theta[:, 1, 1])),
    ):  # fmt: skip
        low, middle, high = np.quantile(draws, [0.025, 0.5, 0.975])
        assert one.low[1] == pytest.approx(low, rel=0.05)
        assert one.high[1] == pytest.approx(high, rel=0.05)
        assert one.mean[1] == pytest.approx(middle, rel=0.05)
        assert (one.low[0], one.high[0]) == ((0, 0) if one.name == "latency" else (1, 1))
    assert "odds ratio, control" in Page(trial_page.render(view)).text


@pytest.mark.parametrize("problem", [
    bf.Problem([[1, 0], [0, 1]]),
    bf.Problem([[1, 0], [0, 1]], 0.5, parameter_radius=3.0),
    bf.Problem(np.eye(30), 0.5),
])  # fmt: skip
def test_before_the_first_pull(problem, tmp_path):
    trial = bf.Trial.new(tmp_path / "a.trial", problem)
    page = Page(trial_page.render(trial_view.look(trial)))
    assert "There is no result yet" in page.text
    assert ("P(best) is not offered" in page.text) == (problem.parameter_radius is not None)


def test_it_is_of_one_moment(trial, monkeypatch, tmp_path):
    """Another process tells while the page is made."""
    path = shutil.copy(trial.path, tmp_path / "drug.trial")
    ours, theirs = bf.Trial(path), bf.Trial(path)
    before = trial_view.plug_in_allocation

    def meanwhile(instance):
        theirs.tell(2, 9.0, 9.0)
        return before(instance)

    monkeypatch.setattr(trial_view, "plug_in_allocation", meanwhile)
    view = trial_view.look(ours)
    assert len(view.events) == view.status.events == len(trial.events)
    assert view.status.head == trial.head != theirs.head


def test_another_version_is_told(trial):
    view = trial_view.look(trial)
    assert "was begun with" not in trial_page.render(view)
    events = [view.header | {"bayes_feasible": "0.0.1"}, *view.events[1:]]
    assert "was begun with bayes_feasible 0.0.1" in trial_page.render(view._replace(events=events))


def test_the_trial_itself_is_not_overwritten(trial):
    with pytest.raises(ValueError, match="refusing to overwrite"):
        trial_page.write(trial.path, trial.path)


def test_the_command_writes_it(trial, text, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert cli.main(["trial", "report", trial.path, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"Written: {out}\n"
    assert out.read_text(encoding="utf-8") == text
    assert cli.main(["trial", "report", trial.path, "--out", str(tmp_path / "page.trial")]) == 2
    assert cli.main(["trial", "report", str(tmp_path / "no.trial")]) == 2


def test_when_to_stop_and_what_may_not_be_asked_for(tmp_path):
    safety = bf.Safety(order=[EVIL, BOLD, "20 mg"], before=2, cohort=2)
    stop = bf.Stop(error=0.2, pulls=40)
    trial = told(tmp_path / "a.trial", PROBLEM, [(0, 0.1, 0.1)], stop=stop, safety=safety)
    page = Page(trial_page.render(trial_view.look(trial)))
    assert "Not sure enough yet. P(error) = " in page.text
    assert f"20 mg may not be asked for now: only after 2 pulls of {BOLD}" in page.text
    assert "the trial may stop at 0.2" not in page.text  # there is no course of one pull
    trial.tell([1, 2] * 9, [0.5, 0.9] * 9, [0.4, 0.8] * 9)
    view = trial_view.look(trial, forecast=True)
    page = Page(trial_page.render(view))
    assert view.status.stop.reason == "error"
    assert f"Stop here (error): {BOLD}. P(error) = " in page.text
    assert "More pulls until it is: none" in page.text
    assert "the trial may stop at 0.2" in page.text
    assert "error 0.2, pulls 40" in page.text
