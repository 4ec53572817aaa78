"""What the learner knows before the first pull: arms, candidates, thresholds, noise."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from bayes_feasible import _check
from bayes_feasible._check import Array

SPAN_TOLERANCE = np.sqrt(np.finfo(float).eps)
EQUILIBRATIONS = 4  # rounds of scaling before the rank of the arms is decided


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
        identification. `inf`: that constraint never binds.
    candidates : like `arms`, optional
        What can be recommended; the arms themselves by default. Each must lie in the span of
        the arms, for otherwise no number of pulls would tell its reward.
    reward_noise : float
        Standard deviation :math:`\sigma` of a reward.
    cost_noise : float or one for each constraint
        Standard deviations :math:`\gamma_j` of the costs.
    parameter_radius : float or pair of floats, optional
        Bounds on the norms of the reward parameter and of each cost parameter. Unbounded by
        default. One number bounds both.

    Attributes
    ----------
    arms, candidates : ndarray
        The vectors, of shapes (arm, feature) and (candidate, feature).
    thresholds, cost_noise : ndarray
        One value for each constraint.
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
    """

    def __init__(
        self,
        arms: Any,
        thresholds: Any = (),
        *,
        candidates: Any = None,
        reward_noise: float = 1.0,
        cost_noise: Any = 1.0,
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
        limits, constraint_names = _check.named_values("thresholds", thresholds)
        if np.isneginf(limits).any():
            raise ValueError("thresholds: -inf leaves no candidate feasible")
        self.thresholds = limits
        self.reward_noise = _check.positive("reward_noise", reward_noise)
        self.cost_noise = _cost_noise(cost_noise, limits.size, constraint_names)
        self.parameter_radius = _radius(parameter_radius)
        self.coords: dict[str, NDArray[Any]] = {
            "arm": _check.names("arms", arm_names, len(self.arms)),
            "candidate": _check.names("candidates", candidate_names, len(self.candidates)),
            "feature": _check.names(named_by, features, self.arms.shape[1]),
            "constraint": _check.names("thresholds", constraint_names, limits.size),
        }
        for array in (self.arms, self.candidates, self.thresholds, self.cost_noise):
            array.setflags(write=False)
        self._check_span()

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

    def _check_span(self) -> None:
        if self.candidates is self.arms:
            return
        if self.rank == self.arms.shape[1]:
            return
        unit = np.abs(self.arms).max(axis=0)  # a feature in small units must not hide
        unit[unit == 0] = 1.0
        directions = _directions(self.arms / unit)[:, : self.rank]
        candidates = self.candidates / unit
        outside = candidates - candidates @ directions @ directions.T
        length = np.linalg.norm(candidates, axis=1)
        off = np.linalg.norm(outside, axis=1) > SPAN_TOLERANCE * length
        if off.any():
            first = int(np.argmax(off))
            raise ValueError(
                f"candidates: {self.name(first)!r} = {_row(self.candidates[first])} lies outside "
                "the span of the arms, so no number of pulls can tell its reward"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return NotImplemented
        same_numbers = all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("arms", "candidates", "thresholds", "cost_noise")
        )
        same_names = all(np.array_equal(self.coords[k], other.coords[k]) for k in self.coords)
        return (
            same_numbers
            and same_names
            and self.reward_noise == other.reward_noise
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
        for name, limit, noise in zip(
            self.coords["constraint"], self.thresholds, self.cost_noise, strict=True
        ):
            label = name if isinstance(name, str) else f"cost {name}"
            lines.append(f"  {label} <= {limit:g}, noise {noise:g}")
        lines.append(f"  reward noise {self.reward_noise:g}")
        if self.parameter_radius is not None:
            reward, cost = self.parameter_radius
            lines.append(f"  norm of the parameters: reward <= {reward:g}, costs <= {cost:g}")
        return "\n".join(lines)


def span(arms: Array) -> Array:
    """Orthonormal columns that span the rows of `arms`.

    The rank is decided on arms of length one, and again on equilibrated ones (rows and columns
    scaled in turns), so that neither the unit of a feature nor the length of an arm hides a
    direction. No scaling can add one, so the highest rank seen counts. Arms of full rank give the
    identity, which leaves every number as the user wrote it.
    """
    features = arms.shape[1]
    scaled = _unit_rows(arms)
    rank = _numerical_rank(scaled)
    for _ in range(EQUILIBRATIONS):
        if rank == min(arms.shape):  # the highest there can be
            break
        scaled = _balanced_rows(_balanced_rows(scaled.T).T)
        rank = max(rank, _numerical_rank(_unit_rows(scaled)))
    if rank == features:
        return np.eye(features)
    return np.ascontiguousarray(_directions(arms)[:, :rank])


def _directions(arms: Array) -> Array:
    """Orthonormal columns, of which the first span most of the arms' directions."""
    return qr(_unit_rows(arms).T, mode="economic", pivoting=True)[0]


def _balanced_rows(rows: Array) -> Array:
    """Rows divided by the geometric mean of their entries other than 0."""
    there = rows != 0
    logs = np.log(np.abs(rows), where=there, out=np.zeros_like(rows))
    mean = logs.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return rows * np.exp(-mean)[:, np.newaxis]


def _numerical_rank(rows: Array) -> int:
    pivots = np.abs(np.diag(qr(rows.T, mode="r", pivoting=True)[0]))
    return int(np.sum(pivots > 8 * max(rows.shape) * np.finfo(float).eps * pivots[0]))


def _unit_rows(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)


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


def _cost_noise(value: Any, constraints: int, names: list[Any] | None) -> Array:
    if isinstance(value, Mapping) or getattr(value, "ndim", 0) == 1:
        names = list(range(constraints)) if names is None else names
        value = _check.by_name("cost_noise", value, names, "threshold")
    noise = _check.numbers("cost_noise", value)
    if noise.ndim == 0:
        noise = np.full(constraints, noise)
    if noise.shape != (constraints,):
        raise ValueError(
            f"cost_noise: expected one number or {constraints}, one for each threshold, "
            f"got shape {noise.shape}"
        )
    if noise.size and noise.min() <= 0:
        raise ValueError(f"cost_noise: expected positive numbers, got {noise.min():g}")
    return noise


def _radius(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    radii = _check.numbers("parameter_radius", value, infinite=True)
    if radii.shape not in ((), (1,), (2,)):
        raise ValueError(
            f"parameter_radius: expected one number or a pair (reward, cost), got {value!r}"
        )
    reward, cost = np.broadcast_to(radii, 2)
    if min(reward, cost) <= 0:
        raise ValueError(f"parameter_radius: expected positive numbers, got {value!r}")
    return None if np.isinf([reward, cost]).all() else (float(reward), float(cost))


def _row(vector: Array) -> str:
    return np.array2string(vector, max_line_width=10**9, threshold=10)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
