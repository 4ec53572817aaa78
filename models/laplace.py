"""Newton's method within an event, and the Gaussian at the mode that it finds."""

from typing import NamedTuple

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.events import Events
from bayes_feasible.models.density import Density, density
from bayes_feasible.models.reference import LOG_2PI, Reference

STEPS = 100  # of Newton's method; a dozen is usual
HALVINGS = 30
SWEEPS = 60  # over the half-spaces of an event; one is enough where they do not interact
SETTLED = 1e-10  # relative to the log-density: a step that gains less is the last


def laplace(
    model: pm.Model, alternative: Alternative | None = None, event: int | None = None
) -> Reference:
    r"""A Gaussian with the model's own slope and curvature at a mode.

    Without an event it is Laplace's approximation at the mode of the posterior, exact for
    `linear_gaussian`. With one, the expansion is made at the mode within the event, usually on its
    edge: there a Gaussian with the same logarithm, slope and curvature as the posterior has mean
    :math:`\theta + C g` and covariance `C`, where `g` is the slope and :math:`C^{-1}` the
    curvature. Given the event, that is close to the posterior however rare the event is; the
    expansion at the global mode is not.

    Scales that the model learns are held at their values at the mode, and a `parameter_radius` is
    ignored. `log_evidence` is Laplace's approximation at the global mode in either case, so that
    the weights of all events are on one scale.

    Parameters
    ----------
    model : Model
        A model of this package, before `alternative` is added to it. Its functions are compiled
        once, whatever data `set_data` gives it.
    alternative : Alternative, optional
    event : int, optional
        Which of `alternative.events`.

    Returns
    -------
    Reference

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> posterior = History(instance.problem, [0, 2], *instance.pull([0, 2], seed=1)).posterior()
    >>> found = models.laplace(models.linear_gaussian(posterior))
    >>> np.allclose(found.mean[0], posterior.theta_reward)
    True
    >>> np.allclose(found.covariance[0], posterior.covariance)
    True
    """
    if "theta_reward" not in {rv.name for rv in model.free_RVs}:
        raise ValueError("model: expected a free variable `theta_reward`, as the models here have")
    if (alternative is None) != (event is None):
        raise ValueError("event: expected an alternative and the index of one of its events")
    functions = density(model)
    if not np.isfinite(functions.value(functions.start[np.newaxis])).all():
        raise ValueError("model: its log-density is not finite at its initial point")
    [mode] = find_modes(functions, functions.start[np.newaxis], functions.everywhere())
    curvatures = np.linalg.eigvalsh(mode.curvature)
    if mode.settled and curvatures.min() <= 0:
        raise NoMode("model: its log-density is not curved downwards at its mode")
    evidence = mode.value + 0.5 * np.sum(LOG_2PI - np.log(np.abs(curvatures)))
    if alternative is not None and event is not None:
        asked = alternative.events.only(event)
        inside = project(functions, asked, mode.at[np.newaxis], inverse(mode.curvature))
        [mode] = find_modes(functions, inside, asked)
    if not mode.settled:
        raise NoMode(
            "model: Newton's method has not found a mode of its log-density; a learnt scale that "
            "may be 0 leaves none, a prior that keeps it away from 0 helps"
        )
    means, roots = [], []
    for place in functions.parameters:
        root = inverse_root(mode.curvature[np.ix_(place, place)])
        means.append(mode.at[place] + root @ (root.T @ mode.slope[place]))
        roots.append(root)
    return Reference(np.array(means), np.array(roots), float(evidence))


class NoMode(ValueError):
    """A log-density has no mode with a Gaussian at it, as far as one can see."""


class Mode(NamedTuple):
    """A point with the value, slope and curvature of a log-density there."""

    at: Array
    value: float
    slope: Array
    curvature: Array
    settled: bool  # whether Newton's method has arrived


def find_modes(density: Density, starts: Array, events: Events) -> list[Mode]:
    """The mode within each event from a start inside it, for all events at once.

    Newton's method: the parabola at a point is maximised within the half-spaces, and the step
    towards there is halved until the log-density has risen by enough.
    """
    at, value = starts.copy(), density.value(starts)
    normals, limits = density.normals(events), events.limits
    active, settled = np.arange(len(at)), np.zeros(len(at), dtype=bool)
    for _ in range(STEPS):
        here = at[active]
        slope, curvature = density.bends(here)
        metric = np.array([inverse(one) for one in curvature])
        centre = here + np.einsum("eij,ej->ei", metric, slope)
        step = _project(centre, metric, normals[active], limits[active]) - here
        gain = np.einsum("ei,ei->e", slope, step)  # twice what a parabola would gain
        # Rounding may hide so small a climb, but not that the parabola is right so near the mode.
        last = gain <= SETTLED * np.maximum(1.0, np.abs(value[active]))
        at[active[last]] += step[last]
        settled[active[last]] = True
        active, step, gain = active[~last], step[~last], gain[~last]
        active = active[_climb(density, at, value, active, step, gain)]
        if not active.size:
            break
    slope, curvature = density.bends(at)
    parts = zip(at, density.value(at), slope, curvature, settled, strict=True)
    return [Mode(*each) for each in parts]


def _climb(
    density: Density, at: Array, value: Array, active: Array, step: Array, gain: Array
) -> NDArray[np.bool_]:
    """Move along the steps, halved where need be; says which have moved."""
    moved = np.zeros(len(active), dtype=bool)
    length = 1.0
    for _ in range(HALVINGS):
        left = np.flatnonzero(~moved)
        if not left.size:
            break
        there = at[active[left]] + length * step[left]
        reached = density.value(there)
        good = reached >= value[active[left]] + 1e-4 * length * gain[left]
        at[active[left[good]]], value[active[left[good]]] = there[good], reached[good]
        moved[left[good]] = True
        length *= 0.5
    return moved


def project(density: Density, events: Events, points: Array, metric: Array) -> Array:
    """The point of each event that is nearest to one given, in a metric whose inverse is given."""
    metrics = np.broadcast_to(metric, (len(points), density.size, density.size))
    return _project(points, metrics, density.normals(events), events.limits)


def _project(points: Array, inverses: Array, normals: Array, limits: Array) -> Array:
    """The nearest point of each event, in the metric whose inverse is given.

    With multipliers `m >= 0` of the half-spaces it is `x + C A' m`; Gauss and Seidel's sweeps find
    them, in one where the half-spaces do not interact.
    """
    toward = np.einsum("eij,erj->eri", inverses, normals)
    cross = np.einsum("eri,eqi->erq", toward, normals)
    asked = limits > -np.inf
    lack = np.where(asked, limits, 0.0) - np.einsum("eri,ei->er", normals, points)
    multipliers = np.zeros(limits.shape)
    for _ in range(SWEEPS):
        before = multipliers.copy()
        for row in range(limits.shape[1]):
            size = np.where(asked[:, row], cross[:, row, row], 1.0)
            rest = lack[:, row] - np.einsum("eq,eq->e", cross[:, row], multipliers)
            raised = np.maximum(multipliers[:, row] + rest / size, 0.0)
            multipliers[:, row] = np.where(asked[:, row], raised, 0.0)
        if np.allclose(before, multipliers, rtol=1e-13, atol=0.0):
            break
    return points + np.einsum("er,eri->ei", multipliers, toward)


def eigen(curvature: Array) -> tuple[Array, Array]:
    """Eigenvalues, made positive where the log-density curves upwards, and eigenvectors."""
    values, axes = np.linalg.eigh(np.nan_to_num(curvature))
    size = np.abs(values)
    return np.maximum(size, 1e-14 * size.max(initial=0.0) + np.finfo(float).tiny), axes


def inverse(curvature: Array) -> Array:
    """The inverse; of its absolute value where a curvature is negative."""
    values, axes = eigen(curvature)
    return (axes / values) @ axes.T


def inverse_root(curvature: Array) -> Array:
    """A root of the inverse; of its absolute value where a curvature is negative."""
    values, axes = eigen(curvature)
    return axes / np.sqrt(values)
