"""The rules of the paper compared: differences with errors, verdicts, and the rules themselves."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

import bayes_feasible as bf
from bayes_feasible.analysis.paper import compare, comparisons, films
from bayes_feasible.analysis.paper.compare import (
    HEROES,
    PAPER_ETA,
    RIVALS,
    RULES,
    Contest,
    Criterion,
    Estimate,
)
from bayes_feasible.analysis.paper.printed_adahedge import PrintedAdaHedge

DRAWN = Criterion("one draw", "drawn")


@pytest.fixture(scope="module")
def instance():
    return bf.instances.end_of_optimism(0.3)


# Comparisons


def made_up(values):
    """A Dataset over instance, rule, replicate and time, for accuracies given so."""
    drawn = np.asarray(values, dtype=float)
    dims = ("instance", "rule", "replicate", "time")
    coords = {"rule": ["hero", "rival"][: drawn.shape[1]], "time": [10, 20, 40][: drawn.shape[3]]}
    return xr.Dataset({"drawn": (dims, drawn), "correct": (dims, drawn > 0.5)}, coords=coords)


def test_differences_are_paired():
    rng = np.random.default_rng(0)
    luck = rng.random((1, 1, 50, 1)) * 0.8
    gain = 0.1 + 0.01 * rng.standard_normal(50)
    data = made_up(np.concatenate([luck + gain[:, np.newaxis], luck], axis=1))
    found = compare.difference(data, "hero", "rival", DRAWN)
    assert found.value == pytest.approx(gain.mean())
    assert found.error == pytest.approx(np.sqrt(np.sum((gain - gain.mean()) ** 2) / 49 / 50))
    assert found.standing == "ahead"


def test_the_unit_is_the_instance_where_there_are_several():
    rng = np.random.default_rng(1)
    values = rng.random((6, 2, 3, 1))
    found = compare.estimate(made_up(values), "rival", DRAWN)
    means = values[:, 1, :, 0].mean(axis=1)
    assert found.value == pytest.approx(means.mean())
    assert found.error == pytest.approx(means.std(ddof=1) / np.sqrt(6))


def test_the_average_over_the_run_counts_rounds():
    over = Criterion("over the run", "drawn", whole_run=True)
    # At 10, 20 and 40 pulls; then only the second half of the last 20 rounds, on average.
    for accuracies, average in (([0.0, 1.0, 0.0], 0.5), ([0.0, 0.0, 1.0], 10 / 30)):
        values = np.broadcast_to(accuracies, (1, 1, 2, 3))
        assert compare.estimate(made_up(values), "hero", over).value == pytest.approx(average)


def test_estimates_stand_clear_and_read_well():
    same = made_up(np.ones((1, 2, 50, 1)))  # all right is not certain
    assert compare.estimate(same, "hero", DRAWN) == Estimate(1.0, 1 / 50)
    assert compare.difference(same, "hero", "rival", DRAWN) == Estimate(0.0, 1 / 50)
    assert Estimate(0.0, 1 / 50).standing == "level"
    values = {0.31: "ahead", 0.29: "level", -0.29: "level", -0.31: "behind"}
    assert {value: Estimate(value, 0.1).standing for value in values} == values
    assert Estimate(0.0, 0.0).standing == "level"
    assert str(Estimate(0.5, 0.00021)) == "0.500 ± 0.0002"
    assert Estimate(0.5, 0.0121).signed() == "+0.500 ± 0.012"
    assert str(Estimate(0.0, 0.0)) == "0.000 ± 0"


@pytest.mark.parametrize(
    ("spread", "verdict"), [(0.2, "cannot be told: "), (0.01, "does not hold: ")]
)
def test_no_clear_difference_says_what_it_leaves_room_for(spread, verdict):
    noise = spread * np.random.default_rng(7).standard_normal((1, 2, 60, 1))
    contest = Contest(made_up(0.8 + noise), "hero", ["rival"], [DRAWN])
    assert contest.text().startswith("hero minus others by one draw: rival ")
    found = contest.gaps["one draw"]["rival"]
    assert found.standing == "level"
    assert contest.verdict().startswith(verdict)
    part = compare.judge([("a", "x", "ahead"), ("b", "x", "level"), ("b", "y", "behind")])
    assert part.startswith("holds in part: ahead in 1 of 3 comparisons; behind y by b; no clear")
    assert f"none above {found.value + 3 * found.error:.3f}" in contest.verdict()


def test_a_rule_that_learns_nothing_and_wins_too_is_named():
    def say(hero, uniform):
        levels = {"hero": (hero, 0), "rival": (0.3, 0), "Uniform": (uniform, 0)}
        return compare.also_simple(settled(levels), "hero", ["rival"])

    assert say(0.9, 0.8).startswith("Worth less: Uniform beats the same rivals")
    assert "(ahead)" in say(0.9, 0.8)
    assert say(0.1, 0.8).startswith("Uniform beats the same rivals")
    assert "do not beat all" in say(0.1, 0.1)


def settled(accuracies):
    """Made-up data whose rules have these accuracies, by one draw and by the means."""
    noise = 0.01 * np.random.default_rng(3).standard_normal((1, len(accuracies), 40, 1))
    dims = ("instance", "rule", "replicate", "time")
    levels = np.array(list(accuracies.values()))[:, :, np.newaxis, np.newaxis]
    values = {"drawn": (dims, noise + levels[:, 0]), "correct": (dims, noise + levels[:, 1])}
    return xr.Dataset(values, coords={"rule": list(accuracies), "time": [10]})


def test_what_the_outcome_depends_on_is_told():
    one = settled({"slow": (0.9, 0.2), "fast": (0.9, 0.9), "rival": (0.5, 0.5)})
    many = settled({"slow": (0.9, 0.2), "fast": (0.9, 0.5), "rival": (0.5, 0.5)})
    data = {("ball", "one instance"): one, ("ball", "average"): many}
    found = compare.compare_all(data, ["slow", "fast"], ["rival"])
    assert len(found) == 8
    # slow turns round with the recommendation in both; fast is level in one of four.
    counts = {
        name: (len(changed), turned, groups)
        for name in compare.FACTORS
        for changed, turned, groups in [compare.changes(found, name)]
    }
    assert counts == {"criterion": (3, 2, 4), "hero": (2, 1, 4), "instances": (1, 0, 4)}
    row = compare.dependence_claim(data, "Section 0", heroes=["slow", "fast"], rivals=["rival"])
    assert row.verdict == "does not hold: ahead and behind change places with the recommendation, η"
    assert "averaging over instances: 1 of 4 change, 0 from ahead" in row.result
    alone = {("ball", "one instance"): one.sel(rule=["fast", "rival"])}
    row = compare.dependence_claim(alone, "Section 0", heroes=["fast"], rivals=["rival"])
    assert row.verdict == "holds: no comparison changes"
    assert "η" not in row.result


# Definitions of the experiments


def test_the_paper_end_of_optimism():
    study = comparisons.work(comparisons.OPTIMISM, 3)[1]
    angle = 0.2
    arms = [[1, 0], [0, 0.15], [0, 1], [1.2, 1.2], [np.cos(angle), np.sin(angle)]]
    instance = study.instances[0]
    np.testing.assert_allclose(instance.problem.arms, arms)
    np.testing.assert_allclose(instance.problem.thresholds, [0.5])
    assert study.times[-1] == 2000
    assert set(HEROES) | set(RIVALS) | {"Oracle", "Uniform", "G-optimal"} <= set(study.rules)
    rule = RULES[PAPER_ETA](instance, seed=0)
    largest = 1.2**2 + 1.2**2  # L², with R1 = R2 = 1
    assert rule._options.scale == pytest.approx(8 * largest)
    films_study = comparisons.work(comparisons.FILMS, 3)[0]  # η from the paper's bounds
    rule = films_study.rules[PAPER_ETA](films_study.instances[0], seed=0)
    assert rule._options.scale == pytest.approx(480)
    assert films_study.times[-1] == 5000
    assert len(films_study.instances[0].problem.arms) == 20


def test_random_instances_and_how_often_each_is_run():
    found = {study.name: study for study in comparisons.work(comparisons.BALL, 1000)}
    assert len(found) == 10
    for d, k in comparisons.SIZES:
        one, many = found[f"random_ball_d{d}_k{k}"], found[f"random_ball_average_d{d}_k{k}"]
        assert one.instances[0].problem.arms.shape == (k, d)
        assert one.instances[0] == many.instances[0]
        assert len(many.instances) == 50
        assert one.replicates == len(many.instances) * many.replicates == 1000
    for study in comparisons.work(comparisons.FREE, 100):  # where no constraint binds
        for instance in study.instances:
            assert np.all(np.isposinf(instance.problem.thresholds))
            assert instance.best == np.argmax(instance.mean_reward)


# Film ratings


def test_rating_tables_are_the_histograms():
    ratings, counts = films.rating_tables()
    top = bf.instances.movielens()
    np.testing.assert_allclose(np.nanmean(ratings, axis=1), top.mean_reward, atol=1e-6)
    assert_array_equal(np.sum(np.isfinite(ratings), axis=1), counts)
    assert counts[0] == 329
    assert set(np.unique(ratings[np.isfinite(ratings)])) == set(films.LEVELS)
    np.testing.assert_allclose(films.film_scores(), top.mean_cost[:, 0])


def test_films_show_real_ratings_and_scores():
    instance = bf.instances.movielens(films=20)
    exact = films.ResampledRatings(instance, 1, 2, score_noise=0.0)
    seen = np.array([exact.pull(6)[0] for _ in range(2000)])
    assert set(seen) <= set(films.LEVELS)

    def have(values, mean, spread):
        """Each within 5 standard errors, false alarm 6e-7; tails may be heavier than normal."""
        allowed = 5 * spread / np.sqrt(len(values))
        right_mean = abs(values.mean() - mean) < allowed
        return right_mean, abs(values.std() - spread) < 1.5 * allowed / np.sqrt(2)

    # Mean and spread of Jurassic Park's 238 ratings.
    assert have(seen, 3.75, 0.8553) == (True, True)
    other = np.array([exact.pull(0)[0] for _ in range(2000)])  # a control: another film
    assert not have(other, 3.75, 0.8553)[0]
    assert have(np.repeat(3.75, 2000), 3.75, 0.8553) == (True, False)  # and its mean each time
    assert exact.pull(6)[1] == [8.1]
    noisy = films.ResampledRatings(instance, 1, 2)
    scores = np.array([noisy.pull(6)[1][0] for _ in range(2000)])
    assert have(scores, 8.1, 1.0) == (True, True)
    assert have(scores, 8.3, 1.2) == (False, False)


# AdaHedge as printed


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_rule_weighs_as_printed(instance, overwrite):
    """From the weights, which freezes them on the first leader, or from the mixture."""
    rule = PrintedAdaHedge(instance, seed=1, overwrite=overwrite)
    before, gap = np.full(5, 0.2), 0.0
    for t in range(1, 8):
        arm = rule.ask()
        loss, explore = rule._work.loss.copy(), t**-0.25 if overwrite else 0.0
        start = (1 - explore) * before + explore * rule._geometry.design
        least = loss[start > 0].min()
        if gap == 0:
            raw, mixed = start * (loss == least), least
        else:
            rate = np.log(5) / gap
            raw = start * np.exp(-rate * (loss - least))
            mixed = least - np.log(raw.sum()) / rate
        gap += start @ loss - mixed
        before = raw / raw.sum()
        np.testing.assert_allclose(rule._memory.weights, before, rtol=1e-9, atol=1e-300)
        reward, cost = instance.pull([arm], seed=arm)
        rule.tell(arm, reward[0], cost[0])
    assert (np.count_nonzero(before) > 1) == overwrite
