"""The figures of a trial's page, as SVG; the same trial gives the same bytes."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter

from bayes_feasible._check import Array
from bayes_feasible.analysis.report import style as looks
from bayes_feasible.analysis.report.page import picture
from bayes_feasible.analysis.report.style import COLOURS, LIMIT, finish, make_axes, shorten
from bayes_feasible.analysis.report.trial_view import PROBABILITY, Intervals, View
from bayes_feasible.recommendation import format_probability

SHOWN = 20  # candidates or arms
CHOSEN, OTHER, FORBIDDEN = COLOURS[0], "#57606a", "#B00020"
LEAST = math.log(1e-300)  # below it an axis of probabilities has no numbers


def draw(view: View) -> list[dict[str, str]]:
    """All figures with their captions, in the order of the page."""
    found = [_forest(view, one) for one in view.outcomes]
    if view.best is not None:
        found.append(_probabilities(view, view.best))
    found.append(_allocation(view))
    if len(view.course) > 1:
        found.append(_course(view))
    return found


def shown_candidates(view: View) -> list[int]:
    """Which candidates the figures show: the recommended one, then by probability or reward."""
    rank = view.outcomes[0].mean if view.best is None else view.best
    chosen = view.status.recommendation.candidate
    order = np.argsort(-rank, kind="stable").tolist()
    if chosen is not None:
        order.remove(chosen)
        order.insert(0, chosen)
    return order[:SHOWN]


def _forest(view: View, one: Intervals) -> dict[str, str]:
    """One interval a candidate, beside the limit."""
    rows = shown_candidates(view)
    names = [str(view.status.candidates.candidate.values[z]) for z in rows]
    axes = _rows_of(names)
    chosen = view.status.recommendation.candidate
    for y, z in enumerate(rows):
        colour = CHOSEN if z == chosen else OTHER
        axes.plot([one.low[z], one.high[z]], [y, y], color=colour, linewidth=2.2)
        axes.plot([one.mean[z]], [y], "D" if z == chosen else "o", color=colour, markersize=6)
    bound = math.isfinite(one.limit)
    if bound:
        axes.axvline(one.limit, color=FORBIDDEN, **LIMIT)
        left, right = axes.get_xlim()
        axes.axvspan(one.limit, right + abs(right - left), color=FORBIDDEN, alpha=0.07, zorder=0)
        axes.set_xlim(left, right)
    label = f"{one.name} ({one.unit})" if one.unit else one.name
    axes.set_xlabel(shorten(label) if not one.unit else looks.plain_name(label))
    limit = f", which may be at most {one.limit:g}" if bound else ""
    alternative = "; ".join(
        f"{name} {one.mean[z]:.3g} ({one.low[z]:.3g} to {one.high[z]:.3g})"
        for name, z in zip(names, rows, strict=True)
    )
    return picture(
        looks.svg(axes),
        f"Mean {label} of each candidate{limit}: {alternative}.",
        f"Mean {label} of each candidate, with {PROBABILITY:.0%} intervals"
        + (f"; the shaded side is beyond the limit {one.limit:g}." if bound else ".")
        + _left_out(view, rows),
    )


def _probabilities(view: View, best: Array) -> dict[str, str]:
    """How probably each candidate is the best feasible one."""
    rows = shown_candidates(view)
    names = [str(view.status.candidates.candidate.values[z]) for z in rows]
    values = [float(best[z]) for z in rows]
    constrained = view.status.candidates.sizes["constraint"] > 0
    if constrained:
        names, values = [*names, "none feasible"], [*values, view.none]
    axes = _rows_of(names)
    chosen = view.status.recommendation.candidate
    colours = [CHOSEN if z == chosen else OTHER for z in rows] + [FORBIDDEN] * constrained
    axes.barh(range(len(values)), values, color=colours, height=0.6)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("probability of being the best")
    each = "; ".join(f"{n} {_share(v)}" for n, v in zip(names, values, strict=True))
    return picture(
        looks.svg(axes),
        f"Probability of being the best feasible candidate: {each}.",
        "How probably each candidate is the best of those within all limits"
        + (", and that none is." if constrained else ".")
        + _left_out(view, rows),
    )


def _allocation(view: View) -> dict[str, str]:
    """Where the pulls went, beside where they would tell most."""
    arms = view.status.arms
    pulls = arms.pulls.values
    shares = pulls / max(int(pulls.sum()), 1)
    rank = shares if view.shares is None else np.maximum(shares, view.shares)
    rows = np.argsort(-rank, kind="stable")[:SHOWN]
    names = [str(arms.arm.values[x]) for x in rows]
    axes = _rows_of(names)
    axes.barh(range(len(rows)), shares[rows], color=COLOURS[5], height=0.6, label="so far")
    if view.shares is not None:
        axes.plot(view.shares[rows], range(len(rows)), "|", color="#000000", markersize=14,
                  markeredgewidth=2.5, label="best shares")  # fmt: skip
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("share of the pulls")
    if view.shares is not None:
        finish(axes)
    best = view.shares
    each = "; ".join(
        f"{name} {shares[x]:.1%}" + ("" if best is None else f" (best {best[x]:.1%})")
        for name, x in zip(names, rows, strict=True)
    )
    return picture(
        looks.svg(axes),
        f"Share of the pulls of each arm: {each}.",
        "Where the pulls went"
        + (
            "."
            if best is None
            else ", and the shares that would lower the error fastest in the long run if the "
            "posterior means were the truth."
        ),
    )


def _course(view: View) -> dict[str, str]:
    """The probability of error after so many pulls."""
    axes = make_axes(None, 3.0)
    pulls = [moment.pulls for moment in view.course]
    logs = np.array([moment.log_error for moment in view.course])
    axes.plot(pulls, np.exp(np.maximum(logs, LEAST)), color=CHOSEN, marker="o", markersize=4)
    axes.set_yscale("log")
    axes.set_ylim(top=1.0)
    target = view.header.get("stop", {}).get("error")
    if target is not None:
        axes.axhline(target, color=FORBIDDEN, **LIMIT)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("pulls")
    axes.set_ylabel("P(error)")
    lowest = max(float(logs.min()), LEAST)
    step = max(1, math.ceil(-lowest / math.log(10) / 6))  # decades between numbers
    subs = (1, 2, 5) if lowest > math.log(0.005) else (1,)
    ticks = [m * 10.0**-k for k in range(0, 301, step) for m in subs if m * 10.0**-k <= 1]
    axes.set_yticks([t for t in ticks if t >= 0.5 * math.exp(lowest)])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.25)
    each = "; ".join(
        f"{m.pulls} pulls {format_probability(m.log_error)} ({m.name})" for m in view.course
    )
    return picture(
        looks.svg(axes),
        f"Probability that what was recommended is wrong, after so many pulls: {each}.",
        "Probability that what would have been recommended is wrong, after so many pulls"
        + ("." if target is None else f"; the trial may stop at {target:g}."),
    )


def _rows_of(names: Sequence[str]) -> Axes:
    """Axes with a row for each name, the first on top."""
    axes = make_axes(None, 1.1 + 0.36 * len(names))
    axes.set_yticks(range(len(names)), [shorten(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    return axes


def _left_out(view: View, rows: Sequence[int]) -> str:
    hidden = view.status.candidates.sizes["candidate"] - len(rows)
    return f" {hidden} more are in the table." if hidden else ""


def _share(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 or value == 0 else f"{value:.1e}"
