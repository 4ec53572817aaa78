"""How many more pulls would halve the probability that a recommendation is wrong."""

import math

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative import general
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.union import Union
from bayes_feasible.blocks.gaussian import GaussianBlock
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.posterior import Posterior

DRAWS = 1024  # for overlaps of events, with the same random numbers at every step
MOST = 1e12  # more pulls than anybody has
STEPS = 12  # of bisection, after which the number is known to 1 part in 4000


def pulls_to_halve(alternative: Alternative | Union, posterior: Posterior, shares: Array) -> float:
    r"""About how many more pulls in these shares would halve the probability of a set.

    The posterior is carried forward as if the coming pulls showed exactly what the posterior
    means say, and its probability of the set is computed until it is half of what it is now. In
    the long run that takes :math:`\ln 2 / f` pulls, with :math:`f` the smallest of the
    `exponents` of the shares at the posterior means; earlier it takes fewer. It is an estimate:
    the means are not the truth, and even if they were, noise moves the logarithm of the
    probability by about :math:`\pm 1.2` on the way.

    Parameters
    ----------
    alternative : Alternative
        The set: under what the recommendation is wrong.
    posterior : Posterior
    shares : vector over arms
        Shares of the coming pulls.

    Returns
    -------
    float
        Infinite where no number of pulls would do: the means lie in the set, or the shares tell
        nothing about it.
    """
    shares = _check.allocation(posterior.problem, shares, name="shares")
    wanted = _log_probability(alternative, posterior) - math.log(2)
    if wanted == -np.inf:
        return 0.0

    def enough(pulls: float) -> bool:
        return _log_probability(alternative, _carried(posterior, shares, pulls)) <= wanted

    high = 1.0
    while not enough(high):
        high *= 2
        if high > MOST:
            return np.inf
    low = high / 2 if high > 1 else 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _log_probability(alternative: Alternative | Union, posterior: Posterior) -> float:
    rng = np.random.default_rng(0)
    if all(block.exact for block in posterior.blocks):
        return alternative.log_probability(posterior, rng, draws=DRAWS).value
    blocks = [  # the Gaussian at the mode will do: this is asked for dozens of times
        block if block.exact else GaussianBlock(block.mean, block.root)
        for block in posterior.blocks
    ]
    return general.measure(alternative.events, blocks, rng, DRAWS).value


def _carried(posterior: Posterior, shares: Array, pulls: float) -> Posterior:
    """The posterior after pulls (not a whole number of each arm) that show its own estimate."""
    problem, more = posterior.problem, pulls * shares
    thetas, noise = [posterior.theta_reward, *posterior.theta_cost], posterior.noise
    later = posterior.copy()
    later.counts = posterior.counts + more  # type: ignore[assignment]
    for b, outcome in enumerate(problem.outcomes):
        sums = later.cost_sums[:, b - 1] if b else later.reward_sums
        sums += more * outcome.mean(problem.arms @ thetas[b])
        if isinstance(outcome, Gaussian) and outcome.learnt:
            later.squares[:, b] += more * noise[b] ** 2
    return later
