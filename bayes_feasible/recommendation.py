"""What to recommend after the pulls so far, and how sure that is."""

import math
from dataclasses import dataclass

import numpy as np

from bayes_feasible._draws import unrestricted
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.feasible import best_of_draws, likeliest_feasible, log_feasible
from bayes_feasible.posterior import Posterior

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
        drawn = alternative.union.draw(posterior, DRAWS, rng, few=True)
        best = best_of_draws(problem, drawn[0]) if drawn else np.empty(0, dtype=np.int64)
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


def _probability(log_probability: float) -> str:
    """A probability for people, also where it is too small for a float."""
    if log_probability > -690 or log_probability == -math.inf:
        return f"{math.exp(log_probability):.2g}"
    return f"10^{log_probability / math.log(10):.0f}"
