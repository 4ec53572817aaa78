"""The logarithm of a probability with its error, and the estimate of a union that it comes from."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.alternative.draws import spread_over_events

if TYPE_CHECKING:
    import xarray as xr

DRAWS = 2**14  # for the part of a union's probability that has no closed form


@dataclass(frozen=True)
class LogProbability:
    """The logarithm of a probability, how sure it is, and bounds that are certain.

    Attributes
    ----------
    value : float
        Natural logarithm of the probability.
    standard_error : float
        Of `value`; 0 where the value is exact.
    lower, upper : float
        Bounds that hold for certain, whatever the seed.
    names : list of str
        The events of the union.
    log_probabilities : ndarray
        Their log-probabilities.
    k_hat : float
        Shape of the tail of the importance weights, for outcomes without a closed form: above 0.7
        they are not to be trusted. -inf where there are none.
    efficiency : float
        Effective draws over draws.
    bound : float
        What the relative standard error cannot exceed, known before any draw:
        `sqrt((J + 1/J - 2) / (4 n))` for `n` draws and the `J` events that count (Owen, Maximov
        and Chertkov 2019). inf where draws carry weights, for then nothing is known before.
    """

    value: float
    standard_error: float
    lower: float
    upper: float
    names: list[str]
    log_probabilities: Array
    k_hat: float = -np.inf
    efficiency: float = 1.0
    bound: float = np.inf

    def __float__(self) -> float:
        return self.value

    @property
    def events(self) -> "xr.DataArray":
        """Log-probability of each event of the union, by its name."""
        return event_array(self.names, self.log_probabilities)

    @property
    def likeliest(self) -> str:
        """The name of the most probable event: the mistake to expect."""
        return self.names[int(np.argmax(self.log_probabilities))] if self.names else "none"

    def __repr__(self) -> str:
        return (
            f"log-probability {self.value:.6g} (standard error {self.standard_error:.2g}, "
            f"certainly within [{self.lower:.6g}, {self.upper:.6g}]); likeliest: {self.likeliest}"
        )


def event_array(names: list[str], values: Array) -> "xr.DataArray":
    """Log-probabilities of events with their names."""
    import xarray as xr

    return xr.DataArray(values, dims="event", coords={"event": names}, name="log_probability")


class Share(NamedTuple):
    """The mean of one over the number of events that contain a draw from their mixture."""

    value: float
    standard_error: float
    efficiency: float  # of draws kept with probability 1/N against independent ones


def mean_share(
    count: Callable[[NDArray[np.int64]], NDArray[Any]],
    log_probabilities: Array,
    rng: np.random.Generator,
    draws: int,
    *,
    twice: float | None = None,
) -> Share:
    """Estimate `E[1/N]`: the probability of a union over the sum of those of its events.

    `count` takes the indices of events, sorted, draws once given each, and returns how many events
    contain each draw, its own among them. Each event gets its share of the draws, by its
    probability, to within one. `twice` is `E[N - 1]` where that is known: twice the sum of the
    pairs' probabilities over the sum of the events', a control variate. The standard error allows
    for an overlap (of three events, with `twice`; else of two) that no draw has shown.
    """
    if len(log_probabilities) == 1:
        return Share(1.0, 0.0, 1.0)
    events = spread_over_events(rng, log_probabilities, draws)
    counts = np.asarray(count(events), dtype=float)
    share, correction = 1.0 / counts, 0.0
    efficiency = float(share.mean() ** 2 / np.mean(share**2))
    unseen = 0.5 / draws  # an overlap of two
    if twice is not None:
        extra = counts - 1.0
        variance = extra.var()
        slope = 0.5 if variance == 0.0 else -np.mean((share - share.mean()) * extra) / variance
        share = share + slope * extra
        correction = slope * twice
        unseen = min(1.0 / draws, twice) / 3.0  # an overlap of three
    # Neighbours are draws given the same event, so their differences show the error within.
    within = np.sum(np.diff(share) ** 2) / (2.0 * max(draws - 1, 1)) / draws
    return Share(float(share.mean() - correction), math.sqrt(within + unseen**2), efficiency)
