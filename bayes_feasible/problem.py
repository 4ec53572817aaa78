"""What the learner knows before the first pull: arms, candidates, thresholds, noise."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._given import read_costs, read_radius, read_reward, split_relative
from bayes_feasible.outcomes import REWARD, Gaussian, Outcome, Relative
from bayes_feasible.span import directions, outside, span
from bayes_feasible.summary import Law, summarise

if TYPE_CHECKING:
    import xarray as xr


class Problem:
    r"""A best-feasible-arm problem: all that is known before the first pull.

    Pulling arm :math:`x` shows a reward :math:`\langle\theta_r, x\rangle + N(0, \sigma^2)` and
    costs :math:`\langle\theta_{c,j}, x\rangle + N(0, \gamma_j^2)`. Candidate :math:`z` is feasible
    if :math:`\langle\theta_{c,j}, z\rangle \le \tau_j` for every constraint :math:`j`.

    Parameters
    ----------
    arms : array, DataFrame, DataArray or dict of names to vectors
        What can be pulled, one vector a row. Names are kept and label every output.
    thresholds : number, sequence, or dict of names to numbers, optional
        The largest feasible mean cost of each constraint. None at all: plain best-arm
        identification. `inf`: that constraint never binds. In place of a number `Relative` limits
        a cost by that of another candidate.
    candidates : like `arms`, optional
        What can be recommended; the arms themselves by default. Each must lie in the span of
        the arms, for otherwise no number of pulls would tell its reward.
    reward : Outcome, or dict of its name to it, optional
        What a reward is: `Gaussian`, `Bernoulli` or `Poisson`, with a prior of its own. The name
        stands in files and wherever outcomes are told apart; "reward" by default.
    costs : Outcome, or one for each constraint, optional
        What the costs are: one for all, a sequence, or a dict of names to outcomes. Thresholds
        are in the units of the outcome: a mean, a probability, a rate.
    reward_noise : float
        Standard deviation :math:`\sigma` of a reward, 1 by default, in place of `reward`. The
        prior of the parameter is then N(0, σ² I), as in the paper.
    cost_noise : float or one for each constraint
        Standard deviations :math:`\gamma_j` of the costs, in place of `costs`.
    parameter_radius : float or pair of floats, optional
        Bounds on the norms of the reward parameter and of each cost parameter. Unbounded by
        default. One number bounds both.

    Attributes
    ----------
    arms, candidates : ndarray
        The vectors, of shapes (arm, feature) and (candidate, feature).
    thresholds, cost_noise : ndarray
        One value for each constraint.
    outcomes : tuple of Outcome
        Of the reward, then of each cost; `outcome_names` are their names.
    limits : ndarray (constraint,)
        The thresholds on the scale of the natural parameter, which is linear in the features.
    references : ndarray (constraint, feature)
        What a candidate's cost is compared with: zeros where the limit is absolute.
    parameter_radius : tuple of two floats or None
    coords : dict
        Names along `arm`, `candidate`, `feature` and `constraint`.

    Examples
    --------
    >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
    >>> problem
    Problem: 2 arms, 2 candidates (the arms), 2 features, 1 constraint
      toxicity <= 0.3, noise 1
      reward noise 1
    >>> problem.feasible([[0.0, 0.5]])  # under these cost parameters
    array([ True, False])
    >>> problem.best_under(np.array([[[0.0, 1.0], [0.0, 0.5]]]))  # reward's parameter, then cost's
    array([0])
    >>> problem.require_textbook("this")
    """

    def __init__(
        self,
        arms: Any,
        thresholds: Any = (),
        *,
        candidates: Any = None,
        reward: Outcome | Mapping[str, Outcome] | None = None,
        costs: Any = None,
        reward_noise: float | None = None,
        cost_noise: Any = None,
        parameter_radius: Any = None,
    ) -> None:
        self.arms, arm_names, features = _check.table("arms", arms, "arm")
        if not self.arms.any():
            raise ValueError("arms: every arm is the zero vector, so nothing can be learnt")
        named_by = "arms"
        if candidates is None:
            self.candidates, candidate_names = self.arms, arm_names
        else:
            self.candidates, candidate_names, other = _check.table(
                "candidates", candidates, "candidate"
            )
            _check_features(self.arms, self.candidates, features, other)
            if features is None:
                features, named_by = other, "candidates"
            if candidate_names == arm_names and np.array_equal(self.candidates, self.arms):
                self.candidates = self.arms
        thresholds, relative = split_relative(thresholds)
        limits, constraint_names = _check.named_values("thresholds", thresholds)
        if np.isneginf(limits).any():
            raise ValueError("thresholds: -inf leaves no candidate feasible")
        self.thresholds = limits
        self.parameter_radius = read_radius(parameter_radius)
        self.coords: dict[str, NDArray[Any]] = {
            "arm": _check.names("arms", arm_names, len(self.arms)),
            "candidate": _check.names("candidates", candidate_names, len(self.candidates)),
            "feature": _check.names(named_by, features, self.arms.shape[1]),
            "constraint": _check.names("thresholds", constraint_names, limits.size),
        }
        self.reward_name, own = read_reward(reward, reward_noise)
        self.outcomes = (
            own,
            *read_costs(costs, cost_noise, limits.size, constraint_names),
        )
        self.relative: tuple[Relative | None, ...] = tuple(
            relative.get(j) for j in range(limits.size)
        )
        if self.reward_name != REWARD and self.outcome_names.count(self.reward_name) > 1:
            raise ValueError(f"reward: expected a name that no cost has, got {self.reward_name!r}")
        self._set_limits()
        for array in (self.arms, self.candidates, self.thresholds, self.limits, self.references):
            array.setflags(write=False)
        self._check_span()
        if self.parameter_radius is not None and not self.textbook:
            raise ValueError(
                "parameter_radius: expected Gaussian outcomes of known noise with the default "
                "prior, and no relative threshold"
            )

    def _set_limits(self) -> None:
        """Thresholds on the natural scale, and the candidates that some are relative to."""
        self.limits = np.empty(self.thresholds.size)
        self.references = np.zeros((self.thresholds.size, self.arms.shape[1]))
        for j, (outcome, relative) in enumerate(zip(self.outcomes[1:], self.relative, strict=True)):
            name = f"thresholds: {self.coords['constraint'][j]}"
            if relative is None:
                self.limits[j] = outcome.natural(name, self.thresholds[j])
                continue
            at = _check.candidate(self, relative.candidate, name="thresholds: Relative")
            self.references[j] = self.candidates[at]
            self.limits[j] = outcome.shift(name, self.thresholds[j])

    @cached_property
    def textbook(self) -> bool:
        """Whether this is the paper's model: known noise, prior N(0, noise² I), absolute limits."""
        plain = all(one.known and one.prior is None for one in self.outcomes)
        return plain and not any(self.relative)

    def require_textbook(self, what: str) -> None:
        """Refuse what only the paper's model allows, where the problem is another one."""
        if not self.textbook:
            raise ValueError(
                f"problem: {what} needs Gaussian outcomes of known noise with the default prior, "
                "and absolute thresholds"
            )

    @property
    def outcome_names(self) -> list[str]:
        """The names of the reward and of the costs."""
        costs = self.coords["constraint"].tolist()
        return [
            self.reward_name,
            *(one if isinstance(one, str) else f"cost_{one}" for one in costs),
        ]

    @cached_property
    def noise(self) -> Array:
        """Known standard deviations, block by block; NaN where there is none to know."""
        return np.array([getattr(one, "noise", None) or np.nan for one in self.outcomes])

    @property
    def reward_noise(self) -> float:
        """Standard deviation of a reward; NaN where it is not known."""
        return float(self.noise[0])

    @property
    def cost_noise(self) -> Array:
        """Standard deviations of the costs; NaN where they are not known."""
        return self.noise[1:]

    @cached_property
    def priors(self) -> list[tuple[Array, Array]]:
        """Prior mean and covariance of each block (where noise is learnt, at its prior guess)."""
        features = self.arms.shape[1]
        names = ["reward", *(f"costs {name}" for name in self.coords["constraint"])]
        return [
            one.prior_on(features, name) for name, one in zip(names, self.outcomes, strict=True)
        ]

    def prior_summary(self, probability: float = 0.95) -> "xr.Dataset":
        """What the priors believe of every candidate before the first pull.

        Parameters
        ----------
        probability : float
            Of the central intervals.

        Returns
        -------
        Dataset
            Over `candidate`: `mean`, `sd` and `low`, `high` of the reward and of each cost (over
            `outcome`), in their own units; and `feasible`, the probability of being feasible.

        Examples
        --------
        >>> from bayes_feasible import Bernoulli, Prior
        >>> harm = Bernoulli(prior=Prior(mean=[-3.0, 0.0], sd=[1.0, 1.0]))
        >>> problem = Problem({"low": [1, 0], "high": [1, 2]}, {"harm": 0.3}, costs=harm)
        >>> summary = problem.prior_summary()
        >>> summary["mean"].sel(outcome="harm").values.round(2).tolist()
        [0.07, 0.15]
        >>> summary.feasible.values.round(2).tolist()
        [0.98, 0.83]
        """
        laws = [
            Law(
                *prior,
                2 * one.noise_prior[0] if isinstance(one, Gaussian) and one.learnt else np.inf,
            )
            for one, prior in zip(self.outcomes, self.priors, strict=True)
        ]
        return summarise(self, laws, probability)

    @cached_property
    def cost_vectors(self) -> Array:
        """What each candidate's costs are weighed by, over (candidate, constraint, feature).

        A candidate is feasible where `cost_vectors[z, j] @ theta_cost[j] <= limits[j]` for all j.
        """
        return self.candidates[:, np.newaxis] - self.references

    def feasible(self, theta_cost: Array) -> NDArray[np.bool_]:
        """Which candidates are feasible under cost parameters (..., constraint, feature)."""
        costs = np.asarray(theta_cost) @ self.candidates.T
        shift = np.einsum("jf,...jf->...j", self.references, theta_cost)[..., np.newaxis]
        return np.all(costs - shift <= self.limits[:, np.newaxis], axis=-2)

    @cached_property
    def basis(self) -> Array:
        """Orthonormal columns that span the arms; the identity where the arms span all features."""
        return span(self.arms)

    @cached_property
    def design(self) -> Array:
        """The G-optimal design: shares of the arms that tell most about the worst of them."""
        from bayes_feasible.rate.d_optimal import g_optimal_shares

        return g_optimal_shares(self.arms, self.rank)[0]

    @property
    def rank(self) -> int:
        """The dimension of the span of the arms."""
        return self.basis.shape[1]

    def copies(self, candidate: int | str) -> NDArray[np.bool_]:
        """Which candidates have the same vector as this one, itself included.

        Equal vectors have equal rewards and costs, so they count as one recommendation.

        Examples
        --------
        >>> Problem([[1, 0], [0, 1], [1, 0]]).copies(0)
        array([ True, False,  True])
        """
        candidate = _check.candidate(self, candidate)
        return np.all(self.candidates == self.candidates[candidate], axis=1)

    def name(self, candidate: int) -> str:
        """The name of a candidate, for messages.

        Examples
        --------
        >>> Problem({"low": [1, 0.2], "high": [1, 0.9]}).name(1)
        'high'
        """
        candidate = _check.candidate(self, candidate)
        return str(self.coords["candidate"][candidate])

    def best_under(self, parameters: Array) -> NDArray[np.int64]:
        """The best feasible candidate of each draw (draw, block, feature), -1 for none."""
        rewards = parameters[:, 0] @ self.candidates.T
        feasible = self.feasible(parameters[:, 1:])
        best = np.argmax(np.where(feasible, rewards, -np.inf), axis=-1)
        return np.where(feasible.any(axis=-1), best, -1)

    def _check_span(self) -> None:
        if self.candidates is self.arms or self.rank == self.arms.shape[1]:
            return
        unit = np.abs(self.arms).max(axis=0)  # a feature in small units must not hide
        unit[unit == 0] = 1.0
        axes = directions(self.arms / unit)[:, : self.rank]
        off = outside(self.candidates / unit, axes)
        if off.any():
            first = int(np.argmax(off))
            raise ValueError(
                f"candidates: {self.name(first)!r} = {_row(self.candidates[first])} lies outside "
                "the span of the arms, so no number of pulls can tell its reward"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return NotImplemented
        numbers = ("arms", "candidates", "thresholds", "references")
        return (
            all(np.array_equal(getattr(self, name), getattr(other, name)) for name in numbers)
            and all(np.array_equal(self.coords[k], other.coords[k]) for k in self.coords)
            and self.outcomes == other.outcomes
            and self.reward_name == other.reward_name
            and self.parameter_radius == other.parameter_radius
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        arms, features = self.arms.shape
        own = " (the arms)" if self.candidates is self.arms else ""
        lines = [
            f"Problem: {_plural(arms, 'arm')}, {_plural(len(self.candidates), 'candidate')}{own}, "
            f"{_plural(features, 'feature')}, {_plural(self.thresholds.size, 'constraint')}"
        ]
        for j, (name, outcome) in enumerate(
            zip(self.coords["constraint"], self.outcomes[1:], strict=True)
        ):
            label = name if isinstance(name, str) else f"cost {name}"
            lines.append(f"  {label} {self._describe_limit(j)}, {_describe(outcome)}")
        lines.append(f"  {self.reward_name} {_describe(self.outcomes[0])}")
        if self.parameter_radius is not None:
            reward, cost = self.parameter_radius
            lines.append(f"  norm of the parameters: reward <= {reward:g}, costs <= {cost:g}")
        return "\n".join(lines)

    def _describe_limit(self, constraint: int) -> str:
        limit, relative = self.thresholds[constraint], self.relative[constraint]
        if relative is None:
            return f"<= {limit:g}"
        reference = self.name(_check.candidate(self, relative.candidate))
        unit = self.outcomes[1 + constraint].relative
        return f"at most {reference}'s by {limit:g} ({unit})"


def _check_features(arms: Array, candidates: Array, ours: Any, theirs: Any) -> None:
    if candidates.shape[1] != arms.shape[1]:
        raise ValueError(
            f"candidates: expected {arms.shape[1]} features as in the arms, "
            f"got {candidates.shape[1]}"
        )
    if ours is not None and theirs is not None and list(ours) != list(theirs):
        raise ValueError(
            f"candidates: expected the features of the arms, {list(ours)}, got {list(theirs)}"
        )


def _describe(outcome: Outcome) -> str:
    """The outcome in a line of a problem's description."""
    if isinstance(outcome, Gaussian) and outcome.known and outcome.prior is None:
        return f"noise {outcome.noise:g}"
    return repr(outcome)


def _row(vector: Array) -> str:
    return np.array2string(vector, max_line_width=10**9, threshold=10)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
