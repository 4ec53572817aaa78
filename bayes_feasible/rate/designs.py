"""The G-optimal design: how to pull so that every arm's mean is known equally well."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayes_feasible import _check
from bayes_feasible.problem import Problem
from bayes_feasible.rate.d_optimal import g_optimal_shares
from bayes_feasible.span import span

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Design:
    r"""An allocation that minimises the largest variance of an arm's estimated mean.

    Attributes
    ----------
    allocation : DataArray over `arm`
        Share of the pulls of each arm.
    value : float
        The largest :math:`x^\top V_w^{-1} x` over the arms, at least `rank`.
    rank : int
        The dimension of the span of the arms: the smallest value there is (Kiefer and Wolfowitz).
    """

    allocation: "xr.DataArray"
    value: float
    rank: int

    @property
    def gap(self) -> float:
        """Relative distance of the value from the optimum."""
        return (self.value - self.rank) / self.rank

    def __repr__(self) -> str:
        support = int((self.allocation > 0).sum())
        return (
            f"Design: {support} of {self.allocation.size} arms pulled, largest variance "
            f"{self.value:.9g} (optimum {self.rank}, relative gap {self.gap:.1e})"
        )


def g_optimal(arms: Any) -> Design:
    r"""The G-optimal design of these arms.

    Minimises :math:`\max_x x^\top V_w^{-1} x` over allocations :math:`w`, with
    :math:`V_w = \sum_x w_x x x^\top` restricted to the span of the arms. The optimum equals the
    rank of the arms, which certifies the result [1]_.

    Parameters
    ----------
    arms : Problem, or vectors as for `Problem`
        Arms need not span all features; copies and zero vectors are allowed.

    Returns
    -------
    Design
        With relative gap at most 1e-8.

    References
    ----------
    .. [1] J. Kiefer and J. Wolfowitz, "The equivalence of two extremum problems", Canadian
       Journal of Mathematics 12 (1960), 363-366.

    Examples
    --------
    >>> g_optimal([[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]]).allocation.values
    array([0.5, 0.5, 0. ])
    """
    import xarray as xr

    if isinstance(arms, Problem):
        vectors, names, rank = arms.arms, arms.coords["arm"], arms.rank
    else:
        vectors, labels, _ = _check.table("arms", arms, "arm")
        if not vectors.any():
            raise ValueError("arms: every arm is the zero vector, so there is nothing to design")
        names, rank = _check.names("arms", labels, len(vectors)), span(vectors).shape[1]
    weights, value = g_optimal_shares(vectors, rank)
    allocation = xr.DataArray(weights, {"arm": names}, "arm", "allocation")
    return Design(allocation, value, rank)
