"""AdaHedge against its published definition in 50 digits, and against its published bounds.

S. de Rooij, T. van Erven, P. Grünwald and W. Koolen, JMLR 15, 2014.
"""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_feasible as bf

ROUNDS = 200


class Reference:
    """AdaHedge as published, in 50 digits."""

    def __init__(self, experts):
        self.losses = [mp.mpf(0)] * experts
        self.gap = mp.mpf(0)

    @property
    def rate(self):
        return mp.log(len(self.losses)) / self.gap if self.gap > 0 else mp.inf

    @property
    def weights(self):
        least = min(self.losses)
        if self.rate == mp.inf:
            raw = [mp.mpf(loss == least) for loss in self.losses]
        else:
            raw = [mp.exp(-self.rate * (loss - least)) for loss in self.losses]
        return [value / mp.fsum(raw) for value in raw]

    def update(self, loss):
        loss = [mp.mpf(float(value)) for value in loss]
        weights, rate = self.weights, self.rate
        after = [total + value for total, value in zip(self.losses, loss, strict=True)]
        expected = mp.fdot(weights, loss)
        if rate == mp.inf:
            mix = min(after) - min(self.losses)
        else:
            parts = [w * mp.exp(-rate * value) for w, value in zip(weights, loss, strict=True)]
            mix = -mp.log(mp.fsum(parts)) / rate
        self.gap += expected - mix
        self.losses = after


def random(rng):
    return rng.random((ROUNDS, 5))


def negative(rng):
    return -(rng.standard_normal((ROUNDS, 4)) ** 2) - 3.0


def huge(rng):
    return 1e90 * rng.standard_normal((ROUNDS, 3))


def tiny(rng):
    return 1e-90 * rng.standard_normal((ROUNDS, 3))


def growing(rng):
    """Ranges from 1e-6 to 1e6, smallest first: every scale the learner knew is too small."""
    return np.logspace(-6, 6, ROUNDS)[:, np.newaxis] * rng.random((ROUNDS, 4))


def shrinking(rng):
    return growing(rng)[::-1]


def alternating(rng):
    """The leader always loses: the worst case of following the leader."""
    losses = np.zeros((ROUNDS, 2))
    losses[0, 0] = 0.5
    losses[1::2, 1] = 1.0
    losses[2::2, 0] = 1.0
    return losses


def betrayal(rng):
    """An expert is certain of the lead, its weight beside the other's beyond a float; then not."""
    losses = np.tile([0.0, 1.0], (ROUNDS, 1))
    losses[60] = [1000.0, 0.0]
    losses[120] = [0.0, 1e5]
    losses[160] = [1e7, 0.0]
    return losses


def one_sparse(rng):
    """One expert in fifty is right, and which one changes half-way."""
    losses = np.ones((ROUNDS, 50))
    losses[: ROUNDS // 2, 7] = 0.0
    losses[ROUNDS // 2 :, 31] = 0.0
    return losses


def tied(rng):
    """Losses 0 and 1 in blocks, so that leaders tie exactly."""
    return rng.integers(0, 2, (ROUNDS, 3)).astype(float)


SEQUENCES = [
    random, negative, huge, tiny, growing, shrinking, alternating, betrayal, one_sparse, tied,
]  # fmt: skip


def run(losses):
    """Weights before each round, and the learner after the last."""
    learner = bf.AdaHedge(losses.shape[1])
    weights = np.empty(losses.shape)
    for t, loss in enumerate(losses):
        weights[t] = learner.weights
        learner.update(loss)
    return weights, learner


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_published_definition(sequence):
    losses = sequence(np.random.default_rng(0))
    learner = bf.AdaHedge(losses.shape[1])
    with mp.workdps(50):
        reference = Reference(losses.shape[1])
        for loss in losses:
            learner.update(loss)
            reference.update(loss)
            # Rounding of the cumulative losses and of the gap, some hundred times one ulp.
            assert_allclose(learner.gap, float(reference.gap), rtol=1e-11)
            assert_allclose(learner.losses, [float(v) for v in reference.losses], rtol=1e-12)
            assert_allclose(learner.weights, [float(w) for w in reference.weights], atol=1e-9)


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("seed", range(3))
def test_regret_bounds(sequence, seed):
    losses = sequence(np.random.default_rng(seed))
    weights, learner = run(losses)
    experts = losses.shape[1]
    spread = np.ptp(losses, axis=1).max()
    hedged = np.sum(weights * losses, axis=1)
    variance = np.sum(weights * (losses - hedged[:, np.newaxis]) ** 2)
    # Relative to each round's least loss, so that a common part does not round the regret away.
    floor = losses.min(axis=1)
    regret = np.sum(hedged - floor) - np.sum(losses - floor[:, np.newaxis], axis=0).min()
    bound = 2 * np.sqrt(variance * np.log(experts)) + spread * (4 / 3 * np.log(experts) + 2)
    assert regret <= bound * (1 + 1e-12)
    assert regret <= 2 * learner.gap * (1 + 1e-9) + 1e-12 * spread


@pytest.mark.parametrize("sequence", [random, negative, growing, one_sparse])
def test_translation_and_scale_change_nothing(sequence):
    rng = np.random.default_rng(1)
    losses = sequence(rng)
    weights, learner = run(losses)
    scaled, other = run(2.0**40 * losses)  # a power of two: no rounding
    assert_array_equal(scaled, weights)
    assert other.gap == 2.0**40 * learner.gap
    common = np.ptp(losses, axis=1, keepdims=True) * rng.standard_normal((ROUNDS, 1))
    assert_allclose(run(losses + common)[0], weights, atol=1e-8)


def test_order_of_experts_does_not_matter():
    losses = random(np.random.default_rng(2))
    order = [3, 0, 4, 1, 2]
    assert_allclose(run(losses[:, order])[0], run(losses)[0][:, order], atol=1e-12)


def test_before_any_gap_the_rate_is_infinite_and_leaders_share():
    learner = bf.AdaHedge(4)
    assert learner.rate == np.inf
    assert_array_equal(learner.weights, np.full(4, 0.25))
    learner.update(np.zeros(4))
    learner.update(np.full(4, -2.5))
    assert learner.gap == 0.0
    assert learner.rate == np.inf
    assert_array_equal(learner.weights, np.full(4, 0.25))


def test_first_gap_is_mean_minus_least():
    learner = bf.AdaHedge(4)
    learner.update([3.0, 1.0, 1.0, 3.0])
    assert learner.gap == 1.0
    assert_allclose(learner.rate, np.log(4))
    assert_allclose(learner.weights, np.array([1 / 16, 1, 1, 1 / 16]) / (2 + 1 / 8))


def test_tied_leaders_keep_equal_weights():
    learner = bf.AdaHedge(3)
    for _ in range(50):
        learner.update([0.0, 1.0, 0.0])
    assert learner.weights[0] == learner.weights[2] > learner.weights[1]


def test_constant_losses_leave_the_weights_alone():
    learner = bf.AdaHedge(3)
    for _ in range(1000):
        learner.update(np.full(3, 0.1))
    assert_array_equal(learner.weights, np.full(3, 1 / 3))
    assert learner.gap <= 1e-12


def test_one_expert():
    losses = np.random.default_rng(3).standard_normal((ROUNDS, 1))
    weights, learner = run(losses)
    assert_array_equal(weights, np.ones((ROUNDS, 1)))
    assert_array_equal(learner.weights, [1.0])
    assert_allclose(learner.losses, losses.sum(axis=0))
    assert learner.gap <= 1e-12


def test_a_leader_beyond_doubt_that_fails_is_paid_for():
    """What the far smaller weight adds to the mix loss must not be rounded away."""
    learner = bf.AdaHedge(2)
    for _ in range(51):
        learner.update([0.0, 1.0])
    before = learner.gap
    learner.update([1000.0, 0.0])
    assert_allclose(learner.gap - before, 949.0, atol=1e-6)


@pytest.mark.parametrize(
    ("experts", "message"),
    [(0, "experts"), (-1, "experts"), (2.5, "experts"), (True, "experts"), ("3", "experts")],
)
def test_bad_number_of_experts(experts, message):
    with pytest.raises((TypeError, ValueError), match=message):
        bf.AdaHedge(experts)


@pytest.mark.parametrize(
    "loss",
    [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0], 1.0, [[1.0, 2.0, 3.0]], [1.0, np.nan, 2.0],
     [1.0, np.inf, 2.0], ["a", "b", "c"], None, [1e200, 0.0, 0.0]],
)  # fmt: skip
def test_bad_loss_changes_nothing(loss):
    learner = bf.AdaHedge(3)
    learner.update([0.1, 0.5, 0.2])
    losses, weights, gap = learner.losses.copy(), learner.weights.copy(), learner.gap
    with pytest.raises((TypeError, ValueError), match="loss"):
        learner.update(loss)
    assert_array_equal(learner.losses, losses)
    assert_array_equal(learner.weights, weights)
    assert learner.gap == gap
