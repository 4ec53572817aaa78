"""`bayes-feasible study`."""

import argparse
from collections.abc import Callable
from pathlib import Path


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    study = add_parser(
        "study",
        help="optimal rates and exact error curves of the End of Optimism instances",
        description="Print the optimal rates and the exact posterior error curves of the End of "
        "Optimism instances, and save them as a figure (PNG, SVG) and as numbers (netCDF).",
    )
    study.add_argument(
        "--out", type=Path, default=Path("study"), metavar="DIR", help="folder to write to (study)"
    )
    study.add_argument("--quiet", action="store_true", help="print nothing")
    study.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the study, print its tables and write its files."""
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"--out: expected a folder, {options.out} is a file")
    from bayes_feasible.analysis import study

    result = study.end_of_optimism_study()
    if not options.quiet:
        print(study.tables(result), flush=True)
    written = study.save(result, options.out)
    if not options.quiet:
        print(f"\nWritten: {', '.join(map(str, written))}")
