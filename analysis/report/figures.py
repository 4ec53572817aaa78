"""The figures of a study, drawn without a display.

Each comes from one function that returns its axes (`axes.figure` is what to save); given axes, it
draws on them. A rule has the same colour in all of them.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from bayes_feasible.analysis.report import style as looks
from bayes_feasible.analysis.report.geometry import geometry
from bayes_feasible.analysis.report.style import LIMIT, finish, make_axes, plain_name, styles
from bayes_feasible.instance import Instance

SAMPLERS = {
    "trusted": "#009E73", "doubtful": "#E69F00", "condemned": "#D55E00", "failed": "#7F7F7F",
}  # fmt: skip


def accuracy(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Share of replicates whose recommendation is right, over time, with ±2 s.d. bands.

    Parameters
    ----------
    summary : Dataset
        From `bayes_feasible.analysis.study.convergence.summarise`; so too for the functions below.
    axes : Axes, optional
        A new figure's by default.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> from bayes_feasible.analysis.study.convergence import summarise
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> results = bf.simulate(instance, {"Uniform": bf.Uniform}, horizon=200, replicates=4)
    >>> summary = summarise(results, instance, regression=False, progress=False)
    >>> accuracy(summary).get_xlabel()
    't, number of pulls'
    """
    axes = make_axes(axes)
    _curves(axes, summary, "accuracy")
    _label(axes, "How often the right candidate is recommended",
           "share of replicates that are right", ylim=(-0.02, 1.02))  # fmt: skip
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    return finish(axes)


def log_error(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Posterior probability of error over time, the band of replicates, and the slope Γ.

    On a figure of its own, a second panel shows how far each rule is behind the best one: there
    rules that overlap in the first come apart.
    """
    alone = axes is None and summary.sizes["rule"] > 1
    if alone:
        with mpl.rc_context(looks.STYLE):
            figure = Figure(figsize=(looks.SIZE[0], 6.3), layout="constrained")
            axes, below = figure.subplots(2, sharex=True, height_ratios=(3, 2))
        _behind(below, summary)
    axes = make_axes(axes)
    _curves(axes, -summary[["log_error", "log_error_lower", "log_error_upper"]], "log_error")
    rate, time = summary.attrs["rate"], summary.time.values
    if 0 < rate < math.inf:
        axes.plot(time, rate * time, color="#B00020", label=r"$e^{-\Gamma t}$", **LIMIT)
    _label(axes, "Probability of error, and the fastest it can fall",
           "P, posterior probability of error", yscale="log")  # fmt: skip
    if alone:
        axes.set_xlabel("")
    lowest = float((-summary.log_error).where(summary.log_error < 0).min())
    if 0 < lowest < math.inf:
        axes.set_ylim(bottom=max(0.05, 0.5 * lowest))
    axes.invert_yaxis()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=30))
    axes.yaxis.set_major_formatter(FuncFormatter(_probability))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="y", labelsize=8)
    return finish(axes)


def _behind(axes: Axes, summary: xr.Dataset) -> None:
    """How many nats each rule's mean log error is behind that of the best rule at the time."""
    behind = summary.log_error - summary.log_error.min("rule")
    _curves(axes, behind.to_dataset(name="behind"), "behind")
    _label(axes, "", "nats of log P")
    axes.set_title("Behind the best rule (0: the best)", loc="left", fontsize=11)
    axes.set_yscale("symlog", linthresh=1.0, linscale=0.5, subs=range(2, 10))
    most = float(behind.where(np.isfinite(behind)).max())
    steps = [0.0, *(m * 10.0**k for k in range(9) for m in (1, 2, 5))]
    axes.set_yticks([step for step in steps if step <= 1.5 * max(most, 1.0)])
    axes.set_ylim(max(1.5 * most, 1.0), -0.25)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(alpha=0.25)


def local_exponent(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """The slope of the log error over the decade before each time, in units of Γ."""
    axes = make_axes(axes)
    _curves(axes, summary, "slope")
    _optimum(axes, summary)
    _label(axes, "Decay of the error over the decade before", "local exponent / Γ")
    top = float(summary.slope.max())
    axes.set_ylim(min(0.0, float(summary.slope.min())), min(max(1.15, 1.05 * top), 2.0))
    return finish(axes)


def efficiency(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """The exponent that the allocation can reach at best, in units of Γ, over time."""
    axes = make_axes(axes)
    _curves(axes, summary, "efficiency")
    _optimum(axes, summary)
    _label(axes, "What the pulls so far can reach at best", "efficiency: smallest exponent / Γ",
           ylim=(-0.02, 1.06))  # fmt: skip
    return finish(axes)


def allocation(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Mean shares of the pulls at the last checkpoint beside the optimal ones."""
    axes = make_axes(axes)
    final, best = summary.allocation.isel(time=-1), summary.optimal_allocation
    weight = np.maximum(best, final.max("rule"))
    order = np.sort(np.argsort(-weight.values, kind="stable")[: looks.SHOWN_ARMS])
    place = np.arange(order.size)
    rules = styles(summary.rule.values)
    axes.bar(
        place, best.values[order], width=0.86, color="#DDDDDD", edgecolor="#888888",
        label="w*, the optimal share", zorder=1,
    )  # fmt: skip
    offsets = np.linspace(-0.32, 0.32, len(rules)) if len(rules) > 1 else [0.0]
    for (name, style), offset in zip(rules.items(), offsets, strict=True):
        axes.plot(
            place + offset, final.sel(rule=name).values[order],
            linestyle="none", label=plain_name(name), color=style["color"], marker=style["marker"],
            markersize=5, zorder=3,
        )  # fmt: skip
    names = [looks.shorten(str(name)) for name in summary.arm.values[order]]
    long = max(map(len, names)) > 5 and order.size > 4
    axes.set_xticks(place, names, rotation=30 if long else 0, ha="right" if long else "center")
    hidden = summary.sizes["arm"] - order.size
    top = float(max(weight.max(), 0.01))
    axes.set(
        title=f"Allocation after {int(summary.time[-1]):,} pulls",
        xlabel="arm" + (f" (the {order.size} with most pulls of {summary.sizes['arm']})" if hidden
                        else ""),
        ylabel="share of the pulls",
        ylim=(-0.025 * top, 1.05 * top),
    )  # fmt: skip
    return finish(axes)


def rate_posterior(summary: xr.Dataset) -> Axes:
    """Posterior of each rule's decay rate beside Γ and the region of practical equivalence."""
    known = summary.rate_draws.dropna("rule", how="all")
    rules = styles(known.rule.values)
    probability, region = summary.attrs["probability"], summary.attrs["region"]
    with mpl.rc_context(looks.STYLE):
        figure = Figure(figsize=(looks.SIZE[0], 1.8 + 0.42 * len(rules)), layout="constrained")
        axes = figure.subplots()
        low, high = known.quantile([0.001, 0.999], ("chain", "draw")).values
        left, right = min(float(low.min()), 0.95), max(float(high.max()), 1.0)
        margin = 0.04 * (right - left)
        left, right = left - margin, right + margin
        axes.axvspan(
            1 - region, 1.0, color="#009E73", alpha=0.18, linewidth=0, zorder=0,
            label=f"within {100 * region:g} % of Γ",
        )  # fmt: skip
        axes.axvspan(
            1.0, right, facecolor="white", edgecolor="0.75", hatch="////", linewidth=0, zorder=0,
            label="beyond any rule",
        )  # fmt: skip
        axes.axvline(1.0, color="#B00020", **LIMIT)
        for row, (name, style) in enumerate(rules.items()):
            draws = known.sel(rule=name)
            grid, density = az.kde(draws, dim=("chain", "draw")).sel(plot_axis=["x", "y"]).values
            shape = 0.62 * density / density.max()
            axes.fill_between(grid, -row, shape - row, color=style["color"], alpha=0.35, lw=0)
            axes.plot(grid, shape - row, color=style["color"], linewidth=1.2)
            low, high = az.eti(draws, prob=probability).values
            axes.plot([low, high], [-row, -row], color=style["color"], linewidth=3.2)
            axes.plot(float(draws.mean()), -row, "o", color="white",
                      markeredgecolor=style["color"], markersize=5.5)  # fmt: skip
        axes.set_yticks([-row for row in range(len(rules))], list(map(plain_name, rules)))
        axes.set(
            title="Fitted decay rate",
            xlabel=f"rate / Γ ({100 * probability:g} % intervals)",
            xlim=(left, right),
            ylim=(-len(rules) + 0.6, 0.8),
        )
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", alpha=0.25)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return axes


def scoreboard(board: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Effective draws of each sampler of an alternative set, and whether it can be trusted.

    Parameters
    ----------
    board : Dataset
        From `bayes_feasible.analysis.samplers.scoreboard.scoreboard`.
    axes : Axes, optional
        A new figure's by default.
    """
    names = list(map(str, board.sampler.values))
    axes = make_axes(axes, height=1.7 + 0.36 * len(names))
    least = np.fmin(board.ess_bulk.values, board.ess_tail.values)
    shown = np.where(least >= 1, least, 1.0)  # a bar of no length where there are no draws
    for verdict, colour in SAMPLERS.items():
        rows = np.flatnonzero(board.verdict.values == verdict)
        if rows.size:
            axes.barh(rows, shown[rows], color=colour, label=verdict, height=0.62)
    for row, (length, effective, rhat) in enumerate(zip(shown, least, board.rhat, strict=True)):
        text = f"{effective:,.0f} (R-hat {float(rhat):.2f})" if effective > 0 else "no draws"
        axes.annotate(
            text, (length, row), (4, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set(
        title="Samplers of the alternative set",
        xlabel="effective draws of the worst coordinate",
        xscale="log",
        xlim=(1, 40.0 * max(float(shown.max()), 10.0)),
    )
    return finish(axes, columns=4)


def draw_study(
    summary: xr.Dataset, instance: Instance, folder: Path,
    boards: Mapping[int, xr.Dataset] | None = None,
) -> list[Path]:  # fmt: skip
    """Draw all figures of a study into a folder, each as PNG and SVG.

    Parameters
    ----------
    summary : Dataset
        From `bayes_feasible.analysis.study.convergence.summarise`.
    instance : Instance
    folder : Path
        It must exist.
    boards : dict of int to Dataset, optional
        The samplers' scores after so many pulls.

    Returns
    -------
    list of Path
        `accuracy` and `allocation`; and where there is something to show `log_error`,
        `local_exponent`, `efficiency`, `rate_posterior`, `geometry`, and a `scoreboard_...` for
        each of the boards.

    Examples
    --------
    >>> import tempfile
    >>> import bayes_feasible as bf
    >>> from bayes_feasible.analysis.study.convergence import summarise
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> results = bf.simulate(instance, {"Uniform": bf.Uniform}, horizon=200, replicates=4)
    >>> summary = summarise(results, instance, regression=False, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = draw_study(summary, instance, Path(folder))
    >>> sorted(path.name for path in paths)[:4]
    ['accuracy.png', 'accuracy.svg', 'allocation.png', 'allocation.svg']
    """
    drawn: dict[str, Any] = {"accuracy": accuracy(summary), "allocation": allocation(summary)}
    rate = summary.attrs["rate"]
    if np.isfinite(summary.log_error).any():
        drawn["log_error"] = log_error(summary)
    if 0 < rate < math.inf:
        drawn["efficiency"] = efficiency(summary)
        if summary.slope.notnull().any():
            drawn["local_exponent"] = local_exponent(summary)
        if instance.problem.arms.shape[1] == 2:
            drawn["geometry"] = geometry(instance)[0]
    if "rate_draws" in summary:
        drawn["rate_posterior"] = rate_posterior(summary)
    for time, board in (boards or {}).items():
        drawn[f"scoreboard_{time}"] = scoreboard(board)
    return [path for name, axes in drawn.items() for path in looks.save(axes, Path(folder, name))]


def _curves(axes: Axes, summary: xr.Dataset, name: str) -> None:
    """A curve for each rule, with its band where there is one."""
    for rule, style in styles(summary.rule.values).items():
        one = summary.sel(rule=rule)
        axes.plot(
            one.time, one[name], label=plain_name(rule), linewidth=1.6, markersize=3.5, zorder=3,
            **style,
        )  # fmt: skip
        if f"{name}_lower" in one:
            low, high = one[f"{name}_lower"], one[f"{name}_upper"]
            axes.fill_between(one.time, low, high, color=style["color"], alpha=0.1, linewidth=0)


def _label(axes: Axes, title: str, ylabel: str, **limits: Any) -> None:
    axes.set(title=title, xlabel="t, number of pulls", ylabel=ylabel, xscale="log", **limits)


def _optimum(axes: Axes, summary: xr.Dataset) -> None:
    axes.axhline(1.0, color="#B00020", label="Γ, the optimum", **LIMIT)
    region = summary.attrs["region"]
    axes.axhspan(1 - region, 1.0, color="#009E73", alpha=0.13, linewidth=0, zorder=0)


def _probability(exponent: float, _position: int) -> str:
    """The tick label of minus a log-probability."""
    if 0.05 <= exponent < 10_000:
        return f"$e^{{-{exponent:g}}}$"
    return f"$e^{{-{exponent:.0e}}}$".replace("e+0", r"\times 10^").replace("e-0", r"\times 10^-")
