"""The Gaussian posterior of the reward and cost parameters."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import labelled, unrestricted
from bayes_feasible.problem import Problem
from bayes_feasible.span import Factor, least_squares, unwhiten, whiten

if TYPE_CHECKING:
    import xarray as xr


class Posterior:
    r"""What the pulls so far say about the parameters.

    With :math:`V = I + \sum_t x_t x_t^\top`,

    .. math:: \theta_r \sim N(V^{-1} \sum_t x_t y_t, \; \sigma^2 V^{-1}), \qquad
              \theta_{c,j} \sim N(V^{-1} \sum_t x_t c_{t,j}, \; \gamma_j^2 V^{-1}).

    The state is what can be added up without loss: how often each arm was pulled (integers) and
    the sums of what it showed. Nothing is updated in place that rounding could wear down, so ten
    million updates leave the posterior as sound as one, and the order of the pulls does not
    matter. Means and covariance come, when asked for, from a pivoted QR factorisation of the
    weighted arms (rows by length, longest first), which never squares their condition; it works
    in the span of the arms, outside of which the prior still stands.

    Parameters
    ----------
    problem : Problem
        The posterior before the first pull is the prior.

    Examples
    --------
    >>> from bayes_feasible import Posterior, Problem
    >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds=0.5))
    >>> posterior.update(0, reward=2.0, cost=0.1)
    >>> posterior.theta_reward
    array([1., 0.])
    """

    def __init__(self, problem: Problem) -> None:
        _check.kind("problem", problem, Problem)
        self.problem = problem
        arms, constraints = len(problem.arms), problem.thresholds.size
        self.counts: NDArray[np.int64] = np.zeros(arms, dtype=np.int64)
        self.reward_sums: Array = np.zeros(arms)
        self.cost_sums: Array = np.zeros((arms, constraints))
        self._factors: tuple[Factor, Array] | None = None

    @classmethod
    def from_history(cls, problem: Problem, arms: Any, rewards: Any, costs: Any = None) -> Self:
        """The posterior after a recorded history.

        Parameters
        ----------
        problem : Problem
        arms : vector of arms by index or name, shape (pull,)
        rewards : vector, shape (pull,)
        costs : table, shape (pull, constraint)
            A vector will do for one constraint, and nothing for none.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
        >>> Posterior.from_history(problem, [0, 1, 0], [2.0, 1.0, 1.0], [0.1, 0.7, 0.2])
        Posterior after 3 pulls of 2 arms: best '0'
        """
        posterior = cls(problem)
        arms = _check.arms(problem, arms)
        names = ("arms", "rewards", "costs")
        posterior._add(*_check.pulls(problem, arms, rewards, costs, names))
        return posterior

    @classmethod
    def from_sums(cls, problem: Problem, counts: Any, reward_sums: Any, cost_sums: Any) -> Self:
        """The posterior from how often each arm was pulled and the sums of what it showed.

        Parameters
        ----------
        problem : Problem
        counts : whole numbers, shape (arm,)
        reward_sums : shape (arm,)
        cost_sums : shape (arm, constraint)
            All in the order of the arms, or by their names.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
        >>> Posterior.from_sums(problem, [2, 1], [3.0, 1.0], [[0.3], [0.7]]).theta_reward
        array([1. , 0.5])
        """
        posterior = cls(problem)
        arms = problem.coords["arm"]
        number = _check.numbers("counts", _check.by_name("counts", counts, arms, "arm"))
        if number.shape != posterior.counts.shape:
            raise ValueError(f"counts: expected one an arm, got shape {number.shape}")
        if number.min() < 0 or np.any(number != np.floor(number)):
            raise ValueError("counts: expected whole numbers that are not negative")
        if number.max() > _check.LARGEST_COUNT:
            raise ValueError(f"counts: {number.max():g} pulls are too many to be counted exactly")
        sums = _check.by_name("reward_sums", reward_sums, arms, "arm")
        rewards = _check.numbers("reward_sums", sums)
        if rewards.shape != posterior.reward_sums.shape:
            raise ValueError(f"reward_sums: expected one an arm, got shape {rewards.shape}")
        cost_sums = _check.costs_by_arm("cost_sums", cost_sums, problem)
        costs = _check.costs("cost_sums", cost_sums, len(arms), problem.coords["constraint"])
        if np.any((number == 0) & ((rewards != 0) | np.any(costs != 0, axis=1))):
            raise ValueError("counts: an arm with a sum that is not 0 was never pulled")
        posterior.counts[:], posterior.reward_sums[:], posterior.cost_sums[:] = (
            number,
            rewards,
            costs,
        )
        return posterior

    def update(self, arm: Any, reward: Any, cost: Any = None) -> None:
        """Take in one pull, or many at once where vectors are given.

        Parameters
        ----------
        arm : index or name of an arm, or a vector of them
        reward : number, or a vector
        cost : one number for each constraint, or a table (pull, constraint)
            In the order of the constraints, or by their names (dict, Series, DataFrame).

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds=[0.5, 2.0]))
        >>> posterior.update(0, 2.0, [0.1, 1.5])
        >>> posterior.update([0, 1], [1.0, 1.0], [[0.2, 1.4], [0.7, 0.3]])
        >>> posterior.counts
        array([2, 1])
        """
        self._add(*_check.pulls(self.problem, arm, reward, cost))

    def _add(self, arms: NDArray[np.int64], rewards: Array, costs: Array) -> None:
        size = len(self.counts)
        self.counts += np.bincount(arms, minlength=size)
        self.reward_sums += np.bincount(arms, rewards, minlength=size)
        for j in range(costs.shape[1]):
            self.cost_sums[:, j] += np.bincount(arms, costs[:, j], minlength=size)
        self._factors = None

    @property
    def pulls(self) -> int:
        """How many pulls there were."""
        return int(self.counts.sum())

    @property
    def theta_reward(self) -> Array:
        """Posterior mean of the reward parameter, over features."""
        return self._solved()[1][0].copy()

    @property
    def theta_cost(self) -> Array:
        """Posterior means of the cost parameters, over (constraint, feature)."""
        return self._solved()[1][1:].copy()

    @property
    def mean_reward(self) -> Array:
        """Posterior mean of each candidate's reward, over candidates."""
        return self.problem.candidates @ self._solved()[1][0]

    @property
    def mean_cost(self) -> Array:
        """Posterior means of each candidate's costs, over (candidate, constraint)."""
        return self.problem.candidates @ self._solved()[1][1:].T

    @property
    def precision(self) -> Array:
        r"""The matrix :math:`V = I + \sum_t x_t x_t^\top`, over (feature, feature)."""
        arms = self.problem.arms
        return np.eye(arms.shape[1]) + arms.T @ (self.counts[:, np.newaxis] * arms)

    @property
    def covariance(self) -> Array:
        r"""The matrix :math:`V^{-1}`: the covariance of a parameter over its noise variance."""
        root, rest = self.covariance_root()
        return root @ root.T + rest @ rest.T

    def best(self) -> int | None:
        """The candidate of highest posterior mean reward among those that look feasible.

        None where no candidate's posterior mean costs are all within their thresholds.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds=0.5))
        >>> posterior.update([0, 1], [2.0, 1.0], [1.2, 0.3])
        >>> posterior.best()
        1
        """
        feasible = np.all(self.mean_cost <= self.problem.thresholds, axis=1)
        if not feasible.any():
            return None
        return int(np.argmax(np.where(feasible, self.mean_reward, -np.inf)))

    def whiten(self, vectors: Array) -> Array:
        r"""Rows `w` with :math:`w \cdot w' = z^\top V^{-1} z'` for rows `z` in the arms' span.

        Examples
        --------
        >>> import numpy as np
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior.from_history(Problem([[1, 0], [1, 1]]), [0, 1], [2.0, 1.0])
        >>> arms = posterior.problem.arms
        >>> white = posterior.whiten(arms)
        >>> np.allclose(white @ white.T, arms @ posterior.covariance @ arms.T)
        True
        """
        features = self.problem.arms.shape[1]
        vectors = _check.numbers("vectors", vectors)
        if vectors.ndim != 2 or vectors.shape[1] != features:
            raise ValueError(f"vectors: expected rows of {features}, got shape {vectors.shape}")
        return whiten_rows(self, vectors)

    def covariance_root(self) -> tuple[Array, Array]:
        r"""Matrices `A`, `B` with :math:`V^{-1} = A A^\top + B B^\top`.

        `A` maps whitened coordinates to features; the columns of `B` are orthonormal and
        span what no arm reaches, where the prior stands.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0, 0], [1, 1, 0]]))
        >>> root, rest = posterior.covariance_root()
        >>> root.shape, rest.shape
        ((3, 2), (3, 1))
        """
        factor, _ = self._solved()
        basis = self.problem.basis
        rank = basis.shape[1]
        root = basis @ unwhiten(factor, np.eye(rank)).T
        if rank == len(basis):
            return root, np.empty((rank, 0))
        return root, np.ascontiguousarray(qr(basis)[0][:, rank:])

    def sample(self, draws: int, seed: Any = None, *, chains: int = 1) -> "xr.Dataset":
        """Independent draws of the parameters.

        Parameters
        ----------
        draws : int
            Draws of each chain.
        seed : int, SeedSequence or Generator, optional
        chains : int

        Returns
        -------
        Dataset
            `theta_reward` (chain, draw, feature), `theta_cost` (chain, draw, constraint, feature).

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds=0.5))
        >>> posterior.sample(100, seed=0, chains=2).theta_cost.shape
        (2, 100, 1, 2)
        """
        draws, chains = _check.count("draws", draws), _check.count("chains", chains)
        parameters = unrestricted(self, chains * draws, _check.generator("seed", seed))
        return labelled(self.problem, parameters, chains)

    def to_dataset(self) -> "xr.Dataset":
        """Means, covariance and counts with their labels.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem({"low": [1, 0], "high": [1, 1]}))
        >>> posterior.update([0, 1, 1], [0.1, 0.9, 1.1])
        >>> posterior.to_dataset().pulls.sel(arm="high").item()
        2
        """
        import xarray as xr

        coords = self.problem.coords
        other = {"feature_": coords["feature"]}
        return xr.Dataset(
            {
                "theta_reward": ("feature", self.theta_reward),
                "theta_cost": (("constraint", "feature"), self.theta_cost),
                "precision": (("feature", "feature_"), self.precision),
                "covariance": (("feature", "feature_"), self.covariance),
                "pulls": ("arm", self.counts.copy()),
                "reward_sum": ("arm", self.reward_sums.copy()),
                "cost_sum": (("arm", "constraint"), self.cost_sums.copy()),
            },
            coords={name: coords[name] for name in ("feature", "constraint", "arm")} | other,
        )

    def to_datatree(self, draws: int = 1000, *, chains: int = 4, seed: Any = 0) -> "xr.DataTree":
        """Everything as a DataTree that ArviZ understands.

        Groups: `posterior` (exact independent draws), `closed_form` (means, precision, counts and
        sums) and `constant_data` (arms, candidates, thresholds, noise).

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> tree = Posterior(Problem([[1, 0], [0, 1]])).to_datatree(draws=10)
        >>> sorted(tree.children)
        ['closed_form', 'constant_data', 'posterior']
        """
        import xarray as xr

        problem = self.problem
        constant = xr.Dataset(
            {
                "arms": (("arm", "feature"), problem.arms),
                "candidates": (("candidate", "feature"), problem.candidates),
                "thresholds": ("constraint", problem.thresholds),
                "cost_noise": ("constraint", problem.cost_noise),
                "reward_noise": problem.reward_noise,
            },
            coords=problem.coords,
        )
        return xr.DataTree.from_dict(
            {
                "posterior": self.sample(draws, seed, chains=chains),
                "closed_form": self.to_dataset(),
                "constant_data": constant,
            }
        )

    def copy(self) -> "Posterior":
        """An independent copy.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]]))
        >>> posterior.copy().update(0, 1.0)
        >>> posterior.pulls
        0
        """
        other = type(self)(self.problem)
        other.counts[:] = self.counts
        other.reward_sums[:] = self.reward_sums
        other.cost_sums[:] = self.cost_sums
        return other

    def _solved(self) -> tuple[Factor, Array]:
        """Factor of the precision in the span of the arms, and all means as rows."""
        if self._factors is None:
            problem, pulled = self.problem, np.flatnonzero(self.counts)
            counts = self.counts[pulled].astype(float)
            shown = np.column_stack([self.reward_sums, self.cost_sums])[pulled]
            prior = np.eye(problem.rank)
            factor, turned = least_squares(
                np.vstack([prior, problem.arms[pulled] @ problem.basis]),
                np.concatenate([np.ones(problem.rank), counts]),
                np.vstack(
                    [np.zeros((problem.rank, shown.shape[1])), shown / counts[:, np.newaxis]]
                ),
            )
            self._factors = factor, unwhiten(factor, turned) @ problem.basis.T
        return self._factors

    def __repr__(self) -> str:
        best = self.best()
        choice = "no candidate looks feasible"
        if best is not None:
            choice = f"best {self.problem.name(best)!r}"
        return f"Posterior after {self.pulls} pulls of {len(self.counts)} arms: {choice}"


def whiten_rows(posterior: Posterior, vectors: Array) -> Array:
    """`Posterior.whiten` without its checks: differences may be as small as they are."""
    return whiten(posterior._solved()[0], vectors @ posterior.problem.basis)
