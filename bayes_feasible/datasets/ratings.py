"""How often each film got each rating, from the files of MovieLens.

`ratings.dat` (ml-10M) has its fields between "::", `ratings.csv` (ml-latest) between commas. Either
may be gzipped.
"""

import re
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayes_feasible.datasets.film_files import Malformed, PathLike, shown
from bayes_feasible.datasets.lines import line_blocks

STARS = np.arange(1, 11) / 2  # the ratings that MovieLens knows
HOPELESS = 1000  # malformed lines before any good one: it is another kind of file
RATING_FIELDS = ("userId", "movieId", "rating", "timestamp")
_DECIMAL = re.compile(rb"[0-9]{1,3}(\.[0-9]{1,6})?")


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
            self.counts, {"film": self.films, "rating": STARS}, ("film", "rating"), name="ratings"
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
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "ratings.dat")
    ...     _ = path.write_text("1::122::5::838985046\n2::122::3.5::838983525\n")
    ...     counted = read_ratings(path)
    >>> counted.lines, counted.films.tolist()
    (2, [122])
    >>> counted.histograms().sel(film=122, rating=3.5).item()
    1
    """
    if malformed not in ("raise", "skip"):
        raise ValueError(f"malformed: expected 'raise' or 'skip', got {malformed!r}")
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
        f"'{','.join(RATING_FIELDS)}': {shown(line)}"
    )


def _new_place(film: bytes, rating: bytes, rows: dict[int, list[list[int]]]) -> list[int] | None:
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
        return f"expected 4 fields, got {len(parts)}: {shown(line)}"
    for name, part in zip(RATING_FIELDS, parts, strict=True):
        if name == "rating":
            if _half_stars(part) is None:
                return f"rating: expected 0.5, 1, ..., 5, got {shown(part)}"
        elif not part.isdigit() or len(part) > 18:
            return f"{name}: expected a whole number, got {shown(part)}"
    return shown(line)
