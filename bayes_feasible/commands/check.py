"""`bayes-feasible check`."""

import argparse
from pathlib import Path

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _source as source
from bayes_feasible.commands._parser import AddParser, add_command

DESCRIPTION = """\
For pulls that anybody recorded in any way: the exact posterior probability that
the recommendation is wrong, the likeliest mistake, and the rate that the
allocation of the pulls can reach at best, beside the rate of the optimal one.
"""
EPILOG = """\
The table of pulls has a column arm (names or indices), a column reward, and one
for each constraint, under its name; netCDF has variables of these names. Where
rows sum up many pulls it has a column count, and sd_NAME where that of NAME is a
mean with this standard deviation. An empty cell was not seen (yet).

example:
  bayes-feasible check drug.toml --history pulls.csv
"""


def add(add_parser: AddParser) -> None:
    """Declare the arguments."""
    check = add_command(
        add_parser,
        run,
        "check",
        help="how sure a recommendation is after recorded pulls, and how well they were shared out",
        description=DESCRIPTION,
        epilog=EPILOG,
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
    source.add_columns(check)
    check.add_argument(
        "--candidate", metavar="NAME", help="the recommendation (what looks best, by default)"
    )
    check.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> None:
    """Print what the pulls say."""
    import bayes_feasible as bf

    loaded = bf.load(options.problem)
    columns = source.columns(options) or None
    history = bf.History.load(options.history, source.bare(loaded), columns)
    from bayes_feasible.analysis.study.lower_bound import check

    found = check(history, loaded, options.candidate)
    if options.json:
        output.show_json(found.to_dict())
    else:
        output.show(str(found))
