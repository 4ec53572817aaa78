"""Local processes that compute: what is sent, what comes back, and what becomes of them."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial

import pytest

from bayes_feasible.simulation import workers as _workers
from bayes_feasible.simulation.workers import WorkerDied, Workers

# Without a guard: a process that ran it again would start processes of its own.
SCRIPT = """
import sys
from contextlib import closing
from bayes_feasible.simulation.workers import Workers

print("begun")

class Mine:
    def __init__(self, value):
        self.value = value

def twice(mine):
    print("no answer")
    return Mine(2 * mine.value)

with closing(Workers(2)) as workers:
    found = [workers.submit(lambda i=i: twice(Mine(i))) for i in range(5)]
    print([future.result().value for future in found])
"""


@pytest.fixture
def processes(monkeypatch):
    """The processes that were started, all of which have ended at the end."""
    made, popen = [], subprocess.Popen
    monkeypatch.setattr(
        _workers.subprocess, "Popen", lambda *a, **k: made.append(popen(*a, **k)) or made[-1]
    )
    yield made
    assert made
    assert all(process.returncode is not None for process in made)


def test_tasks_are_computed_elsewhere(processes):
    with closing(Workers(2)) as workers:
        found = [workers.submit(os.getpid) for _ in range(8)]
        pids = {future.result() for future in found}
    assert pids <= {process.pid for process in processes}
    assert 1 <= len(processes) <= 2


def test_one_that_dies_is_replaced(processes):
    with closing(Workers(1)) as workers:
        assert workers.submit(partial(pow, 3, 2)).result() == 9
        died = workers.submit(partial(os._exit, 7))
        with pytest.raises(WorkerDied, match="ended with exit code 7"):
            died.result()
        assert workers.submit(partial(pow, 3, 3)).result() == 27
    assert len(processes) == 2


def test_a_mistake_is_raised_and_says_where(processes):
    with closing(Workers(1)) as workers:
        wrong = workers.submit(partial(divmod, 1, 0))
        with pytest.raises(ZeroDivisionError) as found:
            wrong.result()
        assert "In a worker process:\nTraceback" in found.value.__notes__[0]
        assert workers.submit(partial(pow, 2, 3)).result() == 8  # the process goes on
    assert len(processes) == 1


def fail_strangely():
    error = ValueError("strange")
    error.lock = threading.Lock()
    raise error


def test_a_mistake_that_cannot_be_sent(processes):
    with closing(Workers(1)) as workers:
        for task in (fail_strangely, threading.Lock):  # neither can what this one returns
            with pytest.raises((RuntimeError, TypeError), match=r"strange|lock"):
                workers.submit(task).result()


def test_a_task_that_cannot_be_sent():
    with closing(Workers(1)) as workers, pytest.raises(TypeError, match="lock"):
        workers.submit(partial(print, threading.Lock()))


def test_closed_while_they_work(processes):
    with closing(Workers(2)) as workers:
        found = [workers.submit(signal.pause) for _ in range(5)]
        wait_until(lambda: len(processes) == 2)
    assert all(future.cancelled() or future.exception() is not None for future in found)


def test_ctrl_c_in_a_terminal_does_not_reach_them(processes):
    with closing(Workers(1)) as workers:
        assert workers.submit(os.getpgrp).result() != os.getpgrp()


@pytest.mark.parametrize("how", ["file", "stdin", "-c"])
def test_the_script_is_not_run_again(tmp_path, how):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    arguments = {"file": [str(path)], "stdin": ["-"], "-c": ["-c", SCRIPT]}[how]
    done = subprocess.run(
        [sys.executable, *arguments], input=SCRIPT if how == "stdin" else None,
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "begun\n[0, 2, 4, 6, 8]\n"
    assert done.stderr.count("no answer") == 5


def test_they_end_with_their_parent():
    """Killed without a chance to tell, while one of them computes."""
    code = """
import signal, time
from functools import partial
from bayes_feasible.simulation.workers import Workers
workers = Workers(2)
pids = [workers.submit(__import__("os").getpid).result()]
workers.submit(partial(time.sleep, 600))
print(pids[0], flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_until(partial(gone, pid))


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
