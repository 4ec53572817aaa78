"""The log-probability of an alternative set from PyMC's samplers: SMC, components, frequency."""

import warnings
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import nutpie
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats
from scipy.special import logsumexp

from bayes_feasible import models
from bayes_feasible._interrupt import heeded
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.evidence.density import density
from bayes_feasible.analysis.evidence.evidence import (
    Evidence,
    Refused,
    event_log_masses,
    judge,
    log_whole,
)
from bayes_feasible.analysis.evidence.expansion import HalfSpaces, global_modes
from bayes_feasible.analysis.samplers.bridge import bridge, event_map, mcse_of_mean
from bayes_feasible.posterior import Posterior

CHAINS = 4
TUNE = 1000
LEFT_OUT = 1e-4  # events with a smaller share of the total are not sampled
LEAST_HITS = 50.0  # effective draws in the set
MOST_RHAT = 1.01
MOST_ERROR = 0.5  # nats: a standard error that says nothing any more
_COMPONENTS: WeakKeyDictionary[pm.Model, pm.Model] = WeakKeyDictionary()
_NUTPIE: WeakKeyDictionary[pm.Model, Any] = WeakKeyDictionary()


def by_smc(
    model: pm.Model,
    alternative: Alternative,
    draws: int,
    seed: int,
    progress: bool,
    **options: Any,
) -> Evidence:
    """Evidences of the graded forms, one event at a time; see `log_error`."""
    from bayes_feasible.analysis.samplers.sample import SamplerError, sample_alternative

    unused = Posterior(alternative.problem)  # the model has the data
    log_probabilities = event_log_masses(model, alternative)
    try:
        tree = sample_alternative(
            unused, alternative, "smc_events", draws=draws // CHAINS, chains=CHAINS, seed=seed,
            model=model, progress=progress, **options,
        )  # fmt: skip
    except SamplerError as error:
        nothing = Evidence(np.nan, np.inf, "smc", alternative.events.names, log_probabilities)
        raise Refused(f"smc: {error}", nothing) from None
    known = tree["components"].to_dataset()
    for name, value in zip(known.component.values, known.log_probability.values, strict=True):
        log_probabilities[alternative.events.index(str(name))] = value
    evidence = Evidence(
        min(float(tree.attrs["log_probability"]), 0.0),
        float(tree.attrs["log_probability_standard_error"]), "smc", alternative.events.names,
        log_probabilities, {"freedom": float(tree.attrs["log_probability_freedom"])},
    )  # fmt: skip
    whole, _ = _whole(model, draws, seed)
    judge(evidence, "the whole posterior", whole)
    _judge_error(evidence)
    return evidence


def by_components(
    model: pm.Model,
    alternative: Alternative,
    draws: int,
    seed: int,
    progress: bool,
    tune: int = TUNE,
) -> Evidence:
    """NUTS on each event's component form, its probability by a bridge; see `log_error`."""
    expected = event_log_masses(model, alternative)
    share = np.exp(expected - logsumexp(expected))
    chosen = np.flatnonzero(share >= LEFT_OUT)
    rng = np.random.default_rng([seed, 1])
    restricted = _restricted(model, alternative, int(chosen[0]))
    log_probabilities, parts, errors, figures = expected.copy(), [], [], []
    whole, shift = _whole(model, draws, seed)
    for event in chosen:
        reference = models.laplace(model, alternative, int(event))
        models.doubt(restricted, alternative, int(event), reference)
        drawn, statistics = nuts(
            restricted, draws, tune, [seed, int(event)], progress, _names(model)
        )
        bridged = bridge(drawn["log_weight"].values, event_map(restricted).base(draws, rng))
        inverse, error = _inverse_count(model, alternative, drawn, int(event))
        log_probabilities[event] = bridged[0] - shift
        parts.append(log_probabilities[event] + np.log(inverse))
        errors.append(np.hypot(bridged[1], error))
        figures.append((_rhat(drawn), float(statistics["diverging"].sum())))
    # Half of what was not sampled counts, with the error of a uniform share.
    rest = np.delete(expected, chosen)
    value = float(logsumexp([*parts, *(rest - np.log(2.0))]))
    relative = [np.exp(part - value) * error for part, error in zip(parts, errors, strict=True)]
    relative += list(np.exp(rest - value) / np.sqrt(12.0))
    evidence = Evidence(
        min(value, 0.0), float(np.linalg.norm([*relative, whole.standard_error])), "component",
        alternative.events.names, log_probabilities,
        {
            "rhat": max(rhat for rhat, _ in figures),
            "divergences": sum(number for _, number in figures),
        },
    )  # fmt: skip
    judge(evidence, "the whole posterior", whole)
    _judge_chains(evidence)
    _judge_error(evidence)
    return evidence


def by_frequency(
    model: pm.Model,
    alternative: Alternative,
    draws: int,
    seed: int,
    progress: bool,
    tune: int = TUNE,
) -> Evidence:
    """The share of plain NUTS draws in the set; see `log_error`."""
    drawn, statistics = nuts(model, draws, tune, [seed], progress, _names(model))
    inside = _membership(model, alternative, drawn)
    hits = inside.any(axis=2)
    share = float(hits.mean())
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(inside.mean(axis=(0, 1)))
    size = float(array_stats.ess(hits.astype(float), method="mean")) if 0 < share < 1 else hits.size
    size = min(size, hits.size)  # antithetic chains may claim more
    error = float(np.sqrt((1.0 - share) / (share * size))) if share > 0 else np.inf
    evidence = Evidence(
        float(np.log(share)) if share > 0 else -np.inf, error, "frequency",
        alternative.events.names, log_probabilities,
        {
            "hits": float(hits.sum()),
            "effective_hits": share * size,
            "rhat": _rhat(drawn),
            "divergences": float(statistics["diverging"].sum()),
        },
    )  # fmt: skip
    if share * size < LEAST_HITS:
        raise Refused(
            f"frequency: the set was hit {int(hits.sum())} times in {hits.size} draws, worth "
            f"{share * size:.3g} independent ones; {LEAST_HITS:g} will do", evidence,
        )  # fmt: skip
    _judge_chains(evidence)
    return evidence


def nuts(
    model: pm.Model, draws: int, tune: int, seed: list[int], progress: bool, names: list[str]
) -> tuple[xr.Dataset, xr.Dataset]:
    """Draws and statistics by nutpie; a model is compiled once, whatever data it is given."""
    kept = [name for name in (*names, "log_weight") if name in model.named_vars]
    if model not in _NUTPIE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _NUTPIE[model] = nutpie.compile_pymc_model(model, var_names=kept)
    compiled = _NUTPIE[model]
    data = {shared.name: shared.get_value() for shared in compiled.shared_var_keys}
    with heeded():  # on Ctrl-C, nutpie returns the draws that it has
        tree = nutpie.sample(
            compiled.with_data(**data), draws=draws // CHAINS, tune=tune, chains=CHAINS, cores=1,
            seed=int(np.random.default_rng(seed).integers(2**31)), progress_bar=progress,
        )  # fmt: skip
    return tree["posterior"].to_dataset(), tree["sample_stats"].to_dataset()


def _restricted(model: pm.Model, alternative: Alternative, event: int) -> pm.Model:
    """The component form of a model with its present data, made once for each model."""
    if model not in _COMPONENTS:
        _COMPONENTS[model] = models.alternative(model, alternative, "component", event=event)
    restricted = _COMPONENTS[model]
    shared = [one.name for one in model.data_vars if one.name in restricted.named_vars]
    dims = {dim for name in shared for dim in model.named_vars_to_dims.get(name, ())}
    values = {name: model[name].get_value() for name in shared}
    pm.set_data(values, restricted, coords={dim: model.coords[dim] for dim in dims})
    return restricted


def _names(model: pm.Model) -> list[str]:
    return [name for name in ("theta_reward", "theta_cost") if name in model.named_vars]


def _whole(model: pm.Model, draws: int, seed: int) -> tuple[Any, float]:
    """Weighted draws of the whole posterior, and its evidence beside the reference's.

    Weights of the whitened forms are relative to the evidence of Laplace's approximation.
    """
    functions = density(model)
    rng = np.random.default_rng([seed, 2])
    whole = log_whole(functions, global_modes(functions), draws, rng)
    return whole, whole.log_integral() - models.laplace(model).log_evidence


def _membership(model: pm.Model, alternative: Alternative, drawn: xr.Dataset) -> Any:
    """Which events contain each draw, over (chain, draw, event)."""
    functions = density(model)
    points = np.zeros((*drawn["theta_reward"].shape[:2], functions.size))
    for name in _names(model):
        values = drawn[name].values
        points[..., functions.places[name].ravel()] = values.reshape(*values.shape[:2], -1)
    flat = HalfSpaces.of(alternative, functions).contain(points.reshape(-1, functions.size))
    return flat.reshape(*points.shape[:2], -1)


def _inverse_count(
    model: pm.Model, alternative: Alternative, drawn: xr.Dataset, event: int
) -> tuple[float, float]:
    """Mean of one over the number of events that contain a draw, and its relative error."""
    inside = _membership(model, alternative, drawn)
    inside[..., event] = True  # but for a rounding it is
    share = 1.0 / inside.sum(axis=2)
    unseen = 0.5 / share.size  # an overlap that no draw has shown
    error = np.hypot(mcse_of_mean(share), unseen)
    return float(share.mean()), float(error / share.mean())


def _rhat(drawn: xr.Dataset) -> float:
    """The largest over the coordinates of the parameters."""
    largest = 1.0
    for name in ("theta_reward", "theta_cost"):
        if name in drawn:
            values = drawn[name].values
            flat = np.moveaxis(values.reshape(*values.shape[:2], -1), 2, 0)
            largest = max(largest, float(np.max(array_stats.rhat(flat))))
    return largest


def _judge_chains(evidence: Evidence) -> None:
    rhat, divergences = (evidence.diagnostics[name] for name in ("rhat", "divergences"))
    if not rhat <= MOST_RHAT:
        raise Refused(
            f"{evidence.method}: the chains disagree (R-hat {rhat:.3f}, at most {MOST_RHAT} will "
            "do); more draws may help", evidence,
        )  # fmt: skip
    if divergences > 0:
        raise Refused(f"{evidence.method}: {divergences:g} transitions diverged", evidence)


def _judge_error(evidence: Evidence) -> None:
    if not evidence.standard_error <= MOST_ERROR:
        raise Refused(
            f"{evidence.method}: the standard error is {evidence.standard_error:.2g} nats, at most "
            f"{MOST_ERROR:g} will do", evidence,
        )  # fmt: skip
