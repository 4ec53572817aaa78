"""Numbers as the claims quote them: a mean with its standard error, a frequency with its bound."""

from typing import Any

import numpy as np
from scipy import stats

MODULE = "bayes_feasible.analysis.paper.theory"


def mean_and_error(values: Any) -> tuple[float, float]:
    """The mean of independent values and its standard error.

    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.57735...)
    """
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size))


def quoted(values: Any, digits: int = 2) -> str:
    """Mean ± standard error, to so many digits of the error.

    >>> quoted([1.0, 2.0, 3.0])
    '2.00 ± 0.58'
    """
    return with_error(*mean_and_error(values), digits)


def with_error(value: float, error: float, digits: int = 2) -> str:
    """A number and its standard error, to so many digits of the error.

    >>> with_error(1.0, 0.0234)
    '1.000 ± 0.023'
    """
    if not error > 0:
        return f"{value:.6g} ± 0"
    places = digits - 1 - int(np.floor(np.log10(error)))
    if places > 6:
        return f"{value:.3g} ± {error:.1g}"
    return f"{value:.{max(places, 0)}f} ± {error:.{max(places, 0)}f}"


def share(successes: int, trials: int, confidence: float = 0.95) -> str:
    """How often, with a two-sided Clopper-Pearson interval.

    >>> share(0, 100)
    '0/100 (95 % interval 0 to 0.0362)'
    """
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = stats.beta.isf(tail, successes + 1, trials - successes) if successes < trials else 1.0
    interval = f"{100 * confidence:g} % interval {low:.3g} to {high:.3g}"
    return f"{successes}/{trials} ({interval})"


def quantile(values: Any, level: float, digits: str = ",.0f") -> str:
    """A quantile of independent values, with the two-sided 95 % interval of order statistics.

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
    """The largest of independent values, and the quantile that it exceeds.

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


def command(piece: str, quick: bool, seed: int) -> str:
    """What to type for the numbers of one piece."""
    return f"python -m {MODULE} {piece} --seed {seed}" + (" --quick" if quick else "")


def judged(holds: bool, yes: str, no: str) -> str:
    """A verdict that follows from what was measured."""
    return yes if holds else no


def compatible(values: Any, expected: float, tests: int = 1, false_alarm: float = 1e-3) -> bool:
    """Whether a mean lies where it would but for chance: a t-test, corrected for their number."""
    array = np.asarray(values, dtype=float)
    return bool(stats.ttest_1samp(array, expected).pvalue > false_alarm / tests)
