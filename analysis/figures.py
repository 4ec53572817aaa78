"""Figures, drawn without a display."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

# Okabe and Ito: told apart by readers with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LIMIT: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.2, "zorder": 1}
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "savefig.dpi": 130,
    "svg.fonttype": "none",
    "svg.hashsalt": "bayes_feasible",
}


def error_curves(study: xr.Dataset) -> Figure:
    """Probability of error over time, and its rate of decay, beside the optimal rate.

    Parameters
    ----------
    study : Dataset
        From `bayes_feasible.analysis.study.end_of_optimism_study`.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        error, decay = figure.subplots(1, 2, gridspec_kw={"wspace": 0.06})
        for alpha, colour, marker in zip(study.alpha.values, COLOURS, MARKERS, strict=False):
            one = study.sel(alpha=alpha)
            rate = float(one.rate)
            curve = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.5}
            error.plot(one.time, -one.log_error, label=f"P, α = {alpha:g}", **curve)
            error.plot(one.time, rate * one.time, color=colour, **LIMIT)
            decay.plot(one.time, one.decay, **curve)
            decay.axhline(rate, color=colour, **LIMIT)
            _name_limit(decay, f"α = {alpha:g}: Γ = {rate:.5f}", rate, colour)
        error.plot([], [], color="0.4", label=r"$e^{-\Gamma T}$", **LIMIT)
        _label_error(error)
        _label_decay(decay)
        return figure


def write(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the extension; the same figure gives the same bytes."""
    reproducible: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
    with mpl.rc_context(STYLE):
        figure.savefig(path, **reproducible)


def _label_error(axes: Axes) -> None:
    axes.set(
        title="(a) Probability of error under the optimal allocation",
        xlabel="T, number of pulls",
        ylabel="P, posterior probability of error",
        xscale="log",
        yscale="log",
    )
    axes.invert_yaxis()
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_major_formatter(FuncFormatter(_probability))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.legend(frameon=False, loc="lower left")
    axes.grid(alpha=0.25)


def _label_decay(axes: Axes) -> None:
    axes.set(
        title="(b) Its decay approaches the optimal rate Γ",
        xlabel="T, number of pulls",
        ylabel="−log P / T (nats per pull)",
        xscale="log",
        yscale="log",
    )
    low, high = axes.get_ylim()
    axes.set_ylim(low * 0.85, high)  # room for the lowest name
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.25)


def _name_limit(axes: Axes, text: str, rate: float, colour: str) -> None:
    """Write under the line, at its right end: the curves come from above."""
    axes.annotate(
        text,
        (1.0, rate),
        xycoords=("axes fraction", "data"),
        xytext=(0, -5),
        textcoords="offset points",
        ha="right",
        va="top",
        color=colour,
    )


def _probability(exponent: float, _position: int) -> str:
    """The tick label of minus a log-probability."""
    if 0.05 < exponent < 99:
        return f"$e^{{-{exponent:g}}}$"
    return f"$e^{{-10^{{{round(np.log10(exponent))}}}}}$"
