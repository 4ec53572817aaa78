"""BLFAIPS whose draws from the alternative set come from a PyMC sampler."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.instance import Instance
from bayes_feasible.models import alternative, linear_gaussian, set_alternative, set_data
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.rules.adahedge import AdaHedge
from bayes_feasible.rules.blfaips import BLFAIPS

PARAMETERS = ("theta_reward", "theta_cost")
BEYOND = 1.01  # of the way to the nearest alternative: just inside the set

Point = dict[str, Any]


class Sampler:
    """One compiled model of a problem, restricted to an alternative set, and a step method.

    The problem has one constraint at least, and the step method of PyMC needs no gradient, such as
    `pymc.Slice`.
    """

    def __init__(self, problem: Problem, method: Callable[..., Any], seed: int = 0) -> None:
        self.problem = problem
        posterior = Posterior(problem)
        posterior.update(0, 0.0, np.zeros(problem.thresholds.size))
        self.model = alternative(linear_gaussian(posterior), Alternative(problem, 0))
        with self.model:
            self.step = method(rng=np.random.default_rng(seed))

    def draw(self, posterior: Posterior, candidate: int, start: Point | None, sweeps: int) -> Point:
        """Parameters under which the candidate is not best, after so many sweeps."""
        doubted = Alternative(self.problem, candidate)
        set_data(self.model, posterior)
        set_alternative(self.model, doubted)
        if start is None or not doubted.contains(start["theta_reward"], start["theta_cost"]):
            start = _inside(posterior, doubted)
        point = start
        for _ in range(sweeps):
            point, _statistics = self.step.step(point)
        return point


def _inside(posterior: Posterior, doubted: Alternative) -> Point:
    """A point of the alternative set: just beyond the one nearest to the posterior means."""
    arms = len(posterior.problem.arms)
    mean: Point = {"theta_reward": posterior.theta_reward, "theta_cost": posterior.theta_cost}
    nearest = doubted.nearest(mean["theta_reward"], mean["theta_cost"], np.full(arms, 1 / arms))
    return {name: at + BEYOND * (nearest[name].values - at) for name, at in mean.items()}


class SampledBLFAIPS(BLFAIPS):
    """BLFAIPS at η = 1 with a Markov chain in place of the exact draw.

    The chain makes so many `sweeps` in each round, and goes on from round to round while it stays
    in the alternative set.
    """

    def __init__(
        self, problem: Problem | Instance, seed: Any = 0, *, sampler: Sampler, sweeps: int = 10
    ) -> None:
        super().__init__(problem, seed, eta=1.0)
        self.sampler, self.sweeps = sampler, sweeps
        self.learner = AdaHedge(len(self.problem.arms))
        self.point: Point | None = None

    def ask(self, n: int | None = None, allowed: Any = None) -> int:
        """The arm to pull next."""
        self._state.clock[0] += 1
        explore = float(self._state.clock[0]) ** -self.exploration
        shares = self._geometry.design if self._rng.random() < explore else self.learner.weights
        arm = int(self._rng.choice(shares.size, p=shares / shares.sum()))
        posterior = self.posterior
        leader = posterior.best()
        if leader is None:
            leader = int(self._rng.integers(len(self.problem.candidates)))
        if posterior.pulls == 0:  # the model needs an observation
            drawn = Alternative(self.problem, leader).sample(posterior, 1, self._rng)
            self.point = {name: drawn[name].values[0, 0] for name in PARAMETERS}
        else:
            self.point = self.sampler.draw(posterior, leader, self.point, self.sweeps)
        self.learner.update(self._loss(posterior))
        return arm

    def _loss(self, posterior: Posterior) -> Any:
        assert self.point is not None
        arms, problem = self.problem.arms, self.problem
        reward = arms @ (self.point["theta_reward"] - posterior.theta_reward) / problem.reward_noise
        cost = (self.point["theta_cost"] - posterior.theta_cost) @ arms.T
        return -(reward**2) - np.sum((cost / problem.cost_noise[:, np.newaxis]) ** 2, axis=0)
