"""Draws from a union of events, compiled.

Everything here lives in whitened coordinates: a parameter is a standard normal vector `u` of
`rank` numbers for each block, and event `e` asks of block `b` that
`normals[e, b] @ u[b] >= offsets[e, b]`, with unit normals. An offset of -inf asks nothing; an
offset of +inf makes the event impossible.
"""

import numpy as np
from numba import njit

from bayes_feasible.alternative.normal import tail_excess

EPSILON = np.finfo(np.float64).eps


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
    hold(result, events, vectors, limits)


@njit(cache=True, error_model="numpy")
def hold(parameters, events, vectors, limits):
    """Move every draw that rounding left outside its event, or too close to tell, inside."""
    features = parameters.shape[2]
    rounding = 2.0 * (features + 2) * EPSILON
    for draw in range(len(parameters)):
        event = events[draw]
        for b in range(limits.shape[1]):
            limit = limits[event, b]
            if limit == -np.inf:
                continue
            value, size, square = 0.0, abs(limit), 0.0
            for i in range(features):
                term = parameters[draw, b, i] * vectors[event, b, i]
                value += term
                size += abs(term)
                square += vectors[event, b, i] ** 2
            lack = limit + rounding * size - value
            if lack > 0.0:
                for i in range(features):
                    parameters[draw, b, i] += lack / square * vectors[event, b, i]
