"""What commands print, for people and for programs."""

import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and line breaks


class Unwritten(Exception):
    """The standard output takes no more, although the command did what it was asked."""


def show(text: str) -> None:
    """Print lines; control characters in names cannot steer the terminal."""
    with _reported():
        print(visible(text), end="" if text.endswith("\n") else "\n", flush=True)


def pass_on(text: str) -> None:
    """Write what another program is to read, as it is; on a terminal, `show` it."""
    if sys.stdout.isatty():
        show(text)
        return
    with _reported():
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(f"done, but the output could not be written ({error.strerror})") from error


def show_json(fields: Any) -> None:
    """Print JSON."""
    show(json.dumps(plain(fields), indent=2, ensure_ascii=False))


def keep(source: Path, out: Path) -> None:
    """Refuse to write over what was read."""
    if out.exists() and out.samefile(source):
        raise ValueError(f"--out: {out} would be replaced, which holds what is to be read")


def visible(text: str) -> str:
    r"""The text with each control character as it would be typed.

    >>> visible("\x1b[31mred")
    '\\x1b[31mred'
    """
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def plain(value: Any) -> Any:
    """Numbers that JSON knows; infinities become the text "inf", as in instance files."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
