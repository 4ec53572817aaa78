r"""Successive Rejects, with the constrained score: the worst candidate goes after each phase.

J.-Y. Audibert, S. Bubeck and R. Munos, Best arm identification in multi-armed bandits, COLT 2010.
With constraints as F. Z. Faizal and J. Nair, Constrained pure exploration multi-armed bandits with
a fixed budget, 2022: what looks infeasible goes before what looks feasible.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bayes_feasible.rules.phases import Phased


class SuccessiveRejects(Phased):
    r"""Successive Rejects: :math:`K - 1` phases, after each of which the worst candidate goes.

    In phase :math:`k` every survivor is pulled until it has :math:`n_k = \lceil (T - K) /
    (\overline{\log} K \, (K + 1 - k)) \rceil` pulls, with :math:`\overline{\log} K = 1/2 +
    \sum_{i=2}^K 1/i`. Candidates that look infeasible go first, the one with the largest excess
    (in units of the noise) before the others; then the one of lowest reward.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`. The arms are the candidates.
    horizon : int
        The number of pulls, at least one an arm.

    Attributes
    ----------
    survivors : indices of the candidates that are left

    References
    ----------
    Audibert, Bubeck and Munos, COLT 2010; Faizal and Nair, arXiv 2211.14768.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.SuccessiveRejects(bf.Problem([[1, 0], [0, 1]]), horizon=10)
    >>> rule.ask(8).tolist()
    [0, 1, 0, 1, 0, 1, 0, 1]
    """

    def _phases(self) -> int:
        return len(self.problem.arms) - 1

    def _pulls(self, phase: int, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        pulls = np.zeros(len(self.problem.arms), dtype=np.int64)
        pulls[alive] = self._length(phase) - self._length(phase - 1)
        return pulls

    def _length(self, phase: int) -> int:
        """Pulls of each survivor up to the end of a phase."""
        arms = len(self.problem.arms)
        if phase == 0:
            return 0
        log = 0.5 + sum(1.0 / i for i in range(2, arms + 1))
        return math.ceil((self.horizon - arms) / (log * (arms + 1 - phase)) - 1e-12)

    def _keep(self, phase: int, alive: NDArray[np.int64]) -> int:
        return alive.size - 1
