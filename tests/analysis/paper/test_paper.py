"""The report on the paper: how runs are watched, kept, compared, and what the table says."""

import csv
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from helpers import bare_numbers
from numpy.testing import assert_array_equal

import bayes_feasible as bf
from bayes_feasible.analysis.paper import ablations, claims, compare, experiments, runs, theory
from bayes_feasible.analysis.paper import figures as pictures
from bayes_feasible.analysis.paper.__main__ import main
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.compare import HEROES, PAPER_ETA, RIVALS, RULES
from bayes_feasible.analysis.paper.printed_adahedge import PrintedAdaHedge
from bayes_feasible.analysis.paper.runs import DRAWS, Experiment
from bayes_feasible.analysis.report.style import write
from bayes_feasible.analysis.study.store import Store

ROW = Claim("a | b", "Section 1", "two\nlines", "0.1 ± 0.2", "holds", "python -m this")


# The table


@pytest.mark.parametrize("field", ["name", "where", "what", "result", "verdict"])
def test_every_field_of_a_claim_is_text(field):
    for value, error in (("  ", ValueError), (3, TypeError)):
        with pytest.raises(error, match=f"{field}: expected"):
            replace(ROW, **{field: value})


def test_the_table_in_three_formats(tmp_path):
    paths = claims.write([ROW, replace(ROW, name="c")], tmp_path)
    assert [path.name for path in paths] == ["claims.md", "claims.csv", "claims.json"]
    rows = [line for line in paths[0].read_text().splitlines() if line.startswith("| ")]
    assert len(rows) == 4  # headings, rule and two rows: a bar or a line's end breaks no row
    assert rows[2].startswith(r"| a \| b | Section 1 | two lines | 0.1 ± 0.2 | holds |")
    with paths[1].open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    assert read[0]["name"] == "a | b"
    assert read[0]["what"] == "two\nlines"
    assert claims.from_json(paths[2].read_text()) == [ROW, replace(ROW, name="c")]


# Runs


@pytest.fixture(scope="module")
def instance():
    return bf.instances.end_of_optimism(0.3)


@pytest.fixture(scope="module")
def study(instance):
    rules = {"BLFAIPS": bf.BLFAIPS, "LinTS": bf.LinearThompson}
    return Experiment("small", [instance], rules, (20, 200), 40, seed=5)


@pytest.fixture(scope="module")
def watched(study):
    return runs.run(study)


def test_the_pulls_are_those_of_simulate(study, watched, instance):
    rules = {name: partial(rule, recommendation="mean") for name, rule in study.rules.items()}
    other = bf.simulate(instance, rules, 200, 40, [20, 200], seed=5, executor=False)
    one = watched.isel(instance=0)
    np.testing.assert_allclose(one.allocation, other.allocation.mean("replicate"), atol=1e-12)
    np.testing.assert_allclose(one.efficiency, other.efficiency, atol=1e-6)
    assert_array_equal(one.by_mean, other.recommended)
    assert_array_equal(one.correct, other.correct)
    np.testing.assert_allclose(one.best_share, other.allocation.isel(arm=instance.best), rtol=1e-6)


def test_drawn_is_how_probably_one_draw_is_right(study, watched, instance):
    """The share of draws against the exact probability, which draws have no part in."""
    other = bf.simulate(instance, study.rules, 200, 40, [20, 200], seed=5, executor=False)
    chance = 1 - np.exp(other.log_error.values)
    spread = np.sqrt(np.sum(chance * (1 - chance), axis=1) / DRAWS) / 40
    off = np.abs(watched.drawn.isel(instance=0).mean("replicate").values - chance.mean(axis=1))
    # Four normal deviates; 5 standard deviations have a false alarm of 3e-6. The exact
    # probability is itself estimated, to a fraction of that.
    assert np.all(off <= 5 * spread + 1e-3)
    # A control: how often the means are right is another matter.
    means = watched.correct.isel(instance=0).mean("replicate").values
    assert np.any(np.abs(means - chance.mean(axis=1)) > 5 * spread + 1e-3)
    assert np.all(np.isin(watched.by_draw, range(-1, 5)))


def test_the_same_numbers_wherever_and_however_many(study, watched, tmp_path):
    ((_, elsewhere, kept),) = runs.complete([study.piece()], Store(tmp_path), workers=2)
    xr.testing.assert_equal(elsewhere, watched)
    assert not kept
    fewer = runs.run(replace(study, replicates=7))
    assert_array_equal(fewer.drawn, watched.drawn.isel(replicate=slice(7)))


def test_several_instances(study):
    many = replace(study, instances=[bf.instances.random_ball(2, 5, i) for i in range(2)])
    result = runs.run(replace(many, replicates=3))
    assert dict(result.drawn.sizes) == {"instance": 2, "rule": 2, "replicate": 3, "time": 2}
    np.testing.assert_allclose(result.allocation.sum("arm"), 1.0)
    seed = np.random.SeedSequence(5, spawn_key=(1,))
    other = bf.simulate(many.instances[1], study.rules, 200, 3, [20, 200], seed, executor=False)
    np.testing.assert_allclose(
        result.allocation.isel(instance=1), other.allocation.mean("replicate"), atol=1e-12
    )


def test_the_key_holds_all_that_the_numbers_depend_on(study):
    other_rules = study.rules | {"BLFAIPS": partial(bf.BLFAIPS, eta=1.0)}
    changes = [
        {}, {"replicates": 41}, {"seed": 6}, {"times": (20, 201)}, {"rules": other_rules},
        {"instances": [bf.instances.end_of_optimism(0.2)]},
    ]  # fmt: skip
    assert len({replace(study, **change).piece().key for change in changes}) == 6
    assert study.piece().key == replace(study).piece().key


def pieces_that_count(*sizes):
    """Pieces of so many tasks, each of which gives its place in the piece."""
    return [
        runs.cut(
            f"piece{number}", number, [partial(int, i) for i in range(size)],
            lambda found: xr.concat(found, "task"), lambda place: xr.Dataset({"place": place}),
        )
        for number, size in enumerate(sizes)
    ]  # fmt: skip


@pytest.mark.parametrize("workers", [0, 2])
def test_pieces_are_put_together_from_their_own_tasks(tmp_path, workers):
    pieces = pieces_that_count(3, 1, 2, 1)
    found = list(runs.complete(pieces, Store(tmp_path), workers))
    places = {piece.name: data.place.values.tolist() for piece, data, _ in found}
    assert places == {"piece0": [0, 1, 2], "piece1": [0], "piece2": [0, 1], "piece3": [0]}
    if not workers:  # what cannot be divided goes first
        assert list(places) == ["piece1", "piece3", "piece0", "piece2"]
    assert len(list(tmp_path.iterdir())) == 4  # no parts of pieces
    again = runs.complete(pieces, Store(tmp_path), workers)
    assert [kept for *_, kept in again] == [True] * 4


def test_a_task_that_fails_is_raised_and_the_others_are_kept(tmp_path):
    (piece,) = pieces_that_count(3)
    last = replace(piece.tasks[-1], work=partial(int, "x"))
    with pytest.raises(ValueError, match="'x'"):
        list(runs.complete([piece._replace(tasks=[*piece.tasks[:2], last])], Store(tmp_path)))
    assert len(list(tmp_path.iterdir())) == 2
    ((_, data, _),) = runs.complete([piece], Store(tmp_path))
    assert data.place.values.tolist() == [0, 1, 2]


# The whole report, in small

SMALL = {
    "end_of_optimism": {"times": (10, 40)},
    "random_ball": {"times": (10, 40), "instances": 2},
    "peps": {"times": (10, 40), "instances": 2},
    "movielens": {"times": (5, 20)},
    "ablations": {"times": (10, 40), "short": 3},
}


@pytest.fixture(scope="module")
def small_report(tmp_path_factory):
    """Every part with few repetitions and rounds, but for PyMC's sampler."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "parts").mkdir()
    rows = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablations, "samplers", few_samplers)
        patch.setattr(experiments.style, "write", lambda figure, path: path.write_bytes(b"x"))
        for name, options in SMALL.items():
            part = experiments.PARTS[name]
            pieces = {name: part.pieces(4, **options)}
            ((_, data),) = experiments.finish(pieces, Store(folder / "parts"), 0, str)
            rows[name] = experiments.conclude(part, data, folder, f"do {name}")
    return folder, rows


def few_samplers(repetitions, rounds):
    """What `ablations.samplers` gives, exact draws in all places."""
    instance = bf.instances.end_of_optimism(0.1)
    rules = dict.fromkeys((ablations.EXACT, *ablations.MARKOV), partial(bf.BLFAIPS, eta=1.0))
    data = runs.run(Experiment("sampler", [instance], rules, (rounds,), repetitions))
    seconds = np.outer([1e-6, 1e-3, 1e-4], [1.0, 1.1])
    return data.assign(seconds=(("rule", "batch"), seconds))


def test_every_part_gives_numbers_figures_and_claims(small_report):
    folder, rows = small_report
    names = {path.name for path in folder.iterdir()}
    for part, options in SMALL.items():
        pieces = experiments.PARTS[part].pieces(4, **options)
        assert {f"{piece.name}.nc" for piece in pieces} <= names
    counts = {part: len(found) for part, found in rows.items()}
    assert counts == {
        "end_of_optimism": 9, "random_ball": 23, "peps": 6, "movielens": 15, "ablations": 7,
    }  # fmt: skip
    for name in ("end_of_optimism_0.1", "random_ball_differences", "peps", "films_20", "ablations"):
        assert {f"{name}.svg", f"{name}.png"} <= names


def test_figures_show_means_with_bands_of_two_standard_errors(small_report, tmp_path):
    with xr.open_dataset(small_report[0] / "films_20.nc", engine="h5netcdf") as stored:
        data = stored.load()
    figure = pictures.accuracy(data, "Films", pulled=True)
    assert len(figure.axes) == 3
    values = data.drawn.isel(instance=0).sel(rule="LinTS").astype(float)
    line = next(line for line in figure.axes[0].lines if line.get_label() == "LinTS")
    np.testing.assert_allclose(line.get_ydata(), values.mean("replicate"))
    band = figure.axes[0].collections[list(data.rule.values).index("LinTS")]
    heights = band.get_paths()[0].vertices[:, 1]
    error = values.std("replicate", ddof=1) / 2  # of four repetitions
    top = (values.mean("replicate") + 2 * error).max()
    assert heights.max() == pytest.approx(float(top))
    write(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_every_number_has_a_standard_error_or_is_exact(small_report):
    openings = ("holds", "holds in part", "does not hold", "cannot be told")
    for part, rows in small_report[1].items():
        for row in rows:
            assert not bare_numbers(row.result), row
            assert "nan" not in row.result
            assert row.verdict.startswith(openings)
            assert row.command == f"do {part}"


def test_numbers_without_an_error_are_found():
    assert bare_numbers("LinTS 0.547 ± 0.010 / 0.568 ± 0.016, Oracle 0.936") == ["0.936"]
    assert bare_numbers("at T = 2,000: 0.5 ± 0.1; largest 0.98") == ["0.98"]
    assert bare_numbers("exact: 1.00001; fitted 1.004") == ["1.004"]
    assert bare_numbers("in 3/40 (95 % interval 0.0157 to 0.204), in 4/40") == ["4", "40"]
    assert bare_numbers("-1.2e-05 (exact), +3.4e-05 ± 1e-06") == []


def test_a_second_run_keeps_the_numbers_and_gives_the_same_table(small_report, monkeypatch):
    folder, rows = small_report
    monkeypatch.setattr(runs.Task, "__call__", None)  # nothing is run again
    told, part = [], experiments.PARTS["end_of_optimism"]._replace(pictures=lambda data: {})
    pieces = {"part": part.pieces(4, times=(10, 40))}
    ((_, data),) = experiments.finish(pieces, Store(folder / "parts"), 0, told.append)
    again = experiments.conclude(part, data, folder, "do end_of_optimism")
    assert again == rows["end_of_optimism"]
    assert [line.split(": ")[1] for line in told] == ["kept"] * 3


def test_one_part_on_its_own_and_the_table_of_all(tmp_path, monkeypatch, capsys):
    part = experiments.PARTS["end_of_optimism"]
    short = part._replace(work=partial(part.work, times=(5, 9)), pictures=lambda data: {})
    monkeypatch.setitem(experiments.PARTS, "end_of_optimism", short)
    folder = tmp_path / "new" / "folder"
    folder.mkdir(parents=True)
    (folder / "claims_theory.json").write_text(claims.to_json([ROW]))
    arguments = ["--out", str(folder), "--repetitions", "2", "--workers", "0"]
    assert main([*arguments, "--only", "end_of_optimism"]) == 0
    assert "claims in" in capsys.readouterr().out
    table = claims.from_json((folder / "claims.json").read_text())
    assert table[-1] == ROW
    assert all("--only end_of_optimism" in row.command for row in table[:-1])


def test_theory_is_kept_piece_by_piece_and_by_its_settings(tmp_path, monkeypatch):
    proved, fails = [], ["tails"]

    def prove(quick, seed, name):
        if [name] == fails:
            fails.clear()
            raise OSError("the disk is full")
        proved.append((name, quick))
        return [replace(ROW, name=name), replace(ROW, name=f"{name}, again")]

    monkeypatch.setattr(theory, "prove", prove)
    monkeypatch.setattr(theory, "PIECES", {"bound": None, "tails": None})
    run = partial(experiments.report, tmp_path, only=["theory"], workers=0, say=str)
    with pytest.raises(OSError, match="full"):
        run(100)
    names = ["bound", "bound, again", "tails", "tails, again"]
    assert [claim.name for claim in run(100)] == names
    run(100)
    assert proved == [("bound", True), ("tails", True)]
    run(101)  # enough repetitions for the full version
    assert proved[2:] == [("bound", False), ("tails", False)]
    run(100)
    assert len(proved) == 4
    monkeypatch.setattr(theory, "sources", lambda: "the modules, changed")
    run(100)
    assert proved[4:] == [("bound", True), ("tails", True)]


def test_the_sources_of_theory_are_all_of_its_modules_and_the_words(tmp_path, monkeypatch):
    before = theory.sources()
    for path in (*Path(theory.__file__).parent.glob("theory*.py"), theory.WORDS):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(theory, "__file__", str(tmp_path / "theory.py"))
    monkeypatch.setattr(theory, "WORDS", tmp_path / theory.WORDS.name)
    assert theory.sources() == before
    for name in ("theory_decay.py", theory.WORDS.name):
        with (tmp_path / name).open("a", encoding="utf-8") as stream:
            stream.write("\n")
        before, changed = theory.sources(), before
        assert before != changed


def test_mistakes_are_told(tmp_path, capsys):
    with pytest.raises(ValueError, match=r"only: expected some of .* got tables"):
        experiments.report(tmp_path, 2, ["tables"])
    with pytest.raises(ValueError, match="repetitions: expected at least 2, got 1"):
        experiments.report(tmp_path, 1, [])
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file"), "--repetitions", "2", "--workers", "0"]) == 2
    assert "paper:" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_an_interrupted_report_goes_on(tmp_path, send):
    """One signal to the command alone, or to it and its workers, as Ctrl-C does."""
    module = "bayes_feasible.analysis.paper"
    arguments = ["--repetitions", "2", "--workers", "1", "--out", str(tmp_path)]
    command = [sys.executable, "-m", module, *arguments, "--only", "peps", "--only", "theory"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        for line in process.stdout:
            if "written" in line:
                send(process.pid, signal.SIGINT)
                break
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted" in errors
    first = sorted(path.name for path in tmp_path.glob("*.nc"))
    assert 1 <= len(first) < 14
    again = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert sorted(re.findall(r"(\S+\.nc): kept", again.stdout)) == first
    assert len(list(tmp_path.glob("*.nc"))) == 14
    assert "claims in" in again.stdout


@pytest.mark.slow
def test_efficiencies_of_the_reference():
    """Means over seeds that an independent prototype reached at T = 2000."""
    instance = bf.instances.end_of_optimism(0.1)
    rules = RULES | {"frozen": PrintedAdaHedge}
    data = runs.run(Experiment("reference", [instance], rules, (2000,), 200))
    expected = {
        PAPER_ETA: 0.50, HEROES[1]: 0.65, "frozen": 0.17, "BestResponse": 0.97,
        RIVALS[0]: 0.02, RIVALS[1]: 0.02,
    }  # fmt: skip
    for rule in expected:
        found = compare.estimate(data, rule, compare.EFFICIENCY)
        # A control: of another rule's number none would pass.
        near = {e for e in expected.values() if abs(found.value - e) < 0.03 + 3 * found.error}
        assert near == {expected[rule]}, rule


@pytest.mark.slow
@pytest.mark.parametrize(("method", "sweeps"), [("Slice", 4), ("Metropolis", 40)])
def test_the_chain_inside_the_rule_draws_what_exact_draws_do(method, sweeps):
    import pymc as pm

    from bayes_feasible.analysis.paper.pymc_rule import Sampler

    instance = bf.instances.end_of_optimism(0.3)
    posterior = bf.Posterior(instance.problem)
    arms = [0, 1, 2, 3, 4] * 4
    posterior.update(arms, *instance.pull(arms, seed=1))
    sampler, point, drawn = Sampler(instance.problem, getattr(pm, method)), None, []
    for _ in range(1500):
        point = sampler.draw(posterior, 0, point, sweeps)
        drawn.append([*point["theta_reward"], *point["theta_cost"][0]])
    exact = bf.Alternative(instance.problem, 0).sample(posterior, 20_000, seed=2)
    truth = np.column_stack([exact.theta_reward.values[0], exact.theta_cost.values[0, :, 0]])
    # 50 batches of 30 draws: means of batches are nearly independent. Four comparisons at
    # 6 standard errors, on 49 degrees of freedom: false alarm below 1e-6.
    batches = np.array(drawn).reshape(50, 30, 4).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(50)
    assert np.all(np.abs(batches.mean(axis=0) - truth.mean(axis=0)) < 6 * error)
    # A control: the alternatives of another candidate have other means.
    other = bf.Alternative(instance.problem, 1).sample(posterior, 20_000, seed=2)
    wrong = np.column_stack([other.theta_reward.values[0], other.theta_cost.values[0, :, 0]])
    assert np.any(np.abs(batches.mean(axis=0) - wrong.mean(axis=0)) > 6 * error)
