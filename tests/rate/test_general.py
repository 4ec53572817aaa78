"""The rate of every combination of outcomes against a conic program, and closed forms."""

import cvxpy as cp
import numpy as np
import pytest

import bayes_feasible as bf
from bayes_feasible.outcomes import Bernoulli, Gaussian, Poisson, Relative

KINDS = {"known": Gaussian(1.3), "learnt": Gaussian(), "0/1": Bernoulli(), "counts": Poisson()}


def divergence(arms, weights, outcome, noise, theta, vector, limit):
    """D(w) by Fenchel duality, concave in the shares: an expression, and its constraints.

    With means m_x under the alternative and n_x = w_x m_x, it is the supremum of
    lam c - sum_x w_x A*(n_x / w_x) + sum_x w_x (mu_x s_x - A(s_x)) over n and lam with
    sum_x (n_x - w_x mu_x) x = lam a.
    """
    n, lam = cp.Variable(len(arms)), cp.Variable()
    s = arms @ theta
    if isinstance(outcome, Gaussian):
        s, limit = s / noise, limit / noise
        cumulant, mean = s**2 / 2, s
        halves = [cp.quad_over_lin(n[x], weights[x]) / 2 for x in range(len(arms))]
        conjugate = cp.sum(cp.hstack(halves))
    elif isinstance(outcome, Bernoulli):
        cumulant, mean = np.logaddexp(0, s), 1 / (1 + np.exp(-s))
        conjugate = cp.sum(cp.rel_entr(n, weights) + cp.rel_entr(weights - n, weights))
    else:
        cumulant, mean = np.exp(s), np.exp(s)
        conjugate = cp.sum(cp.rel_entr(n, weights) - n)
    value = lam * limit - conjugate + weights @ (mean * s - cumulant)
    if isinstance(outcome, Gaussian) and outcome.learnt:
        value = cp.log(1 + 2 * value) / 2
    return value, [arms.T @ (n - cp.multiply(weights, mean)) == lam * vector]


def conic_rate(instance):
    """The same game written down by hand: every rival, every constraint."""
    problem, best = instance.problem, instance.best
    arms, candidates = problem.arms, problem.candidates
    weights, value = cp.Variable(len(arms), nonneg=True), cp.Variable()
    constraints = [cp.sum(weights) == 1]
    thetas = [instance.theta_reward, *instance.theta_cost]

    def away(b, vector, limit):
        expression, extra = divergence(
            arms, weights, problem.outcomes[b], instance.noise[b], thetas[b], vector, limit
        )
        constraints.extend(extra)
        return expression

    for z, candidate in enumerate(candidates):
        costs = [
            (1 + j, candidate - problem.references[j], problem.limits[j])
            for j in range(problem.thresholds.size)
        ]
        if z == best:
            constraints += [value <= away(b, a, c) for b, a, c in costs if a.any()]
            continue
        if best is not None and np.array_equal(candidate, candidates[best]):
            continue
        if any(not a.any() and c < 0 for _, a, c in costs):
            continue  # never feasible, whatever the parameters
        parts = [away(b, -a, -c) for b, a, c in costs if a @ thetas[b] > c]
        if best is not None and candidate @ thetas[0] < candidates[best] @ thetas[0]:
            parts.append(away(0, candidate - candidates[best], 0.0))
        constraints.append(value <= cp.sum(cp.hstack(parts)))
    program = cp.Problem(cp.Maximize(value), constraints)
    program.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(program.value)


def random_instance(seed):
    """A mixed instance; the seed decides everything."""
    rng = np.random.default_rng(seed)
    features, constraints = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    arms = rng.normal(size=(features + int(rng.integers(1, 7)), features))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    kinds = list(KINDS.values())
    outcomes = [kinds[rng.integers(4)] for _ in range(1 + constraints)]
    theta = rng.normal(size=(1 + constraints, features))
    thresholds = []
    for j in range(constraints):
        room = np.quantile(arms @ theta[1 + j], 0.7) + 0.05
        if seed % 3 == 0 and j == 0:
            by = room - arms[1] @ theta[1]
            kind = isinstance(outcomes[1], Gaussian)
            thresholds.append(Relative(1, float(by if kind else np.exp(by))))
        else:
            thresholds.append(float(outcomes[1 + j].mean(np.array(room))))
    problem = bf.Problem(arms, thresholds, reward=outcomes[0], costs=outcomes[1:])
    noise = {"reward_noise": None if outcomes[0].kind != "gaussian" or outcomes[0].noise else 0.7}
    return bf.Instance(problem, theta[0], theta[1:], **noise)


@pytest.mark.parametrize("seed", range(36))
def test_rate_of_mixed_outcomes_matches_a_conic_program(seed):
    instance = random_instance(seed)
    rate = bf.optimal_rate(instance)
    assert rate.gap <= 1e-8
    assert rate.lower <= rate.value <= rate.upper
    assert rate.value == pytest.approx(conic_rate(instance), rel=2e-5, abs=1e-9)
    reached = bf.exponents(instance, rate.allocation.values).min().item()
    assert reached == pytest.approx(rate.value, rel=1e-7)


@pytest.mark.parametrize(
    ("reward", "cost", "rate"),
    [
        ("known", "known", 0.00861884),
        ("learnt", "learnt", 0.00854540),
        ("0/1", "0/1", 0.00208958),
        ("counts", "0/1", 0.00959050),
        ("0/1", "learnt", 0.00208958),
    ],
)
def test_end_of_optimism_with_other_outcomes(reward, cost, rate):
    kinds = KINDS | {"known": Gaussian(1.0)}
    plain = bf.instances.end_of_optimism(alpha=0.3)
    threshold = float(kinds[cost].mean(plain.problem.thresholds[0]))
    problem = bf.Problem(plain.problem.arms, threshold, reward=kinds[reward], costs=kinds[cost])
    found = bf.optimal_rate(bf.Instance(problem, plain.theta_reward, plain.theta_cost))
    assert found.value == pytest.approx(rate, abs=1e-8)
    assert found.gap <= 1e-8


def test_no_feasible_candidate_has_a_rate_of_its_own():
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, thresholds={"dose": -2.0})
    instance = bf.Instance(problem, [1.0, 0.0], [0.3, 0.4])
    assert instance.best is None
    near, far = 2.3**2 / 2, 2.4**2 / 2  # w_a near = w_b far
    assert bf.optimal_rate(instance).value == pytest.approx(near * far / (near + far), rel=1e-8)
    assert bf.exponents(instance, [0.5, 0.5]).values == pytest.approx([near / 2, far / 2])


def test_a_limit_relative_to_a_zero_candidate_is_an_absolute_one():
    arms = {"none": [0.0, 0.0], "a": [1.0, 0.2], "b": [0.6, 0.9]}
    for outcome, absolute, by in (
        (Gaussian(), 0.4, 0.4),
        (Bernoulli(), 0.6, 0.6 / 0.4),
        (Poisson(), 1.5, 1.5),
    ):
        plain = bf.Problem(arms, {"harm": absolute}, costs=outcome)
        relative = bf.Problem(arms, {"harm": Relative("none", by)}, costs=outcome)
        assert relative.limits == pytest.approx(plain.limits, rel=1e-15)
        truth = [1.0, 0.5], [0.1, 0.2]
        one, other = (bf.optimal_rate(bf.Instance(p, *truth)).value for p in (plain, relative))
        assert one == pytest.approx(other, rel=1e-9)


def test_an_arm_that_is_not_pulled_tells_nothing():
    problem = bf.Problem(np.eye(2), 0.8, reward=Bernoulli(), costs=Poisson())
    instance = bf.Instance(problem, [1.0, 0.0], [-2.0, -2.0])
    found = bf.exponents(instance, [1.0, 0.0]).values
    assert found[1] == 0.0
    assert found[0] > 0.0
