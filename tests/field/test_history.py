"""Recorded pulls, to and from files."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import bayes_feasible as bf


@pytest.fixture
def problem():
    return bf.Problem(
        {"placebo": [1, 0], "10 mg": [1, 0.5], "20 mg": [1, 1]},
        thresholds={"toxicity": 0.5, "price, total": 2.0},
    )


@pytest.fixture
def history(problem):
    rng = np.random.default_rng(0)
    return bf.History(problem, rng.integers(3, size=50), rng.normal(size=50),
                      rng.normal(size=(50, 2)) * 1e-7)  # fmt: skip


def same(one, other):
    return (
        one.problem == other.problem
        and np.array_equal(one.arms, other.arms)
        and np.array_equal(one.rewards, other.rewards)
        and np.array_equal(one.costs, other.costs)
    )


@pytest.mark.parametrize("name", ["pulls.csv", "pulls.nc", "PULLS.CSV"])
def test_what_was_saved_is_loaded_to_the_last_digit(history, tmp_path, name):
    path = tmp_path / name
    history.save(path)
    assert same(bf.History.load(path, history.problem), history)
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", ["csv", "nc"])
def test_no_pulls_and_no_constraints(tmp_path, kind):
    path = tmp_path / f"pulls.{kind}"
    for problem in (bf.Problem([[1, 0], [0, 1]]), bf.Problem([[1, 0], [0, 1]], 0.5)):
        empty = bf.History(problem, [], [], np.empty((0, problem.thresholds.size)))
        empty.save(path)
        assert len(bf.History.load(path, problem)) == 0
    plain = bf.History(bf.Problem([[1, 0], [0, 1]]), [0, 1], [1.0, 2.0])
    plain.save(path)
    assert same(bf.History.load(path, plain.problem), plain)


def test_tables_written_by_others(problem, tmp_path):
    path = tmp_path / "pulls.csv"
    path.write_bytes(
        b"\xef\xbb\xbfreward,arm,toxicity,\"price, total\"\r\n"
        b"1.5,10 mg,0.1,3\r\n\r\n-2, placebo ,1e-3,4\r\n"
    )  # fmt: skip
    found = bf.History.load(path, problem)
    assert found.arms.tolist() == [1, 0]
    assert found.rewards.tolist() == [1.5, -2.0]
    assert found.costs.tolist() == [[0.1, 3.0], [0.001, 4.0]]


def test_indices_and_one_cost(tmp_path):
    path = tmp_path / "pulls.csv"
    path.write_text("arm,reward,cost\n1,0.5,0.2\n0,0.25,0.1\n")
    for arms in ([[1, 0], [0, 1]], {"low": [1, 0], "high": [0, 1]}):
        found = bf.History.load(path, bf.Problem(arms, 0.5))
        assert found.arms.tolist() == [1, 0]
        assert found.costs.tolist() == [[0.2], [0.1]]
    numbered = bf.Problem({10: [1, 0], 20: [0, 1]}, 0.5)
    with pytest.raises(ValueError, match=r"pulls.csv: line 2: .*unknown arm '1'"):
        bf.History.load(path, numbered)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arm,reward,toxicity\n", "line 1: .*price, total"),
        ("arm,reward,toxicity,\"price, total\"\nplacebo,1,2,3\n10 mg,x,2,3\n", "line 3.*'x'"),
        ("arm,reward,toxicity,\"price, total\"\nplacebo,1,2\n", "line 2: expected 4 cells, got 3"),
        ("arm,reward,toxicity,\"price, total\"\n\nplacbo,1,2,3\n",
         "line 3: .*unknown arm 'placbo'; did you mean 'placebo'"),
        ("arm,reward,toxicity,\"price, total\"\n7,1,2,3\n",
         "line 2: arm: 7 is out of range, there are 3 arms"),
        ('arm,reward,toxicity,"price, total"\nplacebo,inf,2,3\n', "finite.*inf"),
        ('arm,reward,toxicity,"price, total"\nplacebo,1e400,2,3\n', "finite.*1e400"),
        ("", "line 1"),
    ],
)  # fmt: skip
def test_malformed_lines_are_named(problem, tmp_path, text, message):
    path = tmp_path / "pulls.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        bf.History.load(path, problem)
    assert str(path) in str(caught.value)


def test_a_netcdf_file_may_name_arms_and_order_constraints_as_it_likes(history, tmp_path):
    path = tmp_path / "pulls.nc"
    names = history.problem.coords["arm"][history.arms]
    turned = history.to_dataset().isel(constraint=[1, 0]).assign(arm=("pull", names))
    turned.transpose("constraint", "pull").to_netcdf(path, engine="h5netcdf")
    assert same(bf.History.load(path, history.problem), history)


def test_costs_of_a_netcdf_file_may_be_variables_of_their_own(history, tmp_path):
    """As in a table: that is what others write who know nothing of this package."""
    path = tmp_path / "pulls.nc"
    columns = {
        "price, total": history.costs[:, 1], "toxicity": history.costs[:, 0],
        "reward": history.rewards, "arm": history.problem.coords["arm"][history.arms],
    }  # fmt: skip
    table = xr.Dataset({name: ("row", values) for name, values in columns.items()})
    table.to_netcdf(path, engine="h5netcdf")
    assert same(bf.History.load(path, history.problem), history)
    path.unlink()
    table.drop_vars("toxicity").to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="no variable 'toxicity'"):
        bf.History.load(path, history.problem)
    reward = bf.Problem(np.eye(3), {"reward": 1.0})  # a constraint, not what it is called here
    path.unlink()
    table.assign(arm=("row", history.arms)).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="no variable 'cost'"):
        bf.History.load(path, reward)


def test_a_netcdf_file_of_another_problem_is_refused(history, tmp_path):
    path = tmp_path / "pulls.nc"
    history.save(path)
    limits = {"toxicity": 0.5, "price, total": 2.0}
    other = bf.Problem({"a": [1, 0], "b": [1, 0.5], "c": [1, 1]}, limits)
    with pytest.raises(ValueError, match="arms: expected those of the problem"):
        bf.History.load(path, other)
    fewer = bf.Problem(dict(zip(history.problem.coords["arm"].tolist(), other.arms, strict=True)),
                       {"toxicity": 1.0})  # fmt: skip
    with pytest.raises(ValueError, match="constraints: expected"):
        bf.History.load(path, fewer)
    xr.Dataset({"arm": ("pull", [0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="no variable 'reward'"):
        bf.History.load(path, history.problem)
    path.write_text("not netCDF")
    with pytest.raises(ValueError, match="not a netCDF file"):
        bf.History.load(path, history.problem)


def test_paths_that_cannot_be(problem, history, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv: no such file"):
        bf.History.load(tmp_path / "nowhere.csv", problem)
    with pytest.raises(ValueError, match="this is a folder"):
        bf.History.load(tmp_path, problem)
    with pytest.raises(TypeError, match="path: "):
        bf.History.load(3, problem)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        history.save(tmp_path / "missing" / "pulls.csv")


def daily(tmp_path):
    """An A/B test as it comes out of a spreadsheet, with other columns beside it."""
    path = tmp_path / "days.csv"
    path.write_text(
        "date,variant,visitors,conversions,latency,latency_sd,refunds,note\n"
        "Mon,control,520,53,205.1,31.0,10,\nMon,video,505,65,231.4,33.5,12,late\n"
        "Tue,control,480,47,201.0,29.5,,\nWed,control,480,,,,9,refunds of Tuesday\n"
    )
    return path, {
        "arm": "variant", "count": "visitors", "sd_latency": "latency_sd"
    }  # fmt: skip


@pytest.fixture
def pages():
    return bf.Problem(
        {"control": [1, 0], "video": [1, 1]},
        {"latency": bf.Relative("control", 10.0), "refunds": 0.03},
        reward={"conversions": bf.Bernoulli()},
        costs={"latency": bf.Gaussian(), "refunds": bf.Bernoulli()},
    )


def test_totals_of_days_with_columns_of_their_own(pages, tmp_path):
    path, columns = daily(tmp_path)
    history = bf.History.load(path, pages, columns)
    assert repr(history) == "History of 1985 pulls in 4 rows of 2 arms"
    posterior = history.posterior()
    # what was seen of Tuesday's pulls on Wednesday completes them
    assert posterior.counts.tolist() == [1000, 505]
    assert posterior.seen.tolist() == [[1000, 1000, 1000], [505, 505, 505]]
    assert_allclose(posterior.cost_sums[0], [205.1 * 520 + 201.0 * 480, 19])
    for extension in ("csv", "nc"):
        history.save(tmp_path / f"again.{extension}")
        again = bf.History.load(tmp_path / f"again.{extension}", pages)
        for name in ("arms", "rewards", "costs", "counts", "sds"):
            assert_array_equal(getattr(again, name), getattr(history, name), strict=True)
    assert history.first(2).posterior().pulls == 1025


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": "variants"}, "column 'variants' is missing"),
        ({"arms": "variant"}, "columns: .*'arms'.*'arm'"),
        ({"arm": None}, "columns: the arm"),
        ({"count": None}, r"line 2: reward: expected 0 or 1 a pull, got 53"),
        ({"sd_latency": None}, "line 2: sd: cost latency"),
        ({"sd_refunds": "refunds"}, "line 2: sd: expected NaN for 0/1"),
    ],
)
def test_columns_that_do_not_fit_are_refused(pages, tmp_path, change, message):
    path, columns = daily(tmp_path)
    with pytest.raises(ValueError, match=message):
        bf.History.load(path, pages, columns | change)


def test_an_outcome_that_a_file_does_not_have(pages, tmp_path):
    path, columns = daily(tmp_path)
    history = bf.History.load(path, pages, columns | {"refunds": None})
    assert np.isnan(history.costs[:, 1]).all()
    (tmp_path / "few.csv").write_text("arm,conversions,latency\ncontrol,1,200\n")
    with pytest.raises(ValueError, match="column 'refunds' is missing"):
        bf.History.load(tmp_path / "few.csv", pages)
