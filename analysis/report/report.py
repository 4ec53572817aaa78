"""A study as one web page: the verdict first, then what it rests on.

The page stands alone: pictures and style are inside it, it needs no script and no network. The
words are in `templates`. The same study gives the same bytes.
"""

import math
import os
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayes_feasible._display import visible
from bayes_feasible.analysis.report.page import TEMPLATES, Table, fill, picture
from bayes_feasible.analysis.study import verdicts
from bayes_feasible.analysis.study.folder import FIGURES, MANIFEST, SPECIFICATION, parse_manifest
from bayes_feasible.analysis.study.store import hash_bytes
from bayes_feasible.analysis.study.verdicts import OVERSHOOT, OVERSHOT, VERDICTS, overshot, words
from bayes_feasible.files.atomic import write_bytes
from bayes_feasible.files.guard import MOST_TEXT, Folder, blame
from bayes_feasible.recommendation import format_probability

PAGE, SUMMARY = "report.html", "summary.nc"
NAMED = 3  # rules in the sentence that names the best
FEW_REPLICATES = 10
SHOWN_ARMS = 20
TONE = dict(zip(VERDICTS, ("good", "bad", "open", "fault", "open"), strict=True))
MOST_SCORES = 10_000
SAMPLER_TROUBLE = ("condemned", "failed", "doubtful")
BOARD = "scoreboard_"  # and the number of pulls: the name of a figure


class Board(NamedTuple):
    """What the page shows of the samplers' scores at one time."""

    figure: str  # its name
    alternative: str  # to the figure, in words
    caption: str
    warning: str
    table: Table


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
    files = Folder(folder)
    page = visible(render(files)).encode()
    target = files.path / PAGE if path is None else Path(path)
    if target.absolute().is_relative_to(files.path.absolute()):
        files.write(str(target.absolute().relative_to(files.path.absolute())), page)
    else:
        write_bytes(target, page)
    return target


def render(files: Folder) -> str:
    """Make the page of a study's folder."""
    if not files.path.is_dir():
        raise ValueError(f"{files.path}: no such folder")
    summary = files.read_netcdf(SUMMARY)
    if summary is None:
        raise ValueError(f"{files.path}: no {SUMMARY}, so this is not a finished study")
    text, manifest, optimum = files.read_text(SPECIFICATION), {}, files.read_netcdf("optimum.nc")
    with blame(files.path / SPECIFICATION):
        title = tomllib.loads(text).get("title", "")
        if not isinstance(title, str):
            raise ValueError(f"title: expected a text, got {title!r}")
    if files.exists(MANIFEST):
        with blame(files.path / MANIFEST):
            manifest = parse_manifest(files.read_text(MANIFEST))
    hardest = ""
    if optimum is not None:
        with blame(files.path / "optimum.nc"):
            hardest = str(optimum.hardest.item())
            hardest = hardest and f"{hardest} ({optimum.mistake.item()})"
    boards = _read_boards(files)
    with blame(files.path / SUMMARY):
        verdicts.require_summary(summary)
        rules = list(_rows(summary, "rule"))
        names = ", ".join(str(rule.rule.item()) for rule in rules)
        found = {
            "about": summary.attrs,
            "headline": write_headline(summary),
            "best": _name_best(summary),
            "rules": list(map(_describe_rule, rules)),
            "warnings": _find_warnings(summary, rules, boards) + _find_changes(files, manifest),
            "figures": _find_figures(files, summary, boards),
            "numbers": _tabulate_numbers(summary),
            "diagnostics": _tabulate_diagnostics(summary),
            "allocation": _tabulate_allocation(summary),
        }
    return fill(
        "report.html.j2",
        title=title or f"Study: {names}",
        samplers=[board.table for board in boards],
        hardest=hardest,
        specification=text,
        versions=_tabulate_versions(manifest),
        checksums=_tabulate_checksums(files, manifest),
        limits={"rhat": verdicts.RHAT, "ess": verdicts.ESS},
        overshot=OVERSHOT,
        overshoot=OVERSHOOT,
        **found,
    )


def _read_boards(files: Folder) -> list[Board]:
    """Read the samplers' scores: one board for each time, where a file has times."""
    boards = []
    for name in files.names():
        if not name.startswith("scoreboard") or not name.endswith(".nc"):
            continue
        scores, stem = files.read_netcdf(name), name.removesuffix(".nc")
        assert scores is not None
        with blame(files.path / name):
            if scores.sizes["sampler"] * scores.sizes.get("time", 1) > MOST_SCORES:
                raise ValueError(f"expected at most {MOST_SCORES} scores")
            if "time" in scores.dims:
                for one in _rows(scores, "time"):
                    time = int(one.time)
                    boards.append(_board(f"{BOARD}{time}", f" after {time:,} pulls", one))
            else:
                where = "" if stem == "scoreboard" else f" ({stem})"
                boards.append(_board(stem, where, scores))
    return boards


def _board(figure: str, where: str, scores: xr.Dataset) -> Board:
    rows = list(_rows(scores, "sampler"))
    named = [(str(row.sampler.item()), str(row.verdict.item()), row) for row in rows]
    bad = [f"{name} ({verdict})" for name, verdict, _ in named if verdict in SAMPLER_TROUBLE]
    effective = "; ".join(f"{n} {v}, {_format(row, 'ess_bulk', ',.0f')}" for n, v, row in named)
    return Board(
        figure, f"Each sampler's verdict and effective draws{where}: {effective}.",
        f"How many independent draws of the alternative set{where} each sampler's draws are "
        "worth, and whether the exact answer bears them out.",
        f"Samplers that do not pass{where}: {', '.join(bad)}. Do not use their draws; the "
        "verdict does not rest on them." if bad else "",
        _tabulate_samplers(where, rows),
    )  # fmt: skip


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
    forms = (
        ("attains the optimal rate", "attain the optimal rate"),
        ("stays below the optimal rate", "stay below the optimal rate"),
        ("is undecided", "are undecided"),
        ("shows a fault", "show a fault"),
        ("has no rate to attain", "have no rate to attain"),
    )
    for verdict, (one, many) in zip(VERDICTS, forms, strict=True):
        names = [str(name) for name in summary.rule.values[summary.verdict.values == verdict]]
        if names:
            quoted = [f"“{name}”" if "," in name else name for name in names]
            listed = " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
            phrases.append(f"{listed} {one if len(names) == 1 else many}")
    return f"After {summary.attrs['horizon']:,} pulls {'; '.join(phrases)}."


def _name_best(summary: xr.Dataset) -> str:
    """Name the rules with the smallest probabilities of error at the end, in one sentence."""
    last = summary.log_error.isel(time=-1)
    order = [i for i in np.argsort(last.values, kind="stable") if np.isfinite(last.values[i])]
    said = [
        f"{last.rule.values[i]} with {format_probability(float(last.values[i]))}"
        for i in order[:NAMED]
    ]
    return f"The answer is least likely to be wrong under {', then '.join(said)}." if said else ""


def _find_warnings(
    summary: xr.Dataset, rules: Sequence[xr.Dataset], boards: Sequence[Board]
) -> list[str]:
    found = []
    for one in rules:
        name = one.rule.item()
        if one.trouble.item():
            found.append(f"The fit of {name} cannot be trusted: {one.trouble.item()}.")
        if one.verdict.item() == verdicts.FAULT:
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
    return found + [board.warning for board in boards if board.warning]


def _find_changes(files: Folder, manifest: dict[str, Any]) -> list[str]:
    """Name files that are not as the study wrote them; this page is being written."""
    missing, changed = [], []
    for name, record in sorted(manifest.get("outputs", {}).items()):
        content = None if name == PAGE else files.read(name)
        if content is not None and hash_bytes(content) != record["sha256"]:
            changed.append(name)
        if content is None and name != PAGE:
            missing.append(name)
    found = [f"Missing: {', '.join(missing)}."] if missing else []
    return found + ([f"Changed since the study wrote it: {', '.join(changed)}."] if changed else [])


def _find_figures(
    files: Folder, summary: xr.Dataset, boards: Sequence[Board]
) -> list[dict[str, str]]:
    """Find the figures in their order, as what the page shows of each."""
    found = [
        (name, describe_figure(name, summary), each["caption"]) for name, each in _words().items()
    ]
    found += [(board.figure, board.alternative, board.caption) for board in boards]
    shown = []
    for name, alternative, caption in found:
        content = files.read(f"{FIGURES}/{name}.svg", MOST_TEXT)
        if content is not None:
            shown.append(picture(content, alternative, caption))
    return shown


@cache
def _words() -> dict[str, dict[str, str]]:
    """The words of each figure."""
    return tomllib.loads((TEMPLATES / "figures.toml").read_text(encoding="utf-8"))


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
    return _words()[name]["alternative"].format(
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


def _tabulate_samplers(where: str, scores: Sequence[xr.Dataset]) -> Table:
    header = ["sampler", "verdict", "R-hat", "effective draws", "outside the set", "log P error",
              "reason"]  # fmt: skip
    forms = {"rhat": ".3f", "ess_bulk": ",.0f", "outside": ".2%", "log_probability_error": "+.4f"}
    rows = [
        [str(row.sampler.item()), str(row.verdict.item()),
         *(_format(row, name, form) for name, form in forms.items()),
         str(row.reason.item()) if "reason" in row else ""]
        for row in scores
    ]  # fmt: skip
    caption = f"Samplers of the alternative set{where}, against the exact answer"
    return Table(caption, header, rows, words=(0, 1), prose=(6,))


def _tabulate_allocation(summary: xr.Dataset) -> Table:
    best, final = summary.optimal_allocation, summary.allocation.isel(time=-1)
    order = np.argsort(-np.maximum(best, final.max("rule")).values, kind="stable")[:SHOWN_ARMS]
    shares = [best.values, *final.transpose("rule", "arm").values]
    rows = [[str(summary.arm.values[i]), *(f"{own[i]:.4f}" for own in shares)] for i in order]
    arms = summary.sizes["arm"]
    more = f" (the {order.size} arms with most pulls of {arms})" if arms > order.size else ""
    header = ["arm", "w*", *map(str, summary.rule.values)]
    return Table(f"Shares of the pulls at the end{more}", header, rows)


def _tabulate_versions(manifest: dict[str, Any]) -> Table:
    versions = {"bayes_feasible": manifest["version"], **manifest["versions"]} if manifest else {}
    return Table("Versions", ["what", "version"], list(versions.items()), words=(0, 1))


def _tabulate_checksums(files: Folder, manifest: dict[str, Any]) -> Table:
    rows = [["the specification", manifest["hash"]]] if manifest else []
    for name in files.names():
        content = files.read(name) if name.endswith(".nc") else None
        if content is not None:
            rows.append([name, hash_bytes(content)])
    return Table("Checksums", ["what", "SHA-256"], rows, prose=(1,))


def _rows(data: xr.Dataset, dim: str) -> Iterable[xr.Dataset]:
    return (data.isel({dim: i}) for i in range(data.sizes[dim]))


def _format(row: xr.Dataset, name: str, form: str) -> str:
    value = float(row[name]) if name in row else math.nan
    return format(value, form) if math.isfinite(value) else "-"


def _number(value: Any) -> str:
    return f"{float(value):.3f}" if math.isfinite(float(value)) else "-"


def _range(low: Any, high: Any) -> str:
    both = math.isfinite(float(low)) and math.isfinite(float(high))
    return f"{float(low):.3f} to {float(high):.3f}" if both else "-"
