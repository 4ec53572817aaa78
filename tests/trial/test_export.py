"""All of a trial for other programs: read again, it is the trial."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from trial_cases import DRUG

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.trial.trial import Trial

KINDS = [".csv", ".json", ".nc"]


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    problem = bf.Problem(
        DRUG.candidates, {"toxicity": 0.5, "price": np.inf}, reward=bf.Gaussian(), cost_noise=0.1
    )
    trial = Trial.new(tmp_path_factory.mktemp("trial") / "a.trial", problem, seed=1)
    trial.tell([0, 1], [0.1, np.nan], [[0.2, 1.0], [0.4, np.nan]])
    trial.tell(2, 8.0, [8.2, 3.0], 10, sd={"reward": 0.3})
    trial.ask(2)
    return trial


@pytest.fixture(scope="module")
def files(trial, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for kind in KINDS:
        assert cli.main(["trial", "export", trial.path, "--out", str(folder / f"a{kind}")]) == 0
    return folder


@pytest.mark.parametrize("kind", [".csv", ".nc"])
def test_pulls_come_back_with_every_digit(trial, files, kind):
    again = bf.History.load(files / f"a{kind}", trial.problem)
    assert again.posterior().theta_cost.tolist() == trial.posterior.theta_cost.tolist()
    assert np.array_equal(again.sds, trial.history.sds, equal_nan=True)


def test_json_holds_everything(trial, files):
    found = json.loads((files / "a.json").read_text())
    assert found["head"] == trial.head
    assert found["bayes_feasible"] == bf.__version__
    assert found["events"] == trial.events
    assert found["pulls"][1] == {
        "arm": "1", "count": 1, "reward": None, "toxicity": 0.4, "price": None
    }  # fmt: skip
    assert found["pulls"][2]["sd_reward"] == 0.3
    choice = trial.recommend()
    assert found["status"]["log_probability_wrong"] == choice.log_error
    total = sum(found["probability_best"]["best"].values()) + found["probability_best"]["none"]
    assert total == pytest.approx(1.0)


def test_netcdf_holds_everything(trial, files):
    with xr.open_datatree(files / "a.nc", engine="h5netcdf") as tree:
        assert tree.attrs["head"] == trial.head
        assert [json.loads(line) for line in tree["journal"].event.values] == trial.events
        assert tree["candidates"].best.values.tolist() == (
            trial.posterior.probability_best([1, 4]).best.values.tolist()
        )
        assert tree["arms"].pending.values.sum() == 2
        assert "mistakes" in tree


def test_another_machine_gives_the_same_bytes(trial, files, tmp_path):
    """Another process, folder, working directory and number of threads."""
    copy = shutil.copy(trial.path, tmp_path / "a.trial")
    code = """
import sys
from bayes_feasible.trial.export import export
from bayes_feasible import Trial
for kind in sys.argv[2:]:
    open("b" + kind, "wb").write(export(Trial(sys.argv[1]), kind))
"""
    subprocess.run([sys.executable, "-c", code, copy, *KINDS], check=True, cwd=tmp_path,
                   env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # fmt: skip
    for kind in KINDS:
        assert (tmp_path / f"b{kind}").read_bytes() == (files / f"a{kind}").read_bytes(), kind


def test_other_extensions_are_refused(trial, capsys, tmp_path):
    assert cli.main(["trial", "export", trial.path, "--out", str(tmp_path / "a.xlsx")]) == 2
    assert "expected the extension .csv, .json, .nc" in capsys.readouterr().err
