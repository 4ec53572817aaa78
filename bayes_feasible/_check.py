"""Checks of what a user passes in: fail early, name the argument, show the value.

The wrong kind of object raises TypeError; a wrong shape, range or name raises ValueError.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e100  # beyond this a square overflows
SMALLEST = 1e-100  # below this (but for 0) a square underflows
LARGEST_COUNT = 2**53  # beyond this, numbers of pulls are no longer exact in double precision
LARGEST_OUTCOME = 1e80  # of a pull, so that sums over pulls stay below LARGEST
NAMED = 8  # names that a message lists

Array = NDArray[np.float64]


def kind(name: str, value: Any, *kinds: type) -> None:
    """Refuse what is none of these kinds."""
    if not isinstance(value, kinds):
        expected = " or ".join(_article(one.__name__) for one in kinds)
        raise TypeError(f"{name}: expected {expected}, got {_short(value)}")


def numbers(name: str, value: Any, *, infinite: bool = False, missing: bool = False) -> Array:
    """A new float array; infinities and NaN only where `infinite` and `missing` say so."""
    if type(value) is float and SMALLEST <= abs(value) <= LARGEST:  # as most pulls come
        return np.array(value)
    raw = _array(name, value, "numbers")
    objects = raw.flat if raw.dtype.kind == "O" else ()
    if raw.dtype.kind not in "biufO" or any(isinstance(v, str | bytes | None) for v in objects):
        raise TypeError(f"{name}: expected numbers, got {_short(value)}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(raw, dtype=float, order="C")  # sums then do not depend on the input
    except Exception as error:  # whatever an object raises that will not be a number
        raise _like(error)(f"{name}: expected numbers, got {_short(value)} ({error})") from None
    size = np.abs(array)
    if np.all((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))):
        return array
    bad = np.isnan(array) & (not missing) | np.isinf(array) & (not infinite)
    if bad.any():
        where = np.unravel_index(int(np.argmax(bad)), array.shape)
        at = f" at index {tuple(map(int, where))}" if array.ndim else ""
        wanted = "a number" if infinite else "finite numbers"
        raise ValueError(f"{name}: expected {wanted}, got {array[where]}{at}")
    size = size[np.isfinite(size)]
    if size.size and size.max() > LARGEST:
        raise ValueError(f"{name}: {size.max():g} is too large: its square overflows")
    if size.size and np.any((size > 0) & (size < SMALLEST)):
        raise ValueError(f"{name}: {size[size > 0].min():g} is too small: its square underflows")
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
    if not _is_whole(value):
        raise TypeError(f"{name}: expected a whole number, got {_short(value)}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {_short(int(value))}")
    if most is not None and value > most:
        raise ValueError(f"{name}: expected at most {most}, got {_short(int(value))}")
    return int(value)


def index(name: str, value: Any, size: int, what: str) -> int:
    """An index into `size` things called `what`; negative ones are refused."""
    if not _is_whole(value):
        raise TypeError(f"{name}: expected the index of {_article(what)}, got {_short(value)}")
    return _in_range(name, int(value), size, what)


def place(name: str, value: Any, labels: Any, what: str) -> int:
    """The index of one of the labelled things called `what`, from its index or its name.

    A whole number is always an index. A name made of digits is one too where no label is.
    """
    if _is_whole(value):
        return _in_range(name, int(value), len(labels), what)
    if not isinstance(value, str):
        raise TypeError(
            f"{name}: expected the index or name of {_article(what)}, got {_short(value)}"
        )
    known = list(map(str, labels))
    if value in known:
        return known.index(value)
    if value.isdecimal() and not any(label.isdecimal() for label in known):
        return _in_range(name, int(value), len(known), what)
    raise ValueError(f"{name}: {unknown(what, value, known)}")


def places(name: str, value: Any, labels: Any, what: str) -> NDArray[np.int64]:
    """The indices of some of the labelled things called `what`, from their indices or names."""
    array = _array(name, value, f"a vector of {what}s")
    if array.ndim != 1:
        raise ValueError(f"{name}: expected a vector of {what}s, got shape {array.shape}")
    if array.dtype.kind in "iu":
        bad = (array < 0) | (array >= len(labels))
        if bad.any():
            _in_range(name, int(array[bad][0]), len(labels), what)
        return array.astype(np.int64)
    if array.size and array.dtype.kind not in "UOT":
        raise TypeError(f"{name}: expected {what}s by index or name, got {array.dtype} values")
    at = {str(label): i for i, label in enumerate(labels)}
    items = value if isinstance(value, list | tuple) else array.tolist()  # 0 and "0" may differ
    found = (
        at[item] if isinstance(item, str) and item in at else place(name, item, labels, what)
        for item in items
    )
    return np.fromiter(found, dtype=np.int64)


def arm(problem: Any, value: Any, *, name: str = "arm") -> int:
    """The index of an arm, from its index or its name."""
    return place(name, value, problem.coords["arm"], "arm")


def arms(problem: Any, value: Any, *, name: str = "arms") -> NDArray[np.int64]:
    """The indices of a vector of arms, from their indices or their names."""
    return places(name, value, problem.coords["arm"], "arm")


def candidate(problem: Any, value: Any, *, name: str = "candidate") -> int:
    """The index of a candidate, from its index or its name."""
    return place(name, value, problem.coords["candidate"], "candidate")


def unknown(what: str, got: Any, known: Iterable[Any]) -> str:
    """A message about an unknown name that suggests the closest valid one, or lists a few.

    >>> unknown("rule", "blfaip", ["Oracle", "BLFAIPS"])
    "unknown rule 'blfaip'; did you mean 'BLFAIPS'?"
    """
    names = list(map(str, known))
    if not names:
        return f"unknown {what} {got!r}: there are none"
    by_letters = {name.casefold(): name for name in names}
    if near := get_close_matches(str(got).casefold(), by_letters, 1):
        return f"unknown {what} {got!r}; did you mean {by_letters[near[0]]!r}?"
    more = f", ... ({len(names)} in all)" if len(names) > NAMED else ""
    return f"unknown {what} {got!r}; expected one of {', '.join(names[:NAMED])}{more}"


def generator(name: str, value: Any) -> np.random.Generator:
    """A random generator from a seed, a SeedSequence or a Generator (passed through)."""
    return _seeded(name, value, np.random.default_rng, ", a SeedSequence or a Generator")


def seed_sequence(value: Any) -> np.random.SeedSequence:
    """The source of a rule's generators, from a seed; a SeedSequence is left as it was."""
    if isinstance(value, np.random.SeedSequence):
        return np.random.SeedSequence(**value.state)
    return _seeded("seed", value, np.random.SeedSequence, " or a SeedSequence")


def _seeded(name: str, value: Any, make: Any, otherwise: str) -> Any:
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError(f"of type {type(value).__name__}")
        return make(value)
    except (TypeError, ValueError) as error:
        raise _like(error)(
            f"{name}: expected a non-negative whole number{otherwise}, "
            f"got {_short(value)} ({error})"
        ) from None


def pulls(
    problem: Any,
    arm: Any,
    reward: Any,
    cost: Any,
    names: Sequence[str] = ("arm", "reward", "cost"),
    *,
    missing: bool = False,
) -> tuple[NDArray[np.int64], Array, Array]:
    """The outcomes of one pull or many: arms (pull,), rewards (pull,), costs (pull, constraint).

    Arms are given by index or name. A vector of costs is enough for one constraint, and None for
    none. Costs that carry the names of the constraints are put in their order.
    """
    single = isinstance(arm, str) or np.ndim(arm) == 0
    if single:
        chosen = np.array([place(names[0], arm, problem.coords["arm"], "arm")])
    else:
        chosen = arms(problem, arm, name=names[0])
    rewards = numbers(names[1], reward, missing=missing)
    if rewards.shape != (() if single else chosen.shape):
        expected = "one number" if single else f"{chosen.size} numbers, one for each pull"
        raise ValueError(f"{names[1]}: expected {expected}, got shape {rewards.shape}")
    cost = _by_constraint(names[2], cost, problem.coords["constraint"], single)
    table = costs(
        names[2], cost, chosen.size, problem.coords["constraint"], single, missing=missing
    )
    rewards = np.atleast_1d(rewards)
    for name, outcomes in zip(names[1:], (rewards, table), strict=True):
        if (largest := np.nanmax(np.abs(outcomes), initial=0.0)) > LARGEST_OUTCOME:
            raise ValueError(f"{name}: expected at most {LARGEST_OUTCOME:g}, got {largest:g}")
    return chosen, rewards, table


def _by_constraint(name: str, value: Any, constraints: Any, single: bool) -> Any:
    """Costs in the order of the constraints, where they carry names."""
    if isinstance(value, Mapping):
        columns = [
            numbers(f"{name} {key}", column, missing=True) for key, column in value.items()
        ]  # NaN is met again where the table is checked
        at = order(name, list(value), constraints, "constraint", numbered=False)
        columns = [columns[i] for i in at]
        if len({column.shape for column in columns}) > 1:
            raise ValueError(f"{name}: expected as many numbers for each constraint")
        return np.stack(columns, axis=-1) if columns else None
    if isinstance(value, np.ndarray) or getattr(value, "ndim", 0) != 2 - single or not value.size:
        return value
    if single:
        return by_name(name, value, constraints, "constraint")
    return _ordered_table(name, value, "pull", {"column": (constraints, "constraint")})


def costs_by_arm(name: str, value: Any, problem: Any) -> Any:
    """A table of costs in the order of arms and constraints, where it carries their names."""
    arms, constraints = problem.coords["arm"], problem.coords["constraint"]
    if isinstance(value, Mapping) or getattr(value, "ndim", 0) == 1:
        return by_name(name, value, arms, "arm")
    if isinstance(value, np.ndarray) or getattr(value, "ndim", 0) != 2 or not value.size:
        return value
    return _ordered_table(
        name, value, "arm", {"row": (arms, "arm"), "column": (constraints, "constraint")}
    )


def _ordered_table(name: str, value: Any, row: str, expected: dict[str, tuple[Any, str]]) -> Array:
    """A table with its rows and columns in the expected order, where they carry names."""
    if is_data_array(value) and value.dims[0] == "constraint":
        value = value.T
    array, rows, columns = table(name, value, row)
    if rows is not None and "row" in expected:
        array = array[order(name, rows, *expected["row"])]
    if columns is not None:
        array = array[:, order(name, columns, *expected["column"])]
    return array


def costs(
    name: str, value: Any, rows: int, constraints: Any, single: bool = False, *,
    missing: bool = False,
) -> Array:  # fmt: skip
    """Costs as a table (row, constraint); one `single` row may come as a vector or a number."""
    table = np.zeros((rows, 0)) if value is None else numbers(name, value, missing=missing)
    size = len(constraints)
    if single and value is not None:
        table = np.atleast_1d(table)[np.newaxis]
    elif table.ndim == 1 and size == 1:
        table = table[:, np.newaxis]
    if table.size == 0 and rows * size == 0:
        table = table.reshape(rows, size)
    if table.shape == (rows, size):
        return table
    if single and table.ndim == 2:
        listed = f"{size} cost{'s' * (size > 1)} ({', '.join(map(str, constraints))})"
        wanted = listed if size else "no cost, for there is no constraint"
        raise ValueError(f"{name}: expected {wanted}, got {table.shape[1]}")
    expected = (size,) if single else (rows, size)
    got = "nothing" if value is None else f"shape {np.shape(value)}"
    raise ValueError(f"{name}: expected shape {expected}, one for each threshold, got {got}")


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
    texts = list(map(str, plain))
    if len(number := Counter(texts)) < len(plain):
        twice = next(v for v, text in zip(plain, texts, strict=True) if number[text] > 1)
        raise ValueError(f"{name}: names must be distinct, got {twice!r} more than once")
    if all(map(_is_whole, plain)) and max(map(abs, plain)) < 2**63:
        return np.array(plain)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: names must be text that can be written ({error})") from None
    if any("\0" in text for text in texts):  # NumPy would drop it at the end of a name
        raise ValueError(f"{name}: names must not contain the character NUL, got {_short(plain)}")
    return np.array(texts)


def named_values(name: str, value: Any) -> tuple[Array, list[Any] | None]:
    """A vector of numbers (infinities allowed) and the names it carries, if any."""
    labels: list[Any] | None = None
    value = () if value is None else value
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

    What is only `numbered`, as tables without names are, is taken as it comes.
    """
    given, wanted = list(map(str, labels)), list(map(str, expected))
    if sorted(given) == sorted(wanted):
        at = {label: i for i, label in enumerate(given)}
        return [at[label] for label in wanted]
    if numbered and any(those == list(map(str, range(len(those)))) for those in (given, wanted)):
        return list(range(len(given)))
    known, number = set(wanted), Counter(given)
    for label in given:
        if label not in known:
            raise ValueError(f"{name}: {unknown(what, label, wanted)}")
        if number[label] > 1:
            raise ValueError(f"{name}: {what} {label!r} appears more than once")
    missing = ", ".join([label for label in wanted if label not in number][:NAMED])
    raise ValueError(f"{name}: expected a value for each {what}, got none for {missing}")


def allocation(problem: Any, value: Any, *, name: str = "allocation") -> Array:
    """Shares of the pulls: one an arm, by name or in their order, none negative, with sum 1."""
    array = numbers(name, by_name(name, value, problem.coords["arm"], "arm"))
    size = len(problem.arms)
    if array.shape != (size,):
        raise ValueError(f"{name}: expected {size} shares, one an arm, got shape {array.shape}")
    if array.min() < 0:
        raise ValueError(f"{name}: expected no negative share, got {array.min():g}")
    if abs((total := float(array.sum())) - 1) > 1e-9:
        raise ValueError(f"{name}: expected shares with sum 1, got sum {total:.12g}")
    return array / total


def path(name: str, value: Any) -> Path:
    """The path of a file."""
    try:
        found = Path(os.fsdecode(value))
    except TypeError:
        raise TypeError(f"{name}: expected the path of a file, got {_short(value)}") from None
    if "\0" in str(found):
        raise ValueError(f"{name}: no file can be called {str(found)!r}")
    return found


def _array(name: str, value: Any, what: str) -> NDArray[Any]:
    """An array of anything, whatever the object raises that will not be one."""
    if np.ma.is_masked(value):
        raise ValueError(f"{name}: expected {what}, got a masked array in which some are missing")
    try:
        return np.asarray(value)
    except Exception as error:
        raise _like(error)(f"{name}: expected {what}, got {_short(value)} ({error})") from None


def _like(error: Exception) -> type[Exception]:
    return ValueError if isinstance(error, ValueError | OverflowError) else TypeError


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _in_range(name: str, value: int, size: int, what: str) -> int:
    if not 0 <= value < size:
        raise ValueError(f"{name}: {_short(value)} is out of range, there are {size} {what}s")
    return value


def _article(what: str) -> str:
    return f"{'an' if what[0] in 'aeiouAEIOU' else 'a'} {what}"


def is_data_array(value: Any) -> bool:
    # Asked of its type: the labels of a Series are attributes, and one may be called `dims`.
    return hasattr(type(value), "dims") and hasattr(type(value), "ndim")


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())  # in one line, as tables are not
    return text if len(text) <= 60 else text[:57] + "..."
