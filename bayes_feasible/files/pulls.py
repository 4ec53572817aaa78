"""Pulls as a CSV table: a column `arm`, a column `reward`, a column for each constraint."""

import csv
import io
import math
from collections.abc import Callable, Iterable
from typing import Any

from bayes_feasible import _check
from bayes_feasible.files.cells import from_cell, to_cell
from bayes_feasible.history import History
from bayes_feasible.problem import Problem


def write_pulls(history: History, *, spreadsheet: bool = False) -> str:
    """The pulls of a history, with the names of arms and constraints and every digit.

    With `spreadsheet`, names that a spreadsheet would take for formulas get an apostrophe in
    front, which `read_pulls` takes away again.
    """
    problem = history.problem
    header = ["arm", "reward", *(_column(name) for name in _constraints(problem))]
    for column, places in _places(header).items():
        if len(places) > 1:
            raise ValueError(
                f"constraints: {column!r} would be two columns of the table; use netCDF (.nc)"
            )
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(to_cell(column, spreadsheet=spreadsheet) for column in header)
    names = [
        to_cell(str(name), spreadsheet=spreadsheet and isinstance(name, str))
        for name in problem.coords["arm"].tolist()
    ]
    for arm, reward, costs in zip(
        history.arms.tolist(), history.rewards.tolist(), history.costs.tolist(), strict=True
    ):
        writer.writerow([names[arm], repr(reward), *map(repr, costs)])
    return out.getvalue()


def read_pulls(text: str, problem: Problem) -> tuple[list[int], list[float], list[list[float]]]:
    """Arms, rewards and costs from a table with a header."""
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    read_arm = _arm_reader(problem)
    arms: list[int] = []
    rewards: list[float] = []
    costs: list[list[float]] = []
    try:
        header = next(rows, [])
        arm, *outcomes = _find_columns(header, problem)
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            where = f"line {rows.line_num}"
            if len(row) != len(header):
                raise ValueError(f"{where}: expected {len(header)} cells, got {len(row)}")
            try:
                arms.append(read_arm(row[arm]))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from None
            first, *rest = (_number(row[i], f"{where}, {header[i]}") for i in outcomes)
            rewards.append(first)
            costs.append(rest)
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from None
    return arms, rewards, costs


def _constraints(problem: Problem) -> list[Any]:
    return problem.coords["constraint"].tolist()


def _column(name: Any) -> str:
    """The column of a constraint; one without a name is numbered."""
    return name if isinstance(name, str) else f"cost_{name}"


def _places(cells: Iterable[str]) -> dict[str, list[int]]:
    """Where each text stands."""
    found: dict[str, list[int]] = {}
    for place, cell in enumerate(cells):
        found.setdefault(cell, []).append(place)
    return found


def _find_columns(header: list[str], problem: Problem) -> list[int]:
    """Where arm, reward and the costs stand: by their very names, or else by ones that will do."""
    expected = [["arm"], ["reward"]]
    names = _constraints(problem)
    expected += [[_column(name), f"cost_{name}", f"cost {name}"] for name in names]
    if len(names) == 1:
        expected[2].append("cost")
    exact = _places(map(from_cell, header))
    bare = _places(from_cell(cell.strip()) for cell in header)
    columns = []
    for first, *others in expected:
        found = exact.get(first) or bare.get(first)
        found = found or [place for name in set(others) for place in bare.get(name, ())]
        if len(found) != 1:
            fault = "is missing" if not found else "occurs more than once"
            raise ValueError(f"line 1: column {first!r} {fault} (there are {', '.join(header)})")
        columns += found
    surplus = sorted(set(range(len(header))) - set(columns))
    if surplus:
        wanted = ", ".join(spellings[0] for spellings in expected)
        raise ValueError(f"line 1: column {header[surplus[0]]!r} is not one of {wanted}")
    return columns


def _arm_reader(problem: Problem) -> Callable[[str], int]:
    """What finds the arm that a cell names, as it is written or without the spaces around it."""
    at = {str(name): place for place, name in enumerate(problem.coords["arm"].tolist())}
    by_number = not any(name.isdecimal() for name in at)

    def read(cell: str) -> int:
        bare = from_cell(cell.strip())
        for name in (from_cell(cell), bare):
            if name in at:
                return at[name]
        return _check.arm(problem, int(bare) if by_number and bare.isdecimal() else bare)

    return read


def _number(text: str, where: str) -> float:
    try:
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: expected a finite number, got {text!r}")
    if abs(number) > _check.LARGEST_OUTCOME:
        raise ValueError(f"{where}: expected at most {_check.LARGEST_OUTCOME:g}, got {text!r}")
    return number
