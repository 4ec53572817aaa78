"""The alternative set of an instance as pictures: where it is nearest, and how hard it is."""

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.report import style
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import optimal_rate


def geometry(instance: Instance) -> list[Axes]:
    r"""The alternative set in two features, with the hardest alternative: one plane a parameter.

    An alternative to the truth is a pair of points, one in each plane. Lines are the limits of
    the mistakes; the ellipses hold what pulls in the optimal shares find as hard to tell apart
    from the truth as the hardest alternative, the cross, which lies on the shaded side.

    Examples
    --------
    >>> from bayes_feasible import instances
    >>> left, right = geometry(instances.end_of_optimism())
    >>> left.get_title("left"), right.get_title("left")
    ('reward parameter', 'cost parameter 0')
    """
    problem = instance.problem
    if problem.arms.shape[1] != 2:
        raise ValueError(f"instance: expected 2 features, got {problem.arms.shape[1]}")
    rate = optimal_rate(instance)
    alternative = Alternative(problem, instance.best)
    nearest = alternative.nearest(instance.theta_reward, instance.theta_cost, rate.allocation)
    event = alternative.events.index(nearest.event.item())
    precision = (problem.arms.T * np.asarray(rate.allocation)) @ problem.arms
    planes = _planes(instance, alternative, nearest)
    with mpl.rc_context(style.STYLE):
        columns = min(len(planes), 2)
        rows = math.ceil(len(planes) / columns)
        size = (2.7 * columns, 2.5 * rows + 0.9) if columns > 1 else style.SIZE
        figure = Figure(figsize=size, layout="constrained")
        drawn = [figure.add_subplot(rows, columns, i + 1) for i in range(len(planes))]
        for axes, (title, truth, found, normals, limits, noise) in zip(drawn, planes, strict=True):
            apart = float(np.max(np.abs(found - truth)))  # room around truth and alternative
            radius = max(2.2 * apart, 0.6 * float(np.max(np.abs(truth))), 0.1)
            xlim, ylim = ((at - radius, at + radius) for at in truth)
            axes.set(xlim=xlim, ylim=ylim)
            _half_planes(axes, normals, limits, event, truth, radius)
            _ellipse(axes, truth, precision / noise**2, found)
            axes.plot(*truth, "o", color="black", markersize=6, label="truth", zorder=5)
            axes.plot(
                *found, "X", color="#D55E00", markersize=8, markeredgecolor="white",
                label="hardest alternative", zorder=6,
            )  # fmt: skip
            names = list(map(style.plain_name, problem.coords["feature"]))
            axes.set(title=title, xlabel=f"feature {names[0]}", ylabel=f"feature {names[1]}")
            axes.set_aspect("equal")
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.yaxis.set_major_locator(MaxNLocator(5))
        handles, labels = drawn[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9
        )
        figure.suptitle(f"Hardest mistake: {nearest.event.item()}", fontsize=11)
    return drawn


def _planes(instance: Instance, alternative: Alternative, nearest: xr.Dataset) -> list[Any]:
    """Title, truth, hardest alternative, half-planes and noise of each parameter that binds."""
    problem = instance.problem
    truths = np.vstack([instance.theta_reward, instance.theta_cost])
    found = np.vstack([nearest.theta_reward.values, nearest.theta_cost.values])
    noise = np.concatenate([[problem.reward_noise], problem.cost_noise])
    names = [
        "reward parameter",
        *(f"cost parameter {style.plain_name(n)}" for n in problem.coords["constraint"]),
    ]
    return [
        (names[block], truths[block], found[block], alternative.union.vectors[:, i],
         alternative.union.limits[:, i], noise[block])
        for i, block in enumerate(alternative.union.blocks)
    ]  # fmt: skip


def _half_planes(
    axes: Axes, normals: Any, limits: Any, hardest: int, centre: Any, radius: float
) -> None:
    """The limit of every event as a line; the side of the hardest one shaded."""
    for event, (normal, limit) in enumerate(zip(normals, limits, strict=True)):
        length = float(np.linalg.norm(normal))
        if not math.isfinite(limit) or length == 0:
            continue
        unit, offset = normal / length, limit / length
        along = 4 * radius * np.array([-unit[1], unit[0]])
        foot = centre + (offset - unit @ centre) * unit
        ends = np.array([foot - along, foot + along])
        if event == hardest:
            corners = np.vstack([ends, (ends + 8 * radius * unit)[::-1]])
            axes.fill(*corners.T, color="#D55E00", alpha=0.13, linewidth=0, label="mistaken there")
        colour, width = ("#D55E00", 1.8) if event == hardest else ("0.65", 0.9)
        axes.plot(*ends.T, color=colour, linewidth=width, zorder=2)


def _ellipse(axes: Axes, centre: Any, precision: Any, through: Any) -> None:
    """The points as far from the centre, measured by the precision, as one of them."""
    away = through - centre
    level = float(away @ precision @ away)
    values, vectors = np.linalg.eigh(precision)
    if level <= 0 or values[0] <= 1e-12 * values[1]:
        return
    angle = math.degrees(math.atan2(vectors[1, 0], vectors[0, 0]))
    axes.add_patch(
        Ellipse(
            tuple(centre), 2 * math.sqrt(level / values[0]), 2 * math.sqrt(level / values[1]),
            angle=angle, fill=False, color="#0072B2", linewidth=1.3, label="as hard to tell apart",
            zorder=3,
        )
    )  # fmt: skip


def exponents(instance: Instance, axes: Axes | None = None) -> Axes:
    """The exponent of each candidate under the optimal allocation, by what it amounts to."""
    rate = optimal_rate(instance)
    values = rate.exponents.values
    order = np.argsort(values, kind="stable")
    order = order[np.isfinite(values[order])]
    number, order = order.size, order[: 2 * style.SHOWN_ARMS]
    if not number:
        raise ValueError("instance: no mistake is possible, so there is no exponent to draw")
    axes = style.make_axes(axes, height=2.2 + 0.24 * order.size)
    kinds = [str(kind) for kind in instance.kind]
    for colour, kind in zip(style.COLOURS, sorted(set(kinds)), strict=False):
        rows = [row for row, i in enumerate(order) if kinds[i] == kind]
        if rows:
            axes.barh(rows, values[order[rows]], color=colour, label=kind, height=0.7)
    axes.axvline(rate.value, color="#B00020", label=f"Γ = {rate.value:.5g}", **style.LIMIT)
    axes.set_yticks(
        range(order.size), [style.shorten(instance.problem.name(int(i))) for i in order]
    )
    axes.invert_yaxis()
    if values[order].min() > 0 and values[order].max() > 20 * values[order].min():
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set(
        title="Exponent of each mistake under w*",
        xlabel="exponent (nats per pull)",
        ylabel="candidate" + (f" (the {order.size} hardest of {number})" * (number > order.size)),
    )
    return style.finish(axes, columns=2)
