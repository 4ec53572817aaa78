"""A study's work in parts: one rule, one block of replicates, one file each.

A part is a netCDF file whose name ends in two checksums: that of everything its numbers depend
on, and that of its content. So a part and its checksums appear in one step, a part of another
study is never taken for one of this study, and a part that was edited or cut short shows.
"""

import hashlib
import io
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import bayes_feasible
from bayes_feasible._interrupt import heed, undisturbed
from bayes_feasible.analysis.study.specification import RuleChoice, Specification, digest
from bayes_feasible.files.atomic import netcdf_bytes
from bayes_feasible.files.documents import to_document
from bayes_feasible.instance import Instance
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.simulate import Replicate, run_replicates

if TYPE_CHECKING:
    import xarray as xr

# A part is one to three seconds of work: long beside the 0.05 s it takes to hand out and to
# write, short for who presses Ctrl-C.
ROUNDS = 1_000_000
CHECKPOINT = 300  # rounds that cost as much as one look
SMALL = 200  # candidates × features × outcomes that double the cost of a round

KEY_DIGITS, CONTENT_DIGITS = 12, 32
NAME = re.compile(
    rf"(?P<stem>.+)-(?P<key>[0-9a-f]{{{KEY_DIGITS}}})-(?P<content>[0-9a-f]{{{CONTENT_DIGITS}}})\.nc"
)
TEMPORARY = re.compile(r"\.[0-9a-f]{8}\..+")  # as `_atomic.replaced` and `publish` name them


class Part(NamedTuple):
    """Replicates `first` to `first + size - 1` of one rule."""

    rule: str
    first: int
    size: int
    key: str

    @property
    def stem(self) -> str:
        """The readable beginning of the file's name."""
        return f"{slug(self.rule)}-{self.first:06d}-{self.first + self.size - 1:06d}"

    def __str__(self) -> str:
        return f"{self.rule}, replicates {self.first} to {self.first + self.size - 1}"


def slug(name: str) -> str:
    """A name that any file system takes.

    >>> slug("BLFAIPS, true posterior")
    'BLFAIPS-true-posterior'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "rule"


def cut(specification: Specification) -> list[Part]:
    """The parts of a study: whole replicates first, so that what is finished is comparable."""
    size = block(specification.instance, specification.horizon, len(specification.checkpoints))
    parts = []
    for first in range(0, specification.replicates, size):
        count = min(size, specification.replicates - first)
        for rule in specification.rules:
            parts.append(Part(rule.name, first, count, _key(specification, rule, first, count)))
    return parts


def block(instance: Instance, horizon: int, checkpoints: int) -> int:
    """Replicates in a part: a power of two, which does not depend on how many there are."""
    problem = instance.problem
    outcomes = 1 + problem.thresholds.size
    dearness = 1 + problem.candidates.size * outcomes / SMALL
    cost = horizon * dearness + checkpoints * CHECKPOINT
    return 1 << max(0, int(np.log2(max(1.0, ROUNDS / cost))))


def _key(specification: Specification, rule: RuleChoice, first: int, size: int) -> str:
    return key_of(
        {
            "instance": to_document(specification.instance, strict=True),
            "rule": {rule.name: rule.document()},
            "checkpoints": list(specification.checkpoints),
            "seed": specification.seed,
            "replicates": [first, size],
        }
    )


def key_of(causes: dict[str, object]) -> str:
    """A checksum of what a file's numbers follow from, the package's version included."""
    return digest(causes | {"version": bayes_feasible.__version__})[:KEY_DIGITS]


@dataclass(frozen=True)
class Work:
    """A part with all it takes to compute it; can be sent to another process or machine."""

    part: Part
    instance: Instance
    rule: RuleChoice
    checkpoints: tuple[int, ...]
    seed: int
    version: str

    @classmethod
    def of(cls, specification: Specification, part: Part) -> "Work":
        """The work of one part of a study."""
        return cls(
            part,
            specification.instance,
            specification.rule(part.rule),
            specification.checkpoints,
            specification.seed,
            bayes_feasible.__version__,
        )

    def __call__(self) -> list[Replicate]:
        """Run the replicates, as `simulate` would."""
        if bayes_feasible.__version__ != self.version:
            raise RuntimeError(
                f"this worker has bayes_feasible {bayes_feasible.__version__}, "
                f"the study runs with {self.version}"
            )
        part = self.part
        seeds = streams.replicates(self.seed, range(part.first, part.first + part.size))
        times = np.array(self.checkpoints, dtype=np.int64)
        return run_replicates(self.instance, self.rule.name, self.rule.maker, times, seeds)


def to_dataset(work: Work, replicates: Sequence[Replicate]) -> "xr.Dataset":
    """What a part's file holds."""
    import xarray as xr

    part, dims = work.part, ("replicate", "time")
    return xr.Dataset(
        {
            "recommended": (dims, np.array([r.recommended for r in replicates], dtype=np.int64)),
            "log_error": (dims, np.array([r.log_error for r in replicates])),
            "pulls": ((*dims, "arm"), np.array([r.pulls for r in replicates], dtype=np.int64)),
        },
        coords={
            "replicate": np.arange(part.first, part.first + part.size),
            "time": np.array(work.checkpoints, dtype=np.int64),
            "arm": work.instance.problem.coords["arm"],
        },
        attrs={"rule": part.rule, "key": part.key, "version": work.version},
    )


def from_bytes(content: bytes) -> list[Replicate]:
    """The replicates in the content of a part's file."""
    import h5netcdf

    # Through h5netcdf, which is much quicker than through xarray.
    with undisturbed(), h5netcdf.File(io.BytesIO(content), "r") as file:
        arrays = [file.variables[name][...] for name in Replicate._fields]
    return [Replicate(*each) for each in zip(*arrays, strict=True)]


def to_memory(content: bytes) -> "xr.Dataset":
    """The Dataset in the content of a netCDF file."""
    import xarray as xr

    with undisturbed(), xr.open_dataset(io.BytesIO(content), engine="h5netcdf") as dataset:
        return dataset.load()


def checksum(content: bytes) -> str:
    """Of a file's content."""
    return hashlib.sha256(content).hexdigest()


def publish(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole, and stays there if the power fails, or not at all."""
    heed()  # what an interruption has cut short is not written
    temporary = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Have a new name in a folder written to the disk, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Parts:
    """The files of a study that were computed, found by key.

    Attributes
    ----------
    folder : Path
    damaged : list of Path
        Files whose content is not what their name says; removed, to be computed again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: list[Path] = []
        self._found: dict[str, Path] = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            name = NAME.fullmatch(path.name)
            if name is None:
                continue
            if self._intact(path, name["content"]):
                self._found[name["key"]] = path
            else:
                path.unlink()
                self.damaged.append(path)

    @staticmethod
    def _intact(path: Path, content: str) -> bool:
        return checksum(path.read_bytes()).startswith(content)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def keys_on_disk(self) -> set[str]:
        """The keys of all files that are there now."""
        names = map(NAME.fullmatch, os.listdir(self.folder))
        return {name["key"] for name in names if name is not None}

    def read(self, key: str) -> bytes:
        """The content of the file with this key."""
        return self._found[key].read_bytes()

    def write(self, stem: str, key: str, dataset: "xr.Dataset") -> None:
        """Add a file, whole or not at all."""
        content = netcdf_bytes(dataset)
        name = f"{stem}-{key}-{checksum(content)[:CONTENT_DIGITS]}.nc"
        publish(self.folder / name, content)
        self._found[key] = self.folder / name

    def remove_all_but(self, keys: set[str]) -> None:
        """Remove what belongs to another study."""
        for key in set(self._found) - keys:
            self._found.pop(key).unlink()

    def paths(self, keys: Iterable[str]) -> list[Path]:
        """The files with these keys, in order of names."""
        return sorted(self._found[key] for key in keys)
