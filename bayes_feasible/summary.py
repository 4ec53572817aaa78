"""What a law of the parameters believes of every candidate, in the units of the outcomes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_feasible._check import Array
from bayes_feasible.prior import along, below, quantile

if TYPE_CHECKING:
    import xarray as xr


class Law(NamedTuple):
    """Of the parameter of one block: Student's, or with infinite degrees of freedom a Gaussian."""

    centre: Array
    scale: Array  # (feature, feature): of a Gaussian the covariance
    freedom: float = np.inf


def summarise(problem: Any, laws: Sequence[Law], probability: float) -> "xr.Dataset":
    """Mean, standard deviation and central interval of each outcome of each candidate.

    And `feasible`, the probability that all of a candidate's costs are within their limits.
    """
    import xarray as xr

    if not 0 < probability < 1:
        raise ValueError(f"probability: expected a number between 0 and 1, got {probability!r}")
    mean, sd, low, high = np.empty((4, 1 + problem.limits.size, len(problem.candidates)))
    feasible = np.ones(len(problem.candidates))
    for b, (outcome, law) in enumerate(zip(problem.outcomes, laws, strict=True)):
        at, scale = along(problem.candidates, law.centre, law.scale)
        widen = np.sqrt(law.freedom / (law.freedom - 2)) if 2 < law.freedom < np.inf else 1.0
        mean[b] = outcome.mean_over(at, scale)
        sd[b] = np.inf if law.freedom <= 2 else outcome.sd_over(at, widen * scale)
        width = quantile((1 + probability) / 2, law.freedom) * scale
        low[b], high[b] = outcome.mean(at - width), outcome.mean(at + width)
        if b:
            at, scale = along(problem.cost_vectors[:, b - 1], law.centre, law.scale)
            with np.errstate(divide="ignore", invalid="ignore"):  # a zero vector: for certain
                within = below((problem.limits[b - 1] - at) / scale, law.freedom)
            feasible *= np.where(scale > 0, within, at <= problem.limits[b - 1])
    dims = ("outcome", "candidate")
    return xr.Dataset(
        {"mean": (dims, mean), "sd": (dims, sd), "low": (dims, low), "high": (dims, high),
         "feasible": ("candidate", feasible)},
        coords={"outcome": problem.outcome_names, "candidate": problem.coords["candidate"]},
    )  # fmt: skip
