"""The text files of MovieLens and IMDb, beside the ratings: titles, links, scores.

Lines that cannot be read are noted by number and reason, and left to the caller to refuse or skip.
"""

import csv
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import pandas as pd

from bayes_feasible.datasets.lines import line_blocks
from bayes_feasible.datasets.titles import plain_words, spellings, split_year

PathLike = str | os.PathLike[str]

KEPT = 1000  # malformed lines of which the number and the reason are kept
NAMED = 5  # of them, in a message
FILM_TYPES = (b"movie", b"tvMovie", b"video", b"short", b"tvShort", b"tvSpecial", b"tvMiniSeries")


@dataclass
class Malformed:
    """Lines of a file that could not be read."""

    path: str
    count: int = 0
    lines: list[tuple[int, str]] = field(default_factory=list)  # number and reason of the first

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


def read_movies(path: PathLike, malformed: str) -> dict[int, tuple[str, str]]:
    """Title and genres of each film."""
    bad = Malformed(str(path))
    found: dict[int, tuple[str, str]] = {}
    for number, parts in _movie_rows(path, bad):
        if len(parts) != 3 or not _is_id(parts[0]) or not parts[1].strip():
            bad.add(number, f"expected id, title and genres, got {shown(', '.join(parts))}")
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


def read_links(path: PathLike, malformed: str) -> dict[int, str]:
    """The IMDb name of each film that has one."""
    bad = Malformed(str(path))
    lines = _text_lines(path, bad)
    _, first = next(lines, (1, ""))
    found: dict[int, str] = {}
    for number, (film, name) in _csv_rows(path, first, lines, ("movieId", "imdbId"), bad):
        digits = name.strip().removeprefix("tt")
        if not _is_id(film) or (digits and not _is_id(digits)):
            bad.add(number, f"expected a film and its IMDb id, got {shown(f'{film}, {name}')}")
        elif digits:
            found[int(film)] = f"tt{int(digits):07d}"
    bad.settle(malformed)
    return found


def read_scores(
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
            line = shown(b"\t".join(parts))
            bad.add(number, f"expected a score from 1 to 10 and votes, got {line}")
            continue
        found[parts[name].decode()] = (value, int(count))
    bad.settle(malformed)
    return found


def match_titles(
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
        raise ValueError(f"{path}: expected a header with {', '.join(wanted)}, got {shown(header)}")
    places = [names.index(name) for name in wanted]
    for number, line in lines:
        row = next(csv.reader([line], strict=False), [])
        if len(row) != len(names):
            bad.add(number, f"expected {len(names)} fields, got {len(row)}: {shown(line)}")
            continue
        yield number, [row[place] for place in places]


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
                    raise ValueError(f"{path}: expected a header with {names}, got {shown(line)}")
                places, width = [parts.index(name) for name in wanted], len(parts)
            elif len(parts) == width:
                yield number, parts, places
            elif line.strip():
                bad.add(number, f"expected {width} fields, got {len(parts)}: {shown(line)}")


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


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _number(text: bytes, kind: Callable[[bytes], float]) -> float | None:
    try:
        value = kind(text)
    except ValueError:
        return None
    return value if abs(value) < 2**63 else None  # not NaN either


def shown(line: str | bytes) -> str:
    """The beginning of a line, for an error message."""
    text = line if isinstance(line, bytes) else line.encode()
    readable = text[:60].decode("utf-8", "replace")
    return repr(readable + ("..." if len(text) > 60 else ""))
