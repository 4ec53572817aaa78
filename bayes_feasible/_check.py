"""Checks of what a user passes in: fail early, name the argument, show the value."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e100  # beyond this a square overflows
SMALLEST = 1e-100  # below this (but for 0) a square underflows
LARGEST_COUNT = 2**53  # beyond this, numbers of pulls are no longer exact in double precision
LARGEST_SHOWN = 1e80  # of a pull, so that sums over pulls stay below LARGEST

Array = NDArray[np.float64]


def numbers(name: str, value: Any, *, infinite: bool = False) -> Array:
    """A new float array without NaN; without infinities either unless `infinite`."""
    if type(value) is float and SMALLEST <= abs(value) <= LARGEST:  # as most pulls are told
        return np.array(value)
    _nothing_masked(name, value)
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "biufO" or any(isinstance(v, str | bytes) for v in _objects(raw)):
            raise TypeError(f"they are of type {raw.dtype}")
        with np.errstate(over="ignore"):
            array = np.array(raw, dtype=float, order="C")  # sums then do not depend on the input
    except Exception as error:  # whatever an object raises that will not be an array
        raise ValueError(f"{name}: expected numbers, got {_short(value)} ({error})") from None
    size = np.abs(array)
    if np.all((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))):
        return array
    bad = np.isnan(array) if infinite else ~np.isfinite(array)
    if bad.any():
        where = np.unravel_index(int(np.argmax(bad)), array.shape)
        at = f" at index {tuple(map(int, where))}" if array.ndim else ""
        kind = "a number" if infinite else "finite numbers"
        raise ValueError(f"{name}: expected {kind}, got {array[where]}{at}")
    size = size[np.isfinite(size)]
    if size.size and size.max() > LARGEST:
        raise ValueError(f"{name}: {size.max():g} is too large, its square overflows")
    if size.size and np.any((size > 0) & (size < SMALLEST)):
        raise ValueError(f"{name}: {size[size > 0].min():g} is too small, its square vanishes")
    return array


def positive(name: str, value: Any) -> float:
    """One positive finite number."""
    array = numbers(name, value)
    if array.size != 1 or array.ndim > 1:
        raise ValueError(f"{name}: expected one number, got {_short(value)}")
    number = float(array.reshape(()))
    if number <= 0:
        raise ValueError(f"{name}: expected a positive number, got {number:g}")
    return number


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """A whole number of at least `least`, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name}: expected a whole number, got {_short(value)}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{name}: expected at most {most}, got {_short(int(value))}")
    return int(value)


def index(name: str, value: Any, size: int, what: str) -> int:
    """An index into `size` things called `what`; negative ones are refused."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name}: expected the index of {what}, got {_short(value)}")
    if not 0 <= value < size:
        raise ValueError(f"{name}: {value} is out of range, there are {size} {what}s")
    return int(value)


def indices(name: str, value: Any, size: int, what: str) -> NDArray[np.int64]:
    """A vector of indices into `size` things called `what`."""
    _nothing_masked(name, value)
    try:
        array = np.asarray(value)
        if array.size == 0:
            array = np.zeros(array.shape, dtype=np.int64)
    except Exception as error:
        raise ValueError(
            f"{name}: expected a vector of {what} indices, got {_short(value)} ({error})"
        ) from None
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name}: expected a vector of {what} indices, "
            f"got {array.dtype} values of shape {array.shape}"
        )
    bad = (array < 0) | (array >= size)
    if bad.any():
        raise ValueError(f"{name}: {array[bad][0]} is out of range, there are {size} {what}s")
    return array.astype(np.int64)


def generator(name: str, value: Any) -> np.random.Generator:
    """A random generator from a seed, a SeedSequence or a Generator (passed through)."""
    try:
        if isinstance(value, bool):
            raise TypeError("a truth value")
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: expected a non-negative whole number, a SeedSequence or a Generator, "
            f"got {_short(value)} ({error})"
        ) from None


def seed_sequence(value: Any) -> np.random.SeedSequence:
    """The source of a rule's generators, from a seed; a SeedSequence is left as it was."""
    if isinstance(value, np.random.SeedSequence):
        return np.random.SeedSequence(
            value.entropy,
            spawn_key=value.spawn_key,
            pool_size=value.pool_size,
            n_children_spawned=value.n_children_spawned,
        )
    try:
        if isinstance(value, bool):
            raise TypeError("a truth value")
        return np.random.SeedSequence(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"seed: expected a non-negative whole number or a SeedSequence, "
            f"got {_short(value)} ({error})"
        ) from None


def pulls(
    problem: Any,
    arm: Any,
    reward: Any,
    cost: Any,
    names: tuple[str, str, str] = ("arm", "reward", "cost"),
) -> tuple[NDArray[np.int64], Array, Array]:
    """What one pull or many showed: arms (pull,), rewards (pull,), costs (pull, constraint).

    A vector of costs will do for one constraint, and None for none. Costs that carry the names
    of the constraints are put in their order.
    """
    constraints = problem.thresholds.size
    single = np.ndim(arm) == 0
    if single:
        arms = np.array([index(names[0], arm, len(problem.arms), "arm")])
    else:
        arms = indices(names[0], arm, len(problem.arms), "arm")
    rewards = numbers(names[1], reward)
    if rewards.shape != (() if single else arms.shape):
        expected = "one number" if single else f"{arms.size} numbers, one a pull"
        raise ValueError(f"{names[1]}: expected {expected}, got shape {rewards.shape}")
    cost = _by_constraint(names[2], cost, problem.coords["constraint"], single)
    rewards, table = np.atleast_1d(rewards), costs(names[2], cost, arms.size, constraints, single)
    for name, shown in zip(names[1:], (rewards, table), strict=True):
        largest = np.abs(shown).max(initial=0.0)
        if largest > LARGEST_SHOWN:
            raise ValueError(f"{name}: expected at most {LARGEST_SHOWN:g}, got {largest:g}")
    return arms, rewards, table


def _by_constraint(name: str, value: Any, constraints: Any, single: bool) -> Any:
    """Costs in the order of the constraints, where they carry names."""
    if isinstance(value, np.ndarray) or getattr(value, "ndim", 0) != 2 - single or not value.size:
        return value
    if single:
        return by_name(name, value, constraints, "constraints")
    if is_data_array(value) and value.dims[0] == "constraint":
        value = value.T
    array, _, columns = table(name, value, "pull")
    if columns is None:
        return array
    return array[:, order(name, columns, constraints, "constraints")]


def costs_by_arm(name: str, value: Any, problem: Any) -> Any:
    """A table of costs in the order of arms and constraints, where it carries their names."""
    if isinstance(value, Mapping) or getattr(value, "ndim", 0) == 1:
        return by_name(name, value, problem.coords["arm"], "arms")
    if isinstance(value, np.ndarray) or getattr(value, "ndim", 0) != 2 or not value.size:
        return value
    if is_data_array(value) and value.dims[0] == "constraint":
        value = value.T
    array, rows, columns = table(name, value, "arm")
    if rows is not None:
        array = array[order(name, rows, problem.coords["arm"], "arms")]
    if columns is not None:
        array = array[:, order(name, columns, problem.coords["constraint"], "constraints")]
    return array


def costs(name: str, value: Any, rows: int, constraints: int, single: bool = False) -> Array:
    """Costs as a table (row, constraint); one `single` row may come as a vector or a number."""
    table = np.zeros((rows, 0)) if value is None else numbers(name, value)
    if single and value is not None:
        table = np.atleast_1d(table)[np.newaxis]
    elif table.ndim == 1 and constraints == 1:
        table = table[:, np.newaxis]
    if table.size == 0 and rows * constraints == 0:
        table = table.reshape(rows, constraints)
    if table.shape != (rows, constraints):
        raise ValueError(
            f"{name}: expected shape {(constraints,) if single else (rows, constraints)}, one "
            f"for each threshold, got {np.shape(value) if value is not None else 'nothing'}"
        )
    return table


def table(name: str, value: Any, row: str) -> tuple[Array, list[Any] | None, list[Any] | None]:
    """Vectors as rows, with the row names and column names that `value` carries.

    Takes a 2-D array, a DataFrame, a 2-D DataArray, or a dict of names to vectors.
    """
    rows: list[Any] | None = None
    columns: list[Any] | None = None
    if isinstance(value, Mapping):
        rows = list(value)
        vectors = [numbers(name, vector) for vector in value.values()]
        if len({vector.shape for vector in vectors}) > 1:
            lengths = {str(key): vector.size for key, vector in zip(value, vectors, strict=True)}
            raise ValueError(f"{name}: expected vectors of one length, got lengths {lengths}")
        array = np.array(vectors)
    elif hasattr(type(value), "columns") and hasattr(type(value), "index"):  # a DataFrame
        rows, columns = list(value.index), list(value.columns)
        array = numbers(name, value)
    elif is_data_array(value):
        if value.dims == ("feature", row):
            value = value.T
        array = numbers(name, value)
        if array.ndim == 2:
            rows, columns = (
                list(value.coords[dim].values) if dim in value.coords else None
                for dim in value.dims
            )
    else:
        array = numbers(name, value)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name}: expected vectors as the rows of a table ({row}, feature), "
            f"got shape {array.shape}"
        )
    return array, rows, columns


def names(name: str, value: list[Any] | None, size: int) -> NDArray[Any]:
    """Distinct names as a coordinate; 0, 1, 2, ... where there are none."""
    if not value:
        return np.arange(size)
    plain = [v.item() if isinstance(v, np.generic) else v for v in value]
    if len(set(map(str, plain))) < len(plain):
        twice = next(v for v in plain if list(map(str, plain)).count(str(v)) > 1)
        raise ValueError(f"{name}: names must be distinct, got {twice!r} more than once")
    if all(isinstance(v, int) and not isinstance(v, bool) for v in plain):
        if max(map(abs, plain)) < 2**63:
            return np.array(plain)
        plain = [str(v) for v in plain]
    try:
        "".join(map(str, plain)).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: names must be text that can be written ({error})") from None
    if any("\0" in str(v) for v in plain):  # NumPy would drop it at the end of a name
        raise ValueError(f"{name}: names must not hold the character NUL, got {_short(plain)}")
    return np.array([str(v) for v in plain])


def named_values(name: str, value: Any) -> tuple[Array, list[Any] | None]:
    """A vector of numbers (infinities allowed) and the names it carries, if any."""
    labels: list[Any] | None = None
    if value is None:
        value = ()
    if isinstance(value, Mapping):
        labels, value = list(value), list(value.values())
    elif is_data_array(value) and value.ndim == 1:
        dim = value.dims[0]
        labels = list(value.coords[dim].values) if dim in value.coords else None
    elif hasattr(type(value), "index") and hasattr(value, "dtype"):  # a Series
        labels = list(value.index)
    array = numbers(name, value, infinite=True)
    if array.ndim > 1:
        raise ValueError(f"{name}: expected a vector of numbers, got shape {array.shape}")
    return np.atleast_1d(array), labels


def by_name(name: str, value: Any, expected: Any, what: str) -> Array:
    """A vector of numbers, in the order of the expected names of `what` where it carries names."""
    array, labels = named_values(name, value)
    if labels is None:
        return array
    return array[order(name, labels, expected, what, numbered=not isinstance(value, Mapping))]


def order(
    name: str, labels: list[Any], expected: Any, what: str, *, numbered: bool = True
) -> list[int]:
    """Where each expected name of `what` stands among the labels.

    What is only `numbered`, as tables are that were given no names, is taken as it comes.
    """
    given, wanted = list(map(str, labels)), list(map(str, expected))
    if sorted(given) == sorted(wanted):
        place = {label: i for i, label in enumerate(given)}
        return [place[label] for label in wanted]
    if numbered and any(those == list(map(str, range(len(those)))) for those in (given, wanted)):
        return list(range(len(given)))
    raise ValueError(
        f"{name}: expected the names of the {what}, {_short(wanted)}, got {_short(given)}"
    )


def allocation(problem: Any, value: Any, *, name: str = "allocation") -> Array:
    """Shares of the pulls: one an arm, by name or in their order, none negative, with sum 1."""
    array = numbers(name, by_name(name, value, problem.coords["arm"], "arms"))
    arms = len(problem.arms)
    if array.shape != (arms,):
        raise ValueError(f"{name}: expected {arms} shares, one an arm, got shape {array.shape}")
    if array.min() < 0:
        raise ValueError(f"{name}: expected no negative share, got {array.min():g}")
    total = float(array.sum())
    if abs(total - 1) > 1e-9:
        raise ValueError(f"{name}: expected shares with sum 1, got sum {total:.12g}")
    return array / total


def path(name: str, value: Any) -> Path:
    """The path of a file."""
    try:
        found = Path(os.fsdecode(value))
    except TypeError:
        raise ValueError(f"{name}: expected the path of a file, got {_short(value)}") from None
    if "\0" in str(found):
        raise ValueError(f"{name}: no file can be called {str(found)!r}")
    return found


def no_device(value: str | os.PathLike[str]) -> Path:
    """The path, unless it is that of a device, whose content may have no end."""
    file = Path(value)
    if file.is_char_device() or file.is_block_device():
        raise ValueError("expected a file, this is a device")
    return file


def _nothing_masked(name: str, value: Any) -> None:
    if np.ma.is_masked(value):
        raise ValueError(f"{name}: expected numbers, got a masked array in which some are missing")


def is_data_array(value: Any) -> bool:
    """Asked of its type: the labels of a Series are attributes, and one may be called `dims`."""
    return hasattr(type(value), "dims") and hasattr(type(value), "ndim")


def _objects(array: NDArray[Any]) -> Any:
    """The elements of an array of Python objects; nothing for any other."""
    return array.flat if array.dtype.kind == "O" else ()


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())  # in one line, as tables are not
    return text if len(text) <= 60 else text[:57] + "..."
