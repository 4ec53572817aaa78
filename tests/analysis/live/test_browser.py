"""The page in a real browser. It needs Chromium: on Debian, `apt-get install chromium`."""

import json

import pytest
from live_client import EVIL

from bayes_feasible.analysis.live.browser import Browser

pytestmark = pytest.mark.slow
OVERFLOW = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def address(client):
    return f"{client.origin}{client.root}/"


def fill(browser, step, **fields):
    """Fill in a form and press its button."""
    for name, value in fields.items():
        place = f"form[action={step}] [name={name.replace('_', '-')}]"
        browser.run(f"document.querySelector({json.dumps(place)}).value = {json.dumps(value)}")
    browser.run(f"document.querySelector('form[action={step}] button').click()")


@pytest.mark.parametrize("width", [390, 1100])
def test_it_fits_the_screen(browser, address, width):
    browser.open(address, width)
    assert not browser.run(OVERFLOW)
    broken = "[...document.images].filter(image => !image.naturalWidth).length"
    assert browser.run(broken) == 0
    assert len(browser.screenshot()) > 10_000


def test_somebody_asks_tells_and_takes_back(browser, address, trial):
    browser.open(address, 390)
    before = trial.posterior.pulls
    fill(browser, "ask", count="2")
    browser.wait("document.querySelector('.done')?.textContent.includes('ask:')")
    assert trial.pending.sum() == 2
    fill(browser, "tell", arm="1", value_0="0.7", value_1="0.3")
    browser.wait("document.querySelector('.done')?.textContent.includes('10 mg showed reward 0.7')")
    assert trial.posterior.pulls == before + 1
    fill(browser, "tell", arm="1", value_0="much", value_1="0.3")
    browser.wait("document.querySelector('.warning')?.textContent.includes('got \\'much\\'')")
    browser.open(address)
    fill(browser, "undo")
    browser.wait("document.querySelector('.done')?.textContent.includes('undo of event')")
    assert trial.posterior.pulls == before


def test_two_presses_and_the_way_back_count_once(browser, address, trial):
    browser.open(address)
    before = trial.posterior.pulls
    fill(browser, "tell", arm="2", value_0="0.9", value_1="0.8")
    browser.wait("document.querySelector('.done')")
    browser.run("history.back()")
    browser.wait("!document.querySelector('.done') && document.readyState === 'complete'")
    fill(browser, "tell", arm="2", value_0="0.9", value_1="0.8")
    browser.wait("document.querySelector('.done')")
    told = trial.posterior.pulls
    assert told in (before + 1, before + 2)  # a page that was loaded anew is another form
    form = "document.querySelector('form[action=tell]')"
    browser.run(
        f"{{ const f = {form}; f.elements['value-0'].value = '1'; const d = new "
        "URLSearchParams(new FormData(f)); const send = () => fetch('tell', {method: 'POST', body: "
        "d, redirect: 'manual'}); Promise.all([send(), send(), send()]) }"
    )
    assert trial.posterior.pulls == told + 1


def test_names_run_nothing(browser, address):
    browser.open(address)
    assert browser.run("document.scripts.length") == 1
    assert EVIL in browser.run("document.body.innerText")
    inject = "(() => {const s = document.createElement('script'); s.textContent = 'window.bad = 1';"
    browser.run(f"{inject} document.body.append(s)}})()")
    assert browser.run("window.bad") is None  # the policy allows no script without the nonce


def test_another_page_cannot_send_its_form(browser, address, trial):
    before = trial.head
    page = (
        f"<form method=post action='{address}tell'><input name=key value=x>"
        "<input name=arm value=0></form>"
    )
    browser.open("about:blank")
    browser.run(f"document.body.innerHTML = {json.dumps(page)}; document.forms[0].submit()")
    browser.wait("document.body.innerText.includes('a form of another site')")
    assert trial.head == before


def test_an_open_page_learns_that_the_trial_has_gone_on(browser, address, trial):
    browser.open(address)
    assert browser.run("document.getElementById('news').hidden")
    trial.tell(0, 0.1, 0.1)
    browser.wait("!document.getElementById('news').hidden")
