"""Figures of the scoreboard: ranks, effective draws, regions, and the set itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import arviz_plots
import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from bayes_feasible._check import Array
from bayes_feasible._draws import stack_blocks
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.report.style import COLOURS, STYLE, plain_name
from bayes_feasible.analysis.samplers.verdicts import ESS_A_CHAIN
from bayes_feasible.analysis.samplers.yardstick import coordinates, occupied
from bayes_feasible.posterior import Posterior

RANK_LEVEL = 0.01  # false-alarm probability of the test on ranks
MOST_REGIONS = len(COLOURS)  # with a colour of their own; the rest share grey
SHOWN_DRAWS = 400  # of each sampler in the plane
COLUMNS = 4
PLANES = 5  # samplers side by side
Trees = Mapping[str, xr.DataTree]


def all_figures(
    scoreboard: xr.Dataset, trees: Trees, posterior: Posterior, alternative: Alternative
) -> dict[str, Figure]:
    """Every figure by its name; the plane only where there are two features.

    None where every sampler broke off.
    """
    if not _drawn(trees):
        return {}
    drawn = {
        "ranks": ranks(scoreboard, trees),
        "ess_evolution": ess_evolution(scoreboard, trees),
        "regions": regions(scoreboard, trees, alternative),
    }
    if alternative.problem.arms.shape[1] == 2:
        drawn["plane"] = plane(scoreboard, trees, posterior, alternative)
    return drawn


def ranks(scoreboard: xr.Dataset, trees: Trees) -> Figure:
    """How the chains of each sampler rank against each other, at its worst coordinate.

    Chains that sample the same distribution wander near 0; where a test says they do not, the
    ranks that say so are marked.
    """
    tree = _chosen_coordinates(scoreboard.coordinate_rhat, trees)
    with mpl.rc_context(STYLE):
        collection = arviz_plots.plot_rank(
            tree,
            envelope_prob=1.0 - RANK_LEVEL,
            visuals={"xlabel": False, "remove_axis": False},
            **_panels(tree, aes={"color": ["chain"], "overlay": ["chain"]}, color=list(COLOURS)),
        )
        figure = _taken(collection, tree, scoreboard.rhat, "R-hat {:.3f}")
        handles = [
            _marker("", COLOURS[chain % len(COLOURS)], f"chain {chain}", "-")
            for chain in range(tree["posterior"].sizes["chain"])
        ]
        handles.append(_marker("o", "black", f"chains disagree (p < {RANK_LEVEL:g})"))
        low, high = figure.axes[0].get_ylim()  # the same on every panel
        for axes in figure.axes:
            for points in axes.collections:
                if isinstance(points, PathCollection):
                    points.set_sizes([3.0])
            axes.set_ylim(low, high + 0.2 * (high - low))
            for text in axes.texts:  # the p-value, above the curves
                words = text.get_text().split("(")[0].replace("p=0.00", "p<0.005")
                text.set(text=words, fontsize=9, y=0.98, verticalalignment="top")
                text.set_transform(axes.get_xaxis_transform())
        words = "fractional rank of a draw among the draws of all chains"
        return _finish(figure, handles, 5, "upper", words, "observed − expected share")


def ess_evolution(scoreboard: xr.Dataset, trees: Trees) -> Figure:
    """Effective draws as the chains grow, at each sampler's worst coordinate."""
    tree = _chosen_coordinates(-scoreboard.coordinate_ess, trees)
    needed = ESS_A_CHAIN * tree["posterior"].sizes["chain"]
    with mpl.rc_context(STYLE):
        collection = arviz_plots.plot_ess_evolution(
            tree,
            min_ess=needed,
            visuals={
                "ess_bulk": {"color": COLOURS[0]},
                "ess_bulk_line": {"color": COLOURS[0]},
                "ess_tail": {"color": COLOURS[1]},
                "ess_tail_line": {"color": COLOURS[1]},
                "xlabel": False,
                "ylabel": False,
            },
            **_panels(tree),
        )
        figure = _taken(collection, tree, scoreboard.ess_bulk, "{:.0f} effective draws")
        handles = [
            _marker("o", COLOURS[0], "bulk", "-"),
            _marker("o", COLOURS[1], "tails (5 % and 95 % quantiles)", "-"),
            _marker("", "0.4", f"needed: {needed}", "-."),
        ]
        words = "share of the draws that is looked at"
        return _finish(figure, handles, 3, "upper", words, "effective draws")


def regions(scoreboard: xr.Dataset, trees: Trees, alternative: Alternative) -> Figure:
    """Where each chain spends its draws, beside where it should."""
    shown = _named_regions(scoreboard)
    rows = [("exact probability", scoreboard.exact_occupancy.values[np.newaxis])]
    for name, tree in _drawn(trees).items():
        inside = occupied(alternative, tree["posterior"].to_dataset())
        rows.append((name, inside.mean(axis=2).T))
    with mpl.rc_context(STYLE):
        height = 1.2 + 0.17 * sum(len(shares) + 1.5 for _, shares in rows)
        figure = Figure(figsize=(9, height), layout="constrained")
        axes = figure.subplots()
        place, ticks = 0.0, []
        for name, shares in rows:
            ticks.append((place + (len(shares) - 1) / 2, name))
            for chain in shares:
                _bar(axes, place, chain, shown)
                place += 1.0
            place += 1.5
        axes.set(
            title="Regions of the alternative set: share of the draws of each chain",
            xlabel="share of the draws (scaled to fill the bar where regions overlap)",
            xlim=(0, 1),
        )
        axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(place - 1.0, -1.5)  # the first row on top
        patch = mpl.patches.Patch
        handles = [
            patch(color=colour, label=plain_name(scoreboard.event.values[event]))
            for event, colour in shown.items()
        ]
        handles.append(patch(color="0.75", label="other regions"))
        handles.append(patch(facecolor="white", edgecolor="0.4", hatch="////", label="outside"))
        return _finish(figure, handles, 3)


def plane(
    scoreboard: xr.Dataset, trees: Trees, posterior: Posterior, alternative: Alternative
) -> Figure:
    """The planes of the parameters with the edges of the events, and each sampler's draws."""
    drawn = {name: _some_draws(tree) for name, tree in _drawn(trees).items()}
    shown = _named_regions(scoreboard)
    means = np.vstack([posterior.theta_reward, posterior.theta_cost])
    blocks, columns = len(means), min(len(drawn), PLANES)
    bands = -(-len(drawn) // columns)
    names = ["reward parameter"]
    names += [f"cost parameter {name}" for name in alternative.problem.coords["constraint"]]
    with mpl.rc_context(STYLE):
        size = 2.6 * columns + 1.2, 2.4 * bands * blocks + 1.0
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(bands * blocks, columns, squeeze=False)
        grid = grid.reshape(bands, blocks, columns)
        places = np.moveaxis(grid, 1, 2).reshape(-1, blocks)  # one a sampler, some may be left
        for block in range(blocks):
            row = places[: len(drawn), block]
            _plane_row(row, list(drawn.values()), alternative, block, means[block], shown)
            for axes in grid[:, block, 0]:
                axes.set_ylabel(f"{names[block]},\nfeature 1")
        for name, axes in zip(drawn, places[:, 0], strict=False):
            axes.set_title(f"{name}\n({scoreboard.verdict.sel(sampler=name).item()})")
        for axes in places[len(drawn) :].ravel():
            axes.set_visible(False)
        handles = [
            _marker("o", colour, str(scoreboard.event.values[event]), "-")
            for event, colour in shown.items()
        ]
        handles.append(_marker("+", "black", "posterior mean"))
        handles.append(_marker("o", "black", "draw outside the set"))
        return _finish(figure, handles, 3)


def _plane_row(
    row: Any, drawn: list[Array], alternative: Alternative, block: int, mean: Array,
    shown: dict[int, str],
) -> None:  # fmt: skip
    """One parameter's plane for every sampler, all with the same limits."""
    together = np.vstack([mean, *(draws[:, block] for draws in drawn)])
    low, high = together.min(axis=0), together.max(axis=0)
    margin = 0.1 * (high - low)
    for axes, draws in zip(row, drawn, strict=True):
        colours = [_colour(events, shown) for events in alternative.events.contains(draws)]
        axes.scatter(*draws[:, block].T, s=5, c=colours, linewidths=0, zorder=3, alpha=0.7)
        axes.plot(*mean, marker="+", color="black", markersize=8, zorder=4)
        axes.set_xlabel("feature 0")
        axes.set(xlim=(low[0] - margin[0], high[0] + margin[0]))
        axes.set(ylim=(low[1] - margin[1], high[1] + margin[1]))
        _edges(axes, alternative, block, shown, mean)


def _finish(
    figure: Any, handles: Sequence[Any], columns: int, side: str = "lower", xlabel: str = "",
    ylabel: str = "",
) -> Any:  # fmt: skip
    """A legend on one side, and labels of all panels together."""
    figure.legend(handles=handles, loc=f"outside {side} center", ncols=columns, frameon=False)
    if xlabel:
        figure.supxlabel(xlabel, fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
    return figure


def _marker(marker: str, colour: str, label: str, line: Any = "") -> mpl.lines.Line2D:
    """An entry of a legend."""
    return mpl.lines.Line2D(
        [], [], marker=marker, color=colour, linestyle=line, markersize=4, label=label
    )


def _panels(tree: xr.DataTree, **more: Any) -> dict[str, Any]:
    """How arviz-plots lays out one panel a sampler."""
    panels = len(tree["posterior"].data_vars)
    size = 2.8 * min(panels, COLUMNS) + 0.6, 2.2 * -(-panels // COLUMNS) + 0.9
    layout = {"figsize": size, "figsize_units": "inches", "layout": "constrained"}
    return {"backend": "matplotlib", "col_wrap": COLUMNS, "figure_kwargs": layout, **more}


def _taken(collection: Any, tree: xr.DataTree, values: xr.DataArray, text: str) -> Figure:
    """The figure of a plot collection, out of pyplot's hands, with a title on each panel."""
    figure = collection.viz["figure"].item()
    pyplot.close(figure)
    for axes, name in zip(figure.axes, tree["posterior"].data_vars, strict=False):
        value = text.format(float(values.sel(sampler=name)))
        axes.set_title(f"{name}\n{value}", fontsize=10)
        axes.tick_params(labelsize=9)
    return figure


def _drawn(trees: Trees) -> dict[str, xr.DataTree]:
    """Those that have draws."""
    return {name: tree for name, tree in trees.items() if "error" not in tree.attrs}


def _chosen_coordinates(figure: xr.DataArray, trees: Trees) -> xr.DataTree:
    """One variable a sampler: its coordinate where the figure is highest."""
    variables = {
        name: (("chain", "draw"), coordinates(tree["posterior"].to_dataset())[worst])
        for name, tree in _drawn(trees).items()
        for worst in [int(np.argmax(figure.sel(sampler=name).values))]
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


def _named_regions(scoreboard: xr.Dataset) -> dict[int, str]:
    """The most probable regions, each with a colour."""
    order = np.argsort(-scoreboard.exact_occupancy.values, kind="stable")
    probable = [int(event) for event in order if scoreboard.exact_occupancy.values[event] > 0.01]
    return dict(zip(probable[:MOST_REGIONS], COLOURS, strict=False))


def _bar(axes: Axes, place: float, shares: Array, shown: dict[int, str]) -> None:
    """One chain: the regions side by side."""
    total = shares.sum()
    scale = 1.0 / max(total, 1.0)
    left = 0.0
    for event, colour in shown.items():
        axes.barh(place, shares[event] * scale, left=left, color=colour, height=0.9)
        left += shares[event] * scale
    rest = total * scale - left
    axes.barh(place, rest, left=left, color="0.75", height=0.9)
    outside = max(1.0 - total, 0.0)
    axes.barh(
        place, outside, left=total * scale, facecolor="white", edgecolor="0.4", hatch="////",
        linewidth=0, height=0.9,
    )  # fmt: skip


def _some_draws(tree: xr.DataTree) -> Array:
    """Some of the draws, evenly over all chains, as (draw, block, feature)."""
    blocks = stack_blocks(tree["posterior"].to_dataset())
    flat = blocks.reshape(-1, *blocks.shape[2:])
    return flat[:: max(len(flat) // SHOWN_DRAWS, 1)]


def _colour(inside: Any, shown: dict[int, str]) -> str:
    """That of the most probable event that contains a draw."""
    other = "0.6" if inside.any() else "black"
    return next((colour for event, colour in shown.items() if inside[event]), other)


def _edges(
    axes: Axes, alternative: Alternative, block: int, shown: dict[int, str], mean: Array
) -> None:
    """Where events begin in this plane, with a tint on their side.

    What an event asks and the posterior mean has already is left out.
    """
    vectors, limits = alternative.events.vectors, alternative.events.limits
    xlim, ylim = axes.get_xlim(), axes.get_ylim()
    x, y = np.meshgrid(np.linspace(*xlim, 200), np.linspace(*ylim, 200))
    for event, colour in shown.items():
        vector, limit = vectors[event, block], limits[event, block]
        if not np.isfinite(limit) or vector @ mean >= limit:
            continue
        margin = vector[0] * x + vector[1] * y - limit
        if margin.max() <= 0:
            continue
        axes.contour(x, y, margin, levels=[0.0], colors=[colour], linewidths=1.2, zorder=2)
        axes.contourf(x, y, margin, levels=[0.0, np.inf], colors=[colour], alpha=0.12, zorder=1)
    axes.set(xlim=xlim, ylim=ylim)
