r"""The events that make a candidate wrong: products of half-spaces, one a block of parameters.

Block 0 is the reward parameter, blocks 1, 2, ... are the cost parameters. Event e asks of every
block b that :math:`\langle a_{e,b}, \theta_b \rangle \ge l_{e,b}`; a limit of :math:`-\infty` asks
nothing, and :math:`+\infty` makes the event impossible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.problem import Problem


@dataclass(frozen=True, eq=False)
class Events:
    """Events as half-spaces: event `e` is `vectors[e, b] @ theta[b] >= limits[e, b]` for all `b`.

    Attributes
    ----------
    names : list of str
    vectors : array (event, block, feature)
        Zero where nothing is asked.
    limits : array (event, block)
    constraint : array of int (event,)
        Which constraint is violated; -1 where a rival is better instead.
    rival : array of int (event,)
        Which candidate is better; -1 where a constraint is violated instead.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": 1.0})
    >>> events = bf.Alternative(problem, 0).events
    >>> events.names, events.rival.tolist()
    (['dose of a too high', 'b better'], [-1, 1])
    >>> events.contains([[1.0, 0.2], [1.4, 0.3]])  # reward parameter, then the cost parameter
    array([ True, False])
    """

    names: list[str]
    vectors: Array
    limits: Array
    constraint: NDArray[np.int64]
    rival: NDArray[np.int64]

    @classmethod
    def that_refute(cls, problem: Problem, candidate: int) -> "Events":
        """All events under which a candidate is not the best feasible one.

        Its violated constraints come first, then the other candidates, each feasible and at least
        as good. A threshold that is not finite never binds.
        """
        own, limits_of = problem.candidates[candidate], problem.limits
        rivals = np.flatnonzero(~problem.copies(candidate))
        binding = np.flatnonzero(np.isfinite(limits_of))
        violated, better = np.arange(binding.size), slice(binding.size, None)
        names = [
            f"{name if isinstance(name, str) else f'cost {name}'} of {problem.name(candidate)}"
            " too high"
            for name in problem.coords["constraint"][binding].tolist()
        ]
        names += [f"{problem.name(rival)} better" for rival in rivals.tolist()]
        vectors = np.zeros((len(names), 1 + limits_of.size, own.size))
        limits = np.full(vectors.shape[:2], -np.inf)
        costs = problem.cost_vectors[candidate, binding]
        vectors[violated, 1 + binding] = costs
        # A zero vector costs 0 for certain: always too much, or never.
        certain = np.where(limits_of[binding] < 0, -np.inf, np.inf)
        limits[violated, 1 + binding] = np.where(costs.any(axis=1), limits_of[binding], certain)
        vectors[better], limits[better] = _ask_feasible(problem, problem.cost_vectors[rivals])
        vectors[better, 0], limits[better, 0] = problem.candidates[rivals] - own, 0.0
        none = np.full(len(names), -1)
        constraint, rival = none.copy(), none
        constraint[violated], rival[better] = binding, rivals
        return cls(names, vectors, limits, constraint, rival)

    @classmethod
    def that_each_is_feasible(cls, problem: Problem) -> "Events":
        """For each candidate the event that it is feasible."""
        every = np.arange(len(problem.candidates))
        names = [f"{problem.name(z)} feasible" for z in every.tolist()]
        return cls(
            names, *_ask_feasible(problem, problem.cost_vectors), np.full(every.size, -1), every
        )

    @classmethod
    def that_each_arm_is_feasible(cls, problem: Problem) -> "Events":
        """For each arm the event that its costs are within the limits."""
        names = [f"{name} feasible" for name in problem.coords["arm"].tolist()]
        costs, none = problem.arms[:, np.newaxis] - problem.references, np.full(len(names), -1)
        return cls(names, *_ask_feasible(problem, costs), none, none)

    @classmethod
    def everywhere(cls, blocks: int, features: int) -> "Events":
        """One event that asks nothing."""
        none = np.array([-1])
        nothing = np.zeros((1, blocks, features)), np.full((1, blocks), -np.inf)
        return cls(["everywhere"], *nothing, none, none)

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """The event of this name."""
        return self.names.index(name)

    @cached_property
    def possible(self) -> NDArray[np.int64]:
        """Indices of the events that can happen."""
        return np.flatnonzero(~np.isposinf(self.limits).any(axis=1))

    def take(self, events: Sequence[int] | NDArray[np.int64]) -> "Events":
        """Only these events, in this order."""
        chosen = np.asarray(events, dtype=np.int64)
        return Events(
            [self.names[e] for e in chosen], self.vectors[chosen], self.limits[chosen],
            self.constraint[chosen], self.rival[chosen],
        )  # fmt: skip

    def only(self, event: int) -> "Events":
        """One event by itself; it has to be possible."""
        event = _check.index("event", event, len(self), "event")
        if event not in self.possible:
            raise ValueError(f"event: {self.names[event]!r} is impossible")
        return self.take([event])

    def contains(self, theta: Array) -> NDArray[np.bool_]:
        """Which events contain parameters (..., block, feature), over (..., event)."""
        values = np.einsum("ebf,...bf->...eb", self.vectors, np.asarray(theta, dtype=float))
        return np.all((values >= self.limits) | np.isneginf(self.limits), axis=-1)

    def whiten(self, mean: Array, root: Array) -> tuple[Array, Array]:
        """Unit normals and offsets of the half-spaces in coordinates `u` of a Gaussian.

        Parameters are `mean + root @ u`, block by block, with `u` standard normal; the event is
        `normals[e, b] @ u[b] >= offsets[e, b]`.
        """
        normals = np.einsum("ebf,bfa->eba", self.vectors, root)
        asked = np.isfinite(self.limits)
        length = np.where(asked, np.linalg.norm(normals, axis=-1), 1.0)
        excess = np.where(asked, self.limits, 0.0) - np.einsum("ebf,bf->eb", self.vectors, mean)
        return normals / length[..., np.newaxis], np.where(asked, excess / length, self.limits)

    def log_probabilities(self, mean: Array, root: Array) -> Array:
        """Log-probability of each event under a Gaussian with independent blocks."""
        return np.sum(log_ndtr(-self.whiten(mean, root)[1]), axis=1)


def _ask_feasible(problem: Problem, chosen: Array) -> tuple[Array, Array]:
    """Vectors and limits of the events that costs (..., constraint, feature) are within limits."""
    thresholds = problem.limits
    vectors = np.zeros((len(chosen), 1 + thresholds.size, problem.arms.shape[1]))
    limits = np.full(vectors.shape[:2], -np.inf)
    # A zero vector costs 0 for certain: it is always feasible, or never.
    asked = np.where(chosen.any(axis=2), -thresholds, np.inf)
    limits[:, 1:] = np.where(np.isinf(asked) & (thresholds >= 0), -np.inf, asked)
    vectors[:, 1:] = np.where(np.isfinite(limits[:, 1:, np.newaxis]), -chosen, 0.0)
    return vectors, limits
