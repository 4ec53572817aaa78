"""Builders and statistical tests that several test files share.

Nothing here calls the numerics of the package: posteriors are solved, drawn from and measured
with plain NumPy, SciPy and mpmath.
"""

import itertools
import re
from functools import partial

import cvxpy as cp
import numpy as np
from scipy import special, stats

import bayes_feasible as bf

# One of each kind of rule that learns, or does not, from a problem alone.
RULES = {
    "Descent": bf.Descent,
    "BLFAIPS": bf.BLFAIPS,
    "BLFAIPS, true posterior": partial(bf.BLFAIPS, eta=1.0),
    "LinearThompson": bf.LinearThompson,
    "TopTwo": bf.TopTwo,
    "TopTwo, information": partial(bf.TopTwo, select="information"),
    "BestResponse": bf.BestResponse,
    "PlugIn": bf.PlugIn,
    "GOptimal": bf.GOptimal,
}


def posterior_at(problem, theta_reward, theta_cost, counts):
    """A posterior with these counts whose mean is the given parameter (in the span of the arms)."""
    counts = np.asarray(counts)
    pulled = np.flatnonzero(counts)
    arms = problem.arms
    precision = np.eye(arms.shape[1]) + arms.T @ (counts[:, np.newaxis] * arms)
    theta = np.vstack([theta_reward, np.reshape(theta_cost, (-1, arms.shape[1]))])
    sums = np.zeros((len(arms), len(theta)))
    sums[pulled] = np.linalg.lstsq(arms[pulled].T, precision @ theta.T, rcond=None)[0]
    return bf.Posterior.from_sums(problem, counts, sums[:, 0], sums[:, 1:])


def closed_form(posterior):
    """Means (block, feature) and covariance over noise variance, by the textbook formula."""
    problem = posterior.problem
    arms, counts = problem.arms, posterior.counts
    precision = np.eye(arms.shape[1]) + arms.T @ (counts[:, np.newaxis] * arms)
    sums = np.column_stack([posterior.reward_sums, posterior.cost_sums])
    return np.linalg.solve(precision, arms.T @ sums).T, np.linalg.inv(precision)


def noise(problem):
    return np.array([problem.reward_noise, *problem.cost_noise])


def gaussian_draws(posterior, size, seed, scale=1.0):
    """Plain draws (draw, block, feature) of the posterior, whatever the parameter set."""
    mean, covariance = closed_form(posterior)
    root = np.linalg.cholesky(covariance)
    normal = np.random.default_rng(seed).standard_normal((size, *mean.shape))
    spread = np.sqrt(scale) * noise(posterior.problem)[:, np.newaxis]
    return mean + spread * (normal @ root.T)


def in_balls(problem, draws):
    if problem.parameter_radius is None:
        return np.ones(len(draws), dtype=bool)
    reward, cost = problem.parameter_radius
    length = np.linalg.norm(draws, axis=2)
    return (length[:, 0] <= reward) & (length[:, 1:] <= cost).all(axis=1)


def membership(alternative, draws):
    """Which events (finite constraints, then rivals) contain each draw, from the definition."""
    problem = alternative.problem
    own = problem.candidates[alternative.candidate]
    columns = [
        draws[:, 1 + j] @ own > tau for j, tau in enumerate(problem.thresholds) if np.isfinite(tau)
    ]
    for other in problem.candidates:
        if (other == own).all():
            continue
        event = draws[:, 0] @ (other - own) >= 0
        for j, tau in enumerate(problem.thresholds):
            event &= draws[:, 1 + j] @ other <= tau
        columns.append(event)
    return np.column_stack(columns)


def blocks(dataset):
    """Draws of a Dataset as one array (draw, block, feature)."""
    reward, cost = dataset.theta_reward.values, dataset.theta_cost.values
    together = np.concatenate([reward[:, :, np.newaxis], cost], axis=2)
    return together.reshape(-1, *together.shape[2:])


def z_bound(tests, false_alarm):
    """Two-sided normal bound for so many z-scores with this total false-alarm rate."""
    return float(stats.norm.isf(false_alarm / tests / 2))


def agrees(found, truth, error, tests=1, false_alarm=1e-5):
    """Whether an estimate is the truth within its standard error, as one of so many comparisons."""
    return bool(abs(found - truth) < z_bound(tests, false_alarm) * error)


def counted(inside):
    """The logarithm of a counted share, and its standard error."""
    share = np.mean(inside)
    return float(np.log(share)), float(np.sqrt((1 - share) / share / np.size(inside)))


def honest(scores, false_alarm):
    """Whether errors over their standard errors have mean 0 and variance 1, as normal ones do."""
    size = len(scores)
    low, high = stats.chi2.interval(1 - false_alarm / 2, size)
    centred = abs(np.mean(scores)) < z_bound(1, false_alarm / 2) / np.sqrt(size)
    return bool(centred and low < np.sum(np.square(scores)) < high)


def numbered(table):
    """A number for each row of a table of truth values, the same for the same rows."""
    number = np.zeros(len(table), dtype=np.int64)
    for block in np.split(table, range(30, table.shape[1], 30), axis=1):
        word = block @ (1 << np.arange(block.shape[1]))
        number = np.unique(number << 30 | word, return_inverse=True)[1]
    return number


def smallest_p(alternative, draws, reference):
    """Smallest p-value, and how many there are, that two sets of draws have the same law.

    Kolmogorov-Smirnov on every coordinate and on the reward and costs of every candidate, and a
    chi-square test on how often each pattern of events contains a draw.
    """
    size, candidates = len(draws), alternative.problem.candidates
    left, right = (
        np.concatenate(
            [some.reshape(len(some), -1), (some @ candidates.T).reshape(len(some), -1)], 1
        )
        for some in (draws, reference)
    )
    p_values = [
        stats.ks_2samp(left[:, i], right[:, i], method="asymp").pvalue
        for i in range(left.shape[1])
        if np.ptp(right[:, i]) > 0
    ]
    both = membership(alternative, np.concatenate([draws, reference]))
    patterns = numbered(both)
    parts = patterns[:size], patterns[size:]
    table = np.array([np.bincount(part, minlength=patterns.max() + 1) for part in parts])
    expected = table.sum(axis=0) * min(size, len(reference)) / both.shape[0]
    rare = expected < 5
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) >= 10]
    if table.shape[1] > 1:
        p_values.append(stats.chi2_contingency(table).pvalue)
    return min(p_values), len(p_values)


def same_law(alternative, draws, reference, false_alarm=1e-4):
    """Whether no test tells the two sets of draws apart at this total false-alarm rate."""
    least, tests = smallest_p(alternative, draws, reference)
    return least > false_alarm / tests


def polygon(normals, offsets):
    """Probability that a planar standard normal `u` has `normals @ u >= offsets`.

    The second coordinate is integrated in closed form and the first by Gauss-Legendre panels, cut
    wherever two edges cross, an edge is vertical, or an edge steps through the second coordinate.
    """
    normals, offsets = np.atleast_2d(normals), np.atleast_1d(offsets)
    steep = np.abs(normals[:, 1]) < 1e-12 * np.abs(normals[:, 0])
    low, high = -12.0, 12.0
    for a, b in zip(normals[steep, 0], offsets[steep], strict=True):
        if a > 0:
            low = max(low, b / a)
        else:
            high = min(high, b / a)
    if high <= low:
        return 0.0
    a, b = normals[~steep], offsets[~steep]
    cuts = [low, high, *range(-12, 13)]
    for i, j in itertools.combinations(range(len(b)), 2):
        if abs(np.linalg.det(a[[i, j]])) > 1e-12:
            cuts.append(np.linalg.solve(a[[i, j]], b[[i, j]])[0])
    for (first, second), offset in zip(a, b, strict=True):
        if first != 0:
            cuts += [(offset + s * second) / first for s in (-9, -6, -3, -1, 0, 1, 3, 6, 9)]
    cuts = np.unique(np.clip(cuts, low, high))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(cuts)[:, np.newaxis] / 2
    x = (cuts[:-1, np.newaxis] + half * (1 + nodes)).ravel()
    bound = (b - np.outer(x, a[:, 0])) / a[:, 1]
    bottom = bound[:, a[:, 1] > 0].max(axis=1, initial=-np.inf)
    top = bound[:, a[:, 1] < 0].min(axis=1, initial=np.inf)
    upper = special.ndtr(-bottom) - special.ndtr(-top)
    lower = special.ndtr(top) - special.ndtr(bottom)
    inside = np.maximum(np.where(bottom > 0, upper, lower), 0.0)
    return float(np.sum((half * weights).ravel() * stats.norm.pdf(x) * inside))


def planar_union(alternative, posterior):
    """Probability of the alternative set in two features: inclusion and exclusion of polygons."""
    problem = alternative.problem
    own = problem.candidates[alternative.candidate]
    mean, covariance = closed_form(posterior)
    root = np.linalg.cholesky(covariance)
    spread = noise(problem)
    events = []
    for j, tau in enumerate(problem.thresholds):
        if np.isfinite(tau):
            events.append({1 + j: (own, tau)})
    for rival in alternative.rivals:
        other = problem.candidates[rival]
        event = {0: (other - own, 0.0)}
        for j, tau in enumerate(problem.thresholds):
            if np.isfinite(tau):
                event[1 + j] = (-other, -tau)
        events.append(event)
    total = 0.0
    for size in range(1, len(events) + 1):
        for chosen in itertools.combinations(events, size):
            product = 1.0
            for b in range(len(mean)):
                asked = [event[b] for event in chosen if b in event]
                if not asked:
                    continue
                vectors = np.array([vector for vector, _ in asked])
                limits = np.array([limit for _, limit in asked])
                told = vectors.any(axis=1)  # the zero vector's value is 0 for certain
                product *= float(np.all(limits[~told] <= 0))
                vectors, limits = vectors[told], limits[told]
                product *= polygon(spread[b] * vectors @ root, limits - vectors @ mean[b])
            total -= (-1) ** size * product
    return total


def line_union(alternative, posterior):
    """Probability of the alternative set in one feature, with any number of constraints.

    Every candidate is a number, so costs decide by intervals who is feasible, and the reward
    only by its sign.
    """
    problem = alternative.problem
    numbers, own = problem.candidates[:, 0], problem.candidates[alternative.candidate, 0]
    mean, covariance = closed_form(posterior)
    spread = noise(problem) * np.sqrt(covariance[0, 0])
    reward = stats.norm(mean[0, 0], spread[0])
    finite = np.flatnonzero(np.isfinite(problem.thresholds))
    cells = []
    for j in finite:
        tau, law = problem.thresholds[j], stats.norm(mean[1 + j, 0], spread[1 + j])
        ends = sorted({tau / z for z in numbers if z != 0})
        ends = [-np.inf, *ends, np.inf]
        cells.append(
            [
                (_share(law, left, right), numbers * _between(left, right) <= tau)
                for left, right in itertools.pairwise(ends)
            ]
        )
    total = 0.0
    for combination in itertools.product(*cells):
        weight = float(np.prod([share for share, _ in combination]))
        feasible = np.all([ok for _, ok in combination], axis=0) & np.ones(len(numbers), dtype=bool)
        if not feasible[alternative.candidate]:
            total += weight
            continue
        larger, smaller = (feasible & (numbers > own)).any(), (feasible & (numbers < own)).any()
        total += weight * (larger * reward.sf(0) + smaller * reward.cdf(0))
    return total


def _share(law, left, right):
    if left > law.mean():
        return law.sf(left) - law.sf(right)
    return law.cdf(right) - law.cdf(left)


def _between(left, right):
    if np.isinf(left):
        return right - 1.0 if np.isfinite(right) else 0.0
    return left + 1.0 if np.isinf(right) else (left + right) / 2


def least_exponents(alternative, theta, allocation, **options):
    """The least exponent of each event, within the balls if there are any, by a cone solver."""
    problem = alternative.problem
    own, radius = problem.candidates[alternative.candidate], problem.parameter_radius
    root = np.sqrt(allocation)[:, np.newaxis] * problem.arms
    finite = np.flatnonzero(np.isfinite(problem.thresholds))
    result = []
    for event in range(len(alternative.events)):
        found = cp.Variable(theta.shape)
        if event < finite.size:
            j = finite[event]
            asked = [found[1 + j] @ own >= problem.thresholds[j]]
        else:
            other = problem.candidates[alternative.rivals[event - finite.size]]
            asked = [found[0] @ (other - own) >= 0]
            asked += [found[1 + j] @ other <= problem.thresholds[j] for j in finite]
        if radius is not None:
            asked += [cp.norm(found[b]) <= radius[b > 0] for b in range(len(theta))]
        cost = sum(
            cp.sum_squares(root @ (found[b] - theta[b])) / (2 * noise(problem)[b] ** 2)
            for b in range(len(theta))
        )
        result.append(cp.Problem(cp.Minimize(cost), asked).solve(solver=cp.CLARABEL, **options))
    return np.array(result)


# Numbers in the results of claims: with an error of some kind, and those that are settings.
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
WITH_ERROR = (
    rf"{NUMBER} ± {NUMBER}",
    rf"band ±{NUMBER}",
    rf"{NUMBER}(?:/{NUMBER})? \(95 % interval (?:{NUMBER}|-∞) to (?:{NUMBER}|∞)\)",
    rf"{NUMBER} \(largest of {NUMBER}; above the {NUMBER} % quantile with confidence 95 %\)",
    rf"{NUMBER}(?:, {NUMBER}: {NUMBER})* \(standard error {NUMBER}\)",
)
SETTING = (
    rf"\b(?:[TtKdαβδη]|2δ) = (?:10\^)?{NUMBER}",
    r"[Tt]\^[-(]?[\w./]+", r"\b10\^\d+", r"\b2Γ", r"\b1 - efficiency", r"\b1/T\b", r"\b95 %",
    r"\b[EFTAf]_?\d+\b", r"\(\d{4}\)", r"Theorem \d+", r"after \d+ pulls", r"top \d+\b",
    r"of April 2025", r"of the 10M set", r"beyond 3 standard errors",
    rf"{NUMBER} of {NUMBER} change, {NUMBER} from ahead to behind or back",
    rf"{NUMBER} (?:ahead|level|behind)",
)  # fmt: skip


def bare_numbers(result):
    """Numbers of a claim's result without an error, in clauses not said to be exact."""
    for pattern in (*WITH_ERROR, *SETTING):
        result = re.sub(pattern, "", result)
    clauses = re.split(r"; |\. ", result)
    doubtful = " ".join(clause for clause in clauses if "exact" not in clause)
    return re.findall(rf"(?<!\w){NUMBER}", doubtful)


def files(folder):
    """Every file of a folder and its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def replayed(trial):
    """The rule of a trial, as its journal brings it about."""
    trial._refresh()
    return trial._replay.catch_up(trial._journal.events, trial._ledger)
