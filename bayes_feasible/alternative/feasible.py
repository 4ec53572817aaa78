"""Which candidates are feasible, and how probable it is that some, or none, are."""

import math

import numpy as np

from bayes_feasible.alternative.events import Events
from bayes_feasible.alternative.union import Union
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

DRAWS = 2048  # to see how often the others are infeasible too


def some_feasible(problem: Problem) -> Union:
    """The event that some candidate is feasible: the union over candidates."""
    return Union(problem, Events.that_each_is_feasible(problem))


def log_feasible(posterior: Posterior, rng: np.random.Generator) -> tuple[float, float]:
    """Log-probabilities that some candidate is feasible and that none is, whichever is rarer."""
    if not np.isfinite(posterior.problem.thresholds).any():
        return 0.0, -np.inf
    feasible = some_feasible(posterior.problem)
    if feasible.event_log_probabilities(posterior).max() < math.log(0.5):
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
    wrong = Events.that_refute(problem, likeliest_feasible(posterior))
    infeasible = Union(problem, wrong.take(np.flatnonzero(wrong.constraint >= 0)))
    log_probability = infeasible.log_probability(posterior, rng).value
    drawn = None
    if log_probability > -np.inf and len(problem.candidates) > 1:
        drawn = infeasible.draw(posterior, DRAWS, rng, few=True)
    if drawn is None:
        return log_probability
    unseen = int(np.sum(problem.best_under(drawn.theta) < 0)) or 3
    return log_probability + math.log(unseen / DRAWS)  # 3 / n bounds a share n draws do not show


def likeliest_feasible(posterior: Posterior) -> int:
    """The candidate whose costs are most probably all within their thresholds."""
    return int(np.argmax(some_feasible(posterior.problem).event_log_probabilities(posterior)))
