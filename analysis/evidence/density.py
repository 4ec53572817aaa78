"""A model's log-density, its slope and its curvature, at many points at once.

PyTensor's compiled back ends want a minute or two for a model they have not seen. Over thousands
of points the time goes into array operations anyway, so the graph is run by NumPy, after the same
rewrites for numerical stability that a compiled function gets: ready in a few seconds.
"""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.scalar import UnaryScalarOp, upgrade_to_float
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.models._interpreted import INTERPRETED

RADII = ("reward_radius", "cost_radius")
ELEMENTS = 4_000_000  # of one intermediate array; longer lists of points are cut
_COMPILED: WeakKeyDictionary[pm.Model, tuple[Any, "Density"]] = WeakKeyDictionary()


def density(model: pm.Model) -> "Density":
    """The functions of a model, made once; data that `models.observe` swaps in are seen."""
    content = tuple(sorted(model.named_vars))
    if model not in _COMPILED or _COMPILED[model][0] != content:
        _COMPILED[model] = content, Density(model)
    return _COMPILED[model][1]


class Density:
    """Log-density of parameters and data, in the unconstrained coordinates of the model.

    A `parameter_radius`, which would only cut it off, is kept apart: see `within`.

    Parameters
    ----------
    model : Model
        With `theta_reward` and, if there are constraints, `theta_cost` as free variables.

    Attributes
    ----------
    size : int
        The number of coordinates.
    start : ndarray
        The model's initial point.
    parameters : ndarray of int (parameter, feature)
        Where the reward parameter and the cost parameters are.
    others : dict of str to ndarray of int
        Where the coordinates of the other free variables are, by the variable's name.
    """

    def __init__(self, model: pm.Model) -> None:
        point = model.initial_point(0)
        values = model.value_vars
        terms = [*model.free_RVs, *model.observed_RVs]
        terms += [term for term in model.potentials if term.name != "parameter_radius"]
        [joint], joined = join_nonshared_inputs(point, [model.logp(terms)], values)
        slope = pytensor.grad(joint, joined)
        direction = pt.vector("direction", shape=joined.type.shape)
        product = pytensor.grad(pt.dot(slope, direction), joined, disconnected_inputs="ignore")
        self._value = _over_points([joined], joint)
        self._bends = _over_points([joined, direction], slope, product)
        self.places = _places(model, point)
        self.start = np.concatenate([np.ravel(point[value.name]) for value in values]).astype(float)
        self.size = self.start.size
        rows = [self.places[name] for name in ("theta_reward", "theta_cost") if name in self.places]
        self.parameters = np.vstack([np.atleast_2d(row) for row in rows])
        self.others = {
            name: place.ravel()
            for name, place in self.places.items()
            if name not in ("theta_reward", "theta_cost")
        }
        radii = [model[name] for name in RADII if name in model.named_vars]
        self._radii = radii if "parameter_radius" in model.named_vars else []
        self._data = [variable for variable in model.data_vars if hasattr(variable, "get_value")]

    def value(self, points: Array) -> Array:
        """Log-density at each point; -inf where the model says so, never NaN."""
        parts = [self._value(part)[0] for part in self._cut(points)]
        value = np.concatenate([np.empty(0), *parts])
        return np.where(np.isnan(value), -np.inf, value)

    @property
    def bounded(self) -> bool:
        """Whether the parameters are bounded."""
        return bool(self._radii)

    def within(self, points: Array) -> NDArray[np.bool_]:
        """Which points have parameters within their bounds."""
        if not self._radii:
            return np.ones(len(points), dtype=bool)
        reward, *cost = (float(radius.get_value()) for radius in self._radii)
        length = np.linalg.norm(self.blocks(points), axis=2)
        inside = length[:, 0] <= reward
        return inside & np.all(length[:, 1:] <= (cost[0] if cost else np.inf), axis=1)

    def bends(self, points: Array) -> tuple[Array, Array]:
        """Slopes (point, coordinate) and curvatures (point, coordinate, coordinate).

        They are the gradient and minus the Hessian, a column for each direction.
        """
        size, axes = self.size, np.eye(self.size)
        pairs = np.repeat(points, size, axis=0), np.tile(axes, (len(points), 1))
        parts = zip(*(self._cut(array) for array in pairs), strict=True)
        slopes, products = zip(*(self._bends(*part) for part in parts), strict=True)
        hessian = np.concatenate(products).reshape(-1, size, size)
        return np.concatenate(slopes)[::size], -0.5 * (hessian + hessian.transpose(0, 2, 1))

    def blocks(self, points: Array) -> Array:
        """The parameter vectors (point, parameter, feature) of points."""
        return points[:, self.parameters]

    def _cut(self, points: Array) -> list[Array]:
        largest = max([variable.get_value(borrow=True).size for variable in self._data] + [1])
        rows = max(ELEMENTS // largest, 64)
        return [points[i : i + rows] for i in range(0, len(points), rows)]


def check(model: pm.Model, alternative: Alternative) -> None:
    """That the model is a plain one, with the parameters of the alternative's problem."""
    if not isinstance(alternative, Alternative):
        raise ValueError(f"alternative: expected an Alternative, got {type(alternative).__name__}")
    if not isinstance(model, pm.Model):
        raise ValueError(f"model: expected a pm.Model, got {type(model).__name__}")
    features, constraints = alternative.problem.arms.shape[1], alternative.problem.thresholds.size
    shapes: dict[str, tuple[int, ...]] = {"theta_reward": (features,)}
    if constraints:
        shapes["theta_cost"] = (constraints, features)
    plain = {rv.name for rv in model.free_RVs if model.rvs_to_transforms[rv] is None}
    for name in shapes:
        if name not in plain:
            raise ValueError(f"model: expected a free variable `{name}`, not transformed")
    restricted = [name for name in ("hard", "smooth", "graded") if name in model.named_vars]
    if restricted:
        raise ValueError(f"model: it is already restricted by the potential `{restricted[0]}`")
    places = density(model).places
    for name, shape in shapes.items():
        if places[name].shape != shape:
            raise ValueError(f"model: expected {name} of shape {shape}, got {places[name].shape}")


def _places(model: pm.Model, point: dict[str, Any]) -> dict[str, NDArray[np.int64]]:
    """Where each free variable's coordinates are."""
    places, last = {}, 0
    for variable in model.free_RVs:
        value = point[model.rvs_to_values[variable].name]
        places[variable.name] = np.arange(last, last + value.size).reshape(value.shape)
        last += value.size
    return places


def _over_points(inputs: list[Any], *outputs: Any) -> Any:
    """A function of lists of points, run by NumPy."""
    many = [pt.matrix(i.name, shape=(None, i.type.shape[0])) for i in inputs]
    results = []
    for output in outputs:
        result = vectorize_graph(output, dict(zip(inputs, many, strict=True)))
        # A constant is the same at every point, and vectorisation leaves it alone.
        shape = many[0].shape[:1] if output.ndim == 0 else many[0].shape
        results.append(pt.broadcast_to(result, shape))
    return pytensor.function(many, results, mode=interpreted(), on_unused_input="ignore")


def interpreted() -> Mode:
    """No code is generated, but expressions are rewritten for numerical stability."""
    last: Any = (in2out(_softplus_by_scipy), 1000)
    # Before the first pull there are no arms, and an array of no elements cannot be reshaped.
    return INTERPRETED.excluding("local_batched_matmul_to_core_matmul_with_reshape").register(last)


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
