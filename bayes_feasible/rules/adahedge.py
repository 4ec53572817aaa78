"""AdaHedge as a tool of its own: weights over experts that adapt to the losses they meet."""

from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.rules import hedge


class AdaHedge:
    r"""Exponential weights whose learning rate needs no tuning.

    After losses :math:`L_t` (cumulative) the weights are proportional to
    :math:`e^{-\eta_{t+1} L_t}` with :math:`\eta_{t+1} = \ln K / \Delta_t`, where :math:`\Delta_t`
    sums the mixability gaps. With losses in a range of width 1 the regret against the best expert
    is at most :math:`2 \sqrt{V_T \ln K} + \frac{4}{3} \ln K + 2`, :math:`V_T` the summed variances
    of the losses under the weights (de Rooij et al., JMLR 15, 2014, Theorem 8).

    Parameters
    ----------
    experts : int
        How many there are.

    Attributes
    ----------
    weights : ndarray
        Probabilities of the experts for the next round.
    losses : ndarray
        Cumulative loss of each expert.
    gap : float
        Cumulative mixability gap.

    Examples
    --------
    >>> learner = AdaHedge(3)
    >>> learner.update([0.0, 1.0, 1.0])
    >>> learner.weights.round(3)
    array([0.722, 0.139, 0.139])
    """

    def __init__(self, experts: int) -> None:
        experts = _check.count("experts", experts)
        self.losses: Array = np.zeros(experts)
        self.weights: Array = np.full(experts, 1.0 / experts)
        self.gap = 0.0

    @property
    def rate(self) -> float:
        """The learning rate; infinite while no round has lost anything to the mix loss."""
        return hedge.learning_rate(self.losses.size, self.gap)

    def update(self, loss: Any) -> None:
        """Take in the losses of one round, one for each expert."""
        loss = _check.numbers("loss", loss)
        if loss.shape != self.losses.shape:
            raise ValueError(
                f"loss: expected {self.losses.size} numbers, one an expert, got shape {loss.shape}"
            )
        self.gap = hedge.adahedge(self.losses, self.weights, self.gap, loss)
