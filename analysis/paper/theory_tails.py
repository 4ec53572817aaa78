r"""Lemmas B.1 to B.5 and G.3: Gaussian tails, the four kinds of mistake, Laplace's method.

The slip that matters: :math:`\overline V_T` is :math:`(I + \sum X_t X_t^\top) / T` in the table of
notation and :math:`I + \sum X_t X_t^\top / T` in Lemma G.3. Only the first makes the exponent
:math:`T \overline V_T` the posterior precision.
"""

from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.quote import tabulate
from bayes_feasible.analysis.paper.theory_rate import printed_pieces
from bayes_feasible.analysis.study.curves import posterior_at_truth, whole_pulls
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import optimal_rate

KINDS = ("f1: A1", "f2: A2", "f3: A3", "f4: best")


def gaussian_tail(distance: Any) -> xr.Dataset:
    """Compute the tail at x standard deviations and the bounds of Lemma B.1, times exp(x²/2).

    The common factor is taken out, so that no digit is lost far out.
    """
    x = np.asarray(distance, dtype=float)
    lower = x / (1 + x**2) / np.sqrt(2 * np.pi)
    probability = special.erfcx(x / np.sqrt(2)) / 2
    rows = np.column_stack([lower, probability, np.full(x.shape, 0.5)])
    return tabulate("distance", x, ("lower", "probability", "upper"), rows)


def mistakes(instance: Instance, allocation: Array, times: Any) -> xr.Dataset:
    r"""Lemmas B.2 to B.5: what is left of each event's log-probability beside its exponent.

    `excess` over (`time`, `candidate`) is :math:`(\log P + T f) / T`, which has to vanish, for a
    posterior whose mean is the truth; `kind` is over `candidate`.
    """
    problem, best = instance.problem, instance.best
    values, applies = printed_pieces(instance, allocation[np.newaxis])
    exponent = np.where(applies, values[0], np.inf).min(axis=0)
    alternative = Alternative(problem, best)
    order = [best, *alternative.rivals.tolist()]
    excess = np.empty((len(times), len(order)))
    for i, time in enumerate(times):
        posterior = posterior_at_truth(instance, whole_pulls(allocation, time))
        log_probability = alternative.event_log_probabilities(posterior).values
        excess[i] = (log_probability + time * exponent[order]) / time
    kinds = [KINDS[int(np.argmax(applies[:, z]))] for z in order]
    return xr.Dataset(
        {"excess": (("time", "candidate"), excess), "kind": ("candidate", kinds)},
        coords={"time": list(times), "candidate": problem.coords["candidate"][order]},
    )


def laplace_box(low: Array, high: Array, precision: Array, time: float) -> tuple[float, float]:
    r"""Lemma G.3 on a box: :math:`\frac1T \log \int e^{-TQ/2}` and :math:`-\frac12 \inf Q`.

    :math:`Q(\theta) = \sum_i p_i \theta_i^2`, the truth at the origin, so that the integral is a
    product of normal probabilities, in closed form.
    """
    scale = np.sqrt(time * precision)
    mirrored = high <= 0  # measured in the tail where it is small
    left = np.where(mirrored, -high, low) * scale
    right = np.where(mirrored, -low, high) * scale
    tails = special.log_ndtr(-left)
    inside = tails + np.log1p(-np.exp(special.log_ndtr(-right) - tails))
    logarithm = np.sum(inside + 0.5 * np.log(2 * np.pi) - np.log(scale))
    nearest = np.clip(0.0, low, high)
    return float(logarithm / time), float(-0.5 * np.sum(precision * nearest**2))


def laplace_alternative(instance: Instance, radius: float, times: Any) -> xr.Dataset:
    r"""Lemma G.3 as Theorem 4.3 uses it: the alternative set within balls, optimal allocation.

    Gives over `time`: `log_error`, its `standard_error`, and `exponent`, the infimum under
    :math:`\overline V_T = (I + \sum X X^\top) / T` and `printed`, that under
    :math:`I + \sum X X^\top / T`.
    """
    bounded = _within(instance.problem, instance.problem.arms, radius)
    inside = Instance(bounded, instance.theta_reward, instance.theta_cost)
    allocation = optimal_rate(instance).allocation.values
    alternative = Alternative(bounded, instance.best)
    rows = []
    for time in times:
        posterior = posterior_at_truth(inside, whole_pulls(allocation, time))
        found = alternative.log_probability(posterior, seed=0)
        mean = posterior.precision / time
        nearest = [
            _bounded_infimum(inside, precision, radius)
            for precision in (mean, mean + (1 - 1 / time) * np.eye(2))
        ]
        rows.append((found.value, found.standard_error, *nearest))
    return tabulate("time", times, ("log_error", "standard_error", "exponent", "printed"), rows)


def _within(problem: Problem, arms: Array, radius: float) -> Problem:
    """The same candidates with other arms, and with parameters in balls."""
    return Problem(
        arms, problem.thresholds, candidates=problem.candidates, parameter_radius=radius,
        reward_noise=problem.reward_noise, cost_noise=problem.cost_noise,
    )  # fmt: skip


def _bounded_infimum(instance: Instance, precision: Array, radius: float) -> float:
    """Half the least separation within the balls under any precision."""
    # `Alternative.nearest` takes shares of arms: those of the precision's own axes.
    values, axes = np.linalg.eigh(precision)
    same = _within(instance.problem, (axes * np.sqrt(values.sum())).T, radius)
    truth = instance.theta_reward, instance.theta_cost
    return float(Alternative(same, instance.best).nearest(*truth, values / values.sum()).exponent)


def claim_tails(quick: bool, seed: int) -> list[Claim]:
    """Lemmas B.1 to B.5."""
    grid = np.concatenate([[0.0], np.geomspace(1e-8, 1e6, 2000 if quick else 200_000)])
    tail = gaussian_tail(grid)
    below = (1 - tail.lower / tail.probability).min()
    above = (tail.upper / tail.probability - 1).min()
    left = mistakes(end_of_optimism(0.1), np.full(5, 0.2), (10**3, 10**5, 10**7, 10**9))
    largest = abs(left.excess).groupby(left.kind).max()
    worst = {kind: largest.sel(kind=kind).values.tolist() for kind in KINDS}
    vanishes = (abs(left.excess.isel(time=-1)) < 1e-6).all()
    return [
        state("tail", min(below, above) >= -1e-15, points=grid.size, below=below, above=above),
        state("mistakes", vanishes, worst=worst),
    ]


def claim_laplace(quick: bool, seed: int) -> list[Claim]:
    """Lemma G.3."""
    low, high, precision = np.array([0.3, -0.5]), np.array([0.9, 0.4]), np.array([0.7, 1.9])
    box = [np.subtract(*laplace_box(low, high, precision, 10.0**k)) for k in (2, 4, 6, 8)]
    times = (10**3, 10**4, 10**5) if quick else (10**3, 10**4, 10**5, 10**6)
    found = laplace_alternative(end_of_optimism(0.3), 1.5, times)
    left = found.log_error / found.time + found.exponent
    other = found.log_error / found.time + found.printed
    error, rate = (found.standard_error / found.time).max(), found.exponent[-1]
    vanishes = abs(box[-1]) < 1e-5 and abs(left[-1]) < 0.05 * rate
    return [
        state("laplace", vanishes, box=box, times=times, left=left, error=error),
        state("notation", abs(other[-1]) < 0.05 * rate, other=other.values.tolist(), rate=rate,
              error=error),
    ]  # fmt: skip
