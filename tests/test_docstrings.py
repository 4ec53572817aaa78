"""Every example in a docstring is run."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import bayes_feasible
import bayes_feasible.analysis as bayes_feasible_analysis
import bayes_feasible.models as bayes_feasible_models

FOLDERS = [bayes_feasible, bayes_feasible_models, bayes_feasible_analysis]
MODULES = [folder.__name__ for folder in FOLDERS] + [
    module.name
    for folder in FOLDERS  # models/ and analysis/ do not lie inside bayes_feasible/
    for module in walk_packages(folder.__path__, f"{folder.__name__}.")
    if "benchmarks" not in module.name
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_there_are_examples():
    # what these take is on disk, or takes long: their examples are in docs/
    in_guides = {"FilmTable", "read_film_table", "read_films", "read_ratings", "simulate", "study"}
    for name in set(bayes_feasible.__all__) - in_guides - {"__version__", "instances"}:
        assert ">>> " in getattr(bayes_feasible, name).__doc__, name
