"""PEPS: pure exploration with projection-free sampling (Li et al. 2024).

BLFAIPS without constraint. Where the horizon is unknown it restarts at rounds 1, 2, 4, ...; and
its max-learner may have a fixed learning rate instead of AdaHedge's.
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
from bayes_feasible.rules.blfaips import BLFAIPS, play_game
from bayes_feasible.rules.engine import refresh
from bayes_feasible.simulation.world import pull


class Options(NamedTuple):
    """What a round depends on."""

    scale: float  # of the posterior covariance: 1 / eta
    exploration: float  # round t explores with probability t^-exploration
    rate: float  # fixed learning rate of the max-learner; 0 is AdaHedge
    restart: int  # 1 forgets the weights at rounds 1, 2, 4, ...; 2 the data too; 0 nothing


class Memory(NamedTuple):
    """A `Learner`, and when it was last begun."""

    losses: Array
    weights: Array
    gap: Array
    restarted: NDArray[np.int64]  # (1,): rounds before the last restart


@njit(**BORROWER)
def restart_if_due(options, memory, geo, state, work):
    """Forget the weights at rounds 1, 2, 4, ..., and the data too if the options say so."""
    rounds = state.clock[0] - 1
    if rounds > 0 and rounds & (rounds - 1) == 0:
        memory.restarted[0] = rounds
        memory.losses[:] = 0.0
        memory.gap[0] = 0.0
        memory.weights[:] = 1.0 / memory.weights.size
        if options.restart == 2:
            state.counts[:] = 0
            state.sums[:] = 0.0
            state.missing[:] = 0
            state.squares[:] = 0.0
            refresh(geo, state, work)


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The arm to pull next."""
    state.clock[0] += 1
    if options.restart > 0:
        restart_if_due(options, memory, geo, state, work)
    explore = float(state.clock[0] - memory.restarted[0]) ** -options.exploration
    return play_game(options.scale, explore, options.rate, memory, geo, state, work, rng)


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


class PEPS(BLFAIPS):
    r"""Pure exploration with projection-free sampling: no constraint (Li et al. 2024).

    Parameters
    ----------
    problem, seed, recommendation, eta, exploration, arm_norm, parameter_radius
        See `BLFAIPS`. No constraint of the problem may have a finite threshold.
    horizon : int, optional
        The number of rounds, if it is known. If not, the rule restarts at rounds 1, 2, 4, ...
    learner : {"adahedge", "hedge"}
        The max-learner: AdaHedge, as in its experiments, or exponential weights with the fixed
        rate :math:`\sqrt{8 \ln K / T} / B`, as in its analysis, with :math:`B = 4 L^2 R_1^2 /
        \sigma^2` the range of the losses; that one needs the horizon.
    keep_data : bool
        Whether a restart keeps the pulls before it.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.PEPS(bf.instances.soare(3).problem, seed=0, horizon=100)
    >>> len(rule.ask(10))
    10
    """

    settings: ClassVar[tuple[str, ...]] = (*BLFAIPS.settings, "horizon", "learner", "keep_data")
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        horizon: int | None = None,
        learner: str = "adahedge",
        keep_data: bool = False,
        eta: float | str = "paper",
        exploration: float = 0.25,
        arm_norm: float | None = None,
        parameter_radius: Any = None,
        recommendation: str = "mean",
    ) -> None:
        self.horizon = None
        if horizon is not None:
            self.horizon = _check.count("horizon", horizon, most=_check.LARGEST_COUNT)
        if learner not in ("adahedge", "hedge"):
            raise ValueError(f"learner: expected 'adahedge' or 'hedge', got {learner!r}")
        if learner == "hedge" and horizon is None:
            raise ValueError("horizon: the learner 'hedge' needs it for its learning rate")
        if not isinstance(keep_data, bool):
            raise ValueError(f"keep_data: expected True or False, got {keep_data!r}")
        self.learner, self.keep_data = learner, keep_data
        super().__init__(
            problem, seed, eta=eta, exploration=exploration, arm_norm=arm_norm,
            parameter_radius=parameter_radius, recommendation=recommendation,
        )  # fmt: skip

    def _configure(self, problem: Problem | Instance) -> Any:
        if self._geometry.limits.size:
            raise ValueError(
                "problem: PEPS knows no constraint; use BLFAIPS, which is its constrained form"
            )
        rate, restart = 0.0, 0
        if self.learner == "hedge":
            spread = self._paper_scale() / 2.0
            rounds = float(self.horizon or 1)
            fixed = np.sqrt(8 * np.log(len(self.problem.arms)) / rounds) / spread
            rate = float(max(fixed, 1e-300))
        if self.horizon is None:
            restart = 1 if self.keep_data else 2
        scale, exploration = super()._configure(problem)
        return Options(scale, exploration, rate, restart)

    def _remember(self) -> Any:
        losses, weights, gap = super()._remember()
        return Memory(losses, weights, gap, np.zeros(1, dtype=np.int64))

    def _check_memory(self) -> None:
        super()._check_memory()
        restarted = self._memory.restarted[0]
        if not 0 <= restarted <= self._state.clock[0]:
            raise ValueError(f"restarted: expected a round so far, got {restarted}")
