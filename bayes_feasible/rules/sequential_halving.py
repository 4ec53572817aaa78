"""Sequential Halving, with the constrained score: the worse half goes after each phase.

Z. Karnin, T. Koren and O. Somekh, Almost optimal exploration in multi-armed bandits, ICML 2013.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bayes_feasible.rules.phases import Phased


class SequentialHalving(Phased):
    r"""Sequential Halving: :math:`\lceil \log_2 K \rceil` phases of equal length.

    In each the survivors get the same number of pulls, :math:`\lfloor T / (|S| \lceil \log_2 K
    \rceil) \rfloor`, and the better half of them, rounded up, is kept. Candidates that look
    infeasible go first.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`. The arms are the candidates.
    horizon : int
        The number of pulls, at least one an arm in the first phase.

    Attributes
    ----------
    survivors : indices of the candidates that are left

    References
    ----------
    Karnin, Koren and Somekh, ICML 2013.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.SequentialHalving(bf.Problem([[1, 0], [0, 1]]), horizon=6)
    >>> rule.ask(6).tolist()
    [0, 1, 0, 1, 0, 1]
    """

    def _phases(self) -> int:
        return math.ceil(math.log2(len(self.problem.arms)))

    def _pulls(self, phase: int, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        pulls = np.zeros(len(self.problem.arms), dtype=np.int64)
        pulls[alive] = max(1, self.horizon // (alive.size * self._phases()))
        return pulls

    def _keep(self, phase: int, alive: NDArray[np.int64]) -> int:
        return math.ceil(alive.size / 2)
