"""What a user sees of the package: its names, and their types in a checker."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bayes_feasible as bf

REPOSITORY = Path(__file__).parents[2]
SCRIPT = """
import bayes_feasible as bf

problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], thresholds=0.5)
reveal_type(problem)
reveal_type(bf.optimal_rate)
reveal_type(bf.Posterior(problem).best())
reveal_type(bf.Alternative(problem, 0).log_probability(bf.Posterior(problem)))
reveal_type(bf.BestResponse(problem).recommend())
reveal_type(bf.models.linear_gaussian)
reveal_type(bf.analysis)
reveal_type(bf.datasets.read_films)
wrong: int = bf.g_optimal(problem)
"""
REVEALED = {
    5: '"bayes_feasible.problem.Problem"',
    6: "bayes_feasible.rate.rate.Rate",
    7: '"int | None"',
    8: '"bayes_feasible.alternative.probability.LogProbability"',
    9: '"bayes_feasible.recommendation.Recommendation"',
    10: "bayes_feasible.posterior.Posterior",
    11: '"types.ModuleType"',
    12: "bayes_feasible.datasets.films.FilmTable",
    13: 'expression has type "Design"',
}


@pytest.mark.parametrize("name", bf.__all__)
def test_every_name_is_there_and_listed(name):
    assert getattr(bf, name) is not None
    assert name in dir(bf)


@pytest.mark.parametrize("name", ["read_films", "read_ratings", "FilmTable", "Problme"])
def test_other_names_are_not(name):
    with pytest.raises(AttributeError, match=name):
        getattr(bf, name)


def test_a_type_checker_is_told_of_the_names_that_are_loaded_late():
    text = Path(bf.__file__).read_text(encoding="utf-8")
    for name, home in bf._HOME.items():
        assert f"from bayes_feasible.{home} import {name} as {name}\n" in text
    for name in bf._NAMESPACES:
        assert f"from bayes_feasible import {name} as {name}\n" in text


def check_types(script: Path, site: Path) -> list[str]:
    """What mypy says of a script outside the repository, with the package installed."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "--config-file=", script.name],
        cwd=script.parent, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True,
        text=True,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.slow
def test_an_installed_package_shows_its_types(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    for folder in ("bayes_feasible", "models", "analysis"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / folder, source / folder, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / file, source)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation",
         "--no-index", "--target", site, source], check=True,
    )  # fmt: skip
    script = tmp_path / "user" / "script.py"
    script.parent.mkdir()
    script.write_text(SCRIPT, encoding="utf-8")
    lines = check_types(script, site)
    for number, expected in REVEALED.items():
        assert any(f"script.py:{number}:" in line and expected in line for line in lines), lines
    (site / "bayes_feasible" / "py.typed").unlink()
    shutil.rmtree(script.parent / ".mypy_cache")
    assert "py.typed" in "".join(check_types(script, site))  # the control
