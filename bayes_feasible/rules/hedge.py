"""AdaHedge on cumulative losses, compiled.

S. de Rooij, T. van Erven, P. Grünwald and W. Koolen, Follow the leader if you can, hedge if you
must, JMLR 15, 2014. The weights of round t+1 are proportional to `exp(-rate * losses)` with the
losses of all rounds so far and `rate = log(K) / gap`, where the gap sums what each round lost
against the mix loss. While the gap is 0 the rate is infinite: uniform over the leaders.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, BORROWING_DOOR, DOOR


class Learner(NamedTuple):
    """A max-learner: weights over arms that adapt to the losses they meet."""

    losses: Array  # (arm,): cumulative
    weights: Array  # (arm,)
    gap: Array  # (1,): cumulative mixability gap


def start_learner(arms: int) -> Learner:
    """A learner that has seen nothing."""
    return Learner(np.zeros(arms), np.full(arms, 1.0 / arms), np.zeros(1))


@njit(**BORROWER, forceinline=True)
def weigh(losses, rate, weights):
    """Write the weights that cumulative losses and a learning rate give."""
    least, total = np.inf, 0.0
    for i in range(losses.size):
        least = min(least, losses[i])
    for i in range(losses.size):
        if rate == np.inf:
            weights[i] = 1.0 if losses[i] == least else 0.0
        else:
            weights[i] = math.exp(-rate * (losses[i] - least))
        total += weights[i]
    for i in range(losses.size):
        weights[i] /= total


@njit(**BORROWER, forceinline=True)
def mixability_gap(losses, rate, weights, loss):
    """What the weights lose on `loss` beyond the mix loss; `losses` are those before it."""
    least, expected, mixed = np.inf, 0.0, 0.0
    for i in range(loss.size):
        least = min(least, loss[i])
    for i in range(loss.size):
        expected += weights[i] * (loss[i] - least)
    if rate == np.inf:
        before, after = np.inf, np.inf
        for i in range(loss.size):
            before = min(before, losses[i])
            after = min(after, losses[i] + loss[i])
        return max(expected + least - (after - before), 0.0)
    for i in range(loss.size):
        mixed += weights[i] * math.expm1(-rate * (loss[i] - least))
    if mixed > -0.999:
        return max(expected + math.log1p(mixed) / rate, 0.0)
    # What is left may be weights too small to be seen beside 1: go back to the losses.
    before, after, old, new = np.inf, np.inf, 0.0, 0.0
    for i in range(loss.size):
        before = min(before, losses[i])
        after = min(after, losses[i] + loss[i])
    for i in range(loss.size):
        old += math.exp(-rate * (losses[i] - before))
        new += math.exp(-rate * (losses[i] + loss[i] - after))
    return max(expected + least - (after - before) + math.log(new / old) / rate, 0.0)


@njit(**DOOR, forceinline=True)
def learning_rate(experts, gap):
    """The rate that a cumulative mixability gap gives."""
    return math.log(experts) / gap if gap > 0.0 and experts > 1 else np.inf


@njit(**BORROWING_DOOR)
def adahedge(losses, weights, gap, loss):
    """Take in one round's loss: losses and weights change in place, the new gap is returned."""
    gap += mixability_gap(losses, learning_rate(loss.size, gap), weights, loss)
    for i in range(loss.size):
        losses[i] += loss[i]
    weigh(losses, learning_rate(loss.size, gap), weights)
    return gap


@njit(**BORROWER, forceinline=True)
def learn_loss(rate, learner, loss):
    """Take in one round's loss: by exponential weights of this rate, or by AdaHedge if it is 0."""
    if rate > 0.0:
        for i in range(loss.size):
            learner.losses[i] += loss[i]
        weigh(learner.losses, rate, learner.weights)
    else:
        learner.gap[0] = adahedge(learner.losses, learner.weights, learner.gap[0], loss)
