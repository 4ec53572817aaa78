"""What all samplers of an alternative set share: the task, the models, the starts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import pymc as pm
import xarray as xr
from pymc.model.transform.optimization import freeze_model
from pytensor.graph.traversal import ancestors
from scipy.special import log_ndtr, ndtri_exp

from bayes_feasible import models
from bayes_feasible._check import Array
from bayes_feasible._draws import block_radius
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.evidence.expansion import event_log_masses
from bayes_feasible.models._kept import keep
from bayes_feasible.models.laplace import laplace
from bayes_feasible.models.reference import Reference
from bayes_feasible.posterior import Posterior

TRIES = 10_000  # to find a start within the parameter_radius
START_SHARE = 0.05  # chains start in events at least this probable beside the likeliest
_MODELS: dict[Any, pm.Model] = {}


class SamplerError(RuntimeError):
    """A sampler broke off; the message says why."""


def check_options(whose: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that a sampler or method does not have."""
    for name in sorted(set(options) - set(known)):
        raise ValueError(f"{name}: {whose} has no such option; it has {', '.join(known) or 'none'}")


class Drawn(NamedTuple):
    """What a sampler gives: draws (chain, draw, parameter, feature), statistics, attributes."""

    parameters: Array
    statistics: xr.Dataset
    attributes: dict[str, Any]
    components: xr.Dataset | None = None


@dataclass
class Task:
    """What a sampler is asked for."""

    posterior: Posterior
    alternative: Alternative
    draws: int
    tune: int
    chains: int
    seed: int
    cores: int
    progress: bool
    model: pm.Model | None = None
    options: dict[str, Any] = field(default_factory=dict)
    _references: dict[int | None, Reference] = field(default_factory=dict)

    def generator(self, *stream: int) -> np.random.Generator:
        """A generator that depends on the task's seed and the stream alone."""
        return np.random.default_rng([self.seed, *stream])

    def reference(self, event: int | None = None) -> Reference:
        """The Gaussian beside the model: its posterior where that is Gaussian."""
        place = None if self.model is None else event
        if place not in self._references:
            if self.model is None:
                found = Reference.from_posterior(self.posterior)
            else:
                found = laplace(self.model, *(() if event is None else (self.alternative, event)))
            self._references[place] = found
        return self._references[place]

    def whitened(self, form: str, event: int | None = None, **settings: Any) -> pm.Model:
        """The model restricted to the set or to one event, in whitened coordinates.

        All tasks with the same features and constraints share one model for each form, and so
        its compiled functions; each call gives it this task's data. It is frozen: its structure
        cannot change any more, so that PyMC keeps what it would work out anew for every run.
        """
        reference = self.reference(event if form == "component" else None)

        def make() -> pm.Model:
            base = models.linear_gaussian(self.posterior) if self.model is None else self.model
            restricted = models.alternative(
                base, self.alternative, form, event=event, reference=reference, whiten=True,
                **settings,
            )  # fmt: skip
            return cast(pm.Model, freeze_model(restricted))

        if self.model is not None:
            model = keep(self.model, ("whitened", form, *_frozen_data(self.model)), make)
            _copy_data(self.model, model)
        else:
            problem = self.alternative.problem
            names = (tuple(problem.coords[dim].tolist()) for dim in ("feature", "constraint"))
            key = (*names, problem.parameter_radius is None, form)
            model = _MODELS[key] if key in _MODELS else _MODELS.setdefault(key, make())
            models.set_data(model, self.posterior)
        models.set_alternative(model, self.alternative, event, reference)
        if settings:
            pm.set_data(settings, model)
        return model

    def event_log_probabilities(self) -> Array:
        """Of each event, by the Gaussians beside the model; -inf if it is impossible."""
        if self.model is not None:
            return event_log_masses(self.model, self.alternative)
        return self.alternative.events.log_probabilities(
            self.reference().mean, self.reference().root
        )

    def starts(self) -> list[Array]:
        """A whitened point inside the set for each chain, one probable event a chain in turn."""
        probability = self.event_log_probabilities()
        order = np.argsort(-probability, kind="stable")
        near = [e for e in order if probability[e] >= probability.max() + np.log(START_SHARE)]
        rng = self.generator(2)
        return [self._start(int(near[chain % len(near)]), rng) for chain in range(self.chains)]

    def _start(self, event: int, rng: np.random.Generator) -> Array:
        """A whitened point in an event, and within the bounds on the parameters."""
        reference, events = self.reference(), self.alternative.events.only(event)
        [normals], [bounds] = events.whiten(reference.mean, reference.root)
        asked, radius = np.isfinite(bounds), block_radius(self.alternative.problem)
        for _ in range(TRIES):
            point = rng.standard_normal(normals.shape)
            along = np.sum(normals * point, axis=1)
            tail = log_ndtr(-bounds[asked]) + np.log(rng.random(int(asked.sum())))
            point[asked] += (-ndtri_exp(tail) - along[asked])[:, np.newaxis] * normals[asked]
            if np.all(np.linalg.norm(self.parameters(point), axis=-1) <= radius):
                return point
        raise SamplerError(
            f"starts: of {TRIES} draws in {events.names[0]!r} none lies within the parameter_radius"
        )

    def parameters(self, whitened: Array) -> Array:
        """Parameters (..., parameter, feature) of whitened ones (..., parameter, axis)."""
        reference = self.reference()
        return reference.mean + np.einsum("pfa,...pa->...pf", reference.root, whitened)


def _frozen_data(model: pm.Model) -> list[tuple[str, bytes]]:
    """The data that free variables depend on: constants of a frozen model, which is made anew."""
    known = set(ancestors(model.free_RVs))
    return [(one.name, one.get_value().tobytes()) for one in model.data_vars if one in known]


def _copy_data(source: pm.Model, target: pm.Model) -> None:
    """Give a model that was made from another one the present data of that one."""
    present = {one.name for one in target.data_vars if hasattr(one, "set_value")}  # not frozen
    shared = [one.name for one in source.data_vars if one.name in present]
    dims = {dim for name in shared for dim in source.named_vars_to_dims.get(name, ())}
    values = {name: source[name].get_value() for name in shared}
    pm.set_data(values, target, coords={dim: source.coords[dim] for dim in dims})
