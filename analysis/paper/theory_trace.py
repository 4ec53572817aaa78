r"""BLFAIPS, watched: every round's pull, and the sums that the paper's regret terms are made of.

The same steps as the rule, in the same order and with the same generators, so that a trace shows
what the rule does, bit for bit. What a round expects of its posterior, which the rule does not
need, is estimated with draws of its own. In units of the noise, with :math:`\theta` drawn given
that the empirical best candidate is not best, an arm :math:`x` gains

.. math:: g_t(x) = \langle x, \theta_1 - \hat\theta_t^r\rangle^2 / \sigma^2
                   + \sum_j \langle x, \theta_{2,j} - \hat\theta_{t,j}^c\rangle^2 / \gamma_j^2 .
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numba import njit

from bayes_feasible._check import Array
from bayes_feasible.analysis.paper.theory_rate import parameters
from bayes_feasible.instance import Instance
from bayes_feasible.rules.blfaips import BLFAIPS, drawn_loss
from bayes_feasible.rules.draws import draw_alternative
from bayes_feasible.rules.engine import NOBODY, leader_or_random, learn, pick
from bayes_feasible.rules.hedge import learn_loss
from bayes_feasible.rules.triangle import inner
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.world import draw_outcomes, world_of

# Sums over rounds, by arm: what the draw of the rule would gain, what a draw gains on average,
# the same about the truth instead of the posterior mean, and given that the true best is not best.
DRAWN, EXPECTED, ABOUT_TRUTH, GIVEN_BEST = range(4)
BY_ARM = ("drawn", "expected", "about_truth", "given_best")
# Sums over rounds, of gains under shares: "own" are AdaHedge's weights, "mixed" what is pulled.
SCALARS = (
    "expected_mixed", "drawn_own", "drawn_mixed", "given_best_mixed", "given_best_pulled",
    "largest_gain", "wrong_rounds", "last_wrong", "drawn_variance",
)  # fmt: skip


@njit(cache=True, error_model="numpy")
def _add_expected(geo, state, work, rng, leader, scale, draws, truth, gains, about):
    """Add each arm's mean gain over so many draws, about the posterior means and the truth."""
    for _ in range(draws):
        if draw_alternative(geo, state, work, rng, leader, scale) == NOBODY:
            return
        for arm in range(len(geo.arms)):
            for b in range(len(work.draw)):
                drawn = inner(geo.arms, arm, work.draw, b)
                off = inner(geo.arms, arm, state.means, b) / geo.noise[b]
                off -= inner(geo.arms, arm, truth, b)
                gains[arm] += drawn**2 / draws
                about[arm] += (drawn + off) ** 2 / draws


@njit(cache=True, error_model="numpy")
def _watch(options, learner, geo, state, work, rng, world, reward_rng, cost_rng, extra_rng, best,
           truth, draws, times, pulled, shown, by_arm, scalars):  # fmt: skip
    """Play the rounds up to the last of `times` and write down what happens."""
    arms = len(geo.arms)
    seen = np.empty(world.costs.shape[1])
    sums, totals = np.zeros(by_arm.shape[1:]), np.zeros(scalars.shape[1])
    gains, about, own, mixed = np.zeros(arms), np.zeros(arms), np.zeros(arms), np.zeros(arms)
    given, unused = np.zeros(arms), np.zeros(arms)
    checkpoint = 0
    for t in range(times[-1]):
        state.clock[0] += 1
        explore = float(state.clock[0]) ** -options.exploration
        leader = leader_or_random(state.candidate_means, geo.limits, rng)
        gains[:] = 0.0
        about[:] = 0.0
        if draws > 0:
            _add_expected(geo, state, work, extra_rng, leader, options.scale, draws, truth,
                          gains, about)  # fmt: skip
        right = geo.same[leader] == geo.same[best]
        given[:] = gains
        if draws > 0 and not right:
            given[:] = 0.0
            _add_expected(geo, state, work, extra_rng, best, options.scale, draws, truth,
                          given, unused)  # fmt: skip
        event = draw_alternative(geo, state, work, rng, leader, options.scale)
        arm = pick(geo.design if rng.random() < explore else learner.weights, 1.0, rng)
        mean, square = 0.0, 0.0
        work.loss[:] = 0.0
        if event != NOBODY:
            drawn_loss(geo.arms, state.info, work.draw, work.loss)
        for x in range(arms):
            own[x] = learner.weights[x]
            mixed[x] = (1.0 - explore) * own[x] + explore * geo.design[x]
            gain = -work.loss[x]
            sums[DRAWN, x] += gain
            sums[EXPECTED, x] += gains[x]
            sums[ABOUT_TRUTH, x] += about[x]
            sums[GIVEN_BEST, x] += given[x]
            totals[0] += gains[x] * mixed[x]
            totals[1] += gain * own[x]
            totals[2] += gain * mixed[x]
            totals[3] += given[x] * mixed[x]
            totals[5] = max(totals[5], gain)
            mean += own[x] * gain
            square += own[x] * gain * gain
        totals[4] += given[arm]
        if not right:
            totals[6] += 1.0
            totals[7] = t + 1.0
        totals[8] += max(square - mean * mean, 0.0)
        if event != NOBODY:
            learn_loss(0.0, learner, work.loss)
        reward = draw_outcomes(world, reward_rng, cost_rng, arm, seen)
        pulled[t], shown[t, 0] = arm, reward
        for j in range(seen.size):
            shown[t, 1 + j] = seen[j]
        learn(geo, state, work, arm, reward, seen)
        if t + 1 == times[checkpoint]:
            by_arm[checkpoint] = sums
            scalars[checkpoint] = totals
            checkpoint += 1


def watch(
    instance: Instance, times: Any, seed: np.random.SeedSequence, *, eta: Any = "paper",
    draws: int = 4,
) -> xr.Dataset:  # fmt: skip
    """Run BLFAIPS once, with all that the lemmas speak of.

    The sums are written down after the rounds `times`, the last of which is the length of the run.
    With the seed that `bayes_feasible.simulate` gives a replicate the same pulls come out. `draws`
    a round estimate what it expects; 0 leaves the expectations out.

    Gives over `round`: `pulled` and, over (`round`, `block`), `shown`, reward first; over (`time`,
    `arm`) and `time`: sums over the rounds so far, see `BY_ARM` and `SCALARS`.
    """
    problem = instance.problem
    own, noise, costs, _, extra = streams.split(seed)
    rule = BLFAIPS(instance, seed=own, eta=eta)
    geo = rule._geometry
    theta = parameters(instance)
    truth = theta[geo.columns] @ problem.basis / geo.noise[:, np.newaxis]
    times = np.asarray(times, dtype=np.int64)
    pulled = np.empty(times[-1], dtype=np.int64)
    shown = np.empty((times[-1], len(theta)))
    by_arm = np.empty((times.size, len(BY_ARM), len(problem.arms)))
    scalars = np.empty((times.size, len(SCALARS)))
    play: Callable[..., None] = _watch
    play(
        rule._options, rule._memory, geo, rule._state, rule._work, rule._rng,
        world_of(instance),
        *map(np.random.default_rng, (noise, costs, extra)), instance.best,
        np.ascontiguousarray(truth), draws, times, pulled, shown, by_arm, scalars,
    )  # fmt: skip
    return xr.Dataset(
        {name: (("time", "arm"), by_arm[:, i]) for i, name in enumerate(BY_ARM)}
        | {name: ("time", scalars[:, i]) for i, name in enumerate(SCALARS)}
        | {"pulled": ("round", pulled), "shown": (("round", "block"), shown)},
        coords={"time": times, "arm": problem.coords["arm"]},
    )


def sum_up(instance: Instance, run: xr.Dataset, length: int) -> tuple[Array, Array]:
    """Compute the precision after so many rounds, and sums of outcome times arm, by block."""
    arms = instance.problem.arms
    pulled, shown = run.pulled.values[:length], run.shown.values[:length]
    counts = np.bincount(pulled, minlength=len(arms))
    sums = np.array([np.bincount(pulled, column, minlength=len(arms)) for column in shown.T])
    return np.eye(arms.shape[1]) + arms.T @ (counts[:, np.newaxis] * arms), sums @ arms
