"""The simulated world: what pulls show, as data, and the rounds of any rule in it."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._at_once import interpreted
from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.compiled import BORROWER, COUNTING
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.rules.base import Rule, announce_first
from bayes_feasible.rules.engine import KINDS, learn
from bayes_feasible.rules.mode import BERNOULLI, POISSON

SLICE = 2_000_000  # numbers touched between two looks at Ctrl-C: a tenth of a second or so


class World(NamedTuple):
    """What pulls show: draws from their outcomes; rewards from the table if it has columns."""

    rewards: Array  # (arm,): means
    costs: Array  # (arm, constraint): means
    noise: Array  # (1 + constraint,): standard deviations
    kind: NDArray[np.int64]  # (1 + constraint,): see `engine.KINDS`
    table: Array  # (arm, entry): rewards that were really given, rows filled up
    entries: NDArray[np.int64]  # (arm,): how many there are in each row


def world_of(instance: Instance) -> World:
    """The world of an instance."""
    problem = instance.problem
    rewards, costs = problem.arms @ instance.theta_reward, problem.arms @ instance.theta_cost.T
    for j, outcome in enumerate(problem.outcomes[1:]):
        costs[:, j] = outcome.mean(costs[:, j])
    return World(
        problem.outcomes[0].mean(rewards),
        np.ascontiguousarray(costs),
        instance.noise.copy(),
        np.array([KINDS[outcome.kind] for outcome in problem.outcomes], dtype=np.int64),
        np.empty((len(problem.arms), 0)),
        np.zeros(len(problem.arms), dtype=np.int64),
    )


@njit(**COUNTING)
def draw_count(mean, rng):
    """A Poisson count. Numba's own generator makes lists, which no borrower can."""
    return float(rng.poisson(mean))


@njit(**BORROWER, forceinline=True)
def draw_outcome(kind, mean, noise, rng):
    """What one pull shows of one outcome."""
    if kind == BERNOULLI:
        return 1.0 if rng.random() < mean else 0.0
    if kind == POISSON:
        return draw_count(mean, rng)
    return mean + noise * rng.standard_normal()


@njit(**BORROWER, forceinline=True)
def draw_outcomes(world, reward_rng, cost_rng, arm, costs):
    """What one pull shows: the reward is returned, the costs are written.

    Rewards and costs have generators of their own, so that a constraint that never binds changes
    no reward.
    """
    if world.table.shape[1] > 0:
        reward = world.table[arm, int(reward_rng.random() * world.entries[arm])]
    else:
        reward = draw_outcome(world.kind[0], world.rewards[arm], world.noise[0], reward_rng)
    for j in range(costs.size):
        kind, noise = world.kind[1 + j], world.noise[1 + j]
        costs[j] = draw_outcome(kind, world.costs[arm, j], noise, cost_rng)
    return reward


@njit(**BORROWER, forceinline=True)
def pull(geo, state, work, world, reward_rng, cost_rng, arm, costs):
    """Pull an arm and learn from it."""
    reward = draw_outcomes(world, reward_rng, cost_rng, arm, costs)
    learn(geo, state, work, arm, reward, costs)


class Environment:
    """The true arms, with noise of their own for rewards and for costs.

    Parameters
    ----------
    instance : Instance
        Where its class has a `pull` of its own, every outcome comes from that.
    rewards, costs : seeds
    world : World, optional
        What pulls show instead of what the instance's outcomes say.

    Attributes
    ----------
    pulls : how often each arm was pulled
    """

    def __init__(
        self, instance: Instance, rewards: Any, costs: Any, world: World | None = None
    ) -> None:
        self.instance = instance
        self.world = world_of(instance) if world is None else world
        self.reward_rng, self.cost_rng = map(np.random.default_rng, (rewards, costs))
        arms, constraints = self.world.costs.shape
        self.pulls: NDArray[np.int64] = np.zeros(arms, dtype=np.int64)
        self._reward_sums, self._cost_sums = np.zeros(arms), np.zeros((arms, constraints))
        self._own_pull = world is None and type(instance).pull is not Instance.pull
        self._known = None if instance.problem.textbook else Posterior(instance.problem)

    def pull(self, arm: int) -> tuple[float, Array]:
        """The reward and the costs of one pull."""
        if self._own_pull:
            _, rewards, table = _check.pulls(
                self.instance.problem, [arm], *self.instance.pull([arm], self.reward_rng),
                ("arm", "reward of pull()", "costs of pull()"), missing=self._known is not None,
            )  # fmt: skip
            return float(rewards[0]), table[0]
        costs = np.empty(self._cost_sums.shape[1])
        draw = interpreted(draw_outcomes)
        return float(draw(self.world, self.reward_rng, self.cost_rng, arm, costs)), costs

    def play(self, rule: Any, rounds: int) -> None:
        """So many rounds: compiled for our own rules, one call a round for others."""
        if _is_compiled(rule) and not self._own_pull:
            self._run(rule, rounds)
            return
        for _ in range(rounds):
            arm = _check.index("ask()", rule.ask(), len(self.pulls), "arm")
            reward, costs = self.pull(arm)
            rule.tell(arm, reward, costs)
            self.pulls[arm] += 1
            if self._known is not None:  # it needs more than sums
                self._known.update(arm, reward, costs)
                continue
            self._reward_sums[arm] += reward
            self._cost_sums[arm] += costs

    def posterior(self, rule: Any) -> Posterior:
        """The posterior after the pulls; for one of our own rules, after what it goes by."""
        if isinstance(rule, Rule):
            return rule.posterior
        if self._known is not None:
            return self._known
        posterior = Posterior(self.instance.problem)
        posterior.counts[:] = self.pulls
        posterior.reward_sums[:], posterior.cost_sums[:] = self._reward_sums, self._cost_sums
        return posterior

    def _run(self, rule: Rule, rounds: int) -> None:
        """Compiled rounds, in slices: Ctrl-C waits for the end of one."""
        run, size = type(rule)._run, max(1, SLICE // rule._geometry.candidates.size)
        while rounds:
            rule._plan()
            with announce_first(run, rule), undisturbed():
                rounds -= run(
                    rule._options, rule._memory, rule._geometry, rule._state, rule._work, rule._rng,
                    self.world, self.reward_rng, self.cost_rng, min(rounds, size),
                )  # fmt: skip
        self.pulls[:] = rule._state.pulls


def _is_compiled(rule: Any) -> bool:
    """Whether a rule is ours as it is, not a subclass that asks or tells in its own way."""
    own = type(rule)
    return isinstance(rule, Rule) and own.ask is Rule.ask and own.tell is Rule.tell
