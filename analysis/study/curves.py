"""The exact posterior probability of error over time, for a given allocation."""

from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior


def error_curve(instance: Instance, allocation: Any, times: Any) -> xr.Dataset:
    r"""Posterior probability of error over time where the posterior mean is the truth.

    At each time :math:`T` the pulls are :math:`T w`, rounded to whole numbers, and the data are
    such that the posterior means equal the true parameters: what is left is how fast the
    posterior contracts under the allocation, without the luck of the draw. The arms with a share
    must span the true parameters, for the posterior mean never leaves their span.

    Gives over `time`: `log_error` (natural logarithm of the probability that the best feasible
    candidate is not the best one), its `standard_error`, certain `lower` and `upper` bounds,
    `decay` (`-log_error / time`, in nats a pull) and the `likeliest` mistake; over
    (`time`, `arm`): `pulls`.
    """
    alternative = Alternative(instance.problem, instance.best)
    pulls = [whole_pulls(allocation, time) for time in times]
    errors = [alternative.log_probability(posterior_at_truth(instance, counts)) for counts in pulls]
    log_error = np.array([error.value for error in errors])
    return xr.Dataset(
        {
            "log_error": ("time", log_error),
            "standard_error": ("time", [error.standard_error for error in errors]),
            "lower": ("time", [error.lower for error in errors]),
            "upper": ("time", [error.upper for error in errors]),
            "decay": ("time", -log_error / np.asarray(times)),
            "likeliest": ("time", [error.likeliest for error in errors]),
            "pulls": (("time", "arm"), np.array(pulls)),
        },
        coords={"time": np.asarray(times), "arm": instance.problem.coords["arm"]},
    )


def whole_pulls(allocation: Any, time: int) -> np.ndarray:
    """Whole numbers of pulls that add up to `time`, as near `time * allocation` as can be.

    >>> whole_pulls([0.26, 0.26, 0.48], 10).tolist()
    [3, 2, 5]
    """
    shares = np.asarray(allocation, dtype=float)
    if shares.min() < 0 or abs(shares.sum() - 1) > 1e-6:
        raise ValueError(f"allocation: expected shares that add up to 1, got {shares}")
    exact = shares / shares.sum() * time
    counts = np.floor(exact).astype(np.int64)
    missing = int(time) - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return counts


def posterior_at_truth(instance: Instance, counts: np.ndarray) -> Posterior:
    """A posterior after these pulls whose means are the true parameters.

    The ridge mean shrinks, so the arms have to show a little more than their means:
    `arms.T @ sums = V @ theta` asks for `sums = counts * (arms @ theta) + extra` with
    `arms.T @ extra = theta`, of which the shortest solution is taken.
    """
    problem = instance.problem
    truth = np.vstack([instance.theta_reward, instance.theta_cost]).T
    pulled = counts > 0
    arms = problem.arms[pulled]
    extra = np.linalg.lstsq(arms.T, truth, rcond=None)[0]
    if not np.allclose(arms.T @ extra, truth, rtol=0, atol=1e-9 * np.abs(truth).max()):
        raise ValueError(
            f"allocation: the arms it pulls, {problem.coords['arm'][pulled].tolist()}, do not "
            "span the true parameters, so the posterior mean cannot equal them"
        )
    sums = np.zeros((len(counts), truth.shape[1]))
    sums[pulled] = counts[pulled, np.newaxis] * (arms @ truth) + extra
    return Posterior.from_sums(problem, counts, sums[:, 0], sums[:, 1:])
