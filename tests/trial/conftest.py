"""Fixtures of the tests of trials."""

import pytest
from trial_cases import DRUG, PATIENTS

from bayes_feasible.trial import journal
from bayes_feasible.trial.trial import Trial


@pytest.fixture
def unsynced(monkeypatch):
    """Leave the disk alone where only the content matters."""
    monkeypatch.setattr(journal.os, "fsync", lambda descriptor: None)


@pytest.fixture
def drug(tmp_path, unsynced):
    """Six patients, three doses."""
    trial = Trial.new(tmp_path / "drug.trial", DRUG, seed=1)
    for patient in PATIENTS:
        trial.tell(*patient)
    return trial
