"""Which arm to pull next."""

import argparse
from typing import Any

from bayes_feasible.commands.trial._trial import add_key, open_trial, pending

HELP = "which arm to pull next, one a line; every call asks for further pulls"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-n", type=int, default=1, metavar="PULLS", help="how many pulls (1)")
    parser.add_argument(
        "--allowed", nargs="+", metavar="ARM", help="only these arms can be pulled now"
    )
    parser.add_argument(
        "--shares",
        action="store_true",
        help="divide the pulls among the arms, and print how many each gets",
    )
    add_key(parser)


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    trial = open_trial(options)
    asked = trial.ask(options.n, allowed=options.allowed, shares=options.shares, key=options.key)
    arms = asked.tolist()
    names = [trial.arm_name(arm) for arm in arms]
    fields = {"trial": trial.path, "asked": names, "indices": arms, "pending": pending(trial)}
    if options.shares:
        pulls = {trial.arm_name(arm): arms.count(arm) for arm in sorted(set(arms))}
        lines = [f"{number} {name!r}" for name, number in pulls.items()]
        return fields | {"shares": pulls}, "\n".join(lines)
    return fields, "\n".join(name.replace("\n", "\\n") for name in names)  # one a line
