"""What the events of a trial come to: which stand, which pulls are pending, what was seen."""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np

from bayes_feasible._check import LARGEST_COUNT, LARGEST_OUTCOME, Array
from bayes_feasible.history import History
from bayes_feasible.problem import Problem
from bayes_feasible.safety import Batch
from bayes_feasible.sums import PLURAL, Rows, read_rows, stack_rows
from bayes_feasible.trial.journal import Event

LONGEST_KEY = 200  # characters
TOLD = ("event", "arms", "rewards", "costs", "counts", "sds")  # all that a tell says


class Ledger:
    """The events so far, less those taken back.

    Attributes
    ----------
    standing : list of dict
        The asks and tells that were not taken back, in order.
    undone : dict
        Number of each event that was taken back, and of the event that did it.
    pending : dict
        Arm index, and the numbers of the asks that still wait for a pull of it, oldest first.
    unasked : dict
        Number of each tell, and how many of its pulls nobody had asked for.
    keys : dict
        The key of each event that was given one, and the number of the event.
    """

    def __init__(self, problem: Problem) -> None:
        self.standing: list[Event] = []
        self.undone: dict[int, int] = {}
        self.pending: dict[int, deque[int]] = {}
        self.unasked: dict[int, int] = {}
        self.keys: dict[str, int] = {}
        self._problem = problem
        self._arms, self._constraints = len(problem.arms), problem.thresholds.size
        self._stands: set[int] = set()  # numbers of what stands
        self._seen: dict[int, list[int]] = {}  # of each arm: pulls that showed each outcome

    def extend(self, events: Iterable[Event]) -> bool:
        """Take in more events; returns whether one of them took another back."""
        undone = len(self.undone)
        for event in events:
            if not self._makes_sense(event):
                raise ValueError(f"event {event['n']} makes no sense in a trial of this problem")
            self._check(event)
            if "key" in event:
                self.keys[event["key"]] = event["n"]
            if event["event"] == "undo":
                self.undone[event["of"]] = event["n"]
                self._stands.remove(event["of"])
            else:
                self._stands.add(event["n"])
                self.standing.append(event)
                self._count(event)
        if len(self.undone) == undone:
            return False
        self.standing = [event for event in self.standing if event["n"] in self._stands]
        self.pending.clear()
        self.unasked.clear()
        self._seen.clear()
        for event in self.standing:
            self._count(event)
        return True

    def history(self) -> History:
        """All pulls, in the order they were told."""
        arms, rewards, costs, counts, sds = [], [], [], [], []
        unknown = [None] * (1 + self._constraints)
        for event in self.standing:
            if event["event"] == "tell":
                number = len(event["arms"])
                arms += event["arms"]
                rewards += event["rewards"]
                costs += event["costs"]
                counts += event.get("counts", [1] * number)
                sds += event.get("sds", [unknown] * number)
        rows = stack_rows(self._problem, arms, rewards, costs, counts, sds)
        return History(
            self._problem, rows.arms, rows.values[:, 0], rows.values[:, 1:], rows.counts,
            sds=rows.sds,
        )  # fmt: skip

    def _count(self, event: Event) -> None:
        """What an ask or a tell does to the pulls that are pending."""
        if event["event"] == "ask":
            for arm in event["arms"]:
                self.pending.setdefault(arm, deque()).append(event["n"])
            return
        self.unasked[event["n"]] = sum(
            self._answer(arm, number)
            for arm, number in zip(event["arms"], self._new_pulls(event), strict=True)
        )

    def _new_pulls(self, event: Event) -> Iterator[int]:
        """How many pulls each row of a tell adds: none where it completes earlier ones."""
        rows = zip(
            event["arms"], event["rewards"], event["costs"],
            event.get("counts", repeat(1)), strict=False,
        )  # fmt: skip
        for arm, reward, costs, count in rows:
            seen = self._seen.setdefault(arm, [0] * (1 + self._constraints))
            before, blank = max(seen), True
            for b, value in enumerate((reward, *costs)):
                if value is not None:
                    seen[b] += count
                    blank = False
            yield count if blank else max(seen) - before  # one that showed nothing was a pull

    def _answer(self, arm: int, pulls: int) -> int:
        """Take pulls of an arm from those that are pending; returns how many were not."""
        asked = self.pending.get(arm)
        if not asked:
            return pulls
        for _ in range(min(pulls, len(asked))):
            asked.popleft()
            pulls -= 1
        if not asked:
            del self.pending[arm]
        return pulls

    def _makes_sense(self, event: Event) -> bool:
        """Whether an event is one that a trial writes: others would write into foreign memory."""
        kind, arms = event.get("event"), event.get("arms")
        if "key" in event and (not is_key(event["key"]) or event["key"] in self.keys):
            return False
        if kind == "undo":
            return type(event.get("of")) is int and event["of"] in self._stands
        if kind not in ("ask", "tell") or not isinstance(arms, list) or not arms:
            return False
        if not all(type(arm) is int and 0 <= arm < self._arms for arm in arms):
            return False
        if kind == "ask":
            return _is_batch(event, self._arms)
        return (
            _numbers(event.get("rewards"), len(arms))
            and _table(event.get("costs"), len(arms), self._constraints)
            and ("counts" not in event or _counts(event["counts"], len(arms)))
            and ("sds" not in event or _table(event["sds"], len(arms), 1 + self._constraints))
        )

    def _check(self, event: Event) -> None:
        """Refuse what `tell` would have refused."""
        if event["event"] != "tell":
            return
        try:
            _check_size(event)
            if "counts" in event or "sds" in event or not self._problem.textbook:
                rows = stack_rows(self._problem, *tell_fields(event))
                read_rows(
                    self._problem, rows.arms, rows.values[:, 0], rows.values[:, 1:], rows.counts,
                    rows.sds, PLURAL,
                )  # fmt: skip
        except ValueError as error:
            raise ValueError(f"line {event['n']}: {error}") from None


def is_key(value: Any) -> bool:
    """Whether it can tell a step that is sent again from a new one."""
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_KEY


def tell_event(rows: Rows) -> Event:
    """The event of rows that were told; what was not seen is null."""
    event = {
        "event": "tell",
        "arms": rows.arms.tolist(),
        "rewards": _nulls(rows.values[:, 0]),
        "costs": [_nulls(row) for row in rows.values[:, 1:]],
    }
    if (rows.counts != 1).any():
        event["counts"] = rows.counts.tolist()
        if not np.isnan(rows.sds).all():
            event["sds"] = [_nulls(row) for row in rows.sds]
    return event


def ask_fields(batch: Batch) -> Event:
    """How a batch was made, where that is not simply what the rule chose."""
    fields: Event = {}
    if batch.allowed is not None:
        fields["allowed"] = batch.allowed
    if batch.first:
        fields["completed"] = len(batch.first)
    if batch.cohort > 1:
        fields["cohort"] = batch.cohort
    return fields | ({"shares": True} if batch.shares else {})


def ask_batch(event: Event) -> Batch:
    """How the batch of an ask was made."""
    first = tuple(event["arms"][: event.get("completed", 0)])
    return Batch(
        len(event["arms"]), event.get("allowed"), first, event.get("cohort", 1), "shares" in event
    )


def _is_batch(event: Event, arms: int) -> bool:
    """Whether what an ask says of its batch makes sense."""
    allowed = event.get("allowed", [0])
    return (
        isinstance(allowed, list)
        and len(allowed) > 0
        and all(type(arm) is int and 0 <= arm < arms for arm in allowed)
        and type(event.get("completed", 0)) is int
        and 0 <= event.get("completed", 0) <= len(event["arms"])
        and type(event.get("cohort", 1)) is int
        and 1 <= event.get("cohort", 1) <= LARGEST_COUNT
        and event.get("shares", True) is True
    )


def tell_fields(event: Event) -> tuple[Any, ...]:
    """What a tell says, as `Rule.replay` takes it."""
    fields = event["arms"], event["rewards"], event["costs"]
    if "counts" not in event:
        return fields
    return *fields, event["counts"], event.get("sds", np.nan)


def _nulls(numbers: Array) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers.tolist()]


def _check_size(event: Event) -> None:
    """Refuse numbers of which sums could overflow."""
    costs = (number for row in event["costs"] for number in row)
    for name, numbers in (("rewards", event["rewards"]), ("costs", costs)):
        for number in numbers:
            if number is not None and abs(number) > LARGEST_OUTCOME:
                raise ValueError(f"{name}: expected at most {LARGEST_OUTCOME:g}, got {number:g}")


def _numbers(value: Any, size: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == size
        and all(one is None or (type(one) is float and math.isfinite(one)) for one in value)
    )


def _table(value: Any, rows: int, columns: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == rows
        and all(_numbers(row, columns) for row in value)
    )


def _counts(value: Any, size: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == size
        and all(type(one) is int and 1 <= one <= LARGEST_COUNT for one in value)
    )
