"""All events in order."""

import argparse
from typing import Any

from bayes_feasible.commands.trial._trial import open_trial

HELP = "all events in order"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-n", type=int, metavar="LINES", help="only so many, the last ones")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    from bayes_feasible.trial.describe import describe_event

    trial = open_trial(options)
    if options.n is not None and options.n < 1:
        raise ValueError(f"-n: expected at least 1, got {options.n}")
    events = trial.events[-options.n if options.n else 0 :]
    lines = []
    for event in events:
        undone = trial.undone(event["n"])
        note = f" (taken back by {undone})" if undone else ""
        time = event["time"][:19].replace("T", " ")
        lines.append(f"{event['n']:>6}  {time}  {describe_event(trial.problem, event)}{note}")
    lines.append(f"\nchecksum {trial.head}, begun with bayes_feasible {trial.version or '?'}")
    return {"trial": trial.path, "head": trial.head, "events": events}, "\n".join(lines)
