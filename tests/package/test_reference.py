"""The shipped table of reference values, and `bayes-feasible doctor`, which compares with it."""

import copy
import json
import math
import os
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from packaging.requirements import Requirement

from bayes_feasible import cli, doctor
from bayes_feasible.alternative.normal import tail_excess
from bayes_feasible.analysis import reference

TABLE = doctor.reference()
ALPHA = 1e-9  # false alarms of a statistical test


@pytest.mark.slow
def test_the_script_regenerates_the_table():
    text = (doctor.files("bayes_feasible") / "data" / "reference.json").read_text("utf-8")
    assert reference.table_text() == text


def test_some_rows_are_what_the_script_gives():
    with mp.workdps(reference.DIGITS):
        for row in TABLE["event"][::17]:
            case = {key: value for key, value in row.items() if key != "values"}
            again = [float(mp.log(p)) for p in reference.event_probabilities(case)]
            assert again == row["values"]
        for row in TABLE["exponent"][::5]:
            again = [reference._number(f) for f in reference.exponents(row)]
            assert again == row["values"]


def test_rates_of_the_table_against_their_closed_form():
    """Two arms without constraint share the pulls equally: the rate is gap² / 8."""
    for row in TABLE["rate"]:
        if len(row["rewards"]) == 2:
            gap = row["rewards"][0] - row["rewards"][1]
            assert row["value"] == pytest.approx(gap**2 / 8, rel=1e-14)
            assert row["allocation"] == pytest.approx([0.5, 0.5], rel=1e-12)


@pytest.mark.parametrize("name", doctor.CHECKS)
def test_agrees_with_the_table(name):
    assert doctor.CHECKS[name](TABLE) <= 1


@njit
def count_below(rng, bound, value, draws):
    below = 0
    for _ in range(draws):
        below += tail_excess(rng, bound) < value
    return below


@pytest.mark.parametrize("row", TABLE["truncated_quantile"])
def test_truncated_draws_fall_short_of_the_quantile_as_often_as_they_should(row):
    draws = 20_000
    below = count_below(np.random.default_rng(5), row["bound"], row["value"], draws)

    def fits(share):
        # Bernstein: deviations beyond this have probability below ALPHA.
        log_term, variance = math.log(2 / ALPHA), draws * share * (1 - share)
        allowed = log_term / 3 + math.sqrt((log_term / 3) ** 2 + 2 * variance * log_term)
        return abs(below - draws * share) <= allowed

    assert fits(row["u"])
    assert not fits(row["u"] + (0.1 if row["u"] < 0.5 else -0.1))


SPOILED = {
    "log tail probabilities": ("log_tail", "value"),
    "probabilities of events": ("event", "values"),
    "probabilities of error": ("union", "value"),
    "exponents": ("exponent", "values"),
    "optimal rates": ("rate", "value"),
}


@pytest.mark.parametrize("name", doctor.CHECKS)
def test_a_wrong_value_is_noticed(name):
    """Each check fails if one number of the table is off by a millionth (a union: a tenth)."""
    table = copy.deepcopy(TABLE)
    section, key = SPOILED[name]
    rows = (row for row in table[section] if np.isfinite(np.array(row[key], float)).all())
    row = next(row for row in rows if np.all(row[key]))
    factor = 1.1 if section == "union" else 1 + 1e-6
    row[key] = (np.array(row[key]) * factor).tolist()
    assert not doctor.CHECKS[name](table) <= 1


def test_doctor_reports_and_exits_with_0(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "WRONG" not in out
    assert "Everything is sound." in out


def test_doctor_says_what_is_wrong_and_exits_with_1(capsys, monkeypatch):
    needs = [Requirement(text) for text in ("numpy>=2", "no-such-package", "scipy>=999")]
    monkeypatch.setattr(doctor, "requirements", lambda: needs)
    monkeypatch.setitem(doctor.CHECKS, "optimal rates", lambda table: 1 / 0)
    assert cli.main(["doctor", "--json"]) == 1
    findings = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["numpy"]["sound"]
    assert "pip install 'no-such-package'" in findings["no-such-package"]["detail"]
    assert "is not >=999: pip install 'scipy>=999'" in findings["scipy"]["detail"]
    assert "ZeroDivisionError" in findings["optimal rates"]["detail"]


def test_doctor_says_what_to_do_where_only_a_number_is_wrong(capsys, monkeypatch):
    monkeypatch.setitem(doctor.CHECKS, "exponents", lambda table: 7.0)
    monkeypatch.setitem(doctor.CHECKS, "optimal rates", lambda table: 1 / 0)
    assert cli.main(["doctor"]) == 1
    wrong = [line for line in capsys.readouterr().out.splitlines() if line.startswith("WRONG")]
    assert len(wrong) == 2
    assert "largest error 7 of what is allowed" in wrong[0]
    assert "the versions of constraints.txt" in wrong[0]
    assert wrong[1].endswith("reinstall the package")


def _doctor(code="", **environment):
    """Lines and exit code of the command in a new process, without most of the self-test."""
    script = f"""
import sys
from bayes_feasible import cli, doctor
for check in list(doctor.CHECKS)[1:]:
    del doctor.CHECKS[check]
{code}
sys.exit(cli.main(["doctor"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout, done.returncode


def test_doctor_says_where_compiled_code_is_kept(tmp_path):
    shown, code = _doctor(NUMBA_CACHE_DIR=str(tmp_path))
    assert f"functions kept in {tmp_path}" in shown
    assert code == 0


def test_doctor_says_what_to_do_where_nothing_compiled_can_be_kept():
    shown, code = _doctor(NUMBA_CACHE_LOCATOR_CLASSES="IPythonCacheLocator")
    assert "no locator available" in shown
    assert "set NUMBA_CACHE_DIR" in shown
    assert shown.count("first see to what is wrong above") == 1  # the cause, not the package
    assert "reinstall" not in shown
    assert code == 1


@pytest.mark.parametrize(
    ("break_it", "failure"),
    [
        ("sys.modules['numpy'] = None", "ModuleNotFoundError"),
        ("doctor.reference = lambda: open('/nowhere/reference.json')", "FileNotFoundError"),
    ],
)
def test_doctor_survives_what_is_gone(break_it, failure):
    shown, code = _doctor(break_it)
    assert f"log tail probabilities    failed with {failure}" in shown
    assert code == 1


def test_the_table_reaches_the_extremes():
    assert max(row["x"] for row in TABLE["log_tail"]) >= 1e4
    assert min(min(map(float, row["values"])) for row in TABLE["event"]) < -1e5
    assert min(row["value"] for row in TABLE["union"]) < -1000
    assert {len(row["thresholds"]) for row in TABLE["event"]} == {0, 1, 2, 3}
