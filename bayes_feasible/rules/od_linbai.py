"""OD-LinBAI: G-optimal designs on the survivors, a logarithm of the dimension phases.

J. Yang and V. Y. F. Tan, Minimax optimal fixed-budget best arm identification in linear bandits,
NeurIPS 2022. With the constrained score where there are constraints.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.phases import Phased, design_on, phase_means, rank


class ODLinBAI(Phased):
    r"""OD-LinBAI: :math:`\lceil \log_2 d \rceil` phases, a G-optimal design in each.

    Phase :math:`r` pulls each survivor :math:`\lceil \pi(x) m \rceil` times, with the G-optimal
    design :math:`\pi` in the survivors' span and :math:`m` such that all phases fit the horizon,
    and keeps the :math:`\lceil d / 2^r \rceil` that are best by least squares on the phase.
    Candidates that look infeasible go first.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`. The arms are the candidates.
    horizon : int
        The number of pulls; enough for a phase to pull every arm of its design.

    Attributes
    ----------
    survivors : indices of the candidates that are left

    References
    ----------
    Yang and Tan, NeurIPS 2022.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.ODLinBAI(bf.Problem([[1, 0], [0, 1]]), horizon=10)
    >>> rule.ask(8).tolist()
    [0, 1, 0, 1, 0, 1, 0, 1]
    """

    def _configure(self, problem: Problem | Instance) -> Any:
        options = super()._configure(problem)
        if self._length() <= 0:
            raise ValueError(f"horizon: {self.horizon} pulls are too few for a phase of ODLinBAI")
        return options

    def _phases(self) -> int:
        dimension = self.problem.rank
        if dimension == 1:  # one phase tells all that there is to tell
            return int(len(self.problem.arms) > 1)
        return math.ceil(math.log2(dimension))

    def _length(self) -> float:
        """Pulls of a phase before they are rounded up."""
        arms, d, phases = len(self.problem.arms), self.problem.rank, max(self._phases(), 1)
        rounded = min(arms, d * (d + 1) // 2) + sum(math.ceil(d / 2**r) for r in range(1, phases))
        return (self.horizon - rounded) / phases

    def _pulls(self, phase: int, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        shares = design_on(self, alive)
        return np.ceil(shares * self._length() - 1e-9).astype(np.int64)

    def _ranked(self) -> NDArray[np.int64]:
        return rank(self, phase_means(self))

    def _keep(self, phase: int, alive: NDArray[np.int64]) -> int:
        return min(alive.size, math.ceil(self.problem.rank / 2**phase))
