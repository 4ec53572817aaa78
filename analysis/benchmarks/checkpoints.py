"""Twenty checkpoints of a study beside one: the data change, and nothing is compiled again."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from bayes_feasible import Alternative, History, instances, models
from bayes_feasible.analysis.benchmarks.timing import seconds_of, show
from bayes_feasible.analysis.study.curves import posterior_at_truth

CHECKPOINTS = 20
FIRST, LAST = 100, 2000  # pulls
DRAWS = 250  # of each of four chains, and as many to tune


def main() -> None:
    """Measure and print the table."""
    rows = []
    for way in WAYS:
        _seconds(way, 1)  # fills the caches on disk
        one, all_of_them = _seconds(way, 1), _seconds(way, CHECKPOINTS)
        rows.append([way, f"{one:.1f}", f"{all_of_them:.1f}", f"{all_of_them / one:.2f}"])
    title = (
        f"{CHECKPOINTS} checkpoints of a study beside one, each figure from a process of its own"
    )
    show(title, ["way", "seconds for one", f"for {CHECKPOINTS}", "ratio"], rows)


def visit(way: str, checkpoints: int) -> float:
    """Seconds from nothing, for so many checkpoints."""
    times = np.linspace(FIRST, LAST, CHECKPOINTS).astype(int)[:checkpoints]
    return seconds_of(partial(WAYS[way], times.tolist()))


def _logistic(times: Iterable[int]) -> None:
    """The probability of error of a model of successes and failures, by local expansions."""
    from bayes_feasible.analysis.evidence.evidence import log_error

    instance = instances.end_of_optimism(alpha=0.3)
    arms = np.arange(LAST) % len(instance.problem.arms)
    pulls = instance.pull(arms, seed=1, noise="logistic")
    history = History(instance.problem, arms, *pulls)
    model = models.logistic(history.first(FIRST))
    for pulled in times:
        models.set_data(model, history.first(pulled))
        log_error(model, Alternative(instance.problem, instance.best), draws=5000)


def _components(sampler: str, times: Iterable[int]) -> None:
    """NUTS on the events of the alternative set."""
    from bayes_feasible.analysis.samplers.sample import sample_alternative

    instance = instances.end_of_optimism(alpha=0.3)
    alternative = Alternative(instance.problem, instance.best)
    for pulled in times:
        counts = np.full(len(instance.problem.arms), pulled // len(instance.problem.arms))
        posterior = posterior_at_truth(instance, counts)
        sample_alternative(posterior, alternative, sampler, draws=DRAWS, tune=DRAWS, progress=False)


WAYS: dict[str, Callable[[Iterable[int]], None]] = {
    "log P of a logistic model": _logistic,
    "NUTS (nutpie), one event at a time": partial(_components, "nutpie_component"),
    "NUTS (PyMC), one event at a time": partial(_components, "nuts_component"),
}


def _seconds(way: str, checkpoints: int) -> float:
    module = "bayes_feasible.analysis.benchmarks.checkpoints"
    code = f"from {module} import visit; print(visit({way!r}, {checkpoints}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
