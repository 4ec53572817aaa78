"""Where a trial stands, and how many more pulls would halve the error."""

import math

import numpy as np
import pytest
from helpers import closed_form, z_bound
from scipy import stats
from trial_cases import DRUG, TWO_LIMITS, world

import bayes_feasible as bf
from bayes_feasible.trial import status as trial_status
from bayes_feasible.trial.halving import pulls_to_halve
from bayes_feasible.trial.trial import Trial


def _candidates_by_hand(posterior):
    """Means, standard deviations and feasibility of the candidates, by the textbook formulas."""
    problem = posterior.problem
    mean, covariance = closed_form(posterior)
    spread = np.sqrt(np.einsum("zi,ij,zj->z", problem.candidates, covariance, problem.candidates))
    costs = problem.candidates @ mean[1:].T
    sd_costs = spread[:, np.newaxis] * problem.cost_noise
    feasible = stats.norm.cdf((problem.thresholds - costs) / sd_costs).prod(axis=1)
    return problem.candidates @ mean[0], spread * problem.reward_noise, costs, sd_costs, feasible


@pytest.mark.parametrize("problem", [DRUG, TWO_LIMITS, bf.Problem([[1, 0.1], [0.1, 1]])])
def test_the_table_of_candidates(problem, tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", problem)
    arms = [0, 1, 1, 0, 1]
    trial.tell(arms, *world(problem)(arms))
    shown = trial.status().candidates
    names = ("mean_reward", "sd_reward", "mean_cost", "sd_cost", "feasible")
    for name, expected in zip(names, _candidates_by_hand(trial.posterior), strict=True):
        assert np.allclose(shown[name], expected, rtol=1e-9, atol=1e-12), name
    assert np.allclose(np.exp(shown.log_infeasible), 1 - shown.feasible, atol=1e-12)


def test_a_candidate_that_costs_nothing_for_certain(tmp_path, unsynced):
    problem = bf.Problem([[1, 0], [0, 1]], 0.5, candidates=[[0, 0], [1, 0]])
    trial = Trial.new(tmp_path / "a.trial", problem)
    trial.tell(0, -3.0, 1.0)
    status = trial.status()
    assert status.recommendation.candidate == 0
    assert status.candidates.feasible.values[0] == 1
    assert status.candidates.log_infeasible.values[0] == -np.inf
    lines = [line.split() for line in str(status).splitlines()]
    assert ["0", "0", "0", "1"] in lines
    assert lines[-2:] == [["0", "1", "100.0%"], ["1", "0", "0.0%"]]  # unpulled arms are listed


def test_the_status_says_how_sure_and_by_which_mistake(drug):
    drug.ask(2)
    status, posterior = drug.status(), drug.posterior
    alternative = bf.Alternative(DRUG, 1)
    assert status.recommendation.name == "10 mg"
    exact = alternative.log_probability(posterior)
    assert status.recommendation.log_error == pytest.approx(exact.value, abs=4 * 0.01)
    assert exact.lower <= status.recommendation.log_error <= exact.upper
    events = alternative.event_log_probabilities(posterior)
    assert status.mistakes.equals(events)
    text = str(status)
    probability = math.exp(status.recommendation.log_error)
    assert f"wrong with probability {probability:.2g} (log {math.log(probability):.2f})" in text
    assert f"20 mg better ({math.exp(events.values.max()):.2g})" in text
    assert "Descent, 6 pulls, 2 pending" in text
    fields = status.to_dict()
    assert fields["probability_wrong"] == probability
    assert fields["candidates"]["20 mg"]["costs"]["toxicity"]["mean"] == pytest.approx(
        float(status.candidates.mean_cost[2, 0])
    )
    assert fields["arms"]["placebo"]["pulls"] == 2


def test_no_candidate_looks_feasible_is_an_answer(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", DRUG)
    trial.tell([0, 1, 2] * 40, [1.0] * 120, [0.54, 0.6, 0.65] * 40)
    status = trial.status()
    assert status.recommendation.candidate is None
    text = str(status)
    assert "Recommended: none, for no candidate looks feasible" in text
    assert "likeliest: placebo feasible" in text
    assert "more pulls with the current allocation" in text
    _, _, costs, sd, feasible = _candidates_by_hand(trial.posterior)
    assert costs.min() > 0.5
    some = math.exp(status.recommendation.log_error)
    assert feasible.max() * (1 - 1e-9) <= some <= feasible.sum() * (1 + 1e-9)
    assert status.to_dict()["recommended"] is None
    assert status.to_dict()["mistakes"]["placebo feasible"] == pytest.approx(
        stats.norm.logcdf((0.5 - costs[0, 0]) / sd[0, 0])
    )


def test_a_status_before_the_first_pull(tmp_path, unsynced):
    status = Trial.new(tmp_path / "a.trial", DRUG).status()
    assert "0 pulls, none pending" in str(status)
    assert "not known before the first pull" in str(status)
    assert status.to_dict()["pulls_to_halve"] is None


def test_nothing_can_be_wrong(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", bf.Problem([[1.0, 2.0]]))
    trial.tell(0, 1.0)
    text = str(trial.status())
    assert "wrong with probability 0\n" in text
    assert "it cannot be wrong" in text


def test_long_tables_are_cut(tmp_path, unsynced):
    trial = Trial.new(tmp_path / "a.trial", bf.instances.random_ball(5, 60, 1).problem)
    trial.tell(list(range(60)), [0.5] * 60, [0.1] * 60)
    trial.ask(30)
    status = trial.status()
    text = str(status)
    assert text.count("... and 40 more (--json shows all)") == 2
    assert max(map(len, text.splitlines())) < 250
    assert len(status.to_dict()["candidates"]) == 60


def test_the_status_reads_well(drug):
    lines = str(drug.status()).splitlines()
    assert lines[2] == "Recommended: 10 mg"
    title = "Candidates: posterior mean ± standard deviation, probability of being feasible"
    begin = lines.index(title)
    assert lines[begin + 1 :] == [
        "candidate       reward       toxicity     feasible",
        "10 mg      0.47 ± 0.11  0.401 ± 0.038        0.995",
        "placebo    0.16 ± 0.14  0.173 ± 0.048  1 - 3.1e-12",
        "20 mg      0.78 ± 0.16  0.629 ± 0.054        0.008",
        "",
        "Pulls so far",
        "arm      pulls  share",
        "placebo      2  33.3%",
        "10 mg        2  33.3%",
        "20 mg        2  33.3%",
    ]


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (0.4711, 0.1234, "0.47 ± 0.12"),
        (123.4, 45.6, "123 ± 46"),
        (-1.5, 0.00123, "-1.5000 ± 0.0012"),
        (2.0, 0.0, "2"),
        (1e-12, 1e-12, "1e-12 ± 1e-12"),
        (3e8, 1e7, "3e+08 ± 1e+07"),
        (0.0999, 0.0999, "0.100 ± 0.100"),
    ],
)
def test_means_with_their_deviations(mean, deviation, text):
    assert trial_status._spread(mean, deviation) == text


@pytest.mark.parametrize(
    ("pulls", "text"), [(0.2, "1"), (9.1, "10"), (12.4, "12"), (444, "440"), (123456, "120 000")]
)
def test_pulls_are_told_with_two_digits(pulls, text):
    assert trial_status._rounded(pulls) == text


def _after(instance, shares, pulls):
    """The posterior after pulls in these shares that show exactly the truth's means."""
    counts = np.round(shares * pulls).astype(int)
    arms = np.repeat(np.arange(counts.size), counts)
    rewards = instance.problem.arms[arms] @ instance.theta_reward
    costs = instance.problem.arms[arms] @ instance.theta_cost.T
    return bf.Posterior.from_history(instance.problem, arms, rewards, costs)


@pytest.mark.parametrize(
    "instance",
    [
        bf.instances.end_of_optimism(alpha=0.3),
        bf.instances.random_ball(3, 8, 2),
        bf.instances.soare(d=3),
    ],
)
@pytest.mark.parametrize("best", [True, False])
def test_in_the_long_run_a_halving_takes_ln_2_over_the_exponent(instance, best):
    arms = len(instance.problem.arms)
    shares = bf.optimal_rate(instance).allocation.values if best else np.full(arms, 1 / arms)
    exponent = float(bf.exponents(instance, shares).min())
    posterior = _after(instance, shares, 400 / exponent)
    assert posterior.best() == instance.best
    found = pulls_to_halve(bf.Alternative(instance.problem, instance.best), posterior, shares)
    assert found == pytest.approx(math.log(2) / exponent, rel=0.01)


@pytest.mark.parametrize("log_error", [-2, -8])
def test_half_of_all_experiments_have_halved_the_error_by_then(log_error):
    """Where one mistake dominates, the estimate is the median if the means are the truth."""
    instance = bf.instances.end_of_optimism(alpha=0.1)
    problem, shares = instance.problem, bf.optimal_rate(instance).allocation.values
    exponent = float(bf.exponents(instance, shares).min())
    posterior = _after(instance, shares, -log_error / exponent)
    truth = bf.Instance(problem, posterior.theta_reward, posterior.theta_cost)
    alternative = bf.Alternative(problem, truth.best)
    now = alternative.log_probability(posterior).value
    more = pulls_to_halve(alternative, posterior, shares)

    def half_have_halved(pulls):
        counts = np.round(pulls * shares).astype(int)
        pulled = np.repeat(np.arange(counts.size), counts)
        rng, repetitions, halved = np.random.default_rng(11), 800, 0
        for _ in range(repetitions):
            later = posterior.copy()
            later.update(pulled, *truth.pull(pulled, rng))
            halved += alternative.log_probability(later).value <= now - math.log(2)
        off = (halved - repetitions / 2) / math.sqrt(repetitions / 4)
        return abs(off) < z_bound(2, 1e-4)

    assert half_have_halved(more)
    assert not half_have_halved(more / 2)  # the control


def test_a_halving_without_any_chance_takes_for_ever():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]])
    posterior = bf.Posterior.from_history(problem, [0, 1] * 50, [1.0, 0.0] * 50)
    for shares, wrong in (([0.5, 0.5], 1), ([0.0, 1.0], 1)):
        assert pulls_to_halve(bf.Alternative(problem, wrong), posterior, shares) == np.inf
    assert pulls_to_halve(bf.Alternative(problem, 0), posterior, [0.5, 0.5]) < 10
    with pytest.raises(ValueError, match="shares: expected shares with sum 1"):
        pulls_to_halve(bf.Alternative(problem, 0), posterior, [0.5, 0.6])
