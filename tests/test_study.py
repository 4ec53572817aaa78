"""The study: exact error curves, tables, figure and files."""

import numpy as np
import pytest
import xarray as xr
from scipy.special import log_ndtr, logsumexp

import bayes_feasible as bf
from bayes_feasible._atomic import replaced
from bayes_feasible.analysis import curves, figures, study

REFERENCE = {0.1: 0.00113559, 0.2: 0.00415741, 0.3: 0.00861884}  # from a semidefinite program


@pytest.fixture(scope="module")
def result():
    return study.end_of_optimism_study()


def test_rates_are_the_reference_values(result):
    for alpha, rate in REFERENCE.items():
        one = result.sel(alpha=alpha)
        assert float(one.rate) == pytest.approx(rate, abs=6e-9)
        assert float(one.rate_lower) <= float(one.rate) <= float(one.rate_upper)
        assert float(one.allocation.sum()) == pytest.approx(1.0)


def test_the_posterior_mean_is_the_truth():
    instance = bf.instances.random_ball(d=4, k=9, seed=3)
    counts = np.array([3, 0, 10, 1, 250, 1, 0, 7, 100_000])
    posterior = curves.posterior_at_truth(instance, counts)
    np.testing.assert_allclose(posterior.mean_reward, instance.theta_reward, atol=1e-12)
    np.testing.assert_allclose(posterior.mean_cost, instance.theta_cost, atol=1e-12)
    assert posterior.counts.tolist() == counts.tolist()


def test_arms_that_do_not_span_the_truth_are_refused():
    instance = bf.instances.end_of_optimism()
    with pytest.raises(ValueError, match=r"allocation: the arms it pulls, \[0\], do not span"):
        curves.error_curve(instance, [1.0, 0.0, 0.0, 0.0, 0.0], [100])


def test_pulls_are_whole_and_none_is_lost():
    rng = np.random.default_rng(0)
    for _ in range(50):
        shares = rng.dirichlet(np.full(6, 0.3))
        time = int(rng.integers(1, 1000))
        pulls = curves.whole_pulls(shares, time)
        assert pulls.sum() == time
        assert np.all(np.abs(pulls - time * shares) < 1)
    with pytest.raises(ValueError, match="allocation: expected shares that add up to 1"):
        curves.whole_pulls([0.5, 0.4], 10)


def test_the_curve_is_the_union_bound_where_overlaps_vanish(result):
    """Far out, P is the sum of the events' probabilities, written here from the definition."""
    alpha, last = 0.2, result.sel(alpha=0.2).isel(time=-1)
    problem = bf.instances.end_of_optimism(alpha).problem
    z = problem.arms
    pulls = last.pulls.values
    covariance = np.linalg.inv(np.eye(2) + (z.T * pulls) @ z)
    reward, cost, threshold = np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.5

    def tail(vector, gap):  # probability that <theta, vector> exceeds its mean by the gap
        return log_ndtr(-gap / np.sqrt(vector @ covariance @ vector))

    events = [tail(z[0], threshold - cost @ z[0])]
    for rival in z[1:]:
        events.append(tail(rival - z[0], reward @ (z[0] - rival)))
        events[-1] += tail(rival, cost @ rival - threshold)
    assert float(last.log_error) == pytest.approx(logsumexp(events), rel=1e-9)


def test_the_decay_approaches_the_rate_from_above(result):
    ratio = (result.decay / result.rate).values
    assert np.all(np.diff(ratio, axis=-1) < 0)
    assert np.all(ratio > 1)
    assert np.all(ratio[:, -1] < 1.002)


def test_tables_show_the_figures(result):
    text = study.tables(result)
    for expected in ("0.00113559", "0.00415741", "0.00861884", "10,000,000"):
        assert expected in text
    assert text.count("a feasible candidate of lower reward looks better") == 3
    conclusion = text.split("\n\n")[-1]
    assert conclusion.count("\n") == 1
    assert "nan" not in text


def test_files_are_written_whole_and_can_be_read_back(result, tmp_path):
    paths = study.save(result, tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "study.nc", "study.png", "study.svg",
    ]  # fmt: skip
    with xr.open_dataset(paths[0], engine="h5netcdf") as stored:
        xr.testing.assert_identical(stored.load(), result)
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert paths[2].read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_the_same_study_gives_the_same_picture(result, tmp_path):
    for name in ("a.svg", "b.svg"):
        figures.write(figures.error_curves(result), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "numbers"
    path.write_text("old")

    def fail():
        with replaced(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_figure_names_its_axes_and_curves(result):
    error, decay = figures.error_curves(result).axes
    for axes in (error, decay):
        assert "pulls" in axes.get_xlabel()
        assert axes.get_ylabel()
        assert axes.get_title(loc="left")
    assert "nats per pull" in decay.get_ylabel()
    labels = [text.get_text() for text in error.get_legend().get_texts()]
    assert labels[:3] == ["P, α = 0.1", "P, α = 0.2", "P, α = 0.3"]
    np.testing.assert_allclose(error.lines[0].get_ydata(), -result.log_error.isel(alpha=0))
