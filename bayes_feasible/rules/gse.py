"""GSE: successive elimination with G-optimal designs, in phases of equal length.

M. Azizi, B. Kveton and M. Ghavamzadeh, Fixed-budget best-arm identification in structured
bandits, IJCAI 2022. With the constrained score where there are constraints.
"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.phases import Phased, design_on, phase_means, rank
from bayes_feasible.safety import whole_pulls


class GSE(Phased):
    r"""GSE: :math:`\lceil \log_\eta K \rceil` phases of equal length, a G-optimal design in each.

    After each the best :math:`1/\eta` of the survivors, rounded up, by least squares on the
    phase, are kept. Candidates that look infeasible go first.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`. The arms are the candidates.
    horizon : int
        The number of pulls.
    elimination : float
        :math:`\eta`, above 1.

    Attributes
    ----------
    survivors : indices of the candidates that are left

    References
    ----------
    Azizi, Kveton and Ghavamzadeh, IJCAI 2022.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.GSE(bf.Problem([[1, 0], [0, 1]]), horizon=6)
    >>> rule.ask(6).tolist()
    [0, 1, 0, 1, 0, 1]
    """

    settings: ClassVar[tuple[str, ...]] = ("horizon", "elimination")

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        horizon: int,
        elimination: float = 2.0,
        recommendation: str = "mean",
    ) -> None:
        self.elimination = _check.positive("elimination", elimination)
        if not 1.01 <= self.elimination < math.inf:
            raise ValueError(f"elimination: expected a number of 1.01 or more, got {elimination!r}")
        super().__init__(problem, seed, horizon=horizon, recommendation=recommendation)

    def _phases(self) -> int:
        arms, phases = len(self.problem.arms), 0
        while arms > 1:  # as the survivors are rounded up, it may take one more than the logarithm
            arms = self._left(arms)
            phases += 1
        return phases

    def _left(self, arms: int) -> int:
        return min(arms - 1, math.ceil(arms / self.elimination))

    def _pulls(self, phase: int, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        length = max(1, self.horizon // self._phases())
        return whole_pulls(design_on(self, alive), length)

    def _ranked(self) -> NDArray[np.int64]:
        return rank(self, phase_means(self))

    def _keep(self, phase: int, alive: NDArray[np.int64]) -> int:
        return self._left(alive.size)
