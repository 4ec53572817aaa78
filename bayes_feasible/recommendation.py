"""What to recommend after the pulls so far, and how sure that is."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bayes_feasible._check import Array
from bayes_feasible._draws import unrestricted
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

METHODS = ("draw", "mean", "probable")
DRAWS = 2048  # to see which candidates can be best at all, and which if the choice is wrong


@dataclass(frozen=True, eq=False)
class Recommendation:
    """A candidate, or the answer that none is feasible, with its probability of error.

    It can be used as the index of the candidate: `problem.candidates[recommendation]`.

    Attributes
    ----------
    candidate : int or None
        Index of the candidate; None: no candidate looks feasible.
    name : str
    log_error : float
        Natural logarithm of the posterior probability that the answer is wrong: that another
        candidate is the best feasible one; or, for None, that some candidate is feasible.
    reason : str
        The mistake that makes up most of that probability.
    runner_up : int or None
        The candidate most likely to be best if the answer is wrong.
    runner_up_name : str
    log_none_feasible : float
        Log-probability that no candidate is feasible; an upper bound (with 95 % confidence) where
        it is too small to be seen in draws.
    """

    candidate: int | None
    name: str
    log_error: float
    reason: str
    runner_up: int | None
    runner_up_name: str
    log_none_feasible: float

    def __index__(self) -> int:
        if self.candidate is None:
            raise ValueError("recommendation: no candidate looks feasible, so there is no index")
        return self.candidate

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Recommendation):
            return self.candidate == other.candidate and self.log_error == other.log_error
        return self.candidate == other

    def __hash__(self) -> int:
        return hash(self.candidate)

    def __str__(self) -> str:
        error = f"wrong with probability {_probability(self.log_error)}"
        if self.candidate is None:
            return f"no candidate is feasible; {error} ({self.reason})"
        rival = f"; then most likely {self.runner_up_name}" if self.runner_up is not None else ""
        return f"{self.name}; {error}, above all because: {self.reason}{rival}"


def recommend(posterior: Posterior, choice: int | None, rng: np.random.Generator) -> Recommendation:
    """Say how sure a choice is: a candidate, or None for "no candidate is feasible"."""
    problem = posterior.problem
    some_feasible, none_feasible = log_feasible(posterior, rng)
    if choice is None:
        likeliest = likeliest_feasible(posterior)
        name = problem.name(likeliest)
        return Recommendation(
            None, "none", some_feasible, f"{name} feasible", likeliest, name, none_feasible
        )
    alternative = Alternative(problem, choice)
    error = alternative.log_probability(posterior, rng)
    runner_up = None
    if error.value > -np.inf:
        best = best_of_draws(problem, alternative._draws(posterior, DRAWS, rng)[0])
        best = best[best >= 0]
        runner_up = int(np.bincount(best).argmax()) if best.size else None
    return Recommendation(
        choice,
        problem.name(choice),
        error.value,
        error.likeliest if error.value > -np.inf else "nothing can make it wrong",
        runner_up,
        "no candidate" if runner_up is None else problem.name(runner_up),
        none_feasible,
    )


def most_probable(posterior: Posterior, rng: np.random.Generator) -> int | None:
    """The candidate most probably best; None if it is likelier that none is feasible."""
    problem = posterior.problem
    best = best_of_draws(problem, unrestricted(posterior, DRAWS, rng))
    seen, times = np.unique(best, return_counts=True)
    if seen[times.argmax()] < 0:
        return None
    seen = seen[(seen >= 0) & (times * 4 >= times.max())]
    if seen.size == 1:
        return int(seen[0])
    errors = [Alternative(problem, int(z)).log_probability(posterior, rng).value for z in seen]
    return int(seen[int(np.argmin(errors))])


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
        self.events = [f"{problem.name(z)} feasible" for z in range(len(problem.candidates))]

    def _half_spaces(self) -> tuple[Array, Array]:
        candidates, thresholds = self.problem.candidates, self.problem.thresholds[self._binding]
        vectors = np.zeros((len(candidates), 1 + thresholds.size, candidates.shape[1]))
        limits = np.full(vectors.shape[:2], -np.inf)
        vectors[:, 1:] = -candidates[:, np.newaxis]
        nowhere = ~candidates.any(axis=1)[:, np.newaxis]  # costs 0 for certain
        limits[:, 1:] = np.where(nowhere, np.where(thresholds >= 0, -np.inf, np.inf), -thresholds)
        return vectors, limits


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
    room = problem.thresholds - problem.candidates @ posterior.theta_cost.T
    known = np.where(room >= 0, np.inf, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.where(spread > 0, room / (problem.cost_noise * spread), known)
    return int(np.argmax(log_ndtr(bounds).sum(axis=1)))


def _probability(log_probability: float) -> str:
    """A probability for people, also where it is too small for a float."""
    if log_probability > -690 or log_probability == -math.inf:
        return f"{math.exp(log_probability):.2g}"
    return f"10^{log_probability / math.log(10):.0f}"
