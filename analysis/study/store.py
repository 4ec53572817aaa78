"""Results that are never computed twice: one file a task, found by what its numbers depend on.

A file's name ends in two checksums: that of everything its numbers depend on, its key, and that of
its content. So a result and its checksums appear in one step, a result of other settings is never
taken for one of these, and a file that was edited or cut short shows.
"""

import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bayes_feasible
from bayes_feasible.files.atomic import netcdf_bytes
from bayes_feasible.files.guard import Folder, blame, read_netcdf
from bayes_feasible.simulation import pool

if TYPE_CHECKING:
    import xarray as xr

KEY_DIGITS, CONTENT_DIGITS = 12, 32
NAME = re.compile(
    rf"(?P<stem>.+)-(?P<key>[0-9a-f]{{{KEY_DIGITS}}})-(?P<content>[0-9a-f]{{{CONTENT_DIGITS}}})\.nc"
)


@dataclass(frozen=True)
class Task:
    """Work whose result is kept; it may be sent to another process or machine."""

    stem: str  # the readable beginning of the file's name
    key: str  # from `key_of`: what the numbers depend on
    work: Callable[[], Any]  # computes the result, wherever it runs
    # Makes the Dataset that is kept from the result, in the process that keeps it.
    record: Callable[[Any], "xr.Dataset"] = lambda result: result
    version: str = field(default_factory=lambda: bayes_feasible.__version__)

    def __call__(self) -> Any:
        """Do the work, with the version that asks for it alone."""
        if bayes_feasible.__version__ != self.version:
            raise RuntimeError(
                f"this worker has bayes_feasible {bayes_feasible.__version__}, "
                f"the study runs with {self.version}"
            )
        return self.work()

    def __str__(self) -> str:
        return self.stem


def digest(document: Any) -> str:
    """Hash a JSON document in which 1 and 1.0 are the same number.

    >>> digest({"eta": 1}) == digest({"eta": 1.0}) != digest({"eta": 2})
    True
    """
    text = json.dumps(_canonical(document), ensure_ascii=False, separators=(",", ":"))
    return hash_bytes(text.encode())


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [[key, _canonical(item)] for key, item in value.items()]  # in their order
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def key_of(causes: dict[str, object]) -> str:
    """Hash what a file's numbers follow from, the package's version included."""
    return digest(causes | {"version": bayes_feasible.__version__})[:KEY_DIGITS]


def hash_bytes(content: bytes) -> str:
    """Hash a file's content."""
    return hashlib.sha256(content).hexdigest()


def compute[T: Task](store: "Store", tasks: Sequence[T], executor: Any = False) -> Generator[T]:
    """Give each task as soon as its result is in the store; those that are there come first.

    Where the others run is up to the executor, as `pool.run` takes it.
    """
    yield from (task for task in tasks if task.key in store)
    with closing(pool.run([t for t in tasks if t.key not in store], executor)) as results:
        for task, result in results:
            store.write(task.stem, task.key, task.record(result))
            yield task


class Store:
    """A folder of results, found by key.

    Those whose content is not what their name says are `damaged`: removed, to be computed again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._files = folder, Folder(folder)
        self.damaged: list[Path] = []
        self._found: dict[str, str] = {}  # the name of the file of each key
        for file in self._files.names():
            name = NAME.fullmatch(file)
            if name is None:
                continue
            if hash_bytes(self._files.read(file) or b"").startswith(name["content"]):
                self._found[name["key"]] = file
            else:
                self._files.remove([file])
                self.damaged.append(folder / file)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def keys_on_disk(self) -> set[str]:
        """Give the keys of all files that are there now."""
        names = map(NAME.fullmatch, self._files.names())
        return {name["key"] for name in names if name is not None}

    def path(self, key: str) -> Path:
        """Give the path of the file with this key."""
        return self.folder / self._found[key]

    def read(self, key: str) -> bytes:
        """Read the content of the file with this key."""
        return self._files.require(self._found[key])

    def read_dataset(self, key: str) -> "xr.Dataset":
        """Read the Dataset in the file with this key."""
        with blame(self.path(key)):
            return read_netcdf(self.read(key))

    def write(self, stem: str, key: str, dataset: "xr.Dataset", **options: Any) -> None:
        """Add a file, whole or not at all."""
        content = netcdf_bytes(dataset, **options)
        name = f"{stem}-{key}-{hash_bytes(content)[:CONTENT_DIGITS]}.nc"
        self._files.write(name, content)
        self._found[key] = name

    def remove(self, keys: Iterable[str]) -> None:
        """Remove the files with these keys."""
        self._files.remove([self._found.pop(key) for key in keys])

    def remove_all_but(self, keys: set[str]) -> None:
        """Remove what has other keys."""
        self.remove(set(self._found) - keys)

    def origin(self, keys: Iterable[str]) -> str:
        """Hash the names, and so the content, of the files with these keys."""
        return digest(sorted(self._found[key] for key in keys))
