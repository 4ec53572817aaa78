"""Commands on damaged files: exit code 0, or 2 and one line that says where; no traceback.

Every case is made from its number alone: a good file, damaged at random, and a command that reads
it. `python tests/commands/test_fuzz.py 2000` counts the outcomes.
"""

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import pytest

import bayes_feasible as bf
from bayes_feasible import cli

QUICK, SLOW = 160, 2400
SECONDS = 20  # that a command may take
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
CONTROL = [
    "\x1b[31m",
    "\x9b2J",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\x85",
    "\x7f",
    "\u2028",
    "\r",
    "é日🎬",
]
NUMBERS = ["nan", "inf", "-inf", "NaN", "Infinity", "1e308", "1e-320", "-1e200", "1e400", "-0.0",
           "0", "9" * 400, "1_0", "0x10", "true", "null", '"1"', "[]", "{}", "[[1]]", "''", "=1+1",
           ]  # fmt: skip
TOKENS = ["[" * 3000, "{" * 3000, "(" * 3000, '"', "'", ",", "\n", "\n\n", "\0", "::", "=", "#",
          ":", "]", "\ufeff", "name", "__class__", "-", "arms", "low"]  # fmt: skip
SHELL_WORDS = ["", "-1", "nan", "1e999", "x" * 300, "low", "=1", "a=b=c", "9" * 30, "--", ".",
               "/dev/null", "{}", "two\nlines", *CONTROL]  # fmt: skip
READERS = {
    **{
        f"p.{kind}": (
            "rate {}", "check {} --history pulls.csv", "trial new new.trial {}",
            "sample {} --pulls 20 --draws 9 --chains 1 --quiet",
            "sample {} --history pulls.csv --draws 9 --chains 1 --quiet --candidate low",
        )
        for kind in ("toml", "json", "csv")
    },
    "pulls.csv": ("check p.toml --history {}", "trial tell a.trial --csv {}"),
    "pulls.nc": ("check p.toml --history {}",),
    "a.trial": (
        "trial status {}", "trial ask {}", "trial log {}", "trial recommend {}", "trial export {}",
        "trial undo {}", "trial tell {} low 1 0.1 0.2",
    ),
    "films.csv": ("rate --instance movielens films=2 threshold=9 table={}",),
    "study.toml": ("study {} --results-only --workers 1 --out s",),
}  # fmt: skip
ARGUMENTS = (
    "{}", "report {}", "study {}", "rate {}", "rate p.toml --figure {}", "rate --instance soare {}",
    "rate --instance end_of_optimism alpha={}", "rate --instance random_ball d=2 k={} seed=1",
    "check p.toml --history {}", "check p.toml --history pulls.csv --candidate {}",
    "trial {} a.trial", "trial ask a.trial -n {}", "trial log a.trial -n {}",
    "trial undo a.trial --event {}", "trial tell a.trial {} 1 0.1 0.2",
    "trial tell a.trial low 1 {} 0.1", "trial tell a.trial low reward=1 {}=0.1",
    "trial new new.trial p.toml --rule {}", "trial new new.trial p.toml --set {}",
    "trial new new.trial p.toml --set exploration={}", "sample p.toml --candidate {} --draws 9",
    "sample p.toml --sampler {}", "sample --target b --log-probability {} --draws 9",
    "diagnose p.toml --samplers {}",
)  # fmt: skip


def write_good_files(folder):
    """A good file of every kind."""
    arms = {"low": [1.0, 0.2], "high": [1.0, 0.9], "é,x": [0.5, 0.5]}
    problem = bf.Problem(arms, {"dose": 0.5, "price": 2.0}, candidates=dict(arms))
    truth = bf.Instance(problem, [0.1, 1.0], [[0.2, 0.9], [0.1, 0.1]])
    for kind in ("toml", "json", "csv"):
        bf.save(truth, folder / f"p.{kind}")
    pulls = [0, 1, 2] * 8
    history = bf.History(problem, pulls, *truth.pull(pulls, seed=0))
    history.save(folder / "pulls.csv"), history.save(folder / "pulls.nc")
    trial = bf.Trial.new(folder / "a.trial", problem)
    trial.ask(3)
    trial.tell("low", 1.0, [0.1, 0.2])
    table = Path(bf.__path__[0], "data", "movielens_imdb_top60.csv").read_text("utf-8")
    (folder / "films.csv").write_text("".join(table.splitlines(keepends=True)[:4]), "utf-8")
    (folder / "study.toml").write_text(
        'instance = { name = "soare", d = 2 }\nrules = ["Uniform"]\nhorizon = 9\nreplicates = 1\n'
    )
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def damage(content, rng, numbers=NUMBERS):
    """The bytes of a file, damaged in one way or another."""
    at, to = sorted((rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)))
    text = content.decode("utf-8", "surrogateescape")

    def replaced(pattern, choices):
        found = list(re.finditer(pattern, text)) or [re.search("", text)]
        hit = rng.choice(found)
        new = rng.choice(choices)
        return (text[: hit.start()] + new + text[hit.end() :]).encode("utf-8", "surrogateescape")

    ways = {
        "random": lambda: rng.randbytes(rng.randrange(400)),
        "cut": lambda: content[:at],
        "flipped": lambda: content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
        "removed": lambda: content[:at] + content[min(to, at + 40) :],
        "doubled": lambda: content[:to] + content[at:],
        "recoded": lambda: text.encode(rng.choice(["utf-16", "utf-32", "utf-8-sig"]), "replace"),
        "number": lambda: replaced(r"-?\d+\.?\d*", numbers),
        "token": lambda: replaced(r"(?<=\W)|(?=\W)", TOKENS),
        "name": lambda: replaced(r"low|high|dose|price|é,x|Uniform|soare", [*CONTROL, "", "low"]),
        "line twice": lambda: content + rng.choice(content.splitlines(keepends=True)),
    }  # fmt: skip
    return ways[rng.choice(list(ways))]()


def make_case(number, good):
    """Words of the command number `number`, with the bad file in place."""
    rng = random.Random(number)
    for name, content in good.items():
        Path(name).write_bytes(content)
    Path("new.trial").unlink(missing_ok=True)
    shutil.rmtree("s", ignore_errors=True)
    json_too = ["--json"] if rng.random() < 0.5 else []
    if rng.random() < 0.25:
        words = rng.choice(ARGUMENTS).split()
        json_too = json_too if words[0] not in ("{}", "report") else []
        given = rng.choice(SHELL_WORDS)
        return [word.replace("{}", given) for word in words] + json_too
    name = rng.choice(list(READERS))
    bad = f"bad.{name.partition('.')[2]}"
    # A number may make a study too long to wait for; anything else may become of one.
    numbers = [n for n in NUMBERS if "9" not in n and "e" not in n] if "study" in name else NUMBERS
    content = good[name]
    for _ in range(rng.choice([1, 1, 2])):
        content = damage(content, rng, numbers)
    Path(bad).write_bytes(content)
    return rng.choice(READERS[name]).replace("{}", bad).split() + json_too


class TooSlowError(BaseException):
    """No command catches it."""


def fault(words, seconds=SECONDS):
    """What is wrong with how a command ends, and its exit code."""

    def stop(*_):
        raise TooSlowError

    signal.signal(signal.SIGALRM, stop)
    out, err = io.StringIO(), io.StringIO()
    try:
        signal.alarm(seconds)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(words)
    except SystemExit as stopped:  # of argparse
        code = stopped.code
        if code == 2 and "error: " in err.getvalue() and not STEERING.search(err.getvalue()):
            return None, code
        return f"usage: {err.getvalue()[-300:]!r}", code
    except TooSlowError:
        return "too slow", None
    except BaseException:
        return traceback.format_exc(limit=-2), None
    finally:
        signal.alarm(0)
    return _misprint(words, code, out.getvalue(), err.getvalue()), code


def _misprint(words, code, out, err):
    if STEERING.search(out + err):
        return f"steers the terminal: {STEERING.search(out + err)[0]!r}"
    if code == 0:
        if "--json" in words:
            try:
                json.loads(out, parse_constant=int)
            except ValueError as error:
                return f"not JSON: {error}"
        return None
    message = err.splitlines()[-1] if err else ""
    if code != 2 or err.count("\n") != 1 or out:
        return f"exit code {code}: {out[:200]!r} {err[:400]!r}"
    if not message.startswith(f"bayes-feasible {words[0]}: ") or ": " not in message[20:]:
        return f"names nothing: {message!r}"
    if any(word.startswith("bad.") for word in words):
        files = [word for word in words if re.fullmatch(r"(bad|p|pulls|a)\.\w+", word)]
        if not any(f"{file}: " in message for file in files):
            return f"does not name the file: {message!r}"
    return None


def run_cases(numbers, good):
    """Outcomes by kind, and what is wrong."""
    codes, faults = Counter(), []
    for number in numbers:
        words = make_case(number, good)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, code = fault(words)
        codes["fault" if found else code] += 1
        if found:
            faults.append((number, words, found))
    return codes, faults


@pytest.fixture
def good(tmp_path, monkeypatch):
    """Good files, each of which every command of `READERS` takes; all is compiled then."""
    monkeypatch.chdir(tmp_path)
    files = write_good_files(tmp_path)
    warm_up(files)
    return files


def warm_up(good):
    for name, commands in READERS.items():
        for command in commands:
            for path, content in good.items():
                Path(path).write_bytes(content)
            Path("new.trial").unlink(missing_ok=True)
            found = fault(command.replace("{}", name).split(), seconds=600)
            assert found == (None, 0), (command, name, found)


@pytest.mark.parametrize(
    "numbers",
    [range(QUICK), pytest.param(range(QUICK, QUICK + SLOW), marks=pytest.mark.slow)],
    ids=["quick", "slow"],
)
def test_bad_files_are_refused_in_one_line(numbers, good):
    codes, faults = run_cases(numbers, good)
    assert not faults, "\n".join(map(str, faults[:10]))
    assert min(codes[0], codes[2]) > len(numbers) / 30  # some are harmless, most are not


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        last = int(sys.argv[1])
        first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
        good = write_good_files(Path(folder))
        warm_up(good)
        codes, faults = run_cases(range(first, last), good)
        for one in faults:
            print(*one, sep="\n  ")
        print(dict(codes))
