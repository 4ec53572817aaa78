"""What pulls showed."""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _source as source
from bayes_feasible.commands.trial._trial import add_key, open_trial, pending

if TYPE_CHECKING:
    from bayes_feasible.history import History
    from bayes_feasible.trial.trial import Trial

HELP = "what a pull showed, asked for or not"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("arm", nargs="?", metavar="ARM", help="name or index of the arm")
    parser.add_argument(
        "values",
        nargs="*",
        metavar="VALUE",
        help="the reward and the costs, in the order of the constraints or as NAME=VALUE; what is "
        "left out by name, or nan, was not seen (yet)",
    )
    parser.add_argument(
        "--count",
        type=int,
        default=1,
        metavar="PULLS",
        help="how many pulls the values are totals of (1)",
    )
    parser.add_argument(
        "--sd",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="standard deviation over these pulls, which makes the value of NAME their mean",
    )
    parser.add_argument(
        "--csv",
        metavar="FILE",
        help="instead, many rows: a table with columns arm, the reward and the constraints, and "
        "count and sd_NAME where rows sum up many pulls; - is the standard input",
    )
    source.add_columns(parser)
    add_key(parser)
    parser._negative_number_matcher = source.NEGATIVE_NUMBER


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    from bayes_feasible.trial.describe import describe_event

    if (options.arm is None) == (options.csv is None):
        raise ValueError("expected an arm and what it showed, or --csv with a file of pulls")
    trial, key = open_trial(options), options.key
    if options.csv is not None:
        rows = _from_csv(trial, options.csv, source.columns(options))
        event = trial.tell(rows.arms, rows.rewards, rows.costs, rows.counts, sd=rows.sds, key=key)
    elif options.columns:
        raise ValueError("--columns: has no meaning without --csv")
    else:
        spread = {name: _number(text, f"--sd {name}") for name, text in _pairs(options.sd, "--sd")}
        values = _values(trial, options.values)
        event = trial.tell(options.arm, *values, count=options.count, sd=spread or None, key=key)
    told = trial.events[event - 1]
    unasked = trial.unasked(event)
    pulls, waits = trial.posterior.pulls, pending(trial)
    number = sum(told.get("counts", [1] * len(told["arms"])))
    fields = {
        "trial": trial.path,
        "event": event,
        "told": number,
        "unasked": unasked,
        "pulls": pulls,
        "pending": waits,
    }
    lines = [f"Event {event}: {describe_event(trial.problem, told)}"]
    if unasked:
        one = number == 1
        lines.append("It was not asked for" if one else f"{unasked} of these were not asked for")
    waiting = sum(waits.values())
    lines.append(f"{pulls} pull{'s' * (pulls != 1)} so far, {waiting} pending")
    return fields, "\n".join(lines)


def _values(trial: "Trial", texts: Sequence[str]) -> tuple[float, Any]:
    """Reward and costs, given in order or by name; what was not seen is NaN."""
    from bayes_feasible._check import unknown

    problem = trial.problem
    names = [problem.reward_name, *map(str, problem.coords["constraint"].tolist())]
    in_order: list[float] = []
    by_name: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        name = names[0] if name == "reward" and name not in names else name
        if not equals:
            in_order.append(_number(text, "value"))
        elif name in by_name or (name == names[0] and in_order):
            raise ValueError(f"{name}: given twice")
        elif name not in names:
            raise ValueError(f"{name}: {unknown('outcome', name, names)}")
        else:
            by_name[name] = _number(value, name)
    if not texts:
        wanted = " and ".join(names)
        raise ValueError(f"expected {wanted} after the arm")
    named = bool(by_name)
    if named and not in_order:
        in_order = [by_name.pop(names[0], math.nan)]
    reward, *costs = in_order
    if costs and by_name:
        raise ValueError("cost: expected all costs by name, or all in order")
    return reward, [by_name.get(name, math.nan) for name in names[1:]] if named else costs


def _pairs(texts: Sequence[str], option: str) -> Iterator[tuple[str, str]]:
    """The parts of NAME=VALUE."""
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise ValueError(f"{option}: expected NAME=VALUE, got {text!r}")
        yield name, value


def _number(text: str, name: str) -> float:
    try:
        if "_" in text:
            raise ValueError
        return float(text)
    except ValueError:
        raise ValueError(f"{name}: expected a number, got {text!r}") from None


def _from_csv(trial: "Trial", path: str, columns: dict[str, str | None]) -> "History":
    from bayes_feasible.files.guard import read_file
    from bayes_feasible.files.pulls import read_pulls

    try:
        content = sys.stdin.buffer.read() if path == "-" else read_file(path)
        return read_pulls(content.decode("utf-8"), trial.problem, columns)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8 ({error})") from error
    except OSError as error:
        raise OSError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
