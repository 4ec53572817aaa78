r"""A union of events where every block has a posterior of its own.

As in `union`: :math:`P = \sum_e P_e \, E[1/N]`, with :math:`P_e` a product over blocks of
half-spaces, and draws given an event from draws given each half-space. Where a block's draws carry
importance weights, so do these, and their quality is told.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible._plainly import plainly
from bayes_feasible.alternative.certificate import draws_needed, error_bound
from bayes_feasible.alternative.draws import spread_over_events
from bayes_feasible.alternative.events import Events
from bayes_feasible.alternative.probability import LogProbability
from bayes_feasible.blocks.base import Block
from bayes_feasible.blocks.log_concave import pareto_k

PRUNE = 60.0  # an event e^-60 as probable as another cannot be seen in double precision
POOL = 4  # weighted draws for each draw that is resampled from them
LEAST_POOL = 2**13


class Drawn(NamedTuple):
    """Draws given a union."""

    theta: Array  # (draw, block, feature)
    events: NDArray[np.int64]  # that each was drawn from
    k_hat: float = -np.inf
    efficiency: float = 1.0


@plainly
def event_tails(events: Events, blocks: Sequence[Block]) -> tuple[Array, Array, float]:
    """Log-probabilities of all events, their standard errors, and the worst k-hat."""
    log_p, square, k_hat = np.zeros(len(events)), np.zeros(len(events)), -np.inf
    for b, block in enumerate(blocks):
        limits = events.limits[:, b]
        log_p[np.isposinf(limits)] = -np.inf
        asked = np.flatnonzero(np.isfinite(limits))
        if asked.size:
            tails = block.tails(np.ascontiguousarray(events.vectors[asked, b]), limits[asked])
            log_p[asked] += tails.log_probability
            square[asked] += np.square(tails.standard_error)
            k_hat = max(k_hat, float(tails.k_hat.max()))
    return log_p, np.sqrt(square), k_hat


@plainly
def measure(
    events: Events, blocks: Sequence[Block], rng: np.random.Generator, draws: int,
    rtol: float | None = None,
) -> LogProbability:  # fmt: skip
    """Log-probability of the union."""
    exact = all(block.exact for block in blocks)
    if rtol is not None and not exact:
        raise ValueError("rtol: for 0/1 and counts nothing is known before the draws")
    every, errors, k_hat = event_tails(events, blocks)
    lower = float(every.max(initial=-np.inf))
    upper = min(float(np.logaddexp.reduce(every)), 0.0)

    def found(value: float, error: float, k_hat: float, efficiency: float) -> LogProbability:
        bound = error_bound(max(likely.size, 1), draws) if exact else np.inf
        return LogProbability(
            value, error, lower, upper, events.names, every, k_hat, efficiency, bound
        )

    likely = kept(every)
    if rtol is not None:
        draws = draws_needed(max(likely.size, 1), rtol)
    if likely.size == 0:
        return found(-np.inf, 0.0, k_hat, 1.0)
    total = float(np.logaddexp.reduce(every[likely]))
    share = np.exp(every[likely] - total)
    error = float(np.hypot.reduce(share * errors[likely]))
    if likely.size == 1:
        return found(total, error, k_hat, 1.0)
    own = spread_over_events(rng, every[likely], draws)
    drawn, log_weight = _draw_given(events.take(likely), blocks, rng, own)
    weight = np.exp(log_weight)
    each = weight / _overlaps(events.take(likely), drawn, own)
    mean = float(each.mean())
    within = np.sum(np.diff(each) ** 2) / (2.0 * max(draws - 1, 1)) / draws
    if (np.diff(weight) == 0.0).all():  # draws that carry no weight share the sum exactly
        within += (0.5 / draws) ** 2
    else:
        k_hat = max(k_hat, pareto_k(log_weight))
    efficiency = float(weight.mean() ** 2 / np.mean(weight**2))
    value = min(total + float(np.log(mean)), 0.0)
    return found(value, float(np.hypot(error, np.sqrt(within) / mean)), k_hat, efficiency)


@plainly
def draw(
    events: Events, blocks: Sequence[Block], rng: np.random.Generator, size: int
) -> Drawn | None:
    """Independent draws given the union; None where it is empty.

    Exact where every block is; otherwise resampled from weighted ones.
    """
    every, _, k_hat = event_tails(events, blocks)
    likely = kept(every)
    if likely.size == 0:
        return None
    some = events.take(likely)
    chance = np.exp(every[likely] - every[likely].max())
    exact = all(block.exact for block in blocks)
    wanted = size if exact else max(POOL * size, LEAST_POOL)
    theta, own, log_weight, found, tried = [], [], [], 0, 0
    while found < wanted:
        # As many as will do, by the share that was kept so far.
        number = int(1.05 * (wanted - found) * (tried + 2) / (found + 1)) + 64 if tried else wanted
        tried += number
        proposed = np.sort(rng.choice(likely.size, size=number, p=chance / chance.sum()))
        drawn, weight = _draw_given(some, blocks, rng, proposed)
        chosen = rng.random(proposed.size) * _overlaps(some, drawn, proposed) < 1.0
        theta.append(drawn[chosen])
        own.append(proposed[chosen])
        log_weight.append(weight[chosen])
        found += int(chosen.sum())
    order = rng.permutation(found)[:wanted]  # proposals came sorted by event
    parameters, labels = np.concatenate(theta)[order], likely[np.concatenate(own)[order]]
    if exact:
        return Drawn(parameters, labels)
    return resample(rng, parameters, labels, np.concatenate(log_weight)[order], size, k_hat)


@plainly
def draw_all(blocks: Sequence[Block], rng: np.random.Generator, size: int) -> Drawn:
    """Draws from the posterior itself."""
    exact = all(block.exact for block in blocks)
    wanted = size if exact else max(POOL * size, LEAST_POOL)
    each = [block.draw(rng, wanted, None, -np.inf) for block in blocks]
    theta = np.stack([one.theta for one in each], axis=1)
    everywhere = np.zeros(wanted, dtype=np.int64)
    if exact:
        return Drawn(theta, everywhere)
    log_weight = np.sum([one.log_weight for one in each], axis=0)
    return resample(rng, theta, everywhere, log_weight, size, -np.inf)


def resample(
    rng: np.random.Generator, theta: Array, events: NDArray[np.int64], log_weight: Array,
    size: int, k_hat: float,
) -> Drawn:  # fmt: skip
    """So many draws from weighted ones, each as often as its weight asks, to within one."""
    weight = np.exp(log_weight - log_weight.max())
    efficiency = float(weight.mean() ** 2 / np.mean(weight**2))
    at = (np.arange(size) + rng.random()) / size * weight.sum()
    chosen = np.searchsorted(np.cumsum(weight), at, side="right").clip(max=weight.size - 1)
    chosen = rng.permutation(chosen)
    return Drawn(theta[chosen], events[chosen], max(k_hat, pareto_k(log_weight)), efficiency)


def kept(log_probabilities: Array) -> NDArray[np.int64]:
    """The events, less those too improbable beside the likeliest."""
    top = log_probabilities.max(initial=-np.inf)
    return np.flatnonzero((log_probabilities > -np.inf) & (log_probabilities >= top - PRUNE))


def _draw_given(
    events: Events, blocks: Sequence[Block], rng: np.random.Generator, own: NDArray[np.int64]
) -> tuple[Array, Array]:
    """A draw given each listed event, sorted: parameters (draw, block, feature), log weights."""
    theta = np.empty((own.size, len(blocks), events.vectors.shape[2]))
    log_weight = np.zeros(own.size)
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    for first, last in zip(starts, [*starts[1:], own.size], strict=True):
        event = own[first]
        for b, block in enumerate(blocks):
            limit = float(events.limits[event, b])
            vector = events.vectors[event, b] if np.isfinite(limit) else None
            drawn = block.draw(rng, last - first, vector, limit)
            theta[first:last, b] = drawn.theta
            log_weight[first:last] += drawn.log_weight
    return theta, log_weight


def _overlaps(events: Events, theta: Array, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many events contain each draw; the one it was drawn from counts without asking."""
    inside = events.contains(theta)
    inside[np.arange(own.size), own] = True
    return np.count_nonzero(inside, axis=1)
