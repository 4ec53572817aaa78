"""BLFAIPS against PEPS where no constraint binds: budget known, and unknown."""

from collections.abc import Mapping
from functools import partial

import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import figures
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.compare import (
    AT_END,
    Contest,
    accuracies,
    also_simple,
    difference,
    size,
)
from bayes_feasible.analysis.paper.rule_sets import PAPER_ETA, RULES, TIMES
from bayes_feasible.analysis.paper.runs import Experiment
from bayes_feasible.instances import random_ball
from bayes_feasible.rules.catalogue import PEPS

INSTANCES = 50
SEED = 0
RESTART = 1024  # the last restart before the end
KNOWN, FIXED = "PEPS (T known)", "PEPS (T known, fixed rate)"
FORGETS, KEEPS = "PEPS (doubling, forgets)", "PEPS (doubling, keeps data)"
PEPS_TIMES = tuple(sorted({*TIMES, 512, 520, RESTART, RESTART + 6}))


def studies(
    repetitions: int, times: tuple[int, ...] = PEPS_TIMES, instances: int = INSTANCES
) -> list[Experiment]:
    """One instance, and many."""
    horizon = times[-1]
    rules = RULES | {
        KNOWN: partial(PEPS, horizon=horizon),
        FIXED: partial(PEPS, horizon=horizon, learner="hedge"),
        FORGETS: PEPS,
        KEEPS: partial(PEPS, keep_data=True),
    }
    free = partial(random_ball, 2, 5, threshold=float("inf"))
    many = [free(SEED + i) for i in range(instances)]
    each = max(2, repetitions // instances)
    return [
        Experiment("peps", [free(SEED)], rules, times, repetitions),
        Experiment("peps_average", many, rules, times, each),
    ]


def claims(data: Mapping[str, xr.Dataset]) -> list[Claim]:
    """Known and unknown budget, on one instance and on average."""
    rows = []
    for name, label in (("peps", f"instance of seed {SEED}"), ("peps_average", "average")):
        found = data[name]
        what = f"unit ball, d = 2, K = 5, no constraint, T = {int(found.time[-1])}, {size(found)}"
        rows += [_known(found, label, what), *_unknown(found, label, what)]
    return rows


def _known(found: xr.Dataset, label: str, what: str) -> Claim:
    contest = Contest(found, PAPER_ETA, (KNOWN, FIXED))
    same = bool((found.allocation.sel(rule=PAPER_ETA) == found.allocation.sel(rule=KNOWN)).all())
    level = all(standing == "level" for *_, standing in contest.standings())
    why = "with AdaHedge the two are the same rule, pull for pull" if same else "pulls differ"
    return Claim(
        f"BLFAIPS equals PEPS where T is known ({label})",
        "Section 6.3",
        what,
        f"{accuracies(found)}. {contest.text()}",
        (f"holds: {why} (exact); and no clear difference to PEPS with a fixed learning rate"
         if level else
         f"holds in part: {why}; against the fixed learning rate: " + ", ".join(
             f"{s} by {c}" for c, rival, s in contest.standings() if rival == FIXED)),
    )  # fmt: skip


def _unknown(found: xr.Dataset, label: str, what: str) -> list[Claim]:
    rows = []
    after = RESTART + 6
    for rule, how in ((FORGETS, "forgets the data"), (KEEPS, "keeps the data")):
        contest = Contest(found, PAPER_ETA, (rule,))
        times = [t for t in (RESTART, after) if t in found.time.values]
        around = "; ".join(
            f"after {t} pulls {difference(found, PAPER_ETA, rule, AT_END[0], t).signed()}"
            for t in times
        )
        rows.append(
            Claim(
                f"BLFAIPS beats PEPS where T is unknown and doubling {how} ({label})",
                "Section 6.3, figure on unknown T",
                f"{what}; restarts after 1, 2, 4, ..., {RESTART} pulls",
                contest.text()
                + (f". Around the last restart, by one draw: {around}" if around else ""),
                f"{contest.verdict()}. {also_simple(found, PAPER_ETA, (rule,))}",
            )
        )
    return rows


def pictures(data: Mapping[str, xr.Dataset]) -> dict[str, Figure]:
    """The rules of this comparison, on one instance and on average."""
    shown = [PAPER_ETA, FIXED, FORGETS, KEEPS, "LinTS", "Oracle", "Uniform", "G-optimal"]
    titles = {
        "peps": f"No constraint, d = 2, K = 5: instance of seed {SEED}",
        "peps_average": "No constraint, d = 2, K = 5: average of instances",
    }
    return {n: figures.accuracy(data[n].sel(rule=shown), title) for n, title in titles.items()}
