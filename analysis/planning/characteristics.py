"""What the simulated trials of a design come to: shares with exact intervals, quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import betaincinv

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.analysis.report.page import Table
from bayes_feasible.analysis.report.tables import text_table

PROBABILITY = 0.95  # of the intervals
QUANTILES = (0.05, 0.5, 0.95)
NONE = "none"


def binomial_interval(
    successes: Any, trials: int, probability: float = PROBABILITY
) -> tuple[Array, Array]:
    """The exact interval of Clopper and Pearson: it misses at most as often as it says.

    Parameters
    ----------
    successes : whole numbers
    trials : int
    probability : float

    Examples
    --------
    >>> low, high = binomial_interval([0, 5], 10)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.187], [0.308, 0.813])
    """
    k, tail = np.asarray(successes, dtype=float), (1 - probability) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, tail), 0.0)
        high = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), 1 - tail), 1.0)
    return low, high


@dataclass(frozen=True, eq=False)
class Budget:
    """How many pulls a wanted share of errors takes in one scenario.

    Attributes
    ----------
    scenario : str
    estimate : int or None
        The smallest budget from which on the share of wrong answers is at most what is wanted;
        None: none of those that were simulated.
    sure : int or None
        The same for the upper end of the interval.
    """

    scenario: str
    estimate: int | None
    sure: int | None


@dataclass(frozen=True, eq=False)
class Plan:
    """Simulated trials of a design.

    Attributes
    ----------
    data : Dataset over `scenario`, `trial` and `budget`
        What was `chosen` (-1: none), whether that was `right` and whether it was `infeasible`;
        the `size` of the trial, `pulls` (over `arm`), `unsafe_pulls`, `totals` (over `outcome`)
        and why it `ended`.
    """

    data: xr.Dataset

    def characteristics(self) -> xr.Dataset:
        """Operating characteristics over `scenario` and `budget`.

        Returns
        -------
        Dataset
            Shares with `_low` and `_high` ends of exact 95 % intervals: `wrong`, `infeasible` (a
            choice that exceeds a limit) and `chosen` (over `choice`: the candidates and none);
            mean `pulls` (over `arm`) and `totals` (over `outcome`); quantiles (over `quantile`)
            and means of `size` and `unsafe_pulls`.
        """
        data, number = self.data, self.data.sizes["trial"]
        names = [*map(str, data.candidate.values.tolist()), NONE]
        index = np.where(data.chosen.values < 0, len(names) - 1, data.chosen.values)
        chosen = np.stack([(index == z).sum(axis=1) for z in range(len(names))], axis=-1)
        assert data.chosen.dims == ("scenario", "trial", "budget")
        both = ("scenario", "budget")
        found = xr.Dataset(
            {
                "pulls": data.pulls.mean("trial"),
                "totals": data.totals.mean("trial"),
                "mean_size": data["size"].mean("trial"),
                "mean_unsafe_pulls": data.unsafe_pulls.mean("trial"),
                "size": data["size"].quantile(QUANTILES, "trial"),
                "unsafe_pulls": data.unsafe_pulls.quantile(QUANTILES, "trial"),
            },
            coords={"choice": names},
            attrs={"probability": PROBABILITY, "trials": number, **data.attrs},
        )
        shares = {
            "wrong": (both, (~data.right.astype(bool)).sum("trial").transpose(*both).values),
            "infeasible": (both, data.infeasible.sum("trial").transpose(*both).values),
            "chosen": ((*both, "choice"), chosen),
        }
        for name, (dims, counts) in shares.items():
            low, high = binomial_interval(counts, number)
            for end, values in (("", counts / number), ("_low", low), ("_high", high)):
                found[name + end] = (dims, values)
        return found

    def smallest_budget(self, error: float) -> list[Budget]:
        """The smallest of the simulated budgets whose answers are wrong at most so often.

        Parameters
        ----------
        error : float

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> from bayes_feasible.analysis.planning.design import TrialDesign
        >>> from bayes_feasible.analysis.planning.plan import plan
        >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]})
        >>> truth = {"near": {"reward": [0.0, 0.5]}, "far": {"reward": [0.0, 3.0]}}
        >>> found = plan(TrialDesign(problem), truth, [2, 10, 50], replicates=100, progress=False)
        >>> [(one.scenario, one.estimate) for one in found.smallest_budget(0.05)]
        [('near', None), ('far', 2)]
        """
        if not 0 < _check.numbers("error", error) < 1:
            raise ValueError(f"error: expected a number between 0 and 1, got {error!r}")
        known = self.characteristics()
        return [
            Budget(
                str(name),
                *(
                    _first(known[bound].sel(scenario=name).values <= error, known.budget.values)
                    for bound in ("wrong", "wrong_high")
                ),
            )
            for name in known.scenario.values
        ]

    def tables(self) -> list[Table]:
        """The characteristics for reading, a table for each budget."""
        known = self.characteristics()
        return [_table(known.sel(budget=budget)) for budget in known.budget.values.tolist()]

    def __str__(self) -> str:
        return "\n\n".join(
            f"{table.caption}\n{text_table(table.header, table.rows)}" for table in self.tables()
        )

    def to_dict(self) -> dict[str, Any]:
        """The characteristics as plain numbers, by scenario and budget."""
        known = self.characteristics()
        return {
            str(name): {
                str(budget): _fields(known.sel(scenario=name, budget=budget))
                for budget in known.budget.values.tolist()
            }
            for name in known.scenario.values
        }


def _first(fulfilled: NDArray[np.bool_], budgets: Array) -> int | None:
    """The first budget from which on it is always so."""
    always = np.logical_and.accumulate(fulfilled[::-1])[::-1]
    return int(budgets[np.argmax(always)]) if always.any() else None


def _fields(one: xr.Dataset) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in ("wrong", "infeasible"):
        fields[name] = {"share": float(one[name]), "low": float(one[f"{name}_low"]),
                        "high": float(one[f"{name}_high"])}  # fmt: skip
    fields["chosen"] = {
        str(choice): {
            "share": float(one.chosen[i]), "low": float(one.chosen_low[i]),
            "high": float(one.chosen_high[i]),
        }
        for i, choice in enumerate(one.choice.values.tolist())
    }  # fmt: skip
    for name in ("size", "unsafe_pulls"):
        quantiles = dict(zip(map(str, QUANTILES), one[name].values.tolist(), strict=True))
        fields[name] = {"mean": float(one[f"mean_{name}"]), "quantiles": quantiles}
    for name, dim in (("pulls", "arm"), ("totals", "outcome")):
        fields[name] = dict(
            zip(map(str, one[dim].values.tolist()), one[name].values.tolist(), strict=True)
        )
    return fields


def _table(one: xr.Dataset) -> Table:
    """A column for each scenario."""
    names = [str(name) for name in one.scenario.values]
    columns: list[Sequence[str]] = []
    for name in one.scenario.values:
        row = one.sel(scenario=name)
        columns.append(
            [
                _share(row, "wrong"),
                _share(row, "infeasible"),
                *(_share(row.isel(choice=i), "chosen") for i in range(row.sizes["choice"])),
                *(f"{float(pulls):.1f}" for pulls in row.pulls),
                _spread(row, "unsafe_pulls"),
                _spread(row, "size"),
                *(f"{float(total):.1f}" for total in row.totals),
            ]
        )
    labels = [
        "wrong answer", "chosen beyond a limit", *(f"chosen: {c}" for c in one.choice.values),
        *(f"pulls of {arm}" for arm in one.arm.values), "pulls beyond a limit", "pulls",
        *(f"sum of {outcome}" for outcome in one.outcome.values),
    ]  # fmt: skip
    rows = [[label, *cells] for label, *cells in zip(labels, *columns, strict=True)]
    caption = (
        f"At most {int(one.budget)} pulls, {one.attrs['trials']:,} trials a scenario: shares with "
        "95 % intervals; means of pulls and sums; 5, 50 and 95 % quantiles"
    )
    return Table(caption, ["", *names], rows)


def _share(row: xr.Dataset, name: str) -> str:
    return f"{float(row[name]):.3f} ({float(row[f'{name}_low']):.3f} to " \
           f"{float(row[f'{name}_high']):.3f})"  # fmt: skip


def _spread(row: xr.Dataset, name: str) -> str:
    low, middle, high = row[name].values
    return f"{float(row[f'mean_{name}']):.1f} ({low:g}, {middle:g}, {high:g})"
