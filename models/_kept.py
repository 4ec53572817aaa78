"""What was made of a model, kept with the model."""

from collections.abc import Callable, Hashable
from typing import Any, Self

import pymc as pm


class _Kept(dict[Hashable, Any]):
    """Left behind when the model is pickled or copied: compiled functions may not be portable."""

    def __reduce__(self) -> Any:
        return _Kept, ()

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self)()


def keep(model: pm.Model, what: Hashable, make: Callable[[], Any]) -> Any:
    """What `make` makes of a model, made once.

    It is an attribute of the model, so that both are freed together. A weak dictionary would keep
    for ever what refers back to its model, as step methods do.
    """
    kept: _Kept = model.__dict__.setdefault("_bayes_feasible_kept", _Kept())
    if what not in kept:
        kept[what] = make()
    return kept[what]
