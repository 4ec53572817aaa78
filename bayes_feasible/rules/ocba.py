r"""OCBA-CO: optimal computing budget allocation for constrained optimisation.

L. H. Lee, N. A. Pujowidianto, L.-W. Li, C.-H. Chen and C. M. Yap, Approximate simulation budget
allocation for selecting the best design in the presence of stochastic constraints, IEEE
Transactions on Automatic Control 57, 2012. Without constraints it is the OCBA of C.-H. Chen, J.
Lin, E. Yücesan and S. E. Chick, 2000.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.phases import rank, require_arms_are_candidates
from bayes_feasible.rules.saving import check_shares
from bayes_feasible.rules.selection import track
from bayes_feasible.simulation.world import pull

SLIGHT = 1e-6  # a signal, in standard deviations, below which two arms are as good as equal


class Memory(NamedTuple):
    """The shares, and how far they were followed."""

    plan: Array  # (arm,)
    lag: Array  # (arm,): how far behind its cumulative share each arm is
    due: NDArray[np.int64]  # (1,): the round before which the next shares are made


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """Track the shares, which are made outside; see `OCBA._plan`."""
    state.clock[0] += 1
    return track(memory.lag, memory.plan, geo.design, 0.0, work.allowed)


@njit(**DOOR)
def ask(options, memory, geo, state, work, rng):
    """One step."""
    return choose(options, memory, geo, state, work, rng)


@njit(**DOOR)
def run(options, memory, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """Rounds until new shares are due, at most so many; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for done in range(rounds):
        if state.clock[0] + 1 >= memory.due[0]:
            return done
        arm = choose(options, memory, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


class OCBA(Rule):
    r"""OCBA-CO: each rival's share by what excludes it more clearly, its reward or a cost.

    A rival gets a share :math:`1/s^2`, with the larger of its signals :math:`s`, in standard
    deviations of one pull: how far its reward lies below the best, or a cost above its limit. The
    best gets :math:`\sigma_b \sqrt{\sum_i N_i^2 / \sigma_i^2}` over the rivals excluded by reward,
    or what its own feasibility asks for, if that is more. The shares are made again every few pulls
    and tracked.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`. The arms are the candidates.
    first : int
        Pulls of each arm before the first shares.
    every : int
        Pulls between shares.

    References
    ----------
    Lee, Pujowidianto, Li, Chen and Yap, 2012; Chen, Lin, Yücesan and Chick, 2000.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.OCBA(bf.Problem([[1, 0], [0, 1]]), first=2)
    >>> rule.ask(4).tolist()
    [0, 1, 0, 1]
    """

    settings: ClassVar[tuple[str, ...]] = ("first", "every")
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        first: int = 5,
        every: int = 10,
        recommendation: str = "mean",
    ) -> None:
        self.first = _check.count("first", first, most=_check.LARGEST_COUNT)
        self.every = _check.count("every", every, most=_check.LARGEST_COUNT)
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        require_arms_are_candidates(self)
        return ()

    def _remember(self) -> Any:
        arms = len(self.problem.arms)
        due = np.full(1, arms * self.first + 1, dtype=np.int64)
        return Memory(np.full(arms, 1.0 / arms), np.zeros(arms), due)

    def _check_memory(self) -> None:
        check_shares("plan", self._memory.plan)

    def _plan(self) -> None:
        now = int(self._state.clock[0]) + 1
        if now >= self._memory.due[0]:
            self._memory.plan[:] = self._shares()
            self._memory.due[0] = now + self.every

    def _shares(self) -> Array:
        """The shares that the posterior means ask for."""
        state, geometry = self._state, self._geometry
        sd = state.noise[:, np.newaxis] / np.sqrt(state.info)  # of one pull, on the natural scale
        means, limits = state.candidate_means, geometry.limits[:, np.newaxis]
        excess = np.max((means[1:] - limits) / sd[1:], axis=0, initial=-np.inf)
        best = int(rank(self, means)[0])
        if excess[best] > 0:  # none looks feasible: show that none is
            weights = 1.0 / np.maximum(excess, SLIGHT) ** 2
            return weights / weights.sum()
        gap = (means[0, best] - means[0]) / sd[0]
        weights = 1.0 / np.maximum(np.maximum(gap, excess), SLIGHT) ** 2
        by_reward = gap >= excess
        by_reward[best] = False
        weights[best] = sd[0, best] * np.sqrt(np.sum((weights / sd[0])[by_reward] ** 2))
        if np.isfinite(excess[best]):
            weights[best] = max(weights[best], 1.0 / max(-excess[best], SLIGHT) ** 2)
        total = weights.sum()
        return weights / total if total > 0 else np.full(weights.size, 1.0 / weights.size)
