"""Pulls as a CSV table: a column `arm`, a column `reward`, a column for each constraint."""

import csv
import io
import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from bayes_feasible import _check
from bayes_feasible.history import History
from bayes_feasible.problem import Problem

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet computes, or runs, begins so


def write_pulls(history: History, *, spreadsheet: bool = False) -> str:
    """The pulls of a history, with the names of arms and constraints and every digit.

    For a spreadsheet a name that it would take for a formula gets an apostrophe in front, which
    `read_pulls` takes off again.
    """
    problem = history.problem
    header = ["arm", "reward", *(_column(name) for name in _constraints(problem))]
    for column in header:
        if header.count(column) > 1:
            raise ValueError(
                f"constraints: {column!r} would be two columns of the table; use netCDF (.nc)"
            )
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    names = problem.coords["arm"].tolist()
    if spreadsheet:
        for name in [*header, *names]:
            if _quoted(name) != name and _quoted(name) in [*header, *names]:
                raise ValueError(f"spreadsheet: {name!r} and {_quoted(name)!r} would look the same")
        header, names = list(map(_quoted, header)), list(map(_quoted, names))
    writer.writerow(header)
    for arm, reward, costs in zip(
        history.arms.tolist(), history.rewards.tolist(), history.costs.tolist(), strict=True
    ):
        writer.writerow([names[arm], repr(reward), *map(repr, costs)])
    return out.getvalue()


def read_pulls(text: str, problem: Problem) -> tuple[list[int], list[float], list[list[float]]]:
    """Arms, rewards and costs from a table with a header."""
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = next(rows, [])
        columns = _find_columns(header, problem)
        arms: list[int] = []
        rewards: list[float] = []
        costs: list[list[float]] = []
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            where = f"line {rows.line_num}"
            if len(row) != len(header):
                raise ValueError(f"{where}: expected {len(header)} cells, got {len(row)}")
            try:
                arms.append(_arm(row[columns[0]], problem))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from None
            first, *rest = (_number(row[i], f"{where}, {header[i]}") for i in columns[1:])
            rewards.append(first)
            costs.append(rest)
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from None
    return arms, rewards, costs


def _quoted(name: Any) -> Any:
    return f"'{name}" if isinstance(name, str) and name.startswith(FORMULA) else name


def _bare(cell: str) -> str:
    """A name without the apostrophe that `write_pulls` puts in front for a spreadsheet."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def _constraints(problem: Problem) -> list[Any]:
    return problem.coords["constraint"].tolist()


def _column(name: Any) -> str:
    """The column of a constraint; one without a name is numbered."""
    return name if isinstance(name, str) else f"cost_{name}"


def _find_columns(header: list[str], problem: Problem) -> list[int]:
    """Where arm, reward and the costs stand."""
    expected = [["arm"], ["reward"]]
    names = _constraints(problem)
    for name in names:
        expected.append([_column(name), f"cost_{name}", f"cost {name}"])
    if len(names) == 1:
        expected[2].append("cost")
    columns = [_place(header, spellings) for spellings in expected]
    surplus = [cell for i, cell in enumerate(header) if i not in columns]
    if surplus:
        wanted = ", ".join(spellings[0] for spellings in expected)
        raise ValueError(f"line 1: column {surplus[0]!r} is not one of {wanted}")
    return columns


def _arm(cell: str, problem: Problem) -> int:
    """The arm that a cell names: as it is written, without the apostrophe, or without spaces."""
    for name in dict.fromkeys((cell, _bare(cell))):
        if name != cell.strip():
            with suppress(ValueError):
                return _check.arm(problem, name)
    return _check.arm(problem, cell.strip())


def _place(header: list[str], spellings: Iterable[str]) -> int:
    """Where a column stands: by its very name, or else by one that will do."""
    first, *others = spellings
    bare, quoted = [cell.strip() for cell in header], list(map(_bare, header))
    for cells, names in ((header, [first]), (quoted, [first]), (bare, [first]), (bare, others)):
        found = [i for i, cell in enumerate(cells) if cell in names]
        if found:
            break
    if len(found) != 1:
        problem = "is missing" if not found else "occurs more than once"
        raise ValueError(f"line 1: column {first!r} {problem} (there are {', '.join(header)})")
    return found[0]


def _number(text: str, where: str) -> float:
    try:
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: expected a finite number, got {text!r}")
    return number
