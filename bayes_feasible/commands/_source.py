"""Where a command takes its problem or instance from: a file, or a built-in with parameters."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.built_in import BUILT_IN, build_instance

if TYPE_CHECKING:
    from bayes_feasible.instance import Instance
    from bayes_feasible.problem import Problem

NEGATIVE_NUMBER = re.compile(r"^-(\d|\.\d|inf$|nan$)")  # which argparse does not know: -1e-3
FILE = "a .toml, .json or .csv file with the problem and its true parameters"


def add(parser: argparse.ArgumentParser, file: str = FILE) -> argparse._MutuallyExclusiveGroup:
    """Let the parser take a FILE or an --instance, one of the two or of what is added."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, metavar="FILE", help=file)
    source.add_argument(
        "--instance",
        nargs="+",
        metavar=("NAME", "KEY=VALUE"),
        help=f"a built-in instance ({', '.join(BUILT_IN)}), or the import path of a function that "
        "makes one (my_module:function), and its parameters",
    )
    return source


def problem(options: argparse.Namespace) -> "Problem | Instance":
    """What was asked for: an instance if its true parameters are known."""
    from bayes_feasible.files.problems import load

    if not options.instance:
        return load(options.file)
    name, *pairs = options.instance
    try:
        return build_instance(name, _parameters(name, pairs))
    except (TypeError, ValueError) as error:
        raise ValueError(f"--instance: {error}") from error


def named(options: argparse.Namespace) -> dict[str, Any] | None:
    """The instance named by --instance and its parameters, as a specification has it."""
    if not options.instance:
        return None
    name, *pairs = options.instance
    try:
        return {"name": name, **_parameters(name, pairs)}
    except ValueError as error:
        raise ValueError(f"--instance: {error}") from error


def instance(options: argparse.Namespace) -> "Instance":
    """The instance that was asked for."""
    from bayes_feasible.problem import Problem

    found = problem(options)
    if isinstance(found, Problem):
        raise ValueError(
            f"{options.file}: the true parameters are needed, but the file has no theta_reward"
        )
    return found


def bare(found: "Problem | Instance") -> "Problem":
    """A problem without its truth."""
    from bayes_feasible.instance import Instance

    return found.problem if isinstance(found, Instance) else found


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Let the parser take the columns of a table that has names of its own."""
    parser.add_argument(
        "--columns",
        default="",
        metavar="OURS=THEIRS,...",
        help="columns of the table with other names, such as arm=variant,count=visitors; nothing "
        "after = where there is none; columns that are not named are left aside then",
    )


def columns(options: argparse.Namespace) -> dict[str, str | None]:
    """Names of ours and of a table."""
    found: dict[str, str | None] = {}
    for pair in filter(None, options.columns.split(",")):
        ours, equals, theirs = pair.partition("=")
        if not equals or ours in found:
            fault = "is given twice" if equals else "expected OURS=THEIRS"
            raise ValueError(f"--columns: {pair}: {fault}")
        found[ours] = theirs or None
    return found


def _parameters(name: str, pairs: list[str]) -> dict[str, Any]:
    """Parameters given as `key=value`."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"{name}: expected KEY=VALUE, got {pair!r}")
        if key in values:
            raise ValueError(f"{name}: {key} is given twice")
        values[key] = _value(text)
    return values


def _value(text: str) -> int | float | str:
    """A whole number, a number or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
