"""What the steps of a trial share."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_feasible.trial.trial import Trial


class Table(str):
    """Text that a program may read."""


def open_trial(options: argparse.Namespace) -> "Trial":
    """The trial that the arguments name."""
    from bayes_feasible.trial.trial import Trial

    if not options.trial.exists():
        raise FileNotFoundError(
            f"{options.trial}: no such trial; start one with: "
            f"bayes-feasible trial new {options.trial} FILE"
        )
    return Trial(options.trial, wait=options.wait)


def pending(trial: "Trial") -> dict[str, int]:
    """Pulls that were asked for and not yet told, by arm."""
    return {arm: count for arm, count in trial.waiting.items() if count}


def described(trial: "Trial", event: dict[str, Any]) -> str:
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
