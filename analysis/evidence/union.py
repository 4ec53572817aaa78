r"""The probability of a union from draws of its events.

With :math:`P_i` the probability of event `i` and `N` the number of events that contain a draw,
:math:`P = \sum_i P_i \, E_i[1/N]` (Karp and Luby 1983; Owen, Maximov and Chertkov 2019).
"""

from collections.abc import Sequence

import numpy as np
from arviz_stats.base import array_stats

from bayes_feasible._check import Array


def union_log_probability(
    log_probabilities: Array,
    inverse_counts: Sequence[Array],
    standard_errors: Array | float = 0.0,
    rest: Array | Sequence[float] = (),
) -> tuple[float, float]:
    """Log-probability of a union, and its standard error.

    Parameters
    ----------
    log_probabilities : array (event,)
    inverse_counts : sequence of arrays (draw,) or (chain, draw), one an event
        Of each draw of the event, one over the number of events that contain it.
    standard_errors : array (event,)
        Of the log-probabilities.
    rest : array
        Log-probabilities of events without draws. They lie anywhere between wholly inside the
        others and wholly apart, so half of each counts, with the error of a uniform share.
    """
    top = log_probabilities.max()
    scale, left = np.exp(log_probabilities - top), np.exp(np.asarray(rest) - top)
    means = np.array([share.mean() for share in inverse_counts])
    errors = np.array([_error_of_mean(share) for share in inverse_counts])
    total = float(np.sum(scale * means) + 0.5 * left.sum())
    variance = np.sum(scale**2 * (errors**2 + (means * standard_errors) ** 2))
    variance += np.sum(left**2) / 12.0
    return float(top + np.log(total)), float(np.sqrt(variance)) / total


def _error_of_mean(share: Array) -> float:
    """Standard error of the mean of 1/N; without any overlap, of one that no draw has shown."""
    unseen = 0.5 / share.size
    if np.ptp(share) == 0:
        return unseen
    if share.ndim == 1:
        return float(np.hypot(share.std() / np.sqrt(share.size), unseen))
    return float(np.hypot(array_stats.mcse(share, method="mean"), unseen))
