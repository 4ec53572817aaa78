"""Integrals over the plane by nested quadrature: a reference that shares no code with the package.

Densities are log-concave, so their integrals along lines are too (Prékopa), and every integral is
done the same way: find the top, find where the integrand has died away, cut into panels.
"""

import itertools

import numpy as np
from helpers import closed_form, noise
from scipy.special import log_expit, log_ndtr, logsumexp

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
PANELS = np.linspace(0.0, 1.0, 7)
GRID = np.linspace(0.0, 1.0, 33)
DROP = 42.0
REACH = 60.0


def log_line_integrals(log_f, low, high):
    """Logarithms of the integrals of concave `log_f` from `low` to `high`, one a row.

    `log_f` takes arrays (row, point).
    """
    empty = high <= low
    low, high = np.where(empty, 0.0, low), np.where(empty, 1.0, high)
    rows = np.arange(len(low))
    left, right = low, high
    for _ in range(7):
        at = left[:, np.newaxis] + (right - left)[:, np.newaxis] * GRID
        best = np.argmax(log_f(at), axis=1)
        left = at[rows, np.maximum(best - 1, 0)]
        right = at[rows, np.minimum(best + 1, GRID.size - 1)]
    top = 0.5 * (left + right)
    peak = log_f(top[:, np.newaxis])[:, 0]
    nowhere = empty | ~np.isfinite(peak)
    parts = []
    for end in (low, high):
        near, far = top, end
        for _ in range(3):
            at = near[:, np.newaxis] + (far - near)[:, np.newaxis] * GRID
            dead = log_f(at) < (peak - DROP)[:, np.newaxis]
            first = np.where(dead.any(axis=1), np.argmax(dead, axis=1), GRID.size - 1)
            near, far = at[rows, np.maximum(first - 1, 0)], at[rows, first]
        edges = top[:, np.newaxis] + (far - top)[:, np.newaxis] * PANELS
        half = 0.5 * np.diff(edges, axis=1)[:, :, np.newaxis]
        at = edges[:, :-1, np.newaxis] + half + half * NODES
        values = log_f(at.reshape(len(at), -1)).reshape(at.shape)
        with np.errstate(divide="ignore"):
            parts.append(logsumexp(values + np.log(np.abs(half) * WEIGHTS), axis=(1, 2)))
    return np.where(nowhere, -np.inf, np.logaddexp(*parts))


def log_plane_integral(log_density, half_planes):
    """Logarithm of the integral over an intersection of half-planes `vector @ theta >= limit`."""
    vectors = [np.asarray(vector) / np.linalg.norm(vector) for vector, _ in half_planes]
    limits = [limit / np.linalg.norm(vector) for vector, limit in half_planes]
    along = vectors[0] if vectors else np.array([1.0, 0.0])
    across = np.array([-along[1], along[0]])

    def inner(first):
        flat = first.ravel()
        low, high = np.full(flat.size, -REACH), np.full(flat.size, REACH)
        for vector, limit in zip(vectors[1:], limits[1:], strict=True):
            fixed, slope = limit - (vector @ along) * flat, vector @ across
            if abs(slope) < 1e-12:
                high = np.where(fixed > 0, low, high)
            elif slope > 0:
                low = np.maximum(low, fixed / slope)
            else:
                high = np.minimum(high, fixed / slope)

        def log_f(second):
            return log_density(flat[:, np.newaxis, np.newaxis] * along + second[..., None] * across)

        return log_line_integrals(log_f, low, high).reshape(first.shape)

    start = np.array([limits[0] if limits else -REACH])
    return float(log_line_integrals(inner, start, np.array([REACH]))[0])


def log_union(densities, events):
    """Log-probability of a union of events, and of each, by inclusion and exclusion.

    Each event is a dict of blocks to half-planes; the blocks are independent.
    """
    whole = [log_plane_integral(density, []) for density in densities]
    logs, signs = [], []
    for size in range(1, len(events) + 1):
        for chosen in itertools.combinations(events, size):
            asked = [[event[b] for event in chosen if b in event] for b in range(len(densities))]
            logs.append(
                sum(
                    log_plane_integral(densities[b], half_planes) - whole[b]
                    for b, half_planes in enumerate(asked)
                    if half_planes
                )
            )
            signs.append((-1) ** (size + 1))
    return float(logsumexp(logs, b=signs)), np.array(logs[: len(events)])


def logistic_density(arms, pulls, successes, scale):
    """Log-density of successes and parameters, up to a constant."""

    def log_density(theta):
        odds = theta @ arms.T
        likelihood = successes * log_expit(odds) + (pulls - successes) * log_expit(-odds)
        return likelihood.sum(axis=-1) - 0.5 * np.sum(theta**2, axis=-1) / scale**2

    return log_density


def events_of(problem, candidate):
    """The events of an alternative set as dicts of blocks to half-planes."""
    own = problem.candidates[candidate]
    events = [{1 + j: (own, tau)} for j, tau in enumerate(problem.thresholds)]
    for i, other in enumerate(problem.candidates):
        if i != candidate:
            event = {0: (other - own, 0.0)}
            event |= {1 + j: (-other, -tau) for j, tau in enumerate(problem.thresholds)}
            events.append(event)
    return events


def event_logs(posterior, candidate):
    """Log-probability of each event from the definition, by a plain inverse."""
    mean, covariance = closed_form(posterior)
    spread = noise(posterior.problem)
    return np.array([
        sum(
            log_ndtr((v @ mean[b] - limit) / (spread[b] * np.sqrt(v @ covariance @ v)))
            for b, (v, limit) in event.items()
        )
        for event in events_of(posterior.problem, candidate)
    ])  # fmt: skip
