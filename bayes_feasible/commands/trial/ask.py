"""Which arm to pull next."""

import argparse
from typing import Any

from bayes_feasible.commands.trial._trial import add_key, open_trial, pending

HELP = "which arm to pull next, one a line; every call asks for further pulls"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-n", type=int, default=1, metavar="PULLS", help="how many pulls (1)")
    add_key(parser)


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    trial = open_trial(options)
    arms = trial.ask(options.n, key=options.key).tolist()
    names = [trial.arm_name(arm) for arm in arms]
    fields = {"trial": trial.path, "asked": names, "indices": arms, "pending": pending(trial)}
    return fields, "\n".join(name.replace("\n", "\\n") for name in names)  # one a line
