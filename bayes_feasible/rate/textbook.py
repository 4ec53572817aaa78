r"""The exponents of the paper's model, with known noise and absolute limits, and their optimum.

.. math:: f(w, z) = \sum_{k \in z} \kappa_k / (u_k^\top V_w^{-1} u_k)

is a sum over pieces, vectors :math:`u_k` with coefficients :math:`\kappa_k > 0`. It has the methods
of `general.Mistakes`, and a solver of its own, which is far faster.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible._plainly import plainly
from bayes_feasible.instance import Instance
from bayes_feasible.rate.interior import Game, exponents
from bayes_feasible.rate.maximin import maximin
from bayes_feasible.span import SPAN_TOLERANCE, coordinates, span

ROUNDING = 1e-13  # relative allowance for rounding in the upper bound
SMALLEST_RATIO, LARGEST_RATIO = 1e-150, 1e150  # of a gap to the noise: their squares are numbers
SMALLEST_EXPONENT, LARGEST_EXPONENT = 1e-304, 1e304
NAMED = 6  # candidates that a message lists


class _InSpan(NamedTuple):
    """The pieces in coordinates of the span of some arms, less what these do not tell of."""

    game: Game
    basis: NDArray[np.int64]  # (rank,), arms that span the rest
    unseen: NDArray[np.bool_]  # (candidate,), of which no arm tells


class Textbook:
    """What would make the true answer wrong, and how fast pulls rule it out.

    Attributes
    ----------
    impossible : array of bool (candidate,)
        Those that are never the reason of a mistake.
    """

    aim = 0.1  # share of a tolerance to solve to

    def __init__(self, instance: Instance) -> None:
        problem, best = instance.problem, instance.best
        candidates = problem.candidates
        margin = problem.thresholds - instance.mean_cost
        cost = _half_square("thresholds", margin, problem.cost_noise)
        gap = np.maximum(instance.reward_gap, 0.0)
        reward_term = _half_square("theta_reward", gap, problem.reward_noise)
        cost_term = np.where(margin < 0, cost, 0.0).sum(axis=1)
        copy = problem.copies(best)
        reward_term[copy] = 0.0
        cost_term[best] = cost[best].min(initial=np.inf)
        # A zero vector costs nothing whatever the parameters: it is feasible or not for certain.
        certain = ~candidates.any(axis=1) & (cost_term > 0)
        certain[best] = np.isinf(cost_term[best]) or not candidates[best].any()
        self.instance = instance
        self.impossible = certain | (copy & (np.arange(copy.size) != best))
        self._zero = ~self.impossible & (reward_term == 0) & (cost_term == 0)
        by_reward = np.flatnonzero(~self.impossible & (reward_term > 0))
        by_cost = np.flatnonzero(~self.impossible & (cost_term > 0))
        # A difference, and what rounding has cut off it (Knuth).
        left, right = candidates[by_reward], candidates[best]
        difference = left - right
        back = difference - left
        rest = (left - (difference - back)) - (right + back)
        self._vectors = np.concatenate((difference, candidates[by_cost]))
        self._rests = np.concatenate((rest, np.zeros((by_cost.size, candidates.shape[1]))))
        self._coefficients = np.concatenate((reward_term[by_reward], cost_term[by_cost]))
        self._owner = np.concatenate((by_reward, by_cost))
        self._pulled: dict[bytes, Game | None] = {}

    def tie(self) -> tuple[str, Array] | None:
        """Why the rate is 0, and the candidates' shares in that; None where it is not."""
        zero = self._zero if self._zero.any() else self._everything.unseen
        if not zero.any():
            return None
        instance, problem, best = self.instance, self.instance.problem, self.instance.best
        distance = np.abs(problem.thresholds - instance.mean_cost[best])
        if zero[best] and not distance.all():
            constraint = problem.coords["constraint"][int(np.argmin(distance))]
            message = f"{problem.name(best)!r} lies exactly on the threshold of {constraint!s}"
            return f"the best candidate {message}, so the rate is 0", zero / zero.sum()
        tied = ", ".join(repr(problem.name(int(i))) for i in np.flatnonzero(zero)[:NAMED])
        exact = np.all(instance.reward_gap[zero] <= 0)
        seen = "" if exact else " as far as the arms can tell"
        message = f"{tied} tie with the best candidate {problem.name(best)!r}{seen}"
        return f"{message}, so the rate is 0", zero / zero.sum()

    @plainly
    def exponents(self, weights: Array) -> Array:
        """Exponents of the candidates under shares that may vanish, so that V may be singular."""
        value = np.where(self.impossible, np.inf, 0.0)
        pulled = weights > 0
        key = pulled.tobytes()
        if key not in self._pulled:
            # What is seen at all depends on the arms that are pulled, not on how often.
            arms, problem = self.instance.problem.arms[pulled], self.instance.problem
            told = self._owner.size and arms.any()
            rank = problem.rank if pulled.all() or not told else span(arms).shape[1]
            self._pulled[key] = self._in_span(arms, rank).game if told else None
        game = self._pulled[key]
        return value if game is None else value + exponents(game, weights[pulled]).value

    @plainly
    def best_allocation(self, tol: float) -> tuple[Array, Array, float]:
        """The allocation, the weights on candidates, and the upper bound that these prove."""
        game, basis, unseen = self._everything
        present, owner = np.unique(game.owner, return_inverse=True)
        game = game._replace(owner=owner, candidates=present.size)
        weights, some_dual, _, upper = maximin(game, basis, tol)
        dual = np.zeros(unseen.size)
        dual[present] = some_dual
        return weights, dual, upper * (1 + ROUNDING)

    @cached_property
    def _everything(self) -> _InSpan:
        return self._in_span(self.instance.problem.arms, self.instance.problem.rank)

    @plainly  # a value that is no number is refused, or no bound
    def _in_span(self, arms: Array, rank: int) -> _InSpan:
        reduced, vectors, basis, outside = coordinates(arms, self._vectors, rank, self._rests)
        seen = outside <= SPAN_TOLERANCE
        vectors, coefficients = vectors[seen], self._coefficients[seen]
        _check_exponents(vectors, coefficients)
        unseen = ~(self.impossible | self._zero)
        unseen[self._owner[seen]] = False
        game = Game(reduced, vectors, coefficients, self._owner[seen], unseen.size)
        return _InSpan(game, basis, unseen)


def _half_square(name: str, gap: Array, noise: Any) -> Array:
    """Half the square of gaps in units of the noise, which double precision must hold."""
    ratio = gap / noise
    size = np.abs(ratio[np.isfinite(ratio) & (ratio != 0)])
    if size.size and not SMALLEST_RATIO <= size.min() <= size.max() <= LARGEST_RATIO:
        off = size.max() if size.max() > LARGEST_RATIO else size.min()
        raise ValueError(f"{name}: a gap of {off:g} times the noise is beyond double precision")
    return np.square(ratio) / 2


def _check_exponents(vectors: Array, coefficients: Array) -> None:
    """Refuse candidates so much longer or shorter than the arms that no number can tell."""
    size = np.abs(vectors).max(axis=1, initial=0.0)
    exponent = coefficients / size**2
    bad = (size < SMALLEST_RATIO) | (size > LARGEST_RATIO)
    bad |= (exponent < SMALLEST_EXPONENT) | (exponent > LARGEST_EXPONENT)
    if bad.any():
        raise ValueError(
            f"candidates: a difference of {size[bad][0]:g} times the length of the arms gives an "
            "exponent beyond double precision"
        )
