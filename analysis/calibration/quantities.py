"""The quantities that the truth is ranked by, the draws it is ranked among, and the ranks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise, parameter_names, stack_blocks
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

Sampler = Callable[[Posterior, Alternative, int, int], xr.Dataset]


def named_sampler(name: str, **options: Any) -> Sampler:
    """A sampler of the package, by its name in `samplers.SAMPLERS`."""
    if name == "exact" and not options:
        return lambda posterior, alternative, draws, seed: alternative.sample(
            posterior, draws, seed=seed
        )
    from bayes_feasible.analysis.samplers.sample import check_name, sample_alternative

    check_name(name)

    def run(posterior: Posterior, alternative: Alternative, draws: int, seed: int) -> xr.Dataset:
        tree = sample_alternative(
            posterior, alternative, name, draws=draws, chains=4, tune=500, seed=seed,
            progress=False, **options,
        )  # fmt: skip
        return tree["posterior"].to_dataset()

    return run


def nuts_draws(model: Any, draws: int, seed: int) -> xr.Dataset:
    """Posterior draws of a model by nutpie, four times as many as will be kept."""
    from bayes_feasible.analysis.samplers.mcmc import nuts

    names = ("theta_reward", "theta_cost", "reward_scale", "cost_scale")
    return nuts(model, names, 4 * draws, 500, 4, [seed])[0]


def thinned_blocks(dataset: xr.Dataset, number: int) -> Array:
    """So many draws of the parameters, (draw, block, feature)."""
    together = stack_blocks(dataset)
    return thinned(together.reshape(-1, *together.shape[2:]), number)


def thinned_scales(dataset: xr.Dataset, number: int) -> Array:
    """So many draws of the scales, (draw, block)."""
    parts = [dataset["reward_scale"].values.reshape(-1, 1)]
    if "cost_scale" in dataset:
        cost = dataset["cost_scale"].transpose("chain", "draw", "constraint").values
        parts.append(cost.reshape(-1, cost.shape[2]))
    return thinned(np.concatenate(parts, axis=1), number)


def thinned(values: Array, number: int) -> Array:
    """So many of the draws, evenly spaced."""
    if len(values) < number:
        raise ValueError(f"sampler: expected at least {number} draws, got {len(values)}")
    return values[np.linspace(0, len(values), number, endpoint=False).astype(int)]


def plain(problem: Problem, parameters: Array) -> Array:
    """Coordinates, and rewards and costs of the candidates, (draw, quantity)."""
    flat = parameters.reshape(len(parameters), -1)
    means = (parameters @ problem.candidates.T).reshape(len(parameters), -1)
    return np.concatenate([flat, means], axis=1)


def plain_names(problem: Problem) -> list[str]:
    """What `plain` gives, by name."""
    kinds = ["reward", *(f"cost {name}" for name in problem.coords["constraint"])]
    return parameter_names(problem) + [
        f"{kind} of {problem.name(i)}" for kind in kinds for i in range(len(problem.candidates))
    ]


def measure(posterior: Posterior, parameters: Array) -> Array:
    """The plain quantities and the posterior density, (draw, quantity)."""
    problem = posterior.problem
    centre = np.vstack([posterior.theta_reward, posterior.theta_cost])
    errors = (parameters - centre) / block_noise(problem)[:, np.newaxis]
    distance = np.einsum("dbf,fg,dbg->d", errors, posterior.precision, errors)
    return np.column_stack([plain(problem, parameters), -0.5 * distance])


def rank(posterior: Posterior, truth: Array, draws: Array, rng: np.random.Generator) -> Array:
    """The rank of the truth among the draws, by each quantity."""
    own = measure(posterior, truth[np.newaxis])[0]
    return ranks_below(own, measure(posterior, draws), rng)


def ranks_below(truth: Array, draws: Array, rng: np.random.Generator) -> Array:
    """How many draws lie below the truth, ties broken at random."""
    below, ties = np.sum(draws < truth, axis=0), np.sum(draws == truth, axis=0)
    return below + rng.integers(0, ties + 1)


def labelled(ranks: list[Array], names: list[str], draws: int) -> xr.Dataset:
    """Label ranks, (replication, quantity)."""
    return xr.Dataset(
        {"rank": (("replication", "quantity"), np.array(ranks))},
        coords={"quantity": names},
        attrs={"draws": draws},
    )
