"""The compiled posterior of other outcomes against `Posterior`, whose code it does not share."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from rule_cases import INSTANCES, environment
from scipy import stats
from test_engine import draw_many

import bayes_feasible as bf
from bayes_feasible.rules import draws as drawing
from bayes_feasible.rules.engine import REFRESH

NAN = float("nan")
FALSE_ALARM = 1e-6  # of each comparison of laws


@njit
def draw_all(geometry, state, work, rng, draws):
    """Deviations of posterior draws from the means, over the noise."""
    for i in range(len(draws)):
        drawing.draw_posterior(geometry, state, work, rng)
        draws[i] = work.draw


def assert_state(rule, tolerance=1e-6):
    """What the rule keeps is the posterior: centre, spread and noise of every half-space."""
    state, geometry, basis = rule._state, rule._geometry, rule.problem.basis
    posterior = rule.posterior
    candidates = len(geometry.candidates)
    for b, column in enumerate(geometry.columns):
        block = posterior.blocks[column]
        rows = slice(geometry.place[b] * candidates, (geometry.place[b] + 1) * candidates)
        vectors = geometry.vectors[rows] @ basis.T
        spread = np.linalg.norm(vectors @ block.root, axis=1)
        found = state.noise[b] * np.sqrt(state.variances[rows])
        assert_allclose(found, spread, rtol=tolerance, atol=tolerance)
        off = np.abs(state.candidate_means[b] - vectors @ block.mean)
        assert np.all(off <= tolerance * (1 + spread))
        assert state.freedom[b] == pytest.approx(getattr(block, "freedom", 0.0), abs=1e-9)


def told(name, pulls, seed=3):
    """A rule after pulls of its own, and pulls that nobody asked for."""
    instance = INSTANCES[name]
    rule, world = bf.BLFAIPS(instance, seed=seed, eta=1.0), environment(instance)
    world.play(rule, pulls)
    return rule


@pytest.mark.parametrize("name", ["mixed", "learnt"])
@pytest.mark.parametrize("pulls", [0, 1, 7, 300, REFRESH - 1, REFRESH + 50])
def test_state_is_the_posterior(name, pulls):
    assert_state(told(name, pulls))


@pytest.mark.parametrize("name", ["m=3", "mixed"])
def test_missing_and_summed_pulls(name):
    rule = told(name, 40)
    constraints = rule.problem.thresholds.size
    some = [0.0] * (constraints - 1)
    sd = [NAN] * (1 + constraints)
    if name == "mixed":
        sd[1] = 0.4
    rule.tell(1, 1.0, [NAN, *some])
    rule.tell([0, 2], [3.0, NAN], [[0.5, *some]] * 2, [6, 4], sd=sd)
    assert_state(rule)
    rule.tell(1, NAN, [0.7] + [NAN] * (constraints - 1))  # seen later
    assert_state(rule)
    before = rule.posterior.pulls
    rule.tell(rule.ask(), 0.0, [0.1, *some])  # one by one again
    assert rule.posterior.pulls == before + 1
    assert_state(rule)


def test_what_is_told_late_in_any_order_is_the_same():
    rules = [bf.Uniform(INSTANCES["mixed"].problem, seed=0) for _ in range(3)]
    rules[0].tell([0, 1], [1.0, 0.0], [[0.3, 1, 2, 0.5], [0.1, 0, 0, 0.4]])
    for rule, order in zip(rules[1:], ((0, 1, 2), (2, 0, 1)), strict=True):
        parts = [
            ([0, 1], [1.0, NAN], [[0.3, NAN, NAN, NAN], [NAN, 0, 0, NAN]]),
            (0, NAN, [NAN, 1, 2, 0.5]),
            (1, 0.0, [0.1, NAN, NAN, 0.4]),
        ]
        for part in order:
            rule.tell(*parts[part])
        assert_array_equal(rule.posterior.counts, [1, 1, 0, 0])
        assert_allclose(rule._state.candidate_means[0], rules[0]._state.candidate_means[0])
        assert_state(rule)


@pytest.mark.parametrize("block", [0, 1])
def test_draws_of_learnt_noise_are_students(block):
    rule = told("learnt", 0)
    state, geometry = rule._state, rule._geometry
    draws = np.empty((20_000, *rule._work.draw.shape))
    draw_all(geometry, state, rule._work, np.random.default_rng(4), draws)
    row = geometry.place[block] * len(geometry.candidates) + 2
    seen = draws[:, block] @ geometry.vectors[row] / np.sqrt(state.variances[row])
    law = stats.t(state.freedom[block])
    assert stats.kstest(seen, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(seen, "norm").pvalue < FALSE_ALARM


def test_draws_given_the_alternative_are_those_of_the_exact_sampler():
    """The rules' tails of Student's law are nearly exact; a normal law's are told from them."""
    rule = told("learnt", 30)
    state, geometry, posterior = rule._state, rule._geometry, rule.posterior
    leader = posterior.best()
    rows = [geometry.place[b] * len(geometry.candidates) + leader for b in range(2)]
    exact = bf.Alternative(rule.problem, leader).sample(posterior, 4000, seed=1)
    wanted = [
        exact.theta_reward.values[0] @ rule.problem.candidates[leader],
        exact.theta_cost.values[0, :, 0] @ rule.problem.candidates[leader],
    ]

    def found(state):
        draws, events = np.empty((4000, *rule._work.draw.shape)), np.empty(4000, dtype=np.int64)
        rng = np.random.default_rng(5)
        draw_many(geometry, state, rule._work, rng, leader, 1.0, draws, events)
        return [
            state.candidate_means[b, leader]
            + state.noise[b] * draws[:, b] @ geometry.vectors[rows[b]]
            for b in range(2)
        ]

    def smallest(state):
        pairs = zip(wanted, found(state), strict=True)
        return min(stats.ks_2samp(*pair).pvalue for pair in pairs)

    assert smallest(state) > FALSE_ALARM
    assert smallest(state._replace(noise=1.3 * state.noise)) < FALSE_ALARM


@pytest.mark.parametrize("name", ["mixed", "learnt"])
def test_rules_learn_which_candidate_is_best(name):
    """After 6000 pulls they are nearly sure of the truth; the recommendation is right."""
    instance = INSTANCES[name]
    for make in (bf.BLFAIPS, bf.BestResponse, bf.TopTwo, bf.PlugIn):
        rule, world = make(instance, seed=1), environment(instance)
        world.play(rule, 6000)
        choice = rule.recommend()
        assert choice.candidate == instance.best
        assert choice.log_error < np.log(0.2)


@pytest.mark.parametrize("name", ["mixed", "learnt"])
def test_simulations_of_other_outcomes(name):
    instance = INSTANCES[name]
    rules = {"BLFAIPS": bf.BLFAIPS, "PlugIn": bf.PlugIn}
    study = bf.simulate(instance, rules, 400, 3, [100, 400], seed=2, executor=False)
    assert np.isfinite(study.log_error).all()
    assert (study.log_error.mean(["rule", "replicate"]).diff("time") < 0).all()
    assert ((study.efficiency > 0) & (study.efficiency <= 1 + 1e-6)).all()
