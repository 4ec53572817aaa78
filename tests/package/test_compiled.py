"""A person who waits for the compiler is told so, once."""

import io
import time
import types

import pytest

from bayes_feasible import compiled


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    stderr = Terminal()
    monkeypatch.setattr(compiled, "sys", types.SimpleNamespace(stderr=stderr))
    monkeypatch.setattr(compiled, "PATIENCE", 0.05)
    monkeypatch.setattr(compiled, "_told", [])
    return stderr


def wait(seconds):
    with compiled.announce("rounds of BLFAIPS", 15):
        time.sleep(seconds)


def test_what_takes_long_is_told_once(terminal):
    wait(0)
    assert terminal.getvalue() == ""
    wait(0.3)
    wait(0.3)
    assert terminal.getvalue().count("compiling rounds of BLFAIPS: about 15 s") == 1


def test_nobody_is_told_where_nobody_watches(terminal, monkeypatch):
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    wait(0.3)
    assert terminal.getvalue() == ""
