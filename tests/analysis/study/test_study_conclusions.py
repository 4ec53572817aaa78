"""What a study makes of its results: checks, verdict, figures, report; made once, and whole."""

import json
import shutil
from pathlib import Path

import pytest
import xarray as xr
from error_curves import without_regression
from helpers import files

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.study import convergence, study

SPECIFICATION = {
    "title": "A small study",
    "instance": {"name": "end_of_optimism", "alpha": 0.3},
    "rules": ["Oracle", "Uniform"],
    "horizon": 20_000,
    "replicates": 6,
    "checks": {"samplers": ["exact"], "checkpoints": [100, 1000], "draws": 500},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conclusions") / "study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "_summarise", without_regression)
        patch.setattr(study, "_code", lambda *_: "code")
        return bf.study(SPECIFICATION, folder, progress=False)


@pytest.fixture
def finished(found, tmp_path, monkeypatch):
    """A folder of its own with the finished study."""
    monkeypatch.setattr(study, "_code", lambda *_: "code")
    return Path(shutil.copytree(found.folder, tmp_path / "finished"))


def test_everything_is_there(found):
    names = {str(path.relative_to(found.folder)) for path in found.files}
    assert names >= {
        "manifest.json", "optimum.nc", "report.html", "results.nc", "scoreboard.nc",
        "specification.toml", "summary.nc", "figures/log_error.png", "figures/log_error.svg",
        "figures/scoreboard_100.png", "figures/scoreboard_1000.svg",
    }  # fmt: skip
    there = {name for name in files(found.folder) if not name.startswith("parts/")}
    assert names == there
    manifest = json.loads((found.folder / "manifest.json").read_text())
    assert set(manifest["outputs"]) == names - {
        "manifest.json", "specification.toml", "report.html",
    }  # fmt: skip


def test_the_verdict_is_that_of_the_results(found):
    expected = without_regression(found.results, found.specification)
    xr.testing.assert_equal(found.summary, expected)
    swapped = found.results.assign_coords(rule=found.results.rule.values[::-1])
    wrong = without_regression(swapped, found.specification)
    with pytest.raises(AssertionError):
        xr.testing.assert_equal(found.summary, wrong)
    text = found.tables()
    assert text.startswith("A small study\n")
    assert convergence.table(expected) in text


def test_checks_are_at_their_checkpoints(found):
    assert list(found.scoreboard) == [100, 1000]
    alternative = bf.Alternative(found.specification.instance.problem, 0)
    other = {100: 1000, 1000: 100}  # whose board must not pass
    for time, posterior in study.posteriors(found.specification, "Oracle", [100, 1000]):
        board = found.scoreboard[time]
        exact = alternative.log_probability(posterior, seed=1)
        # Two estimates, apart by 6 standard errors with probability 2e-9 at most.
        allowed = 6 * max(2 * exact.standard_error, 1e-9)
        assert abs(float(board.exact_log_probability) - exact.value) <= allowed
        wrong = found.scoreboard[other[time]]
        assert abs(float(wrong.exact_log_probability) - exact.value) > allowed
        assert f"after {time:,} pulls of Oracle" in found.tables()
    with xr.open_dataset(found.folder / "scoreboard.nc", engine="h5netcdf") as stored:
        assert stored.time.values.tolist() == [100, 1000]
        xr.testing.assert_equal(stored.isel(time=1, drop=True).load(), found.scoreboard[1000])


@pytest.mark.slow  # as do studies that are stopped while they conclude, below
def test_the_same_study_gives_the_same_bytes(found, tmp_path, monkeypatch):
    """Checks of samplers, figures and report included."""
    monkeypatch.setattr(study, "_summarise", without_regression)
    monkeypatch.setattr(study, "_code", lambda *_: "code")
    bf.study(SPECIFICATION, tmp_path / "again", progress=False)
    assert files(tmp_path / "again") == files(found.folder)


def test_nothing_is_computed_twice(finished, found, monkeypatch):
    before = files(finished)
    for name in ("compute", "_combine", "_score", "_summarise", "_draw"):
        monkeypatch.setattr(study, name, lambda *_: pytest.fail("computed again"))
    again = bf.study(SPECIFICATION, finished, progress=False)
    xr.testing.assert_identical(again.summary, found.summary)
    assert again.tables() == found.tables()
    assert files(finished) == before


def test_figures_are_drawn_again_when_their_code_has_changed(finished, found, monkeypatch):
    def redrawn(summary, boards, wanted, folder):
        (folder / "new.svg").write_text("new")
        return [folder / "new.svg"]

    monkeypatch.setattr(study, "_draw", redrawn)
    bf.study(SPECIFICATION, finished, progress=False)
    assert not (finished / "figures" / "new.svg").exists()
    monkeypatch.setattr(study, "_code", lambda *modules: str(modules == study.FIGURE_CODE))
    monkeypatch.setattr(study, "_summarise", lambda *_: found.summary)
    bf.study(SPECIFICATION, finished, progress=False)
    assert [path.name for path in (finished / "figures").iterdir()] == ["new.svg"]


def test_the_checksum_of_code():
    modules = ("analysis.report.tables", "analysis.study.curves")
    assert study._code(*modules) == study._code(*modules) != study._code("analysis.report.tables")


@pytest.mark.parametrize(
    "stage",
    [
        "_score",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("_summarise", "_draw", "_report")),
    ],
)
def test_stopped_while_concluding(finished, stage, monkeypatch):
    """Whatever is missing is made again, to the byte."""
    expected = files(finished)
    lost = {"_score": "scoreboard.nc", "_summarise": "summary.nc", "_draw": "figures/accuracy.png"}
    (finished / lost.get(stage, "report.html")).unlink()
    for path in (finished / "parts").glob("check-*"):
        if stage == "_score":
            path.unlink()

    def interrupted(*_):
        raise KeyboardInterrupt

    score, board = study._score, {}
    with monkeypatch.context() as patch:
        patch.setattr(study, "_summarise", without_regression)
        patch.setattr(study, stage, interrupted)
        with pytest.raises(KeyboardInterrupt, match="2 of 2 parts are finished"):
            bf.study(SPECIFICATION, finished, progress=False)
    monkeypatch.setattr(study, "_summarise", without_regression)
    monkeypatch.setattr(
        study, "_score", lambda *arguments: board.setdefault(len(board), score(*arguments))
    )
    again = bf.study(SPECIFICATION, finished, progress=False)
    assert len(board) == (2 if stage == "_score" else 0)
    assert again.computed == 0
    assert files(finished) == expected


def test_the_command_reports_the_verdict(finished, found, capsys, monkeypatch):
    monkeypatch.setattr(study, "_summarise", without_regression)
    path = finished / "specification.toml"
    assert cli.main(["study", str(path), "--out", str(finished), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown["rules"]["Oracle"]["verdict"] == found.summary.verdict.values[0]
    assert shown["samplers"]["1000"]["exact"]["verdict"] == "trusted"
    assert set(shown["files"]) == {str(finished / p.relative_to(found.folder)) for p in found.files}


@pytest.mark.slow
def test_the_default_study_has_the_right_verdicts(tmp_path, capsys):
    """The whole command with its PyMC fits, and again, which then takes a moment."""
    arguments = ["study", "--out", str(tmp_path / "study"), "--json", "--quiet"]
    assert cli.main(arguments) == 0
    first = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    rules = first["rules"]
    assert rules["Oracle"]["rate_lower"] <= first["rate"]["rate"] <= rules["Oracle"]["rate_upper"]
    for name in ("Oracle", "BestResponse", "BLFAIPS, true posterior"):
        assert rules[name]["verdict"] in ("attains", "undecided"), name
    for name in ("TopTwo", "LinearThompson", "Uniform"):
        assert rules[name]["verdict"] == "below", name
    before = files(tmp_path / "study")
    assert cli.main(arguments) == 0
    again = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert again["parts"]["computed"] == 0
    assert again["rules"] == rules
    assert files(tmp_path / "study") == before
