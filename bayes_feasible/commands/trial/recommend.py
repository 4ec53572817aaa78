"""The current choice."""

import argparse
from typing import Any

from bayes_feasible.commands.trial._trial import open_trial

HELP = "the current choice, and the probability that it is wrong"


def declare(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    from bayes_feasible.trial.status import recommendation_fields

    choice = open_trial(options).recommend()
    return recommendation_fields(choice), str(choice)
