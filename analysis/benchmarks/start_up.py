"""How long the package takes to import, and to answer first, with nothing compiled yet.

Run with ``python -m bayes_feasible.analysis.benchmarks.start_up``. Each figure is the computing
time (user and system) of whole processes: the first with empty caches of compiled code, then those
that find them filled. The aims are for the first.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bayes_feasible.analysis.report.tables import text_table

RUNS = 5
README = """
import bayes_feasible as bf
instance = bf.instances.end_of_optimism(alpha=0.1)
rate = bf.optimal_rate(instance)
rate.allocation
arms = [0, 2] * 2000
rewards, costs = instance.pull(arms, seed=1)
posterior = bf.Posterior.from_history(instance.problem, arms, rewards, costs)
wrong = bf.Alternative(instance.problem, posterior.best())
wrong.log_probability(posterior).value
wrong.sample(posterior, 1000, seed=0)
"""
BOUNDED = README.replace("arms =", "instance.problem.parameter_radius = (2.0, 2.0)\narms =")
SIMULATE = """
import bayes_feasible as bf
bf.simulate(bf.instances.end_of_optimism(), {"BLFAIPS": bf.BLFAIPS}, 1000, 2, executor=False)
"""
COMMAND = "from bayes_feasible.cli import main; raise SystemExit(main({!r}))"
TRIAL = {
    "trial new": ["trial", "new", "new.trial", "--instance", "end_of_optimism"],
    "trial ask": ["trial", "ask", "new.trial"],
    "trial tell": ["trial", "tell", "new.trial", "0", "1.0", "0.1"],
    "trial status": ["trial", "status", "new.trial"],
}
AIMS = {"ten lines of the README": 10.0, "one rule's first simulate": 20.0} | dict.fromkeys(
    TRIAL, 3.0
)


def main() -> None:
    """Measure and print the tables."""
    print(f"Start-up: seconds of computing of whole processes, median of {RUNS}")
    quick = [[f"`{code}`", f"{median_of(code):.2f}"] for code in ("pass", "import bayes_feasible")]
    print(text_table(["process", "seconds"], quick), end="\n\n")
    print("First use, with nothing compiled, beside the same once that is done")
    print(text_table(["what", "first", "then", "ratio", "aim"], _first_uses()))


def _first_uses() -> list[list[str]]:
    rows = []
    scripts = {
        "ten lines of the README": README,
        "the same, bounded parameters": BOUNDED,
        "one rule's first simulate": SIMULATE,
    } | {name: COMMAND.format(arguments) for name, arguments in TRIAL.items()}
    with tempfile.TemporaryDirectory() as folder:
        for name, code in scripts.items():
            cache = Path(folder, name)
            first = seconds_of(code, folder, cache)
            if name.startswith("trial new"):
                Path(folder, "new.trial").rename(Path(folder, "old.trial"))
            then = seconds_of(code, folder, cache)
            aim = f"{AIMS[name]:.0f}" if name in AIMS else ""
            rows.append([name, f"{first:.2f}", f"{then:.2f}", f"{first / then:.1f}", aim])
    return rows


def median_of(code: str) -> float:
    """Seconds of computing of a process that runs the code, the median of some."""
    with tempfile.TemporaryDirectory() as folder:
        return statistics.median(seconds_of(code, folder, Path(folder)) for _ in range(RUNS))


def seconds_of(code: str, folder: str, cache: Path) -> float:
    """Processor time of a Python process that runs the code."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(cache / "numba"),
        "PYTENSOR_FLAGS": f"base_compiledir={cache / 'pytensor'}",
    }
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, cwd=folder,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])  # of child processes, user and system


if __name__ == "__main__":
    main()
