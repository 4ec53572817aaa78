"""A model given that a candidate is not the best feasible one."""

from typing import Any

import numpy as np
import pymc as pm

from bayes_feasible.alternative import Alternative


def alternative(model: pm.Model, alternative: Alternative) -> pm.Model:
    r"""Restrict a model to the alternative set of a candidate.

    The potential `hard` is 0 where `Alternative.contains` holds and :math:`-\infty` elsewhere:

    .. math::
        \exists j: \langle\theta_{c,j}, z\rangle > \tau_j
        \quad\text{or}\quad
        \exists z' \ne z: \langle\theta_r, z' - z\rangle \ge 0, \;
        \langle\theta_{c,j}, z'\rangle \le \tau_j \;\forall j

    Samplers that follow gradients (NUTS) cannot see such a wall; Slice, Metropolis and SMC can.

    Parameters
    ----------
    model : Model
        With `theta_reward` and, if there are constraints, `theta_cost`, of the same problem;
        it is changed in place.
    alternative : Alternative
        Gives the candidate; `doubt` replaces it later.

    Returns
    -------
    Model
        The model that was given.
    """
    problem = alternative.problem
    model.add_coords({"candidate": problem.coords["candidate"]})
    with model:
        candidates = pm.Data("candidates", problem.candidates, dims=("candidate", "feature"))
        own = pm.Data("own", problem.candidates[alternative.candidate], dims="feature")
        rival = pm.Data("rival", _rivals(alternative), dims="candidate")

        better = (rival > 0) & ((candidates - own) @ model["theta_reward"] >= 0)
        if problem.thresholds.size:
            thresholds = pm.Data("thresholds", problem.thresholds, dims="constraint")
            theta_cost = model["theta_cost"]
            feasible = pm.math.all(candidates @ theta_cost.T <= thresholds, axis=1)
            violated = theta_cost @ own > thresholds
            inside = pm.math.any(violated) | pm.math.any(better & feasible)
        else:
            inside = pm.math.any(better)
        pm.Potential("hard", pm.math.switch(inside, 0.0, -np.inf))
    return model


def doubt(model: pm.Model, alternative: Alternative) -> None:
    """Restrict the model to the alternative set of another candidate; nothing is recompiled."""
    own = alternative.problem.candidates[alternative.candidate]
    with model:
        pm.set_data({"own": own, "rival": _rivals(alternative)})


def _rivals(alternative: Alternative) -> Any:
    """1 for each candidate with another vector, 0 for the candidate and its copies."""
    mask = np.zeros(len(alternative.problem.candidates))
    mask[alternative.rivals] = 1.0
    return mask
