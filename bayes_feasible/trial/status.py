"""Where a trial stands, for people and for programs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.feasible import some_feasible
from bayes_feasible.alternative.probability import event_array
from bayes_feasible.alternative.union import Union
from bayes_feasible.posterior import Posterior
from bayes_feasible.rate.rate import plug_in_allocation
from bayes_feasible.recommendation import Recommendation, format_probability
from bayes_feasible.trial.halving import pulls_to_halve

if TYPE_CHECKING:
    import xarray as xr

    from bayes_feasible.problem import Problem
    from bayes_feasible.simulation.forecast import Forecast
    from bayes_feasible.stopping.stop import Decision

SHOWN = 20  # rows of a table
MISTAKES = 3  # that are named


@dataclass(frozen=True, eq=False)
class Status:
    """Where a trial stands.

    Attributes
    ----------
    path, rule, events, head
        The file, the name of the rule, the number of events in the file and its checksum.
    reward : str
        Its name.
    recommendation : Recommendation
        The current choice, or none, and the probability that it is wrong.
    mistakes : DataArray over `event`
        Log-probability of each way to be wrong.
    candidates : Dataset over `candidate` and `constraint`
        `mean_reward`, `sd_reward`, `mean_cost`, `sd_cost`, the probability of being `feasible`
        and the logarithm of that of being infeasible, `log_infeasible`. A `parameter_radius` is
        not taken into account here; in the probability of error it is.
    arms : Dataset over `arm`
        `pulls` that were told, and those `pending`: asked for and not yet told.
    halving, halving_at_best : float or None
        About how many more pulls would halve the probability of error: in the shares of the
        pulls so far, and in the shares that would be optimal if the posterior means were the
        truth; see `pulls_to_halve`. None where that is not known.
    stop : Decision or None
        Whether the trial may end, where it has a stop.
    forecast : Forecast or None
        How many more pulls it will take until then, where that was asked for.
    """

    path: str
    rule: str
    events: int
    head: str
    reward: str
    recommendation: Recommendation
    mistakes: "xr.DataArray"
    candidates: "xr.Dataset"
    arms: "xr.Dataset"
    halving: float | None
    halving_at_best: float | None
    stop: "Decision | None" = None
    forecast: "Forecast | None" = None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers and texts, by name."""
        choice, arms = self.recommendation, self.arms
        return {
            "trial": self.path,
            "rule": self.rule,
            "events": self.events,
            "head": self.head,
            "pulls": int(arms.pulls.sum()),
            "pending": int(arms.pending.sum()),
            **recommendation_fields(choice),
            "pulls_to_halve": self.halving,
            "pulls_to_halve_at_best": self.halving_at_best,
            "stop": None if self.stop is None else self.stop.to_dict(),
            "forecast": None if self.forecast is None else self.forecast.to_dict(),
            "mistakes": dict(
                zip(self.mistakes.event.values.tolist(), self.mistakes.values.tolist(), strict=True)
            ),
            "candidates": {
                str(name): self._candidate(i)
                for i, name in enumerate(self.candidates.candidate.values.tolist())
            },
            "arms": {
                str(name): {"pulls": int(arms.pulls[i]), "pending": int(arms.pending[i])}
                for i, name in enumerate(arms.arm.values.tolist())
            },
        }

    def _candidate(self, index: int) -> dict[str, Any]:
        row = self.candidates.isel(candidate=index)
        costs = {
            str(name): {"mean": float(row.mean_cost[j]), "sd": float(row.sd_cost[j])}
            for j, name in enumerate(row.constraint.values.tolist())
        }
        return {
            "reward": {"mean": float(row.mean_reward), "sd": float(row.sd_reward)},
            "costs": costs,
            "feasible": float(row.feasible),
            "log_infeasible": float(row.log_infeasible),
        }

    def __str__(self) -> str:
        return "\n".join(
            [self._heading(), "", *self._answer(), "", *self._candidate_table(), *self._arm_table()]
        )

    def _heading(self) -> str:
        pulls, pending = int(self.arms.pulls.sum()), self.arms.pending.values
        text = f"{self.path}: {self.rule}, {pulls} pull{'s' * (pulls != 1)}"
        if not pending.any():
            return f"{text}, none pending"
        names = self.arms.arm.values
        waiting = [
            str(names[i]) + (f" ({pending[i]} times)" if pending[i] > 1 else "")
            for i in np.flatnonzero(pending)
        ]
        return f"{text}, {pending.sum()} pending: {_listed(waiting, SHOWN)}"

    def _answer(self) -> list[str]:
        choice = self.recommendation
        logs, names = self.mistakes.values, self.mistakes.event.values
        ways = [
            f"{names[i]} ({format_probability(float(logs[i]))})"
            for i in np.argsort(-logs, kind="stable")[:MISTAKES]
            if logs[i] > -np.inf
        ]
        if choice.candidate is None:
            lines = ["Recommended: none, for no candidate looks feasible"]
            lines.append(f"  wrong with {_both(choice.log_error)}: then some candidate is feasible")
            lines.append(f"  likeliest: {', '.join(ways)}")
        else:
            lines = [f"Recommended: {choice.name}"]
            lines.append(f"  wrong with {_both(choice.log_error)}")
            lines.append(f"  by which mistake: {', '.join(ways) or choice.reason}")
            if choice.runner_up is not None:
                lines.append(f"  best if this is wrong: most likely {choice.runner_up_name}")
            if choice.log_none_feasible > -np.inf:
                lines.append(f"  no candidate feasible at all: {_both(choice.log_none_feasible)}")
        lines.append(f"  to halve the probability of being wrong: {self._halving()}")
        if self.stop is not None:
            sure = f"Yes ({self.stop.reason}): {self.stop.name}." if self.stop else "Not yet."
            lines += ["", f"Sure enough? {' '.join([sure, *self.stop.findings])}"]
        if self.forecast is not None:
            lines.append(f"  more pulls until it is: {self.forecast}")
        return lines

    def _halving(self) -> str:
        if self.halving is None:
            return "not known before the first pull"
        if self.halving == 0:
            return "it cannot be wrong"
        if self.halving == np.inf:
            text = "with the current allocation, more pulls will not help"
        else:
            text = f"about {_rounded(self.halving)} more pulls with the current allocation"
        if self.halving_at_best is not None and self.halving_at_best < np.inf:
            text += f", about {_rounded(self.halving_at_best)} with the optimal one"
        return text

    def _candidate_table(self) -> list[str]:
        table = self.candidates
        names = table.constraint.values
        limits = [_label(name) for name in names]
        header = ["candidate", self.reward, *limits, "feasible"]
        order = np.lexsort((-table.mean_reward.values, table.feasible.values < 0.5))
        chosen = self.recommendation.candidate
        if chosen is not None:
            order = np.concatenate([[chosen], order[order != chosen]])
        rows = []
        for i in order[:SHOWN]:
            costs = [
                _spread(table.mean_cost.values[i, j], table.sd_cost.values[i, j])
                for j in range(len(names))
            ]
            rows.append(
                [
                    str(table.candidate.values[i]),
                    _spread(table.mean_reward.values[i], table.sd_reward.values[i]),
                    *costs,
                    _feasible(table.feasible.values[i], table.log_infeasible.values[i]),
                ]
            )
        if not len(names):
            header, rows = header[:-1], [row[:-1] for row in rows]
        title = "Candidates: posterior mean ± standard deviation"
        if len(names):
            title += ", probability of being feasible"
        return [title, *_table(header, rows, len(order))]

    def _arm_table(self) -> list[str]:
        pulls = self.arms.pulls.values
        order = np.argsort(-pulls, kind="stable")
        total = max(int(pulls.sum()), 1)
        rows = [
            [str(self.arms.arm.values[i]), str(pulls[i]), f"{pulls[i] / total:.1%}"]
            for i in order[:SHOWN]
        ]
        return ["", "Pulls so far", *_table(["arm", "pulls", "share"], rows, len(order))]


def status(
    posterior: Posterior,
    choice: Recommendation,
    pending: NDArray[np.int64],
    *,
    path: str,
    rule: str,
    events: int,
    head: str,
) -> Status:
    """Work out where a trial stands."""
    import xarray as xr

    problem = posterior.problem
    wrong = some_feasible(problem)
    if choice.candidate is not None:
        wrong = Alternative(problem, choice.candidate).union
    halving, at_best = _halvings(wrong, posterior, choice)
    return Status(
        path=path,
        rule=rule,
        events=events,
        head=head,
        reward=problem.reward_name,
        recommendation=choice,
        mistakes=event_array(wrong.events.names, wrong.event_log_probabilities(posterior)),
        candidates=_candidates(problem, posterior),
        arms=xr.Dataset(
            {"pulls": ("arm", posterior.counts.copy()), "pending": ("arm", pending)},
            coords={"arm": problem.coords["arm"]},
        ),
        halving=halving,
        halving_at_best=at_best,
    )


def recommendation_fields(choice: Recommendation) -> dict[str, Any]:
    """A recommendation as plain numbers and texts, by name."""
    return {
        "recommended": None if choice.candidate is None else choice.name,
        "index": choice.candidate,
        "probability_wrong": math.exp(choice.log_error),
        "log_probability_wrong": choice.log_error,
        "reason": choice.reason,
        "runner_up": None if choice.runner_up is None else choice.runner_up_name,
        "log_probability_none_feasible": choice.log_none_feasible,
    }


def _halvings(
    wrong: Union, posterior: Posterior, choice: Recommendation
) -> tuple[float | None, float | None]:
    if posterior.pulls == 0:
        return None, None
    so_far = pulls_to_halve(wrong, posterior, posterior.counts / posterior.pulls)
    if choice.candidate is None or choice.candidate != posterior.best():
        return so_far, None
    try:
        shares = plug_in_allocation(posterior.estimate())
    except ValueError:  # the estimate lies beyond the parameter radius
        shares = None
    return so_far, None if shares is None else pulls_to_halve(wrong, posterior, shares)


def _candidates(problem: "Problem", posterior: Posterior) -> "xr.Dataset":
    import xarray as xr

    known = posterior.summary()
    log_feasible = some_feasible(problem).event_log_probabilities(posterior)
    with np.errstate(divide="ignore"):
        log_infeasible = np.log(-np.expm1(log_feasible))
    both = ("candidate", "constraint")
    return xr.Dataset(
        {
            "mean_reward": ("candidate", known["mean"].values[0]),
            "sd_reward": ("candidate", known["sd"].values[0]),
            "mean_cost": (both, known["mean"].values[1:].T),
            "sd_cost": (both, known["sd"].values[1:].T),
            "feasible": ("candidate", np.exp(log_feasible)),
            "log_infeasible": ("candidate", log_infeasible),
        },
        coords={name: problem.coords[name] for name in both},
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], number: int) -> list[str]:
    """Names to the left, numbers to the right; `number` counts the rows left out too."""
    widths = [max(map(len, cells)) for cells in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (header, *rows)
    ]
    hidden = number - len(rows)
    return [*lines, f"... and {hidden} more (--json shows all)"] if hidden else lines


def _both(log_probability: float) -> str:
    if log_probability == -np.inf:
        return "probability 0"
    return f"probability {format_probability(log_probability)} (log {log_probability:.2f})"


def _spread(mean: float, deviation: float) -> str:
    """Mean ± standard deviation, with two digits of the latter."""
    if not deviation > 0:
        return f"{mean:.4g}"
    decimals = 1 - math.floor(math.log10(deviation))
    if not -4 <= decimals <= 8:
        return f"{mean:.3g} ± {deviation:.2g}"
    decimals = max(decimals, 0)
    return f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def _feasible(probability: float, log_infeasible: float) -> str:
    if probability > 0.9995:
        return f"1 - {format_probability(log_infeasible)}" if log_infeasible > -np.inf else "1"
    return f"{probability:.3f}" if probability > 0.001 else f"{probability:.2g}"


def _rounded(pulls: float) -> str:
    """Two digits of a number of pulls: it is not known better."""
    if pulls < 10:
        return str(max(math.ceil(pulls), 1))
    scale = 10 ** (math.floor(math.log10(pulls)) - 1)
    return f"{round(pulls / scale) * scale:,}".replace(",", " ")


def _label(name: Any) -> str:
    return name if isinstance(name, str) else f"cost {name}"


def _listed(names: Sequence[str], most: int) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
