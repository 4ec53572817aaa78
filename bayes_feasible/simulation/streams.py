"""The seeds of simulated experiments: every replicate, and every use within one, has its own.

Children are found by their index, not by `SeedSequence.spawn`, which counts what was spawned
before: a replicate meets the same noise under every rule, wherever and in whatever order it runs.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bayes_feasible import _check


class Streams(NamedTuple):
    """The seeds of one replicate."""

    own: np.random.SeedSequence  # of the rule
    rewards: np.random.SeedSequence  # of the noise of rewards
    costs: np.random.SeedSequence  # of the noise of costs
    errors: np.random.SeedSequence  # of the estimates of the error
    extra: np.random.SeedSequence  # of whoever watches


def child(seed: Any, *path: int) -> np.random.SeedSequence:
    """The child of a seed at a path of indices, as `spawn` would number them.

    Examples
    --------
    >>> child(7, 2, 0).generate_state(1) == np.random.SeedSequence(7).spawn(3)[2].spawn(
    ...     1
    ... )[0].generate_state(1)
    array([ True])
    """
    sequence = _check.seed_sequence(seed)
    return np.random.SeedSequence(
        sequence.entropy, spawn_key=(*sequence.spawn_key, *path), pool_size=sequence.pool_size
    )


def replicates(seed: Any, which: Iterable[int]) -> list[np.random.SeedSequence]:
    """The seeds of these replicates."""
    sequence = _check.seed_sequence(seed)
    return [child(sequence, sequence.n_children_spawned + i) for i in which]


def split(seed: np.random.SeedSequence) -> Streams:
    """The streams of one replicate from its seed."""
    return Streams(*(child(seed, i) for i in range(len(Streams._fields))))
