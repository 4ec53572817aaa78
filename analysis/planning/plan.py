"""The operating characteristics of a design over scenarios; resumable, on processes or Dask."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import bayes_feasible
from bayes_feasible import _check
from bayes_feasible.analysis.planning.characteristics import Plan
from bayes_feasible.analysis.planning.design import Course, TrialDesign, run_trials
from bayes_feasible.analysis.planning.scenarios import Scenario, Truth, read_scenarios
from bayes_feasible.analysis.study import running
from bayes_feasible.analysis.study.parts import slug
from bayes_feasible.analysis.study.store import Store, Task, compute, key_of
from bayes_feasible.files.guard import Folder
from bayes_feasible.simulation import streams

MOST_REPLICATES = 10**6
BATCHES = 1000  # of asking and telling in a part: some seconds
BATCH_COST = 5000  # rounds of a compiled rule that cost as much as a batch


@dataclass(frozen=True)
class Part(Task):
    """Trials `first` to `first + size - 1` of one scenario."""

    scenario: str = ""
    first: int = 0
    size: int = 0


def plan(
    design: TrialDesign,
    scenarios: Any,
    budgets: Sequence[int],
    *,
    replicates: int = 1000,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    dask: str | None = None,
    progress: bool | None = None,
) -> Plan:
    """Simulate trials of a design, and count what comes out.

    Parameters
    ----------
    design : TrialDesign
    scenarios : dict of names to truths
        Means by outcome and arm, such as `{"toxicity": [0.05, 0.2]}`; an `Instance`; or "prior":
        then every trial draws its own truth.
    budgets : rising whole numbers
        The most pulls of a trial. Trials up to the largest tell what they would have done with
        less; only where a rule goes by its horizon is each budget a trial of its own.
    replicates : int
        Trials of each scenario. Trial i meets the same noise in all of them.
    seed : int
        The same seed gives the same numbers wherever the work is done.
    out : path, optional
        A folder that keeps finished parts: called again, only what is missing is computed.
    workers : int, optional
        Local processes; by default one a core, for work that is worth it.
    dask : str, optional
        Compute on Dask instead: the address of a scheduler, or "local:N".
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"5 mg": [1, 0], "20 mg": [1, 1]}, {"toxicity": 0.3},
    ...                      reward=bf.Bernoulli(), costs=bf.Bernoulli())
    >>> steep = {"reward": [0.4, 0.6], "toxicity": [0.1, 0.6]}
    >>> found = plan(TrialDesign(problem, batch=3), {"steep": steep}, [30, 60], replicates=20)
    >>> found.characteristics().wrong.sel(scenario="steep", budget=60).item() < 0.5
    True
    """
    _check.kind("design", design, TrialDesign)
    chosen, times = read_scenarios(design.problem, scenarios), running.read_budgets(budgets)
    replicates = _check.count("replicates", replicates, most=MOST_REPLICATES)
    seed = _check.count("seed", seed, least=0)
    workers = running.check_place(workers, dask)
    show = sys.stderr.isatty() if progress is None else progress
    parts = _cut(design, chosen, times, replicates, seed)
    with running.kept_in(out, "plan") as path:
        store = Store(Folder(path).make_folder("parts"))
        with running.resumable(store, parts, path):
            _compute(store, parts, times[-1] // design.pulls_at_once, workers, dask, show)
        return _combine(store, parts, design, chosen, times, replicates, seed)


def _cut(
    design: TrialDesign, scenarios: Sequence[Scenario], budgets: list[int], replicates: int,
    seed: int,
) -> list[Part]:  # fmt: skip
    batches = max(1, budgets[-1] // design.pulls_at_once)
    size = 1 << max(0, int(np.log2(max(1.0, BATCHES / batches))))
    document = design.to_dict()
    parts = []
    for first in range(0, replicates, size):
        which = range(first, min(first + size, replicates))
        for scenario in scenarios:
            causes = {"design": document, "scenario": scenario.to_dict(), "budgets": budgets,
                      "seed": seed, "replicates": [first, len(which)]}  # fmt: skip
            seeds = streams.replicates(seed, which)
            parts.append(Part(
                f"{slug(scenario.name)}-{first:06d}", key_of(causes),
                partial(run_trials, design, scenario, budgets, seeds), _record,
                scenario=scenario.name, first=first, size=len(which),
            ))  # fmt: skip
    return parts


def _record(found: list[tuple[Truth, Course]]) -> xr.Dataset:
    """What a part's file holds."""
    truths, courses = zip(*found, strict=True)
    chosen = np.stack([course.chosen for course in courses])
    candidates = [np.append(t.right, not t.right.any()) for t in truths]  # the last: none
    right = np.stack([ok[course.chosen] for ok, course in zip(candidates, courses, strict=True)])
    beyond = np.stack([
        np.append(t.infeasible, False)[course.chosen]
        for t, course in zip(truths, courses, strict=True)
    ])  # fmt: skip
    pulls = np.stack([course.pulls for course in courses])
    unsafe = np.stack([t.unsafe for t in truths])
    return xr.Dataset({
        "chosen": (("trial", "budget"), chosen),
        "right": (("trial", "budget"), right),
        "infeasible": (("trial", "budget"), beyond),
        "size": (("trial", "budget"), np.stack([course.size for course in courses])),
        "pulls": (("trial", "budget", "arm"), pulls),
        "unsafe_pulls": (("trial", "budget"), (pulls * unsafe[:, np.newaxis]).sum(axis=2)),
        "totals": (("trial", "budget", "outcome"), np.stack([c.totals for c in courses])),
        "ended": (("trial", "budget"), np.stack([c.ended for c in courses])),
    })  # fmt: skip


def _compute(
    store: Store, parts: Sequence[Part], batches: int, workers: int | None, dask: str | None,
    show: bool,
) -> None:  # fmt: skip
    missing = [part for part in parts if part.key not in store]
    if not missing:
        return
    if running.runs_here(dask):
        missing[0].work.func(*missing[0].work.args[:3], missing[0].work.args[3][:1])  # type: ignore[attr-defined] # compiles
    rounds = sum(part.size for part in missing) * batches * BATCH_COST
    place = running.choose_place(missing, rounds, workers, dask, show)
    total = sum(part.size for part in parts)
    left = sum(part.size for part in missing)
    with (
        closing(compute(store, missing, place)) as done,
        running.progress_bar("plan", total, "trial", show, total - left) as bar,
    ):
        for part in done:
            bar.update(part.size)


def _combine(
    store: Store, parts: Sequence[Part], design: TrialDesign, scenarios: Sequence[Scenario],
    budgets: list[int], replicates: int, seed: int,
) -> Plan:  # fmt: skip
    each = [
        xr.concat([store.read_dataset(p.key) for p in parts if p.scenario == one.name], "trial")
        for one in scenarios
    ]
    problem = design.problem
    names = {"scenario": [one.name for one in scenarios], "budget": budgets,
             "trial": np.arange(replicates), "arm": problem.coords["arm"],
             "candidate": problem.coords["candidate"],
             "outcome": problem.outcome_names}  # fmt: skip
    data = xr.concat(each, "scenario").assign_coords(names)
    return Plan(data.assign_attrs(seed=seed, version=bayes_feasible.__version__))
