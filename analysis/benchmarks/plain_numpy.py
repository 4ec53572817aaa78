"""BLFAIPS as one would write it in plain NumPy, with rejection sampling: a yardstick for speed.

The same algorithm as `bayes_feasible.BLFAIPS`, AdaHedge on cumulative losses included, for a
problem whose candidates are its arms. The one difference is the draw from the alternative set:
posterior draws until one lies in it, `batch` at a time.
"""

import time
from dataclasses import dataclass

import numpy as np

from bayes_feasible._check import Array
from bayes_feasible.instance import Instance


@dataclass(frozen=True)
class Finished:
    """How far a run came."""

    seconds: Array  # (round,), since the start at the end of each round
    proposals: Array  # (round,), posterior draws that each round took
    pulls: Array  # (arm,)


def blfaips(
    instance: Instance, design: Array, eta: float, rounds: int, seed: int,
    *, batch: int = 1, most_seconds: float = np.inf,
) -> Finished:  # fmt: skip
    """Run BLFAIPS for so many rounds, or for so many seconds if those are over before."""
    problem = instance.problem
    arms, thresholds = problem.arms, problem.thresholds
    number, features = arms.shape
    noise = np.array([problem.reward_noise, *problem.cost_noise])
    truth = np.vstack([instance.theta_reward, instance.theta_cost])
    rng = np.random.default_rng(seed)
    covariance, sums, theta = np.eye(features), np.zeros_like(truth), np.zeros_like(truth)
    losses, weights, gap = np.zeros(number), np.full(number, 1 / number), 0.0
    pulls, proposals, seconds = np.zeros(number), [], []
    start = time.perf_counter()
    for t in range(1, rounds + 1):
        leader = _leader(arms, theta, thresholds, rng)
        root = np.linalg.cholesky(covariance) / np.sqrt(eta)
        drawn, tried = _alternative(arms, theta, thresholds, leader, noise, root, rng, batch)
        mixture = design if rng.random() < t**-0.25 else weights
        arm = rng.choice(number, p=mixture)
        loss = -np.sum(((drawn - theta) @ arms.T / noise[:, np.newaxis]) ** 2, axis=0)
        gap += _mixability_gap(losses, weights, gap, loss)
        losses += loss
        weights = _weights(losses, gap)
        vector = arms[arm]
        shown = truth @ vector + noise * rng.standard_normal(noise.size)
        along = covariance @ vector
        covariance -= np.outer(along, along) / (1 + vector @ along)
        sums += np.outer(shown, vector)
        theta = sums @ covariance
        pulls[arm] += 1
        proposals.append(tried)
        seconds.append(time.perf_counter() - start)
        if seconds[-1] > most_seconds:
            break
    return Finished(np.array(seconds), np.array(proposals), pulls)


def _leader(arms: Array, theta: Array, thresholds: Array, rng: np.random.Generator) -> int:
    feasible = np.all(arms @ theta[1:].T <= thresholds, axis=1)
    if not feasible.any():
        return int(rng.integers(len(arms)))
    return int(np.argmax(np.where(feasible, arms @ theta[0], -np.inf)))


def _alternative(
    arms: Array, theta: Array, thresholds: Array, leader: int, noise: Array, root: Array,
    rng: np.random.Generator, batch: int,
) -> tuple[Array, int]:  # fmt: skip
    """A posterior draw under which the leader is not best, and how many draws that took."""
    tried = 0
    while True:
        normal = rng.standard_normal((batch, *theta.shape))
        draws = theta + noise[:, np.newaxis] * (normal @ root.T)
        values = draws @ arms.T  # (draw, block, arm)
        feasible = np.all(values[:, 1:] <= thresholds[:, np.newaxis], axis=1)
        better = feasible & (values[:, 0] >= values[:, 0, leader, np.newaxis])
        better[:, leader] = ~feasible[:, leader]
        inside = better.any(axis=1)
        if inside.any():
            first = int(np.argmax(inside))
            return draws[first], tried + first + 1
        tried += batch


def _rate(experts: int, gap: float) -> float:
    return np.log(experts) / gap if gap > 0 else np.inf


def _weights(losses: Array, gap: float) -> Array:
    rate, above = _rate(losses.size, gap), losses - losses.min()
    raw = (above == 0).astype(float) if np.isinf(rate) else np.exp(-rate * above)
    return raw / raw.sum()


def _mixability_gap(losses: Array, weights: Array, gap: float, loss: Array) -> float:
    rate, expected = _rate(losses.size, gap), float(weights @ loss)
    if np.isinf(rate):
        return float(expected - ((losses + loss).min() - losses.min()))
    before, after = -rate * losses, -rate * (losses + loss)
    mix = np.logaddexp.reduce(before) - np.logaddexp.reduce(after)
    return max(expected - mix / rate, 0.0)
