"""The estimator `E[1/N]` of a union, and draws given it, against brute force on a few points."""

import math

import numpy as np
import pytest
from helpers import honest
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.alternative.certificate import error_bound
from bayes_feasible.alternative.probability import mean_share

RUNS, DRAWS, FALSE_ALARM = 400, 2000, 1e-6


class Cells:
    """Events as sets of the cells of a small probability space, where every sum is finite."""

    def __init__(self, seed, events=6, cells=40):
        rng = np.random.default_rng(seed)
        self.mass = rng.dirichlet(np.ones(cells))
        self.inside = rng.random((events, cells)) < 0.3
        self.count = self.inside.sum(axis=0)
        self.probability = self.inside @ self.mass
        mixture = self.mass * self.count / self.probability.sum()  # of the cells
        self.twice = float(mixture @ np.maximum(self.count - 1, 0))
        share = np.where(self.count > 0, 1 / np.maximum(self.count, 1), 0.0)
        self.exact = float(self.mass[self.count > 0].sum() / self.probability.sum())
        self.spread = math.sqrt(mixture @ (share - self.exact) ** 2)

    def scores(self, twice, *, miscount=0, error=1.0):
        """Errors over stated standard errors; a wrong count or error can be put in."""
        result = []
        for seed in range(RUNS):
            rng = np.random.default_rng([seed, 9])

            def count(events, rng=rng):
                drawn = np.empty(events.size, dtype=np.int64)
                for event in np.unique(events):
                    mine = events == event
                    weight = self.mass * self.inside[event]
                    cells = rng.choice(len(weight), mine.sum(), p=weight / weight.sum())
                    drawn[mine] = self.count[cells]
                return np.maximum(drawn - miscount, 1)

            logs = np.log(self.probability)
            found = mean_share(count, logs, rng, DRAWS, twice=self.twice if twice else None)
            result.append((found.value - self.exact) / (error * found.standard_error))
        return np.array(result)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_estimates_and_their_standard_errors_agree_with_brute_force(seed, twice):
    """400 runs each; a right one is called wrong once in a million."""
    assert honest(Cells(seed).scores(twice), FALSE_ALARM)


@pytest.mark.parametrize("twice", [False, True])
def test_a_wrong_estimate_or_error_is_noticed(twice):
    cells = Cells(0)
    assert not honest(cells.scores(twice, miscount=1), FALSE_ALARM)  # a triple taken for a pair
    for error in (0.75, 1.4):
        assert not honest(cells.scores(twice, error=error), FALSE_ALARM)


def test_the_error_bound_holds_and_is_reached():
    """The relative error of independent draws: worst where N is 1 or J, in the right shares."""
    for seed in range(50):
        cells = Cells(seed, events=3 + seed % 5)
        relative = cells.spread / cells.exact / math.sqrt(DRAWS)
        assert relative <= error_bound(len(cells.inside), DRAWS)
    for events in (2, 5, 20):
        share = np.linspace(0, 1, 100_001)
        mean = share + (1 - share) / events
        relative = np.sqrt(np.maximum(share + (1 - share) / events**2 - mean**2, 0) / DRAWS) / mean
        assert relative.max() == pytest.approx(error_bound(events, DRAWS), rel=1e-6)


def test_a_few_draws_follow_the_law_of_the_bulk():
    """They are made without the compiler; total false-alarm rate 1e-5."""
    instance = bf.instances.random_ball(3, 8, 2)
    arms = np.tile(np.arange(8), 4)
    posterior = bf.Posterior.from_history(instance.problem, arms, *instance.pull(arms, seed=1))
    alternative = bf.Alternative(instance.problem, instance.best)

    def drawn(seed, **options):
        rng = np.random.default_rng(seed)
        parameters, events, *_ = alternative.union.draw(posterior, 20_000, rng, **options)
        assert alternative.contains(parameters[:, 0], parameters[:, 1:]).all()
        return parameters.reshape(len(parameters), -1), events, parameters

    few, bulk, wide = drawn(1, few=True), drawn(2), drawn(3, few=True, scale=1.2)

    def p_values(one, other):
        best = [
            np.bincount(1 + instance.problem.best_under(each[2]), minlength=9)
            for each in (one, other)
        ]
        events = [np.bincount(each[1], minlength=len(alternative.events)) for each in (one, other)]
        tables = [np.array(table) for table in (best, events)]
        return [
            *(stats.ks_2samp(a, b).pvalue for a, b in zip(one[0].T, other[0].T, strict=True)),
            *(stats.chi2_contingency(t[:, t.sum(axis=0) >= 10]).pvalue for t in tables),
        ]

    same = p_values(few, bulk)
    assert min(same) > 1e-5 / len(same) > min(p_values(wide, bulk))
