"""The shipped table of reference values, and `bayes-feasible doctor`, which compares with it."""

import copy
import json
import math

import mpmath as mp
import numpy as np
import pytest
from packaging.requirements import Requirement

from bayes_feasible import _normal, cli, doctor
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


@pytest.mark.parametrize("row", TABLE["truncated_quantile"])
def test_truncated_draws_fall_short_of_the_quantile_as_often_as_they_should(row):
    draws = 20_000
    rng = np.random.default_rng(5)
    below = sum(_normal.tail_excess(rng, row["bound"]) < row["value"] for _ in range(draws))
    # Bernstein: deviations beyond this have probability below ALPHA.
    log_term = math.log(2 / ALPHA)
    variance = draws * row["u"] * (1 - row["u"])
    allowed = log_term / 3 + math.sqrt((log_term / 3) ** 2 + 2 * variance * log_term)
    assert abs(below - draws * row["u"]) <= allowed


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
    needs = [Requirement("numpy>=2"), Requirement("no-such-package"), Requirement("scipy>=999")]
    monkeypatch.setattr(doctor, "requirements", lambda: needs)
    monkeypatch.setitem(doctor.CHECKS, "optimal rates", lambda table: 1 / 0)
    assert cli.main(["doctor", "--json"]) == 1
    findings = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["numpy"]["sound"]
    assert "pip install 'no-such-package'" in findings["no-such-package"]["detail"]
    assert "too old" in findings["scipy"]["detail"]
    assert "ZeroDivisionError" in findings["optimal rates"]["detail"]


def test_doctor_warns_of_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "away"))
    assert doctor._cache().sound
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    finding = doctor._cache()
    assert not finding.sound
    assert "NUMBA_CACHE_DIR" in finding.detail


def test_the_table_reaches_the_extremes():
    assert max(row["x"] for row in TABLE["log_tail"]) >= 1e4
    assert min(min(map(float, row["values"])) for row in TABLE["event"]) < -1e5
    assert min(row["value"] for row in TABLE["union"]) < -1000
    assert {len(row["thresholds"]) for row in TABLE["event"]} == {0, 1, 2, 3}
