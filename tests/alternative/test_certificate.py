"""The bound on a union's relative error: never broken, and met by as many draws as it asks for."""

import math

import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible.alternative.certificate import MOST_DRAWS, draws_needed, error_bound


def early(outcome=None, **options):
    """Five rivals and two limits after one pull of each arm: everything overlaps."""
    kind = {} if outcome is None else {"reward": outcome, "costs": [outcome, outcome]}
    problem = bf.Problem(np.vander(np.linspace(0.1, 1, 6), 3), [0.5, 0.9], **kind, **options)
    rng = np.random.default_rng(1)
    posterior = bf.Posterior(problem)
    posterior.update(range(6), rng.integers(0, 2, 6), rng.integers(0, 2, (6, 2)))
    return posterior, bf.Alternative(problem, 2)


def test_the_bound_is_that_of_the_paper_and_holds_over_seeds():
    """Spread of 200 estimates about their mean: the bound is never reached here."""
    posterior, alternative = early()
    found = [alternative.log_probability(posterior, seed, draws=64) for seed in range(200)]
    assert {one.bound for one in found} == {math.sqrt((7 + 1 / 7 - 2) / (4 * 64))}
    relative = np.exp([one.value for one in found])
    assert 0 < relative.std() / relative.mean() < found[0].bound
    assert all(one.standard_error < found[0].bound for one in found)


@pytest.mark.parametrize("events", [1, 2, 3, 17, 5000])
@pytest.mark.parametrize("rtol", [0.5, 0.02, 0.011])
def test_the_fewest_draws(events, rtol):
    draws = draws_needed(events, rtol)
    assert error_bound(events, draws) <= rtol
    assert draws == 1 or error_bound(events, draws - 1) > rtol


@pytest.mark.parametrize("outcome", [None, bf.Gaussian()])
def test_a_tolerance_is_met(outcome):
    posterior, alternative = early(outcome)
    exact = alternative.log_probability(posterior, 1, draws=2**20)
    found = alternative.log_probability(posterior, 0, rtol=0.004)
    assert 0.0039 < found.bound <= 0.004
    assert found.standard_error <= found.bound
    assert abs(found.value - exact.value) < 5 * 0.004


def test_what_has_no_certificate_says_so():
    for posterior, alternative in (early(bf.Bernoulli()), early(parameter_radius=(3.0, 3.0))):
        assert alternative.log_probability(posterior, draws=1000).bound == np.inf
        with pytest.raises(ValueError, match=r"^rtol: .* nothing is known before the draws"):
            alternative.log_probability(posterior, rtol=0.01)
    posterior, alternative = early()
    for bad in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^rtol: expected (a positive|finite) number"):
            alternative.log_probability(posterior, rtol=bad)
    with pytest.raises(ValueError, match=rf"^rtol: expected at least 0.00014.*{MOST_DRAWS:,}"):
        alternative.log_probability(posterior, rtol=1e-6)
