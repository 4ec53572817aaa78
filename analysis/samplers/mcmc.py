"""Markov chains by PyMC's step methods and by nutpie, and on the hard and smooth forms."""

import dataclasses
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import nutpie
import pymc as pm
import pytensor
import xarray as xr
from arviz_stats.base import array_stats

from bayes_feasible._check import Array
from bayes_feasible._interrupt import heeded
from bayes_feasible.analysis.samplers.tasks import Drawn, SamplerError, Task
from bayes_feasible.models._kept import keep

SOFTNESS = 0.01
KEPT = ("diverging", "energy", "tree_depth", "depth", "n_steps", "step_size", "accept",
        "nstep_out", "nstep_in", "event", "lp", "logp")  # fmt: skip


class Run(NamedTuple):
    """Chains: draws of the free variables, statistics, and the seconds of compilation."""

    draws: xr.Dataset
    statistics: xr.Dataset
    compile_seconds: float


Chains = Callable[..., Run]  # takes task, model, starts, draws and stream


def sample_hard(chains: Chains, task: Task) -> Drawn:
    """Chains on the set as a wall, which NUTS cannot see."""
    return _to_drawn(task, chains(task, task.whitened("hard"), task.starts()))


def sample_smooth(chains: Chains, task: Task) -> Drawn:
    """Chains on a blurred set; the softness decides which share of the draws is outside."""
    softness = float(task.options.get("softness", SOFTNESS))
    run = chains(task, task.whitened("smooth", softness=softness), task.starts())
    return _to_drawn(task, run, softness=softness)


def _to_drawn(task: Task, run: Run, **attributes: float) -> Drawn:
    attributes |= {"compile_seconds": run.compile_seconds, **trajectory_figures(run.statistics)}
    parameters = task.parameters(run.draws["whitened"].values)
    return Drawn(parameters, tidy(run.statistics), attributes)


def pymc_chains(
    kind: Callable[..., Any], task: Task, model: pm.Model, starts: Sequence[Array],
    draws: int | None = None, stream: int = 3,
) -> Run:  # fmt: skip
    """Chains of a step method of PyMC, one from each whitened start."""
    start = time.perf_counter()
    step = step_method(model, kind, _nuts_options(task))
    making = time.perf_counter() - start
    tree, compiling = sample(
        task, model, step, tune=task.tune, draws=draws, starts=starts, names=free_names(model),
        stream=stream,
    )  # fmt: skip
    drawn, statistics = (tree[group].to_dataset() for group in ("posterior", "sample_stats"))
    return Run(drawn, statistics, making + compiling)


def nutpie_chains(
    task: Task, model: pm.Model, starts: Sequence[Array], draws: int | None = None, stream: int = 3
) -> Run:
    """Chains of nutpie, one after the other: only so does each get a start of its own."""
    began = time.perf_counter()
    compiled = nutpie_model(model)
    compiling = time.perf_counter() - began
    seeds = task.generator(stream).integers(2**31, size=task.chains).tolist()
    settings = {"draws": draws or task.draws, "tune": max(task.tune, 1), "chains": 1, "cores": 1}
    found = []
    for start, seed in zip(starts, seeds, strict=True):
        flat = np.ascontiguousarray(_flat(model, start), dtype=float)
        own = dataclasses.replace(compiled, initial_point_func=lambda _, at=flat: at.copy())
        try:
            tree = nutpie.sample(
                own, seed=seed, progress_bar=False, save_warmup=False, **settings,
                **_nuts_options(task),
            )  # fmt: skip
        except RuntimeError as error:
            raise SamplerError(f"nutpie: {str(error).splitlines()[0]}") from None
        found.append(tree)
    chain = xr.DataArray(np.arange(task.chains), dims="chain", name="chain")
    drawn, statistics = (
        xr.concat([tree[group].to_dataset().isel(chain=0, drop=True) for tree in found], chain)
        for group in ("posterior", "sample_stats")
    )
    return Run(drawn, statistics, compiling)


def _nuts_options(task: Task) -> dict[str, Any]:
    return {name: value for name, value in task.options.items() if name == "target_accept"}


def step_method(model: pm.Model, kind: Callable[..., Any], options: dict[str, Any]) -> Any:
    """A step method with its functions compiled, untuned; later calls get the same one."""

    def make() -> tuple[Any, Any]:
        # Points come from PyMC itself: checking each again takes a tenth of the time of NUTS.
        step = kind(model=model, compile_kwargs={"trust_input": True}, **options)
        return step, step.sampling_state

    step, untuned = keep(model, (kind, *sorted(options.items())), make)
    step.sampling_state = untuned
    return step


def sample(
    task: Task, model: pm.Model, step: Any, *, tune: int, names: Sequence[str],
    draws: int | None = None, starts: Sequence[Array] | None = None, stream: int = 3,
) -> tuple[xr.DataTree, float]:  # fmt: skip
    """`pm.sample` with a given step, and the seconds that passed before the first draw."""
    began = time.perf_counter()
    first: list[float] = []

    def note(**_: Any) -> None:
        if not first:
            first.append(time.perf_counter())

    initial = None if starts is None else [{"whitened": start} for start in starts]
    seeds = task.generator(stream).integers(2**31, size=task.chains).tolist()
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with model, light_functions(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = pm.sample(
                draws or task.draws, tune=tune, chains=task.chains,
                cores=min(task.cores, task.chains), step=step, initvals=initial, callback=note,
                random_seed=seeds, progressbar=task.progress, quiet=True, var_names=list(names),
                nuts_sampler="pymc", compute_convergence_checks=False,
            )  # fmt: skip
    finally:
        logger.setLevel(level)
    return tree, (first[0] if first else time.perf_counter()) - began


def light_functions() -> AbstractContextManager[Any]:
    """Functions made within are interpreted, not compiled.

    PyMC makes some for every chain of every run, to read starts and to keep draws. They do next to
    nothing; but compiled code is never freed, and many short runs would fill the memory with it.
    """
    return pytensor.config.change_flags(mode="FAST_COMPILE")


def nutpie_model(model: pm.Model, names: Sequence[str] | None = None) -> Any:
    """The model compiled for nutpie, once; later calls only pass its present data.

    `names` are the variables that are recorded, by default the free ones.
    """
    names = free_names(model) if names is None else list(names)

    def make() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return nutpie.compile_pymc_model(model, var_names=names)

    compiled = keep(model, ("nutpie", *names), make)
    data = {shared.name: shared.get_value() for shared in compiled.shared_var_keys}
    return compiled.with_data(**data)


def nuts(
    model: pm.Model, names: Sequence[str], draws: int, tune: int, chains: int, seed: list[int],
    progress: bool = False, **options: float,
) -> tuple[xr.Dataset, xr.Dataset]:  # fmt: skip
    """Draws of these variables by nutpie from its own starts, and the statistics."""
    names = [name for name in names if name in model.named_vars]
    with heeded():  # on Ctrl-C, nutpie returns the draws that it has
        tree = nutpie.sample(
            nutpie_model(model, names), draws=draws, tune=tune, chains=chains, cores=1,
            seed=int(np.random.default_rng(seed).integers(2**31)), progress_bar=progress,
            **options,
        )  # fmt: skip
    return tree["posterior"].to_dataset(), tree["sample_stats"].to_dataset()


def free_names(model: pm.Model) -> list[str]:
    """The free variables: the whitened parameters and whatever else the model learns."""
    return [variable.name for variable in model.free_RVs]


def _flat(model: pm.Model, start: Array) -> Array:
    """The coordinates of all free variables in a row; those beside `whitened` at PyMC's start."""
    if len(model.free_RVs) == 1:
        return start.ravel()
    point = model.initial_point(0) | {"whitened": start}
    values = [model.rvs_to_values[variable].name for variable in model.free_RVs]
    return np.concatenate([np.ravel(point[name]) for name in values])


def trajectory_figures(statistics: xr.Dataset) -> dict[str, float]:
    """Divergences and BFMI (the worst chain's), where there are trajectories."""
    figures = {}
    if "diverging" in statistics:
        figures["divergences"] = float(statistics["diverging"].sum())
    if "energy" in statistics:
        figures["bfmi"] = float(np.min(array_stats.bfmi(statistics["energy"].values)))
    return figures


def tidy(statistics: xr.Dataset) -> xr.Dataset:
    """The statistics that netCDF can hold and that mean something to a reader."""
    names = [n for n in KEPT if n in statistics and statistics[n].dims == ("chain", "draw")]
    kept = statistics[names].drop_attrs(deep=False)
    return kept.map(lambda one: one.astype(np.int8) if one.dtype == bool else one, keep_attrs=True)
