"""Compiled functions that answer at once: the first, short calls run in the interpreter.

Compiling takes seconds, a few draws take milliseconds even in plain Python. Both take the same
steps with the same random numbers, so nobody can tell which of them it was. Whoever asks for many
draws, or often, has the function compiled.
"""

import time
from dis import get_instructions
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

SHORT = 2 * 10**5  # elementary steps, of about half a microsecond, that are worth no compilation
PATIENCE = 1.0  # seconds in the interpreter after which compiling pays


@cache
def interpreted(compiled: Any) -> Any:
    """A compiled function as plain Python, with all the compiled functions that it calls."""
    plain = compiled.py_func
    used = {one.argval for one in get_instructions(plain) if one.opname == "LOAD_GLOBAL"}
    called = {
        name: interpreted(value)
        for name, value in plain.__globals__.items()
        if name in used and isinstance(value, Dispatcher)
    }
    return FunctionType(plain.__code__, plain.__globals__ | called, plain.__name__)


class AtOnce:
    """A compiled function, interpreted as long as that is quicker."""

    def __init__(self, compiled: Any) -> None:
        self.compiled, self.spent = compiled, 0.0

    def __call__(self, steps: float, *arguments: Any) -> Any:
        """Call it; `steps` is how many elementary ones that takes, roughly."""
        if steps > SHORT or self.spent > PATIENCE or self.compiled.signatures:
            return self.compiled(*arguments)
        start, before = time.perf_counter(), _snapshot(arguments)
        try:
            with np.errstate(all="ignore"):
                return interpreted(self.compiled)(*arguments)
        except (ArithmeticError, ValueError):  # compiled, that is an infinity, or NaN
            _restore(arguments, before)
            return self.compiled(*arguments)
        finally:
            self.spent += time.perf_counter() - start


at_once = cache(AtOnce)  # one for each compiled function


def _snapshot(value: Any) -> Any:
    """What a call may change in its arguments."""
    if isinstance(value, tuple):
        return tuple(map(_snapshot, value))
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.bit_generator.state if isinstance(value, np.random.Generator) else None


def _restore(value: Any, before: Any) -> None:
    if isinstance(value, tuple):
        for one, old in zip(value, before, strict=True):
            _restore(one, old)
    elif isinstance(value, np.ndarray) and value.flags.writeable:
        value[...] = before
    elif isinstance(value, np.random.Generator):
        value.bit_generator.state = before
