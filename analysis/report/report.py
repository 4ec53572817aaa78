"""A study as one web page: the verdict first, then what it rests on.

The page stands alone: pictures and style are inside it, it needs no script and no network. The
words are in `templates/report.html.j2`. The same study gives the same bytes.
"""

import base64
import json
import math
import os
import tomllib
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayes_feasible.analysis.study.verdicts import (
    ATTAINS,
    BELOW,
    ESS,
    FAULT,
    OVERSHOOT,
    OVERSHOT,
    RHAT,
    UNDECIDED,
    UNDEFINED,
    overshot,
    words,
)
from bayes_feasible.files.atomic import write_bytes

PAGE = "report.html"
TEMPLATES = Path(__file__).with_name("templates")
FEW_REPLICATES = 10
SHOWN_ARMS = 20
TONE = {ATTAINS: "good", BELOW: "bad", UNDECIDED: "open", UNDEFINED: "open", FAULT: "fault"}
SAMPLER_TROUBLE = ("condemned", "failed", "doubtful")
BOARD = "scoreboard_"  # and the number of pulls: the name of a figure

CAPTIONS = {
    "log_error": "Posterior probability that the best candidate is not the best, on two "
    "logarithmic scales: mean log-probability over replicates, and the band that holds most of "
    "them. In the long run no curve can fall faster than the dashed line. Below, how many nats "
    "each rule is behind the best one: rules that overlap above come apart there.",
    "local_exponent": "How fast the error fell over the decade before each time, in units of Γ. "
    "Early values are above 1 because of a polynomial factor that stops mattering.",
    "rate_posterior": "The rate that the regression fits to the error curve of each rule. Bars are "
    "intervals, circles are means, and the shaded strip is the region of practical equivalence. "
    "No rule can be in the hatched part in the long run: a fit that ends up there overshoots, as "
    "it does while an allocation still improves.",
    "efficiency": "The rate that the pulls so far could reach at best, as a share of Γ, whatever "
    "they happened to show: mean and band over replicates.",
    "allocation": "How the pulls were shared out in the end, beside the optimal shares.",
    "accuracy": "Share of replicates that recommend the right candidate, with two standard "
    "deviations of that share either way.",
    "geometry": "Parameters under which the recommendation would be wrong (shaded), and the one "
    "that is hardest to tell apart from the truth (cross), in each parameter's plane. Grey lines "
    "are the limits of the other mistakes.",
}

# What a figure shows, for who cannot see it. {after} is the time, {NAME} a number for each rule.
ALTERNATIVES = {
    "log_error": "Log-probability of error against time. Mean {after}: {log_error:.4g}; the line "
    "of slope Γ is at {limit:.4g}.",
    "local_exponent": "Local exponent in units of Γ against time. {after}: {slope:.3f}.",
    "rate_posterior": "Posterior densities of the rate in units of Γ. Means: {relative_rate:.3f}.",
    "efficiency": "Efficiency of the allocation against time. {after}: {efficiency:.3f}.",
    "accuracy": "Share of right recommendations against time. {after}: {accuracy:.0%}.",
    "allocation": "Shares of the pulls {after} beside the optimal ones (largest: {shares}). Total "
    "distance to them: {distance:.3f}.",
    "geometry": "Planes of the reward and cost parameters with the truth, the limits of each "
    "mistake, and the hardest alternative on the nearest limit.",
}

# What the page takes from `summary.nc`.
VARIABLES = (
    *("rule", "verdict", "explanation", "trouble", "log_error", "accuracy", "efficiency"),
    *("distance", "relative_rate", "relative_lower", "relative_upper", "bounded_lower"),
    *("bounded_upper", "local_exponent", "local_lower", "local_upper", "allocation"),
    "optimal_allocation",
)
ATTRIBUTES = (
    *("rate", "rate_lower", "rate_upper", "region", "probability", "replicates", "horizon"),
    "best",
)

Boards = list[tuple[str, str, xr.Dataset]]  # the name of its figure, where in words, the scores


class Table(NamedTuple):
    """Cells for reading: numbers to the right, `words` to the left, `prose` in lines."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)
    prose: Sequence[int] = ()


def write(folder: str | os.PathLike[str], path: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a study.

    Parameters
    ----------
    folder : path
        A study's folder, with `summary.nc` in it. What else is there is used: `results.nc`,
        `optimum.nc`, `scoreboard*.nc`, `manifest.json`, `specification.toml` and figures.
    path : path, optional
        Where to write it; by default `report.html` in the folder.

    Returns
    -------
    Path
        Of the page.

    Examples
    --------
    >>> import tempfile
    >>> import bayes_feasible as bf
    >>> from bayes_feasible.analysis.study.convergence import summarise
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> results = bf.simulate(instance, {"Uniform": bf.Uniform}, horizon=200, replicates=4)
    >>> summary = summarise(results, instance, regression=False, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary.to_netcdf(Path(folder, "summary.nc"), engine="h5netcdf")
    ...     page = write(folder)
    ...     (page.name, page.read_text(encoding="utf-8")[:15])
    ('report.html', '<!doctype html>')
    """
    folder = Path(folder)
    target = folder / PAGE if path is None else Path(path)
    write_bytes(target, render(folder).encode())
    return target


def render(folder: Path) -> str:
    """Make the page of a study's folder."""
    import jinja2

    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    summary = _read_dataset(folder / "summary.nc")
    if summary is None:
        raise ValueError(f"{folder}: no summary.nc, so this is not a finished study")
    missing = [name for name in VARIABLES if name not in summary]
    missing += [name for name in ATTRIBUTES if name not in summary.attrs]
    if missing:
        raise ValueError(f"{folder / 'summary.nc'}: not the summary of a study; no {missing[0]!r}")
    text = _read_text(folder / "specification.toml")
    manifest = json.loads(_read_text(folder / "manifest.json") or "{}")
    boards = _read_boards(folder)
    names = [str(name) for name in summary.rule.values]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return environment.get_template("report.html.j2").render(
        title=tomllib.loads(text).get("title") or f"Study: {', '.join(names)}",
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
        about=summary.attrs,
        headline=write_headline(summary),
        rules=[_describe_rule(summary.sel(rule=name)) for name in names],
        warnings=_find_warnings(folder, summary, boards, manifest),
        figures=_find_figures(folder / "figures", summary, boards),
        numbers=_tabulate_numbers(summary),
        diagnostics=_tabulate_diagnostics(summary),
        samplers=[_tabulate_samplers(where, board) for _, where, board in boards],
        hardest=_describe_hardest(folder),
        allocation=_tabulate_allocation(summary),
        specification=text,
        versions=_tabulate_versions(folder, manifest),
        checksums=_tabulate_checksums(folder, manifest),
        limits={"rhat": RHAT, "ess": ESS},
        overshot=OVERSHOT,
        overshoot=OVERSHOOT,
    )


def _read_dataset(path: Path) -> xr.Dataset | None:
    if not path.exists():
        return None
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            return opened.load()
    except Exception as error:  # a damaged file is met by any of them, deep in HDF5
        raise ValueError(f"{path}: not a netCDF file, or damaged ({error})") from None


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _read_boards(folder: Path) -> Boards:
    """Read the samplers' scores: one board for each time, where a file has times."""
    boards: Boards = []
    for path in sorted(folder.glob("scoreboard*.nc")):
        board = _read_dataset(path)
        assert board is not None
        if "time" in board.dims:
            boards += [
                (f"{BOARD}{t}", f" after {int(t):,} pulls", board.sel(time=t))
                for t in board.time.values
            ]
        else:
            where = "" if path.stem == "scoreboard" else f" ({path.stem})"
            boards.append((path.stem, where, board))
    return boards


def _describe_rule(one: xr.Dataset) -> dict[str, str]:
    verdict, sentence = str(one.verdict.item()), str(one.explanation.item())
    # No line ends between a number and its per cent sign.
    sentence = (sentence[:1].upper() + sentence[1:]).replace(" %", "\N{NO-BREAK SPACE}%")
    return {
        "name": str(one.rule.item()),
        "verdict": words(verdict),
        "tone": TONE[verdict],
        "sentence": sentence,
    }


def write_headline(summary: xr.Dataset) -> str:
    """Say what a study found in one sentence.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> from bayes_feasible.analysis.study.convergence import summarise
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> results = bf.simulate(instance, {"Uniform": bf.Uniform}, horizon=5000, replicates=20)
    >>> write_headline(summarise(results, instance, regression=False, progress=False))
    'After 5,000 pulls Uniform stays below the optimal rate.'
    """
    phrases = []
    for verdict, one, many in (
        (ATTAINS, "attains the optimal rate", "attain the optimal rate"),
        (BELOW, "stays below the optimal rate", "stay below the optimal rate"),
        (UNDECIDED, "is undecided", "are undecided"),
        (FAULT, "shows a fault", "show a fault"),
        (UNDEFINED, "has no rate to attain", "have no rate to attain"),
    ):
        names = [str(name) for name in summary.rule.values[summary.verdict.values == verdict]]
        if names:
            quoted = [f"“{name}”" if "," in name else name for name in names]
            listed = " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
            phrases.append(f"{listed} {one if len(names) == 1 else many}")
    return f"After {summary.attrs['horizon']:,} pulls {'; '.join(phrases)}."


def _find_warnings(
    folder: Path, summary: xr.Dataset, boards: Boards, manifest: dict[str, Any]
) -> list[str]:
    found = []
    for name in summary.rule.values:
        one = summary.sel(rule=name)
        if one.trouble.item():
            found.append(f"The fit of {name} cannot be trusted: {one.trouble.item()}.")
        if one.verdict.item() == FAULT:
            found.append(f"{name}: {one.explanation.item()}.")
        if overshot(one):
            found.append(
                f"The fitted rate of {name}, {float(one.relative_rate):.3f} Γ, does not mean that "
                f"it beats Γ. Its interval is {OVERSHOOT}."
            )
    if summary.attrs["replicates"] < FEW_REPLICATES:
        found.append(
            f"Only {summary.attrs['replicates']} replicates: the differences between replicates, "
            "and so the intervals, are themselves uncertain."
        )
    if summary.attrs.get("method") != "regression":
        found.append("There is no regression: the rates are slopes over the last decade.")
    for _, where, board in boards:
        verdicts = zip(board.sampler.values, board.verdict.values, strict=True)
        bad = [f"{name} ({verdict})" for name, verdict in verdicts if verdict in SAMPLER_TROUBLE]
        if bad:
            found.append(
                f"Samplers that do not pass{where}: {', '.join(bad)}. Do not use their draws; the "
                "verdict does not rest on them."
            )
    return found + _find_changes(folder, manifest)


def _find_changes(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Name files that are not as the study wrote them; this page is being written."""
    missing, changed = [], []
    for name, record in sorted(manifest.get("outputs", {}).items()):
        path = folder / name
        if name == PAGE or "sha256" not in record:
            continue
        if not path.exists():
            missing.append(name)
        elif sha256(path.read_bytes()).hexdigest() != record["sha256"]:
            changed.append(name)
    found = [f"Missing: {', '.join(missing)}."] if missing else []
    return found + ([f"Changed since the study wrote it: {', '.join(changed)}."] if changed else [])


def _find_figures(folder: Path, summary: xr.Dataset, boards: Boards) -> list[dict[str, str]]:
    """Find the figures in their order, as what the page shows of each."""
    found = [(name, describe_figure(name, summary), caption) for name, caption in CAPTIONS.items()]
    for name, where, board in boards:
        scores = "; ".join(
            f"{row.sampler.item()} {row.verdict.item()}, {_format(row, 'ess_bulk', ',.0f')}"
            for row in _rows(board, "sampler")
        )
        caption = (
            f"How many independent draws of the alternative set{where} each sampler's draws are "
            "worth, and whether the exact answer bears them out."
        )
        found.append(
            (name, f"Each sampler's verdict and effective draws{where}: {scores}.", caption)
        )
    return [
        {
            "alt": alt,
            "caption": caption,
            "source": "data:image/svg+xml;base64,"
            + base64.b64encode((folder / f"{name}.svg").read_bytes()).decode("ascii"),
        }
        for name, alt, caption in found
        if (folder / f"{name}.svg").exists()
    ]


class _Each:
    """A number for each rule, in the format that a text asks for."""

    def __init__(self, values: xr.DataArray) -> None:
        self.values = values

    def __format__(self, form: str) -> str:
        values = zip(self.values.rule.values, self.values.values, strict=True)
        return ", ".join(f"{rule} {float(value):{form}}" for rule, value in values)


def describe_figure(name: str, summary: xr.Dataset) -> str:
    """Say what a figure shows, in words and numbers."""
    last, best = summary.isel(time=-1), summary.optimal_allocation
    top = best.sortby(best, ascending=False)[:3]
    numbers = {str(key): _Each(last[key]) for key in last.data_vars if last[key].dims == ("rule",)}
    return ALTERNATIVES[name].format(
        after=f"after {summary.attrs['horizon']:,} pulls",
        limit=-summary.attrs["rate"] * summary.attrs["horizon"],
        shares=", ".join(f"arm {arm} {float(top.sel(arm=arm)):.1%}" for arm in top.arm.values),
        **numbers,
    )


def _tabulate_numbers(summary: xr.Dataset) -> Table:
    sure = f"{100 * summary.attrs['probability']:g} % interval"
    header = ["rule", "verdict", "rate / Γ", sure, "given ≤ Γ", "last decade", "efficiency",
              "distance to w*", "right", "mean log P"]  # fmt: skip
    rows = [
        [
            str(one.rule.item()), words(str(one.verdict.item())), _number(one.relative_rate),
            _range(one.relative_lower, one.relative_upper) + f" {OVERSHOT}" * overshot(one),
            _range(one.bounded_lower, one.bounded_upper),
            f"{_number(one.local_exponent)} ({_range(one.local_lower, one.local_upper)})",
            _number(one.efficiency), _number(one.distance), f"{float(one.accuracy):.0%}",
            f"{float(one.log_error):,.2f}",
        ]
        for one in _rows(summary.isel(time=-1), "rule")
    ]  # fmt: skip
    caption = f"Each rule after {summary.attrs['horizon']:,} pulls; rates in units of Γ"
    return Table(caption, header, rows, words=(0, 1))


def _tabulate_diagnostics(summary: xr.Dataset) -> Table | None:
    if "rhat" not in summary or not np.isfinite(summary.rhat).any():
        return None
    header = ["rule", "R-hat", "effective draws, bulk", "tail", "divergences",
              "Monte Carlo error", "judgement"]  # fmt: skip
    forms = {"rhat": ".4f", "ess_bulk": ",.0f", "ess_tail": ",.0f", "divergences": ".0f",
             "mcse": ".1e"}  # fmt: skip
    rows = []
    for one in _rows(summary, "rule"):
        judgement = (one.trouble.item() or "sound") if np.isfinite(one.rhat) else "not fitted"
        values = [_format(one, name, form) for name, form in forms.items()]
        rows.append([str(one.rule.item()), *values, str(judgement)])
    return Table("Worst over the parameters of each fit (NUTS)", header, rows, prose=(6,))


def _tabulate_samplers(where: str, board: xr.Dataset) -> Table:
    header = ["sampler", "verdict", "R-hat", "effective draws", "outside the set", "log P error",
              "reason"]  # fmt: skip
    forms = {"rhat": ".3f", "ess_bulk": ",.0f", "outside": ".2%", "log_probability_error": "+.4f"}
    rows = [
        [str(row.sampler.item()), str(row.verdict.item()),
         *(_format(row, name, form) for name, form in forms.items()),
         str(row.reason.item()) if "reason" in row else ""]
        for row in _rows(board, "sampler")
    ]  # fmt: skip
    caption = f"Samplers of the alternative set{where}, against the exact answer"
    return Table(caption, header, rows, words=(0, 1), prose=(6,))


def _describe_hardest(folder: Path) -> str:
    optimum = _read_dataset(folder / "optimum.nc")
    if optimum is None or not str(optimum.hardest.item()):
        return ""
    return f"{optimum.hardest.item()} ({optimum.mistake.item()})"


def _tabulate_allocation(summary: xr.Dataset) -> Table:
    best, final = summary.optimal_allocation, summary.allocation.isel(time=-1)
    order = np.argsort(-np.maximum(best, final.max("rule")).values, kind="stable")[:SHOWN_ARMS]
    shares = [best.values, *final.transpose("rule", "arm").values]
    rows = [[str(summary.arm.values[i]), *(f"{own[i]:.4f}" for own in shares)] for i in order]
    arms = summary.sizes["arm"]
    more = f" (the {order.size} arms with most pulls of {arms})" if arms > order.size else ""
    header = ["arm", "w*", *map(str, summary.rule.values)]
    return Table(f"Shares of the pulls at the end{more}", header, rows)


def _tabulate_versions(folder: Path, manifest: dict[str, Any]) -> Table:
    versions = dict(manifest.get("versions", {}))
    results = _read_dataset(folder / "results.nc")
    if results is not None and "version" in results.attrs:
        versions = {"bayes_feasible": results.attrs["version"]} | versions
    rows = [[name, str(version)] for name, version in versions.items()]
    return Table("Versions", ["what", "version"], rows, words=(0, 1))


def _tabulate_checksums(folder: Path, manifest: dict[str, Any]) -> Table:
    rows = [["the specification", manifest["hash"]]] if "hash" in manifest else []
    rows += [
        [path.name, sha256(path.read_bytes()).hexdigest()] for path in sorted(folder.glob("*.nc"))
    ]
    return Table("Checksums", ["what", "SHA-256"], rows, prose=(1,))


def _rows(data: xr.Dataset, dim: str) -> Iterable[xr.Dataset]:
    return (data.isel({dim: i}) for i in range(data.sizes[dim]))


def _format(row: xr.Dataset, name: str, form: str) -> str:
    value = float(row[name]) if name in row else math.nan
    return format(value, form) if math.isfinite(value) else "-"


def _number(value: Any) -> str:
    return f"{float(value):.4f}" if math.isfinite(float(value)) else "-"


def _range(low: Any, high: Any) -> str:
    both = math.isfinite(float(low)) and math.isfinite(float(high))
    return f"{float(low):.4f} to {float(high):.4f}" if both else "-"
