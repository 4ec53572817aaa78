"""The events of an alternative set as arrays over all parameter vectors of a model."""

from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative


def half_spaces(alternative: Alternative, event: Any = None) -> tuple[Array, Array]:
    """Vectors (event, parameter, feature) and limits (event, parameter) of the events.

    An event asks of each parameter that `vector @ theta >= limit`; a limit of -inf asks nothing,
    and +inf cannot be had. With an `event`, those of that one alone, without the first axis.
    """
    events = len(alternative.events)
    vectors, limits = alternative.events.vectors, alternative.events.limits
    if event is None:
        return vectors, limits
    event = _check.index("event", event, events, "event")
    if np.isposinf(limits[event]).any():
        raise ValueError(f"event: {alternative.events.names[event]!r} is impossible")
    return vectors[event], limits[event]


def possible(alternative: Alternative, event: Any = None) -> tuple[list[str], Array, Array, Array]:
    """Names, vectors, limits and kind (1 if a violated constraint) of the events that can be."""
    vectors, limits = half_spaces(alternative)
    violated = (limits[:, 0] == -np.inf).astype(float)
    if event is not None:
        half_spaces(alternative, event)
        keep = np.array([event])
    else:
        keep = np.flatnonzero(~np.isposinf(limits).any(axis=1))
        if not keep.size:
            name = alternative.problem.name(alternative.candidate)
            raise ValueError(
                f"alternative: nothing can make {name!r} wrong, so its alternative set is empty"
            )
    names = [alternative.events.names[i] for i in keep]
    return names, vectors[keep], limits[keep], violated[keep]
