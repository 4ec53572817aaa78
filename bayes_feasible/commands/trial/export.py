"""The pulls as a table."""

import argparse
from pathlib import Path
from typing import Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands.trial._trial import Table, open_trial

HELP = "the pulls as a CSV table"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write this file instead of printing"
    )
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="put an apostrophe before names that a spreadsheet would take for formulas",
    )


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    from bayes_feasible.files.atomic import replaced
    from bayes_feasible.files.pulls import write_pulls

    trial = open_trial(options)
    table = write_pulls(trial.history, spreadsheet=options.spreadsheet)
    fields: dict[str, Any] = {"trial": trial.path, "pulls": trial.posterior.pulls}
    if options.out is None:
        return fields | {"csv": table}, Table(table)
    output.keep(options.trial, options.out)
    with replaced(options.out) as new:
        new.write_text(table, encoding="utf-8")
    return fields | {"written": str(options.out)}, f"Written: {options.out}"
