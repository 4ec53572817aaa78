"""Arguments that say when a trial may end, and which arms may be pulled."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_feasible.safety import Safety
    from bayes_feasible.stopping.stop import Stop


def add_clauses(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    stop = parser.add_argument_group("when it may end; the first that applies ends it")
    stop.add_argument(
        "--stop-error", type=float, metavar="P", help="P(error) of the answer is at most this"
    )
    stop.add_argument(
        "--stop-delta",
        type=float,
        metavar="P",
        help="the evidence is such that, whatever the truth, an answer is wrong at most so often",
    )
    stop.add_argument(
        "--stop-epsilon",
        nargs="+",
        metavar="E",
        help="an answer is wrong only by more than this: a number, or OUTCOME=NUMBER",
    )
    stop.add_argument(
        "--stop-futility",
        type=float,
        metavar="P",
        help="the pulls left change the answer with at most this probability",
    )
    stop.add_argument("--stop-pulls", type=int, metavar="N", help="so many pulls: the budget")
    safety = parser.add_argument_group("which arms may be asked for")
    safety.add_argument("--allowed", nargs="+", metavar="ARM", help="only these")
    safety.add_argument(
        "--order",
        nargs="+",
        metavar="ARM",
        help="no skipping: each only after --before pulls of the one before it",
    )
    safety.add_argument(
        "--before", type=int, default=1, metavar="N", help="pulls of the one before it (1)"
    )
    safety.add_argument(
        "--risk", type=float, metavar="P", help="only arms that exceed a limit at most so probably"
    )
    safety.add_argument(
        "--cohort", type=int, default=1, metavar="N", help="so many pulls of an arm at a time (1)"
    )


def stop_of(options: argparse.Namespace) -> "Stop | None":
    """The stop that the arguments describe, if any."""
    names = ("error", "delta", "futility", "pulls")
    given = {name: getattr(options, f"stop_{name}") for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    if options.stop_epsilon is not None:
        given["epsilon"] = _epsilon(options.stop_epsilon)
    if not given:
        return None
    from bayes_feasible.stopping.stop import Stop

    return Stop(**given)


def _epsilon(texts: list[str]) -> float | dict[str, float]:
    pairs = [text.rpartition("=") for text in texts]
    try:
        if len(pairs) == 1 and not pairs[0][1]:
            return float(texts[0])
        each = {name: float(value) for name, equals, value in pairs if equals}
        if len(each) < len(texts):
            raise ValueError
        return each
    except ValueError:
        raise ValueError(
            f"--stop-epsilon: expected a number, or OUTCOME=NUMBER for some outcomes, "
            f"got {' '.join(texts)}"
        ) from None


def safety_of(options: argparse.Namespace) -> "Safety | None":
    """The safety that the arguments describe, if any."""
    from bayes_feasible.safety import Safety

    safety = Safety(options.allowed, options.order, options.before, options.risk, options.cohort)
    return None if safety == Safety() else safety
