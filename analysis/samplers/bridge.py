"""Probabilities of events from their component forms, by a bridge to the standard normal."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from arviz_stats.base import array_stats
from pytensor.graph.replace import vectorize_graph
from scipy.special import logsumexp

from bayes_feasible._check import Array
from bayes_feasible.models._interpreted import interpreted
from bayes_feasible.models._kept import keep

TURNS = 1000  # of the bridge's fixed point
ALIKE = 1e-9  # log-weights that differ by less are all the same


def event_map(model: pm.Model) -> "EventMap":
    """The map of a component, made once; it sees what `models.set_alternative` changes."""
    return keep(model, "event map", lambda: EventMap(model))


class EventMap:
    """From the free variables of a component to parameters in its event, and their log-weights."""

    def __init__(self, model: pm.Model) -> None:
        self._shape = [len(model.coords[dim]) for dim in ("parameter", "axis")]
        self._free = model.free_RVs
        many = [one.type.clone(shape=(None, *one.type.shape))() for one in self._free]
        names = [n for n in ("theta_reward", "theta_cost", "log_weight") if n in model.named_vars]
        outputs = vectorize_graph(
            [model[name] for name in names], dict(zip(self._free, many, strict=True))
        )
        self._function = pytensor.function(many, outputs, mode=interpreted())

    def __call__(self, draws: xr.Dataset) -> tuple[Array, Array]:
        """Parameters (chain, draw, parameter, feature) and log-weights (chain, draw)."""
        values = [draws[one.name].values for one in self._free]
        lead = values[0].shape[:2]
        reward, *cost, log_weight = self._function(
            *(value.reshape(-1, *value.shape[2:]) for value in values)
        )
        parameters = np.concatenate([reward[:, np.newaxis], *cost], axis=1)
        return parameters.reshape(*lead, *parameters.shape[1:]), log_weight.reshape(lead)

    def base(self, number: int, rng: np.random.Generator) -> Array:
        """Independent log-weights: standard normal coordinates, other variables a priori."""
        values: list[Any] = []
        for one in self._free:
            if one.name == "whitened":
                values.append(rng.standard_normal((number, *self._shape)))
            else:
                values.append(pm.draw(one, number, random_seed=rng))
        return self._function(*values)[-1]


def bridge(log_weights: Array, log_weights_there: Array) -> tuple[float, float]:
    r"""Logarithm of a ratio of normalising constants, and its standard error.

    The optimal bridge of Meng and Wong, found by its fixed point; the error is that of
    Frühwirth-Schnatter (Econometrics Journal 2004), with the draws' effective number. Weights are
    unnormalised density over base density, at draws (chain, draw) of the former and at independent
    ones of the latter.
    """
    top = float(np.median(log_weights))
    own, there = log_weights - top, log_weights_there - top
    if np.ptp(own) < ALIKE and np.ptp(there) < ALIKE:
        return top + float(own.mean()), 0.0
    size = effective_draws(own)
    log_share = np.log([size, there.size]) - np.log(size + there.size)
    log_ratio = 0.0
    for _ in range(TURNS):
        before = log_ratio
        below = np.logaddexp(log_share[0] + there, log_share[1] + log_ratio)
        above = np.logaddexp(log_share[0] + own, log_share[1] + log_ratio)
        log_ratio = _log_mean(there - below) - _log_mean(-above)
        if abs(log_ratio - before) < 1e-12:
            break
    first = np.exp(there - np.logaddexp(log_share[0] + there, log_share[1] + log_ratio))
    second = np.exp(log_ratio - np.logaddexp(log_share[0] + own, log_share[1] + log_ratio))
    variance = first.var() / first.mean() ** 2 / first.size
    variance += (second.std() / np.sqrt(effective_draws(second)) / second.mean()) ** 2
    return top + log_ratio, float(np.sqrt(variance))


def effective_draws(values: Array) -> float:
    """How many independent draws chains (chain, draw) are worth for their mean."""
    if np.ptp(values) < 1e-12:
        return float(values.size)
    return min(float(array_stats.ess(values, method="mean")), values.size)


def _log_mean(logs: Array) -> float:
    return float(logsumexp(logs) - np.log(logs.size))
