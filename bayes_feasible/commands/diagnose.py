"""`bayes-feasible diagnose`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _state as state
from bayes_feasible.commands.sample import add_common

if TYPE_CHECKING:
    import xarray as xr

NOT_TRUSTED = 1
EPILOG = """\
examples:
  bayes-feasible diagnose --target b --quick
  bayes-feasible diagnose --target c --samplers nutpie_component slice
  bayes-feasible diagnose --instance end_of_optimism --pulls 5000 --out board

exit codes:
  0  every sampler has its verdict
  1  with --strict: some sampler is not trusted
  2  the arguments are not right
"""


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    diagnose = add_parser(
        "diagnose",
        help="which samplers can be trusted with the alternative set",
        description="Run samplers on the posterior given that a candidate is not the best\n"
        "feasible one, compare each with the exact answer, and say which can be trusted\n"
        "and why the others cannot.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_common(diagnose)
    which = diagnose.add_mutually_exclusive_group()
    which.add_argument(
        "--samplers",
        nargs="+",
        choices=state.SAMPLERS,
        metavar="NAME",
        help=f"which samplers to run, out of {', '.join(state.SAMPLERS)} (all of them)",
    )
    which.add_argument(
        "--quick", action="store_true", help="one sampler of each kind, without long compilations"
    )
    diagnose.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="samplers to run at the same time (2)"
    )
    diagnose.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the figures, the table and the draws"
    )
    diagnose.add_argument(
        "--strict", action="store_true", help="exit with 1 unless all are trusted"
    )
    diagnose.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the sample, print the scoreboard and write its files."""
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise ValueError(f"--out: expected a folder, {options.out} is a file")
    if options.out is not None:
        _make(options.out)  # before the work
    posterior, alternative = state.state(options)
    from bayes_feasible.analysis.samplers import sample, scoreboard

    names = options.samplers or (sample.QUICK if options.quick else sample.FULL)
    trees = scoreboard.run(
        posterior, alternative, names, draws=options.draws, tune=options.tune,
        chains=options.chains, seed=options.seed, jobs=options.jobs, progress=not options.quiet,
    )  # fmt: skip
    result = scoreboard.judge(trees, posterior, alternative, seed=options.seed)
    if options.json:
        output.show_json(_fields(result))
    else:
        output.show(scoreboard.table(result))
    if options.out is not None:
        written = scoreboard.save(
            result, trees, options.out, posterior=posterior, alternative=alternative
        )
        if not options.json:
            output.show(f"\nWritten: {', '.join(map(str, written))}")
    trusted = bool((result.verdict == "trusted").all())
    return NOT_TRUSTED if options.strict and not trusted else 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"--out: {folder} cannot be made ({error.strerror})") from error


def _fields(result: "xr.Dataset") -> dict[str, Any]:
    """The scoreboard by sampler; what a sampler does not have is null."""
    single = [name for name in result.data_vars if result[name].dims == ("sampler",)]
    return {
        "log_probability": float(result.exact_log_probability),
        "samplers": {
            str(name): {
                figure: _plain(result[figure].sel(sampler=name).item()) for figure in single
            }
            for name in result.sampler.values
        },
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value
