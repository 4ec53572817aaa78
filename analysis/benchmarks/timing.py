"""How long work takes, and the tables that say it."""

import time
from collections.abc import Callable, Sequence
from statistics import median

from bayes_feasible.analysis.report.tables import text_table


def seconds_of(work: Callable[[], object]) -> float:
    """How long a piece of work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_seconds(work: Callable[[], object], runs: int) -> float:
    """The median over runs."""
    return median(seconds_of(work) for _ in range(runs))


def least_seconds(work: Callable[[], object], runs: int) -> float:
    """The least over runs: what else the machine does only adds."""
    return min(seconds_of(work) for _ in range(runs))


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table under its title."""
    print(title)
    print(text_table(header, rows), end="\n\n", flush=True)
