r"""Lemmas 5.1 to 5.6 (E.1 to E.6): the good events of BLFAIPS, and how often they happen.

Slips that matter: S_1, S_2 are R_1, R_2; :math:`T_1(\delta)` divides by the smallest share of the
G-optimal design, which is 0 for arms outside its support; Lemma E.3 lacks the factor
:math:`t^{3/4}`, without which nothing concentrates; the smallest gap has to leave out z* itself
(gap 0) and take absolute values; and :math:`\overline V_T` is defined in two ways.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import linprog

from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.quote import falls_clearly, mean_and_error, power, tabulate
from bayes_feasible.analysis.paper.runs import repeat
from bayes_feasible.analysis.paper.theory_rate import parameters, separation
from bayes_feasible.analysis.paper.theory_trace import sum_up, watch
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.problem import Problem
from bayes_feasible.rate.rate import optimal_rate

DELTAS = (0.5, 0.1, 0.01)
LONGEST = 1e30  # pulls; beyond this a horizon is called infinite


def longest_arm(problem: Problem) -> float:
    """Give L, the largest norm of an arm."""
    return float(np.linalg.norm(problem.arms, axis=1).max())


def radius(
    problem: Problem, time: Array, log_inverse: float, bounds: Sequence[float] = (1.0, 1.0)
) -> Array:
    r"""Compute the radii :math:`\sqrt{\beta_1}, \sqrt{\beta_2}` of Lemma E.1, over (block, time).

    `log_inverse` is :math:`\log(1/\delta^2)` for the paper's, :math:`\log(1/\delta)` for the cited
    theorem's; `bounds` are R_1 and R_2.
    """
    features = problem.arms.shape[1]
    grows = features * np.log1p(np.asarray(time) * longest_arm(problem) ** 2 / features)
    noise = block_noise(problem)[:, np.newaxis]
    prior = np.where(np.arange(noise.size) == 0, *bounds)[:, np.newaxis]
    return prior + noise * np.sqrt(2 * log_inverse + grows)


def estimates(instance: Instance, run: xr.Dataset) -> tuple[Array, Array]:
    """Compute ridge estimates (round, block, feature) and precisions before each round and last."""
    arms = instance.problem.arms[run.pulled.values]
    outer = arms[:, :, np.newaxis] * arms[:, np.newaxis]
    terms = run.shown.values[:, :, np.newaxis] * arms[:, np.newaxis]
    precisions = np.cumsum(np.concatenate([np.eye(arms.shape[1])[np.newaxis], outer]), axis=0)
    sums = np.cumsum(np.concatenate([np.zeros_like(terms[:1]), terms]), axis=0)
    return np.linalg.solve(precisions, sums.transpose(0, 2, 1)).transpose(0, 2, 1), precisions


def good_events(
    instance: Instance, horizon: int, deltas: Sequence[float], seed: np.random.SeedSequence
) -> xr.Dataset:
    r"""Measure in one run how near each good event came to failing.

    `confidence` (delta, kind) is the largest distance of an estimate to the truth over its radius;
    kind 0 is the paper's, 1 the cited theorem's. `estimate` (delta) is the largest estimated mean
    over its bound, Lemma E.2; `explored` the round from which on :math:`V_t \succeq \frac34
    t^{3/4} A(\lambda^G)`; `printed` that without the factor.
    """
    problem = instance.problem
    means, precisions = estimates(instance, watch(instance, [horizon], seed, draws=0))
    off = (means - parameters(instance))[:-1]
    distance = np.sqrt(np.einsum("tbi,tij,tbj->bt", off, precisions[:-1], off))
    rounds = np.arange(1.0, horizon + 1)
    logs = np.log(1 / np.array(deltas))
    radii = np.array([[radius(problem, rounds, k * log) for k in (2.0, 1.0)] for log in logs])
    longest = longest_arm(problem)
    highest = np.abs(means[:-1] @ problem.arms.T).max(axis=(0, 2))
    design = problem.arms.T @ (problem.design[:, np.newaxis] * problem.arms)
    root = np.linalg.inv(np.linalg.cholesky(design))
    least = np.linalg.eigvalsh(root @ precisions[1:] @ root.T)[:, 0]
    return xr.Dataset(
        {
            "confidence": (("delta", "kind"), np.max(distance / radii, axis=(2, 3))),
            "estimate": (
                "delta",
                np.max(highest / (longest + longest * radii[:, 0, :, -1]), axis=1),
            ),
            "explored": settle(least >= 0.75 * rounds**0.75),
            "printed": settle(least >= 0.75),
        }
    )


def settle(holds: NDArray[np.bool_]) -> int:
    """Find the first round from which on something holds; one beyond the last if it never does."""
    return int(np.max(np.flatnonzero(~holds), initial=-1)) + 2


def exploration_time(problem: Problem, delta: float, horizon: float, *, support: bool) -> float:
    """T_1(δ) of Lemma E.3: as printed, or over the support of the G-optimal design alone."""
    design = problem.design
    least = design[design > 0].min() if support else design.min()
    with np.errstate(divide="ignore"):
        return float((6 * np.sqrt(np.log(len(design) * horizon / delta)) / least) ** 4)


def largest_coefficient(arms: Array, vectors: Array) -> float:
    """Find the largest coefficient that the vectors need as combinations of arms.

    Each is written with the smallest largest coefficient there is, which is generous: the paper
    takes any combination, with coefficients that are not negative, which need not exist.
    """
    number, features = arms.shape
    objective = np.append(np.zeros(number), 1.0)
    within = np.hstack([np.vstack([np.eye(number), -np.eye(number)]), -np.ones((2 * number, 1))])
    equal = np.hstack([arms.T, np.zeros((features, 1))])
    bounds = [(None, None)] * number + [(0, None)]
    right = np.zeros(2 * number)
    solved = (linprog(objective, within, right, equal, vector, bounds) for vector in vectors)
    return max(float(one.x[-1]) for one in solved)


def needed_coefficients(instance: Instance) -> tuple[float, float]:
    """m_max and n_max of Lemma E.4."""
    problem, best = instance.problem, instance.best
    moves = problem.candidates[best] - problem.candidates[~problem.copies(best)]
    most, all_of_them = (largest_coefficient(problem.arms, v) for v in (moves, problem.candidates))
    return most, all_of_them


def identification_time(
    instance: Instance, coefficients: tuple[float, float], delta: float, horizon: float
) -> float:
    """T_2(δ) of Lemma E.4 at this horizon, with the smallest gaps taken as they must be."""
    problem = instance.problem
    gaps = (
        np.abs(instance.reward_gap[~problem.copies(instance.best)]).min(),
        np.abs(problem.thresholds - instance.mean_cost).min(),
    )
    beta = radius(problem, np.array([horizon]), 2 * np.log(1 / delta))[:2, 0]
    size, features = problem.arms.shape
    terms = np.array(coefficients) * size / np.array(gaps) * np.sqrt(features) * beta
    return float(np.max(terms ** (8 / 3)))


def first_horizon(needed: Callable[[float, float], float]) -> float:
    """Find the first horizon T that exceeds the time it asks for at δ = 1/T; infinite if none."""
    low, high = 0.0, np.log(LONGEST)
    if needed(1 / LONGEST, LONGEST) >= LONGEST:
        return np.inf
    for _ in range(200):
        middle = (low + high) / 2
        time = np.exp(middle)
        low, high = (middle, high) if needed(1 / time, time) >= time else (low, middle)
    return float(np.exp(high))


def likelihood_remainder(
    instance: Instance, times: Sequence[int], bound: float, seed: np.random.SeedSequence
) -> xr.Dataset:
    r"""Lemmas E.5 and E.6 in one run.

    The supremum in Lemma E.5 over balls of radius R = `bound` is exact: the bracket equals
    :math:`\langle\theta_1 - \theta^r, u\rangle` with :math:`u = (\sum \epsilon_s x_s -
    \theta^r)/\sigma^2` (the paper leaves out the ridge's :math:`\theta^r`), plus the same for the
    costs, so the supremum is :math:`R \|u\| + |\langle\theta^r, u\rangle|`.

    Gives over time: `remainder` (Lemma E.5), `printed` (with the identity not divided by T),
    `shortfall` (Lemma E.6: 1 - efficiency) and `last_wrong` (Lemma E.4: the last round so far in
    which the empirical best was not the best).
    """
    problem, theta, noise = instance.problem, parameters(instance), block_noise(instance.problem)
    run = watch(instance, times, seed, draws=0)
    rate = optimal_rate(instance).value
    farthest = (bound + np.linalg.norm(theta, axis=1)) ** 2 / noise**2
    rows = []
    for time in times:
        precision, moments = sum_up(instance, run, time)
        off = (moments - theta @ precision) / noise[:, np.newaxis] ** 2
        linear = bound * np.linalg.norm(off, axis=1) + np.abs(np.sum(off * theta, axis=1))
        worth = separation(problem, instance.best, theta, precision) / 2
        rows.append(
            (
                linear.sum() / time,
                (farthest.sum() * (time - 1) / 2 - linear.sum()) / time,
                1 - worth / (time * rate),
            )
        )
    found = tabulate("time", times, ("remainder", "printed", "shortfall"), rows)
    return found.assign(last_wrong=("time", run.last_wrong.values))


def claim_confidence(quick: bool, seed: int) -> list[Claim]:
    """Lemmas E.1 to E.3 over many short runs."""
    instance = end_of_optimism(0.1)
    problem = instance.problem
    horizon, runs = 2000, 100 if quick else 1000
    found = repeat(partial(good_events, instance, horizon, DELTAS), [seed], runs, horizon)
    names = ("confidence", "estimate", "explored", "printed")
    confidence, estimate, explored, printed = (found[name].values for name in names)
    setting = {
        "setting": "End of Optimism α = 0.1, R1 = R2 = 1, "
        f"{runs:,} runs of BLFAIPS to T = {horizon:,}",
        "runs": runs,
    }
    failed = (confidence > 1).sum(axis=0)
    rare = np.all(failed[:, 0] <= runs * 2 * np.array(DELTAS))
    broken = ((confidence[:, :, 0] <= 1) & (estimate > 1)).any(axis=1).sum()
    literal = exploration_time(problem, 1 / horizon, horizon, support=False)
    never = (explored > horizon).sum()
    distance = confidence[:, :, 0].T
    return [
        state("confidence", rare, deltas=DELTAS, failed=failed, distance=distance, **setting),
        state("bounded_means", broken == 0, broken=broken, delta=DELTAS[1],
              estimate=estimate[:, 1], **setting),
        state("exploration", "holds" if never == 0 and np.isfinite(literal) else "part",
              printed=printed, explored=explored, never=never, literal=literal,
              unused=int((problem.design == 0).sum()), arms=len(problem.arms),
              support=first_horizon(partial(exploration_time, problem, support=True)), **setting),
    ]  # fmt: skip


def claim_identification(quick: bool, seed: int) -> list[Claim]:
    """Lemmas E.4 to E.6 over longer runs."""
    instance = end_of_optimism(0.1)
    times = (100, 1000, 10_000) if quick else (100, 1000, 10_000, 100_000)
    runs, horizon = 30 if quick else 300, times[-1]
    found = repeat(partial(likelihood_remainder, instance, times, 1.0), [seed, 1], runs, horizon)
    setting = {
        "setting": f"End of Optimism α = 0.1, {runs} runs of BLFAIPS to T = {horizon:,}",
        "runs": runs,
        "times": times,
    }
    names = ("last_wrong", "shortfall", "printed", "remainder")
    last_wrong, shortfall, printed, remainder = (found[name].values for name in names)
    last = last_wrong[:, -1]
    promised = first_horizon(partial(identification_time, instance, needed_coefficients(instance)))
    speed = power(times, remainder)
    mean, error = mean_and_error(speed)
    falls = falls_clearly(shortfall[:, -2], shortfall[:, -1])
    return [
        state("identification", "holds" if promised <= horizon else "unclear", last=last,
              late=(last > 0.9 * horizon).sum(), promised=promised, **setting),
        state("likelihood", mean > 0.4 - 3 * error, remainder=remainder, speed=speed, **setting),
        state("likelihood_printed", printed[:, -1].mean() < 0.1, printed=printed, **setting),
        state("exponent", "part" if falls else "unclear", shortfall=shortfall.T, **setting),
    ]  # fmt: skip
