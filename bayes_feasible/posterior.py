"""The posterior of the reward and cost parameters."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import labelled, unrestricted
from bayes_feasible.alternative import general
from bayes_feasible.alternative.events import Events
from bayes_feasible.blocks.base import Block
from bayes_feasible.blocks.gaussian import GaussianBlock, conjugate
from bayes_feasible.blocks.log_concave import LogConcaveBlock
from bayes_feasible.blocks.student import StudentBlock
from bayes_feasible.instance import Instance
from bayes_feasible.outcomes import Gaussian, Outcome
from bayes_feasible.problem import Problem
from bayes_feasible.span import Factor, least_squares, unwhiten, whiten
from bayes_feasible.summary import Law, summarise
from bayes_feasible.sums import Sums

if TYPE_CHECKING:
    import xarray as xr


class Posterior(Sums):
    r"""What the pulls so far say about the parameters.

    With :math:`V = I + \sum_t x_t x_t^\top`,

    .. math:: \theta_r \sim N(V^{-1} \sum_t x_t y_t, \; \sigma^2 V^{-1}), \qquad
              \theta_{c,j} \sim N(V^{-1} \sum_t x_t c_{t,j}, \; \gamma_j^2 V^{-1}).

    That is the paper's model. Other outcomes and priors have blocks of their own (see
    `bayes_feasible.blocks`): Student's where the noise of a Gaussian is learnt, and for 0/1 and
    counts a log-concave posterior with a Gaussian at its mode. An outcome that was not seen, NaN,
    is simply not counted in its block.

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
        super().__init__(problem)
        self._forget()

    def _forget(self) -> None:
        self._blocks: list[Block] | None = None
        self._factors: tuple[Factor, Array] | None = None

    @property
    def textbook(self) -> bool:
        """Whether one matrix V serves all blocks: the paper's model, and nothing is missing."""
        return self.problem.textbook and not self.missing.any()

    @property
    def blocks(self) -> list[Block]:
        """The posterior of each block: of the reward parameter, then of each cost parameter."""
        if self._blocks is None:
            if self.textbook:
                root = np.hstack(self.covariance_root())
                self._blocks = [
                    GaussianBlock(mean, noise * root)
                    for mean, noise in zip(self._solved()[1], self.problem.noise, strict=True)
                ]
            else:
                self._blocks = [
                    self._block(b, outcome) for b, outcome in enumerate(self.problem.outcomes)
                ]
        return self._blocks

    def _block(self, b: int, outcome: Outcome) -> Block:
        arms, prior = self.problem.arms, self.problem.priors[b]
        counts = self.seen[:, b].astype(float)
        sums = self.reward_sums if b == 0 else self.cost_sums[:, b - 1]
        if not isinstance(outcome, Gaussian):
            return LogConcaveBlock(outcome, arms, counts, sums, *prior)
        if outcome.noise is None:
            return StudentBlock(
                arms, counts, sums, self.squares[:, b], *outcome.noise_prior, *prior
            )
        return GaussianBlock(*conjugate(arms, counts, sums, outcome.noise**2, *prior))

    @property
    def pulls(self) -> int:
        """How many pulls there were."""
        return int(self.counts.sum())

    @property
    def theta_reward(self) -> Array:
        """Posterior mean of the reward parameter (its mode, for 0/1 and counts), over features."""
        return self._centres()[0].copy()

    @property
    def theta_cost(self) -> Array:
        """Posterior means (or modes) of the cost parameters, over (constraint, feature)."""
        return self._centres()[1:].copy()

    def _centres(self) -> Array:
        if self.textbook:
            return self._solved()[1]
        return np.stack([block.mean for block in self.blocks])

    @property
    def mean_reward(self) -> Array:
        """Mean reward of each candidate at `theta_reward`, over candidates."""
        return self.problem.outcomes[0].mean(self.problem.candidates @ self._centres()[0])

    @property
    def mean_cost(self) -> Array:
        """Mean costs of each candidate at `theta_cost`, over (candidate, constraint)."""
        natural = self.problem.candidates @ self._centres()[1:].T
        for j, outcome in enumerate(self.problem.outcomes[1:]):
            natural[:, j] = outcome.mean(natural[:, j])
        return natural

    @property
    def noise(self) -> Array:
        """Standard deviations of Gaussian outcomes, known or as learnt; 1 for others, by block."""
        known = np.where(np.isnan(self.problem.noise), 1.0, self.problem.noise)
        for b, outcome in enumerate(self.problem.outcomes):
            if isinstance(outcome, Gaussian) and outcome.learnt:
                block: Any = self.blocks[b]
                known[b] = np.sqrt(block.scale / block.shape)
        return known

    def estimate(self) -> Instance:
        """The instance that would be true if the parameters, and learnt noise, were as estimated.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds=0.5))
        >>> posterior.update([0, 1], [2.0, 1.0], [1.2, 0.3])
        >>> posterior.estimate().mean_cost.tolist()
        [[0.6], [0.15]]
        """
        noise, learnt = self.noise, np.isnan(self.problem.noise)
        return Instance(
            self.problem, self.theta_reward, self.theta_cost,
            reward_noise=noise[0] if learnt[0] else None,
            cost_noise=noise[1:] if learnt[1:].any() else None,
        )  # fmt: skip

    def summary(self, probability: float = 0.95) -> "xr.Dataset":
        """What is known of every candidate, in the units of the outcomes.

        Parameters
        ----------
        probability : float
            Of the central intervals.

        Returns
        -------
        Dataset
            Over `candidate`: `mean`, `sd` and `low`, `high` of the reward and of each cost (over
            `outcome`), for 0/1 and counts by the Gaussian at the mode; and `feasible`, the
            probability of being feasible. A `parameter_radius` is not taken into account.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem([[1, 0], [0, 1]], thresholds={"dose": 0.5}))
        >>> posterior.update([0, 1], [2.0, 1.0], [1.2, 0.3])
        >>> posterior.summary().sel(outcome="dose", candidate=0)["mean"].item()
        0.6
        """
        laws = [
            Law(block.mean, block.root @ block.root.T, getattr(block, "freedom", np.inf))
            for block in self.blocks
        ]
        found = summarise(self.problem, laws, probability)
        feasible = Events.that_each_is_feasible(self.problem)
        log_feasible, _, _ = general.event_tails(feasible, self.blocks)
        return found.assign(feasible=("candidate", np.exp(log_feasible)))

    @property
    def precision(self) -> Array:
        r"""The matrix :math:`V = I + \sum_t x_t x_t^\top`, over (feature, feature)."""
        self._check_textbook("precision")
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
        feasible = self.problem.feasible(self._centres()[1:])
        if not feasible.any():
            return None
        natural = self.problem.candidates @ self._centres()[0]
        return int(np.argmax(np.where(feasible, natural, -np.inf)))

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
        self._check_textbook("covariance_root")
        factor, _ = self._solved()
        basis = self.problem.basis
        rank = basis.shape[1]
        root = basis @ unwhiten(factor, np.eye(rank)).T
        if rank == len(basis):
            return root, np.empty((rank, 0))
        return root, np.ascontiguousarray(qr(basis)[0][:, rank:])

    def _check_textbook(self, what: str) -> None:
        if not self.textbook:
            raise ValueError(f"{what}: here every block has a covariance of its own; see `blocks`")

    def probability_best(self, seed: Any = 0, *, draws: int = 2**14) -> "xr.Dataset":
        """For every candidate, the probability that it is the best feasible one.

        The probability that the leader is wrong is measured as in `Alternative.log_probability`,
        and draws given that it is wrong tell who is best then.

        Parameters
        ----------
        seed : int, SeedSequence or Generator
        draws : int
            Given that the leader is wrong.

        Returns
        -------
        Dataset
            Over `candidate`: `best` and `feasible`, each candidate's probability of being the
            best feasible one and of being feasible at all; and `none`, the probability that no
            candidate is feasible. `best` and `none` sum to 1.

        Examples
        --------
        >>> from bayes_feasible import Posterior, Problem
        >>> posterior = Posterior(Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 0.5}))
        >>> posterior.update(["a", "b"], [20.0, 10.0], [1.0, 2.0], count=10)
        >>> found = posterior.probability_best()
        >>> found.best.round(2).values.tolist(), found.none.round(2).item()
        ([0.9, 0.09], 0.01)
        """
        import xarray as xr

        problem = self.problem
        if problem.parameter_radius is not None:
            raise ValueError("probability_best: not offered within a parameter_radius")
        rng, draws = _check.generator("seed", seed), _check.count("draws", draws)
        leader = self.best()
        every = Events.that_each_is_feasible(problem)
        wrong = every if leader is None else Events.that_refute(problem, leader)
        share = np.zeros(len(problem.candidates) + 1)  # the last: none is feasible
        measured = general.measure(wrong, self.blocks, rng, draws)
        found = general.draw(wrong, self.blocks, rng, draws)
        probability = float(np.exp(measured.value))
        if found is not None:
            winner = problem.best_under(found.theta)
            counted = np.bincount(np.where(winner < 0, share.size - 1, winner),
                                  minlength=share.size)  # fmt: skip
            share = probability * counted / draws
        share[-1 if leader is None else leader] += 1.0 - probability
        log_feasible, _, k_hat = general.event_tails(every, self.blocks)
        return xr.Dataset(
            {
                "best": ("candidate", share[:-1]),
                "feasible": ("candidate", np.exp(log_feasible)),
                "none": share[-1],
            },
            coords={"candidate": problem.coords["candidate"]},
            attrs={
                "k_hat": max(measured.k_hat, k_hat),
                "efficiency": measured.efficiency,
            },
        )

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
