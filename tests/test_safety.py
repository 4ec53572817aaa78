"""Which arms may be asked for: every clause by hand, and the risk against plain Monte Carlo."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_feasible as bf
from bayes_feasible._draws import unrestricted
from bayes_feasible.safety import SHARED, Batch, Guard

DOSES = {"5 mg": [1, 0.25], "10 mg": [1, 0.5], "20 mg": [1, 1]}
PROBLEMS = {
    "textbook": bf.Problem(DOSES, {"toxicity": 0.5}, cost_noise=0.3),
    "learnt": bf.Problem(DOSES, {"toxicity": 0.5}, costs=bf.Gaussian()),
    "0/1": bf.Problem(DOSES, {"toxicity": 0.4, "late": bf.Relative("5 mg", 2.0)},
                      reward=bf.Bernoulli(), costs=bf.Bernoulli()),
    "elsewhere": bf.Problem(DOSES, {"toxicity": 0.5}, candidates={"7 mg": [1, 0.35]}),
}  # fmt: skip


def told(problem, counts=(3, 3, 3)):
    posterior = bf.Posterior(problem)
    for arm, count in enumerate(counts):
        costs = [min(1 + arm, count)] * problem.thresholds.size
        if count:
            sd = [0.3] + [0.3] * problem.thresholds.size
            posterior.update(arm, min(2, count), costs, count,
                             sd=None if problem is not PROBLEMS["learnt"] else sd)  # fmt: skip
    return posterior


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_risk_of_an_arm(name):
    problem, posterior = PROBLEMS[name], told(PROBLEMS[name])
    theta = unrestricted(posterior, 100_000, np.random.default_rng(0))[:, 1:]
    costs = np.einsum("xjf,njf->nxj", problem.arms[:, np.newaxis] - problem.references, theta)
    risks = np.any(costs > problem.limits, axis=2).mean(axis=0)
    for dose, risk in zip(DOSES, risks, strict=True):
        band = 5 * np.sqrt(risk * (1 - risk) / 1e5) + 2e-3
        assert dose in bf.Safety(risk=max(risk - band, 0)).why_not(posterior) or not risk
        assert dose not in bf.Safety(risk=min(risk + band, 1)).why_not(posterior)


def test_no_skipping():
    posterior = bf.Posterior(PROBLEMS["textbook"])
    safety = bf.Safety(order=["5 mg", "10 mg", "20 mg"], before=3)
    assert list(safety.why_not(posterior)) == ["10 mg", "20 mg"]
    posterior.update("5 mg", 0.6, 0.3, count=3)
    assert safety.why_not(posterior) == {
        "20 mg": "only after 3 pulls of 10 mg, of which there were 0"
    }
    assert list(bf.Safety(order=[0, 2]).why_not(bf.Posterior(PROBLEMS["textbook"]))) == ["20 mg"]


def test_cohorts():
    posterior = bf.Posterior(PROBLEMS["textbook"])
    safety = bf.Safety(cohort=3)
    assert safety.why_not(posterior) == {}
    posterior.update("10 mg", 0.1, 0.2)
    why = "10 mg first completes its cohort, 1 of 3"
    assert safety.why_not(posterior) == {"5 mg": why, "20 mg": why}
    assert safety.why_not(posterior, [0, 2, 0]) == {}
    broken_off = bf.Safety(cohort=3, allowed=["5 mg", "20 mg"])
    assert broken_off.why_not(posterior) == {"10 mg": "not among the allowed arms"}


def test_nothing_may_be_asked_for():
    problem = PROBLEMS["textbook"]
    rule = bf.Descent(problem)
    rule.tell(["5 mg", "10 mg", "20 mg"] * 3, [0.0] * 9, [2.0] * 9)
    safety = bf.Safety(allowed=["5 mg", "10 mg"], order=["5 mg", "10 mg", "20 mg"], risk=0.25)
    with pytest.raises(ValueError, match="no arm may be asked for now:") as error:
        rule.ask(3, allowed=safety)
    lines = str(error.value).splitlines()
    assert lines[1].startswith("  5 mg: P(a limit is exceeded) = ")
    assert lines[3] == "  20 mg: not among the allowed arms."


@pytest.mark.parametrize("kind", ["Descent", "BLFAIPS", "TopTwo", "Uniform", "PlugIn"])
def test_rules_ask_in_cohorts_of_what_is_allowed(kind):
    rule = getattr(bf, kind)(PROBLEMS["textbook"], seed=1)
    safety = bf.Safety(order=["5 mg", "10 mg", "20 mg"], before=3, cohort=3)
    assert rule.ask(allowed=safety) == 0
    rule.tell(0, 0.2, 0.1)
    arms = rule.ask(8, allowed=safety)
    assert set(arms) == {0}
    rule.tell(arms, [0.2] * 8, [0.1] * 8)
    arms = rule.ask(8, allowed=safety)
    assert set(arms) <= {0, 1}
    assert np.all(arms[:6].reshape(2, 3) == arms[[0, 3]][:, np.newaxis])
    rule.tell("20 mg", 0.0, 0.9, count=2)
    assert rule.ask(1, allowed=safety).tolist() != [2]  # in the middle, but not allowed yet
    rule.tell("10 mg", 0.0, 0.9, count=3)
    assert rule.ask(1, allowed=safety).tolist() == [2]


def test_shares_are_whole_pulls():
    guard = Guard(bf.Safety(), PROBLEMS["textbook"])
    posterior = bf.Posterior(PROBLEMS["textbook"])
    batch = guard.plan(posterior, guard.read_pending(None), 10_007, shares=True)
    assert batch.choices == SHARED
    chosen = np.repeat([0, 1, 2], [200, 300, 500])
    assert_allclose(np.bincount(batch.spread(chosen)), [2001, 3002, 5004])
    assert Batch(5).spread(np.arange(5)).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="shares: expected a cohort of 1"):
        Guard(bf.Safety(cohort=3), guard.problem).plan(
            posterior, guard.read_pending(None), 10, shares=True
        )


BAD = [
    ({"cohort": 0}, "cohort: "),
    ({"before": 0}, "before: "),
    ({"risk": 1.5}, "risk: expected a probability, got 1.5"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=str)
def test_bad_safety(given, message):
    with pytest.raises(ValueError, match=message):
        bf.Safety(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"allowed": ["30 mg"]}, "allowed: unknown arm '30 mg'"),
        ({"allowed": []}, "allowed: expected at least one arm"),
        ({"order": ["5 mg", "5 mg"]}, "order: expected every arm once"),
    ],
)
def test_arms_that_are_not_there(given, message):
    with pytest.raises(ValueError, match=message):
        bf.Safety(**given).why_not(bf.Posterior(PROBLEMS["textbook"]))
    with pytest.raises(TypeError, match="allowed: expected a list of arms"):
        bf.Safety(allowed="5 mg")
    with pytest.raises(ValueError, match="pending: expected a whole number for each arm"):
        bf.Safety().why_not(bf.Posterior(PROBLEMS["textbook"]), [1, 2])
