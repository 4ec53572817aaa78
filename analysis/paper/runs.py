"""Many experiments, watched under both recommendation rules, and kept in files.

A piece of work is a `Study`: rules that run on one instance or on several. Its replicates meet
the same noise as those of `bayes_feasible.simulate` with the same seeds; what differs is what is
written down. At each checkpoint several posterior draws say how probably the paper's
recommendation (the best feasible candidate of one draw) is right at that moment, which is less
noisy than one draw, and the posterior means give the other recommendation.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numba import njit
from numpy.typing import NDArray
from tqdm import tqdm

from bayes_feasible._interrupt import undisturbed
from bayes_feasible.files.atomic import write_netcdf
from bayes_feasible.files.documents import to_document
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import optimal_rate, smallest_exponents
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.choose import recommend_drawn
from bayes_feasible.rules.engine import mean_best
from bayes_feasible.simulation.simulate import Environment
from bayes_feasible.simulation.workers import Workers

DRAWS = 16  # posterior draws at a checkpoint: the paper's recommendation, so often
BLOCK = 10  # replicates in one task
WRITTEN_BY = 1  # changes when the same settings would give other numbers


@dataclass(frozen=True)
class Study:
    """Rules on one instance or on several, each many times.

    Attributes
    ----------
    name : str
        Also the name of its file.
    instances : sequence of Instance
    rules : mapping from names to makers of rules
        A rule's class, or `functools.partial` of one.
    times : sequence of int
        The checkpoints, the last of which is the horizon.
    replicates : int
        Runs of each rule on each instance.
    seed : int
    environment : callable
        Gives an `Environment` from an instance and two seeds, for rewards and for costs.
    """

    name: str
    instances: Sequence[Instance]
    rules: Mapping[str, Callable[..., Rule]]
    times: Sequence[int]
    replicates: int
    seed: int = 0
    environment: Callable[..., Environment] = Environment

    def settings(self) -> str:
        """Everything that the numbers depend on, as JSON."""
        return json.dumps(
            {
                "name": self.name,
                "instances": [to_document(i, strict=True) for i in self.instances],
                "rules": {name: _described(maker) for name, maker in self.rules.items()},
                "times": list(map(int, self.times)),
                "replicates": self.replicates,
                "seed": self.seed,
                "environment": _described(self.environment),
                "draws": DRAWS,
                "written_by": WRITTEN_BY,
            },
            sort_keys=True,
        )

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """The tasks: an instance, its first replicate and how many there are."""
        for instance in range(len(self.instances)):
            for first in range(0, self.replicates, BLOCK):
                yield instance, first, min(BLOCK, self.replicates - first)

    def piece(self) -> "Piece":
        """The study as tasks."""
        tasks = [partial(watch, self, *block) for block in self.blocks()]
        return Piece(self.name, self.settings(), tasks, partial(_labelled, self), self.compile)

    def compile(self) -> None:
        """One round of each rule: what is compiled by that is on the disk for all processes."""
        first = replace(self, times=(1,), instances=self.instances[:1], replicates=1)
        watch(first, 0, 0, 1)


class Piece(NamedTuple):
    """Work that gives one file, in tasks that may run anywhere and in any order."""

    name: str  # of the file
    settings: str  # all that the numbers depend on
    tasks: Sequence[Callable[[], Any]]
    join: Callable[[list[Any]], xr.Dataset]  # from the results of the tasks, in their order
    prepare: Callable[[], None] = lambda: None  # before the tasks, in this process


class Watched(NamedTuple):
    """What one task saw: arrays over (rule, replicate, time)."""

    drawn: NDArray[np.float32]  # share of the posterior draws under which the best is best
    by_draw: NDArray[np.int16]  # candidate recommended by the first draw, -1 for none
    by_mean: NDArray[np.int16]  # and by the posterior means
    efficiency: NDArray[np.float32]
    best_share: NDArray[np.float32]  # of the pulls, for the arms that are the best candidate
    allocation: NDArray[np.float64]  # (rule, time, arm), summed over the replicates


def run(study: Study, processes: Workers | None = None) -> xr.Dataset:
    """Run a study, its tasks on these processes if there are any.

    Returns
    -------
    Dataset
        Over `instance`, `rule`, `replicate` and `time`: `drawn` (the share of posterior draws
        under which the best candidate is best: how probably the paper's recommendation is
        right), `by_draw` and `by_mean` (what one draw and the means recommend), `correct` (the
        latter is the best or a copy of it), `efficiency` and `best_share`; and the mean
        `allocation`, over `instance`, `rule`, `time` and `arm`.
    """
    ((_, dataset, _),) = completed([study.piece()], processes)
    return dataset


def completed(
    pieces: Sequence[Piece], processes: Workers | None = None, *, progress: bool = False
) -> Iterator[tuple[Piece, xr.Dataset, float]]:
    """Each piece as soon as all its tasks are done, its Dataset, and their processor seconds.

    All tasks are handed out at once, so that no process waits for the end of a piece. Those that
    are pieces on their own go first: none of them is left running alone at the end.
    """
    order = sorted(pieces, key=lambda piece: len(piece.tasks) > 1)
    total = sum(len(piece.tasks) for piece in order)
    with tqdm(total=total, disable=not progress, unit="task") as bar:
        if processes is None:
            for piece in order:
                yield _joined(piece, [_timed(task) for task in piece.tasks])
                bar.update(len(piece.tasks))
            return
        for piece in order:
            piece.prepare()
        futures = [
            [processes.submit(partial(_timed, task)) for task in piece.tasks] for piece in order
        ]
        owner = {future: place for place, own in enumerate(futures) for future in own}
        left = list(map(len, futures))
        for future in as_completed(owner):
            place = owner[future]
            left[place] -= 1
            future.result()  # raises what went wrong
            bar.update()
            if not left[place]:
                yield _joined(order[place], [future.result() for future in futures[place]])
                futures[place].clear()


def _timed(task: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return task(), time.process_time() - start


def _joined(piece: Piece, results: list[tuple[Any, float]]) -> tuple[Piece, xr.Dataset, float]:
    found, seconds = zip(*results, strict=True)
    return piece, piece.join(list(found)), sum(seconds)


def watch(study: Study, which: int, first: int, number: int) -> Watched:
    """One task: so many replicates of every rule on one instance."""
    instance = study.instances[which]
    problem, times = instance.problem, np.asarray(study.times)
    best = problem.copies(instance.best)
    shape = (len(study.rules), number, times.size)
    choices, by_mean = np.empty((*shape, DRAWS), np.int16), np.empty(shape, np.int16)
    pulls = np.empty((*shape, len(problem.arms)), np.int64)
    for r, maker in enumerate(study.rules.values()):
        for i in range(number):
            # The seeds of `simulate`: of rule, rewards and costs.
            key = (which, first + i) if len(study.instances) > 1 else (first + i,)
            own, rewards, costs = (
                np.random.SeedSequence(study.seed, spawn_key=(*key, part)) for part in range(3)
            )
            rule, world = maker(instance, seed=own), study.environment(instance, rewards, costs)
            now = 0
            for t, until in enumerate(times.tolist()):
                world.play(rule, until - now)
                now = until
                by_mean[r, i, t] = mean_best(rule._state.candidate_means, rule._geometry.thresholds)
                with undisturbed():
                    choices[r, i, t] = drawn_answers(
                        rule._geometry, rule._state, rule._work, rule._recommend_rng, DRAWS
                    )
                pulls[r, i, t] = world.pulls
    drawn = np.mean(best[choices] & (choices >= 0), axis=-1).astype(np.float32)
    shares = pulls / times[:, np.newaxis]
    same = (problem.arms == problem.candidates[instance.best]).all(axis=1)
    return Watched(
        drawn, choices[..., 0], by_mean, _efficiency(instance, shares, shape),
        shares[..., same].sum(-1).astype(np.float32), shares.sum(axis=1),
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def drawn_answers(geo, state, work, rng, number):
    """What the paper's recommendation would be, so many times over."""
    answers = np.empty(number, np.int64)
    for i in range(number):
        answers[i] = recommend_drawn(geo, state, work, rng)
    return answers


def _efficiency(instance: Instance, shares: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    rate = optimal_rate(instance).value
    smallest = smallest_exponents(instance, shares.reshape(-1, shares.shape[-1]))
    return (smallest.reshape(shape) / rate).astype(np.float32)


def _labelled(study: Study, seen: list[Watched]) -> xr.Dataset:
    """What the tasks of a study saw, in the order of its blocks, as a Dataset."""
    dims = ("instance", "rule", "replicate", "time")
    each = len(seen) // len(study.instances)
    by_instance = list(batched(seen, each))
    joined = {
        field: (dims, np.stack([_side_by_side(own, field) for own in by_instance]))
        for field in Watched._fields[:-1]
    }
    arms = max(len(instance.problem.arms) for instance in study.instances)
    allocation = np.zeros((len(study.instances), len(study.rules), len(study.times), arms))
    for which, own in enumerate(by_instance):
        for watched in own:
            allocation[which, :, :, : watched.allocation.shape[-1]] += watched.allocation
    best = np.stack([i.problem.copies(i.best) for i in study.instances])
    by_mean = joined["by_mean"][1]
    right = np.take_along_axis(best[:, None, None, :], np.maximum(by_mean, 0), axis=-1)
    return xr.Dataset(
        {
            **joined,
            "correct": (dims, right & (by_mean >= 0)),
            "allocation": (("instance", "rule", "time", "arm"), allocation / study.replicates),
        },
        coords={"rule": list(study.rules), "time": np.asarray(study.times)},
        attrs={"name": study.name, "best": [i.problem.name(i.best) for i in study.instances]},
    )


def _side_by_side(seen: Sequence[Watched], field: str) -> NDArray[Any]:
    return np.concatenate([getattr(one, field) for one in seen], axis=1)


def stored(path: Path, settings: str) -> xr.Dataset | None:
    """The Dataset of a file, if it was made with these settings."""
    if not path.exists():
        return None
    with xr.open_dataset(path, engine="h5netcdf") as found:
        same = found.attrs.get("settings_hash") == fingerprint(settings)
        return found.load() if same else None


def store(path: Path, settings: str, dataset: xr.Dataset) -> None:
    """Write a Dataset with the settings it was made with."""
    signed = dataset.assign_attrs(settings=settings, settings_hash=fingerprint(settings))
    smaller = {"zlib": True, "complevel": 4}
    encoding = {name: smaller for name in signed.data_vars if signed[name].dtype.kind in "fib"}
    write_netcdf(path, signed, encoding=encoding)


def fingerprint(settings: str) -> str:
    """A short hash of settings."""
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def _described(maker: Any) -> str:
    """A class or function, with the options that `partial` fixed."""
    if isinstance(maker, partial):
        options = ", ".join(f"{name}={value!r}" for name, value in sorted(maker.keywords.items()))
        return f"{_described(maker.func)}({options})"
    return str(maker.__qualname__)
