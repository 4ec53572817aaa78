"""Simulation-based calibration: right samplers pass, samplers made wrong on purpose fail."""

import numpy as np
import pytest
from pytensor.link.numba.linker import NumbaLinker
from scipy import stats

import bayes_feasible as bf
from bayes_feasible.analysis import calibration, reliability, samplers, uniformity

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
    return ranks("exact")


def test_uniform_ranks_leave_the_band_as_often_as_it_says():
    band = uniformity.band(150, 49, 0.1)
    drawn = np.random.default_rng(1).integers(0, 50, (20_000, 150))
    counts = np.array([uniformity.counts_at(row[:, np.newaxis], band.ranks)[0] for row in drawn])
    left = np.any((counts < band.lower) | (counts > band.upper), axis=1).sum()
    low, high = stats.binom.interval(1 - FALSE_ALARM, 20_000, 1 - band.probability)
    assert low <= left <= high
    assert 0.07 < 1 - band.probability <= 0.1


@pytest.mark.parametrize(
    ("power", "said"),
    [(1.5, "too large"), (0.67, "too small")],
)
def test_the_shape_of_the_ranks_is_put_in_words(power, said):
    band = uniformity.band(1000, 99, FALSE_ALARM)
    shares = np.random.default_rng(2).random(1000) ** power
    counts = uniformity.counts_at((100 * shares).astype(int)[:, np.newaxis], band.ranks)[0]
    assert said in uniformity.shape(counts, band)
    for scale, word in ((0.7, "wide"), (1.5, "narrow")):
        shares = stats.norm.cdf(scale * stats.norm.ppf(np.linspace(0.0005, 0.9995, 1000)))
        counts = uniformity.counts_at((100 * shares).astype(int)[:, np.newaxis], band.ranks)[0]
        assert word in uniformity.shape(counts, band)


def test_the_exact_sampler_is_calibrated(exact_ranks):
    found = calibration.judge(exact_ranks, FALSE_ALARM)
    assert found, str(found)
    assert found.tests == 4 + 6 + 1 + 3
    assert "calibrated: 14 quantities" in str(found)


def test_the_exact_sampler_is_calibrated_within_a_bounded_parameter_set():
    found = verdict("exact", parameter_radius=1.5)
    assert found, str(found)


def scaled(posterior, alternative, draws, seed):
    return alternative.sample(posterior, draws, seed=seed, scale=1.5)


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
    found = verdict(wrong)
    assert not found
    assert reason in found.reasons[quantity]
    assert str(found).startswith("NOT calibrated")


def test_ranks_have_labels_a_table_and_a_picture(exact_ranks):
    found = exact_ranks
    assert found["rank"].dims == ("replication", "quantity")
    assert 0 <= int(found["rank"].min()) <= int(found["rank"].max()) <= 99
    curves = calibration.distribution(found, FALSE_ALARM)
    assert bool(((curves.difference >= curves.lower) & (curves.difference <= curves.upper)).all())
    axes = calibration.figure(found).axes[0]
    assert axes.get_title(loc="left") == "calibrated"
    assert len(axes.lines) == found.sizes["quantity"]
    assert found["true_event"].dims == ("replication", "event")
    assert list(found.event.values) == bf.Alternative(problem(), 0).events


def test_ties_are_broken_evenly():
    rng = np.random.default_rng(3)
    draws = np.zeros((9, 1))
    found = [calibration._ranks(np.zeros(1), draws, rng)[0] for _ in range(5000)]
    counts = np.bincount(found, minlength=10)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="sampler: expected one of exact"):
        calibration.alternative_ranks(problem(), 0, ARMS, "guess", replications=1)
    with pytest.raises(ValueError, match="softness: exact has no such option"):
        calibration.alternative_ranks(problem(), 0, ARMS, replications=1, softness=0.1)
    with pytest.raises(ValueError, match="softness: only a sampler given by its name has options"):
        calibration.alternative_ranks(problem(), 0, ARMS, scaled, replications=1, softness=0.1)
    with pytest.raises(ValueError, match="name: expected one of linear_gaussian"):
        calibration.model_ranks("poisson", problem(), ARMS)
    with pytest.raises(ValueError, match="sampler: expected at least 99 draws, got 5"):
        calibration.alternative_ranks(
            problem(), 0, ARMS, lambda p, a, n, s: a.sample(p, 5, seed=s), replications=1
        )


def test_the_interval_of_coins_is_binomial_where_they_are_alike():
    for number, chance in ((40, 0.3), (200, 0.01), (700, 0.6)):
        low, high = uniformity.coin_interval(np.full(number, chance), 0.01)
        law = stats.binom(number, chance)
        assert law.cdf(low - 1) <= 0.01 < law.cdf(low)
        assert law.sf(high) <= 0.01 < law.sf(high - 1)


@pytest.fixture(scope="module")
def experiments():
    """Stated probabilities and outcomes, once for all; each test states its own."""
    stated = []

    def exact(posterior, alternative):
        stated.append(float(np.exp(alternative.log_probability(posterior).value)))
        return stated[-1]

    table = reliability.reliability(
        problem(), ARMS, exact, experiments=2500, seed=4, false_alarm=FALSE_ALARM
    )
    return table, stated


def test_stated_probabilities_of_error_are_the_observed_ones(experiments):
    table, stated = experiments
    assert table.attrs["calibrated"] == 1
    assert int(table.experiments.sum()) + table.attrs["left_out"] == 2500
    assert int(table.experiments.sum()) == len(stated)
    assert bool((table.lower <= table.stated).all())
    assert bool((table.stated <= table.upper).all())
    assert "calibrated" in reliability.reliability_table(table)


def test_probabilities_stated_too_low_are_found_out():
    def hopeful(posterior, alternative):
        return 0.6 * float(np.exp(alternative.log_probability(posterior).value))

    table = reliability.reliability(
        problem(), ARMS, hopeful, experiments=1500, seed=5, false_alarm=FALSE_ALARM
    )
    assert table.attrs["calibrated"] == 0
    assert "NOT calibrated" in reliability.reliability_table(table)


# Every sampler there is, where the alternative set is one piece that is not rare. NUTS on the hard
# form passes there, as theory says of its stationary law: a trajectory that hits the wall ends, and
# the next state is taken from what it had before, whichever state of it was the start. Theory does
# not say that it gets anywhere: where the set is rare or in pieces, the scoreboard condemns it.
LEAKS = ("nutpie_smooth", "nuts_smooth")


@pytest.mark.slow
@pytest.mark.parametrize("name", samplers.SAMPLERS)
def test_every_sampler_is_calibrated_where_the_set_is_one_piece(name):
    found = calibration.alternative_ranks(problem(), 0, ARMS, name, replications=60, draws=49)
    judged = calibration.judge(found, FALSE_ALARM)
    reasons = dict(judged.reasons)
    if name in LEAKS:
        assert "of the draws lie outside" in reasons.pop("alternative set")
        assert 0 < float(found.outside.mean()) < 0.02
    assert not reasons, str(judged)


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
        run = calibration._sampler(name)
        posterior = bf.Posterior.from_history(problem(), ARMS, np.zeros(9), np.zeros((9, 1)))
        alternative = bf.Alternative(problem(), 0)
        for seed in range(2):  # the first makes the model, the second is the first to swap its data
            run(posterior, alternative, 49, seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NumbaLinker, "fgraph_convert", lambda *_, **__: pytest.fail("compiled"))
            run(posterior, alternative, 49, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(calibration.NOISE))
def test_models_are_calibrated(name):
    found = calibration.model_ranks(name, problem(), ARMS, replications=100, draws=49)
    judged = calibration.judge(found, FALSE_ALARM)
    assert judged, str(judged)


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
    assert "too narrow" in reasons["reward of b"]


@pytest.mark.slow
def test_simuk_agrees():
    """Few replications, for each takes PyMC seconds: that simuk and the models fit together."""
    from bayes_feasible import models

    history = bf.History(problem(), ARMS, np.zeros(9), np.zeros((9, 1)))
    model = models.linear_gaussian(history.posterior())
    found = calibration.simuk_ranks(model, 10, draws=19, seed=1, tune=300, chains=2, cores=1)
    assert found.sizes == {"replication": 10, "quantity": 4}
    judged = calibration.judge(found, FALSE_ALARM)
    assert judged, str(judged)
    with pytest.raises(ValueError, match="model: its potentials"):
        calibration.simuk_ranks(models.unknown_noise(history), 2)
