"""Figures of the scoreboard: ranks, effective draws, regions, and the set itself."""

from collections.abc import Mapping
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
PARAMETER = {"theta_reward": "reward parameter", "theta_cost": "cost parameter"}


def all_figures(
    scoreboard: xr.Dataset,
    trees: Mapping[str, xr.DataTree],
    posterior: Posterior,
    alternative: Alternative,
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


def ranks(scoreboard: xr.Dataset, trees: Mapping[str, xr.DataTree]) -> Figure:
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
        figure = _taken(collection, tree, scoreboard, "rhat", "R-hat {:.3f}")
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
        figure.legend(handles=handles, loc="outside upper center", ncols=5, frameon=False)
        figure.supxlabel("fractional rank of a draw among the draws of all chains", fontsize=10)
        figure.supylabel("observed − expected share", fontsize=10)
        return figure


def ess_evolution(scoreboard: xr.Dataset, trees: Mapping[str, xr.DataTree]) -> Figure:
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
        figure = _taken(collection, tree, scoreboard, "ess_bulk", "{:.0f} effective draws")
        handles = [
            _marker("o", COLOURS[0], "bulk", "-"),
            _marker("o", COLOURS[1], "tails (5 % and 95 % quantiles)", "-"),
            _marker("", "0.4", f"needed: {needed}", "-."),
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
        figure.supxlabel("share of the draws that is looked at", fontsize=10)
        figure.supylabel("effective draws", fontsize=10)
        return figure


def regions(
    scoreboard: xr.Dataset, trees: Mapping[str, xr.DataTree], alternative: Alternative
) -> Figure:
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
        handles = [
            mpl.patches.Patch(color=colour, label=plain_name(scoreboard.event.values[event]))
            for event, colour in shown.items()
        ]
        handles.append(mpl.patches.Patch(color="0.75", label="other regions"))
        handles.append(
            mpl.patches.Patch(facecolor="white", edgecolor="0.4", hatch="////", label="outside")
        )
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
        return figure


def plane(
    scoreboard: xr.Dataset,
    trees: Mapping[str, xr.DataTree],
    posterior: Posterior,
    alternative: Alternative,
) -> Figure:
    """The planes of the parameters with the edges of the events, and each sampler's draws."""
    drawn = _drawn(trees)
    shown = _named_regions(scoreboard)
    means = np.vstack([posterior.theta_reward, posterior.theta_cost])
    blocks, columns = len(means), min(len(drawn), PLANES)
    bands = -(-len(drawn) // columns)
    with mpl.rc_context(STYLE):
        size = 2.6 * columns + 1.2, 2.4 * bands * blocks + 1.0
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(bands * blocks, columns, squeeze=False)
        grid = grid.reshape(bands, blocks, columns)
        for block in range(blocks):
            row = [grid[place // columns, block, place % columns] for place in range(len(drawn))]
            _plane_row(row, drawn, alternative, block, means[block], shown)
            for axes in grid[:, block, 0]:
                axes.set_ylabel(f"{_block_name(alternative, block)},\nfeature 1")
        for place, name in enumerate(drawn):
            axes = grid[place // columns, 0, place % columns]
            axes.set_title(f"{name}\n({scoreboard.verdict.sel(sampler=name).item()})")
        for place in range(len(drawn), bands * columns):
            for block in range(blocks):
                grid[place // columns, block, place % columns].set_visible(False)
        handles = [
            _marker("o", colour, str(scoreboard.event.values[event]), "-")
            for event, colour in shown.items()
        ]
        handles.append(_marker("+", "black", "posterior mean"))
        handles.append(_marker("o", "black", "draw outside the set"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
        return figure


def _plane_row(
    row: list[Axes],
    drawn: Mapping[str, xr.DataTree],
    alternative: Alternative,
    block: int,
    mean: Array,
    shown: dict[int, str],
) -> None:
    """One parameter's plane for every sampler, all with the same limits."""
    low, high = mean.copy(), mean.copy()
    for axes, tree in zip(row, drawn.values(), strict=True):
        dataset = tree["posterior"].to_dataset()
        colours = _draw_colours(occupied(alternative, dataset), shown)
        points = _planes(dataset)[block]
        axes.scatter(points[:, 0], points[:, 1], s=5, c=colours, linewidths=0, zorder=3, alpha=0.7)
        axes.plot(*mean, marker="+", color="black", markersize=8, zorder=4)
        axes.set_xlabel("feature 0")
        low, high = np.minimum(low, points.min(axis=0)), np.maximum(high, points.max(axis=0))
    margin = 0.1 * (high - low)
    for axes in row:
        axes.set(xlim=(low[0] - margin[0], high[0] + margin[0]))
        axes.set(ylim=(low[1] - margin[1], high[1] + margin[1]))
        _edges(axes, alternative, block, shown, mean)


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


def _taken(
    collection: Any, tree: xr.DataTree, scoreboard: xr.Dataset, figure_of: str, text: str
) -> Figure:
    """The figure of a plot collection, out of pyplot's hands, with a title on each panel."""
    figure = collection.viz["figure"].item()
    pyplot.close(figure)
    for axes, name in zip(figure.axes, tree["posterior"].data_vars, strict=False):
        value = float(scoreboard[figure_of].sel(sampler=name))
        axes.set_title(f"{name}\n{text.format(value)}", fontsize=10)
        axes.tick_params(labelsize=9)
    return figure


def _drawn(trees: Mapping[str, xr.DataTree]) -> dict[str, xr.DataTree]:
    """Those that have draws."""
    return {name: tree for name, tree in trees.items() if "error" not in tree.attrs}


def _chosen_coordinates(figure: xr.DataArray, trees: Mapping[str, xr.DataTree]) -> xr.DataTree:
    """One variable a sampler: its coordinate where the figure is highest."""
    variables = {}
    for name, tree in _drawn(trees).items():
        worst = int(np.argmax(figure.sel(sampler=name).values))
        values = coordinates(tree["posterior"].to_dataset())[worst]
        variables[name] = (("chain", "draw"), values)
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


def _planes(draws: xr.Dataset) -> Array:
    """Some of the draws, evenly over all chains, as (block, draw, feature)."""
    values = coordinates(draws)
    flat = values.reshape(-1, 2, values.shape[1] * values.shape[2])
    step = max(flat.shape[2] // SHOWN_DRAWS, 1)
    return np.moveaxis(flat[:, :, ::step], 1, 2)


def _draw_colours(inside: Any, shown: dict[int, str]) -> list[str]:
    flat = inside.reshape(len(inside), -1)
    step = max(flat.shape[1] // SHOWN_DRAWS, 1)
    colours = []
    for column in flat[:, ::step].T:
        events = [event for event in shown if column[event]]
        colours.append(shown[events[0]] if events else ("0.6" if column.any() else "black"))
    return colours


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


def _block_name(alternative: Alternative, block: int) -> str:
    if block == 0:
        return PARAMETER["theta_reward"]
    name = alternative.problem.coords["constraint"][block - 1]
    return f"{PARAMETER['theta_cost']} {name}"
