"""Plain draws of every case, made once."""

import pytest
from cases import CASES
from helpers import gaussian_draws, in_balls, membership

import bayes_feasible as bf


@pytest.fixture(scope="session")
def reference():
    """Plain posterior draws of each case, within its balls, and which events contain them."""
    store = {}

    def get(name):
        if name not in store:
            posterior, candidate = CASES[name]
            alternative = bf.Alternative(posterior.problem, candidate)
            draws = gaussian_draws(posterior, 300_000, seed=len(name))
            draws = draws[in_balls(posterior.problem, draws)]
            store[name] = posterior, alternative, draws, membership(alternative, draws)
        return store[name]

    return get
