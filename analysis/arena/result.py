"""What the arena finds: errors, efficiencies, time, and the leaderboard; as tables for any use."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr
from scipy.stats import beta

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._display import visible
from bayes_feasible.analysis.report.page import Table
from bayes_feasible.analysis.report.tables import latex_table, markdown_table
from bayes_feasible.files.guard import Folder, blame

RESULTS = "results.nc"
PROBABILITY = 0.95  # of intervals
RESAMPLES = 1000
FAR = 100.0  # ratios beyond it are not told: both errors are next to nothing, or one is
ALLOWED, ERRORS = 1.05, 2.0  # as good as the best: within this ratio, or so many standard errors


@dataclass(frozen=True)
class Arena:
    """The arena's result.

    Attributes
    ----------
    runs : Dataset
        Over `family`, `rule`, `budget`, `run`: `wrong` (1 for a wrong recommendation), `error`
        (posterior probability that the truth is wrong), `efficiency` (smallest exponent of the
        allocation over Γ; NaN where Γ is 0 or infinite) and `seconds` a round; NaN where a rule
        does not play. `knows_truth`, over `rule`, marks yardsticks.
    folder : Path or None
        Where it was made or read.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> found = bf.arena(rules=["Descent", "Uniform"], families=["ball-2-5"],
    ...                  budgets=[50, 200], runs=20, progress=False)
    >>> found.leaderboard().rule.values.tolist()
    ['Descent', 'Uniform']
    """

    runs: xr.Dataset
    folder: Path | None = None

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the result in an arena's folder.

        Examples
        --------
        >>> import tempfile
        >>> import bayes_feasible as bf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = bf.arena(rules=["Uniform"], families=["ball-2-5"], budgets=[50],
        ...                      runs=4, out=folder, progress=False, page=False)
        ...     Arena.load(folder).runs.identical(found.runs)
        True
        """
        files = Folder(folder)
        runs = files.read_netcdf(RESULTS) if files.path.is_dir() else None
        if runs is None:
            raise ValueError(f"{files.path}: no {RESULTS}, so this is no finished arena")
        with blame(files.path / RESULTS):
            _require(runs)
        return cls(runs, files.path)

    @cached_property
    def summary(self) -> xr.Dataset:
        """Over `family`, `rule`, `budget`: errors with intervals, and how far from the best.

        `error_rate` with its exact binomial interval `error_rate_lower`, `error_rate_upper`;
        `error`, the mean posterior error, and its standard error `error_se`; `behind`, the
        difference to the best rule there that does not know the truth, its standard error
        `behind_se` (paired) and `ratio`; `best`, whether the rule is as good as the best: within
        a ratio of 1.05 or two standard errors; `efficiency`; `microseconds`, the median round.
        """
        runs, number = self.runs, self.runs.sizes["run"]
        wrong = runs.wrong.sum("run", skipna=False)
        low, high = binomial_interval(wrong.values, number)
        error = runs.error.mean("run", skipna=False)
        blind = error.where(~runs.knows_truth)
        best = blind.min("rule")
        first = blind.fillna(np.inf).argmin("rule")
        apart = runs.error - runs.error.isel(rule=first)
        root = math.sqrt(number)
        behind, behind_se = error - best, apart.std("run", ddof=1, skipna=False) / root
        ratio = error / best
        played = error.notnull()
        dims = wrong.dims
        return xr.Dataset(
            {
                "error_rate": wrong / number,
                "error_rate_lower": (dims, low),
                "error_rate_upper": (dims, high),
                "error": error,
                "error_se": runs.error.std("run", ddof=1, skipna=False) / root,
                "behind": behind,
                "behind_se": behind_se,
                "ratio": ratio,
                "best": played & ((ratio <= ALLOWED) | (behind <= ERRORS * behind_se)),
                "efficiency": runs.efficiency.mean("run"),
                "microseconds": 1e6 * runs.seconds.median("run"),
            }
        ).drop_vars("rule_", errors="ignore")

    @cached_property
    def endings(self) -> xr.Dataset | None:
        """With a stop, over `family` and `rule`: sample sizes and wrong answers; else None.

        `pulls`, their mean at the end, and its standard error `pulls_se`; `stopped`, the share of
        runs that the stop ended; `wrong`, the share of these with a wrong answer, and its exact
        binomial interval `wrong_lower`, `wrong_upper`; `efficiency`, the fixed-confidence lower
        bound on the number of pulls, kl(δ, 1 - δ) / Γ, over that number, both as means over the
        runs; NaN where not all runs stopped.
        """
        runs = self.runs
        if "stop" not in runs.attrs:
            return None
        given = json.loads(runs.attrs["stop"])
        level = given.get("delta", given.get("error"))
        played = runs.pulls.notnull().all("run")
        stopped = runs.stopped.sum("run").where(played)
        wrong = (runs.wrong_at_end * runs.stopped).sum("run").where(played & (stopped > 0))
        low, high = binomial_interval(wrong.values, stopped.values)
        mean = runs.pulls.mean("run", skipna=False)
        pulls_se = runs.pulls.std("run", ddof=1, skipna=False) / math.sqrt(runs.sizes["run"])
        found = {
            "pulls": mean,
            "pulls_se": pulls_se,
            "stopped": stopped / runs.sizes["run"],
            "wrong": wrong / stopped,
            "wrong_lower": (wrong.dims, low),
            "wrong_upper": (wrong.dims, high),
        }
        if level is not None:
            least = (binary_divergence(level) / runs.rate).mean("run", skipna=False)
            found["efficiency"] = (least / mean).where(found["stopped"] == 1)
        return xr.Dataset(found)

    def leaderboard(self, seed: Any = 0) -> xr.Dataset:
        """Rank the rules by how far they are from the best in their worst family.

        The distance is in probability of error: the mean posterior error less that of the best
        rule there, at the family and budget where it is largest.

        Parameters
        ----------
        seed : int
            Of the bootstrap over runs that gives the interval of the rank.

        Returns
        -------
        Dataset
            Over `rule`, best first: `worst`, the largest distance, with `worst_family` and
            `worst_budget`; `worst_ratio`, the largest ratio of errors; `best`, the share of
            families and budgets where the rule is as good as the best; `rank` with `rank_lower`
            and `rank_upper` at 95 %. Rules that do not play everywhere, or know the truth, have
            rank 0; those that play nowhere are left out.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> found = bf.arena(rules=["Descent", "Uniform"], families=["ball-2-5"],
        ...                  budgets=[200], runs=50, progress=False)
        >>> board = found.leaderboard()
        >>> board["rank"].values.tolist(), bool(board.worst[0] < board.worst[1])
        ([1, 2], True)
        """
        runs, summary = self.runs, self.summary
        played = summary.error.notnull()
        ranked = (played.all(("family", "budget")) & ~runs.knows_truth).values
        flat = summary.behind.stack(case=("family", "budget"))
        filled = flat.fillna(-np.inf)
        where = filled.argmax("case").values
        worst = flat.max("case").values
        cases = flat.case.values
        order = np.lexsort((worst, ~ranked))
        rank = np.zeros(len(order), dtype=int)
        lower, upper = rank.copy(), rank.copy()
        if ranked.any():
            rank[ranked] = 1 + np.argsort(np.argsort(worst[ranked], kind="stable"), kind="stable")
            lower[ranked], upper[ranked] = self._rank_intervals(ranked, seed)
        cells = played.sum(("family", "budget"))
        board = xr.Dataset(
            {
                "rank": ("rule", rank),
                "rank_lower": ("rule", lower),
                "rank_upper": ("rule", upper),
                "worst": ("rule", worst),
                "worst_family": ("rule", [str(cases[i][0]) for i in where]),
                "worst_budget": ("rule", [int(cases[i][1]) for i in where]),
                "worst_ratio": summary.ratio.max(("family", "budget")),
                "best": summary.best.sum(("family", "budget")) / cells,
                "families": played.any("budget").sum("family"),
                "knows_truth": runs.knows_truth,
            }
        )
        return board.isel(rule=[i for i in order if board.families[i] > 0])

    def _rank_intervals(self, ranked: Array, seed: Any) -> tuple[Array, Array]:
        """Intervals of ranks: runs are drawn again, the same for all rules of a family."""
        rng = _check.generator("seed", seed)
        number, blind = self.runs.sizes["run"], ~self.runs.knows_truth.values
        worst = np.full((RESAMPLES, int(ranked.sum())), -np.inf)
        for family in range(self.runs.sizes["family"]):
            error = self.runs.error.isel(family=family).transpose("rule", "budget", "run").values
            weight = rng.multinomial(number, np.full(number, 1 / number), RESAMPLES) / number
            mean = np.einsum("rbi,si->srb", error, weight, optimize=True)
            best = np.nanmin(np.where(blind[:, np.newaxis], mean, np.inf), axis=1, keepdims=True)
            worst = np.maximum(worst, (mean - best)[:, ranked].max(axis=2))
        ranks = 1 + np.argsort(np.argsort(worst, axis=1, kind="stable"), axis=1, kind="stable")
        tail = 50 * (1 - PROBABILITY)
        low, high = np.percentile(ranks, [tail, 100 - tail], axis=0, method="nearest")
        return low.astype(int), high.astype(int)

    def tables(self) -> list[Table]:
        """The leaderboard, then a table for each family; with a stop, another one for each.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> found = bf.arena(rules=["Uniform"], families=["ball-2-5"], budgets=[50],
        ...                  runs=4, progress=False)
        >>> [table.caption for table in found.tables()]
        ['Leaderboard', 'ball-2-5: 5 arms uniform in the ball of 2 dimensions']
        """
        tables = [self._board_table(), *map(self._family_table, self.runs.family.values)]
        if self.endings is not None:
            tables += map(self._ending_table, self.runs.family.values)
        return tables

    def _ending_table(self, family: str) -> Table:
        assert self.endings is not None
        one = self.endings.sel(family=family)
        rows = []
        for i in np.argsort(one.pulls.fillna(np.inf).values, kind="stable"):
            rule = one.isel(rule=i)
            if rule.pulls.isnull():
                continue
            cells = [
                f"{float(rule.pulls):,.0f} ± {float(rule.pulls_se):,.0f}",
                _number(rule.stopped, ".1%"), _number(rule.wrong, ".3f"),
                f"{_number(rule.wrong_lower, '.3f')} to {_number(rule.wrong_upper, '.3f')}",
            ]  # fmt: skip
            if "efficiency" in one:
                cells.append(_number(rule.efficiency, ".2f"))
            rows.append([str(rule.rule.item()), *cells])
        header = ["rule", "pulls", "stopped", "wrong", "95 %", "efficiency"]
        conditions = ", ".join(f"{k} {v}" for k, v in json.loads(self.runs.attrs["stop"]).items())
        title = f"{family}, until a stop ({conditions}), at most {int(self.runs.budget[-1]):,}"
        return Table(title, header[: 6 if "efficiency" in one else 5], rows)

    def _board_table(self) -> Table:
        rows = []
        board = self.leaderboard()
        for i in range(board.sizes["rule"]):
            one = board.isel(rule=i)
            rank = int(one["rank"])
            place = f"{rank} ({int(one.rank_lower)} to {int(one.rank_upper)})" if rank else "-"
            rows.append(
                [
                    str(one.rule.item()) + " (knows the truth)" * bool(one.knows_truth), place,
                    _number(one.worst, ".3f"),
                    f"{one.worst_family.item()}, T = {int(one.worst_budget):,}",
                    _number(one.worst_ratio, ".2f") if one.worst_ratio <= FAR else f"> {FAR:g}",
                    _number(one.best, ".0%"),
                    str(int(one.families)),
                ]
            )  # fmt: skip
        header = ["rule", "rank", "worst distance", "where", "worst ratio", "as good as the best",
                  "families"]  # fmt: skip
        return Table("Leaderboard", header, rows, words=(0, 3))

    def _family_table(self, family: str) -> Table:
        one = self.summary.sel(family=family)
        last = one.isel(budget=-1)
        order = np.argsort(last.error.fillna(np.inf).values, kind="stable")
        budgets = [int(budget) for budget in one.budget.values]
        rows = []
        for i in order:
            rule = one.isel(rule=i)
            if rule.error.isnull().all():
                continue
            cells = [
                f"{float(e):.3f} ± {float(se):.3f}{' *' * bool(best)}" if np.isfinite(e) else "-"
                for e, se, best in zip(rule.error, rule.error_se, rule.best, strict=True)
            ]
            end = rule.isel(budget=-1)
            rows.append(
                [
                    str(rule.rule.item()), *cells, _number(end.error_rate, ".3f"),
                    f"{_number(end.error_rate_lower, '.3f')} to "
                    f"{_number(end.error_rate_upper, '.3f')}",
                    _number(end.efficiency, ".2f"), _number(end.microseconds, ".1f"),
                ]
            )  # fmt: skip
        header = ["rule", *(f"T = {budget:,}" for budget in budgets), "wrong", "95 %",
                  "efficiency", "µs a round"]  # fmt: skip
        title = self.runs.title.sel(family=family).item()
        return Table(f"{family}: {title}", header, rows)

    def to_markdown(self) -> str:
        """Format all tables as Markdown.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> found = bf.arena(rules=["Uniform"], families=["ball-2-5"], budgets=[50],
        ...                  runs=4, progress=False)
        >>> found.to_markdown().splitlines()[2][:40]
        '| rule | rank | worst distance | where |'
        """
        return "\n\n".join(map(markdown_table, self.tables())) + "\n"

    def to_latex(self) -> str:
        r"""Format all tables as LaTeX, with the rules of `booktabs`.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> found = bf.arena(rules=["Uniform"], families=["ball-2-5"], budgets=[50],
        ...                  runs=4, progress=False)
        >>> print(found.to_latex().splitlines()[0])
        \begin{table}
        """
        return "\n\n".join(map(latex_table, self.tables())) + "\n"

    def to_csv(self) -> str:
        """Format all numbers of `summary` as CSV, one row for each family, rule and budget.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> found = bf.arena(rules=["Uniform"], families=["ball-2-5"], budgets=[50],
        ...                  runs=4, progress=False)
        >>> found.to_csv().splitlines()[0][:28]
        'family,rule,budget,error_rat'
        """
        frame = self.summary.to_dataframe(dim_order=["family", "rule", "budget"])
        frame = frame[frame.error.notnull()].reset_index()
        for name in ("family", "rule"):
            frame[name] = frame[name].map(visible)
        return str(frame.to_csv(index=False, lineterminator="\n"))


def binary_divergence(level: float) -> float:
    """Give kl(δ, 1 - δ), the divergence of a coin from its opposite.

    >>> round(binary_divergence(0.05), 6)
    2.649995
    """
    return (1 - 2 * level) * math.log((1 - level) / level)


def binomial_interval(wrong: Any, runs: Any) -> tuple[Array, Array]:
    """Find the exact (Clopper and Pearson) interval of a probability; NaN for NaN.

    >>> low, high = binomial_interval([0.0, 5.0], 10)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1871], [0.3085, 0.8129])
    """
    wrong, tail = np.asarray(wrong, dtype=float), (1 - PROBABILITY) / 2
    runs = np.asarray(runs, dtype=float)
    low = np.where(wrong == 0, 0.0, beta.ppf(tail, wrong, runs - wrong + 1))
    high = np.where(wrong == runs, 1.0, beta.ppf(1 - tail, wrong + 1, runs - wrong))
    return np.where(np.isnan(wrong), np.nan, low), np.where(np.isnan(wrong), np.nan, high)


def _number(value: Any, form: str) -> str:
    return format(float(value), form) if math.isfinite(float(value)) else "-"


def _require(runs: xr.Dataset) -> None:
    """Refuse what is no result of an arena."""
    dims: Sequence[str] = ("family", "rule", "budget", "run")
    for name in ("wrong", "error", "efficiency", "seconds"):
        if name not in runs or runs[name].dims != dims or not runs[name].size:
            raise ValueError(f"expected {name!r} over {', '.join(dims)}")
    if runs.knows_truth.dtype != bool or runs.title.dims != ("family",):
        raise ValueError("expected 'knows_truth' of each rule and 'title' of each family")
