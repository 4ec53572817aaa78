"""How fast a probability of error decays: fits of `models.rate_regression`, and without a model."""

import math
from functools import cache
from typing import Any

import arviz as az
import numpy as np
import nutpie
import pytensor
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from bayes_feasible._check import Array
from bayes_feasible._interrupt import heeded
from bayes_feasible.analysis.study.verdicts import ESS, RHAT
from bayes_feasible.models.rate_regression import rate_data, rate_regression

DECADES = 3  # how far back from the last checkpoint the regression looks
SETTLED = 2.0  # Γt from which on the error behaves as for large t


class RateRegression:
    """The regression of log errors on time, compiled once for all curves; `draws` etc. of NUTS."""

    def __init__(self, draws: int = 2000, tune: int = 1000, chains: int = 4) -> None:
        self.draws, self.tune, self.chains = draws, tune, chains

    def fit(self, time: Any, log_error: Any, unit: float, seed: int = 0) -> xr.DataTree:
        """Draws of the parameters given one rule's error curves (replicate, checkpoint).

        `unit` is a rate to measure in, such as the optimal one. Gives the groups `posterior` and
        `sample_stats`.
        """
        model = _compiled().with_data(**rate_data(time, log_error, unit))
        with heeded():  # on Ctrl-C, nutpie returns the draws that it has
            return nutpie.sample(
                model, draws=self.draws, tune=self.tune, chains=self.chains, cores=1, seed=seed,
                target_accept=0.95, save_warmup=False, progress_bar=False,
            )  # fmt: skip


@cache
def _compiled() -> Any:
    """The compiled model, which takes data of any shape."""
    some = np.zeros((2, 4))
    # With fast mathematics, last digits and so chains differ between a first run and later ones,
    # which find compiled code on the disk.
    with pytensor.config.change_flags(numba__fastmath=False):
        return nutpie.compile_pymc_model(rate_regression([1.0, 2.0, 4.0, 8.0], some, 1.0))


def window(time: Any, unit: float) -> NDArray[np.bool_]:
    """Which checkpoints the regression looks at: late ones, after the error has begun to decay."""
    times = np.asarray(time, dtype=float)
    return (times >= 0.999 * times[-1] / 10**DECADES) & (unit * times >= SETTLED)


def sampling_diagnostics(tree: xr.DataTree) -> dict[str, float]:
    """The worst R-hat and effective sample sizes of all parameters, and the divergences."""
    draws = tree["posterior"].to_dataset()
    return {
        "rhat": float(az.rhat(draws).to_array().max(skipna=False)),
        "ess_bulk": float(az.ess(draws, method="bulk").to_array().min(skipna=False)),
        "ess_tail": float(az.ess(draws, method="tail").to_array().min(skipna=False)),
        "mcse": float(az.mcse(draws[["relative_rate"]]).relative_rate),
        "divergences": float(tree["sample_stats"]["diverging"].sum()),
    }


def complaints(diagnostics: dict[str, float]) -> list[str]:
    """What is wrong with the sampling; nothing where it can be trusted."""
    found = []
    if not diagnostics["rhat"] <= RHAT:
        found.append(f"R-hat {diagnostics['rhat']:.3f} is above {RHAT}: the chains disagree")
    least = min(diagnostics["ess_bulk"], diagnostics["ess_tail"])
    if not least >= ESS:
        found.append(f"only {least:.0f} effective draws; {ESS} are wanted")
    if diagnostics["divergences"] > 0:
        found.append(f"{diagnostics['divergences']:.0f} divergent transitions")
    return found


def local_exponents(time: Any, log_error: Any) -> Array:
    """The slope of -log p over the decade before each checkpoint, (replicate, checkpoint).

    NaN where no checkpoint is a decade (or two thirds of one at least) back.
    """
    times, decay = np.asarray(time, dtype=float), -np.asarray(log_error, dtype=float)
    slopes = np.full(decay.shape, np.nan)
    for i, now in enumerate(times):
        before = decade_before(times, i)
        if before is not None:
            slopes[:, i] = (decay[:, i] - decay[:, before]) / (now - times[before])
    return slopes


def decade_before(time: Any, i: int) -> int | None:
    """The checkpoint nearest to a tenth of another; None where none is far enough back."""
    times = np.asarray(time, dtype=float)
    before = int(np.argmin(np.abs(np.log10(10 * times[: i + 1] / times[i]))))
    return before if times[i] / times[before] >= 10 ** (2 / 3) else None


def mean_interval(values: Any, probability: float) -> tuple[float, float, float]:
    """The mean of replicates with its interval (Student's t); without bounds for a single one."""
    values = np.asarray(values, dtype=float)
    centre = float(values.mean())
    if values.size < 2:
        return centre, -math.inf, math.inf
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    half = float(stats.t.isf((1 - probability) / 2, values.size - 1)) * error
    return centre, centre - half, centre + half
