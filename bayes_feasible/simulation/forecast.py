"""How many more pulls a decision will take: experiments carried on from the posterior."""

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import unrestricted
from bayes_feasible.blocks.student import StudentBlock
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.rules.base import Rule
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.until import Until
from bayes_feasible.simulation.world import Environment
from bayes_feasible.stopping.stop import Stop

DRAWS = 100
MOST = 10_000  # pulls ahead


@dataclass(frozen=True, eq=False)
class Forecast:
    """How many more pulls until an answer is sure enough.

    Attributes
    ----------
    pulls : ndarray
        Of every experiment carried on, in order; infinite where `most` were not enough.
    probability : float
        With which the number lies between `low` and `high`, if truths are as the posterior says.
    median, low, high : float
    most : int
    """

    pulls: Array
    probability: float
    most: int

    @property
    def median(self) -> float:
        """Half of them take no more."""
        return self._quantile(0.5)

    @property
    def low(self) -> float:
        """Lower end of the central interval."""
        return self._quantile(0.5 - self.probability / 2)

    @property
    def high(self) -> float:
        """Upper end of the central interval."""
        return self._quantile(0.5 + self.probability / 2)

    def _quantile(self, share: float) -> float:
        at = math.ceil(share * self.pulls.size - 1e-9)
        return float(self.pulls[min(max(at, 1), self.pulls.size) - 1])

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers, by name; None where it is more than `most`.

        Examples
        --------
        >>> Forecast(np.array([10.0, 20.0, np.inf]), 0.8, 1000).to_dict()
        {'median': 20.0, 'low': 10.0, 'high': None, 'probability': 0.8, 'most': 1000}
        """
        each = {name: getattr(self, name) for name in ("median", "low", "high")}
        finite = {name: value if value < np.inf else None for name, value in each.items()}
        return finite | {"probability": self.probability, "most": self.most}

    def __str__(self) -> str:
        def said(pulls: float) -> str:
            return f"{pulls:.0f}" if pulls < np.inf else f"more than {self.most}"

        if self.high == 0:
            return "none: it is sure enough now"
        share = f"{self.probability:.0%}".replace("%", " %")
        return f"{said(self.median)} ({share}: {said(self.low)} to {said(self.high)})"


def forecast(
    rule: Rule, stop: Stop, *, allowed: Any = None, draws: int = DRAWS,
    probability: float = 0.8, most: int = MOST, seed: Any = 0,
) -> Forecast:  # fmt: skip
    """How many more pulls a rule takes until the answer is sure enough.

    For every draw of the truth from the posterior the experiment is carried on, with this rule,
    until `error` or `delta` of the stop says so. One looks as `simulate` does.

    Parameters
    ----------
    rule : Rule
        It is left as it is.
    stop : Stop
        With `error` or `delta`; its `pulls` and `futility` play no part.
    allowed : Safety, or indices or names of arms, optional
    draws : int
        Experiments carried on.
    probability : float
        Of the interval.
    most : int
        Pulls, after which an experiment is given up.
    seed : int

    Returns
    -------
    Forecast

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.Uniform(bf.Problem([[1, 0], [0, 1]]), seed=0)
    >>> rule.tell([0, 1] * 10, [1.0, 0.2] * 10)
    >>> print(forecast(rule, bf.Stop(error=0.01), draws=20, most=100))
    10 (80 %: 4 to 75)
    """
    _check.kind("rule", rule, Rule)
    _check.kind("stop", stop, Stop)
    if stop.error is None and stop.delta is None:
        raise ValueError("stop: expected one with error or delta, for a forecast of sureness")
    draws, most = _check.count("draws", draws), _check.count("most", most)
    if not 0 < _check.positive("probability", probability) < 1:
        raise ValueError(f"probability: expected a number below 1, got {probability!r}")
    sure = Stop(error=stop.error, epsilon=stop.epsilon, delta=stop.delta)
    if rule.done(sure):
        return Forecast(np.zeros(draws), probability, most)
    first, *seeds = streams.replicates(seed, range(1 + draws))
    truths = draw_truths(rule.posterior, draws, np.random.default_rng(first))
    pulls = [_carry_on(rule, one, sure, allowed, most, own)
             for one, own in zip(truths, seeds, strict=True)]  # fmt: skip
    return Forecast(np.sort(pulls), probability, most)


def _carry_on(rule: Rule, truth: Instance, stop: Stop, allowed: Any, most: int, seed: Any) -> float:
    """Pulls until the stop applies."""
    later = copy.deepcopy(rule, {id(rule.problem): rule.problem})
    each = streams.split(seed)
    environment = Environment(truth, each.rewards, each.costs)
    environment.pulls[:] = rule._state.pulls
    start = int(environment.pulls.sum())
    until = Until(rule.problem, stop, allowed, each.extra, start)
    until.advance(later, environment, most)
    if until.ending is None or until.ending.reason not in ("error", "delta"):
        return np.inf
    return until.ending.stopped - start


def draw_truths(posterior: Posterior, size: int, rng: np.random.Generator) -> list[Instance]:
    """Draws of the truth from the posterior, learnt noise included."""
    problem, theta = posterior.problem, unrestricted(posterior, size, rng)
    noise = np.full((size, len(problem.outcomes)), np.nan)
    for b, block in enumerate(posterior.blocks):
        if isinstance(block, StudentBlock):
            white = np.linalg.solve(block.inner, (theta[:, b] - block.mean).T)
            scale = block.scale + 0.5 * np.square(white).sum(axis=0)
            shape = block.shape + 0.5 * block.mean.size
            noise[:, b] = np.sqrt(scale / rng.standard_gamma(shape, size))
    learnt = ~np.isnan(noise[0])
    return [
        Instance(
            problem, theta[i, 0], theta[i, 1:],
            reward_noise=noise[i, 0] if learnt[0] else None,
            cost_noise=np.where(learnt, noise[i], known(problem.noise))[1:]
            if learnt[1:].any() else None,
        )
        for i in range(size)
    ]  # fmt: skip


def known(noise: Array) -> Array:
    """Known noise, and 1 where there is none to know."""
    return np.where(np.isnan(noise), 1.0, noise)
