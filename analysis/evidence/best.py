"""The chance of every candidate to be the best feasible one, under any model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.analysis.evidence.sampled import CHAINS, TUNE
from bayes_feasible.analysis.samplers import mcmc
from bayes_feasible.models.parameters import read_variables
from bayes_feasible.problem import Problem


def probability_best(
    model: pm.Model | xr.DataTree | xr.Dataset,
    problem: Problem,
    *,
    variables: Mapping[str, str] | None = None,
    draws: int = 20_000,
    tune: int = TUNE,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> xr.Dataset:
    """For every candidate, the probability that it is the best feasible one, from draws.

    `Posterior.probability_best` is the same in closed form, where there is one. A candidate whose
    chance is too small for draws: `log_error` says how small.

    Parameters
    ----------
    model : Model, DataTree or Dataset
        As in `log_error`: any PyMC model with the parameters, or posterior draws of any program.
    problem : Problem
    variables : mapping, optional
        See `models.in_parameters`.
    draws, tune : int
        Of NUTS, in four chains.
    seed : int
    progress : bool
    **options
        `target_accept` of NUTS.

    Returns
    -------
    Dataset
        Over `candidate`: `best` and `feasible`, with their standard errors `best_error` and
        `feasible_error`; and `none`, the probability that no candidate is feasible, with
        `none_error`. `best` and `none` sum to 1.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 0.5})
    >>> posterior = bf.Posterior(problem)
    >>> posterior.update(["a", "b"], [20.0, 10.0], [1.0, 2.0], count=10)
    >>> found = probability_best(posterior.sample(5000, 0, chains=4), problem)
    >>> exact = posterior.probability_best()
    >>> bool((abs(found.best - exact.best) < 5 * found.best_error).all())
    True
    """
    _check.kind("problem", problem, Problem)
    asked = read_variables(problem, variables)
    if isinstance(model, pm.Model):
        draws, tune = _check.count("draws", draws, least=1000), _check.count("tune", tune)
        seeds = [_check.count("seed", seed, least=0)]
        model, _ = mcmc.nuts(
            model, asked.wanted, draws // CHAINS, tune, CHAINS, seeds, progress, **options
        )
    blocks = asked.read(model)
    flat = blocks.reshape(-1, *blocks.shape[2:])
    best = asked.problem.best_under(flat).reshape(blocks.shape[:2])
    feasible = asked.problem.feasible(flat[:, 1:]).reshape(*blocks.shape[:2], -1)
    candidates = np.arange(len(problem.candidates))
    shares = {
        "best": _share(best == candidates[:, np.newaxis, np.newaxis]),
        "feasible": _share(feasible.transpose(2, 0, 1)),
    }
    none, none_error = _share((best == -1)[np.newaxis])
    columns = {
        name + suffix: ("candidate", value)
        for name, found in shares.items()
        for suffix, value in zip(("", "_error"), found, strict=True)
    }
    return xr.Dataset(
        {**columns, "none": none[0], "none_error": none_error[0]},
        coords={"candidate": problem.coords["candidate"]},
    )


def _share(hits: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Shares of draws (quantity, chain, draw) and their standard errors."""
    share, size = hits.mean(axis=(1, 2)), np.full(len(hits), float(hits[0].size))
    moving = (share > 0) & (share < 1)
    if moving.any():
        own = array_stats.ess(hits[moving].astype(float), method="mean")
        size[moving] = np.minimum(own, size[moving])
    # Where no draw, or every one, is a hit, one that is not would be one standard error.
    return share, np.sqrt(np.maximum(share * (1.0 - share), 1.0 / size) / size)
