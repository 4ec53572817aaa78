"""What a trial's page says, as numbers: all of one moment, whatever others add meanwhile."""

from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import bayes_feasible
from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.feasible import some_feasible
from bayes_feasible.history import History
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.posterior import Posterior
from bayes_feasible.prior import along, quantile
from bayes_feasible.rate.rate import plug_in_allocation
from bayes_feasible.recommendation import choose
from bayes_feasible.trial.status import Status
from bayes_feasible.trial.trial import Trial

PROBABILITY = 0.95  # of the intervals
MOMENTS = 16  # at which the error over time is computed
ERROR_DRAWS = 512  # for overlaps of mistakes, at each of them
K_HAT = 0.7  # above it, importance weights are not to be relied on


class Intervals(NamedTuple):
    """What is known of one outcome of every candidate, in the units of its limit."""

    name: str
    unit: str  # what it is relative to; empty where it is not
    limit: float  # NaN: there is none
    mean: Array
    low: Array
    high: Array


class Moment(NamedTuple):
    """What would have been recommended after so many pulls, and how probably that is wrong."""

    pulls: int
    name: str
    log_error: float


class View(NamedTuple):
    """All that the page says."""

    status: Status
    outcomes: list[Intervals]
    best: Array | None  # over candidates; None: not offered within a parameter radius
    none: float  # the probability that no candidate is feasible
    k_hat: float
    shares: Array | None  # best, if the posterior means are the truth; None: not known
    course: list[Moment]
    history: History
    events: list[dict[str, Any]]
    undone: dict[int, int]
    refused: dict[str, str]  # arms that may not be asked for now, and why
    cohort: int

    @property
    def header(self) -> dict[str, Any]:
        """The first event: the problem, the rule and how they were set."""
        return self.events[0]

    @property
    def version(self) -> str:
        """The version that looks at the trial."""
        return bayes_feasible.__version__


def look(trial: Trial, *, forecast: bool = False) -> View:
    """Look at a trial; with `forecast` also at how long it will take, which takes a while.

    Examples
    --------
    >>> import tempfile
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trial = bf.Trial.new(folder + "/drug.trial", problem, seed=1)
    ...     _ = trial.tell(["low", "high"] * 20, [0.2, 0.9] * 20, [0.1, 0.8] * 20)
    ...     view = look(trial)
    >>> view.best.round(2).tolist(), round(view.none, 2)
    ([0.74, 0.02], 0.25)
    """
    with trial.still(), threadpool_limits(1):  # matrices are small: more threads only wait
        history, events = trial.history, trial.events
        posterior = history.posterior()
        problem = posterior.problem
        best, none, k_hat = None, 0.0, -np.inf
        if problem.parameter_radius is None:
            found = trial.probability_best()
            best, none = found.best.values, float(found.none)
            k_hat = float(found.attrs["k_hat"])
        return View(
            status=trial.status(forecast=forecast),
            outcomes=_intervals(posterior),
            best=best,
            none=none,
            k_hat=k_hat,
            shares=_best_shares(posterior),
            course=_course(history, trial.recommendation, trial.seed),
            history=history,
            events=events,
            undone={e["of"]: e["n"] for e in events if e["event"] == "undo"},
            refused=_refused(trial, posterior),
            cohort=1 if trial.safety is None else trial.safety.cohort,
        )


def _refused(trial: Trial, posterior: Posterior) -> dict[str, str]:
    if trial.safety is None:
        return {}
    return trial.safety.why_not(posterior, list(trial.waiting.values()))


def _intervals(posterior: Posterior) -> list[Intervals]:
    """Of the reward, then of each cost: itself, or relative to what limits it."""
    problem, known = posterior.problem, posterior.summary(PROBABILITY)
    found = []
    for b, name in enumerate(problem.outcome_names):
        relative = problem.relative[b - 1] if b else None
        limit = float(problem.thresholds[b - 1]) if b else np.nan
        if relative is None:
            row = known.isel(outcome=b)
            found.append(
                Intervals(name, "", limit, row["mean"].values, row.low.values, row.high.values)
            )
            continue
        outcome, block = problem.outcomes[b], posterior.blocks[b]
        at, scale = along(problem.cost_vectors[:, b - 1], block.mean, block.root @ block.root.T)
        width = quantile((1 + PROBABILITY) / 2, getattr(block, "freedom", np.inf)) * scale
        ends = [at, at - width, at + width]
        if not isinstance(outcome, Gaussian):
            ends = [np.exp(end) for end in ends]
        found.append(Intervals(name, f"{outcome.relative}, {relative.candidate}", limit, *ends))
    return found


def _best_shares(posterior: Posterior) -> Array | None:
    try:
        return plug_in_allocation(posterior.estimate()) if posterior.pulls else None
    except ValueError:  # the estimate lies beyond the parameter radius
        return None


def _course(history: History, method: str, seed: int) -> list[Moment]:
    """The probability of error after some of the rows, the last one among them."""
    if not len(history):
        return []
    steps = np.geomspace(1, len(history), MOMENTS).round().astype(int)
    return [_moment(history.first(int(rows)), method, seed) for rows in np.unique(steps)]


def _moment(history: History, method: str, seed: int) -> Moment:
    posterior, rng = history.posterior(), np.random.default_rng([seed, len(history)])
    problem, choice = posterior.problem, choose(posterior, method, rng)
    wrong = some_feasible(problem) if choice is None else Alternative(problem, choice).union
    error = wrong.log_probability(posterior, rng, draws=ERROR_DRAWS)
    name = "none" if choice is None else problem.name(choice)
    return Moment(int(history.counts.sum()), name, error.value)
