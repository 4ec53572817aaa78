"""Simulation-based calibration: right samplers pass, samplers made wrong on purpose fail."""

import re
from functools import partial

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from helpers import RULES
from pytensor.link.numba.linker import NumbaLinker
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.analysis.calibration import (
    calibration,
    prior_predictive,
    quantities,
    reliability,
    uniformity,
)
from bayes_feasible.analysis.samplers import sample

FALSE_ALARM = 1e-4  # with which a right sampler fails a test of this file
REPLICATIONS = 300
ARMS = np.arange(9) % 3


def problem(**options):
    return bf.Problem(
        {"a": [1.0, 0.2], "b": [0.3, 0.9], "c": [-0.5, 0.8]}, {"dose": 0.4}, **options
    )


def ranks(sampler="exact", seed=0, **options):
    return calibration.alternative_ranks(
        problem(**options), 0, ARMS, sampler, replications=REPLICATIONS, seed=seed
    )


def verdict(sampler, **options):
    return calibration.judge(ranks(sampler, **options), FALSE_ALARM)


@pytest.fixture(scope="module")
def exact_ranks():
    return ranks()


def test_uniform_ranks_leave_the_band_as_often_as_it_says():
    band = uniformity.band(150, 49, 0.1)
    drawn = np.random.default_rng(1).integers(0, 50, (20_000, 150))

    counts = uniformity.counts_at(drawn.T, band.ranks)
    low, high = stats.binom.interval(1 - FALSE_ALARM, len(drawn), 1 - band.probability)

    def leave_as_often_as_it_says(lower, upper):
        return low <= np.any((counts < lower) | (counts > upper), axis=1).sum() <= high

    assert leave_as_often_as_it_says(band.lower, band.upper)
    assert 0.07 < 1 - band.probability <= 0.1
    # the control: a band that is narrower by one rank on one side says too little
    assert not leave_as_often_as_it_says(band.lower, band.upper - 1)


EVEN = np.linspace(0.0005, 0.9995, 1000)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (EVEN**1.5, "too large"),
        (EVEN**0.67, "too small"),
        (stats.norm.cdf(0.7 * stats.norm.ppf(EVEN)), "too wide"),
        (stats.norm.cdf(1.5 * stats.norm.ppf(EVEN)), "too narrow"),
    ],
)
def test_the_shape_of_the_ranks_is_put_in_words(shares, said):
    band = uniformity.band(1000, 99, FALSE_ALARM)
    counts = uniformity.counts_at((100 * shares).astype(int)[:, np.newaxis], band.ranks)[0]
    assert said in uniformity.shape(counts, band)


def test_the_exact_sampler_is_calibrated(exact_ranks):
    found = calibration.judge(exact_ranks, FALSE_ALARM)
    assert found, str(found)
    assert found.tests == 4 + 6 + 1 + 3
    assert "calibrated: 14 quantities" in str(found)


def beyond_the_bounds(posterior, alternative, draws, seed):
    """As if the parameters were not bounded."""
    free = problem()
    sums = posterior.counts, posterior.reward_sums, posterior.cost_sums
    return bf.Alternative(free, alternative.candidate).sample(
        bf.Posterior.from_sums(free, *sums), draws, seed=seed
    )


@pytest.mark.slow
def test_the_exact_sampler_is_calibrated_within_a_bounded_parameter_set():
    found = verdict("exact", parameter_radius=0.8)
    assert found, str(found)
    # the control: draws that ignore the bounds lie too far out, not only outside
    wrong = verdict(beyond_the_bounds, parameter_radius=0.8)
    assert "draws are too small" in wrong.reasons["posterior density"]
    assert "lie outside" in wrong.reasons["alternative set"]


def within_the_band(found):
    curves = calibration.distribution(found, FALSE_ALARM)
    return bool(((curves.difference >= curves.lower) & (curves.difference <= curves.upper)).all())


def scaled(posterior, alternative, draws, seed, scale=1.5):
    return alternative.sample(posterior, draws, seed=seed, scale=scale)


def shifted(posterior, alternative, draws, seed):
    drawn = alternative.sample(posterior, draws, seed=seed)
    return drawn.assign(theta_reward=drawn.theta_reward + 0.15)


def dropped(posterior, alternative, draws, seed):
    """Never in the alternative's last event alone."""
    drawn = alternative.sample(posterior, 20 * draws, seed=seed)
    kept = np.flatnonzero(drawn.event.values[0] != len(alternative.events) - 1)
    return drawn.isel(draw=kept[:draws]) if kept.size >= draws else drawn


def unrestricted(posterior, alternative, draws, seed):
    return posterior.sample(draws, seed)


@pytest.mark.parametrize(
    ("wrong", "quantity", "reason"),
    [
        (scaled, "posterior density", "draws are too small"),
        (shifted, "theta_reward[0]", "draws are too large"),
        (dropped, "c better", "in this event too seldom"),
        (unrestricted, "alternative set", "lie outside"),
    ],
)
def test_a_sampler_made_wrong_is_told_so(wrong, quantity, reason):
    found = ranks(wrong)
    judged = calibration.judge(found, FALSE_ALARM)
    assert not judged
    assert reason in judged.reasons[quantity]
    assert str(judged).startswith("NOT calibrated")
    # the control of curves and picture: they leave the band where ranks are to blame
    assert within_the_band(found) == judged.reasons.keys().isdisjoint(found.quantity.values)
    assert calibration.figure(found).axes[0].get_title(loc="left") == "not calibrated"


def test_ranks_have_labels_a_table_and_a_picture(exact_ranks):
    found = exact_ranks
    assert found["rank"].dims == ("replication", "quantity")
    assert 0 <= int(found["rank"].min()) <= int(found["rank"].max()) <= 99
    assert within_the_band(found)
    axes = calibration.figure(found).axes[0]
    assert axes.get_title(loc="left") == "calibrated"
    assert len(axes.lines) == found.sizes["quantity"]
    assert found["true_event"].dims == ("replication", "event")
    assert list(found.event.values) == bf.Alternative(problem(), 0).events.names


def test_ties_are_broken_evenly():
    rng = np.random.default_rng(3)
    draws = np.zeros((9, 1))
    found = np.array([quantities.ranks_below(np.zeros(1), draws, rng)[0] for _ in range(5000)])

    def p_value(found):
        return stats.chisquare(np.bincount(found, minlength=10)).pvalue

    assert p_value(found) > FALSE_ALARM
    # the control: one tie in ten taken for a draw above the truth
    assert p_value(np.where(rng.random(5000) < 0.1, 0, found)) < FALSE_ALARM


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        ("guess", {}, "sampler: expected one of exact"),
        ("exact", {"softness": 0.1}, "softness: exact has no such option"),
        (scaled, {"softness": 0.1}, "softness: only a sampler given by its name"),
        (lambda p, a, n, s: a.sample(p, 5, seed=s), {}, "expected at least 99 draws, got 5"),
    ],
)
def test_bad_input_is_named(sampler, options, message):
    with pytest.raises(ValueError, match=message):
        calibration.alternative_ranks(problem(), 0, ARMS, sampler, replications=1, **options)
    with pytest.raises(ValueError, match="name: expected one of linear_gaussian"):
        calibration.model_ranks("poisson", problem(), ARMS)


def test_the_interval_of_coins_is_binomial_where_they_are_alike():
    for number, chance in ((40, 0.3), (200, 0.01), (700, 0.6)):
        low, high = uniformity.coin_interval(np.full(number, chance), 0.01)
        law = stats.binom(number, chance)
        assert law.cdf(low - 1) <= 0.01 < law.cdf(low)
        assert law.sf(high) <= 0.01 < law.sf(high - 1)


def probability(posterior, alternative):
    """Of error, known far better than the frequencies it is held against."""
    return float(np.exp(alternative.log_probability(posterior, draws=300).value))


def test_stated_probabilities_of_error_are_the_observed_ones():
    table = reliability.reliability(
        problem(), ARMS, probability, experiments=2500, seed=4, false_alarm=FALSE_ALARM
    )
    assert table.attrs["calibrated"] == 1
    assert int(table.experiments.sum()) + table.attrs["left_out"] == 2500
    assert bool((table.lower <= table.stated).all())
    assert bool((table.stated <= table.upper).all())
    assert reliability.reliability_table(table).splitlines()[-1] == "calibrated"


def test_probabilities_stated_too_low_are_found_out():
    table = reliability.reliability(
        problem(), ARMS, lambda p, a: 0.6 * probability(p, a), experiments=1500, seed=5,
        false_alarm=FALSE_ALARM,
    )  # fmt: skip
    assert table.attrs["calibrated"] == 0
    assert "NOT calibrated" in reliability.reliability_table(table)
    assert "NO\n" in reliability.reliability_table(table)  # a bin that is outside says so


# --- rules ---

PULLS = 12
EVERY_RULE = RULES | {
    "Uniform": bf.Uniform,
    "PEPS": bf.PEPS,
    "PEPS, known horizon": partial(bf.PEPS, horizon=PULLS),
}


class Credulous(bf.LinearThompson):
    """Counts every pull twice."""

    times = 2

    def tell(self, arm, reward, cost=None):
        for _ in range(self.times):
            super().tell(arm, reward, cost)


class MoreCredulous(Credulous):
    times = 4


class Hopeful(bf.LinearThompson):
    """Looks away from what disappoints."""

    def tell(self, arm, reward, cost=None):
        if reward > 0:
            super().tell(arm, reward, cost)


def rule_verdict(rule, without_constraints=False):
    own = bf.Problem(problem().arms) if without_constraints else problem()
    found = calibration.rule_ranks(own, rule, PULLS, replications=150, draws=49)
    return calibration.judge(found, FALSE_ALARM)


@pytest.mark.parametrize("name", EVERY_RULE)
def test_the_posterior_of_a_rule_is_calibrated_whatever_it_pulls(name):
    judged = rule_verdict(EVERY_RULE[name], without_constraints=name.startswith("PEPS"))
    assert judged, str(judged)


@pytest.mark.parametrize(
    ("rule", "quantity", "reason"),
    [
        (Credulous, "posterior density", "draws are too large"),
        (Hopeful, "reward of a", "draws are too large"),
    ],
)
def test_the_posterior_of_a_rule_that_takes_in_what_it_likes_is_not(rule, quantity, reason):
    assert reason in rule_verdict(rule).reasons[quantity]


class Listening:
    """A rule whose recommendations are kept."""

    def __init__(self, rule):
        self.rule, self.answers = rule, []

    def __call__(self, problem, seed):
        made = self.rule(problem, seed=seed)
        recommend = made.recommend
        made.recommend = lambda: self.answers.append(recommend()) or self.answers[-1]
        return made


def stated_and_observed(rule, experiments):
    """In two bins, so that few experiments tell a lot."""
    return reliability.rule_reliability(
        problem(), rule, PULLS, experiments=experiments, edges=(0.0, 0.3, 1.0), seed=7,
        false_alarm=FALSE_ALARM,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("recommendation", "experiments"),
    [
        ("draw", 300),
        *(
            pytest.param(method, 1000, marks=pytest.mark.slow)
            for method in ("draw", "mean", "probable")
        ),
    ],
)
def test_a_rule_is_wrong_as_often_as_it_says(recommendation, experiments):
    rule = Listening(partial(bf.BLFAIPS, recommendation=recommendation))
    table = stated_and_observed(rule, experiments)
    assert table.attrs["calibrated"] == 1
    assert int(table.experiments.sum()) == len(rule.answers) == experiments
    assert {answer.candidate for answer in rule.answers} == {None, 0, 1, 2}


@pytest.mark.parametrize(
    ("rule", "experiments"),
    [(MoreCredulous, 300), pytest.param(Credulous, 1000, marks=pytest.mark.slow)],
)
def test_a_rule_that_is_too_sure_is_found_out(rule, experiments):
    """The control."""
    assert stated_and_observed(rule, experiments).attrs["calibrated"] == 0


class Silent(bf.Uniform):
    """Does not say how sure it is."""

    def recommend(self):
        return 1


class Endless(bf.Uniform):
    """Asks for an arm that is not there."""

    def ask(self, n=None):
        return 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": Silent}, "rule: recommend() gives 1, without a log_error"),
        ({"rule": Endless}, "ask(): 3 is out of range, there are 3 arms"),
        ({"rule": bf.Oracle}, "problem: Oracle needs an Instance"),
        ({"rule": "BLFAIPS"}, "rule: expected a class or a function of (problem, seed), got 'BLF"),
        ({"rule": lambda problem, seed: seed}, "rule: gives a int without ask"),
        ({"problem": "drug"}, "problem: expected a Problem, got 'drug'"),
        ({"pulls": 0}, "pulls: expected at least 1, got 0"),
        ({"experiments": 1.5}, "experiments: expected a whole number, got 1.5"),
    ],
)
def test_what_cannot_be_judged_is_named(change, message):
    fine = {"problem": problem(), "rule": bf.Uniform, "pulls": PULLS, "experiments": 1}
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        reliability.rule_reliability(**(fine | change))


def test_a_rule_that_keeps_its_posterior_to_itself_is_named():
    class Closed:
        def __init__(self, problem, seed):
            self.ask, self.tell = (lambda: 0), (lambda arm, reward, cost: None)

    with pytest.raises(ValueError, match="rule: gives a Closed without posterior"):
        calibration.rule_ranks(problem(), Closed, PULLS)


# --- samplers ---

# Every sampler there is, where the alternative set is one piece that is not rare. NUTS on the hard
# form passes there, as theory says of its stationary law: a trajectory that hits the wall ends, and
# the next state is taken from what it had before, whichever state of it was the start. Theory does
# not say that it gets anywhere: where the set is rare or in pieces, the scoreboard condemns it.
LEAKS = ("nutpie_smooth", "nuts_smooth")


def few_ranks(sampler):
    return calibration.alternative_ranks(problem(), 0, ARMS, sampler, replications=60, draws=49)


@pytest.mark.slow
@pytest.mark.parametrize("name", sample.SAMPLERS)
def test_every_sampler_is_calibrated_where_the_set_is_one_piece(name):
    found = few_ranks(name)
    judged = calibration.judge(found, FALSE_ALARM)
    reasons = dict(judged.reasons)
    if name in LEAKS:
        assert "of the draws lie outside" in reasons.pop("alternative set")
        assert 0 < float(found.outside.mean()) < 0.02
    assert not reasons, str(judged)


@pytest.mark.parametrize(
    ("wrong", "quantity"),
    [
        (partial(scaled, scale=3.0), "posterior density"),
        (shifted, "reward of a"),
        (unrestricted, "alternative set"),
    ],
)
def test_so_few_ranks_tell_a_sampler_made_wrong(wrong, quantity):
    """The control of the test above, which has fewer replications than those before it."""
    assert quantity in calibration.judge(few_ranks(wrong), FALSE_ALARM).reasons


@pytest.mark.slow
def test_a_set_that_is_blurred_too_much_lets_many_draws_out():
    """Ranks do not tell: the set holds most of the posterior, from which it hardly differs."""
    found = calibration.alternative_ranks(
        problem(), 0, ARMS, "nuts_smooth", replications=20, draws=49, softness=1.0
    )
    judged = calibration.judge(found, FALSE_ALARM)
    assert "of the draws lie outside" in judged.reasons["alternative set"]
    assert float(found.outside.mean()) > 0.1  # at most 0.02 of a set that is blurred a little


@pytest.mark.slow
def test_many_short_runs_leave_nothing_in_the_memory():
    """Compiled code is never freed, so nothing may be compiled anew for a run."""
    for name in ("smc_graded", "exact_step", "slice"):
        run = quantities.named_sampler(name)
        posterior = bf.Posterior.from_history(problem(), ARMS, np.zeros(9), np.zeros((9, 1)))
        alternative = bf.Alternative(problem(), 0)
        for seed in range(2):  # the first makes the model, the second is the first to swap its data
            run(posterior, alternative, 49, seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NumbaLinker, "fgraph_convert", lambda *_, **__: pytest.fail("compiled"))
            run(posterior, alternative, 49, 2)


def model_verdict(name, sampler=None):
    found = calibration.model_ranks(name, problem(), ARMS, sampler, replications=100, draws=49)
    return calibration.judge(found, FALSE_ALARM)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(calibration.NOISE))
def test_models_are_calibrated(name):
    judged = model_verdict(name)
    assert judged, str(judged)


def from_the_prior(model, draws, seed):
    """As if there were no pulls; the scales, where they are learnt, are those of the prior too."""
    drawn = bf.Posterior(problem()).sample(draws, seed)
    scales = np.sqrt(4 / np.random.default_rng(seed).chisquare(4, (2, draws)))
    reward, cost = xr.DataArray(scales[:, np.newaxis], dims=("block", "chain", "draw"))
    return drawn.assign(
        theta_reward=drawn.theta_reward * (reward if "reward_scale" in model.named_vars else 1),
        theta_cost=drawn.theta_cost * (cost if "cost_scale" in model.named_vars else 1),
        reward_scale=reward,
        cost_scale=cost.expand_dims("constraint", -1),
    )


@pytest.mark.parametrize("name", list(calibration.NOISE))
def test_draws_that_ignore_the_pulls_fail_by_the_likelihood_alone(name):
    """The control: the truth is from the prior as well, so all other ranks are uniform."""
    reasons = model_verdict(name, from_the_prior).reasons
    assert list(reasons) == ["likelihood"]
    assert "draws are too small" in reasons["likelihood"]


def test_the_likelihood_of_the_ranks_is_that_of_scipy():
    rng = np.random.default_rng(6)
    drawn, scales = rng.standard_normal((5, 2, 2)), rng.uniform(0.5, 2.0, (5, 2))
    shown = rng.standard_normal((9, 2))
    means, spread = problem().arms[ARMS] @ drawn.mT, scales[:, np.newaxis]
    heavy = stats.t.logpdf(shown, prior_predictive.DEGREES, means, spread)
    coins = stats.bernoulli.logpmf(shown > 0, stats.logistic.cdf(means))
    for noise, seen, expected in (
        ("gaussian", shown, stats.norm.logpdf(shown, means, spread)),
        ("student_t", shown, heavy),
        ("logistic", shown > 0, coins),
    ):
        history = bf.History(problem(), ARMS, seen[:, 0], seen[:, 1:])
        found = prior_predictive.log_likelihood(history, drawn, noise, scales)
        np.testing.assert_allclose(np.diff(found), np.diff(expected.sum(axis=(1, 2))), rtol=1e-10)
    np.testing.assert_allclose(found, coins.sum(axis=(1, 2)), rtol=1e-10)  # of no unknown constant


@pytest.mark.slow
def test_a_model_with_the_wrong_noise_fails():
    """Data of Student's t, seen through the Gaussian model."""
    wrong = {**calibration.NOISE, "linear_gaussian": "student_t"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "NOISE", wrong)
        found = calibration.model_ranks(
            "linear_gaussian", problem(), np.arange(60) % 3, replications=400, draws=49
        )
    reasons = calibration.judge(found, FALSE_ALARM).reasons
    # Which of the ten quantities fail is chance; of six seeds each had seven to nine too narrow.
    assert sum("too narrow" in reason for reason in reasons.values()) >= 5, reasons


def simuk_verdict():
    """Interpreted, for each replication would be compiled; so many pulls that they tell a lot."""
    from bayes_feasible import models
    from bayes_feasible.models._interpreted import INTERPRETED

    arms = np.arange(300) % 3
    history = bf.History(problem(), arms, np.zeros(arms.size), np.zeros((arms.size, 1)))
    found = calibration.simuk_ranks(
        models.linear_gaussian(history.posterior()), 25, draws=19, seed=1, tune=60, chains=1,
        cores=1, compile_kwargs={"mode": INTERPRETED},
    )  # fmt: skip
    assert found.sizes == {"replication": 25, "quantity": 4}
    return calibration.judge(found, FALSE_ALARM)


@pytest.mark.slow
def test_simuk_agrees():
    """That simuk and the models fit together."""
    judged = simuk_verdict()
    assert judged, str(judged)


@pytest.mark.slow
def test_simuk_notices_data_that_do_not_arrive(monkeypatch):
    """The control: every replication is sampled given what the model was made with."""
    observe = pm.observe

    def forgetful(model, vars_to_observations):
        return observe(model, {name: 0.0 * v for name, v in vars_to_observations.items()})

    monkeypatch.setattr(pm, "observe", forgetful)
    judged = simuk_verdict()
    assert len(judged.reasons) == judged.tests == 4
    assert "too narrow" in judged.reasons["theta_reward[0]"]


def test_simuk_refuses_data_that_enter_by_potentials_and_runs_that_broke_off(monkeypatch):
    import simuk

    from bayes_feasible import models

    history = bf.History(problem(), ARMS, np.zeros(9), np.zeros((9, 1)))
    with pytest.raises(ValueError, match="model: its potentials"):
        calibration.simuk_ranks(models.unknown_noise(history), 2)
    # One that breaks off is not judged by what it has.
    monkeypatch.setattr(simuk.SBC, "run_simulations", lambda self: None)
    with pytest.raises(RuntimeError, match="simuk: broke off after 0 of 2 replications"):
        calibration.simuk_ranks(models.linear_gaussian(history.posterior()), 2)
