"""Random arms in the unit ball: one instance as in the paper, and the average over many."""

from collections.abc import Mapping, Sequence

import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import figures
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.compare import Contest, contest_claims, judge, size
from bayes_feasible.analysis.paper.dependence import dependence_claim
from bayes_feasible.analysis.paper.rule_sets import HEROES, RIVALS, RULES, TIMES
from bayes_feasible.analysis.paper.runs import Experiment
from bayes_feasible.instances import random_ball

SETTINGS = ((2, 5), (2, 20), (2, 50), (20, 20), (50, 20))  # dimensions and numbers of arms
INSTANCES = 50
SEED = 0  # of the one instance; the average is over seeds 0, 1, ...


def studies(
    repetitions: int, times: tuple[int, ...] = TIMES, instances: int = INSTANCES
) -> list[Experiment]:
    """Two for each setting: one instance; and many, with as many repetitions in all."""
    found = []
    for d, k in SETTINGS:
        one = random_ball(d, k, SEED)
        found.append(Experiment(f"random_ball_d{d}_k{k}", [one], RULES, times, repetitions))
        many = [random_ball(d, k, SEED + i) for i in range(instances)]
        each = max(2, repetitions // instances)
        found.append(Experiment(f"random_ball_average_d{d}_k{k}", many, RULES, times, each))
    return found


def claims(data: Mapping[str, xr.Dataset]) -> list[Claim]:
    """BLFAIPS against its rivals in each setting, and over all settings."""
    rows: list[Claim] = []
    for d, k in SETTINGS:
        for kind, label in (("", f"instance of seed {SEED}"), ("_average", "average")):
            found = data[f"random_ball{kind}_d{d}_k{k}"]
            rows += contest_claims(
                found,
                f"HERO converges faster, d = {d}, K = {k} ({label})",
                f"Section 6.2, figure for d = {d}, K = {k}",
                f"uniform arms in the unit ball, T = {int(found.time[-1])}, {size(found)}; "
                "the paper's own instance is not known",
            )
    depends = dependence_claim(
        {
            (f"d = {d}, K = {k}", label): data[f"random_ball{kind}_d{d}_k{k}"]
            for d, k in SETTINGS
            for kind, label in (("", "one instance"), ("_average", "average"))
        },
        "Section 6.2",
    )
    return [*(_over_all(data, hero) for hero in HEROES), depends, *rows]


def _over_all(data: Mapping[str, xr.Dataset], hero: str) -> Claim:
    """The claim as the paper puts it: faster for every number of arms and of dimensions."""
    standings: list[tuple[str, str, str]] = []
    parts = []
    for kind in ("", "_average"):
        for d, k in SETTINGS:
            found = Contest(data[f"random_ball{kind}_d{d}_k{k}"], hero, RIVALS).standings()
            standings += found
            label = f"d = {d}, K = {k}" + (", average" if kind else ", one instance")
            parts.append(f"{label}: " + ", ".join(f"{n} {w}" for w, n in _tally(found).items()))
    opening, count = judge(standings).split(":")[0], _tally(standings)
    return Claim(
        f"{hero} converges faster than LinTS and Top-Two for all K and d",
        "Section 6.2",
        "all settings, one instance and averages, against three rivals by three criteria: at the "
        "end by one draw and by the means, and by one draw over the run",
        "; ".join(parts) + " (a difference counts beyond 3 standard errors, paired)",
        f"{opening}: ahead in {count['ahead']}, no clear difference in {count['level']}, behind "
        f"in {count['behind']} of {len(standings)} comparisons",
    )


def _tally(standings: Sequence[tuple[str, str, str]]) -> dict[str, int]:
    """How many standings are of each kind."""
    found = [standing for *_, standing in standings]
    return {kind: found.count(kind) for kind in ("ahead", "level", "behind")}


def pictures(data: Mapping[str, xr.Dataset]) -> dict[str, Figure]:
    """One figure for each setting, and all differences at a glance."""
    drawn = {}
    for d, k in SETTINGS:
        for kind, label in (("", f"instance of seed {SEED}"), ("_average", "average of instances")):
            name = f"random_ball{kind}_d{d}_k{k}"
            drawn[name] = figures.accuracy(data[name], f"Unit ball, d = {d}, K = {k}: {label}")
    averages = {f"d = {d}, K = {k}": data[f"random_ball_average_d{d}_k{k}"] for d, k in SETTINGS}
    drawn["random_ball_differences"] = figures.differences(
        averages, HEROES, RIVALS, "Unit ball, average of instances: accuracy minus that of others"
    )
    return drawn
