"""Ctrl-C and SIGTERM that cannot get lost.

Python tells a program of them by an exception, raised wherever the program happens to be. There
it may be lost: in a callback of compiled code or of HDF5, where Python ignores it or turns it
into another error; or in a library that catches it, as PyMC and nutpie do, which then return the
draws they have as if they were all. So what was raised is remembered here, and raised again.
Elsewhere it does harm, and has to wait: Numba crashes if it is raised while a random generator is
handed over to compiled code.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_raised: list[BaseException] = []  # by signals, since the outermost `heeded` began


def heed() -> None:
    """Raise what a signal has raised before and somebody caught."""
    if _raised and _in_main_thread():
        raise _raised[0]


@contextmanager
def heeded() -> Iterator[None]:
    """Have a Ctrl-C, or a SIGTERM that raises something, end this block with what it raised.

    At the latest where the block would end, whatever else was made of it within. `heed` looks
    earlier. Without effect in other threads than the main one, which get no signals.
    """
    if not _in_main_thread():
        yield
        return
    hook = sys.unraisablehook
    before = _install(_remembering)
    sys.unraisablehook = _without_remembered(hook)
    try:
        yield
        heed()
    except BaseException as error:
        if _raised and error not in _raised and not isinstance(error, KeyboardInterrupt):
            raise _raised[0] from error
        raise
    finally:
        _restore(before)
        sys.unraisablehook = hook
        _raised.clear()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Have what a signal would raise in this block wait for its end."""
    if not _in_main_thread():
        yield
        return
    late: list[Callable[[], Any]] = []
    before = _install(lambda handler: lambda *arguments: late.append(partial(handler, *arguments)))
    try:
        yield
    finally:
        _restore(before)
        for handle in late:
            handle()


def _install(around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> dict[int, Any]:
    """Put something around the handlers that raise; returns what was there."""
    before: dict[int, Any] = {}
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler):  # neither ignored nor left to the system
            before[number] = signal.signal(number, around(handler))
    return before


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _remembering(handler: Callable[..., Any]) -> Callable[..., Any]:
    def remember(*arguments: Any) -> None:
        try:
            handler(*arguments)
        except BaseException as error:
            _raised.append(error)
            raise

    return remember


def _without_remembered(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Do not let Python complain that it ignores what is raised again."""

    def tell(found: Any) -> None:
        if found.exc_value not in _raised:
            hook(found)

    return tell


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
