"""What recorded pulls say: the error, the mistake, and the best rate of their allocation."""

import json
import math

import numpy as np
import pytest
from helpers import closed_form, least_exponents, planar_union, z_bound

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.study import convergence

ARMS = [0, 2, 4] * 40


@pytest.fixture(scope="module")
def instance():
    return bf.instances.end_of_optimism(0.3)


@pytest.fixture(scope="module")
def history(instance):
    return bf.History(instance.problem, ARMS, *instance.pull(ARMS, seed=4))


@pytest.fixture(scope="module")
def found(history, instance):
    return convergence.check(history, instance.problem, instance=instance)


def test_the_error_is_that_of_quadrature(history, instance, found):
    posterior = history.posterior()
    alternative = bf.Alternative(instance.problem, posterior.best())
    exact = math.log(planar_union(alternative, posterior))
    assert found.pulls == 120
    assert found.candidate == str(posterior.best())
    allowed = z_bound(1, 1e-4) * found.standard_error + 1e-9
    assert abs(found.log_error - exact) <= allowed
    other = math.log(planar_union(bf.Alternative(instance.problem, 4), posterior))
    assert abs(found.log_error - other) > allowed  # the control: another recommendation
    assert found.lower <= exact <= found.upper
    assert not found.lower <= other <= found.upper
    assert found.decay == -found.log_error / 120
    assert found.mistake in alternative.events.names


def test_the_exponent_at_the_truth_is_that_of_a_cone_solver(instance, found):
    shares = np.bincount(ARMS, minlength=5) / len(ARMS)
    alternative = bf.Alternative(instance.problem, instance.best)
    theta = np.vstack([instance.theta_reward, instance.theta_cost])
    assert found.true.exponent == pytest.approx(
        least_exponents(alternative, theta, shares).min(), rel=1e-6
    )
    assert found.true.rate == bf.optimal_rate(instance).value
    assert found.true.efficiency == pytest.approx(found.true.exponent / found.true.rate)
    assert found.true.efficiency <= 1
    assert found.true.best == "0"
    assert list(found.allocation.values()) == shares.tolist()


def test_the_exponent_at_the_mean_is_that_of_a_cone_solver(history, found):
    posterior = history.posterior()
    alternative = bf.Alternative(posterior.problem, posterior.best())
    shares = posterior.counts / posterior.pulls
    expected = least_exponents(alternative, closed_form(posterior)[0], shares).min()
    assert found.estimated.exponent == pytest.approx(expected, rel=1e-6)
    assert 0 < found.estimated.efficiency <= 1


def test_a_posterior_will_do(history, found):
    assert convergence.check(history.posterior()).log_error == found.log_error
    assert convergence.check(history.posterior()).true is None


def test_an_instance_in_place_of_the_problem_is_the_truth(history, instance, found):
    assert convergence.check(history, instance) == found
    assert found.correct == (found.candidate == "0")


def test_another_recommendation(history, instance):
    found = convergence.check(history, instance, "1")
    assert (found.candidate, found.correct, found.estimated) == ("1", False, None)
    assert found.log_error > math.log(0.5)
    assert "1 does not look best" in found.notes[0]
    assert convergence.check(history, instance, 1).log_error == found.log_error


def test_nothing_looks_feasible():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], 0.0)
    posterior = bf.Posterior(problem)
    posterior.update([0, 1] * 20, np.zeros(40), np.ones((40, 1)))
    found = convergence.check(posterior)
    # Each arm's cost has mean 20/21 and variance 1/21; some is at most 0 if either is.
    from scipy.stats import norm

    each = norm.cdf(0, 20 / 21, math.sqrt(1 / 21))
    assert found.candidate is None
    assert found.log_error == pytest.approx(math.log(2 * each - each**2), abs=1e-3)
    assert "feasible" in found.mistake
    assert "No candidate looks feasible" in str(found)


def test_no_pulls_are_the_prior(instance):
    found = convergence.check(bf.Posterior(instance.problem), instance)
    assert found.pulls == 0
    assert math.isnan(found.decay)
    assert (found.true, found.estimated) == (None, None)
    assert "nothing was pulled" in str(found)


def test_rare_errors_are_readable(instance):
    arms = [0, 2] * 60_000
    history = bf.History(instance.problem, arms, *instance.pull(arms, seed=1))
    found = convergence.check(history, instance)
    assert found.log_error < -600
    assert "Wrong with probability 10^-" in str(found)
    assert "Note" not in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pulls": [1, 2]}, r"pulls: expected a History or a Posterior, got \[1, 2\]"),
        ({"candidate": 9}, "candidate: 9 is out of range"),
        ({"candidate": "x"}, "candidate: unknown candidate 'x'"),
        ({"problem": bf.Problem([[1, 0], [0, 1]])}, "problem: the pulls were recorded on another"),
        ({"instance": bf.instances.end_of_optimism(0.1)}, "instance: the pulls were recorded on"),
    ],
)
def test_bad_input(history, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        convergence.check(**({"pulls": history} | arguments))


@pytest.fixture
def files(tmp_path, instance, history):
    bf.save(instance, tmp_path / "truth.toml")
    bf.save(instance.problem, tmp_path / "problem.toml")
    history.save(tmp_path / "pulls.csv")
    return tmp_path


def _run(capsys, *arguments):
    code = cli.main(["check", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_command(capsys, files, found):
    code, out, err = _run(capsys, files / "truth.toml", "--history", files / "pulls.csv")
    assert (code, err) == (0, "")
    assert out == f"{found}\n"
    for expected in ("Wrong with probability", "Likeliest mistake", "Under the true parameters",
                     "the best there can be, Γ"):  # fmt: skip
        assert expected in out


def test_command_on_netcdf_says_the_same(capsys, files, history, found):
    history.save(files / "pulls.nc")
    code, out, err = _run(capsys, files / "truth.toml", "--history", files / "pulls.nc")
    assert (code, out, err) == (0, f"{found}\n", "")


def test_command_without_the_truth(capsys, files, found):
    code, out, _ = _run(capsys, files / "problem.toml", "--history", files / "pulls.csv", "--json")
    shown = json.loads(out, parse_constant=pytest.fail)
    assert code == 0
    assert shown["log_error"] == found.log_error
    assert shown["estimated"]["rate"] == found.estimated.rate
    assert shown["true"] is None
    code, out, _ = _run(capsys, files / "problem.toml", "--history", files / "pulls.csv",
                        "--candidate", "4", "--json")  # fmt: skip
    assert json.loads(out)["candidate"] == "4"


def test_command_names_the_malformed_line(capsys, files):
    path = files / "pulls.csv"
    lines = path.read_text().splitlines()
    lines[6] = "nobody,1,2"
    path.write_text("\n".join(lines))
    code, out, err = _run(capsys, files / "problem.toml", "--history", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"bayes-feasible check: {path}: line 7: ")
    assert err.count("\n") == 1
