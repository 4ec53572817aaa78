"""Files that are damaged, malicious or absurd: a clear message with the path, and nothing runs.

Problem files, specifications, recorded pulls, journals, saved rules and tables of films.
"""

import gzip
import json
import math
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import bayes_feasible as bf
from bayes_feasible.analysis.study import specification
from bayes_feasible.rules.saving import _checksum
from bayes_feasible.trial import journal

DRUG = bf.Problem({"low": [1.0, 0.2], "high": [1.0, 0.9]}, {"dose": 0.5})
PLAIN = bf.Problem([[1.0, 0.0], [0.0, 1.0]])


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def refused(call, path, message=""):
    """The call is refused in one line that names the file."""
    with pytest.raises((TypeError, ValueError, OSError)) as error:
        call()
    text = str(error.value)
    assert path in text
    assert message in text
    assert "\n" not in text
    return text


def outcome(call):
    """The message with which the call is refused, None if it is not."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


# --- problem files ---

DEEP, LONG = 100_000, 5000
PROBLEMS = [
    ("toml", "arms = " + "[" * DEEP, "nested too deeply"),
    ("toml", "arms = [[1]]\nthresholds = " + "[" * 300 + "]" * 300, "thresholds: "),
    ("toml", "a" + ".a" * 2000 + " = 1", "unknown key 'a'"),
    ("toml", "arms = [[1" + "0" * LONG + "]]", "digits"),
    ("toml", "arms = [[1e400]]", "arms: expected finite numbers, got inf"),
    ("toml", "arms = [[1]]\narms = [[2]]", "overwrite"),
    ("toml", "arms = [[1]]\ncost_noise = {a = 1}", "cost_noise: "),
    ("toml", b"arms = [[1]] # \xff", "expected text in UTF-8"),
    ("json", "[" * DEEP, "nested too deeply"),
    ("json", '{"arms": [[1' + "0" * LONG + "]]}", "digits"),
    ("json", '{"arms": [[1' + "0" * 400 + "]]}", "arms: "),
    ("json", '{"arms": {"a": [1], "b": {"c": 1}}}', "arms: "),
    ("json", '{"arms": [{"name": [], "vector": [1]}]}', "arms: expected a text"),
    ("json", '{"arms": [{"name": "a\\u0000", "vector": [1]}]}', "arms: names must not contain"),
    ("json", '{"arms": [{"name": "\\ud800", "vector": [1]}]}', "surrogates not allowed"),
    (
        "json",
        json.dumps({"arms": np.eye(100)[:-1].tolist(), "candidates": np.eye(100)[-1:].tolist()}),
        "lies outside",
    ),
    ("json", '{"arms": [[1]], "theta_reward": [1], "theta_cost": {"a": [1]}}', "theta_cost: "),
    ("json", '{"arms": [[1]], "__class__": "os.system"}', "unknown key '__class__'"),
    ("json", '{"arms": [[1]]} trailing', "Extra data"),
    ("csv", "kind,x\narm," + "1" * 200_000, "field larger than field limit"),
    ("csv", "kind,name,x\narm,a\0,1", "arms: names must not contain"),
    ("csv", b"kind,x\narm,\xff", "expected text in UTF-8"),
    ("csv", "\n\n", "row 1: no column 'kind'"),
    ("toml", "arms = {a = [1]}\narms.b = [2]", ""),
    ("toml", "arms = [[1]]".encode("utf-16"), "expected text in UTF-8"),
    ("toml", "arms = [[1]]\nfeatures = 2020-01-01", "features: "),
    ("json", '{"arms": [[1]],}', ""),
    ("json", '{"arms": [{"name": 1, "vector": [1]}, {"name": "1", "vector": [2]}]}', "arms: "),
    ("csv", 'kind,x\narm,"1"2\n', "not a CSV table"),
    ("csv", "Kind,x\narm,1\n", "did you mean it by 'Kind'?"),
    ("csv", "kind,name,x\narm,é,1\n".encode("latin-1"), "expected text in UTF-8"),
    ("csv", "kind," + ",".join(f"x{i}" for i in range(1000)) + "\narm", "row 2, column 'x0'"),
    # what a person may well write
    ("toml", "", "arms: missing"),
    ("csv", "", "the file is empty"),
    ("json", '{"arms": [[1]], "cost_nois": 1}', "did you mean 'cost_noise'"),
    ("json", '{"arms": {"a": [1], "a": [2]}}', "a: the key occurs more than once"),
    ("json", '{"arms": [[1]], "thresholds": [Infinity]}', "Infinity is not JSON"),
    ("json", '{"arms": [["1"]]}', "arms: expected numbers"),
    ("toml", 'arms = [[1]]\nfeatures = ["a", "b"]', "features: expected 1 names, got 2"),
    ("json", '{"arms": [[1]], "features": "a"}', "features: expected a list of names"),
    ("toml", "arms = [[1]]\ntheta_cost = [[1]]", "theta_cost: given without theta_reward"),
    ("toml", "arms = [{name = 1, vectr = [1]}]", "did you mean 'vector'"),
    ("toml", "arms = [{name = 1}]", "arms: expected name and vector, got only name"),
    ("json", '{"arms": [{"name": 1, "vector": [1]}, [2]]}', "arms: expected all of the list"),
    (
        "toml",
        "arms = [[1]]\nthresholds = 0\ntheta_reward = [1]\ntheta_cost = [[1, 2]]",
        "theta_cost: ",
    ),
    ("csv", "kind,x\narm,1\ntreshold,2", "row 3: unknown kind 'treshold'; did you mean 'thresh"),
    ("csv", "kind,,x\narm,,1", "row 1: column 2 has no name"),
    ("csv", "kind,x,x\narm,1,2", "row 1: the column 'x' occurs twice"),
    ("csv", "kind,x\narm,1,2", "row 2: 3 cells, but 2 columns"),
    ("csv", "kind,x,y\narm,1,", "row 2, column 'y': expected a number, got nothing"),
    ("csv", "kind,x\narm,1_0", "row 2, column 'x': expected a number, got '1_0'"),
    ("csv", "kind,value,x\narm,3,1", "row 2: arm takes a vector, no value, got '3'"),
    ("csv", "kind,value,x\nthreshold,3,1", "row 2: threshold takes its number in the column"),
    ("csv", "kind,value,x\nthreshold,3,", "arms: missing"),
    ("csv", "kind,value,x\narm,,1\nreward_noise,1,\nreward_noise,2,", "row 4: reward_noise occurs"),
    ("csv", "kind,name,value,x\narm,,,1\nreward_noise,a,1,", "row 3: reward_noise takes no name"),
    ("csv", "kind,name,x\narm,a,1\narm,,2", "row 3: name every arm or none"),
    ("csv", "kind,name,value,x\narm,,,1\nthreshold,a,1,\ncost_noise,b,1,", "cost_noise: unknown"),
]


@pytest.mark.parametrize(("extension", "content", "message"), PROBLEMS)
def test_problem_files(extension, content, message):
    path = write(f"p.{extension}", content)
    refused(lambda: bf.load(path), path, message)


# --- specifications ---

SPECIFICATION = 'instance = { name = "soare" }\nrules = ["Uniform"]\nhorizon = 10\nreplicates = 1\n'
SPECIFICATIONS = [
    ("", "title = " + "[" * DEEP, "nested too deeply"),
    ("", "a" + ".a" * 2000 + " = 1", "unknown key 'a'"),
    ("", "seed = 1" + "0" * LONG, "digits"),
    ("", "seed = 2020-01-01", "seed: "),
    ("", "checkpoints = [1, [2]]", "checkpoints: "),
    ("", "checkpoints = [1180591620717411303424]", "checkpoints: "),
    ("", "horizon = 20", "overwrite"),
    ("", "checks = { checkpoints = [10], samplers = [[1]] }", "checks: samplers: unknown sampler"),
    ("", "checks = { checkpoints = [10], rule = ['Uniform'] }", "checks: "),
    ("horizon = 10", "horizon = 1" + "0" * 30, "horizon: "),
    ("replicates = 1", "replicates = 1" + "0" * 15, "replicates: "),
    ('rules = ["Uniform"]', "rules = [[]]", "rules: "),
    ('rules = ["Uniform"]', "rules.a.kind = {b = 1}", "rules.a: kind: "),
    ('rules = ["Uniform"]', "rules.a.kind = '__import__'", "rules.a: kind: "),
    ('rules = ["Uniform"]', "rules.BLFAIPS.eta = 2020-01-01", "eta: "),
    ('rules = ["Uniform"]', "rules.BLFAIPS.problem = 1", "rules.BLFAIPS: "),
    ('rules = ["Uniform"]', "rules.BLFAIPS.__class__ = 1", "rules.BLFAIPS: "),
    ('rules = ["Uniform"]', "rules.FixedAllocation.allocation = {a = 1}", "allocation: "),
    ('rules = ["Uniform"]', "rules.PEPS.horizon = 1" + "0" * 400, "horizon: "),
    ('"soare"', '"__import__"', "instance: unknown built-in"),
    ('"soare"', '"soare", d = 1' + "0" * 30, "instance: d: "),
    ('"soare"', '"random_ball", d = 2, k = 3, seed = {a = 1}', "instance: seed: "),
    ('"soare"', '"random_ball", d = 2, k = 1' + "0" * 18 + ", seed = 1", "instance: k: "),
    ('"soare"', '"movielens", table = 3', "instance: table: "),
    ('name = "soare"', "arms = [[nan]], theta_reward = [1]", "instance: arms: "),
    ('name = "soare"', "arms = [[1], [2]], theta_reward = [[1]]", "instance: theta_reward: "),
]


@pytest.mark.parametrize(("old", "new", "message"), SPECIFICATIONS)
def test_specifications(old, new, message):
    text = SPECIFICATION.replace(old, new) if old else f"{SPECIFICATION}{new}\n"
    path = write("s.toml", text)
    refused(lambda: specification.read(path), path, message)


KEYS = {
    "title": '"t"', "horizon": "10", "replicates": "1", "seed": "0", "rules": '["Uniform"]',
    "instance": '{ name = "soare" }', "checkpoints": "[5, 10]", "checks": "{ checkpoints = [10] }",
}  # fmt: skip
NEVER = ("true", "1.5", "-inf", "[]", "[[]]", "[{}]", "{a = {}}", "07:32:00", "[nan]")


@pytest.mark.parametrize("value", NEVER)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_specification_with_a_value_of_no_use(key, value):
    lines = [f"{name} = {good}" for name, good in (KEYS | {key: value}).items()]
    refused(lambda: specification.read(write("s.toml", "\n".join(lines))), "s.toml", key)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_specification_given_twice(key):
    assert specification.read(write("s.toml", SPECIFICATION)).horizon == 10  # the control
    lines = [f"{name} = {good}" for name, good in KEYS.items()]
    for again in (lines[list(KEYS).index(key)], f"{key}.a = 1", f"[{key}]", f"[[{key}]]"):
        refused(lambda: specification.read(write("s.toml", "\n".join([*lines, again]))), "s.toml")  # noqa: B023


# --- recorded pulls ---

PULLS = [
    ("", "column 'arm' is missing"),
    ("arm", "column 'reward' is missing"),
    ("arm,reward,dose\n0,1", "line 2: expected 3 cells, got 2"),
    ("arm,reward,dose\nmiddle,1,2", "line 2: arm: unknown arm 'middle'"),
    ("arm,reward,dose\n" + "9" * LONG + ",1,2", "line 2: "),
    ("arm,reward,dose\n0," + "1" * 200_000 + ",2", "line 2: "),
    ("arm,reward,dose\n0,1e400,2", "line 2, reward: expected a finite number"),
    ("arm,reward,dose\n0,1e81,2", "line 2, reward: expected at most"),
    ("arm,reward,dose\n0,x,2", "line 2, reward: expected a finite number"),
    ("arm,reward,dose\n0,1,2\0", "line 2, dose: expected a finite number"),
    ('arm,reward,dose\n"0,1,2', "line 2: "),
    ("arm,reward,dose,dose\n0,1,2,2", "column 'dose' occurs more than once"),
    ("arm,reward,dose,weight\n0,1,2,3", "column 'weight' is not one of"),
    (b"\xff\xfe\x00", "expected text in UTF-8"),
]


@pytest.mark.parametrize(("content", "message"), PULLS)
def test_pulls_as_csv(content, message):
    path = write("pulls.csv", content)
    refused(lambda: bf.History.load(path, DRUG), path, message)


ONE = {"arm": ("pull", [0]), "reward": ("pull", [1.0]), "cost": ("pull", [1.0])}
NETCDF = [
    ({"arm": None}, {}, "no variable 'arm'"),
    ({"cost": None}, {"constraint": ["dose"]}, "no variable 'cost'"),
    ({"arm": ("pull", [0.0])}, {}, "arms: "),
    ({"arm": ("pull", [-1])}, {}, "arms: "),
    ({"arm": ("pull", ["middle"])}, {}, "unknown arm 'middle'"),
    ({"arm": (("pull", "also"), [["low"]])}, {}, "unknown arm"),
    ({"reward": ("pull", [np.inf])}, {}, "rewards: "),
    ({"reward": ("pull", np.array(["2020-01-01"], "M8[ns]"))}, {}, "rewards: expected numbers"),
    ({"arm": ("pull", np.array([2**63], "u8"))}, {}, "arms: "),
    ({"reward": ("other", [1.0, 2.0])}, {}, "rewards: "),
    ({"reward": ("pull", [1.0], {"units": "days since 2000-01-01"})}, {}, "rewards: "),
    ({"cost": (("pull", "constraint"), [[1.0, 2.0]])}, {"constraint": ["dose", "dose"]}, "constr"),
    ({"cost": (("pull", "constraint"), [[1.0]])}, {"constraint": ["price"]}, "constraints: "),
    ({}, {"constraint": ["dose"]}, "constraint"),
    ({"arm_name": ("choice", ["high", "low"])}, {}, "arms: expected those of the problem"),
]


@pytest.mark.parametrize(("change", "coords", "message"), NETCDF)
def test_pulls_as_netcdf(change, coords, message):
    content = {name: value for name, value in (ONE | change).items() if value is not None}
    xr.Dataset(content, coords).to_netcdf("pulls.nc", engine="h5netcdf")
    refused(lambda: bf.History.load("pulls.nc", DRUG), "pulls.nc", message)


def test_a_netcdf_file_with_constraints_for_a_problem_without():
    one = {name: ONE[name] for name in ("arm", "reward")}
    xr.Dataset(one, {"constraint": np.zeros(0)}).to_netcdf("pulls.nc", engine="h5netcdf")
    assert len(bf.History.load("pulls.nc", PLAIN)) == 1


@pytest.mark.parametrize(
    "link", [h5py.SoftLink("/nowhere"), h5py.ExternalLink("/etc/passwd", "/x")], ids=["soft", "ext"]
)
def test_a_link_in_a_netcdf_file_leads_nowhere(link):
    with h5py.File("pulls.nc", "w") as file:
        file["arm"], file["reward"], file["cost"] = link, [1.0], [1.0]
    refused(lambda: bf.History.load("pulls.nc", DRUG), "pulls.nc")


FOREIGN = {
    "scale": {"reward": [1.0], "attributes": {"scale_factor": "x"}},
    "units": {"reward": [1.0], "attributes": {"units": "days since the flood"}},
    "record": {"reward": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])},
    "text": {"reward": "x"},
    "endless": {"shape": (10**15,)},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_hdf5_that_another_program_wrote(name, recwarn):
    with h5py.File("pulls.nc", "w") as file:
        file["arm"], file["cost"] = [0], [1.0]
        given = FOREIGN[name]
        if "shape" in given:  # a kilobyte that says it is petabytes
            file.create_dataset("reward", shape=given["shape"], chunks=(1000,), dtype="f8")
        else:
            file["reward"] = given["reward"]
        file["reward"].attrs.update(given.get("attributes", {}))
    refused(lambda: bf.History.load("pulls.nc", DRUG), "pulls.nc")
    assert not recwarn.list  # one line, and nothing beside it


def test_netcdf_in_groups_or_of_the_old_format():
    xr.DataTree.from_dict({"/a": xr.Dataset(ONE)}).to_netcdf("pulls.nc", engine="h5netcdf")
    refused(lambda: bf.History.load("pulls.nc", DRUG), "pulls.nc", "no variable 'arm'")
    xr.Dataset(ONE).to_netcdf("pulls.nc", engine="scipy")
    refused(lambda: bf.History.load("pulls.nc", DRUG), "pulls.nc", "not a netCDF file")


def recorded(pulls=60):
    rng = np.random.default_rng(0)
    return bf.History(
        DRUG, rng.integers(2, size=pulls), rng.normal(size=pulls), rng.normal(size=pulls)
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of h5netcdf
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_netcdf_file_is_read_or_refused(seed):
    """A changed byte may hide in a gap, but whatever HDF5 makes of it is told with the path."""
    recorded().save("pulls.nc")
    content, rng = Path("pulls.nc").read_bytes(), np.random.default_rng(seed)
    refusals = 0
    for i in range(40):
        damaged = bytearray(content)
        if i % 4 == 0:
            damaged = damaged[: rng.integers(len(content))]
        else:
            damaged[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        write("damaged.nc", bytes(damaged))
        message = outcome(lambda: bf.History.load("damaged.nc", DRUG))
        assert message is None or message.startswith("damaged.nc: ")
        refusals += message is not None
    assert refusals >= 10  # each of the files that were cut


# --- journals whose checksums are right all the same ---


def started():
    """The lines of a trial with an ask and a tell."""
    trial = bf.Trial.new("a.trial", DRUG, seed=1)
    trial.ask(2)
    trial.tell("low", 1.0, 0.2)
    return Path("a.trial").read_bytes().splitlines(keepends=True)


def signed(text, lines):
    """A line with this text and checksums that fit after the others."""
    body = f'{text}, "after": "{json.loads(lines[-1])["check"]}"'.encode()
    return body + f', "check": "{journal._check(body)}"}}\n'.encode()


FORGED = [
    '{"event": "tell"',
    '[{"n": 4',
    '{"n": "4", "event": "ask", "arms": [0]',
    '{"n": 5, "event": "ask", "arms": [0]',
    '{"n": 4, "x": ' + "[" * DEEP + "]" * DEEP,
    '{"n": 4, "event": "launch", "arms": [0]',
    '{"n": 4, "event": ["ask"], "arms": [0]',
    '{"n": 4, "event": "ask", "arms": []',
    '{"n": 4, "event": "ask", "arms": [2]',
    '{"n": 4, "event": "ask", "arms": [-1]',
    '{"n": 4, "event": "ask", "arms": [true]',
    '{"n": 4, "event": "tell", "arms": [0], "rewards": [1.0], "costs": [[]]',
    '{"n": 4, "event": "tell", "arms": [0], "rewards": ["1"], "costs": [[1.0]]',
    '{"n": 4, "event": "tell", "arms": [0], "rewards": [NaN], "costs": [[1.0]]',
    '{"n": 4, "event": "tell", "arms": [0], "rewards": [1e400], "costs": [[1.0]]',
    '{"n": 4, "event": "undo", "of": 1',
    '{"n": 4, "event": "undo", "of": true',
    '{"n": 4, "event": "new"',
]


@pytest.mark.parametrize("text", FORGED, ids=[text[:60] for text in FORGED])
def test_an_event_that_no_trial_writes_is_refused(text):
    lines = started()
    write("a.trial", b"".join([*lines, signed(text, lines)]))
    refused(lambda: bf.Trial("a.trial"), "a.trial")


def test_an_event_that_a_trial_writes_is_taken():
    lines = started()
    good = '{"n": 4, "event": "tell", "arms": [0], "rewards": [1.0], "costs": [[1.0]]'
    write("a.trial", b"".join([*lines, signed(good, lines)]))
    assert len(bf.Trial("a.trial").history) == 2


FIRST_LINES = [
    *({"rule": 3}, {"rule": ["x"]}, {"rule": "os.system"}, {"settings": 3}),
    *({"settings": {"zz": 1}}, {"settings": {"exploration": "x"}}, {"settings": {"seed": 1}}),
    *({"seed": -1}, {"seed": "x"}, {"seed": 1.5}, {"recommendation": "x"}, {"problem": 3}),
    *({"problem": {}}, {"problem": {"arms": [[1, "x"]]}}, {"version": 2}, {"version": None}),
    *({"format": "other"}, {"format": []}),
]


@pytest.mark.parametrize("change", FIRST_LINES, ids=str)
def test_a_first_line_that_no_trial_writes_is_refused(change):
    first = json.loads(started()[0])
    for key in ("n", "time", "after", "check"):
        del first[key]
    write("b.trial", journal._line(1, first | change, "0" * 16))
    with pytest.raises(
        (TypeError, ValueError), match=r"b\.trial|rule|option|exploration|seed"
    ) as error:
        bf.Trial("b.trial").ask()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\0" * 2000, b"{}", b"[]\n", b"null\n", b"\xff\xfe\n", b"[" * DEEP, b"{" * 10],
    ids=repr,
)
def test_what_is_no_journal(content):
    write("a.trial", content[:DEEP])
    refused(lambda: bf.Trial("a.trial"), "a.trial")


# --- saved rules ---


def saved_rule():
    rule = bf.BLFAIPS(DRUG, seed=1)
    rule.tell([0, 1], [1.0, 2.0], [[0.1], [0.2]])
    rule.save("rule.json")
    return json.loads(Path("rule.json").read_text())


FORGED_RULES = [
    (["rule"], "Rule"),
    (["rule"], "__import__"),
    (["rule"], "Oracle"),
    (["settings"], {"problem": 1}),
    (["settings", "eta"], {}),
    (["recommendation"], None),
    (["problem", "arms"], {"a": [1e200, 0]}),
    (["problem", "extra"], 1),
    (["generators", 0], 3),
    (["generators", 0, "state", "state"], 2**200),
    (["generators", 0, "bit_generator"], "MT19937"),
    (["state", "counts"], [[1], [1]]),
    (["state", "pulls"], [10**18, 10**18]),
    (["state", "sums"], [[1e300, 0], [0, 0]]),
    (["state", "weights"], [1e-5, 0.5]),
    (["state", "clock", 1], -5),
]


@pytest.mark.parametrize(("place", "value"), FORGED_RULES, ids=str)
def test_a_saved_rule_with_a_checksum_that_fits_is_looked_at_all_the_same(place, value):
    document = saved_rule()
    document.pop("checksum")
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    document["checksum"] = _checksum(document)
    path = write("forged.json", json.dumps(document))
    refused(lambda: bf.Rule.load(path), path, "not a rule that was saved")


@pytest.mark.parametrize("number", range(8))
def test_any_edit_of_a_saved_rule_is_noticed(number):
    saved_rule()
    content = Path("rule.json").read_bytes()
    digits = [i for i, byte in enumerate(content) if chr(byte) in "123456789"]
    changed = bytearray(content)
    changed[digits[number * len(digits) // 8]] = ord("0")
    path = write("edited.json", bytes(changed))
    refused(lambda: bf.Rule.load(path), path)


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[" * DEEP, '{"checksum": NaN}', '{"checksum": 1' + "0" * LONG + "}", "null"],
    ids=lambda text: text[:20],
)
def test_what_is_no_saved_rule(content):
    path = write("rule.json", content)
    refused(lambda: bf.Rule.load(path), path, "not a rule that was saved")
    write("rule.json", b"\xff\xfe\x00")
    refused(lambda: bf.Rule.load(path), path, "not a rule that was saved")


# --- nothing is executed ---


class Payload:
    """What an unpickler would run."""

    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


READERS = {
    "p.toml": bf.load,
    "p.json": bf.load,
    "p.csv": bf.load,
    "pulls.csv": lambda path: bf.History.load(path, DRUG),
    "pulls.nc": lambda path: bf.History.load(path, DRUG),
    "a.trial": bf.Trial,
    "rule.json": bf.Rule.load,
    "study.toml": specification.read,
    "table.csv": lambda path: bf.instances.movielens(table=path),
    "ratings.csv": bf.datasets.read_ratings,
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of h5netcdf
@pytest.mark.parametrize("name", READERS)
def test_a_pickle_is_not_opened(name):
    data = pickle.dumps(Payload())
    pickle.loads(data)  # the control: it is dangerous
    Path("executed").unlink()
    write(name, data)
    refused(lambda: READERS[name](name), name)
    write(name, gzip.compress(data, mtime=0))
    refused(lambda: READERS[name](name), name)
    assert not Path("executed").exists()


@pytest.mark.parametrize("extension", ["toml", "json", "csv"])
def test_a_name_that_is_code_is_a_name(extension):
    name = "__import__('pathlib').Path('executed').touch()"
    problem = bf.Problem({name: [1.0], "=cmd()": [2.0], "$(touch executed)": [3.0]}, {name: 1.0})
    bf.save(problem, f"p.{extension}")
    again = bf.load(f"p.{extension}")
    assert again == problem
    trial = bf.Trial.new("a.trial", again)
    trial.tell(name, 1.0, {name: 0.5})
    trial.history.save("pulls.csv")
    assert len(bf.History.load("pulls.csv", again)) == 1
    assert name in str(trial.status())
    assert not Path("executed").exists()


def test_numbers_are_read_to_the_last_bit():
    """The control of the refusals: what is good at the edges is kept as it is."""
    values = [1e80, -1e80, 1e-100, 0.1, math.pi, 5e-100]
    history = bf.History(DRUG, [0, 1] * 3, values, values)
    for extension in ("csv", "nc"):
        history.save(f"pulls.{extension}")
        again = bf.History.load(f"pulls.{extension}", DRUG)
        assert again.rewards.tobytes() == history.rewards.tobytes()
