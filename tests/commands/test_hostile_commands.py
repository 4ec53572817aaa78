"""The command, asked for the impossible: exit code 2, one line on the standard error, no traceback.

And what was finished is never lost: not by a full disk, not by a terminal that cannot show a name.
"""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bayes_feasible as bf
from bayes_feasible import cli

COMMAND = str(Path(sys.executable).with_name("bayes-feasible"))
DRUG = bf.Problem({"low": [1.0, 0.2], "high": [1.0, 0.9]}, {"dose": 0.5})
TRUTH = bf.Instance(DRUG, [0.1, 1.0], [0.2, 0.9])
STUDY = 'instance = { name = "soare" }\nrules = ["Uniform"]\nhorizon = 10\nreplicates = 1\n'
LONG = "1" + "0" * 5000
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with a file of every kind, some of them bad."""
    folder = tmp_path_factory.mktemp("template")
    bf.save(TRUTH, folder / "truth.toml")
    bf.save(DRUG, folder / "drug.toml")
    bf.save(bf.Problem([[1.0, 0.0], [0.0, 1.0]]), folder / "plain.toml")
    files = {
        "study.toml": STUDY,
        "deep.toml": f"title = {DEEP}",
        "kind.toml": STUDY.replace('["Uniform"]', '{ a = { kind = ["Uniform"] } }'),
        "empty.toml": "",
        "pulls.csv": "arm,reward,dose\nlow,1,0.1\nhigh,2,0.9\n",
        "nobody.csv": "arm,reward,dose\nnobody,1,0.1\n",
        "binary.csv": "\udcff\udcfe",
        "cut.nc": "\udc89HDF\r\n\x1a\n1234",
        "table.csv": "movieId,title\n1,A\n",
        "utf16.toml": "",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    (folder / "utf16.toml").write_bytes(STUDY.encode("utf-16"))
    for name, target in {
        "loop.toml": "loop.toml", "dangling.toml": "nowhere", "loop.trial": "loop.trial",
        **{f"endless.{kind}": "/dev/zero" for kind in ("toml", "csv", "nc", "trial")},
    }.items():  # fmt: skip
        os.symlink(target, folder / name)
    bf.History(DRUG, [0], [1.0], [0.1]).save(folder / "pulls.nc")
    bf.Trial.new(folder / "a.trial", DRUG)
    return folder


@pytest.fixture(autouse=True)
def folder(template, tmp_path, monkeypatch):
    """A copy of that folder to work in, with a pipe."""
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    os.mkfifo(tmp_path / "pipe.trial")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    """What is in the files; links and pipes are left alone."""
    files = [path for path in folder.iterdir() if path.is_file() and not path.is_symlink()]
    return {path: path.read_bytes() for path in files}


def run(*words):
    """The exit code, whoever gives it."""
    try:
        return cli.main(list(map(str, words)))
    except SystemExit as stopped:  # of argparse
        return stopped.code


# Words of the command, and what it must say.
BLFAIPS = ["trial", "new", "b.trial", "drug.toml", "--rule", "BLFAIPS"]
BAD = [
    # the command itself
    ([], "required: COMMAND"),
    (["rates"], "invalid choice: 'rates'"),
    (["--horizon", "3"], "error"),
    (["\0"], "invalid choice"),
    (["doctor", "x"], "unrecognized arguments"),
    # rate
    (["rate"], "required"),
    (["rate", "none.toml"], "none.toml: no such file"),
    (["rate", ""], "this is a folder"),
    (["rate", "a\0.toml"], "no file can be called 'a\\x00.toml'"),
    (["rate", "x" * 300 + ".toml"], "too long"),
    (["rate", "drug.toml"], "the true parameters are needed"),
    (["rate", "empty.toml"], "arms: missing"),
    (["rate", "binary.csv"], "expected text in UTF-8"),
    (["rate", "truth.toml", "--instance", "soare"], "not allowed with"),
    (["rate", "truth.toml", "--figure", "rate.gif"], "--figure: "),
    (["rate", "truth.toml", "--figure", "none/rate.png"], "there is no folder"),
    (["rate", "--instance", "saore"], "--instance: "),
    (["rate", "--instance", "soare", "d"], "expected KEY=VALUE"),
    (["rate", "--instance", "soare", "d=2", "d=2"], "d is given twice"),
    (["rate", "--instance", "soare", "d=two"], "d: "),
    (["rate", "--instance", "soare", f"d={LONG}"], "d: "),
    (["rate", "--instance", "soare", "__class__=1"], "expected one of d, angle"),
    (["rate", "--instance", "random_ball", "d=2", "k=3"], "seed must be given"),
    (["rate", "--instance", "random_ball", "d=2", "k=99999999999", "seed=1"], "k: "),
    (["rate", "--instance", "movielens", "table=none.csv"], "none.csv"),
    (["rate", "--instance", "movielens", "table=."], "folder"),
    (["rate", "--instance", "movielens", "table=table.csv"], "table.csv"),
    (["rate", "--instance", "movielens", "table=binary.csv"], "binary.csv"),
    (["rate", "loop.toml"], "loop.toml: no such file"),
    (["rate", "dangling.toml"], "dangling.toml: no such file"),
    (["rate", "endless.toml"], "endless.toml: expected a file, this is a device"),
    (["rate", "/dev/stdin"], "/dev/stdin: expected the extension"),
    (["rate", "\x1b[31mred.toml"], "\\x1b[31mred.toml: no such file"),
    (["rate", "truth.toml", "truth.toml"], "unrecognized arguments"),
    (["rate", "truth.toml", "--figure", ".png"], "--figure: "),
    (["rate", "truth.toml", "--figure", "/proc/rate.png"], "/proc/rate.png: could not be written"),
    (["rate", "--instance"], "argument --instance"),
    (["rate", "--instance", "soare", "=2"], "unknown parameter ''"),
    (["rate", "--instance", "end_of_optimism", "alpha=1e308"], "alpha: 1e+308 is too large"),
    (["rate", "--instance", "movielens", "features=x"], "features: "),
    # trial
    (["trial"], "required: STEP"),
    (["trial", "ask", ""], "this is a folder"),
    (["trial", "ask", "loop.trial"], "loop.trial: no such trial"),
    (["trial", "ask", "endless.trial"], "endless.trial: not a trial"),
    (["trial", "ask", "pipe.trial"], "pipe.trial: not a trial"),
    (["trial", "ask", "/proc/self/mem"], "/proc/self/mem: cannot be read"),
    (["trial", "ask", "a.trial", "-n", "99999999999999999999"], "n: expected at most"),
    (["trial", "new", "b.trial"], "expected a problem"),
    (["trial", "new", "b.trial", "drug.toml", "--instance", "soare"], "expected a problem"),
    (["trial", "new", "b\0.trial", "drug.toml"], "no file can be called 'b\\x00.trial'"),
    (["trial", "new", "loop.trial", "drug.toml"], "there is such a file already"),
    (["trial", "new", "pipe.trial", "drug.toml"], "there is such a file already"),
    (["trial", "new", "/dev/full", "drug.toml"], "there is such a file already"),
    (["trial", "new", "/proc/b.trial", "drug.toml"], "/proc/b.trial: could not be written"),
    (["trial", "new", "drug.toml/b.trial", "drug.toml"], "there is no folder drug.toml"),
    (["trial", "new", "b.trial", "drug.toml", "--rule", "__init__"], "unknown rule '__init__'"),
    (["trial", "new", "b.trial", "drug.toml", "--set", "exploration"], "expected KEY=VALUE"),
    (["trial", "new", "b.trial", "drug.toml", "--set", "=3"], "unknown option ''"),
    (["trial", "new", "b.trial", "drug.toml", "--set", "cls=1"], "cls is not an option"),
    (["trial", "new", "b.trial", "drug.toml", "--set", "self=1"], "unknown option 'self'"),
    ([*BLFAIPS, "--set", 'exploration={"a": 1}'], "exploration: "),
    (["trial", "new", "b.trial", "drug.toml", "--set", "zzz=1", "--set", "exploration=0.5"],
     "unknown option 'zzz'"),
    (["trial", "new", "b.trial", "drug.toml", "--rule", "Uniform", "--set", "allocation=[1, 0]"],
     "Uniform: unknown option 'allocation'"),
    (["trial", "new", "b.trial", "drug.toml", "--rule", "FixedAllocation", "--set",
      "allocation_followed=[1, 0]"], "unknown option 'allocation_followed'"),
    (["trial", "new", "b.trial", "drug.toml", "--set", "a=1", "--set", "a=2"], "a is given twice"),
    (["trial", "tell", "a.trial", "low", "1_0", "1"], "expected a number, got '1_0'"),
    (["trial", "tell", "a.trial", "low", "", "1"], "expected a number, got ''"),
    (["trial", "tell", "a.trial", "low", "-inf", "1"], "reward: "),
    (["trial", "tell", "a.trial", "low", "1", "reward=2"], "reward: given twice"),
    (["trial", "tell", "a.trial", "low", "reward=1", "reward=2", "dose=1"], "reward: given twice"),
    (["trial", "tell", "a.trial", "low", "1"], "cost: "),
    (["trial", "tell", "a.trial", "low", "reward=1", "dose="], "dose: expected a number"),
    (["trial", "tell", "a.trial", "low", "=1", "1"], "unknown outcome ''"),
    (["trial", "tell", "a.trial", "LOW", "1", "1"], "did you mean 'low'?"),
    (["trial", "tell", "a.trial", "low", "1", "1", "--csv", "pulls.csv"], "expected an arm"),
    (["trial", "tell", "a.trial", "--csv", "loop.toml"], "loop.toml: cannot be read"),
    (["trial", "tell", "a.trial", "--csv", "utf16.toml"], "expected text in UTF-8"),
    (["trial", "tell", "a.trial", "--csv", "endless.csv"], "endless.csv: expected a file"),
    (["trial", "undo", "a.trial", "--event", "9" * 30], "nothing to take back"),
    (["trial", "export", "a.trial", "--out", "a.trial"], "--out: expected the extension"),
    (["trial", "export", "a.trial", "--out", "/dev/full"], "--out: expected the extension"),
    (["trial", "export", "a.trial", "--out", "/proc/x.csv"], "/proc/x.csv: could not be written"),
    (["trial", "asks"], "invalid choice: 'asks'"),
    (["trial", "ask"], "required: TRIAL"),
    (["trial", "ask", "none.trial"], "none.trial: no such trial"),
    (["trial", "ask", "drug.toml"], "not a trial"),
    (["trial", "ask", "a.trial", "-n", "-1"], "n: expected at least 1"),
    (["trial", "ask", "a.trial", "--wait", "nan"], "wait: "),
    (["trial", "ask", "a.trial", "--wait", "soon"], "argument --wait"),
    (["trial", "new", "", "drug.toml"], "this is a folder"),
    (["trial", "new", "a.trial", "drug.toml"], "there is such a file already"),
    (["trial", "new", "b.trial", "drug.toml", "--seed", LONG], "argument --seed"),
    (["trial", "new", "b.trial", "drug.toml", "--rule", "Best"], "unknown rule 'Best'"),
    (["trial", "new", "b.trial", "drug.toml", "--rule", "PEPS"], "PEPS knows no constraint"),
    (["trial", "new", "b.trial", "drug.toml", "--rule", "Oracle"], "Oracle needs an Instance"),
    (["trial", "new", "b.trial", "drug.toml", "--recommendation", "x"], "recommendation: "),
    ([*BLFAIPS, "--set", f"exploration={DEEP}"], "exploration: "),
    ([*BLFAIPS, "--set", f"exploration={LONG}"], "exploration: "),
    (["trial", "new", "b.trial", "drug.toml", "--set", "wait=3"], "wait is not an option"),
    (["trial", "new", "b.trial", "plain.toml", "--rule", "PEPS", "--set", "learner=hedge",
      f"horizon=1{'0' * 400}"], "horizon: "),
    (["trial", "tell", "a.trial"], "expected an arm"),
    (["trial", "tell", "a.trial", "9" * 5000, "1", "1"], "digits"),
    (["trial", "tell", "a.trial", "low", "inf", "1"], "reward: "),
    (["trial", "tell", "a.trial", "low", "1", "dose=x"], "dose: "),
    (["trial", "tell", "a.trial", "low", "1", "dosis=1"], "unknown outcome 'dosis'"),
    (["trial", "tell", "a.trial", "--csv", "."], ".: expected a file"),
    (["trial", "tell", "a.trial", "--csv", "nobody.csv"], "unknown arm 'nobody'"),
    (["trial", "tell", "a.trial", "--csv", "binary.csv"], "binary.csv"),
    (["trial", "undo", "a.trial"], "nothing to take back"),
    (["trial", "undo", "a.trial", "--event", "x"], "argument --event"),
    (["trial", "log", "a.trial", "-n", "0"], "-n: "),
    (["trial", "export", "a.trial", "--out", "none/x.csv"], "there is no folder"),
    # check
    (["check", "drug.toml"], "required: --history"),
    (["check", "drug.toml", "--history", "none.csv"], "none.csv: no such file"),
    (["check", "drug.toml", "--history", "drug.toml"], "expected the extension"),
    (["check", "drug.toml", "--history", "cut.nc"], "cut.nc: "),
    (["check", "drug.toml", "--history", "pulls.csv", "--candidate", "lwo"], "candidate"),
    (["check", "plain.toml", "--history", "pulls.csv"], "pulls.csv: "),
    (["check", "drug.toml", "--history", "endless.csv"], "endless.csv: expected a file"),
    (["check", "drug.toml", "--history", "endless.nc"], "endless.nc: "),
    # study and report
    (["study", "endless.toml"], "endless.toml: expected a file"),
    (["study", "study.toml", "study.toml"], "unrecognized arguments"),
    (["study", "study.toml", "--out", ""], "holds no study but other files"),
    (["study", "study.toml", "--out", "loop.toml"], "out: expected a folder"),
    (["study", "study.toml", "--out", "/proc/s"], "/proc/s"),
    (["study", "study.toml", "--out", "s", "--dask", ""], "dask: "),
    (["study", "study.toml", "--out", "s", "--dask", "local:0"], "dask: "),
    (["report", "/dev/null"], "no such folder"),
    (["report", ".", "--out", "summary.nc"], "--out: expected the extension"),
    (["study", "none.toml"], "none.toml: no such file"),
    (["study", "empty.toml"], "missing"),
    (["study", "deep.toml"], "nested too deeply"),
    (["study", "kind.toml"], "kind: "),
    (["study", "pulls.csv"], "pulls.csv: "),
    (["study", "study.toml", "--out", "."], "holds no study but other files"),
    (["study", "study.toml", "--out", "study.toml/x"], "irectory"),
    (["study", "study.toml", "--workers", "0"], "workers: "),
    (["study", "study.toml", "--workers", "many"], "argument --workers"),
    (["study", "study.toml", "--restart", "--extend"], "not allowed with"),
    (["study", "study.toml", "--dask", "tcp://x", "--workers", "2"], "not allowed with"),
    (["report", "none"], "none: no such folder"),
    (["report", "."], "summary.nc"),
    # sample and diagnose
    (["sample"], "required"),
    (["sample", "drug.toml"], "the true parameters are needed"),
    (["sample", "truth.toml", "--out", "draws.txt"], "--out: "),
    (["sample", "truth.toml", "--pulls", "1" + "0" * 30], "--pulls: "),
    (["sample", "truth.toml", "--out", "none/draws.nc"], "there is no folder"),
    (["sample", "truth.toml", "--rule", "Best"], "argument --rule"),
    (["sample", "truth.toml", "--candidate", "lwo"], "--candidate: "),
    (["sample", "drug.toml", "--history", "pulls.csv", "--pulls", "3"], "--pulls: "),
    (["sample", "--target", "d"], "argument --target"),
    (["sample", "--target", "a", "--pulls", "3"], "--pulls: "),
    (["sample", "truth.toml", "--draws", "1e3"], "argument --draws"),
    (["sample", "truth.toml", "--seed", ""], "argument --seed"),
    (["sample", "truth.toml", "--rule", "BLFAIPS", "--seed", "-4"], "seed: "),
    (["sample", "truth.toml", "--target", "a"], "not allowed with"),
    (["sample", "truth.toml", "--log-probability", "-5"], "has no meaning without --target"),
    (["sample", "truth.toml", "--out", "x.NC"], "--out: "),
    (["sample", "drug.toml", "--history", "pulls.nc", "--out", "pulls.nc"], "overwrite"),
    (["sample", "--target", "a", "--rule", "BLFAIPS"], "--rule: "),
    (["sample", "--target", "a", "--log-probability", "nan"], "log_probability: "),
    (["sample", "--target", "a", "--log-probability", "-1e308"], "log_probability: "),
    (["diagnose"], "required"),
    (["diagnose", "truth.toml", "--samplers", "exact", "--quick"], "not allowed with"),
    (["diagnose", "truth.toml", "--out", "/proc/x"], "--out: /proc/x cannot be made"),
    (["diagnose", "truth.toml", "--out", "study.toml"], "--out: "),
    (["diagnose", "truth.toml", "--samplers"], "argument --samplers"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"), [pytest.param(*row, id=" ".join(row[0])[:70]) for row in BAD]
)
def test_bad_commands_are_told_in_one_line(words, message, folder, capsys):
    before = contents(folder)
    assert run(*words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    *usage, line = shown.err.splitlines()
    assert message in line
    assert line.startswith("bayes-feasible")
    assert not usage or usage[0].startswith("usage: ")  # of argparse; our own are one line
    assert "Traceback" not in shown.err
    assert contents(folder) == before


# --- folders of studies ---


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a small study."""
    place = tmp_path_factory.mktemp("finished")
    (place / "study.toml").write_text(STUDY)
    words = ["study", place / "study.toml", "--out", place / "study", "--results-only", "--quiet"]
    assert run(*words) == 0
    return place / "study"


# --- terminals that cannot show everything ---


def command(*words, **environment):
    return subprocess.run(
        [COMMAND, *map(str, words)], env=os.environ | environment, capture_output=True, check=False
    )


def test_a_name_that_the_terminal_cannot_show_does_not_hide_that_a_step_was_taken():
    bf.save(bf.Problem({"é": [1.0], "b": [2.0]}), "unicode.toml")
    bf.Trial.new("u.trial", bf.load("unicode.toml"))
    done = command("trial", "tell", "u.trial", "é", "1", PYTHONIOENCODING="ascii")
    assert len(bf.Trial("u.trial").history) == 1
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\xe9" in done.stdout


def test_the_rate_can_be_shown_without_greek_letters():
    done = command("rate", "truth.toml", PYTHONIOENCODING="cp1252")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"nats per pull" in done.stdout


@pytest.mark.parametrize("words", [["rate", "odd.toml"], ["trial", "status", "odd.trial"]])
def test_a_name_does_not_steer_the_terminal(words, capsys):
    bf.save(bf.Instance(bf.Problem({"\x1b[31ma": [1.0], "b\x07": [2.0]}), [1.0]), "odd.toml")
    bf.Trial.new("odd.trial", bf.load("odd.toml"))
    assert run(*words) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[31ma" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_asked_arms_stand_one_a_line_whatever_their_names(capsys):
    bf.Trial.new("odd.trial", bf.Problem({"a\nb": [1.0]}))
    assert run("trial", "ask", "odd.trial", "-n", "2") == 0
    assert capsys.readouterr().out == "a\\nb\na\\nb\n"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["$\\foo$", "a$b", "日本🎬", "_a"])
def test_a_name_in_a_figure_is_no_formula(name):
    bf.save(bf.Instance(bf.Problem({name: [1.0], "b": [2.0]}), [1.0]), "odd.toml")
    assert run("rate", "odd.toml", "--figure", "odd.png") == 0
    assert Path("odd.png").exists()


# --- streams that are closed or full ---


def shell(words):
    done = subprocess.run(
        ["bash", "-c", f"'{COMMAND}' {words}"], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


FULL = "done, but the output could not be written (No space left on device)\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("trial tell a.trial low 1 1 >/dev/full", 1, f"bayes-feasible trial: {FULL}"),
        ("trial tell a.trial low 1 1 --json >/dev/full", 1, f"bayes-feasible trial: {FULL}"),
        ("trial tell a.trial low 1 1 >&-", 0, ""),
        ("trial tell a.trial low 1 1 2>&-", 0, ""),
        ("trial tell a.trial low 1 1 | head -c0; exit ${PIPESTATUS[0]}", 141, ""),
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_shown_was_taken(words, code, message):
    """Exit code 2 would say that nothing was done, and the pull would be told twice."""
    assert shell(words) == (code, message)
    assert len(bf.Trial("a.trial").history) == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--version >/dev/full", 1, FULL),
        ("study --template >/dev/full", 1, FULL),
        ("rate truth.toml >&-", 0, ""),
        ("rate none.toml 2>&-", 2, ""),
        ("trial tell a.trial --csv - <&-", 2, "-: line 1: column 'arm' is missing"),
    ],
)
def test_streams_that_are_closed_or_full(words, code, message):
    found, shown = shell(words)
    assert found == code
    assert message in shown
    assert shown.count("\n") == (1 if message else 0)


def test_a_folder_that_is_gone():
    done = subprocess.run(
        ["bash", "-c", f"mkdir gone; cd gone; rmdir ../gone; '{COMMAND}' rate truth.toml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "the folder it is run in does not exist any more" in done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"COLUMNS": "20", "TERM": "dumb", "NO_COLOR": "1", "HOME": ""},
        {"COLUMNS": "x", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=str,
)  # fmt: skip
def test_odd_surroundings(environment):
    done = command("rate", "truth.toml", **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"nats per pull" in done.stdout


def test_too_little_memory_is_told(monkeypatch, capsys):
    def load(*_):
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr(bf.History, "load", load)
    assert run("check", "drug.toml", "--history", "pulls.csv") == 1
    assert capsys.readouterr().err == (
        "bayes-feasible check: there is not enough memory (Unable to allocate 7.28 TiB)\n"
    )


# --- full disks ---

WRITES = """
import resource, sys
from pathlib import Path
import bayes_feasible as bf
from bayes_feasible import cli

problem = bf.load("drug.toml")
rule = bf.BLFAIPS(problem)
history = bf.History(problem, [0, 1] * 200, [1.0, 2.0] * 200, [0.1, 0.2] * 200)
trial = bf.Trial("a.trial")
steps = {
    "rule": lambda: rule.save("rule.json"),
    "history": lambda: history.save("pulls.nc"),
    "table": lambda: history.save("pulls.csv"),
    "problem": lambda: bf.save(bf.instances.movielens(), "drug.toml"),
    "tell": lambda: trial.tell([0] * 100, [1.0] * 100, [0.1] * 100),
    "new": lambda: bf.Trial.new("new.trial", problem),
}
rule.save("other.json"), history.save("other.nc")  # everything is imported
Path("other.json").unlink(), Path("other.nc").unlink()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
for name, step in steps.items():
    try:
        step()
    except OSError as error:
        print(name, "refused:", error)
    else:
        print(name, "written")
if cli.main(["trial", "tell", "a.trial", "low", "1", "0.1"]) == 1:
    print("command refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(trial.tell(0, 1.0, 0.1), len(bf.Trial("a.trial").history))
"""


@pytest.mark.parametrize("limit", [100, pytest.param(0, marks=pytest.mark.slow)])
def test_a_full_disk_loses_nothing_and_crashes_nothing(limit, folder):
    """No file may grow beyond the limit, which is what a full disk or a quota looks like."""
    rule, history = bf.BLFAIPS(DRUG), bf.History(DRUG, [0], [1.0], [0.1])
    rule.save("rule.json"), history.save("pulls.nc"), history.save("pulls.csv")
    before = {path.name: content for path, content in contents(folder).items()}
    done = subprocess.run(
        [sys.executable, "-c", WRITES, str(limit)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    for name, path in {
        "rule": "rule.json", "history": "pulls.nc", "table": "pulls.csv", "problem": "drug.toml",
        "tell": "a.trial", "new": "new.trial",
    }.items():  # fmt: skip
        assert any(line.startswith(f"{name} refused: ") and path in line for line in lines), lines
    assert "command refused" in lines
    assert done.stderr.count("\n") == 1
    assert last == "2 1"  # the second event of the trial, with its one pull: all is well again
    after = {path.name: content for path, content in contents(folder).items()}
    assert {name for name in before if before[name] != after[name]} == {"a.trial"}
    assert set(after) == set(before)
    assert after["a.trial"].startswith(before["a.trial"])


def test_a_study_on_a_full_disk_keeps_what_is_finished(finished):
    """Exit code 1: the study stopped, and the same command goes on when there is room again."""
    shutil.copytree(finished, "s")
    part = next(Path("s/parts").iterdir())
    whole = {path.name: path.read_bytes() for path in Path("s").glob("*.nc")}
    kept = part.read_bytes()
    Path("s/results.nc").unlink()
    done = subprocess.run(
        [COMMAND, "study", "study.toml", "--out", "s", "--results-only", "--quiet"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "1 of 1 parts are finished and kept in s" in done.stderr
    assert "Traceback" not in done.stderr
    assert part.read_bytes() == kept
    words = ["study", "study.toml", "--out", "s", "--results-only", "--quiet"]
    assert run(*words) == 0
    assert {path.name: path.read_bytes() for path in Path("s").glob("*.nc")} == whole
