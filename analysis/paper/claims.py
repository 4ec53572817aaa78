"""The table of claims: what the paper says, what was run, what came out, and the verdict."""

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_feasible.analysis.paper import quote
from bayes_feasible.files.atomic import write_bytes

WORDS = Path(__file__).with_name("claims.toml")
FILTERS = (quote.largest, quote.over_time, quote.quantile, quote.quoted, quote.share, quote.to)

NOTE = """\
A number after ± is one standard error. Rules meet the same noise, so differences between rules
are taken run by run, and their standard error is that of the mean difference; in averages over
instances the unit is the instance. A difference counts as clear from three standard errors on.
"By one draw" is the paper's recommendation, the best feasible candidate of one posterior draw; to
be less noisy, each run's score is the share of 16 such draws that are right. "By the means" is the
best feasible candidate of the posterior means; "over the run" averages over the rounds. Where all n
runs have the same score their spread is 0, and 1/n stands for the standard error. Frequencies
have the exact interval of Clopper and Pearson, quantiles that of order statistics, and of a largest
value it is said which quantile it exceeds. Numbers said to be exact are derived, not sampled.
"""

HEADINGS = {
    "name": "Claim",
    "where": "Where in the paper",
    "what": "What was run",
    "result": "Result",
    "verdict": "Verdict",
    "command": "Command",
}


@dataclass(frozen=True)
class Claim:
    """One row of the table; every field is a sentence or two for a reader."""

    name: str  # the claim, in short
    where: str  # section, theorem, lemma, figure or line of the paper
    what: str  # was computed to judge it
    result: str  # the numbers, each with its standard error or said to be exact
    verdict: str  # "holds", "holds in part", "does not hold" or "cannot be told"; then why
    command: str = ""  # to type to get the numbers again; the report fills it in

    def __post_init__(self) -> None:
        for field, value in asdict(self).items():
            if not isinstance(value, str):
                raise TypeError(f"{field}: expected text, got {value!r}")
            if field != "command" and not value.strip():
                raise ValueError(f"{field}: expected some text, got {value!r}")


@cache
def words() -> dict[str, Any]:
    """Read the words of all claims."""
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.filters |= {filter.__name__: filter for filter in FILTERS}
    return environment


def fill(text: str, **numbers: Any) -> str:
    """Fill in a text of `claims.toml`."""
    return _environment().from_string(text).render(numbers)


def state(claim: str, answer: Any = True, **numbers: Any) -> Claim:
    """Fill in the words that `claims.toml` has for a claim with the numbers they speak of.

    A result and a verdict that have no words there are numbers of these names. The answer says
    which verdict: whether it "holds" or "fails", or the name of another.

    >>> state("indicators", False, most=0.0).result
    'the minimum is 0 under every allocation (exact)'
    """
    texts = {"result": "{{ result }}", "holds": "{{ verdict }}"} | words()[claim]
    verdict = answer if isinstance(answer, str) else "holds" if answer else "fails"
    names = ("name", "where", "what", "result", verdict)
    return Claim(*(fill(texts[name], **numbers) for name in names))


def markdown(claims: Iterable[Claim]) -> str:
    """Format the table in Markdown."""
    lines = ["| " + " | ".join(HEADINGS.values()) + " |", "|" + " --- |" * len(HEADINGS)]
    for claim in claims:
        cells = [getattr(claim, name).replace("|", "\\|").replace("\n", " ") for name in HEADINGS]
        cells[-1] = f"`{cells[-1]}`"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def to_json(claims: Iterable[Claim]) -> str:
    """Format the table as a JSON list; `from_json` reads it."""
    return json.dumps([asdict(claim) for claim in claims], indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> list[Claim]:
    """Read the claims that `to_json` wrote."""
    return [Claim(**row) for row in json.loads(text)]


def write(claims: Sequence[Claim], folder: Path) -> list[Path]:
    """Write `claims.md`, `claims.csv` and `claims.json`; each appears whole or not at all."""
    texts = {
        "claims.md": f"# The claims of the paper, on trial\n\n{NOTE}\n{markdown(claims)}",
        "claims.csv": pd.DataFrame(claims, columns=list(HEADINGS)).to_csv(index=False),
        "claims.json": to_json(claims),
    }
    for name, text in texts.items():
        write_bytes(folder / name, text.encode())
    return [folder / name for name in texts]
