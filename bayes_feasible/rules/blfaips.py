r"""BLFAIPS: best linear feasible arm identification with posterior sampling, the paper's rule.

Each round draws parameters :math:`\theta` from the posterior, its covariance divided by
:math:`\eta`, given that the empirically best candidate is not best. An arm's loss is minus what a
pull of it would tell of them,

.. math:: l_x = -\frac{\langle x, \theta_r - \hat\theta_r\rangle^2}{\sigma^2}
                - \sum_j \frac{\langle x, \theta_{c,j} - \hat\theta_{c,j}\rangle^2}{\gamma_j^2},

and the arm pulled is drawn from the weights of AdaHedge on these losses, mixed with the G-optimal
design at rate :math:`t^{-a}`.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.compiled import BORROWER, DOOR
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.draws import draw_alternative
from bayes_feasible.rules.engine import NOBODY, leader_or_random, pick_arm
from bayes_feasible.rules.hedge import learn_loss, start_learner
from bayes_feasible.rules.saving import check_learner
from bayes_feasible.rules.triangle import inner
from bayes_feasible.simulation.world import pull

LARGEST_LOSS = 1e250  # of a round, so that sums over rounds are numbers


class Options(NamedTuple):
    """What a round depends on."""

    scale: float  # of the posterior covariance: 1 / eta
    exploration: float  # round t explores with probability t^-exploration


@njit(**BORROWER, forceinline=True)
def drawn_loss(arms, info, draw, loss):
    """Loss of each arm against the parameters drawn: `-Σ_b info_b <x, draw_b>²`."""
    for arm in range(len(arms)):
        loss[arm] = 0.0
        for b in range(len(draw)):
            loss[arm] -= info[b, arm] * inner(arms, arm, draw, b) ** 2


@njit(**BORROWER, forceinline=True)
def play_game(scale, explore, rate, learner, geo, state, work, rng):
    """A draw from the alternative set against the max-learner's weights."""
    leader = leader_or_random(state.candidate_means, geo.limits, rng)
    event = draw_alternative(geo, state, work, rng, leader, scale)
    shares = geo.design if rng.random() < explore else learner.weights
    arm = pick_arm(shares, work.allowed, rng)
    if event != NOBODY:
        drawn_loss(geo.arms, state.info, work.draw, work.loss)
        learn_loss(rate, learner, work.loss)
    return arm


@njit(**BORROWER)
def choose(options, memory, geo, state, work, rng):
    """The arm to pull next."""
    state.clock[0] += 1
    explore = float(state.clock[0]) ** -options.exploration
    return play_game(options.scale, explore, 0.0, memory, geo, state, work, rng)


@njit(**DOOR)
def ask(options, memory, geo, state, work, rng):
    """One step."""
    return choose(options, memory, geo, state, work, rng)


@njit(**DOOR)
def run(options, memory, geo, state, work, rng, world, reward_rng, cost_rng, rounds):
    """So many rounds; returns how many."""
    seen = np.empty(world.costs.shape[1])
    for _ in range(rounds):
        arm = choose(options, memory, geo, state, work, rng)
        pull(geo, state, work, world, reward_rng, cost_rng, arm, seen)
    return rounds


class BLFAIPS(Rule):
    r"""Best linear feasible arm identification with posterior sampling (the paper's rule).

    Each round draws parameters from the posterior, its covariance divided by :math:`\eta`, given
    that the empirically best candidate is not best; what each arm would tell of them is its gain
    in the max-learner AdaHedge; and an arm is pulled from AdaHedge's weights, mixed with the
    G-optimal design at rate :math:`t^{-a}`.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    eta : "paper" or float
        "paper": :math:`\min(\sigma^2 / (8 L^2 R_1^2), \gamma_j^2 / (8 L^2 R_2^2))`. 1 is the true
        posterior, which converges much faster.
    exploration : float
        The exponent :math:`a`.
    arm_norm : float, optional
        :math:`L`; by default the largest norm of an arm.
    parameter_radius : float or pair, optional
        :math:`R_1, R_2`; by default the problem's, or 1 where it has none.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.BLFAIPS(bf.instances.end_of_optimism().problem, seed=0, eta=1.0)
    >>> arm = rule.ask()
    >>> rule.tell(arm, reward=0.9, cost=0.4)
    >>> rule
    BLFAIPS(1 asked, 1 told, eta=1.0, exploration=0.25, arm_norm=None, parameter_radius=None)
    """

    settings: ClassVar[tuple[str, ...]] = ("eta", "exploration", "arm_norm", "parameter_radius")
    _ask = staticmethod(ask)
    _run = staticmethod(run)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        eta: float | str = "paper",
        exploration: float = 0.25,
        arm_norm: float | None = None,
        parameter_radius: Any = None,
        recommendation: str = "mean",
    ) -> None:
        paper = isinstance(eta, str) and eta == "paper"
        self.eta = eta if paper else _check.positive("eta", eta)
        self.exploration = _check.positive("exploration", exploration)
        self.arm_norm = None if arm_norm is None else _check.positive("arm_norm", arm_norm)
        self.parameter_radius = None
        if parameter_radius is not None:
            self.parameter_radius = _radii(parameter_radius).tolist()
        super().__init__(problem, seed, recommendation=recommendation)

    def _scale(self) -> float:
        return self._paper_scale() if self.eta == "paper" else 1.0 / float(self.eta)

    def _paper_scale(self) -> float:
        """One over the paper's eta."""
        norm = self.arm_norm or float(np.linalg.norm(self.problem.arms, axis=1).max())
        radius = self.parameter_radius
        if radius is None:
            radius = [r if np.isfinite(r) else 1.0 for r in self.problem.parameter_radius or (1, 1)]
        reward, cost = np.broadcast_to(_radii(radius), 2)
        noise = self._geometry.noise
        bounds = np.full(noise.size, cost)
        bounds[0] = reward
        return float(np.max(8.0 * (norm * bounds / noise) ** 2))

    def _configure(self, problem: Problem | Instance) -> Any:
        scale = self._scale()
        longest = float(np.linalg.norm(self.problem.arms, axis=1).max())
        if not scale * longest**2 <= LARGEST_LOSS:
            raise ValueError(f"eta: {1 / scale:g} makes losses that are beyond double precision")
        return Options(scale, self.exploration)

    def _remember(self) -> Any:
        return start_learner(len(self.problem.arms))

    def _check_memory(self) -> None:
        check_learner(self._memory)


def _radii(value: Any) -> Array:
    """One positive number, or two."""
    radii = _check.numbers("parameter_radius", value)
    if radii.shape not in ((), (2,)) or radii.min() <= 0:
        raise ValueError(f"parameter_radius: expected one or two positive numbers, got {value!r}")
    return radii
