"""The study: how fast the posterior probability of error can fall, and that it does so.

For the "End of Optimism" instances: the optimal rate with its certificate, the optimal
allocation, and the exact posterior probability of error under it, up to ten million pulls.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible._atomic import replaced
from bayes_feasible.alternative import Alternative
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.posterior import Posterior
from bayes_feasible.rate import optimal_rate

ALPHAS = (0.1, 0.2, 0.3)
TIMES = tuple(round(10**exponent) for exponent in np.arange(2.0, 7.01, 0.25))


def error_curve(instance: Instance, allocation: Any, times: Any) -> xr.Dataset:
    r"""Posterior probability of error over time where the posterior mean is the truth.

    At each time :math:`T` the pulls are :math:`T w`, rounded to whole numbers, and the data are
    such that the posterior means equal the true parameters: what is left is how fast the
    posterior contracts under the allocation, without the luck of the draw.

    Parameters
    ----------
    instance : Instance
    allocation : vector over arms
        Shares of the pulls. The arms with a share must span the true parameters, for the
        posterior mean never leaves their span.
    times : sequence of whole numbers

    Returns
    -------
    Dataset
        Over `time`: `log_error` (natural logarithm of the probability that the best feasible
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


def end_of_optimism_study(
    alphas: Sequence[float] = ALPHAS, times: Sequence[int] = TIMES
) -> xr.Dataset:
    """Optimal rate, optimal allocation and error curve of each instance, over `alpha`.

    Returns
    -------
    Dataset
        What `error_curve` gives, and `rate`, `rate_lower`, `rate_upper`, `allocation` (arm),
        `exponents` (candidate), `hardest` (index of a candidate), `mistake` (what it amounts to).
    """
    parts = [_one_instance(end_of_optimism(alpha), times) for alpha in alphas]
    dataset = xr.concat(parts, xr.DataArray(list(alphas), dims="alpha", name="alpha"))
    for name, unit in {"rate": "nats per pull", "decay": "nats per pull", "time": "pulls"}.items():
        dataset[name].attrs["units"] = unit
    dataset["alpha"].attrs["units"] = "radian"
    return dataset


def _one_instance(instance: Instance, times: Sequence[int]) -> xr.Dataset:
    optimum = optimal_rate(instance)
    return error_curve(instance, optimum.allocation, times).assign(
        rate=optimum.value,
        rate_lower=optimum.lower,
        rate_upper=optimum.upper,
        allocation=("arm", np.asarray(optimum.allocation)),
        exponents=("candidate", np.asarray(optimum.exponents)),
        candidate=instance.problem.coords["candidate"],
        hardest=optimum.hardest,
        mistake=optimum.mistake,
    )


def tables(study: xr.Dataset) -> str:
    """The study as text: the optimal rates, the error curves, and what they say."""
    return "\n\n".join([_rates(study), _curves(study), _conclusion(study)])


def _rates(study: xr.Dataset) -> str:
    header = ["alpha", "Γ", "certified: Γ is at least", "and at most", "hardest", "mistake"]
    rows = []
    for alpha in study.alpha.values:
        one = study.sel(alpha=alpha)
        bracket = [f"{float(one[name]):.12f}" for name in ("rate_lower", "rate_upper")]
        hardest = str(study.candidate.values[int(one.hardest)])
        rows.append([f"{alpha:g}", f"{float(one.rate):.8f}", *bracket, hardest, one.mistake.item()])
    arms = ["alpha", *(f"arm {name}" for name in study.arm.values)]
    shares = [
        [f"{alpha:g}", *(f"{share:.4f}" for share in study.allocation.sel(alpha=alpha).values)]
        for alpha in study.alpha.values
    ]
    return "\n\n".join(
        [
            "Optimal rate Γ of the End of Optimism instances (nats per pull)\n"
            + text_table(header, rows),
            "Optimal allocation w*: the share of the pulls that each arm gets\n"
            + text_table(arms, shares),
        ]
    )


def _curves(study: xr.Dataset) -> str:
    header = ["T"]
    for alpha in study.alpha.values:
        header += [f"log P, alpha {alpha:g}", "-log P / T"]
    whole_decades = [time for time in study.time.values if np.log10(time).is_integer()]
    rows = []
    for time in whole_decades or study.time.values:
        row = [f"{time:,}"]
        for alpha in study.alpha.values:
            at = study.sel(alpha=alpha, time=time)
            row += [f"{float(at.log_error):,.3f}", f"{float(at.decay):.8f}"]
        rows.append(row)
    rows.append(["limit", *(cell for rate in study.rate.values for cell in ("", f"{rate:.8f}"))])
    title = "Posterior probability of error P after T pulls shared out by w*, the mean at the truth"
    return f"{title}\n{text_table(header, rows)}"


def _conclusion(study: xr.Dataset) -> str:
    last = study.isel(time=-1)
    apart = float(abs(last.decay / last.rate - 1).max())
    return (
        "In the long run the probability of a wrong recommendation cannot fall faster than "
        "e^(-ΓT), however the pulls are shared out.\nPulling in the shares w* gets there: after "
        f"{int(last.time):,} pulls -log P / T is within {100 * apart:.2g} % of Γ for every alpha."
    )


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be: numbers to the right, words to the left.

    >>> print(text_table(["T", "error"], [["10", "none"], ["100", "some"]]))
      T  error
     10  none
    100  some
    """
    columns = []
    for cells in zip(header, *rows, strict=True):
        width = max(map(len, cells))
        words = any(cell[:1].isalpha() and cell != "inf" for cell in cells[1:-1] or cells[1:])
        columns.append([cell.ljust(width) if words else cell.rjust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def save(study: xr.Dataset, folder: Path) -> list[Path]:
    """Write `study.nc`, `study.png` and `study.svg`; each appears whole or not at all."""
    from bayes_feasible.analysis import figures

    folder.mkdir(parents=True, exist_ok=True)
    figure = figures.error_curves(study)
    numbers, *pictures = paths = [folder / f"study.{kind}" for kind in ("nc", "png", "svg")]
    with replaced(numbers) as temporary:
        study.to_netcdf(temporary, engine="h5netcdf")
    for path in pictures:
        with replaced(path) as temporary:
            figures.write(figure, temporary)
    return paths
