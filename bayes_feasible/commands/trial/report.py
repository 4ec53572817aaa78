"""A trial as one web page."""

import argparse
from pathlib import Path
from typing import Any

from bayes_feasible.commands.report import check_page
from bayes_feasible.commands.trial._trial import open_trial

HELP = "one web page: the recommendation, how sure it is, what to do next"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write it (the trial's name, .html)"
    )
    parser.add_argument(
        "--forecast",
        action="store_true",
        help="say how many more pulls it will take until the trial's stop ends it",
    )


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    check_page(options.out)
    trial = open_trial(options)
    from bayes_feasible.analysis.report import trial_page

    path = trial_page.write(trial, options.out, forecast=options.forecast)
    return {"trial": trial.path, "written": str(path)}, f"Written: {path}"
