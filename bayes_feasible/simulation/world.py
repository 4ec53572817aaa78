"""The simulated world: what pulls show, as data, and the rounds of any rule in it."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._at_once import interpreted
from bayes_feasible._check import Array
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.compiled import BORROWER
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.rules.base import Rule, announce_first
from bayes_feasible.rules.engine import KINDS, learn
from bayes_feasible.rules.mode import BERNOULLI, POISSON
from bayes_feasible.sums import stack_rows

SMALL_RATE = 10.0  # below it a Poisson variable takes about as many uniforms
BLOCK = 4096  # rounds of anybody's rule that the posterior takes in together
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


@njit(**BORROWER)
def draw_count(rate, rng):
    """A Poisson variable (NumPy's own needs memory that compiled rounds do not manage).

    Small rates by products of uniforms; others by transformed rejection: W. Hörmann, Insurance:
    Mathematics and Economics 12, 1993.
    """
    if rate < SMALL_RATE:
        count, product, least = -1.0, 1.0, math.exp(-rate)
        while product > least or count < 0.0:
            product *= rng.random()
            count += 1.0
        return count
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    scale, sure = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u, v = rng.random() - 0.5, 1.0 - rng.random()
        edge = 0.5 - abs(u)
        if edge == 0.0:
            continue
        count = float(math.floor((2.0 * a / edge + b) * u + rate + 0.43))
        if edge >= 0.07 and v <= sure:
            return count
        if count < 0.0 or (edge < 0.013 and v > edge):
            continue
        height = math.log(v * scale / (a / (edge * edge) + b))
        if height <= count * math.log(rate) - rate - math.lgamma(count + 1.0):
            return count


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
        self.pulls: NDArray[np.int64] = np.zeros(len(self.world.costs), dtype=np.int64)
        self._own_pull = world is None and type(instance).pull is not Instance.pull
        self._known = Posterior(instance.problem)

    def pull(self, arm: int) -> tuple[float, Array]:
        """The reward and the costs of one pull."""
        if self._own_pull:
            problem = self.instance.problem
            _, rewards, table = _check.pulls(
                problem, [arm], *self.instance.pull([arm], self.reward_rng),
                ("arm", "reward of pull()", "costs of pull()"), missing=not problem.textbook,
            )  # fmt: skip
            return float(rewards[0]), table[0]
        costs = np.empty(self.world.costs.shape[1])
        draw = interpreted(draw_outcomes)
        return float(draw(self.world, self.reward_rng, self.cost_rng, arm, costs)), costs

    def play(self, rule: Any, rounds: int) -> None:
        """So many rounds: compiled for our own rules, one call a round for others."""
        if _is_compiled(rule) and not self._own_pull:
            self._run(rule, rounds)
            return
        while rounds:
            block = min(rounds, BLOCK)
            self._play(rule, block)
            rounds -= block

    def _play(self, rule: Any, rounds: int) -> None:
        """Rounds of anybody's rule; the posterior takes them in together, which is cheaper."""
        arms, shown = np.empty(rounds, dtype=np.int64), np.empty((rounds, self.world.noise.size))
        for i in range(rounds):
            arm = _check.index("ask()", rule.ask(), len(self.pulls), "arm")
            reward, costs = self.pull(arm)
            arms[i], shown[i, 0], shown[i, 1:] = arm, reward, costs
            rule.tell(arm, reward, costs)
        self.pulls += np.bincount(arms, minlength=self.pulls.size)
        self._known._add(stack_rows(self.instance.problem, arms, shown[:, 0], shown[:, 1:]))

    def take(self, rule: Any, arm: int) -> None:
        """One pull of this arm, which the rule is told."""
        reward, costs = self.pull(arm)
        rule.tell(arm, reward, costs)
        self.pulls[arm] += 1
        if not isinstance(rule, Rule):
            self._known.update(arm, reward, costs)

    def recommended(self, rule: Any) -> int:
        """The candidate that a rule recommends, -1 for none."""
        if isinstance(rule, Rule):
            return rule._choice()
        answer = rule.recommend()
        answer = getattr(answer, "candidate", answer)  # it may pass on what one of ours recommends
        if answer is None:
            return -1
        candidates = len(self.instance.problem.candidates)
        return _check.index("recommend()", answer, candidates, "candidate")

    def posterior(self, rule: Any) -> Posterior:
        """The posterior after the pulls; for one of our own rules, after what it goes by."""
        return rule.posterior if isinstance(rule, Rule) else self._known

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
