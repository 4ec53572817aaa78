"""The arena: who plays on what, what is kept, and what is made of it."""

import csv
import io
import json
from functools import partial

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.arena import arena as door
from bayes_feasible.analysis.arena import page
from bayes_feasible.analysis.arena.arena import arena
from bayes_feasible.analysis.arena.entrants import FIELD, read_entrants
from bayes_feasible.analysis.arena.families import FAMILIES, find_family
from bayes_feasible.analysis.arena.result import Arena
from bayes_feasible.analysis.arena.runs import cut, run_block
from bayes_feasible.analysis.report.tables import latex_table, markdown_table

SMALL = {"rules": ["Descent", "Uniform"], "families": ["ball-2-5", "prior"], "budgets": [20, 60]}
OWN = '''
import bayes_feasible as bf

class Turn:
    """Pull the arms in turn."""

    def __init__(self, problem, seed):
        self.posterior = bf.Posterior(problem)

    def ask(self):
        return self.posterior.pulls % len(self.posterior.counts)

    def tell(self, arm, reward, cost):
        self.posterior.update(arm, reward, cost)

    def recommend(self):
        return self.posterior.best()

def family(rng):
    return bf.instances.random_ball(2, 4, rng)

def two(rng, other):
    return None
'''


def play(**changes):
    return arena(**{**SMALL, "runs": 8, "workers": 1, "progress": False, **changes})


# --- families and entrants ---


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_gives_the_same_instance_for_the_same_seed(name):
    family = FAMILIES[name]
    first, again, other = family.instance(3, 1), family.instance(3, 1), family.instance(3, 2)
    assert_array_equal(first.theta_reward, again.theta_reward)
    assert_array_equal(first.problem.arms, again.problem.arms)
    same = first.problem == other.problem and np.array_equal(first.theta_reward, other.theta_reward)
    assert same == family.single or name in ("dose-finding",)
    found = [family.instance(0, run).best is None for run in range(20)]
    if name not in ("prior", "dose-finding", "ab"):
        assert set(found) == {name == "none-feasible"}


def test_the_truths_of_a_family_are_drawn_from_the_prior():
    """Means and variances of 400 parameters, each within 4.5 standard errors."""
    drawn = np.array([FAMILIES["prior"].instance(0, run).theta_reward for run in range(80)]).ravel()
    assert abs(drawn.mean()) < 4.5 / 20
    assert abs(drawn.var() - 1) < 4.5 * np.sqrt(2 / 400)


def test_families_of_the_users_own(tmp_path, monkeypatch):
    bf.save(bf.instances.soare(), tmp_path / "a.toml")
    bf.save(bf.instances.end_of_optimism(), tmp_path / "b.json")
    folder = find_family(tmp_path)
    sizes = {len(folder.instance(0, run).problem.arms) for run in range(20)}
    assert (sizes, folder.single) == ({3, 5}, False)
    assert find_family(str(tmp_path / "a.toml")).single
    given = find_family(bf.instances.soare(4))
    assert given.instance(0, 7).problem.arms.shape == (5, 4)
    changed = find_family(tmp_path).code
    bf.save(bf.instances.soare(3), tmp_path / "a.toml")
    assert find_family(tmp_path).code != changed
    (tmp_path / "own_family.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_family("own_family:family").instance(0, 1).problem.arms.shape == (4, 2)
    bf.save(bf.instances.soare().problem, tmp_path / "a.toml")
    (tmp_path / "empty").mkdir()
    for wrong, message in (
        (tmp_path, "the true parameters are needed"),
        (tmp_path / "empty", "holds no problem file"),
        ("ball-2-6", "did you mean 'ball-2-5'"),
        ("own_family:two", "of one argument"),
        (3, "unknown family 3"),
    ):
        with pytest.raises(ValueError, match=message):
            find_family(wrong)
    with pytest.raises(TypeError, match="return an Instance, got int"):
        find_family(lambda rng: 3).instance(0, 0)


def test_the_field_and_those_who_enter():
    field = {entrant.name: entrant for entrant in read_entrants()}
    assert list(field) == list(FIELD)
    assert {name for name, each in field.items() if each.knows_truth} == {"Oracle"}
    told = {"SuccessiveRejects", "SequentialHalving", "ODLinBAI", "GSE", "PEPS"}
    assert {name for name, each in field.items() if each.needs_horizon} == told
    (fixed,) = read_entrants({"mine": partial(bf.SequentialHalving, horizon=50)})
    assert fixed.maker_for(100)(bf.instances.soare().problem).horizon == 100
    (best,) = read_entrants({"best": partial(bf.TopTwo, beta="optimal")})
    assert best.knows_truth
    plain = bf.instances.soare()
    assert not field["MDAPT"].plays(plain, 100)
    assert field["PEPS"].plays(plain, 100)
    for wrong in (
        ["Descnt"],
        {},
        ["Descent", "Descent"],
        "Descent",
        {"a": {"kind": "Uniform", "x": 1}},
    ):
        with pytest.raises(ValueError, match="rules"):
            read_entrants(wrong)


# --- the work ---


def test_a_run_is_an_experiment_on_the_family_s_instance():
    """Against the compiled world played by hand."""
    family, (entrant,) = FAMILIES["ball-2-5"], read_entrants(["Descent"])
    found = run_block(family, entrant, [10, 40], 5, range(2, 4))
    for i, run in enumerate((2, 3)):
        instance, rng = family.instance(5, run), family.seed(5, run, 1)
        alone = run_block(family, entrant, [40], 5, [run])
        assert_allclose(found.log_error[i, 1], alone.log_error[0, 0], rtol=0.05)
        own, reward, cost = (bf.simulation.streams.child(rng, j) for j in range(3))
        rule = bf.Descent(instance, seed=own)
        world = bf.simulation.world.Environment(instance, reward, cost)
        world.play(rule, 40)
        assert found.wrong[i, 1] == (rule.recommend().candidate != instance.best)
        weight = bf.exponents(instance, rule.allocation).min()
        assert_allclose(found.exponent[i, 1], weight, rtol=1e-9)
    assert (found.seconds > 0).all()


def test_rules_with_a_horizon_play_each_budget_anew():
    family, (entrant,) = FAMILIES["one-hot-10"], read_entrants(["SequentialHalving"])
    both = run_block(family, entrant, [60, 200], 0, range(2))
    for j, budget in enumerate((60, 200)):
        alone = run_block(family, entrant, [budget], 0, range(2))
        assert_array_equal(both.log_error[:, j], alone.log_error[:, 0])


def test_parts_cover_every_run_once_and_the_first_runs_come_first():
    entrants, families = read_entrants(["Uniform", "MDAPT"]), [FAMILIES["no-constraint"]]
    parts = cut(families, entrants, [100, 5000], 1000, 0)
    assert {part.rule for part in parts} == {"", "Uniform"}  # the other needs a constraint
    for rule in ("", "Uniform"):
        mine = [part for part in parts if part.rule == rule]
        covered = [run for part in mine for run in range(part.first, part.first + part.size)]
        assert covered == list(range(1000))
    assert [part.first for part in parts] == sorted(part.first for part in parts)
    more = {part.key for part in cut(families, entrants, [100, 5000], 2000, 0)}
    assert len(more & {part.key for part in parts}) >= len(parts) - 2  # all but the last, cut short


def test_nothing_is_computed_twice_and_ctrl_c_loses_nothing(tmp_path, monkeypatch):
    whole = play(page=False)
    computed = []

    def counted(store, tasks, place):
        for task in compute(store, tasks, place):
            computed.append(str(task))
            yield task
            if len(computed) == 3:
                raise KeyboardInterrupt

    compute = door.compute
    monkeypatch.setattr(door, "compute", counted)
    with pytest.raises(KeyboardInterrupt, match=r"3 of 6 parts are finished and kept"):
        play(out=tmp_path, page=False)
    found = play(out=tmp_path, page=False)
    assert len(computed) == len(set(computed)) == 6
    for name in ("wrong", "error", "efficiency", "rate"):
        assert_array_equal(found.runs[name], whole.runs[name])
    again = play(out=tmp_path, page=False, rules=["Uniform"])
    assert len(computed) == 6
    assert_array_equal(again.runs.error.sel(rule="Uniform"), whole.runs.error.sel(rule="Uniform"))
    assert Arena.load(tmp_path).runs.identical(again.runs)


@pytest.mark.slow
def test_the_same_numbers_on_processes():
    here, there = (play(workers=workers, rules=["Descent", "Oracle"]) for workers in (1, 2))
    for name in ("wrong", "error", "efficiency", "rate"):
        assert_array_equal(here.runs[name], there.runs[name])


def test_what_the_arena_says_of_the_oracle():
    found = play(rules=["Oracle"], families=["end-of-optimism"], budgets=[5000], runs=2)
    assert_allclose(found.summary.efficiency, 1.0, atol=0.05)
    assert_allclose(found.runs.rate, 0.00113559, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budgets": [50, 20]}, "budgets: expected rising"),
        ({"budgets": 50}, "budgets: expected rising"),
        ({"runs": 1}, "runs: "),
        ({"families": ["ball-2-5", "ball-2-5"]}, "families: expected distinct"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        play(**changes)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds no arena but other files"):
        play(out=tmp_path)
    with pytest.raises(ValueError, match="no finished arena"):
        Arena.load(tmp_path)


# --- the result ---


def made_up(errors, runs=400, seed=0):
    """A result whose rules err with these probabilities, over (family, rule)."""
    rng = np.random.default_rng(seed)
    chance = np.asarray(errors)[..., np.newaxis, np.newaxis]
    wrong = (rng.random((*chance.shape[:2], 1, runs)) < chance).astype(float)
    error = np.broadcast_to(chance, wrong.shape) + rng.normal(0, 0.01, wrong.shape)
    dims = ("family", "rule", "budget", "run")
    families, rules = chance.shape[:2]
    dataset = xr.Dataset(
        {
            "wrong": (dims, wrong),
            "error": (dims, error),
            "efficiency": (dims, np.full(wrong.shape, 0.5)),
            "seconds": (dims, np.full(wrong.shape, 2e-6)),
            "title": ("family", [f"made up {i}" for i in range(families)]),
            "knows_truth": ("rule", [False] * rules),
        },
        {"family": [f"family {i}" for i in range(families)], "rule": list("ABCDE"[:rules]),
         "budget": [100], "run": np.arange(runs)},
        {"seed": 0, "version": "0"},
    )  # fmt: skip
    return Arena(dataset)


def test_summary():
    found = made_up([[0.1, 0.3], [0.5, 0.2]])
    wrong, summary = found.runs.wrong, found.summary
    for cell in np.ndindex(2, 2):
        count = int(wrong.values[cell].sum())
        exact = stats.binomtest(count, 400).proportion_ci(0.95, "exact")
        got = [summary[f"error_rate_{side}"].values[cell].item() for side in ("lower", "upper")]
        assert_allclose(got, exact, rtol=1e-9)
    error = found.runs.error.values[..., 0, :]
    assert_allclose(summary.error.values[..., 0], error.mean(-1))
    apart = error[0, 1] - error[0, 0]
    assert_allclose(summary.behind.values[0, 1, 0], apart.mean())
    assert_allclose(summary.behind_se.values[0, 1, 0], apart.std(ddof=1) / 20)
    assert summary.best.values[..., 0].tolist() == [[True, False], [False, True]]
    assert_allclose(summary.microseconds, 2.0)


def test_the_leaderboard_ranks_by_the_worst_family():
    """A is never far from the best; B is best in one family and far off in the other."""
    board = made_up([[0.12, 0.30, 0.10], [0.22, 0.20, 0.40]]).leaderboard()
    assert board.rule.values.tolist() == ["A", "B", "C"]
    assert_allclose(board.worst, [0.02, 0.20, 0.20], atol=0.005)
    assert board.worst_family.values[0] in ("family 0", "family 1")
    ranks = np.column_stack([board[name] for name in ("rank", "rank_lower", "rank_upper")])
    assert ranks.tolist() == [[1, 1, 1], [2, 2, 3], [3, 2, 3]]  # B and C cannot be told apart
    far = made_up([[0.12, 0.30, 0.10], [0.22, 0.20, 0.60]]).leaderboard()
    assert far.rank_upper.values.tolist() == [1, 2, 3]


def test_rank_intervals_cover():
    """Three equal rules: each has an interval that holds the rank of any; the control has not."""
    board = made_up([[0.2, 0.2, 0.2]], runs=50).leaderboard()
    assert board.rank_lower.values.tolist() == [1, 1, 1]
    assert board.rank_upper.values.tolist() == [3, 3, 3]


def test_who_knows_the_truth_or_is_missing_somewhere_has_no_rank():
    found = made_up([[0.1, 0.3, 0.2], [0.1, 0.3, 0.2]])
    found.runs["knows_truth"] = ("rule", [True, False, False])
    found.runs["error"][0, 2] = np.nan
    board = found.leaderboard()
    assert dict(zip(board.rule.values, board["rank"].values, strict=True)) == {
        "B": 1,
        "A": 0,
        "C": 0,
    }
    assert_allclose(found.summary.behind.sel(rule="B").min(), 0.0, atol=1e-12)
    assert board.families.sel(rule="C") == 1
    found.runs["error"][:, 2] = np.nan
    assert set(Arena(found.runs).leaderboard().rule.values) == {"A", "B"}


def test_tables_in_every_form():
    found = made_up([[0.1, 0.3], [0.5, 0.2]])
    found.runs["rule"] = ["a_b|c", "50 %"]
    board = found.tables()[0]
    markdown = markdown_table(board).splitlines()
    assert {line.replace("\\|", "").count("|") for line in markdown[2:]} == {len(board.header) + 1}
    assert "a\\_b\\|c" in found.to_markdown()
    latex = latex_table(board)
    assert "a\\_b|c &" in latex
    assert "50 \\%" in latex
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert len(rows) == 4
    assert float(rows[0]["error"]) == found.summary.error.values[0, 0, 0]


def test_where_rules_may_stop():
    """Against the same rule played by hand, and the shares of wrong answers."""
    stop, family = bf.Stop(error=0.1), FAMILIES["ball-2-5"]
    found = play(rules=["Descent", "SequentialHalving"], families=["ball-2-5"], budgets=[400],
                 runs=20, stop=stop)  # fmt: skip
    pulls = found.runs.pulls.sel(rule="Descent", family="ball-2-5").values
    for run in range(3):
        instance, rng = family.instance(0, run), family.seed(0, run, 1)
        own, reward, cost = (bf.simulation.streams.child(rng, j) for j in range(3))
        rule = bf.Descent(instance, seed=own)
        world = bf.simulation.world.Environment(instance, reward, cost)
        while not rule.done(bf.Stop(error=0.1, pulls=400)):
            world.play(rule, 1)
        assert abs(world.pulls.sum() - pulls[run]) <= 1 + 0.02 * pulls[run]
    one = found.endings.sel(family="ball-2-5")
    assert one.pulls.sel(rule="SequentialHalving").isnull()  # it must know a horizon
    stopped = found.runs.stopped.sel(rule="Descent", family="ball-2-5").values == 1
    assert_allclose(one.stopped.sel(rule="Descent"), stopped.mean())
    wrong = found.runs.wrong_at_end.sel(rule="Descent", family="ball-2-5").values[stopped]
    assert_allclose(one.wrong.sel(rule="Descent"), wrong.mean())
    exact = stats.binomtest(int(wrong.sum()), int(stopped.sum())).proportion_ci(0.95, "exact")
    assert_allclose(
        [one.wrong_lower.sel(rule="Descent"), one.wrong_upper.sel(rule="Descent")], exact
    )
    assert found.tables()[-1].caption == "ball-2-5, until a stop (error 0.1), at most 400"


def test_the_efficiency_of_stopping_is_the_lower_bound_over_the_pulls():
    delta = 0.1
    found = play(rules=["Oracle"], families=[bf.instances.soare(angle=1.0)], budgets=[3000],
                 stop=bf.Stop(delta=delta))  # fmt: skip
    least = delta * np.log(delta / (1 - delta)) + (1 - delta) * np.log((1 - delta) / delta)
    least /= bf.optimal_rate(bf.instances.soare(angle=1.0)).value
    assert found.endings.stopped == 1
    assert_allclose(found.endings.efficiency, least / found.endings.pulls)
    assert 0 < found.endings.efficiency < 1


# --- page and command ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("arena")
    play(out=path)
    return path


def test_the_page(folder):
    text = (folder / page.PAGE).read_text(encoding="utf-8")
    assert text.startswith("\n<!doctype html>") or text.startswith("<!doctype html>")
    assert text.count("data:image/svg+xml") == 3  # overview and two families
    assert "Descent is first" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    names = {path.name for path in (folder / "figures").iterdir()}
    assert {"overview.svg", "family_ball_2_5.png", "family_prior.svg"} <= names
    before = text
    assert cli.main(["report", str(folder), "--quiet"]) == 0
    assert (folder / page.PAGE).read_text(encoding="utf-8") == before


def test_the_command(folder, tmp_path, monkeypatch, capsys):
    arguments = ["arena", "--only", "Descent", "Uniform", "--family", "ball-2-5", "prior",
                 "--budgets", "20", "60", "--runs", "8", "--workers", "1", "--quiet"]  # fmt: skip
    assert cli.main([*arguments, "--out", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    error = Arena.load(folder).summary.error.sel(family="prior", rule="Descent", budget=60).item()
    assert shown["error"]["prior"]["Descent"]["60"] == error
    assert {"rank", "worst", "worst_family"} <= set(shown["leaderboard"]["Descent"])
    (tmp_path / "own_family.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["arena", "--only", "Uniform", "--rule", "own_family:Turn"]
    arguments += ["--instances", "own_family:family", "--budgets", "20", "--runs", "2"]
    assert cli.main(arguments) == 0
    assert "own_family:Turn" in capsys.readouterr().out
    assert (tmp_path / "arena" / page.PAGE).exists()
    assert cli.main([*arguments, "--stop-error", "0.3"]) == 0
    assert "until a stop (error 0.3)" in (tmp_path / "arena" / "tables.md").read_text("utf-8")
    assert cli.main(["arena", "--only", "Descnt"]) == 2
    assert "did you mean 'Descent'" in capsys.readouterr().err
    assert cli.main(["arena", "--list"]) == 0
    assert "dose-finding" in capsys.readouterr().out


def test_names_cannot_break_the_page(tmp_path):
    play(out=tmp_path, rules={"<b>$x": {"kind": "Uniform"}, "Descent": {}}, families=["ball-2-5"])
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "<b>$x" not in text
    assert "&lt;b&gt;$x" in text
