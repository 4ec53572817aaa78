"""A problem together with its truth: what a simulation knows and a learner does not."""

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._given import read_cost_noise, read_parameters
from bayes_feasible.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

BEST = "best"
INFEASIBLE_SUPEROPTIMAL = "infeasible superoptimal (A1)"
FEASIBLE_SUBOPTIMAL = "feasible suboptimal (A2)"
INFEASIBLE_SUBOPTIMAL = "infeasible suboptimal (A3)"
SHOWN = 20  # rows of a table that is meant for reading


class Instance:
    """A problem with its true parameters.

    Parameters
    ----------
    problem : Problem
    theta_reward : vector over features
        The true reward parameter.
    theta_cost : one vector for each constraint, optional
        The true cost parameters: rows of a table, a dict of constraint names to vectors, or a
        single vector where there is one constraint.
    reward_noise : float, optional
        The true standard deviation, where the problem has it learnt; 1 by default.
    cost_noise : float or one for each constraint, optional
        The same for the costs.

    Attributes
    ----------
    theta_reward, theta_cost : ndarray
        Shapes (feature,) and (constraint, feature).
    mean_reward, mean_cost : ndarray
        Of each candidate, in the units of the outcomes.
    best : int or None
        Index of the best feasible candidate; the first of them if several tie. None where no
        candidate is feasible.

    Examples
    --------
    >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
    >>> instance = Instance(problem, [0.0, 1.0], [0.0, 0.5])
    >>> problem.coords["candidate"][instance.best]
    np.str_('low')
    """

    best: Any  # int or None; in a narrower type every use of a usual instance would need a check

    def __init__(
        self,
        problem: Problem,
        theta_reward: Any,
        theta_cost: Any = None,
        *,
        reward_noise: float | None = None,
        cost_noise: Any = None,
    ) -> None:
        _check.kind("problem", problem, Problem)
        self.problem = problem
        parameters = read_parameters(problem, theta_reward, theta_cost, single=True)
        self.theta_reward, self.theta_cost = parameters
        self._check_radius()
        self.noise = _true_noise(problem, reward_noise, cost_noise)
        natural = _inner(problem.candidates, self.theta_reward)
        self.mean_reward = problem.outcomes[0].mean(natural)
        costs = _inner(problem.candidates[:, np.newaxis], self.theta_cost)
        self.mean_cost = np.empty(costs.shape)
        for j, outcome in enumerate(problem.outcomes[1:]):
            self.mean_cost[:, j] = outcome.mean(costs[:, j])
        # On the natural scale, and against the reference where a limit is relative.
        self.cost_margin = problem.limits - _inner(problem.cost_vectors, self.theta_cost)
        self.feasible = np.all(self.cost_margin >= 0, axis=1)
        self.best = self._best()
        for array in (self.theta_reward, self.theta_cost, self.mean_reward, self.mean_cost):
            array.setflags(write=False)

    def _best(self) -> int | None:
        """The best feasible candidate, by differences: sums of large numbers hide small ones."""
        if not self.feasible.any():
            return None
        best = int(np.argmax(np.where(self.feasible, self.mean_reward, -np.inf)))
        for _ in self.mean_reward:  # each step is to a better one, so that it ends
            ahead = np.where(self.feasible, -self._gap(best), 0.0)
            if ahead.max() <= 0:
                break
            best = int(np.argmax(ahead))
        return best

    def _gap(self, candidate: int) -> Array:
        candidates = self.problem.candidates
        return _inner(candidates[candidate] - candidates, self.theta_reward)

    @cached_property
    def reward_gap(self) -> Array:
        r"""How much less reward each candidate has, :math:`\langle\theta_r, z^* - z\rangle`.

        On the natural scale. Where none is feasible, against the candidate of highest reward.
        """
        return self._gap(int(np.argmax(self.mean_reward)) if self.best is None else self.best)

    @cached_property
    def kind(self) -> Any:
        """The class of each candidate: best, A1, A2 or A3 of the paper."""
        infeasible = np.where(self.reward_gap < 0, INFEASIBLE_SUPEROPTIMAL, INFEASIBLE_SUBOPTIMAL)
        kind = np.where(self.feasible, FEASIBLE_SUBOPTIMAL, infeasible)
        if self.best is None:
            return kind
        return np.where(self.problem.copies(self.best), BEST, kind)

    def summary(self) -> "xr.Dataset":
        """Each candidate's mean reward and costs, its gaps, and its class.

        Returns
        -------
        Dataset
            Over `candidate` (and `constraint`): `mean_reward`, `reward_gap` (the best one's mean
            reward minus this one's), `mean_cost`, `cost_margin` (threshold minus mean cost,
            negative where infeasible), `feasible` and `kind`.

        Examples
        --------
        >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
        >>> summary = Instance(problem, [0.0, 1.0], [0.0, 0.5]).summary()
        >>> summary.mean_cost.sel(candidate="high", constraint="toxicity").item()
        0.45
        >>> summary.kind.values.tolist()
        ['best', 'infeasible superoptimal (A1)']
        """
        import xarray as xr

        coords = self.problem.coords
        both = ("candidate", "constraint")
        return xr.Dataset(
            {
                "mean_reward": ("candidate", self.mean_reward),
                "reward_gap": ("candidate", self.reward_gap),
                "mean_cost": (both, self.mean_cost),
                "cost_margin": (both, self.cost_margin),
                "feasible": ("candidate", self.feasible),
                "kind": ("candidate", self.kind.astype(str)),
            },
            coords={name: coords[name] for name in both},
            attrs={"best": "none" if self.best is None else self.problem.name(self.best)},
        )

    def pull(
        self, arms: Any, seed: Any = None, *, noise: str = "gaussian", degrees: float = 4.0
    ) -> tuple[Array, Array]:
        r"""Rewards (pull,) and costs (pull, constraint) of pulling these arms in this order.

        Parameters
        ----------
        arms : vector of arm indices
        seed : int, SeedSequence or Generator, optional
        noise : {"gaussian", "student_t", "logistic"}
            "gaussian" draws from the outcomes of the problem, whatever they are. The others take
            their place: with means :math:`\mu = \langle\theta, x\rangle` and the scales of the
            problem Student's t times the scale, which has outliers; or a 1 with probability
            :math:`1 / (1 + e^{-\mu})` and a 0 otherwise. They are what the models `student_t` and
            `logistic` assume.
        degrees : float
            Degrees of freedom of Student's t.

        Examples
        --------
        >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
        >>> instance = Instance(problem, [0.0, 1.0], [0.0, 0.5])
        >>> rewards, costs = instance.pull([0, 1, 1], seed=0)
        >>> rewards.shape, costs.shape
        ((3,), (3, 1))
        >>> instance.pull([0, 1, 1], seed=0, noise="logistic")[0]
        array([0., 1., 0.])
        """
        problem = self.problem
        pulled = problem.arms[_check.arms(problem, arms)]
        rng = _check.generator("seed", seed)
        shape = (len(pulled), 1 + problem.thresholds.size)
        mean_reward, mean_cost = pulled @ self.theta_reward, pulled @ self.theta_cost.T
        if noise == "logistic":
            odds = rng.logistic(size=shape)  # a 1 where the mean exceeds it
            shown = np.column_stack([mean_reward, mean_cost]) > odds
            return shown[:, 0].astype(float), shown[:, 1:].astype(float)
        if noise == "gaussian" and not problem.textbook:
            drawn = np.column_stack([mean_reward, mean_cost])
            for b, outcome in enumerate(problem.outcomes):
                drawn[:, b] = outcome.draw(rng, drawn[:, b], self.noise[b])
            return drawn[:, 0].copy(), drawn[:, 1:].copy()
        if noise == "gaussian":
            errors = rng.standard_normal(shape)
        elif noise == "student_t":
            errors = rng.standard_t(_check.positive("degrees", degrees), shape)
            if not np.isfinite(errors).all():
                raise ValueError(f"degrees: {degrees:g} gives numbers too large to be held")
        else:
            raise ValueError(f"noise: expected gaussian, student_t or logistic, got {noise!r}")
        rewards = mean_reward + problem.reward_noise * errors[:, 0]
        costs = mean_cost + problem.cost_noise * errors[:, 1:]
        return rewards, costs

    def _check_radius(self) -> None:
        names, thetas = ("theta_reward", "theta_cost"), (self.theta_reward, self.theta_cost)
        for name, theta, most in zip(
            names, thetas, self.problem.parameter_radius or (np.inf, np.inf), strict=True
        ):
            norm = np.linalg.norm(theta, axis=-1).max(initial=0.0)
            if norm > most:
                raise ValueError(f"{name}: norm {norm:g} exceeds the parameter_radius {most:g}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        return (
            self.problem == other.problem
            and np.array_equal(self.theta_reward, other.theta_reward)
            and np.array_equal(self.theta_cost, other.theta_cost)
            and np.array_equal(self.noise, other.noise)
        )

    __hash__ = None  # type: ignore[assignment]

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the table that both representations show, best first."""
        costs = [f"cost {name}" for name in self.problem.coords["constraint"]]
        header = ["candidate", "reward", "gap", *costs, "class"]
        order = np.argsort(self.reward_gap + np.where(self.feasible, 0.0, np.inf), kind="stable")
        if self.best is not None:
            order = np.concatenate([[self.best], order[order != self.best]])
        rows = [
            [
                self.problem.name(i),
                f"{self.mean_reward[i]:.4g}",
                f"{self.reward_gap[i]:.4g}",
                *(f"{cost:.4g}" for cost in self.mean_cost[i]),
                str(self.kind[i]),
            ]
            for i in order[:SHOWN]
        ]
        return header, rows

    def __repr__(self) -> str:
        header, rows = self._rows()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = [f"Instance of a {self.problem!r}"]
        for row in [header, *rows]:
            cells = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)]
            cells[0], cells[-1] = f"{row[0]:<{widths[0]}}", row[-1]
            lines.append("  " + "  ".join(cells))
        hidden = len(self.mean_reward) - len(rows)
        return "\n".join([*lines, f"  ... and {hidden} more"] if hidden else lines)

    def _repr_html_(self) -> str:
        header, rows = self._rows()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        hidden = len(self.mean_reward) - len(rows)
        more = f"<p>... and {hidden} more</p>" if hidden else ""
        return (
            f"<pre>Instance of a {escape(repr(self.problem))}</pre>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
        )


def _true_noise(problem: Problem, reward: Any, cost: Any) -> Array:
    """Standard deviations of Gaussian outcomes, known or not, block by block; 1 for others."""
    names = problem.coords["constraint"].tolist()
    truth = 1.0 if reward is None else _check.positive("reward_noise", reward)
    noise = np.concatenate([[truth], read_cost_noise(cost, names)])
    told = [reward is not None] + [cost is not None] * len(names)
    for b in np.flatnonzero(told & ~np.isnan(problem.noise) & (problem.noise != noise)):
        name = "reward_noise" if b == 0 else f"cost_noise: {names[b - 1]}"
        raise ValueError(f"{name}: the problem says {problem.noise[b]:g}, got {noise[b]:g}")
    known = problem.noise
    return np.where(np.isnan(known), noise, known)


def _inner(vectors: Array, parameter: Array) -> Array:
    """Inner products, equal to the last bit for equal vectors, which BLAS does not promise."""
    return (vectors * parameter).sum(axis=-1)
