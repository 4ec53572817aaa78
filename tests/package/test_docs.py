"""The code and the files in README.md and docs/ work as they stand."""

import doctest
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from test_docstrings import DOORS

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.analysis.planning.files import read_design
from bayes_feasible.analysis.study.specification import Specification, specified
from bayes_feasible.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    (page, language, text)
    for page in PAGES
    for language, text in re.findall(
        r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
]
NAMED = {  # files that a page gives a name, by page: a comment before the block
    page: dict(
        re.findall(
            r"^<!-- (\S+) -->\n```\w+\n(.*?)^```$",
            page.read_text(encoding="utf-8"),
            flags=re.MULTILINE | re.DOTALL,
        )
    )
    for page in PAGES
}
ALL_NAMED = {text for files in NAMED.values() for text in files.values()}
PYTHON = [(page.name, text) for page, language, text in BLOCKS if language == "python"]
FILES = [
    (kind, text)
    for _, kind, text in BLOCKS
    if kind in ("toml", "json", "csv") and text not in ALL_NAMED
]
HOME = "own_problem.md"  # where the problem stands that the pages share
SHELL = [(page.name, text) for page, language, text in BLOCKS if language == "sh"]


def write_files(page, folder):
    """Put the files of a page into a folder."""
    for name, text in NAMED[page].items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", [p for p in PAGES if NAMED[p]], ids=lambda page: page.name)
def test_files_of_a_page_can_be_read(page, tmp_path):
    write_files(page, tmp_path)
    for name, text in NAMED[page].items():
        if "budgets" in text:
            assert read_design(tmp_path / name).scenarios
        elif name.endswith(".toml"):
            assert isinstance(bf.load(tmp_path / name), bf.Problem | bf.Instance)


@pytest.mark.parametrize(
    ("page", "code"), PYTHON, ids=[f"{p}-{i}" for i, (p, _) in enumerate(PYTHON)]
)
def test_python_runs_and_prints_what_it_says(page, code, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {"__name__": "documentation"})
    expected = re.findall(r"^# -> (.*)$", code, flags=re.MULTILINE)
    assert expected
    assert capsys.readouterr().out.splitlines() == expected


def test_short_answers_are_right(monkeypatch, tmp_path):
    """Thirty questions at least, each with its lines; they continue each other."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "how_do_i.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\.\.\. ", text, flags=re.MULTILINE)) >= 30
    blocks = re.findall(r"^```pycon\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "how_do_i", "how_do_i", 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def drug(folder):
    """The problem that the pages share, put into the folder."""
    text = next(text for page, kind, text in BLOCKS if (page.name, kind) == (HOME, "toml"))
    (folder / "drug.toml").write_text(text, encoding="utf-8")
    return bf.load(folder / "drug.toml").problem


def test_the_two_files_of_the_drug_are_the_same(tmp_path):
    drug(tmp_path)
    table = next(text for page, kind, text in BLOCKS if (page.name, kind) == (HOME, "csv"))
    (tmp_path / "drug.csv").write_text(table, encoding="utf-8")
    one, other = (bf.load(tmp_path / f"drug.{kind}") for kind in ("toml", "csv"))
    assert one.theta_cost.tolist() == other.theta_cost.tolist()
    assert bf.optimal_rate(one).value == bf.optimal_rate(other).value


@pytest.mark.parametrize(("kind", "text"), FILES, ids=[kind for kind, _ in FILES])
def test_example_files_can_be_read(kind, text, tmp_path):
    if kind == "toml" and "horizon" in text:
        assert isinstance(specified(tomllib.loads(text)), Specification)
        return
    path = tmp_path / f"example.{kind}"
    path.write_text(text, encoding="utf-8")
    if text.startswith("arm,"):
        assert len(bf.History.load(path, drug(tmp_path)))
        return
    assert isinstance(bf.load(path), bf.Problem | bf.Instance)


@pytest.mark.parametrize(("page", "text"), SHELL, ids=[page for page, _ in SHELL])
def test_shell_examples_name_commands_that_exist(page, text):
    commands = {command.__name__.rpartition(".")[2] for command in COMMANDS}
    named = set(re.findall(r"^bayes-feasible (\S+)", text, flags=re.MULTILINE))
    assert named
    assert named <= commands, page


def shown_by(page):
    """The shell examples of a page, each with the texts that follow it, before the next."""
    found = []
    for place, language, text in BLOCKS:
        if place != page:
            continue
        if language == "sh":
            found.append((text, []))
        elif language == "text" and found:
            found[-1][1].append(text)
    return found


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any("--dask" not in text for text, _ in shown_by(p))],
    ids=lambda page: page.name,
)  # fmt: skip
def test_shell_examples_run_one_after_the_other(page, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    drug(tmp_path)
    write_files(page, tmp_path)
    tables = [
        text
        for _, kind, text in BLOCKS
        if kind == "csv" and text.startswith("arm,") and text not in ALL_NAMED
    ]
    Path("more.csv").write_text(tables[0], encoding="utf-8")
    for text, expected in shown_by(page):
        for line in text.splitlines() if "--dask" not in text else []:
            name, *words = shlex.split(line, comments=True)
            assert name == "bayes-feasible"
            assert main(words) == 0, line
        shown = capsys.readouterr()
        assert shown.err == ""
        for each in expected:
            assert each in shown.out


def test_there_is_something_to_test():
    assert len(PYTHON) >= 15
    assert {kind for kind, _ in FILES} == {"toml", "csv"}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def documented(reference):
    """What a page of directives documents, by full name: what they name, and their members."""
    found = set()
    pattern = r"^\.\. auto\w+:: (\S+)\n((?: {3}:.*\n)*)"
    for target, options in re.findall(pattern, reference, flags=re.MULTILINE):
        found.add(target)
        for members in re.findall(r":members: (.+)", options):
            found |= {f"{target}.{name}" for name in members.split(", ")}
    return found


def test_the_reference_has_every_public_name():
    found = documented((ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    names = {full.rpartition(".")[2] for full in found}
    assert set(bf._HOME) <= names
    assert set(models.__all__) <= names
    whole = {
        "bayes_feasible.analysis.calibration.calibration",
        "bayes_feasible.analysis.calibration.reliability",
    }
    for module, doors in DOORS.items():
        full = f"bayes_feasible.analysis.{module}"
        assert (full in whole and full in found) or {f"{full}.{door}" for door in doors} <= found


def test_a_name_that_is_only_mentioned_is_not_documented():
    page = (
        ".. autoclass:: a.b.C\n   :members: one, two\n\n.. automodule:: a.d\n   :members:\nthree\n"
    )
    assert documented(page) == {"a.b.C", "a.b.C.one", "a.b.C.two", "a.d"}
