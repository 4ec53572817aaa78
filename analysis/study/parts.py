"""A study's work in parts: one rule, one block of replicates, one file each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import bayes_feasible
from bayes_feasible.analysis.study.specification import RuleChoice, Specification
from bayes_feasible.analysis.study.store import Store, Task, key_of
from bayes_feasible.files.guard import blame, opened_hdf5
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


@dataclass(frozen=True)
class Part(Task):
    """Replicates `first` to `first + size - 1` of one rule."""

    rule: str = ""
    first: int = 0
    size: int = 0

    def __str__(self) -> str:
        return f"{self.rule}, replicates {self.first} to {self.first + self.size - 1}"


def cut(specification: Specification) -> list[Part]:
    """Cut a study into parts: whole replicates first, so that what is finished is comparable."""
    size = choose_size(
        specification.instance, specification.horizon, len(specification.checkpoints)
    )
    document = specification.world()
    return [
        _part(specification, document, rule, first, min(size, specification.replicates - first))
        for first in range(0, specification.replicates, size)
        for rule in specification.rules
    ]


def choose_size(instance: Instance, horizon: int, checkpoints: int) -> int:
    """Choose the replicates in a part: a power of two, however many there are in all."""
    problem = instance.problem
    outcomes = 1 + problem.thresholds.size
    dearness = 1 + problem.candidates.size * outcomes / SMALL
    cost = horizon * dearness + checkpoints * CHECKPOINT
    return 1 << max(0, int(np.log2(max(1.0, ROUNDS / cost))))


def _part(wanted: Specification, document: object, rule: RuleChoice, first: int, size: int) -> Part:
    key = key_of(
        {
            "instance": document,
            "rule": {rule.name: rule.meaning()},
            "checkpoints": list(wanted.checkpoints),
            "seed": wanted.seed,
            "replicates": [first, size],
        }
    )
    seeds = streams.replicates(wanted.seed, range(first, first + size))
    return Part(
        f"{slug(rule.name)}-{first:06d}-{first + size - 1:06d}",
        key,
        partial(run_replicates, wanted.instance, rule.name, rule.maker, wanted.times, seeds),
        partial(to_dataset, wanted, rule.name, key, first),
        rule=rule.name,
        first=first,
        size=size,
    )


def slug(name: str) -> str:
    """Turn a name into one that any file system takes.

    >>> slug("BLFAIPS, true posterior")
    'BLFAIPS-true-posterior'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "rule"


def to_dataset(
    wanted: Specification, rule: str, key: str, first: int, replicates: Sequence[Replicate]
) -> "xr.Dataset":
    """Make what a part's file holds."""
    import xarray as xr

    dims = ("replicate", "time")
    return xr.Dataset(
        {
            "recommended": (dims, np.array([r.recommended for r in replicates], dtype=np.int64)),
            "log_error": (dims, np.array([r.log_error for r in replicates])),
            "pulls": ((*dims, "arm"), np.array([r.pulls for r in replicates], dtype=np.int64)),
        },
        coords={
            "replicate": np.arange(first, first + len(replicates)),
            "time": wanted.times,
            "arm": wanted.instance.problem.coords["arm"],
        },
        attrs={"rule": rule, "key": key, "version": bayes_feasible.__version__},
    )


def read_part(store: Store, part: Part, wanted: Specification) -> list[Replicate]:
    """Read the replicates in a part's file."""
    size = (part.size, wanted.times.size)
    # Through h5py, which is much quicker than through xarray.
    with blame(store.path(part.key)), opened_hdf5(store.read(part.key)) as file:
        arrays = [file[name][()] for name in Replicate._fields]
        if [a.shape for a in arrays] != [size, size, (*size, len(wanted.instance.problem.arms))]:
            raise ValueError(f"expected {size[0]} replicates at {size[1]} checkpoints")
        if [a.dtype.kind for a in arrays] != ["i", "f", "i"] or not np.all(arrays[1] <= 0):
            raise ValueError("expected counts, and logarithms of probabilities")
    return [Replicate(*each) for each in zip(*arrays, strict=True)]
