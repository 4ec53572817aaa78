"""Films from files in the formats of MovieLens and IMDb, written here in small."""

import gzip
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_feasible as bf
from bayes_feasible.datasets import film_files, films
from bayes_feasible.datasets import lines as _lines
from bayes_feasible.datasets.titles import spellings, split_year

FILMS = {
    1: ("Toy Story (1995)", "Adventure|Animation|Children|Comedy|Fantasy"),
    2: ("Shawshank Redemption, The (1994)", "Crime|Drama"),
    3: ("City of Lost Children, The (Cité des enfants perdus, La) (1995)", "Adventure|Drama"),
    4: ("Emma (1996)", "Comedy|Drama|Romance"),
    5: ("Emma (1996)", "(no genres listed)"),
    6: ("Nobody's Film", "Drama"),
    7: ("Twins, The (2001)", "Comedy"),
}
IMDB = {
    1: ("tt0114709", "movie", "Toy Story", "Toy Story", 1995, 8.3, 1_000_000),
    2: ("tt0111161", "movie", "The Shawshank Redemption", "The Shawshank Redemption", 1994, 9.3,
        2_500_000),
    3: ("tt0112682", "movie", "The City of Lost Children", "La cité des enfants perdus", 1995, 7.5,
        70_000),
    4: ("tt0116191", "movie", "Emma", "Emma", 1996, 6.6, 40_000),
    5: ("tt0118308", "tvMovie", "Emma", "Emma", 1996, 6.7, 9_000),
}  # fmt: skip
# (film, rating, how often)
VOTES = [
    (1, 4.0, 5), (1, 3.5, 3), (1, 0.5, 1), (2, 5.0, 7), (3, 4.5, 2), (4, 3.0, 4), (5, 2.0, 1),
    (6, 1.0, 1), (7, 1.5, 6), (9, 5.0, 2),
]  # fmt: skip

HUGE = "9" * 5000


def rating_lines(separator, votes=VOTES):
    lines = []
    for film, stars, times in votes:
        text = f"{stars:g}" if separator == "::" else f"{stars:.1f}"
        for user in range(times):
            lines.append(separator.join([str(user + 1), str(film), text, "978300760"]))
    return lines


def write(path, lines, *, end="\n", encoding="utf-8"):
    data = (end.join(lines) + end).encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def quoted(title):
    return f'"{title}"' if "," in title else title


@pytest.fixture
def latest(tmp_path):
    """The files of ml-latest, with links, and IMDb's scores."""
    return {
        "ratings": write(tmp_path / "ratings.csv",
                         ["userId,movieId,rating,timestamp", *rating_lines(",")]),
        "movies": write(tmp_path / "movies.csv", ["movieId,title,genres"] + [
            f"{film},{quoted(title)},{genres}" for film, (title, genres) in FILMS.items()]),
        "links": write(tmp_path / "links.csv", ["movieId,imdbId,tmdbId"] + [
            f"{film},{row[0][2:]},{film}" for film, row in IMDB.items()] + ["6,,", "7,9999999,3"]),
        "scores": scores(tmp_path),
    }  # fmt: skip


@pytest.fixture
def ten_million(tmp_path):
    """The files of ml-10M, without links, and IMDb's titles and scores."""
    return {
        "ratings": write(tmp_path / "ratings.dat", rating_lines("::")),
        "movies": write(tmp_path / "movies.dat", [
            f"{film}::{title}::{genres}" for film, (title, genres) in FILMS.items()]),
        "scores": scores(tmp_path),
        "basics": basics(tmp_path),
    }  # fmt: skip


def scores(folder, name="title.ratings.tsv.gz", extra=()):
    rows = [f"{row[0]}\t{row[5]}\t{row[6]}" for row in IMDB.values()]
    rows += ["tt9000001\t5.0\t100", "tt9000002\t6.0\t90", *extra]
    return write(folder / name, ["tconst\taverageRating\tnumVotes", *rows])


def basics(folder, extra=()):
    header = "tconst titleType primaryTitle originalTitle isAdult startYear endYear runtimeMinutes"
    rows = ["\t".join([*header.split(), "genres"])]
    for tconst, kind, primary, original, year, _, _ in IMDB.values():
        rows.append(f"{tconst}\t{kind}\t{primary}\t{original}\t0\t{year}\t\\N\t90\tDrama")
    rows.append("tt9000001\tmovie\tThe Twins\tThe Twins\t0\t2001\t\\N\t90\tComedy")
    rows.append("tt9000002\tmovie\tThe Twins\tThe Twins\t0\t2001\t\\N\t90\tComedy")
    rows.append("tt9000003\ttvEpisode\tToy Story\tToy Story\t0\t1995\t\\N\t20\tComedy")
    rows.append("tt9000004\tmovie\tToy Story\tToy Story\t0\t2010\t\\N\t20\tComedy")
    rows.append("tt9000005\tmovie\tOld\tOld\t0\t\\N\t\\N\t20\tComedy")
    return write(folder / "title.basics.tsv.gz", [*rows, *extra])


def tally():
    table = {film: np.zeros(10, dtype=int) for film, _, _ in VOTES}
    for film, stars, times in VOTES:
        table[film][int(2 * stars) - 1] += times
    return table


@pytest.mark.parametrize("kind", ["dat", "csv", "dat.gz", "csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ratings_are_counted(tmp_path, kind, end):
    separator = "::" if kind.startswith("dat") else ","
    header = [] if separator == "::" else ["userId,movieId,rating,timestamp"]
    path = write(tmp_path / f"ratings.{kind}", header + rating_lines(separator), end=end)
    found = bf.datasets.read_ratings(path)
    expected = tally()
    assert found.films.tolist() == sorted(expected)
    assert_array_equal(found.counts, [expected[film] for film in sorted(expected)])
    assert found.lines == sum(times for _, _, times in VOTES)
    assert found.malformed.count == 0
    histogram = found.histograms()
    assert int(histogram.sel(film=1, rating=3.5)) == 3
    assert histogram.dims == ("film", "rating")


def test_last_line_without_an_end_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_bytes(b"\xef\xbb\xbfuserId,movieId,rating,timestamp\n1,2,3.0,4\n\n1,3,3.0,4")
    found = bf.datasets.read_ratings(path)
    assert found.films.tolist() == [2, 3]
    assert found.lines == 2


def test_blocks_join_lines_anywhere(tmp_path, monkeypatch):
    path = write(tmp_path / "ratings.dat", rating_lines("::"))
    whole = bf.datasets.read_ratings(path)
    for size in (1, 2, 7, 64):
        monkeypatch.setattr(_lines, "BLOCK", size)
        again = bf.datasets.read_ratings(path)
        assert_array_equal(again.counts, whole.counts)


BAD = [
    ("1::2::3", "expected 4 fields, got 3"),
    ("x::2::3::4", "userId: expected a whole number, got 'x'"),
    ("1::-2::3::4", "movieId: expected a whole number, got '-2'"),
    ("1::2::3::", "timestamp: expected a whole number, got ''"),
    ("1::2::5.5::4", "rating: expected 0.5, 1, ..., 5, got '5.5'"),
    ("1::2::1_0::4", "rating: expected"),
    ("1::99999999999999999999::3::4", "movieId: expected"),
    ("\0\0\0", "expected 4 fields, got 1"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_malformed_lines_are_reported_by_number(tmp_path, line, reason):
    lines = rating_lines("::")
    lines.insert(4, line)
    path = write(tmp_path / "ratings.dat", lines)
    with pytest.raises(ValueError, match="1 malformed line") as caught:
        bf.datasets.read_ratings(path)
    assert f"line 5: {reason}" in str(caught.value)
    with pytest.warns(UserWarning, match="line 5"):
        found = bf.datasets.read_ratings(path, malformed="skip")
    assert found.lines == len(lines) - 1
    assert found.malformed.lines[0][0] == 5
    assert_array_equal(found.counts, [tally()[film] for film in sorted(tally())])


def test_many_malformed_lines(tmp_path):
    good = rating_lines("::")
    path = write(tmp_path / "ratings.dat", [*good, *(f"broken {i}" for i in range(3000))])
    with pytest.warns(UserWarning, match=r"3,000 malformed lines .* and 2,995 more"):
        found = bf.datasets.read_ratings(path, malformed="skip")
    assert found.malformed.count == 3000
    assert len(found.malformed.lines) == film_files.KEPT
    assert found.malformed.lines[0][0] == len(good) + 1


def test_another_kind_of_file(tmp_path):
    path = write(tmp_path / "ratings.dat", ["a::b"] * 5000)
    with pytest.raises(ValueError, match="not a single rating") as caught:
        bf.datasets.read_ratings(path, malformed="skip")
    assert "line 1: expected 4 fields" in str(caught.value)
    with pytest.raises(ValueError, match="line 1 is neither"):
        bf.datasets.read_ratings(write(tmp_path / "x.csv", ["movieId,title,genres", "1,2,3"]))
    with pytest.raises(ValueError, match="not a single rating"):
        bf.datasets.read_ratings(write(tmp_path / "y.csv", ["userId,movieId,rating,timestamp"]))
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="the file is empty"):
        bf.datasets.read_ratings(path)


def test_damaged_archives(tmp_path):
    data = gzip.compress("\n".join(rating_lines("::") * 2000).encode())
    for content, message in (
        (data[: len(data) // 2], "the gzip file is cut off"),
        (data[:40] + bytes(40) + data[80:], "the gzip file is damaged"),
        (data[:-8] + bytes(8), "the gzip file is damaged"),  # a wrong check sum
        (b"PK\x03\x04" + bytes(100), "a zip archive; unpack it first"),
    ):
        path = tmp_path / "damaged.dat.gz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"damaged\.dat\.gz: {message}"):
            bf.datasets.read_ratings(path)


def test_a_gzip_bomb_is_refused_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "SMALL", 1 << 18)
    monkeypatch.setattr(_lines, "BLOCK", 1 << 14)
    bomb = tmp_path / "bomb.dat.gz"
    with gzip.open(bomb, "wb") as stream:
        for _ in range(20):  # 22 MB of the same line
            stream.write(b"1::2::3::4\n" * 100_000)
    assert 300 * bomb.stat().st_size < 22e6
    tracemalloc.start()
    with pytest.raises(ValueError, match="expands to more than 200 times"):
        sum(len(lines) for _, lines in _lines.line_blocks(bomb))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


def test_an_endless_line_is_refused(tmp_path):
    path = tmp_path / "long.dat"
    path.write_bytes(b"1::2::3::4\n" + b"5" * 3_000_000)
    with pytest.raises(ValueError, match="line 2 is longer than"):
        bf.datasets.read_ratings(path)
    path.write_bytes(b"1::2::3::4\n" + b"5" * 100_000 + b"\n1::2::3::4\n")
    with pytest.raises(ValueError, match="line 2 is longer than"):
        bf.datasets.read_ratings(path)


def test_memory_does_not_grow_with_the_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "BLOCK", 1 << 14)
    lines = "".join(f"{user}::{user % 50}::{user % 10 / 2 + 0.5:g}::1\n" for user in range(5000))
    peaks = []
    for times in (1, 8):
        path = tmp_path / f"{times}.dat"
        path.write_text(lines * times)
        tracemalloc.start()
        found = bf.datasets.read_ratings(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.lines == 5000 * times
    assert peaks[1] < 1.2 * peaks[0]


# Titles


@pytest.mark.parametrize(
    ("title", "year", "words"),
    [
        ("Toy Story (1995)", 1995, {"toy story"}),
        ("Shawshank Redemption, The (1994)", 1994, {"the shawshank redemption"}),
        ("Seven (a.k.a. Se7en) (1995)", 1995, {"seven", "se7en"}),
        ("Amélie (Fabuleux destin d'Amélie Poulain, Le) (2001)", 2001,
         {"amelie", "le fabuleux destin damelie poulain"}),
        ("Ocean's Eleven (2001)", 2001, {"oceans eleven"}),
        ("WALL·E", None, {"wall e"}),
        ("Thelma & Louise (1991)", 1991, {"thelma and louise"}),
        ("Nobody's Film", None, {"nobodys film"}),
        ("Babylon 5", None, {"babylon 5"}),
        ("Fullmetal (2009–)", 2009, {"fullmetal"}),
    ],
)  # fmt: skip
def test_titles(title, year, words):
    name, found = split_year(title)
    assert found == year
    assert spellings(name) == words


# Whole tables


def expected_rows(matched):
    rows = {}
    for film, counts in tally().items():
        if film not in FILMS:
            continue
        drawn = np.repeat(np.arange(1, 11) / 2, counts)
        score = IMDB[film][5:] if film in matched else (np.nan, None)
        rows[film] = (len(drawn), drawn.mean(), drawn.std(ddof=1) if len(drawn) > 1 else 0.0, score)
    return rows


def check(table, matched):
    rows = expected_rows(matched)
    assert sorted(table.index) == sorted(rows)
    assert list(table["ratings"]) == sorted((row[0] for row in rows.values()), reverse=True)
    for film, (number, mean, spread, (score, votes)) in rows.items():
        row = table.loc[film]
        assert row["ratings"] == number
        assert_allclose([row["rating_mean"], row["rating_sd"]], [mean, spread], atol=1e-12)
        assert_allclose(row["imdb_score"], score)
        assert pd.isna(row["imdb_votes"]) if votes is None else row["imdb_votes"] == votes
        assert (row["title"], row["genres"]) == FILMS[film]
        assert_array_equal(row[films.COUNTS].astype(int), tally()[film])


def test_latest_with_links(latest):
    found = bf.datasets.read_films(**latest)
    check(found.table, {1, 2, 3, 4, 5})
    assert found.report == {
        "ratings": 32, "malformed ratings": 0, "films with ratings": 8,
        "of these without a title": 1, "linked": 6, "ambiguous by title and year": 0,
        "without a match in IMDb": 1, "matched but without a score": 1, "with a score": 5,
    }  # fmt: skip
    assert "with a score: 5" in repr(found)
    assert found.table.loc[3, "imdbId"] == "tt0112682"


def test_ten_million_by_title_and_year(ten_million):
    found = bf.datasets.read_films(**ten_million)
    # Both films called Emma (1996) match both titles of that year, one far ahead in votes is
    # not ten times ahead: nobody can tell. The Twins is as unclear.
    check(found.table, {1, 2, 3})
    report = found.report
    assert report["matched by title and year"] == 6
    assert report["ambiguous by title and year"] == 3
    assert report["without a match in IMDb"] == 1
    assert report["with a score"] == 3


def test_links_come_before_titles(ten_million, tmp_path):
    own = write(tmp_path / "own.csv", ["movieId,imdbId", "4,tt0116191", "5,118308"])
    found = bf.datasets.read_films(**ten_million, links=own)
    check(found.table, {1, 2, 3, 4, 5})
    assert found.report["linked"] == 2
    assert found.report["matched by title and year"] == 4


def test_far_more_votes_settle_a_title(ten_million, tmp_path):
    ten_million["scores"] = scores(tmp_path, extra=["tt9000006\t7.7\t1001"])
    ten_million["basics"] = basics(
        tmp_path, ["tt9000006\tmovie\tThe Twins\tThe Twins\t0\t2001\t\\N\t90\tComedy"]
    )
    found = bf.datasets.read_films(**ten_million)
    assert found.table.loc[7, "imdb_score"] == 7.7
    assert found.report["ambiguous by title and year"] == 2


def test_latin_1_titles(ten_million, tmp_path):
    ten_million["movies"] = write(
        tmp_path / "old.dat", [f"{f}::{t}::{g}" for f, (t, g) in FILMS.items()], encoding="latin-1"
    )
    assert bf.datasets.read_films(**ten_million).table.loc[3, "title"] == FILMS[3][0]


def test_nothing_to_match_with(latest, tmp_path):
    del latest["links"]
    with pytest.raises(ValueError, match="links, basics: expected at least one"):
        bf.datasets.read_films(**latest)
    latest["links"] = write(tmp_path / "empty.csv", ["movieId,imdbId", "1,"])
    with pytest.raises(ValueError, match="no film could be given an IMDb score") as caught:
        bf.datasets.read_films(**latest)
    assert "without a match in IMDb: 7" in str(caught.value)
    latest["links"] = write(tmp_path / "wrong.csv", ["film,imdb", "1,2"])
    with pytest.raises(ValueError, match="expected a header with movieId, imdbId"):
        bf.datasets.read_films(**latest)


@pytest.mark.parametrize(
    ("file", "lines", "message"),
    [
        ("movies", ["movieId,title,genres", "1,Toy Story (1995)"], "line 2: expected 3 fields"),
        ("movies", ["movieId,title,genres", "x,Toy,Drama", "1,Toy,Drama"], "line 2: expected id"),
        ("movies", ["movieId,title,genres", "1,Toy,Drama", "1,Toy,Drama"], "line 3: film 1 a sec"),
        ("movies", ["movieId,title,genres", "77,Toy,Drama"], "none of the films with ratings"),
        ("movies", ["movieId,title,genres"], "not a single film"),
        ("movies", ["a,b,c", "1,Toy,Drama"], "expected a header with movieId, title, genres"),
        ("movies", ["movieId,title,genres", "1,\0,Drama", "2,Toy,Drama"], "line 2: it holds"),
        ("links", ["movieId,imdbId,tmdbId", "1,abc,1"], "line 2: expected a film and its IMDb id"),
        ("links", ["movieId,imdbId,tmdbId", "1,0114709"], "line 2: expected 3 fields"),
        ("scores", ["tconst\taverageRating\tnumVotes", "tt0114709\t8"], "line 2: expected 3"),
        ("scores", ["tconst\taverageRating\tnumVotes", "tt0114709\t11\t5"], "line 2: expected a"),
        ("movies", ["movieId,title,genres", f"{HUGE},C,Drama", "1,Toy,Drama"], "line 2: expected"),
        ("scores", ["tconst\taverageRating\tnumVotes", f"tt0114709\t8\t{HUGE}"], "line 2: expec"),
        ("scores", ["tconst\taverageRating\tnumVotes", "tt0114709\tnan\t5"], "line 2: expected a"),
    ],
)
def test_malformed_tables(latest, tmp_path, file, lines, message):
    latest[file] = write(tmp_path / "bad", lines)
    with pytest.raises(ValueError, match=message):
        bf.datasets.read_films(**latest)


def test_malformed_lines_of_every_file_may_be_skipped(latest, tmp_path):
    for name, path in latest.items():
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        latest[name] = tmp_path / f"worse-{name}"
        latest[name].write_bytes(text + b"what is this?\n")
    with pytest.warns(UserWarning, match="malformed line") as caught:
        found = bf.datasets.read_films(**latest, malformed="skip")
    assert len(caught) == 4
    check(found.table, {1, 2, 3, 4, 5})
    assert found.report["malformed ratings"] == 1


# Instances


def test_saved_and_read_again(latest, tmp_path):
    found = bf.datasets.read_films(**latest)
    path = tmp_path / "films.csv"
    found.save(path)
    again = bf.datasets.read_film_table(path)
    check(again.table, {1, 2, 3, 4, 5})
    histograms = found.histograms()
    assert_array_equal(again.histograms(), histograms)
    assert int(histograms.sel(film="Toy Story (1995)", rating=4.0)) == 5
    assert int(histograms.sel(film="Emma (1996) [5]").sum()) == 1
    assert bf.instances.movielens(9.0, films=5, table=path) == bf.instances.movielens(
        9.0, films=5, table=found
    )
    pd.read_csv(path).drop(columns="title").to_csv(tmp_path / "less.csv")
    with pytest.raises(ValueError, match="'title' is missing"):
        bf.datasets.read_film_table(tmp_path / "less.csv")


@pytest.mark.parametrize("features", ["one-hot", "genres"])
def test_instance_of_a_table(latest, features):
    table = bf.datasets.read_films(**latest)
    instance = bf.instances.movielens(8.5, films=4, features=features, table=table)
    problem = instance.problem
    names = ["Toy Story (1995)", "Shawshank Redemption, The (1994)", "Emma (1996) [4]",
             "City of Lost Children, The (Cité des enfants perdus, La) (1995)"]  # fmt: skip
    assert problem.coords["arm"].tolist() == names
    if features == "one-hot":
        assert_allclose(instance.mean_reward, [31 / 9, 5.0, 3.0, 4.5])
        assert_allclose(instance.mean_cost[:, 0], [8.3, 9.3, 6.6, 7.5])
        assert problem.name(instance.best) == names[3]
    else:
        assert "Drama" in problem.coords["feature"]
        assert "(no genres listed)" not in problem.coords["feature"]
        assert problem.arms[0].sum() == 1 + 5


def test_the_most_rated_films_with_a_score(latest):
    """The Twins has more ratings than most, but no score."""
    table = bf.datasets.read_films(**latest)
    assert table.table.index[2] == 7
    names = bf.instances.movielens(9.0, films=5, table=table).problem.coords["arm"].tolist()
    assert not any("Twins" in name for name in names)
    with pytest.raises(ValueError, match="films: expected at most 5, got 6"):
        bf.instances.movielens(9.0, films=6, table=table)


def test_the_shipped_table_in_the_same_form():
    """The loader's layout and the shipped table's are the same: one can stand in for the other."""
    shipped = bf.__path__[0] + "/data/movielens_imdb_top60.csv"
    for features in ("one-hot", "genres"):
        ours = bf.instances.movielens(features=features)
        theirs = bf.instances.movielens(features=features, table=shipped)
        assert ours == theirs
    table = bf.datasets.read_film_table(shipped).table
    stars = table[films.COUNTS].to_numpy() @ (np.arange(1, 11) / 2) / table["ratings"]
    assert_allclose(stars, table["rating_mean"], atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("8.3", "inf", "imdb_score: "),
        ("movieId", "id", "movieId"),
        (",rating_mean", ",mean", "'rating_mean' is missing"),
    ],
)
def test_a_saved_table_that_was_edited(latest, tmp_path, old, new, message):
    path = tmp_path / "films.csv"
    bf.datasets.read_films(**latest).save(path)
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    with pytest.raises(ValueError, match=f"films.csv: .*{message}"):
        bf.instances.movielens(9, films=1, table=path)


@pytest.mark.parametrize("content", [b"", b"a\nb\n", b"\xff\xfe\x00\x01", b"movieId\n1\n"])
def test_what_is_no_table_of_films(tmp_path, content):
    path = tmp_path / "films.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"films\.csv: "):
        bf.instances.movielens(table=path)


def test_a_film_without_genres_has_none(latest, tmp_path):
    latest["movies"].write_text(
        latest["movies"].read_text("utf-8").replace("Crime|Drama", ""), "utf-8"
    )
    bf.datasets.read_films(**latest).save(tmp_path / "films.csv")
    problem = bf.instances.movielens(
        9.5, films=2, table=tmp_path / "films.csv", features="genres"
    ).problem
    assert problem.arms[1].tolist() == [1] + [0] * (len(problem.arms[1]) - 1)


@pytest.mark.parametrize("table", [3, [1, 2], pd.DataFrame({"title": ["a"]})])
def test_bad_table(table):
    with pytest.raises(ValueError, match="table: expected"):
        bf.instances.movielens(table=table)


def test_reading_needs_no_heavy_import():
    code = "import sys, bayes_feasible as bf; bf.datasets.read_films; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pymc", "arviz", "matplotlib"} & set(done.stdout.split())
