"""What commands print, for people and for programs."""

import math
import sys
from pathlib import Path
from typing import Any

from bayes_feasible._display import visible, visible_json

LONGEST = 1000  # characters of a message


class Unwritten(Exception):
    """The standard output takes no more, although the command did what it was asked."""


def show(text: str) -> None:
    """Print lines; control characters in names cannot steer the terminal."""
    _print(visible(text))


def show_json(fields: Any) -> None:
    """Print JSON."""
    _print(visible_json(plain(fields)))


def show_file(text: str) -> None:
    """Print what is to be read as a file: as it is, unless a person is watching."""
    _print(visible(text) if sys.stdout.isatty() else text)


def complain(command: str, message: Any) -> None:
    """Print a line on the standard error."""
    line = visible(" ".join(str(message).splitlines()))
    if len(line) > LONGEST:  # it quotes a file that holds anything
        line = f"{line[:LONGEST]} ..."
    print(f"bayes-feasible {command}: {line}", file=sys.stderr)


def _print(text: str) -> None:
    try:
        print(text, end="" if text.endswith("\n") else "\n", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(f"done, but the output could not be written ({error.strerror})") from error


def keep(source: Path, out: Path) -> None:
    """Refuse to write over what was read."""
    if out.exists() and out.samefile(source):
        raise ValueError(f"--out: refusing to overwrite the input file {out}")


def plain(value: Any) -> Any:
    """Numbers that JSON knows; infinities become the text "inf", as in instance files."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
