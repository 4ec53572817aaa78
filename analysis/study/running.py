"""How work in parts is run: in which folder, where, and with which progress bar."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bayes_feasible import _check
from bayes_feasible._interrupt import heeded
from bayes_feasible.analysis.study.store import Store, Task
from bayes_feasible.files.lock import locked_folder
from bayes_feasible.simulation import cluster, pool
from bayes_feasible.simulation.pool import Unfinished

LOCK_PATIENCE = 5.0  # seconds


@contextmanager
def kept_in(out: Any, what: str, name: str = "out") -> Iterator[Path]:
    """The folder of the results, locked for this process; a passing one where none is given."""
    with ExitStack() as held:
        if out is None:
            path = Path(held.enter_context(tempfile.TemporaryDirectory()))
        else:
            path = _check.path(name, out)
            if os.path.lexists(path) and not path.is_dir():
                raise ValueError(f"{name}: expected a folder, {path} is a file")
            path.mkdir(parents=True, exist_ok=True)
        try:
            held.enter_context(locked_folder(path, LOCK_PATIENCE))
        except TimeoutError:
            raise ValueError(f"{path}: another process is working on this {what}") from None
        yield path


@contextmanager
def resumable(store: Store, tasks: Sequence[Task], path: Path) -> Iterator[None]:
    """Within it Ctrl-C and failures say how much is kept, and how to go on."""

    def standing() -> str:
        on_disk = store.keys_on_disk()  # an interruption may come before a new one is noted
        return (
            f"{sum(task.key in on_disk for task in tasks)} of {len(tasks)} parts are finished and "
            f"kept in {path}; run the same command again to resume"
        )

    try:
        with heeded():
            yield
    except KeyboardInterrupt as error:
        raise type(error)(f"interrupted: {standing()}") from error
    except (OSError, Unfinished) as error:
        raise Unfinished(f"{error}: {standing()}") from error


def read_budgets(budgets: Any) -> list[int]:
    """Rising numbers of pulls."""
    try:
        found = [_check.count("budgets", budget) for budget in budgets]
    except TypeError:
        found = []
    if not found or sorted(set(found)) != found:
        raise ValueError(f"budgets: expected rising whole numbers, got {budgets!r}")
    return found


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
