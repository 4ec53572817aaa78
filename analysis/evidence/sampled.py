"""The log-probability of an alternative set from PyMC's samplers: SMC, components, frequency."""

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats

from bayes_feasible import models
from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.evidence import result
from bayes_feasible.analysis.evidence.expansion import Weighted, event_log_masses, weigh_whole
from bayes_feasible.analysis.evidence.result import Evidence
from bayes_feasible.analysis.samplers import components, mcmc
from bayes_feasible.analysis.samplers.sample import sample_alternative
from bayes_feasible.analysis.samplers.tasks import Task
from bayes_feasible.models.density import density
from bayes_feasible.models.modes import global_modes
from bayes_feasible.models.parameters import Asked
from bayes_feasible.posterior import Posterior

CHAINS = 4
TUNE = 1000
LEAST_LENGTH = 4  # of a chain, for its R-hat
LEAST_HITS = 50.0  # effective draws in the set


class Request(NamedTuple):
    """What a sampler is asked to measure; `draws` are those of all chains."""

    model: pm.Model
    alternative: Alternative
    draws: int
    seed: int
    progress: bool

    def weigh_whole(self) -> Weighted:
        """Weighted draws of the whole posterior."""
        functions, rng = density(self.model), np.random.default_rng([self.seed, 2])
        return weigh_whole(functions, global_modes(functions), self.draws, rng)


def by_smc(request: Request, **options: Any) -> Evidence:
    """Evidences of the graded forms, one event at a time; see `log_error`."""
    model, alternative, draws, seed, progress = request
    unused = Posterior(alternative.problem)  # the model has the data
    log_probabilities = event_log_masses(model, alternative)
    tree = sample_alternative(
        unused, alternative, "smc_events", draws=draws // CHAINS, chains=CHAINS, seed=seed,
        model=model, progress=progress, **options,
    )  # fmt: skip
    known = tree["components"].to_dataset()
    for name, value in zip(known.component.values, known.log_probability.values, strict=True):
        log_probabilities[alternative.events.index(str(name))] = value
    evidence = Evidence(
        min(float(tree.attrs["log_probability"]), 0.0),
        float(tree.attrs["log_probability_standard_error"]), "smc", alternative.events.names,
        log_probabilities, {"freedom": float(tree.attrs["log_probability_freedom"])},
    )  # fmt: skip
    result.judge_weights(evidence, "the whole posterior", request.weigh_whole())
    result.judge_error(evidence)
    return evidence


def by_components(request: Request, tune: int = TUNE) -> Evidence:
    """NUTS on each event's component form, its probability by a bridge; see `log_error`."""
    model, alternative, draws, seed, progress = request
    log_probabilities, names = event_log_masses(model, alternative), alternative.events.names
    unused = Posterior(alternative.problem)  # the model has the data
    task = Task(unused, alternative, draws // CHAINS, tune, CHAINS, seed, 1, progress, model)
    parts, _ = components.sample_events(task, mcmc.nutpie_chains, log_probabilities, task.draws)
    whole, chosen = request.weigh_whole(), [part.event for part in parts]
    # Weights of the whitened forms are relative to the evidence of Laplace's approximation.
    shift = whole.log_integral() - models.laplace(model).log_evidence
    log_probabilities[chosen] = [part.log_probability[0] - shift for part in parts]
    value, error = components.measure_union(
        log_probabilities[chosen],
        np.array([part.standard_error for part in parts]),
        [components.count_events(task, part) for part in parts],
        np.delete(log_probabilities, chosen),
    )
    figures = {
        "rhat": max(_rhat(part.draws) for part in parts),
        "divergences": sum(part.figures["divergences"] for part in parts),
    }
    error = float(np.hypot(error, whole.standard_error))
    evidence = Evidence(min(value, 0.0), error, "component", names, log_probabilities, figures)
    result.judge_weights(evidence, "the whole posterior", whole)
    result.judge_chains(evidence)
    result.judge_error(evidence)
    return evidence


def by_frequency(
    request: Request, asked: Asked, tune: int = TUNE, divergent: float = 0.0, **options: Any
) -> Evidence:
    """The share of plain NUTS draws in the set; see `log_error`."""
    model, alternative, draws, seed, progress = request
    drawn, statistics = mcmc.nuts(
        model, asked.wanted, draws // CHAINS, tune, CHAINS, [seed], progress, **options
    )
    divergences = float(statistics["diverging"].sum())
    return _count(asked.read(drawn), divergences, alternative, divergent)


def count_draws(
    drawn: Any, asked: Asked, alternative: Alternative, divergent: float = 0.0
) -> Evidence:
    """The share of draws of any origin in the set; see `log_error`."""
    divergences = 0.0
    if isinstance(drawn, xr.DataTree) and "sample_stats" in drawn.children:
        statistics = drawn["sample_stats"].to_dataset()
        divergences = float(statistics["diverging"].sum()) if "diverging" in statistics else 0.0
    blocks = asked.read(drawn)
    if blocks.shape[1] < LEAST_LENGTH:
        raise ValueError(f"draws: expected at least {LEAST_LENGTH} of each chain")
    if not np.isfinite(blocks).all():
        raise ValueError("draws: expected finite numbers")
    return _count(blocks, divergences, alternative, divergent)


def _count(
    blocks: Array, divergences: float, alternative: Alternative, divergent: float
) -> Evidence:
    """The share of draws (chain, draw, block, feature) in the set, unless their chains are bad."""
    inside = alternative.events.contains(blocks)
    hits = inside.any(axis=2)
    share = float(hits.mean())
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(inside.mean(axis=(0, 1)))
    size = float(array_stats.ess(hits.astype(float), method="mean")) if 0 < share < 1 else hits.size
    size = min(size, hits.size)  # antithetic chains may claim more
    error = float(np.sqrt((1.0 - share) / (share * size))) if share > 0 else np.inf
    figures = {
        "hits": float(hits.sum()),
        "effective_hits": share * size,
        "rhat": _rhat(blocks),
        "divergences": divergences,
    }
    value = float(np.log(share)) if share > 0 else -np.inf
    evidence = Evidence(
        value, error, "frequency", alternative.events.names, log_probabilities, figures
    )
    result.refuse_unless(
        share * size >= LEAST_HITS, evidence,
        f"{int(hits.sum())} of {hits.size} draws hit the set, worth {share * size:.3g} independent "
        f"ones; at least {LEAST_HITS:g} are needed",
    )  # fmt: skip
    result.judge_chains(evidence, divergent * hits.size)
    return evidence


def _rhat(draws: Array) -> float:
    """The largest over the coordinates of draws (chain, draw, block, feature)."""
    flat = np.moveaxis(draws.reshape(*draws.shape[:2], -1), 2, 0)
    return max(1.0, float(np.max(array_stats.rhat(flat))))
