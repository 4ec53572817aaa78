"""Solvers of small problems: on one BLAS thread, and without floating-point warnings."""

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any

import numpy as np


@cache
def _thread_pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _OneThread:
    """BLAS runs on one thread as long as anybody is inside, in whatever thread of Python."""

    def __init__(self) -> None:
        self.inside, self.limit, self.lock = 0, None, Lock()

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.limit = _thread_pools().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside and self.limit is not None:
                self.limit.restore_original_limits()


_one_thread = _OneThread()


def plainly[**P, T](solver: Callable[P, T]) -> Callable[P, T]:
    """Run a solver so.

    To wake other threads for small matrices takes many times what they save. And with one thread
    the result does not depend on the number of cores.
    """

    @wraps(solver)
    def solve(*args: P.args, **kwargs: P.kwargs) -> T:
        with np.errstate(all="ignore"), _one_thread:
            return solver(*args, **kwargs)

    return solve
