"""How the trial stands."""

import argparse
from typing import Any

from bayes_feasible.commands.trial._trial import open_trial

HELP = "posterior, current choice, probability that it is wrong, pending pulls"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--forecast",
        action="store_true",
        help="how many more pulls until the answer is sure enough (for a trial with a stop)",
    )


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    status = open_trial(options).status(forecast=options.forecast)
    return status.to_dict(), str(status)
