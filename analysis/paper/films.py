"""Film ratings as they were given: pulls that draw one of a film's real ratings."""

import csv
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.instances import FILMS
from bayes_feasible.rules import choose
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.engine import learn
from bayes_feasible.simulation.simulate import Environment

LEVELS = tuple(half / 2 for half in range(1, 11))  # 0.5, 1.0, ..., 5.0


class ResampledRatings(Environment):
    """A pull of a film shows one of its MovieLens ratings, and its IMDb score.

    The films are those of `bayes_feasible.instances.movielens`, in that order. Ratings are drawn
    with replacement from the film's histogram, so rewards are neither Gaussian nor of the noise
    that the rules assume.

    Parameters
    ----------
    instance, rewards, costs
        See `Environment`.
    score_noise : float
        Standard deviation of Gaussian noise on the score; 0 shows the score itself.
    """

    def __init__(
        self, instance: Instance, rewards: Any, costs: Any, *, score_noise: float = 1.0
    ) -> None:
        super().__init__(instance, rewards, costs)
        number = len(instance.problem.arms)
        ratings, counts = rating_tables()
        self.shown = Shown(
            ratings[:number], counts[:number], film_scores()[:number], float(score_noise)
        )

    def pull(self, arm: int) -> tuple[float, Array]:
        """A rating and a score."""
        ratings, counts, scores, noise = self.shown
        rating = ratings[arm, int(self.reward_rng.random() * counts[arm])]
        score = scores[arm] + noise * self.cost_rng.standard_normal()
        return float(rating), np.array([score])

    def play(self, rule: Rule, rounds: int) -> None:
        """So many rounds of one of our own rules, compiled."""
        LOOPS[type(rule)._step](
            rule._options, rule._geometry, rule._state, rule._work, rule._rng,
            self.shown, self.reward_rng, self.cost_rng, rounds,
        )  # fmt: skip
        self.pulls[:] = rule._state.pulls


class Shown(NamedTuple):
    """What pulls of films show."""

    ratings: Array  # (film, rating), rows filled up with nan
    counts: NDArray[np.int64]  # (film,), ratings of each
    scores: Array  # (film,)
    noise: float  # standard deviation of noise on the scores


# A loop for each step, as in the package: one function that takes the step would be compiled anew
# in every process, for Numba keeps no functions on the disk that hold others.


@njit(**BORROWER)
def show(geo, state, work, shown, reward_rng, cost_rng, arm, seen):
    """Pull a film and learn from it."""
    rating = shown.ratings[arm, int(reward_rng.random() * shown.counts[arm])]
    seen[0] = shown.scores[arm] + shown.noise * cost_rng.standard_normal()
    learn(geo, state, work, arm, rating, seen)


@njit(**DOOR)
def run_game(options, geo, state, work, rng, shown, reward_rng, cost_rng, rounds):
    """So many rounds of rules that step as `choose_game` does."""
    seen = np.empty(1)
    for _ in range(rounds):
        arm = choose.choose_game(options, geo, state, work, rng)
        show(geo, state, work, shown, reward_rng, cost_rng, arm, seen)


@njit(**DOOR)
def run_thompson(options, geo, state, work, rng, shown, reward_rng, cost_rng, rounds):
    """So many rounds of rules that step as `choose_thompson` does."""
    seen = np.empty(1)
    for _ in range(rounds):
        arm = choose.choose_thompson(options, geo, state, work, rng)
        show(geo, state, work, shown, reward_rng, cost_rng, arm, seen)


@njit(**DOOR)
def run_top_two(options, geo, state, work, rng, shown, reward_rng, cost_rng, rounds):
    """So many rounds of rules that step as `choose_top_two` does."""
    seen = np.empty(1)
    for _ in range(rounds):
        arm = choose.choose_top_two(options, geo, state, work, rng)
        show(geo, state, work, shown, reward_rng, cost_rng, arm, seen)


@njit(**DOOR)
def run_fixed(options, geo, state, work, rng, shown, reward_rng, cost_rng, rounds):
    """So many rounds of rules that step as `choose_fixed` does."""
    seen = np.empty(1)
    for _ in range(rounds):
        arm = choose.choose_fixed(options, geo, state, work, rng)
        show(geo, state, work, shown, reward_rng, cost_rng, arm, seen)


@njit(**DOOR)
def run_best_response(options, geo, state, work, rng, shown, reward_rng, cost_rng, rounds):
    """So many rounds of rules that step as `choose_best_response` does."""
    seen = np.empty(1)
    for _ in range(rounds):
        arm = choose.choose_best_response(options, geo, state, work, rng)
        show(geo, state, work, shown, reward_rng, cost_rng, arm, seen)


LOOPS: dict[Any, Any] = {
    choose.ask_game: run_game,
    choose.ask_thompson: run_thompson,
    choose.ask_top_two: run_top_two,
    choose.ask_fixed: run_fixed,
    choose.ask_best_response: run_best_response,
}


@cache
def rating_tables() -> tuple[Array, NDArray[np.int64]]:
    """Every rating of every film (film, rating), the rows filled up with nan; and their numbers."""
    histograms = [np.array([int(row[f"n_{level}"]) for level in LEVELS]) for row in _rows()]
    counts = np.array([int(histogram.sum()) for histogram in histograms])
    ratings = np.full((len(counts), counts.max()), np.nan)
    for row, histogram, count in zip(ratings, histograms, counts, strict=True):
        row[:count] = np.repeat(LEVELS, histogram)
    return ratings, counts


@cache
def film_scores() -> Array:
    """The IMDb score of each film."""
    return np.array([float(row["imdb_score"]) for row in _rows()])


def _rows() -> list[dict[str, str]]:
    text = files("bayes_feasible").joinpath(FILMS).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
