"""Figures: what they show, their colours, and their files."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Ellipse

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.report import figures, geometry, style
from bayes_feasible.analysis.study import convergence


@pytest.mark.parametrize(
    ("draw", "variable"),
    [
        (figures.accuracy, "accuracy"),
        (figures.efficiency, "efficiency"),
        (figures.local_exponent, "slope"),
    ],
)
def test_curves_show_the_summary(summary, draw, variable):
    given = mpl.figure.Figure(layout="constrained").subplots()
    assert draw(summary, given) is given
    axes = draw(summary)
    for line, rule in zip(axes.lines, summary.rule.values, strict=False):
        assert line.get_label() == rule
        np.testing.assert_allclose(line.get_xdata(), summary.time)
        np.testing.assert_allclose(line.get_ydata(), summary[variable].sel(rule=rule))
    bands = [each for each in axes.collections if each.get_paths()]
    assert len(bands) == summary.sizes["rule"] * (f"{variable}_lower" in summary)
    assert "pulls" in axes.get_xlabel()
    assert axes.get_title(loc="left")
    assert axes.get_ylabel()


def test_log_error_has_the_optimal_slope(summary):
    axes = figures.log_error(summary)
    by_name = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(by_name["Oracle"].get_ydata(), -summary.log_error.sel(rule="Oracle"))
    slope = by_name[r"$e^{-\Gamma t}$"]
    np.testing.assert_allclose(slope.get_ydata(), summary.attrs["rate"] * summary.time)
    bottom, top = axes.get_ylim()
    assert bottom > top  # smaller probabilities below
    shown = [tick for tick in axes.get_yticks() if top <= tick <= bottom]
    assert len(shown) >= 5  # enough to read a value


def test_log_error_tells_rules_apart_by_what_they_are_behind_the_best(summary):
    first, below = figures.log_error(summary).figure.axes
    assert first.get_shared_x_axes().joined(first, below)
    lines = {line.get_label(): line.get_ydata() for line in below.lines}
    behind = summary.log_error - summary.log_error.min("rule")
    for rule in summary.rule.values:
        np.testing.assert_allclose(lines[rule], behind.sel(rule=rule))
    assert len(figures.log_error(summary.isel(rule=[0])).figure.axes) == 1  # nothing to compare


def test_allocation_shows_the_last_shares_and_the_optimal_ones(summary):
    axes = figures.allocation(summary)
    heights = [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(heights, summary.optimal_allocation)
    points = {line.get_label(): line.get_ydata() for line in axes.lines}
    for rule in summary.rule.values:
        np.testing.assert_allclose(points[rule], summary.allocation.sel(rule=rule).isel(time=-1))


def test_many_arms_with_long_names_fit():
    instance = bf.instances.movielens()
    data = bf.simulate(instance, {"Uniform": bf.Uniform}, 1000, 2, executor=False)
    summary = convergence.summarise(data, instance, regression=False, progress=False)
    axes = figures.allocation(summary)
    assert len(axes.patches) == style.SHOWN_ARMS
    assert max(len(label.get_text()) for label in axes.get_xticklabels()) <= style.LONGEST
    axes.figure.draw_without_rendering()  # a warning if the layout has no room


def test_rate_posterior_has_the_stated_interval(summary):
    axes = figures.rate_posterior(summary)
    low, high = np.quantile(summary.rate_draws.isel(rule=1), [0.025, 0.975])
    bars = [line for line in axes.lines if line.get_linewidth() > 3]
    np.testing.assert_allclose(bars[1].get_xdata(), [low, high])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Oracle", "Uniform <b>"]
    assert "95 %" in axes.get_xlabel()
    (beyond,) = [patch for patch in axes.patches if patch.get_hatch()]
    assert beyond.get_label() == "beyond any rule"
    assert beyond.get_x() == 1.0
    assert beyond.get_x() + beyond.get_width() == pytest.approx(axes.get_xlim()[1])


def test_the_hardest_alternative_is_where_the_ellipse_meets_the_limit(instance):
    drawn = geometry.geometry(instance)
    assert len(drawn) == 2
    reward = drawn[0]
    points = {line.get_label(): line for line in reward.lines}
    found = np.concatenate(points["hardest alternative"].get_data())
    rate = bf.optimal_rate(instance)
    rival = instance.problem.candidates[rate.hardest] - instance.problem.candidates[instance.best]
    assert found @ rival == pytest.approx(0, abs=1e-12)  # on the limit: as good as the best
    away = found - instance.theta_reward
    shares = rate.allocation.values
    precision = (instance.problem.arms.T * shares) @ instance.problem.arms
    assert away @ precision @ away / 2 == pytest.approx(rate.value, rel=1e-6)
    (ellipse,) = [patch for patch in reward.patches if isinstance(patch, Ellipse)]
    turned = ellipse.get_patch_transform().inverted().transform(found)
    assert np.linalg.norm(turned) == pytest.approx(1, rel=1e-9)


def test_geometry_has_a_plane_for_each_parameter_that_binds():
    with pytest.raises(ValueError, match="instance: expected 2 features, got 3"):
        geometry.geometry(bf.instances.random_ball(3, 5, seed=0))
    assert len(geometry.geometry(bf.instances.soare(2))) == 1
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]], [0.5, 0.6])
    truth = bf.Instance(problem, [1.0, 0.2], [[0.2, 0.3], [0.1, 0.5]])
    drawn = geometry.geometry(truth)
    assert len(drawn) == 3
    drawn[0].figure.draw_without_rendering()


def test_a_rule_has_its_colour_whatever_the_others():
    alone = style.styles(["BLFAIPS, paper"])["BLFAIPS, paper"]
    names = ["Oracle", "TopTwo", "BLFAIPS, paper", "BLFAIPS, true posterior", "my own"]
    together = style.styles(names)
    assert together["BLFAIPS, paper"] == alone
    assert style.styles(reversed(names))["my own"] == together["my own"]
    assert together["BLFAIPS, paper"]["color"] == together["BLFAIPS, true posterior"]["color"]
    looks = {(to_hex(s["color"]), str(s["linestyle"]), s["marker"]) for s in together.values()}
    assert len(looks) == len(names)
    names = [*style.FAMILIES, "BLFAIPS, true posterior", "BLFAIPS, a third"]
    assert len({look["marker"] for look in style.styles(names).values()}) == len(names)


def test_known_rules_can_be_told_apart_without_colour_vision():
    """Simulated for the two kinds of red-green blindness (Viénot et al. 1999)."""
    linear = np.array([mpl.colors.to_rgb(c) for c in style.FAMILIES.values()]) ** 2.2
    to_lms = np.array([[17.8824, 43.5161, 4.1194], [3.4557, 27.1554, 3.8671],
                       [0.02996, 0.18431, 1.46709]])  # fmt: skip
    blind = {
        "protan": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
        "deutan": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    }
    for matrix in blind.values():
        seen = linear @ (np.linalg.inv(to_lms) @ matrix @ to_lms).T
        seen = np.clip(seen, 0, 1) ** (1 / 2.2)
        apart = np.linalg.norm(seen[:, np.newaxis] - seen, axis=-1)
        looks = style.styles(style.FAMILIES)
        markers = np.array([look["marker"] for look in looks.values()])
        same_marker = markers[:, np.newaxis] == markers
        np.fill_diagonal(same_marker, False)
        assert not same_marker.any()  # shape tells apart what colour may not
        close = apart[np.triu_indices(len(apart), 1)]
        assert np.mean(close < 0.12) <= 0.05


def test_the_scoreboard_shows_verdicts_and_effective_draws(board):
    axes = figures.scoreboard(board.sel(time=1000))
    lengths = {bar.get_y() + bar.get_height() / 2: bar.get_width() for bar in axes.patches}
    assert lengths == pytest.approx({0.0: 2000.0, 1.0: 6.0, 2.0: 1.0})
    colours = {to_hex(bar.get_facecolor()) for bar in axes.patches}
    assert len(colours) == 3
    assert [label.get_text() for label in axes.get_yticklabels()] == ["exact", "slice", "smc"]
    shown = [text.get_text() for text in axes.texts]
    assert shown == ["2,000 (R-hat 1.00)", "6 (R-hat 1.75)", "no draws"]


def test_study_figures_are_written_whole_and_the_same_each_time(
    summary, instance, board, tmp_path
):  # fmt: skip
    paths = figures.draw_study(summary, instance, tmp_path, {1000: board.sel(time=1000)})
    names = {"accuracy", "log_error", "local_exponent", "efficiency", "allocation",
             "rate_posterior", "geometry", "scoreboard_1000"}  # fmt: skip
    assert {path.name for path in paths} == {f"{n}.{k}" for n in names for k in ("png", "svg")}
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    first = {path: path.read_bytes() for path in paths}
    for path, content in first.items():
        start = b"\x89PNG" if path.suffix == ".png" else b"<?xml"
        assert content.startswith(start)
    for name, axes in (("log_error", figures.log_error(summary)),
                       ("geometry", geometry.geometry(instance)[0])):  # fmt: skip
        for path in style.save(axes, tmp_path / name):
            assert path.read_bytes() == first[path]


def test_a_study_without_a_rate_is_drawn_too(tmp_path):
    certain = bf.Instance(bf.Problem([[1.0, 0.0]]), [1.0, 1.0])
    data = bf.simulate(certain, {"u": bf.Uniform}, 100, 2, [10, 100], executor=False)
    summary = convergence.summarise(data, certain, progress=False)
    paths = figures.draw_study(summary, certain, tmp_path)
    assert {path.stem for path in paths} == {"accuracy", "allocation"}


def test_exponents_are_those_of_the_rate(instance):
    axes = geometry.exponents(instance)
    widths = sorted(bar.get_width() for bar in axes.patches)
    np.testing.assert_allclose(widths, np.sort(bf.optimal_rate(instance).exponents))
    with pytest.raises(ValueError, match="no mistake is possible"):
        geometry.exponents(bf.Instance(bf.Problem([[1.0, 0.0]]), [1.0, 1.0]))


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_rate_command_draws(capsys, tmp_path, kind):
    path = tmp_path / f"rate.{kind}"
    arguments = ["rate", "--instance", "end_of_optimism", "--figure", str(path)]
    assert cli.main(arguments) == 0
    assert path.stat().st_size > 5000
    assert list(tmp_path.iterdir()) == [path]
    first = path.read_bytes()
    cli.main(arguments)
    assert path.read_bytes() == first
    assert capsys.readouterr().out.startswith("Γ = ")
    assert cli.main([*arguments[:-1], "rate.doc"]) == 2
    assert "--figure: expected the extension .png, .svg, .pdf, got" in capsys.readouterr().err
