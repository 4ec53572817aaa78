"""Specifications of studies: what they mean, and what is refused with which hint."""

import copy
import itertools
import json
import math
import tomllib

import pytest

import bayes_feasible as bf
from bayes_feasible.analysis.study import specification
from bayes_feasible.analysis.study.specification import RuleChoice, digest, parse, read

SMALL = {
    "instance": {"name": "end_of_optimism", "alpha": 0.2},
    "rules": {"Oracle": {}, "fast": {"kind": "BLFAIPS", "eta": 1}},
    "horizon": 100,
    "replicates": 2,
}


def changed(**changes):
    return copy.deepcopy(SMALL) | changes


def test_what_is_left_out_has_a_default():
    small = parse(SMALL)
    assert small.instance.problem == bf.instances.end_of_optimism(0.2).problem
    assert small.rules == (
        RuleChoice("Oracle", "Oracle"),
        RuleChoice("fast", "BLFAIPS", {"eta": 1}),
    )
    assert (small.horizon, small.replicates, small.seed) == (100, 2, 0)
    simulated = bf.simulate(small.instance, {"u": bf.Uniform}, 100, 1, executor=False)
    assert small.checkpoints == (10, 20, 50, 100) == tuple(simulated.time.values)
    assert small.checks is None


def test_rules_may_be_a_list_of_names():
    listed = parse(changed(rules=["Uniform", "TopTwo"]))
    assert listed.hash == parse(changed(rules={"Uniform": {}, "TopTwo": {"kind": "TopTwo"}})).hash


def test_a_maker_gives_the_rule_with_its_options():
    maker = parse(SMALL).rules[1].maker
    rule = maker(bf.instances.end_of_optimism(0.2).problem, seed=1)
    assert isinstance(rule, bf.BLFAIPS)
    assert rule.eta == 1.0


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


def test_an_instance_may_be_given_as_it_is():
    instance = bf.instances.end_of_optimism(0.2)
    assert parse(changed(instance=instance)).hash == parse(SMALL).hash


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
    ]
    assert len({parse(document).hash for document in same}) == 1
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
        changed(checks={"checkpoints": [10], "samplers": [specification.known_samplers()[0][0]]}),
    ]
    assert len({parse(document).hash for document in different}) == len(different)


def test_the_order_of_arms_is_part_of_the_digest():
    pairs = [("a", 1), ("b", 2), ("c", 3)]
    assert len({digest(dict(order)) for order in itertools.permutations(pairs)}) == 6


def test_the_default_study():
    found = specification.default()
    assert found.horizon == 100_000
    kinds = {rule.kind for rule in found.rules}
    assert kinds == {"Oracle", "BestResponse", "BLFAIPS", "TopTwo", "LinearThompson", "Uniform"}
    assert {rule.options.get("eta") for rule in found.rules if rule.kind == "BLFAIPS"} == {
        1.0,
        "paper",
    }
    assert bf.optimal_rate(found.instance).value == pytest.approx(0.00861884, abs=6e-9)
    assert found.checks.checkpoints
    assert set(found.checks.checkpoints) <= set(found.checkpoints)


def test_checks_have_defaults():
    known, quick = specification.known_samplers()
    assert set(quick) <= set(known)
    checks = parse(changed(checks={"checkpoints": [50]})).checks
    assert checks.samplers == quick
    assert checks.rule == "Oracle"
    assert (checks.draws, checks.chains) == (1000, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizn": 5}, "unknown key 'horizn'; did you mean 'horizon'?"),
        ({"zzz": 5}, "unknown key 'zzz'; expected one of title, instance, rules, horizon"),
        ({"title": 3}, "title: expected a text, got 3"),
        ({"horizon": 0}, "horizon: expected at least 1, got 0"),
        ({"replicates": "many"}, "replicates: expected a whole number, got 'many'"),
        ({"seed": -1}, "seed: expected at least 0, got -1"),
        ({"checkpoints": [5, 500]}, "checkpoints: expected rising numbers from 1 to the horizon"),
        ({"instance": "end_of_optimism"}, "instance: expected a table with name or file"),
        ({"instance": {}}, "instance: expected name, file or arms"),
        (
            {"instance": {"name": "end_of_optimism", "alfa": 0.1}},
            "instance: end_of_optimism: unknown parameter 'alfa'; did you mean 'alpha'?",
        ),
        ({"instance": {"file": "nowhere.toml"}}, "nowhere.toml: no such file"),
        ({"instance": {"file": 3}}, "instance: file: expected a path, got 3"),
        ({"instance": {"file": "a.toml", "alpha": 1}}, "instance: unknown key 'alpha'"),
        ({"instance": {"nmae": "soare"}}, "instance: unknown key 'nmae'; did you mean 'name'?"),
        ({"instance": {"arms": [[1, 0], [0, 1]]}}, "instance: the true parameters are needed"),
        (
            {"instance": {"arms": [[1, 0], [0, 1]], "theta_reward": [1, 1]}},
            "instance: the optimal rate is 0",
        ),
        ({"rules": {}}, "rules: expected a table for each rule, at least one"),
        ({"rules": ["Uniform", "Uniform"]}, "rules: expected distinct names"),
        ({"rules": {"blfaips": {}}}, "rules: unknown rule 'blfaips'; did you mean 'BLFAIPS'?"),
        ({"rules": {"a": {"kind": "Topptwo"}}}, "rules.a: kind: unknown rule 'Topptwo'; did you"),
        ({"rules": {"a": 3}}, "rules.a: expected a table of options, got 3"),
        ({"rules": {"a\nb": {"kind": "Uniform"}}}, "rules: expected a name that can be printed"),
        (
            {"rules": {"BLFAIPS": {"eat": 1}}},
            "rules.BLFAIPS: unknown option of BLFAIPS 'eat'; did you mean 'eta'?",
        ),
        ({"rules": {"Uniform": {"seed": 1}}}, "rules.Uniform: unknown option of Uniform 'seed'"),
        ({"rules": {"BLFAIPS": {"eta": -1}}}, "rules: 'BLFAIPS' cannot be made: eta: expected a"),
        ({"checks": 3}, "checks: expected a table, got 3"),
        ({"checks": {}}, "checks: checkpoints: missing"),
        ({"checks": {"checkpoints": [11]}}, "checks: checkpoints: 11 is none of the study's, 10,"),
        ({"checks": {"checkpoints": 10}}, "checks: checkpoints: expected a list"),
        (
            {"checks": {"checkpoints": [10], "rule": "oracle"}},
            "checks: unknown rule 'oracle'; did you mean 'Oracle'?",
        ),
        ({"checks": {"checkpoints": [10], "samplers": []}}, "checks: samplers: expected a list"),
        ({"checks": {"checkpoints": [10], "samplers": ["qqqq"]}}, "unknown sampler 'qqqq'"),
        ({"checks": {"checkpoints": [10], "draws": 0}}, "checks: draws: expected at least 1"),
        ({"checks": {"checkpoints": [10], "chains": 1}}, "checks: chains: expected at least 2"),
    ],
)
def test_mistakes_are_told(change, message):
    with pytest.raises((TypeError, ValueError, FileNotFoundError)) as error:
        parse(changed(**change))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["instance", "rules", "horizon", "replicates"])
def test_what_is_needed_is_missed(key):
    document = changed()
    del document[key]
    with pytest.raises(ValueError, match=f"{key}: missing"):
        parse(document)


def test_a_misspelt_sampler_is_told_the_right_one():
    name = max(specification.known_samplers()[0], key=len)
    wrong = name[:-1] + ("x" if name[-1] != "x" else "y")
    with pytest.raises(ValueError, match=f"did you mean {name!r}"):
        parse(changed(checks={"checkpoints": [10], "samplers": [wrong]}))


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
