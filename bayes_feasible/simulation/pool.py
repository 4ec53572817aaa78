"""Run tasks: in this process, on local processes, on a Dask cluster, or on a user's executor.

A task is a callable without arguments. `run` yields each task with its result as soon as that is
there, in any order. Results do not depend on where they were computed.
"""

import os
import pickle
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager
from typing import Any

import cloudpickle

from bayes_feasible.simulation.workers import WorkerDied, Workers, among_others

WORTH_PROCESSES = 4_000_000  # rounds: a process takes a second or two to start
ATTEMPTS = 4  # workers that may die of a task before the run gives up
AHEAD = 2  # tasks handed out for each worker
DASK_AHEAD = 64  # and at least so many on a cluster, which may grow when it sees them
PATIENCE = 20  # seconds for a scheduler to answer

Task = Callable[[], Any]
Results = Generator[tuple[Any, Any]]  # each task with its result


class Unfinished(RuntimeError):
    """Work that had to stop; what is finished is kept."""


def run(tasks: Sequence[Task], executor: Any = False) -> Results:
    """Run tasks, and close everything that was started when the caller stops listening.

    Parameters
    ----------
    tasks : sequence of callables without arguments
        Their `str` names them in messages.
    executor : False, int, str or object with `submit`
        This process; so many local processes; a Dask scheduler's address, or "local:N" for N
        processes of a Dask cluster of our own; or the user's executor.

    Yields
    ------
    task, result

    Raises
    ------
    Unfinished
        If workers died again and again of the same task.

    Examples
    --------
    >>> from functools import partial
    >>> [result for task, result in run([partial(pow, 3, 2), partial(pow, 2, 3)])]
    [9, 8]
    """
    if executor is False:
        return run_here(tasks)
    if isinstance(executor, str):
        return run_on_dask(tasks, executor)
    if isinstance(executor, int):
        return run_on_processes(tasks, executor)
    return run_on_executor(tasks, executor)


def choose_executor(tasks: Sequence[Task], rounds: float) -> Any:
    """All cores for work that is worth it and can be sent to another process, or else False."""
    cores = min(os.cpu_count() or 1, len(tasks))
    if rounds < WORTH_PROCESSES or cores <= 1 or among_others():
        return False
    try:
        cloudpickle.dumps(tasks)
    except (pickle.PicklingError, AttributeError, TypeError):  # one holds an open file, say
        return False
    return cores


def run_here(tasks: Sequence[Task]) -> Results:
    """Run one task after the other in this process."""
    for task in tasks:
        yield task, task()


def run_on_executor(tasks: Sequence[Task], executor: Any) -> Results:
    """Run on anything with `submit`, whose futures need no more than `result` and `cancel`."""
    futures = [(task, executor.submit(task)) for task in tasks]
    try:
        for task, future in futures:
            yield task, future.result()
    finally:
        for _, future in futures:
            future.cancel()


def run_on_processes(tasks: Sequence[Task], workers: int) -> Results:
    """Run on local processes; if one dies, its task is run again."""
    waiting = deque(tasks)
    running: dict[Future[Any], Task] = {}
    deaths: Counter[int] = Counter()
    with closing(Workers(workers)) as processes:
        while waiting or running:
            while waiting and len(running) < AHEAD * workers:
                task = waiting.popleft()
                running[processes.submit(task)] = task
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                try:
                    result = future.result()
                except WorkerDied as error:
                    deaths[id(task)] += 1
                    if deaths[id(task)] == ATTEMPTS:
                        raise Unfinished(
                            f"{task}: {ATTEMPTS} worker processes died of it; the system "
                            f"may have run out of memory ({error})"
                        ) from error
                    waiting.appendleft(task)
                else:
                    yield task, result


def run_on_dask(tasks: Sequence[Task], address: str) -> Results:
    """Run on a Dask cluster, which gives the work of a dead worker to another."""
    from distributed import as_completed

    with dask_client(address) as client:
        waiting = deque(tasks)
        running: dict[str, tuple[Any, Any]] = {}
        completed = as_completed(loop=client.loop)
        try:
            while waiting or running:
                ahead = max(DASK_AHEAD, AHEAD * sum(client.nthreads().values()))
                while waiting and len(running) < ahead:
                    task = waiting.popleft()
                    future = client.submit(task, retries=ATTEMPTS, pure=False)
                    running[future.key] = future, task
                    completed.add(future)
                future = next(completed)
                _, task = running.pop(future.key)
                yield task, _dask_result(future, task)
        finally:
            client.cancel([future for future, _ in running.values()])


def _dask_result(future: Any, task: Task) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise Unfinished(f"{task}: the Dask workers that took it died ({error})") from error
    finally:
        future.release()


@contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """A client of the scheduler at this address, or of a local cluster ("local:N")."""
    import logging

    from distributed import Client, LocalCluster

    workers = local_workers(address)
    if workers is None:
        try:
            client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:  # nobody there, or no address
            raise ValueError(f"dask: no scheduler answers at {address!r} ({error})") from error
        with client:
            yield client
        return
    # Rules hold the interpreter while they run: one thread a process.
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.ERROR}
    with (
        LocalCluster(n_workers=workers, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def local_workers(address: str) -> int | None:
    """N for "local:N", None for any other address.

    >>> local_workers("local:4"), local_workers("tcp://10.0.0.1:8786")
    (4, None)
    """
    if not isinstance(address, str) or not address:
        raise ValueError(f"dask: expected an address or 'local:N', got {address!r}")
    kind, _, number = address.partition(":")
    if kind != "local":
        return None
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"dask: expected 'local:N' with a number of workers, got {address!r}")
    return int(number)


def check_dask(address: str) -> None:
    """Refuse a bad address, or Dask where it is not installed, before any work."""
    from importlib.util import find_spec

    local_workers(address)
    if find_spec("distributed") is None:
        raise ValueError("dask: it is not installed; pip install 'bayes_feasible[dask]'")
