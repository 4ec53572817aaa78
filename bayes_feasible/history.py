"""Pulls as they were recorded, one by one."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem


class History:
    """Which arms were pulled, in which order, and what they showed.

    `Posterior` keeps the sums that Gaussian noise of known scale asks for. Models with other
    noise need the pulls themselves.

    Parameters
    ----------
    problem : Problem
    arms : vector of arm indices, shape (pull,)
    rewards : vector, shape (pull,)
    costs : table, shape (pull, constraint)
        A vector will do for one constraint, and nothing for none.

    Examples
    --------
    >>> from bayes_feasible import Problem
    >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> history = History(problem, [0, 1, 0], [2.0, 1.0, 1.0], [0.1, 0.7, 0.2])
    >>> history.posterior().mean_reward
    array([1. , 0.5])
    """

    def __init__(self, problem: Problem, arms: Any, rewards: Any, costs: Any = None) -> None:
        if not isinstance(problem, Problem):
            raise ValueError(f"problem: expected a Problem, got {type(problem).__name__}")
        self.problem = problem
        arms = _check.indices("arms", arms, len(problem.arms), "arm")
        names = ("arms", "rewards", "costs")
        checked = _check.pulls(problem, arms, rewards, costs, names)
        self.arms: NDArray[np.int64] = checked[0]
        self.rewards: Array = checked[1]
        self.costs: Array = checked[2]

    def __len__(self) -> int:
        return self.arms.size

    def first(self, pulls: int) -> "History":
        """The history as it was after so many pulls."""
        pulls = _check.count("pulls", pulls, least=0)
        if pulls > len(self):
            raise ValueError(f"pulls: expected at most {len(self)}, got {pulls}")
        part = slice(pulls)
        return History(self.problem, self.arms[part], self.rewards[part], self.costs[part])

    def posterior(self) -> Posterior:
        """What the pulls say if the noise is Gaussian with the scales of the problem."""
        return Posterior.from_history(self.problem, self.arms, self.rewards, self.costs)

    def to_dataset(self) -> xr.Dataset:
        """`arm` (as an index), `reward` and `cost` over `pull` and `constraint`."""
        return xr.Dataset(
            {
                "arm": ("pull", self.arms),
                "reward": ("pull", self.rewards),
                "cost": (("pull", "constraint"), self.costs),
            },
            coords={
                "pull": np.arange(1, len(self) + 1),
                "constraint": self.problem.coords["constraint"],
            },
        )

    def __repr__(self) -> str:
        return f"History of {len(self)} pulls of {len(self.problem.arms)} arms"
