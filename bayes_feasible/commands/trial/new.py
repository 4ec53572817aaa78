"""Start a trial."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible.commands import _source as source
from bayes_feasible.commands.trial._clauses import add_clauses, safety_of, stop_of

if TYPE_CHECKING:
    from bayes_feasible.instance import Instance
    from bayes_feasible.problem import Problem

TAKEN = ("cls", "path", "problem", "rule", "seed", "recommendation", "stop", "safety", "wait")
SHOWN = 20  # candidates of which the priors are told

HELP = "start a trial"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
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
    add_clauses(parser)


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the step."""
    from bayes_feasible.trial.trial import Trial

    trial = Trial.new(
        options.trial,
        _problem(options),
        options.rule,
        options.seed,
        recommendation=options.recommendation,
        stop=stop_of(options),
        safety=safety_of(options),
        wait=options.wait,
        **_settings(options.set),
    )
    fields = {
        "trial": trial.path,
        "rule": trial.rule,
        "settings": trial.settings,
        "seed": trial.seed,
        "recommendation": trial.recommendation,
        "stop": None if trial.stop is None else trial.stop.to_dict(),
        "safety": None if trial.safety is None else trial.safety.to_dict(),
        "arms": [trial.arm_name(i) for i in range(len(trial.problem.arms))],
        "constraints": [str(name) for name in trial.problem.coords["constraint"].tolist()],
    }
    text = f"{trial.path}: {trial.problem!r}\n  rule {trial.rule}, seed {trial.seed}"
    for name, clause in (("stop", trial.stop), ("safety", trial.safety)):
        if clause is not None:
            said = ", ".join(f"{key} {value}" for key, value in clause.to_dict().items())
            text += f"\n  {name}: {said}"
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
        if key in TAKEN:
            raise ValueError(f"--set: {key} is not an option of a rule")
        try:
            settings[key] = json.loads(text)
        except (ValueError, RecursionError):
            settings[key] = text
    return settings
