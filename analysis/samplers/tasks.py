"""What all samplers of an alternative set share: the task, the models, the starts."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import pymc as pm
import xarray as xr
from pymc.model.transform.optimization import freeze_model
from scipy.special import log_ndtr, ndtri_exp

from bayes_feasible import models
from bayes_feasible._check import Array
from bayes_feasible._draws import block_radius
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.models._events import half_spaces
from bayes_feasible.models.reference import Reference, laplace
from bayes_feasible.posterior import Posterior

TRIES = 10_000  # to find a start within the parameter_radius
START_SHARE = 0.05  # chains start in events at least this probable beside the likeliest
_MODELS: dict[Any, pm.Model] = {}


class SamplerError(RuntimeError):
    """A sampler broke off; the message says why."""


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
    _own: dict[str, pm.Model] = field(default_factory=dict)
    _references: dict[int | None, Reference] = field(default_factory=dict)

    def generator(self, *stream: int) -> np.random.Generator:
        """A generator that depends on the task's seed and the stream alone."""
        return np.random.default_rng([self.seed, *stream])

    def reference(self, event: int | None = None) -> Reference:
        """The Gaussian beside the model: its posterior where that is Gaussian."""
        if self.model is None:
            event = None
        if event not in self._references:
            if self.model is None:
                found = Reference.from_posterior(self.posterior)
            elif event is None:
                found = laplace(self.model)
            else:
                found = laplace(self.model, self.alternative, event)
            self._references[event] = found
        return self._references[event]

    def whitened(self, form: str, event: int | None = None, **settings: float) -> pm.Model:
        """The model restricted to the set or to one event, in whitened coordinates.

        All tasks with the same features and constraints share one model for each form, and so
        its compiled functions; each call gives it this task's data. It is frozen: its structure
        cannot change any more, so that PyMC keeps what it would work out anew for every run.
        """
        reference = self.reference(event if form == "component" else None)
        kept, key = self._home(form)
        if key in kept:
            model = kept[key]
            if self.model is None:
                models.observe(model, self.posterior)
            models.doubt(model, self.alternative, event, reference)
            if settings:
                pm.set_data(settings, model)
        else:
            base = models.linear_gaussian(self.posterior) if self.model is None else self.model
            restricted = models.alternative(
                base, self.alternative, form, event=event, reference=reference, whiten=True,
                **settings,
            )  # fmt: skip
            model = kept[key] = cast(pm.Model, freeze_model(restricted))
        return model

    def _home(self, form: str) -> tuple[dict[Any, pm.Model], Any]:
        if self.model is not None:
            return self._own, form
        problem = self.alternative.problem
        names = (tuple(problem.coords[dim].tolist()) for dim in ("feature", "constraint"))
        return _MODELS, (*names, problem.parameter_radius is None, form)

    def event_log_probabilities(self) -> Array:
        """Of each event under the Gaussian beside the model; -inf if it is impossible."""
        return np.array(
            [self._event_log_probability(event) for event in range(len(self.alternative.events))]
        )

    def _event_log_probability(self, event: int) -> float:
        if np.isposinf(half_spaces(self.alternative)[1][event]).any():
            return -np.inf
        _, bounds = whitened_event(self.reference(event), self.alternative, event)
        return float(np.sum(log_ndtr(-bounds)))

    def starts(self) -> list[Array]:
        """A whitened point inside the set for each chain, one probable event a chain in turn."""
        probability = self.event_log_probabilities()
        order = np.argsort(-probability, kind="stable")
        near = [e for e in order if probability[e] >= probability.max() + np.log(START_SHARE)]
        rng = self.generator(2)
        return [self._start(int(near[chain % len(near)]), rng) for chain in range(self.chains)]

    def _start(self, event: int, rng: np.random.Generator) -> Array:
        """A whitened point in an event, and within the bounds on the parameters."""
        radius = block_radius(self.alternative.problem)
        for _ in range(TRIES):
            point = _draw_in_event(self.reference(), self.alternative, event, rng)
            if np.all(np.linalg.norm(self.parameters(point), axis=-1) <= radius):
                return point
        raise SamplerError(
            f"starts: of {TRIES} draws in {self.alternative.events.names[event]!r} none lies "
            "within the parameter_radius"
        )

    def parameters(self, whitened: Array) -> Array:
        """Parameters (..., parameter, feature) of whitened ones (..., parameter, axis)."""
        reference = self.reference()
        return reference.mean + np.einsum("pfa,...pa->...pf", reference.root, whitened)


def whitened_event(
    reference: Reference, alternative: Alternative, event: int
) -> tuple[Array, Array]:
    """Unit normals (parameter, axis) and bounds (parameter,) of an event in whitened coordinates.

    A bound of -inf asks nothing.
    """
    vectors, limits = half_spaces(alternative, event)
    normals = np.einsum("pf,pfa->pa", vectors, reference.root)
    length = np.linalg.norm(normals, axis=1)
    asked = np.isfinite(limits)
    length = np.where(asked, length, 1.0)
    centre = np.sum(vectors * reference.mean, axis=1)
    bounds = np.where(asked, (np.where(asked, limits, 0.0) - centre) / length, -np.inf)
    return normals / length[:, np.newaxis], bounds


def _draw_in_event(
    reference: Reference, alternative: Alternative, event: int, rng: np.random.Generator
) -> Array:
    """One whitened point of the Gaussian given an event."""
    normals, bounds = whitened_event(reference, alternative, event)
    point = rng.standard_normal(normals.shape)
    along = np.sum(normals * point, axis=1)
    asked = np.isfinite(bounds)
    beyond = -ndtri_exp(log_ndtr(-bounds[asked]) + np.log(rng.random(int(asked.sum()))))
    along[asked] = beyond - along[asked]
    along[~asked] = 0.0
    return point + along[:, np.newaxis] * normals


def parameters_of(draws: xr.Dataset) -> Array:
    """Draws of a Dataset as one array (chain, draw, parameter, feature)."""
    reward = draws["theta_reward"].transpose("chain", "draw", "feature").values
    blocks = [reward[:, :, np.newaxis]]
    if "theta_cost" in draws:
        blocks.append(
            draws["theta_cost"].transpose("chain", "draw", "constraint", "feature").values
        )
    return np.concatenate(blocks, axis=2)
