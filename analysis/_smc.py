"""Sequential Monte Carlo, by PyMC's kernel, from the Gaussian beside the model into the set.

In whitened coordinates the prior is a standard normal and the potential all there is to temper, so
the evidence of a run is the mean of the potential's exponential. The graded potential ends with
particles on both sides of the edge: the last step keeps those inside, and the evidence times their
share is the probability of the set.
"""

import time
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import xarray as xr
from pymc.smc.kernels import IMH
from scipy.special import logsumexp

from bayes_feasible._check import Array
from bayes_feasible._draws import labelled
from bayes_feasible.analysis import _components
from bayes_feasible.analysis._tasks import Drawn, SamplerError, Task
from bayes_feasible.analysis.yardstick import membership

SHARPNESS = 4.0
UNION_THRESHOLD = 0.5  # PyMC's own
EVENT_THRESHOLD = 0.9  # shorter steps: without them d = 10 is half a nat off, with R-hat 1.001
_KERNELS: WeakKeyDictionary[pm.Model, IMH] = WeakKeyDictionary()
STAGES = 1000  # more mean that nothing can be tempered


def hard(task: Task) -> Drawn:
    """The set as a wall: nothing to temper unless some particles start inside."""
    options = {"threshold": UNION_THRESHOLD, **task.options}
    return _union(task, task.whitened("hard"), options)


def graded(task: Task) -> Drawn:
    """The union at once."""
    options = {"threshold": UNION_THRESHOLD, "sharpness": SHARPNESS, **task.options}
    model = task.whitened("graded", sharpness=options.pop("sharpness"))
    return _union(task, model, options)


def events(task: Task) -> Drawn:
    """One event at a time, put together by their estimated probabilities."""
    options = {"threshold": EVENT_THRESHOLD, "sharpness": SHARPNESS, **task.options}
    sharpness = options.pop("sharpness")
    expected = task.event_log_probabilities()
    proposals = _components.proposals_needed(task, expected)
    chosen = _components.sampled_events(expected)
    kernel, compiling = _kernel(
        task, task.whitened("graded", chosen[0], sharpness=sharpness), options
    )
    parts, stages = [], []
    for event in chosen:
        task.whitened("graded", event, sharpness=sharpness)
        runs = [_run(kernel, task.generator(200, event, chain)) for chain in range(task.chains)]
        parts.append(_event_component(task, event, runs, proposals))
        stages.append([len(run["beta"]) for run in runs])
    drawn, totals = _components.combine(task, parts, np.delete(expected, chosen), compiling)
    assert drawn.components is not None
    components = drawn.components.assign(stages=(("component", "chain"), np.array(stages)))
    attributes = {**drawn.attributes, **_over_runs(totals)}
    return drawn._replace(attributes=attributes, components=components)


def _union(task: Task, model: pm.Model, options: dict[str, Any]) -> Drawn:
    kernel, compiling = _kernel(task, model, options)
    runs = [_run(kernel, task.generator(200, chain)) for chain in range(task.chains)]
    draws, logs = [], []
    for chain, run in enumerate(runs):
        parameters = task.parameters(run["particles"])
        cost = parameters[:, 1:] if parameters.shape[1] > 1 else None
        inside = task.alternative.contains(parameters[:, 0], cost)
        draws.append(_inside(parameters, inside, task.draws, task.generator(210, chain)))
        logs.append(run["log_evidence"] + np.log(inside.mean()))
    longest = max(len(run["beta"]) for run in runs)
    statistics = xr.Dataset(
        {
            name: (
                ("chain", "stage"),
                np.array([run[name] + [np.nan] * (longest - len(run[name])) for run in runs]),
            )
            for name in ("beta", "accept_rate")
        },
        coords={"chain": np.arange(task.chains), "stage": np.arange(longest)},
    ).assign(log_evidence=("chain", [run["log_evidence"] for run in runs]))
    attributes = {"compile_seconds": compiling, **_over_runs(np.array(logs))}
    return Drawn(np.array(draws), statistics, attributes)


def _kernel(task: Task, model: pm.Model, options: dict[str, Any]) -> tuple[IMH, float]:
    """PyMC's kernel with its functions compiled, and the seconds that took."""
    start = time.perf_counter()
    settings = {"draws": options.pop("particles", task.draws), **options}
    if model not in _KERNELS:
        _KERNELS[model] = IMH(model=model, random_seed=task.seed, **settings)
    kernel = _KERNELS[model]
    for name, value in settings.items():
        setattr(kernel, name, value)
    point = np.zeros(sum(size for _, size in kernel.var_info.values()))
    kernel.prior_logp_func(point)
    kernel.likelihood_logp_func(point)
    return kernel, time.perf_counter() - start


def _run(kernel: IMH, rng: np.random.Generator) -> dict[str, Any]:
    """One population from the prior to the end: particles, evidence, and its stages."""
    beta, accepted = [], []
    try:
        with np.errstate(invalid="ignore", divide="ignore"):  # all particles outside: told below
            kernel.initialize(None, rng)
            if not np.isfinite(kernel.likelihood_logp).any():
                raise SamplerError(
                    f"SMC: none of {kernel.draws} particles starts inside the set, and a wall "
                    "cannot be tempered"
                )
            while kernel.beta < 1:
                kernel.update_beta_and_weights()
                statistics = kernel.step()
                beta.append(float(statistics["beta"]))
                accepted.append(float(statistics["accept_rate"]))
                if len(beta) > STAGES:
                    raise SamplerError(f"SMC: not at its end after {STAGES} stages")
    except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:
        raise SamplerError(f"SMC: the particles give out ({error})") from None
    shape = kernel.var_info["whitened"][0]
    return {
        "particles": kernel.tempered_posterior.reshape(-1, *shape).copy(),
        "log_evidence": float(kernel.log_marginal_likelihood),
        "beta": beta,
        "accept_rate": accepted,
    }


def _inside(parameters: Array, inside: Any, size: int, rng: np.random.Generator) -> Array:
    """So many of the particles inside, each as often as any other to within one."""
    if not inside.any():
        raise SamplerError("SMC: no particle is inside the set at the end")
    kept = parameters[inside]
    places = (rng.random() + np.arange(size)) / size * len(kept)
    return kept[places.astype(int)]


def _event_component(
    task: Task, event: int, runs: list[dict[str, Any]], size: int
) -> _components.Component:
    draws, logs = [], []
    for chain, run in enumerate(runs):
        parameters = task.parameters(run["particles"])
        inside = membership(
            task.alternative, labelled(task.alternative.problem, parameters, chains=1)
        )[event, 0]
        draws.append(_inside(parameters, inside, size, task.generator(220, event, chain)))
        logs.append(run["log_evidence"] + np.log(inside.mean()))
    error = _over_runs(np.array(logs))["log_probability_standard_error"]
    return _components.Component(event, np.array(draws), np.array(logs), error, {})


def _over_runs(logs: Array) -> dict[str, float]:
    """Probabilities are averaged over independent runs; the spread of one run is the error.

    It is not divided by the root of their number: runs of a finite population share a bias, too
    low by a part of that spread, which averaging does not remove.
    """
    value = float(logsumexp(logs) - np.log(logs.size))
    error = np.inf
    if logs.size > 1:
        error = float(np.std(np.exp(logs - value), ddof=1))
    return {
        "log_probability": value,
        "log_probability_standard_error": error,
        "log_probability_freedom": float(max(logs.size - 1, 1)),
    }
