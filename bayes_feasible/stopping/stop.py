"""When an experiment may end, and why."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible.alternative.union import Union
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.recommendation import format_probability
from bayes_feasible.stopping.budget import log_overturned
from bayes_feasible.stopping.error import log_error
from bayes_feasible.stopping.likelihood import log_evidence
from bayes_feasible.stopping.slack import (
    Epsilon,
    best_within,
    mistakes,
    read_epsilon,
    slack_of,
)


@dataclass(frozen=True, eq=False)
class Decision:
    """Whether an experiment may end; true where it may.

    Attributes
    ----------
    reason : str
        "error", "delta", "futility" or "pulls", the first that applies; "" where it goes on.
    candidate : int or None
        The answer that this is about; None: that no candidate is feasible.
    name : str
    pulls : int
        So far.
    log_error : float
        Log-probability that the answer is wrong (by more than epsilon); NaN where not asked.
    log_evidence : float
        The smallest log-evidence against a mistake, to compare with log(1/delta); NaN where not
        asked.
    log_overturned : float
        Log of a bound on the probability that the pulls left change the answer; NaN where not
        asked.
    findings : tuple of str
        A sentence for each condition.
    """

    reason: str
    candidate: int | None
    name: str
    pulls: int
    log_error: float
    log_evidence: float
    log_overturned: float
    findings: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.reason)

    def __str__(self) -> str:
        head = f"Stop ({self.reason}), answer: {self.name}." if self else "Go on."
        return " ".join([head, *self.findings])

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and texts, by name.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> posterior = bf.Posterior(bf.Problem([[1, 0], [0, 1]]))
        >>> bf.Stop(pulls=10).check(posterior).to_dict()["findings"]
        ['0 of 10 pulls.']
        """
        fields = asdict(self) | {"stop": bool(self), "findings": list(self.findings)}
        return {name: None if value != value else value for name, value in fields.items()}


@dataclass(frozen=True)
class Stop:
    r"""Reasons to end an experiment; the first that applies ends it.

    Parameters
    ----------
    error : float, optional
        Stop when the posterior probability that the answer is wrong is at most this. Among
        experiments stopped so at most this share is wrong, however often one looks, if truths are
        as the prior says.
    epsilon : float or dict of outcome names to floats, optional
        With `error` or `delta`: an answer counts as wrong only if a feasible candidate is better
        by more than epsilon, or if it exceeds a limit by more. So ties can end. Limits are
        relaxed in the units of their outcome (those relative to a candidate on the natural scale);
        rewards are compared on the natural scale: a difference of means, of logits, of logarithms
        of rates. The answer may then be the best candidate within the relaxed limits, if that is
        surer than the recommended one.
    delta : float, optional
        Stop when the evidence against every mistake exceeds :math:`\log(1/\delta)`. Whatever
        the truth, the answer is then wrong with probability at most delta, whatever the rule and
        however often one looks: a generalised likelihood ratio against a proved threshold, see
        `bayes_feasible.stopping.likelihood`.
    futility : float, optional
        With `pulls`: stop when the probability that the pulls left change the answer is at most
        this: no rival overtakes, or no candidate is found feasible. A bound that is proved for
        Gaussian outcomes of known noise, an approximation for others.
    pulls : int, optional
        The most pulls.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> rule, stop = bf.Descent(instance.problem), bf.Stop(error=0.05, pulls=1000)
    >>> while not rule.done(stop):
    ...     arm = rule.ask()
    ...     rewards, costs = instance.pull([arm], seed=rule.posterior.pulls)
    ...     rule.tell(arm, rewards[0], costs[0])
    >>> print(rule.done(stop))
    Stop (error), answer: 0. P(error) = 0.045, at most 0.05. 97 of 1000 pulls.
    """

    error: float | None = None
    epsilon: Epsilon = None
    delta: float | None = None
    futility: float | None = None
    pulls: int | None = None

    def __post_init__(self) -> None:
        for name in ("error", "delta", "futility"):
            if (value := getattr(self, name)) is not None:
                number = _check.positive(name, value)
                if number >= 1:
                    raise ValueError(f"{name}: expected a number below 1, got {value!r}")
                object.__setattr__(self, name, number)
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if self.pulls is not None:
            most = _check.LARGEST_COUNT
            object.__setattr__(self, "pulls", _check.count("pulls", self.pulls, most=most))
        if self.futility is not None and self.pulls is None:
            raise ValueError("futility: expected with pulls, the budget that it looks ahead to")
        if self.epsilon is not None and self.error is None and self.delta is None:
            raise ValueError("epsilon: expected with error or delta, whose mistakes it excuses")
        if all(one is None for one in (self.error, self.delta, self.pulls)):
            raise ValueError("Stop: expected at least one of error, delta and pulls")

    def check(self, posterior: Posterior, choice: Any = ..., seed: Any = 0) -> Decision:
        """Whether to stop now.

        Parameters
        ----------
        posterior : Posterior
        choice : index or name of a candidate, or None, optional
            The answer; None: that no candidate is feasible. By default the best of the posterior
            means.
        seed : int, SeedSequence or Generator
            Of the estimate of the probability of error.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> posterior = bf.Posterior(bf.Problem({"a": [1, 0], "b": [0, 1]}))
        >>> posterior.update(["a", "b"], [14.0, 6.0], count=10)
        >>> print(bf.Stop(error=0.05).check(posterior))
        Stop (error), answer: a. P(error) = 0.044, at most 0.05.
        >>> print(bf.Stop(delta=0.05).check(posterior))
        Go on. Evidence against the likeliest mistake: a factor of 0.22, not yet 20.
        >>> bool(bf.Stop(error=0.01, pulls=20).check(posterior, "a"))
        True
        """
        _check.kind("posterior", posterior, Posterior)
        if choice is ...:
            choice = posterior.best()
        elif choice is not None:
            choice = _check.candidate(posterior.problem, choice, name="choice")
        rng = _check.generator("seed", seed)
        return Monitor(self, posterior.problem).check(posterior, choice, rng)

    def to_dict(self) -> dict[str, Any]:
        """What was given, by name.

        Examples
        --------
        >>> Stop(error=0.05, pulls=100).to_dict()
        {'error': 0.05, 'pulls': 100}
        """
        return {name: value for name, value in asdict(self).items() if value is not None}


class Monitor:
    """A stop that is checked again and again on one problem."""

    def __init__(self, stop: Stop, problem: Problem) -> None:
        _check.kind("stop", stop, Stop)
        self.stop, self.problem = stop, problem
        self.slack = slack_of(problem, stop.epsilon)
        self._unions: dict[tuple[int | None, bool], Union] = {}

    def ended(
        self, posterior: Posterior, choice: int | None, rng: np.random.Generator
    ) -> Decision | None:
        """The decision to stop, or None: what is not needed for it is not computed."""
        stop = self.stop
        if stop.error is not None or stop.delta is not None:
            for answer in self._answers(posterior, choice):
                if self._sure(posterior, answer, rng):
                    return self.check(posterior, choice, rng)
        futile = stop.futility is not None and self._overturned(posterior, choice) <= math.log(
            stop.futility
        )
        if futile or (stop.pulls is not None and posterior.pulls >= stop.pulls):
            return self.check(posterior, choice, rng)
        return None

    def _sure(self, posterior: Posterior, answer: int | None, rng: np.random.Generator) -> bool:
        stop, union = self.stop, self._union(answer)
        if stop.error is not None:
            target = math.log(stop.error)
            if log_error(union, posterior, rng, target) <= target:
                return True
        return stop.delta is not None and (
            log_evidence(union.events, posterior) >= -math.log(stop.delta)
        )

    def check(self, posterior: Posterior, choice: int | None, rng: np.random.Generator) -> Decision:
        """The decision, with all its numbers."""
        stop, pulls = self.stop, posterior.pulls
        reason, answer, numbers, findings = "", choice, (np.nan, np.nan), []
        for one in self._answers(posterior, choice):
            found, (error, evidence) = self._judge(posterior, one, rng)
            if found or one == choice:
                reason, answer, numbers = found, one, (error, evidence)
            if found:
                break
        if stop.error is not None:
            findings.append(self._say_error(numbers[0]))
        if stop.delta is not None:
            findings.append(self._say_evidence(numbers[1]))
        overturned = np.nan
        if stop.futility is not None:
            overturned = self._overturned(posterior, choice)
            if not reason and overturned <= math.log(stop.futility):
                reason = "futility"
            findings.append(self._say_futility(overturned, choice, pulls))
        if stop.pulls is not None:
            if not reason and pulls >= stop.pulls:
                reason = "pulls"
            findings.append(f"{pulls} of {stop.pulls} pulls.")
        name = "none" if answer is None else self.problem.name(answer)
        return Decision(reason, answer, name, pulls, *numbers, overturned, tuple(findings))

    def _judge(
        self, posterior: Posterior, answer: int | None, rng: np.random.Generator
    ) -> tuple[str, tuple[float, float]]:
        stop, reason, error, evidence = self.stop, "", np.nan, np.nan
        union = self._union(answer)
        if stop.error is not None:
            error = log_error(union, posterior, rng)
            reason = "error" if error <= math.log(stop.error) else ""
        if stop.delta is not None:
            evidence = log_evidence(union.events, posterior)
            reason = reason or ("delta" if evidence >= -math.log(stop.delta) else "")
        return reason, (error, evidence)

    def _answers(self, posterior: Posterior, choice: int | None) -> list[int | None]:
        """The answer, and the one within relaxed limits where that is another."""
        if not self.slack.any():
            return [choice]
        theta = np.vstack([posterior.theta_reward, posterior.theta_cost])
        other = best_within(self.problem, theta, self.slack)
        return [choice] if other in (None, choice) else [choice, other]

    def _union(self, answer: int | None, *, strict: bool = False) -> Union:
        """The mistakes of an answer; strictly, or by more than the slack."""
        if (answer, strict) not in self._unions:
            slack = np.zeros_like(self.slack) if strict else self.slack
            events = mistakes(self.problem, answer, slack)
            self._unions[answer, strict] = Union(self.problem, events)
        return self._unions[answer, strict]

    def _overturned(self, posterior: Posterior, choice: int | None) -> float:
        assert self.stop.pulls is not None
        left = max(self.stop.pulls - posterior.pulls, 0)
        if choice != posterior.best():  # the means would have it otherwise already
            return 0.0
        return log_overturned(self._union(choice, strict=True).events, posterior, left)

    def _wrong(self) -> str:
        return "P(error)" if not self.slack.any() else "P(error by more than epsilon)"

    def _say_error(self, log_probability: float) -> str:
        assert self.stop.error is not None
        side = "at most" if log_probability <= math.log(self.stop.error) else "above"
        shown = format_probability(log_probability)
        return f"{self._wrong()} = {shown}, {side} {self.stop.error:g}."

    def _say_evidence(self, evidence: float) -> str:
        assert self.stop.delta is not None
        wanted = 1 / self.stop.delta
        side = "at least" if evidence >= math.log(wanted) else "not yet"
        shown = "infinite" if evidence == np.inf else format_probability(evidence)
        return f"Evidence against the likeliest mistake: a factor of {shown}, {side} {wanted:.4g}."

    def _say_futility(self, log_probability: float, choice: int | None, pulls: int) -> str:
        assert self.stop.pulls is not None
        assert self.stop.futility is not None
        left, shown = max(self.stop.pulls - pulls, 0), format_probability(log_probability)
        what = "some candidate is found feasible" if choice is None else "the answer changes"
        side = "at most" if log_probability <= math.log(self.stop.futility) else "above"
        return f"P({what} within the {left} pulls left) <= {shown}, {side} {self.stop.futility:g}."
