"""Draws from a union of events: compiled in bulk, and in NumPy the few that an estimate needs.

Everything here lives in whitened coordinates: a parameter is a standard normal vector `u` of
`rank` numbers for each block, and event `e` asks of block `b` that
`normals[e, b] @ u[b] >= offsets[e, b]`, with unit normals. An offset of -inf asks nothing; an
offset of +inf makes the event impossible.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.alternative.normal import draw_excess, tail_excess

EPSILON = np.finfo(np.float64).eps
CHUNK = 500_000  # numbers in one array of draws


@njit(cache=True, error_model="numpy")
def draw_event(rng, normals, offsets, event, points, draw):
    """One draw of the whitened parameters given one event, written to `points[draw]`."""
    blocks, rank = points.shape[1:]
    for b in range(blocks):
        along = 0.0
        for i in range(rank):
            normal = rng.standard_normal()
            points[draw, b, i] = normal
            along += normals[event, b, i] * normal
        bound = offsets[event, b]
        if bound > -np.inf:
            move = bound + tail_excess(rng, bound) - along
            for i in range(rank):
                points[draw, b, i] += move * normals[event, b, i]


@njit(cache=True, error_model="numpy")
def count_events(normals, offsets, points, draw, drawn):
    """How many events contain `points[draw]`; the one it was drawn from counts without asking."""
    blocks, rank = points.shape[1:]
    count = 1
    for event in range(len(offsets)):
        inside = event != drawn
        for b in range(blocks):
            if not inside:
                break
            along = 0.0
            for i in range(rank):
                along += normals[event, b, i] * points[draw, b, i]
            inside = along >= offsets[event, b]
        count += inside
    return count


@njit(cache=True, error_model="numpy")
def draw_union(rng, normals, offsets, cumulative, points, events):
    """Exact independent draws given the union; returns how many proposals they took.

    An event is picked with probability proportional to its own, a point is drawn given that
    event, and kept with probability one over the number of events that contain it.
    """
    tried = 0
    total = cumulative[-1]
    for draw in range(len(points)):
        while True:
            tried += 1
            event = np.searchsorted(cumulative, rng.random() * total, side="right")
            draw_event(rng, normals, offsets, event, points, draw)
            count = count_events(normals, offsets, points, draw, event)
            if count == 1 or rng.random() * count < 1.0:
                events[draw] = event
                break
    return tried


@njit(cache=True, error_model="numpy")
def to_parameters(points, events, root, centre, scale, vectors, limits, result):
    """Parameters `centre + scale * (root @ u)`, never outside their event by a rounding.

    `vectors[e, b] @ parameter >= limits[e, b]` is event `e` in the user's own coordinates.
    A draw that rounding leaves outside, or too close to tell, is moved to where the sum can be
    told apart from the limit whatever the order it is added in.
    """
    features, rank = root.shape
    for draw in range(len(points)):
        for b in range(points.shape[1]):
            for i in range(features):
                total = 0.0
                for j in range(rank):
                    total += root[i, j] * points[draw, b, j]
                result[draw, b, i] = centre[b, i] + scale[b] * total
            limit = limits[events[draw], b]
            if limit == -np.inf:
                continue
            value, size, square = 0.0, abs(limit), 0.0
            for i in range(features):
                vector = vectors[events[draw], b, i]
                value += result[draw, b, i] * vector
                size += abs(result[draw, b, i] * vector)
                square += vector**2
            lack = limit + 2.0 * (features + 2) * EPSILON * size - value
            if lack > 0.0:
                for i in range(features):
                    result[draw, b, i] += lack / square * vectors[events[draw], b, i]


@njit(cache=True, error_model="numpy")
def draw_inside(rng, multiplier, centre, spread, normal, offset, radius, point):
    """One proposal of `bounded`, and the log-probability of keeping it: -inf if outside."""
    keep = 0.0
    for b in range(len(offset)):
        draw = point[b]
        along = 0.0
        for i in range(draw.size):
            draw[i] = rng.standard_normal()
            along += draw[i] * normal[b, i]
        move = 0.0
        if offset[b] > -np.inf:
            move = offset[b] + tail_excess(rng, offset[b]) - along
        square = 0.0
        for i in range(draw.size):
            draw[i] = centre[b, i] + spread[b, i] * (draw[i] + move * normal[b, i])
            square += draw[i] * draw[i]
        if square > radius[b] * radius[b]:
            return -np.inf
        if multiplier[b] > 0.0:
            keep -= 0.5 * multiplier[b] * (radius[b] * radius[b] - square)
    return keep


@njit(cache=True, error_model="numpy")
def weigh_inside(rng, multiplier, centre, spread, normal, offset, vectors, limits, radius, events):
    """For a proposal from each listed event: its chance of being kept, over the event count."""
    weights = np.zeros(events.size)
    points = np.empty((1, *centre.shape[1:]))
    for draw in range(events.size):
        e = events[draw]
        keep = draw_inside(
            rng, multiplier[e], centre[e], spread[e], normal[e], offset[e], radius, points[0]
        )
        if keep > -np.inf:
            weights[draw] = np.exp(keep) / count_events(vectors, limits, points, 0, e)
    return weights


@njit(cache=True, error_model="numpy")
def draw_union_inside(
    rng, multiplier, centre, spread, normal, offset, vectors, limits, radius,
    cumulative, most, points, events,
):  # fmt: skip
    """Exact draws given the union within the balls: how many, with at most `most` proposals.

    Returns that, and how many proposals there were.
    """
    draw = tried = 0
    while draw < len(points) and tried < most:
        tried += 1
        e = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
        keep = draw_inside(
            rng, multiplier[e], centre[e], spread[e], normal[e], offset[e], radius, points[draw]
        )
        if keep == -np.inf or -rng.standard_exponential() > keep:
            continue
        count = count_events(vectors, limits, points, draw, e)
        if count == 1 or rng.random() * count < 1.0:
            events[draw] = e
            draw += 1
    return draw, tried


def spread_over_events(
    rng: np.random.Generator, log_probabilities: Array, draws: int
) -> NDArray[np.int64]:
    """An event for each draw, sorted: each event gets its share of the draws to within one."""
    cumulative = np.cumsum(np.exp(log_probabilities - np.max(log_probabilities)))
    at = (np.arange(draws) + rng.random()) / draws * cumulative[-1]
    return np.searchsorted(cumulative, at, side="right").clip(max=cumulative.size - 1)


def draw_given(
    rng: np.random.Generator, normals: Array, offsets: Array, own: NDArray[np.int64]
) -> Array:
    """A draw given each listed event, as points (block, axis, draw)."""
    points = np.empty((*normals.shape[1:], own.size))
    for b in range(len(points)):
        points[b] = rng.standard_normal((own.size, normals.shape[2])).T
        bound = offsets[own, b]
        asked = bound > -np.inf
        if asked.any():
            normal, move = normals[:, b].T.take(own, axis=1), np.zeros(own.size)
            move[asked] = bound[asked] + draw_excess(rng, bound[asked])
            move[asked] -= np.einsum("in,in->n", normal, points[b])[asked]
            points[b] += normal * move
    return points


def count_containing(
    normals: Array, offsets: Array, points: Array, own: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How many events contain each point; the one it was drawn from counts without asking."""
    inside = np.ones((len(offsets), own.size), dtype=bool)
    for b in range(len(points)):
        inside &= normals[:, b] @ points[b] >= offsets[:, b, np.newaxis]
    inside[own, np.arange(own.size)] = True
    return np.count_nonzero(inside, axis=0)


def count_overlaps(
    rng: np.random.Generator, normals: Array, offsets: Array, events: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For a draw given each listed event, how many events contain it."""
    size = max(CHUNK // max(normals[0].size, len(offsets)), 1)
    parts = (events[start : start + size] for start in range(0, events.size, size))
    counts = [
        count_containing(normals, offsets, draw_given(rng, normals, offsets, own), own)
        for own in parts
    ]
    return np.concatenate(counts)


def draw_few(
    rng: np.random.Generator, normals: Array, offsets: Array, cumulative: Array, size: int
) -> tuple[Array, NDArray[np.int64]]:
    """`draw_union` without compiling anything: points (draw, block, axis), and their events."""
    points, events, found = [], [], 0
    while found < size:
        own = np.searchsorted(cumulative, rng.random(2 * size) * cumulative[-1], side="right")
        drawn = draw_given(rng, normals, offsets, own)
        kept = rng.random(own.size) * count_containing(normals, offsets, drawn, own) < 1.0
        points.append(np.moveaxis(drawn[..., kept], -1, 0))
        events.append(own[kept])
        found += events[-1].size
    return np.concatenate(points)[:size], np.concatenate(events)[:size]


def hold(parameters: Array, events: NDArray[np.int64], vectors: Array, limits: Array) -> None:
    """Move every draw that rounding left outside its event, or too close to tell, inside."""
    vector, limit = vectors[events], limits[events]
    terms, asked = parameters * vector, limit > -np.inf
    limit = np.where(asked, limit, 0.0)
    size = np.abs(limit) + np.abs(terms).sum(axis=-1)
    lack = limit + 2.0 * (vector.shape[-1] + 2) * EPSILON * size - terms.sum(axis=-1)
    square = np.sum(vector * vector, axis=-1)
    step = np.where(asked & (lack > 0.0), lack / np.where(square > 0.0, square, 1.0), 0.0)
    parameters += step[..., np.newaxis] * vector
