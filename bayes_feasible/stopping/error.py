"""The posterior probability that an answer is wrong, as exact as the decision needs it."""

import math

import numpy as np

from bayes_feasible.alternative.events import Events
from bayes_feasible.alternative.union import Union
from bayes_feasible.blocks.gaussian import GaussianBlock
from bayes_feasible.posterior import Posterior

FAR_ABOVE = math.log(3.0)  # a likeliest mistake so far above the target needs no exact measure
DRAWS = 2**11  # for overlaps, where there is a target


def log_error(
    union: Union, posterior: Posterior, rng: np.random.Generator, target: float | None = None
) -> float:
    """Log-probability of the union.

    With a `target`, a bound on the same side of it will do: the likeliest event from below, the
    sum of the events from above, and for 0/1 and counts the Gaussian at the mode where that puts
    the likeliest event three times above.
    """
    if target is not None:
        if not posterior.textbook and not all(block.exact for block in posterior.blocks):
            rough = _at_the_mode(union.events, posterior)
            if rough > target + FAR_ABOVE:
                return rough
        if union.problem.parameter_radius is None:
            every = union.event_log_probabilities(posterior)
            if every.max(initial=-np.inf) > target:
                return float(every.max())
            total = float(np.logaddexp.reduce(every)) if every.size else -np.inf
            if total <= target:
                return total
        return union.log_probability(posterior, rng, draws=DRAWS).value
    return union.log_probability(posterior, rng).value


def _at_the_mode(events: Events, posterior: Posterior) -> float:
    """Log-probability of the likeliest event under the Gaussian at the mode."""
    total = np.zeros(len(events))
    for b, block in enumerate(posterior.blocks):
        limits = events.limits[:, b]
        total[np.isposinf(limits)] = -np.inf
        asked = np.flatnonzero(np.isfinite(limits))
        if asked.size:
            rough = GaussianBlock(block.mean, block.root)
            total[asked] += rough.tails(events.vectors[asked, b], limits[asked]).log_probability
    return float(total.max(initial=-np.inf))
