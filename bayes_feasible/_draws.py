"""Draws of the parameters: arrays inside, labels at the edge.

Inside the package a set of draws is one array (draw, block, feature): block 0 is the reward
parameter, the blocks after it are the cost parameters.
"""

from typing import TYPE_CHECKING

import numpy as np

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative import bounded, general
from bayes_feasible.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

    from bayes_feasible.posterior import Posterior


def block_noise(problem: Problem) -> Array:
    """Standard deviation of an observation, block by block."""
    return np.concatenate([[problem.reward_noise], problem.cost_noise])


def block_radius(problem: Problem) -> Array:
    """Bound on the norm of the parameter, block by block; inf where there is none."""
    reward, cost = problem.parameter_radius or (np.inf, np.inf)
    return np.concatenate([[reward], np.full(problem.thresholds.size, cost)])


def block_means(posterior: "Posterior") -> Array:
    """Posterior means, block by block."""
    return np.vstack([posterior.theta_reward, posterior.theta_cost])


def unrestricted(
    posterior: "Posterior", size: int, rng: np.random.Generator, scale: float = 1.0
) -> Array:
    """Draws from the posterior itself, within the problem's `parameter_radius` if it has one."""
    problem = posterior.problem
    if not posterior.textbook:
        return general.draw_all(posterior.blocks, rng, size).theta
    centre = block_means(posterior)
    spread = block_noise(problem) * np.sqrt(scale)
    if problem.parameter_radius is None:
        root, rest = posterior.covariance_root()
        normal = rng.standard_normal((size, len(centre), root.shape[0]))
        return centre + spread[:, np.newaxis] * (normal @ np.hstack([root, rest]).T)
    axes, rotated, precision, radius = eigen_blocks(posterior, scale)
    everywhere = np.zeros((1, *centre.shape))
    unasked = np.full((1, len(centre)), -np.inf)
    drawn = bounded.bounded_draws(rotated, precision, everywhere, unasked, radius, size, rng)
    assert drawn is not None  # a ball of positive radius is never empty
    return drawn[0] @ axes.T


def eigen_blocks(posterior: "Posterior", scale: float) -> tuple[Array, Array, Array, Array]:
    """Axes in which every block has independent coordinates, and its means, precisions, radius.

    The radius is short of the user's by a rounding, so that no draw ends beyond it.
    """
    problem = posterior.problem
    # The root, not the precision: that one's small eigenvalues drown beside large ones.
    axes, spread, _ = np.linalg.svd(np.hstack(posterior.covariance_root()))
    precision = spread**-2 / (block_noise(problem)[:, np.newaxis] ** 2 * scale)
    return axes, block_means(posterior) @ axes, precision, block_radius(problem) * (1 - 1e-13)


def parameter_names(problem: Problem) -> list[str]:
    """Names of all coordinates of the parameters, such as `theta_cost[dose, 0]`."""
    features = problem.coords["feature"]
    return [f"theta_reward[{feature}]" for feature in features] + [
        f"theta_cost[{name}, {feature}]"
        for name in problem.coords["constraint"]
        for feature in features
    ]


def stack_blocks(draws: "xr.Dataset") -> Array:
    """Draws of a Dataset as one array (chain, draw, block, feature): the inverse of `labelled`."""
    blocks = [draws["theta_reward"].transpose("chain", "draw", "feature").values[:, :, np.newaxis]]
    if "theta_cost" in draws:
        cost = draws["theta_cost"].transpose("chain", "draw", "constraint", "feature")
        blocks.append(cost.values)
    return np.concatenate(blocks, axis=2)


def read_draws(
    problem: Problem, draws: "xr.DataTree | xr.Dataset",
    names: tuple[str, str] = ("theta_reward", "theta_cost"),
) -> Array:  # fmt: skip
    """Draws of the parameters from anywhere, as one array (chain, draw, block, feature).

    They may come from PyMC, Stan or NumPyro through ArviZ: dimensions beyond chain and draw are
    taken in their order, unless labels say otherwise. One constraint needs no dimension.
    """
    import xarray as xr

    _check.kind("draws", draws, xr.DataTree, xr.Dataset)
    if isinstance(draws, xr.DataTree):
        if "posterior" in draws.children:
            draws = draws["posterior"].to_dataset()
        else:
            draws = draws.to_dataset()
    features, constraints = problem.arms.shape[1], problem.thresholds.size
    blocks = []
    shapes = (features,), (constraints, features)
    dims = ("feature",), ("constraint", "feature")
    for name, shape, inner in zip(names, shapes, dims, strict=True):
        if not all(shape):
            continue
        if name not in draws:
            raise ValueError(
                f"draws: expected a variable `{name}`, got {', '.join(map(str, draws))}"
            )
        array = draws[name]
        if not {"chain", "draw"} <= set(array.dims):
            raise ValueError(f"draws: expected {name} over chain and draw, got {array.dims}")
        array = array.transpose("chain", "draw", ...)
        if set(inner) <= set(array.dims):
            array = array.transpose("chain", "draw", *inner)
        for dim in inner:
            labels = problem.coords[dim]
            if dim in array.coords and set(array[dim].values.tolist()) == set(labels.tolist()):
                array = array.sel({dim: labels})
        values = array.values.astype(float)
        if len(shape) == 2 and shape[0] == 1 and values.shape[2:] == shape[1:]:
            values = values[:, :, np.newaxis]
        if values.shape[2:] != shape or not values.size:
            raise ValueError(
                f"draws: expected {name} of shape {('chain', 'draw', *shape)}, got {array.shape}"
            )
        blocks.append(values.reshape(*values.shape[:2], -1, features))
    return np.concatenate(blocks, axis=2)


def labelled(problem: Problem, parameters: Array, chains: int) -> "xr.Dataset":
    """Draws as a Dataset over (chain, draw, ...) with the names of the problem."""
    import xarray as xr

    draws = len(parameters) // chains
    shaped = parameters.reshape(chains, draws, *parameters.shape[1:])
    return xr.Dataset(
        {
            "theta_reward": (("chain", "draw", "feature"), shaped[:, :, 0]),
            "theta_cost": (("chain", "draw", "constraint", "feature"), shaped[:, :, 1:]),
        },
        coords={
            "chain": np.arange(chains),
            "draw": np.arange(draws),
            "feature": problem.coords["feature"],
            "constraint": problem.coords["constraint"],
        },
    )
