"""The rate at which the best rule's probability of error vanishes, and how to pull for it."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.instance import (
    BEST,
    FEASIBLE_SUBOPTIMAL,
    INFEASIBLE_SUBOPTIMAL,
    INFEASIBLE_SUPEROPTIMAL,
    Instance,
)
from bayes_feasible.problem import Problem
from bayes_feasible.rate.general import Mistakes, best_allocation
from bayes_feasible.rate.general import exponents as event_exponents
from bayes_feasible.rate.interior import Game
from bayes_feasible.rate.interior import exponents as interior_exponents
from bayes_feasible.rate.maximin import maximin
from bayes_feasible.span import SPAN_TOLERANCE, coordinates, plainly, span

if TYPE_CHECKING:
    import xarray as xr

ROUNDING = 1e-13  # relative allowance for rounding in the upper bound
SMALLEST_RATIO, LARGEST_RATIO = 1e-150, 1e150  # of a gap to the noise: their squares are numbers
SMALLEST_EXPONENT, LARGEST_EXPONENT = 1e-304, 1e304
NEGLIGIBLE = 1e-8  # shares below this are tried at zero
SHOWN = 6  # arms of the allocation that are printed

_MISTAKE = {
    BEST: "the best candidate looks infeasible",
    INFEASIBLE_SUPEROPTIMAL: "an infeasible candidate of higher reward looks feasible",
    FEASIBLE_SUBOPTIMAL: "a feasible candidate of lower reward looks better",
    INFEASIBLE_SUBOPTIMAL: "an infeasible candidate of lower reward looks feasible and better",
}


@dataclass(frozen=True, eq=False, repr=False)
class Rate:
    r"""The optimal rate :math:`\Gamma`, certified, and the allocation that reaches it.

    Attributes
    ----------
    value : float
        The smallest exponent under `allocation`: the rate it is certain to reach.
    lower, upper : float
        Bounds of :math:`\Gamma`.
    allocation : DataArray over `arm`
        The optimal shares of the pulls.
    hardest : int or None
        The candidate of largest weight; None if no mistake is possible.
    mistake : str
        What a wrong recommendation because of the hardest candidate amounts to.
    weights : DataArray over `candidate`
        The other player's optimal strategy, which proves the upper bound: how much each
        candidate matters. Zero for those that do not limit the rate.
    exponents : DataArray over `candidate`
        The exponents under `allocation`.
    """

    value: float
    lower: float
    upper: float
    hardest: int | None
    mistake: str
    problem: Problem
    arrays: tuple[Array, Array, Array]  # allocation, weights, exponents; labelled when asked for

    @cached_property
    def allocation(self) -> "xr.DataArray":
        """The optimal shares of the pulls, over `arm`."""
        return _over(self.problem, "arm", self.arrays[0], "allocation")

    @cached_property
    def weights(self) -> "xr.DataArray":
        """How much each candidate matters, over `candidate`."""
        return _over(self.problem, "candidate", self.arrays[1], "weight")

    @cached_property
    def exponents(self) -> "xr.DataArray":
        """The exponents under `allocation`, over `candidate`."""
        return _over(self.problem, "candidate", self.arrays[2], "exponent")

    @property
    def gap(self) -> float:
        """Relative distance between the bounds."""
        if self.lower == self.upper:
            return 0.0
        return (self.upper - self.lower) / self.lower if self.lower > 0 else np.inf

    def __repr__(self) -> str:
        order = np.argsort(-self.allocation.values, kind="stable")
        order = order[self.allocation.values[order] > 0]
        names = self.allocation.coords["arm"].values
        shares = [f"{names[i]}: {self.allocation.values[i]:.4f}" for i in order[:SHOWN]]
        more = f", and {order.size - SHOWN} more arms" if order.size > SHOWN else ""
        lines = [
            f"Rate {self.value:.9g}, certified in [{self.lower:.12g}, {self.upper:.12g}] "
            f"(relative gap {self.gap:.1e})",
            f"  pull {', '.join(shares)}{more}",
        ]
        if self.hardest is None:
            lines.append("  no mistake is possible")
        else:
            name = self.weights.coords["candidate"].values[self.hardest]
            share = self.weights.values[self.hardest]
            lines.append(f"  hardest candidate {name} (weight {share:.3g}): {self.mistake}")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Pieces:
    """The exponents as sums of coefficient / |vector|^2, without an allocation."""

    vectors: Array  # (piece, feature)
    rests: Array  # (piece, feature), what rounding has cut off the vectors
    coefficients: Array  # (piece,), positive
    owner: NDArray[np.int64]  # (piece,), the candidate
    infinite: NDArray[np.bool_]  # (candidate,), never the reason of a mistake
    zero: NDArray[np.bool_]  # (candidate,), ties that no number of pulls resolves


def _pieces(instance: Instance) -> _Pieces:
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
    infinite = certain | (copy & (np.arange(copy.size) != best))
    zero = ~infinite & (reward_term == 0) & (cost_term == 0)
    by_reward = np.flatnonzero(~infinite & (reward_term > 0))
    by_cost = np.flatnonzero(~infinite & (cost_term > 0))
    difference, rest = _exact_difference(candidates[by_reward], candidates[best])
    return _Pieces(
        np.concatenate((difference, candidates[by_cost])),
        np.concatenate((rest, np.zeros((by_cost.size, candidates.shape[1])))),
        np.concatenate((reward_term[by_reward], cost_term[by_cost])),
        np.concatenate((by_reward, by_cost)),
        infinite,
        zero,
    )


def _exact_difference(left: Array, right: Array) -> tuple[Array, Array]:
    """A difference, and what rounding has cut off it (Knuth)."""
    difference = left - right
    back = difference - left
    return difference, (left - (difference - back)) - (right + back)


def _half_square(name: str, gap: Array, noise: Any) -> Array:
    """Half the square of gaps in units of the noise, which double precision must hold."""
    ratio = gap / noise
    size = np.abs(ratio[np.isfinite(ratio) & (ratio != 0)])
    if size.size and not SMALLEST_RATIO <= size.min() <= size.max() <= LARGEST_RATIO:
        off = size.max() if size.max() > LARGEST_RATIO else size.min()
        raise ValueError(f"{name}: a gap of {off:g} times the noise is beyond double precision")
    return np.square(ratio) / 2


def _reduce(problem: Problem, pulled: NDArray[np.bool_], pieces: _Pieces) -> Game | None:
    """The arms that are pulled and the pieces that these tell of, in coordinates of their span.

    Which directions are seen at all depends on the arms that are pulled, not on how often, so
    that is decided before the weights come in.
    """
    arms = problem.arms[pulled]
    if not pieces.owner.size or not arms.any():
        return None
    rank = problem.rank if pulled.all() else span(arms).shape[1]
    return _in_span(arms, rank, pieces).game


def _check_exponents(vectors: Array, coefficients: Array) -> None:
    """Refuse candidates so much longer or shorter than the arms that no number can tell."""
    size = np.abs(vectors).max(axis=1, initial=0.0)
    bad = (size < SMALLEST_RATIO) | (size > LARGEST_RATIO)
    with np.errstate(all="ignore"):
        exponent = coefficients / size**2
    bad |= (exponent < SMALLEST_EXPONENT) | (exponent > LARGEST_EXPONENT)
    if bad.any():
        raise ValueError(
            f"candidates: a difference of {size[bad][0]:g} times the length of the arms gives an "
            "exponent beyond double precision"
        )


@plainly
def _evaluate(weights: Array, pieces: _Pieces, game: Game | None) -> Array:
    """Exponents under weights that may vanish, so that V may be singular."""
    value = np.where(pieces.infinite, np.inf, 0.0)
    if game is not None:
        value += interior_exponents(game, weights[weights > 0]).value
    return value


def _exponents(problem: Problem, weights: Array, pieces: _Pieces) -> Array:
    return _evaluate(weights, pieces, _reduce(problem, weights > 0, pieces))


def smallest_exponents(instance: Instance, allocations: Array) -> Array:
    """The smallest exponent under each of many allocations, the rows of a table."""
    if not _is_textbook(instance):
        mistakes = Mistakes(instance)
        return np.array([event_exponents(mistakes, weights).min() for weights in allocations])
    problem, pieces = instance.problem, _pieces(instance)
    reduced: dict[bytes, Game | None] = {}
    smallest = np.empty(len(allocations))
    for i, weights in enumerate(allocations):
        pulled = weights > 0
        key = pulled.tobytes()
        if key not in reduced:
            reduced[key] = _reduce(problem, pulled, pieces)
        smallest[i] = _evaluate(weights, pieces, reduced[key]).min()
    return smallest


def exponents(instance: Instance, allocation: Any) -> "xr.DataArray":
    r"""How fast each candidate stops being mistaken for the best under an allocation.

    With r the reward by which candidate z falls short of the best feasible z* (0 if it does
    not), and c_j the cost by which it exceeds threshold j (0 if it does not),

    .. math::

        f(w, z) = \frac{r^2}{2 \sigma^2 \|z - z^*\|^2_{V_w^{-1}}}
                  + \sum_j \frac{c_j^2}{2 \gamma_j^2 \|z\|^2_{V_w^{-1}}}, \qquad
        f(w, z^*) = \min_j \frac{(\tau_j - \langle\theta_{c,j}, z^*\rangle)^2}
                                {2 \gamma_j^2 \|z^*\|^2_{V_w^{-1}}} .

    After T pulls in shares w the posterior probability that z is better is of order
    :math:`e^{-T f(w, z)}`, and that of z* being infeasible :math:`e^{-T f(w, z^*)}`. The
    parameters are taken as unbounded, also where the problem has a `parameter_radius`.

    Parameters
    ----------
    instance : Instance
    allocation : vector over arms
        Shares of the pulls, with sum 1; in the order of the arms, or by their names.

    Returns
    -------
    DataArray over `candidate`
        Infinite for copies of the best candidate and for candidates that cannot be mistaken;
        zero where the pulled arms do not tell.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> bf.exponents(instance, [0.2] * 5).values.round(4).tolist()
    [0.0547, 0.1777, 0.1013, 0.0773, 0.0032]
    """
    _check.kind("instance", instance, Instance)
    problem = instance.problem
    weights = _check.allocation(problem, allocation)
    if _is_textbook(instance):
        value = _exponents(problem, weights, _pieces(instance))
    else:
        mistakes = Mistakes(instance)
        value = mistakes.by_candidate(event_exponents(mistakes, weights))
    return _over(problem, "candidate", value, "exponent")


def optimal_rate(instance: Instance, tol: float = 1e-8) -> Rate:
    r"""The largest rate at which the probability of error can vanish, and its allocation.

    Solves :math:`\Gamma = \max_w \min_z f(w, z)` with the exponents of `exponents`. Each is
    concave in w, and the result carries a proof: any allocation gives a lower bound, any weights
    on candidates with their nearest alternatives an upper bound.

    Parameters
    ----------
    instance : Instance
    tol : float
        Largest relative gap between the two bounds.

    Returns
    -------
    Rate

    Warns
    -----
    UserWarning
        If candidates tie, so that the rate is 0.
    RuntimeWarning
        If `tol` was not reached. The bounds hold all the same.

    Notes
    -----
    The parameters are taken as unbounded, also where the problem has a `parameter_radius`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> print(optimal_rate(bf.instances.end_of_optimism(alpha=0.1)))
    Rate 0.00113558896, certified in [0.00113558895..., 0.00113558895...] (relative gap ...)
      pull 2: 0.9523, 0: 0.0477
      hardest candidate 4 (weight 1): a feasible candidate of lower reward looks better
    """
    _check.kind("instance", instance, Instance)
    tol = _check.positive("tol", tol)
    rate = _textbook_rate(instance, tol) if _is_textbook(instance) else _general_rate(instance, tol)
    if not rate.gap <= tol:
        warnings.warn(
            f"optimal_rate reached a relative gap of {rate.gap:.1e} instead of {tol:.1e}; "
            f"the rate is certain to be in [{rate.lower:.9g}, {rate.upper:.9g}]",
            RuntimeWarning,
            stacklevel=2,
        )
    return rate


def _is_textbook(instance: Instance) -> bool:
    """Whether the exponents are those of the paper, for which there is a solver of their own."""
    return instance.problem.textbook and instance.best is not None


def _general_rate(instance: Instance, tol: float) -> Rate:
    mistakes = Mistakes(instance)
    weights = instance.problem.design.copy()
    unseen = ~mistakes.on(instance.problem.arms).seen & ~mistakes.impossible
    tied = mistakes.tied if mistakes.tied.any() else unseen
    if tied.any():
        names = ", ".join(repr(mistakes.events.names[e]) for e in np.flatnonzero(tied)[:SHOWN])
        warnings.warn(
            f"no number of pulls rules out {names}, so the rate is 0", UserWarning, stacklevel=3
        )
        upper, dual = 0.0, tied / tied.sum()
    elif mistakes.impossible.all():
        upper, dual = np.inf, np.zeros(len(tied))
    else:
        saddle, dual = best_allocation(mistakes, 0.5 * tol)
        weights, upper = saddle.allocation, saddle.upper
        sparse = np.where(weights > NEGLIGIBLE, weights, 0.0)
        sparse /= sparse.sum()
        if event_exponents(mistakes, sparse).min() >= (1 - 0.25 * tol) * saddle.lower:
            weights = sparse
    value = mistakes.by_candidate(event_exponents(mistakes, weights))
    by_candidate = np.zeros(value.size)
    np.add.at(by_candidate, mistakes.owner, dual)
    return _rate(instance, weights, value, by_candidate, upper)


def _textbook_rate(instance: Instance, tol: float) -> Rate:
    problem, pieces = instance.problem, _pieces(instance)
    coords = _in_span(problem.arms, problem.rank, pieces)
    zero = pieces.zero if pieces.zero.any() else coords.unseen
    if zero.any():
        warnings.warn(_tie_message(instance, zero), UserWarning, stacklevel=3)
        dual = zero / zero.sum()
        weights = problem.design.copy()
        return _rate(instance, weights, _exponents(problem, weights, pieces), dual, 0.0)
    if pieces.infinite.all():
        dual = np.zeros(pieces.infinite.size)
        weights = problem.design.copy()
        return _rate(instance, weights, _exponents(problem, weights, pieces), dual, np.inf)
    weights, dual, upper = _solve(coords, 0.1 * tol)
    sparse = np.where(weights > NEGLIGIBLE, weights, 0.0)
    sparse /= sparse.sum()
    value = _exponents(problem, sparse, pieces)
    if upper <= (1 + 0.5 * tol) * value.min():
        weights = sparse
    else:
        value = _exponents(problem, weights, pieces)
    return _rate(instance, weights, value, dual, upper)


class _InSpan(NamedTuple):
    """Arms and pieces in coordinates of the span of the arms, less what no arm tells of."""

    game: Game
    basis: NDArray[np.int64]  # (rank,), arms that span the rest
    unseen: NDArray[np.bool_]  # (candidate,), of which no arm tells


@plainly  # a value that is no number is refused, or no bound
def _in_span(arms: Array, rank: int, pieces: _Pieces) -> _InSpan:
    reduced, vectors, basis, outside = coordinates(arms, pieces.vectors, rank, pieces.rests)
    seen = outside <= SPAN_TOLERANCE
    _check_exponents(vectors[seen], pieces.coefficients[seen])
    unseen = ~(pieces.infinite | pieces.zero)
    unseen[pieces.owner[seen]] = False
    owner = pieces.owner[seen]
    game = Game(reduced, vectors[seen], pieces.coefficients[seen], owner, unseen.size)
    return _InSpan(game, basis, unseen)


@plainly
def _solve(coords: _InSpan, target: float) -> tuple[Array, Array, float]:
    """The allocation, the weights on candidates, and the upper bound that these prove."""
    game = coords.game
    present, owner = np.unique(game.owner, return_inverse=True)
    game = game._replace(owner=owner, candidates=present.size)
    weights, some_dual, _, upper = maximin(game, coords.basis, target)
    dual = np.zeros(coords.unseen.size)
    dual[present] = some_dual
    return weights, dual, upper * (1 + ROUNDING)


def _rate(instance: Instance, weights: Array, value: Array, dual: Array, upper: float) -> Rate:
    lower = min(float(value.min()), upper)
    hardest = int(np.argmax(dual)) if dual.any() else None
    return Rate(
        value=lower,
        lower=lower,
        upper=float(upper),
        hardest=hardest,
        mistake="" if hardest is None else _mistake(instance, hardest),
        problem=instance.problem,
        arrays=(weights, dual, value),
    )


def _mistake(instance: Instance, hardest: int) -> str:
    if instance.best is None:
        return "a candidate that is not feasible looks feasible"
    return _MISTAKE[str(instance.kind[hardest])]


def _tie_message(instance: Instance, zero: NDArray[np.bool_]) -> str:
    problem, best = instance.problem, instance.best
    if zero[best] and not np.all(problem.thresholds != instance.mean_cost[best]):
        constraint = int(np.argmin(np.abs(problem.thresholds - instance.mean_cost[best])))
        return (
            f"the best candidate {problem.name(best)!r} lies exactly on the threshold of "
            f"constraint {problem.coords['constraint'][constraint]!s}, so the rate is 0"
        )
    tied = ", ".join(repr(problem.name(int(i))) for i in np.flatnonzero(zero)[:SHOWN])
    exact = np.all(instance.reward_gap[zero] <= 0)
    told = "" if exact else " as far as the arms can tell"
    return f"{tied} tie with the best candidate {problem.name(best)!r}{told}, so the rate is 0"


def _over(problem: Any, dim: str, values: Array, name: str) -> "xr.DataArray":
    import xarray as xr

    return xr.DataArray(values, {dim: problem.coords[dim]}, dim, name)


def plug_in_allocation(
    problem: Problem, theta_reward: Array, theta_cost: Array, tol: float = 1e-4
) -> Array | None:
    """The optimal allocation if these were the true parameters.

    None where it would make no difference: no candidate is feasible, candidates tie, or no
    mistake is possible. Rounded, for rounding must not decide between equal shares.
    """
    try:
        instance = Instance(problem, theta_reward, theta_cost)
        if instance.best is None:
            return None
        pieces = _pieces(instance)
        coords = _in_span(problem.arms, problem.rank, pieces)
    except ValueError:
        return None
    if pieces.zero.any() or coords.unseen.any() or pieces.infinite.all():
        return None
    return np.round(_solve(coords, tol)[0], 12)
