"""BestResponse: the nearest alternative to the posterior means against AdaHedge, tracked.

As BLFAIPS, but the min-learner answers with the nearest alternative in closed form instead of a
draw, and the arm that lags most behind its cumulative share is pulled instead of a random one.
Degenne, Koolen and Ménard, Non-asymptotic pure exploration by solving games, NeurIPS 2019, have
the game; AdaHedge's rounds are weighed by their number here.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import bound_events
from bayes_feasible.rules.engine import NOBODY, leader_or_random
from bayes_feasible.rules.hedge import learn_loss, start_learner
from bayes_feasible.rules.saving import check_learner
from bayes_feasible.rules.selection import nearest_event, separate, track
from bayes_feasible.simulation.world import pull


class Options(NamedTuple):
    """What a round depends on."""

    exploration: float  # round t mixes in a share t^-exploration of the G-optimal design


class Memory(NamedTuple):
    """A `Learner`, and what tracking keeps."""

    losses: Array
    weights: Array
    gap: Array
    lag: Array  # (arm,): how far behind its cumulative share each arm is


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The nearest alternative against the max-learner's weights, tracked.

    Round t counts t times in the max-learner, so that it forgets what early, noisy means made
    of the game; without that it is still unlearning them after thousands of rounds.
    """
    state.clock[0] += 1
    rounds = float(state.clock[0])
    explore = rounds**-options.exploration
    leader = leader_or_random(state.candidate_means, geo.limits, rng)
    bound_events(geo, state, work, leader, 1.0)
    event = nearest_event(work.bounds)
    arm = track(memory.lag, memory.weights, geo.design, explore, work.allowed)
    if event != NOBODY:
        separate(geo, state, work, leader, event)
        for i in range(work.loss.size):
            work.loss[i] *= rounds
        learn_loss(0.0, memory, work.loss)
    return arm


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


class BestResponse(Rule):
    """The nearest alternative to the posterior means against AdaHedge, tracked.

    As BLFAIPS, but the min-learner answers with the nearest alternative instead of a draw, and
    the arm that lags most behind its cumulative share is pulled instead of a random one.

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
    >>> rule = bf.BestResponse(instance.problem, seed=0)
    >>> for pull in range(300):
    ...     arm = rule.ask()
    ...     rewards, costs = instance.pull([arm], seed=pull)
    ...     rule.tell(arm, rewards[0], costs[0])
    >>> rule.posterior.counts.tolist()
    [27, 0, 244, 28, 1]
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
        return Memory(*start_learner(arms), np.zeros(arms))

    def _check_memory(self) -> None:
        check_learner(self._memory)
