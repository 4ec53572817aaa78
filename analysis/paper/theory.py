"""Theory, executable: the paper's theorems and lemmas, each checked by computation.

Run all of it, or one piece, from the command line::

    python -m bayes_feasible.analysis.paper.theory [PIECE ...] [--quick] [--seed N]
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import xarray as xr

from bayes_feasible.analysis.paper.claims import HEADINGS, WORDS, Claim
from bayes_feasible.analysis.paper.runs import Piece, cut
from bayes_feasible.analysis.paper.theory_convergence import claim_convergence
from bayes_feasible.analysis.paper.theory_decay import claim_decay, claim_frequency
from bayes_feasible.analysis.paper.theory_events import claim_confidence, claim_identification
from bayes_feasible.analysis.paper.theory_rate import claim_bound, claim_two_forms
from bayes_feasible.analysis.paper.theory_regret import claim_hedge, claim_jensen, claim_terms
from bayes_feasible.analysis.paper.theory_tails import claim_laplace, claim_tails

PIECES: dict[str, Callable[[bool, int], list[Claim]]] = {
    "bound": claim_bound,  # Theorem 4.1
    "decay": claim_decay,
    "frequency": claim_frequency,
    "two-forms": claim_two_forms,  # Theorem 4.2
    "convergence": claim_convergence,  # Theorem 4.3
    "tails": claim_tails,  # Lemmas B.1 to B.5
    "laplace": claim_laplace,  # Lemma G.3
    "confidence": claim_confidence,  # Lemmas E.1 to E.3
    "identification": claim_identification,  # Lemmas E.4 to E.6
    "regret": claim_terms,  # Lemmas F.1 to F.9
    "hedge": claim_hedge,  # Lemma F.4
    "jensen": claim_jensen,  # Lemma F.8
}
MODULE = "bayes_feasible.analysis.paper.theory"
QUICK = 100  # repetitions of the experiments up to which the quick version will do


def prove(quick: bool, seed: int, name: str) -> list[Claim]:
    """Run one of `PIECES`; its rows of the table of claims.

    The quick version has fewer and shorter runs: about a minute of computing instead of ten.
    """
    if name not in PIECES:
        raise ValueError(f"piece: expected one of {', '.join(PIECES)}, got {name!r}")
    command = f"python -m {MODULE} {name} --seed {seed}" + (" --quick" if quick else "")
    return [replace(claim, command=command) for claim in PIECES[name](quick, seed)]


def pieces(repetitions: int) -> list[Piece]:
    """Cut all of it into pieces of the report; with few repetitions the quick version."""
    quick = repetitions <= QUICK
    stem = f"theory_{'quick' if quick else 'full'}"
    return [
        cut(f"{stem}_{name}", [name, quick, sources()], [partial(prove, quick, 0, name)],
            record=_dataset)
        for name in PIECES
    ]  # fmt: skip


def sources() -> str:
    """Hash these modules, which hold the settings of every piece, and the words of the claims."""
    paths = [*sorted(Path(__file__).parent.glob("theory*.py")), WORDS]
    return sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _dataset(rows: Sequence[Claim]) -> xr.Dataset:
    return xr.Dataset({field: ("claim", [getattr(r, field) for r in rows]) for field in HEADINGS})


def claims(data: Mapping[str, xr.Dataset]) -> list[Claim]:
    """Read the rows of all pieces, each with a command of its own."""
    return [
        Claim(*map(str, row))
        for found in data.values()
        for row in zip(*(found[field].values for field in HEADINGS), strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the claims of the pieces that are asked for."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=", ".join(PIECES))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for name in options.pieces or PIECES:  # each is printed as soon as it is done
        try:
            found = prove(options.quick, options.seed, name)
        except ValueError as error:
            parser.error(str(error))
        for one in found:
            lines = (f"{one.name}  [{one.where}]", one.what, one.result, one.verdict)
            print("\n    ".join(lines), flush=True)


if __name__ == "__main__":
    main()
