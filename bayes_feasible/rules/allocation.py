"""Pulls drawn from one allocation: any, uniform, G-optimal, or the optimal one."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.engine import pick_arm
from bayes_feasible.simulation.world import pull


class Options(NamedTuple):
    """What a round depends on."""

    allocation: Array  # (arm,): shares


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """An arm drawn from the allocation."""
    state.clock[0] += 1
    return pick_arm(options.allocation, work.allowed, rng)


@njit(**DOOR)
def ask(options, memory, geo, state, work, rng):
    """One step."""
    return choose(options, memory, geo, state, work, rng)


@njit(**DOOR)
def run(options, memory, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose(options, memory, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


class FixedAllocation(Rule):
    """Pulls drawn from one allocation.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    allocation : vector over arms
        Shares with sum 1; in the order of the arms, or by their names.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"low": [1, 0.2], "high": [1, 0.9]})
    >>> bf.FixedAllocation(problem, allocation={"high": 1.0, "low": 0.0}).ask(3).tolist()
    [1, 1, 1]
    """

    settings: ClassVar[tuple[str, ...]] = ("allocation_followed",)
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        allocation: Any = None,
        recommendation: str = "mean",
    ) -> None:
        self.allocation_followed = allocation
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        shares = self.allocation_followed
        if shares is None:
            shares = self._default(problem)
        shares = _check.allocation(self.problem, shares)
        self.allocation_followed = shares.tolist()
        return Options(shares)

    def _resume(self, settings: Mapping[str, Any]) -> None:
        shares = settings["allocation_followed"]
        _check.allocation(self.problem, shares)
        self._options.allocation[:] = shares  # not scaled to sum 1 once more
        self.allocation_followed = self._options.allocation.tolist()

    def _default(self, problem: Problem | Instance) -> Any:
        raise ValueError("allocation: expected shares, one an arm, got None")


class _OwnAllocation(FixedAllocation):
    """Pulls drawn from an allocation that follows from the arms."""

    def __init__(
        self, problem: Problem | Instance, seed: Any = 0, *, recommendation: str = "mean"
    ) -> None:
        super().__init__(problem, seed, recommendation=recommendation)


class Uniform(_OwnAllocation):
    """Every arm is as likely as every other.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.Uniform(bf.instances.end_of_optimism().problem).allocation_followed
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """

    def _default(self, problem: Problem | Instance) -> Any:
        return np.full(len(self.problem.arms), 1.0 / len(self.problem.arms))


class GOptimal(_OwnAllocation):
    """Pulls drawn from the G-optimal design.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.GOptimal(bf.instances.end_of_optimism(alpha=0.3).problem)
    >>> [round(share, 3) for share in rule.allocation_followed]
    [0.303, 0.0, 0.303, 0.395, 0.0]
    """

    def _default(self, problem: Problem | Instance) -> Any:
        return self._geometry.design


class Oracle(FixedAllocation):
    """Pulls drawn from the optimal allocation, which takes an Instance (or the allocation).

    Parameters
    ----------
    problem : Instance, or Problem where the allocation is given
    seed, recommendation
        See `Rule`.
    allocation : vector over arms, optional
        The shares to follow, where they are known.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.Oracle(bf.instances.end_of_optimism(alpha=0.3))
    >>> [round(share, 3) for share in rule.allocation_followed]
    [0.131, 0.0, 0.869, 0.0, 0.0]
    """

    def _default(self, problem: Problem | Instance) -> Any:
        if not isinstance(problem, Instance):
            raise ValueError("problem: Oracle needs an Instance, whose truth it knows")
        return optimal_rate(problem).arrays[0]
