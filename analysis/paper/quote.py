"""Numbers as the claims quote them: a mean with its standard error, a frequency with its bound."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from bayes_feasible._check import Array


def mean_and_error(values: Any) -> tuple[float, float]:
    """Compute the mean of independent values and its standard error.

    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.57735...)
    """
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size))


def quoted(values: Any, digits: int = 2) -> str:
    """Quote mean ± standard error, to so many digits of the error.

    >>> quoted([1.0, 2.0, 3.0])
    '2.00 ± 0.58'
    """
    return with_error(*mean_and_error(values), digits)


def with_error(value: float, error: float, digits: int = 2) -> str:
    """Quote a number and its standard error, to so many digits of the error.

    >>> with_error(1.0, 0.0234)
    '1.000 ± 0.023'
    """
    if not error > 0:
        return f"{value:.6g} ± 0"
    places = digits - 1 - int(np.floor(np.log10(error)))
    if places > 6:
        return f"{value:.3g} ± {error:.1g}"
    return f"{value:.{max(places, 0)}f} ± {error:.{max(places, 0)}f}"


def over_time(values: Any, times: Any, separator: str = "; ") -> str:
    """Quote the mean over rows of each column, one column a time.

    >>> over_time([[1.0], [2.0], [3.0]], [1000])
    'T = 1,000: 2.00 ± 0.58'
    """
    columns = np.asarray(values).T
    return separator.join(
        f"T = {int(t):,}: {quoted(column)}" for t, column in zip(times, columns, strict=True)
    )


def to(value: Any, form: str) -> str:
    """Quote a number in a format.

    >>> to(np.array(2.5), ".2f")
    '2.50'
    """
    return format(getattr(value, "item", lambda: value)(), form)


def share(successes: int, trials: int, confidence: float = 0.95) -> str:
    """Quote how often, with a two-sided Clopper-Pearson interval.

    >>> share(0, 100)
    '0/100 (95 % interval 0 to 0.0362)'
    """
    interval = stats.binomtest(int(successes), trials).proportion_ci(confidence, "exact")
    return (
        f"{successes}/{trials} "
        f"({100 * confidence:g} % interval {interval.low:.3g} to {interval.high:.3g})"
    )


def quantile(values: Any, level: float, digits: str = ",.0f") -> str:
    """Quote a quantile of independent values, with the 95 % interval of order statistics.

    >>> quantile(range(1, 101), 0.5)
    '50 (95 % interval 40 to 61)'
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    # So many of the values lie below the true quantile: a binomial number.
    fewest, most = (int(n) for n in stats.binom.ppf([0.025, 0.975], ordered.size, level))
    low = format(ordered[fewest - 1], digits) if fewest > 0 else "-∞"
    high = format(ordered[most], digits) if most < ordered.size else "∞"
    return f"{np.quantile(ordered, level):{digits}} (95 % interval {low} to {high})"


def largest(values: Any, digits: str = ".2f") -> str:
    """Quote the largest of independent values, and the quantile that it exceeds.

    All of n values lie below the quantile of level p with probability p^n: for p = 0.05^(1/n) the
    largest is above it with confidence 95 %.

    >>> largest(range(1, 101), ".0f")
    '100 (largest of 100; above the 97.04 % quantile with confidence 95 %)'
    """
    array = np.asarray(values, dtype=float)
    level = np.floor(1e4 * 0.05 ** (1 / array.size)) / 100
    return (
        f"{array.max():{digits}} (largest of {array.size:,}; above the {level:g} % quantile with "
        "confidence 95 %)"
    )


def compatible(values: Any, expected: float, tests: int = 1, false_alarm: float = 1e-3) -> bool:
    """Test whether a mean is as expected: a t-test, corrected for the number of tests."""
    array = np.asarray(values, dtype=float)
    return bool(stats.ttest_1samp(array, expected).pvalue > false_alarm / tests)


def falls_clearly(first: Any, last: Any) -> bool:
    """Test whether values have fallen, pair by pair: by three standard errors."""
    mean, error = mean_and_error(np.asarray(first) - np.asarray(last))
    return mean > 3 * error


def power(times: Any, values: Array) -> Array:
    """Fit the exponent p of `values ~ time^-p` in each row, by least squares of the logarithms."""
    logs = np.log(np.asarray(times, dtype=float))
    centred = logs - logs.mean()
    return -np.log(values) @ centred / (centred @ centred)


def tabulate(dim: str, labels: Any, names: Sequence[str], rows: Any) -> xr.Dataset:
    """Make a Dataset over one dimension from rows of numbers, one a label."""
    columns = dict(zip(names, np.array(rows, dtype=float).T, strict=True))
    return xr.Dataset(
        {name: (dim, column) for name, column in columns.items()}, coords={dim: list(labels)}
    )
