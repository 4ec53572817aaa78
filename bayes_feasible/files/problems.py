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

Outcomes are named, or described where they have a prior; `relative` names the candidate that a
threshold is relative to::

    reward = "bernoulli"

    [thresholds]
    refunds = 0.03
    latency = 10.0

    [relative]
    latency = "control"

    [costs]
    refunds = {kind = "bernoulli", prior = {mean = -4.0, sd = 1.0}}
    latency = "gaussian"

CSV is one table. The column `kind` says what a row is; `name` and `value` may be left out where
nothing needs them; every other column is a feature::

    kind,name,value,constant,dose
    arm,low,,1,0.2
    arm,high,,1,0.9
    threshold,toxicity,0.3,,
    cost_noise,toxicity,0.5,,

A name that is a whole number is read as a number; an apostrophe in front of a name makes it text
(``'7``), as in a spreadsheet. It is written so too where a spreadsheet would take the name for a
formula (``'=1+1``). The kinds are `arm`, `candidate`, `both` (an arm that is a candidate
too), `theta_reward` and `theta_cost`, which hold a vector, and `threshold`, `reward_noise`,
`cost_noise`, `radius_reward` and `radius_cost`, which hold a value. Without a row of kind
`candidate` or `both`, the arms are the candidates.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from bayes_feasible import _check
from bayes_feasible.files.atomic import replaced
from bayes_feasible.files.csv_table import read_csv, write_csv
from bayes_feasible.files.documents import Content, build, from_document, to_document
from bayes_feasible.files.guard import blame, read_file
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem


def load(path: str | os.PathLike[str]) -> Problem | Instance:
    r"""Read a problem, or an instance if the file holds the true parameters.

    Parameters
    ----------
    path : path
        A file with the extension .toml, .json or .csv; see the top of this module.

    Returns
    -------
    Problem or Instance

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
    with blame(file):
        return build(read(read_file(file).decode("utf-8-sig")))


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
    content = write(thing).encode("utf-8")
    with replaced(file) as new:
        new.write_bytes(content)


def _read_toml(text: str) -> Content:
    return from_document(tomllib.loads(text))


def _write_toml(thing: Problem | Instance) -> str:
    return _vectors_in_lines(tomli_w.dumps(to_document(thing)))


def _vectors_in_lines(text: str) -> str:
    """One line a vector. Texts are written on one line and in quotes, so none can match."""
    return re.sub(
        r"\[\n([^\[\]{}\"]*?),?\s*\]",
        lambda found: f"[{', '.join(item.strip() for item in found[1].split(','))}]",
        text,
    )


def _read_json(text: str) -> Content:
    return from_document(json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"{key}: the key occurs more than once")
        table[key] = value
    return table


def _no_constant(text: str) -> float:
    raise ValueError(f'{text} is not JSON; write "inf" for an infinite threshold')


def _write_json(thing: Problem | Instance) -> str:
    document = to_document(thing, strict=True)
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return _vectors_in_lines(text) + "\n"


_FORMATS: dict[str, tuple[Callable[[str], Content], Callable[[Problem | Instance], str]]] = {
    ".toml": (_read_toml, _write_toml),
    ".json": (_read_json, _write_json),
    ".csv": (read_csv, write_csv),
}


def _recognise(path: Any) -> tuple[Path, Any]:
    """The path, and the reader and the writer for its extension."""
    file = _check.path("path", path)
    if file.is_dir():
        raise ValueError(f"{file}: expected a file, this is a folder")
    if file.suffix.lower() not in _FORMATS:
        expected = ", ".join(_FORMATS)
        raise ValueError(f"{file}: expected the extension {expected}, got {file.suffix!r}")
    return file, _FORMATS[file.suffix.lower()]
