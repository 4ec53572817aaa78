"""A design: what is asked for, in which batches, up to which budget; and trials that follow it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bayes_feasible import _check
from bayes_feasible._at_once import interpreted
from bayes_feasible._check import Array
from bayes_feasible.analysis.planning.scenarios import Scenario, Truth
from bayes_feasible.files.documents import to_document
from bayes_feasible.outcomes import Bernoulli, Poisson
from bayes_feasible.problem import Problem
from bayes_feasible.rules import RULES
from bayes_feasible.rules.base import Rule
from bayes_feasible.safety import Guard, Refused, Safety
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.world import draw_outcomes
from bayes_feasible.stopping.stop import Monitor, Stop
from bayes_feasible.trial.replay import make_rule

LARGEST = 10**6  # pulls
SUMMED = 50  # pulls in a batch from which on they are told as sums
BUDGET, UNSAFE = "budget", "unsafe"  # why a trial ends, beside the reasons of a stop


class Course(NamedTuple):
    """One simulated trial, as it would have ended at each budget."""

    chosen: NDArray[np.int64]  # (budget,), -1: no candidate looks feasible
    size: NDArray[np.int64]  # (budget,)
    pulls: NDArray[np.int64]  # (budget, arm)
    totals: Array  # (budget, outcome)
    ended: NDArray[np.object_]  # (budget,): why


@dataclass(frozen=True, eq=False)
class TrialDesign:
    """What a trial does.

    Parameters
    ----------
    problem : Problem
    rule : str
        Name of the sampling rule, with its `options`.
    safety : Safety, optional
        Which arms may be asked for.
    stop : Stop, optional
        When it may end before its budget is spent; asked after every batch.
    batch : int, optional
        Pulls that are asked for before anything is told; by default a cohort of the safety.
    shares : bool
        Whether a batch is divided among the arms in the shares that the rule would give the next
        pulls, rounded to whole pulls, as `Trial.ask` does with `shares`.
    recommendation : {"mean", "probable", "draw"}
    """

    problem: Problem
    rule: str = "Descent"
    options: Mapping[str, Any] = field(default_factory=dict)
    safety: Safety | None = None
    stop: Stop | None = None
    batch: int | None = None
    recommendation: str = "mean"
    shares: bool = False

    def __post_init__(self) -> None:
        _check.kind("problem", self.problem, Problem)
        if self.safety is not None:
            _check.kind("safety", self.safety, Safety)
        if self.stop is not None:
            _check.kind("stop", self.stop, Stop)
        if self.batch is not None:
            _check.count("batch", self.batch, most=LARGEST)
        self.start(0, LARGEST)  # finds mistakes

    @property
    def pulls_at_once(self) -> int:
        """Pulls in a batch."""
        if self.batch is not None:
            return self.batch
        return 1 if self.safety is None else self.safety.cohort

    @property
    def looks_ahead(self) -> bool:
        """Whether the rule goes by its horizon, so that each budget is a trial of its own."""
        return self.rule in RULES and "horizon" in signature(RULES[self.rule]).parameters

    def start(self, seed: Any, budget: int) -> Rule:
        """The rule before the first pull."""
        options = dict(self.options)
        if self.looks_ahead:
            options["horizon"] = budget
        rule = make_rule(self.problem, self.rule, seed, options)
        rule.recommendation = self.recommendation
        return rule

    def ask(self, rule: Rule, pulls: int) -> NDArray[np.int64]:
        """The next batch; raises `Refused` if no arm may be asked for."""
        arms: NDArray[np.int64]
        if not self.shares:
            arms = rule.ask(pulls, allowed=self.safety)
            return arms
        guard = Guard(self.safety or Safety(), self.problem)
        nothing = np.zeros(len(self.problem.arms), dtype=np.int64)
        return rule._make(guard.plan(rule.posterior, nothing, pulls, shares=True))

    def to_dict(self) -> dict[str, Any]:
        """What its numbers depend on."""
        return {
            "problem": to_document(self.problem, strict=True),
            "rule": {self.rule: dict(self.options)},
            "safety": self.safety and self.safety.to_dict(),
            "stop": self.stop and self.stop.to_dict(),
            "batch": self.pulls_at_once,
            "shares": self.shares,
            "recommendation": self.recommendation,
        }


def run_trials(
    design: TrialDesign, scenario: Scenario, budgets: Sequence[int],
    seeds: Sequence[np.random.SeedSequence],
) -> list[tuple[Truth, Course]]:  # fmt: skip
    """Simulate one trial for each seed; the same seed meets the same noise in every scenario."""
    found = []
    with threadpool_limits(1):  # matrices are small: more threads only wait
        for seed in seeds:
            truth = scenario.draw(design.problem, streams.split(seed).extra)
            groups = [[budget] for budget in budgets] if design.looks_ahead else [budgets]
            each = [_run(design, truth, group, seed) for group in groups]
            found.append((truth, Course(*map(np.concatenate, zip(*each, strict=True)))))
    return found


def _run(
    design: TrialDesign, truth: Truth, budgets: Sequence[int], seed: np.random.SeedSequence
) -> Course:
    own, *rest, errors, _ = streams.split(seed)
    reward_rng, cost_rng, stop_rng = map(np.random.default_rng, (*rest, errors))
    rule, world = design.start(own, budgets[-1]), truth.world(design.problem)
    draw = interpreted(draw_outcomes)
    monitor = None if design.stop is None else Monitor(design.stop, design.problem)
    arms, outcomes = truth.means.shape
    course = Course(
        np.empty(len(budgets), dtype=np.int64), np.empty(len(budgets), dtype=np.int64),
        np.empty((len(budgets), arms), dtype=np.int64), np.empty((len(budgets), outcomes)),
        np.empty(len(budgets), dtype=object),
    )  # fmt: skip
    counts, totals, ended = np.zeros(arms, dtype=np.int64), np.zeros(outcomes), ""
    answer: int | None = None  # what a stop ended with
    for i, budget in enumerate(budgets):
        while not ended and (left := budget - int(counts.sum())) > 0:
            try:
                asked = design.ask(rule, min(design.pulls_at_once, left))
            except Refused:
                ended = UNSAFE
                break
            if asked.size >= SUMMED:
                totals += _tell_sums(rule, truth, asked, (reward_rng, cost_rng))
            else:
                values = np.empty((asked.size, outcomes))
                for row, arm in zip(values, asked, strict=True):
                    row[0] = draw(world, reward_rng, cost_rng, int(arm), row[1:])
                rule.tell(asked, values[:, 0], values[:, 1:])
                totals += values.sum(axis=0)
            np.add.at(counts, asked, 1)
            if monitor is not None:
                choice = rule._choice()
                decision = monitor.ended(rule.posterior, None if choice < 0 else choice, stop_rng)
                if decision is not None:
                    ended = decision.reason
                    answer = -1 if decision.candidate is None else decision.candidate
        course.chosen[i] = rule._choice() if answer is None else answer
        course.size[i] = counts.sum()
        course.pulls[i], course.totals[i] = counts, totals
        course.ended[i] = ended or BUDGET
    return course


def _tell_sums(
    rule: Rule, truth: Truth, asked: NDArray[np.int64], rngs: Sequence[np.random.Generator]
) -> Array:
    """Tell a large batch as a row for each arm: sums, or means with standard deviations."""
    arms, counts = np.unique(asked, return_counts=True)
    values, sds = np.empty((2, arms.size, truth.means.shape[1]))
    totals = np.empty_like(values)
    for b, outcome in enumerate(rule.problem.outcomes):
        rng, means, noise = rngs[min(b, 1)], truth.means[arms, b], truth.noise[b]
        sds[:, b] = np.nan
        if isinstance(outcome, Bernoulli):
            totals[:, b] = rng.binomial(counts, means)
        elif isinstance(outcome, Poisson):
            totals[:, b] = rng.poisson(counts * means)
        else:
            totals[:, b] = rng.normal(counts * means, noise * np.sqrt(counts))
            squares = noise**2 * rng.chisquare(np.maximum(counts - 1, 1))
            sds[:, b] = np.where(counts > 1, np.sqrt(squares / np.maximum(counts - 1, 1)), 0.0)
        values[:, b] = np.where(np.isnan(sds[:, b]), totals[:, b], totals[:, b] / counts)
    alone = counts == 1  # a single pull has no standard deviation
    sds[alone] = np.nan
    values[alone] = totals[alone]
    rule.tell(arms, values[:, 0], values[:, 1:], counts, sd=sds)
    return totals.sum(axis=0)
