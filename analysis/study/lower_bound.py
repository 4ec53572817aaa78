"""What recorded pulls say about a recommendation, and how well the pulls were shared out.

Whoever made them and however: the posterior probability that the recommendation is wrong is
exact, and no way of sharing out pulls makes it fall faster than the optimal rate in the long run.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible import _check
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.feasible import likeliest_feasible, log_feasible
from bayes_feasible.history import History
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import exponents, quiet_rate


@dataclass(frozen=True)
class Bound:
    """How fast the error can fall under certain parameters.

    Attributes
    ----------
    exponent : float
        The rate that the allocation can reach at best, in nats per pull.
    rate : float
        The rate of the optimal allocation, Γ.
    efficiency : float
        The first over the second.
    hardest : str
        The candidate that holds the allocation back.
    best : str
        The best feasible candidate under these parameters.
    """

    exponent: float
    rate: float
    efficiency: float
    hardest: str
    best: str


@dataclass(frozen=True)
class LowerBound:
    """What recorded pulls say about a recommendation.

    Attributes
    ----------
    pulls : int
    candidate : str or None
        The recommendation; None: no candidate looks feasible.
    log_error : float
        Natural logarithm of the posterior probability that the recommendation is wrong.
    standard_error : float
        Of `log_error`; 0 where it is exact.
    lower, upper : float
        Bounds of `log_error` that hold for certain.
    mistake : str
        The likeliest way in which it is wrong.
    decay : float
        `-log_error / pulls`.
    allocation : dict of arm names to shares
    estimated : Bound or None
        At the posterior mean; None where that does not make the recommendation the best.
    true : Bound or None
        Under the true parameters, if these are known.
    correct : bool or None
        Whether the recommendation is right, if the truth is known.
    notes : list of str
        What to bear in mind.
    """

    pulls: int
    candidate: str | None
    log_error: float
    standard_error: float
    lower: float
    upper: float
    mistake: str
    decay: float
    allocation: dict[str, float]
    estimated: Bound | None
    true: Bound | None
    correct: bool | None
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Everything by name."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [_pulls(f"{self.pulls:,}")]
        if self.candidate is None:
            lines.append("No candidate looks feasible.")
        else:
            lines.append(f"Recommendation: {self.candidate}")
        bracket = "exactly"
        if self.standard_error > 0:
            bracket = f"standard error {self.standard_error:.1g}"
        lines += [
            f"Wrong with probability {_probability(self.log_error)} "
            f"(log P = {self.log_error:.6g}, {bracket}; "
            f"certainly between {self.lower:.6g} and {self.upper:.6g})",
            f"Likeliest mistake: {self.mistake}",
        ]
        if self.pulls:
            lines.append(f"Decay so far, -log P / pulls: {self.decay:.6g} nats per pull")
        for title, bound in (
            ("If the posterior mean were the truth", self.estimated),
            ("Under the true parameters", self.true),
        ):
            if bound is not None:
                lines += ["", title, *_bound_lines(bound, self.pulls)]
        if self.correct is not None:
            lines.append(f"The recommendation is {'right' if self.correct else 'wrong'}.")
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(lines)


def check(
    pulls: History | Posterior,
    problem: Problem | Instance | None = None,
    candidate: Any = None,
    instance: Instance | None = None,
    *,
    seed: int = 0,
) -> LowerBound:
    """Measure how sure a recommendation is after recorded pulls, and how fast that can improve.

    Parameters
    ----------
    pulls : History or Posterior
        Recorded by anybody, in any way.
    problem : Problem or Instance, optional
        The problem of the pulls; an instance gives the truth too.
    candidate : index or name, optional
        The recommendation; by default the candidate that looks best.
    instance : Instance, optional
        The truth, if it is known.
    seed : int
        For overlaps of the events, which have no closed form.

    Returns
    -------
    LowerBound

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> arms = [0, 2] * 500
    >>> history = bf.History(instance.problem, arms, *instance.pull(arms, seed=0))
    >>> found = check(history, instance.problem, instance=instance)
    >>> print(found.candidate, found.mistake, f"{found.true.efficiency:.2f}")
    0 4 better 0.65
    """
    _check.kind("pulls", pulls, History, Posterior)
    posterior = pulls.posterior() if isinstance(pulls, History) else pulls
    if isinstance(problem, Instance):
        if instance is not None and instance != problem:
            raise ValueError("instance: another truth than that of problem")
        instance = problem
    elif problem is not None and problem != posterior.problem:
        raise ValueError("problem: the pulls were recorded on another problem")
    if instance is not None and instance.problem != posterior.problem:
        raise ValueError("instance: the pulls were recorded on another problem")
    problem = posterior.problem
    choice = posterior.best() if candidate is None else _check.candidate(problem, candidate)
    counts, total = posterior.counts, posterior.pulls
    shares = counts / total if total else np.zeros(len(counts))
    notes = _notes(posterior, choice)
    log_error, standard_error, lower, upper, mistake = _error(posterior, choice, seed)
    estimated = _estimated(posterior, choice, shares)
    if estimated is not None and -log_error > estimated.rate * total:
        notes.append(
            "-log P / pulls is above Γ: luck, or a polynomial factor, which matter less and less"
        )
    return LowerBound(
        pulls=total,
        candidate=None if choice is None else problem.name(choice),
        log_error=log_error,
        standard_error=standard_error,
        lower=lower,
        upper=upper,
        mistake=mistake,
        decay=-log_error / total if total else math.nan,
        allocation=dict(zip(map(str, problem.coords["arm"]), shares.tolist(), strict=True)),
        estimated=estimated,
        true=None if instance is None or not total else _bound(instance, shares),
        correct=None if instance is None else _correct(instance, choice),
        notes=notes,
    )


def _error(
    posterior: Posterior, choice: int | None, seed: int
) -> tuple[float, float, float, float, str]:
    """Log-probability of a mistake, its standard error and bounds, and the likeliest mistake."""
    if choice is None:
        some, none = log_feasible(posterior, np.random.default_rng(seed))
        name = posterior.problem.name(likeliest_feasible(posterior))
        return some, math.nan, -math.inf, min(0.0, some - none), f"{name} feasible"
    error = Alternative(posterior.problem, choice).log_probability(posterior, seed)
    return error.value, error.standard_error, error.lower, error.upper, error.likeliest


def _estimated(posterior: Posterior, choice: int | None, shares: Any) -> Bound | None:
    if choice is None or not posterior.pulls:
        return None
    try:
        estimate = posterior.estimate()
    except ValueError:  # it lies beyond the parameter radius
        return None
    if estimate.best is None or not posterior.problem.copies(choice)[estimate.best]:
        return None
    return _bound(estimate, shares)


def _bound(instance: Instance, shares: Any) -> Bound:
    optimum = quiet_rate(instance)
    each = exponents(instance, xr.DataArray(shares, dims="arm"))
    smallest = float(each.min())
    problem = instance.problem
    efficiency = smallest / optimum.value if 0 < optimum.value < math.inf else math.nan
    hardest = problem.name(int(np.argmin(each.values))) if math.isfinite(smallest) else "none"
    best = "none" if instance.best is None else problem.name(instance.best)
    return Bound(smallest, optimum.value, efficiency, hardest, best)


def _correct(instance: Instance, choice: int | None) -> bool:
    if instance.best is None:
        return choice is None
    return choice is not None and bool(instance.problem.copies(instance.best)[choice])


def _notes(posterior: Posterior, choice: int | None) -> list[str]:
    notes, problem = [], posterior.problem
    best = posterior.best()
    if choice is not None and (best is None or not problem.copies(choice)[best]):
        looks = "no candidate looks feasible" if best is None else f"{problem.name(best)} does"
        notes.append(f"{problem.name(choice)} does not look best at the posterior mean: {looks}")
    if not posterior.pulls:
        notes.append("nothing was pulled, so this is the prior")
    if posterior.missing.any():
        notes.append("exponents take every pull to show everything, but some outcomes are missing")
    if problem.parameter_radius is not None:
        notes.append("exponents and rates take the parameters as unbounded; the error does not")
    return notes


def _bound_lines(bound: Bound, pulls: int) -> list[str]:
    lines = [
        f"  best feasible candidate          {bound.best}",
        f"  the allocation's exponent        {bound.exponent:.6g} nats per pull, "
        f"held back by {bound.hardest}",
        f"  the best there can be, Γ         {bound.rate:.6g}",
    ]
    if math.isfinite(bound.efficiency):
        saved = pulls * min(bound.efficiency, 1.0)
        number = f"{saved:,.0f}" if saved >= 10 else f"{saved:.2g}"
        lines.append(
            f"  efficiency                       {100 * bound.efficiency:.4g} %: the optimal "
            f"allocation is as fast with {_pulls(number)}"
        )
    return lines


def _pulls(number: str) -> str:
    return f"{number} pull" if number == "1" else f"{number} pulls"


def _probability(log_probability: float) -> str:
    if log_probability > math.log(0.01):
        return f"{math.exp(log_probability):.3g}"
    if log_probability > -600:
        return f"{math.exp(log_probability):.2g}"
    if log_probability == -math.inf:
        return "0"
    return f"10^{log_probability / math.log(10):.0f}"
