"""The rule of a trial, brought to where the journal is by asking and telling it all again.

A long replay is kept in a file beside the journal, `NAME.replayed`: the rule as it was after so
many events, with the checksum of the last of them. Whatever is wrong with that file, it is left
aside and made anew; it may be deleted at any time.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any

from bayes_feasible import _check
from bayes_feasible._check import unknown
from bayes_feasible.files.atomic import write_bytes
from bayes_feasible.files.guard import read_file
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules import RULES
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.saving import (
    FILE_ERRORS,
    options_of,
    rule_document,
    rule_from_document,
)
from bayes_feasible.trial.journal import Event, warn
from bayes_feasible.trial.ledger import Ledger, ask_batch, tell_fields

WORTH_KEEPING = 2000  # events: a second or less of replay


class Replay:
    """A rule and how much of a trial it has seen.

    Parameters
    ----------
    path : Path
        Of the journal.
    problem, name, seed, settings
        Of the rule, as the trial has kept them.

    Attributes
    ----------
    rule : Rule or None
        None after `forget`, and before the first `catch_up`.
    """

    def __init__(
        self, path: Path, problem: Problem, name: str, seed: int, settings: Mapping[str, Any]
    ) -> None:
        self.path, self.problem, self.name, self.seed = path, problem, name, seed
        self.settings = settings
        self._file = path.with_name(f"{path.name}.replayed")
        self._warned = False
        self.forget()

    def forget(self) -> None:
        """Begin anew next time: an event was taken back, or the rule is ahead of the journal."""
        self.rule: Rule | None = None
        self.seen = 0  # standing events
        self._kept = 0  # events, when the file was last written

    def catch_up(self, events: Sequence[Event], ledger: Ledger) -> Rule:
        """The rule after all that stands."""
        if self.rule is None:
            self.rule = self._from_file(events, ledger) or self._remake()
        new = ledger.standing[self.seen :]
        steps = [
            ask_batch(event) if event["event"] == "ask" else tell_fields(event) for event in new
        ]
        asks = [event for event in new if event["event"] == "ask"]
        for event, arms in zip(asks, self.rule.replay(steps), strict=True):
            if arms.tolist() != event["arms"]:
                self._differs(event, ledger)
        self.seen = len(ledger.standing)
        return self.rule

    def keep(self, events: Sequence[Event]) -> None:
        """Write the file if the replay since it was written took long; it is no loss if not."""
        if self.rule is None or len(events) - self._kept < WORTH_KEEPING:
            return
        self._kept = len(events)
        place = {"events": len(events), "head": events[-1]["check"]}
        content = json.dumps(place | {"rule": rule_document(self.rule)}, allow_nan=False)
        with suppress(OSError):
            write_bytes(self._file, content.encode())

    def _remake(self) -> Rule:
        """The rule as it was in the beginning."""
        options = options_of(_kind(self.name), self.settings)
        rule = make_rule(self.problem, self.name, self.seed, options)
        rule._resume(self.settings)
        return rule

    def _from_file(self, events: Sequence[Event], ledger: Ledger) -> Rule | None:
        """The rule as it was kept, if the events until then are those of this trial."""
        try:
            kept = json.loads(read_file(self._file))
            number = _check.count("events", kept["events"], most=len(events))
            taken_back = any(of <= number < by for of, by in ledger.undone.items())
            if taken_back or events[number - 1]["check"] != kept["head"]:
                return None
            rule = rule_from_document(kept["rule"])
        except (OSError, *FILE_ERRORS):
            return None
        if type(rule).__name__ != self.name or rule.problem != self.problem:
            return None
        self._kept = number
        self.seen = sum(event["n"] <= number for event in ledger.standing)
        return rule

    def _differs(self, ask: Event, ledger: Ledger) -> None:
        """Say that a replayed ask gave other arms, if no undo since then explains it."""
        number = ask["n"]
        if self._warned or any(of < number < by for of, by in ledger.undone.items()):
            return
        self._warned = True
        warn(
            f"{self.path}: event {number} asked for arms that this version or machine would not "
            "have asked for. What was recorded stands; what is asked from here on is sound, but "
            "not what an undisturbed session would have asked"
        )


def make_rule(
    problem: Problem | Instance, name: Any, seed: int, options: Mapping[str, Any]
) -> Rule:
    """A rule by its name; an unknown option is refused."""
    kind = _kind(name)
    known = [key for key in signature(kind).parameters if key not in ("problem", "seed")]
    known.remove("recommendation")
    for key in options:
        if key not in known:
            raise ValueError(f"{name}: {unknown('option', key, known)}")
    return kind(problem, seed, **options)


def _kind(name: Any) -> type[Rule]:
    if not isinstance(name, str) or name not in RULES:
        raise ValueError(f"rule: {unknown('rule', str(name), list(RULES))}")
    return RULES[name]
