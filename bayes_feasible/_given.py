"""What a user gives for outcomes, limits and parameters, as the package keeps it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.outcomes import REWARD, Gaussian, Outcome, Relative


def read_reward(reward: Any, noise: Any) -> tuple[str, Outcome]:
    """Name and outcome of the reward, from what a user gave for it or for its noise."""
    if reward is None:
        return REWARD, Gaussian(_check.positive("reward_noise", 1.0 if noise is None else noise))
    name = REWARD
    if isinstance(reward, Mapping):
        if len(reward) != 1 or not isinstance(name := next(iter(reward)), str) or not name:
            raise ValueError(f"reward: expected one name and its outcome, got {dict(reward)!r}")
        reward = reward[name]
    _check.kind("reward", reward, Outcome)
    if noise is not None:
        raise ValueError("reward_noise: expected reward or reward_noise, got both")
    return name, reward


def read_costs(costs: Any, noise: Any, constraints: int, names: list[Any] | None) -> list[Outcome]:
    """The outcomes of the costs, from what a user gave for them or for their noise."""
    names = list(range(constraints)) if names is None else names
    if costs is None:
        return [Gaussian(one) for one in read_cost_noise(noise, names).tolist()]
    if noise is not None:
        raise ValueError("cost_noise: expected costs or cost_noise, got both")
    if isinstance(costs, Outcome):
        return [costs] * constraints
    if isinstance(costs, Mapping):
        at = _check.order("costs", list(costs), names, "threshold", numbered=False)
        given = list(costs.values())
        costs = [given[i] for i in at]
    if not isinstance(costs, list | tuple):
        raise TypeError(
            f"costs: expected an outcome, or one for each threshold, got {type(costs).__name__}"
        )
    if len(costs) != constraints:
        raise ValueError(
            f"costs: expected {constraints} outcomes, one for each threshold, got {len(costs)}"
        )
    for name, one in zip(names, costs, strict=True):
        _check.kind(f"costs: {name}", one, Outcome)
    return list(costs)


def read_cost_noise(value: Any, names: list[Any]) -> Array:
    """The standard deviations of the costs, from one number, or one for each of these names."""
    if isinstance(value, Mapping) or getattr(value, "ndim", 0) == 1:
        value = _check.by_name("cost_noise", value, names, "threshold")
    noise = _check.numbers("cost_noise", 1.0 if value is None else value)
    if noise.shape not in ((), (len(names),)):
        raise ValueError(
            f"cost_noise: expected one number or {len(names)}, one for each threshold, "
            f"got shape {noise.shape}"
        )
    if np.any(noise <= 0):
        raise ValueError(f"cost_noise: expected positive numbers, got {noise.min():g}")
    return np.broadcast_to(noise, len(names))


def split_relative(thresholds: Any) -> tuple[Any, dict[int, Relative]]:
    """Thresholds as numbers, and which of them, by position, are relative."""
    if isinstance(thresholds, Relative):
        thresholds = [thresholds]
    if not isinstance(thresholds, Mapping | list | tuple):
        return thresholds, {}
    values = list(thresholds.values() if isinstance(thresholds, Mapping) else thresholds)
    relative = {j: one for j, one in enumerate(values) if isinstance(one, Relative)}
    numbers = [one.by if isinstance(one, Relative) else one for one in values]
    if isinstance(thresholds, Mapping):
        return dict(zip(thresholds, numbers, strict=True)), relative
    return numbers, relative


def read_radius(value: Any) -> tuple[float, float] | None:
    """Bounds on the norms of the reward and of each cost parameter; None where there is none."""
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


def read_parameters(
    problem: Any, theta_reward: Any, theta_cost: Any, *, single: bool = False
) -> tuple[Array, Array]:
    """Parameters as arrays (..., feature) and (..., constraint, feature); no `...` if `single`.

    What carries the names of features or constraints is put in their order. One constraint needs
    no axis of its own, and without constraints `theta_cost` may be left out.
    """
    features, constraints = problem.arms.shape[1], problem.thresholds.size
    reward = _arrange("theta_reward", theta_reward, problem, "feature")
    if reward.ndim == 0 or reward.shape[-1] != features:
        raise ValueError(
            f"theta_reward: expected {features} features on the last axis, got shape {reward.shape}"
        )
    if single and reward.ndim > 1:
        raise ValueError(f"theta_reward: expected one vector, got shape {reward.shape}")
    expected = (*reward.shape[:-1], constraints, features)
    cost = np.zeros(0)
    if theta_cost is not None:
        cost = _arrange("theta_cost", theta_cost, problem, "constraint", "feature")
    if cost.size == 0 and constraints == 0:
        cost = np.zeros(expected)
    if cost.shape == reward.shape and constraints == 1:
        cost = cost[..., np.newaxis, :]
    if cost.shape != expected:
        raise ValueError(
            f"theta_cost: expected shape {expected}, a row for each threshold, got {cost.shape}"
        )
    return reward, cost


def _arrange(name: str, value: Any, problem: Any, *dims: str) -> Array:
    """Numbers with these dimensions last, each in the problem's order where it carries names."""

    def order(dim: str, labels: Any, *, numbered: bool = True) -> list[int]:
        return _check.order(name, list(labels), problem.coords[dim], dim, numbered=numbered)

    if isinstance(value, Mapping):
        parts = [_arrange(name, part, problem, *dims[1:]) for part in value.values()]
        places = order(dims[0], value, numbered=False)
        if len({part.shape for part in parts}) > 1 or any(
            part.ndim < len(dims) - 1 for part in parts
        ):
            raise ValueError(f"{name}: expected as many numbers for each {dims[0]}")
        return np.stack([parts[i] for i in places], axis=-len(dims)) if parts else np.zeros(0)
    if _check.is_data_array(value):
        named = [dim for dim in dims if dim in value.dims]
        value = value.transpose(..., *named)
        for dim in named:
            if dim in value.coords:
                value = value.isel({dim: order(dim, value.coords[dim].values)})
    elif hasattr(type(value), "columns") and hasattr(type(value), "index"):  # a DataFrame
        array = _check.numbers(name, value)[:, order("feature", value.columns)]
        return array[order(dims[0], value.index)] if len(dims) > 1 else array
    elif hasattr(type(value), "index") and hasattr(value, "dtype"):  # a Series
        value = _check.by_name(name, value, problem.coords["feature"], "feature")
    return _check.numbers(name, value)
