"""The arena's figures: one a family, and one overview."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from bayes_feasible.analysis.report import style as looks
from bayes_feasible.analysis.report.style import finish, make_axes, plain_name, shorten, styles
from bayes_feasible.analysis.study.parts import slug

LINES = 8  # rules with a line of their own; the others are grey
FURTHEST = 10.0  # ratio of errors from which on the overview has one colour
OVERVIEW = "overview"


def name_of(family: str) -> str:
    """Name the file of a family's figure.

    >>> name_of("ball-2-5")
    'family_ball_2_5'
    """
    return f"family_{slug(family).replace('-', '_')}"


def family_figure(summary: xr.Dataset, family: str, axes: Axes | None = None) -> Axes:
    """Draw the mean posterior error over the budget; bands of two standard errors."""
    axes = make_axes(axes)
    one = summary.sel(family=family)
    played = one.error.notnull().any("budget").values
    last = one.error.isel(budget=-1).fillna(np.inf).values
    order = [i for i in np.argsort(last, kind="stable") if played[i]]
    names = [str(name) for name in summary.rule.values]
    shown = [i for i in order if names[i] in ("Descent", "Uniform")]
    shown += [i for i in order if i not in shown][: LINES - len(shown)]
    colours, others = styles(names), "others"
    for i in sorted(order, key=lambda i: i in shown):
        rule = one.isel(rule=i)
        if i not in shown:
            axes.plot(rule.budget, rule.error, color="#BBBBBB", linewidth=0.8, label=others)
            others = "_"
            continue
        style = colours[names[i]]
        axes.plot(rule.budget, rule.error, label=shorten(names[i]), markersize=4, **style)
        low, high = rule.error - 2 * rule.error_se, rule.error + 2 * rule.error_se
        axes.fill_between(
            rule.budget, np.maximum(low, 0.5 * rule.error), high, color=style["color"], alpha=0.15,
            linewidth=0,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="pulls", ylabel="mean posterior error",
             title=plain_name(family))  # fmt: skip
    budgets = summary.budget.values
    axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    return finish(axes)


def overview(summary: xr.Dataset, board: xr.Dataset) -> Figure:
    """Draw each rule's largest ratio to the best error in each family, the best rule first."""
    ratio = summary.ratio.max("budget").transpose("rule", "family").sel(rule=board.rule)
    rules, families = ratio.shape
    with mpl.rc_context(looks.STYLE):
        figure = Figure(figsize=(2.6 + 0.42 * families, 1.9 + 0.3 * rules), layout="constrained")
        axes = figure.subplots()
        picture = axes.imshow(
            np.clip(ratio, 1.0, FURTHEST), norm=LogNorm(1.0, FURTHEST), cmap="cividis_r",
            aspect="auto",
        )  # fmt: skip
        for i, j in np.ndindex(rules, families):
            value = float(ratio[i, j])
            text = "-" if np.isnan(value) else f"{value:.2f}" if value < 9.995 else ">10"
            dark = value > 3.5
            axes.text(j, i, text, ha="center", va="center", fontsize=6.5,
                      color="white" if dark else "black")  # fmt: skip
        axes.set_xticks(range(families), [shorten(str(f)) for f in ratio.family.values],
                        rotation=60, ha="right", fontsize=8)  # fmt: skip
        axes.set_yticks(range(rules), [shorten(str(r)) for r in ratio.rule.values], fontsize=8)
        axes.set_title("Error over the best rule's, at the worst budget", fontsize=11)
        figure.colorbar(picture, ax=axes, ticks=[1, 2, 5, 10], format="%g", shrink=0.8)
    return figure


def draw_arena(summary: xr.Dataset, board: xr.Dataset, folder: Path) -> list[Path]:
    """Draw all figures into a folder, each as PNG and SVG."""
    paths = looks.save(overview(summary, board), folder / OVERVIEW)
    for family in summary.family.values:
        paths += looks.save(family_figure(summary, str(family)), folder / name_of(str(family)))
    return paths
