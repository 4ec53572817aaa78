r"""Alternative sets under models whose noise scales are unknown, by quadrature over the scales.

Given its scale, each parameter vector is Gaussian, so an event's probability is
:math:`\prod_b \int p(s_b \mid \text{data}) \, \Phi(-o_b(s_b)) \, ds_b`, with :math:`o_b(s)` the
distance to the half-space in standard deviations. Far out such an event happens because the scale
was larger than believed: neither a Gaussian nor draws of the scale reach there, but a grid does.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.events import Events
from bayes_feasible.alternative.probability import mean_share
from bayes_feasible.analysis.evidence.expansion import PRUNE
from bayes_feasible.models.density import Density
from bayes_feasible.models.laplace import Mode
from bayes_feasible.models.reference import LOG_2PI

NEGLIGIBLE = 40.0  # the grid ends where the density has fallen by e^-40
SPACING = 0.4  # in standard deviations; for smooth densities on the line this is exact to 1e-20
COARSE = 65  # nodes while the ends are looked for
MOST_NODES = 20_000
TINIEST = 1e-250  # a precision whose root has a square that is a number
DOUBLINGS = 60
CHUNK = 2_000_000  # numbers in one array of covariances


class NoGrid(ValueError):
    """A scale is so uncertain that no grid holds its posterior; the message says of what."""

    def __init__(self, block: int) -> None:
        whose = "reward" if block == 0 else f"cost {block - 1}"
        super().__init__(
            f"the scale of the noise of {whose} is too uncertain for a grid; more pulls or a "
            "larger prior_pulls will help"
        )


def scale_coordinates(density: Density) -> NDArray[np.int64] | None:
    """The coordinate of each parameter vector's scale; None if that is not all there is.

    The scales are the free variables other than the parameters, named after what they belong to:
    `reward_...`, one number, and `cost_...`, one for each constraint.
    """
    reward = [place for name, place in density.others.items() if name.startswith("reward_")]
    cost = [place for name, place in density.others.items() if name.startswith("cost_")]
    parts = [*reward[:1], *cost[:1]]
    if len(parts) < len(density.others) or not parts:
        return None
    found = np.concatenate(parts)
    return found if len(found) == len(density.parameters) else None


class Grid(NamedTuple):
    """One parameter vector given its scale at the nodes of a grid, equally spaced."""

    log_density: Array  # (node,): of the node, normalised over the nodes
    mean: Array  # (node, feature)
    root: Array  # (node, feature, feature): the covariance is root @ root.T

    def offsets(self, vector: Array, limit: float) -> Array:
        """Standard deviations from the mean to the half-space at each node."""
        spread = np.linalg.norm(np.einsum("f,nfa->na", vector, self.root), axis=1)
        return (limit - self.mean @ vector) / spread

    def tilted(self, vector: Array, limit: float) -> Array:
        """Log-probability of each node together with the half-space."""
        if limit == -np.inf:
            return self.log_density
        return self.log_density + log_ndtr(-self.offsets(vector, limit))

    def draw(self, vector: Array, limit: float, number: int, rng: np.random.Generator) -> Array:
        """Draws of the parameter vector given the half-space, (draw, feature)."""
        log_share = self.tilted(vector, limit)
        cumulative = np.cumsum(np.exp(log_share - log_share.max()))
        node = np.searchsorted(cumulative, cumulative[-1] * rng.random(number), side="right")
        node = np.minimum(node, len(cumulative) - 1)
        result = np.empty((number, self.mean.shape[1]))
        rows = max(CHUNK // self.root[0].size, 1)
        for start in range(0, number, rows):
            part = slice(start, start + rows)
            result[part] = self._draw_at(node[part], vector, limit, rng)
        return result

    def _draw_at(
        self, node: NDArray[np.int64], vector: Array, limit: float, rng: np.random.Generator
    ) -> Array:
        root = self.root[node]
        white = rng.standard_normal((len(node), root.shape[2]))
        if limit > -np.inf:
            bound = self.offsets(vector, limit)[node]
            normal = np.einsum("f,nfa->na", vector, root)
            normal /= np.linalg.norm(normal, axis=1, keepdims=True)
            beyond = -ndtri_exp(log_ndtr(-bound) - rng.standard_exponential(len(node)))
            white += (beyond - np.sum(white * normal, axis=1))[:, np.newaxis] * normal
        return self.mean[node] + np.einsum("nfa,na->nf", root, white)


def grid(
    density: Density, modes: list[Mode], block: int, coordinate: int, vectors: Array, limits: Array
) -> Grid:
    """A grid for the scale (a coordinate) of a block, wide enough for all modes and half-spaces."""
    mode, centres = modes[0], np.array([one.at[coordinate] for one in modes])
    widths = np.array([one.curvature[coordinate, coordinate] for one in modes]) ** -0.5
    centre = 0.5 * (centres.min() + centres.max())
    ends = np.array([-1.0, 1.0]) * (0.5 * np.ptp(centres) + widths.max())
    asked = limits > -np.inf
    for _ in range(DOUBLINGS):
        nodes = centre + np.linspace(ends[0], ends[1], COARSE)
        coarse = _given_scales(density, mode, block, coordinate, nodes)
        curves = [coarse.log_density]
        curves += [coarse.tilted(*pair) for pair in zip(vectors[asked], limits[asked], strict=True)]
        short = np.max([curve[[0, -1]] - curve.max() for curve in curves], axis=0) > -NEGLIGIBLE
        if not short.any():
            break
        ends = np.where(short, 1.5 * ends, ends)
    number = int(np.ptp(ends) / (SPACING * min(widths.min(), _narrowest(curves, nodes)))) + 1
    if short.any() or number > MOST_NODES:
        raise NoGrid(block)
    nodes = centre + np.linspace(ends[0], ends[1], max(number, COARSE))
    return _given_scales(density, mode, block, coordinate, nodes)


def _narrowest(curves: list[Array], nodes: Array) -> float:
    """The smallest standard deviation of the curves, from their bends at their tops."""
    step, widths = nodes[1] - nodes[0], []
    for curve in curves:
        top = int(np.clip(np.argmax(curve), 1, len(curve) - 2))
        bend = -(curve[top + 1] - 2 * curve[top] + curve[top - 1]) / step**2
        widths.append(1.0 / np.sqrt(max(bend, 1e-300)))
    return min(widths)


def _given_scales(density: Density, mode: Mode, block: int, coordinate: int, nodes: Array) -> Grid:
    """The Gaussian at each node: from anywhere, one step of Newton's method reaches its mean."""
    place = density.parameters[block]
    points = np.tile(mode.at, (len(nodes), 1))
    points[:, coordinate] = nodes
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # refused below
        slope, curvature = density.bends(points)
    slope, curvature = slope[:, place], curvature[:, place[:, np.newaxis], place]
    if not np.all(np.abs(curvature) < 1.0 / TINIEST):
        raise NoGrid(block)
    values, axes = np.linalg.eigh(curvature)
    if not np.all(values > TINIEST):
        raise NoGrid(block)
    root = axes / np.sqrt(values)[:, np.newaxis, :]
    mean = points[:, place] + np.einsum("nfa,nga,ng->nf", root, root, slope)
    points[:, place] = mean
    log_volume = 0.5 * place.size * LOG_2PI - 0.5 * np.log(values).sum(axis=1)
    log_density = density.value(points) + log_volume
    return Grid(log_density - logsumexp(log_density), mean, root)


def is_gaussian(density: Density, modes: list[Mode], scales: NDArray[np.int64]) -> bool:
    """Whether the parameters are independent Gaussians given their scales, as far as one can see.

    Looked at a few points around each mode: Newton's method has to arrive in one step whatever the
    scales, and neither curvature nor slope of a parameter vector may know of another's values or
    scale.
    """
    rng = np.random.default_rng(0)
    points = np.concatenate(
        [
            mode.at + rng.standard_normal((4, density.size)) * 2 / np.sqrt(np.diag(mode.curvature))
            for mode in modes
        ]
    )
    owner = np.full(density.size, -1)
    for block, place in enumerate(density.parameters):
        owner[place] = block
    owner[scales] = np.arange(len(scales))
    slope, curvature = density.bends(points)
    size = np.sqrt(np.abs(np.einsum("pii->pi", curvature)))
    scale = size[:, :, np.newaxis] * size[:, np.newaxis]
    strangers = owner[:, np.newaxis] != owner
    if np.any(np.abs(curvature[:, strangers]) > 1e-8 * scale[:, strangers]):
        return False
    place = density.parameters.ravel()
    inner = curvature[:, place[:, np.newaxis], place]
    slope = slope[:, place]
    there = points.copy()
    there[:, place] += np.linalg.solve(inner, slope[..., np.newaxis])[..., 0]
    left = np.abs(density.bends(there)[0][:, place])
    return bool(np.all(left <= 1e-8 * np.abs(slope).max(axis=1, keepdims=True)))


class Measured(NamedTuple):
    """The union of the events: its log-probability, standard error, and those of the events."""

    value: float
    standard_error: float
    log_probabilities: Array
    efficiency: float


def measure(
    density: Density, modes: list[Mode], scales: NDArray[np.int64], alternative: Alternative,
    draws: int, rng: np.random.Generator,
) -> Measured:  # fmt: skip
    """The log-probability of an alternative set with the scales integrated out.

    That of each event is exact to rounding; the union is their sum times the mean of one over the
    number of events that contain a draw from them.
    """
    events = alternative.events
    possible, near = events.possible, events.take(events.possible)
    asked = np.flatnonzero(np.any(near.limits > -np.inf, axis=0))
    grids = {
        b: grid(density, modes, b, scales[b], near.vectors[:, b], near.limits[:, b])
        for b in asked.tolist()
    }
    log_probabilities = np.full(len(events), -np.inf)
    for event, vectors, limits in zip(possible, near.vectors, near.limits, strict=True):
        log_probabilities[event] = sum(
            logsumexp(one.tilted(vectors[b], limits[b])) for b, one in grids.items()
        )
    kept = np.flatnonzero(log_probabilities > log_probabilities.max() - PRUNE)
    near = events.take(kept)

    def count(chosen: NDArray[np.int64]) -> Array:
        return np.concatenate(
            [
                _count_events(grids, near, event, number, rng)
                for event, number in zip(*np.unique(chosen, return_counts=True), strict=True)
            ]
        )

    share = mean_share(count, log_probabilities[kept], rng, draws)
    value = min(float(logsumexp(log_probabilities[kept])) + math.log(share.value), 0.0)
    error = share.standard_error / share.value
    return Measured(value, error, log_probabilities, share.efficiency)


def _count_events(
    grids: dict[int, Grid], events: Events, event: int, draws: int, rng: np.random.Generator
) -> Array:
    """For draws given one event, how many events contain them."""
    theta = np.zeros((draws, *events.vectors.shape[1:]))
    for b, one in grids.items():
        theta[:, b] = one.draw(events.vectors[event, b], events.limits[event, b], draws, rng)
    inside = events.contains(theta)
    inside[:, event] = True  # its own event counts without asking
    return inside.sum(axis=1).astype(float)
