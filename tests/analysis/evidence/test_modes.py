"""Posteriors of several modes: no method may be wrong without saying so.

The arms are the columns of a rotation and the prior is isotropic, so the rewards and costs of the
arms are independent, and quadrature along lines gives the exact answer.
"""

from functools import cache, partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import log_ndtr, logsumexp

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.analysis.evidence import evidence
from bayes_feasible.analysis.evidence.evidence import Refused, log_error
from bayes_feasible.models.density import density
from bayes_feasible.models.modes import event_modes, global_modes

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


@cache
def problem_and_model(name):
    rewards, costs = CASES[name]
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
    problem, model = problem_and_model(name)
    try:
        found = log_error(model, bf.Alternative(problem, 0), method, seed=3, **options)
    except Refused:
        return None, truth(*CASES[name])
    return found, truth(*CASES[name])


def one_mode_only(monkeypatch):
    monkeypatch.setattr(evidence, "event_modes", partial(event_modes, search=False))
    monkeypatch.setattr(evidence, "global_modes", lambda density: global_modes(density)[:1])


def right(found, exact):
    """Five standard errors: a false alarm in two million."""
    return abs(found.value - exact) < 5 * found.standard_error + 1e-4


@pytest.mark.parametrize("name", CASES)
def test_local_finds_every_mode(name):
    found, exact = answer(name)
    assert found is not None
    assert right(found, exact)
    if name in MODES:
        assert len(global_modes(density(problem_and_model(name)[1]))) == MODES[name]


@pytest.mark.parametrize("name", CASES)
def test_global_is_right_or_refused(name):
    found, exact = answer(name, "global")
    assert found is None or right(found, exact)


@pytest.mark.parametrize("name", list(CASES)[:2])
def test_without_many_starts_it_would_be_wrong_and_is_refused(name, monkeypatch):
    """The control: from one start a mode is missed."""
    one_mode_only(monkeypatch)
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


# --- Mixtures of Gaussians: a model of one's own, whose posterior is in closed form.

COMPONENTS = 4


@cache
def mixture_model(features):
    with pm.Model(coords={"feature": range(features)}) as model:
        centres = pm.Data("centres", np.zeros((COMPONENTS, features)))
        spreads, logs = (pm.Data(name, np.ones(COMPONENTS)) for name in ("spreads", "logs"))
        prior = pm.Data("prior", 1.0)
        theta = pm.Normal("theta_reward", 0.0, prior, dims="feature")
        squares = pt.sum((theta - centres) ** 2, axis=1) / spreads**2
        pm.Potential("data", pt.logsumexp(logs - 0.5 * squares - features * pt.log(spreads)))
    return model


def mixture_answer(features, seed, method="local", **options):
    """The answer under a random posterior of two to four modes, None if refused, and the truth."""
    rng = np.random.default_rng([features, seed])
    number, prior = int(rng.integers(2, COMPONENTS + 1)), np.exp(rng.uniform(0.0, np.log(30.0)))
    which = np.minimum(np.arange(COMPONENTS), number - 1)  # the last one may be there twice
    spread = np.exp(rng.uniform(np.log(0.02), np.log(0.5), number))[which]
    spread = prior * (spread if seed % 2 else np.full(COMPONENTS, spread[0]))
    centre = prior * rng.standard_normal((number, features))[which]
    weight = rng.dirichlet(np.ones(number))[which] / np.bincount(which)[which]
    # Divided by the prior, so that times the prior it is the mixture asked for.
    variance = 1.0 / (spread**-2 - prior**-2)
    factor = centre * (variance / spread**2)[:, np.newaxis]
    logs = np.log(weight) + 0.5 * features * np.log(variance + prior**2)
    logs += 0.5 * np.sum(factor**2, axis=1) / (variance + prior**2)
    data = {"centres": factor, "spreads": np.sqrt(variance), "logs": logs, "prior": prior}
    model = mixture_model(features)
    pm.set_data(data, model)
    exact = 0.0
    for share, at, sd in zip(weight, centre, spread, strict=True):
        first = at[0] + sd * GRID
        beaten = -np.expm1(log_ndtr((first[:, np.newaxis] - at[1:]) / sd).sum(axis=1))
        exact += share * np.sum(stats.norm.pdf(GRID) * beaten) * STEP
    try:
        alternative = bf.Alternative(bf.Problem(np.eye(features)), 0)
        found = log_error(model, alternative, method, seed=seed, **options)
    except Refused:
        return None, np.log(exact)
    return found, np.log(exact)


def count_answers(features, seeds):
    """How many answers are right, wrong and refused."""
    answers = [mixture_answer(features, seed) for seed in seeds]
    given = [right(*each) for each in answers if each[0] is not None]
    return sum(given), len(given) - sum(given), len(answers) - len(given)


@pytest.mark.parametrize("features", [2, 4])
def test_mixtures_of_two_to_four_modes(features):
    correct, wrong, _ = count_answers(features, range(8))
    assert wrong == 0
    assert correct >= 6


def test_a_single_mode_is_wrong_about_mixtures(monkeypatch):
    """The control."""
    one_mode_only(monkeypatch)
    assert count_answers(2, range(8))[0] <= 2


@pytest.mark.slow
@pytest.mark.parametrize("features", [2, 3, 4])
def test_mixtures_over_the_grid(features):
    correct, wrong, _ = count_answers(features, range(60))
    assert wrong == 0
    assert correct >= 50


@pytest.mark.slow
@pytest.mark.parametrize("method", ["global", "smc", "component", "frequency"])
def test_samplers_on_mixtures_are_right_or_refused(method):
    for seed in range(6):
        found, exact = mixture_answer(2, seed, method, draws=4000)
        assert found is None or abs(found.value - exact) < 5 * found.standard_error + evidence.BIAS


# --- A centred hierarchy: a density outside its support, and a funnel.


@pytest.fixture(scope="module")
def hierarchy():
    """Four arms whose means have a group mean and a scale that are learnt."""
    observed = np.random.default_rng(0).normal(np.tile([0.8, 0.2, 0.0, -0.3], 10))
    with pm.Model(coords={"feature": range(4)}) as model:
        mean, scale = pm.Normal("mean"), pm.HalfNormal("scale")
        theta = pm.Normal("theta_reward", mean, scale, dims="feature")
        pm.Normal("reward", pt.tile(theta, 10), 1.0, observed=observed)
    return model


def test_a_density_outside_its_support_is_zero(hierarchy):
    outside = np.array([[0.0, -800.0, 0.1, 0.2, 0.3, 0.4]])
    assert density(hierarchy).value(outside) == -np.inf


def test_a_centred_hierarchy_is_refused_by_name(hierarchy):
    """A funnel has no Gaussian at a mode, for it has none; `local` has Gaussians along it."""
    with pytest.raises(Refused, match=r"global: only .* % of the draws .* count"):
        log_error(hierarchy, bf.Alternative(bf.Problem(np.eye(4)), 0), "global")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "reason"),
    [("smc", "has not found a mode"), ("component", "has not found a mode"),
     ("frequency", "diverged|disagree")],
)  # fmt: skip
def test_samplers_refuse_a_centred_hierarchy_by_name(hierarchy, method, reason):
    with pytest.raises(Refused, match=f"{method}: .*({reason})"):
        log_error(hierarchy, bf.Alternative(bf.Problem(np.eye(4)), 0), method, draws=4000)
