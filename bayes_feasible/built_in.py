"""The built-in instances by name, for files and commands."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_feasible.instance import Instance

BUILT_IN = ("end_of_optimism", "random_ball", "soare", "movielens")


def build_instance(name: Any, parameters: Mapping[str, Any]) -> "Instance":
    """Build an instance by name; for a misspelt name or parameter suggest the closest one.

    >>> build_instance("end_of_optimism", {"alpha": 0.3}).best
    0
    """
    import inspect

    from bayes_feasible import instances  # NumPy: not for `--help`
    from bayes_feasible._check import unknown

    if name not in BUILT_IN:
        raise ValueError(unknown("built-in", name, BUILT_IN))
    build = getattr(instances, name)
    known = inspect.signature(build).parameters
    for key in parameters:
        if key not in known:
            raise ValueError(f"{name}: {unknown('parameter', key, known)}")
    missing = [
        key
        for key, parameter in known.items()
        if parameter.default is parameter.empty and key not in parameters
    ]
    if missing:
        raise ValueError(f"{name}: {', '.join(missing)} must be given")
    return build(**parameters)
