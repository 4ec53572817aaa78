"""Which sampler of an alternative set can be trusted, judged against the exact answer.

Each sampler gets its figures, a verdict, and the reason for it.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats
from tqdm import tqdm

from bayes_feasible import _check
from bayes_feasible._draws import parameter_names
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.evidence.evidence import draws_given
from bayes_feasible.analysis.report.tables import text_table
from bayes_feasible.analysis.samplers import own
from bayes_feasible.analysis.samplers import sample as sampling
from bayes_feasible.analysis.samplers import yardstick as measured
from bayes_feasible.analysis.samplers.verdicts import FAILED, REGION, percent, reach_verdict
from bayes_feasible.analysis.samplers.yardstick import Yardstick, coordinates, occupied
from bayes_feasible.files.atomic import write_netcdf
from bayes_feasible.models.parameters import read_variables
from bayes_feasible.posterior import Posterior
from bayes_feasible.simulation import pool

LONGEST = ("smc_events", "nutpie_component", "nuts_component", "nutpie_hard", "nuts_hard")
Samplers = Sequence[str] | Mapping[str, Any] | None
MODEL_DRAWS = 100_000  # weighted, that stand for exact ones under other models
INTERVAL = 0.95  # probability of the intervals in the table
CHAIN_FIGURES = {
    "R-hat": ("rhat", ".3f"), "ESS": ("ess_bulk", ",.0f"), "tail": ("ess_tail", ",.0f"),
    "ESS/s": ("ess_per_second", ",.0f"), "MCSE": ("mcse", ".2g"),
    "diverg.": ("divergences", ".0f"), "BFMI": ("bfmi", ".2f"),
}  # fmt: skip


def scoreboard(
    posterior: Posterior,
    alternative: Alternative,
    samplers: Samplers = None,
    *,
    seed: int = 0,
    model: pm.Model | None = None,
    variables: Mapping[str, str] | None = None,
    **options: Any,
) -> xr.Dataset:
    """Run the samplers and judge each against the exact answer.

    Parameters
    ----------
    posterior : Posterior
    alternative : Alternative
    samplers : sequence of str or dict, optional
        Names out of `samplers.SAMPLERS`; those of `QUICK` by default. Or by name: one of these,
        a sampler of your own (a function of an `own.Target`, see there), or its draws in a
        DataTree or Dataset with `theta_reward` and `theta_cost`.
    seed : int
    model : Model, optional
        Any PyMC model with the parameters, whose posterior is sampled instead of that of the
        pulls; what the samplers are compared with are the weighted draws behind
        `log_error(method="local")` then, and where that is refused so is the board.
    variables : mapping, optional
        Other names of its variables, see `models.in_parameters`.
    **options
        `draws`, `tune` and `chains` (at least two) of `sample_alternative`; `jobs`, how many
        samplers run at the same time, each in a process of its own; and whether to show
        `progress` over the samplers.

    Returns
    -------
    Dataset
        What `judge` returns.

    Examples
    --------
    >>> from bayes_feasible.analysis.samplers.targets import target
    >>> board = scoreboard(*target("a", -4), ["exact"], draws=500, progress=False)
    >>> board.verdict.sel(sampler="exact").item(), board.outside.item()
    ('trusted', 0.0)
    >>> posterior, wrong = target("a", -4)
    >>> careless = posterior.sample(500, seed=0, chains=4)  # not given the alternative set
    >>> scoreboard(posterior, wrong, {"careless": careless}, progress=False).verdict.item()
    'condemned'
    """
    if model is None:
        trees = run(posterior, alternative, samplers, seed=seed, **options)
        return judge(trees, posterior, alternative, seed=seed)
    evidence, parameters, weights = draws_given(
        model, alternative, variables, draws=MODEL_DRAWS, seed=seed
    )
    inner = read_variables(alternative.problem, variables).alternative(alternative)
    measured_set = Yardstick.of_draws(
        inner, evidence.value, evidence.standard_error, parameters, weights, seed
    )
    options |= {"model": model, "variables": variables}
    trees = run(posterior, alternative, samplers, seed=seed, **options)
    return judge(trees, Posterior(inner.problem), inner, seed=seed, yardstick=measured_set)


def run(
    posterior: Posterior,
    alternative: Alternative,
    samplers: Samplers = None,
    *,
    jobs: int = 1,
    progress: bool = True,
    **sizes: Any,
) -> dict[str, xr.DataTree]:
    """Draws of each sampler; one that breaks off leaves a tree without draws and its message.

    So many samplers as `jobs` run at the same time, each in a process of its own. The `sizes` are
    `draws`, `tune`, `chains` (at least two) and `seed` of `sample_alternative`; a bar shows
    `progress` over the samplers.
    """
    given = sampling.QUICK if samplers is None else samplers
    entries = own.check_samplers(given, sampling.check_name)
    names = list(entries)
    _check.count("chains", sizes.get("chains", 4), least=2)
    jobs = min(_check.count("jobs", jobs), len(names))
    order = sorted(names, key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))
    tasks = [partial(_draw, posterior, alternative, name, entries[name], sizes) for name in order]
    found = {}
    bar = tqdm(total=len(names), desc="samplers", unit="sampler", disable=not progress)
    with bar, closing(pool.run(tasks, jobs if jobs > 1 else False)) as results:
        for _, tree in results:
            found[tree.attrs["sampler"]] = tree
            bar.set_postfix_str(f"{tree.attrs['sampler']} is done")
            bar.update()
    return {name: found[name] for name in names}


def _draw(
    posterior: Posterior, alternative: Alternative, name: str, sampler: Any, sizes: dict[str, Any]
) -> xr.DataTree:
    try:
        if isinstance(sampler, str):
            tree = sampling.sample_alternative(
                posterior, alternative, sampler, progress=False, **sizes
            )
        elif callable(sampler):
            task = sampling.prepare(posterior, alternative, progress=False, **sizes)
            tree = own.run_own(sampler, task, name)
        else:
            tree = own.as_tree(sampler, _inner(alternative, sizes))
        tree.attrs["sampler"] = name
        return tree
    except sampling.SamplerError as error:
        tree = xr.DataTree.from_dict({"posterior": xr.Dataset()})
        tree.attrs = {"sampler": name, "error": str(error)}
        return tree


def _inner(alternative: Alternative, sizes: Mapping[str, Any]) -> Alternative:
    """The set in terms of what a model's draws are."""
    if sizes.get("model") is None:
        return alternative
    return read_variables(alternative.problem, sizes["variables"]).alternative(alternative)


def judge(
    trees: Mapping[str, xr.DataTree],
    posterior: Posterior,
    alternative: Alternative,
    *,
    seed: int = 0,
    yardstick: Yardstick | None = None,
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
    yardstick : Yardstick, optional
        Made before, for the same posterior, set and seed.

    Returns
    -------
    Dataset
        Over `sampler`: `verdict`, `reason`; the worst over coordinates of `rhat`, `ess_bulk`,
        `ess_tail`; `divergences`, `bfmi` (NaN where the sampler has none), `neighbours` and
        `neighbours_z` (the largest correlation of neighbouring draws and its standard errors,
        where the sampler says that its draws are `independent`), `outside` (the share of draws
        outside the set), `scatter`, `scatter_z`, `tied_z` (the size of the covariance
        beside the exact one, and its correlations, see `yardstick.scatter`), `seconds`,
        `compile_seconds`, `ess_per_second`; `log_probability`, its `standard_error`,
        `log_probability_error` and
        `log_probability_z` (NaN where the sampler gives none). Over (`sampler`, `coordinate`):
        `coordinate_rhat`, `coordinate_ess`, `mcse`, `mean_z` (difference from the exact mean
        in standard errors), `mean_shift`, `wasserstein` (both in exact standard deviations),
        `kolmogorov`, `kolmogorov_p`, `spread` (variance over the exact one), `spread_z`.
        Over (`sampler`, `event`): `occupancy`, `occupancy_z`,
        `missed` (share of the event's probability that the chains, each by itself, lack) and
        `missed_worst`; over `event`: `exact_occupancy`.

    Examples
    --------
    >>> from bayes_feasible.analysis.samplers.targets import target
    >>> posterior, wrong = target("a", -4)
    >>> careless = posterior.sample(500, seed=0, chains=4)  # not given the alternative set
    >>> trees = {"careless": xr.DataTree.from_dict({"posterior": careless})}
    >>> judge(trees, posterior, wrong).verdict.item()
    'condemned'
    """
    if yardstick is None:
        yardstick = Yardstick.of(posterior, alternative, seed)
    rows = []
    for tree in trees.values():
        if "error" in tree.attrs:
            row = _failed(posterior, yardstick)
            verdict, reason = FAILED, str(tree.attrs["error"])
        else:
            row = score(tree, yardstick)
            verdict, reason = reach_verdict(row, tree["posterior"].sizes["chain"], yardstick)
        rows.append(row.assign(verdict=verdict, reason=reason))
    dataset = xr.concat(rows, xr.DataArray(list(trees), dims="sampler", name="sampler"))
    return dataset.assign_coords(
        coordinate=parameter_names(alternative.problem), event=alternative.events.names
    ).assign(
        exact_occupancy=("event", yardstick.occupancy),
        exact_log_probability=yardstick.log_probability,
        exact_standard_error=yardstick.standard_error,
    )


def score(tree: xr.DataTree, yardstick: Yardstick) -> xr.Dataset:
    """All figures of one sampler."""
    draws = tree["posterior"].to_dataset()
    values = coordinates(draws)
    mixing = measured.convergence(values)
    apart = measured.distances(
        values, yardstick.draws, np.minimum(mixing["ess_bulk"], mixing["ess_tail"])
    )
    wide = measured.scatter(values, yardstick)
    inside = occupied(yardstick.alternative, draws)
    least = float(mixing["ess_bulk"].min())
    held = measured.occupancies(inside, yardstick.occupancy, least, yardstick.occupancy_error)
    reference = yardstick.draws.std(axis=1, ddof=1)
    error = np.hypot(mixing["mcse"], reference / np.sqrt(yardstick.draws.shape[1]))
    told = {
        name: float(tree.attrs.get(name, np.nan))
        for name in ("divergences", "bfmi", "seconds", "compile_seconds", "log_probability")
    }
    return xr.Dataset(
        {
            **told,
            **_compare_log_probability(tree, told["log_probability"], yardstick),
            **measured.neighbours(values, yardstick, bool(tree.attrs.get("independent", 0))),
            "draws": draws.sizes["chain"] * draws.sizes["draw"],
            "rhat": mixing["rhat"].max(),
            "ess_bulk": least,
            "ess_tail": mixing["ess_tail"].min(),
            "outside": 1.0 - inside.any(axis=0).mean(),
            **{name: wide[name] for name in ("scatter", "scatter_z", "tied_z")},
            "ess_per_second": least / told["seconds"] if told["seconds"] > 0 else np.nan,
            "coordinate_rhat": ("coordinate", mixing["rhat"]),
            "coordinate_ess": ("coordinate", mixing["ess_bulk"]),
            "mcse": ("coordinate", mixing["mcse"]),
            "mean_z": ("coordinate", apart["mean_shift"] * reference / error),
            **{name: ("coordinate", wide[name]) for name in ("spread", "spread_z")},
            **{name: ("coordinate", value) for name, value in apart.items()},
            **{name: ("event", value) for name, value in held.items()},
        }
    )


def _compare_log_probability(
    tree: xr.DataTree, value: float, yardstick: Yardstick
) -> dict[str, float]:
    """How wrong the sampler's own log-probability of the set is."""
    own = float(tree.attrs.get("log_probability_standard_error", np.nan))
    rounding = 1e-12 * abs(yardstick.log_probability)
    error = value - yardstick.log_probability
    return {
        "standard_error": own,
        "log_probability_freedom": float(tree.attrs.get("log_probability_freedom", np.inf)),
        "log_probability_error": error,
        "log_probability_z": error / np.sqrt(own**2 + yardstick.standard_error**2 + rounding**2),
    }


def _failed(posterior: Posterior, yardstick: Yardstick) -> xr.Dataset:
    """The row of a sampler that broke off: nothing is known."""
    some = yardstick.alternative.sample(posterior, 10, seed=0, chains=2)
    row = score(xr.DataTree.from_dict({"posterior": some}), yardstick)
    return xr.full_like(row, np.nan, dtype=float).assign(draws=0)


def table(dataset: xr.Dataset) -> str:
    """The scoreboard as text: figures, then the reasons of the verdicts.

    Parameters
    ----------
    dataset : Dataset
        From `scoreboard` or `judge`.

    Examples
    --------
    >>> from bayes_feasible.analysis.samplers.targets import target
    >>> board = scoreboard(*target("a", -4), ["exact"], draws=500, progress=False)
    >>> print(table(board).splitlines()[-1].partition(".")[0])
    exact: trusted
    """
    chains, beside, reasons = [], [], []
    regions = dataset.exact_occupancy >= REGION
    for name in map(str, dataset.sampler.values):
        row = dataset.sel(sampler=name)
        verdict, reason = row.verdict.item(), row.reason.item()
        figures = (_cell(row[figure].max(), form) for figure, form in CHAIN_FIGURES.values())
        chains.append([name, verdict, *figures])
        beside.append([name, *_exact_cells(row, regions)])
        reasons.append(f"{name}: {verdict}. {reason[:1].upper()}{reason[1:].rstrip('.')}.")
    own_notes = (
        "ESS: the worst coordinate's effective draws, and that of the 5 % and 95 % quantiles. "
        "MCSE: the largest Monte Carlo standard error of a coordinate's mean."
    )
    exact_notes = (
        f"Exact log P = {float(dataset.exact_log_probability):.6g}. outside: share of draws "
        "outside the set. missed: the largest share of a region (an event with "
        f"{percent(REGION)} of the probability or more) that the chains, each by itself, lack. "
        "mean off: the worst coordinate's difference from the exact mean, in standard errors. "
        "distance: the worst coordinate's Wasserstein distance from the exact draws, in standard "
        f"deviations. log P: with its {percent(INTERVAL)} interval, how far it is off, and how "
        "many standard errors that is."
    )
    header = ["sampler", "outside", "missed", "mean off", "distance", "log P", "off by", "z"]
    parts = [
        text_table(["sampler", "verdict", *CHAIN_FIGURES], chains), own_notes,
        text_table(header, beside), exact_notes, "\n".join(reasons),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _exact_cells(row: xr.Dataset, regions: xr.DataArray) -> list[str]:
    """What only the exact answer can show."""
    if np.isnan(row.rhat):
        return ["-"] * 7
    value, error = float(row.log_probability), float(row.log_probability_error)
    same = abs(error) <= 1e-12 * abs(float(row.exact_log_probability))
    factor = stats.t.isf((1.0 - INTERVAL) / 2, float(row.log_probability_freedom))
    return [
        percent(float(row.outside)),
        percent(float(row.missed.where(regions, 0.0).max())),
        _cell(abs(row.mean_z).max(), ".1f"),
        _cell(row.wasserstein.max(), ".3f"),
        "-" if np.isnan(value) else f"{value:.3f} ± {factor * float(row.standard_error):.2g}",
        "0" if same else _cell(row.log_probability_error, "+.2g"),
        "0.0" if same else _cell(row.log_probability_z, ".1f"),
    ]


def _cell(value: xr.DataArray, form: str) -> str:
    """A number for reading; a dash for what a sampler does not have."""
    return "-" if np.isnan(value) else format(float(value), form)


def save(
    dataset: xr.Dataset, trees: Mapping[str, xr.DataTree], folder: Path, *, posterior: Posterior,
    alternative: Alternative,
) -> list[Path]:  # fmt: skip
    """Write the scoreboard, the draws of every sampler and the figures.

    `scoreboard.nc`, `draws/<sampler>.nc`, and each figure as PNG and SVG; every file appears
    whole or not at all.
    """
    from bayes_feasible.analysis.report import style
    from bayes_feasible.analysis.samplers import figures

    (folder / "draws").mkdir(parents=True, exist_ok=True)
    paths = [folder / "scoreboard.nc"]
    write_netcdf(paths[0], dataset)
    for name, tree in trees.items():
        paths.append(folder / "draws" / f"{name}.nc")
        write_netcdf(paths[-1], tree)
    for name, figure in figures.all_figures(dataset, trees, posterior, alternative).items():
        paths += style.save(figure, folder / name)
    return paths
