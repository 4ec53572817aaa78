"""The user's own rules, instances and samplers, by import path: `my_module:MyRule`."""

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from bayes_feasible._check import unknown


def is_import_path(name: Any) -> bool:
    """Whether a name is an import path, `module:name`, rather than one of ours.

    >>> is_import_path("my_module:MyRule"), is_import_path("Descent")
    (True, False)
    """
    return isinstance(name, str) and ":" in name


def import_object(path: str) -> Any:
    """Import what a path names.

    Parameters
    ----------
    path : str
        `module:name`, as in `my_module:MyRule` or `package.module:Class.method`. Modules are also
        found in the current folder, after those that are installed.

    Raises
    ------
    ValueError
        If there is no such module, it cannot be imported, or it has no such name.

    Examples
    --------
    >>> import_object("math:gcd")(12, 18)
    6
    >>> import_object("math:gdc")
    Traceback (most recent call last):
        ...
    ValueError: math: unknown name 'gdc'; did you mean 'gcd'?
    """
    found: Any = _import(path)
    where = found.__name__
    for name in path.partition(":")[2].split("."):
        if not hasattr(found, name):
            public = [each for each in dir(found) if not each.startswith("_")]
            raise ValueError(f"{where}: {unknown('name', name, public)}")
        found = getattr(found, name)
    return found


def code_of(path: str) -> bytes:
    """Give the source of the module in an import path; nothing if it is not written in Python.

    What that module imports is not in it: results that are kept by this code are not computed
    anew when only that changes.

    >>> b"def gcd" in code_of("fractions:Fraction"), code_of("math:gcd")
    (False, b'')
    """
    file = getattr(_import(path), "__file__", None)
    return Path(file).read_bytes() if file and file.endswith(".py") else b""


def _import(path: str) -> ModuleType:
    """Import the module of an import path."""
    name, colon, attribute = path.partition(":")
    words = [*name.split("."), *attribute.split(".")]
    if not colon or not all(word.isidentifier() for word in words):
        raise ValueError(f"expected module:name, such as my_module:MyRule, got {path!r}")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # to stay: worker processes look where this one does
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(
                f"{path}: no module {error.name!r}, neither installed nor in the folder {here}"
            ) from error
        raise ValueError(f"{path}: its import failed: {error}") from error
    except Exception as error:  # whatever the user's module does
        raise ValueError(f"{path}: its import failed: {error!r}") from error
