"""The arena's work: each rule on the instances of each family, paired by seed, in parts.

Run i of a family has the same instance and meets the same noise under every rule. A part is one
rule on a block of runs; what all rules share, the optimal rates, is a part of its own.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.analysis.arena.entrants import Entrant
from bayes_feasible.analysis.arena.families import Family
from bayes_feasible.analysis.study.parts import choose_size, slug
from bayes_feasible.analysis.study.store import Task, key_of
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import quiet_rate, smallest_exponents
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.simulate import _correct, play, wrong_of
from bayes_feasible.simulation.until import Until, right_answers
from bayes_feasible.stopping.stop import Stop

MADE_BY = 1  # changes when the same settings would give other numbers
ERROR_DRAWS = 64  # of the overlap of three events: the mean over runs averages it out
LONGER = 4  # parts than a study's: there are many
FEWEST, MOST = 8, 64  # runs in a part


class Runs(NamedTuple):
    """What is kept of a block of runs, over (run, budget)."""

    wrong: NDArray[np.int8]  # whether the recommendation was
    log_error: Array  # posterior log-probability that the truth is wrong
    exponent: Array  # the smallest under the allocation
    seconds: Array  # a round, so far, on a core: others' work does not count


class Endings(NamedTuple):
    """What is kept of a block of runs that may stop, over (run,)."""

    pulls: NDArray[np.int64]  # at the end
    stopped: NDArray[np.int8]  # whether the stop ended it, not the last budget
    wrong_at_end: NDArray[np.int8]  # whether the answer then was


@dataclass(frozen=True)
class Part(Task):
    """Runs of one rule on one family; of none: the optimal rates."""

    family: str = ""
    rule: str = ""
    first: int = 0
    size: int = 0
    rounds: int = 0
    ends: bool = False  # whether they may stop

    def __str__(self) -> str:
        return f"{self.rule or 'rates'} on {self.family}, from run {self.first}"


def instances_of(family: Family, seed: int, runs: Iterable[int]) -> Iterator[Instance]:
    """Make the instances of some runs."""
    only = family.instance(seed, 0) if family.single else None
    for run in runs:
        yield family.instance(seed, run) if only is None else only


def run_block(
    family: Family, entrant: Entrant, budgets: Sequence[int], seed: int, runs: Sequence[int]
) -> Runs:
    """Run one rule on the instances of some runs.

    Examples
    --------
    >>> from bayes_feasible.analysis.arena.entrants import read_entrants
    >>> from bayes_feasible.analysis.arena.families import FAMILIES
    >>> (uniform,) = read_entrants(["Uniform"])
    >>> found = run_block(FAMILIES["ball-2-5"], uniform, [10, 100], seed=0, runs=range(3))
    >>> found.log_error.shape
    (3, 2)
    """
    shape = (len(runs), len(budgets))
    found = Runs(np.zeros(shape, dtype=np.int8), *(np.empty(shape) for _ in range(3)))
    for i, instance in enumerate(instances_of(family, seed, runs)):
        noise = family.seed(seed, runs[i], 1)
        if not entrant.needs_horizon:
            _run(found, i, slice(None), instance, entrant, budgets, noise)
            continue
        for j, budget in enumerate(budgets):
            _run(found, i, slice(j, j + 1), instance, entrant, [budget], noise)
    return found


def _run(
    found: Runs,
    i: int,
    place: slice,
    instance: Instance,
    entrant: Entrant,
    budgets: Sequence[int],
    seed: np.random.SeedSequence,
) -> None:
    """One run, written into its place."""
    wrong, errors = wrong_of(instance), np.random.default_rng(streams.split(seed).errors)
    recommended = np.empty(len(budgets), dtype=np.int64)
    log_error, seconds = np.empty((2, len(budgets)))
    allocation = np.empty((len(budgets), len(instance.problem.arms)))
    played = play(instance, entrant.name, entrant.maker_for(budgets[-1]), [0, *budgets], seed)
    next(played)  # what it takes to start is no round's
    spent, j = 0.0, 0
    while j < len(budgets):
        start = time.thread_time()
        rule, environment = next(played)
        spent += time.thread_time() - start
        seconds[j] = spent / budgets[j]
        recommended[j] = environment.recommended(rule)
        known = environment.posterior(rule)
        log_error[j] = wrong.log_probability(known, errors, draws=ERROR_DRAWS).value
        allocation[j] = environment.pulls / budgets[j]
        j += 1
    found.wrong[i, place] = ~_correct(instance, recommended)
    found.log_error[i, place], found.seconds[i, place] = log_error, seconds
    found.exponent[i, place] = smallest_exponents(instance, allocation)


def stop_block(
    family: Family, entrant: Entrant, horizon: int, stop: Stop, seed: int, runs: Sequence[int]
) -> Endings:
    """Run one rule on the instances of some runs until a stop applies.

    Examples
    --------
    >>> from bayes_feasible.analysis.arena.entrants import read_entrants
    >>> from bayes_feasible.analysis.arena.families import FAMILIES
    >>> (rule,) = read_entrants(["Descent"])
    >>> found = stop_block(FAMILIES["ball-2-5"], rule, 500, Stop(error=0.2), 0, range(3))
    >>> found.stopped.tolist()
    [1, 1, 1]
    """
    endings = []
    for run, instance in zip(runs, instances_of(family, seed, runs), strict=True):
        noise = family.seed(seed, run, 1)
        until = Until(instance.problem, stop, None, streams.split(noise).extra)
        ((rule, world),) = play(instance, entrant.name, entrant.maker, [horizon], noise, until)
        answer = until.ending.recommended if until.ending else world.recommended(rule)
        right = right_answers(instance, stop)[answer]
        endings.append((int(world.pulls.sum()), until.ending is not None, not right))
    pulls, stopped, wrong = np.array(endings, dtype=np.int64).T
    return Endings(pulls, stopped.astype(np.int8), wrong.astype(np.int8))


def rates(family: Family, seed: int, runs: Sequence[int]) -> Array:
    """Find the optimal rates of the instances of some runs.

    >>> from bayes_feasible.analysis.arena.families import FAMILIES
    >>> rates(FAMILIES["end-of-optimism"], 0, range(2)).round(6).tolist()
    [0.001136, 0.001136]
    """
    if family.single:
        return np.full(len(runs), quiet_rate(family.instance(seed, 0)).value)
    return np.array([quiet_rate(each).value for each in instances_of(family, seed, runs)])


def cut(
    families: Sequence[Family],
    entrants: Sequence[Entrant],
    budgets: Sequence[int],
    runs: int,
    seed: int,
    stop: Stop | None = None,
) -> list[Part]:
    """Cut the arena into parts, first runs first, so that what is finished is comparable."""
    parts = []
    for family in families:
        typical = family.instance(seed, 0)
        size = LONGER * choose_size(typical, budgets[-1], len(budgets))
        size = min(max(FEWEST, size), MOST)
        playing = {e.name: [b for b in budgets if e.plays(typical, b)] for e in entrants}
        for first in range(0, runs, size):
            block = range(first, min(first + size, runs))
            parts.append(_part(family, None, (), seed, block))
            parts += [
                _part(family, entrant, playing[entrant.name], seed, block)
                for entrant in entrants
                if playing[entrant.name]
            ]
            if stop is not None:
                parts += [
                    _stop_part(family, entrant, budgets[-1], stop, seed, block)
                    for entrant in entrants
                    if playing[entrant.name] and not entrant.needs_horizon
                ]
    return sorted(parts, key=lambda part: part.first)


def _part(
    family: Family, entrant: Entrant | None, budgets: Sequence[int], seed: int, runs: range
) -> Part:
    causes = {
        "family": [family.name, family.code], "seed": seed, "runs": [runs.start, len(runs)],
        "made_by": MADE_BY,
    }  # fmt: skip
    where = f"{slug(family.name)}-{runs.start:06d}"
    place: dict[str, Any] = {"family": family.name, "first": runs.start, "size": len(runs)}
    if entrant is None:
        return Part(
            f"rates-{where}", key_of(causes), partial(rates, family, seed, runs), _record_rates,
            **place,
        )  # fmt: skip
    causes |= {"rule": entrant.meaning, "budgets": list(budgets)}
    each = sum(budgets) if entrant.needs_horizon else budgets[-1]
    return Part(
        f"{slug(entrant.name)}-{where}", key_of(causes),
        partial(run_block, family, entrant, budgets, seed, runs), partial(_record, budgets),
        rule=entrant.name, rounds=each * len(runs), **place,
    )  # fmt: skip


def _stop_part(
    family: Family, entrant: Entrant, horizon: int, stop: Stop, seed: int, runs: range
) -> Part:
    key = key_of(
        {
            "family": [family.name, family.code], "seed": seed, "runs": [runs.start, len(runs)],
            "made_by": MADE_BY, "rule": entrant.meaning, "horizon": horizon,
            "stop": stop.to_dict(),
        }
    )  # fmt: skip
    return Part(
        f"stop-{slug(entrant.name)}-{slug(family.name)}-{runs.start:06d}", key,
        partial(stop_block, family, entrant, horizon, stop, seed, runs), _record_endings,
        family=family.name, rule=entrant.name, first=runs.start, size=len(runs),
        rounds=horizon * len(runs), ends=True,
    )  # fmt: skip


def _record_endings(found: Endings) -> xr.Dataset:
    return xr.Dataset({name: ("run", array) for name, array in found._asdict().items()})


def _record(budgets: Sequence[int], found: Runs) -> xr.Dataset:
    """Make what a part's file holds."""
    arrays = {name: (("run", "budget"), array) for name, array in found._asdict().items()}
    return xr.Dataset(arrays, {"budget": list(budgets)})


def _record_rates(found: Array) -> xr.Dataset:
    return xr.Dataset({"rate": ("run", found)})
