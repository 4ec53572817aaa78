"""How long the package takes to import, to compile on first use, and to start again."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from bayes_feasible.analysis.report.tables import text_table

RUNS = 5
FIRST_USE = """
import bayes_feasible as bf
instance = bf.instances.end_of_optimism()
problem = instance.problem
bf.optimal_rate(instance)
bf.g_optimal(problem.arms)
arms = [0, 1, 2, 3, 4]
for radius in (None, 5.0):
    problem = bf.Problem(problem.arms, problem.thresholds, parameter_radius=radius)
    posterior = bf.Posterior.from_history(problem, arms, *instance.pull(arms, seed=0))
    alternative = bf.Alternative(problem, 0)
    alternative.log_probability(posterior)
    alternative.sample(posterior, 10)
"""


def main() -> None:
    """Measure and print the table."""
    measured = {
        "python -c pass": _seconds("pass"),
        "import bayes_feasible": _seconds("import bayes_feasible"),
    }
    with tempfile.TemporaryDirectory() as cache:
        measured["first use of everything, nothing compiled"] = _seconds(FIRST_USE, cache, runs=1)
        measured["the same in the next process"] = _seconds(FIRST_USE, cache)
    rows = [[name, f"{wall:.2f}", f"{cpu:.2f}"] for name, (wall, cpu) in measured.items()]
    print(f"Start-up, whole processes, median of {RUNS} (the first use: one)")
    print(text_table(["process", "seconds", "of them computing"], rows))


def _seconds(code: str, cache: str | None = None, runs: int = RUNS) -> tuple[float, float]:
    """Median wall and processor time of a Python process that runs the code."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    wall, cpu = [], []
    for _ in range(runs):
        before, start = os.times(), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        wall.append(time.perf_counter() - start)
        after = os.times()
        cpu.append(sum(after[2:4]) - sum(before[2:4]))  # of child processes, user and system
    return statistics.median(wall), statistics.median(cpu)


if __name__ == "__main__":
    main()
