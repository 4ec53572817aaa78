"""The page of a trial, live."""

import argparse
from pathlib import Path
from typing import Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands.trial._trial import open_trial

HELP = "the page of `report` live in the browser, with forms to ask and to tell"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="where to listen (127.0.0.1: this machine alone); others can read along on the way, "
        "as the connection is not encrypted",
    )
    parser.add_argument("--port", type=int, default=8421, help="0 takes any that is free (8421)")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a host name it is called by, beside --host and addresses in numbers; may be repeated",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="keep the secret part of the address there, so that it stays the same",
    )


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    trial = open_trial(options)
    from bayes_feasible.analysis.live.serve import read_token, serve

    token = None if options.token_file is None else read_token(options.token_file)

    def ready(address: str) -> None:
        if options.json:
            output.show_json({"trial": trial.path, "address": address})
        else:
            output.show(f"{address}\nWhoever has this address may ask and tell. Ctrl-C ends it.")

    serve(
        trial.path, options.host, options.port, token=token, names=options.name,
        wait=options.wait, ready=ready,
    )  # fmt: skip
    return {"trial": trial.path, "events": len(trial.events)}, "Stopped."
