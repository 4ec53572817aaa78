"""Problems and instances as one CSV table; `bayes_feasible.files.problems` describes it."""

import csv
import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from bayes_feasible._check import unknown
from bayes_feasible.files.cells import FORMULA
from bayes_feasible.files.documents import Content, Named
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem

VECTOR_KINDS = ("arm", "candidate", "both", "theta_reward", "theta_cost")
VALUE_KINDS = ("threshold", "reward_noise", "cost_noise", "radius_reward", "radius_cost")
SINGLE_KINDS = ("reward_noise", "radius_reward", "radius_cost", "theta_reward")
COLUMNS = ("kind", "name", "value")


@dataclass
class _Row:
    """One row of the table: its place, its name and what it holds."""

    number: int
    kind: str
    name: Any
    content: Any  # a vector, or one number


def read_csv(text: str) -> Content:
    """The content of a table."""
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"not a CSV table: {error}") from None
    if not lines:
        raise ValueError("the file is empty")
    header = _header(lines[0])
    rows = [
        _row(number, header, cells)
        for number, cells in enumerate(lines[1:], start=2)
        if any(cell.strip() for cell in cells)
    ]
    return _from_rows(rows, [column for column in header if column not in _MARKED])


_MARKED = tuple(f"\0{column}" for column in COLUMNS)  # no feature can have such a name


def _header(cells: list[str]) -> list[Any]:
    """The names of the columns; those that are no features are marked."""
    columns = [
        f"\0{cell.strip()}" if cell.strip() in COLUMNS else _cell_name(cell) for cell in cells
    ]
    if None in columns:
        raise ValueError(f"row 1: column {columns.index(None) + 1} has no name")
    seen: set[Any] = set()
    for column in columns:
        if column in seen:
            raise ValueError(f"row 1: the column {str(column).lstrip(chr(0))!r} occurs twice")
        seen.add(column)
    if "\0kind" not in columns:
        near = get_close_matches("kind", [cell.strip() for cell in cells], 1)
        raise ValueError(
            "row 1: no column 'kind'" + (f"; did you mean it by {near[0]!r}?" if near else "")
        )
    return columns


def _row(number: int, header: list[Any], cells: list[str]) -> _Row:
    if len(cells) > len(header):
        raise ValueError(f"row {number}: {len(cells)} cells, but {len(header)} columns")
    cells = cells + [""] * (len(header) - len(cells))
    by_column = dict(zip(header, cells, strict=True))
    kind = by_column.pop("\0kind").strip()
    name = _cell_name(by_column.pop("\0name", ""))
    value = by_column.pop("\0value", "").strip()
    if kind in VECTOR_KINDS:
        if value:
            raise ValueError(f"row {number}: {kind} takes a vector, no value, got {value!r}")
        vector = [_cell_number(number, column, cell) for column, cell in by_column.items()]
        return _Row(number, kind, name, vector)
    if kind not in VALUE_KINDS:
        raise ValueError(f"row {number}: {unknown('kind', kind, VECTOR_KINDS + VALUE_KINDS)}")
    for column, cell in by_column.items():
        if cell.strip():
            raise ValueError(
                f"row {number}: {kind} takes its number in the column 'value', "
                f"got {cell.strip()!r} in {str(column)!r}"
            )
    return _Row(number, kind, name, _cell_number(number, "value", value))


def _cell_name(cell: str) -> Any:
    """A text, a whole number, or None in an empty cell; a text after an apostrophe."""
    if cell.lstrip().startswith("'"):
        return cell.lstrip()[1:]
    text = cell.strip()
    return int(text) if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) else text or None


def _cell_number(row: int, column: Any, cell: str) -> float:
    try:
        if "_" in cell:
            raise ValueError
        return float(cell)
    except ValueError:
        got = repr(cell.strip()) if cell.strip() else "nothing"
        raise ValueError(
            f"row {row}, column {str(column)!r}: expected a number, got {got}"
        ) from None


def _from_rows(rows: list[_Row], features: list[Any]) -> Content:
    def of(*kinds: str) -> list[_Row]:
        return [row for row in rows if row.kind in kinds]

    single = {kind: _single(of(kind)) for kind in SINGLE_KINDS}
    if not of("arm", "both"):
        raise ValueError("arms: missing; expected rows of kind 'arm'")
    options = {}
    if single["reward_noise"] is not None:
        options["reward_noise"] = single["reward_noise"]
    if of("cost_noise"):
        options["cost_noise"] = _by_constraint(of("cost_noise"))
    radii = [single["radius_reward"], single["radius_cost"]]
    if radii != [None, None]:
        options["parameter_radius"] = [math.inf if radius is None else radius for radius in radii]
    own = not of("candidate") and (not of("arm") or not of("both"))
    return Content(
        arms=_named_rows("arm", of("arm", "both")),
        thresholds=_named_rows("threshold", of("threshold")),
        candidates=None if own else _named_rows("candidate", of("candidate", "both")),
        features=features,
        options=options,
        theta_reward=single["theta_reward"],
        theta_cost=_by_constraint(of("theta_cost")) if of("theta_cost") else None,
    )


def _single(rows: list[_Row]) -> Any:
    if len(rows) > 1:
        raise ValueError(f"row {rows[1].number}: {rows[1].kind} occurs more than once")
    if rows and rows[0].name is not None:
        raise ValueError(
            f"row {rows[0].number}: {rows[0].kind} takes no name, got {rows[0].name!r}"
        )
    return rows[0].content if rows else None


def _named_rows(kind: str, rows: list[_Row]) -> Named:
    seen: set[str] = set()
    for row in rows:
        if (row.name is None) != (rows[0].name is None):
            raise ValueError(f"row {row.number}: name every {kind} or none")
        if row.name is not None and str(row.name) in seen:
            raise ValueError(f"row {row.number}: the name {row.name!r} occurs more than once")
        seen.add(str(row.name))
    named = bool(rows) and rows[0].name is not None
    return Named([row.name for row in rows] if named else None, [row.content for row in rows])


def _by_constraint(rows: list[_Row]) -> Any:
    """Names to contents; or in order, or a single number for all, where there are no names."""
    found = _named_rows(rows[0].kind, rows)
    if found.names is not None:
        return dict(zip(found.names, found.values, strict=True))
    single = len(rows) == 1 and rows[0].kind == "cost_noise"
    return found.values[0] if single else found.values


def write_csv(thing: Problem | Instance) -> str:
    """The table of a problem or an instance."""
    problem = thing.problem if isinstance(thing, Instance) else thing
    if not problem.textbook:
        raise ValueError(
            "CSV holds Gaussian outcomes of known noise and absolute thresholds; "
            "for others save to .toml or .json"
        )
    coords = problem.coords
    lines: list[Iterable[str]] = [[*COLUMNS, *map(_name_cell, coords["feature"].tolist())]]
    empty = [""] * len(coords["feature"])

    def vectors(kind: str, names: Iterable[Any], rows: np.ndarray) -> None:
        for name, row in zip(names, rows.tolist(), strict=True):
            lines.append([kind, _name_cell(name), "", *map(repr, row)])

    def values(kind: str, names: Iterable[Any], numbers: Iterable[float]) -> None:
        for name, number in zip(names, numbers, strict=True):
            lines.append([kind, _name_cell(name), repr(float(number)), *empty])

    constraints = coords["constraint"].tolist()
    vectors("arm", coords["arm"].tolist(), problem.arms)
    if problem.candidates is not problem.arms:
        vectors("candidate", coords["candidate"].tolist(), problem.candidates)
    values("threshold", constraints, problem.thresholds)
    values("reward_noise", [None], [problem.reward_noise])
    values("cost_noise", constraints, problem.cost_noise)
    if problem.parameter_radius is not None:
        for kind, radius in zip(
            ("radius_reward", "radius_cost"), problem.parameter_radius, strict=True
        ):
            values(kind, [None], [radius])
    if isinstance(thing, Instance):
        vectors("theta_reward", [None], thing.theta_reward[np.newaxis])
        vectors("theta_cost", constraints, thing.theta_cost)
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines)


def _name_cell(name: Any) -> str:
    """The cell that `_cell_name` reads back as this name."""
    if not isinstance(name, str):
        return "" if name is None else str(name)
    marked = name in COLUMNS or name.startswith("'") or FORMULA.match(name)
    return f"'{name}" if marked or _cell_name(name) != name else name


def _quoted(cell: str) -> str:
    if not re.search(r'[,"\r\n]', cell):
        return cell
    return '"' + cell.replace('"', '""') + '"'
