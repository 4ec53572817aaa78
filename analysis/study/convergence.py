"""Does the probability of error fall at the optimal rate? A verdict on each rule of a study.

No rule can do better than the optimal rate Γ in the long run, so there are three answers: a rule
*attains* Γ within a region of practical equivalence (its error curves say so, and its allocation
is there too), stays *below* it, or is *undecided*, and then how long an experiment would tell.
While an allocation improves, the error falls faster and faster, and the line that is fitted to its
logarithm overshoots: a fitted rate above Γ is then told as such, and the rule is judged by what its
allocation can reach. Where the allocation has not changed, a rate above Γ by more than chance
explains contradicts a theorem, so it is reported as a *fault*: of the regression or of the data.
"""

import math
import textwrap
import warnings
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats
from tqdm import tqdm

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.analysis.report.tables import text_table
from bayes_feasible.analysis.study import decay
from bayes_feasible.analysis.study.decay import RateRegression, local_exponents, window
from bayes_feasible.analysis.study.judge import Approach, Evidence, need_pulls, reach_verdict
from bayes_feasible.analysis.study.lower_bound import LowerBound as LowerBound
from bayes_feasible.analysis.study.lower_bound import check as check
from bayes_feasible.analysis.study.verdicts import OVERSHOOT, OVERSHOT, UNDEFINED, overshot, words
from bayes_feasible.instance import Instance
from bayes_feasible.models.rate_regression import POWER
from bayes_feasible.rate.rate import Rate, quiet_rate

REGION = 0.05  # of practical equivalence: at least 95 % of the optimal rate
PROBABILITY = 0.95  # of intervals, and for a verdict
WIDTH = 100  # letters in a line of text
ENOUGH = 40.0  # ΓT from which on there is something to fit

_FIT = ("rhat", "ess_bulk", "ess_tail", "mcse", "divergences")
_FIGURES = (
    "rate", "rate_lower", "rate_upper", "relative_rate", "relative_lower", "relative_upper",
    "bounded_lower", "bounded_upper", "within", "above", "needs", "local_exponent", "local_lower",
    "local_upper",
)  # fmt: skip


def summarise(
    results: xr.Dataset,
    instance: Instance,
    *,
    regression: bool = True,
    seed: int = 0,
    progress: bool = True,
    region: float = REGION,
    probability: float = PROBABILITY,
) -> xr.Dataset:
    """Reach a verdict on each rule of a simulation.

    Parameters
    ----------
    results : Dataset
        From `bayes_feasible.simulate`.
    instance : Instance
        The one that was simulated.
    regression : bool
        Fit the PyMC model `rate_regression`. Without it, the verdict rests on the slope of the
        log error over the last decade, less what the model's prior says of the polynomial factor;
        it is quick, but takes a bend of the curve for a lower rate.
    seed : int
        Of the fits.
    progress : bool
        Show a bar over the rules.
    region : float
        Region of practical equivalence: a rule attains Γ if its rate is at least
        `(1 - region) * Γ`.
    probability : float
        Of the intervals and the band of replicates, and for a verdict.

    Returns
    -------
    Dataset
        Over `rule`: the `verdict`, its `explanation`, `needs` (pulls after which an undecided rule
        might be decided; infinite where only more replicates help), the decay `rate` with
        `rate_lower` and `rate_upper` (nats per pull), `relative_rate` (in units of Γ) with its
        bounds and with `bounded_lower` and `bounded_upper` (given that nothing beats Γ), `within`
        (probability of the region, given the same), `above` (probability of a rate above Γ),
        `local_exponent` over the last decade in units of Γ with its bounds, `final_efficiency`,
        and the sampler's diagnostics. Over (`rule`, `time`): means and bands of `log_error`,
        `accuracy`, `efficiency`, `distance` (total variation between the allocation and the
        optimal one), `decay` (-log p / t) and `slope` (the local exponent over the decade
        before), the last two in units of Γ. Over (`rule`, `chain`, `draw`): `rate_draws`, in
        units of Γ.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> rules = {"Oracle": bf.Oracle, "Uniform": bf.Uniform}
    >>> results = bf.simulate(instance, rules, horizon=5000, replicates=20, seed=0)
    >>> summary = summarise(results, instance, regression=False, progress=False)
    >>> summary.final_efficiency.sel(rule="Uniform").item() < 0.5
    True
    >>> summary.verdict.sel(rule="Uniform").item()
    'below'
    """
    _check_results(results, instance)
    for name, value in (("region", region), ("probability", probability)):
        if _check.positive(name, value) >= 1:
            raise ValueError(f"{name}: expected a number between 0 and 1, got {value:g}")
    optimum = quiet_rate(instance)  # a rate of 0 gets its own verdict
    usable = 0 < optimum.value < math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # errors of 0 have no finite logarithm
        curves = _curves(results, optimum, probability)
    fitter = RateRegression() if regression and usable else None
    rows, draws = [], {}
    rules = [str(name) for name in results.rule.values]
    for name in tqdm(rules, desc="verdict", unit="rule", disable=not progress, delay=1.0):
        one = results.sel(rule=name)
        evidence, diagnostics, drawn = _evidence(one, optimum.value, fitter, seed, probability)
        rows.append(_judge(one, optimum.value, evidence, region, probability) | diagnostics)
        if drawn is not None:
            draws[name] = drawn
    names = dict.fromkeys(name for row in rows for name in row)
    table = {name: ("rule", [row[name] for row in rows]) for name in names}
    summary = xr.merge([curves, xr.Dataset(table, coords={"rule": rules})])
    if draws:
        missing = np.full_like(next(iter(draws.values())), np.nan)
        stacked = np.array([draws.get(name, missing) for name in rules])
        summary["rate_draws"] = (("rule", "chain", "draw"), stacked)
    return summary.assign_attrs(
        rate=optimum.value, rate_lower=optimum.lower, rate_upper=optimum.upper, region=region,
        probability=probability, replicates=results.sizes["replicate"],
        horizon=int(results.time[-1]), best=instance.problem.name(instance.best),
        method="regression" if fitter is not None else "last decade",
    )  # fmt: skip


def _check_results(results: Any, instance: Any) -> None:
    _check.kind("instance", instance, Instance)
    _check.kind("results", results, xr.Dataset)
    for name in ("log_error", "correct", "allocation", "efficiency"):
        if name not in results:
            raise ValueError(f"results: no variable {name!r}; expected what simulate returns")
    if 0 in results.sizes.values():
        raise ValueError(f"results: nothing is finished, the sizes are {dict(results.sizes)}")
    arms = len(instance.problem.arms)
    if results.sizes["arm"] != arms:
        raise ValueError(f"results: {results.sizes['arm']} arms, but the instance has {arms}")
    if np.isnan(results.log_error.values).any():
        raise ValueError("results: log_error holds NaN")


def _curves(results: xr.Dataset, optimum: Rate, probability: float) -> xr.Dataset:
    """Means and bands over replicates."""
    tail = (1 - probability) / 2
    unit = optimum.value if 0 < optimum.value < math.inf else math.nan
    best = np.asarray(optimum.allocation)
    curves = xr.Dataset()
    distance = abs(results.allocation - best).sum("arm") / 2
    measured = {
        "log_error": results.log_error, "efficiency": results.efficiency, "distance": distance
    }  # fmt: skip
    for name, values in measured.items():
        curves[name] = values.mean("replicate")
        curves[f"{name}_sd"] = values.std("replicate")
        band = values.quantile([tail, 1 - tail], "replicate")
        curves[f"{name}_lower"] = band.isel(quantile=0, drop=True)
        curves[f"{name}_upper"] = band.isel(quantile=1, drop=True)
    for name, values in _share(results.correct).items():
        curves[name] = values
    curves["allocation"] = results.allocation.mean("replicate")
    curves["optimal_allocation"] = ("arm", best)
    curves["decay"] = -curves.log_error / results.time / unit
    slopes = [
        local_exponents(results.time, results.log_error.sel(rule=name)).mean(0) / unit
        for name in results.rule.values
    ]
    curves["slope"] = (("rule", "time"), np.array(slopes))
    return curves


def _share(correct: xr.DataArray) -> dict[str, xr.DataArray]:
    """The share of replicates that are right, and two standard deviations of it either way.

    Wilson's form, which does not shrink to nothing where all replicates agree.
    """
    number, z = correct.sizes["replicate"], 2.0
    share = correct.mean("replicate")
    centre = (share + z**2 / (2 * number)) / (1 + z**2 / number)
    half = np.sqrt(share * (1 - share) / number + z**2 / (4 * number**2)) * z / (1 + z**2 / number)
    low, high = (centre - half).clip(min=0.0), (centre + half).clip(max=1.0)
    return {"accuracy": share, "accuracy_lower": low, "accuracy_upper": high}


def _evidence(
    one: xr.Dataset, unit: float, fitter: RateRegression | None, seed: int, probability: float
) -> tuple[Evidence | None, dict[str, Any], Array | None]:
    """What the error curves of one rule say, the sampler's diagnostics, and its draws."""
    nothing: dict[str, Any] = dict.fromkeys(_FIT, math.nan) | {"trouble": ""}
    if not 0 < unit < math.inf:
        return None, nothing, None
    time, errors = one.time.values, one.log_error.transpose("replicate", "time").values
    late = window(time, unit)
    if late.sum() < 2 or not np.isfinite(errors[:, late]).all():
        return None, nothing, None
    if fitter is None:
        return _from_last_decade(time, errors, unit, probability), nothing, None
    tree = fitter.fit(time[late], errors[:, late], unit, seed)
    drawn = tree.posterior.relative_rate.transpose("chain", "draw").values
    diagnostics = decay.sampling_diagnostics(tree)
    trouble = "; ".join(decay.complaints(diagnostics))
    return Evidence(drawn.ravel(), probability), diagnostics | {"trouble": trouble}, drawn


def _from_last_decade(time: Any, errors: Array, unit: float, probability: float) -> Evidence | None:
    """Quantiles around the mean slope of the replicates, as if they were draws."""
    before = decay.decade_before(time, len(time) - 1)
    if before is None:
        return None
    if len(errors) < 2:
        return Evidence(np.array([-1e9, 1e9]), probability)
    slopes = local_exponents(time, errors)[:, -1] / unit
    per_power = math.log(time[-1] / time[before]) / (time[-1] - time[before]) / unit
    centre = slopes.mean() - POWER[0] * per_power
    error = math.hypot(slopes.std(ddof=1) / math.sqrt(slopes.size), POWER[1] * per_power)
    grid = stats.t.ppf((np.arange(4000) + 0.5) / 4000, slopes.size - 1)
    return Evidence(centre + error * grid, probability)


def _judge(
    one: xr.Dataset, unit: float, evidence: Evidence | None, region: float, probability: float
) -> dict[str, Any]:
    """The verdict on one rule, with its figures."""
    time, errors = one.time.values, one.log_error.transpose("replicate", "time").values
    efficiency = one.efficiency.mean("replicate").values
    row: dict[str, Any] = dict.fromkeys(_FIGURES, math.nan)
    row["final_efficiency"] = float(efficiency[-1])
    if not 0 < unit < math.inf:
        tie = "candidates tie, so Γ is 0 and no rule can do anything about it"
        text = tie if unit == 0 else "no mistake is possible, so there is nothing to learn"
        return row | {"verdict": UNDEFINED, "explanation": text}
    slopes = local_exponents(time, errors)[:, -1] / unit
    if np.isfinite(slopes).all():
        row |= dict(zip(_FIGURES[-3:], decay.mean_interval(slopes, probability), strict=True))
    if evidence is None:
        text = "the error has hardly begun to fall; so many pulls would show its rate"
        return row | need_pulls(max(ENOUGH / unit, 2.0 * time[-1]), text)
    allowed, (low, high) = evidence.at_most_optimal, evidence.interval
    tail = (1 - probability) / 2
    row |= {
        "rate": unit * evidence.mean, "rate_lower": unit * low, "rate_upper": unit * high,
        "relative_rate": evidence.mean, "relative_lower": low, "relative_upper": high,
        "bounded_lower": float(np.quantile(allowed, tail)),
        "bounded_upper": float(np.quantile(allowed, 1 - tail)),
        "within": float(np.mean(allowed >= 1 - region)),
        "above": float(np.mean(evidence.draws > 1)),
    }  # fmt: skip
    approach = Approach.of(time, efficiency, unit, region)
    return row | reach_verdict(evidence, row["within"], approach, region)


def table(summary: xr.Dataset) -> str:
    r"""The verdicts as text: figures first, then a sentence for each rule.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> results = bf.simulate(instance, {"Uniform": bf.Uniform}, horizon=5000, replicates=20)
    >>> summary = summarise(results, instance, regression=False, progress=False)
    >>> print(*table(summary).splitlines()[1:3], sep="\n")
    rule     verdict  rate / Γ  95 % interval     last decade  efficiency  distance to w*  right
    Uniform  below Γ    0.3182  0.2358 to 0.4006       0.3627      0.3760          0.6688  100 %
    """
    attributes = summary.attrs
    sure = f"{100 * attributes['probability']:g} %"
    header = [
        "rule", "verdict", "rate / Γ", f"{sure} interval", "last decade", "efficiency",
        "distance to w*", "right",
    ]  # fmt: skip
    rows = []
    for name in summary.rule.values:
        one = summary.sel(rule=name).isel(time=-1)
        interval = f"{_cell(one.relative_lower)} to {_cell(one.relative_upper)}"
        mark = f" {OVERSHOT}" if overshot(one) else ""
        rows.append([
            str(name), words(str(one.verdict.item())), _cell(one.relative_rate),
            interval + mark if np.isfinite(one.relative_rate) else "-",
            *map(_cell, (one.local_exponent, one.efficiency, one.distance)),
            f"{100 * float(one.accuracy):.0f} %",
        ])  # fmt: skip
    title = (
        f"Verdict after {attributes['horizon']:,} pulls, {attributes['replicates']} replicates: "
        f"does the error fall at the optimal rate Γ = {attributes['rate']:.6g}?"
    )
    return "\n".join([title, text_table(header, rows), "", *_sentences(summary)])


def _sentences(summary: xr.Dataset) -> list[str]:
    found = []
    for name in summary.rule.values:
        one = summary.sel(rule=name)
        verdict = words(str(one.verdict.item()))
        text = f"{name}: {verdict}: {one.explanation.item()}."
        if one.trouble.item():
            text += f" Warning: this fit cannot be trusted: {one.trouble.item()}."
        found.append(_filled(text, "  "))
    attributes = summary.attrs
    meaning = (
        f"(Attains: with probability {attributes['probability']:g} or more its rate is at least "
        f"{100 * (1 - attributes['region']):g} % of Γ, given that nothing beats Γ, and so is the "
        "exponent of its allocation.)"
    )
    found.append(_filled(meaning))
    if any(overshot(summary.sel(rule=name)) for name in summary.rule.values):
        found.append(_filled(f"({OVERSHOT} {OVERSHOOT}.)"))
    return found


def _filled(text: str, indent: str = "") -> str:
    """Lines of text, in which a number and its per cent sign stay together."""
    joined = textwrap.fill(text.replace(" %", "\0%"), WIDTH, subsequent_indent=indent)
    return joined.replace("\0", " ")


def _cell(value: Any) -> str:
    number = float(value)
    return f"{number:.4f}" if math.isfinite(number) else "-"
