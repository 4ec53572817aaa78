"""Run tasks on a Dask cluster, on those of its workers that have this version of the package.

Whatever goes wrong with the cluster ends the run with `Unfinished`, in one sentence: what is
finished is with the caller already.
"""

import asyncio
import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import bayes_feasible
from bayes_feasible.simulation.pool import ATTEMPTS, Results, Task, Unfinished

AHEAD = 2  # tasks handed out for each thread of a worker
LEAST_AHEAD = 64  # and at least so many, as a cluster may grow when it sees them
PATIENCE = 20.0  # seconds for a scheduler, or a worker, to answer
WORKER_PATIENCE = 60.0  # seconds for a fit worker to come
LOOK_EVERY = 1.0  # seconds, at who is there
TELL_AFTER = 3.0  # seconds of waiting


def run_on_dask(tasks: Sequence[Task], address: str, show: bool = False) -> Results:
    """Run tasks on the cluster of a scheduler, or on one of our own.

    Parameters
    ----------
    tasks : sequence of callables without arguments
    address : str
        Of the scheduler, or "local:N" for N processes on this machine.
    show : bool
        Whether to say on the standard error what it waits for.

    Yields
    ------
    task, result

    Raises
    ------
    ValueError
        If no scheduler answers there.
    Unfinished
        If no worker can do the work, or workers die of it, or the scheduler is gone.
    """
    from distributed.comm import CommClosedError

    with _quiet(), dask_client(address) as client:
        try:
            yield from _run(tasks, client, _Crew(client, address, show))
        except (CancelledError, CommClosedError, TimeoutError):
            raise Unfinished(f"dask: the scheduler at {address} is gone") from None


def _run(tasks: Sequence[Task], client: Any, crew: "_Crew") -> Results:
    from distributed import as_completed

    waiting = deque(tasks)
    running: dict[str, tuple[Any, Task, frozenset[str]]] = {}
    failed: Counter[int] = Counter()
    completed = as_completed(loop=client.loop)
    try:
        while waiting or running:
            crew.look()
            for key, (future, task, asked) in list(running.items()):
                if asked and not asked & crew.fit:  # all who might have taken it are gone
                    del running[key]
                    client.cancel([future])
                    waiting.appendleft(task)
            while waiting and len(running) < crew.ahead:
                task, asked = waiting.popleft(), crew.fit if crew.unfit else frozenset()
                future = client.submit(task, pure=False, workers=sorted(asked) or None)
                running[future.key] = future, task, asked
                completed.add(future)
            for future in _ready(completed, LOOK_EVERY):
                if future.key not in running:
                    continue
                _, task, _ = running.pop(future.key)
                try:
                    result = future.result()
                except Exception as error:
                    failed[id(task)] += 1
                    _judge(error, task, crew, failed[id(task)])
                    waiting.appendleft(task)
                else:
                    yield task, result
                finally:
                    future.release()
    finally:
        if client.status == "running":
            client.cancel([future for future, _, _ in running.values()])


def _judge(error: Exception, task: Task, crew: "_Crew", times: int) -> None:
    """Raise what ends the run; not what was the fault of a worker that has just joined."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        raise Unfinished(f"{task}: the Dask workers that took it died ({error})") from None
    if isinstance(error, CancelledError):
        raise error
    crew.look(now=True)
    if not crew.unfit or times > ATTEMPTS:
        raise error


def _ready(completed: Any, seconds: float) -> list[Any]:
    """Futures that are done, after waiting for the first no longer than that."""
    end = time.monotonic() + seconds
    while completed.queue.empty():
        if time.monotonic() >= end:
            return []
        time.sleep(0.005)
    return list(completed.next_batch(block=False))


class _Crew:
    """The workers of a cluster: who is fit to do the work, and who is not, and why."""

    def __init__(self, client: Any, address: str, show: bool) -> None:
        self.client, self.address, self.show = client, address, show
        self.fit: frozenset[str] = frozenset()
        self.unfit: dict[str, str] = {}
        self.ahead = 0
        self._looked = -LOOK_EVERY

    def look(self, now: bool = False) -> None:
        """See who is there; wait for a worker that is fit, and give up when none comes."""
        if not now and time.monotonic() - self._looked < LOOK_EVERY:
            return
        began, told = time.monotonic(), False
        while not self._see():
            waited = time.monotonic() - began
            if waited > WORKER_PATIENCE:
                raise Unfinished(f"dask: no worker at {self.address} can do the work: {self.why}")
            if self.show and waited > TELL_AFTER and not told:
                told = True
                print(f"waiting for a worker at {self.address}: {self.why}", file=sys.stderr)
            time.sleep(min(LOOK_EVERY, 0.2))
        self._looked = time.monotonic()

    @property
    def why(self) -> str:
        """Why nobody can do the work."""
        if not self.unfit:
            return "there is none"
        return "; ".join(f"{worker} {why}" for worker, why in list(self.unfit.items())[:3])

    def _see(self) -> bool:
        """Look once; whether somebody is fit."""
        if self.client.status != "running":
            raise CancelledError("connection lost")
        threads = self.client.nthreads()
        new = [each for each in threads if each not in self.fit and each not in self.unfit]
        answers = dict(zip(new, self.client.sync(self._ask, new) if new else (), strict=True))
        self.fit = frozenset(w for w in threads if w in self.fit or not answers.get(w, "unfit"))
        known = self.unfit | answers
        self.unfit = {w: known[w] for w in threads if known.get(w)}
        own = sum(number for worker, number in threads.items() if worker in self.fit)
        self.ahead = max(LEAST_AHEAD, AHEAD * own)
        return bool(self.fit)

    async def _ask(self, workers: Sequence[str]) -> list[str]:
        """Why each worker is not fit; "" if it is."""
        return await asyncio.gather(*map(self._ask_one, workers))

    async def _ask_one(self, worker: str) -> str:
        options = {"workers": [worker], "on_error": "return", "asynchronous": True}
        try:
            # A function that every Python has: a worker without the package can run it.
            asked = self.client.run(version, "bayes_feasible", **options)
            found = (await asyncio.wait_for(asked, PATIENCE)).get(worker)
        except Exception as error:
            return f"does not answer ({error or type(error).__name__})"
        if isinstance(found, PackageNotFoundError):
            return "does not have bayes_feasible"
        if found != bayes_feasible.__version__:
            return f"has bayes_feasible {found}, here it is {bayes_feasible.__version__}"
        return ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Have distributed keep its tracebacks: what they mean is told in a sentence."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    loggers += [
        logging.getLogger(name)
        for name in list(logging.root.manager.loggerDict)
        if name.startswith("distributed.")
    ]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """A client of the scheduler at this address, or of a local cluster ("local:N")."""
    from distributed import Client, LocalCluster

    workers = local_workers(address)
    if workers is None:
        try:
            client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:  # nobody there, no address, no key
            raise ValueError(f"dask: no scheduler answers at {address!r} ({error})") from None
        try:
            yield client
        finally:
            client.close(timeout=2)  # which a scheduler that is gone would use up
        return
    # Rules hold the interpreter while they run: one thread a process.
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    options |= {"silence_logs": logging.CRITICAL}
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
