"""Studies on Dask: the same bytes, and one clear sentence where the cluster fails."""

import contextlib
import subprocess
import sys
import time

import pytest
from helpers import files

from bayes_feasible.analysis.study import study
from bayes_feasible.simulation import cluster
from bayes_feasible.simulation.pool import Unfinished

SPECIFICATION = {
    "instance": {"name": "end_of_optimism", "alpha": 0.3},
    "rules": {f"Uniform {i}": {"kind": "Uniform"} for i in range(6)},
    "horizon": 300,
    "replicates": 2,
}
SCHEDULER = """
import asyncio
from distributed import Scheduler
async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=None) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()
asyncio.run(main())
"""
# A worker whose Python has another version of the package, or none.
WORKER = """
import asyncio, importlib.metadata, sys
address, kind = sys.argv[1:]
found = importlib.metadata.version
def version(name):
    if name != "bayes_feasible" or kind == "fit":
        return found(name)
    if kind == "none":
        raise importlib.metadata.PackageNotFoundError(name)
    return kind
version.__module__ = "importlib.metadata"
importlib.metadata.version = version
from distributed import Worker
async def main():
    async with Worker(address, nthreads=1) as worker:
        print(worker.address, flush=True)
        await worker.finished()
asyncio.run(main())
"""


@pytest.fixture
def start():
    """Start a Python of its own; gives it and the address that it prints."""
    with contextlib.ExitStack() as held:

        def begin(code, *words):
            process = subprocess.Popen(
                [sys.executable, "-c", code, *words],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            held.callback(lambda: (process.kill(), process.communicate()))
            return process, process.stdout.readline().strip()

        yield begin


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "study"
    run(folder, workers=1)
    return files(folder)


def run(folder, **options):
    return study.study(SPECIFICATION, folder, only_results=True, **{"progress": False} | options)


def test_unfit_workers_are_left_out(tmp_path, undisturbed, start, monkeypatch, capsys):
    """Alone they end the study, which says why; beside a fit one they do no harm."""
    monkeypatch.setattr(cluster, "WORKER_PATIENCE", 1.0)
    monkeypatch.setattr(cluster, "TELL_AFTER", 0.0)
    _, address = start(SCHEDULER)
    (_, old), (_, bare) = start(WORKER, address, "0.0.9"), start(WORKER, address, "none")
    with pytest.raises(Unfinished, match=r"dask: no worker at .*: 0 of 6 parts") as raised:
        run(tmp_path, dask=address, progress=True)
    for reason in (f"{old} has bayes_feasible 0.0.9", f"{bare} does not have bayes_feasible"):
        assert reason in str(raised.value)
    assert f"waiting for a worker at {address}: " in capsys.readouterr().err
    start(WORKER, address, "fit")
    run(tmp_path, dask=address)
    assert files(tmp_path) == undisturbed


def test_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    with pytest.raises(ValueError, match="dask: no scheduler answers at 'tcp:/"):
        run(tmp_path, dask="tcp://127.0.0.1:9")


@pytest.mark.slow
def test_a_cluster_without_workers_until_one_comes(tmp_path, undisturbed, start, monkeypatch):
    monkeypatch.setattr(cluster, "WORKER_PATIENCE", 1.0)
    _, address = start(SCHEDULER)
    with pytest.raises(Unfinished, match="can do the work: there is none"):
        run(tmp_path, dask=address)
    start(WORKER, address, "fit")
    run(tmp_path, dask=address)
    assert files(tmp_path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["scheduler", "worker"])
def test_what_is_lost_half_way(tmp_path, undisturbed, start, monkeypatch, lost, caplog):
    """Finished parts are kept, and the same call on another cluster goes on."""
    monkeypatch.setattr(cluster, "WORKER_PATIENCE", 1.0)
    scheduler, address = start(SCHEDULER)
    worker, _ = start(WORKER, address, "fit")
    run_on_dask = cluster.run_on_dask

    def disturbed(tasks, **options):
        for i, found in enumerate(run_on_dask(tasks, **options)):
            yield found
            if i == 1:
                (scheduler if lost == "scheduler" else worker).kill()
                time.sleep(1)

    message = {"scheduler": "the scheduler at .* is gone", "worker": "there is none"}[lost]
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "run_on_dask", disturbed)
        patch.setattr(cluster, "LEAST_AHEAD", 1)
        patch.setattr(cluster, "AHEAD", 1)
        with pytest.raises(Unfinished, match=f"{message}.* parts are finished and kept"):
            run(tmp_path, dask=address)
    assert not caplog.records
    again = run(tmp_path, dask="local:1")
    assert again.reused >= 2
    assert files(tmp_path) == undisturbed
