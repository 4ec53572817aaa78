r"""How sure the estimate of a union is before any draw is made.

With `J` events and `n` independent draws from their mixture, the mean of :math:`1/N` has a
coefficient of variation of at most :math:`\sqrt{(J + 1/J - 2) / (4n)}`, however rare the events
are and however they overlap: Kantorovich's inequality for :math:`1/N` between `1/J` and 1 (Owen,
Maximov and Chertkov, Electronic Journal of Statistics 2019, arXiv 1710.06965). Shares of the draws
for each event and a control variate only lower it, up to terms of order `1/n`.
"""

import math

MOST_DRAWS = 2**26  # half a gigabyte of counts


def error_bound(events: int, draws: int) -> float:
    """Bound on the relative standard error of a union's estimate.

    >>> error_bound(4, 2**14)
    0.005859375
    """
    return math.sqrt((events + 1.0 / events - 2.0) / (4.0 * draws))


def draws_needed(events: int, rtol: float) -> int:
    """The fewest draws whose `error_bound` is at most `rtol`.

    >>> draws_needed(4, 0.01)
    5625
    """
    asked = (events + 1.0 / events - 2.0) / (4.0 * rtol**2)
    if asked > MOST_DRAWS:
        least = error_bound(events, MOST_DRAWS)
        raise ValueError(
            f"rtol: expected at least {least:.2g} for {events} events, which takes {MOST_DRAWS:,} "
            f"draws, got {rtol:g}"
        )
    draws = max(math.ceil(asked * (1.0 - 1e-12)), 1)
    return draws if error_bound(events, draws) <= rtol else draws + 1
