"""Functions that are called a few times only."""

from typing import Any

import pytensor
from pytensor.compile.mode import Mode
from pytensor.link.basic import PerformLinker


class Interpreter(PerformLinker):
    """Python throughout, also within operations that are functions themselves.

    PyTensor would make C of those, which takes a second for each operation within.
    """

    def make_all(self, *args: Any, **kwargs: Any) -> Any:
        """Thunks of all operations."""
        with pytensor.config.change_flags(cxx=""):
            return super().make_all(*args, **kwargs)


# No code is generated, which would take a minute, but the expressions are rewritten for numerical
# stability, which `FAST_COMPILE` leaves out: log(1 - sigmoid(x)) would be -inf from x = 37 on.
INTERPRETED = Mode(Interpreter(), "fast_run").excluding("fusion", "inplace", "BlasOpt")
