"""Objects that a user names as `module:name`."""

import importlib
import os
import sys
from typing import Any

from bayes_feasible import _check


def import_object(name: str, text: str) -> Any:
    """Import what `text` names, such as `my_module:function`, also out of the present folder.

    `name` is the argument that errors are about.

    >>> import_object("sampler", "math:sqrt")(4.0)
    2.0
    """
    _check.kind(name, text, str)
    module, colon, attribute = text.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"{name}: expected module:name, such as my_module:function, got {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # whatever the module does when it is imported
        raise ValueError(
            f"{name}: cannot import {module!r} ({type(error).__name__}: {error})"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{name}: module {module!r} has no {attribute!r}")
        found = getattr(found, part)
    return found
