"""`bayes-feasible targets`."""

import argparse
from collections.abc import Callable
from pathlib import Path

from bayes_feasible.commands import _output as output

FAULTY = 1
EPILOG = """\
examples:
  bayes-feasible targets
  bayes-feasible targets --out database
  bayes-feasible targets corner thin --board board --samplers exact slice
  bayes-feasible targets --board board --samplers exact my_module:sampler
"""


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    targets = add_parser(
        "targets",
        help="a public set of hard targets for samplers, with exact draws",
        description="List the targets; write them as a posterior database in posteriordb's\n"
        "format, with data, Stan and PyMC model, exact reference draws and checks; or judge\n"
        "samplers on all of them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    targets.add_argument("names", nargs="*", metavar="NAME", help="which targets (all)")
    what = targets.add_mutually_exclusive_group()
    what.add_argument("--out", type=Path, metavar="DIR", help="write the database here")
    what.add_argument(
        "--board", type=Path, metavar="DIR", help="judge samplers; run again, it goes on"
    )
    targets.add_argument(
        "--samplers", nargs="+", metavar="NAME", help="with --board: which (a quick choice)"
    )
    for name, default in (("draws", 1000), ("tune", 1000), ("chains", 4), ("jobs", 2)):
        targets.add_argument(
            f"--{name}", type=int, default=default, metavar="N",
            help=f"with --board: as in diagnose ({default})",
        )  # fmt: skip
    targets.add_argument("--seed", type=int, default=0, metavar="N", help="of all draws (0)")
    targets.add_argument("--quiet", action="store_true", help="show no progress")
    targets.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List, write or judge."""
    if options.samplers and options.board is None:
        raise ValueError("--samplers: has no meaning without --board")
    for path in (options.out, options.board):
        if path is not None and path.exists() and not path.is_dir():
            raise ValueError(f"expected a folder, {path} is a file")
    names = options.names or None
    if options.board is not None:
        return _judge(options, names)
    if options.out is not None:
        return _write(options, names)
    from bayes_feasible import _check
    from bayes_feasible.analysis.report.tables import text_table
    from bayes_feasible.analysis.samplers.targets import TARGETS

    for name in names or ():
        if name not in TARGETS:
            raise ValueError(_check.unknown("target", name, TARGETS))
    rows = [[name, TARGETS[name].title] for name in names or TARGETS]
    output.show(text_table(["target", "what it is"], rows))
    return 0


def _write(options: argparse.Namespace, names: list[str] | None) -> int:
    """Write the database, and read it back for its checks."""
    from bayes_feasible.analysis.samplers.database import check_targets, write_targets

    written = write_targets(options.out, names, seed=options.seed, progress=not options.quiet)
    found = check_targets(options.out)
    faulty = [name for name in written if not all(found[name].values())]
    output.show(f"Written: {len(written)} posteriors in {options.out}.")
    if faulty:
        output.show(f"Checks failed: {', '.join(faulty)}.")
        return FAULTY
    output.show("All checks of posteriordb pass, and every draw lies in its set.")
    return 0


def _judge(options: argparse.Namespace, names: list[str] | None) -> int:
    """Judge samplers on the targets."""
    from bayes_feasible.analysis.report.tables import text_table
    from bayes_feasible.analysis.samplers.board import PAGE, board

    result = board(
        options.board, options.samplers, names, draws=options.draws, tune=options.tune,
        chains=options.chains, seed=options.seed, jobs=options.jobs, progress=not options.quiet,
    )  # fmt: skip
    rows = [[str(t), *map(str, result.verdict.sel(target=t).values)] for t in result.target.values]
    output.show(text_table(["target", *map(str, result.sampler.values)], rows))
    output.show(f"\nWritten: {options.board / PAGE}")
    return 0
