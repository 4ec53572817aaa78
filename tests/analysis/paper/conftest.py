"""The instance on which most of the theory is tested."""

import pytest

import bayes_feasible as bf


@pytest.fixture(scope="session")
def optimism():
    return bf.instances.end_of_optimism(0.1)
