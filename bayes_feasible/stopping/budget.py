r"""How probable it is that the pulls left change the answer: a bound for every way to spend them.

Suppose every arm were pulled as often as there are pulls left. Whatever a rule does with them, it
sees a part of that. Let :math:`h = \langle a, \theta \rangle - c` be a half-space's margin, its
posterior mean :math:`\mu_s` after s pulls and :math:`\mu_*` after all of that. If
:math:`\mu_s \ge 0` at some time, then :math:`\mu_*` is Gaussian about :math:`\mu_s` and at least
even to be :math:`\ge 0` too. So

.. math:: P(\mu_s \ge 0 \text{ for some } s) \le 2 \, P(\mu_* \ge 0),

and for an event of several blocks the factors multiply, for the blocks are independent. It is
proved for Gaussian outcomes of known noise. For learnt noise the same is done with Student's tail,
for 0/1 and counts with the Gaussian at the mode: approximations.
"""

import math

import numpy as np
from scipy.special import log_ndtr

from bayes_feasible._check import Array
from bayes_feasible.alternative.events import Events
from bayes_feasible.alternative.student import log_tail
from bayes_feasible.blocks.base import Block
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.posterior import Posterior


def log_overturned(events: Events, posterior: Posterior, pulls: int) -> float:
    """Log of a bound on the probability that some event looks true within so many pulls.

    An event looks true when the posterior means fulfil it.
    """
    total = np.zeros(len(events))
    for b, block in enumerate(posterior.blocks):
        limits = events.limits[:, b]
        total[np.isposinf(limits)] = -np.inf
        asked = np.flatnonzero(np.isfinite(limits))
        if asked.size:
            vectors = events.vectors[asked, b]
            total[asked] += _log_crossed(posterior, b, block, vectors, limits[asked], pulls)
    return min(float(np.logaddexp.reduce(total)), 0.0) if len(events) else -np.inf


def _log_crossed(
    posterior: Posterior, b: int, block: Block, vectors: Array, limits: Array, pulls: int
) -> Array:
    """Log of the bound that the mean crosses each limit."""
    problem, outcome = posterior.problem, posterior.problem.outcomes[b]
    if isinstance(outcome, Gaussian):
        told = np.full(len(problem.arms), posterior.noise[b] ** -2.0)
    else:
        told = outcome.variance(problem.arms @ block.mean)
    white = vectors @ block.root
    rows = problem.arms @ block.root * np.sqrt(pulls * told)[:, np.newaxis]
    precision = np.eye(rows.shape[1]) + rows.T @ rows
    moves = np.einsum("ea,ea->e", white, white - np.linalg.solve(precision, white.T).T)
    gap = limits - vectors @ block.mean
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(moves > 0, gap / np.sqrt(moves), np.where(gap > 0, np.inf, -np.inf))
    freedom = getattr(block, "freedom", np.inf)
    tail = log_ndtr(-distance)
    if np.isfinite(freedom):
        tail = log_tail(distance, np.full(distance.shape, freedom))
    return np.minimum(tail + math.log(2.0), 0.0)
