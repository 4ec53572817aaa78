"""The modes of a log-density, anywhere and within events, searched for from many starts.

A log-density need not be concave. Points are scattered far and wide: draws of the prior, and
neighbours near and far of the modes known so far. Newton's method starts from some of them, most of
these being points whose density the known modes do not explain. That is repeated until nothing new
is found, and in the end many more points like the prior's are looked at: a narrow mode beside a
wide one shows only close to itself.
"""

import numpy as np

from bayes_feasible._check import Array
from bayes_feasible.alternative.events import Events
from bayes_feasible.models.density import Density
from bayes_feasible.models.laplace import (
    Mode,
    NoMode,
    eigen,
    find_modes,
    inverse,
    inverse_root,
    project,
)

PRIOR_DRAWS = 64
SCATTERED = 2**15  # points of which the density is looked at in a round
STARTS = 96  # of Newton's method in a round
EVENT_SCATTERED, EVENT_STARTS = 512, 24  # the same for each event
MOST_ROUNDS = 12
SWEPT = 2**18  # points like the prior's that are looked at in the end, fewer beside much data
PRIOR_SCALES = 0.5, 1.0, 2.0
NEAREST, FARTHEST = 1.0, 100.0  # standard deviations of a mode that its neighbours are away
TAIL = 3.0  # degrees of freedom that a known mode is believed to have: heavy tails are no news
LOW = 60.0  # a mode e^-60 as high as another does not matter
APART = 1e-2  # modes that are less standard deviations apart are one


def global_modes(density: Density) -> list[Mode]:
    """The modes of a log-density, highest first."""
    everywhere = density.everywhere()
    prior = density.draw_prior(PRIOR_DRAWS, seed=0)
    starts = np.concatenate([density.start[np.newaxis], prior[: STARTS - 1]])
    found: list[Mode] = []
    swept = False
    for turn in range(MOST_ROUNDS):
        more = find_modes(density, starts, everywhere.take([0] * len(starts)))
        # Between two modes of the same height a start may sit on the saddle.
        before, tops = len(found), [mode for mode in [*found, *more] if _is_top(mode)]
        found = _distinct(tops or [mode for mode in [*found, *more] if np.isfinite(mode.value)])
        if not found:
            raise ValueError("model: found no point where its log-density is finite")
        if turn > 0 and len(found) == before:
            if swept or len(prior) < 2:
                return found
            swept, points = True, _alike(prior, density.affordable(SWEPT), seed=turn)
        else:
            points = _scatter(found, prior, SCATTERED, seed=turn)
        starts = _pick(found, points, density.value(points), STARTS)
    raise NoMode(f"model: after {len(found)} modes of its log-density still more are found")


def event_modes(
    density: Density, events: Events, summits: list[Mode], *, search: bool = True
) -> list[list[Mode]]:
    """The modes within each event that the global modes and, with `search`, more starts lead to."""
    near = np.array([summit.at for summit in summits])
    metrics = np.array([inverse(summit.curvature) for summit in summits])
    repeats = len(events), 1, 1
    pairs = events.take(np.repeat(np.arange(len(events)), len(near)))
    inside = project(density, pairs, np.tile(near, repeats[:2]), np.tile(metrics, repeats))
    found = [_distinct(some) for some in _split(find_modes(density, inside, pairs), len(near))]
    prior = density.draw_prior(PRIOR_DRAWS, seed=0) if search else near
    left = np.arange(len(events) if search else 0)
    for turn in range(MOST_ROUNDS):
        if not left.size:
            break
        wide = np.array([_scatter(found[e], prior, EVENT_SCATTERED, seed=turn) for e in left])
        pairs = events.take(np.repeat(left, wide.shape[1]))
        points = project(density, pairs, wide.reshape(-1, density.size), metrics[0])
        values = density.value(points).reshape(wide.shape[:2])
        parts = zip(left, points.reshape(wide.shape), values, strict=True)
        starts = [_pick(found[e], some, value, EVENT_STARTS) for e, some, value in parts]
        pairs = events.take(np.repeat(left, EVENT_STARTS))
        more = _split(find_modes(density, np.concatenate(starts), pairs), EVENT_STARTS)
        before = [len(found[e]) for e in left]
        for event, some in zip(left, more, strict=True):
            found[event] = _distinct([*found[event], *some])
        left = left[[len(found[e]) > size for e, size in zip(left, before, strict=True)]]
    if left.size:
        raise NoMode(f"model: within {events.names[left[0]]!r} more and more modes are found")
    return found


def _scatter(modes: list[Mode], prior: Array, number: int, seed: int) -> Array:
    """Points far and wide: like the prior, around modes, and where modes may be expected."""
    rng, size = np.random.default_rng(seed), modes[0].at.size
    at = np.array([mode.at for mode in modes])
    roots = np.array([inverse_root(mode.curvature) for mode in modes])
    one, first, second, third = rng.integers(len(modes), size=(4, number // 3))
    white = rng.standard_normal((2, len(one), size))
    far = NEAREST * (FARTHEST / NEAREST) ** rng.random((len(one), 1))
    around = at[one] + far * np.einsum("pij,pj->pi", roots[one], white[0])
    # Where parameters do not know of each other, the modes of all are sums of the modes of each.
    length = np.where(rng.random((len(one), 1)) < 0.5, 1.0, rng.uniform(-2.0, 2.0, (len(one), 1)))
    sums = at[first] + length * (at[second] - at[third])
    sums += np.einsum("pij,pj->pi", roots[first], white[1])
    return np.concatenate([around, sums, _alike(prior, len(one), seed)])


def _alike(prior: Array, number: int, seed: int) -> Array:
    """Points with the mean and the covariance of draws of the prior, or scaled; none without."""
    if len(prior) < 2:
        return prior[:0]
    rng, root = np.random.default_rng([1, seed]), np.linalg.qr(prior - prior.mean(axis=0))[1]
    root /= np.sqrt(len(prior) - 1.0)
    scale = rng.choice(PRIOR_SCALES, (number, 1))
    return prior.mean(axis=0) + scale * rng.standard_normal((number, len(root))) @ root


def _pick(modes: list[Mode], points: Array, values: Array, number: int) -> Array:
    """A third of the points at random, and those whose density the known modes explain least.

    They may explain it with Gaussian tails, beside which any other mode's tail is news, and with
    heavy ones, beside which only what is close to another mode is.
    """
    rng = np.random.default_rng(0)
    light, heavy = np.full((2, len(points)), -np.inf)
    for mode in modes:
        off, (curvatures, axes) = points - mode.at, eigen(mode.curvature)
        height, square = mode.value + off @ mode.slope, (off @ axes) ** 2 @ curvatures
        light = np.maximum(light, height - 0.5 * square)
        tail = 0.5 * (TAIL + mode.at.size) * np.log1p(square / TAIL)
        heavy = np.maximum(heavy, height - tail)
    values, picked = np.where(np.isfinite(values), values, -np.inf), []
    for known in (light, heavy):
        # The best of as many groups, for the best of all may be neighbours.
        groups = np.array_split(rng.permutation(len(points)), number // 3)
        picked += [group[np.argmax((values - known)[group])] for group in groups]
    return points[[*picked, *rng.permutation(len(points))[: number - len(picked)]]]


def _split(modes: list[Mode], size: int) -> list[list[Mode]]:
    return [modes[first : first + size] for first in range(0, len(modes), size)]


def _distinct(found: list[Mode]) -> list[Mode]:
    """Modes less those that repeat another, are hardly probable or none; highest first."""
    found = sorted(found, key=lambda mode: -mode.value)
    kept = found[:1]
    for mode in found[1:]:
        if not mode.settled or mode.value < kept[0].value - LOW:
            continue
        apart = [(mode.at - other.at) @ other.curvature @ (mode.at - other.at) for other in kept]
        if min(np.abs(apart)) > APART**2:
            kept.append(mode)
    return kept


def _is_top(mode: Mode) -> bool:
    return bool(np.isfinite(mode.curvature).all() and np.linalg.eigvalsh(mode.curvature)[0] > 0)
