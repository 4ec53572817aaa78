"""Bad arguments of what remembers, simulates and writes: a TypeError or ValueError that names it.

`test_bad_input` does the same for problems, instances, posteriors and alternatives.
"""

import ast
import math
import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayes_feasible as bf
from bayes_feasible.analysis.study import specification
from bayes_feasible.trial.halving import pulls_to_halve

NAN, INF = math.nan, math.inf
DRUG = bf.Problem({"low": [1.0, 0.2], "high": [1.0, 0.9]}, {"dose": 0.5})
PLAIN = bf.Problem([[1.0, 0.0], [0.0, 1.0]])
SOARE = bf.instances.soare()
TRUTH = bf.Instance(DRUG, [0.1, 1.0], [0.2, 0.9])
TWO = bf.Problem({"low": [1.0, 0.2], "high": [1.0, 0.9]}, {"a": 0.5, "b": 0.6})
XY = bf.Problem(pd.DataFrame([[1.0, 2.0], [3.0, 1.0]], columns=["x", "y"]))


def missing(values, *places):
    """A masked array in which some values are missing."""
    return np.ma.masked_array(values, mask=np.isin(np.arange(len(values)), places))


class Answers:
    """A rule of one's own that answers with what it is given."""

    def __init__(self, problem, seed, ask=0, recommend=0):
        self.answers = ask, recommend

    def ask(self):
        return self.answers[0]

    def tell(self, arm, reward, cost):
        pass

    def recommend(self):
        return self.answers[1]


def answering(**answers):
    return lambda problem, seed: Answers(problem, seed, **answers)


def simulate(rules=None, horizon=3, replicates=1, **options):
    rules = {"uniform": bf.Uniform} if rules is None else rules
    return bf.simulate(SOARE, rules, horizon, replicates, **{"executor": False} | options)


def trial(problem=DRUG, **options):
    """A new trial in the current folder."""
    return bf.Trial.new("a.trial", problem, **options)


def told():
    """A trial with one ask and one tell."""
    made = trial()
    made.ask()
    made.tell("low", 0.7, 0.1)
    return made


def history():
    return bf.History(DRUG, [0, 1], [1.0, 2.0], [0.1, 0.2])


def sums(counts, rewards=(1, 0), costs=((1,), (0,))):
    return bf.Posterior.from_sums(DRUG, counts, rewards, costs)


# A call, and what the message must say. Everything runs in an empty folder.
BAD = [
    # counts and sums
    (lambda: sums([2**63, 0]), "counts: "),
    (lambda: sums([1, 0], rewards=[1]), "reward_sums: "),
    (lambda: sums([1, 0], costs=[[1]]), "cost_sums: "),
    # rules
    (lambda: bf.BLFAIPS("problem"), "problem: "),
    (lambda: bf.BLFAIPS(DRUG, seed=-1), "seed: "),
    (lambda: bf.BLFAIPS(DRUG, eta=0), "eta: "),
    (lambda: bf.BLFAIPS(DRUG, exploration=-1), "exploration: "),
    (lambda: bf.BLFAIPS(DRUG, arm_norm=INF), "arm_norm: "),
    (lambda: bf.BLFAIPS(DRUG, parameter_radius=[1, 2, 3], eta=1.0), "parameter_radius: "),
    (lambda: bf.BLFAIPS(DRUG, recommendation="best"), "recommendation: "),
    (lambda: bf.PEPS(DRUG), "problem: PEPS knows no constraint"),
    (lambda: bf.PEPS(PLAIN, horizon=10**400, learner="hedge"), "horizon: "),
    (lambda: bf.PEPS(PLAIN, learner="hedge"), "horizon: "),
    (lambda: bf.TopTwo(DRUG, beta=1.1), "beta: "),
    (lambda: bf.TopTwo(DRUG, beta="optimal"), "beta: "),
    (lambda: bf.TopTwo(DRUG, select=3), "select: "),
    (lambda: bf.Oracle(DRUG), "problem: Oracle needs an Instance"),
    (lambda: bf.FixedAllocation(DRUG), "allocation: "),
    (lambda: bf.simulate(TRUTH, {"a": partial(bf.Uniform, allocation=[0.9, 0.1])}, 5, 1),
     "rules: 'a' cannot be made"),
    (lambda: bf.BLFAIPS(DRUG).ask(-3), "n: "),
    (lambda: bf.BLFAIPS(DRUG).tell(0, 1e81, 0), "reward: "),
    (lambda: bf.BLFAIPS(DRUG).save(None), "path: "),
    (lambda: bf.Rule.load(None), "not a rule that was saved"),
    (lambda: bf.AdaHedge(0), "experts: "),
    # histories
    (lambda: bf.History(DRUG, [[0]], [1.0], [1.0]), "arms: "),
    (lambda: bf.History(DRUG, [0], [1.0], [[1.0, 2.0]]), "costs: "),
    (lambda: history().first(3), "pulls: "),
    (lambda: history().save("pulls.txt"), "extension"),
    (lambda: bf.History.load("pulls.csv", None), "problem: "),
    # simulations
    (lambda: bf.simulate(PLAIN, {"u": bf.Uniform}, 3, 1), "instance: "),
    (lambda: simulate(rules={}), "rules: "),
    (lambda: simulate(rules={"x": lambda problem, seed: None}), "rules: 'x' gives a NoneType"),
    (lambda: simulate(rules={"x": answering(ask=9)}), "ask(): "),
    (lambda: simulate(rules={"x": answering(recommend=-1)}), "recommend(): "),
    (lambda: simulate(horizon=10**400, checkpoints=[1]), "horizon: "),
    (lambda: simulate(replicates=-1), "replicates: "),
    (lambda: simulate(checkpoints=[2, 1]), "checkpoints: "),
    (lambda: simulate(seed="x"), "seed: "),
    (lambda: simulate(executor=3), "executor: "),
    (lambda: SOARE.pull([0], 0, noise="cauchy"), "noise: "),
    (lambda: SOARE.pull([0], 0, noise="student_t", degrees=0), "degrees: "),
    # trials
    (lambda: bf.Trial(3), "path: "),
    (lambda: bf.Trial("none.trial"), "none.trial: no such file"),
    (lambda: bf.Trial("."), "this is a folder"),
    (lambda: bf.Trial("a\0b"), "path: no file can be called"),
    (lambda: bf.Trial.new("b.trial", "problem"), "problem: "),
    (lambda: trial(rule="Blfaips"), "rule: unknown rule 'Blfaips'"),
    (lambda: trial(seed=-1), "seed: "),
    (lambda: trial(recommendation="best"), "recommendation: "),
    (lambda: trial(wait=-1), "wait: "),
    (lambda: trial(eta=1), "unknown option 'eta'"),
    (lambda: trial(rule="BLFAIPS", exploration=NAN), "exploration: "),
    (lambda: told().ask(0), "n: "),
    (lambda: told().tell("lwo", 1.0, 1.0), "arm: unknown arm 'lwo'; did you mean 'low'"),
    (lambda: told().tell(["low", 0.5], [1.0, 1.0], [1.0, 1.0]), "arm: "),
    (lambda: told().tell("low", 1.0, {"dos": 1.0}), "cost: unknown constraint 'dos'"),
    (lambda: told().undo(99), "event: "),
    (lambda: told().undo(1), "event: "),
    # studies
    (lambda: bf.study(3), "specification: "),
    (lambda: bf.study({}, "study"), "instance: missing"),
    # tables of films
    (lambda: bf.datasets.read_ratings("none.csv"), "none.csv"),
    (lambda: bf.datasets.read_ratings("x.csv", malformed="ignore"), "malformed: "),
    (lambda: bf.datasets.read_films("r", "m", "s"), "links, basics: "),
    (lambda: bf.instances.movielens(table=3), "table: "),
    # arrays of every kind that is none of numbers
    (lambda: bf.Problem([[-0.0, 0.0]]), "arms: every arm is the zero vector"),
    (lambda: DRUG.name(9), "candidate: "),
    (lambda: TRUTH.pull([0], 0, noise="student_t", degrees=1e-90), "degrees: "),
    (lambda: bf.Posterior(DRUG).update([0, 1], missing([1.0, 2.0], 1), [1, 2]), "reward: "),
    (lambda: bf.Posterior(DRUG).sample(10.0), "draws: "),
    (lambda: bf.Posterior(DRUG).whiten(np.ones((2, 5))), "vectors: "),
    (lambda: bf.Alternative(DRUG, 0).log_probability(bf.Posterior(PLAIN)), "posterior: "),
    (lambda: bf.Alternative(DRUG, 0).contains([1, 2, 3], [[1, 2]]), "theta_reward: "),
    (lambda: bf.Alternative(DRUG, 0).contains([1, 2]), "theta_cost: "),
    (lambda: bf.Alternative(DRUG, 0).sample(bf.Posterior(DRUG), 3, scale=INF), "scale: "),
    (lambda: bf.optimal_rate(TRUTH, tol=0), "tol: "),
    (lambda: bf.AdaHedge(3).update([1, NAN, 2]), "loss: "),
    (lambda: bf.save(bf.Posterior(DRUG), "x.toml"), "thing: "),
    (lambda: bf.load(0), "path: "),
    # names that are not those of the problem
    (lambda: bf.Instance(XY, pd.Series({"y": 1.0, "z": 2.0})),
     "theta_reward: "),
    (lambda: bf.History(TWO, [0], [1.0], pd.DataFrame({"a": [1.0], "c": [2.0]})),
     "costs: "),
    (lambda: sums(pd.Series({"low": 1, "hihg": 0})), "counts: "),
    (lambda: sums([1, 0], costs=pd.DataFrame({"dos": [1.0, 0.0]}, index=["low", "high"])),
     "cost_sums: "),
    (lambda: simulate(rules={1: bf.Uniform, "1": bf.Uniform}), "rules: names must be distinct"),
    # more that is no table, vector or number
    (lambda: bf.Instance(TWO, [1, 2], [{"x": 1}, {"x": 2}]), "theta_cost: "),
    (lambda: bf.Posterior.from_history(PLAIN, [0], [1.0], [[1.0]]), "costs: "),
    (lambda: bf.Alternative(DRUG, 0).log_probability(bf.Posterior(DRUG), draws=0), "draws: "),
    (lambda: bf.Alternative(DRUG, 0).nearest([1, 2], [[0, 0]], [1]), "allocation: "),
    (lambda: bf.Uniform(DRUG, seed=np.random.default_rng(1)), "seed: "),
    (lambda: bf.Uniform(bf.Problem([[1e61]])), "problem: a vector of length 1e+61"),
    (lambda: pulls_to_halve(bf.Alternative(DRUG, 0), bf.Posterior(DRUG), [-1, 2]), "shares: "),
    (lambda: pulls_to_halve(bf.Alternative(DRUG, 0), bf.Posterior(TWO), [0.5, 0.5]), "posterior: "),
    (lambda: simulate(rules={"x": answering(recommend=True)}), "recommend(): "),
    (lambda: simulate(rules={"x": partial(bf.BLFAIPS, eta=-1)}), "rules: 'x' cannot be made: eta"),
    # paths of problem files
    (lambda: bf.load("a\0.toml"), "path: no file can be called"),
    (lambda: bf.save(DRUG, "x" * 300 + ".toml"), "too long"),
    (lambda: bf.save(DRUG, "none.toml/p.toml"), "there is no folder"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _line(call):
    return f"line {call.__code__.co_firstlineno}"


@pytest.mark.parametrize(("call", "message"), [pytest.param(*row, id=_line(row[0])) for row in BAD])
def test_bad_arguments_are_named(call, message):
    with pytest.raises((TypeError, ValueError, OSError), match=re.escape(message)) as error:
        call()
    assert "\n" not in str(error.value)
    left = {path.name for path in Path().iterdir()}
    assert left <= {"a.trial"}  # nothing half-made


def test_a_refused_tell_or_undo_leaves_the_journal_as_it_was():
    made = told()
    before = Path("a.trial").read_bytes()
    for step in (
        lambda: made.tell(["low", 0.5], [1.0, 1.0], [1.0, 1.0]),
        lambda: made.tell("low", INF, 1.0),
        lambda: made.undo(99),
    ):
        with pytest.raises((TypeError, ValueError), match=r"^(arm|reward|event): "):
            step()
        assert Path("a.trial").read_bytes() == before
    assert made.undo(3)["event"] == "tell"  # the control: a good one is recorded
    assert Path("a.trial").read_bytes() != before


# --- names that come with the values are heeded ---


def test_the_index_of_a_column_of_costs_is_not_a_name():
    history = bf.History(DRUG, [0, 1], [1.0, 2.0], pd.Series([0.1, 0.2], index=["p", "q"]))
    assert history.costs.tolist() == [[0.1], [0.2]]


@pytest.mark.parametrize("name", ["dims", "columns", "index", "dtype", "ndim", "values", "T"])
def test_a_name_that_is_an_attribute_of_a_table_is_a_name(name):
    named = pd.Series({name: 0.5, "b": 0.6})
    problem = bf.Problem(pd.DataFrame({name: [1.0, 2.0], "b": [0.0, 1.0]}), named, cost_noise=named)
    assert (
        problem.coords["constraint"].tolist() == problem.coords["feature"].tolist() == [name, "b"]
    )
    truth = bf.Instance(problem, named[::-1], pd.DataFrame({"b": [0, 0.1], name: [0, 0.2]}))
    assert truth.theta_reward.tolist() == [0.5, 0.6]
    assert truth.theta_cost.tolist() == [[0, 0], [0.2, 0.1]]
    history = bf.History(problem, [0], [1.0], pd.DataFrame({"b": [0.2], name: [0.1]}))
    assert history.costs.tolist() == [[0.1, 0.2]]


def test_parameters_may_have_their_dimensions_in_any_order():
    alternative, posterior = bf.Alternative(TWO, 0), bf.Posterior(TWO)
    draws = posterior.sample(2, seed=0)  # as many as features: the shape alone would not tell
    inside = alternative.contains(draws.theta_reward, draws.theta_cost)
    turned = draws.transpose("feature", "constraint", "chain", "draw")
    assert turned.theta_reward.dims[0] == "feature"
    np.testing.assert_array_equal(
        alternative.contains(turned.theta_reward, turned.theta_cost), inside
    )


def test_more_replicates_than_memory_can_hold_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(np.random, "SeedSequence", lambda *_: pytest.fail("memory was taken"))
    with pytest.raises(ValueError, match="replicates: "):
        simulate(replicates=10**15)
    given = {"instance": {"name": "soare"}, "rules": ["Uniform"], "horizon": 1}
    with pytest.raises(ValueError, match="replicates: "):
        specification.parse(given | {"replicates": 10**15})


# --- nothing is executed from a data file ---

SOURCES = [
    path
    for part in ("bayes_feasible", "models", "analysis")
    for path in sorted(Path(__file__).parents[2].joinpath(part).rglob("*.py"))
]
RUNS_TEXT = {"eval", "exec", "compile", "__import__", "breakpoint"}
RUNS_DATA = {
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads"),
    *("shelve.open", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "dill.load"),
    *("joblib.load", "pd.read_pickle", "pandas.read_pickle", "cloudpickle.load"),
}


def executes(source):
    """Calls in a source that run text or unpickle data, by name and line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        words = [keyword for keyword in node.keywords if keyword.arg in ("allow_pickle", "shell")]
        permits = any(getattr(word.value, "value", True) is not False for word in words)
        if name in RUNS_TEXT | RUNS_DATA or permits:
            found.append(f"{name} in line {node.lineno}")
    return found


def test_no_source_runs_text_or_unpickles_data():
    assert len(SOURCES) > 60
    found = {path.name: calls for path in SOURCES if (calls := executes(path.read_text("utf-8")))}
    # Tasks and answers travel between the processes of one run, through pipes of their own.
    pipes = found.pop("workers.py")
    assert found == {}
    assert {call.partition(" ")[0] for call in pipes} == {"pickle.load", "pickle.loads"}
    source = next(path for path in SOURCES if path.name == "workers.py").read_text("utf-8")
    assert not re.search(r"\bp?open\(|read_bytes|Path\b", source)  # no file is read there


@pytest.mark.parametrize(
    "source",
    [
        *("x = eval('1')", "exec(text)", "pickle.loads(data)", "np.load(p, allow_pickle=True)"),
        *("subprocess.run(c, shell=True)", "def f():\n    return pickle.load(open('x'))"),
    ],
)
def test_a_source_that_does_is_noticed(source):
    assert executes(source)
    assert not executes("re.compile('x'); pickle.dumps(x); np.load(p, allow_pickle=False)")


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="pipe: expected a file, this is a device or a pipe"):
        bf.Uniform(bf.Problem([[1.0]])).save(pipe)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
