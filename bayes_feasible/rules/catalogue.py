"""The sampling rules: which arm to pull next."""

from typing import Any, ClassVar

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import optimal_rate, plug_in_allocation
from bayes_feasible.rules import choose
from bayes_feasible.rules.base import Rule
from bayes_feasible.rules.choose import Options

LARGEST_LOSS = 1e250  # of a round, so that sums over rounds are numbers
REPLAN = 1.5  # factor between the rounds at which PlugIn solves for its allocation again


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
    _step = staticmethod(choose.ask_game)
    _loop = staticmethod(choose.run_game)

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

    def _configure(self, problem: Problem | Instance) -> Options:
        scale = self._scale()
        longest = float(np.linalg.norm(self.problem.arms, axis=1).max())
        if not scale * longest**2 <= LARGEST_LOSS:
            raise ValueError(f"eta: {1 / scale:g} makes losses that are beyond double precision")
        return Options(scale=scale, exploration=self.exploration)


class PEPS(BLFAIPS):
    r"""Pure exploration with projection-free sampling: no constraint (Li et al. 2024).

    Parameters
    ----------
    problem, seed, recommendation, eta, exploration, arm_norm, parameter_radius
        See `BLFAIPS`. No constraint of the problem may have a finite threshold.
    horizon : int, optional
        The number of rounds, if it is known. If not, the rule restarts at rounds 1, 2, 4, ...
    learner : {"adahedge", "hedge"}
        The max-learner: AdaHedge, as in its experiments, or exponential weights with the fixed
        rate :math:`\sqrt{8 \ln K / T} / B`, as in its analysis, with :math:`B = 4 L^2 R_1^2 /
        \sigma^2` the range of the losses; that one needs the horizon.
    keep_data : bool
        Whether a restart keeps the pulls before it.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.PEPS(bf.instances.soare(3).problem, seed=0, horizon=100)
    >>> len(rule.ask(10))
    10
    """

    settings: ClassVar[tuple[str, ...]] = (*BLFAIPS.settings, "horizon", "learner", "keep_data")

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        horizon: int | None = None,
        learner: str = "adahedge",
        keep_data: bool = False,
        eta: float | str = "paper",
        exploration: float = 0.25,
        arm_norm: float | None = None,
        parameter_radius: Any = None,
        recommendation: str = "mean",
    ) -> None:
        self.horizon = None
        if horizon is not None:
            self.horizon = _check.count("horizon", horizon, most=_check.LARGEST_COUNT)
        if learner not in ("adahedge", "hedge"):
            raise ValueError(f"learner: expected 'adahedge' or 'hedge', got {learner!r}")
        if learner == "hedge" and horizon is None:
            raise ValueError("horizon: the learner 'hedge' needs it for its learning rate")
        if not isinstance(keep_data, bool):
            raise ValueError(f"keep_data: expected True or False, got {keep_data!r}")
        self.learner, self.keep_data = learner, keep_data
        super().__init__(
            problem, seed, eta=eta, exploration=exploration, arm_norm=arm_norm,
            parameter_radius=parameter_radius, recommendation=recommendation,
        )  # fmt: skip

    def _configure(self, problem: Problem | Instance) -> Options:
        if self._geometry.thresholds.size:
            raise ValueError(
                "problem: PEPS knows no constraint; use BLFAIPS, which is its constrained form"
            )
        options = super()._configure(problem)
        if self.learner == "hedge":
            spread = self._paper_scale() / 2.0
            rounds = float(self.horizon or 1)
            rate = np.sqrt(8 * np.log(len(self.problem.arms)) / rounds) / spread
            options = options._replace(rate=float(max(rate, 1e-300)))
        if self.horizon is None:
            options = options._replace(restart=1 if self.keep_data else 2)
        return options


class LinearThompson(Rule):
    """Constrained linear Thompson sampling: the best feasible candidate of a posterior draw.

    Where the arms are not the candidates, the arm that lowers that candidate's variance most.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.LinearThompson(bf.instances.end_of_optimism(alpha=0.3).problem, seed=0).ask(4).tolist()
    [1, 1, 3, 1]
    """

    _step = staticmethod(choose.ask_thompson)
    _loop = staticmethod(choose.run_thompson)

    def _configure(self, problem: Problem | Instance) -> Options:
        return Options()


class TopTwo(Rule):
    """Top-two Thompson sampling: a leader, and a challenger under which it is not best.

    The leader is the best feasible candidate of a posterior draw; the challenger that of a draw
    given that the leader is not best, which is exact and needs no resampling.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    beta : float or "optimal"
        Probability of pulling the leader; "optimal" is the best candidate's share in the optimal
        allocation, which needs an Instance.
    select : {"candidate", "information"}
        Pull leader or challenger themselves, or the arm that tells the two apart best, mixed with
        the G-optimal design at rate `t^-exploration`. Where the arms are not the candidates,
        "candidate" pulls what lowers the variance of leader or challenger most.
    exploration : float

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.TopTwo(bf.instances.end_of_optimism().problem, seed=0, select="information")
    TopTwo(0 asked, 0 told, beta=0.5, select='information', exploration=0.5)
    """

    settings: ClassVar[tuple[str, ...]] = ("beta", "select", "exploration")
    _step = staticmethod(choose.ask_top_two)
    _loop = staticmethod(choose.run_top_two)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        beta: float | str = 0.5,
        select: str = "candidate",
        exploration: float = 0.5,
        recommendation: str = "mean",
    ) -> None:
        if select not in ("candidate", "information"):
            raise ValueError(f"select: expected 'candidate' or 'information', got {select!r}")
        if isinstance(beta, str) and beta != "optimal":
            raise ValueError(f"beta: expected a number or 'optimal', got {beta!r}")
        if not isinstance(beta, str):
            share = _check.numbers("beta", beta)
            if share.ndim or not 0 <= share <= 1:
                raise ValueError(f"beta: expected a number from 0 to 1, got {beta!r}")
            beta = float(share)
        self.beta, self.select = beta, select
        self.exploration = _check.positive("exploration", exploration)
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Options:
        if self.beta == "optimal":
            self.beta = optimal_share(problem)
        return Options(
            beta=float(self.beta),
            information=int(self.select == "information"),
            exploration=self.exploration,
        )


class FixedAllocation(Rule):
    """Pulls drawn from one allocation.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    allocation : vector over arms
        Shares with sum 1; in the order of the arms, or by their names.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"low": [1, 0.2], "high": [1, 0.9]})
    >>> bf.FixedAllocation(problem, allocation={"high": 1.0, "low": 0.0}).ask(3).tolist()
    [1, 1, 1]
    """

    settings: ClassVar[tuple[str, ...]] = ("allocation_followed",)
    _step = staticmethod(choose.ask_fixed)
    _loop = staticmethod(choose.run_fixed)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        allocation: Any = None,
        recommendation: str = "mean",
    ) -> None:
        self.allocation_followed = allocation
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Options:
        shares = self.allocation_followed
        if shares is None:
            shares = self._default(problem)
        self._state.plan[:] = _check.allocation(self.problem, shares)
        self.allocation_followed = self._state.plan.tolist()
        return Options()

    def _resumed(self) -> None:
        self.allocation_followed = self._state.plan.tolist()  # with every digit that was saved

    def _default(self, problem: Problem | Instance) -> Any:
        raise ValueError("allocation: expected shares, one an arm, got None")


class _OwnAllocation(FixedAllocation):
    """Pulls drawn from an allocation that follows from the arms."""

    def __init__(
        self, problem: Problem | Instance, seed: Any = 0, *, recommendation: str = "mean"
    ) -> None:
        super().__init__(problem, seed, recommendation=recommendation)


class Uniform(_OwnAllocation):
    """Every arm is as likely as every other.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> bf.Uniform(bf.instances.end_of_optimism().problem).allocation_followed
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """

    def _default(self, problem: Problem | Instance) -> Any:
        return np.full(len(self.problem.arms), 1.0 / len(self.problem.arms))


class GOptimal(_OwnAllocation):
    """Pulls drawn from the G-optimal design.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.GOptimal(bf.instances.end_of_optimism(alpha=0.3).problem)
    >>> [round(share, 3) for share in rule.allocation_followed]
    [0.303, 0.0, 0.303, 0.395, 0.0]
    """

    def _default(self, problem: Problem | Instance) -> Any:
        return self._geometry.design


class Oracle(FixedAllocation):
    """Pulls drawn from the optimal allocation, which takes an Instance (or the allocation).

    Parameters
    ----------
    problem : Instance, or Problem where the allocation is given
    seed, recommendation
        See `Rule`.
    allocation : vector over arms, optional
        The shares to follow, where they are known.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> rule = bf.Oracle(bf.instances.end_of_optimism(alpha=0.3))
    >>> [round(share, 3) for share in rule.allocation_followed]
    [0.131, 0.0, 0.869, 0.0, 0.0]
    """

    def _default(self, problem: Problem | Instance) -> Any:
        if not isinstance(problem, Instance):
            raise ValueError("problem: Oracle needs an Instance, whose truth it knows")
        return optimal_rate(problem).arrays[0]


class BestResponse(Rule):
    """The nearest alternative to the posterior means against AdaHedge, tracked.

    As BLFAIPS, but the min-learner answers with the nearest alternative instead of a draw, and
    the arm that lags most behind its cumulative share is pulled instead of a random one.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    exploration : float
        The G-optimal design is mixed in at rate `t^-exploration`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> rule = bf.BestResponse(instance.problem, seed=0)
    >>> for pull in range(300):
    ...     arm = rule.ask()
    ...     rewards, costs = instance.pull([arm], seed=pull)
    ...     rule.tell(arm, rewards[0], costs[0])
    >>> rule.posterior.counts.tolist()
    [27, 0, 244, 28, 1]
    """

    settings: ClassVar[tuple[str, ...]] = ("exploration",)
    _step = staticmethod(choose.ask_best_response)
    _loop = staticmethod(choose.run_best_response)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        exploration: float = 0.5,
        recommendation: str = "mean",
    ) -> None:
        self.exploration = _check.positive("exploration", exploration)
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Options:
        return Options(exploration=self.exploration)


class PlugIn(BestResponse):
    """Tracks the allocation that would be optimal if the posterior means were the truth.

    It is solved for again at rounds that grow by a half.

    Parameters
    ----------
    problem, seed, recommendation
        See `Rule`.
    exploration : float
        The G-optimal design is mixed in at rate `t^-exploration`.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> rule = bf.PlugIn(instance.problem, seed=0)
    >>> for pull in range(300):
    ...     arm = rule.ask()
    ...     rewards, costs = instance.pull([arm], seed=pull)
    ...     rule.tell(arm, rewards[0], costs[0])
    >>> rule.posterior.counts.tolist()
    [73, 0, 194, 33, 0]
    """

    _step = staticmethod(choose.ask_plug_in)
    _loop = staticmethod(choose.run_plug_in)

    def _plan(self) -> None:
        state = self._state
        if not choose.plan_due(state):
            return
        theta = np.zeros((1 + self.problem.thresholds.size, self.problem.arms.shape[1]))
        theta[self._geometry.columns] = state.means @ self.problem.basis.T
        shares = plug_in_allocation(self.problem, theta[0], theta[1:])
        state.plan[:] = self._geometry.design if shares is None else shares
        now = int(state.clock[0]) + 1
        state.clock[3] = max(now + 1, int(np.ceil(REPLAN * now)))


def _radii(value: Any) -> Array:
    """One positive number, or two."""
    radii = _check.numbers("parameter_radius", value)
    if radii.shape not in ((), (2,)) or radii.min() <= 0:
        raise ValueError(f"parameter_radius: expected one or two positive numbers, got {value!r}")
    return radii


def optimal_share(problem: Problem | Instance) -> float:
    """The best candidate's share in the optimal allocation."""
    if not isinstance(problem, Instance):
        raise ValueError("beta: 'optimal' needs an Instance, whose truth it knows")
    if problem.problem.candidates is not problem.problem.arms:
        raise ValueError("beta: 'optimal' is a share of the best candidate, which is not an arm")
    return float(optimal_rate(problem).arrays[0][problem.best])


RULES: dict[str, type[Rule]] = {
    rule.__name__: rule
    for rule in (
        BLFAIPS, PEPS, LinearThompson, TopTwo, FixedAllocation, Uniform, GOptimal, Oracle,
        BestResponse, PlugIn,
    )
}  # fmt: skip
