"""Films from the real files: MovieLens ratings, and IMDb scores as costs.

MovieLens: `ratings.dat` and `movies.dat` (fields between "::", as in ml-10M), or `ratings.csv` and
`movies.csv` (as in ml-latest). IMDb: `title.ratings.tsv`. Any of them may be gzipped. Which film is
which in IMDb is told by `links.csv` (ml-latest has one), by a table of one's own with the columns
`movieId` and `imdbId`, or by title and year from IMDb's `title.basics.tsv` (for ml-10M, which has
no links).
"""

import csv
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_feasible._atomic import replaced
from bayes_feasible._lines import line_blocks
from bayes_feasible._titles import plain_words, spellings, split_year

PathLike = str | os.PathLike[str]

STARS = np.arange(1, 11) / 2  # the ratings that MovieLens knows
COUNTS = [f"n_{stars}" for stars in STARS]
COLUMNS = [
    "ratings", "rating_mean", "rating_sd", "title", "genres", "imdbId", "imdb_score", "imdb_votes",
    *COUNTS,
]  # fmt: skip
KEPT = 1000  # malformed lines of which the number and the reason are kept
NAMED = 5  # of them, in a message
HOPELESS = 1000  # malformed lines before any good one: it is another kind of file
CLEAR = 10  # times the votes of the next film of the same title and year
RATING_FIELDS = ("userId", "movieId", "rating", "timestamp")
NO_GENRES = "(no genres listed)"
FILM_TYPES = (b"movie", b"tvMovie", b"video", b"short", b"tvShort", b"tvSpecial", b"tvMiniSeries")
_DECIMAL = re.compile(rb"[0-9]{1,3}(\.[0-9]{1,6})?")


@dataclass
class Malformed:
    """Lines of a file that could not be read.

    Attributes
    ----------
    path : str
    count : int
        How many there were.
    lines : list of (int, str)
        Number and reason of the first 1000.
    """

    path: str
    count: int = 0
    lines: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, reason: str) -> None:
        """Note one line."""
        self.count += 1
        if len(self.lines) < KEPT:
            self.lines.append((number, reason))

    def __str__(self) -> str:
        named = "; ".join(f"line {number}: {reason}" for number, reason in self.lines[:NAMED])
        more = f"; and {self.count - NAMED:,} more" if self.count > NAMED else ""
        lines = "1 malformed line" if self.count == 1 else f"{self.count:,} malformed lines"
        return f"{self.path}: {lines} ({named}{more})"

    def settle(self, action: str) -> None:
        """Refuse the file, or warn, if there are any."""
        if not self.count:
            return
        if action == "raise":
            raise ValueError(f"{self}; malformed='skip' leaves them out")
        warnings.warn(f"{self}: left out", UserWarning, stacklevel=4)


@dataclass(frozen=True, eq=False)
class RatingCounts:
    """How often each film got each rating.

    Attributes
    ----------
    films : ndarray
        MovieLens ids, rising.
    counts : ndarray (film, rating)
        The ratings are 0.5, 1.0, ..., 5.0.
    lines : int
        Ratings that were read.
    malformed : Malformed
    """

    films: NDArray[np.int64]
    counts: NDArray[np.int64]
    lines: int
    malformed: Malformed

    def histograms(self) -> xr.DataArray:
        """The counts with their labels, over (`film`, `rating`)."""
        return xr.DataArray(
            self.counts,
            {"film": self.films, "rating": STARS},
            ("film", "rating"),
            name="ratings",
        )


def read_ratings(
    path: PathLike, *, malformed: str = "raise", progress: bool | None = None
) -> RatingCounts:
    r"""Count the ratings of each film, line by line: memory grows with the films, not the lines.

    Parameters
    ----------
    path : path
        `ratings.dat` or `ratings.csv`, or either gzipped.
    malformed : {"raise", "skip"}
        What to do about lines that cannot be read: refuse the file, naming them by number, or
        leave them out and warn.
    progress : bool, optional
        Whether to show a progress bar; by default for large files on a terminal.

    Returns
    -------
    RatingCounts

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "ratings.dat")
    ...     _ = path.write_text("1::122::5::838985046\n2::122::3.5::838983525\n")
    ...     counted = read_ratings(path)
    >>> counted.lines, counted.films.tolist()
    (2, [122])
    >>> counted.histograms().sel(film=122, rating=3.5).item()
    1
    """
    _action(malformed)
    bad = Malformed(str(path))
    separator: bytes | None = None
    places: dict[tuple[bytes, bytes], list[int]] = {}
    rows: dict[int, list[list[int]]] = {}
    good = 0
    for first, lines in line_blocks(path, progress=progress):
        if separator is None:
            separator, skipped = _rating_format(path, lines[0])
            lines, first = lines[skipped:], first + skipped
        for number, line in enumerate(lines, first):
            parts = line.rstrip(b"\r").split(separator)
            if len(parts) == 4 and parts[0].isdigit() and parts[3].isdigit():
                place = places.get((parts[1], parts[2]))
                if place is None:
                    place = _new_place(parts[1], parts[2], rows)
                    if place is not None:
                        places[parts[1], parts[2]] = place
                if place is not None:
                    place[0] += 1
                    good += 1
                    continue
            if line.strip():
                bad.add(number, _rating_fault(line.rstrip(b"\r"), separator))
        if not good and bad.count >= HOPELESS:
            break
    if not good:
        reason = f" ({bad})" if bad.count else ""
        raise ValueError(f"{path}: not a single rating was found{reason}")
    bad.settle(malformed)
    films = np.array(sorted(rows), dtype=np.int64)
    counts = np.array([[cell[0] for cell in rows[film]] for film in films.tolist()])
    return RatingCounts(films, counts, good, bad)


def _rating_format(path: PathLike, line: bytes) -> tuple[bytes, int]:
    """The separator, and how many lines are a header."""
    if b"::" in line:
        return b"::", 0
    names = [name.strip().strip(b'"') for name in line.rstrip(b"\r").split(b",")]
    if tuple(name.decode("utf-8", "replace") for name in names) == RATING_FIELDS:
        return b",", 1
    raise ValueError(
        f"{path}: line 1 is neither 'user::film::rating::time' nor the header "
        f"'{','.join(RATING_FIELDS)}': {_shown(line)}"
    )


def _new_place(
    film: bytes, rating: bytes, rows: dict[int, list[list[int]]]
) -> list[int] | None:  # fmt: skip
    """The counter of a film's rating, seen for the first time; None if they make no sense."""
    stars = _half_stars(rating)
    if stars is None or not film.isdigit() or len(film) > 18:
        return None
    row = rows.setdefault(int(film), [[0] for _ in STARS])
    return row[stars - 1]


def _half_stars(rating: bytes) -> int | None:
    """A rating in half stars, 1 to 10."""
    if not _DECIMAL.fullmatch(rating):
        return None
    twice = 2 * float(rating)
    return int(twice) if twice in range(1, 11) else None


def _rating_fault(line: bytes, separator: bytes) -> str:
    """Why a line is not a rating."""
    parts = line.split(separator)
    if len(parts) != 4:
        return f"expected 4 fields, got {len(parts)}: {_shown(line)}"
    for name, part in zip(RATING_FIELDS, parts, strict=True):
        if name == "rating":
            if _half_stars(part) is None:
                return f"rating: expected 0.5, 1, ..., 5, got {_shown(part)}"
        elif not part.isdigit() or len(part) > 18:
            return f"{name}: expected a whole number, got {_shown(part)}"
    return _shown(line)


def _shown(text: bytes) -> str:
    readable = text[:60].decode("utf-8", "replace")
    return repr(readable + ("..." if len(text) > 60 else ""))


def _action(malformed: str) -> None:
    if malformed not in ("raise", "skip"):
        raise ValueError(f"malformed: expected 'raise' or 'skip', got {malformed!r}")


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

    def save(self, path: PathLike) -> None:
        """Write the table as CSV, in the layout of the one that comes with the package."""
        with replaced(path) as new:
            self.table.to_csv(new, lineterminator="\n")

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
    titles = _read_movies(movies, malformed)
    table = _with_titles(counted, titles)
    report = {
        "ratings": counted.lines,
        "malformed ratings": counted.malformed.count,
        "films with ratings": len(counted.films),
        "of these without a title": len(counted.films) - len(table),
    }
    known = _read_links(links, malformed) if links is not None else {}
    candidates = {film: [known[film]] for film in table.index if film in known}
    report["linked"] = len(candidates)
    if basics is not None:
        rest = table.loc[[film for film in table.index if film not in candidates], "title"]
        found = _match_titles(basics, rest, malformed, progress)
        report["matched by title and year"] = sum(len(names) > 0 for names in found.values())
        candidates |= found
    wanted = {name for names in candidates.values() for name in names}
    voted = _read_scores(scores, wanted, malformed, progress)
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
        table = pd.read_csv(path, index_col="movieId", dtype=texts)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path}: not a table of films ({error})") from error
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"{path}: expected the columns {COLUMNS}, {missing[0]!r} is missing")
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


def _read_movies(path: PathLike, malformed: str) -> dict[int, tuple[str, str]]:
    """Title and genres of each film."""
    bad = Malformed(str(path))
    found: dict[int, tuple[str, str]] = {}
    for number, parts in _movie_rows(path, bad):
        if len(parts) != 3 or not _is_id(parts[0]) or not parts[1].strip():
            bad.add(number, f"expected id, title and genres, got {_shown_row(parts)}")
        elif int(parts[0]) in found:
            bad.add(number, f"film {parts[0]} a second time")
        else:
            found[int(parts[0])] = (parts[1].strip(), parts[2].strip())
    if not found:
        raise ValueError(
            f"{path}: not a single film was found" + (f" ({bad})" if bad.count else "")
        )
    bad.settle(malformed)
    return found


def _movie_rows(path: PathLike, bad: Malformed) -> Iterator[tuple[int, list[str]]]:
    """Numbered rows of `movies.dat` or `movies.csv`; titles may hold separators."""
    lines = _text_lines(path, bad)
    number, first = next(lines, (1, ""))
    if "::" in first:
        for at, line in chain([(number, first)], lines):
            film, _, rest = line.partition("::")
            title, _, genres = rest.rpartition("::")
            yield at, [film, title, genres]
        return
    yield from _csv_rows(path, first, lines, ("movieId", "title", "genres"), bad)


def _read_links(path: PathLike, malformed: str) -> dict[int, str]:
    """The IMDb name of each film that has one."""
    bad = Malformed(str(path))
    lines = _text_lines(path, bad)
    _, first = next(lines, (1, ""))
    found: dict[int, str] = {}
    for number, (film, name) in _csv_rows(path, first, lines, ("movieId", "imdbId"), bad):
        digits = name.strip().removeprefix("tt")
        if not _is_id(film) or (digits and not _is_id(digits)):
            bad.add(number, f"expected a film and its IMDb id, got {_shown_row([film, name])}")
        elif digits:
            found[int(film)] = f"tt{int(digits):07d}"
    bad.settle(malformed)
    return found


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _csv_rows(
    path: PathLike,
    header: str,
    lines: Iterator[tuple[int, str]],
    wanted: tuple[str, ...],
    bad: Malformed,
) -> Iterator[tuple[int, list[str]]]:
    """The wanted columns of comma-separated lines, numbered."""
    names = next(csv.reader([header]), [])
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(
            f"{path}: expected a header with {', '.join(wanted)}, got {_shown(header.encode())}"
        )
    places = [names.index(name) for name in wanted]
    for number, line in lines:
        row = next(csv.reader([line], strict=False), [])
        if len(row) != len(names):
            bad.add(
                number, f"expected {len(names)} fields, got {len(row)}: {_shown(line.encode())}"
            )
            continue
        yield number, [row[place] for place in places]


def _text_lines(path: PathLike, bad: Malformed) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not empty, as text; older sets are in Latin-1."""
    for first, lines in line_blocks(path, progress=False):
        for number, line in enumerate(lines, first):
            text = _decoded(line.rstrip(b"\r"))
            if "\0" in text:
                bad.add(number, "it holds the character NUL")
            elif text.strip():
                yield number, text


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _shown_row(parts: list[str]) -> str:
    return _shown(", ".join(parts).encode())


def _tab_rows(
    path: PathLike, wanted: tuple[bytes, ...], bad: Malformed, progress: bool | None
) -> Iterator[tuple[int, list[bytes], list[int]]]:
    """Numbered rows of an IMDb table, and where the wanted columns are."""
    places: list[int] = []
    width = 0
    for first, lines in line_blocks(path, progress=progress):
        for number, line in enumerate(lines, first):
            parts = line.rstrip(b"\r").split(b"\t")
            if number == 1:
                if not set(wanted) <= set(parts):
                    names = ", ".join(name.decode() for name in wanted)
                    raise ValueError(f"{path}: expected a header with {names}, got {_shown(line)}")
                places, width = [parts.index(name) for name in wanted], len(parts)
            elif len(parts) == width:
                yield number, parts, places
            elif line.strip():
                bad.add(number, f"expected {width} fields, got {len(parts)}: {_shown(line)}")


def _read_scores(
    path: PathLike, wanted: set[str], malformed: str, progress: bool | None
) -> dict[str, tuple[float, int]]:
    """Score and votes of the wanted titles."""
    bad = Malformed(str(path))
    names = {name.encode() for name in wanted}
    found: dict[str, tuple[float, int]] = {}
    columns = (b"tconst", b"averageRating", b"numVotes")
    for number, parts, (name, score, votes) in _tab_rows(path, columns, bad, progress):
        if parts[name] not in names:
            continue
        value = _number(parts[score], float)
        count = _number(parts[votes], int)
        if value is None or count is None or not 1 <= value <= 10 or count < 0:
            shown = _shown(b"\t".join(parts))
            bad.add(number, f"expected a score from 1 to 10 and votes, got {shown}")
            continue
        found[parts[name].decode()] = (value, int(count))
    bad.settle(malformed)
    return found


def _number(text: bytes, kind: Callable[[bytes], float]) -> float | None:
    try:
        value = kind(text)
    except ValueError:
        return None
    return value if abs(value) < 2**63 else None  # not NaN either


def _match_titles(
    path: PathLike, titles: pd.Series, malformed: str, progress: bool | None
) -> dict[int, list[str]]:
    """The IMDb names of films of the same title and year, for each film."""
    wanted: dict[tuple[str, int], list[int]] = {}
    for film, title in titles.items():
        name, year = split_year(title)
        for words in spellings(name) if year is not None else ():
            wanted.setdefault((words, year), []).append(int(film))  # type: ignore[arg-type]
    years = {str(year).encode() for _, year in wanted}
    bad = Malformed(str(path))
    found: dict[int, set[str]] = {int(film): set() for film in titles.index}  # type: ignore
    columns = (b"tconst", b"titleType", b"primaryTitle", b"originalTitle", b"startYear")
    for _, parts, places in _tab_rows(path, columns, bad, progress):
        imdb, kind, primary, original, started = (parts[place] for place in places)
        if started not in years or kind not in FILM_TYPES:
            continue
        for spelling in {primary, original}:
            key = plain_words(_decoded(spelling)), int(started)
            for film in wanted.get(key, ()):
                found[film].add(imdb.decode("utf-8", "replace"))
    bad.settle(malformed)
    return {film: sorted(names) for film, names in found.items()}


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
