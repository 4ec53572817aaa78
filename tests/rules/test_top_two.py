"""TopTwo: how often it pulls the leader."""

import numpy as np
from rule_cases import environment

import bayes_feasible as bf


def test_top_two_share_of_the_leader():
    """Far into a run the leader is the best candidate, and it gets beta of the pulls."""
    instance = bf.instances.end_of_optimism(0.3)
    allowed = 5 * np.sqrt(0.25 / 10_000) + 0.002
    shares = {}
    for beta in (0.2, 0.25, 0.5, "optimal"):
        rule = bf.TopTwo(instance, seed=21, beta=beta)
        world = environment(instance)
        world.play(rule, 20_000)
        before = rule._state.pulls[0]
        world.play(rule, 10_000)
        shares[beta] = (rule._state.pulls[0] - before) / 10_000
        assert abs(shares[beta] - rule.beta) < allowed
    assert abs(shares[0.25] - 0.2) > allowed  # another beta would be noticed
