"""Local processes that compute: started anew, never forked, and gone when this process is.

A forked process inherits the locks of threads that it does not have, and may wait for them for
ever. A process that `multiprocessing` starts anew runs the user's script once more. These do
neither: each is a new Python that imports what its tasks need, and what a script or notebook has
defined is sent with the task. (The pools of loky do as much, but those processes outlive a parent
that is killed.)
"""

import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import cloudpickle

SERVE = "from bayes_feasible.simulation.workers import serve; serve()"
START = "import sys; sys.path[:] = {path!r}; " + SERVE


_serving = False  # whether this is such a process


class WorkerDied(RuntimeError):
    """The process of a task has ended without an answer."""


class Workers:
    """Processes that are given tasks; one that dies is replaced.

    Parameters
    ----------
    number : int
        They start when they are needed, so there are never more than tasks.
    """

    def __init__(self, number: int) -> None:
        self._threads = ThreadPoolExecutor(number)  # each drives a process
        self._own = threading.local()
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Have a task computed.

        Returns
        -------
        Future
            Its exception is the task's, or `WorkerDied`.
        """
        return self._threads.submit(self._compute, cloudpickle.dumps(task))

    def close(self) -> None:
        """End the processes at once: they write nothing, so nothing is left half done."""
        with self._lock:
            self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        self._threads.shutdown()
        for process in self._processes:
            process.wait()
            _close_pipes(process)

    def _compute(self, task: bytes) -> Any:
        """In a thread: have its process compute a task."""
        process = getattr(self._own, "process", None) or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            succeeded, answer = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._own.process = None
            process.kill()
            raise WorkerDied(f"a worker process ended with exit code {process.wait()}") from error
        if not succeeded:
            raise answer
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        alone: dict[str, Any] = {"process_group": 0}  # Ctrl-C in a terminal does not reach it
        if os.name == "nt":
            alone = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        with self._lock:
            if self._closed:
                raise WorkerDied("the workers are closed")
            process = self._own.process = subprocess.Popen(
                [sys.executable, "-c", START.format(path=sys.path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, **alone,
            )  # fmt: skip
            self._processes.add(process)
        return process


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # a task that it did not live to read
            pipe.close()


def among_others() -> bool:
    """Whether this is a worker process: the other cores have work already."""
    return _serving


def serve() -> None:
    """In a worker process: compute one task after the other, until the other side is gone."""
    global _serving
    _serving = True
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints is no answer
    sys.stdout = sys.stderr  # which does not keep lines back
    tasks: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(tasks,), daemon=True).start()
    while True:
        answers.write(_answer(tasks.get()))
        answers.flush()


def _receive(tasks: SimpleQueue[bytes]) -> None:
    """Take tasks, and end the process when there is nobody left to send one."""
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(0)


def _answer(task: bytes) -> bytes:
    try:
        return cloudpickle.dumps((True, pickle.loads(task)()))
    except Exception as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        try:
            return cloudpickle.dumps((False, error))
        except Exception:  # an error that cannot be sent
            return cloudpickle.dumps((False, RuntimeError(traceback.format_exc())))
