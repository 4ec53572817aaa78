"""Posteriors of several modes: no method may be wrong without saying so.

The arms are the columns of a rotation and the prior is isotropic, so the rewards and costs of the
arms are independent, and quadrature along lines gives the exact answer.
"""

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.analysis.evidence import evidence
from bayes_feasible.analysis.evidence.evidence import Refused, log_error
from bayes_feasible.models.density import density
from bayes_feasible.models.laplace import global_modes

GRID = np.linspace(-40.0, 40.0, 160_001)
STEP = GRID[1] - GRID[0]
# Rewards of each arm, as (value, how often); then costs in the same way, or none.
CASES = {
    "the wrong half is missed": ([[(12, 20), (-12.01, 20)], [(6, 60)]], None),
    "the right half is missed": ([[(-4.99, 30), (5, 30)], [(2, 30)]], None),
    "a symmetric pair": ([[(-5, 30), (5, 30)], [(2, 30)]], None),
    "two modes each": ([[(6, 12), (-6, 12)], [(5, 14), (-5, 14)]], None),
    "three modes": ([[(9, 28), (0.1, 10), (-9.02, 28)], [(3, 40)]], None),
    "rare by one mode": ([[(6, 34), (-6, 30)], [(3, 40)]], None),
    "cost of two modes": ([[(3, 40)], [(1, 20)]], [[(-4, 20), (4.02, 20)], [(-2, 20)]]),
    "four features": ([[(6, 12), (-6, 12)], [(5, 12), (-5, 12)], [(1, 20)], [(0, 20)]], None),
}
MODES = {"a symmetric pair": 2, "two modes each": 4, "three modes": 3, "four features": 4}


def density_of(observed):
    """Log-density of one mean on the grid, by Student noise of 4 degrees and a normal prior."""
    log = -0.5 * GRID**2
    for value, times in observed:
        log = log - times * 2.5 * np.log1p((value - GRID) ** 2 / 4.0)
    return log - logsumexp(log)


def truth(rewards, costs):
    """Log-probability that arm 0 is not the best feasible one."""
    feasible = [1.0] * len(rewards)
    if costs is not None:
        feasible = [float(np.exp(density_of(one))[GRID <= 0].sum()) for one in costs]
    above = [np.cumsum(np.exp(density_of(one))[::-1])[::-1] for one in rewards[1:]]
    log_best = sum(np.log1p(-share * one) for one, share in zip(above, feasible[1:], strict=True))
    beaten = np.sum(np.exp(density_of(rewards[0])) * -np.expm1(log_best))
    return float(np.log(1 - feasible[0] + feasible[0] * beaten))


def problem_and_model(rewards, costs):
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((len(rewards),) * 2))[0]
    problem = bf.Problem(turn, () if costs is None else 0.0)
    rows = [(arm, value) for arm, one in enumerate(rewards) for value, n in one for _ in range(n)]
    arms, seen = map(np.array, zip(*rows, strict=True))
    paid = np.zeros((len(rows), 0))
    if costs is not None:
        paid = np.concatenate([np.repeat(*zip(*one, strict=True)) for one in costs])[:, np.newaxis]
    return problem, models.student_t(bf.History(problem, arms, seen, paid))


def answer(name, method="local", **options):
    """The answer of a method, None where it is refused, and the truth."""
    problem, model = problem_and_model(*CASES[name])
    try:
        found = log_error(model, bf.Alternative(problem, 0), method, seed=3, **options)
    except Refused:
        return None, truth(*CASES[name])
    return found, truth(*CASES[name])


def right(found, exact):
    """Five standard errors: a false alarm in two million."""
    return abs(found.value - exact) < 5 * found.standard_error + 1e-4


@pytest.mark.parametrize("name", CASES)
def test_local_finds_every_mode(name):
    found, exact = answer(name)
    assert found is not None
    assert right(found, exact)
    if name in MODES:
        assert len(global_modes(density(problem_and_model(*CASES[name])[1]))) == MODES[name]


@pytest.mark.parametrize("name", CASES)
def test_global_is_right_or_refused(name):
    found, exact = answer(name, "global")
    assert found is None or right(found, exact)


@pytest.mark.parametrize("name", list(CASES)[:2])
def test_without_many_starts_it_would_be_wrong_and_is_refused(name, monkeypatch):
    """The control: from one start a mode is missed."""
    monkeypatch.setattr(evidence, "scatter", lambda density, *_, **__: density.start[np.newaxis])
    monkeypatch.setattr(evidence, "global_modes", lambda density: global_modes(density)[:1])
    found, exact = answer(name)
    assert found is None or not right(found, exact)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["smc", "component", "frequency"])
@pytest.mark.parametrize("name", CASES)
def test_samplers_are_right_or_refused(name, method):
    found, exact = answer(name, method, draws=4000)
    assert found is None or abs(found.value - exact) < 5 * found.standard_error + evidence.BIAS


@pytest.mark.slow
def test_chains_that_miss_a_mode_are_refused():
    """Where the modes are far apart no chain of NUTS passes from one to the other."""
    assert answer("the wrong half is missed", "frequency", draws=4000)[0] is None


def test_a_centred_hierarchy_gets_an_answer_or_a_refusal():
    problem, arms = bf.Problem(np.eye(2)), [0, 1] * 10
    observed = np.random.default_rng(0).normal([0.5, 0.0] * 10)
    with pm.Model(coords={"feature": [0, 1]}) as model:
        scale = pm.HalfNormal("scale")
        theta = pm.Normal("theta_reward", 0.0, scale, dims="feature")
        pm.Normal("reward", theta[np.array(arms)], 1.0, observed=observed)
    assert density(model).value(np.array([[-800.0, 0.1, 0.2]])) == -np.inf
    with pytest.raises(Refused, match="local"):  # a funnel has no Gaussian at its mode
        log_error(model, bf.Alternative(problem, 0))
