"""`bayes-feasible trial`."""

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _output as output
from bayes_feasible.commands import _source as source

if TYPE_CHECKING:
    from bayes_feasible.history import History
    from bayes_feasible.instance import Instance
    from bayes_feasible.problem import Problem
    from bayes_feasible.trial.trial import Trial

SHOWN = 20  # candidates of which the priors are told
DESCRIPTION = """\
A live experiment in a file: ask which arm to pull, tell what it showed, see how
sure the recommendation is. Every step is on the disk before the command
returns; several people may work on one trial at the same time.
"""
EXAMPLES = """\
examples:
  bayes-feasible trial new drug.trial drug.toml
  bayes-feasible trial ask drug.trial
  bayes-feasible trial tell drug.trial "10 mg" 0.61 0.35
  bayes-feasible trial tell drug.trial "20 mg" reward=0.84 toxicity=0.81
  bayes-feasible trial status drug.trial
"""


class _AnyOrder(argparse.ArgumentParser):
    """Options may stand between the other arguments."""

    _inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._inside:
            return super().parse_known_args(args, namespace)
        self._inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._inside = False


def add(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    trial = add_parser(
        "trial",
        help="a live experiment on disk, pull by pull",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = trial.add_subparsers(dest="step", required=True, metavar="STEP", parser_class=_AnyOrder)
    for name, (declare, text) in _STEPS.items():
        parser = steps.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.")
        parser.add_argument("trial", type=Path, metavar="TRIAL", help="the file of the trial")
        declare(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--wait",
            type=float,
            default=10.0,
            metavar="SECONDS",
            help="how long to wait while another process is writing (10)",
        )
        parser.set_defaults(run=run)


class _Table(str):
    """Text that a program may read."""


def run(options: argparse.Namespace) -> None:
    """Take one step; warnings go to the standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fields, text = _RUN[options.step](options)
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                output.complain("trial", message)
    if options.json:
        output.show_json(fields)
    elif isinstance(text, _Table):
        output.show_file(text)
    else:
        output.show(text)


def _declare_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="a problem file (.toml, .json or .csv)"
    )
    parser.add_argument(
        "--instance",
        nargs="+",
        metavar=("NAME", "KEY=VALUE"),
        help=f"instead of FILE a built-in ({', '.join(source.BUILT_IN)}) and its parameters",
    )
    parser.add_argument(
        "--rule",
        default="Descent",
        metavar="NAME",
        help="what chooses the arms: BLFAIPS, PlugIn, TopTwo, Uniform, ... (Descent)",
    )
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="options of the rule, such as eta=1",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the rule's random numbers (0)"
    )
    parser.add_argument(
        "--recommendation",
        default="mean",
        metavar="WHICH",
        help="what to recommend: the best of the posterior means (mean, the default), the "
        "candidate most probably best (probable), or the best of one draw (draw)",
    )


def _new(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from bayes_feasible.trial.trial import Trial

    trial = Trial.new(
        options.trial,
        _problem(options),
        options.rule,
        options.seed,
        recommendation=options.recommendation,
        wait=options.wait,
        **_settings(options.set),
    )
    fields = {
        "trial": trial.path,
        "rule": trial.rule,
        "settings": trial.settings,
        "seed": trial.seed,
        "recommendation": trial.recommendation,
        "arms": [trial.arm_name(i) for i in range(len(trial.problem.arms))],
        "constraints": [str(name) for name in trial.problem.coords["constraint"].tolist()],
    }
    text = f"{trial.path}: {trial.problem!r}\n  rule {trial.rule}, seed {trial.seed}"
    if trial.problem.textbook:
        return fields, text
    return fields, f"{text}\n\n{_beliefs(trial.problem)}"


def _beliefs(problem: "Problem") -> str:
    """What the priors believe, before the first pull tells otherwise."""
    summary = problem.prior_summary()
    names = summary.outcome.values.tolist()
    lines = ["What the priors believe: mean [95 % interval]"]
    for z in range(min(summary.candidate.size, SHOWN)):
        row = summary.isel(candidate=z)
        each = [
            f"{name} {row['mean'][b]:.3g} [{row.low[b]:.3g}, {row.high[b]:.3g}]"
            for b, name in enumerate(names)
        ]
        if len(names) > 1:
            each.append(f"feasible with probability {row.feasible:.2f}")
        lines.append(f"  {problem.name(z)}: {', '.join(each)}")
    return "\n".join(lines)


def _problem(options: argparse.Namespace) -> "Problem | Instance":
    if (options.file is None) == (options.instance is None):
        raise ValueError("expected a problem: a FILE, or --instance with the name of a built-in")
    if options.instance:
        return source.instance(options)
    from bayes_feasible.files.problems import load

    return load(options.file)


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Options of a rule: numbers, true, false, lists as in JSON, or else texts."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"--set: expected KEY=VALUE, got {pair!r}")
        if key in settings:
            raise ValueError(f"--set: {key} is given twice")
        if key in ("cls", "path", "problem", "rule", "seed", "recommendation", "wait"):
            raise ValueError(f"--set: {key} is not an option of a rule")
        try:
            settings[key] = json.loads(text)
        except (ValueError, RecursionError):
            settings[key] = text
    return settings


def _declare_ask(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", type=int, default=1, metavar="PULLS", help="how many pulls (1)")


def _ask(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    trial = _open(options)
    arms = trial.ask(options.n).tolist()
    names = [trial.arm_name(arm) for arm in arms]
    fields = {"trial": trial.path, "asked": names, "indices": arms, "pending": _pending(trial)}
    return fields, "\n".join(name.replace("\n", "\\n") for name in names)  # one a line


def _declare_tell(parser: argparse.ArgumentParser) -> None:
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
    parser._negative_number_matcher = source.NEGATIVE_NUMBER


def _tell(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    if (options.arm is None) == (options.csv is None):
        raise ValueError("expected an arm and what it showed, or --csv with a file of pulls")
    trial = _open(options)
    if options.csv is not None:
        rows = _from_csv(trial, options.csv, source.columns(options))
        event = trial.tell(rows.arms, rows.rewards, rows.costs, rows.counts, sd=rows.sds)
    elif options.columns:
        raise ValueError("--columns: has no meaning without --csv")
    else:
        spread = {name: _number(text, f"--sd {name}") for name, text in _pairs(options.sd, "--sd")}
        values = _values(trial, options.values)
        event = trial.tell(options.arm, *values, count=options.count, sd=spread or None)
    told = trial.events[event - 1]
    unasked = trial.unasked(event)
    pulls, pending = trial.posterior.pulls, _pending(trial)
    number = sum(told.get("counts", [1] * len(told["arms"])))
    fields = {
        "trial": trial.path,
        "event": event,
        "told": number,
        "unasked": unasked,
        "pulls": pulls,
        "pending": pending,
    }
    lines = [f"Event {event}: {_described(trial, told)}"]
    if unasked:
        one = number == 1
        lines.append("It was not asked for" if one else f"{unasked} of these were not asked for")
    waiting = sum(pending.values())
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


def _status(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    status = _open(options).status()
    return status.to_dict(), str(status)


def _recommend(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from bayes_feasible.trial.status import recommendation_fields

    choice = _open(options).recommend()
    return recommendation_fields(choice), str(choice)


def _declare_undo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--event", type=int, metavar="N", help="take back this tell instead (see log)"
    )


def _undo(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    trial = _open(options)
    taken = trial.undo(options.event)
    fields = {"trial": trial.path, "taken_back": taken["n"], "kind": taken["event"]}
    text = f"Taken back: event {taken['n']}, {_described(trial, taken)}"
    return fields | {"pulls": trial.posterior.pulls, "pending": _pending(trial)}, text


def _declare_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", type=int, metavar="LINES", help="only so many, the last ones")


def _log(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    trial = _open(options)
    if options.n is not None and options.n < 1:
        raise ValueError(f"-n: expected at least 1, got {options.n}")
    events = trial.events[-options.n if options.n else 0 :]
    lines = []
    for event in events:
        undone = trial.undone(event["n"])
        note = f" (taken back by {undone})" if undone else ""
        time = event["time"][:19].replace("T", " ")
        lines.append(f"{event['n']:>6}  {time}  {_described(trial, event)}{note}")
    return {"trial": trial.path, "head": trial.head, "events": events}, "\n".join(lines)


def _declare_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write this file instead of printing"
    )
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="put an apostrophe before names that a spreadsheet would take for formulas",
    )


def _export(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from bayes_feasible.files.atomic import replaced
    from bayes_feasible.files.pulls import write_pulls

    trial = _open(options)
    table = write_pulls(trial.history, spreadsheet=options.spreadsheet)
    fields: dict[str, Any] = {"trial": trial.path, "pulls": trial.posterior.pulls}
    if options.out is None:
        return fields | {"csv": table}, _Table(table)
    output.keep(options.trial, options.out)
    with replaced(options.out) as new:
        new.write_text(table, encoding="utf-8")
    return fields | {"written": str(options.out)}, f"Written: {options.out}"


def _open(options: argparse.Namespace) -> "Trial":
    from bayes_feasible.trial.trial import Trial

    if not options.trial.exists():
        raise FileNotFoundError(
            f"{options.trial}: no such trial; start one with: "
            f"bayes-feasible trial new {options.trial} FILE"
        )
    return Trial(options.trial, wait=options.wait)


def _pending(trial: "Trial") -> dict[str, int]:
    return {arm: count for arm, count in trial.waiting.items() if count}


def _described(trial: "Trial", event: dict[str, Any]) -> str:
    """An event in words."""
    kind = event["event"]
    if kind == "new":
        return f"new trial, rule {event['rule']}, seed {event['seed']}"
    if kind == "undo":
        return f"undo of event {event['of']}"
    arms = [trial.arm_name(arm) for arm in event["arms"]]
    if kind == "ask":
        return f"ask: {', '.join(arms[:8])}{f', ... ({len(arms)})' if len(arms) > 8 else ''}"
    number = sum(event.get("counts", [1] * len(arms)))
    if len(arms) > 1:
        return f"tell of {number} pulls"
    totals = f" in {number} pulls" if number > 1 else ""
    names = trial.problem.coords["constraint"].tolist()
    labels = [name if isinstance(name, str) else f"cost {name}" for name in names]
    shown = [
        f"{label} {value:g}"
        for label, value in zip(
            [trial.problem.reward_name, *labels], [event["rewards"][0], *event["costs"][0]],
            strict=True,
        )
        if value is not None
    ]  # fmt: skip
    return f"tell: {arms[0]} showed {', '.join(shown) or 'nothing'}{totals}"


def _nothing(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


_STEPS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "new": (_declare_new, "start a trial"),
    "ask": (_declare_ask, "which arm to pull next, one a line; every call asks for further pulls"),
    "tell": (_declare_tell, "what a pull showed, asked for or not"),
    "status": (_nothing, "posterior, current choice, probability that it is wrong, pending pulls"),
    "recommend": (_nothing, "the current choice, and the probability that it is wrong"),
    "undo": (_declare_undo, "take back the last ask or tell; nothing is deleted"),
    "log": (_declare_log, "all events in order"),
    "export": (_declare_export, "the pulls as a CSV table"),
}
_RUN: dict[str, Callable[[argparse.Namespace], tuple[dict[str, Any], str]]] = {
    "new": _new,
    "ask": _ask,
    "tell": _tell,
    "status": _status,
    "recommend": _recommend,
    "undo": _undo,
    "log": _log,
    "export": _export,
}
