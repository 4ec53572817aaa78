"""The public targets: what they are, how they are written, and the board over them."""

import importlib.util
import json
import zipfile

import numpy as np
import pytest
import xarray as xr
from helpers import planar_union
from planar import event_logs
from scipy.special import logsumexp

from bayes_feasible import cli
from bayes_feasible.analysis.samplers import board, database
from bayes_feasible.analysis.samplers.targets import TARGETS, named

SMALL = ("one_event_4", "four_events_40", "corner", "bounded", "duplicates", "thin")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("database")
    database.write_targets(folder, SMALL, progress=False)
    return folder


def read(path):
    with zipfile.ZipFile(f"{path}.zip") as archive:
        (name,) = archive.namelist()
        return json.loads(archive.read(name))


@pytest.mark.parametrize("name", ["four_events_4", "duplicates", "corner", "thin"])
def test_the_events_are_those_of_independent_tails(name):
    posterior, wrong = named(name)
    value = wrong.log_probability(posterior).value
    logs = event_logs(posterior, wrong.candidate)
    assert logs.max() - 1e-9 <= value <= logsumexp(logs) + 1e-9
    if name in ("four_events_4",):
        assert np.log(planar_union(wrong, posterior)) == pytest.approx(value, rel=1e-3)


def test_each_target_is_hard_in_its_own_way():
    shares = {}
    for name in SMALL:
        posterior, wrong = named(name)
        found = wrong.log_probability(posterior)
        shares[name] = np.exp(found.log_probabilities - found.value)
    assert shares["duplicates"].sum() > 1.5  # overlaps
    assert np.sum(shares["four_events_40"] > 0.2) == 4
    corner = named("corner")[1].events.limits
    assert np.isfinite(corner[shares["corner"].argmax()]).all()  # all four blocks
    covariance = named("thin")[0].covariance
    assert np.linalg.cond(covariance) > 1e5
    assert named("axes_50_400")[1].problem.arms.shape == (50, 50)
    assert len(TARGETS) == 20


def test_every_check_of_posteriordb_passes(written):
    found = database.check_targets(written)
    assert sorted(found) == sorted(f"{name}-{database.MODEL}" for name in SMALL)
    for made in found.values():
        assert made == {
            "ndraws_is_10k": True, "nchains_is_gte_4": True, "ess_within_bounds": True,
            "r_hat_below_1_01": True, "inside": True,
        }  # fmt: skip


def test_spoilt_draws_fail_the_checks(written, tmp_path):
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((10, 1000, 3))
    sticky = np.repeat(draws[:, ::2], 2, axis=1)
    assert all(v is not False for v in database.checks(database.diagnose(draws)).values())
    assert not database.checks(database.diagnose(sticky))["ess_within_bounds"]
    assert not database.checks(database.diagnose(draws[:, 1:]))["ndraws_is_10k"]
    apart = draws + np.arange(10)[:, np.newaxis, np.newaxis]
    assert not database.checks(database.diagnose(apart))["r_hat_below_1_01"]
    database.write_targets(tmp_path, ["corner"], progress=False)
    path = tmp_path / "reference_posteriors" / "draws" / "draws" / f"corner-{database.MODEL}.json"
    chains = read(path)
    chains[3]["theta[1]"][5] += 1.0  # outside
    with zipfile.ZipFile(f"{path}.zip", "w") as archive:
        archive.writestr(path.name, json.dumps(chains))
    assert not database.check_targets(tmp_path)[f"corner-{database.MODEL}"]["inside"]


def test_files_are_those_of_posteriordb(written):
    """As its Python package reads them: posterior, model, data and draws name each other."""
    for name in SMALL:
        whole = f"{name}-{database.MODEL}"
        posterior = json.loads((written / "posteriors" / f"{whole}.json").read_text())
        model = json.loads(
            (written / "models" / "info" / f"{posterior['model_name']}.info.json").read_text()
        )
        for kind in ("stan", "pymc"):
            assert (written / model["model_implementations"][kind]["model_code"]).exists()
        info = json.loads(
            (written / "data" / "info" / f"{posterior['data_name']}.info.json").read_text()
        )
        data = read(written / info["data_file"])
        draws = read(written / "reference_posteriors" / "draws" / "draws" / f"{whole}.json")
        assert len(draws) == 10
        assert len(draws[0]) == data["D"] == posterior["dimensions"]["theta"]
        about = written / "reference_posteriors" / "draws" / "info" / f"{whole}.info.json"
        exact = json.loads(about.read_text())["exact"]
        posterior, wrong = named(name)
        measured = wrong.log_probability(posterior, seed=1)
        error = np.hypot(exact["standard_error"], measured.standard_error)
        assert exact["log_probability"] == pytest.approx(measured.value, abs=5 * error + 1e-9)
    assert "@article" in (written / "references" / "references.bib").read_text()


def test_the_same_seed_writes_the_same_bytes(written, tmp_path):
    database.write_targets(tmp_path, SMALL[:2], progress=False)
    for file in tmp_path.rglob("*one_event_4*"):
        assert file.read_bytes() == (written / file.relative_to(tmp_path)).read_bytes()


def test_the_pymc_model_is_the_density(written):
    """Differences of its log-density are those of the Gaussian; outside it is 0."""
    spec = importlib.util.spec_from_file_location(
        "written", written / "models" / "pymc" / f"{database.MODEL}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("four_events_40", "bounded"):
        data = read(written / "data" / "data" / f"{name}.json")
        logp = module.model(data).compile_logp(mode="FAST_COMPILE")
        chains = read(
            written / "reference_posteriors" / "draws" / "draws" / f"{name}-{database.MODEL}.json"
        )
        points = np.array([[c[f"theta[{i + 1}]"][0] for i in range(data["D"])] for c in chains])
        found = np.array([logp({"theta": point}) for point in points])
        white = np.linalg.solve(np.array(data["root"]), (points - data["center"]).T)
        expected = -0.5 * np.sum(white**2, axis=0)
        np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-7)
        assert logp({"theta": np.array(data["center"])}) == -np.inf


def test_the_board_goes_on_where_it_stopped(tmp_path, monkeypatch):
    options = {"draws": 200, "tune": 100, "progress": False}
    first = board.board(tmp_path, ["exact"], SMALL[:2], **options)
    assert first.verdict.values.tolist() == [["trusted"], ["trusted"]]
    computed = []
    work = board._square
    monkeypatch.setattr(board, "_square", lambda *which: computed.append(which) or work(*which))
    (tmp_path / "mine.py").write_text(
        "def stuck(target):\n    return target.starts[:, None].repeat(target.draws, axis=1)\n"
    )
    monkeypatch.chdir(tmp_path)
    both = board.board(tmp_path, ["exact", "mine:stuck"], SMALL[:2], **options)
    assert {which[1] for which in computed} == {"mine:stuck"}
    assert both.verdict.sel(sampler="mine:stuck").values.tolist() == ["condemned"] * 2
    page = (tmp_path / "board.html").read_text()
    for text in ("mine:stuck", "2 of 2 trusted", "four_events_40", "R-hat inf"):
        assert text in page
    with xr.open_dataset(tmp_path / "board.nc", engine="h5netcdf") as stored:
        assert stored.verdict.shape == (2, 2)


def test_the_command_lists_writes_and_judges(capsys, tmp_path):
    assert cli.main(["targets"]) == 0
    assert "axes_50_400" in capsys.readouterr().out
    folder = tmp_path / "db"
    assert cli.main(["targets", "corner", "--out", str(folder), "--quiet"]) == 0
    assert "All checks of posteriordb pass" in capsys.readouterr().out
    assert (folder / "posteriors" / f"corner-{database.MODEL}.json").exists()
    arguments = ["targets", "corner", "--board", str(tmp_path / "b"), "--samplers", "exact"]
    assert cli.main([*arguments, "--draws", "200", "--jobs", "1", "--quiet"]) == 0
    assert "trusted" in capsys.readouterr().out
    for wrong, message in (
        (["corners"], "unknown target 'corners'; did you mean 'corner'?"),
        (["corner", "--samplers", "exact"], "--samplers: has no meaning without --board"),
        (["--board", str(folder / "posteriors" / f"corner-{database.MODEL}.json")], "is a file"),
        (["corner", "--board", str(tmp_path / "c"), "--samplers", "gibbs"], "sampler: expected"),
    ):
        assert cli.main(["targets", *wrong]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_set_passes_the_checks_of_posteriordb(tmp_path):
    database.write_targets(tmp_path, progress=False)
    assert all(all(made.values()) for made in database.check_targets(tmp_path).values())
