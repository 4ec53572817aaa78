"""The figures of the paper's experiments."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper.compare import CRITERIA, RULES, difference, units
from bayes_feasible.analysis.report.style import COLOURS, STYLE

BAND = 2.0  # standard deviations of the average, as in the paper
LINES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
LOOKS = [(colour, line) for line in LINES for colour in COLOURS]
LOOK = dict(zip(RULES, LOOKS, strict=False))  # a rule looks the same in every figure


def accuracy(data: xr.Dataset, title: str, *, pulled: bool = False) -> Figure:
    """Draw accuracy over time under both recommendations, with bands of two standard deviations.

    `pulled` adds the share of the pulls that are the best candidate.
    """
    panels = [
        ("drawn", "(a) Recommended by one posterior draw"),
        ("correct", "(b) Recommended by the posterior means"),
    ]
    if pulled:
        panels.append(("best_share", "(c) Share of the pulls that are the best film"))
    title = f"{title} (bands: ±2 standard deviations of the average)"
    size = (4.6 * len(panels), 4.9)
    return _over_time(data, dict(panels), "share of runs that are right", title, size)


def efficiency(data: xr.Dataset, title: str) -> Figure:
    """Draw the efficiency of the pulls over time: smallest exponent over the optimal rate."""
    return _over_time(data, {"efficiency": ""}, "efficiency", title, (6.4, 5))


def _over_time(
    data: xr.Dataset, panels: Mapping[str, str], ylabel: str, title: str, size: tuple[float, float]
) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (measure, name) in zip(row, panels.items(), strict=True):
            _curves(axes, units(data[measure]))
            axes.set(title=name, xlabel="t, number of pulls", ylim=(-0.02, 1.02))
            axes.grid(alpha=0.25)
        row[0].set_ylabel(ylabel)
        _finish(figure, row[0], title)
        return figure


def differences(
    data: Mapping[str, xr.Dataset], heroes: Sequence[str], rivals: Sequence[str], title: str
) -> Figure:
    """Accuracy of each hero minus that of each rival: one panel a criterion and hero."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 6), layout="constrained")
        grid = figure.subplots(len(heroes), len(CRITERIA), sharex=True, sharey=True)
        for row, hero in zip(grid, heroes, strict=True):
            for axes, criterion in zip(row, CRITERIA, strict=True):
                _forest(axes, data, hero, rivals, criterion)
                axes.set_title(f"{hero}: {criterion.name}", fontsize=10)
        for axes in grid[-1]:
            axes.set_xlabel("difference of accuracy")
        grid[0][0].invert_yaxis()  # shared: the first setting is on top everywhere
        _finish(figure, grid[0][0], f"{title} (bars: ±2 standard errors)")
        return figure


def _forest(
    axes: Axes, data: Mapping[str, xr.Dataset], hero: str, rivals: Sequence[str], criterion: Any
) -> None:
    for i, (rival, colour) in enumerate(zip(rivals, COLOURS, strict=False)):
        found = [difference(one, hero, rival, criterion) for one in data.values()]
        places = np.arange(len(data)) + 0.22 * (i - (len(rivals) - 1) / 2)
        axes.errorbar(
            [d.value for d in found], places, xerr=[BAND * d.error for d in found],
            fmt="os^Dv"[i % 5], color=colour, markersize=4, linewidth=1.2, label=f"minus {rival}",
        )  # fmt: skip
    axes.axvline(0, color="0.4", linewidth=0.8)
    axes.set_yticks(np.arange(len(data)), list(data))
    axes.grid(alpha=0.25, axis="x")


def ablation(data: Mapping[str, xr.Dataset], title: str) -> Figure:
    """Accuracy and efficiency at the end for each variant, one row of panels a study."""
    measures = {"drawn": "accuracy, one draw", "correct": "accuracy, means",
                "efficiency": "efficiency"}  # fmt: skip
    heights = [len(one.rule) for one in data.values()]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 0.3 * sum(heights) + 1.1 * len(heights)), layout="constrained")
        grid = figure.subplots(len(data), 3, sharey="row", squeeze=False,
                               gridspec_kw={"height_ratios": heights})  # fmt: skip
        for row, (name, one) in zip(grid, data.items(), strict=True):
            for axes, (measure, label) in zip(row, measures.items(), strict=True):
                values = units(one[measure]).isel(time=-1)
                error = values.std("unit", ddof=1) / np.sqrt(values.sizes["unit"])
                places = np.arange(len(one.rule))
                axes.errorbar(values.mean("unit"), places, xerr=BAND * error, fmt="o",
                              color=COLOURS[0], markersize=4)  # fmt: skip
                axes.set_yticks(places, list(one.rule.values))
                axes.set(title=f"{name}: {label}", xlim=(-0.02, 1.02))
                axes.grid(alpha=0.25)
                axes.title.set_fontsize(9)
            row[0].set_ylim(len(one.rule) - 0.5, -0.5)
        figure.suptitle(f"{title} (bars: ±2 standard errors)", fontsize=11)
        return figure


def _curves(axes: Axes, values: xr.DataArray) -> None:
    spare = iter(LOOKS[len(LOOK) :])
    for rule in map(str, values.rule.values):
        colour, line = LOOK[rule] if rule in LOOK else next(spare)
        one = values.sel(rule=rule)
        mean = one.mean("unit")
        band = BAND * one.std("unit", ddof=1) / np.sqrt(one.sizes["unit"])
        axes.plot(one.time, mean, color=colour, linestyle=line, linewidth=1.6, label=rule)
        axes.fill_between(one.time, mean - band, mean + band, color=colour, alpha=0.18, lw=0)


def _finish(figure: Figure, axes: Axes, title: str) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
