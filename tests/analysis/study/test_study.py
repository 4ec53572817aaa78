"""Studies: the numbers of `simulate`, in parts, wherever they are computed, and never lost."""

import contextlib
import copy
import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from helpers import files, posterior_at
from planar import event_logs
from scipy.special import logsumexp

import bayes_feasible as bf
from bayes_feasible.analysis.study import curves, optimum, parts, running, study
from bayes_feasible.analysis.study import folder as study_folder
from bayes_feasible.analysis.study.parts import cut
from bayes_feasible.analysis.study.specification import parse
from bayes_feasible.analysis.study.store import hash_bytes
from bayes_feasible.files.atomic import write_bytes
from bayes_feasible.files.lock import locked_folder
from bayes_feasible.simulation import pool
from bayes_feasible.simulation import workers as _workers
from bayes_feasible.simulation.pool import Unfinished

REFERENCE = {0.1: 0.00113559, 0.2: 0.00415741, 0.3: 0.00861884}  # from a semidefinite program
SMALL = {
    "title": "small",
    "instance": {"name": "end_of_optimism", "alpha": 0.3},
    "rules": {
        "Oracle": {},
        "true posterior": {"kind": "BLFAIPS", "eta": 1.0, "recommendation": "mean"},
    },
    "horizon": 300,
    "replicates": 5,
    "checkpoints": [10, 50, 300],
    "seed": 5,
}
POPEN = subprocess.Popen
RESULTS = ["manifest.json", "optimum.nc", "parts", "results.nc", "specification.toml"]


def changed(**changes):
    return copy.deepcopy(SMALL) | changes


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Two replicates a part: 6 parts of the small study."""
    monkeypatch.setattr(parts, "ROUNDS", 3000)


@pytest.fixture(scope="module")
def expected():
    """The same experiments without parts."""
    rules = {
        "Oracle": bf.Oracle,
        "true posterior": partial(bf.BLFAIPS, eta=1.0, recommendation="mean"),
    }
    instance = bf.instances.end_of_optimism(0.3)
    return bf.simulate(instance, rules, 300, 5, [10, 50, 300], seed=5, executor=False)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The folder of a study that ran through in one process."""
    folder = tmp_path_factory.mktemp("original") / "study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROUNDS", 3000)
        run(SMALL, folder, workers=1)
    return folder


@pytest.fixture(scope="module")
def undisturbed(original):
    """The files of a study that ran through in one process."""
    return files(original)


@pytest.fixture
def finished(original, tmp_path):
    """A folder of its own with a finished study."""
    return Path(shutil.copytree(original, tmp_path / "finished"))


def run(specification, folder, **options):
    return study.study(specification, folder, only_results=True, progress=False, **options)


def test_a_study_gives_the_numbers_of_simulate(tmp_path, expected):
    found = run(SMALL, tmp_path / "new" / "study")
    xr.testing.assert_equal(found.results, expected)
    assert found.results.attrs.items() >= expected.attrs.items()
    assert (found.computed, found.reused) == (6, 0)
    with xr.open_dataset(found.folder / "results.nc", engine="h5netcdf") as stored:
        xr.testing.assert_identical(stored.load(), found.results)
    assert sorted(os.listdir(found.folder)) == RESULTS
    assert sorted(path.name for path in found.files) == sorted(set(RESULTS) - {"parts"})


@pytest.mark.parametrize("rounds", [1, 10**9])
def test_the_numbers_do_not_depend_on_how_the_work_is_cut(tmp_path, expected, monkeypatch, rounds):
    monkeypatch.setattr(parts, "ROUNDS", rounds)
    xr.testing.assert_equal(run(SMALL, tmp_path).results, expected)


def test_every_replicate_is_in_one_part():
    made = cut(parse(SMALL))
    found = [(part.rule, part.first + i) for part in made for i in range(part.size)]
    assert len(found) == len(set(found)) == 2 * 5
    assert len({part.key for part in made}) == len(made) == 6
    assert [part.rule for part in made][:2] == ["Oracle", "true posterior"]
    few, more = (cut(parse(changed(replicates=n))) for n in (6, 16))
    assert {part.key for part in few} <= {part.key for part in more}
    part = cut(parse(changed(rules={"a / b": {"kind": "Oracle"}})))[1]
    assert part.stem == "a-b-000002-000003"
    assert str(part) == "a / b, replicates 2 to 3"


def test_long_replicates_and_large_problems_have_parts_of_their_own(monkeypatch):
    monkeypatch.undo()
    small, large = bf.instances.end_of_optimism(0.3), bf.instances.random_ball(20, 200, 1)
    assert parts.choose_size(small, 10**7, 20) == 1
    assert parts.choose_size(small, 100, 5) > parts.choose_size(small, 10**4, 5) > 1
    assert parts.choose_size(large, 10**4, 5) < parts.choose_size(small, 10**4, 5)


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_same_bytes_with_any_number_of_processes(tmp_path, undisturbed, workers):
    run(SMALL, tmp_path, workers=workers)
    assert files(tmp_path) == undisturbed


def test_large_work_gets_processes_of_its_own(tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr(pool, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(pool, "run_here", None)
    monkeypatch.setattr(pool.os, "cpu_count", lambda: 2)
    run(SMALL, tmp_path)
    assert files(tmp_path) == undisturbed


def test_a_finished_study_is_not_computed_again(finished, undisturbed, monkeypatch):
    monkeypatch.setattr(running, "choose_place", lambda *_: pytest.fail("computed again"))
    for name in ("_combine", "_compile"):
        monkeypatch.setattr(study, name, lambda *_: pytest.fail("computed again"))
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    again = run(SMALL, finished)
    assert (again.computed, again.reused) == (0, 6)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before
    assert files(finished) == undisturbed


def press():
    """Ctrl-C."""
    raise KeyboardInterrupt


def lose():
    """Ctrl-C in a callback, where a library catches it."""
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def garble():
    """Ctrl-C that compiled code turns into an error."""
    lose()
    raise SystemError("a result with an exception set")


@pytest.mark.parametrize(
    ("count", "stop"), [(0, press), (1, press), (5, press), (2, lose), (1, garble)]
)
def test_an_interrupted_study_resumes(tmp_path, undisturbed, monkeypatch, count, stop):
    def interrupted(work, stop):
        for i, result in enumerate(run_here(work)):
            if i == count:
                stop()
            yield result

    run_here, handler = pool.run_here, signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "run_here", partial(interrupted, stop=partial(divmod, 1, 0)))
        with pytest.raises(ZeroDivisionError):  # the control: other errors stay what they are
            run(changed(seed=6), tmp_path / "other")
        patch.setattr(pool, "run_here", partial(interrupted, stop=stop))
        with pytest.raises(KeyboardInterrupt, match=f"{count} of 6 parts are finished"):
            run(SMALL, tmp_path / "study")
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(list((tmp_path / "study" / "parts").iterdir())) == count
    again = run(SMALL, tmp_path / "study")
    assert (again.computed, again.reused) == (6 - count, count)
    assert files(tmp_path / "study") == undisturbed


@pytest.mark.parametrize("stage", ["_combine", "_dataset", "optimum.optimum"])
def test_nothing_is_written_after_a_ctrl_c(tmp_path, undisturbed, monkeypatch, stage):
    """Caught by a library, which returns something short instead: that is not kept."""

    def short(*_):
        lose()
        return xr.Dataset({"short": 0})

    with monkeypatch.context() as patch:
        patch.setattr(f"bayes_feasible.analysis.study.study.{stage}", short)
        with pytest.raises(KeyboardInterrupt, match="6 of 6 parts are finished"):
            run(SMALL, tmp_path)
    assert not list(tmp_path.rglob(".*"))
    run(SMALL, tmp_path)
    assert files(tmp_path) == undisturbed


def edit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [edit, truncate])
def test_a_damaged_part_is_told_and_computed_again(finished, undisturbed, damage):
    part = sorted((finished / "parts").iterdir())[4]
    damage(part)
    again = run(SMALL, finished)
    assert (again.computed, again.reused) == (1, 5)
    assert again.notes == [f"{part}: damaged; it is computed again"]
    assert files(finished) == undisturbed
    damage(finished / "results.nc")
    again = run(SMALL, finished)
    assert (again.computed, again.notes) == (0, [])
    assert files(finished) == undisturbed


def test_a_part_of_another_study_is_not_taken(tmp_path, finished, undisturbed):
    other = {"Oracle": SMALL["rules"]["Oracle"]}
    run(changed(seed=6, replicates=2, rules=other), tmp_path / "other")
    lost = sorted((finished / "parts").iterdir())[0]
    lost.unlink()
    (foreign,) = (tmp_path / "other" / "parts").iterdir()
    assert lost.name[:20] == foreign.name[:20]
    foreign.rename(finished / "parts" / foreign.name)
    assert run(SMALL, finished).computed == 1
    assert files(finished) == undisturbed


def test_leftovers_of_a_killed_run_are_removed(finished, tmp_path, undisturbed):
    (tmp_path / "new").mkdir()  # killed before the manifest was there
    for name in (".0123abcd.results.nc", "parts/.89abcdef.x.nc", ".00000000.manifest.json"):
        (finished / name).write_bytes(b"half")
    (tmp_path / "new" / ".00000000.manifest.json").write_bytes(b"{")
    for folder in (finished, tmp_path / "new"):
        run(SMALL, folder)
        assert files(folder) == undisturbed


def test_another_specification_is_refused(finished, undisturbed):
    message = "holds a study with another replicates, seed; .*--extend.*--restart"
    with pytest.raises(ValueError, match=message):
        run(changed(seed=6, replicates=9), finished)
    assert files(finished) == undisturbed
    with pytest.raises(ValueError, match="restart"):
        run(SMALL, finished, restart=True, extend=True)


def test_other_versions_are_refused_or_told(finished, monkeypatch):
    now = study_folder.versions()
    with monkeypatch.context() as patch:
        patch.setattr(study_folder, "versions", lambda: now | {"numba": "99"})
        (note,) = run(SMALL, finished).notes
    assert f"started with numba {now['numba']}" in note
    monkeypatch.setattr(bf, "__version__", "9.9", raising=False)
    with pytest.raises(ValueError, match=r"another version of bayes_feasible \(0\.1\.0\)"):
        run(SMALL, finished)
    with monkeypatch.context() as patch:
        patch.setattr(running, "choose_place", lambda *_: pytest.fail("stopped"))
        with pytest.raises(pytest.fail.Exception, match="stopped"):
            run(SMALL, finished, extend=True)
        stale = set(files(finished)) - {"manifest.json", "specification.toml"}
        assert not stale  # outputs do not outlive their study
    assert run(SMALL, finished, extend=True).computed == 6


def test_another_title_is_the_same_study(finished, undisturbed):
    other = changed(title="other")
    assert run(other, finished).computed == 0
    assert study.specified(finished / "specification.toml").title == "other"
    assert json.loads((finished / "manifest.json").read_text())["specification"]["title"] == "other"
    assert files(finished)["results.nc"] == undisturbed["results.nc"]


def test_restart_gives_up_what_is_there(finished, undisturbed):
    assert run(changed(seed=6, replicates=1), finished, restart=True).computed == 2
    assert len(list((finished / "parts").iterdir())) == 2
    assert run(SMALL, finished, restart=True).computed == 6
    assert files(finished) == undisturbed


def test_extend_keeps_the_parts_that_still_apply(finished, undisturbed):
    fewer = {"Oracle": SMALL["rules"]["Oracle"]}
    assert run(changed(replicates=2, rules=fewer), finished, extend=True).computed == 0
    assert len(list((finished / "parts").iterdir())) == 1
    again = run(SMALL, finished, extend=True)
    assert (again.computed, again.reused) == (5, 1)
    assert files(finished) == undisturbed


@pytest.mark.parametrize("damage", ["{", "[]", '{"format": 1}', "edited"])
def test_a_broken_manifest_is_refused_but_can_be_replaced(finished, damage):
    manifest = finished / "manifest.json"
    edited = manifest.read_text().replace('"seed": 5', '"seed": 4')
    manifest.write_text(edited if damage == "edited" else damage)
    with pytest.raises(ValueError, match=r"manifest\.json: .*use --restart"):
        run(SMALL, finished)
    if damage == "edited":
        assert run(SMALL, finished, restart=True).computed == 6


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "results.nc").write_text("mine")
    for options in ({}, {"restart": True}, {"extend": True}):
        with pytest.raises(ValueError, match=r"holds no study but other files .*results\.nc"):
            run(SMALL, tmp_path, **options)
    assert files(tmp_path) == {"results.nc": b"mine"}
    with pytest.raises(ValueError, match="expected a folder"):
        run(SMALL, tmp_path / "results.nc")
    with pytest.raises(OSError, match="results"):
        run(SMALL, tmp_path / "results.nc" / "study")


def test_one_process_at_a_time(finished, monkeypatch):
    monkeypatch.setattr(running, "LOCK_PATIENCE", 0.1)
    with locked_folder(finished, 1.0), pytest.raises(ValueError, match="another process is"):
        run(SMALL, finished)
    run(SMALL, finished)


@pytest.mark.parametrize("fails", [1, 6, 7])
def test_a_full_disk_keeps_what_is_finished(tmp_path, undisturbed, monkeypatch, fails):
    """The write of a part, of the results and of the manifest after them."""
    rename, count = os.replace, iter(range(100))

    def limited(source, target):
        if next(count) == fails + 2:  # after the first manifest and the specification
            target.with_name(f".00000000.{target.name}").write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", limited)
        with pytest.raises(Unfinished, match=r"No space left.*parts are finished and kept"):
            run(SMALL, tmp_path)
    assert run(SMALL, tmp_path).reused == min(fails, 6)
    assert files(tmp_path) == undisturbed


def test_a_write_that_the_system_cuts_short(tmp_path, undisturbed):
    """A real limit on the size of files, which only the results exceed."""
    largest = max(len(content) for name, content in undisturbed.items() if "parts/" in name)
    assert largest + 500 < len(undisturbed["results.nc"])
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({largest + 500}, resource.RLIM_INFINITY))
from bayes_feasible.analysis.study import parts, running, study
parts.ROUNDS = 3000
try:
    study.study({SMALL!r}, sys.argv[1], only_results=True, progress=False)
except running.Unfinished as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert "6 of 6 parts are finished" in done.stdout
    assert not list(tmp_path.glob(".*"))
    assert run(SMALL, tmp_path).computed == 0
    assert files(tmp_path) == undisturbed


def works(work=None):
    """The parts of the small study, or others that do something else."""
    found = cut(parse(SMALL))
    return found if work is None else [dataclasses.replace(part, work=work) for part in found]


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_process_that_dies_is_replaced(monkeypatch):
    made = []
    monkeypatch.setattr(
        _workers.subprocess, "Popen", lambda *a, **k: made.append(POPEN(*a, **k)) or made[-1]
    )
    found = []
    for i, (part, _) in enumerate(pool.run(works(), 2)):
        found.append(part)
        if i in (0, 3):
            next(process for process in made if process.poll() is None).kill()
    assert sorted(part.key for part in found) == sorted(part.key for part in works())
    assert len(made) > 2
    assert all(process.poll() is not None for process in made)


@pytest.mark.slow
def test_workers_that_always_die_end_the_study(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(study, "cut", lambda wanted: works(die))
        patch.setattr(pool, "ATTEMPTS", 2)
        message = "replicates 0 to 1: 2 worker processes died of it.*0 of 6 parts"
        with pytest.raises(Unfinished, match=message):
            run(SMALL, tmp_path, workers=2)
    assert not list((tmp_path / "parts").iterdir())


def test_a_worker_of_another_version_is_refused(monkeypatch):
    work = works()[0]
    monkeypatch.setattr(bf, "__version__", "9.9", raising=False)
    with pytest.raises(RuntimeError, match=r"this worker has bayes_feasible 9\.9"):
        work()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers: expected at least 1"),
        ({"workers": 2, "dask": "local:2"}, "workers: a Dask cluster has its own"),
        ({"dask": ""}, "dask: expected an address"),
        ({"dask": "local:two"}, "dask: expected 'local:N'"),
        ({"specification": 3}, "specification: expected a path"),
    ],
)
def test_bad_input(tmp_path, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(**({"specification": SMALL, "folder": tmp_path / "study"} | options))
    assert not (tmp_path / "study").exists()


def test_the_manifest_says_what_was_done(original):
    manifest = json.loads((original / "manifest.json").read_text(), parse_constant=pytest.fail)
    assert manifest["hash"] == parse(SMALL).hash
    assert manifest["version"] == bf.__version__
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["specification"]["instance"] == SMALL["instance"]
    found = study.specified(original / "specification.toml")
    assert found.hash == manifest["hash"]
    assert manifest["outputs"]["results.nc"]["sha256"] == hash_bytes(
        (original / "results.nc").read_bytes()
    )


def test_posteriors_are_those_of_the_study(expected):
    wanted = parse(SMALL)
    alternative = bf.Alternative(wanted.instance.problem, wanted.instance.best)
    for time, posterior in study.posteriors(wanted, "true posterior", [50, 300], replicate=3):
        exact = alternative.log_probability(posterior, seed=1)
        rough = alternative.log_probability(posterior, seed=2, draws=512)
        found = expected.sel(rule="true posterior", replicate=3, time=time)
        np.testing.assert_array_equal(posterior.counts / time, found.allocation)
        # Two estimates, apart by 6 standard errors with probability 2e-9 at most.
        allowed = 6 * np.hypot(exact.standard_error, rough.standard_error) + 1e-12
        assert abs(float(found.log_error) - exact.value) <= allowed
        other = expected.sel(rule="true posterior", replicate=2, time=time)  # the control
        assert abs(float(other.log_error) - exact.value) > allowed


@pytest.mark.parametrize("alpha", REFERENCE)
def test_the_optimum_is_the_reference(alpha):
    found = optimum.optimum(bf.instances.end_of_optimism(alpha), [100, 1000, 10**7])
    assert float(found.rate) == pytest.approx(REFERENCE[alpha], abs=6e-9)
    assert float(found.rate_lower) <= float(found.rate) <= float(found.rate_upper)
    assert float(found.allocation.sum()) == pytest.approx(1.0)
    ratio = (found.decay / found.rate).values
    assert np.all(np.diff(ratio) < 0)
    assert 1 < ratio[-1] < 1.002
    text = optimum.tables(found)
    assert f"{REFERENCE[alpha]:.8f}" in text
    assert "10,000,000" in text
    assert "Hardest to rule out: 4 (a feasible candidate of lower reward looks better)" in text


def test_an_optimum_without_a_curve():
    """Only the difference of two arms counts here, so the optimal shares may not span the truth."""
    instance = bf.Instance(bf.Problem(np.eye(3), candidates=np.eye(3)[:2]), [1.0, 0.0, 5.0])
    found = optimum.optimum(instance, [100])
    assert "decay" not in found
    assert "e^(-ΓT)" in optimum.tables(found)


def test_the_posterior_mean_is_the_truth():
    instance = bf.instances.random_ball(d=4, k=9, seed=3)
    counts = np.array([3, 0, 10, 1, 250, 1, 0, 7, 100_000])
    posterior = curves.posterior_at_truth(instance, counts)
    np.testing.assert_allclose(posterior.theta_reward, instance.theta_reward, atol=1e-12)
    np.testing.assert_allclose(posterior.theta_cost, instance.theta_cost, atol=1e-12)
    assert posterior.counts.tolist() == counts.tolist()
    with pytest.raises(ValueError, match=r"allocation: the arms it pulls, \[0\], do not span"):
        curves.error_curve(bf.instances.end_of_optimism(), [1.0, 0.0, 0.0, 0.0, 0.0], [100])


def test_pulls_are_whole_and_none_is_lost():
    rng = np.random.default_rng(0)
    for _ in range(50):
        shares = rng.dirichlet(np.full(6, 0.3))
        time = int(rng.integers(1, 1000))
        pulls = curves.whole_pulls(shares, time)
        assert pulls.sum() == time
        assert np.all(np.abs(pulls - time * shares) < 1)
    with pytest.raises(ValueError, match="allocation: expected shares that add up to 1"):
        curves.whole_pulls([0.5, 0.4], 10)


def test_the_curve_is_the_union_bound_where_overlaps_vanish():
    """Far out, P is the sum of the events' probabilities, written here from the definition."""
    instance = bf.instances.end_of_optimism(0.2)
    last = optimum.optimum(instance, [10**7]).isel(time=-1)
    truth = instance.theta_reward, instance.theta_cost
    posterior = posterior_at(instance.problem, *truth, last.pulls.values)
    assert float(last.log_error) == pytest.approx(logsumexp(event_logs(posterior, 0)), rel=1e-9)


def test_a_part_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Written under another name, synced, renamed; then the folder, which holds the name."""
    steps, sync, rename = [], os.fsync, os.replace

    def fsync(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        steps.append(("sync", path, path.read_bytes() if path.is_file() else None))
        sync(descriptor)

    def replace(source, target):
        steps.append(("rename", Path(source), Path(target)))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_bytes(tmp_path / "part.nc", b"content")
    _, temporary, _ = steps[0]
    assert temporary.name.startswith(".")
    assert steps == [
        ("sync", temporary, b"content"),
        ("rename", temporary, tmp_path / "part.nc"),
        ("sync", tmp_path, None),
    ]
    assert os.listdir(tmp_path) == ["part.nc"]


def test_progress_has_a_rate_and_the_time_left():
    """30 rounds in 10 s, for what was there already took no time; 30 are left."""
    with running.progress_bar("study", 100, "round", show=True, initial=40) as bar:
        bar.n, bar._time = 70, lambda: bar.start_t + 10  # its clock
        assert "70.0/100 [00:10<00:10, 3.00 rounds/s]" in str(bar)
