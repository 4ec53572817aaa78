"""Which sampler of an alternative set can be trusted, judged against the exact answer.

Each sampler gets its figures, a verdict, and the reason for it.
"""

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import stats
from tqdm import tqdm

from bayes_feasible import _check
from bayes_feasible._draws import parameter_names
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.report.tables import text_table
from bayes_feasible.analysis.samplers import sample as sampling
from bayes_feasible.analysis.samplers.yardstick import (
    Yardstick,
    convergence,
    coordinates,
    distances,
    occupancies,
    occupied,
)
from bayes_feasible.files.atomic import replaced, write_netcdf
from bayes_feasible.posterior import Posterior

TRUSTED, DOUBTFUL, CONDEMNED, FAILED = VERDICTS = ("trusted", "doubtful", "condemned", "failed")

# All tests of one sampler together raise a false alarm with this probability: each test gets its
# part of it (Bonferroni). With some 15 tests a mean is allowed about 4 standard errors.
FALSE_ALARM = 1e-3
# Vehtari et al. (2021) ask for R-hat below 1.01 and 100 effective draws a chain. Independent
# draws in four chains of 1000 have an R-hat below 1.005 with near certainty.
RHAT_DOUBTFUL, RHAT_CONDEMNED = 1.01, 1.05
ESS_A_CHAIN = 100
BFMI = 0.3  # below this, energy is explored too slowly (Betancourt 2016)
# One divergence casts doubt; where one draw in a hundred diverges, the sampler cannot follow.
DIVERGENT = 0.01
# The probability of some event is wrong by at least the share of draws outside the set.
OUTSIDE = 0.01
# A region (event) with this share of the probability must be seen by every chain. A chain of 250
# effective draws lacks three quarters of it by chance with probability 2e-3, one of 1000 with
# probability 1e-10.
REGION = 0.05
SHORTFALL = 0.75
# Half a nat is a factor 1.6 on a probability: more is wrong, whatever the standard error says.
# Less is wrong too if the standard error does not cover it, down to what no one would notice.
LOG_P_WRONG, LOG_P_NEGLIGIBLE = 0.5, 0.005
MOST_NAMED = 3  # findings in a reason
LONGEST = ("smc_events", "nutpie_component", "nuts_component", "nutpie_hard", "nuts_hard")
INTERVAL = 0.95  # probability of the intervals in the table


class Finding(NamedTuple):
    """Something wrong with a sampler."""

    verdict: str
    text: str


def scoreboard(
    posterior: Posterior,
    alternative: Alternative,
    samplers: Sequence[str] | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: int = 0,
    jobs: int = 1,
    progress: bool = True,
) -> xr.Dataset:
    """Run the samplers and judge each against the exact answer.

    Parameters
    ----------
    posterior : Posterior
    alternative : Alternative
    samplers : sequence of str, optional
        Names out of `samplers.SAMPLERS`; those of `QUICK` by default.
    draws, tune, chains, seed
        As in `samplers.sample_alternative`; at least two chains.
    jobs : int
        How many samplers run at the same time, each in a process of its own. With more than one,
        a script needs the guard ``if __name__ == "__main__"``.
    progress : bool
        Show a bar over the samplers.

    Returns
    -------
    Dataset
        What `judge` gives.

    Examples
    --------
    >>> from bayes_feasible import instances
    >>> instance = instances.end_of_optimism()
    >>> posterior = Posterior(instance.problem)
    >>> posterior.update([0, 2] * 50, *instance.pull([0, 2] * 50, seed=1))
    >>> wrong = Alternative(instance.problem, posterior.best())
    >>> board = scoreboard(posterior, wrong, ["exact"], draws=500, progress=False)
    >>> board.verdict.sel(sampler="exact").item(), board.outside.item()
    ('trusted', 0.0)
    """
    trees = run(
        posterior, alternative, samplers, draws=draws, tune=tune, chains=chains, seed=seed,
        jobs=jobs, progress=progress,
    )  # fmt: skip
    return judge(trees, posterior, alternative, seed=seed)


def run(
    posterior: Posterior,
    alternative: Alternative,
    samplers: Sequence[str] | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: int = 0,
    jobs: int = 1,
    progress: bool = True,
) -> dict[str, xr.DataTree]:
    """Draws of each sampler; one that breaks off leaves a tree without draws and its message.

    The parameters are those of `scoreboard`.
    """
    names = list(sampling.QUICK if samplers is None else samplers)
    for name in names:
        sampling.check_name(name)
    _check.count("chains", chains, least=2)
    jobs = min(_check.count("jobs", jobs), len(names))
    sizes = {"draws": draws, "tune": tune, "chains": chains, "seed": seed}
    bar = tqdm(total=len(names), desc="samplers", unit="sampler", disable=not progress)
    with bar:
        if jobs > 1:
            found = _run_beside(posterior, alternative, names, sizes, jobs, bar)
        else:
            found = {}
            for name in names:
                bar.set_postfix_str(name)
                found[name] = _run_one(posterior, alternative, name, sizes)
                bar.update()
    return {name: found[name] for name in names}


def _run_one(
    posterior: Posterior, alternative: Alternative, name: str, sizes: dict[str, int]
) -> xr.DataTree:
    try:
        return sampling.sample_alternative(posterior, alternative, name, progress=False, **sizes)
    except sampling.SamplerError as error:
        tree = xr.DataTree.from_dict({"posterior": xr.Dataset()})
        tree.attrs = {"sampler": name, "error": str(error)}
        return tree


def _run_beside(
    posterior: Posterior,
    alternative: Alternative,
    names: list[str],
    sizes: dict[str, int],
    jobs: int,
    bar: tqdm,
) -> dict[str, xr.DataTree]:
    """In processes of their own, the longest first."""
    order = sorted(names, key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))
    found = {}
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        tasks = {pool.submit(_run_one, posterior, alternative, name, sizes): name for name in order}
        for task in as_completed(tasks):
            found[tasks[task]] = task.result()
            bar.set_postfix_str(f"{tasks[task]} is done")
            bar.update()
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return found


def judge(
    trees: Mapping[str, xr.DataTree],
    posterior: Posterior,
    alternative: Alternative,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Figures and a verdict for each sampler's draws.

    Parameters
    ----------
    trees : mapping of names to DataTree
        With a group `posterior`, and what `samplers.sample_alternative` writes in `sample_stats`
        and in the attributes where the sampler has it.
    posterior, alternative
        What the draws should follow.
    seed : int
        Of the exact draws they are compared with.

    Returns
    -------
    Dataset
        Over `sampler`: `verdict`, `reason`; the worst over coordinates of `rhat`, `ess_bulk`,
        `ess_tail`; `divergences`, `bfmi` (NaN where the sampler has none), `outside` (the share
        of draws outside the set), `seconds`, `compile_seconds`, `ess_per_second`;
        `log_probability`, its `standard_error`, `log_probability_error` and
        `log_probability_z` (NaN where the sampler gives none). Over (`sampler`, `coordinate`):
        `coordinate_rhat`, `coordinate_ess`, `mcse`, `mean_z` (difference from the exact mean
        in standard errors), `mean_shift`, `wasserstein` (both in exact standard deviations),
        `kolmogorov`, `kolmogorov_p`. Over (`sampler`, `event`): `occupancy`, `occupancy_z`,
        `missed` (share of the event's probability that the chains, each by itself, lack) and
        `missed_worst`; over `event`: `exact_occupancy`.

    Examples
    --------
    >>> from bayes_feasible import instances
    >>> instance = instances.end_of_optimism()
    >>> posterior = Posterior(instance.problem)
    >>> posterior.update([0, 2] * 50, *instance.pull([0, 2] * 50, seed=1))
    >>> wrong = Alternative(instance.problem, posterior.best())
    >>> careless = posterior.sample(500, seed=0, chains=4)  # not given the alternative set
    >>> board = judge(
    ...     {"careless": xr.DataTree.from_dict({"posterior": careless})}, posterior, wrong
    ... )
    >>> board.verdict.item()
    'condemned'
    """
    yardstick = Yardstick.of(posterior, alternative, seed)
    names = parameter_names(alternative.problem)
    rows = []
    for tree in trees.values():
        row = _failed(names, yardstick) if "error" in tree.attrs else _score(tree, yardstick)
        verdict, reason = _verdict(row, tree, yardstick)
        rows.append(row.assign(verdict=verdict, reason=reason))
    dataset = xr.concat(rows, xr.DataArray(list(trees), dims="sampler", name="sampler"))
    return dataset.assign_coords(coordinate=names, event=alternative.events.names).assign(
        exact_occupancy=("event", yardstick.occupancy),
        exact_log_probability=yardstick.log_probability,
        exact_standard_error=yardstick.standard_error,
    )


def _score(tree: xr.DataTree, yardstick: Yardstick) -> xr.Dataset:
    """All figures of one sampler."""
    draws = tree["posterior"].to_dataset()
    values = coordinates(draws)
    mixing = convergence(values)
    apart = distances(values, yardstick.draws, np.minimum(mixing["ess_bulk"], mixing["ess_tail"]))
    inside = occupied(yardstick.alternative, draws)
    held = occupancies(
        inside, yardstick.occupancy, float(mixing["ess_bulk"].min()), yardstick.occupancy_error
    )
    reference = yardstick.draws.std(axis=1, ddof=1)
    error = np.hypot(mixing["mcse"], reference / np.sqrt(yardstick.draws.shape[1]))
    seconds = float(tree.attrs.get("seconds", np.nan))
    least = float(mixing["ess_bulk"].min())
    return xr.Dataset(
        {
            "draws": draws.sizes["chain"] * draws.sizes["draw"],
            "rhat": mixing["rhat"].max(),
            "ess_bulk": least,
            "ess_tail": mixing["ess_tail"].min(),
            "divergences": float(tree.attrs.get("divergences", np.nan)),
            "bfmi": float(tree.attrs.get("bfmi", np.nan)),
            "outside": 1.0 - inside.any(axis=0).mean(),
            "seconds": seconds,
            "compile_seconds": float(tree.attrs.get("compile_seconds", np.nan)),
            "ess_per_second": least / seconds if seconds > 0 else np.nan,
            **_log_probability(tree, yardstick),
            "coordinate_rhat": ("coordinate", mixing["rhat"]),
            "coordinate_ess": ("coordinate", mixing["ess_bulk"]),
            "mcse": ("coordinate", mixing["mcse"]),
            "mean_z": ("coordinate", apart["mean_shift"] * reference / error),
            **{name: ("coordinate", value) for name, value in apart.items()},
            **{name: ("event", value) for name, value in held.items()},
        }
    )


def _failed(names: Sequence[str], yardstick: Yardstick) -> xr.Dataset:
    """The row of a sampler that broke off: nothing is known."""
    single = [
        "rhat", "ess_bulk", "ess_tail", "bfmi", "outside", "seconds", "compile_seconds",
        "ess_per_second", "log_probability", "standard_error", "log_probability_error",
        "log_probability_z", "log_probability_freedom",
    ]  # fmt: skip
    each = {
        "coordinate": (
            len(names),
            ["coordinate_rhat", "coordinate_ess", "mcse", "mean_z", "mean_shift", "wasserstein",
             "kolmogorov", "kolmogorov_p"],
        ),
        "event": (
            yardstick.occupancy.size,
            ["occupancy", "occupancy_z", "missed", "missed_worst"],
        ),
    }  # fmt: skip
    row: dict[str, Any] = {"draws": 0, "divergences": np.nan}
    row |= dict.fromkeys(single, np.nan)
    for dim, (size, figures) in each.items():
        row |= {figure: (dim, np.full(size, np.nan)) for figure in figures}
    return xr.Dataset(row)


def _log_probability(tree: xr.DataTree, yardstick: Yardstick) -> dict[str, float]:
    """The sampler's own log-probability of the set, and how wrong it is."""
    value = float(tree.attrs.get("log_probability", np.nan))
    own = float(tree.attrs.get("log_probability_standard_error", np.nan))
    rounding = 1e-12 * abs(yardstick.log_probability)
    error = value - yardstick.log_probability
    spread = np.sqrt(own**2 + yardstick.standard_error**2 + rounding**2)
    return {
        "log_probability": value,
        "standard_error": own,
        "log_probability_freedom": float(tree.attrs.get("log_probability_freedom", np.inf)),
        "log_probability_error": error,
        "log_probability_z": error / spread,
    }


def _verdict(row: xr.Dataset, tree: xr.DataTree, yardstick: Yardstick) -> tuple[str, str]:
    """The worst that was found decides; the reason names it first."""
    if "error" in tree.attrs:
        return FAILED, str(tree.attrs["error"])
    found = [finding for finding in _findings(row, tree, yardstick) if finding is not None]
    if not found:
        return TRUSTED, _praise(row)
    found.sort(key=lambda finding: -VERDICTS.index(finding.verdict))  # stable: most telling first
    texts = [finding.text for finding in found]
    more = f"; and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return found[0].verdict, "; ".join(texts[:MOST_NAMED]) + more


def _praise(row: xr.Dataset) -> str:
    return (
        f"R-hat {float(row.rhat):.3f}, no draw outside, every region seen by every chain, "
        f"means within {float(abs(row.mean_z).max()):.1f} standard errors of the exact ones"
    )


def _findings(row: xr.Dataset, tree: xr.DataTree, yardstick: Yardstick) -> list[Finding | None]:
    """Everything that is wrong, most telling first."""
    chains = tree["posterior"].sizes["chain"]
    tests = 2 * row.sizes["coordinate"] + row.sizes["event"] + 1
    level = FALSE_ALARM / tests
    return [
        _outside(row),
        _wrong_log_probability(row, level),
        _divergent(row),
        _missed_region(row, yardstick),
        _unmixed(row),
        _biased(row, level),
        _other_distribution(row, level),
        _wrong_occupancy(row, yardstick, level),
        _short(row, chains),
        _slow_energy(row),
    ]


def _outside(row: xr.Dataset) -> Finding | None:
    share = float(row.outside)
    if share == 0:
        return None
    return Finding(
        CONDEMNED if share > OUTSIDE else DOUBTFUL,
        f"{_percent(share)} of the draws lie outside the alternative set",
    )


def _wrong_log_probability(row: xr.Dataset, level: float) -> Finding | None:
    """A standard error from a few runs is itself uncertain, hence Student's t."""
    error, z = float(row.log_probability_error), float(row.log_probability_z)
    if np.isnan(error):
        return None
    bound = float(stats.t.isf(level / 2, float(row.log_probability_freedom)))
    if abs(error) <= LOG_P_WRONG and (abs(z) <= bound or abs(error) <= LOG_P_NEGLIGIBLE):
        return None
    return Finding(
        CONDEMNED,
        f"log P is wrong by {error:+.3g} ({z:+.1f} standard errors)",
    )


def _divergent(row: xr.Dataset) -> Finding | None:
    count = float(row.divergences)
    if not count > 0:
        return None
    share = count / int(row.draws)
    return Finding(
        CONDEMNED if share > DIVERGENT else DOUBTFUL,
        f"{int(count)} divergences ({_percent(share)} of the draws)",
    )


def _missed_region(row: xr.Dataset, yardstick: Yardstick) -> Finding | None:
    lack = np.where(yardstick.occupancy >= REGION, row.missed_worst.values, 0.0)
    missed = np.flatnonzero(lack > SHORTFALL)
    if missed.size == 0:
        return None
    worst = int(missed[np.argmax(row.missed.values[missed])])
    regions = int(np.sum(yardstick.occupancy >= REGION))
    return Finding(
        CONDEMNED,
        f"a region missed: some chain (almost) never enters {missed.size} of {regions} regions, "
        f"such as {yardstick.alternative.events.names[worst]!r}, which holds "
        f"{_percent(yardstick.occupancy[worst])} of the probability",
    )


def _unmixed(row: xr.Dataset) -> Finding | None:
    rhat = float(row.rhat)
    if rhat <= RHAT_DOUBTFUL:
        return None
    return Finding(
        CONDEMNED if rhat > RHAT_CONDEMNED else DOUBTFUL, f"R-hat {rhat:.3g}: chains disagree"
    )


def _biased(row: xr.Dataset, level: float) -> Finding | None:
    z = row.mean_z.values
    worst = int(np.argmax(np.abs(z)))
    if abs(z[worst]) <= stats.norm.isf(level / 2):
        return None
    return Finding(
        CONDEMNED,
        f"the mean of coordinate {worst} is off by {z[worst]:+.1f} standard errors "
        f"({float(row.mean_shift[worst]):+.2g} standard deviations)",
    )


def _other_distribution(row: xr.Dataset, level: float) -> Finding | None:
    worst = int(np.argmin(row.kolmogorov_p.values))
    if float(row.kolmogorov_p[worst]) >= level:
        return None
    return Finding(
        CONDEMNED,
        f"the distribution of coordinate {worst} is another "
        f"(Kolmogorov distance {float(row.kolmogorov[worst]):.2g})",
    )


def _wrong_occupancy(row: xr.Dataset, yardstick: Yardstick, level: float) -> Finding | None:
    """Rare events are left out: their counts are too small for a normal bound."""
    z = np.where(yardstick.occupancy >= REGION, row.occupancy_z.values, 0.0)
    worst = int(np.argmax(np.abs(z)))
    if abs(z[worst]) <= stats.norm.isf(level / 2):
        return None
    return Finding(
        CONDEMNED,
        f"{_percent(float(row.occupancy[worst]))} of the draws lie in "
        f"{yardstick.alternative.events.names[worst]!r}, "
        f"{_percent(yardstick.occupancy[worst])} is right",
    )


def _short(row: xr.Dataset, chains: int) -> Finding | None:
    least = min(float(row.ess_bulk), float(row.ess_tail))
    if least >= ESS_A_CHAIN * chains:
        return None
    return Finding(DOUBTFUL, f"only {least:.0f} effective draws, {ESS_A_CHAIN * chains} are needed")


def _slow_energy(row: xr.Dataset) -> Finding | None:
    if not float(row.bfmi) < BFMI:
        return None
    return Finding(DOUBTFUL, f"BFMI {float(row.bfmi):.2g}: energy is explored slowly")


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def table(dataset: xr.Dataset) -> str:
    """The scoreboard as text: figures, then the reasons of the verdicts.

    Parameters
    ----------
    dataset : Dataset
        From `scoreboard` or `judge`.

    Examples
    --------
    >>> from bayes_feasible import instances
    >>> posterior = Posterior(instances.end_of_optimism().problem)
    >>> wrong = Alternative(posterior.problem, 0)
    >>> board = scoreboard(posterior, wrong, ["exact"], draws=500, progress=False)
    >>> print(table(board).splitlines()[-1].partition(".")[0])
    exact: trusted
    """
    chains = ["sampler", "verdict", "R-hat", "ESS", "tail", "ESS/s", "MCSE", "diverg.", "BFMI"]
    beside = ["sampler", "outside", "missed", "mean off", "distance", "log P", "off by", "z"]
    chain_rows, beside_rows, reasons = [], [], []
    regions = dataset.exact_occupancy >= REGION
    for name in dataset.sampler.values:
        row = dataset.sel(sampler=name)
        chain_rows.append([str(name), row.verdict.item(), *_chain_cells(row)])
        beside_rows.append([str(name), *_exact_cells(row, regions)])
        reasons.append(f"{name}: {row.verdict.item()}. {_sentence(row.reason.item())}")
    own_notes = (
        "ESS: the worst coordinate's effective draws, and that of the 5 % and 95 % quantiles. "
        "MCSE: the largest Monte Carlo standard error of a coordinate's mean."
    )
    exact_notes = (
        f"Exact log P = {float(dataset.exact_log_probability):.6g}. outside: share of draws "
        "outside the set. missed: the largest share of a region (an event with "
        f"{_percent(REGION)} of the probability or more) that the chains, each by itself, lack. "
        "mean off: the worst coordinate's difference from the exact mean, in standard errors. "
        "distance: the worst coordinate's Wasserstein distance from the exact draws, in standard "
        f"deviations. log P: with its {_percent(INTERVAL)} interval, how far it is off, and how "
        "many standard errors that is."
    )
    parts = [
        text_table(chains, chain_rows), own_notes, text_table(beside, beside_rows), exact_notes,
        "\n".join(reasons),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _chain_cells(row: xr.Dataset) -> list[str]:
    """What any sampler can be asked; a dash for what this one does not have."""
    return [
        _cell(row.rhat, ".3f"),
        _cell(row.ess_bulk, ",.0f"),
        _cell(row.ess_tail, ",.0f"),
        _cell(row.ess_per_second, ",.0f"),
        _cell(row.mcse.max(), ".2g"),
        _cell(row.divergences, ".0f"),
        _cell(row.bfmi, ".2f"),
    ]


def _exact_cells(row: xr.Dataset, regions: xr.DataArray) -> list[str]:
    """What only the exact answer can show."""
    if np.isnan(row.rhat):
        return ["-"] * 7
    value, error = float(row.log_probability), float(row.log_probability_error)
    same = abs(error) <= 1e-12 * abs(float(row.exact_log_probability))
    return [
        _percent(float(row.outside)),
        _percent(float(row.missed.where(regions, 0.0).max())),
        _cell(abs(row.mean_z).max(), ".1f"),
        _cell(row.wasserstein.max(), ".3f"),
        "-" if np.isnan(value) else f"{value:.3f} ± {_half_width(row):.2g}",
        "0" if same else _cell(row.log_probability_error, "+.2g"),
        "0.0" if same else _cell(row.log_probability_z, ".1f"),
    ]


def _half_width(row: xr.Dataset) -> float:
    """Half the interval of the sampler's log-probability."""
    factor = stats.t.isf((1.0 - INTERVAL) / 2, float(row.log_probability_freedom))
    return float(factor * row.standard_error)


def _cell(value: xr.DataArray, form: str) -> str:
    number = float(value)
    return "-" if np.isnan(number) else format(number, form)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def save(
    dataset: xr.Dataset, trees: Mapping[str, xr.DataTree], folder: Path, *, posterior: Posterior,
    alternative: Alternative,
) -> list[Path]:  # fmt: skip
    """Write the scoreboard, the draws of every sampler and the figures.

    `scoreboard.nc`, `draws/<sampler>.nc`, and each figure as PNG and SVG; every file appears
    whole or not at all.
    """
    from bayes_feasible.analysis.report import style
    from bayes_feasible.analysis.samplers import figures as scoreboard_figures

    (folder / "draws").mkdir(parents=True, exist_ok=True)
    paths = [folder / "scoreboard.nc"]
    write_netcdf(paths[0], dataset)
    for name, tree in trees.items():
        paths.append(folder / "draws" / f"{name}.nc")
        write_netcdf(paths[-1], tree)
    drawn = scoreboard_figures.all_figures(dataset, trees, posterior, alternative)
    for name, figure in drawn.items():
        for kind in ("png", "svg"):
            paths.append(folder / f"{name}.{kind}")
            with replaced(paths[-1]) as temporary:
                style.write(figure, temporary)
    return paths
