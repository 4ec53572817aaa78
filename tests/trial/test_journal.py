"""The append-only file: nothing acknowledged is lost, nothing damaged goes unnoticed."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import pytest

from bayes_feasible.files import lock as _lock
from bayes_feasible.trial import journal
from bayes_feasible.trial.journal import Journal

KIND = "test"


def written(path, number=4, colour="grün"):
    """The lines of a new journal."""
    made = Journal.create(path, KIND, {"colour": colour})
    for i in range(2, number + 1):
        with made.writing() as append:
            append({"event": "tell", "reward": 0.1 * i, "text": "ä" * i})
    return path.read_bytes().splitlines(keepends=True)


def append_to(path, event):
    with Journal(path, KIND).writing() as append:
        return append(event)


def events(path):
    """The events of a file, read by somebody who knows nothing of it yet."""
    fresh = Journal(path, KIND)
    fresh.read()
    return fresh.events


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.journal"


def test_every_line_is_json_and_comes_back_as_it_was_written(path):
    lines = written(path)
    assert [json.loads(line) for line in lines] == events(path)
    assert [event["n"] for event in events(path)] == [1, 2, 3, 4]
    assert events(path)[0]["colour"] == "grün"
    assert [event["reward"] for event in events(path)[1:]] == [0.1 * i for i in (2, 3, 4)]


def test_an_event_is_on_the_disk_before_append_returns(path, monkeypatch):
    written(path)
    synced = []

    def fsync(descriptor):
        synced.append(path.stat().st_size)

    monkeypatch.setattr(journal.os, "fsync", fsync)
    with Journal(path, KIND).writing() as append:
        append({"event": "tell"})
        assert synced == [path.stat().st_size]


@pytest.mark.parametrize("number", [1, 2, 4])
def test_any_changed_byte_is_found_and_its_line_named(path, number):
    lines = written(path)
    for i in range(len(lines[number - 1]) - 1):
        changed = bytearray(lines[number - 1])
        changed[i] ^= 1
        if changed[i] == ord("\n"):
            continue
        path.write_bytes(b"".join([*lines[: number - 1], bytes(changed), *lines[number:]]))
        with pytest.raises(ValueError, match=rf"line {number} |expected a test|version"):
            events(path)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 2, 3], "line 2 is missing"),
        ([0, 3], "lines 2 to 3 are missing"),
        ([0, 1, 1, 2, 3], "line 3 is out of place: it was written as line 2"),
        ([0, 2, 1, 3], "line 2 is missing"),
        ([1, 2, 3], "line 1"),
    ],
)
def test_a_line_that_is_missing_or_moved_is_named(path, order, message):
    lines = written(path)
    path.write_bytes(b"".join(lines[i] for i in order))
    with pytest.raises(ValueError, match=message):
        events(path)


def test_a_sound_line_of_another_journal_does_not_fit_in(path, tmp_path):
    ours, theirs = written(path), written(tmp_path / "b.journal", colour="blue")
    path.write_bytes(b"".join([*ours[:2], theirs[2], *ours[3:]]))
    with pytest.raises(ValueError, match="line 3 does not follow line 2"):
        events(path)


def test_a_last_line_cut_short_anywhere_is_dropped_and_repaired(path):
    lines = written(path)
    before = b"".join(lines[:-1])
    for cut in range(1, len(lines[-1]) - 1):
        path.write_bytes(before + lines[-1][:cut])
        with pytest.warns(UserWarning, match="line 4 was cut short and is dropped"):
            assert len(events(path)) == 3
        assert path.stat().st_size == len(before) + cut  # a reader changes nothing
        with pytest.warns(UserWarning, match="line 4 was cut short and is dropped"):
            append_to(path, {"event": "again"})
        assert path.read_bytes().startswith(before + b'{"n": 4, ')
        assert [event["event"] for event in events(path)][2:] == ["tell", "again"]


def test_a_line_that_only_lacks_its_line_break_is_kept(path):
    lines = written(path)
    path.write_bytes(b"".join(lines)[:-1])
    reader = Journal(path, KIND)
    reader.read()
    assert len(reader.events) == 4
    with Journal(path, KIND).writing() as append:
        assert path.read_bytes() == b"".join(lines)
        append({"event": "more"})
    reader.read()
    assert len(reader.events) == 5


def test_zeros_that_a_power_cut_left_in_the_last_line_are_dropped(path):
    lines = written(path)
    last = lines[-1]
    short = b"\0" * 100 + last[100:]  # of the sector before nothing else reached the disk
    for tail in (b"\0" * 300, last[:20] + b"\0" * 4096, b"\0" * 4096 + last[-40:], short):
        path.write_bytes(b"".join(lines[:-1]) + tail)
        with pytest.warns(UserWarning, match="line 4 was cut short"):
            assert len(events(path)) == 3


def test_what_others_append_is_read(path):
    written(path)
    first, second = Journal(path, KIND), Journal(path, KIND)
    for number in range(5, 25, 2):
        with first.writing() as append:
            assert append({"event": "mine"})["n"] == number
        with second.writing() as append:
            assert append({"event": "theirs"})["n"] == number + 1
    first.read()
    assert first.events == events(path)


def test_a_file_that_took_the_place_of_the_first_is_read_from_its_start(path, tmp_path):
    ours = Journal(path, KIND)
    written(path, 6)
    ours.read()
    assert len(ours.events) == 6
    written(tmp_path / "other", 9)
    os.replace(tmp_path / "other", path)
    ours.read()
    assert ours.events == events(path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    ours.read()
    assert len(ours.events) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a test: it has no complete line"),
        (b"\n", "not a test: line 1 does not begin one"),
        (b"[arms]\nlow = 3\n", "line 1 does not begin one"),
        (b"[1, 2]\n", "line 1 does not begin one"),
        (b"[" * 100_000 + b"\n", "line 1 does not begin one"),
        (b'{"format": "cake", "version": 1}\n', "expected a test, this is a cake"),
        (b'{"format": "test", "version": 2}\n', "version 2; this package reads version 1"),
        (b'{"format": "test", "version": 1}\n', "line 1 was changed or damaged"),
        (b"\xff\xfe\x00\n", "line 1 does not begin one"),
    ],
)
def test_other_files_are_told_apart(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        events(path)


def test_what_json_cannot_hold_is_not_written(path):
    lines = written(path)
    with pytest.raises(ValueError, match="JSON"), Journal(path, KIND).writing() as append:
        append({"event": "tell", "reward": float("nan")})
    assert path.read_bytes() == b"".join(lines)


def test_creating_leaves_what_is_there_alone(path, tmp_path):
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="there is such a file already"):
        Journal.create(path, KIND, {})
    assert path.read_text() == "mine"
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Journal.create(tmp_path / "nowhere" / "a", KIND, {})
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Journal.create(path / "a", KIND, {})
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_creating_where_links_are_not_known(path, monkeypatch):
    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    written(path)
    assert len(events(path)) == 4
    with pytest.raises(FileExistsError):
        Journal.create(path, KIND, {})
    assert os.listdir(path.parent) == [path.name]


def test_of_many_who_create_the_same_file_one_succeeds(path):
    outcomes = []

    def create(who):
        try:
            Journal.create(path, KIND, {"who": who})
            outcomes.append(who)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=create, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [events(path)[0]["who"]] == outcomes
    assert os.listdir(path.parent) == [path.name]


def test_a_folder_or_nothing_is_not_a_journal(tmp_path):
    with pytest.raises(OSError, match="this is a folder"):
        events(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        events(tmp_path / "nothing")


FORBIDDEN = """
import fcntl, os, sys
from bayes_feasible.trial.journal import Journal
path, other, kind = sys.argv[1:]
if os.getuid() == 0:
    os.setuid(65534)  # nothing is forbidden to the administrator
reader = Journal(path, kind)
reader.read()
print(len(reader.events))
for attempt in (lambda: reader.writing().__enter__(), lambda: Journal.create(other, kind, {})):
    try:
        attempt()
    except OSError as error:
        print(error)
"""


def test_a_file_that_must_not_be_written_is_read_and_not_written():
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder, "a.journal"), Path(folder, "b.journal")
        lines = written(path)
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", FORBIDDEN, str(path), str(other), KIND],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        Path(folder).chmod(0o755)
        assert done.stdout.splitlines() == [
            "4",
            f"{path}: cannot be written to (Permission denied)",
            f"{other}: could not be written (Permission denied)",
        ]
        assert path.read_bytes() == b"".join(lines)
        assert os.listdir(folder) == [path.name]


def _limited(room):
    """Run in a new process: no file may grow beyond this size, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


@pytest.mark.parametrize("room", [0, 1, 50, 140])
def test_on_a_full_disk_nothing_half_written_stays(path, room):
    lines = written(path)
    size = path.stat().st_size
    code = f"""
from bayes_feasible.trial.journal import Journal
journal = Journal({str(path)!r}, {KIND!r})
with journal.writing() as append:
    try:
        append({{"event": "tell", "text": "x" * 100}})
        print("acknowledged")
    except OSError as error:
        print(error)
    print(len(journal.events))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        preexec_fn=lambda: _limited(size + room),
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        f"{path}: nothing was recorded, for it could not be written (File too large)",
        "4",
    ]
    assert path.read_bytes() == b"".join(lines)


def test_a_disk_that_fails_to_take_the_data_is_no_success(path, monkeypatch):
    lines = written(path)
    real, calls = os.fsync, []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(journal.os, "fsync", fsync)
    ours = Journal(path, KIND)
    with pytest.raises(OSError, match="nothing was recorded"), ours.writing() as append:
        append({"event": "tell"})
    assert path.read_bytes() == b"".join(lines)
    with ours.writing() as append:
        assert append({"event": "tell"})["n"] == 5


def test_an_interrupt_in_the_middle_leaves_nothing(path, monkeypatch):
    lines = written(path)

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(journal.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt), Journal(path, KIND).writing() as append:
        append({"event": "tell"})
    assert path.read_bytes() == b"".join(lines)


def test_whoever_waits_too_long_is_told(path):
    written(path)
    with Journal(path, KIND).writing():
        impatient = Journal(path, KIND, wait=0.2)
        for use in (lambda: impatient.writing().__enter__(), impatient.read):
            begin = time.monotonic()
            with pytest.raises(TimeoutError, match=r"another process is using it.*0.2 s"):
                use()
            assert time.monotonic() - begin >= 0.2
    with Journal(path, KIND)._opened("rb", shared=True):
        Journal(path, KIND, wait=0).read()  # readers do not wait for each other


def test_a_waiting_writer_goes_on_as_soon_as_it_can(path):
    written(path)
    held, done = threading.Event(), []

    def hold():
        with Journal(path, KIND).writing() as append:
            held.set()
            time.sleep(0.2)
            done.append(append({"event": "first"})["n"])

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with Journal(path, KIND).writing() as append:
        done.append(append({"event": "second"})["n"])
    thread.join()
    assert done == [5, 6]


def test_a_file_put_there_while_waiting_is_the_one_written_to(path, tmp_path):
    written(path, 3)
    written(tmp_path / "other", 7)
    held = threading.Event()

    def replace():
        with Journal(path, KIND)._opened("rb", shared=True):
            held.set()
            time.sleep(0.2)
            os.replace(tmp_path / "other", path)

    thread = threading.Thread(target=replace)
    thread.start()
    held.wait()
    with Journal(path, KIND).writing() as append:
        assert append({"event": "tell"})["n"] == 8
    thread.join()
    assert len(events(path)) == 8


@pytest.mark.parametrize("wait", [-1, float("nan")])
def test_a_wait_that_is_none_is_refused(path, wait):
    with pytest.raises(ValueError, match="wait: expected a number of seconds"):
        Journal(path, KIND, wait=wait)


def test_a_file_system_without_locks_is_named(path, monkeypatch):
    import fcntl

    def no_locks(*_):
        raise OSError(37, "No locks available")

    written(path)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match="this file system has no locks"):
        events(path)


def test_the_locks_of_windows(path, monkeypatch):
    """With a stand-in for its module: a lock on one byte far beyond the end of the file."""
    import fcntl

    held = {}

    def locking(descriptor, mode, length):
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        key = (os.fstat(descriptor).st_ino, place)
        if mode == 0:
            assert held.pop(key) == (descriptor, length)
        elif key in held:
            raise PermissionError(13, "Permission denied")
        else:
            held[key] = (descriptor, length)

    windows = types.SimpleNamespace(locking=locking, LK_NBLCK=2, LK_UNLCK=0)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails
    assert written(path)
    with Journal(path, KIND).writing() as append:
        append({"event": "mine"})
        assert len(held) == 1
        with pytest.raises(TimeoutError, match="another process"):
            Journal(path, KIND, wait=0.05).read()
    assert held == {}
    assert len(events(path)) == 5
    assert _lock.BEYOND > 2**30
    assert fcntl is not None
