r"""Texts as cells of a CSV table that a spreadsheet shows as they are, and does not calculate.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, unless an
apostrophe stands in front. Reading takes that apostrophe away again, so a text that has one there
of its own is written with another.
"""

import re

FORMULA = re.compile(r"'*[=+\-@\t\r]")


def to_cell(text: str, *, spreadsheet: bool) -> str:
    """Write a text so that `from_cell` gives it back, and for spreadsheets so that it is a text.

    >>> to_cell("=1+1", spreadsheet=True), to_cell("'=1+1", spreadsheet=False)
    ("'=1+1", "''=1+1")
    """
    guarded = FORMULA.match(text) and (spreadsheet or text.startswith("'"))
    return f"'{text}" if guarded else text


def from_cell(cell: str) -> str:
    """Read what `to_cell` wrote.

    >>> from_cell("'=1+1"), from_cell("'Round Midnight")
    ('=1+1', "'Round Midnight")
    """
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
