"""A small study for figures and page: two rules, of which one has a name that is no plain text."""

import numpy as np
import pytest
import xarray as xr
from error_curves import results

import bayes_feasible as bf
from bayes_feasible.analysis.study import convergence

TIMES = [10, 30, 100, 300, 1000, 3000, 10_000]


@pytest.fixture(scope="session")
def instance():
    return bf.instances.end_of_optimism(0.3)


@pytest.fixture(scope="session")
def data(instance):
    shares = bf.optimal_rate(instance).allocation.values
    rules = {"Oracle": shares / shares.sum(), "Uniform <b>": np.full(5, 0.2)}
    return results(instance, rules, TIMES, 12)


@pytest.fixture(scope="session")
def summary(data, instance):
    """With made-up fits, of which the second is bad."""
    found = convergence.summarise(data, instance, regression=False, progress=False)
    draws = np.random.default_rng(0).normal([[[1.0]], [[0.4]]], 0.02, (2, 4, 500))
    return found.assign(
        rate_draws=(("rule", "chain", "draw"), draws), rhat=("rule", [1.001, 1.2]),
        ess_bulk=("rule", [2000.0, 90.0]), ess_tail=("rule", [1500.0, 80.0]),
        divergences=("rule", [0.0, 5.0]), mcse=("rule", [1e-4, 1e-2]),
        trouble=("rule", ["", "R-hat 1.200 is above 1.01"]),
    ).assign_attrs(method="regression")  # fmt: skip


@pytest.fixture(scope="session")
def board():
    """The scores of three samplers after 1000 pulls."""
    columns = {
        "verdict": ["trusted", "condemned", "failed"],
        "reason": ["all is well", "3900 draws diverged", "no memory"],
        "rhat": [1.001, 1.75, np.nan],
        "ess_bulk": [3000.0, 6.0, np.nan],
        "ess_tail": [2000.0, 90.0, np.nan],
        "outside": [0.0, np.nan, np.nan],
    }
    return xr.Dataset(
        {name: (("time", "sampler"), [values]) for name, values in columns.items()},
        coords={"time": [1000], "sampler": ["exact", "slice", "smc"]},
    )
