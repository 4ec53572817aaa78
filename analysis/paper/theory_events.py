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
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.runs import run_all
from bayes_feasible.analysis.paper.theory_rate import parameters, separation
from bayes_feasible.analysis.paper.theory_text import (
    falls_clearly,
    largest,
    mean_and_error,
    over_time,
    power,
    quantile,
    quoted,
    share,
)
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
    """Compute ridge estimates and precisions before each round, and after the last.

    Returns
    -------
    means : array (round + 1, block, feature)
    precisions : array (round + 1, feature, feature)
    """
    arms = instance.problem.arms[run.pulled.values]
    outer = arms[:, :, np.newaxis] * arms[:, np.newaxis]
    terms = run.shown.values[:, :, np.newaxis] * arms[:, np.newaxis]
    precisions, sums = (
        np.cumsum(np.concatenate([start[np.newaxis], each]), axis=0)
        for start, each in ((np.eye(arms.shape[1]), outer), (np.zeros(terms.shape[1:]), terms))
    )
    return np.linalg.solve(precisions, sums.transpose(0, 2, 1)).transpose(0, 2, 1), precisions


def good_events(
    instance: Instance, horizon: int, deltas: Sequence[float], seed: np.random.SeedSequence
) -> dict[str, Array]:
    r"""Measure in one run how near each good event came to failing.

    Returns
    -------
    dict
        `confidence` (delta, kind): the largest distance of an estimate to the truth over its
        radius; kind 0 is the paper's, 1 the cited theorem's. `estimate` (delta,): the largest
        estimated mean over its bound, Lemma E.2. `explored`: the round from which on
        :math:`V_t \succeq \frac34 t^{3/4} A(\lambda^G)`; `printed`: that without the factor.
    """
    problem = instance.problem
    means, precisions = estimates(instance, watch(instance, [horizon], seed, draws=0))
    off = (means - parameters(instance))[:-1]
    distance = np.sqrt(np.einsum("tbi,tij,tbj->bt", off, precisions[:-1], off))
    rounds = np.arange(1.0, horizon + 1)
    confidence, estimate = np.empty((len(deltas), 2)), np.empty(len(deltas))
    longest = longest_arm(problem)
    highest = np.abs(means[:-1] @ problem.arms.T).max(axis=(0, 2))
    for i, delta in enumerate(deltas):
        radii = [radius(problem, rounds, factor * np.log(1 / delta)) for factor in (2.0, 1.0)]
        confidence[i] = [np.max(distance / each) for each in radii]
        estimate[i] = np.max(highest / (longest + longest * radii[0][:, -1]))
    design = problem.arms.T @ (problem.design[:, np.newaxis] * problem.arms)
    root = np.linalg.inv(np.linalg.cholesky(design))
    least = np.linalg.eigvalsh(root @ precisions[1:] @ root.T)[:, 0]
    return {
        "confidence": confidence,
        "estimate": estimate,
        "explored": np.array(settle(least >= 0.75 * rounds**0.75)),
        "printed": np.array(settle(least >= 0.75)),
    }


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
    solved = (
        linprog(objective, within, np.zeros(2 * number), equal, vector, bounds)
        for vector in vectors
    )
    return max(float(one.x[-1]) for one in solved)


def needed_coefficients(instance: Instance) -> tuple[float, float]:
    """m_max and n_max of Lemma E.4."""
    problem, best = instance.problem, instance.best
    moves = problem.candidates[best] - problem.candidates[~problem.copies(best)]
    return (
        largest_coefficient(problem.arms, moves),
        largest_coefficient(problem.arms, problem.candidates),
    )


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
) -> dict[str, Array]:
    r"""Lemmas E.5 and E.6 in one run.

    The supremum in Lemma E.5 over balls of radius R = `bound` is exact: the bracket equals
    :math:`\langle\theta_1 - \theta^r, u\rangle` with :math:`u = (\sum \epsilon_s x_s -
    \theta^r)/\sigma^2` (the paper leaves out the ridge's :math:`\theta^r`), plus the same for the
    costs, so the supremum is :math:`R \|u\| + |\langle\theta^r, u\rangle|`.

    Returns
    -------
    dict
        Over time: `remainder` (Lemma E.5), `printed` (with the identity not divided by T),
        `shortfall` (Lemma E.6: 1 - efficiency) and `last_wrong` (Lemma E.4: the last round so far
        in which the empirical best was not the best).
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
    names = ("remainder", "printed", "shortfall")
    columns = dict(zip(names, np.array(rows).T, strict=True))
    return columns | {"last_wrong": run.last_wrong.values}


def claim_confidence(quick: bool, seed: int) -> list[Claim]:
    """Lemmas E.1 to E.3 over many short runs."""
    instance = end_of_optimism(0.1)
    problem = instance.problem
    horizon, runs = 2000, 100 if quick else 1000
    setting = f"End of Optimism α = 0.1, R1 = R2 = 1, {runs:,} runs of BLFAIPS to T = {horizon:,}"
    found = _collect(partial(good_events, instance, horizon, DELTAS), [seed], runs, horizon)
    confidence, estimate, explored = (found[n] for n in ("confidence", "estimate", "explored"))
    failed = (confidence > 1).sum(axis=0)
    rates = "; ".join(
        f"δ = {delta:g}: fails in {share(int(failed[i, 0]), runs)} against 2δ = {2 * delta:g}, the "
        "cited form in "
        f"{share(int(failed[i, 1]), runs)}, distance over radius {quoted(confidence[:, i, 0])}, "
        f"{largest(confidence[:, i, 0])}"
        for i, delta in enumerate(DELTAS)
    )
    broken = int(((confidence[:, :, 0] <= 1) & (estimate > 1)).any(axis=1).sum())
    support = first_horizon(partial(exploration_time, problem, support=True))
    literal = exploration_time(problem, 1 / horizon, horizon, support=False)
    never = int((explored > horizon).sum())
    return [
        Claim(
            "Estimates stay in their confidence sets with probability 1 - 2δ",
            "Lemmas 5.1 and E.1",
            setting + ", every round checked",
            rates,
            "holds (with R for S; generous, for it takes 1/δ² where the cited theorem has 1/δ)"
            if np.all(failed[:, 0] <= runs * 2 * np.array(DELTAS))
            else "does not hold: it fails more often than 2δ",
        ),
        Claim(
            "E_1 implies that estimated means are bounded by B_1, B_2",
            "Lemmas 5.2 and E.2",
            setting,
            f"E_1 without E_2, at any of the δ, in {share(broken, runs)}; largest estimate of a "
            f"run over its bound at δ = {DELTAS[1]:g}: {largest(estimate[:, 1])}",
            "holds (exactly: |⟨x, θ̂⟩| ≤ LR + ‖x‖_{V⁻¹} √β and V ⪰ I; the table of notation "
            "has 2LR for LR)"
            if broken == 0
            else "does not hold",
        ),
        Claim(
            "V_t ⪰ ¾ A(λ^G) for all t ≥ T_1(δ) with probability 1 - δ",
            "Lemmas 5.3 and E.3",
            setting + ": from which round on it holds, as printed and with the factor t^(3/4) "
            "that the next lemma uses; and T_1(δ)",
            f"as printed from round {largest(found['printed'], '.0f')}; with t^(3/4) not before "
            f"the end in {share(never, runs)}, from round {quantile(explored, 0.5)} in the median "
            f"run and {quantile(explored, 0.95)} in 95 %; exact: T_1 = {literal:g} as printed, for "
            f"λ^G is 0 for {int((problem.design == 0).sum())} of {len(problem.arms)} arms, and "
            f"over its support T_1(1/T) < T only for T > {support:.2g}",
            "holds"
            if never == 0 and np.isfinite(literal)
            else "holds in part: the event happens, long before T_1 promises it. As printed it is "
            "trivial (no factor t^(3/4)) and T_1 is infinite unless λ^G has full support",
        ),
    ]


def _collect(
    work: Callable[[np.random.SeedSequence], dict[str, Array]], seed: list[int], runs: int, T: int
) -> dict[str, Array]:
    """Do the work with so many seeds; arrays by name, over runs first."""
    found = run_all(work, np.random.SeedSequence(seed).spawn(runs), runs * T)
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def claim_identification(quick: bool, seed: int) -> list[Claim]:
    """Lemmas E.4 to E.6 over longer runs."""
    instance = end_of_optimism(0.1)
    times = (100, 1000, 10_000) if quick else (100, 1000, 10_000, 100_000)
    runs, horizon = 30 if quick else 300, times[-1]
    setting = f"End of Optimism α = 0.1, {runs} runs of BLFAIPS to T = {horizon:,}"
    work = partial(likelihood_remainder, instance, times, 1.0)
    found = _collect(work, [seed, 1], runs, horizon)
    last, shortfall = found["last_wrong"][:, -1], found["shortfall"]
    promised = first_horizon(partial(identification_time, instance, needed_coefficients(instance)))
    speed = power(times, found["remainder"])
    mean, error = mean_and_error(speed)
    return [
        Claim(
            "After max(T_1 + 1, T_2) the empirical best is the best",
            "Lemmas 5.4 and E.4",
            setting + ": the last round with another empirical best; and T_2(1/T) at δ = 1/T",
            f"last wrong round: median {quantile(last, 0.5)}, in 95 % of runs by "
            f"{quantile(last, 0.95)}, {largest(last, ',.0f')}; in the last tenth "
            f"{share(int((last > 0.9 * horizon).sum()), runs)}; T_2(1/T) < T only for "
            f"T > {promised:.2g} (exact, with the smallest coefficients there are)",
            "holds"
            if promised <= horizon
            else "cannot be told at any T that can be run: the lemma promises nothing below that "
            "horizon. The empirical best settles far sooner. The smallest reward gap as printed "
            "(over all z, signed) is not positive: z* itself has gap 0",
        ),
        Claim(
            "The log posterior ratio is -T/2 times the squared distance, up to o(T)",
            "Lemmas 5.5 and E.5",
            setting + ": the supremum over balls of radius 1, in closed form, over T",
            f"{over_time(times, found['remainder'])}; falls as T^-p with p = {quoted(speed)}",
            "holds (as T^-1/2, the paper's order; its proof leaves out the ridge's term, "
            "which is of order 1/T)"
            if mean > 0.4 - 3 * error
            else "does not hold: it does not vanish",
        ),
        Claim(
            "The same with V̄_T = I + ΣXX'/T",
            "Lemma E.5 with the V̄_T of Lemma G.3",
            setting + ": a lower bound of the supremum",
            over_time(times, found["printed"]),
            "holds"
            if found["printed"][:, -1].mean() < 0.1
            else "does not hold: it tends to half the squared diameter. V̄_T has to be V_T/T",
        ),
        Claim(
            "The exponent under the pulls is Γ - o(1) with probability 1 - 28/T",
            "Lemmas 5.6 and E.6",
            setting + ": 1 - min_z f(w_T, z)/Γ",
            "; ".join(
                f"{over_time([t], column[:, np.newaxis])}, 95 % of runs below "
                f"{quantile(column, 0.95, '.3f')}"
                for t, column in zip(times, shortfall.T, strict=True)
            ),
            "holds in part: it falls, so far as T goes. 'At most o(1)' is no event at a fixed T, "
            "so the probability 1 - 28/T cannot be tested"
            if falls_clearly(shortfall[:, -2], shortfall[:, -1])
            else "cannot be told: it does not fall over these T",
        ),
    ]
