"""How work in parts is run: where, and with which progress bar."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from tqdm import tqdm

from bayes_feasible import _check
from bayes_feasible.simulation import cluster, pool


def check_place(workers: int | None, dask: str | None) -> int | None:
    """Refuse what is no number of workers or no cluster; give the number."""
    if dask is not None:
        cluster.check_dask(dask)
        if workers is not None:
            raise ValueError("workers: a Dask cluster has its own; give workers or dask, not both")
    return None if workers is None else _check.count("workers", workers)


def choose_place(
    tasks: Sequence[pool.Task], rounds: float, workers: int | None, dask: str | None, show: bool
) -> Any:
    """Where to compute the tasks, as `pool.run` takes it."""
    if dask is not None:
        return partial(cluster.run_on_dask, address=dask, show=show)
    if workers is None:
        return pool.choose_executor(tasks, rounds)
    return False if workers == 1 else workers


def runs_here(dask: str | None) -> bool:
    """Whether the work is done on this machine, so that what is compiled serves all workers."""
    return dask is None or cluster.local_workers(dask) is not None


def progress_bar(title: str, total: int, unit: str, show: bool, initial: int = 0) -> tqdm:
    """A progress bar with rate and time left; a line now and then where there is no terminal."""
    terminal = sys.stderr.isatty()
    return tqdm(
        total=total, initial=initial, desc=title, unit=f" {unit}s", unit_scale=True,
        disable=not show, delay=2.0 if terminal else 20.0, mininterval=0.1 if terminal else 20.0,
        smoothing=0.05,
    )  # fmt: skip
