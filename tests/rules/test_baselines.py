"""Rules of others: faithful to their papers where there is no constraint, and sound where there is.

What a paper fixes (lengths of phases, survivors, shares, indices) is worked out here by hand or
from the formula in plain NumPy.
"""

import math
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rule_cases import FALSE_ALARM, INSTANCES, assert_same_state, drive, environment
from scipy import stats

import bayes_feasible as bf

PHASED = {
    "SuccessiveRejects": partial(bf.SuccessiveRejects, horizon=120),
    "SequentialHalving": partial(bf.SequentialHalving, horizon=120),
    "ODLinBAI": partial(bf.ODLinBAI, horizon=120),
    "GSE": partial(bf.GSE, horizon=120, elimination=3),
}
OWN_ARMS = PHASED | {"OCBA": bf.OCBA, "TopTwoTCI": bf.TopTwoTCI, "MDAPT": bf.MDAPT}
ALL = OWN_ARMS | {"LinGapE": bf.LinGapE, "FWS": bf.FWS}
ANYWHERE = {"LinGapE", "FWS"}
CASES = [
    (name, case)
    for name in ALL
    for case in INSTANCES
    if (case not in ("X!=Z", "learnt") or name in ANYWHERE) and (case != "m=0" or name != "MDAPT")
]


def tell_means(rule, rewards, costs=(), count=10**6):
    """So many pulls of every arm, that show its mean exactly."""
    rewards = np.asarray(rewards, dtype=float)
    table = count * np.asarray(costs, dtype=float).reshape(rewards.size, -1)
    rule.tell(range(rewards.size), count * rewards, table, [count] * rewards.size)


def play_means(rule, rewards, costs=None, rounds=10**6):
    """Ask and tell what shows the means exactly, until the phases are over."""
    arms = []
    while rule._memory.phase[0] <= rule._phases() and len(arms) < rounds:
        arm = rule.ask()
        if rule._memory.phase[0] > rule._phases():
            break
        rule.tell(arm, rewards[arm], () if costs is None else costs[arm])
        arms.append(arm)
    return np.bincount(arms, minlength=len(rewards))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_ask_and_tell_are_the_compiled_loop(name, case):
    instance = INSTANCES[case]
    stepped, whole = (ALL[name](instance, seed=5) for _ in range(2))
    drive(stepped, environment(instance), 200)
    environment(instance).play(whole, 200)
    assert_same_state(stepped, whole)
    assert set(whole.ask(5, allowed=[1, 2]).tolist()) <= {1, 2}


@pytest.mark.parametrize("name", ALL)
def test_saved_and_resumed(name, tmp_path):
    instance = INSTANCES["m=1"]
    rule, world = ALL[name](instance, seed=6), environment(instance)
    drive(rule, world, 77)
    rule.save(tmp_path / "rule.json")
    again = bf.Rule.load(tmp_path / "rule.json")
    assert repr(again) == repr(rule)
    assert_same_state(again, rule)
    for _ in range(60):
        arm = rule.ask()
        assert again.ask() == arm
        reward, cost = world.pull(arm)
        rule.tell(arm, reward, cost)
        again.tell(arm, reward, cost)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", [bf.Gaussian(), bf.Bernoulli(), bf.Poisson()])
def test_every_outcome(name, kind):
    limit = {"bernoulli": 0.6, "poisson": 1.5}.get(kind.kind, 0.4)
    problem = bf.Problem(np.eye(4), {"cost": limit}, reward=kind, costs={"cost": kind})
    instance = bf.Instance(problem, [0.0, 1.0, 0.2, 0.5], [[-1.0, -0.5, 1.0, -1.0]])
    rule = ALL[name](instance)
    environment(instance).play(rule, 150)
    assert rule.posterior.counts.min() >= 1
    environment(instance, 2).play(rule, 1000)
    assert rule.recommend().log_error < -0.5


@pytest.mark.parametrize("name", ALL)
def test_where_nothing_is_feasible(name):
    problem = bf.Problem(np.eye(4), thresholds=-0.5)
    instance = bf.Instance(problem, [0.0, 1.0, 0.2, 0.5], [[1.0, 0.5, 1.0, 0.3]])
    rule = ALL[name](instance)
    environment(instance).play(rule, 400)
    assert rule.recommend().candidate is None


@pytest.mark.parametrize("name", OWN_ARMS)
def test_rules_that_pull_candidates_refuse_others(name):
    with pytest.raises(ValueError, match=r"problem: .* must be the arms"):
        OWN_ARMS[name](INSTANCES["X!=Z"])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (partial(bf.SuccessiveRejects, horizon=3), "horizon"),
        (partial(bf.SequentialHalving, horizon=0), "horizon"),
        (partial(bf.GSE, horizon=50, elimination=1.0), "elimination"),
        (partial(bf.OCBA, first=0), "first"),
        (partial(bf.OCBA, every=0), "every"),
        (partial(bf.TopTwoTCI, beta=1.0), "beta"),
        (partial(bf.LinGapE, delta=0.0), "delta"),
    ],
)
def test_bad_options(make, named):
    with pytest.raises(ValueError, match=named):
        make(INSTANCES["m=1"])


def test_phases_that_do_not_fit_the_horizon():
    with pytest.raises(ValueError, match="horizon: 8 pulls are too few"):
        bf.ODLinBAI(bf.Problem(np.eye(8)), horizon=8)


def test_mdapt_needs_a_constraint():
    with pytest.raises(ValueError, match="no constraint"):
        bf.MDAPT(INSTANCES["m=0"])


# --- phases ---


def test_successive_rejects():
    """K = 5, T = 100: 1 / 2 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 = 107 / 60, n = 11, 14, 18, 27."""
    rule = bf.SuccessiveRejects(bf.Problem(np.eye(5)), horizon=100)
    counts = play_means(rule, [0.3, 0.9, 0.1, 0.7, 0.5])
    assert counts.tolist() == [14, 27, 11, 27, 18]
    assert rule.survivors.tolist() == [1]


def test_successive_rejects_drops_what_looks_infeasible_first():
    rule = bf.SuccessiveRejects(bf.Problem(np.eye(5), thresholds=0.0), horizon=100)
    counts = play_means(rule, [0.3, 0.9, 0.1, 0.7, 0.5], [-1.0, 2.0, -1.0, 1.0, -1.0])
    assert counts.tolist() == [27, 11, 18, 14, 27]
    assert rule.survivors.tolist() == [4]


def test_sequential_halving():
    """K = 8, T = 240: three phases of 80 pulls, for 8, 4 and 2 arms."""
    rule = bf.SequentialHalving(bf.Problem(np.eye(8)), horizon=240)
    counts = play_means(rule, np.arange(8) / 8)
    assert counts.tolist() == [10] * 4 + [30] * 2 + [70] * 2
    assert rule.survivors.tolist() == [7]


def test_od_linbai():
    """d = K = 4, T = 106: m = (106 - 4 - 2) / 2 = 50, pulls ceil(50 / 4) and 50 / 2."""
    rule = bf.ODLinBAI(bf.Problem(np.eye(4)), horizon=106)
    counts = play_means(rule, [0.1, 0.9, 0.2, 0.5])
    assert counts.tolist() == [13, 38, 13, 38]
    assert rule.survivors.tolist() == [1]


def test_od_linbai_keeps_half_the_dimension_whatever_the_arms():
    """Twenty arms in four dimensions: two are left after the first phase."""
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((20, 4))
    theta = np.array([1.0, 0.0, -0.5, 0.3])
    rule = bf.ODLinBAI(bf.Problem(arms), horizon=200)
    rewards = arms @ theta
    while rule._memory.phase[0] < 2:
        arm = rule.ask()
        rule.tell(arm, rewards[arm])
    assert rule.survivors.tolist() == sorted(np.argsort(-rewards)[:2].tolist())
    play_means(rule, rewards)
    assert rule._state.pulls.sum() <= 200


def test_gse():
    """K = 8, eta = 2, T = 90: three phases of 30 pulls, for 8, 4 and 2 arms."""
    rule = bf.GSE(bf.Problem(np.eye(8)), horizon=90)
    counts = play_means(rule, np.arange(8) / 8)
    assert counts.sum() == 90
    assert_allclose(counts, [3.75] * 4 + [11.25] * 2 + [26.25] * 2, atol=1.5)
    assert rule.survivors.tolist() == [7]


def test_a_phase_goes_by_its_own_pulls():
    """What was told before a phase does not count in its least squares."""
    rule = bf.GSE(bf.Problem(np.eye(4)), horizon=16)
    tell_means(rule, [9.0, 0.0, 0.0, 0.0], count=50)
    play_means(rule, [0.0, 0.3, 0.2, 0.1])
    assert rule.survivors.tolist() == [1]


# --- shares and indices ---


def test_ocba_shares():
    """Gaps 1/2 and 1: 4 to 1, and the best gets sqrt(4² + 1²)."""
    rule = bf.OCBA(bf.Problem(np.eye(3)))
    tell_means(rule, [1.0, 0.5, 0.0])
    expected = np.array([math.sqrt(17), 4.0, 1.0])
    assert_allclose(rule._shares(), expected / expected.sum(), rtol=1e-4)


def test_ocba_takes_what_excludes_a_rival_more_clearly():
    rule = bf.OCBA(bf.Problem(np.eye(3), thresholds=0.0, cost_noise=0.5))
    tell_means(rule, [1.0, 2.0, 0.5], [-2.0, 1.0, 0.1])
    # The second only by its cost, 1 / 0.5; the third by its reward, 0.5 > 0.1 / 0.5.
    expected = np.array([4.0, 1 / 4, 4.0])
    assert_allclose(rule._shares(), expected / expected.sum(), rtol=1e-4)


def test_top_two_tci_tosses_a_coin_for_the_leader_and_the_cheapest_challenger():
    rule = bf.TopTwoTCI(bf.Problem(np.eye(4)), seed=1)
    means, counts = np.array([1.0, 0.8, 0.5, 0.1]), np.array([400, 900, 100, 20])
    for arm in range(4):
        rule.tell(arm, means[arm] * counts[arm], count=int(counts[arm]))
    cost = (1.0 - means[1:]) ** 2 / (2 * (1 / counts[0] + 1 / counts[1:])) + np.log(counts[1:])
    assert np.argmin(cost) != np.argmin(cost - np.log(counts[1:]))  # the logarithm matters
    arms = rule.ask(2000)
    assert set(arms.tolist()) == {0, 1 + int(np.argmin(cost))}
    low, high = stats.binom.interval(1 - FALSE_ALARM, 2000, 0.5)
    assert low <= np.sum(arms == 0) <= high
    assert not low <= 0.6 * 2000 <= high  # the control


def test_mdapt_pulls_what_is_nearest_to_the_border():
    rule = bf.MDAPT(bf.Problem(np.eye(3), thresholds=[0.0, 1.0]))
    costs = np.array([[-0.5, 0.2], [0.3, 1.4], [-1.0, 0.9]])
    counts = np.array([30, 40, 500])
    for arm in range(3):
        rule.tell(arm, 0.0, costs[arm] * counts[arm], count=int(counts[arm]))
    # Slacks 0.5 and 0.8; excesses 0.3 and 0.4; slacks 1 and 0.1.
    assert rule.ask() == int(np.argmin(np.sqrt(counts) * [0.5, 0.5, 0.1]))
    rule.tell(2, -500 * 0.9, [-500.0, 450.0], count=500)
    assert rule.ask() == int(np.argmin(np.sqrt([30, 40, 1000]) * [0.5, 0.5, 0.1]))


def test_lin_gap_e_is_the_paper_s_without_constraint():
    rng = np.random.default_rng(3)
    arms = rng.standard_normal((6, 3))
    theta = np.array([1.0, -0.4, 0.2])
    rule = bf.LinGapE(bf.Problem(arms), delta=0.1)
    precision, shown = np.eye(3), np.zeros(3)
    asked = []
    for _ in range(60):
        covariance = np.linalg.inv(precision)
        mean = covariance @ shown
        width = math.sqrt(2 * math.log(6**2 / 0.1) + np.linalg.slogdet(precision)[1])
        leader = int(np.argmax(arms @ mean))
        apart = arms - arms[leader]
        bound = apart @ mean + width * np.sqrt(np.einsum("ij,jk,ik->i", apart, covariance, apart))
        bound[leader] = -np.inf
        a = apart[int(np.argmax(bound))]
        after = [a @ np.linalg.inv(precision + np.outer(x, x)) @ a for x in arms]
        arm = rule.ask()
        asked.append(arm)
        assert after[arm] <= min(after) * (1 + 1e-9)
        reward = arms[arm] @ theta + rng.standard_normal()
        rule.tell(arm, reward)
        precision += np.outer(arms[arm], arms[arm])
        shown += reward * arms[arm]
    assert len(set(asked)) > 1


def test_fws_explores_at_squares():
    """K = 5: rounds 1 to 9 (0 and 1 are squares), 20 to 24 (4), 45 to 49 (9)."""
    from bayes_feasible.rules.fws import is_due

    due = [t for t in range(1, 50) if is_due.py_func(t, 5)]
    assert due == [*range(1, 10), *range(20, 25), *range(45, 50)]


def test_fws_goes_to_the_optimal_allocation():
    instance = bf.instances.soare(2, angle=0.3)
    result = bf.simulate(
        instance, {"FWS": bf.FWS, "Uniform": bf.Uniform}, 20_000, 2, [20_000], executor=False
    )
    efficiency = result.efficiency.isel(time=0).mean("replicate")
    assert efficiency.sel(rule="FWS") > 0.95
    assert efficiency.sel(rule="Uniform") < 0.8  # the control


def worth(instance, makers, horizon, replicates=100):
    """Mean posterior error of the truth of each rule, and its standard error against the first."""
    result = bf.simulate(instance, makers, horizon, replicates, [horizon], seed=3, executor=False)
    error = np.exp(result.log_error.isel(time=0))
    apart = error - error.isel(rule=0)
    return (
        error.mean("replicate"),
        apart.mean("replicate"),
        apart.std("replicate") / replicates**0.5,
    )


@pytest.mark.slow
def test_they_find_the_best_of_many_sooner_than_uniform_pulls():
    problem = bf.Problem(np.eye(16))
    instance = bf.Instance(problem, np.r_[1.0, 0.7, np.zeros(14)])
    makers = {
        "Uniform": bf.Uniform,
        "SuccessiveRejects": partial(bf.SuccessiveRejects, horizon=800),
        "SequentialHalving": partial(bf.SequentialHalving, horizon=800),
        "GSE": partial(bf.GSE, horizon=800),
        "ODLinBAI": partial(bf.ODLinBAI, horizon=800),
        "OCBA": bf.OCBA,
        "TopTwoTCI": bf.TopTwoTCI,
        "LinGapE": bf.LinGapE,
        "FWS": bf.FWS,
    }
    error, apart, deviation = worth(instance, makers, 800)
    for name in list(makers)[1:]:  # a false alarm of each: beyond 4 standard errors
        assert apart.sel(rule=name) < -4 * deviation.sel(rule=name), (name, error.values)


@pytest.mark.slow
def test_mdapt_finds_what_is_feasible_sooner_than_uniform_pulls():
    costs = np.r_[0.15, np.full(15, -2.0)]
    instance = bf.Instance(bf.Problem(np.eye(16), thresholds=0.0), np.r_[9.0, 5.0, np.zeros(14)],
                           costs)  # fmt: skip
    makers = {"Uniform": bf.Uniform, "MDAPT": bf.MDAPT}
    error, apart, deviation = worth(instance, makers, 800)
    assert apart.sel(rule="MDAPT") < -4 * deviation.sel(rule="MDAPT"), error.values
