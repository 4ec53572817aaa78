"""Where a command takes its instance from: a file, or a built-in with parameters."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.built_in import BUILT_IN, build_instance

if TYPE_CHECKING:
    from bayes_feasible.instance import Instance

NEGATIVE_NUMBER = re.compile(r"^-(\d|\.\d|inf$|nan$)")  # which argparse does not know: -1e-3


def add(parser: argparse.ArgumentParser) -> None:
    """Let the parser take a FILE or an --instance, one of the two."""
    source = parser.add_mutually_exclusive_group(required=True)
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


def instance(options: argparse.Namespace) -> "Instance":
    """The instance that was asked for."""
    if options.instance:
        name, *pairs = options.instance
        return _named(name, pairs)
    return _from_file(options.file)


def _from_file(path: Path) -> "Instance":
    import bayes_feasible as bf

    loaded = bf.load(path)
    if not isinstance(loaded, bf.Instance):
        raise ValueError(
            f"{path}: the true parameters are needed, but the file has no theta_reward"
        )
    return loaded


def _named(name: str, pairs: list[str]) -> "Instance":
    """The built-in instance of this name with parameters given as `key=value`."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"--instance: {name}: expected KEY=VALUE, got {pair!r}")
        if key in values:
            raise ValueError(f"--instance: {name}: {key} is given twice")
        values[key] = _value(text)
    try:
        return build_instance(name, values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"--instance: {error}") from error


def _value(text: str) -> int | float | str:
    """A whole number, a number or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
