"""Which arms may be pulled now, and why others may not."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative import general
from bayes_feasible.alternative.events import Events
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

SHARED = 1000  # choices of a rule behind shares: they are known to 1 in 1000


class Batch(NamedTuple):
    """How a batch of pulls is made of what a rule chooses."""

    pulls: int
    allowed: list[int] | None = None  # arms that the rule chooses among; None: all
    first: tuple[int, ...] = ()  # pulls that complete a cohort before the rule chooses
    cohort: int = 1
    shares: bool = False

    @property
    def choices(self) -> int:
        """How many arms the rule chooses."""
        rest = self.pulls - len(self.first)
        return min(rest, SHARED) if self.shares else -(-rest // self.cohort)

    def spread(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pulls, from the arms that the rule chose."""
        rest = self.pulls - len(self.first)
        if self.shares and rest:
            seen = np.bincount(chosen) / chosen.size
            return np.repeat(np.arange(seen.size), whole_pulls(seen, rest))
        repeated = np.repeat(chosen, self.cohort)[:rest]
        return np.concatenate([np.array(self.first, dtype=np.int64), repeated])


def whole_pulls(shares: Array, number: int) -> NDArray[np.int64]:
    """So many pulls in these shares: rounded down, the largest remainders get one more."""
    wanted = shares * number
    pulls = np.floor(wanted).astype(np.int64)
    order = np.argsort(-(wanted - pulls), kind="stable")
    pulls[order[: number - int(pulls.sum())]] += 1
    return pulls


@dataclass(frozen=True)
class Safety:
    """Which arms may be asked for; all that is given must hold.

    Parameters
    ----------
    allowed : indices or names of arms, optional
        Only these.
    order : indices or names of arms, optional
        No skipping: each of them only after `before` pulls of the one before it were told.
    before : int
    risk : float, optional
        Only arms of which the posterior probability that a limit is exceeded is at most this.
    cohort : int
        So many pulls of an arm, told or asked for, before another one. A cohort is broken off when
        its arm may no longer be asked for.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> doses = {"5 mg": [1, 0.25], "10 mg": [1, 0.5], "20 mg": [1, 1]}
    >>> problem = bf.Problem(doses, {"toxicity": 0.5}, cost_noise=0.3)
    >>> safety = bf.Safety(order=["5 mg", "10 mg", "20 mg"], before=3, risk=0.5, cohort=3)
    >>> rule = bf.Descent(problem)
    >>> rule.ask(3, allowed=safety)
    array([0, 0, 0])
    >>> rule.tell([0, 0, 0], [0.2, 0.4, 0.3], [0.1, 0.3, 0.1])
    >>> rule.ask(3, allowed=safety)
    array([1, 1, 1])
    """

    allowed: Sequence[int | str] | None = None
    order: Sequence[int | str] | None = None
    before: int = 1
    risk: float | None = None
    cohort: int = 1

    def __post_init__(self) -> None:
        for name in ("allowed", "order"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, str):
                raise TypeError(f"{name}: expected a list of arms, got {value!r}")
            object.__setattr__(self, name, tuple(np.asarray(value).tolist()))
        for name in ("before", "cohort"):
            number = _check.count(name, getattr(self, name), most=_check.LARGEST_COUNT)
            object.__setattr__(self, name, number)
        if self.risk is not None and not 0 <= _check.numbers("risk", self.risk) <= 1:
            raise ValueError(f"risk: expected a probability, got {self.risk!r}")

    def why_not(self, posterior: Posterior, pending: Any = None) -> dict[str, str]:
        """The arms that may not be asked for now, each with a sentence that says why.

        Parameters
        ----------
        posterior : Posterior
        pending : whole numbers over arms, optional
            Pulls that were asked for and not yet told: they count in cohorts.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> problem = bf.Problem({"5 mg": [1, 0.25], "20 mg": [1, 1]}, {"toxicity": 0.5})
        >>> safety = bf.Safety(order=["5 mg", "20 mg"], before=3)
        >>> safety.why_not(bf.Posterior(problem))
        {'20 mg': 'only after 3 pulls of 5 mg, of which there were 0'}
        """
        _check.kind("posterior", posterior, Posterior)
        guard = Guard(self, posterior.problem)
        refusals = guard.refusals(posterior, guard.read_pending(pending))
        names = posterior.problem.coords["arm"]
        return {str(names[arm]): why for arm, why in enumerate(refusals) if why}

    def to_dict(self) -> dict[str, Any]:
        """What was given, by name.

        Examples
        --------
        >>> Safety(order=["5 mg", "10 mg"], before=3).to_dict()
        {'order': ['5 mg', '10 mg'], 'before': 3, 'cohort': 1}
        """
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}


class Guard:
    """A safety on one problem, its names looked up."""

    def __init__(self, safety: Safety, problem: Problem) -> None:
        self.safety, self.problem = safety, problem
        self.names = [str(name) for name in problem.coords["arm"]]
        self.listed = np.ones(len(problem.arms), dtype=bool)
        if safety.allowed is not None:
            self.listed[:] = False
            self.listed[_listed(problem, "allowed", safety.allowed)] = True
        self.order = np.empty(0, dtype=np.int64)
        if safety.order is not None:
            self.order = _listed(problem, "order", safety.order)
            if np.unique(self.order).size < self.order.size:
                raise ValueError("order: expected every arm once")
        self.events = Events.that_each_arm_is_feasible(problem) if safety.risk is not None else None

    @property
    def fixed(self) -> bool:
        """Whether it asks of nothing but the list of arms."""
        safety = self.safety
        return safety.order is None and safety.risk is None and safety.cohort == 1

    def read_pending(self, value: Any) -> NDArray[np.int64]:
        """Whole numbers over arms, 0 where nothing is given."""
        if value is None:
            return np.zeros(len(self.names), dtype=np.int64)
        number = _check.numbers("pending", value)
        if number.shape != self.listed.shape or number.min() < 0 or np.any(number % 1):
            raise ValueError(f"pending: expected a whole number for each arm, got {value!r}")
        return number.astype(np.int64)

    def refusals(self, posterior: Posterior, pending: NDArray[np.int64]) -> list[str]:
        """Why each arm may not be asked for; empty where it may."""
        refused = self._lasting(posterior)
        unfinished = self._unfinished(posterior, pending, refused)
        if unfinished.size:
            first = int(unfinished[0])
            done = (posterior.counts + pending)[first] % self.safety.cohort
            why = f"{self.names[first]} first completes its cohort, {done} of {self.safety.cohort}"
            for arm in np.setdiff1d(np.arange(len(refused)), unfinished):
                refused[arm] = refused[arm] or why
        return refused

    def plan(
        self, posterior: Posterior, pending: NDArray[np.int64], pulls: int, *,
        shares: bool = False,
    ) -> Batch:  # fmt: skip
        """How to make a batch of so many pulls; refuses if no arm may be asked for."""
        cohort = self.safety.cohort
        if shares and cohort > 1:
            raise ValueError("shares: expected a cohort of 1, for shares break cohorts up")
        refused = self._lasting(posterior)
        allowed = [arm for arm, why in enumerate(refused) if not why]
        if not allowed:
            each = "\n".join(
                f"  {name}: {why}." for name, why in zip(self.names, refused, strict=True)
            )
            raise Refused(f"no arm may be asked for now:\n{each}")
        first: list[int] = []
        for arm in self._unfinished(posterior, pending, refused).tolist():
            missing = cohort - int((posterior.counts + pending)[arm] % cohort)
            first += [arm] * min(missing, pulls - len(first))
        every = len(allowed) == len(refused)
        return Batch(pulls, None if every else allowed, tuple(first), cohort, shares)

    def _lasting(self, posterior: Posterior) -> list[str]:
        """Refusals that only what is told can lift."""
        safety, names, counts = self.safety, self.names, posterior.counts
        refused = ["" if listed else "not among the allowed arms" for listed in self.listed]
        for before, arm in zip(self.order, self.order[1:], strict=False):
            if counts[before] < safety.before and not refused[arm]:
                pulls = f"{safety.before} pull{'s' * (safety.before > 1)}"
                refused[arm] = (
                    f"only after {pulls} of {names[before]}, of which there were {counts[before]}"
                )
        if self.events is not None and safety.risk is not None:
            rest = [arm for arm, why in enumerate(refused) if not why]  # others cost time
            log_feasible = general.event_tails(self.events.take(rest), posterior.blocks)[0]
            for arm, risk in zip(rest, -np.expm1(np.minimum(log_feasible, 0.0)), strict=True):
                if risk > safety.risk:
                    refused[arm] = f"P(a limit is exceeded) = {risk:.2g}, above {safety.risk:g}"
        return refused

    def _unfinished(
        self, posterior: Posterior, pending: NDArray[np.int64], refused: list[str]
    ) -> NDArray[np.int64]:
        """Arms in the middle of a cohort that may still be asked for."""
        rest = (posterior.counts + pending) % self.safety.cohort
        return np.flatnonzero((rest > 0) & np.array([not why for why in refused]))


class Refused(ValueError):
    """No arm may be asked for."""


def read_safety(problem: Problem, allowed: Any) -> Guard | None:
    """What `allowed` stands for: a list of arms, or a Safety."""
    if allowed is None:
        return None
    if isinstance(allowed, Safety):
        return Guard(allowed, problem)
    _listed(problem, "allowed", allowed)
    return Guard(Safety(allowed=allowed), problem)


def _listed(problem: Problem, name: str, value: Any) -> NDArray[np.int64]:
    arms = _check.arms(problem, value, name=name)
    if not arms.size:
        raise ValueError(f"{name}: expected at least one arm, got none")
    return arms
