"""The commands `diagnose` and `sample`."""

import json

import pytest
import xarray as xr

from bayes_feasible import cli
from bayes_feasible.analysis.samplers import scoreboard
from bayes_feasible.analysis.samplers.targets import target


def _run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_diagnose_prints_what_the_library_says(capsys, tmp_path):
    arguments = ["diagnose", "--target", "a", "--samplers", "exact", "--draws", 300, "--quiet"]
    code, out, err = _run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    shown = json.loads(out, parse_constant=pytest.fail)
    assert shown["samplers"]["exact"]["verdict"] == "trusted"
    assert shown["samplers"]["exact"]["divergences"] is None
    expected = scoreboard.scoreboard(*target("a", -40), ["exact"], draws=300, progress=False)
    assert shown["log_probability"] == float(expected.exact_log_probability)
    assert shown["samplers"]["exact"]["rhat"] == expected.rhat.sel(sampler="exact").item()
    code, out, _ = _run(capsys, *arguments, "--out", tmp_path / "board")
    assert code == 0
    assert "exact: trusted." in out
    assert (tmp_path / "board" / "scoreboard.nc").exists()


def test_diagnose_of_bounded_parameters(capsys, tmp_path):
    path = tmp_path / "bounded.toml"
    path.write_text(
        "thresholds = [0.5]\nparameter_radius = 1.5\ntheta_reward = [1.0, 0.4]\n"
        "theta_cost = [[0.2, 0.6]]\n[arms]\nleft = [1, 0]\nup = [0, 1]\nboth = [0.7, 0.7]\n"
    )
    samplers = ["exact", "exact_step", "nuts_component"]
    code, out, err = _run(
        capsys, "diagnose", path, "--pulls", 50, "--samplers", *samplers, "--jobs", 1, "--quiet"
    )
    assert (code, err) == (0, "")
    assert "exact: trusted." in out
    assert "exact_step: trusted." in out
    assert "nuts_component: failed. With a parameter_radius the events are no half-spaces." in out


def test_strict_diagnosis_exits_with_1(capsys):
    arguments = ["diagnose", "--target", "a", "--samplers", "exact", "--draws", 40, "--quiet"]
    assert _run(capsys, *arguments)[0] == 0
    code, out, _ = _run(capsys, *arguments, "--strict")
    assert code == 1
    assert "doubtful" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "a", "--pulls", "5"], "--pulls: has no meaning with --target"),
        (["--target", "a", "--log-probability", "-1"], "log_probability: expected at most -2"),
        (["--instance", "soare", "--pulls", "0"], "--pulls: expected at least 1, got 0"),
        (["--instance", "soare", "--candidate", "x"], "--candidate: unknown candidate 'x'"),
    ],
)
def test_bad_input_to_diagnose(capsys, arguments, message):
    code, out, err = _run(capsys, "diagnose", *arguments, "--quiet")
    assert (code, out) == (2, "")
    assert err.startswith("bayes-feasible diagnose: ")
    assert message in err


def test_sample_prints_and_saves(capsys, tmp_path):
    path = tmp_path / "draws.nc"
    code, out, err = _run(
        capsys, "sample", "--instance", "end_of_optimism", "alpha=0.2", "--pulls", 3000,
        "--draws", 200, "--out", path, "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "theta_reward[0]" in out
    with xr.open_datatree(path, engine="h5netcdf") as stored:
        assert stored["posterior"].sizes["draw"] == 200
        assert f"{stored.attrs['log_probability']:.6g}" in out


@pytest.mark.parametrize("rule", ["BLFAIPS", "Uniform"])
def test_sample_after_pulls_of_a_rule(capsys, rule):
    code, out, _ = _run(
        capsys, "sample", "--instance", "end_of_optimism", "--rule", rule, "--pulls", 200,
        "--draws", 100, "--candidate", 0, "--json",
    )  # fmt: skip
    shown = json.loads(out)
    assert code == 0
    assert shown["candidate"] == "0"
    assert shown["outside"] == 0.0
    assert sum(shown["events"].values()) >= 1


def test_sample_from_recorded_pulls(capsys, tmp_path):
    problem = tmp_path / "drug.toml"
    problem.write_text("thresholds = [0.3]\n[arms]\nlow = [1, 0.2]\nhigh = [1, 0.9]\n")
    pulls = tmp_path / "pulls.csv"
    pulls.write_text("arm,reward,cost\nlow,0.1,0.1\nhigh,1.2,0.8\nlow,0.2,0.0\n")
    code, out, err = _run(capsys, "sample", problem, "--history", pulls, "--draws", 50, "--quiet")
    assert (code, err) == (0, "")
    assert "given that 'low' is not the best" in out


def test_sample_that_breaks_off_exits_with_1(capsys):
    code, out, err = _run(
        capsys, "sample", "--target", "b", "--log-probability", -400, "--sampler", "smc_hard",
        "--draws", 50, "--quiet",
    )  # fmt: skip
    assert (code, out) == (1, "")
    assert err.startswith("bayes-feasible sample: SMC: none of 50 particles starts inside")
