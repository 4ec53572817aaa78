"""What rules recommend, and how sure they say it is."""

import itertools

import numpy as np
import pytest
from helpers import blocks, gaussian_draws
from numpy.testing import assert_allclose
from rule_cases import (
    CONSTRAINED,
    FALSE_ALARM,
    INSTANCES,
    TEXTBOOK,
    agree,
    environment,
    maker,
    random_instance,
)
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.alternative.feasible import log_feasible
from bayes_feasible.recommendation import Recommendation


def brute_best(posterior, size, seed):
    """Frequencies of best candidates, the last one that of no candidate being feasible."""
    draws = gaussian_draws(posterior, size, seed)
    rewards = draws[:, 0] @ posterior.problem.candidates.T
    costs = np.einsum("sjf,zf->szj", draws[:, 1:], posterior.problem.candidates)
    feasible = np.all(costs <= posterior.problem.thresholds, axis=2)
    best = np.where(feasible, rewards, -np.inf).argmax(axis=1)
    best[~feasible.any(axis=1)] = len(posterior.problem.candidates)
    return best


@pytest.mark.parametrize("case", TEXTBOOK)
@pytest.mark.parametrize("method", ["draw", "mean", "probable"])
def test_recommendation(case, method):
    instance = INSTANCES[case]
    rule = bf.BLFAIPS(instance, seed=10, eta=1.0, recommendation=method)
    environment(instance).play(rule, 60)
    answer = rule.recommend()
    posterior, problem = rule.posterior, rule.problem
    candidate = answer.candidate
    assert candidate is not None
    assert answer.name == problem.name(candidate)
    error = bf.Alternative(problem, candidate).log_probability(posterior, seed=1)
    assert agree(answer.log_error, error)
    rival = bf.Alternative(problem, answer.runner_up).log_probability(posterior, seed=1)
    assert not agree(answer.log_error, rival)
    assert answer.reason.replace("candidate ", "").replace(" is ", " ") == error.likeliest
    assert problem.candidates[answer] is not None
    assert [10, 20, 30, 40, 50, 60, 70][answer] == 10 * (candidate + 1)
    assert int(answer) == candidate
    assert answer == candidate
    assert answer.name in str(answer)
    if method == "mean":
        assert candidate == posterior.best()
    best = brute_best(posterior, 200_000, seed=2)
    frequency = np.bincount(best, minlength=len(problem.candidates) + 1)
    if method == "probable":
        assert frequency[candidate] >= frequency.max() - 5 * np.sqrt(frequency.max())
    others = frequency[:-1].copy()
    others[problem.copies(candidate)] = 0
    assert others[answer.runner_up] >= 0.8 * others.max()
    low, high = stats.beta.interval(
        1 - FALSE_ALARM, frequency[-1] + 0.5, len(best) - frequency[-1] + 0.5
    )
    if frequency[-1] > 100:
        # Another 10 % for the 2048 draws behind the answer.
        least, most = np.log(low) - 0.1, np.log(high) + 0.1
        assert least <= answer.log_none_feasible <= most
        some = np.log1p(-np.exp(answer.log_none_feasible))  # the control: that some candidate is
        assert not least <= some <= most
    elif problem.thresholds.size == 0:
        assert answer.log_none_feasible == -np.inf


def test_drawn_recommendations_follow_the_posterior():
    instance = INSTANCES["m=1"]
    rule = bf.Uniform(instance, seed=11, recommendation="draw")
    environment(instance).play(rule, 8)
    drawn = [rule._choice() for _ in range(20_000)]
    drawn = np.where(np.array(drawn) < 0, 5, drawn)

    def p_value(posterior):
        expected = brute_best(posterior, 20_000, 3)
        table = np.array([np.bincount(some, minlength=6) for some in (drawn, expected)])
        table = table[:, table.sum(axis=0) > 20]
        assert table.shape[1] > 2
        return stats.chi2_contingency(table).pvalue

    assert p_value(rule.posterior) > FALSE_ALARM
    rule.tell(0, 1.0, 0.3)
    assert p_value(rule.posterior) < FALSE_ALARM  # one pull more would be noticed


def test_probable_is_not_always_the_mean():
    """The mean's best candidate may be probably infeasible; frequencies tell which to prefer."""
    different, caught = 0, 0
    for seed in range(12):
        instance = random_instance(3, 6, 2, seed=seed)
        rule = bf.Uniform(instance, seed=seed, recommendation="probable")
        environment(instance, seed).play(rule, 15)
        frequency = np.bincount(brute_best(rule.posterior, 100_000, seed), minlength=7)
        answer = rule._choice()
        answer = 6 if answer < 0 else answer
        # At most 2048 draws decide: a wrong answer must be nearly as probable as the right one.
        least = 0.93 * frequency.max() - 300
        assert frequency[answer] >= least
        mean = 6 if rule.posterior.best() is None else rule.posterior.best()
        different += answer != mean
        caught += frequency[mean] < least
    assert different > 0
    assert caught > 0  # the control: the answer of the means would not do


def none_feasible_rule(pulls, recommendation="mean", radius=None, seed=12):
    """A rule that has pulled arms which all cost too much."""
    problem = bf.Problem(
        {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.6]}, {"dose": 0.2, "price": 0.3},
        parameter_radius=radius,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    rule = bf.BLFAIPS(problem, seed=seed, eta=1.0, recommendation=recommendation)
    for _ in range(pulls):
        arm = rule.ask()
        vector = problem.arms[arm]
        rule.tell(arm, vector.sum() + rng.normal(), vector @ [0.7, 0.8] + rng.normal(size=2))
    return rule


@pytest.mark.parametrize("recommendation", ["mean", "draw", "probable"])
def test_no_candidate_looks_feasible(recommendation):
    rule = none_feasible_rule(300, recommendation)
    answer = rule.recommend()
    assert isinstance(answer, Recommendation)
    assert answer.candidate is None
    assert answer.name == "none"
    assert answer == None  # noqa: E711 (equality with None is what is tested)
    assert "no candidate looks feasible" in str(answer)
    assert answer.reason == f"{answer.runner_up_name} is feasible"
    with pytest.raises(ValueError, match="no candidate looks feasible"):
        [1, 2, 3][answer]


@pytest.mark.parametrize("pulls", [3, 20, 40])
@pytest.mark.parametrize("radius", [None, 2.0])
def test_probability_that_none_is_feasible(pulls, radius):
    rule = none_feasible_rule(pulls, radius=radius)
    posterior, size = rule.posterior, 400_000
    draws = posterior.sample(size, seed=3)
    some = np.sum(rule.problem.best_under(blocks(draws)) >= 0)
    low, high = stats.beta.interval(1 - FALSE_ALARM, some + 0.5, size - some + 0.5)
    log_some, log_none = log_feasible(posterior, np.random.default_rng(4))
    assert_allclose(np.exp(log_some) + np.exp(log_none), 1.0, rtol=1e-12)
    assert np.log(low) - 0.05 <= log_some <= np.log(high) + 0.05
    posterior.update(0, 1.0, [-2.0, -2.0])  # a cheap pull, which must make a difference
    assert log_feasible(posterior, np.random.default_rng(4))[0] > np.log(high) + 0.05


def test_probability_of_a_rare_feasible_candidate_does_not_vanish():
    rule = none_feasible_rule(20_000)
    answer = rule.recommend()
    events = [
        sum(
            stats.norm.logcdf((tau - z @ mean) / np.sqrt(z @ rule.posterior.covariance @ z))
            for tau, mean in zip(rule.problem.thresholds, rule.posterior.theta_cost, strict=True)
        )
        for z in rule.problem.candidates
    ]
    assert max(events) < -500
    assert max(events) - 1e-6 <= answer.log_error <= np.logaddexp.reduce(events) + 1e-6
    assert answer.runner_up == int(np.argmax(events))
    assert answer.log_none_feasible == 0.0


@pytest.mark.parametrize("name", CONSTRAINED)
def test_an_infeasible_problem_is_no_obstacle(name):
    """No candidate is feasible in truth, which a rule that needs the truth cannot be told."""
    if name == "Oracle":
        rule = bf.Oracle(none_feasible_rule(1).problem, allocation=[0.5, 0.25, 0.25])
    else:
        rule = maker(name)(none_feasible_rule(1).problem, seed=13)
    rng = np.random.default_rng(0)
    for _ in range(200):
        arm = rule.ask()
        vector = rule.problem.arms[arm]
        rule.tell(arm, vector.sum() + rng.normal(), vector @ [2.0, 2.5] + rng.normal(size=2))
    assert rule._state.pulls.sum() == 200
    rule.recommend()


@pytest.mark.parametrize("name", CONSTRAINED)
def test_copies_of_the_best_candidate(name):
    """Copies are one recommendation: they are no error, and no rule gets stuck between them."""
    base = bf.instances.end_of_optimism(0.3)
    arms = np.vstack([base.problem.arms, base.problem.arms[[0, 0]]])
    instance = bf.Instance(bf.Problem(arms, 0.5), base.theta_reward, base.theta_cost)
    rule = maker(name)(instance, seed=18, recommendation="mean")
    environment(instance).play(rule, 3000)
    answer = rule.recommend()
    assert answer.candidate in (0, 5, 6)
    assert answer.runner_up not in (0, 5, 6)
    apart = bf.Problem(arms, 0.5, candidates=base.problem.arms)  # without the copies
    posterior = bf.Posterior.from_sums(
        apart, rule.posterior.counts, rule.posterior.reward_sums, rule.posterior.cost_sums
    )
    once = bf.Alternative(apart, 0).log_probability(posterior)
    assert agree(answer.log_error, once)
    assert not agree(answer.log_error, bf.Alternative(apart, 4).log_probability(posterior))


def test_certainty_is_printed_as_probability_0():
    posterior = bf.Posterior(bf.Problem([[1.0, 0.0]]))
    rule = bf.Uniform(posterior.problem)
    assert str(rule.recommend()) == "Recommended: 0. P(error) = 0."


def test_asked_twice_a_rule_answers_the_same():
    """By one draw of these parameters it would name two candidates."""
    rule = bf.Uniform(bf.Problem(np.eye(3), thresholds=0.2), seed=4)
    rule.tell([0, 1, 2], [1.0, 0.9, 0.8], [0.1, 0.0, 0.1])
    answers = [rule.recommend() for _ in range(8)]
    assert len({(answer.candidate, answer.log_error) for answer in answers}) == 1
    drawn = bf.Uniform(rule.problem, seed=4, recommendation="draw")
    drawn.tell([0, 1, 2], [1.0, 0.9, 0.8], [0.1, 0.0, 0.1])
    assert len({drawn.recommend().candidate for _ in range(8)}) > 1


@pytest.mark.parametrize("candidate", [0, 1, None])
def test_recommendations_compare_with_indices_and_each_other(candidate):
    """Equality is transitive: what equals the same index is equal."""
    few, many = (
        Recommendation(candidate, "name", log_error, "reason", None, "none", -np.inf)
        for log_error in (-1.0, -9.0)
    )
    things = [few, many, 0, np.int64(0), 0.0, False, 1, True, None, "0", 0.5, few.name]
    for left, middle, right in itertools.product(things, repeat=3):
        assert (left == middle) == (middle == left)
        assert not (left == middle and middle == right) or left == right
    assert few == many == candidate
    assert [hash(few)] * 2 == [hash(many), hash(candidate)]
    assert few != (1 if candidate == 0 else 0)
    assert few not in ("0", "name", 0.5)
