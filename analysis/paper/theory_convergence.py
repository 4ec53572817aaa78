r"""Theorem 4.3: the posterior error of BLFAIPS decays at the optimal rate Γ.

The error of one run splits exactly: with :math:`D(\theta)` the least separation of the alternative
set from parameters under the run's :math:`V_T`,

.. math:: -\log P_T = \tfrac12 D(\theta) + \tfrac12 [D(\hat\theta_T) - D(\theta)] + Q_T ,

what the pulls are worth, the luck of the posterior mean (of order :math:`\sqrt T`), and the
polynomial factor (of order :math:`\log T`). The first over :math:`T \Gamma` is the efficiency of
the pulls, which has to tend to 1.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.theory_rate import parameters, separation
from bayes_feasible.analysis.paper.theory_text import (
    command,
    compatible,
    judged,
    mean_and_error,
    quoted,
)
from bayes_feasible.analysis.study import executors
from bayes_feasible.analysis.study.store import Task
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.catalogue import BLFAIPS
from bayes_feasible.simulation.simulate import Environment
from bayes_feasible.simulation.workers import among_others

TIMES = (2000, 10_000, 100_000, 1_000_000, 10_000_000)
WORTH_PROCESSES = 2_000_000  # rounds
PARTS = ("log_error", "at_mean", "at_truth", "log_error_scaled")


def parallel(work: Any, items: Sequence[Any], rounds: int) -> list[Any]:
    """Do `work` on every item, on all cores where the number of rounds is worth it."""
    if rounds < WORTH_PROCESSES or (os.cpu_count() or 1) == 1 or among_others():
        return [work(item) for item in items]
    tasks = [Task(f"run {i}", str(i), partial(work, item)) for i, item in enumerate(items)]
    results = executors.on_processes(tasks, os.cpu_count() or 1)
    found = {task.key: result for task, result in results}
    return [found[task.key] for task in tasks]


def one_run(
    instance: Instance, eta: Any, times: Sequence[int], seed: np.random.SeedSequence
) -> Array:
    """The parts of a run's error, over (time, part); see `PARTS`."""
    own, noise, costs, errors = (
        np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i)) for i in range(4)
    )
    rule, environment = BLFAIPS(instance, seed=own, eta=eta), Environment(instance, noise, costs)
    problem, best = instance.problem, instance.best
    alternative, rng = Alternative(problem, best), np.random.default_rng(errors)
    parts = np.empty((len(times), len(PARTS)))
    now = 0
    for i, time in enumerate(times):
        environment.play(rule, time - now)
        now = time
        posterior = rule.posterior
        means = np.vstack([posterior.theta_reward, posterior.theta_cost])
        scale = rule._options.scale
        parts[i] = (
            alternative.log_probability(posterior, rng).value,
            separation(problem, best, means, posterior.precision) / 2,
            separation(problem, best, parameters(instance), posterior.precision) / 2,
            alternative.log_probability(posterior, rng, scale=scale).value,
        )
    return parts


def long_runs(
    instance: Instance, etas: Sequence[Any], times: Sequence[int], replicates: int, seed: int
) -> xr.Dataset:
    """Runs of BLFAIPS and the parts of their errors.

    Returns
    -------
    Dataset
        Over (`eta`, `replicate`, `time`): `log_error` (exact); `at_mean` and `at_truth`, half the
        least separation from the posterior mean and from the truth; `polynomial`,
        `-log_error - at_mean`; `efficiency`, `at_truth` over time times the optimal rate; and
        `log_error_scaled`, the error under the widened posterior that BLFAIPS draws from.
    """
    seeds = np.random.SeedSequence(seed).spawn(replicates)
    dims = ("eta", "replicate", "time")
    found = [
        parallel(
            partial(one_run, instance, eta, tuple(times)), seeds, replicates * times[-1]
        )
        for eta in etas
    ]  # fmt: skip
    values = np.array(found)
    dataset = xr.Dataset(
        {name: (dims, values[..., i]) for i, name in enumerate(PARTS)},
        coords={"eta": [str(eta) for eta in etas], "time": list(times)},
    )
    rate = optimal_rate(instance).value
    return dataset.assign(
        polynomial=-dataset.log_error - dataset.at_mean,
        efficiency=dataset.at_truth / (dataset.time * rate),
    )


def power(times: Any, values: Array) -> Array:
    """The exponent p of `values ~ time^-p` in each row, by least squares of the logarithms."""
    logs = np.log(np.asarray(times, dtype=float))
    centred = logs - logs.mean()
    return -np.log(values) @ centred / (centred @ centred)


def claim_convergence(quick: bool, seed: int) -> list[Claim]:
    """Theorem 4.3."""
    instance = end_of_optimism(0.1)
    times, replicates = (TIMES[:3], 8) if quick else (TIMES, 10)
    found = long_runs(instance, ("paper", 1.0), times, replicates, seed)
    rate = optimal_rate(instance).value
    what = (
        f"End of Optimism α = 0.1, {replicates} runs to T = {times[-1]:,}; -log P exact, split "
        "into what the pulls are worth, the luck of the posterior mean, and the polynomial factor"
    )
    claims = [
        _one_eta(found.sel(eta=name), rate, name, what, command("convergence", quick, seed))
        for name in found.eta.values
    ]
    return [*claims, _polynomial(found, what, quick, seed), _scaled(found, rate, quick, seed)]


def _one_eta(found: xr.Dataset, rate: float, eta: str, what: str, typed: str) -> Claim:
    total = found.time * rate
    lines = [
        f"T = {int(t):,}: {quoted(found.efficiency.sel(time=t))}, "
        f"{quoted((found.at_mean / total).sel(time=t))}, "
        f"{quoted((-found.log_error / total).sel(time=t))}"
        for t in found.time.values
    ]
    late = found.isel(time=slice(1, None))
    speed = power(late.time, (1 - late.efficiency).values)
    slow = mean_and_error(speed)
    rises = slow[0] > 3 * slow[1]
    last = float(found.efficiency.isel(time=-1).mean())
    name = "the paper's η" if eta == "paper" else f"η = {float(eta):g}"
    return Claim(
        f"BLFAIPS reaches the rate Γ ({name})",
        "Theorem 4.3",
        what,
        "efficiency of the pulls; with the luck; with the polynomial factor (-log P/(TΓ)): "
        + "; ".join(lines)
        + f"; from T = {int(late.time[0]):,} on 1 - efficiency falls as T^-p, p = {quoted(speed)}",
        judged(
            rises,
            f"holds (asymptotically: after {int(found.time[-1]):,} pulls {last:.3f} of Γ is "
            "reached, and what is missing keeps shrinking)",
            "does not hold: what is missing does not shrink",
        ),
        typed,
    )


def _polynomial(found: xr.Dataset, what: str, quick: bool, seed: int) -> Claim:
    late = found.sel(eta="1.0").isel(time=slice(1, None))
    logs = np.log(late.time.values)
    slopes = np.polyfit(logs, late.polynomial.values.T, 1)[0]
    size = ", ".join(
        f"T = {int(t):,}: {quoted(late.polynomial.sel(time=t))}" for t in late.time.values
    )
    return Claim(
        "P equals exp(-TΓ) to first order in the exponent",
        "Theorem 4.3, Section 5",
        what + "; η = 1: the polynomial factor Q_T alone, fitted on log T",
        f"Q_T, in nats: {size}; slope against log T {quoted(slopes)}",
        judged(
            compatible(slopes, 0.5, false_alarm=1e-3) or abs(slopes.mean() - 0.5) < 0.1,
            "holds (the factor is about √T, that of one half-space, so it costs log T/(2T))",
            "holds in part: the factor vanishes beside T, but is not the √T of one half-space",
        ),
        command("convergence", quick, seed),
    )


def _scaled(found: xr.Dataset, rate: float, quick: bool, seed: int) -> Claim:
    last = found.sel(eta="paper").isel(time=-1)
    time = int(last.time)
    eta = 1 / BLFAIPS(end_of_optimism(0.1).problem)._options.scale
    ratio = -last.log_error_scaled / (time * rate)
    return Claim(
        "p_{T+1} has covariances V_T⁻¹/η_r and V_T⁻¹/η_c",
        "Table of notation, against Theorem 4.3 (σ²V_T⁻¹ and γ²V_T⁻¹)",
        f"the same runs, paper's η = {eta:.4f}, T = {time:,}: the error under either posterior",
        f"-log P/(TΓ) {quoted(ratio)} with the table's, "
        f"{quoted(-last.log_error / (time * rate))} with the theorem's",
        judged(
            float(ratio.mean()) > 0.5,
            "holds",
            "does not hold: recommended from the widened posterior the error would decay at ηΓ. "
            "The theorem's covariances are the right ones",
        ),
        command("convergence", quick, seed),
    )
