"""Problems at the extremes of scale, bounded and not: an answer or a refusal, never NaN or a hang.

Arms, noises, thresholds, radii and outcomes differ by up to 24 orders of magnitude, so that many
cases make no sense at all, as a mistake in a unit makes none.
"""

import time
import warnings

import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible.recommendation import recommend

ARGUMENTS = (
    "arms", "candidates", "thresholds", "reward_noise", "cost_noise", "parameter_radius", "arm",
    "reward", "cost", "theta_reward", "theta_cost", "candidate", "allocation", "posterior",
)  # fmt: skip
SLOWEST = 20.0  # seconds of computing for a case
QUICK, SLOW = 200, 5000
PART = 250


def scale(rng: np.random.Generator, extreme: float) -> float:
    """A power of ten, one as often as not."""
    return 1.0 if rng.random() < 0.4 else 10.0 ** rng.uniform(-extreme, extreme)


def make(seed: int) -> tuple[bf.Problem, bf.Posterior]:
    """A problem and pulls of it; raises what the package refuses."""
    rng = np.random.default_rng([17, seed])
    extreme = float(rng.choice([0.5, 3.0, 12.0]))
    d, k, m = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(0, 4))
    arms = rng.standard_normal((k, d)) * scale(rng, extreme)
    if rng.random() < 0.3:
        arms *= [[scale(rng, extreme)] for _ in range(k)]
    if rng.random() < 0.2:
        arms = np.vstack([arms, arms[:1]])  # a copy
    if rng.random() < 0.2:
        arms = np.vstack([arms, np.zeros(d)])
    radius = None
    if rng.random() < 0.7:
        radius = (scale(rng, extreme), scale(rng, extreme))
    problem = bf.Problem(
        arms,
        rng.standard_normal(m) * [scale(rng, extreme) for _ in range(m)],
        reward_noise=scale(rng, extreme),
        cost_noise=[scale(rng, extreme) for _ in range(m)],
        parameter_radius=radius,
    )
    pulls = int(rng.choice([0, 1, 5, 100, 2000]))
    pulled = rng.integers(0, len(arms), pulls)
    rewards = rng.standard_normal(pulls) * scale(rng, extreme) + scale(rng, extreme)
    costs = rng.standard_normal((pulls, m)) * scale(rng, extreme) + scale(rng, extreme)
    return problem, bf.Posterior.from_history(problem, pulled, rewards, costs)


def check_numbers(name: str, values: object, *, infinite: bool = False) -> None:
    array = np.asarray(values, dtype=float)
    assert not np.isnan(array).any(), f"{name} is NaN"
    assert infinite or np.isfinite(array).all(), f"{name} is infinite"


def refused(work) -> bool:
    """Whether the package refuses, with an error that names an argument."""
    try:
        work()
    except (TypeError, ValueError) as error:
        named = str(error).partition(":")[0].partition(",")[0]
        if named not in ARGUMENTS:
            raise AssertionError(f"no argument is named: {error}") from error
        return True
    return False


def examine(seed: int) -> bool:
    """Ask everything of one case; whether anything was refused."""
    start = time.process_time()
    made = []
    if refused(lambda: made.append(make(seed))):
        return True
    problem, posterior = made[0]
    choice = seed % len(problem.candidates)
    wrong = bf.Alternative(problem, choice)

    def means() -> None:
        check_numbers("theta", np.vstack([posterior.theta_reward, posterior.theta_cost]))

    def log_probability() -> None:
        found = wrong.log_probability(posterior, draws=2000)
        bounds = found.lower, found.value, found.upper
        check_numbers("log-probability", bounds, infinite=True)
        check_numbers("standard error", found.standard_error)
        assert bounds == tuple(sorted(bounds))
        assert found.upper <= 0

    def draws() -> None:
        found = wrong.sample(posterior, 20)
        check_numbers("draws", found.theta_reward)
        check_numbers("draws", found.theta_cost)
        assert wrong.contains(found.theta_reward, found.theta_cost).all()

    def free_draws() -> None:
        found = posterior.sample(20, seed=0)
        check_numbers("draws", found.theta_reward)
        check_numbers("draws", found.theta_cost)

    def answer() -> None:
        found = recommend(posterior, choice, np.random.default_rng(0))
        check_numbers("log-error", [found.log_error, found.log_none_feasible], infinite=True)

    def nearest() -> None:
        shares = np.full(len(problem.arms), 1 / len(problem.arms))
        zero = np.zeros_like(posterior.theta_reward), np.zeros_like(posterior.theta_cost)
        check_numbers("exponent", wrong.nearest(*zero, shares).exponent, infinite=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        refusals = 0
        for work in (means, log_probability, draws, free_draws, answer, nearest):
            refusals += refused(work)
    assert time.process_time() - start < SLOWEST
    return refusals > 0


@pytest.mark.parametrize("first", range(0, QUICK, 50))
def test_extremes(first):
    refusals = [examine(seed) for seed in range(first, first + 50)]
    assert sum(refusals) < 40  # most get answers


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SLOW, PART))
def test_many_extremes(first):
    for seed in range(first, first + PART):
        examine(seed)
