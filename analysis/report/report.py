"""A study as one web page: the verdict first, then what it rests on.

The page stands alone: pictures are inside it, it needs no script and no network. The same study
gives the same bytes.
"""

import json
import math
import os
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible.analysis.report import page as html
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
from bayes_feasible.files.atomic import replaced

PAGE = "report.html"
FEW_REPLICATES = 10
TONE = {ATTAINS: "good", BELOW: "bad", UNDECIDED: "open", UNDEFINED: "open", FAULT: "fault"}
SAMPLER_TROUBLE = ("condemned", "failed", "doubtful")

CAPTIONS = {
    "log_error": "Posterior probability that the best candidate is not the best, on two "
    "logarithmic scales: mean log-probability over replicates, and the band that holds most of "
    "them. In the long run no curve can fall faster than the dashed line.",
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
BOARD = "scoreboard_"  # and the number of pulls: the name of a figure
MEANING = [
    ("Γ, the optimal rate", "The fastest rate, in nats per pull, at which the posterior "
     "probability of error can fall in the long run, whatever the rule. It is computed with a "
     "proof from both sides."),
    ("Rate", "The slope ρ of the regression −log p = ρ t − c √t + a log t − b + error, fitted to "
     "the last three decades of time, where the error wanders like a random walk within each "
     "replicate. Dividing by Γ makes 1 the best there can be."),
    ("Interval", "Holds the rate with the stated probability, as far as the error curves alone "
     "can tell. It may reach above 1; the verdict then uses that nothing beats Γ (given ≤ Γ). "
     f"{OVERSHOT} {OVERSHOOT[:1].upper()}{OVERSHOOT[1:]}."),
    ("Last decade", "The mean slope of −log p between a tenth of the horizon and the horizon, in "
     "units of Γ. It needs no model, and takes what the polynomial factor adds for decay."),
    ("Efficiency", "The smallest exponent of the allocation over Γ, under the true parameters: "
     "what the pulls can reach at best."),
    ("Distance to w*", "Share of the pulls that would have to go to other arms to match the "
     "optimal allocation. There may be other optimal allocations where it is not small."),
]  # fmt: skip
DIAGNOSTICS = [
    ("R-hat", f"Compares the chains with each other; above {RHAT} they disagree, and the fit is "
     "not to be trusted."),
    ("Effective draws", f"How many independent draws the chains are worth, in the middle and in "
     f"the tails of the posterior; {ESS} or more are wanted for an interval."),
    ("Divergences", "Steps at which the sampler could not follow the posterior; any casts doubt "
     "on the fit."),
    ("Monte Carlo error", "Standard error of the mean rate (in units of Γ) that comes from "
     "sampling; it should be small beside the interval."),
]  # fmt: skip

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
    content = render(folder)
    with replaced(target) as temporary:
        temporary.write_text(content, encoding="utf-8")
    return target


def render(folder: Path) -> str:
    """The page of a study's folder."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    summary = _dataset(folder / "summary.nc")
    if summary is None:
        raise ValueError(f"{folder}: no summary.nc, so this is not a finished study")
    missing = [name for name in VARIABLES if name not in summary]
    missing += [name for name in ATTRIBUTES if name not in summary.attrs]
    if missing:
        raise ValueError(f"{folder / 'summary.nc'}: not the summary of a study; no {missing[0]!r}")
    specification = _specification(folder)
    manifest = _manifest(folder)
    boards = {path.stem: _dataset(path) for path in sorted(folder.glob("scoreboard*.nc"))}
    scores = {name: board for name, board in boards.items() if board is not None}
    title = specification.get("title") or f"Study: {', '.join(map(str, summary.rule.values))}"
    body = [
        "<header>",
        f"<h1>{html.escape(title)}</h1>",
        _question(summary),
        "</header>\n<main>",
        _verdict(summary),
        _warnings(folder, summary, scores, manifest),
        html.section("Figures", _figures(folder, summary, scores), name="figures"),
        html.section("The numbers", _numbers(summary), html.definitions(MEANING), name="numbers"),
        _diagnostics(summary),
        _samplers(scores),
        _instance(folder, summary),
        _provenance(folder, manifest),
        "</main>",
    ]
    return html.page(title, [part for part in body if part])


def _dataset(path: Path) -> xr.Dataset | None:
    if not path.exists():
        return None
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            return opened.load()
    except Exception as error:  # a damaged file is met by any of them, deep in HDF5
        raise ValueError(f"{path}: not a netCDF file, or damaged ({error})") from None


def _specification(folder: Path) -> dict[str, Any]:
    path = folder / "specification.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _question(summary: xr.Dataset) -> str:
    about = summary.attrs
    return (
        '<p class="lead"><strong>The question.</strong> '
        "After noisy pulls a rule recommends the candidate that looks best among those that meet "
        "their constraints. Does the probability that this is wrong fall as fast as is possible "
        f"at all, at the rate Γ = {about['rate']:.6g} per pull? "
        f"{summary.sizes['rule']} rules, {about['replicates']} replicates each, "
        f"{about['horizon']:,} pulls; the right answer is candidate "
        f"{html.escape(about['best'])}.</p>"
    )


def _verdict(summary: xr.Dataset) -> str:
    cards = []
    for name in summary.rule.values:
        one = summary.sel(rule=name)
        verdict = str(one.verdict.item())
        sentence = str(one.explanation.item())
        cards.append(
            f'<li class="{TONE[verdict]}"><b>{html.escape(str(name))}</b>'
            f'<span class="badge">{html.escape(words(verdict))}</span>'
            f"<p>{html.escape(_unbroken(sentence[:1].upper() + sentence[1:]))}.</p></li>"
        )
    about = summary.attrs
    rule = (
        f"Attains Γ: with probability {about['probability']:g} or more the rate is at least "
        f"{100 * (1 - about['region']):g} % of Γ, given the theorem that nothing beats Γ, and so "
        "is what the allocation can reach. Below Γ: the interval ends under that, and the "
        "allocation is not on its way to the optimal one. Undecided: neither holds yet; about T "
        "pulls would tell."
    )
    return html.section(
        "Verdict",
        html.paragraph(headline(summary), "lead"),
        '<ul class="verdicts">\n' + "\n".join(cards) + "\n</ul>",
        html.paragraph(rule, "soft"),
        name="verdict",
    )


def _unbroken(text: str) -> str:
    """A text in which no line ends between a number and its per cent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def headline(summary: xr.Dataset) -> str:
    """The study in one sentence.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> from bayes_feasible.analysis.study.convergence import summarise
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> results = bf.simulate(instance, {"Uniform": bf.Uniform}, horizon=5000, replicates=20)
    >>> headline(summarise(results, instance, regression=False, progress=False))
    'After 5,000 pulls Uniform stays below the optimal rate.'
    """
    verdicts = [str(verdict) for verdict in summary.verdict.values]
    phrases = []
    for verdict, one, many in (
        (ATTAINS, "attains the optimal rate", "attain the optimal rate"),
        (BELOW, "stays below the optimal rate", "stay below the optimal rate"),
        (UNDECIDED, "is undecided", "are undecided"),
        (FAULT, "shows a fault", "show a fault"),
        (UNDEFINED, "has no rate to attain", "have no rate to attain"),
    ):
        number = verdicts.count(verdict)
        if number:
            names = [str(n) for n, v in zip(summary.rule.values, verdicts, strict=True)
                     if v == verdict]  # fmt: skip
            phrases.append(f"{_listed(names)} {one if number == 1 else many}")
    return f"After {summary.attrs['horizon']:,} pulls {'; '.join(phrases)}."


def _listed(names: list[str]) -> str:
    quoted = [f"“{name}”" if "," in name else name for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _warnings(
    folder: Path, summary: xr.Dataset, scores: dict[str, xr.Dataset], manifest: dict[str, Any]
) -> str:
    found = []
    for name in summary.rule.values:
        one = summary.sel(rule=name)
        if one.trouble.item():
            found.append(f"The fit of {name} is not to be trusted: {one.trouble.item()}.")
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
    for label, board in scores.items():
        found += _sampler_warnings(label, board)
    found += _changed(folder, manifest)
    if not found:
        return ""
    return '<div class="warning" role="note"><h3>Not to be trusted as it is</h3>' + html.listing(
        found
    ) + "</div>"  # fmt: skip


def _sampler_warnings(label: str, board: xr.Dataset) -> list[str]:
    found = []
    for where, one in _boards(label, board):
        bad = [
            f"{name} ({verdict})"
            for name, verdict in zip(one.sampler.values, one.verdict.values, strict=True)
            if str(verdict) in SAMPLER_TROUBLE
        ]
        if bad:
            found.append(
                f"Samplers that do not pass{where}: {', '.join(map(str, bad))}. Their draws are "
                "not to be used; the verdict does not rest on them."
            )
    return found


def _boards(label: str, board: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """The scoreboards in one file: one for each time, if it has times."""
    if "time" in board.dims:
        return [(f" after {int(t):,} pulls", board.sel(time=t)) for t in board.time.values]
    return [("" if label == "scoreboard" else f" ({label})", board)]


def _changed(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Files that are not as the study wrote them; this page is being written."""
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
    if changed:
        found.append(f"Not as the study wrote it: {', '.join(changed)}.")
    return found


def _figures(folder: Path, summary: xr.Dataset, scores: dict[str, xr.Dataset]) -> str:
    ours = folder / "figures"
    pictures = {path.stem: path for path in sorted(ours.glob("*.svg"))} if ours.is_dir() else {}
    parts = [
        html.figure(pictures.pop(name), alternative_text(name, summary), caption)
        for name, caption in CAPTIONS.items()
        if name in pictures
    ]
    for label, board in scores.items():
        for where, one in _boards(label, board):
            name = f"{BOARD}{one.time.item()}" if "time" in one.coords else label
            if name in pictures:
                parts.append(_board_figure(pictures[name], where, one))
    return '<div class="figures">\n' + "\n".join(parts) + "\n</div>" if parts else ""


def _board_figure(path: Path, where: str, board: xr.Dataset) -> str:
    """The picture of a scoreboard, with what it shows in words and numbers."""
    rows = [board.sel(sampler=name) for name in board.sampler.values]
    scores = [
        f"{row.sampler.item()} {row.verdict.item()}, {_figure(row, 'ess_bulk', ',.0f')}"
        for row in rows
    ]
    alt = f"Each sampler's verdict and effective draws{where}: {'; '.join(scores)}."
    caption = (
        f"How many independent draws of the alternative set{where} each sampler's draws are "
        "worth, and whether the exact answer bears them out."
    )
    return html.figure(path, alt, caption)


def alternative_text(name: str, summary: xr.Dataset) -> str:
    """What a figure shows, in words and numbers."""
    last = summary.isel(time=-1)
    after = f"after {summary.attrs['horizon']:,} pulls"

    def each(variable: str, form: str) -> str:
        values = zip(summary.rule.values, last[variable].values, strict=True)
        return ", ".join(f"{rule} {form.format(float(value))}" for rule, value in values)

    if name == "log_error":
        return (
            f"Log-probability of error against time. Mean {after}: {each('log_error', '{:.4g}')}; "
            f"the line of slope Γ is at {-summary.attrs['rate'] * summary.attrs['horizon']:.4g}."
        )
    if name == "local_exponent":
        return f"Local exponent in units of Γ against time. {after}: {each('slope', '{:.3f}')}."
    if name == "rate_posterior":
        return f"Posterior densities of the rate in units of Γ. Means: {each('relative_rate', '{:.3f}')}."  # noqa: E501
    if name == "efficiency":
        return (
            f"Efficiency of the allocation against time. {after}: {each('efficiency', '{:.3f}')}."
        )
    if name == "accuracy":
        return (
            f"Share of right recommendations against time. {after}: {each('accuracy', '{:.0%}')}."
        )
    if name == "allocation":
        best = summary.optimal_allocation
        top = best.sortby(best, ascending=False)[:3]
        shares = ", ".join(f"arm {arm} {float(top.sel(arm=arm)):.1%}" for arm in top.arm.values)
        return (
            f"Shares of the pulls {after} beside the optimal ones (largest: {shares}). "
            f"Total distance to them: {each('distance', '{:.3f}')}."
        )
    if name == "geometry":
        return (
            "Planes of the reward and cost parameters with the truth, the limits of each mistake, "
            "and the hardest alternative on the nearest limit."
        )
    return name.replace("_", " ")


def _numbers(summary: xr.Dataset) -> str:
    sure = f"{100 * summary.attrs['probability']:g} % interval"
    header = ["rule", "verdict", "rate / Γ", sure, "given ≤ Γ", "last decade", "efficiency",
              "distance to w*", "right", "mean log P"]  # fmt: skip
    rows = []
    for name in summary.rule.values:
        one = summary.sel(rule=name).isel(time=-1)
        rows.append(
            [
                str(name), words(str(one.verdict.item())), _number(one.relative_rate),
                _range(one.relative_lower, one.relative_upper) + f" {OVERSHOT}" * overshot(one),
                _range(one.bounded_lower, one.bounded_upper),
                f"{_number(one.local_exponent)} "
                f"({_range(one.local_lower, one.local_upper)})",
                _number(one.efficiency), _number(one.distance),
                f"{100 * float(one.accuracy):.0f} %", f"{float(one.log_error):,.2f}",
            ]
        )  # fmt: skip
    caption = f"Each rule after {summary.attrs['horizon']:,} pulls; rates in units of Γ"
    return html.table(header, rows, caption, words=(0, 1))


def _diagnostics(summary: xr.Dataset) -> str:
    if "rhat" not in summary or not np.isfinite(summary.rhat).any():
        return ""
    header = ["rule", "R-hat", "effective draws, bulk", "tail", "divergences",
              "Monte Carlo error", "judgement"]  # fmt: skip
    rows = []
    for name in summary.rule.values:
        one = summary.sel(rule=name)
        if not np.isfinite(one.rhat):
            rows.append([str(name), *["-"] * 5, "not fitted"])
            continue
        rows.append(
            [
                str(name), f"{float(one.rhat):.4f}", f"{float(one.ess_bulk):,.0f}",
                f"{float(one.ess_tail):,.0f}", f"{float(one.divergences):.0f}",
                f"{float(one.mcse):.1e}", str(one.trouble.item()) or "sound",
            ]
        )  # fmt: skip
    return html.section(
        "Can the fits be trusted?",
        html.table(header, rows, "Worst over the parameters of each fit (NUTS)", prose=(6,)),
        html.definitions(DIAGNOSTICS),
        name="diagnostics",
    )


def _samplers(scores: dict[str, xr.Dataset]) -> str:
    parts = []
    header = ["sampler", "verdict", "R-hat", "effective draws", "outside the set", "log P error",
              "reason"]  # fmt: skip
    for label, board in scores.items():
        for where, one in _boards(label, board):
            rows = []
            for name in one.sampler.values:
                row = one.sel(sampler=name)
                rows.append(
                    [
                        str(name), str(row.verdict.item()), _figure(row, "rhat", ".3f"),
                        _figure(row, "ess_bulk", ",.0f"), _figure(row, "outside", ".2%"),
                        _figure(row, "log_probability_error", "+.4f"),
                        str(row.reason.item()) if "reason" in row else "",
                    ]
                )  # fmt: skip
            caption = f"Samplers of the alternative set{where}, against the exact answer"
            parts.append(html.table(header, rows, caption, words=(0, 1), prose=(6,)))
    if not parts:
        return ""
    text = (
        "The exact sampler knows the answer, so every other sampler can be judged: by the usual "
        "diagnostics, and by what only the exact answer shows, such as draws outside the set or "
        "a wrong probability in spite of a good R-hat."
    )
    return html.section(
        "Samplers against the exact answer", html.paragraph(text), *parts, name="samplers"
    )


def _instance(folder: Path, summary: xr.Dataset) -> str:
    about = summary.attrs
    text = (
        f"Γ = {about['rate']:.10g} nats per pull, proved to lie between {about['rate_lower']:.12g} "
        f"and {about['rate_upper']:.12g}."
    )
    optimum = _dataset(folder / "optimum.nc")
    if optimum is not None and str(optimum.hardest.item()):
        text += f" Hardest to rule out: {optimum.hardest.item()} ({optimum.mistake.item()})."
    best, final = summary.optimal_allocation, summary.allocation.isel(time=-1)
    order = np.argsort(-np.maximum(best, final.max("rule")).values, kind="stable")[:20]
    header = ["arm", "w*", *map(str, summary.rule.values)]
    rows = [
        [str(summary.arm.values[i]), f"{float(best[i]):.4f}",
         *(f"{float(final.sel(rule=name)[i]):.4f}" for name in summary.rule.values)]
        for i in order
    ]  # fmt: skip
    hidden = summary.sizes["arm"] - order.size
    more = f" (the {order.size} arms with most pulls of {summary.sizes['arm']})" if hidden else ""
    return html.section(
        "The optimum",
        html.paragraph(text),
        html.table(header, rows, f"Shares of the pulls at the end{more}"),
        name="optimum",
    )


def _provenance(folder: Path, manifest: dict[str, Any]) -> str:
    parts = []
    specification = folder / "specification.toml"
    if specification.exists():
        text = specification.read_text(encoding="utf-8")
        parts.append(f"<h3>Specification</h3>\n<pre>{html.escape(text)}</pre>")
    results = _dataset(folder / "results.nc")
    versions = dict(manifest.get("versions", {}))
    if results is not None and "version" in results.attrs:
        versions = {"bayes_feasible": str(results.attrs["version"])} | versions
    if versions:
        rows = [[name, str(version)] for name, version in versions.items()]
        parts.append(html.table(["what", "version"], rows, "Versions", words=(0, 1)))
    hashes = _hashes(folder, manifest)
    if hashes:
        parts.append(html.table(["what", "SHA-256"], hashes, "Checksums", prose=(1,)))
    command = f"bayes-feasible study {specification.name} --out DIR"
    if specification.exists():
        parts.append(html.paragraph(f"To run it again: {command}", "soft"))
    return html.section("Where this comes from", *parts, name="provenance")


def _hashes(folder: Path, manifest: dict[str, Any]) -> list[list[str]]:
    rows = [["the specification", manifest["hash"]]] if "hash" in manifest else []
    for path in sorted(folder.glob("*.nc")):
        rows.append([path.name, sha256(path.read_bytes()).hexdigest()])
    return rows


def _figure(row: xr.Dataset, name: str, form: str) -> str:
    value = float(row[name]) if name in row else math.nan
    return format(value, form) if math.isfinite(value) else "-"


def _number(value: Any) -> str:
    return f"{float(value):.4f}" if math.isfinite(float(value)) else "-"


def _range(low: Any, high: Any) -> str:
    both = math.isfinite(float(low)) and math.isfinite(float(high))
    return f"{float(low):.4f} to {float(high):.4f}" if both else "-"
