r"""Problems and instances in files: TOML, JSON or CSV, by the extension of the path.

TOML and JSON use the names of the arguments of `Problem` and `Instance`. Only `arms` is required::

    cost_noise = 0.5

    [thresholds]
    toxicity = 0.3

    [arms]
    low = [1, 0.2]
    high = [1, 0.9]

`features` may list the names of the features. Names that are numbers other than 0, 1, 2, ... are
written ``arms = [{name = 10, vector = [1, 0.2]}]`` and ``thresholds = [{name = 10, value = 0.3}]``.
JSON is strict: an infinite threshold is the string "inf".

CSV is one table. The column `kind` says what a row is; `name` and `value` may be left out where
nothing needs them; every other column is a feature::

    kind,name,value,constant,dose
    arm,low,,1,0.2
    arm,high,,1,0.9
    threshold,toxicity,0.3,,
    cost_noise,toxicity,0.5,,

A name that is a whole number is read as a number; an apostrophe in front of a name makes it text
(``'7``), as in a spreadsheet. The kinds are `arm`, `candidate`, `both` (an arm that is a candidate
too), `theta_reward` and `theta_cost`, which hold a vector, and `threshold`, `reward_noise`,
`cost_noise`, `radius_reward` and `radius_cost`, which hold a value. Without a row of kind
`candidate` or `both`, the arms are the candidates.
"""

import contextlib
import csv
import io
import json
import math
import os
import re
import secrets
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from bayes_feasible import _check
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem

KEYS = (
    *("arms", "thresholds", "candidates", "features", "reward_noise", "cost_noise"),
    *("parameter_radius", "theta_reward", "theta_cost"),
)
VECTOR_KINDS = ("arm", "candidate", "both", "theta_reward", "theta_cost")
VALUE_KINDS = ("threshold", "reward_noise", "cost_noise", "radius_reward", "radius_cost")
SINGLE_KINDS = ("reward_noise", "radius_reward", "radius_cost", "theta_reward")
COLUMNS = ("kind", "name", "value")


def load(path: str | os.PathLike[str]) -> Problem | Instance:
    r"""Read a problem, or an instance if the file holds the true parameters.

    Parameters
    ----------
    path : path
        A file with the extension .toml, .json or .csv; `bayes_feasible.files` describes them.

    Raises
    ------
    ValueError
        If the file cannot be understood; the message begins with the path.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "drug.csv")
    ...     _ = path.write_text("kind,name,dose\narm,low,0.2\narm,high,0.9\n")
    ...     load(path)
    Problem: 2 arms, 2 candidates (the arms), 1 feature, 0 constraints
      reward noise 1
    """
    file, (read, _) = _recognise(path)
    if not file.exists():
        raise FileNotFoundError(f"{file}: no such file")
    try:
        return _build(read(file.read_bytes().decode("utf-8-sig")))
    except RecursionError:
        raise ValueError(f"{file}: values are nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: expected text in UTF-8 ({error})") from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def save(thing: Problem | Instance, path: str | os.PathLike[str]) -> None:
    """Write a problem or an instance so that `load` gives back an equal one.

    Every number keeps all its digits. The file is replaced in one step: a write that fails leaves
    what was there before.

    Parameters
    ----------
    thing : Problem or Instance
    path : path
        Its extension, .toml, .json or .csv, decides the format.

    Examples
    --------
    >>> import tempfile
    >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(problem, Path(folder, "drug.toml"))
    ...     print(Path(folder, "drug.toml").read_text())
    ...     load(Path(folder, "drug.toml")) == problem
    reward_noise = 1.0
    <BLANKLINE>
    [arms]
    low = [1.0, 0.2]
    high = [1.0, 0.9]
    <BLANKLINE>
    [thresholds]
    toxicity = 0.3
    <BLANKLINE>
    [cost_noise]
    toxicity = 1.0
    <BLANKLINE>
    True
    """
    if not isinstance(thing, Problem | Instance):
        raise ValueError(f"thing: expected a Problem or an Instance, got {type(thing).__name__}")
    file, (_, write) = _recognise(path)
    try:
        content = write(thing).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{file}: a name cannot be written as UTF-8 text ({error})") from error
    _replace(file, content)


# --- what a file holds, whatever its format -----------------------------------------------------


@dataclass
class _Named:
    """Values in order, with their names if they have any."""

    names: list[Any] | None
    values: Any


@dataclass
class _Content:
    """The arguments of a `Problem` and its truth, as read from a file."""

    arms: _Named
    thresholds: _Named
    candidates: _Named | None
    features: list[Any] | None
    options: dict[str, Any]
    theta_reward: Any = None
    theta_cost: Any = None


def _build(content: _Content) -> Problem | Instance:
    limits, names = content.thresholds.values, content.thresholds.names
    if names is not None:
        limits = pd.Series(_check.numbers("thresholds", limits, infinite=True), index=names)
    candidates = content.candidates
    problem = Problem(
        _frame("arms", content.arms, content.features),
        limits,
        candidates=candidates and _frame("candidates", candidates, content.features),
        **content.options,
    )
    if content.theta_reward is None:
        if content.theta_cost is not None:
            raise ValueError("theta_cost: given without theta_reward")
        return problem
    return Instance(problem, content.theta_reward, content.theta_cost)


def _frame(name: str, vectors: _Named, features: list[Any] | None) -> pd.DataFrame:
    table = _check.table(name, vectors.values, name.rstrip("s"))[0]
    if features is not None and len(features) != table.shape[1]:
        raise ValueError(f"features: expected {table.shape[1]} names, got {len(features)}")
    return pd.DataFrame(table, index=vectors.names, columns=features)


# --- TOML and JSON: the same document -----------------------------------------------------------


def _from_document(document: Any) -> _Content:
    if not isinstance(document, dict):
        raise ValueError(f"expected a table of {', '.join(KEYS)}, got {type(document).__name__}")
    for key in document:
        if key not in KEYS:
            raise ValueError(_unknown("key", key, KEYS))
    if "arms" not in document:
        raise ValueError("arms: missing")
    options = {key: document[key] for key in ("reward_noise", "cost_noise") if key in document}
    if "parameter_radius" in document:
        options["parameter_radius"] = _infinities(document["parameter_radius"])
    thresholds = _named("thresholds", document.get("thresholds", []), "value")
    thresholds.values = _infinities(thresholds.values)
    candidates = document.get("candidates")
    return _Content(
        arms=_named("arms", document["arms"], "vector"),
        thresholds=thresholds,
        candidates=None if candidates is None else _named("candidates", candidates, "vector"),
        features=_features(document.get("features")),
        options=options,
        theta_reward=document.get("theta_reward"),
        theta_cost=document.get("theta_cost"),
    )


def _named(key: str, value: Any, content: str) -> _Named:
    """A table of names to values, a list of {name, value} tables, or bare values."""
    if isinstance(value, dict):
        return _Named(list(value), list(value.values()))
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return _Named(None, value)
    wanted = ("name", content)
    for item in value:
        if not isinstance(item, dict):
            raise ValueError(f"{key}: expected all of the list with names or none of it")
        for field in item:
            if field not in wanted:
                raise ValueError(f"{key}: {_unknown('key', field, wanted)}")
        if set(item) != set(wanted):
            raise ValueError(f"{key}: expected name and {content}, got only {', '.join(item)}")
    return _Named([_name(key, item["name"]) for item in value], [item[content] for item in value])


def _name(key: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{key}: expected a text or a whole number as a name, got {value!r}")
    return value


def _features(value: Any) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError(f"features: expected a list of names, got {value!r}")
    return [_name("features", item) for item in value]


def _infinities(value: Any) -> Any:
    """The value with each string "inf" turned into the number."""
    if isinstance(value, list):
        return [_infinities(item) for item in value]
    return math.inf if isinstance(value, str) and value == "inf" else value


def _to_document(thing: Problem | Instance) -> dict[str, Any]:
    problem = thing.problem if isinstance(thing, Instance) else thing
    coords, constraints = problem.coords, problem.coords["constraint"]
    document: dict[str, Any] = {}
    if not _default(coords["feature"]):
        document["features"] = coords["feature"].tolist()
    document["reward_noise"] = problem.reward_noise
    if problem.parameter_radius is not None:
        document["parameter_radius"] = list(problem.parameter_radius)
    document["arms"] = _with_names(coords["arm"], problem.arms, "vector")
    if problem.candidates is not problem.arms:
        document["candidates"] = _with_names(coords["candidate"], problem.candidates, "vector")
    if problem.thresholds.size:
        document["thresholds"] = _with_names(constraints, problem.thresholds, "value")
        document["cost_noise"] = _in_order(constraints, problem.cost_noise)
    if isinstance(thing, Instance):
        document["theta_reward"] = thing.theta_reward.tolist()
        if problem.thresholds.size:
            document["theta_cost"] = _in_order(constraints, thing.theta_cost)
    return document


def _default(names: np.ndarray) -> bool:
    return names.dtype.kind != "U" and names.tolist() == list(range(len(names)))


def _with_names(names: np.ndarray, values: np.ndarray, content: str) -> Any:
    if names.dtype.kind == "U" or _default(names):
        return _in_order(names, values)
    pairs = zip(names.tolist(), values.tolist(), strict=True)
    return [{"name": name, content: value} for name, value in pairs]


def _in_order(names: np.ndarray, values: np.ndarray) -> Any:
    """A table where the names are texts, else a list in the order of the names."""
    if names.dtype.kind == "U":
        return dict(zip(names.tolist(), values.tolist(), strict=True))
    return values.tolist()


def _read_toml(text: str) -> _Content:
    return _from_document(tomllib.loads(text))


def _write_toml(thing: Problem | Instance) -> str:
    text = tomli_w.dumps(_to_document(thing))
    # One line a vector. Texts are written on one line and in quotes, so none can match.
    return re.sub(r"\[\n([^\[\]{}\"]*?),?\s*\]", _one_line, text)


def _one_line(match: re.Match[str]) -> str:
    return "[" + ", ".join(item.strip() for item in match[1].split(",")) + "]"


def _read_json(text: str) -> _Content:
    return _from_document(
        json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice}: the key occurs more than once")
    return table


def _no_constant(text: str) -> float:
    raise ValueError(f'{text} is not JSON; write "inf" for an infinite threshold')


def _write_json(thing: Problem | Instance) -> str:
    document = _to_document(thing)
    for key in ("thresholds", "parameter_radius"):
        if key in document:
            document[key] = _strict(document[key])
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    # One line a vector. Texts are written on one line and in quotes, so none can match.
    return re.sub(r"\[\n([^\[\]{}\"]*?),?\s*\]", _one_line, text) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return "inf" if value == math.inf else value


# --- CSV ----------------------------------------------------------------------------------------


@dataclass
class _Row:
    """One row of the table: its place, its name and what it holds."""

    number: int
    kind: str
    name: Any
    content: Any  # a vector, or one number


def _read_csv(text: str) -> _Content:
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
    for column in columns:
        if columns.count(column) > 1:
            raise ValueError(f"row 1: the column {str(column).lstrip(chr(0))!r} occurs twice")
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
        raise ValueError(f"row {number}: {_unknown('kind', kind, VECTOR_KINDS + VALUE_KINDS)}")
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


def _from_rows(rows: list[_Row], features: list[Any]) -> _Content:
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
    return _Content(
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


def _named_rows(kind: str, rows: list[_Row]) -> _Named:
    seen: set[str] = set()
    for row in rows:
        if (row.name is None) != (rows[0].name is None):
            raise ValueError(f"row {row.number}: name every {kind} or none")
        if row.name is not None and str(row.name) in seen:
            raise ValueError(f"row {row.number}: the name {row.name!r} occurs more than once")
        seen.add(str(row.name))
    named = bool(rows) and rows[0].name is not None
    return _Named([row.name for row in rows] if named else None, [row.content for row in rows])


def _by_constraint(rows: list[_Row]) -> Any:
    """Names to contents; or in order, or a single number for all, where there are no names."""
    found = _named_rows(rows[0].kind, rows)
    if found.names is not None:
        return dict(zip(found.names, found.values, strict=True))
    single = len(rows) == 1 and rows[0].kind == "cost_noise"
    return found.values[0] if single else found.values


def _write_csv(thing: Problem | Instance) -> str:
    problem = thing.problem if isinstance(thing, Instance) else thing
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
    plain = name not in COLUMNS and not name.startswith("'") and _cell_name(name) == name
    return name if plain else f"'{name}"


def _quoted(cell: str) -> str:
    if not re.search(r'[,"\r\n]', cell):
        return cell
    return '"' + cell.replace('"', '""') + '"'


# --- files --------------------------------------------------------------------------------------

_FORMATS: dict[str, tuple[Callable[[str], _Content], Callable[[Problem | Instance], str]]] = {
    ".toml": (_read_toml, _write_toml),
    ".json": (_read_json, _write_json),
    ".csv": (_read_csv, _write_csv),
}


def _recognise(path: Any) -> tuple[Path, Any]:
    """The path, and the reader and the writer for its extension."""
    try:
        file = Path(os.fsdecode(path))
    except TypeError:
        raise ValueError(f"path: expected the path of a file, got {path!r}") from None
    if file.is_dir():
        raise ValueError(f"{file}: expected a file, this is a folder")
    if file.suffix.lower() not in _FORMATS:
        expected = ", ".join(_FORMATS)
        raise ValueError(f"{file}: expected the extension {expected}, got {file.suffix!r}")
    return file, _FORMATS[file.suffix.lower()]


def _replace(file: Path, content: bytes) -> None:
    """Put the content in place of the file in one step, or leave the file as it was."""
    target = Path(os.path.realpath(file))  # the file behind a link
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{file}: there is no folder {target.parent}")
    with _removed_on_failure(target.with_name(f".{target.name}.{secrets.token_hex(4)}")) as new:
        with new.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, new)
        os.replace(new, target)


@contextlib.contextmanager
def _removed_on_failure(path: Path) -> Iterator[Path]:
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _unknown(what: str, got: str, known: Iterable[str]) -> str:
    near = get_close_matches(got, list(known), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
    return f"unknown {what} {got!r}; {hint}"
