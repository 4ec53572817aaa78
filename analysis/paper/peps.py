"""BLFAIPS against PEPS where no constraint binds: budget known, and unknown."""

from collections.abc import Mapping
from functools import partial

import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import figures
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.compare import (
    AT_END,
    Contest,
    accuracies,
    also_simple,
    difference,
    measure,
)
from bayes_feasible.analysis.paper.rule_sets import PAPER_ETA, RULES, TIMES
from bayes_feasible.analysis.paper.runs import Experiment
from bayes_feasible.instances import random_ball
from bayes_feasible.rules.peps import PEPS

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
        rows += [_known(data[name], label), *_unknown(data[name], label)]
    return rows


def _known(found: xr.Dataset, label: str) -> Claim:
    contest = Contest(found, PAPER_ETA, (KNOWN, FIXED))
    same = (found.allocation.sel(rule=PAPER_ETA) == found.allocation.sel(rule=KNOWN)).all()
    level = all(standing == "level" for *_, standing in contest.standings())
    against = [f"{s} by {c}" for c, rival, s in contest.standings() if rival == FIXED]
    return state(
        "peps_known",
        "holds" if level else "part",
        label=label,
        **measure(found),
        result=f"{accuracies(found)}. {contest.text()}",
        why="with AdaHedge the two are the same rule, pull for pull" if same else "pulls differ",
        fixed=", ".join(against),
    )


def _unknown(found: xr.Dataset, label: str) -> list[Claim]:
    rows = []
    for rule, how in ((FORGETS, "forgets"), (KEEPS, "keeps")):
        contest = Contest(found, PAPER_ETA, (rule,))
        around = "; ".join(
            f"after {t} pulls {difference(found, PAPER_ETA, rule, AT_END[0], t).signed()}"
            for t in (RESTART, RESTART + 6)
            if t in found.time.values
        )
        result = contest.text()
        if around:
            result += f". Around the last restart, by one draw: {around}"
        verdict = f"{contest.verdict()}. {also_simple(found, PAPER_ETA, (rule,))}"
        texts = {"label": label, "how": how, "result": result, "verdict": verdict}
        rows.append(state("peps_unknown", restart=RESTART, **measure(found), **texts))
    return rows


def pictures(data: Mapping[str, xr.Dataset]) -> dict[str, Figure]:
    """The rules of this comparison, on one instance and on average."""
    shown = [PAPER_ETA, FIXED, FORGETS, KEEPS, "LinTS", "Oracle", "Uniform", "G-optimal"]
    titles = {
        "peps": f"No constraint, d = 2, K = 5: instance of seed {SEED}",
        "peps_average": "No constraint, d = 2, K = 5: average of instances",
    }
    return {n: figures.accuracy(data[n].sel(rule=shown), title) for n, title in titles.items()}
