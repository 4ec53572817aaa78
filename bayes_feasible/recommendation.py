"""What to recommend after the pulls so far, and how sure that is."""

import math
from dataclasses import dataclass

import numpy as np

from bayes_feasible._draws import unrestricted
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.feasible import likeliest_feasible, log_feasible
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

METHODS = ("mean", "draw", "probable")
DRAWS = 2048  # to see which candidates can be best at all, and which if the choice is wrong


@dataclass(frozen=True, eq=False)
class Recommendation:
    """A candidate, or the answer that none is feasible, with its probability of error.

    It can be used as the index of the candidate: `problem.candidates[recommendation]`. It
    compares as that index does (none as None): two of the same candidate are equal, however sure
    they are, and a recommendation equals what its index equals.

    Attributes
    ----------
    candidate : int or None
        Index of the candidate; None: no candidate looks feasible.
    name : str
    log_error : float
        Natural logarithm of the posterior probability that the answer is wrong: that another
        candidate is the best feasible one; or, for None, that some candidate is feasible.
    reason : str
        What makes up most of that probability: "candidate 4 is better".
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
        return self.candidate == (other.candidate if isinstance(other, Recommendation) else other)

    def __hash__(self) -> int:
        return hash(self.candidate)

    def __str__(self) -> str:
        none = " (no candidate looks feasible)" if self.candidate is None else ""
        text = f"Recommended: {self.name}{none}. P(error) = {format_probability(self.log_error)}"
        return (
            f"{text}, most likely because {self.reason}."
            if self.log_error > -math.inf
            else f"{text}."
        )


def recommend(posterior: Posterior, choice: int | None, rng: np.random.Generator) -> Recommendation:
    """Say how sure a choice is: a candidate, or None for "no candidate is feasible"."""
    problem = posterior.problem
    some_feasible, none_feasible = log_feasible(posterior, rng)
    if choice is None:
        likeliest = likeliest_feasible(posterior)
        reason = f"{_called(problem, likeliest)} is feasible"
        name = problem.name(likeliest)
        return Recommendation(None, "none", some_feasible, reason, likeliest, name, none_feasible)
    alternative = Alternative(problem, choice)
    error = alternative.log_probability(posterior, rng)
    runner_up, reason = None, "nothing can make it wrong"
    if error.value > -np.inf:
        likeliest = int(np.argmax(error.log_probabilities))
        rival, constraint = (
            alternative.events.rival[likeliest],
            alternative.events.constraint[likeliest],
        )
        if rival >= 0:
            reason = f"{_called(problem, rival)} is better"
        else:
            label = problem.coords["constraint"].tolist()[constraint]
            label = label if isinstance(label, str) else f"cost {label}"
            reason = f"{label} of {problem.name(choice)} is too high"
        drawn = alternative.union.draw(posterior, DRAWS, rng, few=True)
        best = problem.best_under(drawn.theta) if drawn else np.empty(0, dtype=np.int64)
        best = best[best >= 0]
        runner_up = int(np.bincount(best).argmax()) if best.size else None
    return Recommendation(
        choice,
        problem.name(choice),
        error.value,
        reason,
        runner_up,
        "no candidate" if runner_up is None else problem.name(runner_up),
        none_feasible,
    )


def choose(posterior: Posterior, method: str, rng: np.random.Generator) -> int | None:
    """The candidate to recommend by one of the `METHODS`, or None: no candidate looks feasible."""
    if method == "mean":
        return posterior.best()
    if method == "probable":
        return most_probable(posterior, rng)
    best = int(posterior.problem.best_under(unrestricted(posterior, 1, rng))[0])
    return best if best >= 0 else None


def most_probable(posterior: Posterior, rng: np.random.Generator) -> int | None:
    """The candidate most probably best; None if it is likelier that none is feasible."""
    problem = posterior.problem
    best = problem.best_under(unrestricted(posterior, DRAWS, rng))
    seen, times = np.unique(best, return_counts=True)
    if seen[times.argmax()] < 0:
        return None
    seen = seen[(seen >= 0) & (times * 4 >= times.max())]
    if seen.size == 1:
        return int(seen[0])
    errors = [Alternative(problem, int(z)).log_probability(posterior, rng).value for z in seen]
    return int(seen[int(np.argmin(errors))])


def _called(problem: Problem, candidate: int) -> str:
    """A candidate by its name, or as "candidate 4" where it has none."""
    name = problem.coords["candidate"].tolist()[candidate]
    return name if isinstance(name, str) else f"candidate {name}"


def format_probability(log_probability: float) -> str:
    """Write a probability for people, also where it is too small for a float."""
    if log_probability > -690 or log_probability == -math.inf:
        return f"{math.exp(log_probability):.2g}"
    return f"10^{log_probability / math.log(10):.0f}"
