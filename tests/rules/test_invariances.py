"""What must not matter does not: rotations, orders, units, copies, batches and names.

Every change of a problem that leaves its meaning alone is tried on the optimal rate and the
exponents, on the probability of error (where two events make it exact, or within its standard
errors), on exact draws (in distribution) and on the rules. Every check has a control: a change
that does matter, which the same check must notice.
"""

import numpy as np
import pandas as pd
import pytest
from helpers import RULES, blocks, gaussian_draws, membership, same_law
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bayes_feasible as bf

RATE = 3e-8  # relative: two solutions, each within 1e-8 of the optimum, and rounding
CLOSED_FORM = 1e-9  # relative: exponents and log-probabilities in closed form
FALSE_ALARM = 1e-6  # of each comparison of two samples, all its tests together
STANDARD_ERRORS = 7.0  # between two estimates: a false alarm in 10^11
DRAWS = 3000

seeds = st.integers(0, 10**6)


class Case:
    """An instance, a history of pulls, and what to do to both at once.

    The numbers of a `Case` are plain arrays; `changed` replaces some of them.
    """

    def __init__(self, **parts):
        self.parts = parts
        self.__dict__.update(parts)

    def changed(self, **changes):
        return Case(**(self.parts | changes))

    @property
    def problem(self):
        return bf.Problem(
            self.arms,
            self.thresholds,
            candidates=self.candidates,
            reward_noise=self.reward_noise,
            cost_noise=self.cost_noise,
        )

    @property
    def instance(self):
        return bf.Instance(self.problem, self.theta_reward, self.theta_cost)

    @property
    def posterior(self):
        return bf.Posterior.from_history(self.problem, self.pulled, self.rewards, self.costs)

    def log_error(self, seed=0):
        """Log-probability that the first candidate is not the best feasible one."""
        return bf.Alternative(self.problem, 0).log_probability(self.posterior, seed=seed)

    def draws(self, seed):
        """Draws (draw, block, feature) given that."""
        alternative = bf.Alternative(self.problem, 0)
        return blocks(alternative.sample(self.posterior, DRAWS, seed=seed))


def case(seed, features=3, arms=5, candidates=4, constraints=1, pulls=30):
    """A random case; the first candidate is the best feasible one, by a clear margin."""
    for attempt in range(10_000):
        rng = np.random.default_rng([seed, attempt])
        rows = rng.standard_normal((arms, features)) / np.sqrt(features)
        reward = rng.standard_normal(features)
        cost = rng.standard_normal((constraints, features))
        vectors = rng.standard_normal((candidates, features)) / np.sqrt(features)
        thresholds = np.full(constraints, 0.3)
        margins = thresholds - vectors @ cost.T
        feasible = (margins > 0).all(axis=1)
        values = np.where(feasible, vectors @ reward, -np.inf)
        gaps = np.delete((vectors[0] - vectors) @ reward, 0)
        clear = np.abs(gaps).min() > 0.1 and np.abs(margins).min(initial=1.0) > 0.1
        if values.argmax() == 0 and feasible[0] and clear:
            break
    pulled = rng.integers(arms, size=pulls)
    scale = rng.uniform(0.5, 2.0, size=1 + constraints)
    noise = rng.standard_normal((pulls, 1 + constraints)) * scale
    return Case(
        arms=rows, candidates=vectors, thresholds=thresholds, theta_reward=reward,
        theta_cost=cost, reward_noise=scale[0], cost_noise=scale[1:], pulled=pulled,
        rewards=rows[pulled] @ reward + noise[:, 0], costs=rows[pulled] @ cost.T + noise[:, 1:],
    )  # fmt: skip


def exact_case(seed):
    """A case whose alternative set has at most two events, so that log P is exact."""
    return case(seed, candidates=2, constraints=seed % 2)


def allocation(size, seed):
    return np.random.default_rng([seed, 1]).dirichlet(np.ones(size))


# --- the changes ---


def rotation(features, seed):
    matrix = np.random.default_rng([seed, 2]).standard_normal((features, features))
    return np.linalg.qr(matrix)[0]


def rotated(of, turn):
    """Everything in turned coordinates."""
    return of.changed(
        arms=of.arms @ turn, candidates=of.candidates @ turn, theta_reward=of.theta_reward @ turn,
        theta_cost=of.theta_cost @ turn,
    )  # fmt: skip


def with_arms_in_order(of, order):
    """Arm i is what arm `order[i]` was."""
    place = np.argsort(order)
    return of.changed(arms=of.arms[order], pulled=place[of.pulled])


def with_features_in_order(of, order):
    return rotated(of, np.eye(order.size)[:, order])


def with_candidates_in_order(of, order):
    return of.changed(candidates=of.candidates[order])


def in_other_units(of, reward, costs):
    """Rewards and costs, their noise, thresholds and parameters in other units."""
    return of.changed(
        theta_reward=reward * of.theta_reward, reward_noise=reward * of.reward_noise,
        rewards=reward * of.rewards, theta_cost=costs[:, np.newaxis] * of.theta_cost,
        cost_noise=costs * of.cost_noise, thresholds=costs * of.thresholds,
        costs=of.costs * costs,
    )  # fmt: skip


def dominated(of, beyond):
    """One more candidate: further along the line from the best through another one.

    Where the new one is feasible and better than the best, and the best is feasible, so is the
    other one, which lies between the two: it adds nothing to the alternative set.
    """
    infeasible = np.flatnonzero(np.any(of.candidates @ of.theta_cost.T > of.thresholds, axis=1))
    other = infeasible[0]
    best = of.candidates[0]
    new = best + beyond * (of.candidates[other] - best)
    return of.changed(candidates=np.vstack([of.candidates, new]))


def with_an_infeasible_candidate(seed, **sizes):
    """A case with an infeasible candidate, which is the second one."""
    for more in range(1000):
        found = case(seed + 1000 * more, **sizes)
        costs = found.candidates @ found.theta_cost.T
        if np.any(costs > found.thresholds, axis=1)[1]:
            return found
    raise AssertionError("no infeasible candidate")


def split(of, arm, seed):
    """One arm twice; its pulls are shared out between the two."""
    copy = (of.pulled == arm) & (np.random.default_rng([seed, 3]).random(of.pulled.size) < 0.5)
    return of.changed(
        arms=np.vstack([of.arms, of.arms[arm]]), pulled=np.where(copy, len(of.arms), of.pulled)
    )


def equivalents(of, seed):
    """The case in every form that means the same, by name."""
    rng = np.random.default_rng([seed, 4])
    features, arms = of.arms.shape[1], len(of.arms)
    rival = 1 + rng.permutation(len(of.candidates) - 1)
    return {
        "rotated": rotated(of, rotation(features, seed)),
        "arms permuted": with_arms_in_order(of, rng.permutation(arms)),
        "features permuted": with_features_in_order(of, rng.permutation(features)),
        "candidates permuted": with_candidates_in_order(of, np.concatenate([[0], rival])),
        "other units": in_other_units(
            of, rng.uniform(0.01, 100), rng.uniform(0.01, 100, of.thresholds.size)
        ),
        "an arm split": split(of, int(of.pulled[0]), seed),
    }


def differents(of):
    """The case in forms that mean something else, by name."""
    turn = rotation(of.arms.shape[1], 0)
    return {
        "parameters not rotated": of.changed(
            arms=of.arms @ turn, candidates=of.candidates @ turn
        ),
        "observations not permuted": of.changed(arms=np.roll(of.arms, 1, axis=0)),
        "features of the arms alone": of.changed(arms=np.roll(of.arms, 1, axis=1)),
        "units of the reward noise alone": of.changed(reward_noise=1.1 * of.reward_noise),
        "units of the thresholds alone": of.changed(thresholds=1.1 * of.thresholds),
        "the arms longer": of.changed(arms=1.1 * of.arms),
        "a pull forgotten": of.changed(
            pulled=of.pulled[1:], rewards=of.rewards[1:], costs=of.costs[1:]
        ),
        "an arm's copy with pulls of its own": of.changed(
            arms=np.vstack([of.arms, of.arms[of.pulled[0]]]),
            pulled=np.append(of.pulled, len(of.arms)), rewards=np.append(of.rewards, 0.5),
            costs=np.vstack([of.costs, np.zeros_like(of.costs[:1])]),
        ),
    }  # fmt: skip


SEEN_BY_THE_RATE = {
    "parameters not rotated", "features of the arms alone", "units of the reward noise alone",
    "units of the thresholds alone", "the arms longer",
}  # fmt: skip


# --- the rate ---


def same_rate(one, other):
    return bf.optimal_rate(one.instance).value == pytest.approx(
        bf.optimal_rate(other.instance).value, rel=RATE, abs=0
    )


@settings(max_examples=25)
@given(seed=seeds, constraints=st.integers(0, 2))
def test_the_rate_is_the_same(seed, constraints):
    original = case(seed, constraints=constraints)
    for name, other in equivalents(original, seed).items():
        assert same_rate(original, other), name


def test_a_rate_that_is_not_the_same_is_noticed():
    original = case(3)
    for name, other in differents(original).items():
        if name in SEEN_BY_THE_RATE - {"parameters not rotated"}:
            assert not same_rate(original, other), name


@settings(max_examples=25)
@given(seed=seeds, constraints=st.integers(0, 2))
def test_exponents_follow_arms_and_candidates(seed, constraints):
    original = case(seed, constraints=constraints)
    rng = np.random.default_rng([seed, 5])
    shares = allocation(len(original.arms), seed)
    values = bf.exponents(original.instance, shares).values

    def agree(other, weights, order=slice(None)):
        found = bf.exponents(other.instance, weights).values
        np.testing.assert_allclose(found, values[order], rtol=CLOSED_FORM)

    order = rng.permutation(len(original.arms))
    agree(with_arms_in_order(original, order), shares[order])
    order = np.concatenate([[0], 1 + rng.permutation(len(original.candidates) - 1)])
    agree(with_candidates_in_order(original, order), shares, order)
    agree(rotated(original, rotation(3, seed)), shares)
    halves = np.append(shares, 0.4 * shares[2])
    halves[2] *= 0.6
    agree(split(original, 2, seed), halves)
    more = np.append(shares, 0.4 * shares[2])
    with pytest.raises(AssertionError):  # the control: the copy's share comes on top
        agree(split(original, 2, seed), more / more.sum())


@settings(max_examples=25)
@given(seed=seeds, beyond=st.floats(1.01, 5.0))
def test_a_dominated_infeasible_candidate_does_not_change_the_rate(seed, beyond):
    original = with_an_infeasible_candidate(seed)
    more = dominated(original, beyond)
    assert not more.instance.feasible[-1]
    assert same_rate(original, more)


def test_a_candidate_that_is_hard_to_tell_from_the_best_does():
    original = with_an_infeasible_candidate(0)
    aside = np.cross(original.theta_reward, original.theta_cost[0])  # as good, and as cheap
    near = original.candidates[0] + aside - 0.001 * original.theta_reward
    assert not same_rate(
        original, original.changed(candidates=np.vstack([original.candidates, near]))
    )


@settings(max_examples=20)
@given(seed=seeds)
def test_the_shares_of_an_arm_and_its_copy_add_up(seed):
    """What the optimal design tells is unique, however it is shared out among copies."""
    rows = case(seed).arms
    once, twice = bf.g_optimal(rows), bf.g_optimal(np.vstack([rows, rows[1]]))
    told = rows.T @ (once.allocation.values[:, np.newaxis] * rows)
    weights = twice.allocation.values[:-1] + np.eye(len(rows))[1] * twice.allocation.values[-1]
    again = rows.T @ (weights[:, np.newaxis] * rows)
    assert once.value == pytest.approx(twice.value, rel=RATE)
    # a design within 1e-8 of the best value tells the same to about the root of that
    np.testing.assert_allclose(again, told, atol=1e-3 * np.abs(told).max())
    assert np.abs(rows.T @ rows / len(rows) - told).max() > 1e-3 * np.abs(told).max()  # control


# --- the probability of error ---


def same_log_error(one, other):
    left, right = one.log_error(), other.log_error()
    assert left.standard_error == right.standard_error == 0  # both exact
    return left.value == pytest.approx(right.value, rel=CLOSED_FORM, abs=CLOSED_FORM)


@settings(max_examples=25)
@given(seed=seeds)
def test_the_probability_of_error_is_the_same(seed):
    original = exact_case(seed)
    for name, other in equivalents(original, seed).items():
        assert same_log_error(original, other), name


def test_a_probability_of_error_that_is_not_the_same_is_noticed():
    original = exact_case(3)
    assert original.thresholds.size == 1
    for name, other in differents(original).items():
        if name != "parameters not rotated":  # the pulls do not know the parameters
            assert not same_log_error(original, other), name


@settings(max_examples=20)
@given(seed=seeds, beyond=st.floats(1.01, 5.0))
def test_a_dominated_candidate_does_not_change_the_probability_of_error(seed, beyond):
    """Three events or more: two estimates, in the sum of their standard errors."""
    original = with_an_infeasible_candidate(seed, candidates=2)
    before, after = original.log_error(), dominated(original, beyond).log_error()
    assert before.standard_error == 0
    allowed = STANDARD_ERRORS * after.standard_error + CLOSED_FORM * (1 + abs(before.value))
    assert abs(before.value - after.value) <= allowed
    assert after.lower - CLOSED_FORM * (1 + abs(before.value)) <= before.value


def test_a_better_candidate_does_change_it():
    original = with_an_infeasible_candidate(0, candidates=2)
    better = original.candidates[0] + 0.3 * original.theta_reward
    more = original.changed(candidates=np.vstack([original.candidates, better]))
    before, after = original.log_error(), more.log_error()
    assert after.value - before.value > STANDARD_ERRORS * after.standard_error + 0.01


dyadic = st.integers(-(2**12), 2**12).map(lambda ticks: ticks / 2**8)
histories = st.lists(st.tuples(st.integers(0, 4), dyadic, dyadic), min_size=2, max_size=40)


@settings(max_examples=25)
@given(seed=st.integers(0, 20), history=histories, cuts=st.sets(st.integers(1, 39)))
def test_batches_are_the_pulls_they_consist_of(seed, history, cuts):
    """Sums of dyadic numbers are exact, so everything agrees to the last bit."""
    problem = case(seed).problem
    arms, rewards, costs = (np.array(column) for column in zip(*history, strict=True))
    whole = bf.Posterior.from_history(problem, arms, rewards, costs)
    cut = bf.Posterior(problem)
    for part in np.split(np.arange(arms.size), sorted(c for c in cuts if c < arms.size)):
        cut.update(arms[part], rewards[part], costs[part])
    single = bf.Posterior(problem)
    for arm, reward, cost in reversed(history):
        single.update(arm, reward, cost)
    alternative = bf.Alternative(problem, 0)
    for other in (cut, single):
        assert other.theta_reward.tobytes() == whole.theta_reward.tobytes()
        assert other.theta_cost.tobytes() == whole.theta_cost.tobytes()
        assert other.covariance.tobytes() == whole.covariance.tobytes()
        assert alternative.log_probability(other).value == (
            alternative.log_probability(whole).value
        )
        drawn, expected = (blocks(alternative.sample(some, 5, seed=1)) for some in (other, whole))
        assert drawn.tobytes() == expected.tobytes()
    single.update(0, 2.0**-8, 0.0)  # the control: one pull more
    assert single.covariance.tobytes() != whole.covariance.tobytes()
    assert blocks(alternative.sample(single, 5, seed=1)).tobytes() != expected.tobytes()


# --- draws ---


def draws_in_original_coordinates(of, seed):
    """Draws of the case in every equivalent form, brought back to its own coordinates."""
    rng = np.random.default_rng([seed, 4])
    turn = rotation(of.arms.shape[1], seed)
    yield "rotated", rotated(of, turn).draws(1) @ turn.T
    order = rng.permutation(len(of.arms))
    yield "arms permuted", with_arms_in_order(of, order).draws(2)
    order = rng.permutation(of.arms.shape[1])
    yield "features permuted", with_features_in_order(of, order).draws(3)[:, :, np.argsort(order)]
    units = np.array([3.0, *np.full(of.thresholds.size, 0.2)])
    scaled = in_other_units(of, units[0], units[1:]).draws(4)
    yield "other units", scaled / units[:, np.newaxis]
    yield "an arm split", split(of, int(of.pulled[0]), seed).draws(5)
    rivals = 1 + rng.permutation(len(of.candidates) - 1)
    yield "candidates permuted", with_candidates_in_order(of, np.append(0, rivals)).draws(6)


@settings(max_examples=4)
@given(seed=seeds)
def test_draws_follow_the_same_law(seed):
    original = case(seed)
    alternative = bf.Alternative(original.problem, 0)
    reference = original.draws(0)
    for name, drawn in draws_in_original_coordinates(original, seed):
        assert same_law(alternative, drawn, reference, FALSE_ALARM), name


@settings(max_examples=4)
@given(seed=seeds)
def test_draws_follow_the_same_law_beside_a_dominated_candidate(seed):
    original = with_an_infeasible_candidate(seed)
    drawn = dominated(original, 1.7).draws(1)
    alternative = bf.Alternative(original.problem, 0)
    assert membership(alternative, drawn).any(axis=1).all()
    assert same_law(alternative, drawn, original.draws(0), FALSE_ALARM)


def test_draws_of_another_law_are_noticed():
    original = case(3)
    alternative, reference = bf.Alternative(original.problem, 0), original.draws(0)
    turn = rotation(3, 3)
    wrong = {
        "not turned back": rotated(original, turn).draws(1),
        "not scaled back": in_other_units(original, 1.2, np.ones(1)).draws(1),
        "a pull forgotten, with far more noise": original.changed(
            reward_noise=1.2 * original.reward_noise
        ).draws(1),
        "of another candidate": with_candidates_in_order(original, np.array([1, 0, 2, 3])).draws(1),
        "not given the alternative": gaussian_draws(original.posterior, DRAWS, 1),
    }
    for name, drawn in wrong.items():
        assert not same_law(alternative, drawn, reference, FALSE_ALARM), name
    assert same_law(alternative, original.draws(9), reference, FALSE_ALARM)


# --- rules ---

each_rule = pytest.mark.parametrize("name", RULES)


def played(rule, of, rounds, seed, units=None):
    """The arms that a rule asks for while the arms of a case show what they do."""
    rng = np.random.default_rng([seed, 6])
    noise = rng.standard_normal((rounds, 1 + of.thresholds.size))
    units = np.ones(1 + of.thresholds.size) if units is None else units
    asked = []
    for shown in noise:
        arm = rule.ask()
        reward = (of.arms[arm] @ of.theta_reward + of.reward_noise * shown[0]) * units[0]
        cost = (of.theta_cost @ of.arms[arm] + of.cost_noise * shown[1:]) * units[1:]
        rule.tell(arm, reward, cost)
        asked.append(arm)
    return asked


def bits(rule):
    return {name: array.tobytes() for name, array in rule._arrays().items()}


def named(of, arms=None):
    """The problem of a case with a name for everything."""

    def table(rows, kind):
        return pd.DataFrame(rows, [f"{kind} {i}" for i in range(len(rows))], ["x", "y", "z"])

    return bf.Problem(
        table(of.arms if arms is None else arms, "arm"), {"price": of.thresholds[0]},
        candidates=table(of.candidates, "candidate"), reward_noise=of.reward_noise,
        cost_noise=of.cost_noise,
    )  # fmt: skip


@settings(max_examples=10)
@given(seed=seeds)
def test_names_do_not_matter_to_what_is_computed(seed):
    of = case(seed)
    plain, labelled = of.problem, named(of)
    left, right = (
        bf.optimal_rate(bf.Instance(problem, of.theta_reward, of.theta_cost))
        for problem in (plain, labelled)
    )
    assert (left.value, left.upper, left.hardest) == (right.value, right.upper, right.hardest)
    assert left.allocation.values.tobytes() == right.allocation.values.tobytes()
    found = []
    for problem in (plain, labelled, named(of, np.roll(of.arms, 1, axis=0))):
        posterior = bf.Posterior.from_history(problem, of.pulled, of.rewards, of.costs)
        alternative = bf.Alternative(problem, 0)
        drawn = blocks(alternative.sample(posterior, 5, seed=1)).tobytes()
        found.append((alternative.log_probability(posterior, seed=1).value, drawn))
    assert found[0] == found[1]
    assert found[1] != found[2]  # the control: the names of other arms


@each_rule
def test_names_do_not_matter_to_a_rule(name):
    of = case(11)
    left, right, other = (
        RULES[name](problem, seed=4)
        for problem in (of.problem, named(of), named(of, 1.5 * of.arms))
    )
    assert played(left, of, 60, 0) == played(right, of, 60, 0)
    assert bits(left) == bits(right)
    assert left.recommend().candidate == right.recommend().candidate
    played(other, of, 60, 0)
    assert bits(other) != bits(left)  # the control


@each_rule
@settings(max_examples=8)
@given(seed=st.integers(0, 100), cuts=st.sets(st.integers(1, 29)))
def test_a_rule_does_not_mind_how_what_it_is_told_is_cut(name, seed, cuts):
    of = case(seed)
    rng = np.random.default_rng([seed, 7])
    arms = rng.integers(len(of.arms), size=30)
    rewards, costs = rng.standard_normal(30), rng.standard_normal((30, 1))
    whole, cut, other = (RULES[name](of.problem, seed=2) for _ in range(3))
    whole.tell(arms, rewards, costs)
    for part in np.split(np.arange(30), sorted(cuts)):
        cut.tell(arms[part], rewards[part], costs[part])
    assert bits(whole) == bits(cut)
    assert whole.ask(5).tolist() == cut.ask(5).tolist()
    assert bits(whole) == bits(cut)
    other.tell(arms[:-1], rewards[:-1], costs[:-1])
    other.ask(5)
    assert bits(whole) != bits(other)  # the control: the last pull is missing


def in_units(name, of, reward, cost):
    """A rule that thinks in these units of rewards and costs; so does the paper's scale."""
    units = in_other_units(of, reward, np.array([cost]))
    options = {"parameter_radius": (reward, cost)} if name.startswith("BLFAIPS") else {}
    return RULES[name](units.problem, seed=4, **options)


@each_rule
@settings(max_examples=6)
@given(seed=st.integers(0, 100), reward=st.integers(-40, 40), cost=st.integers(-40, 40))
def test_units_that_are_powers_of_two_change_no_bit(name, seed, reward, cost):
    of, units = case(seed), 2.0 ** np.array([reward, cost])
    left, right = in_units(name, of, 1.0, 1.0), in_units(name, of, *units)
    asked = played(left, of, 40, seed)
    assert asked == played(right, of, 40, seed, units)
    found, expected = bits(left), bits(right)
    for what in found.keys() & {"weights", "lower", "variances", "plan", "losses"}:
        assert found[what] == expected[what]
    scaled = left._state.candidate_means * units[:, np.newaxis]
    assert scaled.tobytes() == right._state.candidate_means.tobytes()


@pytest.mark.parametrize("name", [name for name in RULES if name != "GOptimal"])
def test_units_of_the_noise_alone_change_what_is_asked(name):
    """The control: the noise in other units, but not what is shown."""
    of = case(11)
    wrong = of.changed(reward_noise=8 * of.reward_noise, cost_noise=of.cost_noise / 8)
    left, right = RULES[name](of.problem, seed=4), RULES[name](wrong.problem, seed=4)
    assert played(left, of, 200, 0) != played(right, of, 200, 0)


@pytest.mark.parametrize("name", ["LinearThompson", "TopTwo"])
@settings(max_examples=8)
@given(seed=st.integers(0, 100))
def test_a_rule_learns_the_same_from_an_arm_and_its_copy(name, seed):
    """Copies tie, and the first of them is asked for; what the copy showed counts all the same."""
    of = case(seed)
    once, twice, other = (RULES[name](of.problem, seed=5) for _ in range(3))
    twice = RULES[name](of.changed(arms=np.vstack([of.arms, of.arms[2]])).problem, seed=5)
    rng = np.random.default_rng([seed, 8])
    for i in range(40):
        arm, again = once.ask(), twice.ask()
        assert arm == again
        reward, cost = rng.standard_normal(), rng.standard_normal(1)
        once.tell(arm, reward, cost)
        twice.tell(len(of.arms) if arm == 2 and i % 2 else arm, reward, cost)
        other.tell(other.ask() if arm != 2 else 0, reward, cost)
    for what in ("lower", "means", "candidate_means", "variances"):
        assert getattr(once._state, what).tobytes() == getattr(twice._state, what).tobytes()
    if (once._state.pulls[2]) > 0:  # the control: what the arm showed counts for another
        assert once._state.lower.tobytes() != other._state.lower.tobytes()


ROUNDS = (2, 6, 12)
SEEDS = 150
# The others break ties by the order of the arms, which is what permuting changes.
RANDOM_RULES = ["BLFAIPS, true posterior", "LinearThompson", "TopTwo", "TopTwo, information"]


def asked_at(name, of, first_seed, *, rounds=ROUNDS, told=False):
    """The arms asked for in some rounds (seed, round), once for each of many seeds.

    A rule that is `told` knows the pulls of the case before the first round.
    """
    problem, rows = of.problem, []
    for seed in range(first_seed, first_seed + SEEDS):
        rule = RULES[name](problem, seed=seed)
        if told:
            rule.tell(of.pulled, of.rewards, of.costs)
        arms = played(rule, of, rounds[-1], seed)
        rows.append([arms[i - 1] for i in rounds])
    return np.array(rows)


def same_frequencies(left, right, false_alarm=FALSE_ALARM):
    """Whether no chi-square test tells two tables of arms (seed, round) apart, round by round."""
    p_values = []
    for column in range(left.shape[1]):
        size = 1 + max(left.max(), right.max())
        table = np.array([np.bincount(rows[:, column], minlength=size) for rows in (left, right)])
        rare = table.sum(axis=0) < 10
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
        table = table[:, table.sum(axis=0) > 0]
        if table.shape[1] > 1:
            p_values.append(stats.chi2_contingency(table).pvalue)
    return min(p_values) > false_alarm / len(p_values)


@pytest.mark.parametrize(
    "name",
    [*RANDOM_RULES[:2], *(pytest.param(n, marks=pytest.mark.slow) for n in RANDOM_RULES[2:])],
)
def test_a_random_rule_pulls_in_the_same_law(name):
    of = case(23)
    reference = asked_at(name, of, 0)
    order = np.array([3, 0, 4, 2, 1])
    permuted = asked_at(name, with_arms_in_order(of, order), 1000)
    assert same_frequencies(order[permuted], reference)
    assert not same_frequencies(permuted, reference)  # the control: not brought back
    turned = asked_at(name, rotated(of, rotation(3, 1)), 2000)
    assert same_frequencies(turned, reference)
    features = asked_at(name, with_features_in_order(of, np.array([2, 0, 1])), 3000)
    assert same_frequencies(features, reference)
    candidates = asked_at(name, with_candidates_in_order(of, np.array([2, 0, 3, 1])), 4000)
    assert same_frequencies(candidates, reference)


def with_little_noise(of):
    """The case with a hundredth of its noise."""
    rewards, costs = of.arms[of.pulled] @ of.theta_reward, of.arms[of.pulled] @ of.theta_cost.T
    return of.changed(
        reward_noise=of.reward_noise / 100, rewards=rewards + (of.rewards - rewards) / 100,
        cost_noise=of.cost_noise / 100, costs=costs + (of.costs - costs) / 100,
    )  # fmt: skip


def beside_another_candidate():
    """A case for rules that are sure; one more candidate, dominated; or one hard to tell apart."""
    of = with_little_noise(with_an_infeasible_candidate(3))
    near = of.candidates[0] + np.cross(of.theta_reward, of.theta_cost[0])  # as good, and as cheap
    near -= 0.1 * of.theta_reward
    other = of.changed(candidates=np.vstack([of.candidates, near]))
    assert max(of.log_error().value, other.log_error().value) < -20
    return of, dominated(of, 1.7), other


def test_beside_a_dominated_candidate_a_sure_rule_pulls_in_the_same_law():
    """Once it is sure of the best candidate, BLFAIPS looks at its alternative set alone."""
    reference, same, different = (
        asked_at("BLFAIPS, true posterior", of, 1000 * i, rounds=(10, 20, 30), told=True)
        for i, of in enumerate(beside_another_candidate())
    )
    assert same_frequencies(same, reference)
    assert not same_frequencies(different, reference)  # the control


def test_beside_a_dominated_candidate_best_response_pulls_the_same():
    """It breaks no tie by chance, and the nearest alternative is the same."""
    asked = []
    for of in beside_another_candidate():
        rule = bf.BestResponse(of.problem, seed=1)
        rule.tell(of.pulled, of.rewards, of.costs)
        asked.append(played(rule, of, 200, 0))
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]  # the control
