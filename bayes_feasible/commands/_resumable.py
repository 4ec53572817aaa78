"""What commands share whose work is long, kept in parts, and gone on with when called again."""

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bayes_feasible.commands import _output as output

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143
EXIT_CODES = """\
exit codes:
  0    the work is finished
  1    it had to stop (the disk is full, workers died); finished parts are kept
  2    the arguments, a specification or the folder are not right
  130  stopped by Ctrl-C; finished parts are kept
  143  stopped by a SIGTERM, as batch systems send; finished parts are kept
"""


def add_place(parser: argparse.ArgumentParser) -> None:
    """Let the parser take where the work is done."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=int, metavar="N", help="local processes (by default one a core)"
    )
    where.add_argument(
        "--dask", metavar="ADDRESS", help="compute on this Dask cluster, or local:N for a new one"
    )


def carry_out(command: str, work: Callable[[], None]) -> int:
    """Do the work; if it is stopped, say what is kept. Returns the exit code."""
    from bayes_feasible.simulation.pool import Unfinished

    try:
        with _stopped_by_sigterm():
            work()
    except (Unfinished, KeyboardInterrupt) as error:
        output.complain(command, error or "interrupted")
        if isinstance(error, Unfinished):
            return FAILED
        return TERMINATED if isinstance(error, _Terminated) else INTERRUPTED
    return 0


class _Terminated(KeyboardInterrupt):
    """A SIGTERM, as batch systems send before they kill."""


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Have a SIGTERM stop as cleanly as Ctrl-C does."""

    def stop(*_: Any) -> None:
        raise _Terminated("terminated")

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
