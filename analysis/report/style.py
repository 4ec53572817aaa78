"""How figures look: colours, lines and markers of the rules, axes, legends, files."""

import io
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayes_feasible._display import visible
from bayes_feasible.files.atomic import replaced

# Okabe and Ito: told apart by readers with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
VARIANT_MARKERS = ("*", "p", "d")  # one for each line but the first
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
FAMILIES = {
    "Oracle": "#000000",
    "Descent": "#332288",
    "BLFAIPS": "#0072B2",
    "BestResponse": "#009E73",
    "PlugIn": "#56B4E9",
    "TopTwo": "#D55E00",
    "LinearThompson": "#CC79A7",
    "GOptimal": "#E69F00",
    "Uniform": "#7F7F7F",
    "PEPS": "#8C6D00",
}
OTHERS = ("#882255", "#117733", "#44AA99", "#AA4499", "#661100")  # Tol's muted ones
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


def save(drawn: Axes | Figure, path: Path) -> list[Path]:
    """Write a figure, or that of some axes, as `path`.png and `path`.svg, whole or not at all."""
    figure: Any = drawn.figure  # a figure's is itself
    paths = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    for each in paths:
        with replaced(each) as temporary:
            write(figure, temporary)
    return paths


def svg(drawn: Axes | Figure) -> bytes:
    """Draw a figure, or that of some axes, as SVG; the same figure gives the same bytes."""
    figure: Any = drawn.figure
    content = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def make_axes(axes: Axes | None, height: float = SIZE[1]) -> Axes:
    """Make axes on a figure of their own, unless some are given."""
    if axes is not None:
        return axes
    with mpl.rc_context(STYLE):
        return Figure(figsize=(SIZE[0], height), layout="constrained").subplots()


def shorten(name: str) -> str:
    """A name that leaves room for the picture."""
    return plain_name(name if len(name) <= LONGEST else f"{name[: LONGEST - 1].rstrip()}…")


def plain_name(name: Any) -> str:
    """A name that is no formula, whatever dollar signs it has."""
    return visible(str(name)).replace("$", r"\$")


def finish(axes: Axes, columns: int = 3) -> Axes:
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
