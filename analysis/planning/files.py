"""Designs in files.

A TOML file names the problem, by the path of its file or in a table of its own, and says how the
trial is run; see `bayes_feasible.analysis.planning.scenarios` for the scenarios::

    problem = "dose.toml"
    budgets = [30, 60]
    replicates = 1000

    [safety]
    order = ["5 mg", "10 mg", "20 mg"]
    before = 3
    cohort = 3

    [stop]
    error = 0.05

    [scenarios.steep]
    benefit = [0.2, 0.4, 0.5]
    toxicity = [0.05, 0.2, 0.6]

`rule` is a name, or a table with one name and its options; `scenarios` may also be the path of a
CSV table.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from bayes_feasible import _check
from bayes_feasible.analysis.planning.design import TrialDesign
from bayes_feasible.analysis.planning.scenarios import read_scenarios, read_table
from bayes_feasible.files.documents import build, from_document
from bayes_feasible.files.guard import blame, read_file
from bayes_feasible.files.problems import load
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.safety import Safety
from bayes_feasible.stopping.stop import Stop

KEYS = (
    "problem", "rule", "batch", "shares", "recommendation", "safety", "stop", "scenarios",
    "budgets", "replicates", "seed",
)  # fmt: skip


class DesignFile(NamedTuple):
    """What a file says.

    Attributes
    ----------
    design : TrialDesign
    scenarios : dict of names to truths
    budgets : list of int
    replicates, seed : int
    """

    design: TrialDesign
    scenarios: dict[str, Any]
    budgets: list[int]
    replicates: int
    seed: int


def read_design(path: str | os.PathLike[str]) -> DesignFile:
    """Read a design and its scenarios.

    Parameters
    ----------
    path : path
        A .toml file; see the top of this module.

    Returns
    -------
    DesignFile

    Examples
    --------
    >>> import tempfile
    >>> text = '''budgets = [30]
    ... [problem.arms]
    ... low = [1, 0.2]
    ... high = [1, 0.9]
    ... [scenarios.near]
    ... reward = [0.2, 0.9]
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "design.toml")
    ...     _ = file.write_text(text)
    ...     found = read_design(file)
    >>> found.design.rule, found.budgets, list(found.scenarios)
    ('Descent', [30], ['near'])
    """
    file = _check.path("path", path)
    if file.suffix.lower() != ".toml":
        raise ValueError(f"{file}: expected the extension .toml, got {file.suffix!r}")
    if not file.exists():
        raise FileNotFoundError(f"{file}: no such file")
    with blame(file):
        return parse(tomllib.loads(read_file(file).decode("utf-8-sig")), file.parent)


def parse(document: Mapping[str, Any], folder: Path) -> DesignFile:
    """Read a document; paths in it are relative to the folder."""
    for key in document:
        if key not in KEYS:
            raise ValueError(_check.unknown("key", key, KEYS))
    for key in ("problem", "scenarios", "budgets"):
        if key not in document:
            raise ValueError(f"{key}: is missing")
    problem = _problem(document["problem"], folder)
    rule, options = _rule(document.get("rule", "Descent"))
    design = TrialDesign(
        problem,
        rule,
        options,
        _made(Safety, document, "safety"),
        _made(Stop, document, "stop"),
        document.get("batch"),
        document.get("recommendation", "mean"),
        document.get("shares", False),
    )
    scenarios = document["scenarios"]
    if isinstance(scenarios, str):
        with blame(folder / scenarios):
            text = read_file(folder / scenarios).decode("utf-8-sig")
            scenarios = read_table(problem, text)
    read_scenarios(problem, scenarios)  # finds mistakes
    budgets = [_check.count("budgets", one) for one in document["budgets"]]
    replicates = _check.count("replicates", document.get("replicates", 1000))
    seed = _check.count("seed", document.get("seed", 0), least=0)
    return DesignFile(design, dict(scenarios), budgets, replicates, seed)


def _problem(given: Any, folder: Path) -> Problem:
    if isinstance(given, str):
        found = load(folder / given)
    elif isinstance(given, Mapping):
        found = build(from_document(dict(given)))
    else:
        raise TypeError(f"problem: expected a path or a table, got {given!r}")
    return found.problem if isinstance(found, Instance) else found


def _rule(given: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping) or len(given) != 1:
        raise TypeError(f"rule: expected a name, or a table with one name, got {given!r}")
    ((name, options),) = given.items()
    return name, dict(options)


def _made(kind: Any, document: Mapping[str, Any], key: str) -> Any:
    if key not in document:
        return None
    known = [one.name for one in fields(kind)]
    for name in document[key]:
        if name not in known:
            raise ValueError(f"{key}: {_check.unknown('option', name, known)}")
    return kind(**document[key])
