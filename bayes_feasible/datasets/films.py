"""Films from the real files: MovieLens ratings, and IMDb scores as costs.

MovieLens: `ratings.dat` and `movies.dat` (fields between "::", as in ml-10M), or `ratings.csv` and
`movies.csv` (as in ml-latest). IMDb: `title.ratings.tsv`. Any of them may be gzipped. Which film is
which in IMDb is told by `links.csv` (ml-latest has one), by a table of one's own with the columns
`movieId` and `imdbId`, or by title and year from IMDb's `title.basics.tsv` (for ml-10M, which has
no links).
"""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_feasible.datasets.film_files import (
    PathLike,
    match_titles,
    read_links,
    read_movies,
    read_scores,
)
from bayes_feasible.datasets.ratings import STARS, RatingCounts, read_ratings
from bayes_feasible.files.atomic import replaced
from bayes_feasible.files.cells import from_cell, to_cell
from bayes_feasible.files.guard import read_file

COUNTS = [f"n_{stars}" for stars in STARS]
COLUMNS = [
    "ratings", "rating_mean", "rating_sd", "title", "genres", "imdbId", "imdb_score", "imdb_votes",
    *COUNTS,
]  # fmt: skip
CLEAR = 10  # times the votes of the next film of the same title and year
NO_GENRES = "(no genres listed)"


@dataclass(frozen=True, eq=False)
class FilmTable:
    """Films with their ratings, genres and IMDb scores, most rated first.

    Attributes
    ----------
    table : DataFrame
        By `movieId`; the columns of the table that comes with the package. Films without an IMDb
        score have an empty `imdb_score`.
    report : dict
        What was read and what could not be matched, in numbers of lines or films.

    Examples
    --------
    >>> import tempfile
    >>> from importlib.resources import files
    >>> path = files("bayes_feasible").joinpath("data", "movielens_imdb_top60.csv")
    >>> films = read_film_table(path)
    >>> films
    FilmTable: 60 films, 60 with an IMDb score
      with a score: 60
    >>> films.histograms().sel(film="Forrest Gump (1994)", rating=5.0).item()
    116
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     films.save(Path(folder, "films.csv"))
    ...     read_film_table(Path(folder, "films.csv")).table.equals(films.table)
    True
    """

    table: pd.DataFrame
    report: dict[str, int]

    def histograms(self) -> xr.DataArray:
        """How often each film got each rating, over (`film`, `rating`), by title."""
        return xr.DataArray(
            self.table[COUNTS].to_numpy(),
            {"film": unique_titles(self.table), "rating": STARS},
            ("film", "rating"),
            name="ratings",
        )

    def save(self, path: PathLike, *, spreadsheet: bool = False) -> None:
        """Write the table as CSV, in the layout of the one that comes with the package.

        Parameters
        ----------
        path : path
        spreadsheet : bool
            Whether to put an apostrophe in front of titles that a spreadsheet would take for
            formulas, such as "+1 (2013)"; `read_film_table` takes it away again.
        """
        titles = [to_cell(title, spreadsheet=spreadsheet) for title in self.table["title"]]
        with replaced(path) as new:
            self.table.assign(title=titles).to_csv(new, lineterminator="\n")

    def __repr__(self) -> str:
        scored = int(self.table["imdb_score"].notna().sum())
        lines = [f"FilmTable: {len(self.table):,} films, {scored:,} with an IMDb score"]
        lines += [f"  {name}: {number:,}" for name, number in self.report.items()]
        return "\n".join(lines)


def read_films(
    ratings: PathLike,
    movies: PathLike,
    scores: PathLike,
    *,
    links: PathLike | None = None,
    basics: PathLike | None = None,
    malformed: str = "raise",
    progress: bool | None = None,
) -> FilmTable:
    r"""Films from the files of MovieLens and IMDb.

    Parameters
    ----------
    ratings : path
        `ratings.dat` or `ratings.csv`.
    movies : path
        `movies.dat` or `movies.csv`.
    scores : path
        IMDb's `title.ratings.tsv`.
    links : path, optional
        `links.csv` of ml-latest, or a table of one's own with the columns `movieId` and `imdbId`
        (with or without "tt").
    basics : path, optional
        IMDb's `title.basics.tsv`: films that the links do not tell are matched by title and
        year. A film that several titles match is theirs who has ten times the votes of the next,
        or stays without a score.
    malformed : {"raise", "skip"}
        What to do about lines that cannot be read: refuse the file, naming them by number, or
        leave them out and warn.
    progress : bool, optional

    Returns
    -------
    FilmTable
        Its `report` says how many films could not be matched, and why.

    Raises
    ------
    ValueError
        If neither links nor basics are given, or no film at all can be matched.

    Examples
    --------
    >>> import tempfile
    >>> texts = {
    ...     "ratings.csv": "userId,movieId,rating,timestamp\n1,2,4.0,0\n2,2,3.5,0\n2,7,5.0,0\n",
    ...     "movies.csv": "movieId,title,genres\n2,Jumanji (1995),Family\n7,Heat (1995),Crime\n",
    ...     "links.csv": "movieId,imdbId\n2,0113497\n7,0114319\n",
    ...     "title.ratings.tsv": "tconst\taverageRating\tnumVotes\ntt0113497\t7.1\t400000\n",
    ... }
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     for file, text in texts.items():
    ...         _ = Path(folder, file).write_text(text)
    ...     films = read_films(
    ...         folder / "ratings.csv", folder / "movies.csv", folder / "title.ratings.tsv",
    ...         links=folder / "links.csv",
    ...     )
    >>> films.table[["title", "rating_mean", "imdb_score"]].values.tolist()
    [['Jumanji (1995)', 3.75, 7.1], ['Heat (1995)', 5.0, nan]]
    >>> films.report["matched but without a score"]
    1
    """
    if links is None and basics is None:
        raise ValueError(
            "links, basics: expected at least one of them, to tell which film is which in IMDb "
            "(links.csv of ml-latest, or title.basics.tsv of IMDb for titles and years)"
        )
    counted = read_ratings(ratings, malformed=malformed, progress=progress)
    titles = read_movies(movies, malformed)
    table = _with_titles(counted, titles)
    report = {
        "ratings": counted.lines,
        "malformed ratings": counted.malformed.count,
        "films with ratings": len(counted.films),
        "of these without a title": len(counted.films) - len(table),
    }
    known = read_links(links, malformed) if links is not None else {}
    candidates = {film: [known[film]] for film in table.index if film in known}
    report["linked"] = len(candidates)
    if basics is not None:
        rest = table.loc[[film for film in table.index if film not in candidates], "title"]
        found = match_titles(basics, rest, malformed, progress)
        report["matched by title and year"] = sum(len(names) > 0 for names in found.values())
        candidates |= found
    wanted = {name for names in candidates.values() for name in names}
    voted = read_scores(scores, wanted, malformed, progress)
    unclear = _add_scores(table, candidates, voted)
    report["ambiguous by title and year"] = unclear
    linked = sum(len(names) > 0 for names in candidates.values())
    report["without a match in IMDb"] = len(table) - linked
    scored = int(table["imdb_score"].notna().sum())
    report["matched but without a score"] = linked - unclear - scored
    report["with a score"] = scored
    result = FilmTable(table, report)
    if not scored:
        raise ValueError(f"no film could be given an IMDb score\n{result}")
    return result


def read_film_table(path: PathLike) -> FilmTable:
    """A table that `FilmTable.save` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    FilmTable

    Examples
    --------
    >>> from importlib.resources import files
    >>> path = files("bayes_feasible").joinpath("data", "movielens_imdb_top60.csv")
    >>> read_film_table(path).table.index.size
    60
    """
    texts = {"imdbId": str, "title": str, "genres": str}
    try:
        table = pd.read_csv(io.BytesIO(read_file(path)), index_col="movieId", dtype=texts)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path}: not a table of films ({error})") from error
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"{path}: expected the columns {COLUMNS}, {missing[0]!r} is missing")
    table["title"] = table["title"].map(from_cell, na_action="ignore")
    table["genres"] = table["genres"].fillna("")
    for name in (column for column in COLUMNS if column not in texts):
        try:
            numbers = table[name].to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {name}: expected numbers ({error})") from None
        if np.isinf(numbers).any():
            raise ValueError(f"{path}: {name}: expected finite numbers")
    return FilmTable(table, {"with a score": int(table["imdb_score"].notna().sum())})


def genre_lists(table: pd.DataFrame) -> list[list[str]]:
    """The genres of each film; none where MovieLens lists none."""
    return [
        [genre for genre in genres.split("|") if genre and genre != NO_GENRES]
        for genres in table["genres"]
    ]


def unique_titles(table: pd.DataFrame) -> list[str]:
    """Titles, with the film's id where several films share one."""
    twice = table["title"].duplicated(keep=False)
    return [
        f"{title} [{film}]" if again else title
        for film, title, again in zip(table.index, table["title"], twice, strict=True)
    ]


def scored_films(table: Any) -> pd.DataFrame:
    """Films with a score, most rated first, from a FilmTable, its DataFrame, or a saved table."""
    if isinstance(table, str | os.PathLike):
        table = read_film_table(Path(table))
    frame = table.table if isinstance(table, FilmTable) else table
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"table: expected a FilmTable or a path, got {type(table).__name__}")
    missing = [name for name in COLUMNS[:8] if name not in frame.columns]
    if missing:
        raise ValueError(f"table: expected the columns of a FilmTable, {missing[0]!r} is missing")
    scored = frame[frame["imdb_score"].notna()]
    return scored.sort_values("ratings", ascending=False, kind="stable")


def _with_titles(counted: RatingCounts, titles: dict[int, tuple[str, str]]) -> pd.DataFrame:
    """The rated films that have a title, most rated first (then by id)."""
    keep = np.array([film in titles for film in counted.films.tolist()], dtype=bool)
    films, counts = counted.films[keep], counted.counts[keep]
    if not len(films):
        raise ValueError("movies: none of the films with ratings has a title there")
    number = counts.sum(axis=1)
    mean = counts @ STARS / number
    square = counts @ STARS**2 / number
    spread = np.sqrt(np.maximum(square - mean**2, 0) * number / np.maximum(number - 1, 1))
    names, genres = zip(*(titles[film] for film in films.tolist()), strict=True)
    table = pd.DataFrame(
        {
            "ratings": number,
            "rating_mean": mean,
            "rating_sd": spread,
            "title": names,
            "genres": genres,
            "imdbId": pd.Series([None] * len(films), dtype=object),
            "imdb_score": np.nan,
            "imdb_votes": pd.Series([pd.NA] * len(films), dtype="Int64"),
        }
    )
    table[COUNTS] = counts
    table.index = pd.Index(films, name="movieId")
    order = np.lexsort((films, -number))
    return table.iloc[order].copy()


def _add_scores(
    table: pd.DataFrame, candidates: dict[int, list[str]], voted: dict[str, tuple[float, int]]
) -> int:
    """Write scores into the table; returns how many films several titles match equally well."""
    names: dict[int, str] = {}
    unclear = 0
    for film, matches in candidates.items():
        ranked = sorted(matches, key=lambda name: -voted.get(name, (0.0, 0))[1])
        if len(ranked) > 1:
            most, next_most = (voted.get(name, (0.0, 0))[1] for name in ranked[:2])
            if most == 0 or most < CLEAR * next_most:
                unclear += 1
                continue
        if ranked:
            names[film] = ranked[0]
    table["imdbId"] = [names.get(film) for film in table.index]
    scored = [voted.get(names.get(film, "")) for film in table.index]
    table["imdb_score"] = [np.nan if one is None else one[0] for one in scored]
    table["imdb_votes"] = pd.array([pd.NA if one is None else one[1] for one in scored], "Int64")
    return unclear
