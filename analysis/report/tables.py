"""Tables for reading."""

import re
from collections.abc import Sequence

from bayes_feasible._display import visible
from bayes_feasible.analysis.report.page import Table

# What is aligned to the right: a number, with its error or unit sign, or nothing.
NUMBER = re.compile(r"(?:[-+−±≥≤<>~≈ ,_.%×–—\d]|(?<=\d)e(?=[-+\d])|inf|nan)*")

SIGNS = re.compile(r"([|*_`<\\])")  # of Markdown


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


def markdown_table(table: Table) -> str:
    r"""Format a table as Markdown, below its caption.

    >>> print(markdown_table(Table("Errors", ["rule", "T = 100"], [["a|b", "0.1"]])))
    **Errors**
    <BLANKLINE>
    | rule | T = 100 |
    | :--- | ---: |
    | a\|b | 0.1 |
    """
    sides = [":---" if i in table.words else "---:" for i in range(len(table.header))]
    rows = [[SIGNS.sub(r"\\\1", _one_line(cell)) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in (table.header, sides, *rows)]
    return "\n".join([f"**{_one_line(table.caption)}**", "", *lines])


def latex_table(table: Table) -> str:
    r"""Format a table as LaTeX, with the rules of `booktabs`.

    >>> print(latex_table(Table("Errors", ["rule", "share"], [["a_b", "5 %"]])))
    \begin{table}
    \caption{Errors}
    \begin{tabular}{lr}
    \toprule
    rule & share \\
    \midrule
    a\_b & 5 \% \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    sides = "".join("l" if i in table.words else "r" for i in range(len(table.header)))
    header, *rows = [
        f"{' & '.join(map(_for_latex, cells))} \\\\" for cells in (table.header, *table.rows)
    ]
    return "\n".join(
        [
            "\\begin{table}", f"\\caption{{{_for_latex(table.caption)}}}",
            f"\\begin{{tabular}}{{{sides}}}", "\\toprule", header, "\\midrule", *rows,
            "\\bottomrule", "\\end{tabular}", "\\end{table}",
        ]
    )  # fmt: skip


LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "≠": r"$\ne$", "Γ": r"$\Gamma$", "η": r"$\eta$", "µ": r"$\mu$",
    "α": r"$\alpha$",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}  # fmt: skip


def _for_latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(visible(text).split())
