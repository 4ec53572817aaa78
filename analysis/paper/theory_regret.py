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
from bayes_feasible.analysis.paper import quote
from bayes_feasible.analysis.paper.claims import Claim, state, words
from bayes_feasible.analysis.paper.printed_adahedge import printed_update
from bayes_feasible.analysis.paper.runs import repeat
from bayes_feasible.analysis.paper.theory_events import longest_arm, radius
from bayes_feasible.analysis.paper.theory_rate import parameters, separation
from bayes_feasible.analysis.paper.theory_trace import sum_up, watch
from bayes_feasible.analysis.study.curves import posterior_at_truth, whole_pulls
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.posterior import Posterior
from bayes_feasible.rate.rate import optimal_rate
from bayes_feasible.rules.adahedge import AdaHedge
from bayes_feasible.rules.blfaips import BLFAIPS

TERMS = ("F1", "F2", "F3", "F4", "F5", "F6")
FACTORS = {"F21": (4, 8), "F4": (2, 2)}  # of Azuma's bound, and under the root of the printed one


def regret_terms(instance: Instance, run: xr.Dataset) -> xr.Dataset:
    """Compute the terms of the regret of one run over time, as the appendix defines them.

    Expectations are means over the draws of `watch`, so each term carries their noise. Gives over
    `time`: `F1` to `F6`, the parts `F21`, `F22`, `F23` of F2, `total`, `shortfall` (twice the
    distance of the exponent under the pulls from Γ), AdaHedge's `regret` and its `bound` (the
    paper's), `tight` (de Rooij et al., Theorem 8), `largest_gain` and `wrong_rounds`.
    """
    problem, best, theta = instance.problem, instance.best, parameters(instance)
    mean = run.drop_dims("round") / run.time
    at_mean, at_truth = np.empty(run.time.size), np.empty(run.time.size)
    for i, length in enumerate(run.time.values):
        precision, moments = sum_up(instance, run, length)
        means = np.linalg.solve(precision, moments.T).T
        at_mean[i] = separation(problem, best, means, precision) / length
        at_truth[i] = separation(problem, best, theta, precision) / length
    top = mean.expected.argmax("arm")  # the paper's λ̄ puts all weight on this arm
    expected, drawn = mean.expected.isel(arm=top), mean.drawn.isel(arm=top)
    experts, gain = np.log(len(problem.arms)), run.largest_gain
    terms = {
        "F1": mean.about_truth.max("arm") - expected,
        "F2": expected - mean.expected_mixed,
        "F21": (expected - mean.expected_mixed) - (drawn - mean.drawn_mixed),
        "F22": drawn - mean.drawn_own,
        "F23": mean.drawn_own - mean.drawn_mixed,
        "F3": mean.expected_mixed - mean.given_best_mixed,
        "F4": mean.given_best_mixed - mean.given_best_pulled,
        "F5": mean.given_best_pulled - at_mean,
        "F6": ("time", at_mean - at_truth),
        "shortfall": ("time", 2 * optimal_rate(instance).value - at_truth),
        "regret": run.time * (mean.drawn.max("arm") - mean.drawn_own),
        "bound": 2 * gain * np.sqrt(run.time * experts) + gain * (16 / 3 * experts + 2),
        "tight": 2 * np.sqrt(run.drawn_variance * experts) + gain * (4 / 3 * experts + 2),
        "largest_gain": gain,
        "wrong_rounds": run.wrong_rounds,
    }
    found = xr.Dataset(terms, coords={"time": run.time}).drop_vars("arm", errors="ignore")
    return found.assign(total=sum(found[name] for name in TERMS))


def one_regret(
    instance: Instance, times: Sequence[int], seed: np.random.SeedSequence
) -> xr.Dataset:
    """Compute the regret terms of one run."""
    return regret_terms(instance, watch(instance, times, seed))


def regret_over_time(
    instance: Instance, times: Sequence[int], replicates: int, seed: int
) -> xr.Dataset:
    """Compute the regret terms of many runs, over (`replicate`, `time`)."""
    work = partial(one_regret, instance, tuple(times))
    return repeat(work, [seed, 2], replicates, times[-1])


def gain_bound(instance: Instance, horizon: int) -> float:
    r"""Compute the bound :math:`\sum_b (LR_b + B_b)^2 / \sigma_b^2` on gains of the appendix."""
    problem, longest = instance.problem, longest_arm(instance.problem)
    beta = radius(problem, np.array([horizon]), 2 * np.log(horizon))[:, 0]
    return float(np.sum((2 * longest + longest * beta) ** 2 / block_noise(problem) ** 2))


def literal_hedge(losses: Array) -> Array:
    """Compute the weights before each round by the recursion of Algorithm 1 as printed."""
    weights, gap, history = np.full(losses.shape[1], 1 / losses.shape[1]), 0.0, []
    for loss in losses:
        history.append(weights.copy())
        gap = printed_update(weights, loss, gap)
    return np.array(history)


def adahedge_weights(losses: Array) -> Array:
    """Compute the weights before each round by AdaHedge on cumulative losses."""
    learner, history = AdaHedge(losses.shape[1]), []
    for loss in losses:
        history.append(learner.weights.copy())
        learner.update(loss)
    return np.array(history)


def regret_and_bound(losses: Array, weights: Array) -> tuple[float, float]:
    """Compute the regret against the best expert, and the bound of Lemma F.4."""
    rounds, experts = losses.shape
    spread = float(np.ptp(losses, axis=1).max())
    regret = float(np.sum(weights * losses) - losses.sum(axis=0).min())
    logarithm = np.log(experts)
    bound = 2 * spread * np.sqrt(rounds * logarithm) + spread * (16 / 3 * logarithm + 2)
    return regret, float(bound)


def draw_gains(
    instance: Instance, posterior: Posterior, draws: int, seed: Any, scale: float = 1.0
) -> Array:
    """Draw from the alternative set: what each arm would gain, over (draw, arm)."""
    problem = instance.problem
    drawn = Alternative(problem, instance.best).sample(posterior, draws, seed, scale=scale)
    off_reward = drawn.theta_reward.values[0] - posterior.theta_reward
    off_cost = drawn.theta_cost.values[0] - posterior.theta_cost
    gain = (off_reward @ problem.arms.T / problem.reward_noise) ** 2
    cost = (off_cost @ problem.arms.T / problem.cost_noise[:, np.newaxis]) ** 2
    return gain + cost.sum(axis=1)


def stationary_losses(instance: Instance, rounds: int, seed: int) -> Array:
    """Draw losses as BLFAIPS meets them, for a posterior that stands still after 2000 pulls."""
    posterior = posterior_at_truth(instance, whole_pulls(instance.problem.design, 2000))
    return -draw_gains(instance, posterior, rounds, seed)


def jensen_loss(instance: Instance, times: Sequence[int], draws: int, seed: int) -> xr.Dataset:
    r"""Measure what Lemma F.8 passes over: :math:`\log E e^{-\Gamma_1} + E \Gamma_1 \ge 0`.

    For posteriors after pulls by the optimal allocation, mean at the truth, widened by the
    paper's η; averaged over the next arm. Returns `loss` and its `standard_error` over `time`.
    """
    scale = BLFAIPS(instance.problem)._options.scale
    allocation = optimal_rate(instance).allocation.values
    rows = []
    for time in times:
        posterior = posterior_at_truth(instance, whole_pulls(allocation, time))
        own = np.random.SeedSequence([seed, time])  # the losses at two times are independent
        small = draw_gains(instance, posterior, draws, own, scale) / scale  # Γ_1, η times the gain
        change = np.expm1(-small)
        mean = change.mean(axis=0)
        influence = change / (1 + mean) + small  # of each draw on the estimate
        error = (influence @ allocation).std(ddof=1) / np.sqrt(draws)
        rows.append((allocation @ (np.log1p(mean) + small.mean(axis=0)), error))
    return quote.tabulate("time", times, ("loss", "standard_error"), rows)


def claim_terms(quick: bool, seed: int) -> list[Claim]:
    """Lemmas F.1 to F.9."""
    instance = end_of_optimism(0.1)
    times = (100, 1000, 10_000, 100_000) if quick else (100, 1000, 10_000, 100_000, 1_000_000)
    replicates = 8 if quick else 16
    found = regret_over_time(instance, times, replicates, seed)
    scaled = found / (2 * optimal_rate(instance).value)
    setting = (
        f"End of Optimism α = 0.1, {replicates} runs of BLFAIPS, paper's η, to T = {times[-1]:,}; "
        "expectations from 4 draws a round"
    )
    return [
        *(_claim_term(found[name], scaled[name], setting) for name in words()["lemmas"]),
        state("terms", shrinks(found.total), scaled=scaled, times=times, setting=setting),
    ]


def shrinks(values: xr.DataArray) -> bool:
    """Test whether the size of a term has clearly fallen from the first time to the last."""
    # In logarithms, for the early sizes have a heavy tail.
    return quote.falls_clearly(*(np.log(np.abs(values.isel(time=i).values)) for i in (0, -1)))


def falling_speed(times: Any, values: Array) -> str:
    """Fit the exponent p of a root mean square over rows that falls as `time^-p`, with its error.

    The standard error is the jackknife's: from leaving out one row at a time.
    """
    squares = values**2
    number = len(squares)
    left_out = (squares.sum(axis=0) - squares) / (number - 1)
    speed = quote.power(times, np.sqrt(squares.mean(axis=0))[np.newaxis])[0]
    error = np.sqrt(number - 1) * quote.power(times, np.sqrt(left_out)).std()
    return quote.with_error(float(speed), float(error))


def _claim_term(values: xr.DataArray, scaled: xr.DataArray, setting: str) -> Claim:
    term, times = str(values.name), values.time.values
    horizon, bounds = int(times[-1]), tuple[float, ...]()
    if term in FACTORS:
        factor, printed = FACTORS[term]
        size = gain_bound(end_of_optimism(0.1), horizon)
        bounds = (
            np.sqrt(printed * size * np.log(horizon) / horizon),
            factor * size * np.sqrt(2 * np.log(horizon) / horizon),
        )
    return state(
        "term", "holds" if shrinks(values) else "unclear", term=term, setting=setting,
        times=times, scaled=scaled, lemma=words()["lemmas"][term], bounds=bounds,
        speed=falling_speed(times[1:], values.values[:, 1:]), last=values.isel(time=-1),
        still=np.sqrt((scaled.isel(time=-1) ** 2).mean()),
    )  # fmt: skip


def claim_hedge(quick: bool, seed: int) -> list[Claim]:
    """AdaHedge's regret bound, Lemma F.4, and the recursion as printed."""
    instance = end_of_optimism(0.1)
    times = (100, 1000, 10_000) if quick else (100, 1000, 10_000, 100_000)
    runs = regret_over_time(instance, times, 8 if quick else 64, seed)
    worst, sharp = ((runs.regret / runs[name]).max("time") for name in ("bound", "tight"))
    games, lengths = 4 if quick else 20, (100, 1000, 10_000)
    ratio = np.empty((2, games, len(lengths)))
    for game in range(games):
        losses = stationary_losses(instance, lengths[-1], seed + game)
        for i, learner in enumerate((adahedge_weights, literal_hedge)):
            weights = learner(losses)
            ratio[i, game] = [
                np.divide(*regret_and_bound(losses[:n], weights[:n])) for n in lengths
            ]
    gain, bound = runs.largest_gain, gain_bound(instance, times[-1])
    within = ratio[0].max() <= 1 and ratio[1, :, -1].max() <= 1
    size = {"runs": runs.sizes["replicate"], "horizon": times[-1]}
    return [
        state("hedge", worst.max() <= 1, worst=worst, sharp=sharp, **size),
        state("recursion", "unclear" if within else "fails", games=games, ratio=ratio),
        state("gain", gain.max() <= bound, gain=gain, times=times, bound=bound),
    ]


def claim_jensen(quick: bool, seed: int) -> list[Claim]:
    """The step in Lemma F.8 that goes the wrong way."""
    times = (100, 1000, 10_000, 100_000)
    found = jensen_loss(end_of_optimism(0.1), times, 20_000 if quick else 1_000_000, seed)
    loss, error = found.loss.values, found.standard_error.values
    logs = np.log(times) - np.mean(np.log(times))
    fall = quote.power(times, loss[np.newaxis])[0]
    unsure = np.sqrt(np.sum((logs * error / loss) ** 2)) / np.sum(logs**2)
    numbers = {"times": times, "loss": loss, "error": error, "fall": fall, "unsure": unsure}
    return [state("jensen", np.min(loss / error) < 3, **numbers)]
