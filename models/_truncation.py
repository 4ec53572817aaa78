r"""A standard normal beyond a bound, reached smoothly from the whole line.

With the survival function :math:`S(t) = P(N(0, 1) > t)` and the cumulative hazard
:math:`H = -\log S`, the map :math:`x \mapsto g` with

.. math:: S(g) = S(b) \, S(x), \qquad\text{that is}\qquad H(g) = H(b) + H(x),

takes a standard normal `x` to a standard normal that is known to exceed `b`. Its slope is the
ratio of the hazards, :math:`g' = h(x) / h(g)` with :math:`h = H' = \varphi / S`.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.replace import _vectorize_node

LOG_2 = float(np.log(2.0))
ROOT_HALF = float(np.sqrt(0.5))
CERTAIN = -37.0  # a standard normal exceeds it, to within 1e-300
HALF_LOG_2PI = float(0.5 * np.log(2.0 * np.pi))
STEPS = 5  # of Newton's method reach the last digit, from 1e4 deviations out to -38


def log_survival(t: Any) -> Any:
    """Logarithm of the probability that a standard normal exceeds `t`, for any `t`."""
    outer = pt.maximum(t, 0.0)
    inner = pt.minimum(t, 0.0)
    far = pt.log(pt.erfcx(ROOT_HALF * outer)) - LOG_2 - 0.5 * outer**2
    near = pt.log1p(-0.5 * pt.erfc(-ROOT_HALF * inner))
    return pt.switch(t > 0.0, far, near)


def beyond(x: Any, bound: Any) -> Any:
    """The map above for vectors, element by element; a `bound` of -inf leaves `x` as it is."""
    return _BEYOND(pt.as_tensor_variable(x), pt.as_tensor_variable(bound))


def _image(x: Any, bound: Any) -> Any:
    hazard = -log_survival(bound) - log_survival(x)
    # Above 0 the excess over a bound is solved for, which keeps its digits however far out; below
    # 0 the same equation in the other tail, H(-g) = -log(1 - exp(-hazard)).
    upper = hazard >= LOG_2
    base = pt.switch(upper, pt.maximum(bound, 0.0), 0.0)
    from_bound = pt.switch(bound >= 0.0, -log_survival(x), hazard - LOG_2)
    from_centre = -pt.log1mexp(-pt.minimum(hazard, LOG_2)) - LOG_2
    excess = _excess(base, pt.switch(upper, from_bound, from_centre))
    value = pt.switch(upper, base + excess, -excess)
    # Beyond double precision the bound takes nothing away but what lies below it.
    return pt.maximum(pt.switch(bound > CERTAIN, value, x), bound)


def _pullback(inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
    """Slopes by hazards, which no step of Newton's method is asked for."""
    (x, bound), (value,), (cotangent,) = inputs, outputs, cotangents
    asked, hazard = bound > CERTAIN, _log_hazard(value)
    along = pt.switch(asked, pt.exp(_log_hazard(x) - hazard), x > bound)
    finite = pt.maximum(bound, CERTAIN)
    across = pt.switch(asked, pt.exp(_log_hazard(finite) - hazard), 0.0)
    return [cotangent * along, cotangent * across]


def _log_hazard(t: Any) -> Any:
    outer, inner = pt.maximum(t, 0.0), pt.minimum(t, 0.0)
    far = LOG_2 - HALF_LOG_2PI - pt.log(pt.erfcx(ROOT_HALF * outer))
    near = -0.5 * inner**2 - HALF_LOG_2PI - log_survival(inner)
    return pt.switch(t > 0.0, far, near)


def _excess(base: Any, hazard: Any) -> Any:
    r"""Solve :math:`H(b + s) - H(b) = L` for `s`, with `base` :math:`b \ge 0`.

    The left side is `s (b + s/2)` plus a difference of logarithms of `erfcx` that is small far out,
    so nothing is lost to cancellation. It is convex, and leaving that difference out gives a start
    above the root, from which Newton's method descends.
    """
    log_scaled = pt.log(pt.erfcx(ROOT_HALF * base))
    hazard = pt.maximum(hazard, 1e-300)  # 0 and the start would be 0/0
    excess = 2.0 * hazard / (base + pt.sqrt(base**2 + 2.0 * hazard))
    for _ in range(STEPS):
        scaled = pt.erfcx(ROOT_HALF * (base + excess))
        reached = excess * (base + 0.5 * excess) + log_scaled - pt.log(scaled)
        slope = np.sqrt(2.0 / np.pi) / scaled
        excess = pt.maximum(excess - (reached - hazard) / slope, 0.0)
    return excess


class _Beyond(OpFromGraph):
    """One operation, so that its slopes can be stated."""


@_vectorize_node.register(_Beyond)
def _beyond_many(operation: _Beyond, node: Any, *inputs: Any) -> Any:
    """For arrays of vectors: all elements at once, where PyTensor would take vector by vector."""
    return _image(*inputs).owner


def _operation() -> _Beyond:
    x, bound = pt.vector("x", dtype="float64"), pt.vector("bound", dtype="float64")
    return _Beyond([x, bound], [_image(x, bound)], pullback=_pullback, name="beyond")


_BEYOND = _operation()
