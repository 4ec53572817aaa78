"""The log-probability of a wrong recommendation, from a PyMC model alone.

`Alternative.log_probability` is exact where the posterior is Gaussian. For any other model here
are estimators that use nothing but the model's log-density or PyMC's samplers. Each says how sure
it is, and refuses to answer where its own diagnostic fails.

>>> from bayes_feasible import Alternative, Posterior, instances, models
>>> instance = instances.end_of_optimism()
>>> posterior = Posterior(instance.problem)
>>> arms = [0, 1, 2, 3, 4] * 40
>>> posterior.update(arms, *instance.pull(arms, seed=1))
>>> wrong = Alternative(instance.problem, instance.best)
>>> found = log_error(models.linear_gaussian(posterior), wrong)
>>> exact = wrong.log_probability(posterior)
>>> abs(found.value - exact.value) < 4 * found.standard_error
True
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.events import Events
from bayes_feasible.analysis.evidence import result, sampled, scales
from bayes_feasible.analysis.evidence.expansion import PRUNE, Weighted, fit, weigh, weigh_whole
from bayes_feasible.analysis.evidence.result import Evidence, Refused
from bayes_feasible.analysis.evidence.ridge import MOST_SCALES, Ridge, has_ridge
from bayes_feasible.analysis.samplers.tasks import SamplerError, check_options
from bayes_feasible.models.density import Density, density
from bayes_feasible.models.laplace import Mode, NoMode
from bayes_feasible.models.modes import event_modes, global_modes
from bayes_feasible.models.parameters import (
    PARAMETERS,
    VALUES,
    Asked,
    NotAffine,
    in_parameters,
    read_variables,
)

__all__ = ["Evidence", "Refused", "log_error"]

METHODS: dict[str, tuple[str, ...]] = {
    "local": (),
    "global": (),
    "smc": ("sharpness", "threshold"),
    "component": ("tune",),
    "frequency": ("tune", "target_accept", "divergent"),
}
LEAST_DRAWS = 1000  # fewer do not show the tail of the weights
BIAS = 0.05  # nats: chains and particles may be off by so much beyond their standard error


def log_error(
    model: pm.Model | xr.DataTree | xr.Dataset,
    alternative: Alternative,
    method: str | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    draws: int = 20_000,
    seed: Any = 0,
    progress: bool = False,
    **options: Any,
) -> Evidence:
    r"""Posterior log-probability that a candidate is not the best feasible one, by a PyMC model.

    ``"local"``
        For each event of the alternative set, a Gaussian with the slope and curvature of the
        posterior at its mode *within* the event, cut to the event. Draws from the mixture of
        these, weighed by the posterior over the mixture's density, measure the union, overlaps
        counted once; draws from Laplace's approximation at the global mode measure the whole.
        Right however rare the event is, and the method to use. Where a model learns scales, and
        given these its parameters are Gaussian, the scales are integrated out on a grid instead,
        which is exact for each event; only overlaps are left to draws. Refused where the weights
        have heavy tails (Pareto k-hat of 0.7 or more) or few count (ESS/n below 0.1), and where a
        scale is too uncertain for a grid. Modes are looked for from many starts, within the
        events too; an answer that the draws of the whole posterior contradict is refused. What no
        method can see is a mode that is high only where hardly one in 10,000 draws of the prior
        lies, beside another that hides it.
        In a hierarchy, where the model learns one or two scales of its parameters, Gaussians
        stand all along the logarithms of these instead of at a mode, which there is none.
    ``"global"``
        The same with the Gaussian at the global mode cut to each event. Good near the centre;
        refused in the tail, where the posterior has another curvature.
    ``"smc"``
        `pm.sample_smc` for each event that matters, on the graded form, and a last step to the
        hard set (`samplers.sample_alternative` with `smc_events`), four populations of a quarter
        of the `draws` each. Options: `threshold` (0.9) and `sharpness` (4), see there. Refused
        where no particle arrives, or the populations differ by more than half a nat.
    ``"component"``
        NUTS on the component form of each event that matters, its probability by a bridge
        (Meng and Wong, Statistica Sinica 1996) to the form's own standard normal. Option: `tune`
        (1000). Refused after any divergence, with an R-hat above 1.01 or an error above half a nat.
    ``"frequency"``
        The share of NUTS draws of the unrestricted model that lie in the set, or of draws that you
        have. Options: `tune` (1000), `target_accept` (0.8), and `divergent`, the share of divergent
        transitions that you accept (0). It asks nothing of the model. Refused where fewer than 50
        effective draws do, and by the chains as above.

    The last three are refused as well where ``"local"`` contradicts them: chains and particles may
    miss a mode without a sign.

    Parameters
    ----------
    model : Model, DataTree or Dataset
        Any PyMC model with `theta_reward` and `theta_cost`, drawn or computed (see
        `models.in_parameters`), without restriction. Data that `models.set_data` swaps in are
        seen without compiling anew. Or posterior draws of any program, which can only be counted.
    alternative : Alternative
        Of the candidate that is recommended.
    method : {"local", "global", "smc", "component", "frequency"}, optional
        ``"local"`` by default, and ``"frequency"`` for draws.
    variables : mapping, optional
        Other names of the variables, or those of the candidates' reward and costs, as in
        `models.in_parameters`.
    draws : int
        In all; of SMC, NUTS and the local method for each event or integral.
    seed : int
    progress : bool
        Show the bars of PyMC's samplers.
    **options
        See the methods.

    Returns
    -------
    Evidence

    Raises
    ------
    Refused
        If the method's own diagnostic fails; the error carries the answer that is not given.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> from bayes_feasible import models
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> arms = [0, 2] * 100
    >>> history = bf.History(instance.problem, arms, *instance.pull(arms, seed=1))
    >>> wrong = bf.Alternative(instance.problem, instance.best)
    >>> found = log_error(models.linear_gaussian(history), wrong, draws=2000)
    >>> exact = wrong.log_probability(history.posterior())
    >>> abs(found.value - exact.value) < 5 * found.standard_error + 1e-6
    True
    """
    drawn = isinstance(model, xr.DataTree | xr.Dataset)
    method = ("frequency" if drawn else "local") if method is None else method
    if method not in METHODS:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    _check.kind("alternative", alternative, Alternative)
    asked = read_variables(alternative.problem, variables)
    alternative = asked.alternative(alternative)
    if drawn:
        if method != "frequency":
            raise ValueError(f'method: draws can only be counted, by "frequency", got {method!r}')
        check_options(method, options, ("divergent",))
        return sampled.count_draws(model, asked, alternative, **options)
    given, model = model, _prepare(model, asked, alternative, method)
    draws = _check.count("draws", draws, least=LEAST_DRAWS)
    check_options(method, options, METHODS[method])
    if not alternative.events.possible.size:
        nothing = np.full(len(alternative.events), -np.inf)
        return Evidence(-np.inf, 0.0, method, alternative.events.names, nothing)
    estimate: dict[str, Any] = {
        "smc": sampled.by_smc,
        "component": sampled.by_components,
    }
    try:
        if method in ("local", "global"):
            rng = _check.generator("seed", seed)
            return _by_expansion(model, alternative, method, draws, rng)
        seed = _check.count("seed", seed, least=0)
        request = sampled.Request(model or given, alternative, draws, seed, bool(progress))
        if method == "frequency":
            found = sampled.by_frequency(request._replace(model=given), asked, **options)
        else:
            found = estimate[method](request, **options)
        # Of a model with more scales than a grid holds the expansion knows nothing.
        if model is not None and len(density(model).scales) <= MOST_SCALES:
            _confirm(found, request)
    except (NoMode, SamplerError) as reason:
        raise Refused(f"{method}: {reason}", result.no_answer(method, alternative)) from None
    return found


def _confirm(found: Evidence, request: sampled.Request) -> None:
    """Refuse an answer of chains or particles that the expansion contradicts.

    They may all have missed a mode, which R-hat does not show.
    """
    model, alternative, draws, seed, _ = request
    try:
        rng = np.random.default_rng([seed, 3])
        other = _by_expansion(model, alternative, "local", draws, rng)
    except Refused as reason:
        result.refuse_unless(
            len(global_modes(density(model))) <= 1, found,
            "the posterior has several modes, and the expansion that would show whether all were "
            f"visited is refused too ({reason})",
        )  # fmt: skip
        return
    error = float(np.hypot(found.standard_error, other.standard_error))
    result.refuse_unless(
        not abs(found.value - other.value) > result.MOST_DEVIATIONS * error + BIAS, found,
        f"log P = {found.value:.4g}, but {other.value:.4g} by expansion at the modes; one of them "
        "may have been missed",
    )  # fmt: skip


def _by_expansion(
    model: pm.Model, alternative: Alternative, method: str, draws: int, rng: np.random.Generator
) -> Evidence:
    functions = density(model)
    if method == "local" and has_ridge(functions) and scales.scale_coordinates(functions) is None:
        return _weigh_all(functions, alternative, method, draws, rng)[0]
    summits = global_modes(functions)
    scale_places = scales.scale_coordinates(functions)
    if (
        method == "local"
        and scale_places is not None
        and not functions.bounded
        and scales.is_gaussian(functions, summits, scale_places)
    ):
        way, names = "local, scales by quadrature", alternative.events.names
        try:
            found = scales.measure(functions, summits, scale_places, alternative, draws, rng)
        except scales.NoGrid as reason:
            raise Refused(f"{way}: {reason}", result.no_answer(way, alternative)) from None
        return Evidence(
            found.value, found.standard_error, way, names, found.log_probabilities,
            {"efficiency": found.efficiency},
        )  # fmt: skip
    return _weigh_all(functions, alternative, method, draws, rng, summits)[0]


def draws_given(
    model: pm.Model, alternative: Alternative, variables: Mapping[str, str] | None = None, *,
    draws: int = 20_000, seed: Any = 0,
) -> tuple[Evidence, Array, Array]:  # fmt: skip
    """The ``"local"`` answer and the draws it rests on: (draw, block, feature), with weights.

    What judges samplers where the posterior has no closed form. Refused as `log_error` refuses.
    """
    asked = read_variables(alternative.problem, variables)
    alternative = asked.alternative(alternative)
    prepared = _prepare(model, asked, alternative, "local")
    assert prepared is not None
    functions, rng = density(prepared), _check.generator("seed", seed)
    evidence, part = _weigh_all(functions, alternative, "local", draws, rng)
    return evidence, functions.blocks(part.points), part.weights


def _weigh_all(
    functions: Density, alternative: Alternative, method: str, draws: int,
    rng: np.random.Generator, summits: list[Mode] | None = None,
) -> tuple[Evidence, Weighted]:  # fmt: skip
    """By weighted draws from Gaussians, along the scales that a model learns if need be."""
    if method == "local" and has_ridge(functions):
        ridge = Ridge(functions)
        return _weighed(
            functions, ridge.modes, ridge.within, alternative, "local, along the scales", draws, rng
        )
    found = global_modes(functions) if summits is None else summits

    def find(events: Events) -> list[list[Mode]]:
        return event_modes(functions, events, found) if method == "local" else [found] * len(events)

    return _weighed(functions, found, find, alternative, method, draws, rng)


def _weighed(
    functions: Density, summits: list[Mode], find: Callable[[Events], list[list[Mode]]],
    alternative: Alternative, method: str, draws: int, rng: np.random.Generator,
) -> tuple[Evidence, Weighted]:  # fmt: skip
    """By weighted draws of the events and of the whole."""
    whole = weigh_whole(functions, summits, draws, rng, alternative.events)
    part, log_integrals = _union(functions, find, alternative, method != "global", draws, rng)
    result.refuse_unless(
        part.weighty and whole.weighty,
        Evidence(np.nan, np.inf, method, alternative.events.names, log_integrals),
        "no draw lies within the parameter_radius of the problem",
    )
    value = min(part.log_integral() - whole.log_integral(), 0.0)
    error = float(np.hypot(part.standard_error, whole.standard_error))
    evidence = Evidence(
        value, error, method, alternative.events.names, log_integrals - whole.log_integral(),
        {
            "khat": part.khat, "efficiency": part.efficiency,
            "khat_whole": whole.khat, "efficiency_whole": whole.efficiency,
        },
    )  # fmt: skip
    result.judge_weights(evidence, "the alternative set", part)
    result.judge_weights(evidence, "the whole posterior", whole)
    result.judge_agreement(evidence, part.log_integral() - whole.log_integral(), whole)
    return evidence, part


def _union(
    functions: Density, find: Callable[[Events], list[list[Mode]]], alternative: Alternative,
    wide: bool, draws: int, rng: np.random.Generator,
) -> tuple[Weighted, Array]:  # fmt: skip
    """Weighted draws of the union, and the logarithms of the integrals over the events."""
    events = alternative.events
    possible = events.possible
    near = events.take(possible)
    found = find(near)
    log_integrals = np.full(len(events), -np.inf)
    log_integrals[possible] = fit(functions, found, near, wide=False)[1]
    kept = np.flatnonzero(log_integrals[possible] > log_integrals.max() - PRUNE)
    near = near.take(kept)
    proposals, _ = fit(functions, [found[i] for i in kept], near, wide=wide)
    part = weigh(functions, near, proposals, draws, rng)
    log_integrals[possible[kept]] = [part.log_integral(i) for i in range(len(kept))]
    return part, log_integrals


def _prepare(
    model: pm.Model, asked: Asked, alternative: Alternative, method: str
) -> pm.Model | None:
    """The model in the parameters of the alternative's problem; None where only draws will do.

    Refuses what a method cannot do, by its name.
    """
    _check.kind("model", model, pm.Model)
    restricted = [name for name in ("hard", "smooth", "graded") if name in model.named_vars]
    if restricted:
        raise ValueError(f"model: it is already restricted by the potential `{restricted[0]}`")
    for name in asked.wanted:
        if name not in model.named_vars:
            known = ", ".join(model.named_vars)
            raise ValueError(f"model: expected a variable `{name}`, it has {known}")
    features, constraints = alternative.problem.arms.shape[1], alternative.problem.thresholds.size
    names = dict(zip(PARAMETERS, asked.wanted, strict=False)) if asked.names != PARAMETERS else None
    if asked.by_candidate:
        names = dict(zip(VALUES, asked.wanted, strict=False))
    try:
        found = in_parameters(model, alternative, names)
    except NotAffine as error:
        if method == "frequency":
            return None
        raise ValueError(str(error)) from None
    if method in ("smc", "component") and "others" in found.named_vars:
        raise ValueError(
            f"method: {method} draws from the prior of everything beside the parameters, which "
            'computed parameters leave none of; "local" and "frequency" do without'
        )
    places = density(found).places
    shapes = {"theta_reward": (features,), "theta_cost": (constraints, features)}
    for name, _ in zip(shapes, asked.wanted, strict=False):
        if places[name].shape != shapes[name]:
            raise ValueError(
                f"model: expected {name} of shape {shapes[name]}, got {places[name].shape}"
            )
    return found
