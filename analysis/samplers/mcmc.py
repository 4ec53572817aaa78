"""Markov chains on the hard and smooth forms: Slice, DEMetropolisZ, NUTS of PyMC and of nutpie."""

import dataclasses
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

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


def slice_hard(task: Task) -> Drawn:
    """Slice sampling, one coordinate at a time."""
    return _stepped(task, task.whitened("hard"), pm.Slice)


def demetropolis_hard(task: Task) -> Drawn:
    """Differential evolution from each chain's own past.

    From such steps it seldom enters a region where it did not start, and chains that all lack one
    agree with each other: of a region with 1.4 % of the probability, four chains of 10,000 draws
    hold a tenth, at an R-hat of 1.003. The same sampler is right where there is one region.
    """
    return _stepped(task, task.whitened("hard"), pm.DEMetropolisZ)


def nuts_hard(task: Task) -> Drawn:
    """PyMC's NUTS, which cannot see a wall."""
    return _stepped(task, task.whitened("hard"), pm.NUTS, **task.options)


def nuts_smooth(task: Task) -> Drawn:
    """PyMC's NUTS on a blurred set."""
    model, options = _smooth(task)
    return _add_softness(task, _stepped(task, model, pm.NUTS, **options))


def nutpie_hard(task: Task) -> Drawn:
    """The NUTS of nutpie, which cannot see a wall."""
    return _nutpie(task, task.whitened("hard"), task.options)


def nutpie_smooth(task: Task) -> Drawn:
    """The NUTS of nutpie on a blurred set."""
    return _add_softness(task, _nutpie(task, *_smooth(task)))


def _smooth(task: Task) -> tuple[pm.Model, dict[str, Any]]:
    options = {"softness": SOFTNESS, **task.options}
    return task.whitened("smooth", softness=options.pop("softness")), options


def _add_softness(task: Task, drawn: Drawn) -> Drawn:
    """With the softness beside the share of draws outside, which it decides."""
    softness = float(task.options.get("softness", SOFTNESS))
    return drawn._replace(attributes={**drawn.attributes, "softness": softness})


def _stepped(task: Task, model: pm.Model, kind: Callable[..., Any], **options: Any) -> Drawn:
    start = time.perf_counter()
    step = step_method(model, kind, options)
    making = time.perf_counter() - start
    tree, compiling = sample(task, model, step, tune=task.tune, starts=task.starts())
    whitened = tree["posterior"].to_dataset()["whitened"].values
    statistics = tree["sample_stats"].to_dataset()
    attributes = {"compile_seconds": making + compiling, **trajectory_figures(statistics)}
    return Drawn(task.parameters(whitened), tidy(statistics), attributes)


def _nutpie(task: Task, model: pm.Model, options: dict[str, Any]) -> Drawn:
    start = time.perf_counter()
    compiled = nutpie_model(model)
    compiling = time.perf_counter() - start
    draws, statistics = nutpie_chains(
        task, model, compiled, task.starts(), task.draws, 3, **options
    )
    attributes = {"compile_seconds": compiling, **trajectory_figures(statistics)}
    return Drawn(task.parameters(draws["whitened"].values), tidy(statistics), attributes)


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
    task: Task,
    model: pm.Model,
    step: Any,
    *,
    tune: int,
    draws: int | None = None,
    starts: Sequence[Array] | None = None,
    names: Sequence[str] = ("whitened",),
    stream: int = 3,
) -> tuple[xr.DataTree, float]:
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
                task.draws if draws is None else draws, tune=tune, chains=task.chains,
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
    progress: bool = False,
) -> tuple[xr.Dataset, xr.Dataset]:  # fmt: skip
    """Draws of these variables by nutpie from its own starts, and the statistics."""
    names = [name for name in names if name in model.named_vars]
    with heeded():  # on Ctrl-C, nutpie returns the draws that it has
        tree = nutpie.sample(
            nutpie_model(model, names), draws=draws, tune=tune, chains=chains, cores=1,
            seed=int(np.random.default_rng(seed).integers(2**31)), progress_bar=progress,
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


def nutpie_chains(
    task: Task,
    model: pm.Model,
    compiled: Any,
    starts: Sequence[Array],
    draws: int,
    stream: int,
    **options: Any,
) -> tuple[xr.Dataset, xr.Dataset]:
    """Chains of nutpie, one after the other, for only so each gets a start of its own."""
    seeds = task.generator(stream).integers(2**31, size=task.chains).tolist()
    found = []
    for start, seed in zip(starts, seeds, strict=True):
        flat = np.ascontiguousarray(_flat(model, start), dtype=float)
        own = dataclasses.replace(compiled, initial_point_func=lambda _, at=flat: at.copy())
        settings = {"draws": draws, "tune": max(task.tune, 1), "chains": 1, "cores": 1, **options}
        try:
            tree = nutpie.sample(own, seed=seed, progress_bar=False, save_warmup=False, **settings)
        except RuntimeError as error:
            raise SamplerError(f"nutpie: {str(error).splitlines()[0]}") from None
        found.append(tree)
    chain = xr.DataArray(np.arange(task.chains), dims="chain", name="chain")
    drawn, statistics = (
        xr.concat([tree[group].to_dataset().isel(chain=0, drop=True) for tree in found], chain)
        for group in ("posterior", "sample_stats")
    )
    return drawn, statistics


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
    kept = [
        name for name in KEPT if name in statistics and statistics[name].dims == ("chain", "draw")
    ]
    result = statistics[kept].copy()
    for name in kept:
        if result[name].dtype == bool:
            result[name] = result[name].astype(np.int8)
    result.attrs = {}
    return result
