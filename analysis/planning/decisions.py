"""Decision tables: what a design does after every outcome of its first batches.

Where outcomes are 0 or 1 there are finitely many. A rule that draws at random decides with the
seed of the table; `Descent` and others that maximise always decide so.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.analysis.planning.design import UNSAFE, TrialDesign
from bayes_feasible.analysis.planning.scenarios import Truth, read_scenarios
from bayes_feasible.analysis.report.page import Table
from bayes_feasible.outcomes import Bernoulli
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.safety import Refused
from bayes_feasible.stopping.stop import Monitor

MOST = 20_000  # rows
LARGEST = 10**6  # pulls in a batch

Told = tuple[tuple[int, int, tuple[int, ...]], ...]  # arm, pulls, successes of each outcome


class Decision(NamedTuple):
    """What is done after some batches.

    Attributes
    ----------
    told : tuple of (arm, pulls, successes of each outcome)
        Row by row; `describe` puts it into words.
    next : tuple of int
        Arms of the next batch; empty where the trial ends.
    ended : str
        Why it ends; empty where it goes on.
    recommended : int
        Candidate that would be recommended now, -1 for none.
    probability : tuple of float
        Of this path, exactly, in each scenario.
    """

    told: Told
    next: tuple[int, ...]
    ended: str
    recommended: int
    probability: tuple[float, ...]


class Decisions(NamedTuple):
    """A decision table.

    Attributes
    ----------
    problem : Problem
    scenarios : list of str
    seen : list of str
        Outcomes that are told in time.
    rows : list of Decision
        In the order of the batches: before the first, after it, after the second.
    """

    problem: Problem
    scenarios: list[str]
    seen: list[str]
    rows: list[Decision]

    def describe(self, told: Told) -> str:
        """Say what was seen: "3 of 10 mg: 1 toxicity"."""
        arms = self.problem.coords["arm"]
        parts = [
            f"{pulls} of {arms[arm]}: "
            + ", ".join(f"{k} {name}" for k, name in zip(successes, self.seen, strict=True))
            for arm, pulls, successes in told
        ]
        return "; then ".join(parts) or "before the first pull"

    def table(self) -> Table:
        """The table for reading."""
        names = [*map(str, self.problem.coords["candidate"]), "none"]
        rows = [
            [
                self.describe(row.told), _next(self.problem, row), names[row.recommended],
                *(f"{p:.4f}" for p in row.probability),
            ]
            for row in self.rows
        ]  # fmt: skip
        header = ["after", "next", "would recommend", *(f"P in {n}" for n in self.scenarios)]
        return Table("Decisions, with exact probabilities of the paths", header, rows,
                     words=(0, 1, 2), prose=(0,))  # fmt: skip


def decide(
    design: TrialDesign,
    scenarios: Any = None,
    batches: int = 2,
    *,
    seen: Sequence[str] | None = None,
    seed: int = 0,
) -> Decisions:
    """What a design does after every outcome of its first batches.

    Parameters
    ----------
    design : TrialDesign
        All outcomes that are `seen` are 0/1.
    scenarios : dict of names to truths, optional
        Under which the paths get probabilities; as for `plan`, but for "prior".
    batches : int
        How many.
    seen : names of outcomes, optional
        Those that are told in time for the next batch; all of them by default.
    seed : int
        Of a rule that draws.

    Returns
    -------
    Decisions

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"5 mg": [1, 0], "20 mg": [1, 1]}, {"toxicity": 0.3},
    ...                      reward=bf.Bernoulli(), costs=bf.Bernoulli())
    >>> safety = bf.Safety(order=["5 mg", "20 mg"], cohort=3, before=3)
    >>> steep = {"reward": [0.4, 0.6], "toxicity": [0.1, 0.6]}
    >>> found = decide(TrialDesign(problem, safety=safety), {"steep": steep}, 1, seen=["toxicity"])
    >>> for row in found.table().rows:
    ...     print(", ".join(row))
    before the first pull, 3 of 5 mg, none, 1.0000
    3 of 5 mg: 0 toxicity, 3 of 20 mg, 5 mg, 0.7290
    3 of 5 mg: 1 toxicity, 3 of 20 mg, none, 0.2430
    3 of 5 mg: 2 toxicity, 3 of 20 mg, none, 0.0270
    3 of 5 mg: 3 toxicity, 3 of 20 mg, none, 0.0010
    """
    _check.kind("design", design, TrialDesign)
    problem = design.problem
    batches = _check.count("batches", batches, most=10)
    names = problem.outcome_names if seen is None else list(seen)
    for name in names:
        if name not in problem.outcome_names:
            raise ValueError(f"seen: {_check.unknown('outcome', name, problem.outcome_names)}")
        if not isinstance(problem.outcomes[problem.outcome_names.index(name)], Bernoulli):
            raise ValueError(f"seen: expected 0/1 outcomes, {name} is another one; leave it out")
    places = [b for b, name in enumerate(problem.outcome_names) if name in names]
    truths = _truths(problem, scenarios)
    rows: list[Decision] = []
    level: list[tuple[Told, tuple[float, ...]]] = [((), (1.0,) * len(truths))]
    for batch in range(batches + 1):
        following = []
        for told, probability in level:
            row = _decide(design, told, places, probability, seed)
            rows.append(row)
            if batch < batches and row.next:
                following += [
                    (told + more, tuple(p * q for p, q in zip(probability, each, strict=True)))
                    for more, each in _outcomes(row.next, places, list(truths.values()))
                ]
        if len(rows) + len(following) > MOST:
            raise ValueError(
                f"batches: {batches} have more than {MOST:,} outcomes; take fewer, or name fewer "
                "outcomes as seen"
            )
        level = following
    ordered = [name for name in problem.outcome_names if name in names]
    return Decisions(problem, list(truths), ordered, rows)


def _truths(problem: Problem, scenarios: Any) -> dict[str, Truth]:
    found = {} if scenarios is None else read_scenarios(problem, scenarios)
    for one in found:
        if one.truth is None:
            raise ValueError(f"scenarios: {one.name}: expected a truth; the prior has many")
    return {one.name: one.truth for one in found if one.truth is not None}


def _decide(
    design: TrialDesign, told: Told, places: list[int], probability: tuple[float, ...], seed: int
) -> Decision:
    """Take the same path again, and see what comes next."""
    rule, at = design.start(seed, LARGEST), 0
    ended, following = _go_on(design, rule)
    while at < len(told):  # one batch after the other, as they were asked for
        at = _tell_batch(design, rule, told, at, places)
        ended, following = _go_on(design, rule)
    return Decision(told, following, ended, rule._choice(), probability)


def _tell_batch(design: TrialDesign, rule: Rule, told: Told, at: int, places: list[int]) -> int:
    """Tell the rows of one batch; returns where the next begins."""
    pulls = 0
    while at < len(told) and pulls < design.pulls_at_once:
        arm, number, successes = told[at]
        values = np.full(len(design.problem.outcomes), np.nan)
        values[places] = successes
        rule.tell(arm, values[0], values[1:], number)
        pulls += number
        at += 1
    return at


def _go_on(design: TrialDesign, rule: Rule) -> tuple[str, tuple[int, ...]]:
    """Why the trial ends now, or the arms of the next batch."""
    if design.stop is not None:
        choice = rule._choice()
        monitor = Monitor(design.stop, design.problem)
        rng = np.random.default_rng(0)
        decision = monitor.ended(rule.posterior, None if choice < 0 else choice, rng)
        if decision is not None:
            return decision.reason, ()
    try:
        return "", tuple(design.ask(rule, design.pulls_at_once).tolist())
    except Refused:
        return UNSAFE, ()


def _outcomes(
    arms: tuple[int, ...], places: list[int], truths: Sequence[Truth]
) -> Iterator[tuple[Told, list[float]]]:
    """What a batch may show, with its probability in each scenario."""
    pulled = [(arm, arms.count(arm)) for arm in dict.fromkeys(arms)]
    each = [list(product(range(number + 1), repeat=len(places))) for _, number in pulled]
    tables = [
        [binom.pmf(np.arange(n + 1)[:, np.newaxis], n, one.means[arm, places]) for one in truths]
        for arm, n in pulled
    ]
    for successes in product(*each):
        told = tuple((arm, n, k) for (arm, n), k in zip(pulled, successes, strict=True))
        yield (
            told,
            [
                float(np.prod([_joint(tables[i][s], k) for i, k in enumerate(successes)]))
                for s in range(len(truths))
            ],
        )


def _joint(table: Array, successes: tuple[int, ...]) -> float:
    return float(np.prod([table[k, j] for j, k in enumerate(successes)]))


def _next(problem: Problem, row: Decision) -> str:
    if row.ended:
        return f"stop ({row.ended})"
    arms = problem.coords["arm"]
    counts = {arm: row.next.count(arm) for arm in dict.fromkeys(row.next)}
    return ", ".join(f"{number} of {arms[arm]}" for arm, number in counts.items())
