"""A Ctrl-C is heeded, whatever becomes of the exception it raises."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from functools import partial

import numpy as np
import nutpie
import pytest

from bayes_feasible import cli
from bayes_feasible._interrupt import _raised, heed, heeded, undisturbed
from bayes_feasible.analysis.study import decay
from bayes_feasible.commands import doctor
from bayes_feasible.files.atomic import replaced


@pytest.fixture(autouse=True)
def handlers():
    """They are as before, and nothing is remembered, after every test."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before
    assert _raised == []


def lose_a_ctrl_c():
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def interrupted_in(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def raised_by(*steps):
    """What a block of these steps raises."""
    with pytest.raises(KeyboardInterrupt) as found, heeded():
        deque(step() for step in steps)
    return found.value


def go_on():
    pytest.fail("went on")


def test_one_that_is_not_lost():
    raised_by(partial(signal.raise_signal, signal.SIGINT), go_on)


def test_one_that_is_caught_is_raised_at_the_end():
    reached = []
    raised_by(lose_a_ctrl_c, partial(reached.append, True))
    assert reached


def test_one_that_is_caught_is_raised_where_it_is_heeded():
    raised_by(heed, lose_a_ctrl_c, heed, go_on)


def test_one_that_becomes_another_error():
    def fail():
        raise SystemError("a result with an exception set")

    assert isinstance(raised_by(lose_a_ctrl_c, fail).__cause__, SystemError)


def test_another_error_is_none():
    with pytest.raises(SystemError), heeded():
        raise SystemError("broken")


def test_within_another():
    def pass_by():
        with heeded():
            heed()

    raised_by(partial(raised_by, lose_a_ctrl_c), heed, pass_by, lose_a_ctrl_c)


def test_a_later_block_is_another():
    raised_by(lose_a_ctrl_c)
    with heeded():
        heed()
    lose_a_ctrl_c()  # outside
    with heeded():
        heed()


def test_a_sigterm_that_raises_something():
    class TerminatedError(Exception):
        pass

    def stop(*_):
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(TerminatedError), heeded(), contextlib.suppress(TerminatedError):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_go_on():
    found = []

    def work():
        with heeded():
            heed()
            found.append("done")

    thread = threading.Thread(target=work)
    raised_by(lose_a_ctrl_c, thread.start, thread.join)
    assert found == ["done"]


class Callback:
    """As the callbacks of weak references: Python ignores what they raise, and says so."""

    def __init__(self, error=None):
        self.error = error

    def __del__(self):
        if self.error is not None:
            raise self.error
        signal.raise_signal(signal.SIGINT)


def test_in_a_callback_where_python_ignores_it(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: told.append(found.exc_type))
    with heeded():
        Callback(ValueError("another"))
    raised_by(Callback)
    assert told == [ValueError]
    with contextlib.suppress(KeyboardInterrupt):
        Callback()  # what happens without: Python tells of it and goes on
    assert told == [ValueError, KeyboardInterrupt]


def test_no_file_gets_its_name_afterwards(tmp_path):
    def write():
        with replaced(tmp_path / "draws") as temporary:
            temporary.write_text("a few draws")
            lose_a_ctrl_c()

    raised_by(write)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [None, ImportError("a module that was cut short")])
def test_any_command_ends_as_interrupted(monkeypatch, capsys, error):
    def run(_):
        lose_a_ctrl_c()
        if error is not None:
            raise error
        return 0

    monkeypatch.setattr(doctor, "run", run)
    assert cli.main(["doctor"]) == cli.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


CALLS = """
import contextlib, ctypes, signal, sys
import numpy as np
import bayes_feasible as bf
from bayes_feasible import _at_once
from bayes_feasible.rules import base as guarded
from bayes_feasible.simulation.world import Environment

_at_once.SHORT = 0  # nothing is interpreted
instance = bf.instances.end_of_optimism()
arms, thresholds = instance.problem.arms, instance.problem.thresholds
bounded = bf.Problem(arms, thresholds, parameter_radius=2.0)
rule = bf.LinearThompson(instance.problem, seed=0, recommendation="draw")
world = Environment(instance, *np.random.SeedSequence(0).spawn(2))
wrong, wrong_within = bf.Alternative(instance.problem, 0), bf.Alternative(bounded, 0)
calls = {
    "ask": rule.ask,
    "play": lambda: world.play(rule, 10),
    "recommend": rule._choice,
    "sample": lambda: wrong.sample(bf.Posterior(instance.problem), 10),
    "sample, bounded": lambda: wrong_within.sample(bf.Posterior(bounded), 10),
    "log_probability, bounded": lambda: wrong_within.log_probability(bf.Posterior(bounded)),
}
cast = ctypes.cast  # which Numba calls to hand over a random generator

def interrupted(*arguments):
    ctypes.cast = cast
    signal.raise_signal(signal.SIGINT)
    return cast(*arguments)

if "unguarded" in sys.argv:
    guarded.undisturbed = contextlib.nullcontext
for name, call in calls.items():
    call()
    ctypes.cast = interrupted
    try:
        call()
        print(name, "goes on", flush=True)
    except KeyboardInterrupt:
        print(name, "stops", flush=True)
"""


def test_while_numba_takes_over_a_generator():
    command = [sys.executable, "-c", CALLS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert len(told) == 6
    assert all(line.endswith(" stops") for line in told)
    done = subprocess.run([*command, "unguarded"], capture_output=True, text=True)
    assert done.returncode < 0  # what happens without: a crash, at the first of the calls
    assert done.stdout == ""


def wait_until(last_step):
    with undisturbed():
        signal.raise_signal(signal.SIGINT)
        last_step()


def test_one_that_has_to_wait():
    def fail():
        raise SystemError("broken")

    reached = []
    with pytest.raises(KeyboardInterrupt):
        wait_until(partial(reached.append, True))
    assert reached
    with pytest.raises(KeyboardInterrupt) as found:
        wait_until(fail)
    assert isinstance(found.value.__context__, SystemError)
    raised_by(partial(wait_until, partial(reached.append, True)), go_on)
    assert len(reached) == 2


TIME = np.array([1000, 2000, 5000, 10_000])
ERRORS = -0.01 * TIME - np.random.default_rng(0).normal(size=(4, 4)).cumsum(1)


def test_a_fit_that_was_cut_short_is_none(monkeypatch):
    class Compiled:
        def with_data(self, **_):
            return self

    def cut_short(*_, **__):
        lose_a_ctrl_c()
        return "a few draws"

    monkeypatch.setattr(decay, "_compiled", Compiled)
    monkeypatch.setattr(nutpie, "sample", cut_short)
    with pytest.raises(KeyboardInterrupt):
        decay.RateRegression().fit(TIME, ERRORS, 0.01)


@pytest.mark.slow
def test_nutpie_cuts_its_draws_short():
    """What the fit is guarded from, in nutpie itself, and then the fit."""
    decay._compiled()
    fitter = decay.RateRegression(draws=3_000_000, chains=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decay, "heeded", contextlib.nullcontext)
        interrupted_in(1.0)
        tree = fitter.fit(TIME, ERRORS, 0.01)
    assert tree["posterior"].sizes["draw"] < 3_000_000
    began = time.monotonic()
    interrupted_in(1.0)
    with pytest.raises(KeyboardInterrupt):
        fitter.fit(TIME, ERRORS, 0.01)
    assert time.monotonic() - began < 30
