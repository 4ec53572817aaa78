"""Which arm to pull next: a compiled step for each rule, and the loop around it.

`choose_...` names an arm and moves the state on. It has two doors for Python: `ask_...` is one
step, `run_...` is the whole experiment: choose, pull, learn.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, BORROWING_DOOR, DOOR
from bayes_feasible.rules.engine import (
    HALF,
    LEADER,
    NOBODY,
    SOLVED,
    bound_events,
    draw_alternative,
    draw_posterior,
    drawn_best,
    forward,
    inner,
    learn,
    mean_best,
    pick,
    refresh,
    solve,
)
from bayes_feasible.rules.hedge import adahedge, weigh


class Options(NamedTuple):
    """Numbers that a rule's step depends on; each takes what it needs."""

    scale: float = 1.0  # of the posterior covariance in draws from the alternative set
    exploration: float = 0.25  # round t explores with probability t^-exploration
    beta: float = 0.5  # share of the leader in TopTwo
    information: int = 0  # TopTwo pulls the arm that tells leader and challenger apart
    rate: float = 0.0  # fixed learning rate of the max-learner; 0 is AdaHedge
    restart: int = 0  # 1 doubles: forget weights at rounds 1, 2, 4, ...; 2 forgets the data too


@njit(**BORROWER)
def pull_for(geo, state, work, candidate):
    """The arm to pull to learn about a candidate: itself, or what lowers its variance most."""
    if geo.shared == 1:
        return candidate
    spare = work.spare
    solve(state.lower, geo.candidates, candidate, spare, spare, SOLVED)
    best, value = 0, -1.0
    for arm in range(len(geo.arms)):
        along = inner(geo.arms, arm, spare, SOLVED)
        forward(state.lower, geo.arms, arm, spare, HALF)
        gain = along * along / (1.0 + inner(spare, HALF, spare, HALF))
        if gain > value:
            best, value = arm, gain
    return best


@njit(**BORROWER)
def leader_or_random(candidate_means, thresholds, rng):
    """The empirical best feasible candidate; a random one if none looks feasible."""
    leader = mean_best(candidate_means, thresholds)
    if leader == NOBODY:
        leader = int(rng.random() * candidate_means.shape[1])
    return leader


@njit(**BORROWER)
def nearest_event(bounds):
    """The event whose nearest parameters the pulls so far tell apart most slowly, or NOBODY."""
    nearest, least = NOBODY, np.inf
    for e in range(len(bounds)):
        square = 0.0
        for b in range(bounds.shape[1]):
            square += max(bounds[e, b], 0.0) ** 2
        if square < least:
            nearest, least = e, square
    return nearest


@njit(**BORROWER)
def lowest(values):
    """The index of the smallest value."""
    best = 0
    for i in range(values.size):
        if values[i] < values[best]:
            best = i
    return best


@njit(**BORROWER)
def separate(geo, state, work, leader, event):
    """Loss of each arm: minus what a pull tells of the event's nearest parameters.

    For a half-space with vector `a` that lies `bound` standard deviations off, a pull of `x`
    tells `bound² <x, V^-1 a>² / (a V^-1 a)`. Where the means already lie in the event there is
    no nearest point, and its half-spaces count alike.
    """
    constraints, spare = geo.thresholds.size, work.spare
    outside = False
    for b in range(1 + constraints):
        outside |= work.bounds[event, b] > 0.0
    for arm in range(len(geo.arms)):
        work.loss[arm] = 0.0
    for b in range(1 + constraints):
        least = work.bounds[event, b]
        if least == -np.inf or (outside and least <= 0.0):
            continue
        row, square = LEADER, state.variances[leader]
        if event >= constraints:
            z = event - constraints
            row, square = SOLVED, solve(state.lower, geo.candidates, z, spare, spare, SOLVED)
            if b == 0:
                square = work.distance[z]
                for i in range(len(state.lower)):
                    spare[SOLVED, i] -= spare[LEADER, i]
        weight = (least * least if outside else 1.0) / square
        for arm in range(len(geo.arms)):
            work.loss[arm] -= weight * inner(geo.arms, arm, spare, row) ** 2


@njit(**BORROWER, forceinline=True)
def drawn_loss(arms, draw, loss):
    """Loss of each arm against the parameters drawn: `-Σ_b <x, draw_b>²`."""
    for arm in range(len(arms)):
        loss[arm] = 0.0
        for b in range(len(draw)):
            loss[arm] -= inner(arms, arm, draw, b) ** 2


@njit(**BORROWER)
def hedge(rate, losses, weights, gap, loss):
    """Move the max-learner on."""
    if rate > 0.0:
        for i in range(loss.size):
            losses[i] += loss[i]
        weigh(losses, rate, weights)
    else:
        gap[0] = adahedge(losses, weights, gap[0], loss)


@njit(**BORROWER)
def track(lag, shares, design, explore):
    """The arm that lags most behind its cumulative share of shares mixed with exploration."""
    best = 0
    for arm in range(shares.size):
        lag[arm] += (1.0 - explore) * shares[arm] + explore * design[arm]
        if lag[arm] > lag[best]:
            best = arm
    lag[best] -= 1.0
    return best


@njit(**BORROWER)
def restart(options, geo, state, work):
    """Forget the weights at rounds 1, 2, 4, ..., and the data too if the options say so."""
    rounds = state.clock[0] - 1
    if rounds > 0 and rounds & (rounds - 1) == 0:
        state.clock[2] = rounds
        state.losses[:] = 0.0
        state.gap[0] = 0.0
        state.weights[:] = 1.0 / state.weights.size
        if options.restart == 2:
            state.counts[:] = 0
            state.sums[:] = 0.0
            refresh(geo, state, work)


@njit(**BORROWER)
def choose_game(options, geo, state, work, rng):
    """BLFAIPS and PEPS: a draw from the alternative set against the max-learner's weights."""
    state.clock[0] += 1
    if options.restart > 0:
        restart(options, geo, state, work)
    explore = float(state.clock[0] - state.clock[2]) ** -options.exploration
    leader = leader_or_random(state.candidate_means, geo.thresholds, rng)
    event = draw_alternative(geo, state, work, rng, leader, options.scale)
    arm = pick(geo.design if rng.random() < explore else state.weights, 1.0, rng)
    if event != NOBODY:
        drawn_loss(geo.arms, work.draw, work.loss)
        hedge(options.rate, state.losses, state.weights, state.gap, work.loss)
    return arm


@njit(**BORROWER)
def choose_best_response(options, geo, state, work, rng):
    """The nearest alternative against the max-learner's weights, tracked.

    Round t counts t times in the max-learner, so that it forgets what early, noisy means made
    of the game; without that it is still unlearning them after thousands of rounds.
    """
    state.clock[0] += 1
    rounds = float(state.clock[0])
    explore = rounds**-options.exploration
    leader = leader_or_random(state.candidate_means, geo.thresholds, rng)
    bound_events(geo, state, work, leader, 1.0)
    event = nearest_event(work.bounds)
    arm = track(state.lag, state.weights, geo.design, explore)
    if event != NOBODY:
        separate(geo, state, work, leader, event)
        for i in range(work.loss.size):
            work.loss[i] *= rounds
        hedge(options.rate, state.losses, state.weights, state.gap, work.loss)
    return arm


@njit(**BORROWER)
def choose_top_two(options, geo, state, work, rng):
    """A leader from one draw, a challenger from a draw under which the leader is not best."""
    state.clock[0] += 1
    draw_posterior(rng, state.lower, 1.0, work.spare, work.draw)
    leader = drawn_best(geo.candidates, state.candidate_means, work.draw, geo.noise, geo.thresholds)
    if leader == NOBODY:
        leader = leader_or_random(state.candidate_means, geo.thresholds, rng)
    if options.information == 1:
        if rng.random() < float(state.clock[0]) ** -options.exploration:
            return pick(geo.design, 1.0, rng)
    elif rng.random() < options.beta:
        return pull_for(geo, state, work, leader)
    event = draw_alternative(geo, state, work, rng, leader, 1.0)
    if event == NOBODY:
        return pull_for(geo, state, work, leader)
    if options.information == 1:
        separate(geo, state, work, leader, event)
        return lowest(work.loss)
    challenger = drawn_best(
        geo.candidates, state.candidate_means, work.draw, geo.noise, geo.thresholds
    )
    if challenger == NOBODY:
        challenger = int(rng.random() * len(geo.candidates))
    return pull_for(geo, state, work, challenger)


@njit(**BORROWER)
def choose_thompson(options, geo, state, work, rng):
    """The best feasible candidate of one posterior draw."""
    state.clock[0] += 1
    draw_posterior(rng, state.lower, 1.0, work.spare, work.draw)
    candidate = drawn_best(
        geo.candidates, state.candidate_means, work.draw, geo.noise, geo.thresholds
    )
    if candidate == NOBODY:
        candidate = int(rng.random() * len(geo.candidates))
    return pull_for(geo, state, work, candidate)


@njit(**BORROWER)
def choose_fixed(options, geo, state, work, rng):
    """An arm drawn from one allocation."""
    state.clock[0] += 1
    return pick(state.plan, 1.0, rng)


@njit(**BORROWER)
def choose_plug_in(options, geo, state, work, rng):
    """Track the plan, which is made outside; see `plan_due`."""
    state.clock[0] += 1
    explore = float(state.clock[0]) ** -options.exploration
    return track(state.lag, state.plan, geo.design, explore)


@njit(**BORROWING_DOOR)
def plan_due(state):
    """Whether PlugIn must solve for its allocation before the next round."""
    return state.clock[0] + 1 >= state.clock[3]


@njit(**DOOR)
def recommend_drawn(geo, state, work, rng):
    """The best feasible candidate of one posterior draw, or NOBODY."""
    draw_posterior(rng, state.lower, 1.0, work.spare, work.draw)
    return drawn_best(geo.candidates, state.candidate_means, work.draw, geo.noise, geo.thresholds)


class World(NamedTuple):
    """The true arms: means, and noise by block."""

    rewards: Array  # (arm,)
    costs: Array  # (arm, constraint)
    noise: Array  # (1 + constraint,)


@njit(**BORROWER)
def pull(geo, state, work, world, reward_rng, cost_rng, arm, seen):
    """Pull an arm and learn from it.

    Rewards and costs have generators of their own, so that a constraint that never binds changes
    no reward.
    """
    reward = world.rewards[arm] + world.noise[0] * reward_rng.standard_normal()
    for j in range(seen.size):
        seen[j] = world.costs[arm, j] + world.noise[1 + j] * cost_rng.standard_normal()
    learn(geo, state, work, arm, reward, seen)


@njit(**DOOR)
def ask_game(options, geo, state, work, rng):
    """One step."""
    return choose_game(options, geo, state, work, rng)


@njit(**DOOR)
def run_game(options, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds of BLFAIPS or PEPS; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose_game(options, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


@njit(**DOOR)
def ask_best_response(options, geo, state, work, rng):
    """One step."""
    return choose_best_response(options, geo, state, work, rng)


@njit(**DOOR)
def run_best_response(options, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds of BestResponse; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose_best_response(options, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


@njit(**DOOR)
def ask_top_two(options, geo, state, work, rng):
    """One step."""
    return choose_top_two(options, geo, state, work, rng)


@njit(**DOOR)
def run_top_two(options, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds of TopTwo; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose_top_two(options, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


@njit(**DOOR)
def ask_thompson(options, geo, state, work, rng):
    """One step."""
    return choose_thompson(options, geo, state, work, rng)


@njit(**DOOR)
def run_thompson(options, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds of LinearThompson; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose_thompson(options, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


@njit(**DOOR)
def ask_fixed(options, geo, state, work, rng):
    """One step."""
    return choose_fixed(options, geo, state, work, rng)


@njit(**DOOR)
def run_fixed(options, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds of pulls from one allocation; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose_fixed(options, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


@njit(**DOOR)
def ask_plug_in(options, geo, state, work, rng):
    """One step."""
    return choose_plug_in(options, geo, state, work, rng)


@njit(**DOOR)
def run_plug_in(options, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """Rounds of PlugIn until a new plan is due; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for done in range(rounds):
        if plan_due(state):
            return done
        arm = choose_plug_in(options, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds
