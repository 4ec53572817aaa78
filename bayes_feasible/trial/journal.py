"""An append-only file of events, made to survive whatever happens to the process that writes it.

One JSON line an event, on the disk before `append` returns. Each line has its number `n`, the
`time`, what the event was, the checksum of the line `after` which it stands, and its own `check`
over all that. A line that was edited, removed, added or moved is found and named. (The checksum
guards against accidents, not against somebody who computes it anew; and lines cut off at the end
leave no trace but a different `head`.)

The one damage that a crash can do, a last line that was cut short or never reached the disk (what
a power cut leaves then are NULs), is repaired: that event was never acknowledged, and is dropped
with a warning.
"""

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from bayes_feasible._check import path as checked_path
from bayes_feasible.files.atomic import create_file
from bayes_feasible.files.lock import locked

VERSION = 1
WAIT = 10.0  # seconds for the lock

Event = dict[str, Any]

_INSIDE = (os.path.dirname(__file__), contextlib.__file__)  # a warning is about the caller's line
_HOLE = b"\0" * 512  # what a power cut may leave of a sector that never reached the disk
_FIRST = "0" * 16  # what the first line stands after
_TAIL = re.compile(rb', "after": "([0-9a-f]{16})", "check": "([0-9a-f]{16})"}')
_TAIL_LENGTH = 59
_CHECK_LENGTH = 30  # of the part that the check does not cover


class Journal:
    """Events in a file.

    Parameters
    ----------
    path : path
        A file that `create` made.
    kind : str
        What it holds, as `create` was told.
    wait : float
        Seconds to wait while another process uses the file.

    Attributes
    ----------
    path : Path
    events : list of dict
        As last read. The first holds `format` and `version`.
    head : str
        Checksum of the last of them, which depends on all: two journals with the same head are
        the same.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str, wait: float = WAIT) -> None:
        if not isinstance(wait, int | float) or not wait >= 0:
            raise ValueError(f"wait: expected a number of seconds, got {wait!r}")
        self.path, self.kind, self.wait = checked_path("path", path), kind, float(wait)
        self._forget()

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], kind: str, event: Event, wait: float = WAIT
    ) -> "Journal":
        """Start a journal with one event; the file appears whole or not at all.

        Raises
        ------
        FileExistsError
            If there is a file of that name, which is left alone.
        """
        journal = cls(path, kind, wait)
        first = {"event": "new", "format": kind, "version": VERSION, **event}
        with _told_plainly(journal.path):
            create_file(journal.path, _line(1, first, _FIRST))
        return journal

    def read(self) -> None:
        """Read what is new. Writers are kept out while it is read, not while it is checked."""
        with self._opened("rb", shared=True) as stream:
            new = self._unread(stream)
        self._take(new)

    @contextmanager
    def writing(self) -> Iterator[Callable[[Event], Event]]:
        """Read what is new, and keep everybody else out; gives the function that appends.

        That function takes an event and returns it as it was written. The event is on the disk
        then. If it raises, the file is as it was before.
        """
        with self._opened("r+b", shared=False) as stream:
            self._take(self._unread(stream))
            self._repair(stream)

            def append(event: Event) -> Event:
                line = _line(len(self.events) + 1, event, self.head)
                with _told_plainly(self.path):
                    _write(stream, self._end + 1, line)
                self._accept(line[:-1])
                return self.events[-1]

            yield append

    @contextmanager
    def _opened(self, mode: str, shared: bool) -> Iterator[IO[bytes]]:
        while True:
            with (
                self._open(mode) as stream,
                locked(stream, shared=shared, wait=self.wait, name=str(self.path)),
            ):
                if self._is_at_path(stream):  # nobody put another file there meanwhile
                    yield stream
                    return

    def _open(self, mode: str) -> IO[bytes]:
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path}: expected a file, this is a folder")
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{self.path}: not a {self.kind}: this is a device or a pipe")
        try:
            return open(self.path, mode, buffering=0)
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path}: no such file") from None
        except OSError as error:
            what = "read" if mode == "rb" else "written to"
            raise OSError(f"{self.path}: cannot be {what} ({error.strerror})") from error

    def _is_at_path(self, stream: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.fstat(stream.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _forget(self) -> None:
        self.events: list[Event] = []
        self.head = _FIRST
        self._last = b""  # the last line that was read, without its line break
        self._end = -1  # where that line break belongs; the next line begins after it

    def _take(self, new: bytes) -> None:
        """Take in the lines that were added since the last time."""
        *lines, rest = new.split(b"\n")
        if lines and not rest and (lines[-1].startswith(b"\0") or _HOLE in lines[-1]):
            rest = lines.pop()
        for line in lines:
            self._accept(line)
        if rest and self._is_whole(rest):  # only its line break is missing
            self._accept(rest)
            rest = b""
        if not self.events:
            raise ValueError(f"{self.path}: not a {self.kind}: it has no complete line")
        if rest:
            number = len(self.events) + 1
            warn(
                f"{self.path}: line {number} was cut short and is dropped: "
                "the process that wrote it ended before it could report success"
            )

    def _repair(self, stream: IO[bytes]) -> None:
        """Cut off what was not written to its end."""
        if os.fstat(stream.fileno()).st_size != self._end + 1:
            with _told_plainly(self.path):
                stream.truncate(self._end)
                _write(stream, self._end, b"\n")

    def _unread(self, stream: IO[bytes]) -> bytes:
        """What follows the last line that was read; all of it if that line is not there."""
        try:
            if self.events:
                stream.seek(self._end - len(self._last))
                data = stream.read()
                if data == self._last:
                    return b""
                if data.startswith(self._last + b"\n"):
                    return data[len(self._last) + 1 :]
                self._forget()
            stream.seek(0)
            return stream.read()
        except OSError as error:
            raise OSError(f"{self.path}: cannot be read ({error.strerror})") from error

    def _is_whole(self, line: bytes) -> bool:
        tail = _TAIL.fullmatch(line[-_TAIL_LENGTH:])
        return tail is not None and _check(line[:-_CHECK_LENGTH]) == tail[2].decode()

    def _accept(self, line: bytes) -> None:
        """Take in one line if it is sound and stands where it should."""
        number = len(self.events) + 1
        if number == 1:
            self._check_first(line)
        tail = _TAIL.fullmatch(line[-_TAIL_LENGTH:])
        if tail is None or _check(line[:-_CHECK_LENGTH]) != tail[2].decode():
            raise ValueError(
                f"{self.path}: line {number} was changed or damaged: its checksum does not match. "
                "Put back an unchanged copy of the file"
            )
        try:
            event = json.loads(line)
            found = event["n"]
            if type(found) is not int:
                raise TypeError
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ValueError(f"{self.path}: line {number} holds no event") from None
        if tail[1].decode() != self.head or found != number:
            raise ValueError(f"{self.path}: {_misplaced(number, found)}")
        self.events.append(event)
        self.head, self._last = tail[2].decode(), line
        self._end += 1 + len(line)

    def _check_first(self, line: bytes) -> None:
        """Recognise the file, also where a later version computes its checksums in another way."""
        try:
            event = json.loads(line)
            kind, version = event["format"], event["version"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ValueError(f"{self.path}: not a {self.kind}: line 1 does not begin one") from None
        if kind != self.kind:
            raise ValueError(f"{self.path}: expected a {self.kind}, this is a {kind}")
        if version != VERSION:
            raise ValueError(
                f"{self.path}: a {self.kind} of version {version}; this package reads version "
                f"{VERSION}: use the bayes_feasible that wrote it, or a newer one"
            )


def warn(message: str) -> None:
    """Warn the caller of the package."""
    warnings.warn(message, skip_file_prefixes=_INSIDE)


def _line(number: int, event: Event, after: str) -> bytes:
    """An event as the line that is written."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    stamped = {"n": number, "time": time, **event, "after": after}
    body = json.dumps(stamped, allow_nan=False)[:-1].encode("ascii")
    return body + f', "check": "{_check(body)}"}}\n'.encode("ascii")


def _check(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def _misplaced(number: int, found: int) -> str:
    if found > number:
        gone = f"line {number} is" if found == number + 1 else f"lines {number} to {found - 1} are"
        return f"{gone} missing"
    if found < number:
        return f"line {number} is out of place: it was written as line {found}"
    return f"line {number} does not follow line {number - 1}: one of the two was changed"


def _write(stream: IO[bytes], at: int, content: bytes) -> None:
    """Write to the end of a file and to the disk, or leave the file as it was."""
    try:
        stream.seek(at)
        rest = memoryview(content)
        while rest:
            rest = rest[stream.write(rest) :]
        os.fsync(stream.fileno())
    except BaseException:
        with suppress(OSError):
            stream.truncate(at)
            os.fsync(stream.fileno())
        raise


@contextmanager
def _told_plainly(path: Path) -> Iterator[None]:
    """Say what failed and that nothing was recorded, instead of a number and a file name."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:
            raise  # already in words
        raise OSError(
            f"{path}: nothing was recorded, for it could not be written ({error.strerror})"
        ) from error
