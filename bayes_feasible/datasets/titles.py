"""Film titles of two sources as the same words."""

import re
import unicodedata

# As MovieLens moves them behind the title: "Shawshank Redemption, The (1994)".
ARTICLES = (
    "the", "a", "an", "le", "la", "les", "l'", "un", "une", "des", "der", "die", "das", "ein",
    "eine", "il", "lo", "gli", "i", "el", "los", "las", "o", "os", "as", "det", "den", "de", "en",
    "ett", "et", "het",
)  # fmt: skip
_YEAR = re.compile(r"\((\d{4})(?:[-–]\d{0,4})?\)\s*$")
_BEHIND = re.compile(rf"^(.*), ({'|'.join(map(re.escape, ARTICLES))})$", re.IGNORECASE)
_BRACKETS = re.compile(r"\s*\([^()]*\)")
_WORDS = re.compile(r"[^\W_]+")


def split_year(title: str) -> tuple[str, int | None]:
    """A MovieLens title without its year, and the year.

    >>> split_year("Shawshank Redemption, The (1994)")
    ('Shawshank Redemption, The', 1994)
    """
    found = _YEAR.search(title)
    if found is None:
        return title.strip(), None
    return title[: found.start()].strip(), int(found.group(1))


def spellings(title: str) -> set[str]:
    """What a title without its year may be called elsewhere, as plain words.

    The title before any brackets, and what the brackets hold (other names of the film).

    >>> sorted(spellings("City of Lost Children, The (Cité des enfants perdus, La)"))
    ['la cite des enfants perdus', 'the city of lost children']
    """
    names = [_BRACKETS.sub("", title), *re.findall(r"\(([^()]*)\)", title)]
    names = [re.sub(r"^a\.?k\.?a\.?\s+", "", name.strip(), flags=re.IGNORECASE) for name in names]
    return {words for name in names if (words := plain_words(name))}


def plain_words(name: str) -> str:
    """Lower case, no accents, no punctuation, the article in front.

    >>> plain_words("Amélie, Le")
    'le amelie'
    """
    behind = _BEHIND.match(name.strip())
    if behind is not None:
        name = f"{behind.group(2)} {behind.group(1)}"
    name = name.replace("&", " and ")
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    bare = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return " ".join(_WORDS.findall(bare.replace("'", "").replace("’", "")))
