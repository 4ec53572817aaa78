"""The best that any rule can do on an instance: the yardstick of a study, as numbers and tables."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from bayes_feasible.analysis.report.tables import text_table
from bayes_feasible.analysis.study.curves import error_curve
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import Rate, optimal_rate

SHOWN = 20  # arms in a table


def optimum(instance: Instance, times: Sequence[int]) -> xr.Dataset:
    """Optimal rate, optimal allocation and the exact error curve under it.

    Gives `rate`, `rate_lower`, `rate_upper`, `allocation` (arm), `exponents` (candidate),
    `hardest` (name of a candidate), `mistake` (what it amounts to), and what `error_curve` gives,
    where the arms of the optimal allocation span the true parameters.
    """
    rate, problem = optimal_rate(instance), instance.problem
    dataset = xr.Dataset(
        {
            "rate": rate.value,
            "rate_lower": rate.lower,
            "rate_upper": rate.upper,
            "allocation": ("arm", np.asarray(rate.allocation)),
            "exponents": ("candidate", np.asarray(rate.exponents)),
            "hardest": "" if rate.hardest is None else problem.name(rate.hardest),
            "mistake": rate.mistake or "",
        },
        coords={name: problem.coords[name] for name in ("arm", "candidate")},
    ).merge(_curve(instance, rate, times))
    for name, unit in {"rate": "nats per pull", "decay": "nats per pull", "time": "pulls"}.items():
        if name in dataset:
            dataset[name].attrs["units"] = unit
    return dataset


def _curve(instance: Instance, rate: Rate, times: Sequence[int]) -> xr.Dataset:
    """The error curve; empty where the posterior mean under the allocation cannot be the truth."""
    try:
        return error_curve(instance, rate.allocation, times)
    except ValueError:
        return xr.Dataset()


def tables(dataset: xr.Dataset) -> str:
    """The optimum as text: the rate with its certificate, the allocation, the error curve."""
    texts = [_rate(dataset), _allocation(dataset)]
    if "decay" in dataset:
        texts.append(_error(dataset))
    return "\n\n".join(texts)


def _rate(dataset: xr.Dataset) -> str:
    text = (
        f"Optimal rate Γ = {float(dataset.rate):.8g} nats per pull, certified to lie between "
        f"{float(dataset.rate_lower):.10g} and {float(dataset.rate_upper):.10g}.\n"
        "In the long run no rule can make the probability of error fall faster than e^(-ΓT)."
    )
    if dataset.hardest.item():
        text += f"\nHardest to rule out: {dataset.hardest.item()} ({dataset.mistake.item()})."
    return text


def _allocation(dataset: xr.Dataset) -> str:
    shares = dataset.allocation.sortby(-dataset.allocation)
    pulled = shares[shares > 0]
    rows = [[str(one.arm.item()), f"{one.item():.4f}"] for one in pulled]
    hidden = f"\n... and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return (
        "Optimal allocation w*: the arms that get pulls, and their shares\n"
        + text_table(["arm", "share"], rows[:SHOWN])
        + hidden
    )


def _error(dataset: xr.Dataset) -> str:
    rows = []
    decades = [time for time in dataset.time.values if np.log10(time).is_integer()]
    for time in decades or dataset.time.values:
        at = dataset.sel(time=time)
        rows.append([f"{time:,}", f"{float(at.log_error):,.3f}", f"{float(at.decay):.8f}"])
    rows.append(["limit", "", f"{float(dataset.rate):.8f}"])
    title = "Posterior probability of error P after T pulls shared out by w*, the mean at the truth"
    return f"{title}\n{text_table(['T', 'log P', '-log P / T'], rows)}"
