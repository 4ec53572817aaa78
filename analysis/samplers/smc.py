"""Sequential Monte Carlo, by PyMC's kernel, from the Gaussian beside the model into the set.

In whitened coordinates the prior is a standard normal and the potential all there is to temper, so
the evidence of a run is the mean of the potential's exponential. The graded potential ends with
particles on both sides of the edge: the last step keeps those inside, and the evidence times their
share is the probability of the set.
"""

import time
from itertools import zip_longest
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pymc.pytensorf import join_nonshared_inputs
from pymc.smc.kernels import IMH
from pytensor.graph.replace import vectorize_graph
from scipy import stats
from scipy.special import logsumexp

from bayes_feasible._check import Array
from bayes_feasible.analysis.samplers import components, mcmc
from bayes_feasible.analysis.samplers.tasks import Drawn, SamplerError, Task
from bayes_feasible.models._interpreted import interpreted
from bayes_feasible.models._kept import keep

SHARPNESS = 4.0
UNION_THRESHOLD = 0.5  # PyMC's own
EVENT_THRESHOLD = 0.9  # shorter steps: without them d = 10 is half a nat off, with R-hat 1.001
# Proposals come from a Gaussian fitted to the particles. In many dimensions some direction of a fit
# is too narrow, and particles beyond it hardly ever move; a covariance a little wider prevents it.
WIDENING = 1.4
# PyMC stops moving particles when their correlation with where they were seems to fall no more,
# which among 20 coordinates some seems to by chance. With one left behind in ten, the population
# shrinks from stage to stage: at d = 10 and log P = -400 by 0.8 in the end.
MOVED, MOST_MOVES = 0.97, 100
STAGES = 1000  # more mean that nothing can be tempered


class _Kernel(IMH):
    """PyMC's kernel, with densities of all particles at once and moves until all have moved."""

    def __init__(self, model: pm.Model) -> None:
        with mcmc.light_functions():  # its densities of one particle are replaced
            super().__init__(model=model)
        point = model.initial_point(0)
        densities, particle = join_nonshared_inputs(
            point, [model.varlogp, model.datalogp], self.variables, {}
        )
        particles = pt.matrix("particles", dtype=particle.dtype)
        self._densities = pytensor.function(
            [particles], vectorize_graph(densities, {particle: particles}), mode=interpreted(),
            on_unused_input="ignore",
        )  # fmt: skip
        self.prior_logp_func = lambda particle: self._log_densities(particle[np.newaxis])[0]
        self.likelihood_logp_func = lambda particle: self._log_densities(particle[np.newaxis])[1]

    def _log_densities(self, particles: Array) -> tuple[Array, Array]:
        """Logarithms of the prior density and of what is tempered."""
        prior, potential = self._densities(particles)
        return np.broadcast_to(prior, len(particles)), np.broadcast_to(potential, len(particles))

    def set_rng(self, rng: np.random.Generator) -> None:
        """Random numbers for the next run; the densities use none."""
        self.rng = rng

    def initialize_population(self) -> dict[str, Array]:
        """Particles of the prior, by a function that is used once and not worth compiling."""
        with mcmc.light_functions():
            return super().initialize_population()

    def tune(self) -> None:
        """Fit the proposals to the particles."""
        super().tune()
        fitted: Any = self.proposal_dist
        self.proposal_dist: Any = stats.multivariate_normal(fitted.mean, WIDENING * fitted.cov)

    def mutate(self) -> None:
        """Propose to all particles until nearly all have moved."""
        moved = np.zeros(self.draws, dtype=bool)
        accepted: list[float] = []
        own = self.tempered_posterior_logp - self.proposal_dist.logpdf(self.tempered_posterior)
        while moved.mean() < MOVED and len(accepted) < MOST_MOVES:
            proposed = self.proposal_dist.rvs(self.draws, self.rng).reshape(self.draws, -1)
            prior, potential = self._log_densities(proposed)
            tempered = prior + self.beta * potential
            weight = tempered - self.proposal_dist.logpdf(proposed)
            better = np.log(self.rng.random(self.draws)) < weight - own
            self.tempered_posterior[better] = proposed[better]
            self.tempered_posterior_logp[better] = tempered[better]
            self.prior_logp[better], self.likelihood_logp[better] = prior[better], potential[better]
            own[better] = weight[better]
            moved |= better
            accepted.append(better.mean())
        self.n_steps, self.acc_rate = len(accepted), np.mean(accepted)


def hard(task: Task) -> Drawn:
    """The set as a wall: nothing to temper unless some particles start inside."""
    options = {"threshold": UNION_THRESHOLD, **task.options}
    return _union(task, task.whitened("hard"), options)


def graded(task: Task) -> Drawn:
    """The union at once."""
    options = {"threshold": UNION_THRESHOLD, "sharpness": SHARPNESS, **task.options}
    sharpness = options.pop("sharpness")
    return _union(task, task.whitened("graded", sharpness=sharpness), options, sharpness=sharpness)


def events(task: Task) -> Drawn:
    """One event at a time, put together by their estimated probabilities."""
    options = {"threshold": EVENT_THRESHOLD, "sharpness": SHARPNESS, **task.options}
    sharpness = options.pop("sharpness")
    expected = task.event_log_probabilities()
    proposals = components.proposals_needed(task, expected)
    chosen = components.sampled_events(expected)
    model = task.whitened("graded", chosen[0], sharpness=sharpness)
    kernel, compiling = _kernel(task, model, options)
    parts, stages = [], []
    for event in chosen:
        task.whitened("graded", event, sharpness=sharpness)
        runs, draws, logs = _populations(task, kernel, proposals, event)
        error = _over_runs(logs)["log_probability_standard_error"]
        parts.append(components.Component(event, draws, logs, error, {}))
        stages.append([len(run["beta"]) for run in runs])
    drawn, totals = components.combine(task, parts, np.delete(expected, chosen), compiling)
    assert drawn.components is not None
    table = drawn.components.assign(stages=(("component", "chain"), np.array(stages)))
    attributes = {
        **drawn.attributes,
        **_over_runs(totals),
        "log_probability_standard_error": _shared_error(table),
        **_settings(kernel, sharpness=sharpness),
    }
    return drawn._replace(attributes=attributes, components=table)


def _settings(kernel: "_Kernel", **more: float) -> dict[str, float]:
    return {"particles": kernel.draws, "threshold": float(kernel.threshold), **more}


def _shared_error(table: xr.Dataset) -> float:
    """The error of the union: the mean of those of its events, each by its share.

    As if all events were off in the same direction: the bias of a finite population, which is the
    larger part of each one's error, does not average out over them.
    """
    logs = table.log_probability + np.log(table.mean_inverse_count)
    share = np.exp(logs - logsumexp(logs))
    return float((share * table.standard_error).sum())


def _union(task: Task, model: pm.Model, options: dict[str, Any], **more: float) -> Drawn:
    kernel, compiling = _kernel(task, model, options)
    runs, draws, logs = _populations(task, kernel, task.draws)
    stages = {
        name: np.array(list(zip_longest(*(run[name] for run in runs), fillvalue=np.nan))).T
        for name in ("beta", "accept_rate")
    }
    statistics = xr.Dataset(
        {name: (("chain", "stage"), values) for name, values in stages.items()},
        coords={"chain": np.arange(task.chains), "stage": np.arange(stages["beta"].shape[1])},
    ).assign(log_evidence=("chain", [run["log_evidence"] for run in runs]))
    measured = {**_over_runs(logs), **_settings(kernel, **more)}
    return Drawn(draws, statistics, {"compile_seconds": compiling, **measured})


def _kernel(task: Task, model: pm.Model, options: dict[str, Any]) -> tuple[_Kernel, float]:
    """PyMC's kernel with its functions compiled, and the seconds that took."""
    start = time.perf_counter()
    settings = {"draws": options.pop("particles", task.draws), **options}
    kernel = keep(model, "smc kernel", lambda: _Kernel(model))
    for name, value in settings.items():
        setattr(kernel, name, value)
    return kernel, time.perf_counter() - start


def _populations(
    task: Task, kernel: _Kernel, size: int, event: int | None = None
) -> tuple[list[dict[str, Any]], Array, Array]:
    """A run for each chain; so many of its particles in the set, or in the event; log P by it."""
    stream, place = (210, ()) if event is None else (220, (event,))
    runs, draws, logs = [], [], []
    for chain in range(task.chains):
        run = _run(kernel, task.generator(200, *place, chain))
        parameters = task.parameters(run["particles"])
        within = task.alternative.events.contains(parameters)
        inside = within.any(axis=1) if event is None else within[:, event]
        draws.append(_inside(parameters, inside, size, task.generator(stream, *place, chain)))
        logs.append(run["log_evidence"] + np.log(inside.mean()))
        runs.append(run)
    return runs, np.array(draws), np.array(logs)


def _run(kernel: _Kernel, rng: np.random.Generator) -> dict[str, Any]:
    """One population from the prior to the end: particles, evidence, and its stages."""
    beta, accepted = [], []
    try:
        with np.errstate(invalid="ignore", divide="ignore"):  # all particles may be outside
            kernel.initialize(None, rng)
            if not np.isfinite(kernel.likelihood_logp).any():
                raise SamplerError(
                    f"SMC: none of {kernel.draws} particles starts inside the set, and a wall "
                    "cannot be tempered"
                )
            while kernel.beta < 1:
                kernel.update_beta_and_weights()
                statistics = kernel.step()
                beta.append(float(statistics["beta"]))
                accepted.append(float(statistics["accept_rate"]))
                if len(beta) > STAGES:
                    raise SamplerError(f"SMC: not at its end after {STAGES} stages")
    except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:
        raise SamplerError(f"SMC: the particles give out ({error})") from None
    return {
        "particles": _whitened(kernel),
        "log_evidence": float(kernel.log_marginal_likelihood),
        "beta": beta,
        "accept_rate": accepted,
    }


def _whitened(kernel: _Kernel) -> Array:
    """The particles' whitened coordinates; a model may have other variables before or after."""
    last = 0
    for name, (shape, size) in kernel.var_info.items():
        first, last = last, last + size
        if name == "whitened":
            return kernel.tempered_posterior[:, first:last].reshape(-1, *shape).copy()
    raise AssertionError("the model is not whitened")


def _inside(parameters: Array, inside: Any, size: int, rng: np.random.Generator) -> Array:
    """So many of the particles inside, each as often as any other to within one."""
    if not inside.any():
        raise SamplerError("SMC: no particle is inside the set at the end")
    kept = parameters[inside]
    places = (rng.random() + np.arange(size)) / size * len(kept)
    return kept[places.astype(int)]


def _over_runs(logs: Array) -> dict[str, float]:
    """Probabilities are averaged over independent runs; the spread of one run is the error.

    It is not divided by the root of their number: runs of a finite population share a bias, too
    low by a part of that spread, which averaging does not remove.
    """
    value = float(logsumexp(logs) - np.log(logs.size))
    error = float(np.std(np.exp(logs - value), ddof=1)) if logs.size > 1 else np.inf
    return {
        "log_probability": value,
        "log_probability_standard_error": error,
        "log_probability_freedom": float(max(logs.size - 1, 1)),
    }
