"""Error curves of fixed allocations, drawn with plain NumPy: what the verdict is tested on.

For an allocation that does not adapt, counts and sums at a checkpoint follow from those at the
one before by one multinomial and one normal draw, so a million pulls cost no more than ten.
"""

import numpy as np
import xarray as xr
from scipy.special import log_ndtr, logsumexp

import bayes_feasible as bf
from bayes_feasible.analysis.study import convergence


def without_regression(results, wanted, show=False):
    """The verdict on a study without compiling a PyMC model, which takes long."""
    return convergence.summarise(results, wanted.instance, regression=False, progress=show)


def log_errors(instance, allocation, times, replicates, seed):
    """Log of the summed probabilities of all mistakes (at most 0) and the counts, exactly drawn.

    The sum is the probability but for overlaps, which vanish with the errors themselves.
    """
    problem, rng = instance.problem, np.random.default_rng(seed)
    arms, theta = problem.arms, np.vstack([instance.theta_reward, instance.theta_cost])
    noise = np.array([problem.reward_noise, *problem.cost_noise])
    logs = np.empty((replicates, len(times)))
    counts = np.zeros((replicates, len(times), len(arms)))
    for replicate in range(replicates):
        pulls, sums, before = np.zeros(len(arms)), np.zeros((len(arms), len(theta))), 0
        for k, time in enumerate(times):
            new = rng.multinomial(time - before, allocation)
            spread = np.sqrt(new)[:, np.newaxis] * noise
            sums += new[:, np.newaxis] * (arms @ theta.T)
            sums += spread * rng.standard_normal(sums.shape)
            pulls, before = pulls + new, time
            covariance = np.linalg.inv(np.eye(arms.shape[1]) + (arms.T * pulls) @ arms)
            mean = (covariance @ arms.T @ sums).T
            logs[replicate, k] = _sum_of_mistakes(instance, mean, covariance, noise)
            counts[replicate, k] = pulls
    return logs, counts


def _sum_of_mistakes(instance, mean, covariance, noise):
    problem, best = instance.problem, instance.problem.candidates[instance.best]

    def log_probability(vector, block, limit):  # that <theta, vector> is at least the limit
        spread = noise[block] * np.sqrt(vector @ covariance @ vector)
        return log_ndtr((vector @ mean[block] - limit) / spread)

    limits = list(enumerate(problem.thresholds))
    events = [log_probability(best, 1 + j, limit) for j, limit in limits]
    for i, rival in enumerate(problem.candidates):
        if i != instance.best:
            better = log_probability(rival - best, 0, 0.0)
            events.append(
                better + sum(log_probability(-rival, 1 + j, -limit) for j, limit in limits)
            )
    return min(float(logsumexp(events)), 0.0)


def results(instance, allocations, times, replicates, seed=0, correct=True):
    """A Dataset as `simulate` gives it, of rules with fixed allocations."""
    rate = bf.optimal_rate(instance).value
    parts = []
    for number, allocation in enumerate(allocations.values()):
        logs, counts = log_errors(instance, allocation, times, replicates, [seed, number])
        shares = counts / np.asarray(times)[:, np.newaxis]
        efficiency = [[float(bf.exponents(instance, w).min()) for w in row] for row in shares]
        parts.append((logs, shares, np.array(efficiency) / rate))
    logs, shares, efficiency = map(np.array, zip(*parts, strict=True))
    dims = ("rule", "replicate", "time")
    return xr.Dataset(
        {
            "recommended": (dims, np.full(logs.shape, instance.best if correct else -1)),
            "correct": (dims, np.full(logs.shape, correct)),
            "log_error": (dims, logs),
            "allocation": ((*dims, "arm"), shares),
            "efficiency": (dims, efficiency),
        },
        coords={
            "rule": list(allocations),
            "replicate": range(replicates),
            "time": list(times),
            "arm": instance.problem.coords["arm"],
        },
    )


def brownian(rate, times, replicates, seed, *, unit=None, bend=0.0, power=0.0, spread=0.0):
    """Log errors as the regression takes them to be."""
    rng, times = np.random.default_rng(seed), np.asarray(times, dtype=float)
    unit = rate if unit is None else unit
    steps = rng.standard_normal((replicates, times.size)) * np.sqrt(
        2 * rate * np.diff(times, prepend=0)
    )
    own = rate + spread * unit * rng.standard_normal((replicates, 1))
    mean = own * times - bend * np.sqrt(unit * times) + power * np.log(times)
    return -(mean + np.cumsum(steps, axis=1))
