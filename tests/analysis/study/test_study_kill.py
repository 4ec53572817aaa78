"""Studies that are killed, at any moment, and resumed: the same bytes, and nothing left over."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import files

from bayes_feasible.analysis.study import parts, study
from bayes_feasible.analysis.study.specification import read
from bayes_feasible.simulation import cluster

COMMAND = str(Path(sys.executable).with_name("bayes-feasible"))
# Many rules of one replicate: many parts, each of them short.
RULES = "".join(
    f'[rules."{kind} {i}"]\nkind = "{kind}"\n'
    for i in range(8)
    for kind in ("Uniform", "Oracle", "LinearThompson")
)
SPECIFICATION = f"""
horizon = 60_000
replicates = 1
instance = {{ name = "end_of_optimism", alpha = 0.3 }}
{RULES}
"""
PARTS = 24


def finished(folder):
    return len(list((folder / "parts").glob("[!.]*"))) if (folder / "parts").is_dir() else 0


def start(specification, folder, *options):
    """A study in a session of its own, so that its processes can be found."""
    command = [COMMAND, "study", specification, "--out", folder, "--results-only", *options]
    return subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def complete(specification, folder, *options):
    process = start(specification, folder, *options)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return errors


def session(leader):
    """The processes of a session that are alive."""
    alive = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            alive.append(int(path.parent.name))
    return alive


def wait_for(condition, process=None, seconds=120):
    """Until the condition holds, or the process has ended."""
    end = time.monotonic() + seconds
    while not condition():
        if process is not None and process.poll() is not None:
            return
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def kill(process):
    """Kill a study, but not its workers: they have to find out by themselves."""
    process.kill()
    process.communicate()
    wait_for(lambda: not session(process.pid), seconds=30)


@pytest.fixture(scope="module")
def specification(tmp_path_factory):
    path = tmp_path_factory.mktemp("specification") / "study.toml"
    path.write_text(SPECIFICATION)
    return path


@pytest.fixture(scope="module")
def undisturbed(specification, tmp_path_factory):
    """The files of a study that ran through."""
    folder = tmp_path_factory.mktemp("undisturbed") / "study"
    study.study(specification, folder, workers=1, only_results=True, progress=False)
    return files(folder)


def wait_for_a_moment(i, rng, folder, process, seconds, most, longer=0.0):
    """While it starts, reads what is there, or begins to work; or while it works, or ends."""
    if i % 2:
        time.sleep(rng.uniform(0, seconds))
    else:  # so long after so many more parts
        goal = min(finished(folder) + int(rng.integers(1, most)), PARTS)
        wait_for(lambda: finished(folder) >= goal, process)
        time.sleep(rng.uniform(0, longer))


def disturb(specification, folder, undisturbed, kills, seed, workers=(1, 2, 4)):
    """Kill and resume, at moments of two kinds; how many runs were killed."""
    rng = np.random.default_rng(seed)
    killed = 0
    for i in range(kills):
        process = start(specification, folder, "--workers", rng.choice(workers), "--quiet")
        wait_for_a_moment(i, rng, folder, process, seconds=3, most=5, longer=0.25)
        killed += process.poll() is None
        kill(process)
        content = files(folder) if folder.exists() else {}
        for name in content.keys() & undisturbed.keys() - {"manifest.json"}:
            assert content[name] == undisturbed[name]  # whatever has its name is whole
    return killed


def test_killed_twice(specification, undisturbed, tmp_path):
    folder = tmp_path / "study"
    killed = disturb(specification, folder, undisturbed, 2, seed=1, workers=(1, 2))
    assert killed >= 1  # the first is sure
    complete(specification, folder, "--quiet")
    assert files(folder) == undisturbed


@pytest.mark.slow
def test_killed_at_thirty_moments(specification, undisturbed, tmp_path):
    """In as many studies as it takes: one that is finished cannot be disturbed any more."""
    killed, attempt = 0, 0
    while killed < 30:
        folder = tmp_path / f"study {attempt}"
        killed += disturb(specification, folder, undisturbed, 10, seed=attempt)
        complete(specification, folder, "--quiet")
        assert files(folder) == undisturbed
        attempt += 1


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_stops_it_and_it_says_how_to_go_on(tmp_path, number, code):
    """A study too long to end before the signal comes, sent to all processes as a terminal does."""
    specification, folder = tmp_path / "long.toml", tmp_path / "study"
    specification.write_text(SPECIFICATION.replace("replicates = 1", "replicates = 20"))
    total = len(parts.cut(read(specification)))
    process = start(specification, folder, "--workers", 2)
    wait_for(lambda: finished(folder) >= 2, process)
    os.killpg(process.pid, number)
    out, errors = process.communicate()
    assert (process.returncode, out) == (code, "")
    kept = finished(folder)
    assert 2 <= kept < total
    assert errors == (
        f"bayes-feasible study: interrupted: {kept} of {total} parts are finished and kept in "
        f"{folder}; run the same command again to resume\n"
    )
    assert not session(process.pid)
    process = start(specification, folder, "--workers", 1)
    wait_for(lambda: finished(folder) > kept, process)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code, errors


def interrupt(specification, folder, count, seed):
    """Press Ctrl-C so often, each time in a run that goes on with the study; the exit codes."""
    rng = np.random.default_rng(seed)
    codes = []
    for i in range(count):
        process = start(specification, folder, "--workers", rng.choice([1, 2]), "--quiet")
        wait_for_a_moment(i, rng, folder, process, seconds=4, most=4)
        if process.poll() is None:
            (os.killpg if rng.random() < 0.5 else os.kill)(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        codes.append(process.returncode)
        # Before the command begins, Python itself ends by the signal, which a shell calls 130 too.
        assert process.returncode in (0, 130, -signal.SIGINT), errors
        assert "Traceback" not in errors or process.returncode == -signal.SIGINT, errors
        assert not session(process.pid)
        assert not list(folder.rglob(".*"))
    return codes


@pytest.mark.slow
def test_ctrl_c_at_any_moment(specification, undisturbed, tmp_path):
    codes = []
    for seed in range(5):  # a study that is finished cannot be disturbed any more
        folder = tmp_path / f"study {seed}"
        codes += interrupt(specification, folder, 6, seed)
        complete(specification, folder, "--quiet")
        assert files(folder) == undisturbed
    assert codes.count(130) >= 10


def kill_workers(specification, folder, kills):
    """Run a study on a cluster whose workers are killed while they compute."""
    from distributed import LocalCluster

    left = kills

    def disturbing(work, **options):
        nonlocal left
        results = on_dask(work, **options)
        for count, result in enumerate(results):
            yield result
            if left and count % 4 == 1:
                left -= 1
                worker = next(iter(local.workers.values()))
                os.kill(worker.pid, signal.SIGKILL)

    on_dask = cluster.run_on_dask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "run_on_dask", disturbing)
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
            study.study(
                specification, folder, dask=local.scheduler_address, only_results=True,
                progress=False,
            )  # fmt: skip
    assert left == 0


@pytest.mark.slow
def test_dask_workers_that_are_killed(specification, undisturbed, tmp_path):
    kill_workers(specification, tmp_path, 4)
    assert files(tmp_path) == undisturbed


@pytest.mark.slow
def test_killed_on_dask(specification, undisturbed, tmp_path):
    """The study's own process, its cluster with it; then another executor goes on."""
    folder = tmp_path / "study"
    process = start(specification, folder, "--dask", "local:2")
    wait_for(lambda: finished(folder) >= 3, process)
    kill(process)
    assert finished(folder) < PARTS
    complete(specification, folder)
    assert files(folder) == undisturbed


def test_the_study_here_has_many_parts(specification):
    assert len(parts.cut(read(specification))) == PARTS
