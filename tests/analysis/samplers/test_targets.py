"""The posteriors on which samplers are tried."""

import numpy as np
import pytest
from helpers import planar_union
from planar import event_logs
from scipy.special import logsumexp

from bayes_feasible.analysis.samplers.targets import KINDS, LOG_PROBABILITIES, target

REGIMES = [(kind, value) for kind in KINDS for value in LOG_PROBABILITIES]


@pytest.mark.parametrize(("kind", "goal"), REGIMES)
def test_the_error_is_as_rare_as_was_asked_and_of_its_shape(kind, goal):
    posterior, alternative = target(kind, goal)
    value = alternative.log_probability(posterior).value
    assert value == pytest.approx(goal, rel=0.02)
    logs = event_logs(posterior, alternative.candidate)
    shares = np.exp(logs - logsumexp(logs))
    assert np.max(logs) <= value <= logsumexp(logs) + 1e-9  # the union, from independent events
    carrying = int(np.sum(shares > 0.05))
    if kind == "a":
        assert carrying == 1
        assert shares.max() > 0.99
    elif kind == "b":
        assert carrying == 4
        assert shares[shares > 0.05].min() > 0.2
    else:
        assert carrying >= 6
        assert shares.max() < 0.25
    assert posterior.problem.arms.shape == ((20, 10) if kind == "c" else (2, 2))


@pytest.mark.parametrize("kind", ["a", "b"])
def test_the_union_is_that_of_the_polygons(kind):
    posterior, alternative = target(kind, -4)
    assert np.log(planar_union(alternative, posterior)) == pytest.approx(-4, rel=0.02)


def test_the_same_target_twice_is_the_same():
    for kind in KINDS:
        first, again = (target(kind, -40)[0] for _ in range(2))
        assert first.counts.tolist() == again.counts.tolist()
        np.testing.assert_array_equal(first.reward_sums, again.reward_sums)
        np.testing.assert_array_equal(first.cost_sums, again.cost_sums)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("d", -4), "kind: expected one of a, b, c, got 'd'"),
        (("a", -1), "log_probability: expected at most -2, got -1"),
        (("a", np.nan), "log_probability: expected finite numbers"),
        (("a", -1e30), "log_probability: not reached"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        target(*arguments)
