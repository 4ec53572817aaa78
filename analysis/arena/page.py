"""What is made of an arena's result to read: tables, figures, one web page that stands alone."""

import os
from pathlib import Path

import xarray as xr

from bayes_feasible._display import visible
from bayes_feasible.analysis.arena import figures
from bayes_feasible.analysis.arena.result import RESULTS, Arena
from bayes_feasible.analysis.report.page import Table, fill, picture
from bayes_feasible.analysis.study.store import hash_bytes
from bayes_feasible.files.atomic import write_bytes
from bayes_feasible.files.guard import Folder

PAGE, FIGURES = "arena.html", "figures"
TABLES = {"tables.md": "to_markdown", "tables.tex": "to_latex", "summary.csv": "to_csv"}


def write(folder: str | os.PathLike[str], path: str | os.PathLike[str] | None = None) -> Path:
    """Write tables, figures and the page of an arena's folder.

    Parameters
    ----------
    folder : path
    path : path, optional
        Where to write the page; by default `arena.html` in the folder.

    Returns
    -------
    Path
        Of the page.
    """
    found = Arena.load(folder)
    files = Folder(folder)
    for name, method in TABLES.items():
        files.write(name, getattr(found, method)().encode())
    pictures = files.make_folder(FIGURES)
    board = found.leaderboard()
    figures.draw_arena(found.summary, board, pictures)
    content = visible(render(found, board, files)).encode()
    if path is None:
        files.write(PAGE, content)
        return files.path / PAGE
    write_bytes(Path(path), content)
    return Path(path)


def render(found: Arena, board: xr.Dataset, files: Folder) -> str:
    """Make the page."""
    runs, tables = found.runs, found.tables()
    shown = [_figure(files, figures.OVERVIEW, _describe_overview(board), OVERVIEW_CAPTION)]
    for family in map(str, runs.family.values):
        one = found.summary.sel(family=family).isel(budget=-1)
        order = one.error.dropna("rule").sortby(one.error.dropna("rule"))
        numbers = ", ".join(f"{r} {float(e):.3g}" for r, e in zip(order.rule.values, order.values,
                                                                  strict=True))  # fmt: skip
        text = f"{family}: mean posterior error after {int(one.budget):,} pulls: {numbers}."
        title = runs.title.sel(family=family).item()
        shown.append(_figure(files, figures.name_of(family), text, f"{family}: {title}."))
    provenance = [
        ["bayes_feasible", str(runs.attrs["version"])], ["seed", str(runs.attrs["seed"])],
        [RESULTS, hash_bytes(files.require(RESULTS))],
    ]  # fmt: skip
    return fill(
        "arena.html.j2",
        title="The arena",
        sizes={name: int(size) for name, size in runs.sizes.items()},
        budgets=[int(budget) for budget in runs.budget.values],
        headline=write_headline(board),
        figures=shown,
        board=tables[0],
        families=tables[1:],
        provenance=Table("Versions and checksums", ["what", "value"], provenance, prose=(1,)),
    )


OVERVIEW_CAPTION = (
    "For each rule and family the mean posterior error over that of the best rule there, at the "
    "budget where this ratio is largest: 1 is as good as the best."
)


def write_headline(board: xr.Dataset) -> str:
    """Say what the leaderboard says in a sentence or two."""
    ranked = board.isel(rule=(board["rank"] > 0).values)
    if not ranked.sizes["rule"]:
        return "No rule plays in all families."
    first = ranked.isel(rule=0)
    text = (
        f"{first.rule.item()} is first: in its worst family, {first.worst_family.item()} at "
        f"{int(first.worst_budget):,} pulls, its error is {float(first.worst):.3f} above that of "
        f"the best rule there."
    )
    low, high = int(first.rank_lower), int(first.rank_upper)
    if high > 1:
        text += f" Its rank may be {low} to {high}."
    return text


def _describe_overview(board: xr.Dataset) -> str:
    each = zip(board.rule.values, board.worst_ratio.values, strict=True)
    listed = ", ".join(f"{rule} {float(ratio):.2f}" for rule, ratio in each)
    return f"Largest ratio of each rule's error to that of the best: {listed}."


def _figure(files: Folder, name: str, alternative: str, caption: str) -> dict[str, str]:
    return picture(files.require(f"{FIGURES}/{name}.svg"), alternative, caption)
