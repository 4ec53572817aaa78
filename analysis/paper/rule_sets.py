"""The rules that the paper compares, under the names of the figures and the table."""

from collections.abc import Callable
from functools import partial

from bayes_feasible.rules.allocation import GOptimal, Oracle, Uniform
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.best_response import BestResponse
from bayes_feasible.rules.blfaips import BLFAIPS
from bayes_feasible.rules.thompson import LinearThompson
from bayes_feasible.rules.top_two import TopTwo

PAPER_ETA, TRUE_POSTERIOR = "BLFAIPS", "BLFAIPS (η = 1)"
HEROES = (PAPER_ETA, TRUE_POSTERIOR)
THOMPSON, TOP_TWO, TUNED = "LinTS", "Top-Two (β = 0.5)", "Top-Two (optimal β)"
RIVALS = (THOMPSON, TOP_TWO, TUNED)

RULES: dict[str, Callable[..., Rule]] = {
    PAPER_ETA: BLFAIPS,
    TRUE_POSTERIOR: partial(BLFAIPS, eta=1.0),
    THOMPSON: LinearThompson,
    TOP_TWO: partial(TopTwo, beta=0.5),
    TUNED: partial(TopTwo, beta="optimal"),
    "Oracle": Oracle,
    "Uniform": Uniform,
    "G-optimal": GOptimal,
    "BestResponse": BestResponse,
}

TIMES = (10, 20, 50, *range(100, 2001, 100))
