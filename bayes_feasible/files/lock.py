"""One process at a time: a lock on an open file, which the system drops when its holder dies."""

import errno
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

TRY_EVERY = 0.004  # seconds, on average
RECENTLY, STEP_BACK = 0.005, 0.001  # seconds, for taking turns
BEYOND = 2**40  # a byte that no file reaches: locked where only parts of a file can be
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextmanager
def locked(
    stream: IO[bytes] | int, *, shared: bool = False, wait: float, name: str
) -> Iterator[None]:
    """Hold the lock of an open file, called `name` in messages; `shared` with other readers.

    Raises TimeoutError if others hold it for `wait` seconds, and Unsupported if the file system
    has no locks.
    """
    descriptor = stream if isinstance(stream, int) else stream.fileno()
    try_lock, unlock = _system_locks()
    if time.monotonic() - _released.at < RECENTLY:
        time.sleep(STEP_BACK)  # whoever locks again and again would leave others no gap
    end = time.monotonic() + wait
    while not _try(try_lock, descriptor, shared, name):
        if time.monotonic() >= end:
            raise TimeoutError(
                f"{name}: another process is using it, and still was after {wait:g} s; try again"
            )
        time.sleep(min(random.uniform(0, 2 * TRY_EVERY), max(end - time.monotonic(), 0.0)))
    try:
        yield
    finally:
        unlock(descriptor)
        _released.at = time.monotonic()


@contextmanager
def locked_folder(path: Path, wait: float) -> Iterator[None]:
    """Hold a folder, without any file in it; where folders cannot be locked nothing is held."""
    with ExitStack() as held:
        with suppress(PermissionError, Unsupported):  # Windows opens no folders
            descriptor = os.open(path, os.O_RDONLY)
            held.callback(os.close, descriptor)
            held.enter_context(locked(descriptor, wait=wait, name=str(path)))
        yield


class Unsupported(OSError):
    """A file system without locks."""


class _Released(threading.local):
    at = -math.inf


_released = _Released()


def _try(try_lock: Callable[[int, bool], None], descriptor: int, shared: bool, name: str) -> bool:
    """Take the lock if it is free; return whether it was."""
    try:
        try_lock(descriptor, shared)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            raise Unsupported(
                f"{name}: this file system has no locks; keep it on a local disk"
            ) from error
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


def _system_locks() -> tuple[Callable[[int, bool], None], Callable[[int], None]]:
    """How to try and how to release a lock here: on POSIX, or else on Windows."""
    try:
        return _posix_locks()
    except ImportError:
        return _windows_locks()


def _posix_locks() -> tuple[Callable[[int, bool], None], Callable[[int], None]]:
    import fcntl

    def try_lock(descriptor: int, shared: bool) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    return try_lock, unlock


def _windows_locks() -> tuple[Callable[[int, bool], None], Callable[[int], None]]:
    import msvcrt

    system: Any = msvcrt  # its functions are declared on Windows alone

    def change(descriptor: int, mode: int) -> None:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, BEYOND, os.SEEK_SET)
        try:
            system.locking(descriptor, mode, 1)
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)

    def try_lock(descriptor: int, shared: bool) -> None:  # readers wait for each other here
        change(descriptor, system.LK_NBLCK)

    def unlock(descriptor: int) -> None:
        change(descriptor, system.LK_UNLCK)

    return try_lock, unlock
