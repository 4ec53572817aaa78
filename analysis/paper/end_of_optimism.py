"""The "End of Optimism" instances: accuracy over time, for three angles."""

from collections.abc import Mapping

import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import figures
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.compare import EFFICIENCY, Contest, contest_claims, estimate
from bayes_feasible.analysis.paper.dependence import dependence_claim
from bayes_feasible.analysis.paper.rule_sets import PAPER_ETA, RIVALS, RULES, TIMES
from bayes_feasible.analysis.paper.runs import Experiment
from bayes_feasible.instances import end_of_optimism

ALPHAS = (0.1, 0.2, 0.3)
NAMES = {alpha: f"end_of_optimism_{alpha}" for alpha in ALPHAS}
PAPER_REPETITIONS = 50
MORE = 2  # times the repetitions of other settings: these runs are short, and the best known


def studies(repetitions: int, times: tuple[int, ...] = TIMES) -> list[Experiment]:
    """Make one experiment for each angle."""
    return [
        Experiment(name, [end_of_optimism(alpha)], RULES, times, MORE * repetitions)
        for alpha, name in NAMES.items()
    ]


def claims(data: Mapping[str, xr.Dataset]) -> list[Claim]:
    """BLFAIPS against its rivals for each angle; how near the optimum; what 50 runs can show."""
    rows = [
        row
        for alpha, name in NAMES.items()
        for row in contest_claims("end_of_optimism", data[name], alpha=alpha)
    ]
    one = {(f"α = {alpha}", "one instance"): data[name] for alpha, name in NAMES.items()}
    return [*rows, dependence_claim(one, "Section 6.1"), _near_optimum(data), _fifty(data)]


def _near_optimum(data: Mapping[str, xr.Dataset]) -> Claim:
    parts, short = [], []
    for alpha, name in NAMES.items():
        found = data[name]
        each = {rule: estimate(found, rule, EFFICIENCY) for rule in map(str, found.rule.values)}
        parts.append(f"α = {alpha}: " + ", ".join(f"{r} {e}" for r, e in each.items()))
        short.append(each[PAPER_ETA].value)
    return state("near_optimum", result="; ".join(parts), least=min(short), most=max(short))


def _fifty(data: Mapping[str, xr.Dataset]) -> Claim:
    """How large a difference has to be to show in 50 repetitions of right or wrong."""
    parts, hidden = [], 0
    for alpha, name in NAMES.items():
        contest = Contest(data[name], PAPER_ETA, RIVALS)
        for criterion in contest.criteria[:2]:
            one = estimate(data[name], PAPER_ETA, criterion).value
            for rival, gap in contest.differences(criterion).items():
                other = estimate(data[name], rival, criterion).value
                spread = (one * (1 - one) + other * (1 - other)) / PAPER_REPETITIONS
                band = 2 * spread**0.5
                hidden += abs(gap.value) < band
                parts.append(
                    f"α = {alpha}, {rival}, by {criterion.name}: {gap.signed()}, band ±{band:.2f}"
                )
    return state("fifty", not hidden, result="; ".join(parts), hidden=hidden, total=len(parts))


def pictures(data: Mapping[str, xr.Dataset]) -> dict[str, Figure]:
    """One figure for each angle, and the allocation's efficiency over time."""
    drawn = {
        name: figures.accuracy(data[name], f"End of Optimism, α = {alpha}")
        for alpha, name in NAMES.items()
    }
    drawn["end_of_optimism_efficiency"] = figures.efficiency(
        data[NAMES[ALPHAS[0]]], f"How near the optimal rate the pulls are, α = {ALPHAS[0]}"
    )
    return drawn
