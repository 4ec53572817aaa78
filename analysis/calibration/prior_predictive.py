"""Experiments drawn from the prior: the truth, and what pulls of it show."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.special import log_expit
from tqdm import tqdm

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise, block_radius
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.history import History
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

MOST_TRIES = 100_000
DEGREES = 4.0  # of freedom of Student's t, as in `models.student_t`

Maker = Callable[..., Any]  # of a rule, from a problem and a seed


def repeated(name: str, times: int, progress: bool) -> Iterable[int]:
    """So many times, with a bar if wanted."""
    return tqdm(range(_check.count(name, times)), disable=not progress, desc=name)


def prior(problem: Problem, rng: np.random.Generator, within: Alternative | None = None) -> Array:
    """Parameters (block, feature) from the prior, by rejection given an alternative set.

    By rejection, for the truth must not share a mistake of the sampler that is judged.
    """
    _check.kind("problem", problem, Problem)
    radius, scale = block_radius(problem), block_noise(problem)[:, np.newaxis]
    for _ in range(MOST_TRIES):
        truth = scale * rng.standard_normal((len(scale), problem.arms.shape[1]))
        if np.any(np.linalg.norm(truth, axis=1) > radius):
            continue
        if within is None or within.contains(truth[0], truth[1:]):
            return truth
    raise ValueError(
        f"problem: of {MOST_TRIES} draws of the prior none lies in the "
        + ("parameter_radius" if within is None else "alternative set")
    )


def shown_by(
    problem: Problem, truth: Array, arms: Array, rng: np.random.Generator, noise: str, scale: Array
) -> Array:
    """What pulls of these arms show, (pull, block)."""
    means = problem.arms[arms] @ truth.T
    if noise == "logistic":
        return (rng.logistic(size=means.shape) < means).astype(float)
    if noise == "student_t":
        return means + scale * rng.standard_t(DEGREES, means.shape)
    return means + scale * rng.standard_normal(means.shape)


def pulled(problem: Problem, truth: Array, arms: Array, rng: np.random.Generator) -> Posterior:
    """The posterior after pulls of these arms."""
    shown = shown_by(problem, truth, arms, rng, "gaussian", block_noise(problem))
    return Posterior.from_history(problem, arms, shown[:, 0], shown[:, 1:])


def played(
    problem: Problem, rule: Maker, pulls: int, truth: Array, rng: np.random.Generator, needed: str
) -> Any:
    """A rule after pulls of its own choice; made from the problem, it does not know the truth."""
    if not callable(rule):
        raise ValueError(f"rule: expected a class or a function of (problem, seed), got {rule!r}")
    player = rule(problem, seed=int(rng.integers(2**31)))
    for name in ("ask", "tell", needed):
        if not hasattr(player, name):
            raise ValueError(f"rule: gives a {type(player).__name__} without {name}")
    scale = block_noise(problem)
    for _ in range(pulls):
        arm = _check.index("ask()", player.ask(), len(problem.arms), "arm")
        shown = shown_by(problem, truth, np.array([arm]), rng, "gaussian", scale)[0]
        player.tell(arm, shown[0], shown[1:])
    return player


def log_likelihood(history: History, parameters: Array, noise: str, scales: Array) -> Array:
    """Log-density of the pulls, up to a constant, (draw,), given draws and their scales."""
    means = history.problem.arms[history.arms] @ parameters.mT  # (draw, pull, block)
    shown = np.column_stack([history.rewards, history.costs])
    if noise == "logistic":
        return np.sum(log_expit(np.where(shown == 1, means, -means)), axis=(1, 2))
    errors = (shown - means) / scales[:, np.newaxis]
    if noise == "student_t":
        logs = -0.5 * (DEGREES + 1) * np.log1p(errors**2 / DEGREES)
    else:
        logs = -0.5 * errors**2
    return np.sum(logs - np.log(scales)[:, np.newaxis], axis=(1, 2))
