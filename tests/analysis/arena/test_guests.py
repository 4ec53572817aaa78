"""Guests: other programs, as a user would run them."""

import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible.analysis.arena.entrants import read_entrants
from bayes_feasible.analysis.arena.families import FAMILIES
from bayes_feasible.analysis.arena.guests import GUESTS, Optuna
from bayes_feasible.analysis.arena.runs import run_block

CLEAR = bf.Instance(
    bf.Problem(np.eye(4), thresholds=0.5, reward_noise=0.1, cost_noise=0.1),
    [0.0, 1.0, 2.0, 0.5], [[0.0, 0.0, 2.0, 0.0]],
)  # fmt: skip


@pytest.mark.parametrize("name", GUESTS)
def test_a_guest_finds_what_is_clear(name):
    (guest,) = read_entrants([name])
    rule = guest.maker_for(60)(CLEAR.problem, seed=np.random.SeedSequence(1))
    for pull in range(60):
        arm = rule.ask()
        rewards, costs = CLEAR.pull([arm], seed=pull)
        rule.tell(arm, rewards[0], costs[0])
    assert rule.recommend() == CLEAR.best
    assert isinstance(rule.ask(), int)  # beyond the horizon, too


@pytest.mark.parametrize("name", GUESTS)
def test_a_guest_plays_in_the_arena(name):
    (guest,) = read_entrants([name])
    assert not guest.plays(FAMILIES["x-not-z"].instance(0, 0), 100)
    assert not guest.plays(FAMILIES["ab"].instance(0, 0), 100)
    found = run_block(FAMILIES["ball-2-5"], guest, [40], 0, range(2))
    assert (found.log_error <= 0).all()


def test_an_unknown_sampler_is_told():
    with pytest.raises(ValueError, match="has no 'TPESample'"):
        Optuna(CLEAR.problem, 0, sampler="TPESample")
