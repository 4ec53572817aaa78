"""Experiments that may end before their horizon, with arms that may not always be pulled."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.safety import Refused, read_safety
from bayes_feasible.simulation.world import Environment
from bayes_feasible.stopping.slack import mistakes
from bayes_feasible.stopping.stop import Monitor, Stop

EVERY = 50  # pulls: until then one looks after each
SPACING = 1.02  # from look to look afterwards
SAFETY = "safety"  # the reason where no arm may be pulled any more


class Ending(NamedTuple):
    """How one experiment ended."""

    stopped: int  # pulls; -1 where it went on to the horizon
    recommended: int  # candidate, -1 for none
    reason: str


class Until:
    """Plays a rule until a stop applies, or nothing may be pulled, or the rounds are over.

    Parameters
    ----------
    problem : Problem
    stop : Stop or None
    allowed : Safety, arms or None
    seed : seed
        Of the estimates of the probability of error.
    start : int
        Pulls before.
    """

    def __init__(
        self, problem: Problem, stop: Stop | None, allowed: Any, seed: Any, start: int = 0
    ) -> None:
        self.monitor = None if stop is None else Monitor(stop, problem)
        self.guard = read_safety(problem, allowed)
        self.rng = np.random.default_rng(seed)
        self.ending: Ending | None = None
        self._next_look = start + 1

    def advance(self, rule: Any, environment: Environment, rounds: int) -> None:
        """So many more pulls, or fewer."""
        while rounds and self.ending is None:
            now = int(environment.pulls.sum())
            step = rounds if self.monitor is None else min(rounds, self._next_look - now)
            self._play(rule, environment, step)
            rounds -= step
            now += step
            if self.monitor is not None and self.ending is None and now == self._next_look:
                self._look(rule, environment)
                self._next_look = now + 1 if now < EVERY else math.ceil(SPACING * now)

    def _look(self, rule: Any, environment: Environment) -> None:
        assert self.monitor is not None
        choice, posterior = environment.recommended(rule), environment.posterior(rule)
        decision = self.monitor.ended(posterior, None if choice < 0 else choice, self.rng)
        if decision is not None:
            answer = -1 if decision.candidate is None else decision.candidate
            self.ending = Ending(int(environment.pulls.sum()), answer, decision.reason)

    def _play(self, rule: Any, environment: Environment, rounds: int) -> None:
        if self.guard is None:
            environment.play(rule, rounds)
            return
        nothing = self.guard.read_pending(None)
        while rounds:
            try:
                most = min(rounds, self.guard.safety.cohort)
                batch = self.guard.plan(environment.posterior(rule), nothing, most)
            except Refused:
                pulls = int(environment.pulls.sum())
                self.ending = Ending(pulls, environment.recommended(rule), SAFETY)
                return
            if self.guard.fixed and isinstance(rule, Rule):
                with rule._keep_to(batch.allowed):
                    environment.play(rule, rounds)
                return
            chosen = [_ask(rule, batch.allowed) for _ in range(batch.choices)]
            arms = batch.spread(np.array(chosen, dtype=np.int64))
            for arm in arms:
                environment.take(rule, int(arm))
            rounds -= arms.size


def _ask(rule: Any, allowed: list[int] | None) -> int:
    return int(rule.ask() if allowed is None else rule.ask(allowed=allowed))


def describe_endings(
    endings: Sequence[Sequence[Ending]], right: NDArray[np.bool_]
) -> dict[str, Any]:
    """What a Dataset says of them, over rule and replicate; `right` is over the candidates.

    Its last entry is about -1, that none is feasible.
    """
    dims = ("rule", "replicate")
    columns = [np.array([[getattr(one, name) for one in row] for row in endings])
               for name in Ending._fields]  # fmt: skip
    stopped, recommended, reason = (each.reshape(len(endings), -1) for each in columns)
    recommended = recommended.astype(np.int64)
    return {
        "stopped": (dims, stopped.astype(np.int64)),
        "recommended_at_stop": (dims, recommended),
        "correct_at_stop": (dims, right[recommended]),
        "reason": (dims, reason.astype(str)),
    }


def right_answers(instance: Instance, stop: Stop | None) -> NDArray[np.bool_]:
    """Which candidates are right (by an epsilon, where there is one); the last entry is none."""
    problem = instance.problem
    slack = np.zeros(1) if stop is None else Monitor(stop, problem).slack
    right = np.zeros(len(problem.candidates) + 1, dtype=bool)
    if not slack.any():
        right[-1] = instance.best is None
        right[:-1] = instance.best is not None and problem.copies(instance.best)
        return right
    theta = np.vstack([instance.theta_reward, instance.theta_cost])
    for answer in range(-1, len(problem.candidates)):
        events = mistakes(problem, None if answer < 0 else answer, slack)
        right[answer] = not events.contains(theta).any()
    return right
