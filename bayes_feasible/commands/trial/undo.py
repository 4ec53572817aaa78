"""Take back an ask or a tell."""

import argparse
from typing import Any

from bayes_feasible.commands.trial._trial import open_trial, pending

HELP = "take back the last ask or tell; nothing is deleted"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--event", type=int, metavar="N", help="take back this tell instead (see log)"
    )


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    from bayes_feasible.trial.describe import describe_event

    trial = open_trial(options)
    taken = trial.undo(options.event)
    fields = {"trial": trial.path, "taken_back": taken["n"], "kind": taken["event"]}
    text = f"Taken back: event {taken['n']}, {describe_event(trial.problem, taken)}"
    return fields | {"pulls": trial.posterior.pulls, "pending": pending(trial)}, text
