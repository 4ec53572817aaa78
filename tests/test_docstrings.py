"""Every example in a docstring is run."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import bayes_feasible

MODULES = ["bayes_feasible"] + [
    module.name
    for module in walk_packages(bayes_feasible.__path__, "bayes_feasible.")
    if "benchmarks" not in module.name
]
# The folders models/ and analysis/ are subpackages that do not lie inside bayes_feasible/.
MODULES += ["bayes_feasible.models", "bayes_feasible.analysis.study"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_there_are_examples():
    public = ("Problem", "Instance", "Posterior", "Alternative", "load", "save", "optimal_rate")
    for name in public:
        assert ">>> " in getattr(bayes_feasible, name).__doc__, name
