"""What stopping promises, counted over thousands of experiments.

Truths are drawn from the prior (or fixed, for `delta`), and the experiments are looked at again and
again. False-alarm rate of each test: 1e-4. Every one has a control that peeks wrongly and fails.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

import bayes_feasible as bf
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.forecast import draw_truths, forecast
from bayes_feasible.simulation.until import Ending, Until
from bayes_feasible.simulation.world import Environment

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-4
TRIALS = 2000
ARMS = {"a": [1.0, 0.0], "b": [0.6, 0.8], "c": [0.0, 1.0]}
PROBLEMS = {
    "known": bf.Problem(ARMS, {"harm": 0.5}),
    "learnt": bf.Problem(ARMS, {"harm": 0.5}, reward=bf.Gaussian(), costs=bf.Gaussian()),
    "0/1": bf.Problem(ARMS, {"harm": 0.6}, reward=bf.Bernoulli(), costs=bf.Bernoulli()),
}
HORIZONS = {"known": 600, "learnt": 200, "0/1": 150}
NAIVE = 1.645  # standard errors: a one-sided test at 0.05


def truths_of(problem, size, seed):
    """Drawn from the prior, by hand."""
    rng = np.random.default_rng(seed)
    for _ in range(size):
        noise = np.ones(2)
        if problem is PROBLEMS["learnt"]:
            noise = 1.0 / np.sqrt(rng.gamma(1.0, 1.0, 2))  # variances IG(1, 1)
        theta = noise[:, np.newaxis] * rng.standard_normal((2, 2))
        learnt = {"reward_noise": noise[0], "cost_noise": noise[1:]}
        given = learnt if problem is PROBLEMS["learnt"] else {}
        yield bf.Instance(problem, theta[0], theta[1:], **given)


class Peeking(Until):
    """Stops when every comparison looks significant by itself, with the estimates as the truth."""

    def _look(self, rule, environment):
        known = environment.posterior(rule)
        problem, choice = known.problem, known.best()
        if choice is None or known.counts.min() == 0:
            return
        means = np.column_stack([known.reward_sums, known.cost_sums]) / known.counts[:, None]
        kinds = [outcome.kind for outcome in problem.outcomes]
        spread = np.where([kind == "gaussian" for kind in kinds], known.noise**2,
                          np.clip(means * (1 - means), 1e-3, None))  # fmt: skip
        errors = np.sqrt(spread / known.counts[:, None])
        best = int(np.argmax(np.where(means[:, 1] <= problem.thresholds[0], means[:, 0], -np.inf)))
        limit = (problem.thresholds[0] - means[best, 1]) / errors[best, 1]
        sure = limit > NAIVE
        for z in range(len(means)):
            ahead = (means[best, 0] - means[z, 0]) / math.hypot(errors[best, 0], errors[z, 0])
            costly = (means[z, 1] - problem.thresholds[0]) / errors[z, 1]
            sure &= z == best or ahead > NAIVE or costly > NAIVE
        if sure:
            self.ending = Ending(int(environment.pulls.sum()), best, "error")


def play(truth, stop, horizon, seed, kind=Until, rule=bf.Descent):
    each = streams.split(np.random.SeedSequence(seed))
    environment = Environment(truth, each.rewards, each.costs)
    until = kind(truth.problem, stop, None, each.extra)
    until.advance(rule(truth.problem, seed=each.own), environment, horizon)
    return until.ending


def count_wrong(truths, stop, horizon, kind=Until, rule=bf.Descent):
    """How many experiments stopped, and how many of them with a wrong answer."""
    stopped = wrong = 0
    for seed, truth in enumerate(truths):
        ending = play(truth, stop, horizon, seed, kind, rule)
        if ending is not None:
            best = -1 if truth.best is None else truth.best
            stopped, wrong = stopped + 1, wrong + (ending.recommended != best)
    return stopped, wrong


def too_many(wrong, stopped, level):
    return bool(binom.sf(wrong - 1, stopped, level) < FALSE_ALARM)


@pytest.mark.parametrize("name", PROBLEMS)
def test_of_those_stopped_at_a_probability_of_error_no_more_are_wrong(name):
    problem = PROBLEMS[name]
    stop = bf.Stop(error=0.05)
    stopped, wrong = count_wrong(truths_of(problem, TRIALS, 1), stop, HORIZONS[name])
    print(f"{name}: {wrong} of {stopped} stopped were wrong ({TRIALS} trials)")
    assert stopped > TRIALS / 4
    assert not too_many(wrong, stopped, 0.05)
    peeked, mistakes = count_wrong(truths_of(problem, TRIALS, 1), stop, HORIZONS[name], Peeking,
                                   bf.Uniform)  # fmt: skip
    print(f"{name}, peeking: {mistakes} of {peeked}")
    assert too_many(mistakes, peeked, 0.05)


FIXED = {  # reward and cost parameters: clear; close to its limit; nothing feasible
    "clear": ([1.5, -0.5], [-0.5, 0.0]),
    "limit": ([1.0, 0.0], [0.1, -0.2]),
    "none": ([1.0, 0.0], [1.2, 1.4]),
}
RUNS = {"known": (200, 600), "learnt": (100, 600), "0/1": (40, 1000)}  # trials, horizon


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("fixed", FIXED)
def test_evidence_is_rarely_wrong_whatever_the_truth(name, fixed):
    problem, (reward, cost), (trials, horizon) = PROBLEMS[name], FIXED[fixed], RUNS[name]
    given = {"reward_noise": 1.0, "cost_noise": 1.0} if name == "learnt" else {}
    truth = bf.Instance(problem, reward, [cost], **given)
    stopped, wrong = count_wrong([truth] * trials, bf.Stop(delta=0.05), horizon)
    print(f"{name}, {fixed}: {wrong} wrong of {trials} trials, {stopped} stopped")
    assert stopped > trials / 4
    assert not too_many(wrong, trials, 0.05)


def test_at_a_near_tie_peeking_is_wrong_too_often_and_evidence_is_not():
    problem = bf.Problem({"a": [1.0, 0.0], "b": [0.0, 1.0]}, {"harm": 9.0})
    truth, stop = bf.Instance(problem, [0.02, 0.0], [[0.0, 0.0]]), bf.Stop(delta=0.05)
    found = {}
    for kind in (Until, Peeking):
        _, found[kind] = count_wrong([truth] * 400, stop, 150, kind, bf.Uniform)
        print(f"{kind.__name__}: {found[kind]} wrong of 400")
    assert not too_many(found[Until], 400, 0.05)
    assert too_many(found[Peeking], 400, 0.05)


def test_forecasts_are_calibrated():
    """What happens is one more draw of the forecast: its rank among them is uniform.

    240 forecasts, made after 15 pulls of truths from the prior; ties are broken at random. The
    interval itself covers more, for numbers of pulls tie, and many are beyond the horizon.
    """
    problem, stop, most = PROBLEMS["known"], bf.Stop(error=0.05), 200
    rng = np.random.default_rng(3)
    central = covered = low = hopeful = made = 0
    for seed, truth in enumerate(truths_of(problem, 1000, 9)):
        each = streams.split(np.random.SeedSequence(seed))
        environment = Environment(truth, each.rewards, each.costs)
        rule = bf.Descent(problem, seed=each.own)
        environment.play(rule, 15)
        if rule.done(stop):
            continue
        made += 1
        found = forecast(rule, stop, draws=39, most=most, seed=seed)
        until = Until(problem, stop, None, each.extra, 15)
        until.advance(rule, environment, most)
        pulls = np.inf if until.ending is None else until.ending.stopped - 15
        covered += found.low <= pulls <= found.high
        rank = np.sum(found.pulls < pulls) + rng.integers(np.sum(found.pulls == pulls) + 1)
        central += 4 <= rank < 36
        low += rank < 20
        hopeful += np.sum(found.pulls / 3 < pulls) < 20
        if made == 240:
            break
    print(f"of {made}: {central} in the middle 80 %, {low} below the median; {covered} covered")
    assert made == 240
    for count, share in ((central, 0.8), (low, 0.5)):
        assert binom.sf(count - 1, made, share) > FALSE_ALARM / 4
        assert binom.cdf(count, made, share) > FALSE_ALARM / 4
    assert binom.cdf(covered, made, 0.8) > FALSE_ALARM
    assert binom.cdf(hopeful, made, 0.5) < FALSE_ALARM / 4  # the control promises a third


def test_draws_of_the_truth_have_the_noise_that_goes_with_them():
    """Where noise is learnt: its law by itself, and that of the parameter over it."""
    from scipy.stats import invgamma, kstest, norm

    problem = PROBLEMS["learnt"]
    posterior = bf.Posterior(problem)
    posterior.update([0, 1, 2, 2], [0.4, 1.0, -0.3, 0.9], [0.1, 0.9, 0.2, -1.0])
    truths = draw_truths(posterior, 4000, np.random.default_rng(0))
    block = posterior.blocks[1]
    noise = np.array([one.noise[1] for one in truths])
    assert kstest(noise**2, invgamma(block.shape, scale=block.scale).cdf).pvalue > FALSE_ALARM
    first = np.array([one.theta_cost[0] for one in truths]) - block.mean
    white = np.linalg.solve(block.inner, first.T) / noise
    for row in white:
        assert kstest(row, norm.cdf).pvalue > FALSE_ALARM
    assert kstest(white[0] * noise, norm.cdf).pvalue < FALSE_ALARM
