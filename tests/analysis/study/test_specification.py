"""Specifications of studies: what they mean, and what is refused with which hint."""

import copy
import itertools
import json
import math
import tomllib

import pytest

import bayes_feasible as bf
from bayes_feasible.analysis.study import specification
from bayes_feasible.analysis.study.specification import (
    RuleChoice,
    digest,
    known_samplers,
    parse,
    read,
)

SMALL = {
    "instance": {"name": "end_of_optimism", "alpha": 0.2},
    "rules": {"Oracle": {}, "fast": {"kind": "BLFAIPS", "eta": 1}},
    "horizon": 100,
    "replicates": 2,
}


TIED = {"arms": [[1, 0], [0, 1]], "theta_reward": [1, 1]}
CHECK = {"checkpoints": [10]}


def changed(**changes):
    return copy.deepcopy(SMALL) | changes


def test_what_is_left_out_has_a_default():
    small = parse(SMALL)
    assert small.instance.problem == bf.instances.end_of_optimism(0.2).problem
    fast = RuleChoice("fast", "BLFAIPS", {"eta": 1})
    assert small.rules == (RuleChoice("Oracle", "Oracle"), fast)
    assert fast.maker(small.instance.problem, seed=1).eta == 1.0
    assert (small.horizon, small.replicates, small.seed) == (100, 2, 0)
    simulated = bf.simulate(small.instance, {"u": bf.Uniform}, 100, 1, executor=False)
    assert small.checkpoints == (10, 20, 50, 100) == tuple(simulated.time.values)
    assert small.checks is None
    checks, quick = parse(changed(checks={"checkpoints": [50]})).checks, known_samplers()[1]
    assert (checks.samplers, checks.rule, checks.draws, checks.chains) == (quick, "Oracle", 1000, 4)


def test_the_default_study():
    found = specification.default()
    assert found.horizon == 100_000
    kinds = {rule.kind for rule in found.rules}
    assert kinds == {"Oracle", "Descent", "BLFAIPS", "TopTwo", "LinearThompson", "Uniform"}
    etas = {rule.options.get("eta") for rule in found.rules if rule.kind == "BLFAIPS"}
    assert etas == {1.0, "paper"}
    assert bf.optimal_rate(found.instance).value == pytest.approx(0.00861884, abs=6e-9)
    assert set(found.checks.checkpoints) <= set(found.checkpoints)


def test_an_instance_comes_from_a_file_beside_the_specification(tmp_path, monkeypatch):
    drug = bf.Problem({"low": [1, 0.2], "high": [1, 0.9]}, {"toxicity": 0.3, "pain": math.inf})
    truth = bf.Instance(drug, [0, 1], {"toxicity": [0, 0.5], "pain": [0, 0.1]})
    (tmp_path / "specs").mkdir()
    bf.save(truth, tmp_path / "specs" / "drug.toml")
    text = 'rules = ["Uniform"]\nhorizon = 10\nreplicates = 1\ninstance = { file = "drug.toml" }\n'
    path = tmp_path / "specs" / "study.toml"
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    found = read(path)
    assert found.instance.problem == drug
    assert found.instance.best == truth.best
    alone = tmp_path / "alone.toml"  # needs no other file
    alone.write_text(found.toml())
    assert read(alone).hash == found.hash
    json.loads(json.dumps(found.meaning(), allow_nan=False))


def test_the_written_specification_is_the_same_study():
    for document in (SMALL, changed(title="x", seed=2**70, checkpoints=[3, 9])):
        found = parse(document)
        again = parse(tomllib.loads(found.toml()))
        assert again.document() == found.document()
        assert again.hash == found.hash


def test_the_hash_is_of_the_meaning_and_of_nothing_else():
    same = [
        SMALL,
        changed(title="another title"),
        changed(seed=0),
        changed(checkpoints=[10, 20, 50, 100]),
        changed(rules={"Oracle": {}, "fast": {"eta": 1.0, "kind": "BLFAIPS"}}),
        dict(reversed(SMALL.items())),
        changed(instance=bf.instances.end_of_optimism(0.2)),
    ]
    assert len({parse(document).hash for document in same}) == 1
    listed = changed(rules=["Uniform", "TopTwo"])
    assert parse(listed).hash == parse(changed(rules={"Uniform": {}, "TopTwo": {}})).hash
    pairs = [("a", 1), ("b", 2), ("c", 3)]  # the order of arms counts
    assert len({digest(dict(order)) for order in itertools.permutations(pairs)}) == 6
    different = [
        SMALL,
        changed(seed=1),
        changed(horizon=101),
        changed(replicates=3),
        changed(checkpoints=[10, 100]),
        changed(instance={"name": "end_of_optimism", "alpha": 0.3}),
        changed(rules={"Oracle": {}, "fast": {"kind": "BLFAIPS", "eta": 2}}),
        changed(rules={"Oracle": {}, "quick": {"kind": "BLFAIPS", "eta": 1}}),
        changed(rules={"fast": {"kind": "BLFAIPS", "eta": 1}, "Oracle": {}}),
        changed(checks={"checkpoints": [10], "samplers": [known_samplers()[0][0]]}),
    ]
    assert len({parse(document).hash for document in different}) == len(different)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizn": 5}, "unknown key 'horizn'; did you mean 'horizon'?"),
        ({"title": 3}, "title: expected a text, got 3"),
        ({"horizon": 0}, "horizon: expected at least 1, got 0"),
        ({"replicates": "many"}, "replicates: expected a whole number, got 'many'"),
        ({"seed": -1}, "seed: expected at least 0, got -1"),
        ({"checkpoints": [5, 500]}, "checkpoints: expected rising numbers from 1 to the horizon"),
        ({"instance": "soare"}, "instance: expected a table with name or file"),
        ({"instance": {}}, "instance: expected name, file or arms"),
        ({"instance": {"name": "soare", "dd": 1}}, "instance: soare: unknown parameter 'dd'"),
        ({"instance": {"file": "nowhere.toml"}}, "nowhere.toml: no such file"),
        ({"instance": {"file": 3}}, "instance: file: expected a path, got 3"),
        ({"instance": {"nmae": "soare"}}, "instance: unknown key 'nmae'; did you mean 'name'?"),
        ({"instance": {"arms": [[1, 0], [0, 1]]}}, "instance: the true parameters are needed"),
        ({"instance": TIED}, "instance: the optimal rate is 0"),
        ({"rules": {}}, "rules: expected a table for each rule, at least one"),
        ({"rules": ["Uniform", "Uniform"]}, "rules: expected distinct names"),
        ({"rules": {"blfaips": {}}}, "rules: unknown rule 'blfaips'; did you mean 'BLFAIPS'?"),
        ({"rules": {"a": 3}}, "rules.a: expected a table of options, got 3"),
        ({"rules": {"a\nb": {"kind": "Uniform"}}}, "rules: expected a name that can be printed"),
        ({"rules": {"BLFAIPS": {"eat": 1}}}, "rules.BLFAIPS: unknown option of BLFAIPS 'eat'"),
        ({"rules": {"Uniform": {"seed": 1}}}, "rules.Uniform: unknown option of Uniform 'seed'"),
        ({"rules": {"BLFAIPS": {"eta": -1}}}, "rules: 'BLFAIPS' cannot be made: eta: expected a"),
        ({"checks": 3}, "checks: expected a table, got 3"),
        ({"checks": {}}, "checks: checkpoints: missing"),
        ({"checks": CHECK | {"checkpoints": [11]}}, "checks: checkpoints: 11 is none of the"),
        ({"checks": CHECK | {"rule": "oracle"}}, "checks: unknown rule 'oracle'; did you mean"),
        ({"checks": CHECK | {"samplers": []}}, "checks: samplers: expected a list"),
        ({"checks": CHECK | {"samplers": ["exat"]}}, "sampler 'exat'; did you mean 'exact'?"),
        ({"checks": CHECK | {"draws": 10**12}}, "checks: draws: expected at most"),
        ({"checks": CHECK | {"chains": 1}}, "checks: chains: expected at least 2"),
    ],
)
def test_mistakes_are_told(change, message):
    with pytest.raises((TypeError, ValueError, FileNotFoundError)) as error:
        parse(changed(**change))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_needed_is_missed():
    for key in specification.REQUIRED:
        with pytest.raises(ValueError, match=f"{key}: missing"):
            parse({name: value for name, value in SMALL.items() if name != key})


def test_names_are_checked_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(specification, "_start", lambda *_: pytest.fail("a rule was built"))
    with pytest.raises(ValueError, match="unknown rule"):
        parse(changed(rules=["Oracle", "Orcale"]))


def test_mistakes_in_a_file_begin_with_its_path(tmp_path):
    path = tmp_path / "study.toml"
    for content, message in [
        (b"horizon = ", "Invalid value"),
        (b"horizon = 1", "instance: missing"),
        (b"\xff", "expected text in UTF-8"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            read(path)
        assert str(error.value).startswith(f"{path}: ")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read(tmp_path / "nowhere.toml")
    with pytest.raises(ValueError, match="this is a folder"):
        read(tmp_path)
