"""Outcomes: their relative entropies, units and refusals."""

import mpmath
import numpy as np
import pytest

from bayes_feasible.files.documents import read_outcome
from bayes_feasible.outcomes import Bernoulli, Gaussian, Poisson
from bayes_feasible.prior import Prior


def exact_divergence(kind, s, t):
    with mpmath.workdps(50):
        s, t = mpmath.mpf(s), mpmath.mpf(t)
        if kind is Gaussian:
            return float((t - s) ** 2 / 2)
        if kind is Poisson:
            return float(mpmath.exp(t) - mpmath.exp(s) - mpmath.exp(s) * (t - s))
        p, q = 1 / (1 + mpmath.exp(-s)), 1 / (1 + mpmath.exp(-t))
        return float(p * mpmath.log(p / q) + (1 - p) * mpmath.log((1 - p) / (1 - q)))


@pytest.mark.parametrize("kind", [Gaussian, Bernoulli, Poisson])
@pytest.mark.parametrize("s", [-30.0, -2.0, 0.0, 0.7, 25.0])
@pytest.mark.parametrize("step", [-20.0, -1.0, -1e-3, 0.9e-3, -1e-8, 1e-5, 0.3, 12.0])
def test_divergence_keeps_its_digits(kind, s, step):
    found = kind().divergence(np.array(s), np.array(s + step))
    tolerance = 1e-9 + 4e-15 * max(abs(s), 1) / abs(step)  # s + step is rounded
    assert found == pytest.approx(exact_divergence(kind, s, s + step), rel=tolerance)


@pytest.mark.parametrize("outcome", [Gaussian(), Bernoulli(), Poisson()])
def test_variance_is_the_slope_of_the_mean(outcome):
    s, h = np.linspace(-3, 3, 13), 1e-5
    slope = (outcome.mean(s + h) - outcome.mean(s - h)) / (2 * h)
    np.testing.assert_allclose(outcome.variance(s), slope, rtol=1e-8)


@pytest.mark.parametrize("outcome", [Gaussian(), Bernoulli(), Poisson()])
def test_draws_have_the_stated_mean_and_variance(outcome):
    draws = outcome.draw(np.random.default_rng(0), np.full(100_000, 0.4), 1.0)
    mean, variance = outcome.mean(0.4), outcome.variance(np.array(0.4))
    assert abs(draws.mean() - mean) < 4.9 * np.sqrt(variance / draws.size)  # false alarm: 1e-6
    assert draws.var() == pytest.approx(variance, rel=0.03)


def test_thresholds_in_their_own_units():
    assert Bernoulli().natural("t", 0.3) == pytest.approx(np.log(0.3 / 0.7))
    assert Poisson().natural("t", 2.0) == pytest.approx(np.log(2))
    assert Gaussian().natural("t", 2.0) == 2.0
    assert Bernoulli().shift("t", 1.0) == Poisson().shift("t", 1.0) == 0.0
    assert np.isposinf(Bernoulli().natural("t", np.inf))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Prior(sd=-1.0), "sd.*-1"),
        (lambda: Prior(sd=1.0, covariance=np.eye(2)), "covariance"),
        (lambda: Prior(covariance=[[1, 2], [2, 1]]), "covariance.*-"),
        (lambda: Prior(covariance=[[1, 2], [0, 1]]), "covariance.*symmetric"),
        (lambda: Prior(mean=[0, 0])._on(3), "prior.*mean.*3.*2"),
        (lambda: Gaussian(noise=0.0), "noise.*0"),
        (lambda: Gaussian(noise=1.0, noise_prior=(1, 1)), "noise_prior"),
        (lambda: Gaussian(noise_prior=(1, -1)), "noise_prior.*-1"),
        (lambda: Bernoulli().natural("thresholds", 1.3), "thresholds.*1.3"),
        (lambda: Poisson().natural("thresholds", 0.0), "thresholds.*0"),
        (lambda: Bernoulli().shift("by", 0.0), "by.*0"),
        (lambda: Bernoulli().check("cost", np.array([2.0]), np.array([1])), "cost.*2"),
        (lambda: Bernoulli().check("cost", np.array([0.5]), np.array([1])), "cost.*0.5"),
        (lambda: Poisson().check("cost", np.array([1.5]), np.array([1])), "cost.*1.5"),
        (lambda: Poisson().check("cost", np.array([-1.0]), np.array([1])), "cost.*-1"),
        (lambda: read_outcome("reward", "bernouli"), "reward.*bernoulli"),
        (lambda: read_outcome("reward", {"kind": "gaussian", "nose": 1}), "reward.*noise"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "outcome",
    [
        Gaussian(2.0, prior=Prior(1.0, [1.0, 2.0])),
        Gaussian(noise_prior=(3.0, 2.0)),
        Bernoulli(prior=Prior(covariance=[[1, 0.5], [0.5, 1]])),
        Poisson(),
    ],
)
def test_outcomes_survive_as_plain_data(outcome):
    assert read_outcome("reward", outcome.to_dict()) == outcome
    assert outcome != Gaussian(7.0)
