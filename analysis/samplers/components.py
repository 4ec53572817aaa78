r"""The alternative set put together from its events, each sampled by itself.

With :math:`P_i` the probability of event `i` and `N` the number of events that contain a draw,
draws of the events picked in proportion to :math:`P_i` and kept with probability `1/N` follow the
posterior given the union, whose probability is :math:`\sum_i P_i \, E_i[1/N]`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from bayes_feasible._check import Array
from bayes_feasible.alternative.probability import mean_share
from bayes_feasible.analysis.samplers import mcmc
from bayes_feasible.analysis.samplers.bridge import bridge, effective_draws, event_map
from bayes_feasible.analysis.samplers.tasks import Drawn, SamplerError, Task

LEFT_OUT = 1e-4  # events with a smaller share of the total are not sampled
SPARE = 1.02, 6.0  # proposals beyond the expected number: a factor, and standard deviations


class Component(NamedTuple):
    """Draws of one event."""

    event: int
    draws: Array  # (chain, draw, parameter, feature)
    log_probability: Array  # of the event, (chain,)
    standard_error: float  # of their mean, relative; 0 if exact
    figures: dict[str, float]


def sample_union(chains: mcmc.Chains, task: Task) -> Drawn:
    """Sample the events that matter, one at a time, and put them together."""
    if task.alternative.problem.parameter_radius is not None:
        raise SamplerError("with a parameter_radius the events are no half-spaces")
    expected = task.event_log_probabilities()
    parts, compiling = sample_events(task, chains, expected, proposals_needed(task, expected))
    rest = np.delete(expected, [part.event for part in parts])
    return combine(task, parts, rest, compiling)[0]


def sample_events(
    task: Task, chains: mcmc.Chains, expected: Array, draws: int
) -> tuple[list[Component], float]:
    """Draws of each event that matters, and its probability by a bridge to where they come from.

    Also the seconds of compilation.
    """
    parts, compiling, shape = [], 0.0, task.reference().mean.shape
    for event in sampled_events(expected):
        model = task.whitened("component", event)
        # Every whitened point of a component lies in its event.
        starts = list(task.generator(50, event).standard_normal((task.chains, *shape)))
        run = chains(task, model, starts, draws, 100 + event)
        compiling += run.compile_seconds
        into_event = event_map(model)
        parameters, log_weight = into_event(run.draws)
        base = into_event.base(log_weight.size, task.generator(70, event))
        value, error = bridge(log_weight, base)
        figures = mcmc.trajectory_figures(run.statistics)
        parts.append(Component(event, parameters, np.full(task.chains, value), error, figures))
    return parts, compiling


def sampled_events(log_probability: Array) -> list[int]:
    """The events that are worth sampling, likeliest first."""
    share = softmax(log_probability)
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
    counts = [count_events(task, part) for part in parts]
    kept = [_thin(task, parts, counts, chain) for chain in range(task.chains)]
    logs = np.array([part.log_probability for part in parts])  # (event, chain)
    errors = np.array([part.standard_error for part in parts])
    value, error = measure_union(logs.mean(axis=1), errors, counts, rest)
    by_chain = [
        measure_union(logs[:, c], errors, [count[[c]] for count in counts], rest)[0]
        for c in range(task.chains)
    ]
    figures = [part.figures for part in parts]
    attributes = {
        "compile_seconds": compiling,
        "log_probability": value,
        "log_probability_standard_error": error,
    }
    over: dict[str, Any] = {"divergences": sum, "bfmi": min}
    for name in filter(figures[0].__contains__, over):
        attributes[name] = float(over[name](figure[name] for figure in figures))
    statistics = xr.Dataset(
        {"event": (("chain", "draw"), np.array([events for _, events in kept]))},
        coords={"chain": np.arange(task.chains), "draw": np.arange(task.draws)},
    )
    rows: dict[str, Any] = {
        "log_probability": logsumexp(logs, axis=1) - np.log(task.chains),
        "standard_error": errors,
        "mean_inverse_count": [float(np.mean(1.0 / count)) for count in counts],
        "draws": [count.size for count in counts],
        **{name: [figure[name] for figure in figures] for name in figures[0]},
    }
    components = xr.Dataset(
        {name: ("component", values) for name, values in rows.items()},
        coords={"component": [task.alternative.events.names[part.event] for part in parts]},
    )
    parameters = np.array([draws for draws, _ in kept])
    return Drawn(parameters, statistics, attributes, components), np.array(by_chain)


def count_events(task: Task, part: Component) -> NDArray[np.int64]:
    """How many events contain each draw, (chain, draw)."""
    inside = task.alternative.events.contains(part.draws)
    inside[..., part.event] = True  # the event it was drawn from counts without asking
    return inside.sum(axis=-1)


def measure_union(
    log_probabilities: Array, standard_errors: Array, counts: Sequence[NDArray[np.int64]],
    rest: Array,
) -> tuple[float, float]:  # fmt: skip
    """Log-probability of a union from chains of its events, and its standard error.

    By `mean_share`. Draws of chains are not independent, so as many are taken as
    are worth an independent one, evenly spaced. `counts` says of each event's draws (chain, draw)
    how many events contain them. The events of `rest` have no draws: they lie anywhere between
    wholly inside the others and wholly apart, so half of each counts, with the error of a uniform
    share.
    """
    worth = [effective_draws(1.0 / count) for count in counts]
    draws = int(np.min(worth / softmax(log_probabilities)))

    def count(chosen: NDArray[np.int64]) -> Array:
        return np.concatenate(
            [
                counts[event].ravel()[evenly(counts[event].size, number)]
                for event, number in zip(*np.unique(chosen, return_counts=True), strict=True)
            ]
        )

    share = mean_share(count, log_probabilities, np.random.default_rng(0), draws)
    total = float(logsumexp(log_probabilities)) + np.log(share.value)
    left = np.exp(rest - total)
    parts = softmax(log_probabilities + np.log([np.mean(1.0 / one) for one in counts]))
    errors = [share.standard_error / share.value, *(parts * standard_errors), *left / np.sqrt(12)]
    scale = 1.0 + 0.5 * left.sum()
    return float(total + np.log(scale)), float(np.linalg.norm(errors) / scale)


def evenly(length: int, number: int) -> NDArray[np.int64]:
    """Indices of so many things out of a row of some length, evenly spaced."""
    return (np.arange(number) * length) // max(number, 1)


def _thin(
    task: Task, parts: list[Component], counts: list[NDArray[np.int64]], chain: int
) -> tuple[Array, NDArray[np.int64]]:
    """One chain: events picked by their probabilities, draws in their order, kept by 1/N."""
    rng = task.generator(60, chain)
    weights = softmax([part.log_probability[chain] for part in parts])
    length = parts[0].draws.shape[1]
    picked = rng.choice(len(parts), size=length, p=weights)
    draws = np.empty((length, *parts[0].draws.shape[2:]))
    share, events = np.empty(length), np.empty(length, dtype=np.int64)
    for i, (part, count) in enumerate(zip(parts, counts, strict=True)):
        mine = np.flatnonzero(picked == i)
        spread = evenly(length, mine.size)
        draws[mine], share[mine] = part.draws[chain, spread], 1.0 / count[chain, spread]
        events[mine] = part.event
    keep = np.flatnonzero(rng.random(length) < share)[: task.draws]
    if keep.size < task.draws:
        raise SamplerError(
            f"only {keep.size} of {length} draws of the events are left for the union, "
            f"{task.draws} were asked for"
        )
    return draws[keep], events[keep]
