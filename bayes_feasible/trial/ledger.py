"""What the events of a trial come to: which stand, which pulls are pending, what was seen."""

import math
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import LARGEST_OUTCOME, Array
from bayes_feasible.problem import Problem
from bayes_feasible.trial.journal import Event


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
    """

    def __init__(self, problem: Problem) -> None:
        self.standing: list[Event] = []
        self.undone: dict[int, int] = {}
        self.pending: dict[int, deque[int]] = {}
        self.unasked: dict[int, int] = {}
        self._arms, self._constraints = len(problem.arms), problem.thresholds.size
        self._stands: set[int] = set()  # numbers of what stands

    def extend(self, events: Iterable[Event]) -> bool:
        """Take in more events; returns whether one of them took another back."""
        undone = len(self.undone)
        for event in events:
            if not self._makes_sense(event):
                raise ValueError(f"event {event['n']} makes no sense in a trial of this problem")
            _check_size(event)
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
        for event in self.standing:
            self._count(event)
        return True

    def seen(self) -> tuple[NDArray[np.int64], Array, Array]:
        """Arms, rewards and costs of all pulls, in the order they were told."""
        tells = [event for event in self.standing if event["event"] == "tell"]
        arms = [arm for event in tells for arm in event["arms"]]
        rewards = [reward for event in tells for reward in event["rewards"]]
        costs = [row for event in tells for row in event["costs"]]
        table = np.array(costs, dtype=float).reshape(len(arms), self._constraints)
        return np.array(arms, dtype=np.int64), np.array(rewards, dtype=float), table

    def _count(self, event: Event) -> None:
        """What an ask or a tell does to the pulls that are pending."""
        if event["event"] == "ask":
            for arm in event["arms"]:
                self.pending.setdefault(arm, deque()).append(event["n"])
            return
        unasked = 0
        for arm in event["arms"]:
            asked = self.pending.get(arm)
            if not asked:
                unasked += 1
                continue
            asked.popleft()
            if not asked:
                del self.pending[arm]
        self.unasked[event["n"]] = unasked

    def _makes_sense(self, event: Event) -> bool:
        """Whether an event is one that a trial writes: others would write into foreign memory."""
        kind, arms = event.get("event"), event.get("arms")
        if kind == "undo":
            return type(event.get("of")) is int and event["of"] in self._stands
        if kind not in ("ask", "tell") or not isinstance(arms, list) or not arms:
            return False
        if not all(type(arm) is int and 0 <= arm < self._arms for arm in arms):
            return False
        return kind == "ask" or (
            _numbers(event.get("rewards"), len(arms))
            and isinstance(event.get("costs"), list)
            and len(event["costs"]) == len(arms)
            and all(_numbers(row, self._constraints) for row in event["costs"])
        )


def _check_size(event: Event) -> None:
    """Refuse what `tell` would have refused: sums of larger numbers could overflow."""
    costs = (number for row in event.get("costs", ()) for number in row)
    for name, numbers in (("rewards", event.get("rewards", ())), ("costs", costs)):
        for number in numbers:
            if abs(number) > LARGEST_OUTCOME:
                raise ValueError(
                    f"line {event['n']}: {name}: expected at most {LARGEST_OUTCOME:g}, "
                    f"got {number:g}"
                )


def _numbers(value: Any, size: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == size
        and all(type(number) is float and math.isfinite(number) for number in value)
    )
