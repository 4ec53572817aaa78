"""Instances by name, for files and commands: built-in ones, and anybody's by import path."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_feasible.instance import Instance

BUILT_IN = ("end_of_optimism", "random_ball", "soare", "movielens")


def build_instance(name: Any, parameters: Mapping[str, Any]) -> "Instance":
    """Build an instance by name; for a misspelt name or parameter suggest the closest one.

    >>> build_instance("end_of_optimism", {"alpha": 0.3}).best
    0
    >>> build_instance("bayes_feasible:instances.soare", {"d": 3}).problem.arms.shape
    (4, 3)
    """
    import inspect

    from bayes_feasible import instances  # NumPy: not for `--help`
    from bayes_feasible._check import unknown
    from bayes_feasible._imports import import_object, is_import_path
    from bayes_feasible.instance import Instance

    if is_import_path(name):
        build = import_object(name)
        if not callable(build):
            raise TypeError(f"{name}: expected a function that makes an Instance")
    elif name in BUILT_IN:
        build = getattr(instances, name)
    else:
        raise ValueError(unknown("built-in", name, BUILT_IN))
    known = inspect.signature(build).parameters
    kinds = [parameter.kind for parameter in known.values()]
    for key in parameters:
        if key not in known and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise ValueError(f"{name}: {unknown('parameter', key, known)}")
    missing = [
        key
        for key, parameter in known.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and key not in parameters
    ]
    if missing:
        raise ValueError(f"{name}: {', '.join(missing)} must be given")
    built = build(**parameters)
    if not isinstance(built, Instance):
        raise TypeError(f"{name}: expected it to return an Instance, got {type(built).__name__}")
    return built
