"""A model's log-density, its slope and its curvature, at many points at once.

PyTensor's compiled back ends want a minute or two for a model they have not seen. Over thousands
of points the time goes into array operations anyway, so the graph is run by NumPy, after the same
rewrites for numerical stability that a compiled function gets: ready in a few seconds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc import pytensorf
from pymc.pytensorf import join_nonshared_inputs, reseed_rngs
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.random.type import RandomType

from bayes_feasible._check import Array
from bayes_feasible.alternative.events import Events
from bayes_feasible.models._interpreted import INTERPRETED, inline_operations, interpreted
from bayes_feasible.models._kept import keep

RADII = ("reward_radius", "cost_radius")
LOOKED_AT = 40_000_000  # elements of all of them together, where many points are swept
ELEMENTS = 4_000_000  # of one intermediate array; longer lists of points are cut


def density(model: pm.Model) -> "Density":
    """The functions of a model, made once; they see the data that `models.set_data` gives it."""
    return keep(model, ("density", *sorted(model.named_vars)), lambda: Density(model))


class Density:
    """Log-density of parameters and data, in the unconstrained coordinates of the model.

    It leaves out a `parameter_radius`, which only cuts it off: see `within`. `start` is the model's
    initial point, `places` says where the coordinates of each free variable are, `parameters`
    (block, feature) where those of the reward and cost parameters are, `others` where the rest is.
    """

    def __init__(self, model: pm.Model) -> None:
        point, values = model.initial_point(0), model.value_vars
        terms = [*model.free_RVs, *model.observed_RVs]
        terms += [term for term in model.potentials if term.name != "parameter_radius"]
        [joint], joined = join_nonshared_inputs(point, [model.logp(terms)], values)
        slope = pytensor.grad(joint, joined)
        direction = pt.vector("direction", shape=joined.type.shape)
        product = pytensor.grad(pt.dot(slope, direction), joined, disconnected_inputs="ignore")
        self._value = _over_points([joined], joint)
        self._bends = _over_points([joined, direction], slope, product)
        self._prior = keep(model, "prior", lambda: prior_sampler(model))

        self.places, self.size = {}, 0
        for variable in model.free_RVs:
            shape = np.shape(point[model.rvs_to_values[variable].name])
            first, self.size = self.size, self.size + int(np.prod(shape))
            self.places[variable.name] = np.arange(first, self.size).reshape(shape)
        start = [np.ravel(point[value.name]) for value in values]
        self.start: Array = keep(model, "start", lambda: np.concatenate(start).astype(float))
        thetas = ("theta_reward", "theta_cost")
        self.parameters = np.vstack([self.places[name] for name in thetas if name in self.places])
        self.others = {
            name: place.ravel() for name, place in self.places.items() if name not in thetas
        }
        scales = [
            self.places[variable.name].ravel()
            for variable in model.free_RVs
            if variable.name not in thetas and is_log(model.rvs_to_transforms[variable])
        ]
        none: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        # Positive variables on their logarithm: what may be the scale of others.
        self.scales: NDArray[np.int64] = keep(
            model, "scales", lambda: np.concatenate([none, *scales])
        )
        bounded = "parameter_radius" in model.named_vars
        self._radii = [model[name] for name in RADII if bounded and name in model.named_vars]
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

    def draw_prior(self, number: int, seed: int = 0) -> Array:
        """Draws of the prior (draw, coordinate); none where it is improper."""
        drawn = self._prior(number, seed)
        return drawn if len(drawn) else np.empty((0, self.size))

    def blocks(self, points: Array) -> Array:
        """The parameters (point, block, feature) of points."""
        return points[:, self.parameters]

    def normals(self, events: Events) -> Array:
        """The vectors of events in the coordinates of the density, (event, block, coordinate)."""
        normals = np.zeros((*events.limits.shape, self.size))
        for block, place in enumerate(self.parameters):
            normals[:, block, place] = events.vectors[:, block]
        return normals

    def everywhere(self) -> Events:
        """One event that asks nothing of the parameters."""
        return Events.everywhere(*self.parameters.shape)

    def affordable(self, number: int) -> int:
        """So many points, or as many as can be looked at in seconds beside much data."""
        return max(min(number, LOOKED_AT // self._largest), 64)

    @property
    def _largest(self) -> int:
        return max([variable.get_value(borrow=True).size for variable in self._data] + [1])

    def _cut(self, points: Array) -> list[Array]:
        rows = max(ELEMENTS // self._largest, 64)
        return [points[i : i + rows] for i in range(0, len(points), rows)]


def prior_sampler(model: pm.Model) -> Callable[[int, int], Array]:
    """Draws of the prior, so many with a seed, as points in the coordinates of a model.

    There are none where the prior is improper, or beyond all numbers.
    """
    prior = [_transformed(model, variable) for variable in model.free_RVs]
    function = pytensorf.compile([], prior, mode=INTERPRETED)

    def draw(number: int, seed: int) -> Array:
        states = [one for one in function.get_shared() if isinstance(one.type, RandomType)]
        reseed_rngs(states, seed)
        try:
            with np.errstate(all="ignore"):
                drawn = [function() for _ in range(number)]
        except (NotImplementedError, ArithmeticError):  # `pm.Flat`, or a prior beyond all numbers
            return np.empty((0, 0))
        return np.array([np.concatenate([np.ravel(part) for part in parts]) for parts in drawn])

    return draw


def _over_points(inputs: list[Any], *outputs: Any) -> Any:
    """A function of lists of points, run by NumPy."""
    many = [pt.matrix(i.name, shape=(None, i.type.shape[0])) for i in inputs]
    results, graph = [], FunctionGraph(outputs=outputs, copy_inputs=False)
    inline_operations.rewrite(graph)
    rewritten: list[Any] = graph.outputs
    for output in rewritten:
        result = vectorize_graph(output, dict(zip(inputs, many, strict=True)))
        # A constant is the same at every point, and vectorisation leaves it alone.
        shape = many[0].shape[:1] if output.ndim == 0 else many[0].shape
        results.append(pt.broadcast_to(result, shape))
    # PyMC's rewrite: outside its support a density is 0, which is no reason to raise an error.
    mode = interpreted().including("local_check_parameter_to_ninf_switch")
    return pytensor.function(many, results, mode=mode, on_unused_input="ignore")


def is_log(transform: Any) -> bool:
    """Whether a transformation is the logarithm of something positive."""
    return type(transform).__name__ == "LogTransform"


def _transformed(model: pm.Model, variable: Any) -> Any:
    """A free variable in the coordinates of its value."""
    transform = model.rvs_to_transforms[variable]
    return variable if transform is None else transform.forward(variable, *variable.owner.inputs)
