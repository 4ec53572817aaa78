"""What the forms of a page say, as steps of a trial."""

import math
from collections.abc import Mapping
from typing import Any

from bayes_feasible.trial.trial import Trial

MOST_ASKED = 10_000  # pulls at a time

Fields = Mapping[str, str]


def ask(trial: Trial, fields: Fields) -> int:
    """Ask for further pulls; returns the number of the event."""
    number = _whole(fields, "count", MOST_ASKED)
    trial.ask(number, key=fields["key"])
    return _event_of(trial, fields["key"])


def tell(trial: Trial, fields: Fields) -> int:
    """Tell what pulls of one arm showed; returns the number of the event."""
    arm = _whole(fields, "arm", len(trial.problem.arms) - 1, least=0)
    names = trial.problem.outcome_names
    values = [_number(fields, f"value-{b}", name) for b, name in enumerate(names)]
    if all(math.isnan(value) for value in values):
        raise ValueError(f"expected {' or '.join(names)}")
    spread = {
        name: value
        for b, name in enumerate(names)
        if not math.isnan(value := _number(fields, f"sd-{b}", f"standard deviation of {name}"))
    }
    count = _whole(fields, "count", 2**53)
    reward, *costs = values
    return trial.tell(arm, reward, costs, count, sd=spread or None, key=fields["key"])


def undo(trial: Trial, fields: Fields) -> int:
    """Take back one event; sent again, it stays taken back. Returns the number of the undo."""
    number = _whole(fields, "event", 2**53)
    with trial.still():
        undone = trial.undone(number)
    if undone is not None:
        return undone
    trial.undo(number)
    undone = trial.undone(number)
    assert undone is not None
    return undone


def _event_of(trial: Trial, key: str) -> int:
    return next(int(event["n"]) for event in reversed(trial.events) if event.get("key") == key)


def _whole(fields: Fields, name: str, most: int, least: int = 1) -> int:
    text = fields.get(name, "").strip()
    if not (text.isascii() and text.isdecimal()) or not least <= int(text[:20]) <= most:
        raise ValueError(f"{name}: expected a whole number from {least} to {most}, got {text!r}")
    return int(text)


def _number(fields: Fields, field: str, name: str) -> float:
    """A number; NaN where the field is empty."""
    text = fields.get(field, "").strip()
    if not text:
        return math.nan
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{name}: expected a number, got {text!r}")
    return value


STEPS: dict[str, Any] = {"ask": ask, "tell": tell, "undo": undo}
