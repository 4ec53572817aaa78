"""How functions are compiled."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

# How functions are compiled. A door is called from Python. What only compiled code calls is inner:
# a door would take as long to compile as the rest. A borrower makes no array and keeps none, so
# nobody need count references to them, which would take longer than the work on small ones. What
# takes a generator from Python must count, or the generator would live for ever.
DOOR: dict[str, Any] = {"cache": True, "error_model": "numpy"}
INNER: dict[str, Any] = {**DOOR, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
BORROWER: dict[str, Any] = {**INNER, "_nrt": False}
COUNTING: dict[str, Any] = {**INNER, "_nrt": True}  # even where a borrower calls it
BORROWING_DOOR: dict[str, Any] = {**DOOR, "_nrt": False}

PATIENCE = 2.0  # seconds of silence before a person is told what takes so long
_told: list[str] = []  # what this process has said


@contextmanager
def announce(what: str, seconds: float) -> Iterator[None]:
    """Say once, to a person at a terminal, what is being compiled if this block takes long.

    Parameters
    ----------
    what : str
        "rounds of BLFAIPS"
    seconds : float
        How long it usually takes.

    Examples
    --------
    >>> with announce("rounds of BLFAIPS", 20):  # silent: it is quick, and nobody is watching
    ...     pass
    """
    if _told or not sys.stderr.isatty():
        yield
        return
    timer = Timer(PATIENCE, _tell, (what, seconds))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(what: str, seconds: float) -> None:
    if not _told:
        _told.append(what)
        text = f"compiling {what}: about {seconds:g} s, once; later runs start at once"
        print(f"bayes_feasible: {text}", file=sys.stderr, flush=True)
