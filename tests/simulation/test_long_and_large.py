"""Long and large: what rounding, size and repetition could wear down.

The references are exact: sums of rational numbers, and linear systems solved in fractions or with
50 digits. None of them shares code with the package.
"""

import gc
import subprocess
import sys
import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.simulation.world import Environment

PRECISION = 1e-8  # relative to the size of the posterior mean, and to the variances
ARMS = np.array([[1.0, 0.0], [0.75, 0.5], [-0.25, 1.0], [0.9375, 0.34375]])  # exact in binary
CHUNK = 100_000


class ExactSums:
    """Counts and sums of what arms showed, without any rounding."""

    def __init__(self, arms, blocks):
        self.counts = [0] * arms
        self.sums = [[Fraction(0)] * blocks for _ in range(arms)]

    def add(self, arms, shown):
        """Take in pulls (pull,) and what they showed (pull, block), multiples of 2^-52."""
        units = (shown * 2.0**52).astype(object)
        for arm in range(len(self.counts)):
            mine = arms == arm
            self.counts[arm] += int(mine.sum())
            for block in range(shown.shape[1]):
                total = sum(map(int, units[mine, block]))
                self.sums[arm][block] += Fraction(total, 2**52)

    def means_and_variances(self):
        """Posterior means (block, feature) and V^-1, of two features, in fractions."""
        rows = [[Fraction(float(x)) for x in arm] for arm in ARMS]
        a, b, d = Fraction(1), Fraction(0), Fraction(1)
        for count, (x, y) in zip(self.counts, rows, strict=True):
            a, b, d = a + count * x * x, b + count * x * y, d + count * y * y
        determinant = a * d - b * b
        inverse = [[d / determinant, -b / determinant], [-b / determinant, a / determinant]]
        means = []
        for block in range(len(self.sums[0])):
            right = [
                sum(total[block] * row[i] for total, row in zip(self.sums, rows, strict=True))
                for i in range(2)
            ]
            means.append([float(v[0] * right[0] + v[1] * right[1]) for v in inverse])
        return np.array(means), np.array([[float(x) for x in row] for row in inverse])


def fixed_point(values):
    """The nearest multiples of 2^-50, which sums of integers add without rounding."""
    return np.round(values * 2.0**50) / 2.0**50


def close(found, expected):
    return bool(np.abs(found - expected).max() <= PRECISION * np.abs(expected).max())


def pulls(size, seed):
    """Arms and what they show: means far above the noise, so that sums grow large."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(len(ARMS), size=size)
    means = ARMS[arms] @ np.array([[3.0, 0.1], [-1.0, 0.7]])
    return arms, fixed_point(means + rng.standard_normal((size, 2)))


def check_updates(updates):
    """One pull at a time through a rule, in batches and one by one through a posterior."""
    problem = bf.Problem(ARMS, [0.5])
    posterior, rule = bf.Posterior(problem), bf.BLFAIPS(problem)
    exact, wrong = ExactSums(len(ARMS), 2), ExactSums(len(ARMS), 2)
    for start in range(0, updates, CHUNK):
        size = min(CHUNK, updates - start)
        arms, shown = pulls(size, [7, start])
        rule.tell(arms, shown[:, 0], shown[:, 1:])
        posterior.update(arms[100:], shown[100:, 0], shown[100:, 1:])
        for i in range(min(100, size)):
            posterior.update(int(arms[i]), shown[i, 0], shown[i, 1:])
        exact.add(arms, shown)
        wrong.add(arms[1:], shown[1:])
    means, variances = exact.means_and_variances()
    for found in (posterior, rule.posterior):
        assert found.pulls == updates
        assert close(np.vstack([found.theta_reward, found.theta_cost]), means)
        assert close(found.covariance, variances)
    kept = rule._state  # what the compiled loop goes by between two refreshes
    assert close(kept.means, means)
    assert close(kept.candidate_means, means @ ARMS.T)
    assert close(kept.variances, np.einsum("zi,ij,zj->z", ARMS, variances, ARMS))
    return posterior, wrong


def test_a_hundred_thousand_updates_against_fractions():
    posterior, wrong = check_updates(10**5 + 1234)  # between two refreshes
    # the control: forgetting two pulls of so many is noticed
    assert not close(posterior.covariance, wrong.means_and_variances()[1])


@pytest.mark.slow
def test_ten_million_updates_against_fractions():
    check_updates(10**7 + 1234)


@pytest.mark.slow
def test_ten_million_rounds_of_a_rule_against_fractions():
    """The loop of `simulate`: its posterior follows from its counts and sums, to 1e-8."""
    problem = bf.Problem(ARMS, [0.5])
    instance = bf.Instance(problem, [3.0, -1.0], [0.1, 0.7])
    rule = bf.BestResponse(instance, seed=1)
    world = Environment(instance, *np.random.SeedSequence(2).spawn(2))
    world.play(rule, 10**7)
    exact = ExactSums(len(ARMS), 2)
    exact.counts = rule._state.counts.tolist()
    exact.sums = [[Fraction(float(x)) for x in row] for row in rule._state.sums]
    means, variances = exact.means_and_variances()
    assert sum(exact.counts) == 10**7
    assert close(rule._state.means, means)
    assert close(rule._state.variances, np.einsum("zi,ij,zj->z", ARMS, variances, ARMS))

    # The sums themselves: noise of known mean and spread, so they are where they should be.
    def off(theta_reward):
        return max(
            float(abs(total - count * mean)) / np.sqrt(max(count, 1))
            for count, row, arm in zip(exact.counts, exact.sums, ARMS, strict=True)
            for total, mean in zip(row, (arm @ theta_reward, arm @ [0.1, 0.7]), strict=True)
        )

    assert off([3.0, -1.0]) < stats.norm.isf(1e-9 / 4 / len(ARMS)) < off([3.01, -1.0])


def test_nothing_adds_up_over_a_hundred_thousand_rounds_of_a_rule():
    instance = bf.instances.end_of_optimism(0.2)
    rule = bf.BLFAIPS(instance, seed=1, eta=1.0)
    world = Environment(instance, *np.random.SeedSequence(2).spawn(2))
    world.play(rule, 100_003)
    posterior = rule.posterior
    assert close(rule._state.means[0], posterior.theta_reward)
    assert close(rule._state.means[1], posterior.theta_cost[0])


# --- many candidates ---


def many(candidates, features=4, seed=0):
    """Random candidates on the sphere and a posterior after a thousand pulls of each direction."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((candidates, features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    problem = bf.Problem(np.eye(features), [0.4], candidates=rows)
    reward, cost = rng.standard_normal((2, features))
    sums = 1000 * np.column_stack([reward, cost])
    posterior = bf.Posterior.from_sums(problem, [1000] * features, sums[:, 0], sums[:, 1:])
    return problem, posterior, bf.Instance(problem, reward, cost)


def check_many(candidates):
    problem, posterior, instance = many(candidates)
    best = posterior.best()
    mean = 1000 / 1001 * np.vstack([instance.theta_reward, instance.theta_cost])
    values = problem.candidates @ mean.T
    feasible = values[:, 1] <= 0.4
    assert best == int(np.argmax(np.where(feasible, values[:, 0], -np.inf)))
    alternative = bf.Alternative(problem, best)
    logs = alternative.event_log_probabilities(posterior).values
    # every event by the textbook formula, where all variances are 1/1001
    gaps = problem.candidates - problem.candidates[best]
    rivals = np.arange(candidates) != best
    length = np.linalg.norm(gaps[rivals], axis=1) / np.sqrt(1001)
    reward = stats.norm.logcdf(gaps[rivals] @ mean[0] / length)
    cost = stats.norm.logcdf((0.4 - values[rivals, 1]) * np.sqrt(1001))
    np.testing.assert_allclose(logs[1:], reward + cost, rtol=1e-9, atol=1e-12)
    too_high = stats.norm.logsf((0.4 - values[best, 1]) * np.sqrt(1001))
    np.testing.assert_allclose(logs[0], too_high, rtol=1e-9)
    error = alternative.log_probability(posterior, seed=1)
    assert max(logs) - 1e-9 <= error.value <= min(0.0, np.logaddexp.reduce(logs)) + 1e-9
    drawn = alternative.sample(posterior, 50, seed=2)
    assert alternative.contains(drawn.theta_reward.values, drawn.theta_cost.values).all()
    for name in ("BLFAIPS", "TopTwo", "BestResponse"):
        rule = getattr(bf, name)(problem, seed=1)
        rule.tell(*_observed(instance))
        assert set(rule.ask(3).tolist()) <= set(range(len(problem.arms)))
        assert 0 <= rule._choice() < candidates or rule._choice() == -1
    return instance


def _observed(instance):
    arms = np.arange(40) % len(instance.problem.arms)
    return arms, *instance.pull(arms, 5)


def test_a_thousand_candidates():
    check_many(1000)


@pytest.mark.slow
def test_ten_thousand_candidates_and_their_rate():
    """Both bounds of the rate hold for all candidates and all arms, checked by themselves."""
    instance = check_many(10_000)
    rate = bf.optimal_rate(instance, tol=1e-6)
    assert rate.gap <= 1e-6
    problem, shares = instance.problem, rate.allocation.values
    best = problem.candidates[instance.best]
    norm = np.square(problem.candidates - best) @ (1 / shares)  # the arms are the axes
    gap = np.maximum((best - problem.candidates) @ instance.theta_reward, 0)
    excess = np.maximum(problem.candidates @ instance.theta_cost[0] - 0.4, 0)
    own = np.square(problem.candidates) @ (1 / shares)
    norm[instance.best] = 1.0
    exponents = gap**2 / (2 * norm) + excess**2 / (2 * own)
    room = 0.4 - best @ instance.theta_cost[0]
    exponents[instance.best] = room**2 / (2 * own[instance.best])
    assert exponents.min() == pytest.approx(rate.lower, rel=1e-9)


# --- many features ---


def check_features(features, arms, pulled):
    """Means, a variance and an exact log-probability with 50 digits."""
    rng = np.random.default_rng(features)
    rows = rng.standard_normal((arms, features)) / np.sqrt(features)
    problem = bf.Problem(rows, [0.3], candidates=rows[:2], reward_noise=0.7, cost_noise=0.9)
    counts = np.zeros(arms, dtype=int)
    counts[:pulled] = rng.integers(1, 1000, size=pulled)
    sums = rng.standard_normal((arms, 2)) * np.sqrt(counts)[:, np.newaxis]
    posterior = bf.Posterior.from_sums(problem, counts, sums[:, 0], sums[:, 1:])
    with mpmath.workdps(50):
        vectors = mpmath.matrix(rows.tolist())
        precision = mpmath.eye(features)
        weighted = mpmath.matrix((counts[:, np.newaxis] * rows).tolist())
        precision += vectors.T * weighted
        reward, cost = (
            mpmath.lu_solve(precision, vectors.T * mpmath.matrix(column)) for column in sums.T
        )
        own, gap = vectors[0, :].T, (vectors[1, :] - vectors[0, :]).T
        solved = {"own": mpmath.lu_solve(precision, own), "gap": mpmath.lu_solve(precision, gap)}
        other = vectors[1, :].T
        spread = mpmath.sqrt((gap.T * solved["gap"])[0]) * mpmath.mpf(0.7)
        better = mpmath.log(mpmath.ncdf((gap.T * reward)[0] / spread))
        spread = mpmath.sqrt((other.T * mpmath.lu_solve(precision, other))[0]) * mpmath.mpf(0.9)
        better += mpmath.log(mpmath.ncdf((mpmath.mpf(0.3) - (other.T * cost)[0]) / spread))
        spread = mpmath.sqrt((own.T * solved["own"])[0]) * mpmath.mpf(0.9)
        dear = mpmath.log(mpmath.ncdf(((own.T * cost)[0] - mpmath.mpf(0.3)) / spread))
        means = np.array([[float(x) for x in reward], [float(x) for x in cost]])
        expected = [float(dear), float(better)]
    assert close(np.vstack([posterior.theta_reward, posterior.theta_cost]), means)
    found = bf.Alternative(problem, 0).event_log_probabilities(posterior).values
    np.testing.assert_allclose(found, expected, rtol=PRECISION)
    drawn = bf.Alternative(problem, 0).sample(posterior, 20)
    assert bf.Alternative(problem, 0).contains(drawn.theta_reward, drawn.theta_cost).all()
    rule = bf.BLFAIPS(problem, seed=1)
    assert len(rule.ask(3)) == 3


@pytest.mark.parametrize(("arms", "pulled"), [(40, 40), (12, 12), (40, 25)])
def test_thirty_features_against_fifty_digits(arms, pulled):
    """As many arms as span everything, fewer arms than features, and arms never pulled."""
    check_features(30, arms, pulled)


@pytest.mark.slow
@pytest.mark.parametrize(("arms", "pulled"), [(120, 120), (60, 60), (120, 90)])
def test_a_hundred_features_against_fifty_digits(arms, pulled):
    check_features(100, arms, pulled)


@pytest.mark.slow
def test_the_rate_of_a_hundred_features():
    """Orthogonal arms without constraints: the rate has a closed form up to one number.

    With gaps g_i, the exponents w_1 w_i g_i² / (2 (w_1 + w_i)) are equal at the optimum and the
    sum of (w_i / w_1)² is 1 (Glynn and Juneja 2004); both are solved by bisection.
    """
    gaps = np.linspace(0.5, 2.0, 99)

    def ratios(level):  # w_i / w_1 where every exponent is `level` times w_1
        return 2 * level / (gaps**2 - 2 * level)

    low, high = 0.0, gaps.min() ** 2 / 2 * (1 - 1e-15)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum(ratios(middle) ** 2) < 1 else (low, middle)
    expected = low / (1 + ratios(low).sum())
    instance = bf.Instance(bf.Problem(np.eye(100)), [0.0, *-gaps])
    assert bf.optimal_rate(instance).value == pytest.approx(expected, rel=1e-7)


# --- memory ---


def growth(call, times):
    """Bytes that stay allocated after a further call, on average, once caches have filled up."""
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(times):
            call()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(times):
            call()
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / times
    finally:
        tracemalloc.stop()


KEPT = 4000  # bytes a call: less than one result, as the control shows
INSTANCE = bf.instances.end_of_optimism(0.3)


def simulated(horizon):
    return bf.simulate(
        INSTANCE, {"BLFAIPS": bf.BLFAIPS}, horizon, 2, executor=False, progress=False
    )


def test_simulating_again_and_again_takes_no_more_memory():
    assert growth(lambda: simulated(100), 25) < KEPT


def test_memory_that_is_kept_is_noticed():
    kept = []
    assert growth(lambda: kept.append(simulated(100)), 5) > KEPT


def peak(call):
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_simulation_takes_no_more_memory_than_a_short_one():
    """Nothing is kept of a round but the state: only checkpoints add, three for ten times more."""
    simulated(100)
    short, long = peak(lambda: simulated(1000)), peak(lambda: simulated(100_000))
    assert long < short + 100_000


@pytest.mark.slow
def test_a_million_rounds_and_a_hundred_simulations_in_flat_memory():
    simulated(100)
    short, long = peak(lambda: simulated(1000)), peak(lambda: simulated(1_000_000))
    assert long < short + 100_000
    assert growth(lambda: simulated(2000), 100) < KEPT


def test_a_trial_of_many_events_grows_with_them_and_no_faster(tmp_path, monkeypatch):
    """Each event is kept once; replaying them all leaves nothing behind."""
    monkeypatch.setattr("bayes_feasible.trial.journal.os.fsync", lambda descriptor: None)
    trial = bf.Trial.new(tmp_path / "a.trial", INSTANCE.problem, "Uniform")
    for i in range(50):
        trial.tell(i % 5, 0.1 * i, 0.2)
    assert growth(lambda: bf.Trial(tmp_path / "a.trial"), 10) < KEPT


STUDY = """
from pathlib import Path

import bayes_feasible as bf


def study(out, horizon, replicates):
    bf.study(
        {
            "instance": {"name": "end_of_optimism", "alpha": 0.3},
            "rules": ["BLFAIPS", "BestResponse"],
            "horizon": horizon,
            "replicates": replicates,
        },
        out,
        workers=1,
        only_results=True,
        progress=False,
    )


def largest():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


study("short", 1000, 20)
Path("/proc/self/clear_refs").write_text("5")  # from here on, the largest size from here on
before = largest()
{call}
print(largest() - before)
"""


def grown(call, folder):
    """Kilobytes by which the largest size of a process has grown, after a short study."""
    process = subprocess.run(
        [sys.executable, "-c", STUDY.replace("{call}", call)],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(process.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call", ["study('long', 1_000_000, 20)", "study('wide', 1000, 1000)"], ids=["long", "wide"]
)
def test_a_study_takes_no_more_memory_the_longer_it_is(tmp_path, call):
    assert grown(call, tmp_path) < 20_000


@pytest.mark.slow
def test_memory_that_a_study_would_keep_is_noticed(tmp_path):
    """The control: one byte for each of the 40 million rounds of the long one."""
    assert grown("kept = b'x' * 40_000_000", tmp_path) > 20_000
