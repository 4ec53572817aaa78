"""Anybody's sampler: what it is given is the target, and what it returns is read or refused."""

import json
import re
import sys
from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

import bayes_feasible as bf
from bayes_feasible import analysis, cli
from bayes_feasible._draws import read_draws
from bayes_feasible.analysis.samplers import sample, scoreboard
from bayes_feasible.analysis.samplers.own import Target
from bayes_feasible.analysis.samplers.targets import target
from bayes_feasible.files.atomic import write_netcdf

SAMPLER = """
import numpy as np

def by_rejection(target):
    rng = np.random.default_rng(target.seed)
    found = np.empty((0, len(target.mean)))
    while len(found) < target.draws * len(target.starts):
        drawn = rng.multivariate_normal(target.mean, target.covariance, 10_000)
        found = np.concatenate([found, drawn[target.contains(drawn)]])
    found = found[: target.draws * len(target.starts)]
    return target.label(found.reshape(len(target.starts), target.draws, -1), independent=1)

number = 3
"""


@pytest.fixture(scope="module")
def state():
    return target("b", -4)


@pytest.fixture(scope="module")
def by_rejection():
    names = {}
    exec(SAMPLER, names)
    return names["by_rejection"]


def given(state):
    return Target.of(sample.prepare(*state))


def test_the_target_is_the_posterior_given_the_set(state):
    posterior, wrong = state
    this = given(state)
    noise = [posterior.problem.reward_noise, *posterior.problem.cost_noise]
    means = np.vstack([posterior.theta_reward, posterior.theta_cost])
    points = this.mean + np.linalg.cholesky(this.covariance) @ np.array(
        np.random.default_rng(0).normal(size=(200, 4, 1))
    )
    points = points[..., 0] if points.ndim == 3 else points
    inside = wrong.contains(points[:, :2], points[:, np.newaxis, 2:])
    np.testing.assert_array_equal(this.contains(points), inside)
    expected = sum(
        stats.multivariate_normal(means[b], noise[b] ** 2 * posterior.covariance).logpdf(
            points[:, 2 * b : 2 * b + 2]
        )
        for b in range(2)
    )
    found = this.log_density(points)
    assert np.isneginf(found[~inside]).all()
    np.testing.assert_allclose(np.diff(found[inside]), np.diff(expected[inside]), atol=1e-9)
    step = 1e-5 * np.eye(4)
    at = points[0]
    smooth = [-0.5 * (at + s - this.mean) @ np.linalg.solve(this.covariance, at + s - this.mean)
              - -0.5 * (at - s - this.mean) @ np.linalg.solve(this.covariance, at - s - this.mean)
              for s in step]  # fmt: skip
    np.testing.assert_allclose(this.gradient(at), np.array(smooth) / 2e-5, rtol=1e-5, atol=1e-6)
    by_hand = (points @ this.vectors.reshape(-1, 4).T).reshape(200, *this.limits.shape)
    np.testing.assert_array_equal((by_hand >= this.limits).all(axis=2).any(axis=1), inside)
    assert this.contains(this.starts).all()
    assert not this.mean.flags.writeable


def test_a_right_sampler_is_trusted_and_a_careless_one_is_not(state, by_rejection):
    posterior, wrong = state
    trees = {
        "mine": by_rejection,
        "careless": posterior.sample(1000, 0, chains=4),
        "theirs": wrong.sample(posterior, 1000, 3, chains=4),
        "exact": "exact",
    }
    board = analysis.scoreboard(posterior, wrong, trees, progress=False)
    verdicts = dict(zip(board.sampler.values.tolist(), board.verdict.values.tolist(), strict=True))
    assert verdicts == {
        "mine": "trusted", "careless": "condemned", "theirs": "trusted", "exact": "trusted",
    }  # fmt: skip
    assert board.neighbours_z.notnull().values.tolist() == [True, False, False, True]


def smooth(target, by_rejection):
    """Draws averaged with the one before them, scaled back."""
    tree = by_rejection(target)
    draws = read_draws(target.alternative.problem, tree).reshape(len(target.starts), -1, 4)
    return target.label(np.repeat(draws, 2, axis=1)[:, : target.draws], independent=1)


def test_draws_that_are_not_as_independent_as_they_say_are_condemned(state, by_rejection):
    board = analysis.scoreboard(
        *state, {"smooth": partial(smooth, by_rejection=by_rejection)}, progress=False
    )
    assert board.verdict.item() == "condemned"
    assert "said to be independent correlate by 0.5" in board.reason.item()


def raises(target):
    raise KeyError("lost")


def writes(target):
    target.starts[0] = 0.0


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (raises, "KeyError: 'lost'"),
        (writes, "read-only"),
        (lambda target: None, "could not convert|expected an array"),
        (lambda target: np.zeros((2, 50, 3)), "draws: expected an array (chain, draw, 4 coord"),
        (lambda target: np.full((2, 50, 4), np.nan), "100 draws hold others"),
        (lambda target: np.zeros((2, 49, 4)), "expected 2 chains of 50 draws, got 2 of 49"),
        (lambda target: np.zeros((2, 50, 4)), "two chains are the same"),
        (lambda target: np.zeros((2, 50, 4)), "a chain never moves"),
        (lambda target: np.zeros((2, 50, 4)), "another seed gives the same draws"),
        (lambda target: np.random.default_rng().normal(size=(2, 50, 4)), "the same seed gives"),
        (
            lambda target: target.label(
                np.random.default_rng(target.seed).normal(size=(2, 50, 4)), log_probability=-3.0
            ),
            "log_probability_standard_error",
        ),
    ],
)
def test_what_a_sampler_breaks_is_named(sampler, message):
    pattern = message if "|" in message else re.escape(message)
    with pytest.raises(ValueError, match=pattern):
        analysis.check_sampler(sampler)


def test_a_sampler_that_keeps_to_the_protocol_passes(by_rejection):
    analysis.check_sampler(by_rejection)
    with pytest.raises(TypeError, match="sampler: expected a function, got str"):
        analysis.check_sampler("exact")


def test_draws_are_read_however_their_dimensions_are_called(state):
    posterior, wrong = state
    drawn = wrong.sample(posterior, 30, 1, chains=2)
    expected = read_draws(posterior.problem, drawn)
    stan = xr.Dataset(
        {
            "theta_reward": (("chain", "draw", "a"), drawn.theta_reward.values),
            "theta_cost": (("chain", "draw", "b"), drawn.theta_cost.values[:, :, 0]),
        }
    )
    turned = drawn.transpose("feature", "constraint", "draw", "chain").isel(feature=[1, 0])
    for draws in (stan, turned, xr.DataTree.from_dict({"posterior": drawn})):
        np.testing.assert_array_equal(read_draws(posterior.problem, draws), expected)
    for draws, message in (
        (stan.drop_vars("theta_cost"), "expected a variable `theta_cost`"),
        (stan.isel(a=[0]), "expected theta_reward of shape"),
        (stan.isel(chain=0, drop=True), "over chain and draw"),
    ):
        with pytest.raises(ValueError, match=message):
            read_draws(posterior.problem, draws)


@pytest.mark.parametrize("samplers", [{"mine": 3}, "exact", {3: "exact"}])
def test_what_is_no_sampler_is_refused(state, samplers):
    with pytest.raises(TypeError, match="samplers"):
        scoreboard.run(*state, samplers, progress=False)


def test_other_outcomes_are_refused_by_name():
    problem = bf.Problem([[1.0], [2.0]], reward=bf.Bernoulli())
    posterior = bf.Posterior(problem)
    wrong = bf.Alternative(problem, 0)
    with pytest.raises(ValueError, match=r"a sampler of one's own"):
        scoreboard.run(posterior, wrong, {"mine": raises}, progress=False)


def test_the_command_judges_draws_in_a_file_and_a_function(
    capsys, tmp_path, monkeypatch, state, by_rejection
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_sampler.py").write_text(SAMPLER)
    tree = xr.DataTree.from_dict({"posterior": state[1].sample(state[0], 400, 5, chains=2)})
    write_netcdf(tmp_path / "mine.nc", tree)
    begin = ["diagnose", "--target", "b", "--log-probability", "-4", "--quiet"]
    arguments = [
        "--draws",
        "mine.nc",
        "--draws",
        "300",
        "--sampler",
        "my_sampler:by_rejection",
        "--json",
    ]
    assert cli.main([*begin, *arguments]) == 0
    found = json.loads(capsys.readouterr().out)["samplers"]
    assert {name: row["verdict"] for name, row in found.items()} == {
        "mine": "trusted", "by_rejection": "trusted",
    }  # fmt: skip
    (tmp_path / "no.nc").write_text("nothing")
    for wrong, message in (
        (["--draws", "no.nc"], "no.nc: not a netCDF file, or damaged"),
        (["--draws", "gone.nc"], "gone.nc"),
        (["--draws", "10", "--draws", "20"], "--draws: expected one number, got 2"),
        (["--sampler", "my_sampler"], "--sampler: expected module:name"),
        (["--sampler", "nowhere:f"], "--sampler: nowhere:f: no module 'nowhere'"),
        (["--sampler", "my_sampler:g"], "--sampler: my_sampler: unknown name 'g'"),
        (["--sampler", "my_sampler:number"], "expected a name, a function or a DataTree"),
    ):
        assert cli.main([*begin, *wrong]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([*begin, "--draws", "many"])
    assert "expected a whole number or a file" in capsys.readouterr().err


def test_samplers_are_judged_under_a_model_without_a_closed_form():
    """A regression whose answer is Gaussian: its exact draws are trusted, shifted ones are not."""
    mix = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 0.7]])
    with pm.Model() as model:
        theta = pm.Deterministic("theta_reward", pt.dot(mix, pm.Normal("beta", 0, 2, shape=3)))
        pm.Normal("shown", theta, 0.4, observed=[0.6, 0.1])
    gain = 4 * mix @ mix.T @ np.linalg.inv(4 * mix @ mix.T + 0.16 * np.eye(2))
    mean, covariance = gain @ [0.6, 0.1], 0.16 * gain
    rng = np.random.default_rng(5)
    drawn = rng.multivariate_normal(mean, covariance, 60_000)
    inside = drawn[drawn[:, 1] >= drawn[:, 0]][:4000].reshape(4, 1000, 2)
    problem = bf.Problem(np.eye(2))
    trees = {
        name: xr.Dataset({"theta_reward": (("chain", "draw", "feature"), draws)})
        for name, draws in (("exact", inside), ("shifted", inside + np.array([0.0, 0.1])))
    }
    board = analysis.scoreboard(
        bf.Posterior(problem), bf.Alternative(problem, 0), trees, model=model, progress=False
    )
    assert board.verdict.values.tolist() == ["trusted", "condemned"], board.reason.values
    with pytest.raises(ValueError, match="a function takes Gaussian targets"):
        analysis.scoreboard(
            bf.Posterior(problem), bf.Alternative(problem, 0), {"mine": raises}, model=model,
            progress=False,
        )  # fmt: skip
