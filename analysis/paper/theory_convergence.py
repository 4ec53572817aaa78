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

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.quote import compatible, falls_clearly, power, quoted, tabulate
from bayes_feasible.analysis.paper.runs import repeat
from bayes_feasible.analysis.paper.theory_rate import parameters, separation
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.blfaips import BLFAIPS
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.world import Environment

TIMES = (2000, 10_000, 100_000, 1_000_000, 10_000_000)


def one_run(
    instance: Instance, eta: Any, times: Sequence[int], seed: np.random.SeedSequence
) -> xr.Dataset:
    """Split a run's error into its parts, over time."""
    own, noise, costs, errors, _ = streams.split(seed)
    rule, environment = BLFAIPS(instance, seed=own, eta=eta), Environment(instance, noise, costs)
    problem, best = instance.problem, instance.best
    alternative, rng = Alternative(problem, best), np.random.default_rng(errors)
    parts = []
    for rounds in np.diff(times, prepend=0).tolist():
        environment.play(rule, rounds)
        posterior = rule.posterior
        means = np.vstack([posterior.theta_reward, posterior.theta_cost])
        parts.append(
            (
                alternative.log_probability(posterior, rng).value,
                separation(problem, best, means, posterior.precision) / 2,
                separation(problem, best, parameters(instance), posterior.precision) / 2,
                alternative.log_probability(posterior, rng, scale=rule._options.scale).value,
            )
        )
    names = ("log_error", "at_mean", "at_truth", "log_error_scaled")
    return tabulate("time", times, names, parts)


def long_runs(
    instance: Instance, etas: Sequence[Any], times: Sequence[int], replicates: int, seed: int
) -> xr.Dataset:
    """Run BLFAIPS and split its errors.

    Gives over (`eta`, `replicate`, `time`): `log_error` (exact); `at_mean` and `at_truth`, half the
    least separation from the posterior mean and from the truth; `polynomial`,
    `-log_error - at_mean`; `efficiency`, `at_truth` over time times the optimal rate; and
    `log_error_scaled`, the error under the widened posterior that BLFAIPS draws from.
    """
    found = xr.concat(
        [
            repeat(partial(one_run, instance, eta, tuple(times)), seed, replicates, times[-1])
            for eta in etas
        ],
        xr.DataArray(list(map(str, etas)), dims="eta", name="eta"),
    )
    return found.assign(
        polynomial=-found.log_error - found.at_mean,
        efficiency=found.at_truth / (found.time * optimal_rate(instance).value),
    )


def claim_convergence(quick: bool, seed: int) -> list[Claim]:
    """Theorem 4.3."""
    instance = end_of_optimism(0.1)
    times, replicates = (TIMES[:3], 8) if quick else (TIMES, 10)
    found = long_runs(instance, ("paper", 1.0), times, replicates, seed)
    setting = {"runs": replicates, "horizon": times[-1]}
    total = found.time * optimal_rate(instance).value
    late = found.sel(eta="1.0").isel(time=slice(1, None))
    slopes = np.polyfit(np.log(late.time.values), late.polynomial.values.T, 1)[0]
    half = compatible(slopes, 0.5) or abs(slopes.mean() - 0.5) < 0.1
    table, theorem = (
        (-found[name] / total).sel(eta="paper").isel(time=-1)
        for name in ("log_error_scaled", "log_error")
    )
    eta = 1 / BLFAIPS(instance.problem)._options.scale
    return [
        *(_one_eta(found.sel(eta=name), total, setting) for name in found.eta.values),
        state("polynomial", "holds" if half else "part", late=late, slopes=slopes, **setting),
        state("scaled", table.mean() > 0.5, table=table, theorem=theorem, eta=eta, **setting),
    ]


def _one_eta(found: xr.Dataset, total: xr.DataArray, setting: dict[str, int]) -> Claim:
    parts = (found.efficiency, found.at_mean / total, -found.log_error / total)
    lines = [
        f"T = {int(t):,}: " + ", ".join(quoted(part.sel(time=t)) for part in parts)
        for t in found.time.values
    ]
    late = found.isel(time=slice(1, None))
    speed = power(late.time, (1 - late.efficiency).values)
    eta = found.eta.item()
    name = "the paper's η" if eta == "paper" else f"η = {float(eta):g}"
    last = found.efficiency.isel(time=-1).mean()
    numbers = {"eta": name, "lines": lines, "first": late.time[0], "speed": speed, "last": last}
    return state("convergence", falls_clearly(speed, 0.0), **numbers, **setting)
