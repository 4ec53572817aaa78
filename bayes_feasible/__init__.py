"""Best feasible arm identification in linear bandits, exactly.

Pull noisy arms, then recommend the candidate of highest reward among those whose
costs stay under their thresholds, and know how probable it is that this is wrong.

>>> import bayes_feasible as bf
>>> instance = bf.instances.end_of_optimism(alpha=0.1)
>>> rate = bf.optimal_rate(instance)
>>> print(f"{rate.value:.8f}")
0.00113559

Names are loaded when they are first used, so that importing the package is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayes_feasible.rules import HOMES

if TYPE_CHECKING:
    from bayes_feasible import instances as instances
    from bayes_feasible.alternative.alternative import Alternative as Alternative
    from bayes_feasible.analysis.study.study import study as study
    from bayes_feasible.datasets.films import FilmTable as FilmTable
    from bayes_feasible.datasets.films import read_film_table as read_film_table
    from bayes_feasible.datasets.films import read_films as read_films
    from bayes_feasible.datasets.ratings import read_ratings as read_ratings
    from bayes_feasible.files.problems import load as load
    from bayes_feasible.files.problems import save as save
    from bayes_feasible.history import History as History
    from bayes_feasible.instance import Instance as Instance
    from bayes_feasible.posterior import Posterior as Posterior
    from bayes_feasible.problem import Problem as Problem
    from bayes_feasible.rate.designs import g_optimal as g_optimal
    from bayes_feasible.rate.rate import exponents as exponents
    from bayes_feasible.rate.rate import optimal_rate as optimal_rate
    from bayes_feasible.rules.adahedge import AdaHedge as AdaHedge
    from bayes_feasible.rules.allocation import FixedAllocation as FixedAllocation
    from bayes_feasible.rules.allocation import GOptimal as GOptimal
    from bayes_feasible.rules.allocation import Oracle as Oracle
    from bayes_feasible.rules.allocation import Uniform as Uniform
    from bayes_feasible.rules.base import Rule as Rule
    from bayes_feasible.rules.best_response import BestResponse as BestResponse
    from bayes_feasible.rules.blfaips import BLFAIPS as BLFAIPS
    from bayes_feasible.rules.peps import PEPS as PEPS
    from bayes_feasible.rules.plug_in import PlugIn as PlugIn
    from bayes_feasible.rules.thompson import LinearThompson as LinearThompson
    from bayes_feasible.rules.top_two import TopTwo as TopTwo
    from bayes_feasible.simulation.simulate import simulate as simulate
    from bayes_feasible.trial.trial import Trial as Trial

_HOME = {
    "AdaHedge": "rules.adahedge",
    "Alternative": "alternative.alternative",
    "FilmTable": "datasets.films",
    "History": "history",
    "Instance": "instance",
    "Posterior": "posterior",
    "Problem": "problem",
    "Rule": "rules.base",
    "Trial": "trial.trial",
    "exponents": "rate.rate",
    "g_optimal": "rate.designs",
    "load": "files.problems",
    "optimal_rate": "rate.rate",
    "read_film_table": "datasets.films",
    "read_films": "datasets.films",
    "read_ratings": "datasets.ratings",
    "save": "files.problems",
    "simulate": "simulation.simulate",
    "study": "analysis.study.study",
} | {name: f"rules.{file}" for name, file in HOMES.items()}

__all__ = [*sorted(_HOME), "__version__", "instances"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"bayes_feasible.{_HOME[name]}"), name)
    if name == "instances":
        return import_module("bayes_feasible.instances")
    if name == "__version__":
        from importlib.metadata import version

        found = globals()[name] = version("bayes_feasible")  # slow to find: once will do
        return found
    raise AttributeError(f"module 'bayes_feasible' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
