"""Samplers of the posterior given an alternative set: one function, one shape of result."""

import platform
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import xarray as xr

from bayes_feasible import _check
from bayes_feasible._draws import labelled, stack_blocks
from bayes_feasible._interrupt import heeded
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.evidence.expansion import weigh_whole
from bayes_feasible.analysis.samplers import components, mcmc, smc
from bayes_feasible.analysis.samplers.tasks import Drawn, SamplerError, Task, check_options
from bayes_feasible.models.declare import declare
from bayes_feasible.models.density import density
from bayes_feasible.models.exact_step import ExactStep
from bayes_feasible.models.linear_gaussian import linear_gaussian
from bayes_feasible.models.modes import global_modes
from bayes_feasible.models.parameters import in_parameters, read_variables
from bayes_feasible.posterior import Posterior

__all__ = ["FULL", "QUICK", "SAMPLERS", "SamplerError", "sample_alternative"]

WHOLE_DRAWS = 20_000  # that measure the whole of a posterior that is not Gaussian
PACKAGES = ("bayes_feasible", "pymc", "pytensor", "nutpie", "arviz", "numpy")


class Sampler(NamedTuple):
    """An entry of the table of samplers."""

    title: str
    run: Callable[[Task], Drawn]
    options: tuple[str, ...] = ()  # names that `sample_alternative` passes on
    wall: bool = False  # needs no more than the log-density of the model and the set
    exact: bool = False  # needs the closed form, so no other model will do


def sample_alternative(
    posterior: Posterior,
    alternative: Alternative,
    sampler: str = "exact",
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: int = 0,
    cores: int = 1,
    progress: bool = True,
    model: pm.Model | None = None,
    variables: Mapping[str, str] | None = None,
    **options: Any,
) -> xr.DataTree:
    """Draws from the posterior given the alternative set, by any sampler.

    Chains start inside the set, at exact draws (of the Gaussian beside the model), one event a
    chain in turn among those with at least a twentieth of the likeliest one's probability.

    Parameters
    ----------
    posterior : Posterior
    alternative : Alternative
    sampler : str
        A name out of `SAMPLERS`.
    draws : int
        Draws of each chain.
    tune : int
        Iterations before them, for samplers that adapt.
    chains : int
    seed : int
        The same seed gives the same draws, whatever the number of cores.
    cores : int
        Processes for the samplers that PyMC drives; the others run in this one.
    progress : bool
        Show a bar.
    model : Model, optional
        Any model with the parameters of the problem whose posterior is sampled instead of that
        of `linear_gaussian` (of `declare`, for other outcomes), such as
        `models.logistic(history)`; see `models.in_parameters`. The exact samplers refuse it.
    variables : mapping, optional
        Other names of its variables, see there. Where they are the candidates' reward and costs,
        so are the draws: the candidates take the place of the features.
    **options
        `softness` (0.01) for the smooth form, in posterior standard deviations, and `sharpness`
        (4) for the graded one, see `models.alternative`; `target_accept` for NUTS. For SMC
        `particles` of each chain's population (as many as `draws`), and `threshold`, the share of
        them that stays effective from one stage to the next (0.9 for `smc_events`, whose
        log-probability is within 0.2 at -40 and 0.5 at -400 so; 0.5, PyMC's own, for the others).

    Returns
    -------
    DataTree
        Groups `posterior` (`theta_reward`, `theta_cost`), `sample_stats`, and `components` (one
        row an event) where the draws were put together from events. Attributes: `sampler`,
        `outside` (the share of draws outside the set, which the smooth form lets out), `seconds`
        (of sampling) and `compile_seconds`, `seed`, the versions; where the sampler has
        them `independent` (1), `divergences`, `bfmi`, `log_probability` with
        `log_probability_standard_error` and its degrees of freedom `log_probability_freedom`;
        and the options of the smooth form and of SMC that were used.

    Raises
    ------
    SamplerError
        If the sampler breaks off, as SMC does on the hard form of a rare set.

    Examples
    --------
    >>> from bayes_feasible.analysis.samplers.targets import target
    >>> posterior, wrong = target("a", -4)
    >>> tree = sample_alternative(posterior, wrong, "exact", draws=100, progress=False)
    >>> tree["posterior"].theta_cost.shape, tree.attrs["outside"]
    ((4, 100, 1, 2), 0.0)
    >>> "slice" in SAMPLERS, "nutpie_component" in SAMPLERS
    (True, True)
    """
    check_name(sampler)
    entry = SAMPLERS[sampler]
    check_options(sampler, options, entry.options)
    if model is not None and entry.exact:
        raise ValueError(f"model: {sampler} needs the closed form, so it takes no other model")
    task = prepare(
        posterior, alternative, draws=draws, tune=tune, chains=chains, seed=seed, cores=cores,
        progress=progress, model=model, variables=variables, options=options,
    )  # fmt: skip
    if task.model is not None and "others" in task.model.named_vars and not entry.wall:
        raise ValueError(
            f"sampler: {sampler} draws from the prior of everything beside the parameters, which "
            "computed parameters leave none of; slice, demetropolis and nuts_smooth do without"
        )
    start = time.perf_counter()
    # On Ctrl-C, PyMC and nutpie return the draws that they have. With fast mathematics, last digits
    # and so chains differ between a first run and later ones, which find compiled code on the disk.
    with heeded(), pytensor.config.change_flags(numba__fastmath=False):
        drawn = entry.run(task)
    seconds = time.perf_counter() - start - drawn.attributes.get("compile_seconds", 0.0)
    if not entry.exact and "log_probability" in drawn.attributes:
        drawn = _normalised(task, drawn)
    return _tree(task, sampler, {"seconds": seconds, **drawn.attributes}, drawn)


def prepare(
    posterior: Posterior, alternative: Alternative, *, draws: int = 1000, tune: int = 1000,
    chains: int = 4, seed: int = 0, cores: int = 1, progress: bool = True,
    model: pm.Model | None = None, variables: Mapping[str, str] | None = None,
    options: dict[str, Any] | None = None,
) -> Task:  # fmt: skip
    """The task of a sampler, checked; the parameters are those of `sample_alternative`."""
    _check.kind("posterior", posterior, Posterior)
    _check.kind("alternative", alternative, Alternative)
    if model is not None:
        asked = read_variables(alternative.problem, variables)
        model, alternative = (
            in_parameters(model, alternative, variables),
            asked.alternative(alternative),
        )
    elif not posterior.textbook:
        model = declare(posterior)
    return Task(
        posterior,
        alternative,
        _check.count("draws", draws, most=_check.LARGEST_COUNT),
        _check.count("tune", tune, least=0),
        _check.count("chains", chains, most=_check.LARGEST_COUNT),
        _check.count("seed", seed, least=0),
        _check.count("cores", cores),
        bool(progress),
        model,
        options or {},
    )


def check_name(sampler: str) -> None:
    """Refuse a sampler that there is not."""
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler: expected one of {', '.join(SAMPLERS)}, got {sampler!r}")


def _normalised(task: Task, drawn: Drawn) -> Drawn:
    """Probabilities that samplers find relative to the Gaussian beside the model, made absolute.

    They are divided by the integral of the whole posterior, which is 1 where it is that Gaussian.
    """
    if task.model is None and task.alternative.problem.parameter_radius is None:
        return drawn
    functions = density(linear_gaussian(task.posterior) if task.model is None else task.model)
    whole = weigh_whole(functions, global_modes(functions), WHOLE_DRAWS, task.generator(300))
    if not whole.weighty:
        raise SamplerError("log P: no draw of the posterior lies within the parameter_radius")
    shift = whole.log_integral() - task.reference().log_evidence
    own = drawn.attributes["log_probability_standard_error"]
    attributes = {
        **drawn.attributes,
        "log_probability": drawn.attributes["log_probability"] - shift,
        "log_probability_standard_error": float(np.hypot(own, whole.standard_error)),
    }
    components = drawn.components
    if components is not None:
        components = components.assign(log_probability=components["log_probability"] - shift)
    return drawn._replace(attributes=attributes, components=components)


def _tree(task: Task, name: str, attributes: dict[str, Any], drawn: Drawn) -> xr.DataTree:
    problem = task.alternative.problem
    chains, _, *rest = drawn.parameters.shape
    posterior = labelled(problem, drawn.parameters.reshape(-1, *rest), chains)
    groups = {"posterior": posterior, "sample_stats": drawn.statistics}
    if drawn.components is not None:
        groups["components"] = drawn.components
    tree = xr.DataTree.from_dict(groups)
    inside = task.alternative.events.contains(drawn.parameters).any(axis=2)
    tree.attrs = {
        "sampler": name,
        "title": SAMPLERS[name].title,
        "seed": task.seed,
        "outside": float(1.0 - inside.mean()),
        "compile_seconds": 0.0,
        **attributes,
        **{f"{package}_version": version(package) for package in PACKAGES},
        "python_version": platform.python_version(),
    }
    return tree


def _exact(task: Task) -> Drawn:
    start = time.perf_counter()
    task.alternative.sample(task.posterior, 1, seed=0)  # compiles
    compiling = time.perf_counter() - start
    drawn = task.alternative.sample(
        task.posterior, task.draws, seed=task.generator(0), chains=task.chains
    )
    return _exact_drawn(task, drawn, drawn[["event"]], compiling)


def _exact_step(task: Task) -> Drawn:
    """The same draws as a step method inside `pm.sample`."""
    model = linear_gaussian(task.posterior) if task.model is None else task.model
    step = ExactStep(posterior=task.posterior, alternative=task.alternative, model=model)
    names = [variable.name for variable in step.vars]
    tree, compiling = mcmc.sample(task, model, step, tune=0, names=names)
    drawn, statistics = (tree[group].to_dataset() for group in ("posterior", "sample_stats"))
    return _exact_drawn(task, drawn, statistics, compiling)


def _exact_drawn(task: Task, drawn: xr.Dataset, statistics: xr.Dataset, compiling: float) -> Drawn:
    measured = task.alternative.log_probability(task.posterior, seed=task.generator(1))
    attributes = {
        "compile_seconds": compiling,
        "independent": 1,
        "log_probability": measured.value,
        "log_probability_standard_error": measured.standard_error,
    }
    return Drawn(stack_blocks(drawn), statistics, attributes)


def _by_chains(form: Callable[..., Drawn], title: str, *options: str) -> dict[str, Sampler]:
    """A form sampled by the NUTS of nutpie and by PyMC's."""
    wall = form is not components.sample_union
    kind = form.__name__.removeprefix("sample_").replace("union", "component")
    makers = {"nutpie": mcmc.nutpie_chains, "nuts": partial(mcmc.pymc_chains, pm.NUTS)}
    return {
        f"{name}_{kind}": Sampler(
            f"NUTS ({whose}), {title}", partial(form, chains), (*options, "target_accept"), wall
        )
        for (name, chains), whose in zip(makers.items(), ("nutpie", "PyMC"), strict=True)
    }


def _by_steps(kind: Callable[..., Any]) -> Callable[[Task], Drawn]:
    return partial(mcmc.sample_hard, partial(mcmc.pymc_chains, kind))


# DEMetropolisZ seldom enters a region where it did not start, and chains that all lack one agree
# with each other: of a region with 1.4 % of the probability, four chains of 10,000 draws hold a
# tenth, at an R-hat of 1.003. It is right where there is one region.
_SMC = ("threshold", "particles")
SAMPLERS: dict[str, Sampler] = {
    "exact": Sampler("exact draws", _exact, exact=True),
    "exact_step": Sampler("exact draws inside pm.sample", _exact_step, exact=True),
    **_by_chains(components.sample_union, "one event at a time"),
    "smc_events": Sampler(
        "SMC, graded potential, one event at a time", smc.events, ("sharpness", *_SMC)
    ),
    "smc_graded": Sampler("SMC, graded potential", smc.graded, ("sharpness", *_SMC)),
    "smc_hard": Sampler("SMC, hard potential", smc.hard, _SMC),
    "slice": Sampler("Slice, hard potential", _by_steps(pm.Slice), wall=True),
    "demetropolis": Sampler(
        "DEMetropolisZ, hard potential", _by_steps(pm.DEMetropolisZ), wall=True
    ),
    **_by_chains(mcmc.sample_smooth, "smooth potential", "softness"),
    **_by_chains(mcmc.sample_hard, "hard potential"),
}
FULL = tuple(SAMPLERS)
# Without the compilations of nutpie and the long runs.
QUICK = ("exact", "exact_step", "nuts_component", "smc_graded", "slice", "demetropolis",
         "nuts_smooth", "nuts_hard")  # fmt: skip
