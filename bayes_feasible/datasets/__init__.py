"""Real data: MovieLens ratings and IMDb scores."""

from bayes_feasible.datasets.films import FilmTable, read_film_table, read_films
from bayes_feasible.datasets.ratings import RatingCounts, read_ratings

__all__ = ["FilmTable", "RatingCounts", "read_film_table", "read_films", "read_ratings"]
