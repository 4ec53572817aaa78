"""Where a command takes its instance from: a file, or a built-in with parameters."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_feasible.instance import Instance

NEGATIVE_NUMBER = re.compile(r"^-(\d|\.\d|inf$|nan$)")  # which argparse does not know: -1e-3
BUILT_IN = ("end_of_optimism", "random_ball", "soare", "movielens")


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
        return built_in(name, values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"--instance: {error}") from error


def built_in(name: Any, parameters: Mapping[str, Any]) -> "Instance":
    """The built-in instance of this name; a misspelt name or parameter is told the right one."""
    import inspect

    from bayes_feasible import instances
    from bayes_feasible._check import unknown

    if name not in BUILT_IN:
        raise ValueError(unknown("built-in", name, BUILT_IN))
    build = getattr(instances, name)
    known = inspect.signature(build).parameters
    for key in parameters:
        if key not in known:
            raise ValueError(f"{name}: {unknown('parameter', key, known)}")
    missing = [
        key
        for key, parameter in known.items()
        if parameter.default is parameter.empty and key not in parameters
    ]
    if missing:
        raise ValueError(f"{name}: {', '.join(missing)} must be given")
    return build(**parameters)


def _value(text: str) -> int | float | str:
    """A whole number, a number or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
