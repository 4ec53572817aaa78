"""`bayes-feasible report`."""

import argparse
from collections.abc import Callable
from pathlib import Path

from bayes_feasible.commands import _output as output

PAGES = (".html", ".htm")
ARENA = "arena.json"  # is in the folder of an arena


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    report = add_parser(
        "report",
        help="a study, or an arena, as one web page",
        description="Write a study as one web page that stands alone: the verdict first, then "
        "figures, tables, diagnostics, the specification, versions and checksums. The folder of "
        "an arena gives its page.",
        epilog="example: bayes-feasible report study",
    )
    report.add_argument(
        "folder", type=Path, metavar="DIR", help="the folder of a study or an arena"
    )
    report.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to write it (DIR/report.html, DIR/arena.html)",
    )
    report.add_argument("--quiet", action="store_true", help="print nothing")
    report.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the page and say where it is."""
    check_page(options.out)
    if (options.folder / ARENA).exists():
        from bayes_feasible.analysis.arena.page import write
    else:
        from bayes_feasible.analysis.report.report import write

    path = write(options.folder, options.out)
    if not options.quiet:
        output.show(str(path))


def check_page(out: Path | None) -> None:
    """Refuse the name of a page that a browser would not take for one."""
    if out is not None and out.suffix.lower() not in PAGES:
        raise ValueError(f"--out: expected the extension {', '.join(PAGES)}, got {out}")
