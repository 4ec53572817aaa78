"""Compiled functions that answer at once: the first, short calls run in the interpreter.

Compiling takes seconds, a few draws take milliseconds even in plain Python. Both take the same
steps with the same random numbers, so nobody can tell which of them it was. Whoever asks for many
draws, or often, has the function compiled.
"""

import time
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
    called = {
        name: interpreted(value)
        for name, value in plain.__globals__.items()
        if name in plain.__code__.co_names and isinstance(value, Dispatcher)
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
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            result = interpreted(self.compiled)(*arguments)
        self.spent += time.perf_counter() - start
        return result
