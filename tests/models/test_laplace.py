"""The Gaussian at a mode, against closed forms and densities written with SciPy."""

import numpy as np
import pytest
from helpers import closed_form, noise
from model_helpers import LONG, component, event_vectors, history, log_density, problem
from scipy import stats

from bayes_feasible import models


def test_laplace_is_exact_for_the_gaussian_model():
    base, this = component("linear_gaussian", 1)[1], problem(1)
    for arms in ([0, 1, 2, 2], np.arange(30_000) % 3, LONG):
        data = history(this, "linear_gaussian", np.array(arms), seed=8)
        models.set_data(base, data)
        mean, covariance = closed_form(data.posterior())
        exact, found = models.Reference.from_posterior(data), models.laplace(base)
        for one in (exact, found):
            np.testing.assert_allclose(one.mean, mean, rtol=1e-9)
            covariances = noise(this)[:, np.newaxis, np.newaxis] ** 2 * covariance
            np.testing.assert_allclose(one.covariance, covariances, rtol=1e-9, atol=1e-15)
        assert found.log_evidence == pytest.approx(exact.log_evidence, rel=1e-10)
        sums = models.Reference.from_posterior(data.posterior())
        assert np.array_equal(sums.mean, exact.mean)


def test_the_evidence_is_the_density_of_the_pulls():
    """All pulls together are Gaussian with a covariance that can be written down."""
    this = problem()
    data = history(this, "linear_gaussian", np.arange(12) % 4, seed=4)
    rows = this.arms[data.arms]
    shown, total = np.column_stack([data.rewards, data.costs]), 0.0
    for block, spread in enumerate(noise(this)):
        covariance = spread**2 * (np.eye(12) + rows @ rows.T)
        total += stats.multivariate_normal.logpdf(shown[:, block], np.zeros(12), covariance)
    assert models.Reference.from_posterior(data).log_evidence == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(("kind", "constraints"), [("student_t", 2), ("logistic", 0)])
def test_laplace_has_the_slope_and_curvature_of_the_model(kind, constraints):
    """At its mode, and on the edge of an event: against the density written with SciPy."""
    data, base, alternative, *_ = component(kind, constraints)
    for event in (None, 0, len(alternative.events) - 1):
        found = models.laplace(base, *((alternative, event) if event is not None else ()))
        at = _edge(found, alternative, event)
        step = 1e-4 * np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
        for block, feature in np.ndindex(*at.shape):
            values = []
            for k in (-1, 0, 1):
                theta = at.copy()
                theta[block, feature] += k * step[block, feature]
                point = {"theta_reward": theta[0], "theta_cost": theta[1:]}
                values.append(log_density(kind, data, point))
            slope = (values[2] - values[0]) / (2 * step[block, feature])
            precision = np.linalg.inv(found.covariance[block])
            expected = (precision @ (found.mean[block] - at[block]))[feature]
            size = np.sqrt(precision[feature, feature])
            assert slope / size == pytest.approx(expected / size, rel=1e-5, abs=1e-5)
            bend = -(values[2] - 2 * values[1] + values[0]) / step[block, feature] ** 2
            assert bend == pytest.approx(precision[feature, feature], rel=1e-3)


def test_laplace_holds_unknown_scales_at_their_mode():
    """Given the parameter, the mode of a variance has a closed form, on an edge too."""
    data, base, alternative, *_ = component("unknown_noise", 1)
    this, found = data.problem, models.laplace(base)
    np.testing.assert_allclose(found.mean, models.unknown_noise_student(data).location, rtol=1e-6)
    _, covariance = closed_form(data.posterior())
    shown = np.column_stack([data.rewards, data.costs])
    for event in (None, *range(len(alternative.events))):
        there = found if event is None else models.laplace(base, alternative, event)
        at = _edge(there, alternative, event)
        errors = shown - this.arms[data.arms] @ at.T
        squares = 4.0 * noise(this) ** 2 + (errors**2).sum(axis=0) + (at**2).sum(axis=1)
        variance = squares / (4.0 + len(data) + 2)  # the parameter itself counts as 2 pulls more
        np.testing.assert_allclose(
            there.covariance, variance[:, np.newaxis, np.newaxis] * covariance, rtol=1e-6
        )
        assert there.log_evidence == pytest.approx(found.log_evidence)


def _edge(reference, alternative, event):
    """The point of the event that is nearest to the reference's mean, under the reference."""
    at = reference.mean.copy()
    if event is None:
        return at
    for block, (vector, limit) in event_vectors(alternative, event).items():
        toward = reference.covariance[block] @ vector
        at[block] += max(limit - vector @ at[block], 0.0) / (vector @ toward) * toward
    return at
