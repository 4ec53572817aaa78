"""What rules share that work in phases: pull what a phase owes, then drop candidates.

A phase is planned in Python and pulled by a compiled loop. Candidates are ranked by the posterior
means: those that look feasible by reward, above the others by minus their worst standardised
excess over a limit. Where every arm has a feature of its own and the survivors the same number of
pulls, that is the order of their sample means.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rate.d_optimal import g_optimal_shares
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.engine import NOBODY
from bayes_feasible.simulation.world import pull


class Memory(NamedTuple):
    """Where a rule in phases is."""

    owed: NDArray[np.int64]  # (arm,): pulls that are left of the phase
    alive: NDArray[np.int64]  # (candidate,): 1 for those that are not dropped
    phase: NDArray[np.int64]  # (1,): which phase it is, from 1 on; 0 before the first
    counts_before: NDArray[np.int64]  # (arm,): pulls that were told before the phase
    sums_before: Array  # (arm, 1 + constraint): of them


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The allowed arm that is owed most pulls of the phase, the first of several."""
    state.clock[0] += 1
    best = NOBODY
    for arm in range(memory.owed.size):
        if work.allowed[arm] == 1 and (best == NOBODY or memory.owed[arm] > memory.owed[best]):
            best = arm
    memory.owed[best] = max(memory.owed[best] - 1, 0)
    return best


@njit(**DOOR)
def ask(options, memory, geo, state, work, rng):
    """One step."""
    return choose(options, memory, geo, state, work, rng)


@njit(**DOOR)
def run(options, memory, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """Rounds to the end of a phase, at most so many; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for done in range(rounds):
        owed = 0
        for arm in range(memory.owed.size):
            owed += memory.owed[arm]
        if owed == 0:
            return done
        arm = choose(options, memory, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


class Phased(Rule):
    """A rule in phases: how many pulls of which arms, then which candidates to keep.

    After the last phase the survivors are pulled in turn.
    """

    settings: ClassVar[tuple[str, ...]] = ("horizon",)
    _ask = staticmethod(ask)
    _run = staticmethod(run)
    _memory: Memory

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        horizon: int,
        recommendation: str = "mean",
    ) -> None:
        self.horizon = _check.count("horizon", horizon, most=_check.LARGEST_COUNT)
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Any:
        require_arms_are_candidates(self)
        arms = len(self.problem.arms)
        if self.horizon < arms:
            raise ValueError(
                f"horizon: {type(self).__name__} pulls each of the {arms} arms, got {self.horizon}"
            )
        return ()

    def _remember(self) -> Any:
        arms, blocks = self._state.sums.shape
        return Memory(
            np.zeros(arms, dtype=np.int64),
            np.ones(arms, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(arms, dtype=np.int64),
            np.zeros((arms, blocks)),
        )

    def _check_memory(self) -> None:
        memory = self._memory
        if memory.owed.min() < 0 or memory.phase[0] < 0 or memory.counts_before.min() < 0:
            raise ValueError("owed, phase, counts_before: expected no negative number")
        if not np.isin(memory.alive, (0, 1)).all() or not memory.alive.any():
            raise ValueError("alive: expected zeros and ones, with at least one candidate left")

    @property
    def survivors(self) -> NDArray[np.int64]:
        """Indices of the candidates that are left."""
        return np.flatnonzero(self._memory.alive)

    @abstractmethod
    def _phases(self) -> int:
        """How many phases there are."""

    @abstractmethod
    def _pulls(self, phase: int, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often to pull each arm in a phase, given the survivors' indices."""

    @abstractmethod
    def _keep(self, phase: int, alive: NDArray[np.int64]) -> int:
        """How many candidates survive a phase."""

    def _ranked(self) -> NDArray[np.int64]:
        """All candidates, the best first, after a phase."""
        return rank(self, self._state.candidate_means)

    def _plan(self) -> None:
        memory = self._memory
        while not memory.owed.any():
            phase, alive = int(memory.phase[0]), self.survivors
            if 0 < phase <= self._phases():
                order = self._ranked()
                kept = order[np.isin(order, alive)][: self._keep(phase, alive)]
                memory.alive[:] = 0
                memory.alive[kept] = 1
                alive = self.survivors
            memory.phase[0] = min(phase, self._phases()) + 1
            memory.counts_before[:], memory.sums_before[:] = self._state.counts, self._state.sums
            if memory.phase[0] <= self._phases():
                memory.owed[:] = self._pulls(int(memory.phase[0]), alive)
            else:
                memory.owed[alive] = 1


def require_arms_are_candidates(rule: Rule) -> None:
    """Refuse a problem whose candidates are not the arms."""
    if rule.problem.candidates is not rule.problem.arms:
        raise ValueError(
            f"problem: {type(rule).__name__} pulls candidates, so they must be the arms"
        )


def rank(rule: Rule, means: Array) -> NDArray[np.int64]:
    """Candidates by score, the best first: feasible ones by reward, then by smallest excess.

    `means` are over block and candidate, on the scale of the limits.
    """
    limits, noise = rule._geometry.limits[:, np.newaxis], rule._state.noise[1:, np.newaxis]
    worst = np.max((means[1:] - limits) / noise, axis=0, initial=-np.inf)
    feasible = worst <= 0
    return np.lexsort((np.where(feasible, -means[0], worst), ~feasible))


def phase_means(rule: Phased) -> Array:
    """Means of the candidates by least squares on the last phase alone, over block and candidate.

    The posterior means where an outcome is 0/1 or a count, or was not always seen.
    """
    memory, state, geometry = rule._memory, rule._state, rule._geometry
    counts, sums = state.counts - memory.counts_before, state.sums - memory.sums_before
    plain = all(outcome.kind == "gaussian" for outcome in rule.problem.outcomes)
    if not plain or state.missing.any() or not counts.any():
        return state.candidate_means
    pulled = np.flatnonzero(counts > 0)
    root = np.sqrt(counts[pulled])[:, np.newaxis]
    shown = sums[np.ix_(pulled, geometry.columns)] / root
    theta = np.linalg.lstsq(root * geometry.arms[pulled], shown, rcond=None)[0]
    blocks, candidates = geometry.noise.size, len(geometry.candidates)
    rows = geometry.place[:, np.newaxis] * candidates + np.arange(candidates)
    return np.stack([geometry.vectors[rows[b]] @ theta[:, b] for b in range(blocks)])


def design_on(rule: Rule, alive: NDArray[np.int64]) -> Array:
    """The G-optimal design on the survivors, in their span: shares over all arms."""
    vectors = rule._geometry.arms[alive]
    shares = np.zeros(len(rule.problem.arms))
    dimension = int(np.linalg.matrix_rank(vectors))
    if dimension == 0:
        shares[alive] = 1.0 / alive.size
        return shares
    basis = np.linalg.svd(vectors, full_matrices=False)[2][:dimension]
    shares[alive] = g_optimal_shares(np.ascontiguousarray(vectors @ basis.T), dimension)[0]
    return shares
