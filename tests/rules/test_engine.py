"""The compiled posterior and its draws against those of `Posterior` and `Alternative`."""

import numpy as np
import pytest
from helpers import closed_form, gaussian_draws, membership, noise, same_law
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.rules import draws as drawing
from bayes_feasible.rules import engine, selection
from bayes_feasible.rules.engine import NOBODY, REFRESH

FALSE_ALARM = 1e-5  # of each comparison of laws
DRAWS = 20_000


def door(inner):
    """A compiled function that only compiled code can call, for Python."""

    @njit
    def call(*arguments):
        return inner(*arguments)

    return call


bound_events, weigh_events, pick = map(
    door, (drawing.bound_events, drawing.weigh_events, engine.pick)
)
draw_one, nearest_event, separate = map(
    door, (drawing.draw_alternative, selection.nearest_event, selection.separate)
)


@njit
def draw_many(geometry, state, work, rng, leader, scale, draws, events):
    """Deviations from the means over the noise, and the events they come from."""
    for i in range(len(draws)):
        events[i] = drawing.draw_alternative(geometry, state, work, rng, leader, scale)
        draws[i] = work.draw


class Learner:
    """A geometry, its state, scratch space, and the pulls made."""

    def __init__(self, problem):
        self.problem = problem
        self.geometry = engine.geometry(problem)
        self.state = engine.initial_state(problem, self.geometry)
        self.work = engine.scratch(self.geometry)

    def learn(self, arm, reward, costs):
        engine.learn(self.geometry, self.state, self.work, arm, reward, costs)

    def pull(self, arms, rng, theta):
        """Pull these arms under a truth (block, feature)."""
        spread = noise(self.problem)
        for arm in arms:
            shown = theta @ self.problem.arms[arm] + spread * rng.standard_normal(len(theta))
            self.learn(int(arm), shown[0], shown[1:].copy())
        return self

    @property
    def posterior(self):
        sums = self.state.sums
        return bf.Posterior.from_sums(self.problem, self.state.counts, sums[:, 0], sums[:, 1:])

    def bounds(self, leader, scale=1.0):
        bound_events(self.geometry, self.state, self.work, leader, np.sqrt(scale))
        return self.work.bounds

    def draws(self, leader, scale, size, seed):
        """Parameters (draw, block, feature) in the span of the arms, 0 for what never binds."""
        geometry, basis = self.geometry, self.problem.basis
        raw = np.empty((size, *self.work.draw.shape))
        events = np.empty(size, dtype=np.int64)
        rng = np.random.default_rng(seed)
        draw_many(geometry, self.state, self.work, rng, leader, scale, raw, events)
        inside = self.state.means + geometry.noise[:, np.newaxis] * raw
        full = np.zeros((size, 1 + self.problem.thresholds.size, len(basis)))
        full[:, geometry.columns] = inside @ basis.T
        return full, events


def ball(rng, rows, features):
    direction = rng.standard_normal((rows, features))
    return direction / np.linalg.norm(direction, axis=1, keepdims=True) * rng.random((rows, 1))


def problem_of(features, arms, constraints, *, seed=0, others=None, infinite=(), scales=None):
    """A random problem; `others` candidates in the span of the arms, or the arms themselves."""
    rng = np.random.default_rng([seed, features, arms, constraints])
    vectors = ball(rng, arms, features)
    if scales is not None:
        vectors *= np.logspace(*scales, arms)[:, np.newaxis]
    candidates = None
    if others is not None:
        candidates = rng.standard_normal((others, arms)) @ vectors / np.sqrt(arms)
    thresholds = rng.uniform(0.0, 0.5, constraints)
    thresholds[list(infinite)] = np.inf
    return bf.Problem(
        vectors, thresholds, candidates=candidates, reward_noise=0.7,
        cost_noise=rng.uniform(0.5, 2.0, constraints),
    )  # fmt: skip


PROBLEMS = {
    "no constraint": lambda: problem_of(3, 6, 0),
    "one constraint": lambda: problem_of(3, 6, 1),
    "two constraints": lambda: problem_of(2, 5, 2),
    "candidates are not arms": lambda: problem_of(3, 4, 2, others=7),
    "more features than arms": lambda: problem_of(9, 4, 1),
    "one of two never binds": lambda: problem_of(3, 5, 2, infinite=[0]),
    "no one ever binds": lambda: problem_of(3, 5, 2, infinite=[0, 1]),
}


def truth(problem, seed=1):
    rng = np.random.default_rng(seed)
    return 0.3 * rng.standard_normal((1 + problem.thresholds.size, problem.arms.shape[1]))


def learnt(problem, pulls, seed=2):
    rng = np.random.default_rng(seed)
    arms = rng.integers(len(problem.arms), size=pulls)
    return Learner(problem).pull(arms, rng, truth(problem))


def assert_state(learner, tolerance):
    """Means to this share of their standard deviation and size, the rest relatively."""
    problem, state, posterior = learner.problem, learner.state, learner.posterior
    basis, blocks = problem.basis, learner.geometry.columns
    means = np.vstack([posterior.theta_reward, posterior.theta_cost])[blocks]
    white = posterior.whiten(problem.candidates)
    variances = np.sum(white**2, axis=1)
    assert_allclose(state.variances, variances, rtol=tolerance)
    expected = means @ problem.candidates.T
    spread = noise(problem)[blocks][:, np.newaxis] * np.sqrt(variances)
    assert np.all(np.abs(state.candidate_means - expected) <= tolerance * (spread + abs(expected)))
    precision = basis.T @ posterior.precision @ basis
    size = np.sqrt(np.diag(precision))
    lower = np.tril(state.lower, -1) + np.diag(1 / np.diag(state.lower))  # kept inverted
    assert np.all(np.abs(lower @ lower.T - precision) <= tolerance * np.outer(size, size))
    assert_array_equal(state.lower, np.tril(state.lower))
    root = np.linalg.norm(np.linalg.inv(np.linalg.cholesky(precision)), axis=0)
    error = np.abs(state.means - means @ basis)
    assert np.all(
        error <= tolerance * (noise(problem)[blocks][:, np.newaxis] * root + np.abs(means @ basis))
    )


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("pulls", [0, 1, 7, 500])
def test_state_is_the_posterior(name, pulls):
    assert_state(learnt(PROBLEMS[name](), pulls), 1e-11)


@pytest.mark.parametrize("name", ["two constraints", "more features than arms"])
def test_state_is_the_posterior_around_a_refresh(name):
    learner = learnt(PROBLEMS[name](), REFRESH - 1)
    assert_state(learner, 1e-10)
    rng = np.random.default_rng(3)
    theta = truth(learner.problem)
    learner.pull([0], rng, theta)  # refreshes
    assert_state(learner, 1e-11)
    learner.pull(rng.integers(4, size=5000), rng, theta)
    assert_state(learner, 1e-10)


@pytest.mark.parametrize("scales", [(-6, 6), (6, -6), (-3, 3), (6, 6), (-6, -6)])
@pytest.mark.parametrize("order", ["random", "in turns", "shortest first", "longest first"])
def test_arms_of_very_different_lengths(scales, order):
    problem = problem_of(3, 7, 1, scales=scales)
    rng = np.random.default_rng(4)
    arms = rng.integers(7, size=700)
    length = np.linalg.norm(problem.arms, axis=1)
    if order == "in turns":
        arms = np.arange(700) % 7
    elif order != "random":
        rank = np.argsort(length if order == "shortest first" else -length)
        arms = np.repeat(rank, 100)
    learner = Learner(problem).pull(arms, rng, truth(problem))
    state, posterior = learner.state, learner.posterior
    # Candidates are what matters: their variances and means to a small part of their spread.
    variances = np.sum(posterior.whiten(problem.candidates) ** 2, axis=1)
    assert_allclose(state.variances, variances, rtol=1e-6)
    expected = np.vstack([posterior.theta_reward, posterior.theta_cost]) @ problem.candidates.T
    spread = noise(problem)[:, np.newaxis] * np.sqrt(variances)
    assert np.all(np.abs(state.candidate_means - expected) <= 1e-6 * (spread + np.abs(expected)))


def test_lengths_that_grow_step_by_step():
    """Each pull teaches three quarters of what is left, which differences would wear down."""
    vectors = 2.0 ** np.arange(24)[:, np.newaxis] * np.array([[1.0, 0.5]])
    problem = bf.Problem(np.vstack([vectors, [[0.0, 1.0]]]), 0.5)
    learner = Learner(problem).pull(np.arange(25), np.random.default_rng(5), truth(problem))
    variances = np.sum(learner.posterior.whiten(problem.candidates) ** 2, axis=1)
    assert_allclose(learner.state.variances, variances, rtol=1e-6)


def test_best_candidate_is_that_of_the_posterior():
    for seed in range(30):
        learner = learnt(problem_of(3, 6, 2, seed=seed), 5, seed)
        best = engine.mean_best(learner.state.candidate_means, learner.geometry.limits)
        assert (None if best == NOBODY else best) == learner.posterior.best()


@pytest.mark.parametrize(("pulls", "scale"), [(3, 23.0), (60, 1.0), (60, 23.0), (2000, 1.0)])
@pytest.mark.parametrize("name", PROBLEMS)
def test_draws_have_the_law_of_the_alternative(name, pulls, scale):
    problem = PROBLEMS[name]()
    learner = learnt(problem, pulls)
    posterior = learner.posterior
    leader = posterior.best() or 0
    alternative = bf.Alternative(problem, leader)
    size = DRAWS if pulls == 60 else DRAWS // 4
    draws, events = learner.draws(leader, scale, size, seed=5)
    sample = alternative.sample(posterior, size, seed=6, scale=scale)
    reference = np.zeros(draws.shape)
    together = np.concatenate([sample.theta_reward.values[0][:, np.newaxis],
                               sample.theta_cost.values[0]], axis=1)  # fmt: skip
    blocks = learner.geometry.columns
    reference[:, blocks] = together[:, blocks] @ problem.basis @ problem.basis.T
    assert same_law(alternative, draws, reference, FALSE_ALARM)

    binding = problem.thresholds[np.isfinite(problem.thresholds)].size
    number = np.concatenate([np.arange(binding), binding + alternative.rivals])
    table = np.array(
        [np.bincount(events, minlength=number.max() + 1)[number],
         np.bincount(sample.event.values[0], minlength=number.size)]
    )  # fmt: skip
    seen = table.sum(axis=0) >= 20
    assert events.size - table[0, seen].sum() <= 20 * number.size
    if seen.sum() > 1:
        assert stats.chi2_contingency(table[:, seen]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", PROBLEMS)
def test_draws_of_a_wider_posterior_are_noticed(name):
    problem = PROBLEMS[name]()
    learner = learnt(problem, 60)
    leader = learner.posterior.best() or 0
    alternative = bf.Alternative(problem, leader)
    reference, picked = learner.draws(leader, 1.0, DRAWS, seed=5)
    wider, picked_wider = learner.draws(leader, 1.5, DRAWS, seed=6)
    assert not same_law(alternative, wider, reference, FALSE_ALARM)
    last = 1 + max(picked.max(), picked_wider.max())
    table = np.array([np.bincount(events, minlength=last) for events in (picked, picked_wider)])
    table = table[:, table.sum(axis=0) >= 20]
    assert stats.chi2_contingency(table).pvalue < FALSE_ALARM


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scale", [1.0, 23.0])
def test_event_probabilities_are_those_of_the_alternative(name, scale):
    problem = PROBLEMS[name]()
    learner = learnt(problem, 200)
    binding = int(np.isfinite(problem.thresholds).sum())
    for leader in range(len(problem.candidates)):
        alternative = bf.Alternative(problem, leader)
        expected = alternative.event_log_probabilities(learner.posterior, scale=scale).values
        learner.bounds(leader, scale)
        top = weigh_events(learner.work.bounds, learner.work.log_probability)
        number = np.concatenate([np.arange(binding), binding + alternative.rivals])
        found = learner.work.log_probability[number]
        matters = expected >= expected.max() - 59
        assert_allclose(top, expected.max(), rtol=1e-9)
        assert_allclose(found[matters], expected[matters], rtol=1e-9, atol=1e-12)
        assert np.all(found[~matters] < top - 58)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_draw_is_an_alternative(name):
    problem = PROBLEMS[name]()
    for pulls in (0, 10, 3000):
        learner = learnt(problem, pulls)
        leader = learner.posterior.best() or 0
        draws, events = learner.draws(leader, 1.0, 500, seed=7)
        assert np.all(events != NOBODY)
        # Rounding may leave a draw on the wrong side by the last digit: look a little inward.
        binding = np.flatnonzero(np.isfinite(problem.thresholds))
        rewards = draws[:, 0] @ problem.candidates.T
        costs = np.einsum("sbf,zf->szb", draws[:, 1 + binding], problem.candidates)
        slack = 1e-9
        feasible = np.all(costs <= problem.thresholds[binding] + slack, axis=2)
        better = (rewards >= rewards[:, [leader]] - slack) & feasible
        better[:, problem.copies(leader)] = False
        violated = np.any(costs[:, leader] >= problem.thresholds[binding] - slack, axis=1)
        assert np.all(better.any(axis=1) | violated)


def nearest_by_alternative(learner, leader):
    """The nearest alternative with the posterior's V as the metric, by the public function.

    The unit vectors join the arms, each pulled once: that is the identity in V.
    """
    problem, posterior = learner.problem, learner.posterior
    features = problem.arms.shape[1]
    wider = bf.Problem(
        np.vstack([problem.arms, np.eye(features)]), problem.thresholds,
        candidates=problem.candidates, reward_noise=problem.reward_noise,
        cost_noise=problem.cost_noise,
    )  # fmt: skip
    counts = np.concatenate([posterior.counts, np.ones(features)])
    found = bf.Alternative(wider, leader).nearest(
        posterior.theta_reward, posterior.theta_cost, counts / counts.sum()
    )
    moved = np.vstack([found.theta_reward, found.theta_cost])
    mean, _ = closed_form(posterior)
    loss = -np.sum(((moved - mean) @ problem.arms.T / noise(problem)[:, np.newaxis]) ** 2, axis=0)
    return str(found.event.values), float(found.exponent) * counts.sum(), loss


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("pulls", [5, 40, 3000])
def test_nearest_event_and_its_losses(name, pulls):
    problem = PROBLEMS[name]()
    learner = learnt(problem, pulls)
    leader = learner.posterior.best()
    if leader is None:  # then the means are themselves alternatives to any leader
        leader = 0
    bounds = learner.bounds(leader)
    event = nearest_event(bounds)
    name_found, exponent, loss = nearest_by_alternative(learner, leader)
    alternative = bf.Alternative(problem, leader)
    binding = int(np.isfinite(problem.thresholds).sum())
    rival = np.searchsorted(alternative.rivals, event - binding) + binding
    assert alternative.events.names[event if event < binding else rival] == name_found
    assert_allclose(np.sum(np.maximum(bounds[event], 0.0) ** 2) / 2, exponent, rtol=1e-8)
    if exponent > 0:
        separate(learner.geometry, learner.state, learner.work, leader, event)
        assert_allclose(learner.work.loss, loss, rtol=1e-7, atol=1e-9 * np.abs(loss).max())


def test_losses_where_the_means_lie_in_the_event():
    """No nearest point then: every half-space of the event counts with weight one."""
    problem = problem_of(3, 5, 1)
    learner = learnt(problem, 30)
    leader = int(np.argmin(learner.state.candidate_means[0]))
    bounds = learner.bounds(leader)
    inside = np.flatnonzero(np.all(bounds <= 0, axis=1) & (bounds[:, 0] > -np.inf))
    assert inside.size
    event = int(inside[0])
    separate(learner.geometry, learner.state, learner.work, leader, event)
    covariance = learner.posterior.covariance
    vectors = [problem.arms[event - 1] - problem.arms[leader], problem.arms[event - 1]]
    loss = -sum((problem.arms @ covariance @ a) ** 2 / (a @ covariance @ a) for a in vectors)
    assert_allclose(learner.work.loss, loss, rtol=1e-9)


def test_zero_vector_as_leader_and_as_rival():
    arms = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.7, 0.7]]
    for threshold in (0.4, -0.4):
        problem = bf.Problem(arms, threshold)
        learner = learnt(problem, 25)
        for leader in range(4):
            alternative = bf.Alternative(problem, leader)
            expected = alternative.event_log_probabilities(learner.posterior).values
            learner.bounds(leader)
            weigh_events(learner.work.bounds, learner.work.log_probability)
            number = np.concatenate([[0], 1 + alternative.rivals])
            matters = expected >= expected.max() - 59
            assert_allclose(learner.work.log_probability[number][matters], expected[matters],
                            atol=1e-10)  # fmt: skip
            draws, _ = learner.draws(leader, 1.0, 4000, seed=8)
            sample = alternative.sample(learner.posterior, 4000, seed=9)
            reference = np.stack([sample.theta_reward.values[0], sample.theta_cost.values[0, :, 0]],
                                 axis=1)  # fmt: skip
            assert same_law(alternative, draws, reference, FALSE_ALARM)


def test_zero_vector_alone_has_no_alternative():
    problem = bf.Problem([[1.0], [0.0]], 0.5, candidates=[[0.0]])
    learner = learnt(problem, 4)
    draws = draw_one(
        learner.geometry, learner.state, learner.work, np.random.default_rng(0), 0, 1.0
    )
    assert draws == NOBODY
    learner.bounds(0)
    assert nearest_event(learner.work.bounds) == NOBODY


def test_copies_of_the_leader_are_no_alternatives():
    base = problem_of(2, 4, 1)
    twice = bf.Problem(
        base.arms, base.thresholds, candidates=np.vstack([base.arms, base.arms[[1, 1]]]),
        reward_noise=base.reward_noise, cost_noise=base.cost_noise,
    )  # fmt: skip
    once = learnt(base, 40)
    both = learnt(twice, 40)
    for leader in (1, 4, 5):
        both.bounds(leader)
        assert_array_equal(both.work.bounds[[2, 5, 6], 0], np.inf)
        draws, events = both.draws(leader, 1.0, 8000, seed=10)
        assert not np.isin(events, [2, 5, 6]).any()
        reference, _ = once.draws(1, 1.0, 8000, seed=11)
        assert same_law(bf.Alternative(base, 1), draws, reference, FALSE_ALARM)
    # If copies were alternatives, every parameter would be one: they are never worse.
    everything = gaussian_draws(once.posterior, 8000, seed=15)
    assert not same_law(bf.Alternative(base, 1), everything, reference, FALSE_ALARM)


def test_copies_of_a_rival_are_counted_once():
    """Two copies are two events that always happen together: the draw must not prefer them."""
    base = problem_of(2, 4, 1)
    twice = bf.Problem(
        base.arms, base.thresholds, candidates=np.vstack([base.arms, base.arms[[2, 2]]]),
        reward_noise=base.reward_noise, cost_noise=base.cost_noise,
    )  # fmt: skip
    draws, _ = learnt(twice, 40).draws(0, 1.0, 8000, seed=12)
    reference, _ = learnt(base, 40).draws(0, 1.0, 8000, seed=13)
    assert same_law(bf.Alternative(base, 0), draws, reference, FALSE_ALARM)
    # A draw that took the copies for further chances would be in their event too often.
    once, often = (
        membership(bf.Alternative(problem, 0), draws).sum(axis=1) for problem in (base, twice)
    )
    preferred = np.random.default_rng(16).random(len(draws)) < often / once / 3
    assert not same_law(bf.Alternative(base, 0), draws[preferred], reference, FALSE_ALARM)


def test_one_candidate_without_constraint_has_no_alternative():
    learner = learnt(problem_of(2, 1, 0), 3)
    event = draw_one(
        learner.geometry, learner.state, learner.work, np.random.default_rng(0), 0, 1.0
    )
    assert event == NOBODY


def test_pick_follows_the_shares():
    shares = np.array([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    rng = np.random.default_rng(14)
    picked = [pick(shares, 1.0, rng) for _ in range(20_000)]
    counts = np.bincount(picked, minlength=6)
    assert_array_equal(counts[shares == 0], 0)
    assert stats.chisquare(counts[shares > 0], 20_000 * shares[shares > 0]).pvalue > FALSE_ALARM
    slightly_off = 20_000 * np.array([0.22, 0.5, 0.28])
    assert stats.chisquare(counts[shares > 0], slightly_off).pvalue < FALSE_ALARM


@pytest.mark.parametrize("length", [1e3, 1e6, 1e9])
def test_long_arms_that_leave_a_direction_to_the_prior(length):
    """Two of three directions were seen, with squares of the length beside the prior's 1."""
    rng = np.random.default_rng(3)
    problem = bf.Problem(length * rng.standard_normal((4, 3)))
    learner = Learner(problem)
    for arm in (0, 1, 0):
        learner.learn(arm, 1.0, np.empty(0))
    white = learner.posterior.whiten(problem.candidates)
    for _ in range(2):
        assert_allclose(learner.state.variances, np.sum(white**2, axis=1), rtol=1e-10)
        engine.refresh(learner.geometry, learner.state, learner.work)
