"""Tables for reading."""

import re
from collections.abc import Sequence

# What is aligned to the right: a number, with its error or unit sign, or nothing.
NUMBER = re.compile(r"(?:[-+−±≥≤<>~≈ ,_.%×–—\d]|(?<=\d)e(?=[-+\d])|inf|nan)*")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be: numbers to the right, words to the left.

    >>> print(text_table(["T", "error"], [["10", "none"], ["100", "some"]]))
      T  error
     10  none
    100  some
    """
    columns = []
    for cells in zip(header, *rows, strict=True):
        width = max(map(len, cells))
        words = not all(NUMBER.fullmatch(cell) for cell in cells[1:-1] or cells[1:])
        columns.append([cell.ljust(width) if words else cell.rjust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))
