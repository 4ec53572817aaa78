"""A large study beside a small one: `python -m bayes_feasible.analysis.benchmarks.study`.

Time and memory of 10^8 rounds of BLFAIPS with verdict, figures and report, and of the tenth of it.
"""

import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bayes_feasible.analysis.benchmarks.timing import seconds_of, show

HORIZON = 100_000
REPLICATES = (100, 1000)
SPECIFICATION = """
horizon = {horizon}
replicates = {replicates}
rules = ["BLFAIPS"]
instance = {{ name = "end_of_optimism", alpha = 0.1 }}
"""


def main() -> None:
    """Measure and print the table."""
    rows = []
    for replicates in REPLICATES:
        seconds, largest = _run(replicates)
        rounds = HORIZON * replicates
        rows.append(
            [f"{rounds:.0e}", f"{seconds:.0f}", f"{1e6 * seconds / rounds:.2f}", f"{largest:.0f}"]
        )
    title = "A study of BLFAIPS: simulation on all cores, verdict, figures and report"
    show(title, ["rounds", "seconds", "µs a round", "MB of the largest process"], rows)


def _run(replicates: int) -> tuple[float, float]:
    """Seconds of a study, and the most memory that any process had so far."""
    with tempfile.TemporaryDirectory() as folder:
        specification = Path(folder, "study.toml")
        specification.write_text(SPECIFICATION.format(horizon=HORIZON, replicates=replicates))
        command = [sys.executable, "-m", "bayes_feasible.cli", "study", str(specification)]
        command += ["--out", str(Path(folder, "study")), "--quiet"]
        seconds = seconds_of(partial(subprocess.run, command, check=True))
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


if __name__ == "__main__":
    main()
