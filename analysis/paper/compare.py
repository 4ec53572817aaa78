"""The rules that the paper compares: estimates, differences with standard errors, verdicts.

Replicate i of every rule meets the same noise, so a difference between two rules is taken
replicate by replicate, and its standard error is that of the mean of those differences. Over
several instances the unit is the instance: its replicates are averaged first, and the standard
error is that of the mean over instances, which holds both the luck of the noise and that of the
instances.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.quote import mean_and_error
from bayes_feasible.rules.allocation import GOptimal, Oracle, Uniform
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.best_response import BestResponse
from bayes_feasible.rules.blfaips import BLFAIPS
from bayes_feasible.rules.descent import Descent
from bayes_feasible.rules.fws import FWS
from bayes_feasible.rules.gse import GSE
from bayes_feasible.rules.lin_gap_e import LinGapE
from bayes_feasible.rules.mdapt import MDAPT
from bayes_feasible.rules.ocba import OCBA
from bayes_feasible.rules.od_linbai import ODLinBAI
from bayes_feasible.rules.plug_in import PlugIn
from bayes_feasible.rules.sequential_halving import SequentialHalving
from bayes_feasible.rules.successive_rejects import SuccessiveRejects
from bayes_feasible.rules.thompson import LinearThompson
from bayes_feasible.rules.top_two import TopTwo
from bayes_feasible.rules.top_two_tci import TopTwoTCI

# The rules, under the names of the figures and the table.
PAPER_ETA, TRUE_POSTERIOR = "BLFAIPS", "BLFAIPS (η = 1)"
HEROES = (PAPER_ETA, TRUE_POSTERIOR)
THOMPSON, TOP_TWO, TUNED = "LinTS", "Top-Two (β = 0.5)", "Top-Two (optimal β)"
RIVALS = (THOMPSON, TOP_TWO, TUNED)

RULES: dict[str, Callable[..., Rule]] = {
    PAPER_ETA: BLFAIPS,
    TRUE_POSTERIOR: partial(BLFAIPS, eta=1.0),
    THOMPSON: LinearThompson,
    TOP_TWO: partial(TopTwo, beta=0.5),
    TUNED: partial(TopTwo, beta="optimal"),
    "Oracle": Oracle,
    "Uniform": Uniform,
    "G-optimal": GOptimal,
    "BestResponse": BestResponse,
    "Descent": Descent,
}

TIMES = (10, 20, 50, *range(100, 2001, 100))

# What the field compares with, and the paper does not.
BASELINES: dict[str, Callable[..., Rule]] = {
    "PlugIn": PlugIn,
    "Top-Two (information)": partial(TopTwo, select="information"),
    "Top-Two TCI": TopTwoTCI,
    "FWS": FWS,
    "LinGapE": LinGapE,
    "OCBA-CO": partial(OCBA, every=20),
    "MD-APT": MDAPT,
    "Successive Rejects": partial(SuccessiveRejects, horizon=TIMES[-1]),
    "Sequential Halving": partial(SequentialHalving, horizon=TIMES[-1]),
    "OD-LinBAI": partial(ODLinBAI, horizon=TIMES[-1]),
    "GSE": partial(GSE, horizon=TIMES[-1]),
}

CLEAR = 3.0  # standard errors from which on a difference counts: false alarm 0.0027 each
SMALL = 0.02  # an advantage in accuracy below which nobody would call a rule better
SIMPLE = ("Uniform", "G-optimal")  # rules that learn nothing while they sample
# What an outcome may depend on.
FACTORS = {"criterion": "the recommendation", "hero": "η", "instances": "averaging over instances"}
COLUMNS = ("setting", "instances", "hero", "criterion", "rival", "standing")


class Estimate(NamedTuple):
    """A mean and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return self.signed("")

    def signed(self, sign: str = "+") -> str:
        """With its sign, for differences; the error to three places, or so that it is not 0."""
        error = f"{self.error:.3f}" if self.error >= 0.0005 else f"{self.error:.1g}"
        return f"{self.value:{sign}.3f} ± {error}"

    @property
    def standing(self) -> str:
        """Where a difference puts the first of two: "ahead", "behind" or "level"."""
        if abs(self.value) <= CLEAR * self.error or self.value == 0:
            return "level"
        return "ahead" if self.value > 0 else "behind"


class Criterion(NamedTuple):
    """A way to score a rule."""

    name: str
    measure: str  # variable of the Dataset
    whole_run: bool = False  # averaged over the rounds, instead of at the end


AT_END = (Criterion("one draw", "drawn"), Criterion("the means", "correct"))
EFFICIENCY = Criterion("efficiency", "efficiency")
CRITERIA = (*AT_END, Criterion("one draw over the run", "drawn", whole_run=True))


def estimate_of(values: np.ndarray) -> Estimate:
    """The mean of independent values, and its standard error.

    Where n values are all the same, as in runs that are all right, their spread says nothing of
    how rare another value is; the standard error is then given as 1/n, what one run more could
    change.
    """
    values = np.asarray(values, dtype=float)
    if np.all(values == values[0]):
        return Estimate(float(values.mean()), 1 / values.size)
    return Estimate(*mean_and_error(values))


def units(values: xr.DataArray) -> xr.DataArray:
    """Values over (..., unit, time): replicates, or instances if there are several."""
    if values.sizes["instance"] == 1:
        found = values.isel(instance=0).rename(replicate="unit").astype(float)
    else:
        found = values.astype(float).mean("replicate").rename(instance="unit")
    return found.transpose(..., "unit", "time")


def scores(data: xr.Dataset, rule: str, criterion: Criterion) -> np.ndarray:
    """The score of a rule, unit by unit."""
    values = units(data[criterion.measure].sel(rule=rule))
    if criterion.whole_run:
        # Rounds between two checkpoints count with the mean of the two.
        times = data.time.values.astype(float)
        return np.trapezoid(values.values, times, axis=-1) / (times[-1] - times[0])
    return values.isel(time=-1).values


def estimate(data: xr.Dataset, rule: str, criterion: Criterion) -> Estimate:
    """The mean score of a rule."""
    return estimate_of(scores(data, rule, criterion))


def difference(data: xr.Dataset, first: str, second: str, criterion: Criterion) -> Estimate:
    """How much higher the first rule scores than the second, unit by unit."""
    return estimate_of(scores(data, first, criterion) - scores(data, second, criterion))


class Contest:
    """One rule against others on one Dataset: its differences by criterion and rival."""

    def __init__(
        self, data: xr.Dataset, hero: str, rivals: Sequence[str],
        criteria: Sequence[Criterion] = CRITERIA,
    ) -> None:  # fmt: skip
        self.hero = hero
        self.gaps = {c.name: {r: difference(data, hero, r, c) for r in rivals} for c in criteria}
        self.standings = [
            (name, rival, gap.standing)
            for name, gaps in self.gaps.items()
            for rival, gap in gaps.items()
        ]

    def text(self) -> str:
        """The differences, for reading."""
        parts = (
            f"{name}: " + ", ".join(f"{rival} {gap.signed()}" for rival, gap in gaps.items())
            for name, gaps in self.gaps.items()
        )
        return f"{self.hero} minus others by " + "; ".join(parts)

    def verdict(self) -> str:
        """Whether the hero is clearly ahead of all rivals by all criteria, or how far it may be."""
        if any(standing != "level" for *_, standing in self.standings):
            return judge(self.standings)
        gaps = [gap for gaps in self.gaps.values() for gap in gaps.values()]
        room = max(gap.value + CLEAR * gap.error for gap in gaps)
        opening = "does not hold" if room < SMALL else "cannot be told"
        return (
            f"{opening}: no clear difference to any by any criterion, and none above {room:.3f} "
            "in its favour is compatible with the numbers"
        )


def judge(standings: Sequence[tuple[str, str, str]]) -> str:
    """A verdict on "ahead of all": standings are (criterion, rival, standing)."""
    ahead = sum(standing == "ahead" for *_, standing in standings)
    if ahead == len(standings):
        return "holds: clearly ahead of each"
    others: dict[tuple[str, str], list[str]] = {}
    for word, phrase in (("behind", "behind"), ("level", "no clear difference to")):
        for criterion, rival, standing in standings:
            if standing == word:
                others.setdefault((phrase, criterion), []).append(rival)
    parts = [f"{phrase} {_list(r)} by {c}" for (phrase, c), r in others.items()]
    opening = "holds in part" if ahead else "does not hold"
    return f"{opening}: ahead in {ahead} of {len(standings)} comparisons; " + "; ".join(parts)


def also_simple(data: xr.Dataset, hero: str, rivals: Sequence[str]) -> str:
    """Whether sampling without learning beats the same rivals, and what the hero adds to it."""
    one_draw = AT_END[0]

    def beats_all(rule: str) -> bool:
        return all(difference(data, rule, r, one_draw).standing == "ahead" for r in rivals)

    gains = {s: difference(data, hero, s, one_draw) for s in SIMPLE if s in data.rule.values}
    able = [simple for simple in gains if beats_all(simple)]
    against = ", ".join(f"{s} {g.signed()} ({g.standing})" for s, g in gains.items())
    text = f"{hero} minus {against} by one draw"
    if not able:
        return f"{_list(gains)} do not beat all the same rivals. {text}"
    verb = "beats" if len(able) == 1 else "beat"
    opening = "Worth less: " if beats_all(hero) else ""
    return f"{opening}{_list(able)} {verb} the same rivals without learning. {text}"


def contest_claims(
    claim: str, data: xr.Dataset, note: str = "", *, rivals: Sequence[str] = RIVALS, **numbers: Any
) -> list[Claim]:
    """State a claim for each hero against the rivals; accuracies and note are in the first row."""
    rows, extra = [], f"{accuracies(data)}{note}. "
    for hero in HEROES:
        contest = Contest(data, hero, rivals)
        result = extra + contest.text()
        verdict = f"{contest.verdict()}. {also_simple(data, hero, rivals)}"
        texts = {"hero": hero, "result": result, "verdict": verdict}
        rows.append(state(claim, **measure(data), **texts, **numbers))
        extra = ""
    return rows


def compare_all(
    data: Mapping[tuple[str, str], xr.Dataset], heroes: Sequence[str], rivals: Sequence[str]
) -> pd.DataFrame:
    """Compare every hero with every rival by both recommendations; keys: (setting, instances)."""
    rows = [
        (*place, hero, *standing)
        for place, found in data.items()
        for hero in heroes
        for standing in Contest(found, hero, rivals, AT_END).standings
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def changes(found: pd.DataFrame, factor: str) -> tuple[list[str], int, int]:
    """Where the outcome changes with one factor, all else the same.

    Of groups of comparisons that differ in the factor alone: the settings of those whose outcomes
    are not all the same; how many of these have the hero ahead in one and behind in another; and
    how many groups there are.
    """
    others = [name for name in COLUMNS[:-1] if name != factor]
    groups = [(key[0], set(one)) for key, one in found.groupby(others).standing if len(one) > 1]
    changed = [setting for setting, outcomes in groups if len(outcomes) > 1]
    turned = sum({"ahead", "behind"} <= outcomes for _, outcomes in groups)
    return changed, turned, len(groups)


def dependence_claim(
    data: Mapping[tuple[str, str], xr.Dataset], where: str, *,
    heroes: Sequence[str] = HEROES, rivals: Sequence[str] = RIVALS,
) -> Claim:  # fmt: skip
    """State whether the outcomes depend on what the paper leaves open."""
    found = compare_all(data, heroes, rivals)
    parts, matters, turns = [], [], []
    for factor, name in FACTORS.items():
        changed, turned, groups = changes(found, factor)
        if groups:
            settings = "; ".join(dict.fromkeys(changed))
            parts.append(
                f"{name}: {len(changed)} of {groups} change, {turned} from ahead to behind or back"
                + (f" (in {settings})" if settings else "")
            )
            matters += [name] * bool(changed)
            turns += [name] * bool(turned)
    answer = "fails" if turns else "part" if matters else "holds"
    result = ". ".join(parts)
    return state("dependence", answer, where=where, result=result, matters=matters, turns=turns)


def accuracies(data: xr.Dataset) -> str:
    """Accuracies at the end by one draw / by the means, for reading."""
    found = [
        f"{rule} " + " / ".join(str(estimate(data, rule, criterion)) for criterion in AT_END)
        for rule in data.rule.values
    ]
    return f"accuracy at T = {int(data.time[-1])} by one draw / by the means: " + ", ".join(found)


def measure(data: xr.Dataset) -> dict[str, Any]:
    """How much was run: the horizon, and in words how often."""
    instances, replicates = data.sizes["instance"], data.sizes["replicate"]
    size = f"{replicates} repetitions"
    if instances > 1:
        size = f"{instances} instances, {size} each"
    return {"horizon": int(data.time[-1]), "size": size}


def _list(names: Iterable[str]) -> str:
    names = list(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
