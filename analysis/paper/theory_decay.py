r"""Theorem 4.1: what decays at the exponent of an allocation, and what does not.

The slip of the paper that matters here: Appendix B writes :math:`1 - P(z_{out} \ne z^*)` for
:math:`P(z_{out} \ne z^*)`. And the probability in the theorems is that of the posterior, given the
data; the frequency of errors over the data is another matter.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.quote import compatible, tabulate
from bayes_feasible.analysis.paper.theory_rate import parameters, smallest_printed
from bayes_feasible.analysis.study.curves import error_curve, posterior_at_truth, whole_pulls
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.rate.designs import g_optimal
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.allocation import FixedAllocation
from bayes_feasible.simulation.simulate import simulate

TIMES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


def decay_slopes(times: Any, log_error: Array) -> Array:
    """Fit the rate of decay of each row of log-errors, the polynomial factor separated.

    Least squares of `-log P` on 1, t and log t, weighted for a variance that grows as t, which is
    that of a posterior mean's distance to the alternative set. Returns the coefficients of t.
    """
    time = np.asarray(times, dtype=float)
    weight = 1 / np.sqrt(time)[:, np.newaxis]
    design = np.column_stack([np.ones(time.size), time, np.log(time)])
    return np.linalg.lstsq(design * weight, -log_error.T * weight, rcond=None)[0][1]


def fixed_allocation_decay(
    instance: Instance, allocations: Mapping[str, Array], times: Sequence[int], replicates: int,
    seed: int,
) -> xr.Dataset:  # fmt: skip
    """Theorem 4.1: at which rate the posterior error of fixed allocations decays.

    Gives over `allocation`: `exponent` (the smallest, in nats a pull); `exact`, the decay between
    10^6 and 10^7 pulls of a posterior whose mean is the truth; over (`allocation`, `replicate`):
    `slope`, the fitted decay of a simulated run; and over (..., `time`): `log_error`.
    """
    rules = {name: partial(FixedAllocation, allocation=w) for name, w in allocations.items()}
    runs = simulate(instance, rules, times[-1], replicates, times, seed, progress=False)
    log_error = runs.log_error.values
    exact = [
        -np.diff(error_curve(instance, w, [10**6, 10**7]).log_error.values)[0] / (10**7 - 10**6)
        for w in allocations.values()
    ]
    shares = np.array(list(allocations.values()))
    return xr.Dataset(
        {
            "exponent": ("allocation", smallest_printed(instance, shares)),
            "exact": ("allocation", exact),
            "slope": (("allocation", "replicate"), [decay_slopes(times, row) for row in log_error]),
            "log_error": (("allocation", "replicate", "time"), log_error),
        },
        coords={"allocation": list(allocations), "time": list(times)},
    )


def error_frequency(
    instance: Instance, allocation: Array, time: int, replicates: int, seed: int
) -> xr.Dataset:
    r"""Count how often a recommendation is wrong, over the data, for whole pulls in fixed shares.

    The posterior mean is distributed as :math:`N(\theta, \sigma^2 V^{-1})` and a posterior draw
    as :math:`N(\theta, 2 \sigma^2 V^{-1})`, but for the ridge: so the frequency of errors decays
    at the smallest exponent if the posterior mean is asked, and at half of it if a draw is.

    Gives over `recommendation` ("mean", "draw"): `wrong` (a count out of `replicates`) and
    `log_exact`, the logarithm of the probability without the ridge.
    """
    problem, theta = instance.problem, parameters(instance)
    rng, noise = np.random.default_rng(seed), block_noise(problem)[:, np.newaxis]
    counts = whole_pulls(allocation, time)
    precision = np.eye(problem.arms.shape[1]) + problem.arms.T @ (counts[:, None] * problem.arms)
    inverse = np.linalg.inv(precision)
    root = np.linalg.cholesky(inverse)
    luck = rng.standard_normal((replicates, len(theta), counts.size))
    sums = counts * (theta @ problem.arms.T) + np.sqrt(counts) * noise * luck
    means = sums @ problem.arms @ inverse
    draws = means + noise * (rng.standard_normal(means.shape) @ root.T)
    alternative = Alternative(problem, instance.best)
    exact = posterior_at_truth(instance, counts)
    rows = [
        (
            alternative.contains(found[:, 0], found[:, 1:]).sum(),
            alternative.log_probability(exact, scale=scale).value,
        )
        for found, scale in ((means, 1.0), (draws, 2.0))
    ]
    return tabulate("recommendation", ["mean", "draw"], ("wrong", "log_exact"), rows)


def claim_decay(quick: bool, seed: int) -> list[Claim]:
    """Theorem 4.1: the posterior error of a fixed allocation decays at its smallest exponent."""
    instance, replicates = end_of_optimism(0.3), 32 if quick else 200
    times = TIMES[:5] if quick else TIMES
    arms = len(instance.problem.arms)
    rate = optimal_rate(instance)
    allocations = {
        "optimal": rate.allocation.values,
        "uniform": np.full(arms, 1 / arms),
        "G-optimal": g_optimal(instance.problem).allocation.values,
        "random": np.random.default_rng(seed).dirichlet(np.ones(arms)),
    }
    found = fixed_allocation_decay(instance, allocations, times, replicates, seed)
    ratio = dict(zip(allocations, (found.slope / found.exponent).values, strict=True))
    exact = dict(zip(allocations, (found.exact / found.exponent).values, strict=True))
    agree = all(
        abs(exact[name] - 1) < 1e-3 and compatible(ratio[name], 1.0, len(allocations))
        for name in allocations
    )
    optimal = found.log_error.sel(allocation="optimal")
    raw = -optimal / (found.time * rate.value)
    above = [int((raw.isel(time=i) > 1).sum()) for i in (0, -1)]
    correct = np.log1p(-np.exp(optimal.isel(time=-1)))
    wrong_way = -correct.values / (times[-1] * rate.value)
    setting = {"times": times, "horizon": times[-1], "runs": replicates}
    return [
        state("decay", agree, ratios=ratio, exact=exact, **setting),
        state("limsup", "part" if any(above) else "holds", above=above, raw=raw, **setting),
        state("wrong_way", wrong_way.max() > 0.5, decay=wrong_way, **setting),
    ]


def claim_frequency(quick: bool, seed: int) -> list[Claim]:
    """What the theorems' probability is not: the frequency of errors."""
    instance, replicates = end_of_optimism(0.3), 100_000 if quick else 1_000_000
    rate = optimal_rate(instance)
    allocation = rate.allocation.values
    near = error_frequency(instance, allocation, 500, replicates, seed)
    far = [error_frequency(instance, allocation, time, 1, seed) for time in (10**6, 10**7)]
    slope = (far[0].log_exact - far[1].log_exact) / (9e6 * rate.value)
    seen = near.wrong / replicates
    error = np.sqrt(seen * (1 - seen) / replicates)
    near = near.assign(seen=seen, error=error, exact=np.exp(near.log_exact), slope=slope)
    answer = "holds" if slope[1] > 0.99 else "part"
    return [state("frequency", answer, near=near, replicates=replicates)]
