"""Draws a second from an alternative set: exact ones, and those of PyMC's samplers."""

import logging
import warnings
from functools import partial

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from scipy.optimize import brentq

from bayes_feasible import Alternative, Instance, Posterior, instances, models
from bayes_feasible.analysis.benchmarks.timing import median_seconds, show
from bayes_feasible.analysis.study.curves import posterior_at_truth

RUNS = 7
BLOCK = 1_000_000  # exact draws of one run
CHAINS, DRAWS, TUNE = 4, 1000, 500
RARITIES = (-4, -40, -400, -10_000)


def main() -> None:
    """Measure and print both tables."""
    instance = instances.end_of_optimism(alpha=0.1)
    alternative = Alternative(instance.problem, instance.best)
    compare_rarities(instance, alternative)
    compare_samplers(alternative, with_log_probability(instance, -4))


def with_log_probability(instance: Instance, target: float) -> Posterior:
    """Uniform pulls of every arm, the mean at the truth, as many as make the error this rare."""
    alternative = Alternative(instance.problem, instance.best)

    def posterior(log_pulls: float) -> Posterior:
        pulls = round(np.exp(log_pulls))
        return posterior_at_truth(instance, np.full(len(instance.problem.arms), pulls))

    def excess(log_pulls: float) -> float:
        return alternative.log_probability(posterior(log_pulls)).value - target

    return posterior(brentq(excess, 0.0, 25.0, xtol=1e-3))


def exact_speed(alternative: Alternative, posterior: Posterior) -> float:
    """Exact draws a second, the median of several runs; the first, which compiles, is left out."""
    draw = partial(alternative.sample, posterior, BLOCK)
    draw()
    return BLOCK / median_seconds(draw, RUNS)


def compare_rarities(instance: Instance, alternative: Alternative) -> None:
    """Exact draws as the alternative set becomes rare."""
    arms = np.arange(200) % len(instance.problem.arms)
    pulled = Posterior.from_history(instance.problem, arms, *instance.pull(arms, seed=0))
    targets = {"200 pulls, as they came": pulled}
    for rarity in RARITIES:
        posterior = with_log_probability(instance, rarity)
        targets[f"{posterior.pulls:,} pulls, mean at truth"] = posterior
    rows = [
        [
            name,
            f"{alternative.log_probability(posterior).value:.1f}",
            f"{exact_speed(alternative, posterior) / 1e6:.2f} million",
        ]
        for name, posterior in targets.items()
    ]
    title = f"Exact draws a second, d = 2, K = 5, one core, median of {RUNS} runs"
    show(title, ["posterior", "log P", "exact draws a second"], rows)


def compare_samplers(alternative: Alternative, posterior: Posterior) -> None:
    """Exact draws beside those of PyMC."""
    exact = exact_speed(alternative, posterior)
    rows = [["exact", f"{exact:,.0f}", "1.00", "1"]]
    for name, (speed, worst) in sampler_speeds(alternative, posterior).items():
        rows.append([name, f"{speed:,.0f}", f"{worst:.2f}", f"{exact / speed:,.0f}"])
    title = f"Effective draws a second at log P = -4, one core, {CHAINS} chains of {DRAWS} draws"
    show(title, ["sampler", "effective draws a second", "R-hat", "times slower than exact"], rows)


def sampler_speeds(
    alternative: Alternative, posterior: Posterior
) -> dict[str, tuple[float, float]]:
    """Effective draws a second of PyMC's samplers, and their largest R-hat."""
    model = models.alternative(models.linear_gaussian(posterior), alternative)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    found = {}
    for name, sample in (("Slice", _slice), ("SMC", _smc)):
        sample(model, alternative, posterior)  # compiles
        draws, seconds = sample(model, alternative, posterior)
        effective = min(float(value.min()) for value in az.ess(draws).data_vars.values())
        worst = max(float(value.max()) for value in az.rhat(draws).data_vars.values())
        found[name] = effective / seconds, worst
    return found


def _slice(
    model: pm.Model, alternative: Alternative, posterior: Posterior
) -> tuple[xr.Dataset, float]:
    """Slice sampling from starts inside the set: the draws, and the seconds they took."""
    starts = alternative.sample(posterior, CHAINS, seed=1).isel(chain=0)
    initvals = [
        {name: starts[name].values[chain] for name in ("theta_reward", "theta_cost")}
        for chain in range(CHAINS)
    ]
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pm.sample(
            DRAWS, tune=TUNE, chains=CHAINS, cores=1, step=pm.Slice(), initvals=initvals,
            random_seed=2, progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    return tree["posterior"].to_dataset(), float(tree["posterior"].attrs["sampling_time"])


def _smc(model: pm.Model, *_: object) -> tuple[xr.Dataset, float]:
    """Sequential Monte Carlo from the prior: the draws, and the seconds they took."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = pm.sample_smc(
            DRAWS, chains=CHAINS, cores=1, random_seed=2, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    return tree["posterior"].to_dataset(), float(tree["sample_stats"].attrs["_t_sampling"])


if __name__ == "__main__":
    main()
