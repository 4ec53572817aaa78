"""`bayes-feasible trial`, one file a step.

Each file has `HELP`, `declare`, which declares the arguments, and `run`, which takes the step and
returns its result as fields for a program and as text for people.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands.trial import (
    ask,
    export,
    log,
    new,
    recommend,
    report,
    serve,
    status,
    tell,
    undo,
)
from bayes_feasible.commands.trial._trial import Table

STEPS: dict[str, Any] = {  # in the order of the help
    "new": new,
    "ask": ask,
    "tell": tell,
    "status": status,
    "recommend": recommend,
    "undo": undo,
    "log": log,
    "report": report,
    "serve": serve,
    "export": export,
}
DESCRIPTION = """\
A live experiment in a file: ask which arm to pull, tell what it showed, see how
sure the recommendation is. Every step is on the disk before the command
returns; several people may work on one trial at the same time.
"""
EXAMPLES = """\
examples:
  bayes-feasible trial new drug.trial drug.toml
  bayes-feasible trial ask drug.trial
  bayes-feasible trial tell drug.trial "10 mg" 0.61 0.35
  bayes-feasible trial tell drug.trial "20 mg" reward=0.84 toxicity=0.81
  bayes-feasible trial status drug.trial
  bayes-feasible trial report drug.trial
"""


class _AnyOrder(argparse.ArgumentParser):
    """Options may stand between the other arguments."""

    _inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._inside:
            return super().parse_known_args(args, namespace)
        self._inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._inside = False


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    trial = add_parser(
        "trial",
        help="a live experiment on disk, pull by pull",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = trial.add_subparsers(dest="step", required=True, metavar="STEP", parser_class=_AnyOrder)
    for name, step in STEPS.items():
        parser = steps.add_parser(
            name, help=step.HELP, description=f"{step.HELP[:1].upper()}{step.HELP[1:]}."
        )
        parser.add_argument("trial", type=Path, metavar="TRIAL", help="the file of the trial")
        step.declare(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--wait",
            type=float,
            default=10.0,
            metavar="SECONDS",
            help="how long to wait while another process is writing (10)",
        )
        parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Take one step; warnings go to the standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fields, text = STEPS[options.step].run(options)
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                output.complain("trial", message)
    if options.json:
        output.show_json(fields)
    elif isinstance(text, Table):
        output.show_file(text)
    else:
        output.show(text)
