"""A model given that a candidate is not the best feasible one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import clone_model

from bayes_feasible import _check
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.models.laplace import laplace
from bayes_feasible.models.parameters import in_parameters, read_variables
from bayes_feasible.models.reference import Reference
from bayes_feasible.models.whitening import (
    add_blocks,
    add_reference,
    check_free,
    check_model,
    in_whitened,
    set_reference,
    standardised,
)

FORMS = ("hard", "smooth", "graded", "component")


def alternative(
    model: pm.Model,
    alternative: Alternative,
    form: str = "hard",
    *,
    event: int | None = None,
    reference: Reference | None = None,
    whiten: bool | None = None,
    softness: float = 0.01,
    sharpness: float = 4.0,
    variables: Mapping[str, str] | None = None,
) -> pm.Model:
    r"""Restrict a model to the alternative set of a candidate.

    The set is the union of the events `alternative.events`. An event asks of the reward parameter
    and of each cost parameter at most that :math:`\langle\theta, v\rangle \ge \ell`. With
    :math:`\mu, C` the mean and covariance of that parameter under a Gaussian `reference` of the
    posterior, its margin :math:`(\langle\theta, v\rangle - \ell) / \sqrt{v^\top C v}` says how many
    standard deviations inside (or, negative, outside) a draw is.

    ``"hard"``
        The potential `hard` is 0 where `Alternative.contains` holds, and :math:`-\infty`
        elsewhere. Samplers that follow gradients (NUTS) cannot see such a wall; Slice,
        Metropolis and SMC can.
    ``"smooth"``
        The potential `smooth` is :math:`\log(1 - \prod_e (1 - p_e))`, with :math:`p_e` the product
        over what event `e` asks of the logistic function of margin / `softness`: the probability
        of the set if every limit were blurred by logistic noise. This is biased, for draws settle
        outside. Where the mode of the posterior is `D` deviations from the set, its density falls
        by about :math:`e^{-D s}` over `s` deviations inwards, so that outside the set draws are
        held only if `softness` is well below `1 / D`; then a share of roughly `softness * D` lies
        outside. Beyond it nearly all do, whatever R-hat says: count those that
        `Alternative.contains`.
    ``"graded"``
        The potential `graded` is :math:`-\frac{1}{2} \kappa d^2`, with `d` the Mahalanobis
        distance to the set under the reference: the least, over events, root of the sum of squares
        of the negative margins. It is 0 inside, and a path that SMC can temper. With `D` the
        distance of the reference's mean, :math:`\kappa` = `sharpness` :math:`(1 + D^2)`, which
        leaves a share inside that does not vanish as the set becomes rare (about half for one
        half-space at the default).
    ``"component"``
        One event, and no potential to hold draws in: standard normal coordinates are mapped onto
        the event, the constrained direction of each parameter by the inverse of the distribution
        function of a normal beyond its limit. NUTS sees a posterior close to a standard normal
        however rare the event is (and, with `linear_gaussian` and its own posterior as the
        reference, exactly that).

    Whitened models (always `component`, by default `graded`, on request the others) have the free
    variable `whitened` (parameter, axis), standard normal a priori, in place of the parameters:
    :math:`\theta = \mu + A u` with :math:`A A^\top = C`, where `u` is `whitened` itself or, in a
    component, its image in the event. `theta_reward` and `theta_cost` are deterministics then, and
    the law is the same as before. Whitening makes room for samplers with a fixed scale, such as the
    1e-6 that `pm.sample_smc` adds to the covariance of its proposals. A `parameter_radius` stays
    a hard wall, in every form.

    They also have the deterministic `log_weight`: the log-density of data and parameters under the
    model less that under the reference (given the event, in a component) and less
    `reference.log_evidence`. Hence with `w = exp(log_weight)`, `E` the mean over standard normal
    `whitened` (and the model's other variables as a priori), and :math:`\hat p` the exponential of
    `log_evidence`,

    .. math:: E[w] = P(\text{event} \mid \text{data}) \, p(\text{data}) / \hat p, \qquad
              E[w]^{-1} = E_{\text{posterior}}[w^{-1}],

    the second mean being over draws from the component itself. Without an event in the map
    (other forms than `component`) the first is :math:`p(\text{data}) / \hat p`, which is 1 for
    `linear_gaussian`.

    Parameters
    ----------
    model : Model
        A model of this package, or any with `theta_reward` (feature) and, if there are
        constraints, `theta_cost` (constraint, feature), drawn or computed (see `in_parameters`).
        It is left as it is.
    alternative : Alternative
        Gives the candidate; `set_alternative` replaces it later.
    form : {"hard", "smooth", "graded", "component"}
    event : int, optional
        Which of `alternative.events` the model is restricted to; needed by `component`. By default
        to their union.
    reference : Reference, optional
        Of the posterior of the model. By default `laplace(model)`, for a component
        `laplace(model, alternative, event)`. `hard` needs none unless it is whitened.
    whiten : bool, optional
    softness, sharpness : float
        For `smooth` and `graded`, see there.
    variables : mapping, optional
        Other names of the variables, or those of the candidates' reward and costs, see
        `in_parameters`.

    Returns
    -------
    Model
        A new model with data of its own, which `set_data` and `set_alternative` replace. One
        compiled model serves every candidate, event, reference and state of the data.

    Examples
    --------
    >>> from bayes_feasible import Alternative, History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> posterior = History(instance.problem, [0, 2], *instance.pull([0, 2], seed=1)).posterior()
    >>> whole = models.linear_gaussian(posterior)
    >>> wrong = Alternative(instance.problem, instance.best)
    >>> [potential.name for potential in models.alternative(whole, wrong).potentials]
    ['hard']
    >>> rare = models.alternative(whole, wrong, "component", event=0)
    >>> [rv.name for rv in rare.free_RVs], wrong.events.names[0]
    (['whitened'], 'cost 0 of 0 too high')
    """
    if form not in FORMS:
        raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}")
    if not isinstance(alternative, Alternative):
        raise TypeError(f"alternative: expected an Alternative, got {type(alternative).__name__}")
    component = form == "component"
    if component and event is None:
        raise ValueError(
            "event: a component is one event, give the index of one of "
            f"{len(alternative.events)} alternative.events"
        )
    if component and whiten is False:
        raise ValueError("whiten: a component is always whitened, got False")
    asked = read_variables(alternative.problem, variables)
    if not {"event_vectors", "reference_mean"} & set(model.named_vars):
        model = in_parameters(model, alternative, variables)
        alternative = asked.alternative(alternative)
    check_model(model, alternative)
    if "event_vectors" in model.named_vars:
        raise ValueError(
            "model: it has an alternative set already, which `set_alternative` replaces"
        )
    if whiten is None:
        whiten = form in ("graded", "component")
    if reference is None and (whiten or form != "hard"):
        reference = laplace(model, alternative, event) if component else laplace(model)
    if reference is not None:
        check_free(model)
    data = _event_data(alternative, event)

    model = clone_model(model)
    add_blocks(model)
    model.add_coords({"event": data["event"]})
    with model:
        pm.Data("event_vectors", data["event_vectors"], dims=("event", "parameter", "feature"))
        pm.Data("event_limits", data["event_limits"], dims=("event", "parameter"))
        pm.Data("event_violated", data["event_violated"], dims="event")
        if reference is not None:
            add_reference(model, reference)
    if whiten:
        model = in_whitened(model, component)
    potentials = {"hard": _hard, "smooth": _smooth, "graded": _graded}
    if not component:
        with model:
            if form == "smooth":
                pm.Data("softness", _check.positive("softness", softness))
            if form == "graded":
                pm.Data("sharpness", _check.positive("sharpness", sharpness))
            pm.Potential(form, potentials[form](model))
    return model


def set_alternative(
    model: pm.Model,
    alternative: Alternative,
    event: int | None = None,
    reference: Reference | None = None,
) -> None:
    """Restrict a model to another alternative set or event of it; nothing is recompiled.

    Parameters
    ----------
    model : Model
        One that `alternative` has made.
    alternative : Alternative
        Of the same problem, or of one with the same features and constraints.
    event : int, optional
        Which of `alternative.events`; a component needs one, for the other forms the default is
        the union.
    reference : Reference, optional
        As in `set_reference`; by default the model keeps the one it has.

    Examples
    --------
    >>> from bayes_feasible import Alternative, History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> posterior = History(instance.problem, [0, 2], *instance.pull([0, 2], seed=1)).posterior()
    >>> wrong = Alternative(instance.problem, 0)
    >>> model = models.alternative(models.linear_gaussian(posterior), wrong)
    >>> list(model.coords["event"])[:2]
    ['cost 0 of 0 too high', '1 better']
    >>> models.set_alternative(model, Alternative(instance.problem, 4))
    >>> list(model.coords["event"])[:2]
    ['cost 0 of 4 too high', '0 better']
    """
    if "event_vectors" not in model.named_vars:
        raise ValueError("model: expected one that `alternative` has made")
    if reference is not None and "reference_mean" not in model.named_vars:
        raise ValueError("reference: this model uses none")
    if not {"hard", "smooth", "graded"} & set(model.named_vars) and event is None:
        raise ValueError("event: a component is one event, give the index of one")
    check_model(model, alternative)
    data = _event_data(alternative, event)
    if reference is not None:
        set_reference(model, reference)
    pm.set_data(data, model, coords={"event": data.pop("event")})


def _event_data(alternative: Alternative, event: int | None) -> dict[str, Any]:
    events = alternative.events
    events = events.take(events.possible) if event is None else events.only(event)
    if not events.names:
        name = alternative.problem.name(alternative.candidate)
        raise ValueError(
            f"alternative: nothing can make {name!r} wrong, so its alternative set is empty"
        )
    return {
        "event": events.names,
        "event_vectors": events.vectors,
        "event_limits": events.limits,
        "event_violated": (events.constraint >= 0).astype(float),
    }


def _parameters(model: pm.Model) -> Any:
    """The parameter vectors as the rows of one matrix."""
    rows = [model["theta_reward"][np.newaxis]]
    if "theta_cost" in model.named_vars:
        rows.append(model["theta_cost"])
    return pt.concatenate(rows, axis=0)


def _excess(model: pm.Model) -> tuple[Any, Any]:
    """What is asked (event, parameter), and by how much the parameters have it."""
    limits = model["event_limits"]
    asked = limits > -np.inf
    values = pt.sum(model["event_vectors"] * _parameters(model), axis=-1)
    return asked, pt.switch(asked, values - pt.switch(asked, limits, 0.0), 0.0)


def _margins(model: pm.Model) -> tuple[Any, Any]:
    """What is asked (event, parameter), and the margins in standard deviations."""
    asked, excess = _excess(model)
    normal = pt.sum(model["event_vectors"][..., np.newaxis] * model["reference_root"], axis=-2)
    return asked, excess / pt.switch(asked, pt.sqrt(pt.sum(normal**2, axis=-1)), 1.0)


def _hard(model: pm.Model) -> Any:
    """A cost on its threshold is feasible, and a rival's equal reward is an alternative."""
    asked, excess = _excess(model)
    strictly = model["event_violated"][:, np.newaxis] > 0
    held = pt.switch(strictly, excess > 0, excess >= 0) | ~asked
    return pt.switch(pt.any(pt.all(held, axis=1)), 0.0, -np.inf)


def _smooth(model: pm.Model) -> Any:
    asked, margins = _margins(model)
    blurred = -pt.softplus(-margins / model["softness"])
    each = pt.sum(pt.switch(asked, blurred, 0.0), axis=1)  # log p of each event
    # -log(1 - p) of the union; where that is tiny, so is p, and the sum over events is exact.
    hazard = pt.sum(-pt.log1mexp(pt.minimum(each, -1e-12)))
    tiny = hazard < 1e-8
    union = pt.log1mexp(-pt.switch(tiny, 1.0, hazard))
    return pt.switch(tiny, pt.logsumexp(each), union)


def _graded(model: pm.Model) -> Any:
    _, margins = _margins(model)
    asked, limits, _ = standardised(model)
    ahead = pt.switch(asked, pt.maximum(limits, 0.0), 0.0)
    centre = pt.min(pt.sum(ahead**2, axis=1))
    distance = pt.min(pt.sum(pt.minimum(margins, 0.0) ** 2, axis=1))
    return -0.5 * model["sharpness"] * (1.0 + centre) * distance
