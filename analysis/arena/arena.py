"""The arena: rules × families × budgets, resumable, on this machine's cores or on Dask."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import xarray as xr

import bayes_feasible
from bayes_feasible import _check
from bayes_feasible.analysis.arena import page as arena_page
from bayes_feasible.analysis.arena.entrants import Entrant, read_entrants
from bayes_feasible.analysis.arena.families import FAMILIES, Family, find_family
from bayes_feasible.analysis.arena.result import RESULTS, Arena
from bayes_feasible.analysis.arena.runs import Endings, Part, Runs, cut, run_block
from bayes_feasible.analysis.study import running
from bayes_feasible.analysis.study.store import Store, compute
from bayes_feasible.files.atomic import netcdf_bytes
from bayes_feasible.files.guard import Folder, blame, opened_hdf5
from bayes_feasible.stopping.stop import Stop

BUDGETS, RUNS = (100, 250, 500, 1000, 2000, 5000), 1000
QUICK_BUDGETS, QUICK_RUNS = (100, 300, 1000), 64
MOST_RUNS = 10**6
SETTINGS, PARTS = "arena.json", "parts"


def arena(
    rules: Any = None,
    families: Any = None,
    *,
    budgets: Sequence[int] | None = None,
    runs: int | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    dask: str | None = None,
    quick: bool = False,
    stop: Stop | None = None,
    page: bool = True,
    progress: bool | None = None,
) -> Arena:
    """Have rules play on families of instances, paired by seed, and compare them.

    Parameters
    ----------
    rules : list of names, or dict, optional
        Names of rules or import paths, `my_module:MyRule`; or a dict of names to options, as in a
        specification, or to rules, as for `simulate`. By default the whole field.
    families : list, optional
        Registered families by name, import paths, functions, instances, problem files or folders
        of them; see `bayes_feasible.analysis.arena.families`. By default all registered ones.
    budgets : rising whole numbers, optional
        After how many pulls to look; 100 to 5000 by default.
    runs : int, optional
        Runs of each rule in each family; 1000 by default.
    seed : int
        The same seed gives the same numbers (but for times) wherever the work is done.
    out : path, optional
        A folder for the parts, the results, tables, figures and the page. With the same folder
        the next call computes only what is missing. Without one nothing is kept on disk.
    workers : int, optional
        Local processes; by default one a core, for work that is worth it.
    dask : str, optional
        Compute on Dask instead: the address of a scheduler, or "local:N".
    quick : bool
        Smaller defaults: 64 runs, up to 1000 pulls.
    stop : Stop, optional
        Have the rules also play until this stop applies, up to the last budget, and report sample
        sizes and wrong answers; rules that must know a horizon are left out of that.
    page : bool
        Whether to write tables, figures and the page into the folder.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal.

    Returns
    -------
    Arena

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, with a message on how to resume; finished parts are kept.
    Unfinished
        If workers keep dying, or the disk is full; finished parts are kept.

    Examples
    --------
    >>> found = arena(["Descent", "Uniform"], ["ball-2-5"], budgets=[100, 200], runs=8,
    ...               progress=False)
    >>> dict(found.runs.sizes)
    {'family': 1, 'rule': 2, 'budget': 2, 'run': 8}
    >>> bool(found.summary.error.sel(rule="Descent", budget=200).item() < 0.2)
    True
    """
    entrants = read_entrants(rules)
    chosen = _families(families)
    default_budgets = QUICK_BUDGETS if quick else BUDGETS
    times = running.read_budgets(default_budgets if budgets is None else budgets)
    default = QUICK_RUNS if quick else RUNS
    number = default if runs is None else _check.count("runs", runs, least=2, most=MOST_RUNS)
    seed = _check.count("seed", seed, least=0)
    if stop is not None:
        _check.kind("stop", stop, Stop)
    workers = running.check_place(workers, dask)
    show = sys.stderr.isatty() if progress is None else progress
    with running.kept_in(out, "arena") as path:
        folder = Folder(path)
        _claim(folder)
        parts = cut(chosen, entrants, times, number, seed, stop)
        store = Store(folder.make_folder(PARTS))
        with running.resumable(store, parts, path):
            _compute(store, parts, workers, dask, show)
        runs_found = _combine(store, parts, chosen, entrants, times, number, seed)
        if stop is not None:
            runs_found = runs_found.assign_attrs(stop=json.dumps(stop.to_dict()))
        found = Arena(runs_found)
        if out is None:
            return found
        folder.write(RESULTS, netcdf_bytes(found.runs))
        if page:
            arena_page.write(path)
        return Arena(found.runs, path)


def _families(families: Any) -> list[Family]:
    if families is None:
        return list(FAMILIES.values())
    if isinstance(families, str | os.PathLike) or not isinstance(families, Sequence):
        raise TypeError(f"families: expected a list, got {type(families).__name__}")
    found = [find_family(each) for each in families]
    names = [family.name for family in found]
    if not found or len(set(names)) < len(names):
        raise ValueError(f"families: expected distinct names, at least one, got {names}")
    return found


def _claim(folder: Folder) -> None:
    """Make the folder an arena's, unless it is one or holds anything else."""
    names = folder.names()
    if SETTINGS in names:
        folder.refuse_strangers(PARTS, arena_page.FIGURES)
    elif names:
        raise ValueError(
            f"{folder.path}: holds no arena but other files (such as {min(names)}); choose "
            "another folder"
        )
    settings = {"format": 1, "made by": f"bayes_feasible {bayes_feasible.__version__}"}
    folder.write(SETTINGS, (json.dumps(settings, indent=1) + "\n").encode())


def _compute(
    store: Store, parts: Sequence[Part], workers: int | None, dask: str | None, show: bool
) -> None:
    """Compute and keep the parts that are missing."""
    missing = [part for part in parts if part.key not in store]
    if not missing:
        return
    total, left = (sum(part.rounds for part in some) for some in (parts, missing))
    if running.runs_here(dask):
        once = {part.rule: part for part in reversed(missing) if part.rule}
        with running.progress_bar("compile", len(once), "rule", show) as bar:
            for part in once.values():
                _play_once(part)
                bar.update()
    place = running.choose_place(missing, left, workers, dask, show)
    with (
        closing(compute(store, missing, place)) as done,
        running.progress_bar("arena", total, "round", show, total - left) as bar,
    ):
        for part in done:
            bar.update(part.rounds)


def _play_once(part: Part) -> None:
    """Play one run of a part's rule to its first budget, which compiles it for all workers."""
    if not part.ends:
        family, entrant, budgets, seed, runs = part.work.args  # type: ignore[attr-defined]
        run_block(family, entrant, budgets[:1], seed, runs[:1])


def _combine(
    store: Store,
    parts: Sequence[Part],
    families: Sequence[Family],
    entrants: Sequence[Entrant],
    budgets: Sequence[int],
    runs: int,
    seed: int,
) -> xr.Dataset:
    """Put all parts in their places."""
    names, rules = [f.name for f in families], [e.name for e in entrants]
    arrays = {
        name: np.full((len(names), len(rules), len(budgets), runs), np.nan) for name in Runs._fields
    }
    rates = np.full((len(names), runs), np.nan)
    endings = {
        name: np.full((len(names), len(rules), runs), np.nan)
        for name in Endings._fields
        if any(part.ends for part in parts)
    }
    for part in parts:
        with blame(store.path(part.key)), opened_hdf5(store.read(part.key)) as file:
            block = slice(part.first, part.first + part.size)
            family = names.index(part.family)
            if not part.rule:
                rates[family, block] = file["rate"][()]
                continue
            if part.ends:
                for name, ended in endings.items():
                    ended[family, rules.index(part.rule), block] = file[name][()]
                continue
            places = [budgets.index(int(each)) for each in file["budget"][()]]
            for name, array in arrays.items():
                array[family, rules.index(part.rule), places, block] = file[name][()].T
    usable = np.where((rates > 0) & np.isfinite(rates), rates, np.nan)
    dims = ("family", "rule", "budget", "run")
    return xr.Dataset(
        {
            "wrong": (dims, arrays["wrong"]),
            "error": (dims, np.exp(arrays["log_error"])),
            "efficiency": (dims, arrays["exponent"] / usable[:, np.newaxis, np.newaxis]),
            "seconds": (dims, arrays["seconds"]),
            "rate": (("family", "run"), rates),
            "title": ("family", [family.title for family in families]),
            "knows_truth": ("rule", [entrant.knows_truth for entrant in entrants]),
        }
        | {name: (("family", "rule", "run"), array) for name, array in endings.items()},
        {"family": names, "rule": rules, "budget": list(budgets), "run": np.arange(runs)},
        {"seed": seed, "version": bayes_feasible.__version__},
    )
