"""Figures, drawn without a display.

Each of a study's figures comes from one function that returns its axes (`axes.figure` is what to
save); given axes, it draws on them. A rule has the same colour in all of them.
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.files.atomic import replaced
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import optimal_rate

# Okabe and Ito: told apart by readers with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
VARIANT_MARKERS = ("*", "p", "d")  # one for each line but the first
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
FAMILIES = {
    "Oracle": "#000000",
    "BLFAIPS": "#0072B2",
    "BestResponse": "#009E73",
    "PlugIn": "#56B4E9",
    "TopTwo": "#D55E00",
    "LinearThompson": "#CC79A7",
    "GOptimal": "#E69F00",
    "Uniform": "#7F7F7F",
    "PEPS": "#8C6D00",
}
SAMPLERS = {
    "trusted": "#009E73", "doubtful": "#E69F00", "condemned": "#D55E00", "failed": "#7F7F7F",
}  # fmt: skip
OTHERS = ("#332288", "#882255", "#117733", "#44AA99", "#AA4499", "#661100")  # Tol's muted ones
SIZE = (4.9, 4.1)  # inches: the letters are still readable on a telephone
SHOWN_ARMS = 12
LONGEST = 20  # letters of a name
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


def styles(names: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Colour, line and marker of each rule.

    All follow from the name: variants of a rule share its colour and differ in line and marker.
    Only where two variants would look the same does the second get the next line and marker.

    >>> styles(["Oracle"])["Oracle"]["color"]
    '#000000'
    """
    found: dict[str, dict[str, Any]] = {}
    taken: set[tuple[str, int]] = set()
    for name in map(str, names):
        family = _family(name)
        number = zlib.crc32(name.encode())
        colour = FAMILIES.get(family, OTHERS[number % len(OTHERS)])
        first = 0 if name == family else number % len(LINES)
        order = [(first + i) % len(LINES) for i in range(len(LINES))]
        line = next((i for i in order if (colour, i) not in taken), first)
        taken.add((colour, line))
        shape = list(FAMILIES).index(family) if family in FAMILIES else number
        marker = VARIANT_MARKERS[line - 1] if line else MARKERS[shape % len(MARKERS)]
        found[name] = {"color": colour, "linestyle": LINES[line], "marker": marker}
    return found


def _family(name: str) -> str:
    """The rule that a name begins with, whatever follows; the name itself if none."""
    plain = name.replace(" ", "").replace("-", "").lower()
    return next((known for known in FAMILIES if plain.startswith(known.lower())), name)


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
    axes = _axes(axes)
    _curves(axes, summary, "accuracy", band=True)
    axes.set(
        title="How often the right candidate is recommended",
        xlabel="t, number of pulls",
        ylabel="share of replicates that are right",
        xscale="log",
        ylim=(-0.02, 1.02),
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    return _finished(axes)


def log_error(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Posterior probability of error over time, the band of replicates, and the slope Γ."""
    axes = _axes(axes)
    for name, style in styles(summary.rule.values).items():
        one = summary.sel(rule=name)
        _line(axes, one.time, -one.log_error, style, name)
        low, high = -one.log_error_upper, -one.log_error_lower
        axes.fill_between(one.time, low, high, color=style["color"], alpha=0.15, linewidth=0)
    rate, time = summary.attrs["rate"], summary.time.values
    if 0 < rate < math.inf:
        axes.plot(time, rate * time, color="#B00020", label=r"$e^{-\Gamma t}$", **LIMIT)
    axes.set(
        title="Probability of error, and the fastest it can fall",
        xlabel="t, number of pulls",
        ylabel="P, posterior probability of error",
        xscale="log",
        yscale="log",
    )
    lowest = float((-summary.log_error).where(summary.log_error < 0).min())
    if 0 < lowest < math.inf:
        axes.set_ylim(bottom=max(0.05, 0.5 * lowest))
    axes.invert_yaxis()
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_major_formatter(FuncFormatter(_probability))
    axes.yaxis.set_minor_locator(NullLocator())
    return _finished(axes)


def local_exponent(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """The slope of the log error over the decade before each time, in units of Γ."""
    axes = _axes(axes)
    _curves(axes, summary, "slope", band=False)
    _optimum(axes, summary)
    axes.set(
        title="Decay of the error over the decade before",
        xlabel="t, number of pulls",
        ylabel="local exponent / Γ",
        xscale="log",
    )
    top = float(summary.slope.max())
    axes.set_ylim(min(0.0, float(summary.slope.min())), min(max(1.15, 1.05 * top), 2.0))
    return _finished(axes)


def efficiency(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """The exponent that the allocation can reach at best, in units of Γ, over time."""
    axes = _axes(axes)
    _curves(axes, summary, "efficiency", band=True)
    _optimum(axes, summary)
    axes.set(
        title="What the pulls so far can reach at best",
        xlabel="t, number of pulls",
        ylabel="efficiency: smallest exponent / Γ",
        xscale="log",
        ylim=(-0.02, 1.06),
    )
    return _finished(axes)


def allocation(summary: xr.Dataset, axes: Axes | None = None) -> Axes:
    """Mean shares of the pulls at the last checkpoint beside the optimal ones."""
    axes = _axes(axes)
    final, best = summary.allocation.isel(time=-1), summary.optimal_allocation
    weight = np.maximum(best, final.max("rule"))
    order = np.sort(np.argsort(-weight.values, kind="stable")[:SHOWN_ARMS])
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
    names = [_short(str(name)) for name in summary.arm.values[order]]
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
    return _finished(axes)


def rate_posterior(summary: xr.Dataset) -> Axes:
    """Posterior of each rule's decay rate beside Γ and the region of practical equivalence."""
    known = summary.rate_draws.dropna("rule", how="all")
    rules = styles(known.rule.values)
    probability, region = summary.attrs["probability"], summary.attrs["region"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(SIZE[0], 1.8 + 0.42 * len(rules)), layout="constrained")
        axes = figure.subplots()
        left, right = _rate_limits(known)
        axes.axvspan(
            1 - region,
            1.0,
            color="#009E73",
            alpha=0.18,
            linewidth=0,
            zorder=0,
            label=f"within {100 * region:g} % of Γ",
        )
        axes.axvspan(
            1.0, right, facecolor="white", edgecolor="0.75", hatch="////", linewidth=0, zorder=0,
            label="beyond any rule",
        )  # fmt: skip
        axes.axvline(1.0, color="#B00020", **LIMIT)
        for row, (name, style) in enumerate(rules.items()):
            draws = known.sel(rule=name)
            grid, density = _density(draws)
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
    axes = _axes(axes, height=1.7 + 0.36 * len(names))
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
    return _finished(axes, columns=4)


def _density(draws: xr.DataArray) -> tuple[Any, Any]:
    """A kernel density estimate: where, and how dense."""
    found = az.kde(draws, dim=("chain", "draw"))
    return found.sel(plot_axis="x").values, found.sel(plot_axis="y").values


def _rate_limits(draws: xr.DataArray) -> tuple[float, float]:
    low, high = draws.quantile([0.001, 0.999], ("chain", "draw")).values
    bottom, top = float(np.min(low)), float(np.max(high))
    margin = 0.04 * (max(top, 1.0) - min(bottom, 0.95))
    return min(bottom, 0.95) - margin, max(top, 1.0) + margin


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
    with mpl.rc_context(STYLE):
        columns = min(len(planes), 2)
        rows = math.ceil(len(planes) / columns)
        size = (2.7 * columns, 2.5 * rows + 0.9) if columns > 1 else SIZE
        figure = Figure(figsize=size, layout="constrained")
        drawn = [figure.add_subplot(rows, columns, i + 1) for i in range(len(planes))]
        for axes, (title, truth, found, normals, limits, noise) in zip(drawn, planes, strict=True):
            radius = _plane_radius(truth, found)
            axes.set(
                xlim=(truth[0] - radius, truth[0] + radius),
                ylim=(truth[1] - radius, truth[1] + radius),
            )
            _half_planes(axes, normals, limits, event, truth, radius)
            _ellipse(axes, truth, precision / noise**2, found)
            axes.plot(*truth, "o", color="black", markersize=6, label="truth", zorder=5)
            axes.plot(
                *found, "X", color="#D55E00", markersize=8, markeredgecolor="white",
                label="hardest alternative", zorder=6,
            )  # fmt: skip
            names = list(map(plain_name, problem.coords["feature"]))
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
        *(f"cost parameter {plain_name(n)}" for n in problem.coords["constraint"]),
    ]
    events, binding = (
        alternative.events,
        [0, *(1 + np.flatnonzero(np.isfinite(problem.thresholds)))],
    )
    return [
        (names[b], truths[b], found[b], events.vectors[:, b], events.limits[:, b], noise[b])
        for b in binding
    ]


def _plane_radius(truth: Any, found: Any) -> float:
    """Half the width of the picture: room around truth and alternative."""
    apart = float(np.max(np.abs(found - truth)))
    return max(2.2 * apart, 0.6 * float(np.max(np.abs(truth))), 0.1)


def _half_planes(
    axes: Axes, normals: Any, limits: Any, hardest: int, truth: Any, radius: float
) -> None:
    """The limit of every event as a line; the side of the hardest one shaded."""
    centre = truth
    for event, (normal, limit) in enumerate(zip(normals, limits, strict=True)):
        length = float(np.linalg.norm(normal))
        if not math.isfinite(limit) or length == 0:
            continue
        unit, offset = normal / length, limit / length
        along = np.array([-unit[1], unit[0]])
        foot = centre + (offset - unit @ centre) * unit
        ends = np.array([foot - 4 * radius * along, foot + 4 * radius * along])
        if event == hardest:
            beyond = ends + 8 * radius * unit
            corners = np.vstack([ends, beyond[::-1]])
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
    number, order = order.size, order[: 2 * SHOWN_ARMS]
    if not number:
        raise ValueError("instance: no mistake is possible, so there is no exponent to draw")
    axes = _axes(axes, height=2.2 + 0.24 * order.size)
    kinds = [str(kind) for kind in instance.kind]
    for colour, kind in zip(COLOURS, sorted(set(kinds)), strict=False):
        rows = [row for row, i in enumerate(order) if kinds[i] == kind]
        if rows:
            axes.barh(rows, values[order[rows]], color=colour, label=kind, height=0.7)
    axes.axvline(rate.value, color="#B00020", label=f"Γ = {rate.value:.5g}", **LIMIT)
    axes.set_yticks(range(order.size), [_short(instance.problem.name(int(i))) for i in order])
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
    return _finished(axes, columns=2)


def draw_study(
    summary: xr.Dataset,
    instance: Instance,
    folder: Path,
    boards: Mapping[int, xr.Dataset] | None = None,
) -> list[Path]:
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
    return [path for name, axes in drawn.items() for path in save(axes, Path(folder, name))]


def save(axes: Axes, path: Path) -> list[Path]:
    """Write the figure of some axes as `path`.png and `path`.svg, each whole or not at all."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    paths = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    for each in paths:
        with replaced(each) as temporary:
            write(figure, temporary)
    return paths


def _axes(axes: Axes | None, height: float = SIZE[1]) -> Axes:
    if axes is not None:
        return axes
    with mpl.rc_context(STYLE):
        return Figure(figsize=(SIZE[0], height), layout="constrained").subplots()


def _short(name: str) -> str:
    """A name that leaves room for the picture."""
    return plain_name(name if len(name) <= LONGEST else f"{name[: LONGEST - 1].rstrip()}…")


def plain_name(name: Any) -> str:
    """A name that is no formula, whatever dollar signs it has."""
    return str(name).replace("$", r"\$")


def _curves(axes: Axes, summary: xr.Dataset, name: str, *, band: bool) -> None:
    for rule, style in styles(summary.rule.values).items():
        one = summary.sel(rule=rule)
        _line(axes, one.time, one[name], style, rule)
        if band:
            axes.fill_between(
                one.time, one[f"{name}_lower"], one[f"{name}_upper"], color=style["color"],
                alpha=0.15, linewidth=0,
            )  # fmt: skip


def _line(axes: Axes, time: Any, values: Any, style: dict[str, Any], label: str) -> None:
    axes.plot(
        time, values, label=plain_name(label), linewidth=1.6, markersize=3.5, zorder=3, **style
    )


def _optimum(axes: Axes, summary: xr.Dataset) -> None:
    axes.axhline(1.0, color="#B00020", label="Γ, the optimum", **LIMIT)
    region = summary.attrs["region"]
    axes.axhspan(1 - region, 1.0, color="#009E73", alpha=0.13, linewidth=0, zorder=0)


def _finished(axes: Axes, columns: int = 3) -> Axes:
    """Grid, and a legend below that takes nothing away from the picture."""
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.set_title(axes.get_title(), loc="left", fontsize=11)
    axes.set_title("", loc="center")
    handles, labels = axes.get_legend_handles_labels()
    if max(map(len, labels), default=0) > 16:
        columns = min(columns, 2)
    axes.figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9,
        columnspacing=1.2, handlelength=2.4,
    )  # fmt: skip
    return axes


def write(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the extension; the same figure gives the same bytes."""
    dates = {".svg": "Date", ".pdf": "CreationDate"}
    reproducible: dict[str, Any] = {}
    if path.suffix in dates:
        reproducible["metadata"] = {dates[path.suffix]: None}
    with mpl.rc_context(STYLE):
        figure.savefig(path, **reproducible)


def _probability(exponent: float, _position: int) -> str:
    """The tick label of minus a log-probability."""
    if 0.05 < exponent < 99:
        return f"$e^{{-{exponent:g}}}$"
    return f"$e^{{-10^{{{round(np.log10(exponent))}}}}}$"
