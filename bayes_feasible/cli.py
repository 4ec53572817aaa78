"""The command `bayes-feasible`.

Nothing heavy is imported before it is needed, so that help and mistakes answer at once.
"""

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xarray import DataArray

    from bayes_feasible.instance import Instance
    from bayes_feasible.rate import Rate

BUILT_IN = ("end_of_optimism", "random_ball", "soare", "movielens")
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
SHOWN = 20  # rows of a table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the name of the command; taken from the command line by default.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        print(f"bayes-feasible {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


class _Version(argparse.Action):
    """Look the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import bayes_feasible

        print(f"bayes-feasible {bayes_feasible.__version__}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bayes-feasible",
        description="Find the best option that meets its constraints, and know how sure that is.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_study(commands.add_parser)
    _add_rate(commands.add_parser)
    return parser


def _add_study(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
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
    study.set_defaults(run=_study)


def _add_rate(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    rate = add_parser(
        "rate",
        help="the optimal rate of an instance",
        description="The fastest possible decay of the probability of error, with a certificate, "
        "the allocation of pulls that reaches it, and the mistake that is hardest to rule out.",
        epilog="examples: bayes-feasible rate --instance end_of_optimism alpha=0.2; "
        "bayes-feasible rate --instance random_ball d=5 k=20 seed=1 --json; "
        "bayes-feasible rate drug.toml",
    )
    source = rate.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="a .toml, .json or .csv file with the problem and its true parameters",
    )
    source.add_argument(
        "--instance",
        nargs="+",
        metavar=("NAME", "KEY=VALUE"),
        help=f"a built-in instance ({', '.join(BUILT_IN)}) and its parameters",
    )
    rate.add_argument("--json", action="store_true", help="print JSON instead of tables")
    rate.set_defaults(run=_rate)


def _study(options: argparse.Namespace) -> None:
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"--out: expected a folder, {options.out} is a file")
    from bayes_feasible.analysis import study

    result = study.end_of_optimism_study()
    if not options.quiet:
        print(study.tables(result), flush=True)
    written = study.save(result, options.out)
    if not options.quiet:
        print(f"\nWritten: {', '.join(map(str, written))}")


def _rate(options: argparse.Namespace) -> None:
    if options.instance:
        instance = _built_in(*options.instance)
    else:
        instance = _from_file(options.file)
    from bayes_feasible.rate import optimal_rate

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rate = optimal_rate(instance)
    for warning in caught:
        print(f"bayes-feasible rate: warning: {warning.message}", file=sys.stderr)
    if options.json:
        print(json.dumps(_plain(_rate_fields(instance, rate)), indent=2, ensure_ascii=False))
    else:
        print(_rate_text(instance, rate))


def _from_file(path: Path) -> "Instance":
    import bayes_feasible as bf

    loaded = bf.load(path)
    if not isinstance(loaded, bf.Instance):
        raise ValueError(
            f"{path}: the rate depends on the true parameters, but the file has no theta_reward"
        )
    return loaded


def _built_in(name: str, *pairs: str) -> "Instance":
    """The built-in instance of this name with parameters given as `key=value`."""
    if name not in BUILT_IN:
        raise ValueError(f"--instance: expected one of {', '.join(BUILT_IN)}, got {name!r}")
    import inspect

    from bayes_feasible import instances

    build = getattr(instances, name)
    known = inspect.signature(build).parameters
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"--instance {name}: expected KEY=VALUE, got {pair!r}")
        if key not in known:
            raise ValueError(
                f"--instance {name}: expected a key out of {', '.join(known)}, got {key!r}"
            )
        if key in values:
            raise ValueError(f"--instance {name}: {key} is given twice")
        values[key] = _value(text)
    missing = [
        key
        for key, parameter in known.items()
        if parameter.default is parameter.empty and key not in values
    ]
    if missing:
        raise ValueError(f"--instance {name}: {', '.join(missing)} must be given, as KEY=VALUE")
    return build(**values)


def _value(text: str) -> int | float | str:
    """A whole number, a number or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _rate_fields(instance: "Instance", rate: "Rate") -> dict[str, Any]:
    """What the command reports, by name."""
    problem = instance.problem
    return {
        "rate": rate.value,
        "lower": rate.lower,
        "upper": rate.upper,
        "best": problem.name(instance.best),
        "hardest": None if rate.hardest is None else problem.name(rate.hardest),
        "mistake": rate.mistake,
        "allocation": _by_name(rate.allocation),
        "exponents": _by_name(rate.exponents),
    }


def _by_name(values: "DataArray") -> dict[str, float]:
    names = values.coords[values.dims[0]].values
    return {str(name): float(value) for name, value in zip(names, values.values, strict=True)}


def _rate_text(instance: "Instance", rate: "Rate") -> str:
    fields = _rate_fields(instance, rate)
    hardest = "nothing: no mistake is possible"
    if rate.hardest is not None:
        hardest = f"{fields['hardest']} ({fields['mistake']})"
    shares = sorted(fields["allocation"].items(), key=lambda item: -item[1])
    kinds = dict(zip(fields["exponents"], instance.kind, strict=True))
    exponents = sorted(fields["exponents"].items(), key=lambda item: item[1])
    return "\n".join(
        [
            f"Γ = {rate.value:.10g} nats per pull, certified to lie between "
            f"{rate.lower:.12g} and {rate.upper:.12g}",
            f"Best feasible candidate: {fields['best']}",
            f"Hardest to rule out: {hardest}",
            "",
            "Optimal allocation w*: arms that get pulls, and their shares",
            _first_rows(
                ["arm", "share"], [[arm, f"{share:.6f}"] for arm, share in shares if share > 0]
            ),
            "",
            "Exponent of each candidate under w*: the smallest is Γ",
            _first_rows(
                ["candidate", "exponent", "kind"],
                [[name, f"{value:.8g}", str(kinds[name])] for name, value in exponents],
            ),
        ]
    )


def _first_rows(header: list[str], rows: list[list[str]]) -> str:
    """A table that fits a screen."""
    from bayes_feasible.analysis.study import text_table

    table = text_table(header, rows[:SHOWN])
    hidden = len(rows) - SHOWN
    return f"{table}\n... and {hidden} more (--json shows all)" if hidden > 0 else table


def _plain(value: Any) -> Any:
    """Numbers that JSON knows; infinities become the text "inf", as in instance files."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
