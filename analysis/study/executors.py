"""Where the parts of a study are computed: here, on local processes, or on a Dask cluster.

Each executor takes the work and yields each part's result as soon as it is there, in any order.
Results do not depend on where they were computed.
"""

from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager
from typing import Any

from bayes_feasible.analysis.study.store import Task
from bayes_feasible.simulation.workers import WorkerDied, Workers

ATTEMPTS = 4  # workers that may die of a part before the study gives up
AHEAD = 2  # parts handed out for each worker
DASK_AHEAD = 64  # and at least so many on a cluster, which may grow when it sees them

PATIENCE = 20  # seconds for a scheduler to answer

Result = tuple[Any, Any]  # a task and what it gave


class Unfinished(RuntimeError):
    """A study that had to stop; what is finished is kept."""


def here(work: Sequence[Task]) -> Generator[Result]:
    """Compute one part after the other in this process."""
    for each in work:
        yield each, each()


def on_processes(work: Sequence[Task], workers: int) -> Generator[Result]:
    """Compute on local processes; if one dies, its part is computed again.

    Parameters
    ----------
    work : sequence of Task
    workers : int
    """
    waiting = deque(work)
    running: dict[Future[Any], Task] = {}
    deaths: Counter[str] = Counter()
    with closing(Workers(workers)) as processes:
        while waiting or running:
            while waiting and len(running) < AHEAD * workers:
                each = waiting.popleft()
                running[processes.submit(each)] = each
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                each = running.pop(future)
                try:
                    result = future.result()
                except WorkerDied as error:
                    deaths[each.key] += 1
                    if deaths[each.key] == ATTEMPTS:
                        raise Unfinished(
                            f"{each}: {ATTEMPTS} worker processes died of it; the system "
                            f"may have run out of memory ({error})"
                        ) from error
                    waiting.appendleft(each)
                else:
                    yield each, result


def on_dask(work: Sequence[Task], address: str) -> Generator[Result]:
    """Compute on a Dask cluster, which gives the work of a dead worker to another.

    Parameters
    ----------
    work : sequence of Task
    address : str
        Of a scheduler, or "local:N" for N processes of a cluster of our own.
    """
    from distributed import as_completed

    with dask_client(address) as client:
        waiting = deque(work)
        running: dict[str, tuple[Any, Task]] = {}
        completed = as_completed(loop=client.loop)
        try:
            while waiting or running:
                ahead = max(DASK_AHEAD, AHEAD * sum(client.nthreads().values()))
                while waiting and len(running) < ahead:
                    each = waiting.popleft()
                    future = client.submit(each, retries=ATTEMPTS, pure=False)
                    running[future.key] = future, each
                    completed.add(future)
                future = next(completed)
                _, each = running.pop(future.key)
                yield each, _result(future, each)
        finally:
            client.cancel([future for future, _ in running.values()])


def _result(future: Any, part: Task) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise Unfinished(f"{part}: the Dask workers that took it died ({error})") from error
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
