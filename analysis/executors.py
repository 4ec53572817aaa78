"""Where the parts of a study are computed: here, on local processes, or on a Dask cluster.

Each executor takes the work and yields each part's result as soon as it is there, in any order.
Results do not depend on where they were computed.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any

from bayes_feasible.analysis.parts import Part, Work
from bayes_feasible.simulation import Replicate

ATTEMPTS = 4  # workers that may die before the study gives up
AHEAD = 2  # parts handed out for each worker
DASK_AHEAD = 64  # and at least so many on a cluster, which may grow when it sees them

PATIENCE = 20  # seconds for a scheduler to answer

Result = tuple[Part, list[Replicate]]


class Unfinished(RuntimeError):
    """A study that had to stop; what is finished is kept."""


def came_from(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an error of this kind is what began it.

    Compiled code and HDF5 may turn a Ctrl-C that meets them into an error of their own.
    """
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def heeded_signals() -> Iterator[Callable[[], None]]:
    """A function to call now and then, which raises a Ctrl-C or SIGTERM that got lost.

    What a signal raises may meet a callback of compiled code or of HDF5, where Python ignores it.
    """
    raised: list[BaseException] = []

    def heeding(handler: Callable[..., Any]) -> Callable[..., Any]:
        def heed(*arguments: Any) -> None:
            try:
                handler(*arguments)
            except BaseException as error:
                raised.append(error)
                raise

        return heed

    def check() -> None:
        if raised:
            raise raised[0]

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):  # neither ignored nor left to the system
                before[number] = signal.signal(number, heeding(handler))
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def here(work: Sequence[Work]) -> Generator[Result]:
    """Compute one part after the other in this process."""
    for each in work:
        yield each.part, each()


def on_processes(
    work: Sequence[Work], workers: int, descriptors: Sequence[int] = ()
) -> Generator[Result]:
    """Compute on local processes; if one dies, its parts are computed again.

    Parameters
    ----------
    work : sequence of Work
    workers : int
    descriptors : sequence of int
        Open files that the processes must not keep open, such as a lock.
    """
    waiting = deque(work)
    for _ in range(ATTEMPTS):
        yield from _until_one_dies(waiting, workers, tuple(descriptors))
        if not waiting:
            return
    raise Unfinished(
        f"worker processes died {ATTEMPTS} times, last with {waiting[0].part}; the system may "
        "have run out of memory"
    )


def _until_one_dies(
    waiting: deque[Work], workers: int, descriptors: tuple[int, ...]
) -> Generator[Result]:
    """Empty the queue as far as a pool of processes gets; what was lost is put back."""
    pool = ProcessPoolExecutor(workers, initializer=_begin_worker, initargs=(descriptors,))
    running: dict[Future[Any], Work] = {}
    try:
        broken = False
        while (waiting or running) and not broken:
            while waiting and len(running) < AHEAD * workers:
                running[pool.submit(waiting[0])] = waiting[0]
                waiting.popleft()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                if isinstance(future.exception(), BrokenProcessPool):
                    broken = True
                else:
                    each = running.pop(future)
                    yield each.part, future.result()
    except BrokenProcessPool:  # found on submission
        pass
    finally:
        waiting.extendleft(reversed(running.values()))
        _end(pool)


def _begin_worker(descriptors: tuple[int, ...]) -> None:
    """Leave Ctrl-C to the study's own process, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for descriptor in descriptors:
        with suppress(OSError):  # a process that was not forked never had it
            os.close(descriptor)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End with the study's process, were it killed without a chance to tell."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes at once: they write nothing, so nothing is left half done."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


def on_dask(work: Sequence[Work], address: str) -> Generator[Result]:
    """Compute on a Dask cluster, which gives the work of a dead worker to another.

    Parameters
    ----------
    work : sequence of Work
    address : str
        Of a scheduler, or "local:N" for N processes of a cluster of our own.
    """
    from distributed import as_completed

    with dask_client(address) as client:
        waiting = deque(work)
        running: dict[str, tuple[Any, Work]] = {}
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
                yield each.part, _result(future, each.part)
        finally:
            client.cancel([future for future, _ in running.values()])


def _result(future: Any, part: Part) -> list[Replicate]:
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
        except OSError as error:
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
