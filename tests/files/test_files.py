"""What is saved is loaded again, to the last bit; what cannot be read is explained."""

import json
import math
import os
import stat
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bayes_feasible as bf
from bayes_feasible.outcomes import Bernoulli, Gaussian, Poisson, Relative
from bayes_feasible.prior import Prior

FORMATS = ("toml", "json", "csv")
# Every example writes the same file anew; and the machine may be busy.
UNIMPORTANT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
CELLS = ["kind", "name", "value", "arm", "both", "threshold", "x", "1", "'", ""]
each_format = pytest.mark.parametrize("extension", FORMATS)


def same(one, other):
    """Equal, and equal in what equality might overlook: dtypes, signs of zero, the type."""
    assert type(one) is type(other)
    assert one == other
    ours, theirs = (x.problem if isinstance(x, bf.Instance) else x for x in (one, other))
    for name in ours.coords:
        assert ours.coords[name].dtype.kind == theirs.coords[name].dtype.kind
        assert ours.coords[name].tolist() == theirs.coords[name].tolist()
    for name in ("arms", "candidates", "thresholds", "cost_noise"):
        assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
    assert (ours.candidates is ours.arms) == (theirs.candidates is theirs.arms)


def write(folder, name, text):
    path = Path(folder, name)
    path.write_text(text, encoding="utf-8")
    return path


# --- round trips ---


def problems():
    awkward = [
        *("", " a ", "'", "'7", "7", "-0", "a,b", 'say "x"', "two\nlines", "cr\rx", "é日本🎬"),
        "kind",
    ]
    yield "plain", bf.Problem([[1, 0], [0, 1]])
    yield "awkward", bf.Problem({name: [i + 0.1] for i, name in enumerate(awkward)})
    yield "digits as text", bf.Problem({"0": [1.0], "1": [2.0]})
    yield "digits", bf.Problem({10: [1.0], -3: [2.0], 2**62: [4.0]}, {7: 1, 5: 2})
    yield "mixed", bf.Problem({1: [1.0], "a": [2.0]})
    yield "infinite", bf.Problem([[1.0]], [np.inf, 0.1])
    yield "features", bf.Problem(pd.DataFrame([[1, 2], [3, 4]], columns=["value", "dose"]))
    yield "numbered features", bf.Problem(pd.DataFrame([[1, 2], [3, 4]], columns=[3, 9]))
    yield (
        "candidates",
        bf.Problem(
            [[1, 0], [0, 1]],
            {"a": 1, "b": -0.0},
            candidates={"z": [1, 1], "y": [-0.0, 0.3]},
            reward_noise=0.1,
            cost_noise=[1 / 3, 2e-5],
            parameter_radius=(2, np.inf),
        ),
    )
    yield "radius", bf.Problem([[1.0]], parameter_radius=math.pi)
    yield "all digits", bf.Problem([[1e100, 1e-100], [0.1 + 0.2, 5e22]])


def instances():
    yield from (bf.instances.end_of_optimism(0.1), bf.instances.soare(3), bf.instances.movielens())
    yield bf.instances.random_ball(3, 4, 0, threshold=np.inf)
    yield bf.instances.movielens(features="genres")
    yield bf.Instance(bf.Problem(np.eye(2), {"a": 1, "b": 2}), [1, 0], [[0.1, 0], [0, 0.2]])
    yield bf.Instance(bf.Problem(np.eye(2), {30: 1, 20: 2}), [1, 0], [[0.1, 0], [0, 0.2]])


@each_format
@pytest.mark.parametrize("problem", [pytest.param(p, id=name) for name, p in problems()])
def test_problem_round_trip(tmp_path, problem, extension):
    path = tmp_path / f"PROBLEM.{extension.upper()}"
    bf.save(problem, path)
    same(bf.load(path), problem)


@each_format
@pytest.mark.parametrize("instance", list(instances()))
def test_instance_round_trip(tmp_path, instance, extension):
    path = tmp_path / f"instance.{extension}"
    bf.save(instance, str(path))
    loaded = bf.load(str(path))
    same(loaded, instance)
    assert loaded.theta_reward.tobytes() == instance.theta_reward.tobytes()
    assert loaded.theta_cost.tobytes() == instance.theta_cost.tobytes()
    assert loaded.best == instance.best


sizes = st.integers(1, 4)
reals = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) >= 1e-100)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
labels = texts | st.integers(-(2**63) + 1, 2**63 - 1)


@st.composite
def any_problem(draw):
    features, arms, constraints = draw(sizes), draw(sizes), draw(st.integers(0, 3))
    rows = draw(hnp.arrays(float, (arms, features), elements=reals).filter(np.any))
    names = [
        draw(st.lists(labels, min_size=n, max_size=n, unique_by=str)) for n in (arms, features)
    ]
    given_names = draw(st.booleans())
    table = pd.DataFrame(rows, *names) if given_names else rows
    thresholds = draw(
        st.dictionaries(labels, reals | st.just(math.inf), min_size=constraints, max_size=3).filter(
            lambda limits: len(set(map(str, limits))) == len(limits)
        )
    )
    positive = st.floats(1e-100, 1e100)
    return bf.Problem(
        table,
        thresholds,
        candidates=draw(st.none() | st.just({"half": rows[0] / 2, "1": rows[-1]}))
        if np.abs(rows).min() > 1e-90
        else None,
        reward_noise=draw(positive),
        cost_noise=draw(hnp.arrays(float, len(thresholds), elements=positive)),
        parameter_radius=draw(st.none() | st.tuples(positive, positive | st.just(math.inf))),
    )


@settings(suppress_health_check=UNIMPORTANT)
@given(problem=any_problem())
@each_format
def test_any_problem_round_trip(tmp_path, extension, problem):
    path = tmp_path / f"any.{extension}"
    bf.save(problem, path)
    same(bf.load(path), problem)


# --- what is written ---


def test_toml_is_toml_whatever_the_names(tmp_path):
    name = 'a [\n1,\n2,\n] "b" ]'
    bf.save(bf.Problem({name: [1, 2]}), tmp_path / "p.toml")
    assert list(tomllib.loads((tmp_path / "p.toml").read_text())["arms"]) == [name]


def test_json_is_strict(tmp_path):
    bf.save(bf.Problem([[1.0]], [np.inf], parameter_radius=(1, np.inf)), tmp_path / "p.json")

    document = json.loads((tmp_path / "p.json").read_text(), parse_constant=pytest.fail)
    assert document["thresholds"] == ["inf"]
    assert document["parameter_radius"] == [1.0, "inf"]


def test_csv_is_one_tidy_table(tmp_path):
    bf.save(bf.instances.end_of_optimism(0.1), tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["kind", "name", "value", "0", "1"]
    kinds = ["threshold", "reward_noise", "cost_noise", "theta_reward", "theta_cost"]
    assert table.kind.value_counts().to_dict() == {"arm": 5} | dict.fromkeys(kinds, 1)
    assert table.value[table.kind == "threshold"].tolist() == [0.5]


# --- files written by hand ---


def test_minimal_files(tmp_path):
    path = write(tmp_path, "p.toml", "thresholds = 0.3\narms = [[1, 0.2], [1, 0.9]]\n")
    same(bf.load(path), bf.Problem([[1, 0.2], [1, 0.9]], 0.3))
    same(bf.load(write(tmp_path, "p.json", '{"arms": {"a": [1]}}')), bf.Problem({"a": [1]}))
    path = write(tmp_path, "p.csv", "kind,dose\narm,1\narm,2\n")
    same(bf.load(path), bf.Problem(pd.DataFrame({"dose": [1, 2]})))


def test_full_toml(tmp_path):
    text = """
        features = ["constant", "dose"]
        reward_noise = 2
        cost_noise = { price = 3, toxicity = 4 }
        parameter_radius = [5, inf]
        theta_reward = [1, 0]
        theta_cost = { price = [0, 1], toxicity = [0, 0] }
        thresholds = { toxicity = 0.3, price = inf }
        [arms]
        low = [1, 0.2]
        [candidates]
        z = [2, 0.4]
    """
    arms = pd.DataFrame([[1, 0.2]], index=["low"], columns=["constant", "dose"])
    problem = bf.Problem(
        arms,
        {"toxicity": 0.3, "price": np.inf},
        candidates={"z": [2, 0.4]},
        reward_noise=2,
        cost_noise=[4, 3],
        parameter_radius=(5, np.inf),
    )
    same(bf.load(write(tmp_path, "p.toml", text)), bf.Instance(problem, [1, 0], [[0, 0], [0, 1]]))


def test_csv_with_spaces_blank_lines_short_rows_and_a_byte_order_mark(tmp_path):
    text = (
        "\ufeffkind, name, value, x, y\r\n"
        "arm, low, , 1, 0.2\r\n"
        "\r\n"
        "both, high, , 1, 0.9\r\n"
        "threshold, toxicity, 0.3\r\n"
        "cost_noise, , 0.5\r\n"
        "radius_cost, , 3\r\n"
    )
    arms = pd.DataFrame([[1, 0.2], [1, 0.9]], index=["low", "high"], columns=["x", "y"])
    expected = bf.Problem(
        arms,
        {"toxicity": 0.3},
        candidates={"high": [1, 0.9]},
        cost_noise=0.5,
        parameter_radius=(np.inf, 3),
    )
    same(bf.load(write(tmp_path, "p.csv", text)), expected)


def test_csv_both(tmp_path):
    text = "kind,name,x\ncandidate,c,3\nboth,b,2\narm,a,1\n"
    problem = bf.load(write(tmp_path, "p.csv", text))
    assert problem.coords["arm"].tolist() == ["b", "a"]
    assert problem.coords["candidate"].tolist() == ["c", "b"]
    assert problem.candidates.tolist() == [[3], [2]]
    only = bf.load(write(tmp_path, "q.csv", "kind,name,x\nboth,b,2\nboth,a,1\n"))
    assert only.candidates is only.arms


def test_csv_costs_by_name_or_in_order(tmp_path):
    start = "kind,name,value,x\narm,,,1\nthreshold,a,1,\nthreshold,b,2,\ntheta_reward,,,1\n"
    named = "theta_cost,b,,0.2\ntheta_cost,a,,0.1\ncost_noise,b,4,\ncost_noise,a,3,\n"
    ordered = "theta_cost,,,0.1\ntheta_cost,,,0.2\ncost_noise,,3,\ncost_noise,,4,\n"
    one, other = (
        bf.load(write(tmp_path, f"{i}.csv", start + end)) for i, end in enumerate((named, ordered))
    )
    same(one, other)
    assert one.theta_cost.tolist() == [[0.1], [0.2]]
    assert one.problem.cost_noise.tolist() == [3, 4]


# --- paths ---


def test_wrong_paths(tmp_path):
    problem = bf.Problem([[1.0]])
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(FileNotFoundError, match=r"none\.toml: no such file"):
        bf.load(tmp_path / "none.toml")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        bf.save(problem, tmp_path / "nowhere" / "p.toml")
    for call in (bf.load, lambda path: bf.save(problem, path)):
        with pytest.raises(ValueError, match=r"folder\.toml: expected a file, this is a folder"):
            call(tmp_path / "folder.toml")
        with pytest.raises(ValueError, match=r"expected the extension .*, got '\.pkl'"):
            call(tmp_path / "p.pkl")
        with pytest.raises(TypeError, match=r"^path: expected the path of a file, got 3$"):
            call(3)
    with pytest.raises(ValueError, match=r"^thing: expected a Problem or an Instance, got list$"):
        bf.save([[1.0]], tmp_path / "p.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.toml"]


@settings(max_examples=200, suppress_health_check=UNIMPORTANT)
@given(
    text=st.text()
    | st.lists(st.lists(st.sampled_from(CELLS), max_size=4).map(",".join), max_size=5).map(
        "\n".join
    )
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
        lambda x: (
            st.lists(x, max_size=3)
            | st.dictionaries(st.sampled_from(["arms", "thresholds", "name", "vector", "a"]), x)
        ),
    ).map(json.dumps)
)
@each_format
def test_any_text_is_a_problem_or_a_value_error(tmp_path, extension, text):
    path = tmp_path / f"any.{extension}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    message = None
    try:
        problem = bf.load(path)
    except ValueError as error:
        message = str(error)
    if message is None:
        assert np.isfinite(problem.arms).all()
    else:
        assert message.startswith(f"{path}: ")


# --- writing in one step ---


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("existed", [True, False])
def test_failed_write_leaves_everything_as_it_was(tmp_path, monkeypatch, step, existed):
    path = tmp_path / "p.toml"
    if existed:
        bf.save(bf.Problem([[1.0]]), path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        bf.save(bf.Problem([[2.0]]), path)
    assert list(tmp_path.iterdir()) == ([path] if existed else [])
    if existed:
        assert bf.load(path) == bf.Problem([[1.0]])


def test_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(tmp_path):
    plain, path = tmp_path / "plain", tmp_path / "p.json"
    plain.touch()
    bf.save(bf.Problem([[1.0]]), path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    bf.save(bf.Problem([[2.0]]), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_link_is_written_through(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    bf.save(bf.Problem([[1.0]]), target)
    link.symlink_to(target)
    bf.save(bf.Problem([[2.0]]), link)
    assert link.is_symlink()
    assert bf.load(target) == bf.Problem([[2.0]])


def outcomes_problem():
    return bf.Problem(
        {"control": [1, 0], "new": [1, 1]},
        thresholds={"refunds": 0.03, "latency": Relative("control", 10.0), "calls": np.inf},
        reward=Bernoulli(prior=Prior(mean=[-2.0, 0.0], sd=[1.0, 0.5])),
        costs={
            "latency": Gaussian(noise_prior=(2.0, 50.0)),
            "refunds": Bernoulli(prior=Prior(covariance=[[2.0, 0.5], [0.5, 1.0]])),
            "calls": Poisson(),
        },
    )


@pytest.mark.parametrize("extension", ["toml", "json"])
def test_outcomes_priors_and_relative_limits_survive(tmp_path, extension):
    problem = outcomes_problem()
    truth = bf.Instance(
        problem, [-2, 0.1], [[-4, 0], [200, 5], [1, 0]], cost_noise=[1.0, 30.0, 1.0]
    )
    for thing in (problem, truth):
        path = tmp_path / f"thing.{extension}"
        bf.save(thing, path)
        assert bf.load(path) == thing
    assert bf.Problem(problem.arms, 1.0) != problem


def test_a_table_has_no_room_for_outcomes(tmp_path):
    with pytest.raises(ValueError, match=r"CSV.*\.toml"):
        bf.save(outcomes_problem(), tmp_path / "thing.csv")
    assert not (tmp_path / "thing.csv").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": "bernouli"}, "reward.*bernoulli"),
        ({"reward": {"kind": "gaussian", "prior": 3}}, "reward.*prior"),
        ({"reward": {"kind": "gaussian", "noise": -1}}, "reward.*noise.*-1"),
        ({"costs": {"harm": "poisson", "other": "poisson"}}, "costs.*other"),
        ({"relative": {"harms": "a"}}, "relative.*harm"),
        ({"relative": {"harm": "c"}}, "thresholds.*'c'"),
        ({"relative": "a"}, "relative"),
    ],
)
def test_outcomes_that_make_no_sense_are_refused(tmp_path, change, message):
    document = {"arms": {"a": [1, 0], "b": [0, 1]}, "thresholds": {"harm": 0.5}} | change
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        bf.load(path)
