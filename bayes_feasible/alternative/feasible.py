"""Which candidates are feasible, and how probable it is that some, or none, are."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.events import Events
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

DRAWS = 2048  # to see how often the others are infeasible too


def best_of_draws(problem: Problem, parameters: Array) -> NDArray[np.int64]:
    """Index of the best feasible candidate under each draw, -1 where none is feasible.

    `parameters` is (draw, block, feature), the reward's block first.
    """
    rewards = parameters[:, 0] @ problem.candidates.T
    costs = parameters[:, 1:] @ problem.candidates.T
    feasible = np.all(costs <= problem.thresholds[:, np.newaxis], axis=-2)
    best = np.argmax(np.where(feasible, rewards, -np.inf), axis=-1)
    return np.where(feasible.any(axis=-1), best, -1)


class SomeFeasible(Alternative):
    """The event that some candidate is feasible: a union, measured as an alternative set is."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem, 0)
        self._use(Events.that_each_is_feasible(problem))


def log_feasible(posterior: Posterior, rng: np.random.Generator) -> tuple[float, float]:
    """Log-probabilities that some candidate is feasible and that none is, whichever is rarer."""
    if not np.isfinite(posterior.problem.thresholds).any():
        return 0.0, -np.inf
    feasible = SomeFeasible(posterior.problem)
    if feasible._event_log_probabilities(posterior).max() < math.log(0.5):
        some = feasible.log_probability(posterior, rng).value
        if some < math.log(0.5):
            return some, math.log1p(-math.exp(some))
    none = log_none_feasible(posterior, rng)
    return (math.log(-math.expm1(none)) if none < 0 else -np.inf), none


def log_none_feasible(posterior: Posterior, rng: np.random.Generator) -> float:
    """Log-probability that no candidate is feasible, however rare that is.

    If none is, then the candidate most probably feasible is not: draws given that, which are
    exact however rare it is, show how often all the others are infeasible too.
    """
    problem = posterior.problem
    if not np.isfinite(problem.thresholds).any():
        return -np.inf
    likeliest = likeliest_feasible(posterior)
    alone = Problem(
        problem.arms,
        problem.thresholds,
        candidates=problem.candidates[likeliest : likeliest + 1],
        reward_noise=problem.reward_noise,
        cost_noise=problem.cost_noise,
        parameter_radius=problem.parameter_radius,
    )
    own = Posterior.from_sums(alone, posterior.counts, posterior.reward_sums, posterior.cost_sums)
    infeasible = Alternative(alone, 0)
    log_probability = infeasible.log_probability(own, rng).value
    if log_probability == -np.inf or len(problem.candidates) == 1:
        return log_probability
    best = best_of_draws(problem, infeasible._draws(own, DRAWS, rng)[0])
    unseen = int(np.sum(best < 0)) or 3  # 3 / n bounds a share that n draws have not shown
    return log_probability + math.log(unseen / DRAWS)


def likeliest_feasible(posterior: Posterior) -> int:
    """The candidate whose costs are most probably all within their thresholds."""
    problem = posterior.problem
    spread = np.linalg.norm(posterior._whiten(problem.candidates), axis=1)[:, np.newaxis]
    room = problem.thresholds - problem.candidates @ posterior.mean_cost.T
    known = np.where(room >= 0, np.inf, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.where(spread > 0, room / (problem.cost_noise * spread), known)
    return int(np.argmax(log_ndtr(bounds).sum(axis=1)))
