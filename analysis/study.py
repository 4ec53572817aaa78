"""The study: how fast the posterior probability of error can fall, and that it does so.

For the "End of Optimism" instances: the optimal rate with its certificate, the optimal
allocation, and the exact posterior probability of error under it, up to ten million pulls.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from bayes_feasible._atomic import replaced
from bayes_feasible.analysis.curves import error_curve
from bayes_feasible.analysis.tables import text_table
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.rate import optimal_rate

ALPHAS = (0.1, 0.2, 0.3)
TIMES = tuple(round(10**exponent) for exponent in np.arange(2.0, 7.01, 0.25))


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
