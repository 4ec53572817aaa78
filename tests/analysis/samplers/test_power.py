"""What the scoreboard sees: no more false alarms than stated, and planted faults for what they are.

Every fault is looked for in 1000 draws of each of four chains, the default. A sampler that is
condemned with probability 0.999 passes 38 of 40 but for a chance of 1e-5.
"""

import re

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayes_feasible._draws import labelled, stack_blocks
from bayes_feasible.analysis.samplers import scoreboard, verdicts
from bayes_feasible.analysis.samplers.targets import target
from bayes_feasible.analysis.samplers.yardstick import Yardstick

DRAWS, CHAINS = 1000, 4


def drawn(state, seed, draws=DRAWS):
    posterior, wrong = state
    return wrong.sample(posterior, draws, seed=seed, chains=CHAINS)


def with_blocks(state, blocks):
    chains, draws, *rest = blocks.shape
    return labelled(state[0].problem, blocks.reshape(chains * draws, *rest), chains)


def exact(state, seed):
    return drawn(state, seed)


def biased(state, seed):
    """The mean of the last coordinate by a fifth of its standard deviation."""
    blocks = stack_blocks(drawn(state, seed))
    blocks[..., -1, -1] += 0.2 * blocks[..., -1, -1].std()
    return with_blocks(state, blocks)


def narrow(state, seed):
    """All standard deviations 5 % too small about the mean, within the event of each draw."""
    some = drawn(state, seed)
    blocks, events = stack_blocks(some), some.event.values
    for event in np.unique(events):
        mean = blocks[events == event].mean(axis=0)
        blocks[events == event] = mean + 0.95 * (blocks[events == event] - mean)
    return with_blocks(state, blocks)


def underweighted(state, seed):
    """Every other draw of one event is missing."""
    some, rng = drawn(state, seed, 2 * DRAWS), np.random.default_rng(seed)
    kept = (some.event.values != 1) | (rng.random(some.event.shape) < 0.5)
    parts = [some.isel(chain=[c], draw=np.flatnonzero(kept[c])[:DRAWS]) for c in range(CHAINS)]
    parts = [one.assign_coords(draw=np.arange(DRAWS)) for one in parts]
    return xr.concat(parts, "chain")[["theta_reward", "theta_cost"]]


def outside(state, seed):
    """3 % of the draws at the posterior mean."""
    blocks, rng = stack_blocks(drawn(state, seed)), np.random.default_rng(seed)
    posterior = state[0]
    mean = np.vstack([posterior.theta_reward, posterior.theta_cost])
    blocks[rng.random(blocks.shape[:2]) < 0.03] = mean
    return with_blocks(state, blocks)


def sticky(state, seed):
    """One draw in ten repeats the one before it: autocorrelation 0.1, declared independent."""
    blocks, rng = stack_blocks(drawn(state, seed)), np.random.default_rng(seed)
    for chain in blocks:
        for t in np.flatnonzero(rng.random(DRAWS) < 0.1):
            chain[t] = chain[max(t - 1, 0)]
    return with_blocks(state, blocks)


def judged(state, fault, seeds):
    """Verdicts and reasons; each run has exact draws of its own to be compared with."""
    found = []
    for seed in seeds:
        yardstick = Yardstick.of(*state, seed)
        tree = xr.DataTree.from_dict({"posterior": fault(state, seed + 10_000)})
        if fault in (exact, sticky):
            tree.attrs["independent"] = 1
        row = scoreboard.score(tree, yardstick)
        found.append(verdicts.reach_verdict(row, CHAINS, yardstick))
    return found


FAULTS = [
    (biased, "a", r"the mean of coordinate 3 is off"),
    (narrow, "a", r"scatter 0\.\d+ times|variance of coordinate \d is 0\.\d+ times"),
    (narrow, "b", r"scatter 0\.\d+ times|variance of coordinate \d is 0\.\d+ times"),
    (narrow, "c", r"scatter 0\.\d+ times|variance of coordinate \d+ is 0\.\d+ times"),
    (underweighted, "b", r"1\d(\.\d)? % of the draws lie in 'left better', 25\.\d % is right"),
    (outside, "a", r"^[23]\.\d+ % of the draws lie outside the alternative set"),
    (outside, "b", r"^[23]\.\d+ % of the draws lie outside the alternative set"),
    (sticky, "a", r"said to be independent correlate by 0\.\d+"),
    (sticky, "c", r"said to be independent correlate by 0\.\d+"),
]


def caught(fault, kind, reason, runs):
    state = target(kind, -40)
    found = judged(state, fault, range(runs))
    return sum(verdict == "condemned" and bool(re.search(reason, text)) for verdict, text in found)


@pytest.mark.parametrize(("fault", "kind", "reason"), [one for one in FAULTS if one[1] != "c"])
def test_a_planted_fault_is_condemned_for_what_it_is(fault, kind, reason):
    assert caught(fault, kind, reason, 2) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "kind", "reason"), FAULTS)
def test_a_planted_fault_is_condemned_in_95_of_100(fault, kind, reason):
    assert caught(fault, kind, reason, 40) >= 38


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a", "b", "c"])
def test_exact_draws_are_condemned_no_more_often_than_stated(kind):
    """At 1e-3 a run, four or more of 200 have probability 6e-5."""
    alarms = [one for one in judged(target(kind, -40), exact, range(200)) if one[0] == "condemned"]
    assert len(alarms) <= stats.binom.isf(1e-4, 200, verdicts.FALSE_ALARM), alarms
