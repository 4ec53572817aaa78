"""A trial under several processes at once, and under processes that are killed."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers import replayed

import bayes_feasible as bf
from bayes_feasible.trial import journal
from bayes_feasible.trial.trial import Trial

COMMAND = str(Path(sys.executable).with_name("bayes-feasible"))
PROBLEM = bf.Problem([[1, 0], [0.6, 0.8], [0, 1]], thresholds=[0.5])
PROCESSES = multiprocessing.get_context("forkserver")  # one that is killed takes nobody with it
PROCESSES.set_forkserver_preload(["bayes_feasible.trial.trial", "bayes_feasible.rules.blfaips"])


@pytest.fixture
def path(tmp_path):
    return Trial.new(tmp_path / "a.trial", PROBLEM, "BLFAIPS", seed=6).path


def work(path, first, number, acknowledged, ready=None):
    """Ask and tell; the reward says who told what. Report each step once it is recorded."""
    trial = Trial(path, wait=60)
    replayed(trial)  # what takes long the first time
    if ready is not None:
        ready.wait()
    for i in range(first, first + number):
        arm = trial.ask()
        acknowledged.send_bytes(f"ask {arm}".encode())
        trial.tell(arm, float(i), [float(arm)])
        acknowledged.send_bytes(f"tell {i}".encode())


def start(path, first, number, ready=None):
    """A process at work, and the end of a pipe on which it reports."""
    reports, ours = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=work, args=(path, first, number, ours, ready))
    process.start()
    ours.close()
    return process, reports


def received(reports):
    """All that was reported before the pipe was closed."""
    lines = []
    try:
        while True:
            lines.append(reports.recv_bytes().decode())
    except EOFError:
        return lines


def replays(path):
    """Open a trial; every arm it asked for must be the one its rule asks for again."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trial = Trial(path)
        rule = replayed(trial)
    return trial, rule


def test_processes_that_work_at_the_same_time(path):
    ready = PROCESSES.Barrier(4)
    workers = [start(path, 1000 * i, 15, ready) for i in range(4)]
    told = [line for process, reports in workers for line in received(reports)]
    for process, _ in workers:
        process.join()
    assert [process.exitcode for process, _ in workers] == [0] * 4
    trial, _ = replays(path)
    assert len(trial.events) == 1 + 2 * 60
    rewards = Counter(trial.history.rewards.tolist())
    assert rewards == Counter(float(1000 * i + j) for i in range(4) for j in range(15))
    assert Counter(told) >= Counter(f"tell {int(reward)}" for reward in rewards)
    assert trial.pending.sum() == 0
    who = trial.history.rewards // 1000
    assert np.count_nonzero(np.diff(who)) > 3  # they took turns: nobody had to wait for the end


def kill_at_random(path, kills, seed):
    """Kill workers at random moments; check after each that what it reported is there."""
    rng = random.Random(seed)
    tells, asks, torn = set(), 0, 0
    for kill in range(kills):
        process, reports = start(path, 10_000 * kill, 10_000)
        reports.poll(60)  # it is at work
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        lines = received(reports)
        tells |= {float(line.split()[1]) for line in lines if line.startswith("tell")}
        asks += sum(line.startswith("ask") for line in lines)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trial = Trial(path)
        torn += len(caught)
        recorded = trial.history.rewards.tolist()
        assert tells <= set(recorded)
        assert len(set(recorded)) == len(recorded)
        # Of each killed process at most one step was recorded and not reported.
        assert len(recorded) <= len(tells) + kill + 1
        asked = sum(event["event"] == "ask" for event in trial.events)
        assert asks <= asked <= asks + kill + 1
    assert len(tells) > kills
    return torn


def as_if_undisturbed(path):
    """The state is that of a rule that asked and was told the same without a break."""
    Trial(path).tell(0, -1.0, [0.0])  # repairs what the last kill may have left
    trial, again = replays(path)
    rule = bf.BLFAIPS(PROBLEM, seed=6)
    for event in trial.events[1:]:
        if event["event"] == "ask":
            assert rule.ask(len(event["arms"])).tolist() == event["arms"]
        else:
            rule.tell(event["arms"], event["rewards"], event["costs"])
    for name, array in rule._arrays().items():
        assert np.array_equal(array, again._arrays()[name]), name
    assert set(os.listdir(Path(path).parent)) <= {Path(path).name, f"{Path(path).name}.replayed"}


@pytest.mark.filterwarnings("ignore:.*was cut short")
def test_nothing_acknowledged_is_lost_when_processes_are_killed(path):
    kill_at_random(path, 5, seed=1)
    as_if_undisturbed(path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*was cut short")
def test_nothing_acknowledged_is_lost_in_many_kills(path):
    kill_at_random(path, 60, seed=2)
    as_if_undisturbed(path)


def killed_in_the_write(path, after):
    """Tell, and be killed after so many bytes of the line have been written."""
    trial = Trial(path)

    def write(stream, at, content):
        stream.seek(at)
        stream.write(content[:after])
        os.kill(os.getpid(), signal.SIGKILL)

    journal._write = write
    trial.tell(0, 7.0, [1.0])


@pytest.mark.parametrize("after", [1, 40, 120, -2, -1, None])
def test_killed_in_the_middle_of_a_line(path, after):
    Trial(path).tell(1, 5.0, [0.0])
    process = PROCESSES.Process(target=killed_in_the_write, args=(path, after))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    whole = after in (-1, None)  # all but the line break, or all
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rewards = Trial(path).history.rewards.tolist()
        Trial(path).tell(2, 9.0, [0.0])
    assert rewards == ([5.0, 7.0] if whole else [5.0])
    assert bool(caught) != whole
    assert replays(path)[0].history.rewards.tolist() == [*rewards, 9.0]


def hold(path, held):
    with Trial(path)._journal.writing():
        held.send_bytes(b"held")
        time.sleep(60)


def test_the_lock_of_a_killed_process_is_free(path):
    reports, ours = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=hold, args=(path, ours))
    process.start()
    assert reports.recv_bytes() == b"held"
    with pytest.raises(TimeoutError, match="another process is using it"):
        Trial(path, wait=0.1)
    process.kill()
    process.join()
    assert Trial(path, wait=1).ask() in (0, 1, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*was cut short")
def test_the_command_itself_is_killed(path):
    """At 30 moments from its start to its end; what it printed is recorded."""
    begin = time.monotonic()
    command = [COMMAND, "trial", "tell", path, "1"]
    assert subprocess.run([*command, "0.5", "0"], capture_output=True).returncode == 0
    usual = time.monotonic() - begin
    rng, told, printed = random.Random(3), [], []
    for i in range(30):
        with subprocess.Popen(
            [*command, str(i + 1), "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            time.sleep(rng.uniform(0.3, 1.1) * usual)
            process.kill()
            if b"Event" in process.stdout.read():
                printed.append(float(i + 1))
        told = Trial(path).history.rewards.tolist()
        assert set(printed) <= set(told)
        assert len(told) == len(set(told))
    as_if_undisturbed(path)
