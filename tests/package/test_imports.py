"""Rules and instances of the user's own, by import path: Python, specifications, commands."""

import json
import re
import sys

import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible._imports import code_of, import_object
from bayes_feasible.analysis.study.specification import parse
from bayes_feasible.built_in import build_instance
from bayes_feasible.rules import find_rule

MODULE = '''
import bayes_feasible as bf

class Turn:
    """Pull the arms in turn."""

    def __init__(self, problem, start=0):
        self.posterior, self.start = bf.Posterior(problem), start

    def ask(self):
        return (self.start + self.posterior.pulls) % len(self.posterior.counts)

    def tell(self, arm, reward, cost):
        self.posterior.update(arm, reward, cost)

    def recommend(self):
        return self.posterior.best()

class Seeded(Turn):
    def __init__(self, problem, seed, start=0):
        super().__init__(problem, start)

def family(seed):
    return bf.instances.random_ball(2, 4, seed)

def nothing():
    return 3

number = 3
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "own_rules.py").write_text(MODULE)
    (tmp_path / "broken_rules.py").write_text("import surely_not_there\n")
    (tmp_path / "failing_rules.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield tmp_path
    for name in ("own_rules", "broken_rules", "failing_rules"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own_rules", "expected module:name, such as my_module:MyRule, got 'own_rules'"),
        ("own_rules:", "expected module:name"),
        ("own-rules:Turn", "expected module:name"),
        ("own_rules:Trun", "own_rules: unknown name 'Trun'; did you mean 'Turn'?"),
        ("no_rules:Turn", "no_rules:Turn: no module 'no_rules', neither installed nor in the"),
        ("own_rules.more:Turn", "no module 'own_rules.more', neither installed"),
        ("broken_rules:Turn", "its import failed: No module named 'surely_not_there'"),
        ("failing_rules:Turn", "its import failed: ZeroDivisionError"),
    ],
)
def test_what_cannot_be_imported_is_told(module, path, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        import_object(path)


def test_rules_and_instances_by_import_path(module):
    assert find_rule("own_rules:Turn").__name__ == "Turn"
    assert build_instance("own_rules:family", {"seed": 3}).problem.arms.shape == (4, 2)
    assert code_of("own_rules:Turn") == MODULE.encode()
    for name, error in (("own_rules:number", TypeError), ("Turn", ValueError), (3, ValueError)):
        with pytest.raises(error):
            find_rule(name)
    for name, given, message in (
        ("own_rules:nothing", {}, "to return an Instance, got int"),
        ("own_rules:number", {}, "expected a function"),
        ("own_rules:family", {}, "seed must be given"),
        ("own_rules:family", {"sed": 3}, "did you mean 'seed'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            build_instance(name, given)


def test_a_specification_knows_them_and_their_code(module):
    document = {
        "instance": {"name": "own_rules:family", "seed": 2},
        "rules": {"mine": {"kind": "own_rules:Seeded", "start": 1}, "Uniform": {}},
        "horizon": 20,
        "replicates": 2,
    }
    found = parse(document)
    np.testing.assert_array_equal(
        found.instance.problem.arms, bf.instances.random_ball(2, 4, 2).problem.arms
    )
    assert parse(found.document()).hash == found.hash
    with pytest.raises(ValueError, match="unknown option of own_rules:Seeded 'strat'"):
        parse(document | {"rules": {"mine": {"kind": "own_rules:Seeded", "strat": 1}}})
    with pytest.raises(ValueError, match=r"rules\.mine: kind: own_rules: unknown name 'Seded'"):
        parse(document | {"rules": {"mine": {"kind": "own_rules:Seded"}}})
    (module / "own_rules.py").write_text(MODULE + "\n# changed\n")
    assert parse(document).hash != found.hash


def test_a_study_of_them(module, capsys):
    template = 'horizon = 30\nreplicates = 2\nrules = ["Uniform"]\ninstance = {name = "soare"}\n'
    (module / "small.toml").write_text(template)
    arguments = ["study", "small.toml", "--rule", "own_rules:Seeded", "--results-only", "--json"]
    arguments += ["--workers", "1", "--instance", "own_rules:family", "seed=1"]
    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == {"computed": 2, "reused": 0}
    (module / "own_rules.py").write_text(MODULE + "\n# changed\n")
    assert cli.main([*arguments, "--extend"]) == 0
    shown = json.loads(capsys.readouterr().out)["parts"]
    assert shown == {"computed": 2, "reused": 0}  # the instance is of that code, too
    assert cli.main(["rate", "--instance", "own_rules:family", "seed=1"]) == 0
    assert cli.main(["rate", "--instance", "own_rules:famly", "seed=1"]) == 2
    assert "did you mean 'family'" in capsys.readouterr().err
