"""The stop: its reasons, against plain Monte Carlo, quadrature and a general optimiser."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize
from scipy.stats import norm

import bayes_feasible as bf
from bayes_feasible._draws import unrestricted
from bayes_feasible.stopping.budget import log_overturned
from bayes_feasible.stopping.likelihood import _evidence, log_evidence
from bayes_feasible.stopping.slack import mistakes, slack_of
from bayes_feasible.stopping.stop import Monitor

ARMS = {"a": [1.0, 0.0], "b": [0.6, 0.8], "c": [0.0, 1.0]}
PROBLEMS = {
    "textbook": bf.Problem(ARMS, {"harm": 0.5}),
    "learnt": bf.Problem(ARMS, {"harm": 0.5}, reward=bf.Gaussian(), costs=bf.Gaussian()),
    "0/1": bf.Problem(ARMS, {"harm": 0.5}, reward=bf.Bernoulli(), costs=bf.Bernoulli()),
    "mixed": bf.Problem(
        ARMS, {"harm": bf.Relative("b", 1.5), "wait": 2.0}, reward=bf.Gaussian(noise=0.5),
        costs=[bf.Bernoulli(), bf.Poisson()],
    ),
}  # fmt: skip
TRUTH = [[0.9, 0.3], [-0.4, 0.6], [0.2, 0.4]]


def pulled(problem, number=60, seed=0, reward=TRUTH[0]):
    instance = bf.Instance(problem, reward, TRUTH[1 : 1 + problem.thresholds.size])
    arms = np.arange(number) % 3
    return bf.Posterior.from_history(problem, arms, *instance.pull(arms, seed=seed))


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("epsilon", [None, 0.1, {"harm": 0.2, "reward": 0.05}])
def test_the_probability_of_an_error_by_more_than_epsilon(name, epsilon):
    problem, posterior = PROBLEMS[name], pulled(PROBLEMS[name])
    theta = unrestricted(posterior, 50_000, np.random.default_rng(1))
    by = [0.1] * 3 if epsilon == 0.1 else [0.05 * bool(epsilon), 0.2 * bool(epsilon), 0.0]
    rewards = theta[:, 0] @ problem.candidates.T
    feasible = problem.feasible(theta[:, 1:])
    for z in range(3):
        wrong = np.any(feasible & (rewards - rewards[:, [z]] > by[0]), axis=1)
        if epsilon is None:
            wrong |= ~feasible[:, z]
        for j, outcome in enumerate(problem.outcomes[1:]):
            natural = theta[:, 1 + j] @ problem.candidates[z]
            if problem.relative[j] is None:
                wrong |= outcome.mean(natural) > problem.thresholds[j] + by[1 + j]
            else:
                natural -= theta[:, 1 + j] @ problem.references[j]
                wrong |= natural > problem.limits[j] + by[1 + j]
        decision = bf.Stop(error=0.5, epsilon=epsilon).check(posterior, z)
        assert decision.reason == ("error" if decision.log_error <= math.log(0.5) else "")
        if decision.candidate == z:
            error = 5 * math.sqrt(wrong.mean() / wrong.size) + 0.01 * wrong.mean()
            assert math.exp(decision.log_error) == pytest.approx(wrong.mean(), abs=error + 1e-5)


def test_a_tie_ends_only_with_epsilon():
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, reward_noise=1.0)
    posterior = bf.Posterior(problem)
    posterior.update(["a", "b"], [5000.0, 5000.0], count=10_000)
    assert not bf.Stop(error=0.05, delta=0.05).check(posterior)
    assert bf.Stop(error=0.05, epsilon=0.1).check(posterior).reason == "error"
    assert bf.Stop(delta=0.05, epsilon=0.1).check(posterior).reason == "delta"


@pytest.mark.parametrize("excess", [-0.02, 0.0, 0.02, 0.1])
def test_a_tie_with_a_limit_ends_too(excess):
    """The better candidate is at its limit: it will do, or, where it is not, the other."""
    problem = bf.Problem({"a": [1, 0], "b": [0, 1]}, {"harm": 0.5})
    posterior = bf.Posterior(problem)
    posterior.update(["a", "b"], [1e4, 0.0], [(0.5 + excess) * 1e4, 0.0], count=10_000)
    assert bool(bf.Stop(error=0.01).check(posterior)) == (excess == 0.1)
    decision = bf.Stop(error=0.01, epsilon=0.1).check(posterior)
    assert (decision.reason, decision.name) == ("error", "a" if excess < 0.1 else "b")


def test_units_of_epsilon():
    problem = bf.Problem(
        ARMS, {"harm": 0.3, "never": math.inf, "more": bf.Relative("a", 2.0)},
        reward=bf.Bernoulli(), costs=bf.Bernoulli(),
    )  # fmt: skip
    slack = slack_of(problem, 0.05)
    logit = math.log(0.35 / 0.65) - math.log(0.3 / 0.7)
    assert_allclose(slack, [0.05, logit, 0.0, 0.05])
    with pytest.raises(ValueError, match="epsilon: harm: expected a probability"):
        slack_of(problem, {"harm": 0.8})
    with pytest.raises(ValueError, match="epsilon: unknown outcome 'herm'; did you mean 'harm'"):
        slack_of(problem, {"herm": 0.1})


BAD = [
    ({}, "Stop: expected at least one"),
    ({"error": 1.5}, "error: expected a number below 1, got 1.5"),
    ({"error": -0.1}, "error: "),
    ({"delta": 0.0}, "delta: "),
    ({"error": 0.1, "epsilon": -1}, "epsilon: expected a number that is not negative"),
    ({"epsilon": 0.1, "pulls": 3}, "epsilon: expected with error or delta"),
    ({"futility": 0.1}, "futility: expected with pulls"),
    ({"pulls": 0}, "pulls: "),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=str)
def test_bad_stops(given, message):
    with pytest.raises(ValueError, match=message):
        bf.Stop(**given)
    with pytest.raises(TypeError):
        bf.Stop(pulls="many")


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_monitor_decides_as_a_check_does(name):
    problem = PROBLEMS[name]
    stop = bf.Stop(error=0.2, delta=0.3, futility=0.2, pulls=50, epsilon=0.05)
    monitor, reasons = Monitor(stop, problem), set()
    for number in (3, 9, 24, 45, 51):
        posterior = pulled(problem, number)
        decision = stop.check(posterior)
        ended = monitor.ended(posterior, posterior.best(), np.random.default_rng(0))
        assert bool(decision) == (ended is not None)
        reasons.add(decision.reason)
    assert "" in reasons
    assert len(reasons) > 1


def likelihood(problem, posterior, theta, noise, block):
    """Log-likelihood of one block at parameters (..., feature), up to what the data alone fix.

    That of 0/1 and counts with the ridge that keeps its largest value finite.
    """
    counts = posterior.counts
    sums = posterior.reward_sums if block == 0 else posterior.cost_sums[:, block - 1]
    natural, kind = theta @ problem.arms.T, problem.outcomes[block].kind
    ridge = 0.5e-6 * np.sum(np.square(theta), axis=-1)
    if kind == "bernoulli":
        return natural @ sums - np.logaddexp(0, natural) @ counts - ridge
    if kind == "poisson":
        return natural @ sums - np.exp(natural) @ counts - ridge
    return -np.square(sums / counts - natural) @ counts / (2 * noise**2)


def log_mixture(log_likelihood, centre, root):
    """Of N(centre, root root') over the likelihood, by quadrature."""
    nodes = np.linspace(-7, 7, 281)
    u = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1)
    weights = norm.pdf(nodes) * (nodes[1] - nodes[0])
    return math.log(weights @ np.exp(log_likelihood(centre + u @ root.T)) @ weights)


def smallest(function, start):
    return minimize(function, start, method="Nelder-Mead", options={"xatol": 1e-5}).fun


@pytest.mark.parametrize("name", ["textbook", "0/1", "mixed"])
def test_evidence_is_a_mixture_over_the_likelihood_at_its_largest(name):
    """By quadrature over the mixture and a general optimiser over the half-space."""
    problem, posterior = PROBLEMS[name], pulled(PROBLEMS[name], 30)
    vector, across = np.array([0.6, -0.8]), np.array([0.8, 0.6])
    for block, outcome in enumerate(problem.outcomes):
        noise = problem.noise[block]
        limit = float(vector @ posterior.blocks[block].mean) + 0.5
        shift = likelihood(problem, posterior, posterior.blocks[block].mean, noise, block)

        def log_likelihood(theta, block=block, noise=noise, shift=shift):
            return likelihood(problem, posterior, theta, noise, block) - shift

        def on_the_edge(x, limit=limit):
            return limit * vector + x[0] * across

        if outcome.kind == "gaussian":  # centred at what is put in question
            root = noise * np.linalg.inv(np.linalg.cholesky(problem.arms.T @ problem.arms / 3)).T

            def ratio(x, edge=on_the_edge, log=log_likelihood, root=root):
                return log_mixture(log, edge(x), root) - log(edge(x))

            worst = smallest(ratio, [0.3])
        else:
            marginal = log_mixture(log_likelihood, np.zeros(2), np.eye(2))

            def below(x, edge=on_the_edge, log=log_likelihood):
                return -log(edge(x))

            worst = marginal + smallest(below, [0.3]) - 0.5e-6 * 100**2
        found = _evidence(posterior, block).against(vector[np.newaxis], np.array([limit]))[0]
        assert found == pytest.approx(worst, abs=1e-3 if outcome.kind == "gaussian" else 0.1)
        assert found <= worst + 1e-3  # a bound from below


def test_evidence_where_noise_is_learnt():
    problem = bf.Problem([[1.0], [-1.0]], reward=bf.Gaussian(noise_prior=(1.5, 2.0)))
    rewards = np.array([0.3, -0.8, 1.4, 0.1, -1.2])
    posterior = bf.Posterior.from_history(problem, [0, 1, 0, 0, 1], rewards)
    seen = rewards * [1, -1, 1, 1, -1]

    def log_likelihood(theta, sd):
        return float(norm.logpdf(seen, theta, sd).sum())

    def joint(theta, log_sd):
        """Of the variance, IG(1.5, 2), and of theta given it, N(0, variance)."""
        variance = math.exp(2 * log_sd)
        prior = 1.5 * math.log(2.0) - math.lgamma(1.5) - 5 * log_sd - 2.0 / variance
        prior += math.log(2 * variance) + norm.logpdf(theta, 0, math.sqrt(variance))
        return math.exp(prior + log_likelihood(theta, math.exp(log_sd)))

    marginal = dblquad(joint, -3, 4, lambda _: -8, lambda _: 8, epsabs=0, epsrel=1e-8)[0]
    for limit in (0.2, 1.5, 4.0):

        def below(x, limit=limit):
            return -log_likelihood(limit + x[0] ** 2, math.exp(x[1]))

        found = _evidence(posterior, 0).against(np.array([[1.0]]), np.array([limit]))[0]
        assert found == pytest.approx(math.log(marginal) + smallest(below, [0.5, 0.0]), abs=1e-5)


def test_no_evidence_about_what_no_pull_tells():
    problem = PROBLEMS["textbook"]
    posterior = bf.Posterior(problem)
    posterior.update("a", 100.0, 0.0, count=100)
    events = mistakes(problem, 0, np.zeros(2))
    assert log_evidence(events, posterior) <= 0
    for other in PROBLEMS.values():
        assert not bf.Stop(delta=0.5).check(bf.Posterior(other))


@pytest.mark.parametrize("name", PROBLEMS)
def test_evidence_grows_with_every_pull(name):
    few, many = (
        bf.Stop(delta=0.05).check(pulled(PROBLEMS[name], number, reward=[2.0, -0.5]), "a")
        for number in (6, 3000)
    )
    assert not few
    assert many.reason == "delta"
    assert many.log_evidence > 10


def test_one_arm_where_the_likelihood_has_no_largest_value():
    problem = bf.Problem({"old": [1, 0], "new": [0, 1]}, reward=bf.Bernoulli())
    posterior = bf.Posterior(problem)
    posterior.update(["old", "new"], [0.0, 60.0], count=60)
    decision = bf.Stop(delta=0.05).check(posterior)
    assert (decision.reason, decision.name) == ("delta", "new")

    def density(logit):  # of all 60 pulls of an arm alike
        return math.exp(60 * (logit - np.logaddexp(0, logit))) * norm.pdf(logit)

    marginal = 2 * math.log(quad(density, -9, 9)[0])
    nearest = 120 * math.log(0.5)  # both arms with the same odds
    assert decision.log_evidence == pytest.approx(marginal - nearest, abs=0.3)


@pytest.mark.parametrize(
    "name",
    ["textbook", *(pytest.param(one, marks=pytest.mark.slow) for one in ("learnt", "0/1"))],
)
def test_the_bound_on_a_change_of_the_answer_holds(name):
    """More pulls of a truth from the posterior: the answer changes no more often than is said."""
    problem, posterior = PROBLEMS[name], pulled(PROBLEMS[name], 45, seed=3)
    choice, left, changed, runs = posterior.best(), 60, 0, 150
    theta = unrestricted(posterior, runs, np.random.default_rng(5))
    for i in range(runs):
        instance = bf.Instance(problem, theta[i, 0], theta[i, 1:])
        later = posterior.copy()
        for k in range(0, left, 6):
            arms = (np.arange(6) + k) % 3
            later.update(arms, *instance.pull(arms, seed=100 * i + k))
            if later.best() != choice:
                changed += 1
                break
    bound = math.exp(bf.Stop(futility=0.5, pulls=45 + left).check(posterior).log_overturned)
    assert changed / runs <= bound + 3 * math.sqrt(bound / runs)
    assert bound < 0.5 + 10 * changed / runs  # and says something


def test_the_bound_by_hand():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]])
    posterior = bf.Posterior(problem)
    posterior.update([0, 1], [18.0, 9.0], count=9)  # means 1.8 and 0.9, variances 1/10
    events = mistakes(problem, 0, np.zeros(1))
    moves = 2 * (1 / 10 - 1 / 30)  # of the difference, if each arm is pulled 20 times more
    expected = math.log(2) + norm.logsf(0.9 / math.sqrt(moves))
    assert log_overturned(events, posterior, 20) == pytest.approx(expected)
    assert log_overturned(events, posterior, 0) == -math.inf
    decision = bf.Stop(futility=0.1, pulls=38).check(posterior)
    assert decision.reason == "futility"
    assert decision.log_overturned == pytest.approx(expected)
    assert not bf.Stop(futility=0.01, pulls=38).check(posterior)


def test_futility_where_nothing_looks_feasible():
    problem = bf.Problem([[1.0, 0.0], [0.0, 1.0]], {"harm": 0.5})
    posterior = bf.Posterior(problem)
    posterior.update([0, 1], [0.0, 0.0], [30.0, 30.0], count=20)
    decision = bf.Stop(futility=0.05, pulls=60).check(posterior)
    assert (decision.reason, decision.candidate) == ("futility", None)
    assert "some candidate is found feasible within the 20 pulls left" in str(decision)


def test_a_decision_says_what_it_found():
    posterior = pulled(PROBLEMS["textbook"])
    decision = bf.Stop(error=1e-9, delta=1e-9, pulls=60).check(posterior)
    assert decision.reason == "pulls"
    assert len(decision.findings) == 3
    assert decision.to_dict()["stop"] is True
    assert decision.to_dict()["log_error"] == decision.log_error
    assert str(decision).startswith("Stop (pulls), answer: ")
