r"""The rate for any outcomes: exponents from divergences, and the allocation that is best.

An event that would make the answer wrong asks a half-space of some blocks. Its exponent is the sum
of the divergences :math:`D_b(w)` of those that do not hold, and

.. math:: \Gamma = \max_w \min_e \sum_b D_b(w) .
"""

import numpy as np
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.alternative.events import Events
from bayes_feasible.instance import Instance
from bayes_feasible.rate.divergence import divergences
from bayes_feasible.rate.saddle import Exponents, Saddle, solve
from bayes_feasible.span import SPAN_TOLERANCE, plainly, span


class Mistakes:
    """The events that would make the true answer wrong, and what keeps them from happening.

    Attributes
    ----------
    events : Events
    owner : array of int (event,)
        The candidate that each is about: the rival, or the best one where its costs are too high.
    violated : array of bool (event, block)
        Which half-spaces the truth is outside of.
    impossible : array of bool (event,)
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        problem, best = instance.problem, instance.best
        if best is None:
            self.events = Events.that_each_is_feasible(problem)
        else:
            self.events = Events.that_refute(problem, best)
        self.owner = self.events.rival.copy()
        if best is not None:
            self.owner[self.owner < 0] = best
        self.theta = np.vstack([instance.theta_reward, instance.theta_cost])
        limits = self.events.limits
        self.impossible = np.isposinf(limits).any(axis=1)
        values = (self.events.vectors * self.theta).sum(axis=-1)
        self.violated = np.isfinite(limits) & (values < limits)

    @property
    def tied(self) -> NDArray[np.bool_]:
        """Events in which the truth lies, so that no number of pulls tells."""
        return ~self.impossible & ~self.violated.any(axis=1)

    def on(self, arms: Array) -> "_Pulled":
        """The same as far as these arms tell of it, in coordinates of their span."""
        return _Pulled(self, arms)

    def by_candidate(self, values: Array) -> Array:
        """The smallest over the events of each candidate; infinite where it has none."""
        result = np.full(len(self.instance.problem.candidates), np.inf)
        np.minimum.at(result, self.owner[~self.impossible], values[~self.impossible])
        return result


class _Pulled:
    """Divergences from the half-spaces that some arms tell of."""

    def __init__(self, mistakes: Mistakes, arms: Array) -> None:
        instance, events = mistakes.instance, mistakes.events
        basis = span(arms)
        self.mistakes, self.arms, self.parts = mistakes, arms @ basis, []
        self.seen = np.zeros(len(events), dtype=bool)
        for b, outcome in enumerate(instance.problem.outcomes):
            at = np.flatnonzero(mistakes.violated[:, b] & ~mistakes.impossible)
            vectors = events.vectors[at, b]
            rest = np.linalg.norm(vectors - vectors @ basis @ basis.T, axis=1)
            told = rest <= SPAN_TOLERANCE * np.linalg.norm(vectors, axis=1)
            at = at[told]
            if not at.size:
                continue
            self.seen[at] = True
            # Where the basis is not the identity, the truth outside of it plays no part.
            theta = mistakes.theta[b]
            vectors = events.vectors[at, b] @ basis
            limits = events.limits[at, b] - (
                events.vectors[at, b] @ theta - vectors @ (basis.T @ theta)
            )
            self.parts.append((at, outcome, instance.noise[b], basis.T @ theta, vectors, limits))

    def __call__(self, weights: Array) -> Exponents:
        """Exponents of all events under positive shares of the arms."""
        size = len(self.mistakes.events)
        value, each, found = np.zeros(size), np.zeros((size, len(self.arms))), []
        for at, *part in self.parts:
            one = divergences(self.arms, weights, *part)
            value[at] += one.value
            each[at] += one.each
            found.append((at, one))

        def hessian(q: Array) -> Array:
            size = len(self.arms)
            return sum((one.hessian(self.arms, q[at]) for at, one in found), np.zeros((size, size)))

        return Exponents(value, each, hessian)


@plainly
def exponents(mistakes: Mistakes, weights: Array) -> Array:
    """Exponents of all events under shares that may vanish."""
    pulled = weights > 0
    value = mistakes.on(mistakes.instance.problem.arms[pulled])(weights[pulled]).value
    return np.where(mistakes.impossible, np.inf, value)


@plainly
def best_allocation(mistakes: Mistakes, tol: float) -> tuple[Saddle, Array]:
    """The best allocation, and the weights of all events that prove it."""
    game = mistakes.on(mistakes.instance.problem.arms)
    open_ = np.flatnonzero(~mistakes.impossible)

    def of(weights: Array) -> Exponents:
        every = game(weights)

        def hessian(q: Array) -> Array:
            spread = np.zeros(len(mistakes.events))
            spread[open_] = q
            return every.hessian(spread)

        return Exponents(every.value[open_], every.each[open_], hessian)

    saddle = solve(of, len(mistakes.instance.problem.arms), tol)
    dual = np.zeros(len(mistakes.events))
    dual[open_] = saddle.weights
    return saddle, dual
