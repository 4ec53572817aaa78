r"""Theorem 4.3: the posterior error of BLFAIPS decays at the optimal rate Γ.

The error of one run splits exactly: with :math:`D(\theta)` the least separation of the alternative
set from parameters under the run's :math:`V_T`,

.. math:: -\log P_T = \tfrac12 D(\theta) + \tfrac12 [D(\hat\theta_T) - D(\theta)] + Q_T ,

what the pulls are worth, the luck of the posterior mean (of order :math:`\sqrt T`), and the
polynomial factor (of order :math:`\log T`). The first over :math:`T \Gamma` is the efficiency of
the pulls, which has to tend to 1.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.runs import run_all
from bayes_feasible.analysis.paper.theory_rate import parameters, separation
from bayes_feasible.analysis.paper.theory_text import (
    compatible,
    falls_clearly,
    over_time,
    power,
    quoted,
)
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.catalogue import BLFAIPS
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.simulate import Environment

TIMES = (2000, 10_000, 100_000, 1_000_000, 10_000_000)
PARTS = ("log_error", "at_mean", "at_truth", "log_error_scaled")


def one_run(
    instance: Instance, eta: Any, times: Sequence[int], seed: np.random.SeedSequence
) -> Array:
    """Split a run's error into its parts, over (time, part); see `PARTS`."""
    own, noise, costs, errors, _ = streams.split(seed)
    rule, environment = BLFAIPS(instance, seed=own, eta=eta), Environment(instance, noise, costs)
    problem, best = instance.problem, instance.best
    alternative, rng = Alternative(problem, best), np.random.default_rng(errors)
    parts = np.empty((len(times), len(PARTS)))
    for i, rounds in enumerate(np.diff(times, prepend=0).tolist()):
        environment.play(rule, rounds)
        posterior = rule.posterior
        means = np.vstack([posterior.theta_reward, posterior.theta_cost])
        parts[i] = (
            alternative.log_probability(posterior, rng).value,
            separation(problem, best, means, posterior.precision) / 2,
            separation(problem, best, parameters(instance), posterior.precision) / 2,
            alternative.log_probability(posterior, rng, scale=rule._options.scale).value,
        )
    return parts


def long_runs(
    instance: Instance, etas: Sequence[Any], times: Sequence[int], replicates: int, seed: int
) -> xr.Dataset:
    """Run BLFAIPS and split its errors.

    Returns
    -------
    Dataset
        Over (`eta`, `replicate`, `time`): `log_error` (exact); `at_mean` and `at_truth`, half the
        least separation from the posterior mean and from the truth; `polynomial`,
        `-log_error - at_mean`; `efficiency`, `at_truth` over time times the optimal rate; and
        `log_error_scaled`, the error under the widened posterior that BLFAIPS draws from.
    """
    seeds = np.random.SeedSequence(seed).spawn(replicates)
    rounds = replicates * times[-1]
    values = np.array(
        [run_all(partial(one_run, instance, eta, tuple(times)), seeds, rounds) for eta in etas]
    )
    dataset = xr.Dataset(
        {name: (("eta", "replicate", "time"), values[..., i]) for i, name in enumerate(PARTS)},
        coords={"eta": [str(eta) for eta in etas], "time": list(times)},
    )
    rate = optimal_rate(instance).value
    return dataset.assign(
        polynomial=-dataset.log_error - dataset.at_mean,
        efficiency=dataset.at_truth / (dataset.time * rate),
    )


def claim_convergence(quick: bool, seed: int) -> list[Claim]:
    """Theorem 4.3."""
    instance = end_of_optimism(0.1)
    times, replicates = (TIMES[:3], 8) if quick else (TIMES, 10)
    found = long_runs(instance, ("paper", 1.0), times, replicates, seed)
    total = found.time * optimal_rate(instance).value
    what = (
        f"End of Optimism α = 0.1, {replicates} runs to T = {times[-1]:,}; -log P exact, split "
        "into what the pulls are worth, the luck of the posterior mean, and the polynomial factor"
    )
    claims = [_one_eta(found.sel(eta=name), total, what) for name in found.eta.values]
    return [*claims, _polynomial(found, what), _scaled(found, total)]


def _one_eta(found: xr.Dataset, total: xr.DataArray, what: str) -> Claim:
    parts = (found.efficiency, found.at_mean / total, -found.log_error / total)
    lines = [
        f"T = {int(t):,}: " + ", ".join(quoted(part.sel(time=t)) for part in parts)
        for t in found.time.values
    ]
    late = found.isel(time=slice(1, None))
    speed = power(late.time, (1 - late.efficiency).values)
    last = float(found.efficiency.isel(time=-1).mean())
    eta = str(found.eta.values)
    name = "the paper's η" if eta == "paper" else f"η = {float(eta):g}"
    return Claim(
        f"BLFAIPS reaches the rate Γ ({name})",
        "Theorem 4.3",
        what,
        "efficiency of the pulls; with the luck; with the polynomial factor (-log P/(TΓ)): "
        + "; ".join(lines)
        + f"; from T = {int(late.time[0]):,} on 1 - efficiency falls as T^-p, p = {quoted(speed)}",
        f"holds (asymptotically: after {int(found.time[-1]):,} pulls {last:.3f} of Γ is "
        "reached, and what is missing keeps shrinking)"
        if falls_clearly(speed, 0.0)
        else "does not hold: what is missing does not shrink",
    )


def _polynomial(found: xr.Dataset, what: str) -> Claim:
    late = found.sel(eta="1.0").isel(time=slice(1, None))
    slopes = np.polyfit(np.log(late.time.values), late.polynomial.values.T, 1)[0]
    return Claim(
        "P equals exp(-TΓ) to first order in the exponent",
        "Theorem 4.3, Section 5",
        what + "; η = 1: the polynomial factor Q_T alone, fitted on log T",
        f"Q_T, in nats: {over_time(late.time, late.polynomial, ', ')}; slope against log T "
        f"{quoted(slopes)}",
        "holds (the factor is about √T, that of one half-space, so it costs log T/(2T))"
        if compatible(slopes, 0.5) or abs(slopes.mean() - 0.5) < 0.1
        else "holds in part: the factor vanishes beside T, but is not the √T of one half-space",
    )


def _scaled(found: xr.Dataset, total: xr.DataArray) -> Claim:
    table, theorem = (
        (-found[name] / total).sel(eta="paper").isel(time=-1)
        for name in ("log_error_scaled", "log_error")
    )
    eta = 1 / BLFAIPS(end_of_optimism(0.1).problem)._options.scale
    return Claim(
        "p_{T+1} has covariances V_T⁻¹/η_r and V_T⁻¹/η_c",
        "Table of notation, against Theorem 4.3 (σ²V_T⁻¹ and γ²V_T⁻¹)",
        f"the same runs, paper's η = {eta:.4f}, T = {int(found.time[-1]):,}: the error under "
        "either posterior",
        f"-log P/(TΓ) {quoted(table)} with the table's, {quoted(theorem)} with the theorem's",
        "holds"
        if float(table.mean()) > 0.5
        else "does not hold: recommended from the widened posterior the error would decay at ηΓ. "
        "The theorem's covariances are the right ones",
    )
