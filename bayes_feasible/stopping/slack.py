"""How far off an answer may be and still count as right."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative.events import Events
from bayes_feasible.problem import Problem

Epsilon = float | dict[str, float] | None


def read_epsilon(value: Any) -> Epsilon:
    """A number for all outcomes, or numbers by their names; none of them negative."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(name): _not_negative(f"epsilon: {name}", one) for name, one in value.items()}
    return _not_negative("epsilon", value)


def _not_negative(name: str, value: Any) -> float:
    number = _check.numbers(name, value)
    if number.shape != () or number < 0:
        raise ValueError(f"{name}: expected a number that is not negative, got {value!r}")
    return float(number)


def slack_of(problem: Problem, epsilon: Epsilon) -> Array:
    """What epsilon is on the scale of the natural parameters, block by block.

    Limits move in the units of their outcome (those relative to a candidate on the natural
    scale). Rewards are compared on the natural scale: a difference of means, a log odds ratio, the
    logarithm of a ratio of rates.
    """
    slack = np.zeros(1 + problem.thresholds.size)
    if epsilon is None:
        return slack
    names = problem.outcome_names
    if isinstance(epsilon, dict):
        for name in epsilon:
            if name not in names:
                raise ValueError(f"epsilon: {_check.unknown('outcome', name, names)}")
        each = [epsilon.get(name, 0.0) for name in names]
    else:
        each = [epsilon] * len(names)
    slack[0] = each[0]
    for j, (outcome, limit) in enumerate(zip(problem.outcomes[1:], problem.limits, strict=True)):
        if not np.isfinite(limit):
            continue
        if problem.relative[j] is not None:
            slack[1 + j] = each[1 + j]
            continue
        moved = outcome.natural(f"epsilon: {names[1 + j]}", problem.thresholds[j] + each[1 + j])
        slack[1 + j] = moved - limit
    return slack


def mistakes(problem: Problem, candidate: int | None, slack: Array) -> Events:
    """The events under which an answer is wrong by more than the slack.

    Of a candidate: it exceeds a limit by more than that, or a feasible one is better by more. Of
    None, that no candidate is feasible: some candidate is.
    """
    if candidate is None:
        return Events.that_each_is_feasible(problem)
    events = Events.that_refute(problem, candidate)
    limits = events.limits.copy()
    for e, j in enumerate(events.constraint):
        if j >= 0 and np.isfinite(limits[e, 1 + j]):
            limits[e, 1 + j] += slack[1 + j]
    limits[events.rival >= 0, 0] += slack[0]
    return Events(events.names, events.vectors, limits, events.constraint, events.rival)


def best_within(problem: Problem, theta: Array, slack: Array) -> int | None:
    """The best candidate of parameters (block, feature) whose limits are relaxed by the slack."""
    costs = np.einsum("zjf,jf->zj", problem.cost_vectors, theta[1:])
    feasible = np.all(costs <= problem.limits + slack[1:], axis=1)
    if not feasible.any():
        return None
    return int(np.argmax(np.where(feasible, problem.candidates @ theta[0], -np.inf)))
