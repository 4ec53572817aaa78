r"""Lemmas F.1 to F.9: the terms of the regret over T, and AdaHedge's part in it.

The six terms add up to :math:`\max_x E_{\bar p_T}[\ldots] - \inf(\theta; \overline V_T)`, the
duality gap of the game that BLFAIPS plays, which is at least twice what is missing to Γ. Slips that
matter: the decomposition has :math:`\tilde p_T` in its first term where Lemma F.1 has
:math:`\bar p_T`; Lemmas F.3 and F.7 leave a bound on the summands unsquared under a root; the
recursion :math:`\lambda_{t+1} \propto \lambda_t e^{-\eta_t l_t}` with :math:`\eta_1 = \infty` is
frozen after one round, where AdaHedge weighs cumulative losses; and in Lemma F.8 the step from
:math:`\log E e^{-\Gamma_1}` to :math:`-E \Gamma_1` is Jensen's inequality the wrong way round.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible._check import Array
from bayes_feasible._draws import block_noise
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.theory_convergence import parallel, power
from bayes_feasible.analysis.paper.theory_events import radius
from bayes_feasible.analysis.paper.theory_rate import parameters, separation
from bayes_feasible.analysis.paper.theory_text import (
    command,
    judged,
    largest,
    mean_and_error,
    quoted,
    with_error,
)
from bayes_feasible.analysis.paper.theory_trace import watch
from bayes_feasible.analysis.study.curves import posterior_at_truth, whole_pulls
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.adahedge import AdaHedge
from bayes_feasible.rules.catalogue import BLFAIPS

TERMS = ("F1", "F2", "F3", "F4", "F5", "F6")
PARTS = ("F21", "F22", "F23")
LEMMAS = {
    "F1": "Lemma F.1", "F2": "Lemma F.2", "F21": "Lemma F.3", "F22": "Lemma F.4",
    "F23": "Lemma F.5", "F3": "Lemma F.6", "F4": "Lemma F.7", "F5": "Lemma F.8", "F6": "Lemma F.9",
}  # fmt: skip
MEANING = {
    "F1": "truth in place of the posterior mean",
    "F2": "max-learner's regret",
    "F21": "its part: drawn in place of expected gains",
    "F22": "its part: AdaHedge",
    "F23": "its part: exploration",
    "F3": "another empirical best",
    "F4": "pulls in place of shares",
    "F5": "min-learner's regret",
    "F6": "posterior mean in place of the truth",
}


def regret_terms(instance: Instance, run: xr.Dataset) -> xr.Dataset:
    """The terms of the regret of one run over time, as the appendix defines them.

    Expectations are means over the draws of `watch`, so each term carries their noise.

    Returns
    -------
    Dataset
        Over `time`: `F1` to `F6`, the parts `F21`, `F22`, `F23` of F2, `total`, `shortfall`
        (twice the distance of the exponent under the pulls from Γ), AdaHedge's `regret` and its
        `bound` (the paper's), `tight` (de Rooij et al., Theorem 8), `largest_gain` and
        `wrong_rounds`.
    """
    problem, best, theta = instance.problem, instance.best, parameters(instance)
    time = run.time.values.astype(float)
    mean = {
        name: run[name].values / (time[:, np.newaxis] if run[name].ndim == 2 else time)
        for name in run.data_vars
        if name not in ("pulled", "shown")
    }
    at_mean, at_truth = np.empty(time.size), np.empty(time.size)
    for i, length in enumerate(run.time.values):
        means, precision = _estimate(instance, run, int(length))
        at_mean[i] = separation(problem, best, means, precision) / length
        at_truth[i] = separation(problem, best, theta, precision) / length
    top = np.argmax(mean["expected"], axis=1)  # the paper's λ̄ puts all weight on this arm
    rows = np.arange(time.size)
    expected = mean["expected"][rows, top]
    drawn = mean["drawn"][rows, top]
    terms = {
        "F1": mean["about_truth"].max(axis=1) - expected,
        "F2": expected - mean["expected_mixed"],
        "F21": (expected - mean["expected_mixed"]) - (drawn - mean["drawn_mixed"]),
        "F22": drawn - mean["drawn_own"],
        "F23": mean["drawn_own"] - mean["drawn_mixed"],
        "F3": mean["expected_mixed"] - mean["given_best_mixed"],
        "F4": mean["given_best_mixed"] - mean["given_best_pulled"],
        "F5": mean["given_best_pulled"] - at_mean,
        "F6": at_mean - at_truth,
    }
    experts = np.log(len(problem.arms))
    gain = run.largest_gain.values
    terms["total"] = sum(terms[name] for name in TERMS)
    terms["shortfall"] = 2 * optimal_rate(instance).value - at_truth
    terms["regret"] = time * (mean["drawn"].max(axis=1) - mean["drawn_own"])
    terms["bound"] = 2 * gain * np.sqrt(time * experts) + gain * (16 / 3 * experts + 2)
    terms["tight"] = 2 * np.sqrt(run.drawn_variance.values * experts) + gain * (4 / 3 * experts + 2)
    terms["largest_gain"] = gain
    terms["wrong_rounds"] = run.wrong_rounds.values
    return xr.Dataset(
        {name: ("time", values) for name, values in terms.items()}, coords={"time": run.time}
    )


def _estimate(instance: Instance, run: xr.Dataset, length: int) -> tuple[Array, Array]:
    """Posterior means as rows, and precision, after so many rounds."""
    arms = instance.problem.arms
    pulled, shown = run.pulled.values[:length], run.shown.values[:length]
    counts = np.bincount(pulled, minlength=len(arms))
    precision = np.eye(arms.shape[1]) + arms.T @ (counts[:, np.newaxis] * arms)
    sums = [np.bincount(pulled, column, minlength=len(arms)) for column in shown.T]
    return np.linalg.solve(precision, arms.T @ np.array(sums).T).T, precision


def one_regret(
    instance: Instance, times: Sequence[int], eta: float | str, seed: np.random.SeedSequence
) -> xr.Dataset:
    """The regret terms of one run."""
    return regret_terms(instance, watch(instance, times, seed, eta=eta))


def regret_over_time(
    instance: Instance, times: Sequence[int], replicates: int, seed: int, eta: float | str = "paper"
) -> xr.Dataset:
    """The regret terms of many runs, over (`replicate`, `time`)."""
    seeds = np.random.SeedSequence([seed, 2]).spawn(replicates)
    work = partial(one_regret, instance, tuple(times), eta)
    runs = parallel(work, seeds, replicates * times[-1])
    return xr.concat(runs, dim="replicate")


def gain_bound(instance: Instance, horizon: int) -> float:
    r"""The bound :math:`\sum_b (LR_b + B_b)^2 / \sigma_b^2` on gains that the appendix uses."""
    problem = instance.problem
    longest = np.linalg.norm(problem.arms, axis=1).max()
    beta = radius(problem, np.array([horizon]), 2 * np.log(horizon))[:, 0]
    noise = block_noise(problem)
    return float(np.sum((2 * longest + longest * beta) ** 2 / noise**2))


def literal_hedge(losses: Array) -> Array:
    """Weights before each round by the recursion of Algorithm 1 as printed.

    The weights, not the cumulative losses, are carried on, with an infinite first rate.
    """
    experts = losses.shape[1]
    weights, rate, gap = np.full(experts, 1 / experts), np.inf, 0.0
    history = np.empty(losses.shape)
    for t, loss in enumerate(losses):
        history[t] = weights
        held = weights > 0
        least = loss[held].min()
        if rate == np.inf:
            mixed = least
            moved = np.where(held & (loss == least), weights, 0.0)
        else:
            moved = weights * np.exp(-rate * (loss - least))
            mixed = least - np.log(moved.sum()) / rate
        gap += max(float(weights @ loss) - mixed, 0.0)
        weights = moved / moved.sum()
        rate = np.log(experts) / gap if gap > 0 else np.inf
    return history


def adahedge_weights(losses: Array) -> Array:
    """Weights before each round by AdaHedge on cumulative losses."""
    learner = AdaHedge(losses.shape[1])
    history = np.empty(losses.shape)
    for t, loss in enumerate(losses):
        history[t] = learner.weights
        learner.update(loss)
    return history


def regret_and_bound(losses: Array, weights: Array) -> tuple[float, float]:
    """Regret against the best expert, and the bound of Lemma F.4."""
    rounds, experts = losses.shape
    spread = float(np.ptp(losses, axis=1).max())
    regret = float(np.sum(weights * losses) - losses.sum(axis=0).min())
    logarithm = np.log(experts)
    bound = 2 * spread * np.sqrt(rounds * logarithm) + spread * (16 / 3 * logarithm + 2)
    return regret, float(bound)


def stationary_losses(instance: Instance, rounds: int, seed: int) -> Array:
    """Losses as BLFAIPS meets them, for a posterior that stands still after 2000 pulls."""
    problem = instance.problem
    posterior = posterior_at_truth(instance, whole_pulls(problem.design, 2000))
    drawn = Alternative(problem, instance.best).sample(posterior, rounds, seed)
    off_reward = drawn.theta_reward.values[0] - instance.theta_reward
    off_cost = drawn.theta_cost.values[0] - instance.theta_cost
    reward = (off_reward @ problem.arms.T / problem.reward_noise) ** 2
    cost = (off_cost @ problem.arms.T / problem.cost_noise[:, np.newaxis]) ** 2
    return -(reward + cost.sum(axis=1))


def jensen_loss(instance: Instance, times: Sequence[int], draws: int, seed: int) -> xr.Dataset:
    r"""What the step in Lemma F.8 passes over: :math:`\log E e^{-\Gamma_1} + E \Gamma_1 \ge 0`.

    For posteriors after pulls by the optimal allocation, mean at the truth, widened by the
    paper's η; averaged over the next arm.

    Returns
    -------
    Dataset
        `loss` and its `standard_error` over `time`.
    """
    problem = instance.problem
    scale = BLFAIPS(problem)._options.scale
    allocation = optimal_rate(instance).allocation.values
    alternative = Alternative(problem, instance.best)
    rows = []
    for time in times:
        posterior = posterior_at_truth(instance, whole_pulls(allocation, time))
        own = np.random.SeedSequence([seed, time])  # the losses at two times are independent
        drawn = alternative.sample(posterior, draws, own, scale=scale)
        off_reward = drawn.theta_reward.values[0] - posterior.theta_reward
        off_cost = drawn.theta_cost.values[0] - posterior.theta_cost
        gain = (off_reward @ problem.arms.T / problem.reward_noise) ** 2
        gain += ((off_cost @ problem.arms.T / problem.cost_noise[:, np.newaxis]) ** 2).sum(axis=1)
        small = np.expm1(-gain / scale)  # Γ_1 is η times the gain
        mean = small.mean(axis=0)
        influence = small / (1 + mean) + gain / scale  # of each draw on the estimate
        rows.append(
            (
                allocation @ (np.log1p(mean) + gain.mean(axis=0) / scale),
                (influence @ allocation).std(ddof=1) / np.sqrt(draws),
            )
        )
    loss, error = np.array(rows).T
    return xr.Dataset(
        {"loss": ("time", loss), "standard_error": ("time", error)}, coords={"time": list(times)}
    )


def claim_terms(quick: bool, seed: int) -> list[Claim]:
    """Lemmas F.1 to F.9."""
    instance = end_of_optimism(0.1)
    times = (100, 1000, 10_000, 100_000) if quick else (100, 1000, 10_000, 100_000, 1_000_000)
    replicates = 8 if quick else 16
    found = regret_over_time(instance, times, replicates, seed)
    twice = 2 * optimal_rate(instance).value
    what = (
        f"End of Optimism α = 0.1, {replicates} runs of BLFAIPS, paper's η, to T = {times[-1]:,}; "
        "expectations from 4 draws a round"
    )
    claims = [_claim_term(found[name], name, what, twice, quick, seed) for name in LEMMAS]
    last = found.isel(time=-1)
    claims.append(
        Claim(
            "The terms add up to o(1), so the exponent tends to Γ",
            "Appendix E, proof of Lemma E.6",
            what,
            _over_time(found.total, twice)
            + f"; 2Γ - inf at T = {times[-1]:,} is {quoted(last.shortfall / twice)} of 2Γ",
            judged(
                _falls(found.total),
                "holds (asymptotically: the sum, an upper bound of what is missing to 2Γ, falls "
                "over T, but exceeds 2Γ itself up to the T where it passes 1)",
                "does not hold: the sum does not fall",
            ),
            command("regret", quick, seed),
        )
    )
    return claims


def _over_time(values: xr.DataArray, unit: float) -> str:
    return (
        ", ".join(
            f"T = {int(t):,}: {quoted(values.sel(time=t) / unit)}" for t in values.time.values
        )
        + " (over 2Γ)"
    )


def _falls(values: xr.DataArray) -> bool:
    """Whether the size of a term has clearly fallen from the first time to the last.

    Run by run and in logarithms, for the early sizes have a heavy tail.
    """
    first, last = (np.log(np.abs(values.isel(time=i).values)) for i in (0, -1))
    mean, error = mean_and_error(first - last)
    return mean > 3 * error


def falling_speed(times: Any, values: Array) -> str:
    """The exponent p of a root mean square over rows that falls as `time^-p`, with its error.

    The standard error is the jackknife's: from leaving out one row at a time.
    """
    squares = values**2
    number = len(squares)
    left_out = (squares.sum(axis=0) - squares) / (number - 1)
    speed = power(times, np.sqrt(squares.mean(axis=0))[np.newaxis])[0]
    error = np.sqrt(number - 1) * power(times, np.sqrt(left_out)).std()
    return with_error(float(speed), float(error))


def _claim_term(
    values: xr.DataArray, name: str, what: str, unit: float, quick: bool, seed: int
) -> Claim:
    late = values.isel(time=slice(1, None))
    speed = falling_speed(late.time, late.values)
    last = values.isel(time=-1)
    horizon = int(last.time)
    extra, note = "", ""
    if name in ("F21", "F4"):
        size = gain_bound(end_of_optimism(0.1), horizon)
        factor, printed = (4, 8) if name == "F21" else (2, 2)
        right = factor * size * np.sqrt(2 * np.log(horizon) / horizon)
        wrong = np.sqrt(printed * size * np.log(horizon) / horizon)
        extra = (
            f"; at the end {largest(last, '.2g')}; printed bound {wrong:.2g}, Azuma's {right:.2g} "
            "(exact)"
        )
        note = "; the printed bound leaves the bound on the summands unsquared under the root"
    if name == "F1":
        note = "; the bound in its proof loses a factor √(dβ_1) on the way, which is harmless"
    if name == "F3":
        extra = "; never again after the empirical best has settled, so it falls as 1/T"
    if name == "F5":
        note = "; its proof needs a repair, see the line on Jensen's inequality"
    small = float(np.sqrt((last**2).mean())) / unit
    return Claim(
        f"{name} ≤ o(1): {MEANING[name]}",
        f"{LEMMAS[name]}, Appendix F",
        what,
        _over_time(values, unit)
        + f"; root mean square falls as T^-p, p = {speed} from T = {int(late.time[0]):,}"
        + extra,
        judged(
            _falls(values),
            f"holds (asymptotically: still {small:.2g} of 2Γ at T = {horizon:,}{note})",
            "cannot be told: it has not clearly fallen over these T",
        ),
        command("regret", quick, seed),
    )


def claim_hedge(quick: bool, seed: int) -> list[Claim]:
    """AdaHedge's regret bound, Lemma F.4, and the recursion as printed."""
    instance = end_of_optimism(0.1)
    times = (100, 1000, 10_000) if quick else (100, 1000, 10_000, 100_000)
    runs = regret_over_time(instance, times, 8 if quick else 64, seed)
    worst, sharp = ((runs.regret / runs[name]).max("time") for name in ("bound", "tight"))
    games = 4 if quick else 20
    rows: dict[str, list[list[float]]] = {"cumulative": [], "printed": []}
    lengths = (100, 1000, 10_000)
    for game in range(games):
        losses = stationary_losses(instance, lengths[-1], seed + game)
        for name, learner in (("cumulative", adahedge_weights), ("printed", literal_hedge)):
            weights = learner(losses)
            rows[name].append(
                [np.divide(*regret_and_bound(losses[:n], weights[:n])) for n in lengths]
            )
    ratio = {name: np.array(values) for name, values in rows.items()}
    printed = "; ".join(
        f"{name}: " + ", ".join(quoted(values[:, i]) for i in range(len(lengths)))
        for name, values in ratio.items()
    )
    size = gain_bound(instance, times[-1])
    growth = "; ".join(f"T = {int(t):,}: {quoted(runs.largest_gain.sel(time=t))}" for t in times)
    typed = command("hedge", quick, seed)
    return [
        Claim(
            "AdaHedge's regret is at most 2r√(T ln K) + r(16/3 ln K + 2)",
            "Lemma F.4",
            f"the max-learner's own regret in {runs.sizes['replicate']} runs of BLFAIPS to T = "
            f"{times[-1]:,}, over the bound, at every checkpoint",
            f"largest of a run {quoted(worst)}, {largest(worst, '.3f')}; over the sharper bound by "
            f"the variances (de Rooij et al., Theorem 8) {quoted(sharp)}, {largest(sharp, '.3f')}",
            judged(bool(worst.max() <= 1), "holds (for cumulative losses)", "does not hold"),
            typed,
        ),
        Claim(
            "λ_{t+1} ∝ λ_t exp(-η_t l_t) with η_1 = ∞ is AdaHedge",
            "Algorithm 1",
            f"both recursions on {games} sequences of losses of a posterior that stands still: "
            "regret over the bound of Lemma F.4 after 100, 1,000 and 10,000 rounds",
            printed,
            judged(
                bool(ratio["printed"][:, -1].max() <= 1 and ratio["cumulative"].max() <= 1),
                "cannot be told from these: both stay within the bound",
                "does not hold: as printed all weight stays on the first round's leader and the "
                "regret grows as T, past the bound. AdaHedge weighs cumulative losses",
            ),
            typed,
        ),
        Claim(
            "r_T = O(log T)",
            "Lemma F.4, by Lemma E.2",
            "the largest gain of any arm in any round of the same runs",
            f"{growth}; at the end {largest(runs.largest_gain.isel(time=-1), '.0f')}; the bound of "
            f"the lemma at T = {times[-1]:,} is {size:.0f} (exact)",
            judged(
                bool(runs.largest_gain.max() <= size),
                "holds (in these runs; the bound needs parameters drawn within Θ, and the rule "
                "here draws from all of space)",
                "does not hold for the rule as run: parameters are drawn from all of space, not "
                "from Θ, and the largest gain passes the bound",
            ),
            typed,
        ),
    ]


def claim_jensen(quick: bool, seed: int) -> list[Claim]:
    """The step in Lemma F.8 that goes the wrong way."""
    times = (100, 1000, 10_000, 100_000)
    found = jensen_loss(end_of_optimism(0.1), times, 20_000 if quick else 1_000_000, seed)
    score = float((found.loss / found.standard_error).min())
    values = ", ".join(
        f"t = {t:,}: {float(found.loss.sel(time=t)):.2e} ± "
        f"{float(found.standard_error.sel(time=t)):.0e}"
        for t in times
    )
    logs = np.log(times) - np.mean(np.log(times))
    relative = (found.standard_error / found.loss).values
    fall = float(power(times, found.loss.values[np.newaxis])[0])
    unsure = float(np.sqrt(np.sum((logs * relative) ** 2)) / np.sum(logs**2))
    return [
        Claim(
            "log E exp(-Γ_1) ≤ -E Γ_1 (up to terms in a_1, a_2), for exp(-Γ_1) is concave",
            "Lemma F.8, after Corollary 1 of the cited paper",
            "End of Optimism α = 0.1, posterior after t optimal pulls, widened by the paper's η: "
            "log E exp(-Γ_1) + E Γ_1 over exact draws",
            f"{values}; falls as t^-p, p = {fall:.3f} ± {unsure:.3f}",
            judged(
                score < 3,
                "holds",
                "does not hold: Jensen's inequality has the other sign, and concavity bounds it "
                "by Γ_1 at the mean, not by the mean of Γ_1. What is lost sums to o(T), so the "
                "conclusion F_5 ≤ o(1) can be had all the same",
            ),
            command("jensen", quick, seed),
        )
    ]
