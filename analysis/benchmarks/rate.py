"""How fast the optimal rate is found, against the same problem in cvxpy with Clarabel.

Run with ``python -m bayes_feasible.analysis.benchmarks.rate``. Arms are uniform in the unit ball
and are the candidates too; the first feature is the reward, the last one the cost, with threshold
0.5. A cvxpy time is one call of ``problem.solve``: building the problem does not count, bringing
it to the solver's form does. Times are the least of some runs: what else the machine does only
adds to them.
"""

from functools import partial

import numpy as np

from bayes_feasible import Instance, Problem, optimal_rate
from bayes_feasible.analysis.benchmarks import cvxpy_forms
from bayes_feasible.analysis.benchmarks.timing import least_seconds

COMPARED = [(2, 50), (5, 200), (10, 100), (20, 20)]
LARGE = [(20, 1000), (50, 5000)]
SEED = 0


def instance(features: int, arms: int, seed: int = SEED) -> Instance:
    """Arms uniform in the unit ball, with a feasible one among them."""
    rng = np.random.default_rng([seed, features, arms])
    direction = rng.standard_normal((arms, features))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    vectors = direction * rng.random((arms, 1)) ** (1 / features)
    axes = np.eye(features)
    return Instance(Problem(vectors, 0.5), axes[0], axes[-1])


def compare(size: tuple[int, int]) -> tuple[float, list[float], float]:
    """Milliseconds that we take, those of an SDP and of an SOCP, and our certified gap."""
    case = instance(*size)
    ours = 1e3 * least_seconds(partial(optimal_rate, case), 25)
    built = (cvxpy_forms.sdp(case), cvxpy_forms.socp(case))
    forms = [1e3 * least_seconds(partial(cvxpy_forms.solve, form), 3) for form in built]
    return ours, forms, optimal_rate(case).gap


def main() -> None:
    """Print the table."""
    print(f"{'(d, K)':>12} {'ours ms':>9} {'SDP ms':>9} {'SOCP ms':>9} {'ratio':>7} {'gap':>8}")
    for size in COMPARED:
        ours, forms, gap = compare(size)
        ratio = min(forms) / ours
        print(f"{size!s:>12} {ours:9.2f} {forms[0]:9.0f} {forms[1]:9.0f} {ratio:7.0f} {gap:8.1e}")
    for size in LARGE:
        case = instance(*size)
        gap = optimal_rate(case).gap
        ours = 1e3 * least_seconds(partial(optimal_rate, case), 1)
        print(f"{size!s:>12} {ours:9.1f} {'':>27} {gap:8.1e}", flush=True)


if __name__ == "__main__":
    main()
