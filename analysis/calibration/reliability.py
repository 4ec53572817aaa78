"""Calibration of error probabilities: stated beside observed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.calibration import prior_predictive
from bayes_feasible.analysis.calibration.calibration import FALSE_ALARM
from bayes_feasible.analysis.calibration.prior_predictive import Maker, played, prior, repeated
from bayes_feasible.analysis.calibration.uniformity import coin_interval
from bayes_feasible.analysis.report.tables import text_table
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

EDGES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)


def reliability(
    problem: Problem, arms: Any,
    estimate: Callable[[Posterior, Alternative], float] | None = None, *,
    experiments: int = 5000, edges: Sequence[float] = EDGES, seed: int = 0,
    false_alarm: float = FALSE_ALARM, progress: bool = False,
) -> xr.Dataset:  # fmt: skip
    """How often recommendations that are said to be wrong with probability p are wrong.

    Each experiment draws the parameters from the prior and the data given them, recommends the
    candidate that the posterior mean holds best, and asks how probable it is that this is wrong.
    Experiments in which no candidate looks feasible recommend nothing and are left out.

    Parameters
    ----------
    problem : Problem
    arms : vector of arm indices
        The pulls of every experiment.
    estimate : callable, optional
        A function of (posterior, alternative) that gives the probability of error; by default the
        exact one.
    experiments : int
    edges : sequence of float
        Bins of the probability.
    seed : int
    false_alarm : float
        The probability at most that right probabilities leave a band, over all bins.
    progress : bool

    Returns
    -------
    Dataset
        Over `bin`: `experiments`, `stated` (mean probability of error), `observed` (share that was
        wrong), `lower` and `upper` (between which the share of right probabilities is), `inside`;
        and the attributes `calibrated`, `probability` of the bands and `left_out`.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> stated = reliability(problem, [0, 1, 1], experiments=300, edges=[0.0, 0.3, 1.0])
    >>> stated.attrs["calibrated"], stated.attrs["left_out"]
    (1, 25)
    """
    arms = _check.arms(problem, arms)
    rng = np.random.default_rng([seed, 0x4E1])
    estimate = _exact_probability if estimate is None else estimate
    stated, wrong = [], []
    for _ in repeated("experiments", experiments, progress):
        truth = prior(problem, rng)
        posterior = prior_predictive.pulled(problem, truth, arms, rng)
        best = posterior.best()
        if best is None:
            continue
        stated.append(estimate(posterior, Alternative(problem, best)))
        wrong.append(_wrong(problem, best, truth))
    table = _reliability_table(np.array(stated), np.array(wrong), np.array(edges), false_alarm)
    return table.assign_attrs(left_out=experiments - len(stated))


def rule_reliability(
    problem: Problem, rule: Maker, pulls: int, *,
    experiments: int = 1000, edges: Sequence[float] = EDGES, seed: int = 0,
    false_alarm: float = FALSE_ALARM, progress: bool = False,
) -> xr.Dataset:  # fmt: skip
    """How often a rule's recommendations are wrong, beside how often it says they are.

    Each experiment draws the parameters from the prior, lets the rule pull as it likes, and takes
    its recommendation with the probability of error stated there. That no candidate is feasible
    is a recommendation too, wrong if one is.

    Parameters
    ----------
    problem : Problem
    rule : callable
        A rule's class, or a function of (problem, seed) that gives anything with `ask`, `tell` and
        a `recommend` whose answer has a `candidate` and a `log_error`.
    pulls : int
        Of every experiment.
    experiments, edges, seed, false_alarm, progress
        As in `reliability`.

    Returns
    -------
    Dataset
        As `reliability` gives it; nothing is left out.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> found = rule_reliability(problem, bf.BestResponse, 10, experiments=200, edges=[0, 0.3, 1])
    >>> found.attrs["calibrated"], int(found.experiments.sum())
    (1, 200)
    """
    pulls, rng = _check.count("pulls", pulls), np.random.default_rng([seed, 0x4E2])
    stated, wrong = [], []
    for _ in repeated("experiments", experiments, progress):
        truth = prior(problem, rng)
        answer = played(problem, rule, pulls, truth, rng, "recommend").recommend()
        if not hasattr(answer, "log_error"):
            raise ValueError(f"rule: recommend() gives {answer!r}, without a log_error")
        stated.append(np.exp(answer.log_error))
        wrong.append(_wrong(problem, answer.candidate, truth))
    table = _reliability_table(np.array(stated), np.array(wrong), np.array(edges), false_alarm)
    return table.assign_attrs(left_out=0)


def _wrong(problem: Problem, candidate: int | None, truth: Array) -> bool:
    """Whether a recommendation, None for "no candidate is feasible", is wrong."""
    if candidate is None:
        costs = truth[1:] @ problem.candidates.T
        return bool(np.all(costs <= problem.thresholds[:, np.newaxis], axis=0).any())
    return bool(Alternative(problem, candidate).contains(truth[0], truth[1:]))


def reliability_table(table: xr.Dataset) -> str:
    """The result of `reliability` for reading.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> found = reliability(problem, [0, 1, 1], experiments=300, edges=[0.0, 0.3, 1.0])
    >>> print(reliability_table(found))
    stated between  experiments  stated  observed    band (99.9 %)  inside
    0 and 0.3               146  0.1667    0.1781  0.0685 - 0.2808  yes
    0.3 and 1               129  0.4410    0.3643  0.2946 - 0.5891  yes
    calibrated
    """
    rows = [
        [
            str(name), f"{int(one.experiments)}", f"{float(one.stated):.4f}",
            f"{float(one.observed):.4f}", f"{float(one.lower):.4f} - {float(one.upper):.4f}",
            "yes" if one.inside else "NO",
        ]
        for name, one in ((name, table.sel(bin=name)) for name in table.bin.values)
    ]  # fmt: skip
    band_name = f"band ({100 * table.attrs['probability']:g} %)"
    header = ["stated between", "experiments", "stated", "observed", band_name, "inside"]
    verdict = "calibrated" if table.attrs["calibrated"] else "NOT calibrated"
    return f"{text_table(header, rows)}\n{verdict}"


def _reliability_table(stated: Array, wrong: Array, edges: Array, false_alarm: float) -> xr.Dataset:
    """Given the probabilities, the number of errors in a bin is a sum of independent coins."""
    if np.any((stated < 0) | (stated > 1)):
        raise ValueError("estimate: expected probabilities between 0 and 1")
    where = np.searchsorted(edges, stated, side="left").clip(1, len(edges) - 1) - 1
    full = np.unique(where)
    level = 0.5 * false_alarm / full.size
    rows = []
    for at in full:
        mine = where == at
        lower, upper = coin_interval(stated[mine], level)
        errors, size = wrong[mine].sum(), int(mine.sum())
        values = size, stated[mine].mean(), errors / size, lower / size, upper / size
        rows.append((*values, bool(lower <= errors <= upper)))
    columns = ("experiments", "stated", "observed", "lower", "upper", "inside")
    names = [f"{edges[at]:g} and {edges[at + 1]:g}" for at in full]
    return xr.Dataset(
        {n: ("bin", list(each)) for n, each in zip(columns, zip(*rows, strict=True), strict=True)},
        coords={"bin": names},
        attrs={"calibrated": int(all(r[-1] for r in rows)), "probability": 1.0 - false_alarm},
    )


def _exact_probability(posterior: Posterior, alternative: Alternative) -> float:
    return float(np.exp(alternative.log_probability(posterior).value))
