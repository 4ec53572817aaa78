"""Events of a trial in words."""

from typing import Any

from bayes_feasible.problem import Problem

LISTED = 8  # arms


def describe_event(problem: Problem, event: dict[str, Any]) -> str:
    """Say what an event was.

    >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
    >>> told = {"event": "tell", "arms": [1], "rewards": [0.5], "costs": [[None]], "counts": [3]}
    >>> describe_event(problem, told)
    'tell: high showed reward 0.5 in 3 pulls'
    """
    kind = event["event"]
    if kind == "new":
        return f"new trial, rule {event['rule']}, seed {event['seed']}"
    if kind == "undo":
        return f"undo of event {event['of']}"
    names = [str(problem.coords["arm"][arm]) for arm in event["arms"]]
    if kind == "ask":
        more = f", ... ({len(names)})" if len(names) > LISTED else ""
        return f"ask: {', '.join(names[:LISTED])}{more}"
    number = sum(event.get("counts", [1] * len(names)))
    if len(names) > 1:
        return f"tell of {number} pulls"
    totals = f" in {number} pulls" if number > 1 else ""
    constraints = problem.coords["constraint"].tolist()
    labels = [name if isinstance(name, str) else f"cost {name}" for name in constraints]
    values = [event["rewards"][0], *event["costs"][0]]
    shown = [
        f"{label} {value:g}"
        for label, value in zip([problem.reward_name, *labels], values, strict=True)
        if value is not None
    ]
    return f"tell: {names[0]} showed {', '.join(shown) or 'nothing'}{totals}"


def plural(number: int, noun: str) -> str:
    """A number with its noun.

    >>> plural(1, "pull"), plural(2, "pull")
    ('1 pull', '2 pulls')
    """
    return f"{number} {noun}{'s' * (number != 1)}"
