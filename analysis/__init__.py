"""What is done with the package: studies and their reports, samplers judged, calibration, figures.

>>> from bayes_feasible import analysis
>>> dir(analysis)[:4]
['Evidence', 'LowerBound', 'Plan', 'Refused']

A study is run by `bayes_feasible.study`, the arena by `bayes_feasible.arena`. The experiments of
the paper are in `analysis.paper`, the benchmarks in `analysis.benchmarks`. Names are loaded when
they are first used, as most of them bring PyMC or Matplotlib.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Evidence": "evidence.result.Evidence",
    "LowerBound": "study.lower_bound.LowerBound",
    "Plan": "planning.characteristics.Plan",
    "Refused": "evidence.result.Refused",
    "Study": "study.study.Study",
    "TrialDesign": "planning.design.TrialDesign",
    "alternative_ranks": "calibration.calibration.alternative_ranks",
    "calibration_figure": "calibration.calibration.figure",
    "check_lower_bound": "study.lower_bound.check",
    "check_sampler": "samplers.own.check_sampler",
    "decide": "planning.decisions.decide",
    "distribution": "calibration.calibration.distribution",
    "draw_study": "report.figures.draw_study",
    "figure_style": "report.style.STYLE",
    "geometry": "report.geometry.geometry",
    "judge_ranks": "calibration.calibration.judge",
    "log_error": "evidence.evidence.log_error",
    "model_ranks": "calibration.calibration.model_ranks",
    "plan": "planning.plan.plan",
    "posteriors": "study.study.posteriors",
    "probability_best": "evidence.best.probability_best",
    "read_design": "planning.files.read_design",
    "reliability": "calibration.reliability.reliability",
    "rule_ranks": "calibration.calibration.rule_ranks",
    "rule_reliability": "calibration.reliability.rule_reliability",
    "sample_alternative": "samplers.sample.sample_alternative",
    "scoreboard": "samplers.scoreboard.scoreboard",
    "serve_trial": "live.serve.serve",
    "summarise": "study.convergence.summarise",
    "write_report": "report.report.write",
    "write_trial_page": "report.trial_page.write",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bayes_feasible.analysis' has no attribute {name!r}")
    module, _, attribute = _HOME[name].rpartition(".")
    return getattr(import_module(f"bayes_feasible.analysis.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
