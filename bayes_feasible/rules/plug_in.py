r"""PlugIn: track the allocation that would be optimal if the posterior means were the truth.

The allocation is the solution of the rate, :math:`\arg\max_w \min_z f(w, z)`, at the posterior
means, solved for again at rounds that grow by a half. Garivier and Kaufmann, Optimal best arm
identification with fixed confidence, COLT 2016.
"""

from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import plug_in_allocation
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.saving import check_shares
from bayes_feasible.rules.selection import track
from bayes_feasible.simulation.world import pull

REPLAN = 1.5  # factor between the rounds at which the allocation is solved for again


class Options(NamedTuple):
    """What a round depends on."""

    exploration: float  # round t mixes in a share t^-exploration of the G-optimal design


class Memory(NamedTuple):
    """The plan, and how far it was followed."""

    plan: Array  # (arm,): the allocation that is tracked
    lag: Array  # (arm,): how far behind its cumulative share each arm is
    due: NDArray[np.int64]  # (1,): the round before which the next plan is made


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """Track the plan, which is made outside; see `PlugIn._plan`."""
    state.clock[0] += 1
    explore = float(state.clock[0]) ** -options.exploration
    return track(memory.lag, memory.plan, geo.design, explore, work.allowed)


@njit(**DOOR)
def ask(options, memory, geo, state, work, rng):
    """One step."""
    return choose(options, memory, geo, state, work, rng)


@njit(**DOOR)
def run(options, memory, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """Rounds until a new plan is due, at most so many; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for done in range(rounds):
        if state.clock[0] + 1 >= memory.due[0]:
            return done
        arm = choose(options, memory, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


class PlugIn(Rule):
    """Tracks the allocation that would be optimal if the posterior means were the truth.

    It is solved for again at rounds that grow by a half.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    exploration : float
        The G-optimal design is mixed in at rate `t^-exploration`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> rule = bf.PlugIn(instance.problem, seed=0)
    >>> for pull in range(300):
    ...     arm = rule.ask()
    ...     rewards, costs = instance.pull([arm], seed=pull)
    ...     rule.tell(arm, rewards[0], costs[0])
    >>> rule.posterior.counts.tolist()
    [73, 0, 194, 33, 0]
    """

    settings: ClassVar[tuple[str, ...]] = ("exploration",)
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        exploration: float = 0.5,
        recommendation: str = "mean",
    ) -> None:
        self.exploration = _check.positive("exploration", exploration)
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        return Options(self.exploration)

    def _remember(self) -> Any:
        arms = len(self.problem.arms)
        return Memory(np.full(arms, 1.0 / arms), np.zeros(arms), np.ones(1, dtype=np.int64))

    def _check_memory(self) -> None:
        check_shares("plan", self._memory.plan)

    def _plan(self) -> None:
        if self._state.clock[0] + 1 < self._memory.due[0]:
            return
        shares = None
        with suppress(ValueError):  # it lies beyond the parameter radius
            shares = plug_in_allocation(self._estimate())
        self._memory.plan[:] = self._geometry.design if shares is None else shares
        now = int(self._state.clock[0]) + 1
        self._memory.due[0] = max(now + 1, int(np.ceil(REPLAN * now)))

    def _estimate(self) -> Instance:
        """What the truth would be if the posterior means were it."""
        size = 1 + self.problem.thresholds.size
        theta, noise = np.zeros((size, self.problem.arms.shape[1])), np.ones(size)
        theta[self._geometry.columns] = self._state.means @ self.problem.basis.T
        noise[self._geometry.columns] = self._state.noise
        learnt = np.isnan(self.problem.noise)
        return Instance(
            self.problem, theta[0], theta[1:],
            reward_noise=noise[0] if learnt[0] else None,
            cost_noise=noise[1:] if learnt[1:].any() else None,
        )  # fmt: skip
