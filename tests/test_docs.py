"""The code and the files in README.md and docs/ work as they stand."""

import re
import tomllib
from pathlib import Path

import pytest

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.analysis.specification import Specification
from bayes_feasible.analysis.study import specified
from bayes_feasible.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    (page, language, text)
    for page in PAGES
    for language, text in re.findall(
        r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
]
PYTHON = [(page.name, text) for page, language, text in BLOCKS if language == "python"]
FILES = [(kind, text) for _, kind, text in BLOCKS if kind in ("toml", "json", "csv")]
SHELL = [(page.name, text) for page, language, text in BLOCKS if language == "sh"]


@pytest.mark.parametrize(
    ("page", "code"), PYTHON, ids=[f"{p}-{i}" for i, (p, _) in enumerate(PYTHON)]
)
def test_python_runs_and_prints_what_it_says(page, code, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {"__name__": "documentation"})
    expected = re.findall(r"^# -> (.*)$", code, flags=re.MULTILINE)
    assert expected
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize(("kind", "text"), FILES, ids=[kind for kind, _ in FILES])
def test_example_files_can_be_read(kind, text, tmp_path):
    if kind == "toml" and "horizon" in text:
        assert isinstance(specified(tomllib.loads(text)), Specification)
        return
    path = tmp_path / f"example.{kind}"
    path.write_text(text, encoding="utf-8")
    assert isinstance(bf.load(path), bf.Problem | bf.Instance)


@pytest.mark.parametrize(("page", "text"), SHELL, ids=[page for page, _ in SHELL])
def test_shell_examples_name_commands_that_exist(page, text):
    commands = {command.__name__.rpartition(".")[2] for command in COMMANDS}
    named = set(re.findall(r"^bayes-feasible (\S+)", text, flags=re.MULTILINE))
    assert named
    assert named <= commands, page


def test_there_is_something_to_test():
    assert len(PYTHON) >= 15
    assert {kind for kind, _ in FILES} == {"toml", "csv"}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_reference_has_every_public_name():
    listed = set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text(encoding="utf-8")))
    assert set(bf.__all__) - {"__version__"} <= listed
    assert set(models.__all__) <= listed
