"""The nearest alternative of other outcomes against a search by SciPy over a constraint."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit

import bayes_feasible as bf


def entropy(kind, natural, other, noise=1.0, other_noise=1.0):
    """Relative entropy of what a pull shows, written out."""
    if kind == "bernoulli":
        p, q = expit(natural), expit(other)
        return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    if kind == "poisson":
        return np.exp(natural) * (natural - other) - np.exp(natural) + np.exp(other)
    spread = np.log(other_noise / noise)
    return spread + (noise**2 + (natural - other) ** 2) / (2 * other_noise**2) - 0.5


OUTCOMES = {"bernoulli": bf.Bernoulli, "poisson": bf.Poisson, "learnt": bf.Gaussian,
            "known": lambda: bf.Gaussian(0.7, prior=bf.Prior(sd=3.0))}  # fmt: skip
ARMS = np.array([[1.0, 0.0], [1.0, 0.6], [1.0, -0.8], [1.0, 1.5]])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def by_search(problem, truth, noise, event):
    """Smallest entropy over one event, over all parameters and over noise that is learnt."""
    blocks = len(problem.outcomes)
    kinds = ["learnt" if getattr(one, "learnt", False) else one.kind for one in problem.outcomes]

    def split(x):
        spread = [
            noise[b] * np.exp(x[2 * blocks + b]) if kinds[b] == "learnt" else noise[b]
            for b in range(blocks)
        ]
        return x[: 2 * blocks].reshape(blocks, 2), spread

    def total(x):
        theta, spread = split(x)
        return sum(
            SHARES @ entropy(kinds[b], ARMS @ truth[b], ARMS @ theta[b], noise[b], spread[b])
            for b in range(blocks)
        )

    events = bf.Alternative(problem, 0).events
    inside = [
        {"type": "ineq", "fun": lambda x, b=b: events.vectors[event, b] @ split(x)[0][b]
         - events.limits[event, b]}
        for b in range(blocks) if np.isfinite(events.limits[event, b])
    ]  # fmt: skip
    start = np.concatenate([np.ravel(truth), np.zeros(blocks)])
    found = minimize(
        total, start, constraints=inside, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500}
    )
    return found.fun, split(found.x)


@pytest.mark.parametrize("reward", OUTCOMES)
@pytest.mark.parametrize("cost", OUTCOMES)
def test_nearest_is_that_of_a_search(reward, cost):
    made = OUTCOMES[reward](), OUTCOMES[cost]()
    limit = bf.Relative(2, 1.6) if cost == "poisson" else float(made[1].mean(np.array(0.4)))
    problem = bf.Problem(ARMS, {"harm": limit}, reward=made[0], costs=made[1])
    truth = np.array([[0.5, -0.7], [-0.4, 0.3]])
    noise = [0.7 if name == "known" else 0.5 for name in (reward, cost)]
    scales = {"reward_noise": noise[0], "cost_noise": noise[1]}
    near = bf.Alternative(problem, 0).nearest(truth[0], truth[1], SHARES, **scales)
    every = [by_search(problem, truth, noise, e) for e in range(4)]
    values = [value for value, _ in every]
    assert near.exponent.item() == pytest.approx(min(values), rel=1e-6)
    event = int(np.argmin(values))
    assert near.event.item() == bf.Alternative(problem, 0).events.names[event]
    theta, spread = every[event][1]
    assert_allclose(near.theta_reward, theta[0], atol=1e-3)
    assert_allclose(near.theta_cost.values[0], theta[1], atol=1e-3)
    if "learnt" in (reward, cost):
        learnt = [name == "learnt" for name in (reward, cost)]
        assert_allclose(near.noise.values[learnt], np.array(spread)[learnt], rtol=1e-3)
    instance = bf.Instance(problem, truth[0], truth[1], **scales)
    if instance.best == 0:
        assert near.exponent.item() == pytest.approx(bf.exponents(instance, SHARES).min().item())


def test_what_the_pulled_arms_do_not_tell_costs_nothing():
    problem = bf.Problem(np.eye(2), {"harm": 0.6}, reward=bf.Bernoulli(), costs=bf.Bernoulli())
    wrong = bf.Alternative(problem, 0)
    near = wrong.nearest([1.0, -1.0], [-1.0, -1.0], [1.0, 0.0])
    assert near.exponent.item() == 0.0
    assert near.event.item() == "1 better"
    assert near.theta_reward.values.tolist() == [1.0, 1.0]
    assert wrong.contains(near.theta_reward.values, near.theta_cost.values)
