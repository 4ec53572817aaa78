"""The code and the files in README.md work as they stand."""

import re
from pathlib import Path

import pytest

import bayes_feasible as bf

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
FILES = [(language, text) for language, text in BLOCKS if language in ("toml", "json", "csv")]


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_runs_and_prints_what_it_says(code, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    expected = re.findall(r"# -> (.*)$", code, flags=re.MULTILINE)
    assert expected
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize(("kind", "text"), FILES, ids=[kind for kind, _ in FILES])
def test_example_files_can_be_read(kind, text, tmp_path):
    path = tmp_path / f"example.{kind}"
    path.write_text(text, encoding="utf-8")
    assert isinstance(bf.load(path), bf.Problem | bf.Instance)


def test_there_is_something_to_test():
    assert len(PYTHON) >= 3
    assert {kind for kind, _ in FILES} == {"toml", "csv"}


def test_links_lead_somewhere():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert "docs/study.png" in targets
    for target in targets:
        assert (ROOT / target).exists(), target
