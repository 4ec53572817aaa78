"""Planning: exact intervals, simulated trials against closed forms, decisions, budgets, files."""

import json
import math

import mpmath
import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.planning import design as designs
from bayes_feasible.analysis.planning.characteristics import binomial_interval
from bayes_feasible.analysis.planning.decisions import decide
from bayes_feasible.analysis.planning.design import TrialDesign
from bayes_feasible.analysis.planning.files import read_design
from bayes_feasible.analysis.planning.plan import plan
from bayes_feasible.analysis.planning.scenarios import read_scenarios, read_table
from bayes_feasible.simulation import streams

DOSES = ["5 mg", "10 mg", "20 mg"]
PROBLEM = bf.Problem(
    {dose: [1, x] for x, dose in enumerate(DOSES, -1)},
    {"toxicity": 0.3},
    reward={"benefit": bf.Bernoulli()},
    costs=bf.Bernoulli(prior=bf.Prior(mean=[-1.5, 0.8], sd=[1.0, 0.4])),
)
STEEP = {"benefit": [0.2, 0.4, 0.5], "toxicity": {"5 mg": 0.05, "10 mg": 0.2, "20 mg": 0.6}}
SAFE = bf.Safety(order=DOSES, before=3, cohort=3)
TEXT = """
problem = "dose.toml"
budgets = [6, 9]
replicates = 6
[safety]
order = ["5 mg", "10 mg", "20 mg"]
before = 3
cohort = 3
[scenarios.steep]
benefit = [0.2, 0.4, 0.5]
toxicity = {"5 mg" = 0.05, "10 mg" = 0.2, "20 mg" = 0.6}
[scenarios.believed]
prior = true
"""


@pytest.fixture
def file(tmp_path):
    bf.save(PROBLEM, tmp_path / "dose.toml")
    path = tmp_path / "design.toml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 20), (20, 20), (17, 1000)])
def test_intervals_are_those_of_the_binomial_tails(k, n):
    """In high precision: at the ends the tail is 2.5 %."""

    def at_least(p):
        return mpmath.fsum(
            mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)
        )

    def at_most(p):
        return mpmath.fsum(mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))

    low, high = binomial_interval(k, n)
    assert low == 0 if k == 0 else float(at_least(mpmath.mpf(float(low)))) == pytest.approx(0.025)
    assert high == 1 if k == n else float(at_most(mpmath.mpf(float(high)))) == pytest.approx(0.025)


@pytest.mark.parametrize(("batch", "budgets"), [(2, (8, 16)), (64, (64, 128))])
def test_a_uniform_design_is_wrong_as_often_as_theory_says(batch, budgets):
    """Two arms at random, Gaussian rewards: a normal tail. False alarm rate 1e-4 a budget."""
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, reward_noise=1.0)
    design = TrialDesign(problem, "FixedAllocation", {"allocation": [0.5, 0.5]}, batch=batch)
    truth = {"close": {"reward": [0.0, 0.5]}}
    found = plan(design, truth, budgets, replicates=400, workers=1, progress=False)
    wrong = (~found.data.right.astype(bool)).sum("trial").sel(scenario="close")
    for budget in budgets:
        counts = found.data.pulls.sel(scenario="close", budget=budget)
        assert counts.sum("arm").values.tolist() == [budget] * 400
        each = [_normal_error(*pair) for pair in counts.values.tolist()]
        spread = 3.9 * math.sqrt(sum(p * (1 - p) for p in each))
        assert abs(wrong.sel(budget=budget).item() - sum(each)) < spread
    control = [_normal_error(*pair, gap=0.1) for pair in counts.values.tolist()]  # another truth
    assert abs(wrong.sel(budget=budgets[-1]).item() - sum(control)) > spread


def _normal_error(a, b, gap=0.5):
    """Shrunk means: a's is above b's."""
    sd = math.sqrt(a / (1 + a) ** 2 + b / (1 + b) ** 2)
    return 0.5 * math.erfc(b / (1 + b) * gap / sd / math.sqrt(2))


def test_large_batches_are_told_as_sums_of_the_right_law():
    """Means and variances over 3000 batches within 5 standard errors; the sd is that of n - 1."""
    problem = bf.Problem(
        np.eye(3), [0.5, 9.0], reward=bf.Bernoulli(), costs=[bf.Gaussian(), bf.Poisson()]
    )
    scenario = {"reward": [0.1, 0.5, 0.9], "cost_0": [1.0, 2.0, 3.0], "cost_1": [0.5, 4.0, 8.0]}
    truth = read_scenarios(problem, {"one": scenario | {"noise": {"cost_0": 2.0}}})[0].truth
    told = []

    class Rule:
        def tell(self, arms, rewards, costs, counts, *, sd):
            told.append(np.column_stack([arms, counts, rewards, costs, sd]))

    rule, rngs = Rule(), [np.random.default_rng(i) for i in (1, 2)]
    rule.problem = problem
    asked = np.repeat([0, 1, 2], [1, 20, 79])
    totals = [designs._tell_sums(rule, truth, asked, rngs) for _ in range(3000)]
    rows = np.array(told)
    assert np.all(rows[:, :, :2] == [[0, 1], [1, 20], [2, 79]])
    means, low = rows[:, 1:, 2:5].mean(axis=0), 5 / math.sqrt(3000)
    spread = [[math.sqrt(20 * 0.25), 2 / math.sqrt(20), math.sqrt(80)],
              [math.sqrt(79 * 0.09), 2 / math.sqrt(79), math.sqrt(79 * 8)]]  # fmt: skip
    expected = [[10, 2.0, 80], [71.1, 3.0, 632]]
    assert np.all(np.abs(means - expected) < low * np.array(spread))
    assert np.allclose(rows[:, 1:, 2:5].std(axis=0), spread, rtol=0.07)
    variance = rows[:, 1:, 6] ** 2
    assert np.all(np.abs(variance.mean(axis=0) - 4) < low * 4 * np.sqrt(2 / np.array([19, 78])))
    assert np.isnan(rows[:, 0, 5:]).all()
    assert np.mean(totals, axis=0)[0] == pytest.approx(0.1 + 81.1, abs=0.5)


def test_a_batch_in_shares():
    design = TrialDesign(bf.Problem([[1, 0], [0, 1]]), "Uniform", batch=3000, shares=True)
    truth = {"one": {"reward": [0.0, 1.0]}}
    found = plan(design, truth, [3000, 6000], replicates=2, workers=1, progress=False)
    assert found.data.pulls.sum("arm").sel(budget=6000).values.tolist() == [[6000, 6000]]
    assert 0.4 < found.data.pulls.min() / 3000 < 0.5


def test_what_a_trial_counts():
    design = TrialDesign(PROBLEM, safety=SAFE)
    scenario = read_scenarios(PROBLEM, {"steep": STEEP})[0]
    ((truth, course),) = designs.run_trials(design, scenario, [6, 30], streams.replicates(0, [0]))
    assert truth.right.tolist() == [False, True, False]
    assert truth.unsafe.tolist() == truth.infeasible.tolist() == [False, False, True]
    assert course.size.tolist() == [6, 30] == course.pulls.sum(axis=1).tolist()
    assert np.all(course.pulls % 3 == 0)
    assert course.ended.tolist() == ["budget", "budget"]
    assert np.all(course.totals[1] >= course.totals[0])


def test_a_trial_ends_when_no_arm_may_be_asked_for():
    design = TrialDesign(PROBLEM, safety=bf.Safety(risk=0.5, cohort=3))
    all_toxic = {"benefit": [0.5] * 3, "toxicity": [1.0 - 1e-9] * 3}
    found = plan(design, {"toxic": all_toxic}, [30], replicates=3, workers=1, progress=False)
    assert set(found.data.ended.values.ravel()) == {"unsafe"}
    assert found.data["size"].max() < 30
    assert found.characteristics().wrong.item() == 0.0  # "none" is right


def test_a_stop_ends_trials():
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]})
    design = TrialDesign(problem, stop=bf.Stop(error=0.05))
    truth = {"far": {"reward": [0.0, 3.0]}}
    found = plan(design, truth, [50], replicates=20, workers=1, progress=False)
    assert set(found.data.ended.values.ravel()) == {"error"}
    known = found.characteristics()
    assert known["size"].sel(quantile=0.95).item() < 50
    assert known.mean_size.item() == found.data["size"].mean().item()


def test_rules_that_look_ahead_have_a_trial_for_each_budget():
    problem = bf.Problem(np.eye(4))
    design = TrialDesign(problem, "SequentialHalving")
    found = plan(design, {"one": {"reward": [0, 0, 0, 1.0]}}, [16, 64], replicates=4,
                 workers=1, progress=False)  # fmt: skip
    alone = plan(design, {"one": {"reward": [0, 0, 0, 1.0]}}, [16], replicates=4,
                 workers=1, progress=False)  # fmt: skip
    assert found.data.pulls.sel(budget=16).equals(alone.data.pulls.sel(budget=16))


def test_truths_from_the_prior_are_drawn_from_it():
    """Against the prior's own summary; 5 standard errors, learnt noise among them."""
    problem = bf.Problem(
        {"a": [1, 0], "b": [1, 1]}, {"cost": bf.Relative("a", 0.5)},
        reward=bf.Gaussian(prior=bf.Prior([1.0, 2.0], [1.0, 0.5]), noise_prior=(4.0, 2.0)),
        costs=bf.Bernoulli(),
    )  # fmt: skip
    scenario = read_scenarios(problem, {"believed": "prior"})[0]
    truths = [scenario.draw(problem, seed) for seed in streams.replicates(3, range(4000))]
    rewards = np.array([truth.means[:, 0] for truth in truths])
    assert np.allclose(rewards.mean(axis=0), [1.0, 3.0], atol=0.1)
    precision = np.array([truth.noise[0] ** -2 for truth in truths])  # Gamma(4, rate 2)
    assert precision.mean() == pytest.approx(2.0, abs=5 / math.sqrt(4000))
    infeasible = np.mean([truth.infeasible for truth in truths], axis=0)
    prior = 1 - problem.prior_summary().feasible.values
    assert np.allclose(infeasible, prior, atol=5 * 0.5 / math.sqrt(4000))


def test_decisions_have_exact_probabilities_and_are_what_the_rule_does():
    """Every level sums to 1; a path is a product of binomials; the rule itself asks the same."""
    design, truths = TrialDesign(PROBLEM, safety=SAFE), {"steep": STEEP, "none": STEEP}
    found = decide(design, truths, 2)
    levels = {}
    for row in found.rows:
        levels.setdefault(len(row.told), []).append(row.probability[0])
    assert [len(rows) for rows in levels.values()] == [1, 16, 256]
    assert [sum(rows) for rows in levels.values()] == pytest.approx([1, 1, 1])
    table = {row.told: row for row in found.rows}
    first = table[()]
    assert first.next == (0, 0, 0)
    one = table[((0, 3, (1, 0)),)]
    assert one.probability[0] == pytest.approx(3 * 0.2 * 0.8**2 * 0.95**3)
    rule = bf.Descent(PROBLEM)
    rule.tell(0, 1, [0], 3)
    assert one.next == tuple(rule.ask(3, allowed=SAFE).tolist())
    assert one.recommended == (-1 if rule.recommend() == None else rule.recommend())  # noqa: E711


def test_outcomes_that_come_late_are_left_out():
    found = decide(TrialDesign(PROBLEM, safety=SAFE), {"steep": STEEP}, 1, seen=["toxicity"])
    assert len(found.rows) == 1 + 4
    assert found.describe(found.rows[2].told) == "3 of 5 mg: 1 toxicity"
    assert found.table().rows[2][3] == f"{3 * 0.05 * 0.95**2:.4f}"


@pytest.mark.parametrize(("change", "message"), [
    ({"seen": ["toxicty"]}, "seen: unknown outcome 'toxicty'; did you mean 'toxicity'"),
    ({"batches": 5}, "more than 20,000 outcomes"),
    ({"scenarios": {"prior": "prior"}}, "expected a truth; the prior has many"),
])  # fmt: skip
def test_decisions_that_cannot_be_listed(change, message):
    with pytest.raises(ValueError, match=message):
        decide(TrialDesign(PROBLEM, safety=SAFE), **{"batches": 1} | change)


def test_decisions_need_outcomes_that_can_be_counted():
    with pytest.raises(ValueError, match="seen: expected 0/1 outcomes, reward is another"):
        decide(TrialDesign(bf.Problem([[1, 0], [0, 1]])))


@pytest.mark.parametrize(("scenario", "message"), [
    ({"benefit": [0.1, 0.2, 0.3]}, "one: toxicity: its means are missing"),
    ({"benefit": [0.1, 0.2], "toxicity": [0.1] * 3}, "benefit: expected 3 means"),
    ({"benefit": [0.1, 0.2, 1.3], "toxicity": [0.1] * 3}, "expected a probability"),
    ({"benefit": {"5 mg": 0.1, "50 mg": 0.2}, "toxicity": [0.1] * 3}, "unknown arm '50 mg'"),
    ({"benefit": {"5 mg": 0.1}, "toxicity": [0.1] * 3}, "the mean of 10 mg is missing"),
    ({"benefit": [0.1] * 3, "toxicity": [0.1] * 3, "noise": {"benefit": 1.0}}, "whose noise is"),
    ({"benefits": [0.1] * 3}, "unknown outcome 'benefits'; did you mean 'benefit'"),
])  # fmt: skip
def test_bad_scenarios_are_named(scenario, message):
    with pytest.raises(ValueError, match=message):
        read_scenarios(PROBLEM, {"one": scenario})


def test_scenarios_from_a_table():
    rows = ["scenario,arm,benefit,toxicity"]
    means = zip(DOSES, STEEP["benefit"], STEEP["toxicity"].values(), strict=True)
    rows += [f"steep,{dose},{benefit},{toxicity}" for dose, benefit, toxicity in means]
    given = read_table(PROBLEM, "\n".join(rows))
    one, other = (read_scenarios(PROBLEM, each)[0] for each in (given, {"steep": STEEP}))
    assert one.to_dict() == other.to_dict()
    for bad, message in (
        ("steep,5 mg,x,0.1", "line 5, benefit: expected a number, got 'x'"),
        ("steep,5 mg,0.3,0.1", "line 5: 5 mg has two values of benefit"),
        ("steep,5 mg,0.3", "line 5: expected 4 cells"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(PROBLEM, "\n".join([*rows, bad]))


def test_a_plan_is_resumed_with_the_same_numbers(tmp_path, monkeypatch, file):
    found = read_design(file)
    given = (found.design, found.scenarios, found.budgets)
    whole = plan(*given, replicates=6, workers=1, progress=False)
    monkeypatch.setattr("bayes_feasible.analysis.planning.plan.BATCHES", 4)
    calls = []
    compute = designs._run

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return compute(*arguments)

    monkeypatch.setattr(designs, "_run", interrupted)
    kept = {"out": tmp_path / "out", "workers": 1, "progress": False, "replicates": 6}
    with pytest.raises(KeyboardInterrupt, match="parts are finished and kept"):
        plan(*given, **kept)
    again = plan(*given, **kept)
    assert again.data.equals(whole.data)
    before = len(calls)
    assert plan(*given, **kept).data.equals(whole.data)
    assert len(calls) == before


def test_the_command(file, capsys):
    assert cli.main(["plan", str(file), "--workers", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "At most 9 pulls, 6 trials a scenario" in shown
    assert "pulls beyond a limit" in shown
    assert cli.main(["plan", str(file), "--workers", "1", "--json", "--error", "0.9"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["scenarios"]) == {"steep", "believed"}
    assert found["scenarios"]["steep"]["9"]["pulls"]["5 mg"] >= 3
    assert set(found["smallest_budget"]) == {"steep", "believed"}
    assert cli.main(["plan", str(file), "--decisions", "1", "--seen", "toxicity"]) == 0
    assert "3 of 5 mg: 3 toxicity" in capsys.readouterr().out


@pytest.mark.parametrize(("old", "new", "message"), [
    ("budgets = [6, 9]", "budget = [6]", "unknown key 'budget'; did you mean 'budgets'"),
    ("budgets = [6, 9]", "", "budgets: is missing"),
    ("budgets = [6, 9]", "budgets = [9, 6]", "expected rising whole numbers"),
    ("cohort = 3", "cohorts = 3", "unknown option 'cohorts'"),
    ("[0.2, 0.4, 0.5]", "[0.2, 0.4]", "expected 3 means"),
    ("before = 3", 'rule = 3', "safety: unknown option 'rule'"),
])  # fmt: skip
def test_bad_designs_are_refused(file, capsys, old, new, message):
    file.write_text(TEXT.replace(old, new))
    assert cli.main(["plan", str(file), "--workers", "1"]) == 2
    assert message in capsys.readouterr().err
