"""`bayes-feasible check`."""

import argparse
from collections.abc import Callable
from pathlib import Path

from bayes_feasible.commands import _output as output


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    check = add_parser(
        "check",
        help="how sure a recommendation is after recorded pulls, and how well they were shared out",
        description="For pulls that anybody recorded in any way: the exact posterior probability "
        "that the recommendation is wrong, the likeliest mistake, and the rate that the "
        "allocation of the pulls can reach at best, beside the rate of the optimal one.",
        epilog="The table of pulls has a column arm (names or indices), a column reward, and one "
        "for each constraint, under its name; netCDF has variables of these names. Example: "
        "bayes-feasible check drug.toml --history pulls.csv",
    )
    check.add_argument(
        "problem",
        type=Path,
        metavar="PROBLEM",
        help="a .toml, .json or .csv file with the problem, and its true parameters if known",
    )
    check.add_argument(
        "--history",
        type=Path,
        required=True,
        metavar="PULLS",
        help="the pulls: a .csv table with one pull a line, or netCDF (.nc)",
    )
    check.add_argument(
        "--candidate", metavar="NAME", help="the recommendation (what looks best, by default)"
    )
    check.add_argument("--json", action="store_true", help="print JSON instead of text")
    check.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print what the pulls say."""
    import bayes_feasible as bf

    loaded = bf.load(options.problem)
    problem = loaded.problem if isinstance(loaded, bf.Instance) else loaded
    history = bf.History.load(options.history, problem)
    from bayes_feasible.analysis.study.lower_bound import check

    found = check(history, loaded, options.candidate)
    if options.json:
        output.show_json(found.to_dict())
    else:
        output.show(str(found))
