"""BLFAIPS with AdaHedge as the paper prints it, to see what that would do.

The printed update is `λ_{t+1} ∝ λ_t exp(-η_t l_t)` with `η_1 = ∞`. After the first round all
weight is on the arms that lead, and no factor brings a weight of 0 back: the weights are frozen.
Line 14 also calls the mixture with the G-optimal design `λ_t`. Read to the letter the update
then starts from the mixture, which gives every arm of the design a weight again.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWING_DOOR, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.blfaips import BLFAIPS, play_game
from bayes_feasible.rules.hedge import Learner
from bayes_feasible.simulation.world import pull


class Options(NamedTuple):
    """What a round depends on."""

    scale: float  # of the posterior covariance: 1 / eta
    exploration: float  # round t explores with probability t^-exploration
    overwrite: int  # 1 updates the mixture that was sampled from instead of the weights


class Memory(NamedTuple):
    """A `Learner` by whose weights arms are drawn, and the printed update of them.

    The rule's own AdaHedge runs along unused.
    """

    losses: Array
    weights: Array
    gap: Array
    printed: Array  # (arm,): weights
    printed_gap: Array  # (1,)


@njit(**BORROWING_DOOR)
def printed_update(weights, loss, gap):
    """Weights after one round of the printed update, in place; the new gap is returned."""
    least, expected, total = np.inf, 0.0, 0.0
    rate = math.log(loss.size) / gap if gap > 0.0 else np.inf
    for i in range(loss.size):
        expected += weights[i] * loss[i]
        if weights[i] > 0.0:
            least = min(least, loss[i])
    for i in range(loss.size):
        if rate == np.inf:
            factor = 1.0 if loss[i] == least else 0.0
        else:
            factor = math.exp(-rate * (loss[i] - least))
        weights[i] = weights[i] * factor if weights[i] > 0.0 else 0.0
        total += weights[i]
    mixed = least if rate == np.inf else least - math.log(total) / rate
    for i in range(loss.size):
        weights[i] /= total
    return gap + max(expected - mixed, 0.0)


@njit(**DOOR)
def ask(options, memory, geo, state, work, rng):
    """A round of BLFAIPS; then its weights are replaced by the printed ones."""
    state.clock[0] += 1
    explore = float(state.clock[0]) ** -options.exploration
    arm = play_game(options.scale, explore, 0.0, memory, geo, state, work, rng)
    printed = memory.printed
    if options.overwrite == 1:
        for i in range(printed.size):
            printed[i] = (1.0 - explore) * printed[i] + explore * geo.design[i]
    memory.printed_gap[0] = printed_update(printed, work.loss, memory.printed_gap[0])
    for i in range(printed.size):
        memory.weights[i] = printed[i]
    return arm


@njit(**DOOR)
def run(options, memory, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = ask(options, memory, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


class PrintedAdaHedge(BLFAIPS):
    """BLFAIPS with the printed update of the weights.

    With `overwrite` it starts from the mixture that was sampled from, instead of the weights.
    """

    settings: ClassVar[tuple[str, ...]] = (*BLFAIPS.settings, "overwrite")
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self, problem: Problem | Instance, seed: Any = 0, *, overwrite: bool = False, **options: Any
    ) -> None:
        self.overwrite = bool(overwrite)
        super().__init__(problem, seed, **options)

    def _configure(self, problem: Problem | Instance) -> Any:
        scale, exploration = super()._configure(problem)
        return Options(scale, exploration, int(self.overwrite))

    def _remember(self) -> Any:
        learner: Learner = super()._remember()
        return Memory(*learner, learner.weights.copy(), np.zeros(1))
