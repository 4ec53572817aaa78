"""`bayes-feasible trial`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from trial_cases import DRUG, TWO_LIMITS, world

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.trial.trial import Trial

COMMAND = str(Path(sys.executable).with_name("bayes-feasible"))


def _call(*arguments):
    return cli.main(["trial", *map(str, arguments)])


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys, unsynced):
    """Run a step in a folder with a problem file: code, output, errors."""
    monkeypatch.chdir(tmp_path)
    bf.save(DRUG, "drug.toml")

    def run(*arguments):
        code = _call(*arguments)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_an_experiment_from_the_shell(shell):
    code, out, err = shell("new", "drug.trial", "drug.toml", "--seed", 3)
    assert (code, err) == (0, "")
    assert out.startswith("drug.trial: Problem: 3 arms")
    code, asked, err = shell("ask", "drug.trial", "-n", 2)
    assert (code, err) == (0, "")
    asked = asked.splitlines()
    assert asked == [DRUG.coords["arm"][i] for i in bf.Descent(DRUG, seed=3).ask(2)]
    code, out, _ = shell("tell", "drug.trial", asked[0], "0.6", "0.35")
    assert out == (
        f"Event 3: tell: {asked[0]} showed reward 0.6, toxicity 0.35\n1 pull so far, 1 pending\n"
    )
    _, out, _ = shell("tell", "drug.trial", "10 mg", "toxicity=-1e-3", "reward=-2.5e-1")
    assert "It was not asked for" in out
    assert Trial("drug.trial").history.rewards.tolist() == [0.6, -0.25]
    assert Trial("drug.trial").history.costs.tolist() == [[0.35], [-0.001]]
    assert shell("status", "drug.trial")[1] == f"{Trial('drug.trial').status()}\n"
    assert shell("recommend", "drug.trial")[1] == f"{Trial('drug.trial').recommend()}\n"
    code, out, _ = shell("undo", "drug.trial")
    assert out == "Taken back: event 4, tell: 10 mg showed reward -0.25, toxicity -0.001\n"
    code, out, _ = shell("log", "drug.trial")
    assert "tell: 10 mg showed reward -0.25, toxicity -0.001 (taken back by 5)" in out
    assert len(out.splitlines()) == 5 + 2
    assert out.splitlines()[-1].startswith(f"checksum {Trial('drug.trial').head}, begun with")
    assert len(shell("log", "drug.trial", "-n", 2)[1].splitlines()) == 2 + 2
    assert shell("export", "drug.trial")[1] == f"arm,reward,toxicity\n{asked[0]},0.6,0.35\n"


def test_options_may_stand_anywhere_and_numbers_may_be_negative(shell):
    shell("new", "a.trial", "drug.toml")
    for words in (
        ["--json", "a.trial", "10 mg", "-1", "-.5"],
        ["a.trial", "--json", "10 mg", "-1.0", "-5e-1"],
        ["a.trial", "10 mg", "--json", "-1", "toxicity=-0.5"],
        ["a.trial", "10 mg", "-1", "-0.5", "--json"],
        ["a.trial", "1", "-1", "--wait", "5", "-0.5", "--json"],
    ):
        code, out, _ = shell("tell", *words)
        assert (code, json.loads(out)["told"]) == (0, 1)
    assert Trial("a.trial").history.rewards.tolist() == [-1.0] * 5
    assert Trial("a.trial").history.costs.tolist() == [[-0.5]] * 5
    assert Trial("a.trial").history.arms.tolist() == [1] * 5


def test_json_everywhere(shell):
    steps = [
        ["new", "a.trial", "--instance", "end_of_optimism", "alpha=0.2", "--rule", "BLFAIPS"],
        ["ask", "a.trial", "-n", "3"],
        ["tell", "a.trial", "0", "1.0", "0.5"],
        ["status", "a.trial"],
        ["recommend", "a.trial"],
        ["undo", "a.trial"],
        ["log", "a.trial"],
        ["export", "a.trial"],
    ]
    shown = {}
    for step in steps:
        code, out, err = shell(*step, "--json")
        assert (code, err) == (0, "")
        shown[step[0]] = json.loads(out, parse_constant=pytest.fail)
    assert shown["new"]["rule"] == "BLFAIPS"
    assert len(shown["ask"]["asked"]) == sum(shown["ask"]["pending"].values()) == 3
    assert shown["tell"]["event"] == shown["undo"]["taken_back"] == 3
    assert shown["status"]["pulls"] == 1
    assert shown["recommend"]["recommended"] == shown["status"]["recommended"]
    assert [event["event"] for event in shown["log"]["events"]] == ["new", "ask", "tell", "undo"]
    assert shown["log"]["head"] == Trial("a.trial").head
    assert shown["export"]["csv"] == "arm,reward,cost_0\n"


def test_options_of_a_rule(shell):
    new = ["new", "a.trial", "drug.toml", "--rule"]
    code, out, _ = shell(*new, "TopTwo", "--set", "beta=0.3", "select=information", "--json")
    assert code == 0
    assert json.loads(out)["settings"] == {"beta": 0.3, "select": "information", "exploration": 0.5}
    new[1] = "b.trial"
    code, out, _ = shell(*new, "FixedAllocation", "--set", "allocation=[0, 0, 1]")
    assert shell("ask", "b.trial", "-n", "4")[1] == "20 mg\n" * 4


def test_tables_from_a_file_and_from_the_input(shell, tmp_path):
    shell("new", "a.trial", "drug.toml")
    table = '\ufefftoxicity, arm ,reward\n0.25,"10 mg",1.5\n\n-1e-3,placebo,2\n'
    Path("pulls.csv").write_text(table, encoding="utf-8")
    code, out, _ = shell("tell", "a.trial", "--csv", "pulls.csv")
    assert code == 0
    assert out.splitlines()[0] == "Event 2: tell of 2 pulls"
    done = subprocess.run(
        [COMMAND, "trial", "tell", "a.trial", "--csv", "-"],
        input="arm,reward,cost\n2,3,4\n", text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "3 pulls so far, 0 pending"
    history = Trial("a.trial").history
    assert history.arms.tolist() == [1, 0, 2]
    assert history.rewards.tolist() == [1.5, 2.0, 3.0]
    assert history.costs.tolist() == [[0.25], [-0.001], [4.0]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "line 1: column 'arm' is missing"),
        ("arm,reward\n", "line 1: column 'toxicity' is missing"),
        ("arm,reward,toxicity,reward\n", "column 'reward' occurs more than once"),
        ("arm,reward,toxicity,weight\n", "column 'weight' is not one of arm, reward, toxicity"),
        ("arm,reward,toxicity\n", "there is no pull to tell of"),
        ("arm,reward,toxicity\n0,1,2\n0,1\n", "line 3: expected 3 cells, got 2"),
        ("arm,reward,toxicity\n20mg,1,2\n", "line 2: arm: unknown arm '20mg'; did you mean"),
        ("arm,reward,toxicity\n0,one,2\n", "line 2, reward: expected a finite number, got 'one'"),
        ("arm,reward,toxicity\n0,1,inf\n", "line 2, toxicity: expected a finite number, got"),
        ('arm,reward,toxicity\n0,1,"2\n', "line 2: "),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_bad_tables_are_refused_whole(shell, table, message):
    shell("new", "a.trial", "drug.toml")
    Path("pulls.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
    code, out, err = shell("tell", "a.trial", "--csv", "pulls.csv")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert len(Trial("a.trial").events) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "b.trial"], "b.trial: no such trial; start one with: bayes-feasible trial new"),
        (["status", "drug.toml"], "drug.toml: not a trial of bayes-feasible: line 1"),
        (["status", "."], "this is a folder"),
        (["new", "a.trial", "drug.toml"], "a.trial: there is such a file already"),
        (["new", "b.trial"], "expected a problem: a FILE, or --instance"),
        (["new", "b.trial", "nowhere.toml"], "nowhere.toml: no such file"),
        (["new", "b.trial", "drug.toml", "--rule", "Blfaips"], "did you mean 'BLFAIPS'?"),
        (["new", "b.trial", "--instance", "saore"], "did you mean 'soare'?"),
        (["new", "b.trial", "drug.toml", "--set", "eta"], "--set: expected KEY=VALUE"),
        (["new", "b.trial", "drug.toml", "--set", "a=1", "a=2"], "--set: a is given twice"),
        (["new", "b.trial", "drug.toml", "--set", "seed=1"], "seed is not an option of a rule"),
        (["ask", "a.trial", "-n", "0"], "n: expected at least 1, got 0"),
        (["log", "a.trial", "-n", "0"], "-n: expected at least 1, got 0"),
        (["tell", "a.trial"], "expected an arm and what it showed, or --csv"),
        (["tell", "a.trial", "10 mg"], "expected reward and toxicity after the arm"),
        (["tell", "a.trial", "10 mg", "one", "1"], "value: expected a number, got 'one'"),
        (["tell", "a.trial", "10 mg", "1", "2", "toxicity=1"], "all costs by name, or all in"),
        (["tell", "a.trial", "10 mg", "reward=1", "reward=1"], "reward: given twice"),
        (["tell", "a.trial", "10 mg", "1", "tox=2"], "unknown outcome 'tox'"),
        (["tell", "a.trial", "--csv", "nowhere.csv"], "nowhere.csv: cannot be read (No such"),
        (["undo", "a.trial"], "a.trial: there is nothing to take back"),
        (["export", "a.trial", "--out", "no/x.csv"], "there is no folder"),
    ],
)
def test_mistakes_are_told_in_one_line(shell, arguments, message):
    shell("new", "a.trial", "drug.toml")
    before = Path("a.trial").read_bytes()
    code, out, err = shell(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayes-feasible trial: ")
    assert message in err
    assert err.count("\n") == 1
    assert Path("a.trial").read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["a.trial", "drug.toml"]


def test_a_cut_last_line_is_noted_and_the_step_taken(shell):
    shell("new", "a.trial", "drug.toml")
    with open("a.trial", "ab") as stream:
        stream.write(b'{"n": 2, "time": "20')
    code, out, err = shell("tell", "a.trial", "10 mg", "1", "0.1")
    assert (code, out.splitlines()[0][:8]) == (0, "Event 2:")
    assert err.startswith("bayes-feasible trial: a.trial: line 2 was cut short and is dropped")
    assert shell("status", "a.trial")[2] == ""


def test_a_trial_in_use_is_told(shell):
    shell("new", "a.trial", "drug.toml")
    with Trial("a.trial")._journal.writing():
        code, _, err = shell("ask", "a.trial", "--wait", "0.1")
    assert code == 1  # nothing wrong with what was asked
    assert "a.trial: another process is using it, and still was after 0.1 s" in err


@pytest.mark.parametrize("arguments", ["trial --help", "trial tell --help"])
def test_help_imports_nothing_heavy(arguments):
    code = f"""
import contextlib, io, sys
from bayes_feasible.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({arguments.split()!r})
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "xarray", "numba", "pymc"} & set(done.stdout.split())


def test_a_step_imports_neither_pymc_nor_matplotlib(tmp_path):
    bf.save(DRUG, tmp_path / "drug.toml")
    code = f"""
import sys
from bayes_feasible.cli import main
path = {str(tmp_path / "a.trial")!r}
assert main(["trial", "new", path, {str(tmp_path / "drug.toml")!r}]) == 0
assert main(["trial", "ask", path]) == main(["trial", "tell", path, "0", "1", "1"]) == 0
assert main(["trial", "status", path]) == 0
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {"pymc", "pytensor", "arviz", "matplotlib", "nutpie"} & loaded


@pytest.mark.parametrize("problem", [DRUG, TWO_LIMITS, bf.Problem([[1, 0.1], [0.1, 1]])])
def test_tables_of_pulls_keep_every_digit(problem, tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", problem)
    arms = [1, 0, 1]
    trial.tell(arms, *world(problem)(arms))
    _call("export", trial.path, "--out", tmp_path / "pulls.csv")
    other = Trial.new(tmp_path / "b.trial", problem)
    _call("tell", other.path, "--csv", tmp_path / "pulls.csv")
    loaded = bf.History.load(tmp_path / "pulls.csv", problem)
    for history in (other.history, loaded):
        assert history.arms.tolist() == arms
        assert history.rewards.tolist() == trial.history.rewards.tolist()
        assert history.costs.tolist() == trial.history.costs.tolist()


@pytest.mark.parametrize("name", ["red \x1b[31m", "new\nline", "a\rb", "tab\t", 'quo"te', "ä,b"])
def test_what_is_printed_is_read_again(name, tmp_path, unsynced, capfdbinary):
    problem = bf.Problem({name: [1, 0], "b": [0, 1]}, {"dose\x07": 1.0})
    trial = Trial.new(tmp_path / "a.trial", problem)
    trial.tell([0, 1], [0.1, 1 / 3], [0.3, 2.0])
    _call("export", trial.path)
    (tmp_path / "pulls.csv").write_bytes(capfdbinary.readouterr().out)
    other = Trial.new(tmp_path / "b.trial", problem)
    assert _call("tell", other.path, "--csv", tmp_path / "pulls.csv") == 0
    assert other.history.arms.tolist() == [0, 1]
    assert other.history.rewards.tolist() == trial.history.rewards.tolist()


def test_a_terminal_is_not_steered(tmp_path, unsynced, capsys, monkeypatch):
    trial = Trial.new(tmp_path / "a.trial", bf.Problem({"\x1b[31m": [1, 0], "b": [0, 1]}))
    trial.tell(0, 0.5)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    _call("export", trial.path)
    assert capsys.readouterr().out == "arm,reward\n\\x1b[31m,0.5\n"


def test_names_that_a_spreadsheet_would_compute(tmp_path, unsynced, capsys):
    problem = bf.Problem({"=1+1": [1, 0], "-5 mg": [0, 1], "plain": [1, 1]}, {"@cost": 1.0})
    trial = Trial.new(tmp_path / "a.trial", problem)
    trial.tell([0, 1, 2], [-0.5, 1.0, 2.0], [0.1, 0.2, 0.3])
    table = tmp_path / "pulls.csv"
    assert _call("export", trial.path, "--spreadsheet", "--out", table) == 0
    rows = table.read_text().splitlines()
    assert rows[0] == "arm,reward,'@cost"
    assert rows[1:] == ["'=1+1,-0.5,0.1", "'-5 mg,1.0,0.2", "plain,2.0,0.3"]
    other = Trial.new(tmp_path / "b.trial", problem)
    assert _call("tell", other.path, "--csv", table) == 0
    assert other.history.arms.tolist() == [0, 1, 2]
    _call("export", trial.path, "--out", table)
    assert table.read_text().splitlines()[1] == "=1+1,-0.5,0.1"
    twins = Trial.new(tmp_path / "c.trial", bf.Problem({"=a": [1, 0], "'=a": [0, 1]}))
    twins.tell([0, 1], [1.0, 2.0])
    assert _call("export", twins.path, "--spreadsheet", "--out", table) == 0
    other = Trial.new(tmp_path / "d.trial", twins.problem)
    assert _call("tell", other.path, "--csv", table) == 0
    assert other.history.arms.tolist() == [0, 1]
