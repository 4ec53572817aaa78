"""Posteriors of one block against dense formulas, quadrature and rejection."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayes_feasible.blocks.gaussian import GaussianBlock, conjugate
from bayes_feasible.blocks.log_concave import LogConcaveBlock
from bayes_feasible.blocks.student import StudentBlock
from bayes_feasible.outcomes import Bernoulli, Poisson

FALSE_ALARM = 1e-6  # of each two-sample test; 4.9 standard errors for a mean
ARMS = np.array([[1.0, 0.0], [1.0, 1.0], [0.5, -1.0]])
COUNTS = np.array([7.0, 0.0, 12.0])
PRIOR = np.array([0.3, -0.2]), np.array([[2.0, 0.5], [0.5, 1.0]])


def test_conjugate_is_the_textbook_formula():
    sums = np.array([3.0, 0.0, -5.0])
    mean, root = conjugate(ARMS, COUNTS, sums, 0.7, *PRIOR)
    inverse = np.linalg.inv(PRIOR[1])
    precision = inverse + (ARMS.T * COUNTS / 0.7) @ ARMS
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-12)
    right = inverse @ PRIOR[0] + ARMS.T @ sums / 0.7
    np.testing.assert_allclose(mean, np.linalg.solve(precision, right), rtol=1e-12)


def student_block():
    rng = np.random.default_rng(3)
    shown = [rng.normal(1.0, 2.0, int(n)) for n in COUNTS]
    sums = np.array([each.sum() for each in shown])
    squares = np.array([np.square(each - each.mean()).sum() if each.size else 0 for each in shown])
    return shown, StudentBlock(ARMS, COUNTS, sums, squares, 2.0, 3.0, *PRIOR)


def test_learnt_noise_against_quadrature_over_the_variance():
    shown, block = student_block()
    rows = np.repeat(ARMS, COUNTS.astype(int), axis=0)
    seen = np.concatenate(shown)
    logs = np.linspace(-3.0, 5.0, 4001)  # of the variance
    weight, inside = np.empty(logs.size), np.empty(logs.size)
    vector, limit = np.array([0.5, 1.0]), 2.0
    for i, variance in enumerate(np.exp(logs)):
        covariance = PRIOR[1] * variance / (3.0 / 2.0)
        marginal = rows @ covariance @ rows.T + variance * np.eye(len(seen))
        prior = stats.invgamma.logpdf(variance, 2.0, scale=3.0) + logs[i]
        weight[i] = prior + stats.multivariate_normal.logpdf(seen, rows @ PRIOR[0], marginal)
        inverse = np.linalg.inv(covariance)
        precision = inverse + rows.T @ rows / variance
        mean = np.linalg.solve(precision, inverse @ PRIOR[0] + rows.T @ seen / variance)
        sd = np.sqrt(vector @ np.linalg.solve(precision, vector))
        inside[i] = stats.norm.logsf((limit - vector @ mean) / sd)
    wanted = logsumexp(weight + inside) - logsumexp(weight)
    found = block.tails(vector[np.newaxis], np.array([limit]))
    assert found.log_probability[0] == pytest.approx(wanted, abs=1e-6)
    assert found.standard_error[0] == 0


@pytest.mark.parametrize("kind", ["gaussian", "student", "bernoulli", "poisson"])
def test_draws_given_a_half_space_against_rejection(kind):
    if kind == "gaussian":
        mean, root = conjugate(ARMS, COUNTS, np.array([3.0, 0, -5.0]), 0.7, *PRIOR)
        block = GaussianBlock(mean, root)
    elif kind == "student":
        block = student_block()[1]
    else:
        outcome = Bernoulli() if kind == "bernoulli" else Poisson()
        block = LogConcaveBlock(outcome, ARMS, COUNTS, np.array([3.0, 0, 5.0]), *PRIOR)
    vector, rng = np.array([0.5, 1.0]), np.random.default_rng(5)
    limit = float(vector @ block.mean + 0.8 * np.linalg.norm(vector @ block.root))
    everything = block.draw(rng, 40_000, None, -np.inf)
    inside = everything.theta @ vector >= limit
    given = block.draw(rng, 8000, vector, limit)
    assert (given.theta @ vector >= limit - 1e-9).all()

    def means(theta, log_weight, values):
        weight = np.exp(log_weight)
        mean = weight @ values / weight.sum()
        return mean, np.sqrt(np.sum(np.square(weight * (values - mean)))) / weight.sum()

    for values in (lambda t: t[:, 0], lambda t: t[:, 1], lambda t: t[:, 0] * t[:, 1]):
        one = means(given.theta, given.log_weight, values(given.theta))
        other = means(
            everything.theta, everything.log_weight + np.where(inside, 0, -np.inf),
            values(everything.theta),
        )  # fmt: skip
        assert abs(one[0] - other[0]) < 4.9 * np.hypot(one[1], other[1])
    whole = means(everything.theta, everything.log_weight, everything.theta[:, 0])
    cut = means(given.theta, given.log_weight, given.theta[:, 0])
    assert abs(whole[0] - cut[0]) > 4.9 * np.hypot(whole[1], cut[1])  # the limit ignored is seen


def grid_log_tail(block, limit):
    """Log P(second coordinate >= limit) by a fine grid in two dimensions."""

    def line(second):
        def profile(first):
            return block.log_density(np.column_stack([first, np.full(first.size, second)]))

        wide = np.linspace(-40, 40, 4001)
        centre = wide[np.argmax(profile(wide))]
        fine = centre + np.linspace(-3.0, 3.0, 1201)
        return logsumexp(profile(fine)) + np.log(fine[1] - fine[0])

    def area(low, high, panels):
        nodes, weights = np.polynomial.legendre.leggauss(12)
        ends = np.linspace(low, high, panels + 1)
        half = (ends[1] - ends[0]) / 2
        at = (ends[:-1, np.newaxis] + half * (1 + nodes)).ravel()
        return logsumexp([line(s) for s in at], b=half * np.tile(weights, panels))

    spread = np.sqrt(block.root[1] @ block.root[1])
    low = min(block.mean[1] - 12 * spread, limit - 12 * spread)
    high = max(block.mean[1] + 12 * spread, limit + 12 * spread)
    above, below = area(limit, high, 24), area(low, limit, 24)
    return above - np.logaddexp(above, below)


@pytest.mark.parametrize(
    ("outcome", "pulls", "sums", "limit", "about"),
    [
        (Bernoulli(), 20, [6, 5], 0.6, -1),
        (Bernoulli(), 20, [6, 5], 1.8, -4),
        (Bernoulli(), 400, [120, 100], 1.9, -20),
        (Bernoulli(), 4000, [1200, 1000], 2.7, -400),
        (Poisson(), 20, [6, 5], 0.5, -1),
        (Poisson(), 20, [6, 5], 1.2, -4),
        (Poisson(), 400, [120, 100], 1.25, -20),
        (Poisson(), 4000, [1200, 1000], 1.75, -400),
    ],
    ids=lambda value: str(value).replace("()", ""),
)
def test_tails_of_log_concave_posteriors_against_quadrature(outcome, pulls, sums, limit, about):
    arms, counts = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([pulls, pulls / 2])
    block = LogConcaveBlock(outcome, arms, counts, np.array(sums, float), np.zeros(2), np.eye(2))
    wanted = grid_log_tail(block, limit)
    assert 0.4 < wanted / about < 1.7  # the case is of the size its name says
    found = block.tails(np.array([[0.0, 1.0]]), np.array([limit]))
    error = max(found.standard_error[0], 1e-5)
    assert abs(found.log_probability[0] - wanted) < min(0.01, 4.9 * error + 1e-3)
    assert found.k_hat[0] < 0.7
    laplace = stats.norm.logsf((limit - block.mean[1]) / np.linalg.norm(block.root[1]))
    assert abs(laplace - wanted) > 0.01  # a Gaussian at the mode would not do


def test_a_hopeless_half_space_and_its_complement_sum_to_one():
    block = LogConcaveBlock(
        Bernoulli(), ARMS[:2], np.array([50.0, 50]), np.array([40.0, 3]), np.zeros(2), np.eye(2)
    )
    vector = np.array([0.3, 1.0])
    up = block.tails(vector[np.newaxis], np.array([0.7])).log_probability[0]
    down = block.tails(-vector[np.newaxis], np.array([-0.7])).log_probability[0]
    assert up < -20
    assert down == pytest.approx(-np.exp(up), rel=1e-6)


def test_counts_and_sums_say_all_of_a_poisson_likelihood():
    block = LogConcaveBlock(Poisson(), ARMS, COUNTS, np.array([3.0, 0, 5.0]), *PRIOR)
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((4, 2))
    rows = np.repeat(ARMS, COUNTS.astype(int), axis=0)
    shown = np.array([1, 2, 0, 0, 0, 0, 0] + [1, 2, 2] + [0] * 9)
    direct = [
        stats.poisson.logpmf(shown, np.exp(rows @ t)).sum()
        + stats.multivariate_normal.logpdf(t, *PRIOR)
        for t in theta
    ]
    np.testing.assert_allclose(
        np.diff(block.log_density(theta)), np.diff(direct), rtol=1e-10, atol=1e-10
    )
