"""BLFAIPS: its scale, and what it shares with PEPS."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_feasible as bf


def test_paper_eta():
    problem = bf.Problem(
        [[3.0, 0.0], [0.0, 1.0]], [0.5, 0.5], reward_noise=0.5, cost_noise=[2.0, 0.25],
        parameter_radius=(2.0, 0.5),
    )  # fmt: skip
    eta = min(0.5**2 / (8 * 9 * 4), 2.0**2 / (8 * 9 * 0.25), 0.25**2 / (8 * 9 * 0.25))
    assert_allclose(bf.BLFAIPS(problem)._options.scale, 1 / eta)
    eta = min(0.5**2 / (8 * 4 * 1), 0.25**2 / (8 * 4 * 9))
    rule = bf.BLFAIPS(problem, arm_norm=2.0, parameter_radius=(1.0, 3.0))
    assert_allclose(rule._options.scale, 1 / eta)
    assert bf.BLFAIPS(problem, eta=0.25)._options.scale == 4.0


@pytest.mark.parametrize("radius", [(np.inf, 3.0), (3.0, np.inf)])
def test_a_radius_that_is_not_bounded_counts_as_one(radius):
    """In the paper's eta, as for a problem without any radius."""
    arms = [[1.0, 0.0], [0.0, 1.0]]
    rule = bf.BLFAIPS(bf.Problem(arms, 0.5, parameter_radius=radius))
    given = [1.0 if np.isinf(bound) else bound for bound in radius]
    same = bf.BLFAIPS(bf.Problem(arms, 0.5), parameter_radius=given)
    assert rule._options.scale == same._options.scale == 72.0
