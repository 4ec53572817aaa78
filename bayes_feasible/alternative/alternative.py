"""The alternative set: all parameters under which a candidate is not the best feasible one."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import (
    block_means,
    block_noise,
    block_radius,
    eigen_blocks,
    labelled,
    unrestricted,
)
from bayes_feasible._interrupt import undisturbed
from bayes_feasible.alternative import bounded
from bayes_feasible.alternative import nearest as _nearest
from bayes_feasible.alternative import union as _union
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import SPAN_TOLERANCE, Problem

if TYPE_CHECKING:
    import xarray as xr

DRAWS = 2**14  # for the part of a union's probability that has no closed form
PAIRS = 2500  # pairs of events whose overlap is integrated exactly
PRUNE = 60.0  # an event e^-60 as probable as another cannot be seen in double precision


@dataclass(frozen=True)
class LogProbability:
    """The logarithm of a probability, how sure it is, and bounds that are certain.

    Attributes
    ----------
    value : float
        Natural logarithm of the probability.
    standard_error : float
        Of `value`; 0 where the value is exact.
    lower, upper : float
        Bounds that hold for certain, whatever the seed.
    names : list of str
        The events of the union.
    log_probabilities : ndarray
        Their log-probabilities.
    """

    value: float
    standard_error: float
    lower: float
    upper: float
    names: list[str]
    log_probabilities: Array

    def __float__(self) -> float:
        return self.value

    @property
    def events(self) -> "xr.DataArray":
        """Log-probability of each event of the union, by its name."""
        return event_array(self.names, self.log_probabilities)

    @property
    def likeliest(self) -> str:
        """The name of the most probable event: the mistake to expect."""
        return self.names[int(np.argmax(self.log_probabilities))] if self.names else "none"

    def __repr__(self) -> str:
        return (
            f"log-probability {self.value:.6g} (standard error {self.standard_error:.2g}, "
            f"certainly within [{self.lower:.6g}, {self.upper:.6g}]); likeliest: {self.likeliest}"
        )


def event_array(names: list[str], values: Array) -> "xr.DataArray":
    """Log-probabilities of events with their names."""
    import xarray as xr

    return xr.DataArray(values, dims="event", coords={"event": names}, name="log_probability")


class Whitened(NamedTuple):
    """The events that matter, in whitened coordinates; see `_union`."""

    events: NDArray[np.int64]  # which events of the alternative these are
    normals: Array  # (event, block, rank)
    offsets: Array  # (event, block)
    log_probability: Array  # (event,)


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
    candidate : int
        Index of the candidate.

    Attributes
    ----------
    events : list of str
        Their names: violated constraints first, then the rivals.
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
        self.rivals = np.flatnonzero(~problem.copies(self.candidate))
        self._binding = np.flatnonzero(np.isfinite(problem.thresholds))
        constraints = problem.coords["constraint"][self._binding]
        names = [name if isinstance(name, str) else f"cost {name}" for name in constraints.tolist()]
        self.events = [f"{name} of {problem.name(self.candidate)} too high" for name in names]
        self.events += [f"{problem.name(rival)} better" for rival in self.rivals.tolist()]
        self._blocks = np.concatenate([[0], 1 + self._binding])
        self._vectors, self._limits = self._half_spaces()
        self._beyond = sticks_out(self._vectors, problem)

    def _half_spaces(self) -> tuple[Array, Array]:
        """Events as `vectors[event, block] @ theta[block] >= limits[event, block]`.

        The blocks are the reward and the constraints with a finite threshold; others never bind.
        """
        problem, binding = self.problem, self._binding
        own, rivals = problem.candidates[self.candidate], problem.candidates[self.rivals]
        thresholds = problem.thresholds[binding]
        shape = (binding.size + len(rivals), 1 + binding.size)
        vectors = np.zeros((*shape, own.size))
        limits = np.full(shape, -np.inf)
        for j, threshold in enumerate(thresholds):
            vectors[j, 1 + j] = own
            limits[j, 1 + j] = threshold
            if not own.any():  # its cost is 0 for certain: always too high, or never
                limits[j, 1 + j] = -np.inf if threshold < 0 else np.inf
        others = slice(binding.size, None)
        vectors[others, 0] = rivals - own
        limits[others, 0] = 0.0
        vectors[others, 1:] = -rivals[:, np.newaxis]
        nowhere = ~rivals.any(axis=1)[:, np.newaxis]
        certain = np.where(thresholds >= 0, -np.inf, np.inf)
        limits[others, 1:] = np.where(nowhere, certain, -thresholds)
        return vectors, limits

    def contains(self, theta_reward: Any, theta_cost: Any = None) -> NDArray[np.bool_]:
        """Whether the candidate is not the best feasible one under these parameters.

        Parameters
        ----------
        theta_reward : array, shape (..., feature)
        theta_cost : array, shape (..., constraint, feature)
            May be left out where there is no constraint.

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
        >>> wrong.contains([1.0, 0.2], [[0.4, 0.3]])
        np.False_
        >>> wrong.contains([[1.0, 0.2], [1.0, 2.0]], [[[1.4, 0.3]], [[0.4, 0.3]]])
        array([ True,  True])
        """
        problem = self.problem
        reward, cost = self._parameters(theta_reward, theta_cost)
        own, rivals = problem.candidates[self.candidate], problem.candidates[self.rivals]
        thresholds = problem.thresholds
        inside = np.any(cost @ own > thresholds, axis=-1)
        feasible = np.all(cost @ rivals.T <= thresholds[:, np.newaxis], axis=-2)
        inside |= np.any((reward @ (rivals - own).T >= 0) & feasible, axis=-1)
        if problem.parameter_radius is not None:
            reward_radius, cost_radius = problem.parameter_radius
            inside &= np.linalg.norm(reward, axis=-1) <= reward_radius
            inside &= np.all(np.linalg.norm(cost, axis=-1) <= cost_radius, axis=-1)
        return inside

    def nearest(self, theta_reward: Any, theta_cost: Any, allocation: Any) -> "xr.Dataset":
        r"""The alternative that pulls in these shares tell apart from a parameter most slowly.

        It minimises :math:`\frac{1}{2} \left( \|\theta_r' - \theta_r\|^2_{V_w} / \sigma^2 +
        \sum_j \|\theta_{c,j}' - \theta_{c,j}\|^2_{V_w} / \gamma_j^2 \right)` over the alternative
        set, with :math:`V_w = \sum_x w_x x x^\top`.

        Parameters
        ----------
        theta_reward : vector (feature,)
        theta_cost : table (constraint, feature), or None where there is no constraint
        allocation : vector over arms
            Shares of the pulls, with sum 1.

        Returns
        -------
        Dataset
            `theta_reward`, `theta_cost`, the `exponent` (the minimum, 0 if the parameter is itself
            an alternative), and the name of the `event` it lies in.

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
        reward, cost = self._parameters(theta_reward, theta_cost)
        if reward.ndim != 1:
            raise ValueError(f"theta_reward: expected one vector, got shape {reward.shape}")
        if not self.events or np.all(np.isposinf(self._limits).any(axis=1)):
            raise self._empty()
        rows = np.sqrt(_check.allocation(problem, allocation))[:, np.newaxis] * problem.arms
        theta = np.vstack([reward, cost])
        noise, blocks, found = block_noise(problem), self._blocks, theta.copy()
        radius = block_radius(problem)
        if np.any(np.linalg.norm(theta, axis=1) > radius):
            raise ValueError("theta_reward, theta_cost: beyond the parameter_radius")
        exponents, found[blocks] = _nearest.nearest(
            theta[blocks], noise[blocks], rows, self._vectors, self._limits
        )
        if np.any(np.linalg.norm(found, axis=1) > radius):
            exponents, found[blocks] = _nearest.nearest_bounded(
                theta[blocks], noise[blocks], rows, self._vectors, self._limits, radius[blocks]
            )
        event = int(np.argmin(exponents))
        return xr.Dataset(
            {
                "theta_reward": ("feature", found[0]),
                "theta_cost": (("constraint", "feature"), found[1:]),
                "exponent": float(exponents[event]),
                "event": self.events[event],
            },
            coords={name: problem.coords[name] for name in ("feature", "constraint")},
        )

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
        return event_array(self.events, self._event_log_probabilities(posterior, scale))

    def _event_log_probabilities(self, posterior: Posterior, scale: float = 1.0) -> Array:
        return _union.event_log_probabilities(self._standardised(posterior, scale)[1])

    def log_probability(
        self, posterior: Posterior, seed: Any = 0, *, scale: float = 1.0, draws: int = DRAWS
    ) -> LogProbability:
        r"""Posterior log-probability that the candidate is not the best feasible one.

        The sum of the events' probabilities, :math:`S_1`, counts every overlap too often; the sum
        over pairs, :math:`S_2`, is integrated too. With :math:`N` the number of events that
        contain a draw from the mixture of the events, :math:`P = S_1 E[1/N]` and
        :math:`S_1 E[N - 1] = 2 S_2`, so the second, known exactly, is a control variate for the
        first: what is left to sampling is that three events happen together. One or two events
        are exact. The standard error allows for a triple overlap that no draw has shown.

        Parameters
        ----------
        posterior : Posterior
        seed : int, SeedSequence or Generator
        scale : float
            Factor on the posterior covariance.
        draws : int
            How many draws to spend on overlaps.

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
        """
        self._check_posterior(posterior)
        scale, draws = _check.positive("scale", scale), _check.count("draws", draws)
        rng = _check.generator("seed", seed)
        if self.problem.parameter_radius is not None:
            return self._bounded_log_probability(posterior, rng, scale, draws)
        active, every = self._whitened(posterior, scale)
        if active.events.size == 0:
            return LogProbability(-np.inf, 0.0, -np.inf, -np.inf, self.events, every)
        result = _union.union_log_probability(*active[1:], rng, draws, PAIRS)
        return LogProbability(*result, self.events, every)

    def sample(
        self,
        posterior: Posterior,
        draws: int,
        seed: Any = 0,
        scale: float = 1.0,
        *,
        chains: int = 1,
    ) -> "xr.Dataset":
        """Exact independent draws from the posterior given the alternative set.

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
        parameters, events = self._draws(posterior, draws * chains, rng, scale)
        dataset = labelled(self.problem, parameters, chains)
        return dataset.assign(event=(("chain", "draw"), events.reshape(chains, draws)))

    def _draws(
        self, posterior: Posterior, size: int, rng: np.random.Generator, scale: float = 1.0
    ) -> tuple[Array, NDArray[np.int64]]:
        """Parameters (draw, block, feature), and the event that each was drawn from."""
        if self.problem.parameter_radius is not None:
            return self._bounded_draws(posterior, size, rng, scale)
        active, _ = self._whitened(posterior, scale)
        if active.events.size == 0:
            raise self._empty()
        cumulative = np.cumsum(np.exp(active.log_probability - active.log_probability.max()))
        points = np.empty((size, *active.normals.shape[1:]))
        events = np.empty(size, dtype=np.int64)
        with undisturbed():
            _union.draw_union(rng, active.normals, active.offsets, cumulative, points, events)
        root, rest = posterior.covariance_root()
        if self._beyond:
            root = np.hstack([root, rest])
        blocks, spread = self._blocks, block_noise(self.problem) * math.sqrt(scale)
        inside = np.empty((size, blocks.size, len(root)))
        _union.to_parameters(
            points, events, root, block_means(posterior)[blocks], spread[blocks],
            self._vectors[active.events], self._limits[active.events], inside,
        )  # fmt: skip
        if root.shape[1] == len(root) and blocks.size == spread.size:
            return inside, active.events[events]
        parameters = unrestricted(posterior, size, rng, scale)
        basis = np.eye(len(root)) if self._beyond else self.problem.basis
        parameters[:, blocks] -= parameters[:, blocks] @ basis @ basis.T
        parameters[:, blocks] += inside
        return parameters, active.events[events]

    def _bounded_draws(
        self, posterior: Posterior, size: int, rng: np.random.Generator, scale: float
    ) -> tuple[Array, NDArray[np.int64]]:
        axes, centre, precision, radius = eigen_blocks(posterior, scale)
        blocks = self._blocks
        drawn = bounded.bounded_draws(
            centre[blocks], precision[blocks], self._vectors @ axes, self._limits,
            radius[blocks], size, rng,
        )  # fmt: skip
        if drawn is None:
            raise self._empty()
        points, events = drawn
        inside = np.ascontiguousarray(points @ axes.T)
        _union.hold(inside, events, self._vectors, self._limits)
        if blocks.size == len(centre):
            return inside, events
        parameters = unrestricted(posterior, size, rng, scale)
        parameters[:, blocks] = inside
        return parameters, events

    def _bounded_log_probability(
        self, posterior: Posterior, rng: np.random.Generator, scale: float, draws: int
    ) -> LogProbability:
        axes, centre, precision, radius = eigen_blocks(posterior, scale)
        blocks = self._blocks
        result = bounded.bounded_log_probability(
            centre[blocks], precision[blocks], self._vectors @ axes, self._limits,
            radius[blocks], rng, draws,
        )  # fmt: skip
        offsets = self._standardised(posterior, scale)[1]
        return LogProbability(*result, self.events, _union.event_log_probabilities(offsets))

    def _standardised(self, posterior: Posterior, scale: float) -> tuple[Array, Array]:
        """Unit normals and offsets of all events in whitened coordinates."""
        centre = block_means(posterior)[self._blocks]
        noise = block_noise(self.problem)[self._blocks] * math.sqrt(scale)
        finite = np.isfinite(self._limits)
        vectors = self._vectors[finite]
        white = posterior._whiten(vectors)
        if self._beyond:  # there the prior stands
            rest = posterior.covariance_root()[1]
            white = np.hstack([white, np.where(outside(vectors, self.problem), vectors @ rest, 0)])
        # In two steps, for the square of a small number may be no number.
        size = np.abs(white).max(axis=-1, keepdims=True, initial=0.0)
        white /= size
        length = np.linalg.norm(white, axis=-1, keepdims=True)
        normals = np.zeros((*finite.shape, white.shape[-1]))
        normals[finite] = white / length
        values = np.einsum("ebf,bf->eb", self._vectors, centre)
        offsets = self._limits.copy()
        excess = (offsets - values) / noise
        with np.errstate(over="ignore"):
            offsets[finite] = excess[finite] / (size * length)[:, 0]
        return normals, offsets

    def _whitened(self, posterior: Posterior, scale: float) -> tuple[Whitened, Array]:
        """The events, less those too improbable beside the likeliest; and all log-probabilities."""
        normals, offsets = self._standardised(posterior, scale)
        every = _union.event_log_probabilities(offsets)
        top = every.max(initial=-np.inf)
        keep = np.flatnonzero((every > -np.inf) & (every >= top - PRUNE))
        return Whitened(keep, normals[keep], offsets[keep], every[keep]), every

    def _parameters(self, theta_reward: Any, theta_cost: Any) -> tuple[Array, Array]:
        """Parameters as arrays (..., feature) and (..., constraint, feature)."""
        theta_reward = _last(theta_reward, "feature")
        theta_cost = _last(theta_cost, "constraint", "feature")
        features, constraints = self.problem.arms.shape[1], self.problem.thresholds.size
        reward = _check.numbers("theta_reward", theta_reward)
        if reward.ndim == 0 or reward.shape[-1] != features:
            raise ValueError(
                f"theta_reward: expected {features} features on the last axis, "
                f"got shape {reward.shape}"
            )
        lead = reward.shape[:-1]
        cost = np.zeros((*lead, 0, features)) if theta_cost is None else theta_cost
        cost = _check.numbers("theta_cost", cost)
        if cost.shape == (*lead, features) and constraints == 1:
            cost = cost[..., np.newaxis, :]
        if cost.size == 0 and constraints == 0:
            cost = np.zeros((*lead, 0, features))
        if cost.shape != (*lead, constraints, features):
            raise ValueError(
                f"theta_cost: expected shape {(*lead, constraints, features)}, got {cost.shape}"
            )
        return reward, cost

    def _check_posterior(self, posterior: Posterior) -> None:
        if not isinstance(posterior, Posterior):
            raise ValueError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
        if posterior.problem is not self.problem and posterior.problem != self.problem:
            raise ValueError("posterior: it belongs to another problem than this alternative set")

    def _empty(self) -> ValueError:
        return ValueError(
            f"candidate: nothing can make {self.problem.name(self.candidate)!r} wrong, "
            "so its alternative set is empty and has no draws"
        )


def outside(vectors: Array, problem: Problem) -> NDArray[np.bool_]:
    """Which vectors are not in the span of the arms, over all but the last axis (kept).

    Candidates are; but what tells two of them apart need not be where it is as small as rounding.
    """
    basis = problem.basis
    rest = np.linalg.norm(vectors - vectors @ basis @ basis.T, axis=-1, keepdims=True)
    return rest > SPAN_TOLERANCE * np.linalg.norm(vectors, axis=-1, keepdims=True)


def sticks_out(vectors: Array, problem: Problem) -> bool:
    """Whether any of these vectors is not in the span of the arms."""
    return problem.rank < len(problem.basis) and bool(outside(vectors, problem).any())


def _last(value: Any, *dims: str) -> Any:
    """A DataArray with these dimensions last, as `arviz.extract` does not have them."""
    named = _check.is_data_array(value) and set(dims) <= set(value.dims)
    return value.transpose(..., *dims) if named else value
