r"""Any PyMC model as one whose free variables are the parameters of the problem.

A model may draw its parameters, transformed or not, or compute them: a non-centred hierarchy
:math:`\theta = \mu + \tau u`, a regression, a Gaussian process on a basis. Events are half-spaces
of :math:`\theta`, so :math:`\theta` has to be a coordinate. Where it is affine in some
coordinates :math:`u` given the others, :math:`\theta = \theta_0 + J u`, the density in
:math:`\theta` and the others is that of the model at :math:`u = J^{-1} (\theta - \theta_0)`
over :math:`|\det J|`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import NDArray
from pymc.model.fgraph import clone_model
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from scipy.linalg import qr

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import read_draws
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.models._interpreted import interpreted
from bayes_feasible.models._kept import keep
from bayes_feasible.models.density import is_log, prior_sampler
from bayes_feasible.problem import Problem

PARAMETERS = "theta_reward", "theta_cost"
VALUES = "reward", "cost"  # of the candidates
PROBES = 4  # points at which a map is tried
CURVED = 1e-7  # relative to what it moves: a map that bends less is affine
TINIEST = 1e-200  # volume of a map that can be inverted
FLAT = 1e-9  # a direction that moves parameters less than this, relative to the most, moves nothing


class NotAffine(ValueError):
    """Parameters that no free variables can be exchanged for."""


class Asked(NamedTuple):
    """The variables that hold the parameters, and the problem that these are of."""

    names: tuple[str, str]
    problem: Problem
    by_candidate: bool  # whether they are the candidates' reward and costs

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names, of the costs only where there are any."""
        return self.names[: 2 if self.problem.thresholds.size else 1]

    def alternative(self, alternative: Alternative) -> Alternative:
        """An alternative set in terms of these parameters."""
        return (
            Alternative(self.problem, alternative.candidate) if self.by_candidate else alternative
        )

    def read(self, draws: Any) -> Array:
        """Draws of them as one array (chain, draw, block, feature)."""
        if self.by_candidate:
            draws = _by_constraint(draws, self.names[1])
        return read_draws(self.problem, draws, self.names)


def read_variables(problem: Problem, variables: Mapping[str, str] | None) -> Asked:
    """Which variables of a model a user means.

    `variables` maps `theta_reward` and `theta_cost`, or the candidates' `reward` and `cost`, to
    names of variables. In the second case the values themselves are the parameters, of a problem
    whose candidates are the axes.
    """
    if variables is None:
        return Asked(PARAMETERS, problem, False)
    _check.kind("variables", variables, Mapping)
    wanted = 2 if problem.thresholds.size else 1
    for keys in (PARAMETERS, VALUES):
        if set(variables) in (set(keys), set(keys[:wanted])):
            break
    else:
        raise ValueError(
            f"variables: expected {' and '.join(PARAMETERS[:wanted])}, or the candidates' "
            f"{' and '.join(VALUES[:wanted])}, got {', '.join(map(str, variables)) or 'nothing'}"
        )
    names = variables[keys[0]], variables.get(keys[1], keys[1])
    for name in names:
        _check.kind("variables", name, str)
    if keys == PARAMETERS:
        return Asked(names, problem, False)
    problem.require_textbook("a model of the candidates' own reward and costs")
    if np.any(problem.references):
        raise ValueError(
            "variables: a limit relative to a candidate needs theta_reward, theta_cost"
        )
    candidates = problem.coords["candidate"].tolist()
    limits = dict(zip(problem.coords["constraint"].tolist(), problem.limits, strict=True))
    axes = dict(zip(candidates, np.eye(len(candidates)), strict=True))
    return Asked(names, Problem(axes, limits), True)


def _by_constraint(draws: Any, name: str) -> Any:
    """Draws whose costs (candidate, constraint) stand as parameters do, constraints first."""
    if isinstance(draws, xr.DataTree):
        draws = (draws["posterior"] if "posterior" in draws.children else draws).to_dataset()
    if not isinstance(draws, xr.Dataset) or name not in draws or draws[name].ndim != 4:
        return draws
    lead = [dim for dim in draws[name].dims if dim not in ("chain", "draw")]
    return draws.assign({name: draws[name].transpose("chain", "draw", *lead[::-1])})


def in_parameters(
    model: pm.Model, alternative: Alternative, variables: Mapping[str, str] | None = None
) -> pm.Model:
    """The same posterior with `theta_reward` and `theta_cost` as free variables.

    Parameters
    ----------
    model : Model
        It is left as it is. One that has the two as free, untransformed variables is returned
        itself; where they are transformed, the transformation is undone; where they are computed,
        they take the place of coordinates in which they are affine.
    alternative : Alternative
        Whose problem the parameters are of.
    variables : mapping, optional
        Where they have other names: `{"theta_reward": "beta"}`; or the names of the variables that
        hold the candidates' reward (candidate) and costs (candidate, constraint), as in
        `{"reward": "effect", "cost": "risk"}`.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If there are no such variables, or they are not affine in any.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> import pymc as pm
    >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]})
    >>> with pm.Model() as model:  # a hierarchy, not centred
    ...     mean, scale = pm.Normal("mean"), pm.HalfNormal("scale")
    ...     theta = pm.Deterministic("theta_reward", mean + scale * pm.Normal("u", shape=2))
    ...     shown = pm.Normal("shown", theta, 0.3, observed=[0.2, 0.9])
    >>> same = bf.models.in_parameters(model, bf.Alternative(problem, "b"))
    >>> [variable.name for variable in same.free_RVs]
    ['theta_reward', 'others']
    """
    _check.kind("model", model, pm.Model)
    _check.kind("alternative", alternative, Alternative)
    asked = read_variables(alternative.problem, variables)
    problem, wanted = asked.problem, asked.wanted
    for name in wanted:
        if name not in model.named_vars:
            raise ValueError(
                f"model: expected a variable `{name}`, it has {', '.join(model.named_vars)}"
            )
    free = {variable.name: variable for variable in model.free_RVs}
    drawn = [free[name] for name in wanted if name in free]
    bent = [variable for variable in drawn if model.rvs_to_transforms[variable] is not None]
    if bent:
        key: tuple[Any, ...] = ("untransformed", *(variable.name for variable in bent))
        bare = keep(model, key, lambda: remove_value_transforms(model, bent))
        return in_parameters(bare, alternative, variables)
    if asked.names == PARAMETERS and len(drawn) == len(wanted):
        if "feature" in model.coords:
            return model
        return keep(model, "named", lambda: _named(clone_model(model), problem))
    key = ("parameters", asked.names, asked.by_candidate, problem.arms.shape)
    return keep(model, key, lambda: _Map(model, asked).model())


def _named(model: pm.Model, problem: Problem) -> pm.Model:
    """The model with the names of the features and constraints; it is changed itself."""
    for dim in ("feature", "constraint"):
        if dim not in model.coords and len(problem.coords[dim]):
            model.add_coord(dim, list(problem.coords[dim]))
    return model


class _Map:
    """From the coordinates of a model to its parameters, and back for those they are affine in."""

    def __init__(self, model: pm.Model, asked: Asked) -> None:
        self._model, self._problem, self._wanted = model, asked.problem, asked.wanted
        wanted = asked.wanted
        point = model.initial_point(0)
        thetas = model.replace_rvs_by_values([model[name] for name in wanted])
        features, constraints = self._problem.arms.shape[1], self._problem.thresholds.size
        self._shapes = [(features,), (constraints, features)][: len(wanted)]
        flat = []
        for name, theta, shape in zip(wanted, thetas, self._shapes, strict=True):
            found = tuple(np.shape(theta.eval(dict(_constants(model, point, theta)))))
            if asked.by_candidate and theta.ndim == 2:
                theta, found = theta.T, found[::-1]
            if found != shape and not (len(shape) == 2 and shape[0] == 1 and found == shape[1:]):
                raise ValueError(f"model: expected {name} of shape {shape}, got {found}")
            flat.append(theta.ravel())
        outputs = [model.logp(), pt.concatenate(flat)]
        [self._joint, self._theta], self._joined = join_nonshared_inputs(
            point, outputs, model.value_vars
        )
        self._start = np.concatenate([np.ravel(point[v.name]) for v in model.value_vars])
        self._places, size = [], 0
        for value in model.value_vars:
            length = np.size(point[value.name])
            self._places.append(np.arange(size, size + length))
            size += length
        many = pt.matrix("points", shape=(None, size))
        self._over_points = pytensor.function(
            [many], vectorize_graph(self._theta, {self._joined: many}), mode=interpreted()
        )
        self._scales = [
            place
            for value, place in zip(model.value_vars, self._places, strict=True)
            if is_log(model.rvs_to_transforms[model.values_to_rvs[value]])
        ]

    def model(self) -> pm.Model:
        """The model in its parameters and whatever other coordinates it has."""
        chosen, slopes = self._choose()
        size, total = len(chosen), len(self._start)
        rest = np.setdiff1d(np.arange(total), chosen)
        order = np.argsort(np.concatenate([chosen, rest]))
        theta = pt.vector("theta", shape=(size,))
        others = pt.vector("rest", shape=(rest.size,)) if rest.size else pt.zeros(0)
        inner, volume = self._invert(theta, others, chosen, order, slopes)
        point = pt.concatenate([inner, others])[order]
        joint = graph_replace(self._joint, {self._joined: point}) - volume
        start = self._over_points(self._start[np.newaxis])[0]
        coords = {dim: self._problem.coords[dim] for dim in ("feature", "constraint")}
        with pm.Model(coords={d: list(c) for d, c in coords.items() if len(c)}) as result:
            free, first = [], 0
            for name, shape in zip(PARAMETERS, self._shapes, strict=False):
                last = first + int(np.prod(shape))
                dims = ("constraint", "feature")[-len(shape) :]
                free.append(pm.Flat(name, dims=dims).ravel())
                first = last
            replaced: dict[Any, Any] = {theta: pt.concatenate(free)}
            if rest.size:
                replaced[others] = pm.Flat("others", shape=rest.size)
            pm.Potential("posterior", graph_replace(joint, replaced, strict=False))
        keep(result, "start", lambda: np.concatenate([start, self._start[rest]]))
        keep(result, "prior", lambda: self._prior(rest))
        log_places = np.concatenate([np.empty(0, dtype=np.int64), *self._scales])
        keep(result, "scales", lambda: size + np.flatnonzero(np.isin(rest, log_places)))
        return result

    def _invert(
        self, theta: Any, others: Any, chosen: NDArray[np.int64], order: NDArray[np.int64],
        slopes: Array,
    ) -> tuple[Any, Any]:  # fmt: skip
        """The chosen coordinates by the parameters, and the logarithm of the map's volume."""
        size, total = len(chosen), len(self._start)
        held = pt.concatenate([pt.zeros(size), others])[order]
        if not (slopes * (1.0 - np.eye(size))).any():  # each parameter has its own coordinate
            basis = np.zeros((2, total))
            basis[1, chosen] = 1.0
            at = vectorize_graph(self._theta, {self._joined: held + basis})
            scale = at[1] - at[0]
            return (theta - at[0]) / scale, pt.sum(pt.log(pt.abs(scale)))
        if np.ptp(slopes, axis=0).max() <= CURVED * np.abs(slopes).max():
            at = graph_replace(self._theta, {self._joined: held})
            inverse = np.linalg.inv(slopes[0])
            return pt.dot(inverse, theta - at), np.linalg.slogdet(slopes[0])[1]
        basis = np.zeros((size + 1, total))
        basis[np.arange(1, size + 1), chosen] = 1.0
        at = vectorize_graph(self._theta, {self._joined: held + basis})  # affine: that is all of it
        matrix = (at[1:] - at[0]).T
        size_of = pt.abs(pt.linalg.det(matrix))
        good = (size_of > TINIEST) & (size_of < 1.0 / TINIEST)  # where not, the density is 0
        inner = pt.linalg.solve(pt.switch(good, matrix, np.eye(size)), theta - at[0])
        return inner, pt.switch(good, pt.log(pt.switch(good, size_of, 1.0)), np.inf)

    def _prior(self, rest: NDArray[np.int64]) -> Callable[[int, int], Array]:
        """Draws of the prior in the new coordinates."""
        draw = prior_sampler(self._model)

        def in_these(number: int, seed: int) -> Array:
            points = draw(number, seed)
            if not len(points):
                return np.empty((0, len(self._start)))
            return np.column_stack([self._over_points(points), points[:, rest]])

        return in_these

    def _choose(self) -> tuple[NDArray[np.int64], Array]:
        """Coordinates in which the parameters are affine, one for each, and slopes at points.

        Variables with many coordinates come first.
        """
        rng = np.random.default_rng(0)
        size = int(sum(np.prod(shape) for shape in self._shapes))
        points = self._start + np.concatenate([[0 * self._start],
            0.5 * rng.standard_normal((PROBES, len(self._start)))])  # fmt: skip
        taken = np.empty(0, dtype=np.int64)
        rank = 0
        for place in sorted(self._places, key=len, reverse=True):
            if rank == size:
                break
            more = np.concatenate([taken, place])
            if self._affine(points, more, rng):
                matrix = self._slopes(points[1], more)
                now = _rank(matrix)
                if now > rank:
                    taken, rank = more, now
        if rank < size:
            names = " and ".join(self._wanted)
            raise NotAffine(
                f"model: {names} are not affine in free variables given the others, one for each "
                "parameter, so the density has no coordinates in which mistakes are half-spaces; "
                'method="frequency" counts draws of any model'
            )
        pivots = qr(self._slopes(points[1], taken), mode="r", pivoting=True)[1]
        chosen = np.sort(taken[pivots[:size]])
        slopes = np.array([self._slopes(point, chosen) for point in points])
        moves = slopes.any(axis=0)
        if (moves.sum(axis=0) == 1).all() and (moves.sum(axis=1) == 1).all():
            own = moves.argmax(axis=1)
            chosen, slopes = chosen[own], slopes[:, :, own]
        return chosen, slopes

    def _slopes(self, point: Array, places: NDArray[np.int64]) -> Array:
        """How the parameters move with some coordinates, (parameter, coordinate)."""
        moved = np.tile(point, (len(places) + 1, 1))
        moved[np.arange(1, len(places) + 1), places] += 1.0
        found = self._over_points(moved)
        return (found[1:] - found[0]).T

    def _affine(self, points: Array, places: NDArray[np.int64], rng: np.random.Generator) -> bool:
        step = np.zeros_like(points)
        step[:, places] = rng.standard_normal((len(points), len(places)))
        low, middle, high = (self._over_points(points + t * step) for t in (-1.0, 0.0, 1.0))
        moved = np.abs(high - low).max() + 1e-300
        return bool(np.all(np.abs(high - 2 * middle + low) <= CURVED * max(moved, 1e-8)))


def _rank(matrix: Array) -> int:
    values = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(values > FLAT * values.max(initial=0.0)))


def _constants(model: pm.Model, point: dict[str, Any], theta: Any) -> list[tuple[Any, Any]]:
    """The start of those value variables that something depends on."""
    known = set(ancestors([theta]))
    return [(value, point[value.name]) for value in model.value_vars if value in known]
