"""What the steps of a trial share."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_feasible.trial.trial import Trial


class Table(str):
    """Text that a program may read."""


def open_trial(options: argparse.Namespace) -> "Trial":
    """The trial that the arguments name."""
    from bayes_feasible.trial.trial import Trial

    if not options.trial.exists():
        raise FileNotFoundError(
            f"{options.trial}: no such trial; start one with: "
            f"bayes-feasible trial new {options.trial} FILE"
        )
    return Trial(options.trial, wait=options.wait)


def pending(trial: "Trial") -> dict[str, int]:
    """Pulls that were asked for and not yet told, by arm."""
    return {arm: count for arm, count in trial.waiting.items() if count}


def add_key(parser: argparse.ArgumentParser) -> None:
    """Let a step be sent again without being taken twice."""
    parser.add_argument(
        "--key",
        metavar="TEXT",
        help="a name of this step: sent again under it, it is not taken twice",
    )
