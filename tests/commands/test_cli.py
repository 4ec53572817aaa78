"""The command `bayes-feasible`."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.study import specification, study
from bayes_feasible.rate import rate
from bayes_feasible.simulation.pool import Unfinished

COMMAND = str(Path(sys.executable).with_name("bayes-feasible"))


def _run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_rate_prints_the_rate_its_bracket_and_the_hardest_mistake(capsys):
    code, out, err = _run(capsys, "rate", "--instance", "end_of_optimism", "alpha=0.2")
    assert (code, err) == (0, "")
    assert out.startswith("Γ = 0.0041574")
    assert "Hardest to rule out: 4 (a feasible candidate of lower reward looks better)" in out
    assert "certified to lie between" in out


def test_json_says_the_same_as_the_library(capsys):
    code, out, _ = _run(
        capsys, "rate", "--json", "--instance", "random_ball", "d=3", "k=7", "seed=1"
    )
    assert code == 0
    shown = json.loads(out)
    instance = bf.instances.random_ball(3, 7, 1)
    rate = bf.optimal_rate(instance)
    assert [shown["rate"], shown["lower"], shown["upper"]] == [rate.value, rate.lower, rate.upper]
    assert list(shown["allocation"].values()) == rate.allocation.values.tolist()
    assert shown["best"] == str(instance.best)
    assert shown["hardest"] == str(rate.hardest)
    assert len(shown["exponents"]) == 7


@pytest.mark.parametrize("name", [["soare", "d=3"], ["movielens", "films=20", "threshold=8.25"]])
def test_other_built_in_instances(capsys, name):
    code, out, _ = _run(capsys, "rate", "--json", "--instance", *name)
    shown = json.loads(out)
    assert code == 0
    assert 0 < shown["lower"] <= shown["rate"] <= shown["upper"]


def test_a_tie_is_a_warning_and_a_rate_of_zero(capsys, tmp_path):
    path = tmp_path / "tie.json"
    bf.save(bf.Instance(bf.Problem([[1, 0], [0, 1]]), [1, 1]), path)
    code, out, err = _run(capsys, "rate", path)
    assert code == 0
    assert out.startswith("Γ = 0 nats per pull")
    assert err.startswith("bayes-feasible rate: warning: '1' tie")


def test_nothing_to_mistake_is_strict_json(capsys, tmp_path):
    path = tmp_path / "sure.json"
    bf.save(bf.Instance(bf.Problem([[1, 0]]), [1, 1]), path)
    code, out, _ = _run(capsys, "rate", path, "--json")
    shown = json.loads(out, parse_constant=pytest.fail)
    assert (code, shown["rate"], shown["hardest"]) == (0, "inf", None)
    code, out, _ = _run(capsys, "rate", path)
    assert "no mistake is possible" in out


def test_long_tables_are_cut(capsys):
    _, out, _ = _run(capsys, "rate", "--instance", "movielens")
    assert "... and 40 more (--json shows all)" in out
    assert out.count("\n") < 60


def test_a_file_gives_what_its_instance_gives(capsys, tmp_path):
    path = tmp_path / "drug.toml"
    path.write_text(
        "theta_reward = [0.0, 1.0]\ntheta_cost = [[0.0, 0.5]]\nthresholds = [0.3]\n"
        "[arms]\nlow = [1, 0.2]\nhigh = [1, 0.9]\n"
    )
    code, out, _ = _run(capsys, "rate", path, "--json")
    assert code == 0
    assert json.loads(out)["best"] == "low"
    assert json.loads(out)["rate"] == bf.optimal_rate(bf.load(path)).value


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("rate --instance end_of_optimsm", ["--instance: ", "'end_of_optimism'?"]),
        ("rate --instance Soare", ["'soare'?"]),
        ("rate --instance bandit", ["expected one of end_of_optimism, random_ball, soare, mov"]),
        ("rate --instance end_of_optimism alpah=0.1", ["end_of_optimism: ", "'alpha'?"]),
        ("rate problem.xlsx", ["extension .toml, .json, .csv"]),
        ("rat", ["'rate'?"]),
        ("trial aks x.trial", ["'ask'?"]),
        ("trial new x.trial p.toml --ruel TopTwo", ["'--rule'?"]),
        ("rate --figrue=x.png p.toml", ["'--figure'?"]),
        ("check p.toml --histroy x", ["required: --history"]),
        ("sample --instance soare --rule blfaip", ["--rule: ", "'BLFAIPS'?"]),
        ("sample --instance soare --sampler nut_component", ["'nuts_component'?"]),
        ("trial new x.trial --instance soare --rule PlugInn", ["'PlugIn'?"]),
        ("frobnicate", ["choose from study, arena, rate"]),
        ("rate --alpha=1 a.toml", ["--alpha=1"]),
    ],
)
def test_a_misspelt_name_suggests_the_closest_valid_one(capsys, words, names):
    try:
        code = cli.main(words.split())
    except SystemExit as stopped:
        code = stopped.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    line = captured.err.splitlines()[-1]
    assert line.startswith("bayes-feasible")
    assert all(name in line for name in names), line


def test_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"bayes-feasible {bf.__version__}\n"


STUDY = """
title = "A small one"
horizon = 200
replicates = 2
rules = ["Oracle", "Uniform"]
instance = { name = "end_of_optimism", alpha = 0.3 }
"""


@pytest.fixture
def small_study(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


def test_study_prints_and_writes(capsys, tmp_path, small_study):
    out = tmp_path / "out"
    arguments = ["study", small_study, "--out", out, "--results-only"]
    code, shown, err = _run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert shown.startswith("A small one\n")
    assert "0.00861884" in shown
    written = ["manifest.json", "optimum.nc", "results.nc", "specification.toml"]
    assert shown.endswith(f"\nWritten in {out}:\n" + "".join(f"  {name}\n" for name in written))
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == written
    assert _run(capsys, *arguments, "--quiet") == (0, "", "")


def test_study_as_json(capsys, tmp_path, small_study):
    arguments = ["study", small_study, "--out", tmp_path / "out", "--results-only", "--json"]
    code, shown, err = _run(capsys, *arguments)
    fields = json.loads(shown, parse_constant=pytest.fail)
    assert (code, err) == (0, "")
    assert fields["parts"] == {"computed": 2, "reused": 0}
    assert fields["rate"]["rate"] == bf.optimal_rate(bf.instances.end_of_optimism(0.3)).value
    assert str(tmp_path / "out" / "results.nc") in fields["files"]
    _, shown, _ = _run(capsys, *arguments, "--quiet")
    assert json.loads(shown) == fields | {"parts": {"computed": 0, "reused": 2}}


def test_study_shows_its_template(capsys, tmp_path):
    code, shown, err = _run(capsys, "study", "--template")
    assert (code, err) == (0, "")
    path = tmp_path / "mine.toml"
    path.write_text(shown)
    assert specification.read(path).hash == specification.default().hash


@pytest.mark.parametrize("command", [[], ["study"]])
def test_help_documents_the_exit_codes(capsys, command):
    with pytest.raises(SystemExit):
        cli.main([*command, "--help"])
    shown = capsys.readouterr().out
    for code in ("0 ", "1 ", "2 ", "130 ", "143 "):
        assert f"\n  {code}" in shown


def test_study_refuses_a_file_as_its_folder(capsys, tmp_path, small_study):
    path = tmp_path / "taken"
    path.write_text("mine")
    code, out, err = _run(capsys, "study", small_study, "--out", path)
    assert (code, out) == (2, "")
    assert "expected a folder" in err
    assert path.read_text() == "mine"


def test_study_refuses_another_specification(capsys, tmp_path, small_study):
    arguments = ["study", small_study, "--out", tmp_path / "out", "--results-only"]
    _run(capsys, *arguments, "--quiet")
    small_study.write_text(STUDY.replace("replicates = 2", "replicates = 3"))
    code, out, err = _run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayes-feasible study: ")
    assert "another replicates" in err
    assert err.count("\n") == 1
    for option in ("--extend", "--restart"):
        assert option in err
        assert _run(capsys, *arguments, option)[0] == 0


def test_study_tells_mistakes_in_one_line(capsys, tmp_path, small_study):
    small_study.write_text(STUDY.replace("Uniform", "Unifrom"))
    code, out, err = _run(capsys, "study", small_study, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err == (
        f"bayes-feasible study: {small_study}: rules: unknown rule 'Unifrom'; "
        "did you mean 'Uniform'?\n"
    )
    assert not (tmp_path / "out").exists()


def test_study_tells_of_damaged_parts(capsys, tmp_path, small_study):
    arguments = ["study", small_study, "--out", tmp_path / "out", "--results-only", "--quiet"]
    _run(capsys, *arguments)
    part = min((tmp_path / "out" / "parts").iterdir())
    part.write_bytes(b"")
    code, out, err = _run(capsys, *arguments)
    assert (code, out) == (0, "")
    assert err == (f"bayes-feasible study: {part}: damaged; it is computed again\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt("interrupted: go on"), 130), (Unfinished("the disk is full"), 1)],
)
def test_study_says_why_it_stopped(capsys, monkeypatch, small_study, error, code):
    def stopped(*_, **__):
        raise error

    monkeypatch.setattr(study, "study", stopped)
    assert _run(capsys, "study", small_study) == (code, "", f"bayes-feasible study: {error}\n")


def test_an_interrupt_exits_with_130(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(rate, "optimal_rate", interrupted)
    code, _, err = _run(capsys, "rate", "--instance", "end_of_optimism")
    assert (code, err) == (130, "interrupted\n")


def test_the_installed_command_exits_with_its_code_and_without_a_traceback():
    done = subprocess.run([COMMAND, "rate", "nowhere.toml"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "bayes-feasible rate: nowhere.toml: no such file\n"


def test_a_reader_that_leaves_early_is_no_error():
    command = [COMMAND, "rate", "--instance", "end_of_optimism"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() in (141, -signal.SIGPIPE)
