"""Declared models under PyMC's samplers and the evidence methods, beside the core."""

import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.analysis.evidence.evidence import log_error
from bayes_feasible.analysis.samplers.sample import sample_alternative
from bayes_feasible.analysis.samplers.scoreboard import judge

ARMS = [[1.0, -0.5], [1.0, 0.5], [1.0, 1.5]]


def dose(pulls=1):
    """0/1 outcomes; with more pulls the mistake is rarer."""
    toxic = bf.Bernoulli(prior=bf.Prior(mean=[-2, 0.5], sd=[1, 0.5]))
    problem = bf.Problem(ARMS, {"toxicity": 0.3}, reward=bf.Bernoulli(), costs=toxic)
    posterior = bf.Posterior(problem)
    sums = np.array([[3, 9, 14], [1, 2, 9], [12, 20, 22]]) * pulls
    posterior.update([0, 1, 2], sums[0], sums[1], sums[2])
    return posterior


def learnt():
    """0/1 and a delay of unknown noise."""
    problem = bf.Problem(ARMS, {"delay": 1.0}, reward=bf.Bernoulli(), costs=bf.Gaussian())
    truth = bf.Instance(problem, [-0.5, 0.5], [0.4, 0.3])
    arms = np.arange(30) % 3
    return bf.Posterior.from_history(problem, arms, *truth.pull(arms, seed=2))


def mixed():
    """A count, a rate relative to an arm, and a prior with a covariance."""
    prior = bf.Prior(mean=[0.5, 0], covariance=[[1.0, 0.3], [0.3, 0.5]])
    problem = bf.Problem(
        ARMS, {"calls": bf.Relative(0, 1.5), "price": 1.2},
        reward=bf.Poisson(prior=prior), costs=[bf.Poisson(), bf.Gaussian(0.5)],
    )  # fmt: skip
    truth = bf.Instance(problem, [0.2, 0.4], [[0.1, 0.1], [0.7, 0.2]])
    arms = np.arange(45) % 3
    return bf.Posterior.from_history(problem, arms, *truth.pull(arms, seed=3))


@pytest.mark.parametrize("make", [dose, learnt, mixed, lambda: dose(8)])
def test_the_local_method_agrees_with_the_core(make):
    """Five standard errors: a false alarm in two million runs."""
    posterior = make()
    wrong = bf.Alternative(posterior.problem, posterior.best())
    core = wrong.log_probability(posterior)
    found = log_error(models.declare(posterior), wrong)
    error = np.hypot(core.standard_error, found.standard_error)
    assert abs(found.value - core.value) < 5 * error
    assert error < 0.02
    other = (posterior.best() + 1) % 3  # another question has another answer
    assert (
        abs(found.value - bf.Alternative(posterior.problem, other).log_probability(posterior).value)
        > 5 * error
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [dose, learnt, mixed])
def test_samplers_of_declared_models_are_judged(make):
    posterior = make()
    wrong = bf.Alternative(posterior.problem, posterior.best())
    names = ("exact", "exact_step", "nuts_component", "smc_events", "slice", "nuts_hard")
    trees = {
        name: sample_alternative(posterior, wrong, name, draws=1000, tune=1000, progress=False)
        for name in names
    }
    board = judge(trees, posterior, wrong)
    verdicts = dict(zip(names, board.verdict.values.tolist(), strict=True))
    assert verdicts["exact"] == verdicts["exact_step"] == verdicts["nuts_component"] == "trusted"
    assert verdicts["nuts_hard"] == "condemned"
    for name in ("nuts_component", "smc_events"):
        assert abs(board.log_probability_error.sel(sampler=name)) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["global", "frequency", "component", "smc"])
@pytest.mark.parametrize("make", [dose, learnt])
def test_every_method_agrees_with_the_core(make, method):
    posterior = make()
    wrong = bf.Alternative(posterior.problem, posterior.best())
    core = wrong.log_probability(posterior)
    found = log_error(models.declare(posterior), wrong, method)
    assert abs(found.value - core.value) < 5 * np.hypot(core.standard_error, found.standard_error)
