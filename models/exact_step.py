"""Exact draws from an alternative set as a PyMC step method."""

from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.posterior import Posterior


@dataclass_state
class ExactStepState(StepMethodState):
    """What PyMC saves and restores between chains."""

    position: int


class ExactStep(BlockedStep):
    """Independent exact draws of `theta_reward` and `theta_cost` given the alternative set.

    Each step replaces both parameters by a fresh draw, so the chain has no memory: R-hat is 1 and
    every draw is worth one. Use it where the parameters are `linear_gaussian` given everything
    else; the model's own density is never asked for. A chain's draws depend on its seed alone,
    so they are the same whatever the number of processes.

    Parameters
    ----------
    vars : list of variables, optional
        The parameters' value variables; found by name by default.
    posterior : Posterior
        The posterior of the model that is sampled.
    alternative : Alternative
        The set to stay in.
    model : Model, optional
        Taken from the context by default.
    rng : optional
        PyMC passes one to each chain.
    blocked : bool
        Always true: the parameters are drawn together.

    Examples
    --------
    Inside any model with these two parameters::

        with models.linear_gaussian(posterior):
            tree = pm.sample(step=ExactStep(posterior=posterior, alternative=alternative))
    """

    name = "exact_step"
    default_blocked = True
    default_tune_steps = 0
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"event": (np.int64, [])}
    _state_class = ExactStepState

    def __init__(
        self,
        vars: Any = None,
        *,
        posterior: Posterior,
        alternative: Alternative,
        model: pm.Model | None = None,
        rng: Any = None,
        blocked: bool = True,
    ) -> None:
        model = pm.modelcontext(model)
        sizes = _sizes(posterior)
        missing = [name for name in sizes if name not in model.named_vars]
        if missing:
            raise ValueError(f"model: expected the variables {list(sizes)}, {missing} are missing")
        self.vars = [model.rvs_to_values[model[name]] for name in sizes]
        point = model.initial_point()
        for var in self.vars:
            if point[var.name].shape != sizes[var.name]:
                raise ValueError(f"model: {var.name} is not of the shape {sizes[var.name]}")
        self.posterior, self.alternative = posterior, alternative
        self.rng = get_random_generator(rng)
        self.position = 0
        self._draws: dict[str, np.ndarray] = {}

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Draw all that the chain will need."""
        super().setup_chain(rng, tune, draws)
        drawn = self.alternative.sample(self.posterior, max(tune + draws, 1), seed=self.rng)
        self._draws = {str(name): drawn[name].values[0] for name in drawn.data_vars}
        self.position = 0

    def step(self, point: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The next draw."""
        at = self.position
        self.position += 1
        drawn = {var.name: self._draws[var.name][at] for var in self.vars}
        return {**point, **drawn}, [{"event": int(self._draws["event"][at])}]

    @staticmethod
    def competence(var: Any, has_grad: Any) -> Competence:
        """Never chosen by PyMC itself: it has to be told the posterior."""
        return Competence.INCOMPATIBLE


def _sizes(posterior: Posterior) -> dict[str, tuple[int, ...]]:
    """Shapes of the parameters that the problem has."""
    constraints, features = posterior.problem.thresholds.size, posterior.problem.arms.shape[1]
    if not constraints:
        return {"theta_reward": (features,)}
    return {"theta_reward": (features,), "theta_cost": (constraints, features)}
