"""From what the error curves and the allocation of a rule say to a verdict on its rate."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayes_feasible._check import Array
from bayes_feasible.analysis.study.decay import window
from bayes_feasible.analysis.study.verdicts import ATTAINS, BELOW, FAULT, UNDECIDED

FALSE_ALARM = 0.001  # probability with which a rule at the optimal rate is called a fault
FARTHEST = 1e4  # a rule that would need so many times the horizon is not on its way


@dataclass(frozen=True)
class Evidence:
    """What the error curves say about a rate, in units of the optimal one."""

    draws: Array  # of the relative rate
    probability: float

    @property
    def mean(self) -> float:
        """Of the draws."""
        return float(self.draws.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """With equal tails, whatever the theorem says."""
        tail = (1 - self.probability) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail])
        return float(low), float(high)

    @property
    def at_most_optimal(self) -> Array:
        """The draws that the theorem allows; the lowest ones where it allows too few."""
        allowed = self.draws[self.draws <= 1]
        few = max(20, self.draws.size // 1000)
        return allowed if allowed.size >= few else np.sort(self.draws)[:few].clip(max=1.0)


class Approach(NamedTuple):
    """How an allocation comes near the optimal one."""

    horizon: float
    arrival: float  # pulls after which its efficiency is within the region
    efficiency: float  # at the horizon
    moved: bool  # whether it has changed, by more than the region, while the rate was fitted
    improves: bool  # whether it still did so within the last decade

    @classmethod
    def of(cls, time: Any, efficiency: Array, unit: float, region: float) -> "Approach":
        """Look at an efficiency over time."""
        moved = efficiency[-1] - efficiency[window(time, unit)][0] > region
        improves = efficiency[-1] - efficiency[_last_decade(time)][0] > region
        arrival = _pulls_until(time, efficiency, region)
        end = float(efficiency[-1])
        return cls(float(time[-1]), arrival, end, bool(moved), bool(improves))

    @property
    def arrived(self) -> bool:
        """Whether it is within the region."""
        return self.arrival <= self.horizon

    @property
    def on_its_way(self) -> bool:
        """Whether it would get there in reasonable time."""
        return self.horizon < self.arrival <= FARTHEST * self.horizon


def reach_verdict(
    evidence: Evidence, within: float, approach: Approach, region: float
) -> dict[str, Any]:
    """Judge a rule, with an explanation and, where it is undecided, the pulls that it needs."""
    low, high = evidence.interval
    sure = f"{100 * evidence.probability:g} % sure"
    if _contradicts(evidence, approach):
        text = (
            f"the fit gives {evidence.mean:.3f} Γ, above what any rule can reach: do not trust "
            "the regression or the data"
        )
        return {"verdict": FAULT, "explanation": text}
    if within >= evidence.probability and approach.arrived:
        worst = float(np.quantile(evidence.at_most_optimal, 1 - evidence.probability))
        text = f"{sure} that its rate is at least {_percent(worst, math.floor)} of Γ"
        if low > 1 and approach.moved:
            text = f"its allocation can reach {_percent(approach.efficiency)} of Γ; "
            text += _overshoot(evidence)
        return {"verdict": ATTAINS, "explanation": text}
    if high < 1 - region and not (approach.on_its_way or approach.improves):
        return {
            "verdict": BELOW,
            "explanation": f"{sure} that its rate is {_percent(max(low, 0.0), math.floor)} to "
            f"{_percent(high, math.ceil)} of Γ, and its allocation is not on the way to w*",
        }
    return _undecided(evidence, within, approach, region)


def _contradicts(evidence: Evidence, approach: Approach) -> bool:
    """Whether the error falls faster than the theorem allows, by neither chance nor improvement."""
    above = float(np.quantile(evidence.draws, FALSE_ALARM)) > 1
    return above and not (approach.moved and (approach.arrived or approach.on_its_way))


def _overshoot(evidence: Evidence) -> str:
    return (
        f"the fitted {evidence.mean:.3f} Γ overshoots, as it does while an allocation improves "
        "and the error falls faster and faster: nothing beats Γ"
    )


def _undecided(
    evidence: Evidence, within: float, approach: Approach, region: float
) -> dict[str, Any]:
    low, high = evidence.interval
    lowest, highest = np.clip((low, high), 0.0, 1.0)  # nothing beats Γ
    possible = f"{_percent(lowest, math.floor)} to {_percent(highest, math.ceil)}"
    if lowest == highest:
        possible = _percent(highest)
    enough = _pulls_to_tell(evidence, approach.horizon, region)
    if approach.on_its_way and (approach.arrival > enough or within >= evidence.probability):
        text = (
            f"its allocation can reach {_percent(approach.efficiency)} of Γ so far and still "
            f"improves; at the pace of the last decade it is within {100 * region:g} % after so "
            "many pulls; "
        )
        text += _overshoot(evidence) if low > 1 else f"the error curves fit {possible} of Γ so far"
        return need_pulls(approach.arrival, text)
    if approach.improves and not (approach.arrived or approach.on_its_way):
        text = (
            f"its allocation can reach {_percent(approach.efficiency)} of Γ so far, more than "
            f"{100 * region:g} % of Γ better than a decade before: another decade would show where "
            f"it goes; the error curves fit {possible} of Γ so far"
        )
        return need_pulls(10 * approach.horizon, text)
    if enough > FARTHEST * approach.horizon:
        text = f"needs more replicates: its rate may be {possible} of Γ"
        return {"verdict": UNDECIDED, "explanation": text, "needs": math.inf}
    text = f"its rate may be {possible} of Γ; so many pulls, or more replicates, would tell"
    return need_pulls(enough, text)


def need_pulls(pulls: float, why: str) -> dict[str, Any]:
    """Undecided: about how many pulls a verdict takes, first of all, and why."""
    needed = _round(pulls)
    text = f"needs T ≈ {_grouped(needed)}: {why}"
    return {"verdict": UNDECIDED, "explanation": text, "needs": needed}


def _pulls_until(time: Any, efficiency: Array, region: float) -> float:
    """When the allocation's efficiency would be within the region, at the last decade's pace.

    The log-odds of the efficiency are extended as a straight line in log time, so that the
    shortfall ends up falling as a power of time. At most the horizon where it is there already,
    infinite where it does not improve.
    """
    late = _last_decade(time)
    share = efficiency.clip(1e-12, 1 - 1e-12)
    odds = np.log(share / (1 - share))
    target = math.log((1 - region) / region)
    if odds[-1] >= target:
        return float(time[-1])
    if late.sum() < 2:
        return math.inf
    pace = np.polyfit(np.log(time[late]), odds[late], 1)[0]
    decades = (target - odds[-1]) / pace / math.log(10) if pace > 0 else math.inf
    return float(time[-1]) * 10**decades if decades < 100 else math.inf


def _last_decade(time: Any) -> Any:
    return time >= 0.999 * time[-1] / 10


def _pulls_to_tell(evidence: Evidence, horizon: float, region: float) -> float:
    """When the interval would be narrow enough, as its width falls with the root of time."""
    low, high = evidence.interval
    centre = min(evidence.mean, 1.0)
    room = max(abs(centre - (1 - region)), region / 2)
    return horizon * max(2.0, ((high - low) / 2 / room) ** 2)


def _round(pulls: float) -> float:
    """One leading digit, upwards: more would promise too much."""
    power = 10.0 ** math.floor(math.log10(pulls))
    return math.ceil(pulls / power - 1e-9) * power


def _grouped(pulls: float) -> str:
    """Digits that can be counted: 200,000 or 2e8."""
    return f"{pulls:,.0f}" if pulls < 1e7 else f"{pulls:.0e}".replace("e+0", "e").replace("+", "")


def _percent(share: float, rounding: Any = round) -> str:
    """Whole per cents where that says enough, rounded to the safe side."""
    digits = 1 if share > 0.9 or share < 0.1 else 0
    return f"{rounding(100 * share * 10**digits) / 10**digits:g} %"
