r"""The alternative set put together from its events, each sampled by itself.

With :math:`P_i` the probability of event `i` and `N` the number of events that contain a draw,
draws of the events picked in proportion to :math:`P_i` and kept with probability `1/N` follow the
posterior given the union, whose probability is :math:`\sum_i P_i \, E_i[1/N]`.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats
from scipy.special import logsumexp

from bayes_feasible._check import Array
from bayes_feasible.analysis.samplers import mcmc
from bayes_feasible.analysis.samplers.bridge import bridge, event_map
from bayes_feasible.analysis.samplers.tasks import Drawn, SamplerError, Task

LEFT_OUT = 1e-4  # events with a smaller share of the total are not sampled
SPARE = 1.02, 6.0  # proposals beyond the expected number: a factor, and standard deviations


Run = tuple[xr.Dataset, xr.Dataset, float]  # draws, statistics, seconds of compilation


class Component(NamedTuple):
    """Draws of one event."""

    event: int
    draws: Array  # (chain, draw, parameter, feature)
    log_probability: Array  # of the event, (chain,)
    standard_error: float  # of their mean, relative; 0 if exact
    figures: dict[str, float]


def nutpie(task: Task) -> Drawn:
    """NUTS of nutpie, one event at a time."""
    return _sample_union(task, nutpie_event)


def nuts(task: Task) -> Drawn:
    """PyMC's NUTS, one event at a time."""
    return _sample_union(task, _nuts_event)


def nutpie_event(task: Task, model: pm.Model, event: int, draws: int) -> Run:
    """Draws of a component by nutpie, their statistics, and the seconds of compilation."""
    start = time.perf_counter()
    compiled = mcmc.nutpie_model(model)
    compiling = time.perf_counter() - start
    starts = _anywhere(task, event)
    drawn, statistics = mcmc.nutpie_chains(
        task, model, compiled, starts, draws, 100 + event, **task.options
    )
    return drawn, statistics, compiling


def _nuts_event(task: Task, model: pm.Model, event: int, draws: int) -> Run:
    start = time.perf_counter()
    step = mcmc.step_method(model, pm.NUTS, task.options)
    compiling = time.perf_counter() - start
    tree, before = mcmc.sample(
        task, model, step, tune=task.tune, draws=draws, starts=_anywhere(task, event),
        names=mcmc.free_names(model), stream=100 + event,
    )  # fmt: skip
    statistics = tree["sample_stats"].to_dataset()
    return tree["posterior"].to_dataset(), statistics, compiling + before


def _anywhere(task: Task, event: int) -> list[Array]:
    """Every whitened point of a component lies in its event."""
    rng, shape = task.generator(50, event), task.reference().mean.shape
    return [rng.standard_normal(shape) for _ in range(task.chains)]


def _sample_union(task: Task, run: Callable[..., Run]) -> Drawn:
    """Sample the events that matter and put them together."""
    if task.alternative.problem.parameter_radius is not None:
        raise SamplerError("with a parameter_radius the events are no half-spaces")
    expected = task.event_log_probabilities()
    parts, compiling = sample_events(task, run, expected, proposals_needed(task, expected))
    rest = np.delete(expected, [part.event for part in parts])
    return combine(task, parts, rest, compiling)[0]


def sample_events(
    task: Task, run: Callable[..., Run], expected: Array, draws: int
) -> tuple[list[Component], float]:
    """Draws of each event that matters, and its probability by a bridge to where they come from.

    Also the seconds of compilation.
    """
    parts, compiling = [], 0.0
    for event in sampled_events(expected):
        model = task.whitened("component", event)
        drawn, statistics, seconds = run(task, model, event, draws)
        compiling += seconds
        into_event = event_map(model)
        parameters, log_weight = into_event(drawn)
        base = into_event.base(log_weight.size, task.generator(70, event))
        value, error = bridge(log_weight, base)
        figures = mcmc.trajectory_figures(statistics)
        log_probability = np.full(task.chains, value)
        parts.append(Component(event, parameters, log_probability, error, figures))
    return parts, compiling


def sampled_events(log_probability: Array) -> list[int]:
    """The events that are worth sampling, likeliest first."""
    share = np.exp(log_probability - logsumexp(log_probability))
    order = np.argsort(-share, kind="stable")
    return [int(event) for event in order if share[event] >= LEFT_OUT]


def proposals_needed(task: Task, log_probability: Array) -> int:
    """Draws of each chain and event that will not run out when draws are turned down.

    Of the proposals at least P over the sum of the events' probabilities are kept; under the
    Gaussian beside the model a bound on that is certain.
    """
    least = 1.0 / log_probability.size
    if task.model is None:
        measured = task.alternative.log_probability(task.posterior, draws=100)
        least = min(float(np.exp(measured.lower - logsumexp(log_probability))), 1.0)
    elif log_probability.size > 1:
        least = 0.5
    factor, deviations = SPARE
    mean = task.draws / least
    return int(np.ceil(factor * mean + deviations * np.sqrt(mean * (1.0 - least)) / least))


def combine(
    task: Task, parts: list[Component], rest: Array, compiling: float
) -> tuple[Drawn, Array]:
    """Draws of the union with its probability, and the log-probability by each chain alone.

    `rest` holds the log-probabilities of the events that were not sampled.
    """
    inverse = [inverse_counts(task, part) for part in parts]
    kept = [
        _thin(task, [(part, share[chain]) for part, share in zip(parts, inverse, strict=True)],
              chain)
        for chain in range(task.chains)
    ]  # fmt: skip
    logs = np.array([part.log_probability.mean() for part in parts])
    errors = np.array([part.standard_error for part in parts])
    value, error = measure_union(logs, inverse, errors, rest)
    measured = {"log_probability": value, "log_probability_standard_error": error}
    attributes = {"compile_seconds": compiling, **_worst(parts), **measured}
    statistics = xr.Dataset(
        {"event": (("chain", "draw"), np.array([events for _, events in kept]))},
        coords={"chain": np.arange(task.chains), "draw": np.arange(task.draws)},
    )
    parameters = np.array([draws for draws, _ in kept])
    drawn = Drawn(parameters, statistics, attributes, _table(task, parts, inverse))
    return drawn, _by_chain(parts, inverse, rest)


def inverse_counts(task: Task, part: Component) -> Array:
    """One over the number of events that contain each draw, (chain, draw)."""
    inside = task.alternative.events.contains(part.draws)
    inside[..., part.event] = True  # the event it was drawn from counts without asking
    return 1.0 / inside.sum(axis=-1)


def measure_union(
    log_probabilities: Array,
    inverse_counts: Sequence[Array],
    standard_errors: Array | float = 0.0,
    rest: Array | Sequence[float] = (),
) -> tuple[float, float]:
    """Log-probability of a union from chains of its events, and its standard error.

    As `alternative.union.mean_share`, but with the draws of chains, which are not independent.

    Parameters
    ----------
    log_probabilities : array (event,)
    inverse_counts : sequence of arrays (chain, draw), one an event
        Of each draw of the event, one over the number of events that contain it.
    standard_errors : array (event,)
        Of the log-probabilities.
    rest : array
        Log-probabilities of events without draws. They lie anywhere between wholly inside the
        others and wholly apart, so half of each counts, with the error of a uniform share.
    """
    top = log_probabilities.max()
    scale, left = np.exp(log_probabilities - top), np.exp(np.asarray(rest) - top)
    means = np.array([share.mean() for share in inverse_counts])
    errors = np.array([_error_of_mean(share) for share in inverse_counts])
    total = float(np.sum(scale * means) + 0.5 * left.sum())
    variance = np.sum(scale**2 * (errors**2 + (means * standard_errors) ** 2))
    variance += np.sum(left**2) / 12.0
    return float(top + np.log(total)), float(np.sqrt(variance)) / total


def _error_of_mean(share: Array) -> float:
    """Standard error of the mean of 1/N; without any overlap, of one that no draw has shown."""
    unseen = 0.5 / share.size
    if np.ptp(share) == 0:
        return unseen
    return float(np.hypot(array_stats.mcse(share, method="mean"), unseen))


def _thin(task: Task, parts: list[tuple[Component, Array]], chain: int) -> tuple[Array, Any]:
    """One chain: events picked by their probabilities, draws in their order, kept by 1/N."""
    rng = task.generator(60, chain)
    logs = np.array([part.log_probability[chain] for part, _ in parts])
    weights = np.exp(logs - logsumexp(logs))
    length = parts[0][0].draws.shape[1]
    picked = rng.choice(len(parts), size=length, p=weights)
    draws = np.empty((length, *parts[0][0].draws.shape[2:]))
    share, events = np.empty(length), np.empty(length, dtype=np.int64)
    for i, (part, inverse) in enumerate(parts):
        mine = np.flatnonzero(picked == i)
        spread = (np.arange(mine.size) * length) // max(mine.size, 1)  # evenly over the event's own
        draws[mine] = part.draws[chain, spread]
        share[mine] = inverse[spread]
        events[mine] = part.event
    keep = np.flatnonzero(rng.random(length) < share)[: task.draws]
    if keep.size < task.draws:
        raise SamplerError(
            f"only {keep.size} of {length} draws of the events are left for the union, "
            f"{task.draws} were asked for"
        )
    return draws[keep], events[keep]


def _by_chain(parts: list[Component], inverse: list[Array], rest: Array) -> Array:
    """Log-probability of the union from the draws of each chain alone."""
    logs = [
        part.log_probability + np.log(share.mean(axis=1))
        for part, share in zip(parts, inverse, strict=True)
    ]
    left = np.broadcast_to((rest - np.log(2.0))[:, np.newaxis], (rest.size, logs[0].size))
    return logsumexp(np.vstack([*logs, left]), axis=0)


def _worst(parts: list[Component]) -> dict[str, float]:
    figures: dict[str, float] = {}
    if "divergences" in parts[0].figures:
        figures["divergences"] = float(sum(part.figures["divergences"] for part in parts))
    if "bfmi" in parts[0].figures:
        figures["bfmi"] = min(part.figures["bfmi"] for part in parts)
    return figures


def _table(task: Task, parts: list[Component], inverse: list[Array]) -> xr.Dataset:
    """What is known of each event that was sampled."""
    names = [task.alternative.events.names[part.event] for part in parts]
    rows: dict[str, Any] = {
        "log_probability": [float(logsumexp(p.log_probability) - np.log(p.log_probability.size))
                            for p in parts],
        "standard_error": [part.standard_error for part in parts],
        "mean_inverse_count": [float(share.mean()) for share in inverse],
        "draws": [part.draws.shape[0] * part.draws.shape[1] for part in parts],
    }  # fmt: skip
    for name in parts[0].figures:
        rows[name] = [part.figures[name] for part in parts]
    return xr.Dataset(
        {name: ("component", values) for name, values in rows.items()},
        coords={"component": names},
    )
