"""How the trial stands."""

import argparse
from typing import Any

from bayes_feasible.commands.trial._trial import open_trial

HELP = "posterior, current choice, probability that it is wrong, pending pulls"


def declare(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    status = open_trial(options).status()
    return status.to_dict(), str(status)
