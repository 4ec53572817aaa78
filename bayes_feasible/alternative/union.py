"""The alternative set as a union of events, compiled.

Everything here lives in whitened coordinates: a parameter is a standard normal vector `u` of
`rank` numbers for each block (block 0 the reward, then one block for each finite constraint),
and event `e` asks of block `b` that `normals[e, b] @ u[b] >= offsets[e, b]`, with unit normals.
An offset of -inf asks nothing; an offset of +inf makes the event impossible.
"""

import math

import numpy as np
from numba import njit

from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.alternative.normal import log_ndtr, log_orthant, tail_excess

EPSILON = np.finfo(np.float64).eps


@njit(cache=True, error_model="numpy")
def event_log_probabilities(offsets):
    """Log-probability of each event: its half-spaces are independent."""
    result = np.zeros(len(offsets))
    for event in range(len(offsets)):
        for block in range(offsets.shape[1]):
            result[event] += log_ndtr(-offsets[event, block])
    return result


@njit(cache=True, error_model="numpy")
def pair_log_probabilities(normals, offsets):
    """Log-probability that two events happen together, for each pair in row order."""
    events, blocks = offsets.shape
    result = np.zeros(events * (events - 1) // 2)
    pair = 0
    for i in range(events):
        for j in range(i + 1, events):
            for b in range(blocks):
                correlation = min(max(_dot(normals[i, b], normals[j, b]), -1.0), 1.0)
                result[pair] += log_orthant(offsets[i, b], offsets[j, b], correlation)
            pair += 1
    return result


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
def draw_counts(rng, normals, offsets, events):
    """For a draw given each listed event, how many events contain it."""
    counts = np.empty(events.size)
    point = np.empty((1, *normals.shape[1:]))
    only = len(point) - 1  # a plain 0 would be compiled for anew
    for draw in range(events.size):
        draw_event(rng, normals, offsets, events[draw], point, only)
        counts[draw] = count_events(normals, offsets, point, only, events[draw])
    return counts


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


@njit(cache=True, error_model="numpy")
def _dot(left, right):
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


def union_log_probability(
    normals: Array, offsets: Array, log_probability: Array,
    rng: np.random.Generator, draws: int, most_pairs: int,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Log-probability of the union: value, standard error, certain lower and upper bound.

    The method is told in `Alternative.log_probability`.
    """
    events = log_probability.size
    total = float(np.logaddexp.reduce(log_probability))
    if events == 1:
        return total, 0.0, total, total
    lower, upper = float(log_probability.max()), min(total, 0.0)
    twice = None  # E[N - 1], twice the sum over pairs relative to the sum over events
    if events * (events - 1) // 2 <= most_pairs:
        pairs = np.logaddexp.reduce(pair_log_probabilities(normals, offsets))
        twice = 2.0 * math.exp(pairs - total)
        order = 1.0 + math.floor(twice)
        dawson_sankoff = 2.0 / (order + 1.0) - twice / (order * (order + 1.0))
        lower = max(lower, total + math.log(dawson_sankoff))
        upper = min(total + math.log1p(-twice / events), 0.0)
        if events == 2:
            return min(max(total + math.log1p(-0.5 * twice), lower), upper), 0.0, lower, upper
        if upper - lower < 1e-13:
            return 0.5 * (lower + upper), 0.0, lower, upper
        if twice * draws < 1.0:  # so few overlaps that the draws would show none
            value = min(max(total + math.log1p(-0.5 * twice), lower), upper)
            return value, min(twice / 3.0, upper - lower), lower, upper
    share, error = _mean_share(normals, offsets, log_probability, rng, draws, twice)
    share = max(share, math.exp(lower - total))  # a handful of draws may put it below, even below 0
    value = min(max(total + math.log(share), lower), upper)
    return value, min(error / share, upper - lower), lower, upper


def _mean_share(normals, offsets, log_probability, rng, draws, twice):
    """Estimate `E[1/N]` over the mixture of events, and the standard error of the estimate."""
    cumulative = np.cumsum(np.exp(log_probability - log_probability.max()))
    # Systematic over events: each gets its share of the draws to within one.
    at = (np.arange(draws) + rng.random()) / draws * cumulative[-1]
    events = np.searchsorted(cumulative, at, side="right").clip(max=cumulative.size - 1)
    with undisturbed():
        counts = draw_counts(rng, normals, offsets, events)
    share = 1.0 / counts
    if twice is None:
        unseen = 0.5 / draws  # an overlap of two that no draw has shown
        correction = 0.0
    else:
        extra = counts - 1.0
        variance = extra.var()
        slope = 0.5 if variance == 0.0 else -np.mean((share - share.mean()) * extra) / variance
        share = share + slope * extra
        correction = slope * twice
        unseen = min(1.0 / draws, twice) / 3.0  # an overlap of three
    # Neighbours are draws given the same event, so their differences show the error within.
    within = np.sum(np.diff(share) ** 2) / (2.0 * max(draws - 1, 1)) / draws
    return share.mean() - correction, math.sqrt(within + unseen**2)
