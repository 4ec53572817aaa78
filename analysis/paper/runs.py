"""Many experiments, watched under both recommendation rules.

An `Experiment` has rules that run on one instance or on several. Its replicates meet the same
noise as those of `bayes_feasible.simulate` with the same seeds; what differs is the recorder. At
each checkpoint several posterior draws say how probably the paper's recommendation (the best
feasible candidate of one draw) is right at that moment, which is less noisy than one draw, and the
posterior means give the other recommendation.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numba import njit
from tqdm import tqdm

from bayes_feasible._interrupt import undisturbed
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.study.store import Store, Task, compute, key_of
from bayes_feasible.files.documents import to_document
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import optimal_rate, smallest_exponents
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import recommend_drawn
from bayes_feasible.rules.engine import mean_best
from bayes_feasible.simulation import pool, streams
from bayes_feasible.simulation.world import Environment

DRAWS = 16  # posterior draws at a checkpoint: the paper's recommendation, so often
BLOCK = 10  # replicates in one task
WRITTEN_BY = 1  # changes when the same settings would give other numbers
SMALLER = {"zlib": True, "complevel": 4}

Data = Mapping[str, xr.Dataset]  # by the name of the experiment
Rules = Mapping[str, Callable[..., Rule]]  # classes of rules, or `functools.partial` of them


class Piece(NamedTuple):
    """Work that gives one file, in tasks that may run anywhere and in any order."""

    name: str  # of the file
    tasks: list[Task]
    join: Callable[[list[xr.Dataset]], xr.Dataset]  # what the tasks recorded, in their order
    prepare: Callable[[], object]  # before the tasks, in this process

    @property
    def key(self) -> str:
        """What the file depends on."""
        return key_of({"tasks": [task.key for task in self.tasks]})


def cut(
    name: str, settings: Any, work: Sequence[Callable[[], Any]],
    join: Callable[[list[xr.Dataset]], xr.Dataset] = lambda found: found[0],
    record: Callable[[Any], xr.Dataset] = lambda found: found,
    prepare: Callable[[], object] = lambda: None, blocks: Sequence[Any] = (),
) -> Piece:  # fmt: skip
    """Make a piece: tasks whose numbers depend on `settings` and their own of `blocks`."""
    causes = {"settings": settings, "written_by": WRITTEN_BY}
    tasks = [
        Task(f"{name}-{i:04d}", key_of(causes | {"block": blocks[i] if blocks else i}), one, record)
        for i, one in enumerate(work)
    ]
    return Piece(name, tasks, join, prepare)


@dataclass(frozen=True)
class Experiment:
    """Rules on one instance or on several, each many times."""

    name: str  # also of its file
    instances: Sequence[Instance]
    rules: Rules
    times: Sequence[int]  # the checkpoints, the last of which is the horizon
    replicates: int  # runs of each rule on each instance
    seed: int = 0
    environment: Callable[..., Environment] = Environment  # of an instance and two seeds

    def piece(self) -> Piece:
        """Cut the experiment into tasks: an instance, its first replicate, how many there are."""
        settings = {
            "name": self.name,
            "instances": [to_document(i, strict=True) for i in self.instances],
            "rules": {name: _describe(maker) for name, maker in self.rules.items()},
            "times": list(map(int, self.times)),
            "seed": self.seed,
            "environment": _describe(self.environment),
            "draws": DRAWS,
        }
        blocks = [
            (instance, first, min(BLOCK, self.replicates - first))
            for instance in range(len(self.instances))
            for first in range(0, self.replicates, BLOCK)
        ]
        work = [partial(watch, self, *block) for block in blocks]
        one_round = replace(self, times=(1,), instances=self.instances[:1], replicates=1)
        prepare = partial(watch, one_round, 0, 0, 1)  # what that compiles is on the disk for all
        return cut(self.name, settings, work, partial(_join, self), prepare=prepare, blocks=blocks)


class Part(NamedTuple):
    """A part of the report."""

    work: Callable[..., Sequence[Experiment | Piece]]  # of the repetitions
    claims: Callable[[Data], list[Claim]]
    pictures: Callable[[Data], dict[str, Figure]] = lambda data: {}

    def pieces(self, repetitions: int, **options: Any) -> list[Piece]:
        """Cut the work of the part."""
        each = self.work(repetitions, **options)
        return [one.piece() if isinstance(one, Experiment) else one for one in each]


def run(experiment: Experiment) -> xr.Dataset:
    """Run an experiment here, without keeping anything.

    Gives over `instance`, `rule`, `replicate` and `time`: `drawn` (the share of posterior draws
    under which the best candidate is best: how probably the paper's recommendation is right),
    `by_draw` and `by_mean` (what one draw and the means recommend), `correct` (the latter is the
    best or a copy of it), `efficiency` and `best_share`; and the mean `allocation`, over
    `instance`, `rule`, `time` and `arm`.
    """
    piece = experiment.piece()
    return piece.join([task.record(task()) for task in piece.tasks])


def complete(
    pieces: Sequence[Piece], store: Store, workers: int = 0, *, progress: bool = False
) -> Iterator[tuple[Piece, xr.Dataset, bool]]:
    """Give each piece as soon as it is done, its Dataset, and whether it was there already.

    All tasks are handed out at once, so that no process waits for the end of a piece. Those that
    are pieces on their own go first: none of them is left running alone at the end.
    """
    missing = sorted((p for p in pieces if p.key not in store), key=lambda p: len(p.tasks) > 1)
    for piece in pieces:
        if piece.key in store:
            yield piece, store.read_dataset(piece.key), True
    for piece in missing if workers else ():
        piece.prepare()
    owner = {task.key: piece for piece in missing for task in piece.tasks}
    tasks = [task for piece in missing for task in piece.tasks]
    left = {piece.name: len(piece.tasks) for piece in missing}
    done = compute(store, tasks, workers or False)
    with closing(done), tqdm(total=len(tasks), disable=not progress, unit="task") as bar:
        for task in done:
            bar.update()
            piece = owner[task.key]
            left[piece.name] -= 1
            if not left[piece.name]:  # kept as a whole, in the place of its parts
                found = piece.join([store.read_dataset(task.key) for task in piece.tasks])
                numbers = [name for name in found.data_vars if found[name].dtype.kind in "fib"]
                store.write(piece.name, piece.key, found, encoding=dict.fromkeys(numbers, SMALLER))
                store.remove(task.key for task in piece.tasks)
                yield piece, store.read_dataset(piece.key), False


def repeat(work: Callable[[Any], xr.Dataset], seed: Any, runs: int, horizon: int) -> xr.Dataset:
    """Do the work with the seed of each replicate, on all cores where the rounds are worth it."""
    seeds = streams.replicates(np.random.SeedSequence(seed), range(runs))
    tasks = [partial(work, one) for one in seeds]
    found = dict(pool.run(tasks, pool.choose_executor(tasks, runs * horizon)))
    return xr.concat([found[task] for task in tasks], "replicate")


def watch(study: Experiment, which: int, first: int, number: int) -> xr.Dataset:
    """Do one task: so many replicates of every rule on one instance.

    Gives what `run` gives for all, but for `allocation`, which is summed over the replicates.
    """
    instance = study.instances[which]
    problem, times = instance.problem, np.asarray(study.times)
    best = problem.copies(instance.best)
    shape = (len(study.rules), number, times.size)
    choices, by_mean = np.empty((*shape, DRAWS), np.int16), np.empty(shape, np.int16)
    pulls = np.empty((*shape, len(problem.arms)), np.int64)
    for r, maker in enumerate(study.rules.values()):
        for i in range(number):
            key = (which, first + i) if len(study.instances) > 1 else (first + i,)
            own, rewards, costs, *_ = streams.split(streams.child(study.seed, *key))
            rule, world = maker(instance, seed=own), study.environment(instance, rewards, costs)
            for t, rounds in enumerate(np.diff(times, prepend=0).tolist()):
                world.play(rule, rounds)
                by_mean[r, i, t] = mean_best(rule._state.candidate_means, rule._geometry.limits)
                with undisturbed():
                    choices[r, i, t] = drawn_answers(
                        rule._geometry, rule._state, rule._work, rule._recommend_rng, DRAWS
                    )
                pulls[r, i, t] = world.pulls
    shares = pulls / times[:, np.newaxis]
    smallest = smallest_exponents(instance, shares.reshape(-1, len(problem.arms))).reshape(shape)
    same = (problem.arms == problem.candidates[instance.best]).all(axis=1)
    dims = ("rule", "replicate", "time")
    return xr.Dataset(
        {
            "drawn": (dims, np.mean(best[choices] & (choices >= 0), axis=-1).astype(np.float32)),
            "by_draw": (dims, choices[..., 0]),
            "by_mean": (dims, by_mean),
            "efficiency": (dims, (smallest / optimal_rate(instance).value).astype(np.float32)),
            "best_share": (dims, shares[..., same].sum(-1).astype(np.float32)),
            "allocation": (("rule", "time", "arm"), shares.sum(axis=1)),
        }
    )


@njit(cache=True, error_model="numpy")
def drawn_answers(geo, state, work, rng, number):
    """What the paper's recommendation would be, so many times over."""
    answers = np.empty(number, np.int64)
    for i in range(number):
        answers[i] = recommend_drawn(geo, state, work, rng)
    return answers


def _join(study: Experiment, seen: list[xr.Dataset]) -> xr.Dataset:
    """Join what the tasks of an experiment saw, in the order of its blocks."""
    each = []
    for own in batched(seen, len(seen) // len(study.instances)):
        allocation = sum(one.allocation for one in own) / study.replicates
        joined = xr.concat([one.drop_vars("allocation") for one in own], "replicate")
        each.append(joined.assign(allocation=allocation))
    found = xr.concat(each, "instance")
    best = np.stack([i.problem.copies(i.best) for i in study.instances])
    by_mean = found.by_mean.values
    right = np.take_along_axis(best[:, None, None, :], np.maximum(by_mean, 0), axis=-1)
    return (
        found.assign(correct=(found.by_mean.dims, right & (by_mean >= 0)))
        .assign_coords(rule=list(study.rules), time=np.asarray(study.times))
        .assign_attrs(name=study.name, best=[i.problem.name(i.best) for i in study.instances])
    )


def _describe(maker: Any) -> str:
    """Name a class or function, with the options that `partial` fixed."""
    if isinstance(maker, partial):
        options = ", ".join(f"{name}={value!r}" for name, value in sorted(maker.keywords.items()))
        return f"{_describe(maker.func)}({options})"
    return str(maker.__qualname__)
