"""Pulls as a CSV table: a column `arm`, and one for the reward and for each constraint.

Where rows sum up many pulls a column `count` stands beside them, and before the name of an outcome
`sd_` for the standard deviation that makes it a mean.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from bayes_feasible import _check
from bayes_feasible.files.cells import from_cell, to_cell
from bayes_feasible.history import History
from bayes_feasible.outcomes import REWARD
from bayes_feasible.problem import Problem
from bayes_feasible.sums import read_rows

UNSEEN = ("", "nan", "na")  # cells of what was not seen (yet)
ARM, COUNT, SPREAD = "arm", "count", "sd_"


def write_pulls(history: History, *, spreadsheet: bool = False) -> str:
    """The pulls of a history, with the names of arms and constraints and every digit.

    With `spreadsheet`, names that a spreadsheet would take for formulas get an apostrophe in
    front, which `read_pulls` takes away again.
    """
    problem, outcomes = history.problem, history.problem.outcome_names
    header, numbers = [ARM, *outcomes], [history.rewards, *history.costs.T]
    if (history.counts != 1).any() or not np.isnan(history.sds).all():
        given = np.flatnonzero(~np.isnan(history.sds).all(axis=0))
        header += [COUNT, *(f"{SPREAD}{outcomes[b]}" for b in given)]
        numbers += [history.counts, *history.sds[:, given].T]
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
    for arm, *row in zip(history.arms.tolist(), *(one.tolist() for one in numbers), strict=True):
        cells = ["" if math.isnan(number) else repr(number) for number in row]
        writer.writerow([names[arm], *cells])
    return out.getvalue()


def read_pulls(
    text: str, problem: Problem, columns: Mapping[str, str | None] | None = None
) -> History:
    """The history in a table with a header.

    `columns` says which columns of the table are meant by names of ours; others are then left
    aside.
    """
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    read_arm = _arm_reader(problem)
    arms: list[int] = []
    table: list[list[float]] = []
    lines: list[int] = []
    outcomes = problem.outcome_names
    wanted = [*outcomes, COUNT, *(f"{SPREAD}{name}" for name in outcomes)]
    try:
        header = next(rows, [])
        at = _find_columns(header, problem, columns or {})
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            where = f"line {rows.line_num}"
            if len(row) != len(header):
                raise ValueError(f"{where}: expected {len(header)} cells, got {len(row)}")
            try:
                arms.append(read_arm(row[at[ARM]]))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from None
            lines.append(rows.line_num)
            table.append([
                _number(row[at[name]], f"{where}, {header[at[name]]}") if name in at else math.nan
                for name in wanted
            ])  # fmt: skip
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from None
    numbers, many = np.array(table, dtype=float).reshape(len(arms), len(wanted)), len(outcomes)
    count = numbers[:, many] if COUNT in at else np.ones(len(arms))
    parts = numbers[:, 0], numbers[:, 1:many], count, numbers[:, many + 1 :]
    try:
        return History(problem, arms, *parts[:3], sds=parts[3])
    except ValueError as error:
        for line, arm, *part in zip(lines, arms, *parts, strict=True):
            try:
                read_rows(problem, arm, *part)
            except ValueError as fault:
                raise ValueError(f"line {line}: {fault}") from None
        raise error


def _places(cells: Iterable[str]) -> dict[str, list[int]]:
    """Where each text stands."""
    found: dict[str, list[int]] = {}
    for place, cell in enumerate(cells):
        found.setdefault(cell, []).append(place)
    return found


def _find_columns(
    header: list[str], problem: Problem, columns: Mapping[str, str | None]
) -> dict[str, int]:
    """Where each quantity stands: as `columns` says, under its very name, or one that will do."""
    outcomes, constraints = problem.outcome_names, problem.coords["constraint"].tolist()
    for name, places in _places([ARM, *outcomes]).items():
        if len(places) > 1:
            raise ValueError(f"constraints: {name!r} would be two columns of the table")
    will_do: dict[str, list[str]] = {ARM: [], outcomes[0]: [REWARD]}
    for name, constraint in zip(outcomes[1:], constraints, strict=True):
        will_do[name] = [f"cost_{constraint}", f"cost {constraint}"]
    if len(constraints) == 1:
        will_do[outcomes[1]].append("cost")
    optional = {COUNT, *(f"{SPREAD}{name}" for name in outcomes)} - set(will_do)
    known = [*will_do, *sorted(optional)]
    for name in columns:
        if name not in known:
            raise ValueError(f"columns: {_check.unknown('quantity', name, known)}")
    exact = _places(map(from_cell, header))
    bare = _places(from_cell(cell.strip()) for cell in header)
    at: dict[str, int] = {}
    for name in known:
        first = columns.get(name, name)
        if first is None:
            if name == ARM:
                raise ValueError("columns: the arm cannot be left out")
            continue
        found = exact.get(first) or bare.get(first) or []
        if not found and name not in columns:
            others = set(will_do.get(name, [])) - {name}
            found = [place for other in others for place in bare.get(other, ())]
        if not found and name in optional and name not in columns:
            continue
        if len(found) != 1:
            fault = "is missing" if not found else "occurs more than once"
            raise ValueError(f"line 1: column {first!r} {fault} (there are {', '.join(header)})")
        at[name] = found[0]
    surplus = sorted(set(range(len(header))) - set(at.values()))
    if surplus and not columns:
        wanted = ", ".join([*will_do, COUNT])
        raise ValueError(f"line 1: column {header[surplus[0]]!r} is not one of {wanted}")
    return at


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
    if text.strip().lower() in UNSEEN:
        return math.nan
    try:
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: expected a finite number, got {text!r}")
    if abs(number) > _check.LARGEST_OUTCOME:
        raise ValueError(f"{where}: expected at most {_check.LARGEST_OUTCOME:g}, got {text!r}")
    return number
