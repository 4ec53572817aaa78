"""Descent against dense formulas and quadrature, its batches, and what it is for."""

import itertools
from statistics import median

import mpmath as mp
import numpy as np
import pytest
from helpers import closed_form, noise
from numpy.testing import assert_allclose, assert_array_equal
from rule_cases import INSTANCES, TEXTBOOK, drive, environment, random_instance
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.analysis.benchmarks.rounds import microseconds_a_round
from bayes_feasible.rules import descent


@pytest.mark.parametrize("bound", [-30.0, -8.0, -1.0, 0.0, 0.5, 6.0, 40.0, 99.9, 100.1, 1e4, 1e9])
def test_hazard_has_its_digits(bound):
    with mp.workdps(60):
        exact = mp.npdf(bound) / (mp.erfc(mp.mpf(bound) / mp.sqrt(2)) / 2)
    assert descent.hazard(bound) == pytest.approx(float(exact), rel=1e-11)


def events_of(rule, means, leader):
    """Half-spaces `<a, theta_b> >= c` of each way in which the answer is wrong: {block: (a, c)}."""
    problem = rule.problem
    z, limits = problem.candidates, problem.thresholds
    feasible = [{1 + j: (-own, -limit) for j, limit in enumerate(limits)} for own in z]
    if leader is None:
        return feasible
    events = [{1 + j: (z[leader], limit)} for j, limit in enumerate(limits)]
    for i in range(len(z)):
        if i != leader:
            events.append({0: (z[i] - z[leader], 0.0)} | feasible[i])
    return events


def dense(rule):
    """Means (block, feature), covariance over noise variance, and the leader, by plain algebra."""
    problem = rule.problem
    means, covariance = closed_form(rule.posterior)
    costs = problem.candidates @ means[1:].T
    fine = np.all(costs <= problem.thresholds, axis=1)
    rewards = np.where(fine, problem.candidates @ means[0], -np.inf)
    return means, covariance, int(rewards.argmax()) if fine.any() else None


def log_probability(event, means, covariance, spread):
    """Of a product of half-spaces."""
    total = 0.0
    for b, (a, c) in event.items():
        total += stats.norm.logsf((c - a @ means[b]) / (spread[b] * np.sqrt(a @ covariance @ a)))
    return total


def gains(rule, pending=(), weigh=None, leader=...):
    """What Descent maximises, from its definition."""
    problem, spread = rule.problem, noise(rule.problem)
    means, covariance, best = dense(rule)
    leader = best if leader is ... else leader
    for arm in pending:
        x = problem.arms[arm]
        covariance = np.linalg.inv(np.linalg.inv(covariance) + np.outer(x, x))
    events = events_of(rule, means, leader)
    logs = np.array([log_probability(event, means, covariance, spread) for event in events])
    shares = np.exp(logs - logs.max())
    total = np.zeros(len(problem.arms))
    for share, event in zip(shares, events, strict=True):
        for b, (a, c) in event.items():
            square = a @ covariance @ a
            h = (c - a @ means[b]) / (spread[b] * np.sqrt(square))
            hazard = np.exp(stats.norm.logpdf(h) - stats.norm.logsf(h))
            weight = hazard**2 if weigh is None else weigh(h, hazard)
            for i, x in enumerate(problem.arms):
                after = np.linalg.inv(np.linalg.inv(covariance) + np.outer(x, x))
                total[i] += share * weight * (1 - a @ after @ a / square)
    return total


def told(case, pulls, seed=0, shift=0.0):
    """A rule that was told so many random pulls, its thresholds lowered by `shift`."""
    instance = INSTANCES[case]
    problem = instance.problem
    problem = bf.Problem(
        problem.arms, problem.thresholds - shift, reward_noise=problem.reward_noise,
        cost_noise=problem.cost_noise,
        candidates=None if problem.candidates is problem.arms else problem.candidates,
    )  # fmt: skip
    rule, rng = bf.Descent(problem), np.random.default_rng([seed, pulls])
    arms = rng.integers(len(problem.arms), size=pulls)
    if pulls:
        rule.tell(arms, *instance.pull(arms, seed=seed))
    return rule


@pytest.mark.parametrize("pulls", [0, 1, 7, 60])
@pytest.mark.parametrize("case", TEXTBOOK)
def test_it_pulls_what_the_definition_says(case, pulls):
    rule = told(case, pulls)
    expected = gains(rule)
    arm = rule.ask()
    assert_allclose(-rule._work.loss, expected, rtol=1e-6, atol=1e-9 * expected.max())
    assert expected[arm] >= expected.max() * (1 - 1e-9)
    wrong = gains(rule, weigh=lambda h, hazard: 1 + h * hazard)  # the control
    assert not np.allclose(-rule._work.loss, wrong, rtol=1e-3)


@pytest.mark.parametrize("case", ["m=1", "m=3", "X!=Z"])
def test_where_none_looks_feasible_the_ways_to_be_wrong_are_those_to_be_feasible(case):
    rule = told(case, 40, shift=3.0)
    assert rule.recommend().candidate is None
    expected = gains(rule)
    rule.ask()
    assert_allclose(-rule._work.loss, expected, rtol=1e-6, atol=1e-9 * expected.max())


@pytest.mark.parametrize("case", ["m=1", "X!=Z"])
def test_a_drawn_leader_is_as_probable_as_it_is_best(case):
    """Each arm's share of 2000 asks; a false alarm of 1e-4 an arm, and the means as the control."""
    rule = bf.Descent(INSTANCES[case], seed=4, leader="drawn")
    other, rng = told(case, 7), np.random.default_rng([0, 7])
    arms = rng.integers(len(rule.problem.arms), size=7)
    rule.tell(arms, *INSTANCES[case].pull(arms, seed=0))
    draws = rule.posterior.sample(20_000, seed=1)
    theta = np.concatenate([draws.theta_reward.values[0][:, None], draws.theta_cost.values[0]], 1)
    best, chances = np.unique(rule.problem.best_under(theta), return_counts=True)
    share = np.zeros(len(rule.problem.arms))
    for leader, chance in zip(best, chances / chances.sum(), strict=True):
        gain = gains(rule, leader=None if leader < 0 else int(leader))
        share[int(gain.argmax())] += chance
    asked = np.bincount([rule.ask() for _ in range(2000)], minlength=share.size)
    noise_of_share = np.sqrt(share * (1 - share) * (1 / 2000 + 1 / 20_000))
    assert np.all(np.abs(asked / 2000 - share) <= 3.9 * noise_of_share + 1e-9)
    assert np.count_nonzero(share > 0.02) > 1
    always = np.eye(share.size)[other.ask()]  # the leader of the means
    assert np.any(np.abs(always - share) > 3.9 * noise_of_share + 1e-9)


def test_a_drawn_leader_saved_and_in_the_compiled_loop(tmp_path):
    instance = INSTANCES["m=1"]
    stepped, whole = (bf.Descent(instance, seed=2, leader="drawn") for _ in range(2))
    drive(stepped, environment(instance), 100)
    environment(instance).play(whole, 100)
    assert_array_equal(stepped._state.pulls, whole._state.pulls)
    stepped.save(tmp_path / "rule.json")
    again = bf.Rule.load(tmp_path / "rule.json")
    assert again.leader == "drawn"
    assert again.ask(20).tolist() == whole.ask(20).tolist()
    with pytest.raises(ValueError, match="leader: expected one of"):
        bf.Descent(instance, leader="best")


def expected_fall(rule, nodes=61):
    """Fall of `Σ q log P(E)` that a pull of each arm is expected to bring, by quadrature."""
    problem, spread = rule.problem, noise(rule.problem)
    means, covariance, leader = dense(rule)
    events = events_of(rule, means, leader)
    logs = np.array([log_probability(event, means, covariance, spread) for event in events])
    shares = np.exp(logs - logs.max())
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    falls = np.zeros(len(problem.arms))
    for i, x in enumerate(problem.arms):
        told_of = covariance @ x
        after = np.linalg.inv(np.linalg.inv(covariance) + np.outer(x, x))
        for share, event in zip(shares, events, strict=True):
            for b, (a, c) in event.items():
                before = log_probability({b: (a, c)}, means, covariance, spread)
                for point, weight in zip(points, weights, strict=True):
                    # What the pull shows, less what was expected, over the noise.
                    surprise = point * np.sqrt(1 + x @ told_of)
                    moved = means.copy()
                    moved[b] += spread[b] * told_of * surprise / (1 + x @ told_of)
                    now = log_probability({b: (a, c)}, moved, after, spread)
                    falls[i] += share * weight * (before - now)
    return falls


@pytest.mark.parametrize("case", ["m=0", "m=1", "X!=Z"])
def test_the_gain_is_twice_the_expected_fall_of_the_log_probabilities(case):
    """To second order: where a pull tells a fourth as much, what is left out is a fourth too."""
    off = []
    for pulls in (100, 400):
        rule = told(case, pulls)
        falls = expected_fall(rule)
        rule.ask()
        found = -0.5 * rule._work.loss
        off.append(np.max(np.abs(found - falls)) / falls.max())
        far = gains(rule, weigh=lambda h, hazard: max(h, 0.0) ** 2) / 2  # the control
        assert np.max(np.abs(far - falls)) / falls.max() > 5 * off[-1]
    assert off[0] < 0.1
    assert off[1] < 0.5 * off[0]


def test_a_batch_counts_its_own_pulls_and_nothing_they_might_show():
    rule = told("m=1", 6)
    before = {name: array.copy() for name, array in rule._arrays().items()}
    arms = rule.ask(12)
    for i, arm in enumerate(arms):
        expected = gains(rule, pending=arms[:i])
        assert expected[arm] >= expected.max() * (1 - 1e-9), i
    assert len(set(arms.tolist())) > 1  # without them it would be the same arm each time
    for name, array in rule._arrays().items():
        if name == "clock":
            assert array.tolist() == [before[name][0] + 12, before[name][1]]
        else:
            assert_array_equal(array, before[name], err_msg=name)
    assert rule.ask(1)[0] == rule.ask() == arms[0]


def test_a_batch_is_replayed():
    rule, again = told("m=3", 0), told("m=3", 0)
    arms = rule.ask(9)
    assert_array_equal(again.replay([9])[0], arms)


KINDS = {
    "known": bf.Gaussian(noise=0.8), "learnt": bf.Gaussian(), "0/1": bf.Bernoulli(),
    "counts": bf.Poisson(),
}  # fmt: skip


def mixed_instance(reward, cost):
    rng = np.random.default_rng(4)
    arms = rng.standard_normal((6, 3)) / np.sqrt(3)
    limit = {"0/1": 0.55, "counts": 1.3}.get(cost, 0.2)
    problem = bf.Problem(arms, {"cost": limit}, reward=KINDS[reward], costs={"cost": KINDS[cost]})
    return bf.Instance(problem, [1.0, -0.5, 0.3], [[0.4, 0.8, -0.3]])


@pytest.mark.parametrize(("reward", "cost"), list(itertools.product(KINDS, KINDS)))
def test_every_outcome(reward, cost):
    instance = mixed_instance(reward, cost)
    stepped, whole = bf.Descent(instance), bf.Descent(instance)
    arms = drive(stepped, environment(instance), 150)
    environment(instance).play(whole, 150)
    assert_array_equal(np.bincount(arms, minlength=6), whole._state.pulls)
    assert np.isfinite(whole._work.loss).all()
    batch = whole.ask(4)
    assert set(batch.tolist()) <= set(range(6))
    environment(instance, 2).play(whole, 4000)
    assert whole.recommend().candidate == instance.best
    assert whole.recommend().log_error < -3


def test_what_a_pull_of_a_coin_shows_is_its_variance():
    """Two coins of the same odds but for the sign: the one that is nearly sure tells less."""
    rule = bf.Descent(bf.Problem([[1.0], [6.0]], candidates=[[1.0], [-1.0]], reward=bf.Bernoulli()))
    rule.tell([0] * 60, [1] * 48 + [0] * 12)
    assert rule.ask() == 0
    known = bf.Descent(bf.Problem([[1.0], [6.0]], candidates=[[1.0], [-1.0]]))
    known.tell([0] * 60, [1.4] * 60)
    assert known.ask() == 1  # the control: a Gaussian is seen best where the arm is long


def test_missing_outcomes_give_each_block_its_own_precision():
    instance = INSTANCES["m=1"]
    rule = bf.Descent(instance)
    rule.tell([0, 1, 2, 3, 4], [1.0, 0.2, 0.3, 0.1, 0.5], [np.nan, 0.1, np.nan, 0.4, 0.2])
    arms = rule.ask(6)
    assert set(arms.tolist()) <= set(range(5))


def test_a_copy_of_a_candidate_changes_nothing():
    instance = random_instance(3, 4, 1, others=5)
    problem = instance.problem
    z = problem.candidates
    rows = {"plain": z, "copies": z[[0, 1, 1, 2, 3, 4, 4, 4]], "fewer": z[:4]}
    arms = {
        name: drive(
            bf.Descent(
                bf.Problem(problem.arms, problem.thresholds, candidates=candidates,
                           reward_noise=0.8, cost_noise=0.6)
            ),
            environment(instance), 80,
        )
        for name, candidates in rows.items()
    }  # fmt: skip
    assert arms["copies"] == arms["plain"]
    assert arms["fewer"] != arms["plain"]  # the control


@pytest.mark.parametrize("seed", range(5))
def test_arms_that_know_nothing_of_each_other_are_all_tried(seed):
    rng = np.random.default_rng(seed)
    problem = bf.Problem(np.eye(12), thresholds=0.4)
    instance = bf.Instance(problem, rng.standard_normal(12), rng.standard_normal(12))
    rule = bf.Descent(problem)
    environment(instance, seed).play(rule, 100)
    assert rule.posterior.counts.min() >= 1


def test_nothing_to_tell_apart():
    rule = bf.Descent(bf.Problem([[1.0, 0.0]]))
    assert rule.ask(3).tolist() == [0, 0, 0]


@pytest.mark.slow
def test_its_allocation_becomes_the_optimal_one():
    """End of Optimism, the mean over four runs: after a million pulls 1 - 2e-5 in a prototype."""
    instance = bf.instances.end_of_optimism(0.1)
    result = bf.simulate(
        instance, {"Descent": bf.Descent, "BLFAIPS": bf.BLFAIPS}, 10**6, 4, [10**6], seed=1
    )
    mean = result.efficiency.isel(time=0).mean("replicate")
    assert mean.sel(rule="Descent") > 0.9995
    assert mean.sel(rule="BLFAIPS") < 0.99  # the control


@pytest.mark.slow
@pytest.mark.parametrize(("d", "k"), [(2, 5), (20, 20)])
def test_a_round_takes_at_most_twice_as_long_as_one_of_blfaips(d, k):
    instance = bf.instances.random_ball(d, k, seed=0)
    rules = {"Descent": bf.Descent, "BLFAIPS": bf.BLFAIPS}
    taken = {name: [] for name in rules}
    for name, rule in [*rules.items()] * 8:  # in turns: others use the machine too
        taken[name].append(microseconds_a_round(instance, rule, 3000, before=100, runs=3))
    assert median(taken["Descent"]) < 2 * median(taken["BLFAIPS"])
