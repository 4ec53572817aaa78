"""All of a trial for other programs."""

import argparse
from pathlib import Path
from typing import Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands.trial._trial import Table, open_trial

HELP = "the pulls as a CSV table; or all there is as JSON or netCDF, by the extension of --out"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write this file (.csv: the pulls; .json or .nc: journal, pulls and status) instead "
        "of printing the table",
    )
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="put an apostrophe before names that a spreadsheet would take for formulas",
    )


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    from bayes_feasible.files.atomic import write_bytes
    from bayes_feasible.trial.export import KINDS, export

    kind = ".csv" if options.out is None else options.out.suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"--out: expected the extension {', '.join(KINDS)}, got {options.out}")
    trial = open_trial(options)
    content = export(trial, kind, spreadsheet=options.spreadsheet)
    fields: dict[str, Any] = {"trial": trial.path, "pulls": trial.posterior.pulls}
    if options.out is None:
        table = content.decode()
        return fields | {"csv": table}, Table(table)
    output.keep(options.trial, options.out)
    write_bytes(options.out, content)
    return fields | {"written": str(options.out)}, f"Written: {options.out}"
