"""Film ratings as they were given: pulls that draw one of a film's real ratings."""

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.instance import Instance
from bayes_feasible.instances import FILMS
from bayes_feasible.simulation.world import Environment, world_of

LEVELS = tuple(half / 2 for half in range(1, 11))  # 0.5, 1.0, ..., 5.0


class ResampledRatings(Environment):
    """A pull of a film shows one of its MovieLens ratings, and its IMDb score.

    The films are those of `bayes_feasible.instances.movielens`, in that order. Ratings are drawn
    with replacement from the film's histogram, so rewards are neither Gaussian nor of the noise
    that the rules assume. `score_noise` is the standard deviation of Gaussian noise on the score;
    0 shows the score itself.
    """

    def __init__(
        self, instance: Instance, rewards: Any, costs: Any, *, score_noise: float = 1.0
    ) -> None:
        number = len(instance.problem.arms)
        table, entries = rating_tables()
        world = world_of(instance)._replace(
            costs=film_scores()[:number, np.newaxis].copy(),
            table=table[:number],
            entries=entries[:number],
        )
        world.noise[1:] = score_noise
        super().__init__(instance, rewards, costs, world)


@cache
def rating_tables() -> tuple[Array, NDArray[np.int64]]:
    """Every rating of every film (film, rating), the rows filled up with nan; and their numbers."""
    histograms = _films()[[f"n_{level}" for level in LEVELS]].to_numpy()
    counts = histograms.sum(axis=1)
    ratings = np.full((len(counts), counts.max()), np.nan)
    for row, histogram, count in zip(ratings, histograms, counts, strict=True):
        row[:count] = np.repeat(LEVELS, histogram)
    return ratings, counts


def film_scores() -> Array:
    """The IMDb score of each film."""
    return _films()["imdb_score"].to_numpy(dtype=float)


def _films() -> pd.DataFrame:
    with files("bayes_feasible").joinpath(FILMS).open(encoding="utf-8") as stream:
        return pd.read_csv(stream)
