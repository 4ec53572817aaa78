"""Run the paper's experiments and theory, and write figures, numbers and the table of claims."""

import os

# Before NumPy is loaded, here and in the worker processes: the matrices are small, and a thread
# for each core in each process would only get in the way.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import argparse  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    from bayes_feasible._interrupt import heeded
    from bayes_feasible.analysis.paper.experiments import PARTS, REPETITIONS, report

    parser = argparse.ArgumentParser(
        prog="python -m bayes_feasible.analysis.paper",
        description="Put the paper on trial: every experiment and theorem, run and reported. "
        "Numbers already in the folder that have the same settings are kept.",
    )
    add = parser.add_argument
    add("--out", type=Path, default=Path("paper"), metavar="DIR", help="folder to write to (paper)")
    add("--repetitions", type=int, default=REPETITIONS, metavar="N",
        help=f"runs of each rule in each setting ({REPETITIONS})")  # fmt: skip
    add("--only", action="append", choices=PARTS, metavar="NAME",
        help=f"one part, may be repeated: {', '.join(PARTS)}")  # fmt: skip
    add("--workers", type=int, metavar="N",
        help="processes (one for each core); 0: none of their own")  # fmt: skip
    options = parser.parse_args(arguments)
    only, start = options.only or tuple(PARTS), time.perf_counter()
    say = partial(print, flush=True)
    try:
        with heeded():
            claims = report(
                options.out, options.repetitions, only, workers=options.workers, say=say
            )
    except (ValueError, OSError) as error:
        print(f"paper: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: what is finished is kept; the same command goes on", file=sys.stderr)
        return 130
    seconds = time.perf_counter() - start
    print(f"{len(claims)} claims in {options.out / 'claims.md'}, {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
