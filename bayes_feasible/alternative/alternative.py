"""The alternative set: all parameters under which a candidate is not the best feasible one."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise, block_radius, labelled
from bayes_feasible._given import read_parameters
from bayes_feasible.alternative import nearest as _nearest
from bayes_feasible.alternative.events import Events
from bayes_feasible.alternative.probability import DRAWS, LogProbability, event_array
from bayes_feasible.alternative.union import Union
from bayes_feasible.instance import Instance
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.rate.general import Mistakes

if TYPE_CHECKING:
    import xarray as xr


class Alternative:
    r"""All parameters under which a candidate is not the best feasible one.

    It is a union of simple events: for each constraint, that the candidate violates it,
    :math:`\langle\theta_{c,j}, z\rangle > \tau_j`; and for each other candidate :math:`z'`, that
    it is feasible and at least as good, :math:`\langle\theta_r, z'-z\rangle \ge 0` and
    :math:`\langle\theta_{c,j}, z'\rangle \le \tau_j` for all :math:`j`. Under a Gaussian posterior
    every event is a product of independent half-spaces, so its probability has a closed form and
    draws given it are exact; and from the events the union is measured and drawn exactly too.
    With `z` the recommended candidate, this is the posterior probability of error.

    Candidates with the same vector as `z` are the same recommendation and not alternatives.

    Parameters
    ----------
    problem : Problem
        Its `parameter_radius`, if any, restricts posterior and alternative set alike.
    candidate : int or str
        The candidate, by index or name.

    Attributes
    ----------
    events : Events
        The half-spaces: violated constraints first, then the rivals.
    rivals : ndarray
        Indices of the other candidates.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 1.0})
    >>> posterior = bf.Posterior(problem)
    >>> for _ in range(100):
    ...     posterior.update([0, 1], [1.0, 0.2], [0.4, 0.3])
    >>> error = bf.Alternative(problem, 0).log_probability(posterior)
    >>> print(f"{error.value:.4f}, most likely: {error.likeliest}")
    -18.4496, most likely: b better
    """

    def __init__(self, problem: Problem, candidate: int | str) -> None:
        _check.kind("problem", problem, Problem)
        self.problem = problem
        self.candidate = _check.candidate(problem, candidate)
        self.union = Union(problem, Events.that_refute(problem, self.candidate))

    @property
    def events(self) -> Events:
        """The half-spaces: violated constraints first, then the rivals."""
        return self.union.events

    @property
    def rivals(self) -> NDArray[np.int64]:
        """Indices of the other candidates."""
        return np.flatnonzero(~self.problem.copies(self.candidate))

    def contains(self, theta_reward: Any, theta_cost: Any = None) -> NDArray[np.bool_]:
        """Whether the candidate is not the best feasible one under these parameters.

        Parameters
        ----------
        theta_reward : array, shape (..., feature)
            Or a dict, Series or DataArray that carries the names of the features.
        theta_cost : array, shape (..., constraint, feature)
            Or a dict, DataFrame or DataArray that carries the names of the constraints. May be
            left out where there is no constraint.

        Returns
        -------
        ndarray of bool
            Over the leading axes. Parameters beyond the problem's `parameter_radius` are in no
            alternative set.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 1.0})
        >>> wrong = bf.Alternative(problem, 0)
        >>> wrong.contains([1.0, 0.2], {"dose": [0.4, 0.3]})
        np.False_
        >>> wrong.contains([[1.0, 0.2], [1.0, 2.0]], [[[1.4, 0.3]], [[0.4, 0.3]]])
        array([ True,  True])
        """
        problem = self.problem
        reward, cost = read_parameters(problem, theta_reward, theta_cost)
        own, rivals = problem.candidates[self.candidate], problem.candidates[self.rivals]
        feasible = problem.feasible(cost)
        inside = ~feasible[..., self.candidate]
        inside |= np.any((reward @ (rivals - own).T >= 0) & feasible[..., self.rivals], axis=-1)
        if problem.parameter_radius is not None:
            reward_radius, cost_radius = problem.parameter_radius
            inside &= np.linalg.norm(reward, axis=-1) <= reward_radius
            inside &= np.all(np.linalg.norm(cost, axis=-1) <= cost_radius, axis=-1)
        return inside

    def nearest(
        self, theta_reward: Any, theta_cost: Any, allocation: Any, *,
        reward_noise: float | None = None, cost_noise: Any = None,
    ) -> "xr.Dataset":  # fmt: skip
        r"""The alternative that pulls in these shares tell apart from a parameter most slowly.

        It minimises :math:`\frac{1}{2} \left( \|\theta_r' - \theta_r\|^2_{V_w} / \sigma^2 +
        \sum_j \|\theta_{c,j}' - \theta_{c,j}\|^2_{V_w} / \gamma_j^2 \right)` over the alternative
        set, with :math:`V_w = \sum_x w_x x x^\top`; for other outcomes the relative entropy
        of what the pulls show.

        Parameters
        ----------
        theta_reward : vector (feature,)
        theta_cost : table (constraint, feature), or None where there is no constraint
        allocation : vector over arms
            Shares of the pulls, with sum 1.
        reward_noise, cost_noise : optional
            True standard deviations, where they are learnt; see `Instance`.

        Returns
        -------
        Dataset
            `theta_reward`, `theta_cost`, the `exponent` (the minimum, 0 if the parameter is itself
            an alternative), and the name of the `event` it lies in; where noise is learnt,
            `noise` over `outcome`, that explains most of what is seen.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 1.0})
        >>> near = bf.Alternative(problem, 0).nearest([1.0, 0.2], [[0.4, 0.3]], [0.5, 0.5])
        >>> near.theta_reward.values, near.event.item(), round(near.exponent.item(), 6)
        (array([0.6, 0.6]), 'b better', 0.08)
        """
        import xarray as xr

        problem = self.problem
        weights = _check.allocation(problem, allocation)
        if not self.events.possible.size:
            raise self._empty()
        noise = None  # only where it is learnt do the nearest parameters have one of their own
        if problem.textbook:
            theta = read_parameters(problem, theta_reward, theta_cost, single=True)
            exponents, found = self._nearest_textbook(np.vstack(theta), weights)
        else:
            truth = Instance(
                problem, theta_reward, theta_cost, reward_noise=reward_noise, cost_noise=cost_noise
            )
            mistakes = Mistakes(truth, self.candidate)
            exponents = mistakes.event_exponents(weights)
            found, noise = mistakes.nearest(weights, int(np.argmin(exponents)))
        event = int(np.argmin(exponents))
        near = xr.Dataset(
            {
                "theta_reward": ("feature", found[0]),
                "theta_cost": (("constraint", "feature"), found[1:]),
                "exponent": float(exponents[event]),
                "event": self.events.names[event],
            },
            coords={name: problem.coords[name] for name in ("feature", "constraint")},
        )
        if any(isinstance(one, Gaussian) and one.learnt for one in problem.outcomes):
            near = near.assign(noise=("outcome", noise))
            near = near.assign_coords(outcome=problem.outcome_names)
        return near

    def _nearest_textbook(self, theta: Array, weights: Array) -> tuple[Array, Array]:
        """Exponents of the events, and the nearest parameters (block, feature)."""
        rows = np.sqrt(weights)[:, np.newaxis] * self.problem.arms
        union, radius, found = self.union, block_radius(self.problem), theta.copy()
        if np.any(np.linalg.norm(theta, axis=1) > radius):
            raise ValueError("theta_reward, theta_cost: beyond the parameter_radius")
        at = union.blocks
        asked = theta[at], block_noise(self.problem)[at], rows, union.vectors, union.limits
        exponents, found[at] = _nearest.nearest(*asked)
        if np.any(np.linalg.norm(found, axis=1) > radius):
            exponents, found[at] = _nearest.nearest_bounded(*asked, radius[at])
        return exponents, found

    def event_log_probabilities(
        self, posterior: Posterior, *, scale: float = 1.0
    ) -> "xr.DataArray":
        """Log-probability of each event, over `event`.

        With a `parameter_radius` these are the probabilities before it is taken into account.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 1.0})
        >>> posterior = bf.Posterior(problem)
        >>> posterior.update([0, 1], [1.0, 0.2], [0.4, 0.3])
        >>> found = bf.Alternative(problem, 0).event_log_probabilities(posterior)
        >>> dict(zip(found.event.values.tolist(), found.values.round(4).tolist()))
        {'dose of a too high': -2.0483, 'b better': -1.1872}
        """
        self._check_posterior(posterior)
        scale = _check.positive("scale", scale)
        found = self.union.event_log_probabilities(posterior, scale)
        return event_array(self.events.names, found)

    def log_probability(
        self, posterior: Posterior, seed: Any = 0, *, scale: float = 1.0, draws: int = DRAWS,
        rtol: float | None = None,
    ) -> LogProbability:  # fmt: skip
        r"""Posterior log-probability that the candidate is not the best feasible one.

        The sum of the events' probabilities, :math:`S_1`, counts every overlap too often; the sum
        over pairs, :math:`S_2`, is integrated too. With :math:`N` the number of events that
        contain a draw from the mixture of the events, :math:`P = S_1 E[1/N]` and
        :math:`S_1 E[N - 1] = 2 S_2`, so the second, known exactly, is a control variate for the
        first (Karp and Luby 1983; Owen, Maximov and Chertkov 2019): what is left to sampling is
        that three events happen together. One or two events are exact. The standard error allows
        for a triple overlap that no draw has shown.

        Parameters
        ----------
        posterior : Posterior
        seed : int, SeedSequence or Generator
        scale : float
            Factor on the posterior covariance.
        draws : int
            How many draws to spend on overlaps.
        rtol : float, optional
            Relative standard error to guarantee before any draw: as many draws are made, in place
            of `draws`, as make `LogProbability.bound` no larger. Refused where draws carry weights
            (0/1 and counts, a `parameter_radius`), for then there is no such bound.

        Returns
        -------
        LogProbability
            The bounds are those of Dawson and Sankoff below and of Galambos above, from
            :math:`S_1` and :math:`S_2` (the likeliest event, and the sum, where there are too
            many pairs).

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> instance = bf.instances.end_of_optimism(alpha=0.3)
        >>> arms = [0, 2] * 500
        >>> history = bf.History(instance.problem, arms, *instance.pull(arms, seed=1))
        >>> posterior = history.posterior()
        >>> error = bf.Alternative(instance.problem, posterior.best()).log_probability(posterior)
        >>> print(f"{error.value:.4f}, certainly below {error.upper:.4f}; {error.likeliest}?")
        -16.3871, certainly below -16.3871; 4 better?
        >>> early = bf.Posterior(instance.problem)  # where every mistake is likely
        >>> bf.Alternative(instance.problem, 0).log_probability(early, rtol=1e-3).bound <= 1e-3
        True
        """
        self._check_posterior(posterior)
        scale, draws = _check.positive("scale", scale), _check.count("draws", draws)
        rng = _check.generator("seed", seed)
        if rtol is not None:
            rtol = _check.positive("rtol", rtol)
        found = self.union.log_probability(posterior, rng, scale, draws, rtol)
        if posterior.textbook or rtol is not None or found.value < math.log(0.5):
            return found
        # Nearly certain to be wrong: what is left of 1 is known better than what is near to it.
        right = float(posterior.probability_best(rng, draws=draws).best[self.candidate])
        return replace(found, value=math.log1p(-right))

    def sample(
        self,
        posterior: Posterior,
        draws: int,
        seed: Any = 0,
        scale: float = 1.0,
        *,
        chains: int = 1,
    ) -> "xr.Dataset":
        """Independent draws from the posterior given the alternative set.

        Exact for Gaussian outcomes. For 0/1 and counts they are resampled from weighted ones, and
        the attributes `k_hat` and `efficiency` say how well: below 0.7, and the share of the
        weighted draws that count.

        Parameters
        ----------
        posterior : Posterior
        draws : int
            Draws of each chain.
        seed : int, SeedSequence or Generator
        scale : float
            Factor on the posterior covariance.
        chains : int

        Returns
        -------
        Dataset
            `theta_reward` (chain, draw, feature), `theta_cost` (chain, draw, constraint, feature)
            and `event` (chain, draw), the index into `events` of the event each was drawn from.

        Examples
        --------
        >>> import bayes_feasible as bf
        >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 1.0})
        >>> posterior = bf.Posterior.from_history(problem, [0, 1], [1.0, 0.2], [0.4, 0.3])
        >>> wrong = bf.Alternative(problem, 0)
        >>> draws = wrong.sample(posterior, 500, seed=0, chains=4)
        >>> draws.theta_cost.dims, draws.theta_cost.shape
        (('chain', 'draw', 'constraint', 'feature'), (4, 500, 1, 2))
        >>> wrong.contains(draws.theta_reward, draws.theta_cost).all()
        np.True_
        """
        self._check_posterior(posterior)
        draws, chains = _check.count("draws", draws), _check.count("chains", chains)
        scale = _check.positive("scale", scale)
        rng = _check.generator("seed", seed)
        drawn = self.union.draw(posterior, draws * chains, rng, scale)
        if drawn is None:
            raise self._empty()
        dataset = labelled(self.problem, drawn.theta, chains)
        dataset = dataset.assign(event=(("chain", "draw"), drawn.events.reshape(chains, draws)))
        if not posterior.textbook:
            dataset.attrs.update(k_hat=drawn.k_hat, efficiency=drawn.efficiency)
        return dataset

    def _check_posterior(self, posterior: Posterior) -> None:
        _check.kind("posterior", posterior, Posterior)
        if posterior.problem is not self.problem and posterior.problem != self.problem:
            raise ValueError("posterior: it belongs to another problem than this alternative set")

    def _empty(self) -> ValueError:
        return ValueError(
            f"candidate: nothing can make {self.problem.name(self.candidate)!r} wrong, "
            "so its alternative set is empty and has no draws"
        )
