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
    from bayes_feasible import analysis as analysis
    from bayes_feasible import datasets as datasets
    from bayes_feasible import instances as instances
    from bayes_feasible import models as models
    from bayes_feasible.alternative.alternative import Alternative as Alternative
    from bayes_feasible.alternative.events import Events as Events
    from bayes_feasible.alternative.probability import LogProbability as LogProbability
    from bayes_feasible.analysis.arena.arena import arena as arena
    from bayes_feasible.analysis.arena.result import Arena as Arena
    from bayes_feasible.analysis.study.study import Study as Study
    from bayes_feasible.analysis.study.study import study as study
    from bayes_feasible.files.problems import load as load
    from bayes_feasible.files.problems import save as save
    from bayes_feasible.history import History as History
    from bayes_feasible.instance import Instance as Instance
    from bayes_feasible.outcomes import Bernoulli as Bernoulli
    from bayes_feasible.outcomes import Gaussian as Gaussian
    from bayes_feasible.outcomes import Poisson as Poisson
    from bayes_feasible.outcomes import Relative as Relative
    from bayes_feasible.posterior import Posterior as Posterior
    from bayes_feasible.prior import Prior as Prior
    from bayes_feasible.problem import Problem as Problem
    from bayes_feasible.rate.designs import Design as Design
    from bayes_feasible.rate.designs import g_optimal as g_optimal
    from bayes_feasible.rate.rate import Rate as Rate
    from bayes_feasible.rate.rate import exponents as exponents
    from bayes_feasible.rate.rate import optimal_rate as optimal_rate
    from bayes_feasible.recommendation import Recommendation as Recommendation
    from bayes_feasible.rules.adahedge import AdaHedge as AdaHedge
    from bayes_feasible.rules.allocation import FixedAllocation as FixedAllocation
    from bayes_feasible.rules.allocation import GOptimal as GOptimal
    from bayes_feasible.rules.allocation import Oracle as Oracle
    from bayes_feasible.rules.allocation import Uniform as Uniform
    from bayes_feasible.rules.base import Rule as Rule
    from bayes_feasible.rules.best_response import BestResponse as BestResponse
    from bayes_feasible.rules.blfaips import BLFAIPS as BLFAIPS
    from bayes_feasible.rules.descent import Descent as Descent
    from bayes_feasible.rules.fws import FWS as FWS
    from bayes_feasible.rules.gse import GSE as GSE
    from bayes_feasible.rules.lin_gap_e import LinGapE as LinGapE
    from bayes_feasible.rules.mdapt import MDAPT as MDAPT
    from bayes_feasible.rules.ocba import OCBA as OCBA
    from bayes_feasible.rules.od_linbai import ODLinBAI as ODLinBAI
    from bayes_feasible.rules.peps import PEPS as PEPS
    from bayes_feasible.rules.plug_in import PlugIn as PlugIn
    from bayes_feasible.rules.sequential_halving import SequentialHalving as SequentialHalving
    from bayes_feasible.rules.successive_rejects import SuccessiveRejects as SuccessiveRejects
    from bayes_feasible.rules.thompson import LinearThompson as LinearThompson
    from bayes_feasible.rules.top_two import TopTwo as TopTwo
    from bayes_feasible.rules.top_two_tci import TopTwoTCI as TopTwoTCI
    from bayes_feasible.safety import Safety as Safety
    from bayes_feasible.simulation.forecast import Forecast as Forecast
    from bayes_feasible.simulation.forecast import forecast as forecast
    from bayes_feasible.simulation.simulate import simulate as simulate
    from bayes_feasible.stopping.stop import Decision as Decision
    from bayes_feasible.stopping.stop import Stop as Stop
    from bayes_feasible.trial.status import Status as Status
    from bayes_feasible.trial.trial import Trial as Trial

_HOME = {
    "AdaHedge": "rules.adahedge",
    "Alternative": "alternative.alternative",
    "Arena": "analysis.arena.result",
    "Bernoulli": "outcomes",
    "Decision": "stopping.stop",
    "Design": "rate.designs",
    "Events": "alternative.events",
    "Forecast": "simulation.forecast",
    "Gaussian": "outcomes",
    "History": "history",
    "Instance": "instance",
    "LogProbability": "alternative.probability",
    "Poisson": "outcomes",
    "Posterior": "posterior",
    "Prior": "prior",
    "Problem": "problem",
    "Rate": "rate.rate",
    "Recommendation": "recommendation",
    "Rule": "rules.base",
    "Relative": "outcomes",
    "Safety": "safety",
    "Status": "trial.status",
    "Stop": "stopping.stop",
    "Study": "analysis.study.study",
    "Trial": "trial.trial",
    "arena": "analysis.arena.arena",
    "exponents": "rate.rate",
    "forecast": "simulation.forecast",
    "g_optimal": "rate.designs",
    "load": "files.problems",
    "optimal_rate": "rate.rate",
    "save": "files.problems",
    "simulate": "simulation.simulate",
    "study": "analysis.study.study",
} | {name: f"rules.{file}" for name, file in HOMES.items()}
_NAMESPACES = ("analysis", "datasets", "instances", "models")

__all__ = [*sorted(_HOME), *_NAMESPACES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"bayes_feasible.{_HOME[name]}"), name)
    if name in _NAMESPACES:
        return import_module(f"bayes_feasible.{name}")
    if name == "__version__":
        from importlib.metadata import version

        found = globals()[name] = version("bayes_feasible")  # slow to find: once will do
        return found
    raise AttributeError(f"module 'bayes_feasible' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
