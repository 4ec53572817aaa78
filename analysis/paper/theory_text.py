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
    mean, error = mean_and_error(values)
    if not error > 0:
        return f"{mean:.6g} ± 0"
    places = digits - 1 - int(np.floor(np.log10(error)))
    if places > 6:
        return f"{mean:.3g} ± {error:.1g}"
    return f"{mean:.{max(places, 0)}f} ± {error:.{max(places, 0)}f}"


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
