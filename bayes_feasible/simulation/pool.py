"""Run tasks: in this process, on local processes, or on a user's executor.

A task is a callable without arguments. `run` yields each task with its result as soon as that is
there, in any order. Results do not depend on where they were computed.
"""

import os
import pickle
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from typing import Any

import cloudpickle

from bayes_feasible.simulation.workers import WorkerDied, Workers, among_others

WORTH_PROCESSES = 4_000_000  # rounds: a process takes a second or two to start
ATTEMPTS = 4  # workers that may die of a task before the run gives up
AHEAD = 2  # tasks handed out for each worker

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
    executor : False, int, callable or object with `submit`
        This process; so many local processes; what runs the tasks itself, as
        `cluster.run_on_dask` does; or the user's executor.

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
    if callable(executor):
        return executor(tasks)
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
