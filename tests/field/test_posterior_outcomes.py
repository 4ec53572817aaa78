"""Posteriors of other outcomes: data as they come, who is best, decay at the rate, calibration."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import bayes_feasible as bf

ARMS = {"control": [1.0, 0.0], "new": [1.0, 1.0], "old": [1.0, -0.5]}
NAN = float("nan")


def mixed_problem():
    return bf.Problem(
        ARMS,
        {"delay": bf.Relative("control", 0.5), "harm": 0.4, "calls": 2.5},
        reward=bf.Bernoulli(prior=bf.Prior([-0.5, 0.2], [1.0, 0.5])),
        costs={
            "delay": bf.Gaussian(noise_prior=(2.0, 1.5), prior=bf.Prior(sd=[2.0, 1.0])),
            "harm": bf.Bernoulli(),
            "calls": bf.Poisson(prior=bf.Prior(covariance=[[0.5, 0.1], [0.1, 0.3]])),
        },
    )


def mixed_data(pulls=60):
    problem = mixed_problem()
    truth = bf.Instance(problem, [-0.3, 0.4], [[1.0, 0.2], [-1.0, 0.3], [0.5, 0.1]])
    arms = np.arange(pulls) % 3
    rewards, costs = truth.pull(arms, seed=2)
    costs[::4, 1] = NAN
    costs[1::5, 0] = NAN
    rewards[::7] = NAN
    return problem, arms, rewards, costs


def assert_same(one, other):
    for mine, theirs in zip(one.blocks, other.blocks, strict=True):
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mine.root @ mine.root.T, theirs.root @ theirs.root.T, rtol=1e-8)


def test_sums_and_rows_in_any_order_are_the_same():
    problem, arms, rewards, costs = mixed_data()
    rows = bf.Posterior.from_history(problem, arms, rewards, costs)
    late = bf.Posterior(problem)
    order = np.random.default_rng(0).permutation(arms.size)
    for part in np.array_split(order, 7):
        late.update(arms[part], rewards[part], costs[part])
    assert_same(rows, late)
    table = np.column_stack([rewards, costs])
    sums = bf.Posterior(problem)
    for arm in range(3):
        for b in range(4):  # each outcome told by itself, as it came in
            seen = table[(arms == arm) & ~np.isnan(table[:, b]), b]
            told = np.full(4, NAN)
            told[b] = seen.mean() if b == 1 else seen.sum()
            spread = {"delay": seen.std(ddof=1)} if b == 1 else None
            sums.update(arm, told[0], told[1:], count=seen.size, sd=spread)
    assert_same(rows, sums)
    assert sums.pulls == rows.pulls  # what is seen later completes a pull


def test_pulls_are_the_fewest_that_can_have_shown_what_was_seen():
    problem = bf.Problem([[1, 0], [0, 1]], thresholds=[0.5, 2.0])
    rows = [
        (0, 1.0, [NAN, NAN], 3), (0, NAN, [0.2, NAN], 2), (0, NAN, [NAN, 1.5], 5),
        (0, 1.0, [0.1, 1.0], 1), (1, NAN, [NAN, NAN], 2), (1, NAN, [1.0, NAN], 2),
    ]  # fmt: skip
    for order in (range(6), reversed(range(6))):
        posterior = bf.Posterior(problem)
        for i in order:
            posterior.update(*rows[i])
        np.testing.assert_array_equal(posterior.seen, [[4, 3, 6], [0, 2, 0]])
        assert posterior.counts.tolist() == [6, 2]


def test_what_was_not_seen_is_not_counted_in_its_block_alone():
    problem, arms, rewards, costs = mixed_data()
    posterior = bf.Posterior.from_history(problem, arms, rewards, costs)
    there = ~np.isnan(costs[:, 1])
    only = bf.Posterior.from_history(problem, arms[there], rewards[there], costs[there])
    np.testing.assert_allclose(posterior.theta_cost[1], only.theta_cost[1], rtol=1e-9)
    assert abs(posterior.theta_cost[2] - only.theta_cost[2]).max() > 1e-3


def test_missing_outcomes_of_the_paper_s_model():
    problem = bf.Problem(np.eye(2), 0.5, reward_noise=0.7)
    posterior = bf.Posterior(problem)
    posterior.update([0, 0, 1], [1.0, NAN, 2.0], [0.1, 0.3, NAN])
    assert posterior.theta_reward == pytest.approx([0.5, 1.0])
    assert posterior.theta_cost[0] == pytest.approx([0.4 / 3, 0.0])


def quadrature(counts, sums, threshold):
    """P(best) and P(none) for one-hot arms, whose parameters are independent, by integration."""
    grid = np.linspace(-8, 8, 160_001)
    density = []
    for n, s in zip(counts, sums, strict=True):
        log = s * grid - n * np.logaddexp(0, grid) - grid**2 / 2
        density.append(np.exp(log - logsumexp(log)))
    reward, cost = density[:2], density[2:]
    feasible = [d[grid <= math.log(threshold / (1 - threshold))].sum() for d in cost]
    ahead = float(reward[0] @ np.cumsum(reward[1]))
    both = feasible[0] * feasible[1]
    best = [feasible[0] - both + both * ahead, feasible[1] - both + both * (1 - ahead)]
    return [*best, (1 - feasible[0]) * (1 - feasible[1])]


@pytest.mark.parametrize("scale", [1, 10, 100])
def test_who_is_best_against_quadrature(scale):
    problem = bf.Problem(np.eye(2), 0.3, reward=bf.Bernoulli(), costs=bf.Bernoulli())
    posterior = bf.Posterior(problem)
    counts, rewards, costs = (
        [20 * scale, 15 * scale],
        [8 * scale, 8 * scale],
        [5 * scale, 4 * scale],
    )
    posterior.update([0, 1], rewards, costs, count=counts)
    wanted = quadrature(counts * 2, rewards + costs, 0.3)
    found = posterior.probability_best(draws=2**15)
    values = [*found.best.values, found.none.item()]
    assert sum(values) == pytest.approx(1.0, abs=1e-12)
    assert values == pytest.approx(wanted, abs=4.9 * 0.5 / math.sqrt(2**15) + 1e-3)
    for z in range(2):  # by its own alternative set, or its complement where that is nearly sure
        error = bf.Alternative(problem, z).log_probability(posterior)
        assert error.value == pytest.approx(math.log1p(-wanted[z]), abs=0.02)
        assert error.k_hat < 0.7


def test_a_hopeless_candidate_gets_its_probability():
    problem = bf.Problem(np.eye(2), 0.9, reward=bf.Bernoulli(), costs=bf.Bernoulli())
    posterior = bf.Posterior(problem)
    posterior.update([0, 1], [90, 10], [10, 10], count=[100, 100])
    error = bf.Alternative(problem, 1).log_probability(posterior)
    assert -1e-9 < error.value <= 0.0
    assert bf.Alternative(problem, 0).log_probability(posterior).value < -50


def test_a_tight_noise_prior_is_known_noise():
    arms = np.array(list(ARMS.values()))
    data = [0, 1, 2, 1], [0.3, 1.0, -0.2, 0.8], [0.1, 0.4, 0.2, 0.3]
    results = []
    for kind in (bf.Gaussian(0.7), bf.Gaussian(noise_prior=(1e8, 1e8 * 0.49))):
        problem = bf.Problem(arms, 0.5, reward=kind, costs=kind)
        posterior = bf.Posterior.from_history(problem, *data)
        results.append(bf.Alternative(problem, 1).log_probability(posterior, draws=2**16).value)
    assert results[0] == pytest.approx(results[1], abs=0.01)


def test_a_limit_relative_to_a_zero_candidate_is_an_absolute_one():
    arms = {"zero": [0.0, 0.0], "a": [1.0, 0.2], "b": [0.6, 0.9]}
    data = [1, 2, 1], [1, 0, 1], [0, 0, 1]
    found = []
    for limit in (0.6, bf.Relative("zero", 1.5)):
        problem = bf.Problem(arms, {"harm": limit}, reward=bf.Bernoulli(), costs=bf.Bernoulli())
        posterior = bf.Posterior.from_history(problem, *data)
        found.append(bf.Alternative(problem, 1).log_probability(posterior).value)
    assert found[0] == pytest.approx(found[1], abs=1e-9)


@pytest.mark.parametrize(
    ("reward", "cost"),
    [
        ("known", "known"),
        ("learnt", "learnt"),
        ("0/1", "0/1"),
        ("counts", "0/1"),
        ("0/1", "learnt"),
    ],
)
def test_the_error_decays_at_the_rate(reward, cost):
    kinds = {
        "known": bf.Gaussian(1.0, prior=bf.Prior(sd=2.0)), "learnt": bf.Gaussian(),
        "0/1": bf.Bernoulli(), "counts": bf.Poisson(),
    }  # fmt: skip
    plain = bf.instances.end_of_optimism(alpha=0.3)
    threshold = float(kinds[cost].mean(np.array(0.5)))
    problem = bf.Problem(plain.problem.arms, threshold, reward=kinds[reward], costs=kinds[cost])
    truth = bf.Instance(problem, plain.theta_reward, plain.theta_cost)
    rate = bf.optimal_rate(truth)
    times, logs = np.array([10**4, 10**5, 10**6]), []
    for time in times:
        counts = np.round(rate.allocation.values * time).astype(int)
        pulled = np.flatnonzero(counts)
        natural = np.column_stack([problem.arms @ plain.theta_reward,
                                   problem.arms @ plain.theta_cost[0]])[pulled]  # fmt: skip
        shown = [outcome.mean(natural[:, b]) for b, outcome in enumerate(problem.outcomes)]
        whole = [s if o.kind == "gaussian" else np.round(s * counts[pulled]) for s, o in
                 zip(shown, problem.outcomes, strict=True)]  # fmt: skip
        posterior = bf.Posterior(problem)
        posterior.update(pulled, whole[0], whole[1], count=counts[pulled], sd=1.0)
        logs.append(bf.Alternative(problem, truth.best).log_probability(posterior).value)
    slope = -(logs[2] - logs[1]) / (times[2] - times[1])
    assert slope == pytest.approx(rate.value, rel=0.02)
    assert slope != pytest.approx(1.1 * rate.value, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["learnt", "0/1", "counts", "mixed"])
def test_stated_errors_are_calibrated(kind):
    """Truths from the prior: a recommendation said to be wrong with p is wrong with p.

    False alarms: 1e-5 for each kind; probabilities that are halved are noticed.
    """
    prior = bf.Prior(mean=[0.2, -0.1], covariance=[[0.6, 0.1], [0.1, 0.4]])
    shape, scale = 3.0, 2.0
    one = {
        "learnt": bf.Gaussian(noise_prior=(shape, scale), prior=prior),
        "0/1": bf.Bernoulli(prior=prior), "counts": bf.Poisson(prior=prior),
    }  # fmt: skip
    reward, cost = (one["counts"], one["learnt"]) if kind == "mixed" else (one[kind], one[kind])
    threshold = float(cost.mean(np.array(0.3)))
    problem = bf.Problem(ARMS, threshold, reward=reward, costs=cost)
    rng, stated, wrong = np.random.default_rng(7), [], []
    for _ in range(400):
        variance = scale / rng.standard_gamma(shape, 2)
        inflate = np.where([reward.kind == "gaussian", cost.kind == "gaussian"],
                           variance / (scale / shape), 1.0)  # fmt: skip
        theta = [
            rng.multivariate_normal(prior.mean, prior.covariance * factor) for factor in inflate
        ]
        known = {}
        if reward.kind == "gaussian":
            known["reward_noise"] = math.sqrt(variance[0])
        if cost.kind == "gaussian":
            known["cost_noise"] = [math.sqrt(variance[1])]
        truth = bf.Instance(problem, theta[0], theta[1:], **known)
        posterior = bf.Posterior.from_history(
            problem, np.arange(12) % 3, *truth.pull(np.arange(12) % 3, seed=rng)
        )
        chances = posterior.probability_best(rng, draws=2000)
        best = posterior.best()
        stated.append(1 - (chances.none.item() if best is None else chances.best.values[best]))
        wrong.append(best != truth.best)
    stated, wrong = np.array(stated), np.array(wrong)

    def deviation(p):
        return (wrong - p).sum() / math.sqrt((p * (1 - p)).sum() + 1e-12)

    assert abs(deviation(stated)) < 4.42
    assert deviation(stated / 2) > 4.42


def test_prior_summary_is_what_the_posterior_before_the_first_pull_says():
    problem = mixed_problem()
    summary = problem.prior_summary(0.9)
    every = bf.Posterior(problem).probability_best().feasible
    np.testing.assert_allclose(summary.feasible, every, atol=1e-3)
    draws = np.random.default_rng(0).multivariate_normal([-0.5, 0.2], np.diag([1.0, 0.25]), 200_000)
    chance = expit(draws @ np.array(list(ARMS.values())).T)
    np.testing.assert_allclose(summary["mean"].sel(outcome="reward"), chance.mean(0), atol=3e-3)
    low, high = np.quantile(chance, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(summary.low.sel(outcome="reward"), low, atol=5e-3)
    np.testing.assert_allclose(summary.high.sel(outcome="reward"), high, atol=5e-3)
    width = stats.t.ppf(0.95, 4.0) * 2.0  # the control's delay: Student with 2 * shape
    assert summary.high.sel(outcome="delay").values[0] == pytest.approx(width, rel=1e-9)


class EvenRule:
    """Arms in turns, in plain Python."""

    def __init__(self, problem, seed):
        self.posterior, self.turn = bf.Posterior(problem), 0

    def ask(self):
        self.turn += 1
        return self.turn % len(self.posterior.counts)

    def tell(self, arm, reward, cost):
        self.posterior.update(arm, reward, cost)

    def recommend(self):
        return self.posterior.best()


def test_a_rule_in_plain_python_runs_on_any_outcome():
    problem = bf.Problem(ARMS, 0.6, reward=bf.Poisson(), costs=bf.Bernoulli())
    truth = bf.Instance(problem, [1.0, 1.0], [-1.0, 0.2])
    found = bf.simulate(truth, {"even": EvenRule}, 60, 2, executor=False, progress=False)
    assert found.log_error.sel(time=60).max() < -0.5
    none = bf.Instance(problem, [1.0, 1.0], [4.0, 0.2])
    assert none.best is None
    found = bf.simulate(none, {"even": EvenRule}, 60, 2, executor=False, progress=False)
    assert found.correct.sel(time=60).all()
    assert found.attrs["best"] == "none"


def test_what_needs_the_paper_s_model_says_so():
    problem = mixed_problem()
    posterior = bf.Posterior(problem)
    for name in ("precision", "covariance"):
        with pytest.raises(ValueError, match=name):
            getattr(posterior, name)
    with pytest.raises(ValueError, match="scale"):
        bf.Alternative(problem, 0).log_probability(posterior, scale=2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(bf.Posterior.update, reward=2, cost=[0, 0, 0]), r"reward.*2"),
        (partial(bf.Posterior.update, reward=1, cost=[0, 0.5, 0]), r"cost harm.*0\.5"),
        (partial(bf.Posterior.update, reward=1, cost=[0, 0, 1.5]), r"cost calls.*1\.5"),
        (partial(bf.Posterior.update, reward=1, cost=[0, 0, -1]), r"cost calls.*-1"),
        (partial(bf.Posterior.update, reward=5, cost=[0, 0, 1], count=4, sd=1.0), r"reward.*5"),
        (partial(bf.Posterior.update, reward=1, cost=[9.0, 0, 1], count=4), r"sd.*delay"),
        (partial(bf.Posterior.update, reward=1, cost=[9.0, 0, 1], count=4, sd=-1.0), r"sd.*-1"),
        (partial(bf.Posterior.update, reward=1, cost=[9.0, 0, 1], count=0), r"count.*0"),
        (partial(bf.Posterior.update, reward=1, cost=[9.0, 0, 1], count=1.5), r"count.*1\.5"),
    ],
)
def test_outcomes_outside_their_family_are_refused_and_nothing_is_kept(call, message):
    posterior = bf.Posterior(mixed_problem())
    with pytest.raises(ValueError, match=message):
        call(posterior, 0)
    assert posterior.pulls == 0
    assert not posterior.missing.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": bf.Bernoulli(), "reward_noise": 1.0}, "reward_noise"),
        ({"costs": bf.Bernoulli(), "cost_noise": 1.0}, "cost_noise"),
        ({"costs": [bf.Bernoulli()] * 2}, r"costs.*1.*2"),
        ({"costs": {"harms": bf.Bernoulli()}}, r"costs.*harm"),
        ({"thresholds": {"harm": bf.Relative("nobody", 1.0)}}, r"thresholds.*nobody"),
        ({"thresholds": {"harm": 1.2}, "costs": bf.Bernoulli()}, r"harm.*1\.2"),
        ({"reward": bf.Bernoulli(), "parameter_radius": 1.0}, "parameter_radius"),
        ({"reward": bf.Bernoulli(prior=bf.Prior([0, 0, 0]))}, r"reward.*mean.*2.*3"),
    ],
)
def test_problems_that_make_no_sense_are_refused(arguments, message):
    given = {"thresholds": {"harm": 0.4}} | arguments
    with pytest.raises(ValueError, match=message):
        bf.Problem(ARMS, **given).priors  # noqa: B018
