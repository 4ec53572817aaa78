"""Functions that are called a few times only, or over whole arrays: run by NumPy, not compiled."""

from typing import Any

import numpy as np
import pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.basic import PerformLinker
from pytensor.scalar import UnaryScalarOp, upgrade_to_float
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise


class Interpreter(PerformLinker):
    """Python throughout, also within operations that are functions themselves.

    PyTensor would make C of those, which takes a second for each operation within.
    """

    def make_all(self, *args: Any, **kwargs: Any) -> Any:
        """Thunks of all operations."""
        with pytensor.config.change_flags(cxx=""):
            return super().make_all(*args, **kwargs)


class _LogExpit(UnaryScalarOp):
    """Logarithm of the logistic function, as SciPy computes it for whole arrays."""

    nfunc_spec = ("scipy.special.log_expit", 1, 1)

    def impl(self, x: Any) -> Any:
        return -np.logaddexp(0.0, -x)


_log_expit: Any = Elemwise(
    _LogExpit(  # type: ignore[abstract]
        upgrade_to_float, name="log_expit"
    )
)


@node_rewriter([Elemwise])
def _softplus_by_scipy(_graph: Any, node: Any) -> Any:
    """PyTensor's softplus, run by NumPy, is a Python call for every element."""
    if not isinstance(node.op.scalar_op, Softplus):
        return None
    return [-_log_expit(-node.inputs[0])]


@node_rewriter([OpFromGraph])
def _inline(_graph: Any, node: Any) -> Any:
    """Operations made of others, such as `logsumexp`, would be called point by point."""
    return inline_ofg_node(node)


inline_operations: Any = in2out(_inline)


def interpreted() -> Mode:
    """`INTERPRETED` for functions of many points at once."""
    last: Any = (in2out(_softplus_by_scipy), 1000)
    # Before the first pull there are no arms, and an array of no elements cannot be reshaped.
    return INTERPRETED.excluding("local_batched_matmul_to_core_matmul_with_reshape").register(last)


# No code is generated, which would take a minute, but the expressions are rewritten for numerical
# stability, which `FAST_COMPILE` leaves out: log(1 - sigmoid(x)) would be -inf from x = 37 on.
INTERPRETED = Mode(Interpreter(), "fast_run").excluding("fusion", "inplace", "BlasOpt")
