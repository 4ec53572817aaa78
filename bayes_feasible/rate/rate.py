"""The rate at which the best rule's probability of error vanishes, and how to pull for it."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

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
from bayes_feasible.rate.general import Mistakes
from bayes_feasible.rate.textbook import Textbook

if TYPE_CHECKING:
    import xarray as xr

NEGLIGIBLE = 1e-8  # shares below this are tried at zero
SPARSE = 0.75  # of the tolerance: how far off sparse shares may be
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


def _mistakes(instance: Instance) -> Textbook | Mistakes:
    """What may make the answer wrong, with the paper's own formulas where they apply."""
    if instance.problem.textbook and instance.best is not None:
        return Textbook(instance)
    return Mistakes(instance)


def smallest_exponents(instance: Instance, allocations: Array) -> Array:
    """The smallest exponent under each of many allocations, the rows of a table."""
    mistakes = _mistakes(instance)
    return np.array([mistakes.exponents(weights).min() for weights in allocations])


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
    value = _mistakes(instance).exponents(weights)
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
    rate = _certified(instance, tol)
    if not rate.gap <= tol:
        warnings.warn(
            f"optimal_rate reached a relative gap of {rate.gap:.1e} instead of {tol:.1e}; "
            f"the rate is certain to be in [{rate.lower:.9g}, {rate.upper:.9g}]",
            RuntimeWarning,
            stacklevel=2,
        )
    return rate


def quiet_rate(instance: Instance) -> Rate:
    """The optimal rate, without the warning of a tie: the rate is 0 then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optimal_rate(instance)


def _certified(instance: Instance, tol: float) -> Rate:
    mistakes, tie = _mistakes(instance), None
    if mistakes.impossible.all() or (tie := mistakes.tie()):
        weights = instance.problem.design.copy()
        value = mistakes.exponents(weights)
        if tie is None:
            return _rate(instance, weights, value, np.zeros(value.size), np.inf)
        warnings.warn(tie[0], UserWarning, stacklevel=3)
        return _rate(instance, weights, value, tie[1], 0.0)
    weights, dual, upper = mistakes.best_allocation(mistakes.aim * tol)
    sparse = np.where(weights > NEGLIGIBLE, weights, 0.0)
    sparse /= sparse.sum()
    value = mistakes.exponents(sparse)
    if upper <= (1 + SPARSE * tol) * value.min():
        weights = sparse
    else:
        value = mistakes.exponents(weights)
    return _rate(instance, weights, value, dual, upper)


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


def _over(problem: Any, dim: str, values: Array, name: str) -> "xr.DataArray":
    import xarray as xr

    return xr.DataArray(values, {dim: problem.coords[dim]}, dim, name)


def plug_in_allocation(instance: Instance, tol: float = 1e-4) -> Array | None:
    """The optimal allocation if an estimate were the truth.

    None where it would make no difference: in the paper's model no candidate is feasible,
    candidates tie, or no mistake is possible. Rounded, for rounding must not decide between equal
    shares.
    """
    if instance.problem.textbook and instance.best is None:
        return None
    try:
        mistakes = _mistakes(instance)
        if mistakes.impossible.all() or mistakes.tie():
            return None
    except ValueError:
        return None
    return np.round(mistakes.best_allocation(tol)[0], 12)
