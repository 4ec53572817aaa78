"""Theory, executable: the paper's theorems and lemmas, each checked by computation.

Run all of it, or one piece, from the command line::

    python -m bayes_feasible.analysis.paper.theory [PIECE ...] [--quick] [--seed N]
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from tqdm import tqdm

from bayes_feasible.analysis.paper.claims import Claim
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


def claims(quick: bool, seed: int = 0, pieces: Sequence[str] = tuple(PIECES)) -> list[Claim]:
    """The lines of the table of claims that are about theorems and lemmas.

    Parameters
    ----------
    quick : bool
        Fewer runs and shorter ones: about a minute of computing instead of ten.
    seed : int
    pieces : sequence of names
        Which of `PIECES`; all by default.
    """
    unknown = [name for name in pieces if name not in PIECES]
    if unknown:
        raise ValueError(f"pieces: expected some of {list(PIECES)}, got {unknown[0]!r}")
    quiet = len(pieces) < 2 or not sys.stderr.isatty()
    bar = tqdm(pieces, desc="theory", unit="piece", disable=quiet)
    return [claim for name in bar for claim in PIECES[name](quick, seed)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the claims of the pieces that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m bayes_feasible.analysis.paper.theory")
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=", ".join(PIECES))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for name in options.pieces or PIECES:  # each is printed as soon as it is done
        try:
            found = claims(options.quick, options.seed, [name])
        except ValueError as error:
            parser.error(str(error))
        for claim in found:
            print(f"{claim.name}  [{claim.where}]")
            for line in (claim.what, claim.result, claim.verdict):
                print(f"    {line}", flush=True)


if __name__ == "__main__":
    main()
