r"""The rate for any outcomes: exponents from divergences, and the allocation that is best.

An event that would make the answer wrong asks a half-space of some blocks. Its exponent is the sum
of the divergences :math:`D_b(w)` of those that do not hold, and

.. math:: \Gamma = \max_w \min_e \sum_b D_b(w) .
"""

from functools import cached_property

import numpy as np

from bayes_feasible._check import Array
from bayes_feasible._plainly import plainly
from bayes_feasible.alternative.events import Events
from bayes_feasible.instance import Instance
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.rate.divergence import divergences
from bayes_feasible.rate.saddle import Exponents, solve
from bayes_feasible.span import outside, span

NAMED = 6  # events that a message lists


class Mistakes:
    """The events that would make the true answer wrong, and what keeps them from happening.

    Or those that would make another `candidate` wrong.

    Attributes
    ----------
    events : Events
    owner : array of int (event,)
        The candidate that each is about: the rival, or the best one where its costs are too high.
    violated : array of bool (event, block)
        Which half-spaces the truth is outside of.
    impossible : array of bool (event,)
    """

    aim = 0.5  # share of a tolerance to solve to

    def __init__(self, instance: Instance, candidate: int | None = None) -> None:
        self.instance = instance
        problem, best = instance.problem, instance.best if candidate is None else candidate
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

    def tie(self) -> tuple[str, Array] | None:
        """Why the rate is 0, and the candidates' shares in that; None where it is not."""
        tied = ~self.impossible & ~self.violated.any(axis=1)  # the truth lies in the event
        if not tied.any():
            tied = ~self.impossible & ~self._everything.seen
        if not tied.any():
            return None
        names = ", ".join(repr(self.events.names[e]) for e in np.flatnonzero(tied)[:NAMED])
        message = f"no number of pulls rules out {names}, so the rate is 0"
        return message, self._shares(tied / tied.sum())

    def exponents(self, weights: Array) -> Array:
        """Exponents of the candidates under shares that may vanish."""
        result = np.full(len(self.instance.problem.candidates), np.inf)
        np.minimum.at(result, self.owner, self.event_exponents(weights))
        return result

    @plainly
    def event_exponents(self, weights: Array) -> Array:
        """Exponents of the events under shares that may vanish."""
        pulled = weights > 0
        value = _Pulled(self, self.instance.problem.arms[pulled])(weights[pulled]).value
        return np.where(self.impossible, np.inf, value)

    @plainly
    def nearest(self, weights: Array, event: int) -> tuple[Array, Array]:
        """The nearest parameters in an event (block, feature), and the noise to go with them."""
        pulled = weights > 0
        return _Pulled(self, self.instance.problem.arms[pulled]).nearest(weights[pulled], event)

    @plainly
    def best_allocation(self, tol: float) -> tuple[Array, Array, float]:
        """The allocation, the weights on candidates, and the upper bound that these prove."""
        possible, every = np.flatnonzero(~self.impossible), np.zeros(len(self.events))

        def among_possible(weights: Array) -> Exponents:
            found = self._everything(weights)

            def hessian(q: Array) -> Array:
                every[possible] = q
                return found.hessian(every)

            return Exponents(found.value[possible], found.each[possible], hessian)

        saddle = solve(among_possible, len(self.instance.problem.arms), tol)
        every[possible] = saddle.weights
        return saddle.allocation, self._shares(every), saddle.upper

    @cached_property
    def _everything(self) -> "_Pulled":
        return _Pulled(self, self.instance.problem.arms)

    def _shares(self, weights: Array) -> Array:
        """Weights of the events as weights of the candidates that they are about."""
        return np.bincount(self.owner, weights, len(self.instance.problem.candidates))


class _Pulled:
    """Divergences from the half-spaces that some arms tell of."""

    def __init__(self, mistakes: Mistakes, arms: Array) -> None:
        instance, events = mistakes.instance, mistakes.events
        basis = span(arms)
        self.mistakes, self.arms, self.basis = mistakes, arms @ basis, basis
        self.blocks, self.parts = [], []
        self.seen = np.zeros(len(events), dtype=bool)
        for b, outcome in enumerate(instance.problem.outcomes):
            at = np.flatnonzero(mistakes.violated[:, b] & ~mistakes.impossible)
            at = at[~outside(events.vectors[at, b], basis)]
            if not at.size:
                continue
            self.seen[at] = True
            # Where the basis is not the identity, the truth outside of it plays no part.
            theta = mistakes.theta[b]
            vectors = events.vectors[at, b] @ basis
            limits = events.limits[at, b] - (
                events.vectors[at, b] @ theta - vectors @ (basis.T @ theta)
            )
            self.blocks.append(b)
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

    def nearest(self, weights: Array, event: int) -> tuple[Array, Array]:
        """The nearest parameters in an event (block, feature), and the noise that goes with them.

        What no arm tells of is moved along what they do not see.
        """
        mistakes, blocks = self.mistakes, []
        theta, noise = mistakes.theta.copy(), mistakes.instance.noise.copy()
        for b, (at, *part) in zip(self.blocks, self.parts, strict=True):
            row = np.flatnonzero(at == event)
            if row.size:
                outcome, scale, centre, vectors, limits = part
                one = divergences(
                    self.arms, weights, outcome, scale, centre, vectors[row], limits[row]
                )
                theta[b] += self.basis @ np.linalg.lstsq(self.arms, one.steps[0])[0]
                if isinstance(outcome, Gaussian) and outcome.learnt:
                    noise[b] *= np.exp(one.value[0])
                blocks.append(b)
        for b in np.setdiff1d(np.flatnonzero(mistakes.violated[event]), blocks).tolist():
            vector = mistakes.events.vectors[event, b]
            rest = vector - self.basis @ (self.basis.T @ vector)
            gap = mistakes.events.limits[event, b] - vector @ theta[b]
            theta[b] += gap / (rest @ vector) * rest
        return theta, noise
