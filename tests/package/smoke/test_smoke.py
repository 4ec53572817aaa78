"""What a user sees first of an installed package; needs nothing but pytest."""

import json
import math
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import bayes_feasible as bf


def test_it_is_installed_with_all_that_it_ships():
    home = Path(bf.__file__).parent
    assert (home / "py.typed").exists()
    assert (home / "data" / "reference.json").exists()
    assert (files("bayes_feasible.analysis.study") / "default.toml").is_file()
    assert list((files("bayes_feasible.analysis.report") / "templates").iterdir())


def test_a_rate_a_posterior_and_an_answer():
    instance = bf.instances.end_of_optimism(alpha=0.3)
    assert math.isclose(bf.optimal_rate(instance).value, 0.00861884, rel_tol=1e-6)
    rule = bf.Descent(instance.problem)
    arms = [0, 2, 2, 2] * 300
    rule.tell(arms, *instance.pull(arms, seed=0))
    answer = rule.recommend()
    assert answer.candidate == instance.best
    assert answer.log_error < -2


def test_the_films_are_shipped():
    assert bf.instances.movielens(films=20).problem.arms.shape == (20, 20)


def test_the_command_answers():
    command = [sys.executable, "-m", "bayes_feasible.cli", "rate", "--instance", "end_of_optimism"]
    found = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
    assert found
