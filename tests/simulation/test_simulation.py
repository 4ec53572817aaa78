"""`simulate`: its Dataset, its independence of how the work is spread, and rules of the user's."""

import itertools
import json
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

import bayes_feasible as bf
from bayes_feasible.files.documents import build, from_document
from bayes_feasible.simulation import pool
from bayes_feasible.simulation import simulate as simulation
from bayes_feasible.simulation.simulate import ERROR_DRAWS, run_replicates
from bayes_feasible.simulation.world import Environment

RULES = {
    "BLFAIPS": bf.BLFAIPS,
    "true posterior": partial(bf.BLFAIPS, eta=1.0),
    "TopTwo": bf.TopTwo,
    "PlugIn": bf.PlugIn,
}


class Greedy:
    """Pulls each arm in turn, then the one that looks best: a rule as a user might write it."""

    def __init__(self, problem, seed):
        self.problem = problem
        self.rng = np.random.default_rng(seed)
        self.pulls = np.zeros(len(problem.arms))
        self.rewards = np.zeros(len(problem.arms))
        self.costs = np.zeros((len(problem.arms), problem.thresholds.size))

    def looks(self):
        pulls = np.maximum(self.pulls, 1)
        feasible = np.all(self.costs / pulls[:, np.newaxis] <= self.problem.thresholds, axis=1)
        return np.where(feasible, self.rewards / pulls, -np.inf)

    def ask(self):
        if self.pulls.min() == 0 or self.rng.random() < 0.1:
            return int(np.argmin(self.pulls))
        return int(np.argmax(self.looks()))

    def tell(self, arm, reward, cost):
        self.pulls[arm] += 1
        self.rewards[arm] += reward
        self.costs[arm] += cost

    def recommend(self):
        looks = self.looks()
        return None if np.isinf(looks.max()) else int(np.argmax(looks))


@pytest.fixture(scope="module")
def instance():
    return bf.instances.end_of_optimism(0.3)


@pytest.fixture(scope="module")
def result(instance):
    return bf.simulate(instance, RULES, 300, 6, [10, 50, 300], seed=1, executor=False)


def test_dataset(instance, result):
    assert result.recommended.dims == ("rule", "replicate", "time")
    assert result.correct.dims == result.log_error.dims == ("rule", "replicate", "time")
    assert result.efficiency.dims == ("rule", "replicate", "time")
    assert result.allocation.dims == ("rule", "replicate", "time", "arm")
    assert dict(result.sizes) == {"rule": 4, "replicate": 6, "time": 3, "arm": 5}
    assert list(result.rule.values) == list(RULES)
    assert_array_equal(result.time, [10, 50, 300])
    assert_array_equal(result.replicate, range(6))
    assert np.issubdtype(result.recommended.dtype, np.integer)
    assert result.correct.dtype == bool
    assert_array_equal(result.correct, result.recommended == instance.best)
    pulls = result.allocation * result.time
    np.testing.assert_allclose(pulls, pulls.round(), atol=1e-9)
    np.testing.assert_allclose(result.allocation.sum("arm"), 1.0)
    assert np.all(result.log_error <= 0)
    assert np.all((result.efficiency >= 0) & (result.efficiency <= 1 + 1e-8))


def test_names_label_the_result():
    problem = bf.Problem({"low": [1, 0.2], "high": [1, 0.9]}, {"dose": 0.3})
    truth = bf.Instance(problem, [0.0, 1.0], [0.0, 0.5])
    result = bf.simulate(truth, {"u": bf.Uniform}, 20, 2, executor=False)
    assert list(result.arm.values) == ["low", "high"]
    assert result.attrs["best"] == "low"


def agree(value, error, rough):
    """Whether two estimates are within 6 standard errors; they are not with probability 2e-9."""
    spread = np.hypot(error.standard_error, rough.standard_error)
    return abs(float(value) - error.value) <= 6 * spread + 1e-12


def test_log_error_is_that_of_the_rules_posterior(instance, result):
    alternative = bf.Alternative(instance.problem, instance.best)
    seeds = np.random.SeedSequence(1).spawn(6)
    for name, maker in RULES.items():
        for replicate in (0, 5):
            own, rewards, costs = (
                np.random.SeedSequence(1, spawn_key=(*seeds[replicate].spawn_key, i))
                for i in range(3)
            )
            rule, world = maker(instance, seed=own), Environment(instance, rewards, costs)
            for before, time in itertools.pairwise([0, 10, 50, 300]):
                world.play(rule, time - before)
                error = alternative.log_probability(rule.posterior, seed=9)
                rough = alternative.log_probability(rule.posterior, seed=8, draws=ERROR_DRAWS)
                found = result.sel(rule=name, replicate=replicate, time=time)
                assert agree(found.log_error, error, rough)
                assert_array_equal(found.allocation, rule._state.pulls / time)
            # The control: neither another replicate's nor another candidate's would do.
            elsewhere = result.log_error.sel(rule=name, replicate=5 - replicate, time=300)
            assert not agree(elsewhere, error, rough)
            rival = bf.Alternative(instance.problem, 4).log_probability(rule.posterior)
            assert not agree(found.log_error, rival, rough)


def test_efficiency_is_the_smallest_exponent_over_the_rate(instance, result):
    rate = bf.optimal_rate(instance).value
    for where in (
        {"rule": 0, "replicate": 0, "time": 2},
        {"rule": 2, "replicate": 3, "time": 1},
        {"rule": 3, "replicate": 5, "time": 0},
    ):
        some = result.isel(where)
        expected = bf.exponents(instance, some.allocation).min() / rate
        np.testing.assert_allclose(some.efficiency, expected, rtol=1e-9)


class Backwards:
    """An executor that runs the last task first."""

    def __init__(self):
        self.waiting = []

    def submit(self, function, *arguments):
        future = LazyFuture(self)
        self.waiting.append((future, function, arguments))
        return future

    def run(self):
        for future, function, arguments in reversed(self.waiting):
            Future.set_result(future, function(*arguments))
        self.waiting = []


class LazyFuture(Future):
    def __init__(self, executor):
        super().__init__()
        self.executor = executor

    def result(self, timeout=None):
        self.executor.run()
        return super().result(timeout)


def test_the_same_numbers_wherever_the_work_runs(instance, result):
    run = partial(bf.simulate, instance, RULES, 300, 6, [10, 50, 300], 1)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        xr.testing.assert_identical(run(pool), result)
    with ThreadPoolExecutor(3) as pool:
        xr.testing.assert_identical(run(pool), result)
    xr.testing.assert_identical(run(Backwards()), result)
    xr.testing.assert_identical(run(None), result)


def test_the_same_numbers_whatever_the_chunks(instance, result, monkeypatch):
    monkeypatch.setattr(simulation, "_chunk", lambda replicates, horizon: 1)
    again = bf.simulate(instance, RULES, 300, 6, [10, 50, 300], seed=1, executor=False)
    xr.testing.assert_identical(again, result)


def test_own_pool_gives_the_same_numbers(instance, result, monkeypatch):
    """The pool of processes that large work gets by default, made to take small work too."""
    monkeypatch.setattr(pool.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(pool, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(pool, "run_here", None)
    again = bf.simulate(instance, RULES, 300, 6, [10, 50, 300], seed=1)
    xr.testing.assert_identical(again, result)


def test_other_rules_replicates_and_checkpoints_change_nothing(instance, result):
    fewer = bf.simulate(
        instance, {"TopTwo": bf.TopTwo}, 300, 6, [10, 50, 300], seed=1, executor=False
    )
    xr.testing.assert_identical(fewer, result.sel(rule=["TopTwo"]))
    reordered = dict(reversed(RULES.items()))
    other = bf.simulate(instance, reordered, 300, 6, [10, 50, 300], seed=1, executor=False)
    xr.testing.assert_identical(other.sel(rule=list(RULES)), result)
    less = bf.simulate(instance, RULES, 300, 3, [10, 50, 300], seed=1, executor=False)
    xr.testing.assert_equal(less, result.isel(replicate=slice(3)))
    sparse = bf.simulate(instance, RULES, 50, 6, [50], seed=1, executor=False)
    assert_array_equal(sparse.allocation, result.allocation.sel(time=[50]))


def test_seeds(instance):
    run = partial(bf.simulate, instance, {"u": bf.Uniform}, 40, 2, executor=False)
    xr.testing.assert_identical(run(seed=3), run(seed=3))
    assert not run(seed=3).equals(run(seed=4))
    sequence = np.random.SeedSequence(3)
    xr.testing.assert_equal(run(seed=sequence), run(seed=3))
    xr.testing.assert_equal(run(seed=sequence), run(seed=3))


def test_replicates_differ_and_rules_meet_the_same_noise(instance):
    rules = {"a": bf.Uniform, "b": bf.Uniform}
    result = bf.simulate(instance, rules, 60, 5, [60], executor=False)
    assert_array_equal(result.allocation.sel(rule="a"), result.allocation.sel(rule="b"))
    assert len(np.unique(result.log_error.sel(rule="a"))) == 5


def test_attributes_reproduce_the_run(instance, result):
    again = build(from_document(json.loads(result.attrs["instance"])))
    assert again.problem == instance.problem
    assert result.attrs["version"] == bf.__version__
    assert result.attrs["replicates_asked"] == 6
    rerun = bf.simulate(
        again, RULES, int(result.time[-1]), result.attrs["replicates_asked"],
        result.time.values, int(result.attrs["seed"]), executor=False,
    )  # fmt: skip
    xr.testing.assert_identical(rerun, result)


def test_result_can_be_written(result, tmp_path):
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as read:
        xr.testing.assert_equal(read.load(), result)


def test_infinite_thresholds_survive_the_attributes():
    instance = bf.instances.random_ball(2, 4, seed=0, threshold=np.inf)
    result = bf.simulate(instance, {"PEPS": bf.PEPS}, 30, 1, executor=False)
    again = build(from_document(json.loads(result.attrs["instance"])))
    assert again.problem == instance.problem


@pytest.mark.parametrize(
    ("horizon", "expected"),
    [
        (1, [1]),
        (2, [2]),
        (7, [7]),
        (10, [10]),
        (300, [10, 20, 50, 100, 200, 300]),
    ],
)
def test_default_checkpoints(instance, horizon, expected):
    result = bf.simulate(instance, {"u": bf.Uniform}, horizon, 1, executor=False)
    assert_array_equal(result.time, expected)


def test_checkpoints_may_stop_before_the_horizon(instance):
    result = bf.simulate(instance, {"u": bf.Uniform}, 100, 1, np.array([3, 9]), executor=False)
    assert_array_equal(result.time, [3, 9])


def test_a_rule_of_the_users_own(instance):
    rules = {"greedy": Greedy, "BLFAIPS": bf.BLFAIPS}
    result = bf.simulate(instance, rules, 100, 4, [20, 100], executor=False)
    assert np.all(result.sel(rule="greedy").allocation > 0)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        xr.testing.assert_identical(
            bf.simulate(instance, rules, 100, 4, [20, 100], 0, pool), result
        )
    # The same noise as for our own rules, and the exact posterior of what the rule pulled.
    own, noise, costs, _ = (np.random.SeedSequence(0, spawn_key=(2, i)) for i in range(4))
    rule, world = Greedy(instance.problem, seed=own), Environment(instance, noise, costs)
    world.play(rule, 100)
    assert_array_equal(
        world.pulls / 100, result.allocation.sel(rule="greedy", replicate=2, time=100)
    )
    error = bf.Alternative(instance.problem, instance.best).log_probability(world.posterior(rule))
    found = result.log_error.sel(rule="greedy", replicate=2, time=100)
    assert agree(found, error, error)
    assert not agree(result.log_error.sel(rule="greedy", replicate=1, time=100), error, error)
    assert int(result.recommended.sel(rule="greedy", replicate=2, time=100)) == rule.recommend()


def test_a_users_rule_equals_ours_if_it_does_the_same(instance):
    class Mine:
        def __init__(self, problem, seed):
            self.inner = bf.BLFAIPS(problem, seed=seed)

        def ask(self):
            return self.inner.ask()

        def tell(self, arm, reward, cost):
            self.inner.tell(arm, reward, cost)

        def recommend(self):
            return self.inner.recommend()

    rules = {"mine": Mine, "ours": bf.BLFAIPS}
    result = bf.simulate(instance, rules, 150, 3, [150], executor=False)
    assert_array_equal(result.allocation.sel(rule="mine"), result.allocation.sel(rule="ours"))
    assert_array_equal(result.recommended.sel(rule="mine"), result.recommended.sel(rule="ours"))
    np.testing.assert_allclose(
        result.log_error.sel(rule="mine"), result.log_error.sel(rule="ours"), rtol=1e-6
    )


def test_functions_that_make_rules(instance):
    rules = {
        "made": lambda problem, seed: bf.BLFAIPS(problem, seed=seed, eta=1.0),
        "partial": partial(bf.BLFAIPS, eta=1.0),
    }
    result = bf.simulate(instance, rules, 50, 2, [50], executor=False)
    assert_array_equal(result.allocation.sel(rule="made"), result.allocation.sel(rule="partial"))


def test_none_is_recommended_where_nothing_looks_feasible():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], 0.1)
    instance = bf.Instance(problem, [1.0, 1.0], [0.0, 3.0])

    class Stubborn(Greedy):
        def ask(self):
            return 1

        def recommend(self):
            return None

    result = bf.simulate(instance, {"stubborn": Stubborn}, 5, 2, [5], executor=False)
    assert_array_equal(result.recommended, -1)
    assert not result.correct.any()


def test_copies_of_the_best_are_correct():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    instance = bf.Instance(problem, [3.0, 0.0])

    class Last(Greedy):
        def recommend(self):
            return 2

    assert bf.simulate(instance, {"last": Last}, 5, 2, [5], executor=False).correct.all()


def test_ties_have_no_efficiency():
    instance = bf.Instance(bf.Problem([[1.0, 0.0], [0.0, 1.0]]), [1.0, 1.0])
    with pytest.warns(UserWarning, match="tie"):
        result = bf.simulate(instance, {"u": bf.Uniform}, 5, 2, [5], executor=False)
    assert np.isnan(result.efficiency).all()


@pytest.mark.parametrize("finished", [0, 1, 3, 5])
def test_interrupted(instance, monkeypatch, finished, capsys):
    """What is finished when the user presses Ctrl-C is returned, and equals the full run."""
    monkeypatch.setattr(simulation, "_chunk", lambda replicates, horizon: 1)
    rules = {"u": bf.Uniform, "t": bf.LinearThompson}
    whole = bf.simulate(instance, rules, 40, 4, [40], executor=False)
    calls = itertools.count()

    def interrupted(*arguments):
        if next(calls) == finished:
            raise KeyboardInterrupt
        return run_replicates(*arguments)

    monkeypatch.setattr(simulation, "run_replicates", interrupted)
    part = bf.simulate(instance, rules, 40, 4, [40], executor=False)
    assert part.sizes["replicate"] == finished // 2
    assert part.attrs["replicates_asked"] == 4
    xr.testing.assert_equal(part, whole.isel(replicate=slice(finished // 2)))
    assert f"{finished} of 8 tasks are finished" in capsys.readouterr().err


def test_interrupted_in_a_pool(instance, monkeypatch):
    class Interrupting(ThreadPoolExecutor):
        def __init__(self):
            super().__init__(1)
            self.submitted = 0

        def submit(self, *arguments):
            self.submitted += 1
            if self.submitted > 3:
                future = Future()
                future.set_exception(KeyboardInterrupt())
                return future
            return super().submit(*arguments)

    monkeypatch.setattr(simulation, "_chunk", lambda replicates, horizon: 1)
    with Interrupting() as pool:
        part = bf.simulate(instance, {"u": bf.Uniform}, 40, 6, [40], executor=pool)
    assert_array_equal(part.replicate, [0, 1, 2])


class Broken(Greedy):
    def ask(self):
        return 7


class Confused(Greedy):
    def recommend(self):
        return 99


class Silent:
    def __init__(self, problem, seed):
        pass

    def ask(self):
        return 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"instance": "end_of_optimism"}, "instance"),
        ({"rules": {}}, "rules"),
        ({"rules": [bf.Uniform]}, "rules"),
        ({"rules": {"u": 3}}, "rules: 'u'"),
        ({"rules": {"u": Silent}}, r"rules: 'u'.*tell"),
        ({"rules": {"u": partial(bf.BLFAIPS, eta=-1)}}, "rules: 'u'.*eta"),
        ({"rules": {"p": bf.PEPS}}, "rules: 'p'.*PEPS"),
        ({"rules": {"b": Broken}}, r"ask\(\)"),
        ({"rules": {"c": Confused}}, r"recommend\(\)"),
        ({"horizon": 0}, "horizon"),
        ({"replicates": 2.5}, "replicates"),
        ({"checkpoints": []}, "checkpoints"),
        ({"checkpoints": [5, 2]}, "checkpoints"),
        ({"checkpoints": np.array([5, 2], dtype=np.uint64)}, "checkpoints"),
        ({"checkpoints": [5, 11]}, "checkpoints"),
        ({"checkpoints": [2.0, 5.0]}, "checkpoints"),
        ({"checkpoints": [[1, 2]]}, "checkpoints"),
        ({"seed": -1}, "seed"),
        ({"executor": 3}, "executor"),
    ],
)
def test_bad_input(instance, change, named):
    arguments = {
        "instance": instance, "rules": {"u": bf.Uniform}, "horizon": 10, "replicates": 1,
        "executor": False,
    }  # fmt: skip
    with pytest.raises((TypeError, ValueError), match=named):
        bf.simulate(**(arguments | change))


def test_progress_is_shown_only_if_asked(instance, capsys):
    bf.simulate(instance, {"u": bf.Uniform}, 10, 1, executor=False)
    assert capsys.readouterr().err == ""


def test_dask_runs_the_same_work(instance):
    from distributed import Client

    rules = {"u": bf.Uniform, "BLFAIPS": bf.BLFAIPS}
    here = bf.simulate(instance, rules, 60, 4, seed=3, executor=False)
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    with Client(**options, dashboard_address=None) as client:
        there = bf.simulate(instance, rules, 60, 4, seed=3, executor=client.get_executor())
    xr.testing.assert_identical(here, there)
