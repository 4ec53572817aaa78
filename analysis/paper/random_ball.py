"""Random arms in the unit ball: one instance as in the paper, and the average over many."""

from collections import Counter
from collections.abc import Mapping

import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import figures
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.compare import Contest, contest_claims, judge
from bayes_feasible.analysis.paper.dependence import dependence_claim
from bayes_feasible.analysis.paper.rule_sets import HEROES, RIVALS, RULES, TIMES
from bayes_feasible.analysis.paper.runs import Experiment
from bayes_feasible.instances import random_ball

SETTINGS = ((2, 5), (2, 20), (2, 50), (20, 20), (50, 20))  # dimensions and numbers of arms
INSTANCES = 50
SEED = 0  # of the one instance; the average is over seeds 0, 1, ...
ONE, AVERAGE = "", "_average"


def name(d: int, k: int, kind: str) -> str:
    """Name an experiment."""
    return f"random_ball{kind}_d{d}_k{k}"


def studies(
    repetitions: int, times: tuple[int, ...] = TIMES, instances: int = INSTANCES
) -> list[Experiment]:
    """Two for each setting: one instance; and many, with as many repetitions in all."""
    found = []
    for d, k in SETTINGS:
        many = [random_ball(d, k, SEED + i) for i in range(instances)]
        each = max(2, repetitions // instances)
        found += [
            Experiment(name(d, k, ONE), many[:1], RULES, times, repetitions),
            Experiment(name(d, k, AVERAGE), many, RULES, times, each),
        ]
    return found


def claims(data: Mapping[str, xr.Dataset]) -> list[Claim]:
    """BLFAIPS against its rivals in each setting, and over all settings."""
    rows = [
        row
        for d, k in SETTINGS
        for kind, label in ((ONE, f"instance of seed {SEED}"), (AVERAGE, "average"))
        for row in contest_claims("random_ball", data[name(d, k, kind)], d=d, k=k, label=label)
    ]
    depends = dependence_claim(
        {
            (f"d = {d}, K = {k}", label): data[name(d, k, kind)]
            for d, k in SETTINGS
            for kind, label in ((ONE, "one instance"), (AVERAGE, "average"))
        },
        "Section 6.2",
    )
    return [*(_over_all(data, hero) for hero in HEROES), depends, *rows]


def _over_all(data: Mapping[str, xr.Dataset], hero: str) -> Claim:
    """The claim as the paper puts it: faster for every number of arms and of dimensions."""
    standings, parts, total = [], [], Counter(ahead=0, level=0, behind=0)
    for kind, label in ((ONE, "one instance"), (AVERAGE, "average")):
        for d, k in SETTINGS:
            found = Contest(data[name(d, k, kind)], hero, RIVALS).standings()
            standings += found
            own = Counter(standing for *_, standing in found)
            counts = ", ".join(f"{own[word]} {word}" for word in total)
            parts.append(f"d = {d}, K = {k}, {label}: {counts}")
            total.update(own)
    opening = judge(standings).split(":")[0]
    return state("all_balls", hero=hero, result="; ".join(parts), opening=opening, **total)


def pictures(data: Mapping[str, xr.Dataset]) -> dict[str, Figure]:
    """One figure for each setting, and all differences at a glance."""
    drawn = {
        name(d, k, kind): figures.accuracy(
            data[name(d, k, kind)], f"Unit ball, d = {d}, K = {k}: {label}"
        )
        for d, k in SETTINGS
        for kind, label in ((ONE, f"instance of seed {SEED}"), (AVERAGE, "average of instances"))
    }
    averages = {f"d = {d}, K = {k}": data[name(d, k, AVERAGE)] for d, k in SETTINGS}
    drawn["random_ball_differences"] = figures.differences(
        averages, HEROES, RIVALS, "Unit ball, average of instances: accuracy minus that of others"
    )
    return drawn
