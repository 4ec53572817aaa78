"""`bayes-feasible diagnose`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _state as state
from bayes_feasible.commands.sample import add_common
from bayes_feasible.files.guard import blame, read_file, read_tree

if TYPE_CHECKING:
    import xarray as xr

NOT_TRUSTED = 1
DRAWS = 1000
EPILOG = """\
examples:
  bayes-feasible diagnose --target b --quick
  bayes-feasible diagnose --target c --samplers nutpie_component slice
  bayes-feasible diagnose --instance end_of_optimism --pulls 5000 --out board
  bayes-feasible diagnose --target b --sampler my_module:function
  bayes-feasible diagnose drug.toml --history pulls.csv --draws mine.nc

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
    text = f"draws of each chain ({DRAWS}); or a netCDF file of draws to judge; may be given again"
    add_common(
        diagnose,
        {"type": _draws, "action": "append", "default": None, "metavar": "N|FILE", "help": text},
    )
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
        "--sampler",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="a sampler of your own, a function of a target; may be given again",
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


def _draws(text: str) -> int | Path:
    """A number of draws, or a file of them."""
    if text.endswith(".nc"):
        return Path(text)
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a whole number or a file with the extension .nc, got {text!r}"
        ) from None


def run(options: argparse.Namespace) -> int:
    """Run the sample, print the scoreboard and write its files."""
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise ValueError(f"--out: expected a folder, {options.out} is a file")
    if options.out is not None:
        _make(options.out)  # before the work
    draws, samplers = _given(options)
    posterior, alternative = state.state(options)
    from bayes_feasible.analysis.samplers import sample, scoreboard

    names = options.samplers or ()
    if not samplers or options.quick:
        names = names or (sample.QUICK if options.quick else sample.FULL)
    trees = scoreboard.run(
        posterior, alternative, {name: name for name in names} | samplers,
        draws=draws, tune=options.tune,
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


def _given(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """How many draws, and the samplers and draws that are not ours, by name."""
    given = options.draws or []
    sizes = [one for one in given if isinstance(one, int)]
    if len(sizes) > 1:
        raise ValueError(f"--draws: expected one number, got {len(sizes)}")
    samplers: dict[str, Any] = {}
    for path in (one for one in given if isinstance(one, Path)):
        with blame(path):
            _add(samplers, path.stem, read_tree(read_file(path)))
    from bayes_feasible._imports import import_object

    for text in options.sampler:
        try:
            found = import_object(text)
        except ValueError as error:
            raise ValueError(f"--sampler: {error}") from error
        _add(samplers, text.rpartition(":")[2], found)
    return (sizes[0] if sizes else DRAWS), samplers


def _add(samplers: dict[str, Any], name: str, sampler: Any) -> None:
    if name in samplers or name in state.SAMPLERS:
        raise ValueError(f"{name}: there is another sampler of this name")
    samplers[name] = sampler


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
