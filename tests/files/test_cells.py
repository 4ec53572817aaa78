"""What reaches people: cells that no spreadsheet calculates, and text that steers no terminal."""

import contextlib
import csv
import io
import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible._display import visible, visible_json
from bayes_feasible.files.cells import from_cell, to_cell
from bayes_feasible.files.csv_table import read_csv, write_csv
from bayes_feasible.files.documents import build
from bayes_feasible.files.problems import _read_json
from bayes_feasible.files.pulls import read_pulls, write_pulls

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-1+cmd", "@SUM(A1)", "\t=1", "'=1", "''@x", "=", "-5 °C"]
HARMLESS = ["low", "'Til There Was You (1997)", "", " =1", "'7", "é日🎬", "a=b"]
texts = st.text(st.sampled_from("=+-@'\t\ra "), max_size=5)


@given(text=texts, spreadsheet=st.booleans())
def test_a_cell_is_read_as_it_was_written_and_is_no_formula(text, spreadsheet):
    cell = to_cell(text, spreadsheet=spreadsheet)
    assert from_cell(cell) == text
    assert not (spreadsheet and cell[:1] in {"=", "+", "-", "@", "\t", "\r"})


def cells(table):
    return [cell for row in csv.reader(io.StringIO(table, newline="")) for cell in row]


def formulas(table):
    """The texts of a table that begin as formulas do."""
    found = [cell for cell in cells(table) if cell[:1] in tuple("=+-@\t\r") and cell]
    return [cell for cell in found if not cell.lstrip("-+").replace(".", "", 1).isdecimal()]


@pytest.mark.parametrize("name", FORMULAS + HARMLESS)
def test_tables_for_spreadsheets_hold_no_formulas_and_are_read_back(name, tmp_path):
    problem = bf.Problem({name: [1.0, 0.5], "b": [0.0, -1.0]}, {name: -1.0})
    history = bf.History(problem, [0, 1, 0], [1.0, -2.0, -0.5], [-1.0, 0.0, 2.0])
    assert bool(formulas(write_pulls(history))) == (name in FORMULAS and name[0] != "'")  # control
    for spreadsheet in (False, True):
        history.save(tmp_path / "pulls.csv", spreadsheet=spreadsheet)
        again = bf.History.load(tmp_path / "pulls.csv", problem)
        assert again.arms.tolist() == [0, 1, 0]
        assert again.costs.tolist() == history.costs.tolist()
    assert formulas(write_pulls(history, spreadsheet=True)) == []
    assert formulas(write_csv(problem)) == []
    assert build(read_csv(write_csv(problem))) == problem


def test_films_are_read_back_from_a_table_for_spreadsheets(tmp_path):
    films = bf.datasets.read_film_table(Path(bf.__path__[0], "data", "movielens_imdb_top60.csv"))
    titles = [*FORMULAS, *HARMLESS[:2]]
    titles += films.table["title"].tolist()[len(titles) :]
    films.table["title"] = titles
    for spreadsheet in (False, True):
        films.save(tmp_path / "films.csv", spreadsheet=spreadsheet)
        assert bf.datasets.read_film_table(tmp_path / "films.csv").table["title"].tolist() == titles
    assert formulas((tmp_path / "films.csv").read_text("utf-8")) == []


AWKWARD = ["arm", "reward", "cost", "cost_a", " x ", "a\rb", "a\nb", "\n", "", "é日🎬", "a,b", "'x",
           '"', "1", "nan", "=1+1", "#", "pull", "constraint"]  # fmt: skip


@pytest.mark.parametrize("extension", ["csv", "nc"])
@pytest.mark.parametrize("name", AWKWARD)
def test_pulls_are_read_again_whatever_the_names_or_not_written_at_all(name, extension, tmp_path):
    arms = {name: [1.0, 0.0], "b": [0.0, 1.0]}
    for constraints in ({name: 1.0}, {"a": 1.0, name: 2.0}):
        problem = bf.Problem(arms, constraints)
        costs = np.arange(3.0 * len(constraints)).reshape(3, -1)
        history = bf.History(problem, [0, 1, 0], [1.0, 0.1, -2.5], costs)
        path = tmp_path / f"{len(constraints)}.{extension}"
        if (extension, name) in {("csv", "arm"), ("csv", "reward")}:
            with pytest.raises(ValueError, match=r"^constraints: "):
                history.save(path)
            assert not path.exists()
            continue
        history.save(path)
        again = bf.History.load(path, problem)
        assert again.arms.tolist() == [0, 1, 0]
        assert again.rewards.tobytes() == history.rewards.tobytes()
        assert again.costs.tobytes() == history.costs.tobytes()


STEERING = ["\x1b[31m", "\x9b2J", "\x85", "\u202ecod.exe", "\u2066", "\u2069", "\u2028", "\ufeff",
            "\x00", "\ud800", "\uffff", "\x7f"]  # fmt: skip


@pytest.mark.parametrize("text", STEERING)
def test_what_is_displayed_is_text_json_and_xml(text):
    shown = visible(f"a{text}b")
    assert shown.isprintable()
    assert ET.fromstring(f"<text>{shown}</text>").text == shown
    said = visible_json({text: [text]})
    assert said.replace("\n", "").isprintable()
    assert json.loads(said) == {text: [text]}


def test_text_that_does_no_harm_is_displayed_as_it_is():
    text = "Γ = 0.1,\té日本🎬 שלום \u200d half\u00a0space\n"
    assert visible(text) == text
    assert json.loads(visible_json(text)) == text


@pytest.mark.parametrize("text", ["\x9b31m", "\u202ecod", "\u2066x\u2069", "\x1b[2J"])
def test_names_of_a_file_steer_no_terminal(text, tmp_path, capsys):
    problem = bf.Problem({f"a{text}": [1.0, 0.0], "b": [0.0, 1.0]}, {f"c{text}": 0.5})
    bf.save(bf.Instance(problem, [1, 0.5], [0.1, 0.2]), tmp_path / "p.json")
    for more in ([], ["--json"]):
        assert cli.main(["rate", str(tmp_path / "p.json"), *more]) == 0
        out = capsys.readouterr().out
        assert out.replace("\n", "").isprintable()
    assert list(json.loads(out)["allocation"]) == [f"a{text}", "b"]
    with pytest.raises(SystemExit):
        cli.main(["rate", "x", text])
    assert capsys.readouterr().err.replace("\n", "").isprintable()


# --- time grows with the size, not with its square ---

ONE = (1.0,)


def wide_csv(size):
    return f"kind,{','.join(f'x{i}' for i in range(size))}\narm{',1' * size}\n"


def repeated_key(size):
    """The last key of many occurs twice."""
    return "{" + ",".join(f'"{i}": 1' for i in [*range(size), size - 1]) + "}"


def many_pulls(size):
    problem = bf.Problem({f"arm {i}": [1.0] for i in range(size)})
    return "arm,reward\n" + "".join(f"{i},1\n" for i in range(size)), problem


def many_constraints(size):
    problem = bf.Problem([[1.0]], {f"c{i}": 1.0 for i in range(size)})
    header = ",".join(f"c{i}" for i in range(size))
    return f"arm,reward,{header}\n0,1{',1' * size}\n", problem


def many_names(size):
    return [[1.0]] * size, {"thresholds": {f"c{i}": 1.0 for i in range(size)},
                            "cost_noise": {f"c{i}": 1.0 for i in range(1, size + 1)}}  # fmt: skip


LARGE = {
    "columns": (wide_csv, read_csv, 3000),
    "keys": (repeated_key, _read_json, 10_000),
    "arms": (many_pulls, lambda given: read_pulls(*given), 1000),
    "constraints": (many_constraints, lambda given: read_pulls(*given), 1000),
    "names": (many_names, lambda given: bf.Problem(given[0], **given[1]), 2000),
    "twice": (lambda size: [*range(size), size - 1], lambda given: bf.Problem(
        dict.fromkeys(map(float, given), ONE) | {str(float(given[-1])): ONE}), 2000),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_eight_times_as_much_takes_no_more_than_a_few_times_eight_times_as_long(name):
    make, read, size = LARGE[name]

    def seconds(given):
        began = time.process_time()
        with contextlib.suppress(ValueError):
            read(given)
        return time.process_time() - began

    few, many = make(size), make(8 * size)
    seconds(few)
    ratio = min(seconds(many) for _ in range(6)) / min(seconds(few) for _ in range(6))
    assert ratio < 24  # a square would be 64
