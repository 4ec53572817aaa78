"""Sampling rules: which arm to pull next, one at a time or in a simulation.

Every rule has the same shape: a kind, options, and a state of plain arrays, moved on by one
compiled step. `ask` names an arm, `tell` takes in what a pull showed, `recommend` answers.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bayes_feasible import _check, _choose, _engine
from bayes_feasible._atomic import replaced
from bayes_feasible._check import Array
from bayes_feasible._choose import Options
from bayes_feasible._content import build, from_document, to_document
from bayes_feasible.design import g_optimal
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.rate import optimal_rate, plug_in_allocation
from bayes_feasible.recommendation import METHODS, Recommendation, most_probable, recommend

KEPT = ("lower", "means", "candidate_means", "variances")  # of a state: follow from the rest
ROUNDING = 1e-3  # of them, at the very most: beyond it they were not computed from the rest
REPLAN = 1.5  # factor between the rounds at which PlugIn solves for its allocation again


class Rule:
    """What all rules share.

    Parameters
    ----------
    problem : Problem or Instance
        Only `Oracle` and `TopTwo(beta="optimal")` look at an Instance's truth.
    seed : int or SeedSequence
        The same seed and the same observations give the same arms.
    recommendation : {"draw", "mean", "probable"}
        What is recommended: the best feasible candidate of one posterior draw (as in the paper),
        that of the posterior means, or the candidate most probably best.

    Attributes
    ----------
    problem : Problem
    posterior : Posterior
    """

    settings: ClassVar[tuple[str, ...]] = ()
    _step: ClassVar[Callable[..., int]]  # the compiled step, and the loop around it
    _loop: ClassVar[Callable[..., int]]

    def __init__(
        self, problem: Problem | Instance, seed: Any = 0, *, recommendation: str = "draw"
    ) -> None:
        if not isinstance(problem, Problem | Instance):
            raise ValueError(
                f"problem: expected a Problem or an Instance, got {type(problem).__name__}"
            )
        if recommendation not in METHODS:
            raise ValueError(f"recommendation: expected one of {METHODS}, got {recommendation!r}")
        self.problem = problem.problem if isinstance(problem, Instance) else problem
        self.recommendation = recommendation
        sequence = _check.seed_sequence(seed)
        self._rng, self._recommend_rng = map(np.random.default_rng, sequence.spawn(2))
        self._geometry = _engine.geometry(self.problem, design_of(self.problem))
        self._state = _engine.initial_state(self.problem, self._geometry)
        self._work = _engine.scratch(self._geometry)
        self._options = self._configure(problem)

    def _configure(self, problem: Problem | Instance) -> Options:
        """Options of the compiled step; may prepare the state."""
        raise NotImplementedError

    def ask(self, n: int | None = None) -> Any:
        """The arm to pull next; or an array of `n` arms to pull before the next `tell`."""
        if n is None:
            return self._next()
        return np.array([self._next() for _ in range(_check.count("n", n))])

    def _next(self) -> int:
        self._plan()
        step = type(self)._step
        return int(step(self._options, self._geometry, self._state, self._work, self._rng))

    def _plan(self) -> None:
        """Solve for the allocation to follow, if that is due before the next round."""

    def tell(self, arm: Any, reward: Any, cost: Any = None) -> None:
        """Take in what pulls showed: late, in any order, whether asked for or not.

        Parameters
        ----------
        arm : arm index, or a vector of them
        reward : number, or a vector
        cost : one number for each constraint, or a table (pull, constraint)
        """
        arms, rewards, costs = _check.pulls(self.problem, arm, reward, cost)
        for i in range(arms.size):
            _engine.learn(self._geometry, self._state, self._work, arms[i], rewards[i], costs[i])

    @property
    def posterior(self) -> Posterior:
        """The posterior after what was told (since the last restart, for rules that forget)."""
        posterior = Posterior(self.problem)
        posterior.counts[:] = self._state.counts
        posterior.reward_sums[:] = self._state.sums[:, 0]
        posterior.cost_sums[:] = self._state.sums[:, 1:]
        return posterior

    @property
    def allocation(self) -> Array:
        """Shares of the pulls that were told, over arms."""
        pulls = self._state.pulls
        return pulls / max(int(pulls.sum()), 1)

    def recommend(self) -> Recommendation:
        """The best feasible candidate, how probably that is wrong, and why."""
        choice = self._choice()
        return recommend(self.posterior, None if choice < 0 else choice, self._recommend_rng)

    def _choice(self) -> int:
        """Index of the candidate to recommend, -1 for none."""
        if self.recommendation == "mean":
            return int(_engine.mean_best(self._state.candidate_means, self._geometry.thresholds))
        if self.recommendation == "draw":
            return int(
                _choose.recommend_drawn(
                    self._geometry, self._state, self._work, self._recommend_rng
                )
            )
        choice = most_probable(self.posterior, self._recommend_rng)
        return -1 if choice is None else choice

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file, from which `load` goes on identically."""
        document = {
            "rule": type(self).__name__,
            "recommendation": self.recommendation,
            "settings": {name: getattr(self, name) for name in self.settings},
            "problem": to_document(self.problem, strict=True),
            "generators": [g.bit_generator.state for g in (self._rng, self._recommend_rng)],
            "state": {name: array.tolist() for name, array in self._state._asdict().items()},
        }
        text = json.dumps(document, indent=1, allow_nan=False)
        with replaced(path) as new:
            new.write_text(text, encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Rule":
        """A rule from a file that `save` wrote."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            return _restore(document)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path}: not a rule that was saved ({error!r})") from error

    def __repr__(self) -> str:
        settings = "".join(f", {name}={getattr(self, name)!r}" for name in self.settings)
        asked, told = int(self._state.clock[0]), int(self._state.pulls.sum())
        return f"{type(self).__name__}({asked} asked, {told} told{settings})"


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
    """

    settings: ClassVar[tuple[str, ...]] = ("eta", "exploration", "arm_norm", "parameter_radius")
    _step = staticmethod(_choose.choose_game)
    _loop = staticmethod(_choose.run_game)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        eta: float | str = "paper",
        exploration: float = 0.25,
        arm_norm: float | None = None,
        parameter_radius: Any = None,
        recommendation: str = "draw",
    ) -> None:
        paper = isinstance(eta, str) and eta == "paper"
        self.eta = eta if paper else _check.positive("eta", eta)
        self.exploration = _check.positive("exploration", exploration)
        self.arm_norm = None if arm_norm is None else _check.positive("arm_norm", arm_norm)
        self.parameter_radius = None
        if parameter_radius is not None:
            self.parameter_radius = _check.numbers("parameter_radius", parameter_radius).tolist()
        super().__init__(problem, seed, recommendation=recommendation)

    def _scale(self) -> float:
        if self.eta != "paper":
            return 1.0 / float(self.eta)
        norm = self.arm_norm or float(np.linalg.norm(self.problem.arms, axis=1).max())
        radius = self.parameter_radius
        if radius is None:
            radius = self.problem.parameter_radius or 1.0
        radii = _check.numbers("parameter_radius", radius)
        if radii.shape not in ((), (2,)) or radii.min() <= 0:
            raise ValueError(
                f"parameter_radius: expected one or two positive numbers, got {radius!r}"
            )
        reward, cost = np.broadcast_to(radii, 2)
        noise = self._geometry.noise
        bounds = np.full(noise.size, cost)
        bounds[0] = reward
        return float(np.max(8.0 * (norm * bounds / noise) ** 2))

    def _configure(self, problem: Problem | Instance) -> Options:
        return Options(scale=self._scale(), exploration=self.exploration)


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
        recommendation: str = "draw",
    ) -> None:
        self.horizon = None if horizon is None else _check.count("horizon", horizon)
        if learner not in ("adahedge", "hedge"):
            raise ValueError(f"learner: expected 'adahedge' or 'hedge', got {learner!r}")
        if learner == "hedge" and horizon is None:
            raise ValueError("horizon: the learner 'hedge' needs it for its learning rate")
        self.learner, self.keep_data = learner, bool(keep_data)
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
            spread = self._paper_range()
            rounds = float(self.horizon or 1)
            rate = np.sqrt(8 * np.log(len(self.problem.arms)) / rounds) / spread
            options = options._replace(rate=float(max(rate, 1e-300)))
        if self.horizon is None:
            options = options._replace(restart=1 if self.keep_data else 2)
        return options

    def _paper_range(self) -> float:
        eta, self.eta = self.eta, "paper"
        scale = self._scale()
        self.eta = eta
        return scale / 2.0


class LinearThompson(Rule):
    """Constrained linear Thompson sampling: the best feasible candidate of a posterior draw.

    Where the arms are not the candidates, the arm that lowers that candidate's variance most.
    """

    _step = staticmethod(_choose.choose_thompson)
    _loop = staticmethod(_choose.run_thompson)

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
    """

    settings: ClassVar[tuple[str, ...]] = ("beta", "select", "exploration")
    _step = staticmethod(_choose.choose_top_two)
    _loop = staticmethod(_choose.run_top_two)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        beta: float | str = 0.5,
        select: str = "candidate",
        exploration: float = 0.5,
        recommendation: str = "draw",
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
        Shares with sum 1.
    """

    settings: ClassVar[tuple[str, ...]] = ("allocation_followed",)
    _step = staticmethod(_choose.choose_fixed)
    _loop = staticmethod(_choose.run_fixed)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        allocation: Any = None,
        recommendation: str = "draw",
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

    def _default(self, problem: Problem | Instance) -> Any:
        raise ValueError("allocation: expected shares, one an arm, got None")


class Uniform(FixedAllocation):
    """Every arm is as likely as every other."""

    def _default(self, problem: Problem | Instance) -> Any:
        return np.full(len(self.problem.arms), 1.0 / len(self.problem.arms))


class GOptimal(FixedAllocation):
    """Pulls drawn from the G-optimal design."""

    def _default(self, problem: Problem | Instance) -> Any:
        return self._geometry.design


class Oracle(FixedAllocation):
    """Pulls drawn from the optimal allocation, which takes an Instance (or the allocation)."""

    def _default(self, problem: Problem | Instance) -> Any:
        if not isinstance(problem, Instance):
            raise ValueError("problem: Oracle needs an Instance, whose truth it knows")
        return optimal_rate(problem).allocation


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
    """

    settings: ClassVar[tuple[str, ...]] = ("exploration",)
    _step = staticmethod(_choose.choose_best_response)
    _loop = staticmethod(_choose.run_best_response)

    def __init__(
        self,
        problem: Problem | Instance,
        seed: Any = 0,
        *,
        exploration: float = 0.5,
        recommendation: str = "draw",
    ) -> None:
        self.exploration = _check.positive("exploration", exploration)
        super().__init__(problem, seed, recommendation=recommendation)

    def _configure(self, problem: Problem | Instance) -> Options:
        return Options(exploration=self.exploration)


class PlugIn(BestResponse):
    """Tracks the allocation that would be optimal if the posterior means were the truth.

    It is solved for again at rounds that grow by a half; see `BestResponse` for the parameters.
    """

    _step = staticmethod(_choose.choose_plug_in)
    _loop = staticmethod(_choose.run_plug_in)

    def _plan(self) -> None:
        state = self._state
        if not _choose.plan_due(state):
            return
        theta = np.zeros((1 + self.problem.thresholds.size, self.problem.arms.shape[1]))
        theta[self._geometry.columns] = state.means @ self.problem.basis.T
        shares = plug_in_allocation(self.problem, theta[0], theta[1:])
        state.plan[:] = self._geometry.design if shares is None else shares
        now = int(state.clock[0]) + 1
        state.clock[3] = max(now + 1, int(np.ceil(REPLAN * now)))


RULES: dict[str, type[Rule]] = {
    rule.__name__: rule
    for rule in (
        BLFAIPS, PEPS, LinearThompson, TopTwo, FixedAllocation, Uniform, GOptimal, Oracle,
        BestResponse, PlugIn,
    )
}  # fmt: skip


def optimal_share(problem: Problem | Instance) -> float:
    """The best candidate's share in the optimal allocation."""
    if not isinstance(problem, Instance):
        raise ValueError("beta: 'optimal' needs an Instance, whose truth it knows")
    if problem.problem.candidates is not problem.problem.arms:
        raise ValueError("beta: 'optimal' is a share of the best candidate, which is not an arm")
    return float(optimal_rate(problem).allocation[problem.best])


def design_of(problem: Problem) -> Array:
    """The G-optimal design of a problem, computed once."""
    design: Array | None = problem.__dict__.get("_design")
    if design is None:
        design = g_optimal(problem).allocation.values
        problem.__dict__["_design"] = design
    return design


def _restore(document: dict[str, Any]) -> Rule:
    kind = RULES[document["rule"]]
    problem = build(from_document(document["problem"]))
    settings = dict(document["settings"])
    if "allocation_followed" in settings:
        settings["allocation"] = settings.pop("allocation_followed")
    rule = kind(problem, recommendation=document["recommendation"], **settings)
    for generator, state in zip(
        (rule._rng, rule._recommend_rng), document["generators"], strict=True
    ):
        generator.bit_generator.state = state
    for name, array in rule._state._asdict().items():
        saved = np.array(document["state"][name], dtype=float)
        if saved.shape != array.shape and saved.size:
            raise ValueError(f"{name}: expected shape {array.shape}, got {saved.shape}")
        if not np.all(np.isfinite(saved)):
            raise ValueError(f"{name}: expected finite numbers")
        with np.errstate(invalid="ignore"):  # beyond the largest integer: told below
            array[...] = saved.reshape(array.shape)
        if np.any(array != saved.reshape(array.shape)):
            raise ValueError(f"{name}: expected whole numbers")
    if isinstance(rule, FixedAllocation):  # which adding up to 1 anew may have rounded
        rule.allocation_followed = rule._state.plan.tolist()
    _check_state(rule)
    return rule


def _check_state(rule: Rule) -> None:
    """Refuse a state that no pulls could have led to."""
    state, geometry = rule._state, rule._geometry
    for name in ("weights", "plan"):
        shares = getattr(state, name)
        if shares.min() < 0 or abs(shares.sum() - 1) > 1e-9:
            raise ValueError(f"{name}: expected shares with sum 1")
    if min(map(np.min, (state.counts, state.pulls - state.counts, state.clock, state.gap))) < 0:
        raise ValueError("counts, pulls, clock and gap: expected no negative number")
    if state.clock[2] > state.clock[0] or state.clock[1] != state.pulls.sum():
        raise ValueError("clock: it does not go with the pulls")
    rule.posterior  # noqa: B018 (which checks the sums against the counts)
    fresh = state._replace(**{name: getattr(state, name).copy() for name in KEPT})
    _engine.refresh(geometry, fresh, rule._work)
    spread = geometry.noise[:, np.newaxis] * np.sqrt(fresh.variances)
    off = [
        np.abs(means - fresh.candidate_means) > ROUNDING * (spread + np.abs(fresh.candidate_means))
        for means in (state.candidate_means, state.means @ geometry.candidates.T)
    ]
    off.append(np.abs(state.variances - fresh.variances) > ROUNDING * fresh.variances)
    size = np.linalg.norm(fresh.lower, axis=1, keepdims=True)
    off.append(np.abs(state.lower - fresh.lower) > ROUNDING * size)
    if any(map(np.any, off)):
        raise ValueError("lower, means and variances do not go with the counts and sums")
