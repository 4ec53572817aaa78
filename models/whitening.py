"""Models in coordinates that are standard normal under a Gaussian reference of the posterior."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import clone_model

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.models._truncation import beyond, log_survival
from bayes_feasible.models.laplace import laplace
from bayes_feasible.models.reference import Reference


def whitened(model: pm.Model, reference: Reference | None = None) -> pm.Model:
    """The same model in coordinates that are standard normal under a Gaussian reference.

    Parameters
    ----------
    model : Model
        It is left as it is.
    reference : Reference, optional
        By default `laplace(model)`.

    Returns
    -------
    Model
        With `whitened` (parameter, axis) and `log_weight`, as `alternative` describes them; the
        mean of its exponential is the density of the data over that of `reference.log_evidence`.

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> posterior = History(instance.problem, [0, 2], *instance.pull([0, 2], seed=1)).posterior()
    >>> model = models.whitened(models.linear_gaussian(posterior))
    >>> [rv.name for rv in model.free_RVs]
    ['whitened']
    """
    check_model(model)
    check_free(model)
    reference = laplace(model) if reference is None else reference
    model = clone_model(model)
    with model:
        add_reference(model, reference)
    return in_whitened(model, component=False)


def set_reference(model: pm.Model, reference: Reference) -> None:
    """Give a model another Gaussian reference; nothing is recompiled.

    Parameters
    ----------
    model : Model
        One that `whitened` or `alternative` has made with a reference. The law that it describes
        depends on the reference in the forms `smooth` and `graded` only; elsewhere the reference
        decides how easily the model is sampled.
    reference : Reference

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> posterior = History(instance.problem, [0, 2], *instance.pull([0, 2], seed=1)).posterior()
    >>> model = models.whitened(models.linear_gaussian(posterior))
    >>> posterior.update([0, 2], *instance.pull([0, 2], seed=2))
    >>> models.set_data(model, posterior)
    >>> models.set_reference(model, models.Reference.from_posterior(posterior))
    >>> np.allclose(model["reference_mean"].get_value()[0], posterior.theta_reward)
    True
    """
    if "reference_mean" not in model.named_vars:
        raise ValueError("reference: this model uses none")
    pm.set_data(reference_data(model, reference), model)


def check_model(model: pm.Model, alternative: Alternative | None = None) -> None:
    """Whether the model has the parameters that are expected, and those of the alternative."""
    for name in ["theta_reward"] + ["theta_cost"] * ("constraint" in model.coords):
        if name not in model.named_vars:
            raise ValueError(f"model: expected a variable `{name}`, as the models here have")
    if alternative is None:
        return
    for dim in ("feature", "constraint"):
        ours = list(model.coords.get(dim, ()))
        theirs = list(alternative.problem.coords[dim])
        if ours != theirs:
            raise ValueError(f"alternative: expected the {dim}s of the model, {ours}, got {theirs}")


def check_free(model: pm.Model) -> None:
    """Whether the parameters can still be replaced by other coordinates."""
    if "reference_mean" in model.named_vars:
        raise ValueError("model: it has a reference already, give the model it was made from")


def add_blocks(model: pm.Model) -> None:
    """Name the parameters of a model, the reward's first."""
    constraints = [f"cost {name}" for name in model.coords.get("constraint", ())]
    model.add_coords({"parameter": ["reward", *constraints]})


def add_reference(model: pm.Model, reference: Reference) -> None:
    """Put a reference into the model of the context."""
    data = reference_data(model, reference)
    add_blocks(model)
    model.add_coords({"axis": np.arange(reference.mean.shape[1])})
    pm.Data("reference_mean", data["reference_mean"], dims=("parameter", "feature"))
    pm.Data("reference_root", data["reference_root"], dims=("parameter", "feature", "axis"))
    pm.Data("reference_log_scale", data["reference_log_scale"])


def reference_data(model: pm.Model, reference: Reference) -> dict[str, Any]:
    """A reference as the data of the model, by their names."""
    if not isinstance(reference, Reference):
        raise TypeError(f"reference: expected a Reference, got {type(reference).__name__}")
    shape = (1 + len(model.coords.get("constraint", ())), len(model.coords["feature"]))
    if reference.mean.shape != shape:
        raise ValueError(
            f"reference: expected a mean of shape {shape} (parameter, feature), "
            f"got {reference.mean.shape}"
        )
    return {
        "reference_mean": reference.mean,
        "reference_root": reference.root,
        "reference_log_scale": reference.log_volume - reference.log_evidence,
    }


def in_whitened(model: pm.Model, component: bool) -> pm.Model:
    """The model with `whitened` as its free variable; it consumes the one it is given."""
    with model:
        free = pm.Normal("whitened", dims=("parameter", "axis"))
        log_scale = model["reference_log_scale"]
        inside = free
        if component:
            inside, log_probability = _into_event(model, free)
            log_scale = log_scale + log_probability
        theta = model["reference_mean"] + _apply(model["reference_root"], inside)
        parameters = {"theta_reward": theta[0]}
        if "theta_cost" in model.named_vars:
            parameters["theta_cost"] = theta[1:]
        # The prior of `whitened` has taken the place of that of the parameters: the difference.
        prior = pt.add(*(pm.logp(model[name], at).sum() for name, at in parameters.items()), 0.0)
        pm.Potential("from_reference", prior + 0.5 * pt.sum(inside**2) + log_scale)
    model = pm.do(model, parameters)
    with model:
        terms = [pm.logp(rv, model.rvs_to_values[rv]).sum() for rv in model.observed_RVs]
        terms += [potential.sum() for potential in model.potentials]
        pm.Deterministic("log_weight", pt.add(*terms, 0.0))
    return model


def _into_event(model: pm.Model, free: Any) -> tuple[Any, Any]:
    """Standard normal coordinates mapped onto the event, and its log-probability."""
    asked, limit, normal = standardised(model)
    asked, limit, normal = asked[0], limit[0], normal[0]
    bound = pt.switch(asked, limit, -np.inf)
    along = pt.sum(normal * free, axis=-1)
    move = pt.switch(asked, beyond(along, bound) - along, 0.0)
    log_probability = pt.sum(pt.switch(asked, log_survival(limit), 0.0))
    return free + move[:, np.newaxis] * normal, log_probability


def standardised(model: pm.Model) -> tuple[Any, Any, Any]:
    """What is asked (event, parameter), from where on, and along which unit vector.

    In whitened coordinates; where nothing is asked, both are 0.
    """
    vectors, limits = model["event_vectors"], model["event_limits"]
    asked = limits > -np.inf
    normal = pt.sum(vectors[..., np.newaxis] * model["reference_root"], axis=-2)
    length = pt.switch(asked, pt.sqrt(pt.sum(normal**2, axis=-1)), 1.0)
    lack = pt.switch(asked, limits, 0.0) - pt.sum(vectors * model["reference_mean"], axis=-1)
    return asked, lack / length, normal / length[..., np.newaxis]


def _apply(matrices: Any, vectors: Any) -> Any:
    """Products of matrices and vectors, one for each parameter."""
    return pt.sum(matrices * vectors[:, np.newaxis, :], axis=-1)
