"""The page of a trial, served: forms take steps, and nobody else does."""

import json
from pathlib import Path

import pytest
from live_client import EVIL, TOKEN
from page import Page

import bayes_feasible as bf
from bayes_feasible import cli
from bayes_feasible.analysis.live import guard, serve
from bayes_feasible.analysis.report import trial_page

DOCS = Path(__file__).parents[3] / "docs"
NUMBERS = {"arm": "1", "value-0": "0.5", "value-1": "0.4", "count": "1"}


def test_the_page_is_that_of_the_report_with_forms(client, trial):
    status, headers, text = client.get()
    page, still = Page(text), Page(trial_page.render(trial_page.look(trial)))
    assert status == 200
    assert [one["action"] for one in page.all("form")] == ["tell", "ask", "undo"]
    assert still.text.partition("Recommendation")[2] == page.text.partition("Recommendation")[2]
    assert "script-src 'nonce-" in headers["content-security-policy"]
    assert len(page.all("script")) == 1
    assert EVIL not in text
    assert EVIL in page.text
    assert "<i>toxicity</i>" in page.text


def test_a_result_is_told_once_however_often_the_form_is_sent(client, trial):
    before, form = trial.posterior.pulls, client.form("tell") | NUMBERS
    answers = {client.post("tell", form)[1]["location"] for _ in range(3)}
    assert len(answers) == 1
    assert trial.posterior.pulls == before + 1
    status, _, text = client.send("GET", answers.pop())
    assert status == 200
    assert "Recorded: tell: 10 mg showed reward 0.5" in Page(text).text


def test_asked_told_in_sums_and_taken_back(client, trial):
    before = trial.posterior.pulls
    assert client.submit("ask", count="3")[0] == 303
    assert trial.pending.sum() == 3
    sums = {"arm": "2", "value-0": "8.1", "value-1": "0.9", "sd-1": "0.3", "count": "10"}
    assert client.submit("tell", **sums)[0] == 303
    assert trial.posterior.pulls == before + 10
    assert trial.history.sds[-1, 1] == 0.3
    assert client.submit("tell", **{"arm": "0", "value-0": "", "value-1": "0.1", "count": "1"})
    undo = client.form("undo")
    assert undo["event"] == str(len(trial.events))
    assert client.post("undo", undo)[0] == client.post("undo", undo)[0] == 303
    assert trial.posterior.pulls == before + 10


def test_pages_learn_that_the_trial_has_gone_on(client, trial):
    trial.tell(0, 0.1, 0.1)
    status, _, text = client.get("/head")
    assert (status, json.loads(text)["head"]) == (200, trial.head)
    assert trial.head in client.get()[2]


@pytest.mark.parametrize("kind", ["csv", "json", "nc"])
def test_everything_as_a_file(client, kind):
    status, headers, _ = client.get(f"/export.{kind}") if kind != "nc" else (200, None, None)
    assert status == 200
    assert headers is None or f'filename="drug.{kind}"' in headers["content-disposition"]


BAD_VALUES = [
    {"value-0": "a lot"}, {"value-0": "nan"}, {"value-0": "inf"}, {"value-0": "1_0"},
    {"value-0": "", "value-1": ""}, {"value-0": "1e300"}, {"arm": "3"}, {"arm": "-1"},
    {"arm": "10 mg"}, {"arm": "٣"}, {"count": "0"}, {"count": "1.5"}, {"count": "9" * 40},
    {"sd-1": "-1", "count": "5"}, {"value-0": EVIL},
]  # fmt: skip


@pytest.mark.parametrize("fields", BAD_VALUES)
def test_what_cannot_be_is_told_beside_the_form(client, trial, fields):
    before = trial.head
    status, _, text = client.submit("tell", **NUMBERS | fields)
    assert status == 400
    page = Page(text)
    assert "Nothing was recorded." in page.text
    assert [one.get("value") for one in page.all("input") if one["name"] == "value-0"] == [
        fields.get("value-0", "0.5")
    ]
    assert EVIL not in text
    assert trial.head == before


LONG = b"key=" + b"x" * 70_000
REFUSED = {  # as in docs/live.md: what is sent, and the answer
    "another host name": (421, lambda c, f: c.get(host="evil.example")),
    "no token": (404, lambda c, f: c.send("GET", "/")),
    "a wrong token": (404, lambda c, f: c.send("GET", f"/{TOKEN[:-1]}S/")),
    "a form from a foreign origin":
        (403, lambda c, f: c.post("tell", f, origin="http://evil.example")),
    "a form from another port": (403, lambda c, f: c.post("tell", f, origin="http://127.0.0.1:1")),
    "a form without an origin": (403, lambda c, f: c.post("tell", f, origin="")),
    "a form that a browser calls cross-site":
        (403, lambda c, f: c.post("tell", f, sec_fetch_site="cross-site")),
    "a form without its seal": (403, lambda c, f: c.post("tell", f | {"seal": ""})),
    "a form with the seal of another": (403, lambda c, f: c.post("tell", f | {"key": "x"})),
    "a form as JSON": (415, lambda c, f: c.post("tell", json.dumps(f).encode(),
                                               content_type="application/json")),
    "a form of more than 64 kB": (413, lambda c, f: c.post("tell", LONG)),
    "a form of more than 64 kB in pieces":
        (413, lambda c, f: c.send("POST", f"{c.root}/tell", iter([LONG[:40_000], LONG]),
                                  origin=c.origin, content_type=guard.FORM)),
    "a form that is no text": (400, lambda c, f: c.post("tell", b"\xff\xfe=\x00")),
    "a form with bad escapes": (400, lambda c, f: c.post("tell", b"key=%ff")),
    "a form with a field twice": (400, lambda c, f: c.post("tell", b"key=1&key=2")),
    "a form with 101 fields": (400, lambda c, f: c.post("tell", b"&".join([b"a=1"] * 101))),
    "an address of more than 8 kB": (414, lambda c, f: c.get("/?event=" + "1" * 9000)),
    "a step by GET": (405, lambda c, f: c.get("/tell")),
    "another method": (403, lambda c, f: c.send("DELETE", f"{c.root}/")),
    "a path that leads out": (404, lambda c, f: c.get("/../../etc/passwd")),
    "a file of another kind": (404, lambda c, f: c.get("/export.trial")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(client, trial, name):
    before = trial.head
    expected, send = REFUSED[name]
    status, headers, text = send(client, client.form("tell") | NUMBERS)
    assert status == expected
    assert TOKEN not in text
    assert "location" not in headers
    assert trial.head == before


def test_the_same_form_is_accepted_unchanged(client, trial):
    """The control of the refusals."""
    before = trial.posterior.pulls
    form = client.form("tell") | NUMBERS
    assert client.post("tell", form, sec_fetch_site="same-origin")[0] == 303
    assert client.get(host="lab.example")[0] == client.get(host="[::1]:80")[0] == 200
    assert trial.posterior.pulls == before + 1


def test_a_form_that_does_not_arrive_is_given_up(client, monkeypatch):
    monkeypatch.setattr(guard, "PATIENCE", 0.2)
    status, _, text = client.post("tell", b"key=1", content_length="10")
    assert status == 408
    assert "did not arrive" in text


def test_the_table_of_refusals_is_the_documented_one():
    text = (DOCS / "live.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| a")]
    rows += [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| no")]
    told = {row[0]: int(row[1]) for row in rows if row[1].isdecimal()}
    assert told == {name: status for name, (status, _) in REFUSED.items()}


def test_the_journal_that_another_process_holds(client, trial):
    """Nothing is recorded, and the page says so."""
    form = client.form("tell") | NUMBERS
    app = bf.Trial(trial.path)
    with app._journal.writing():
        before = len(app._journal.events)
        status, _, text = client.post("tell", form)
    assert status == 503
    assert "nothing was recorded" in text
    assert len(trial.events) == before


@pytest.mark.parametrize("token", ["short", "with/a/slash-and-long-enough", "ä" * 30, 5])
def test_tokens_that_will_not_do(token):
    with pytest.raises(ValueError, match="token: expected 20 to 200"):
        serve.check_token(token)


def test_a_token_is_kept_for_its_owner(tmp_path):
    token = serve.read_token(tmp_path / "token")
    assert len(token) > 40
    assert serve.read_token(tmp_path / "token") == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


def test_a_port_that_is_taken(client, trial, capsys):
    port = str(client.parts.port)
    assert cli.main(["trial", "serve", trial.path, "--port", port]) == 2
    assert f"127.0.0.1:{port}: cannot listen there" in capsys.readouterr().err
