r"""Reference values in high precision, computed the naive way.

`python -m bayes_feasible.analysis.reference` writes `bayes_feasible/data/reference.json`: log tail
probabilities, quantiles of truncated normals, log-probabilities of events and of unions that have a
closed form, exponents and rates, over a grid of extremes. Nothing here uses the rest of the
package: matrices are inverted, probabilities are probabilities and not their logarithms, and optima
are found by bisection, with digits enough that it does no harm. The same script gives the same
file, byte for byte.
"""

import json
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import mpmath as mp

DIGITS = 50
PATH = Path("bayes_feasible", "data", "reference.json")

Case = dict[str, Any]


def main() -> None:
    """Compute the table and write it into the source tree."""
    PATH.write_text(table_text(), encoding="utf-8")
    print(f"written: {PATH}")


def table_text() -> str:
    """The file's text."""
    with mp.workdps(DIGITS):
        table = {
            "log_tail": _log_tails(),
            "truncated_quantile": _truncated_quantiles(),
            "event": _events(),
            "union": _unions(),
            "exponent": _exponents(),
            "rate": _rates(),
        }
    return json.dumps(table, indent=1) + "\n"


def tail(x: Any) -> Any:
    """Probability that a standard normal exceeds x."""
    return mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2


# Tails and quantiles


def _log_tails() -> list[Case]:
    near = [-40.0, -12.0, -5.0, -1.0, -1e-8, 0.0, 1e-300, 0.5, 1.0, 3.0, 8.0]
    far = [13.9, 14.1, 37.5, 38.7, 40.0, 100.0, 1000.0, 1e4, 1e6]
    return [{"x": x, "value": _number(mp.log(tail(x)))} for x in near + far]


def _truncated_quantiles() -> list[Case]:
    """How far the u-quantile of a standard normal beyond the bound lies beyond it."""
    bounds = [-30.0, -5.0, -1.0, 0.0, 0.25, 1.0, 4.0, 40.0, 400.0, 1e4]
    return [
        {"bound": bound, "u": u, "value": _number(_excess_quantile(bound, u))}
        for bound in bounds
        for u in (1e-6, 0.1, 0.5, 0.9, 1 - 2.0**-20)
    ]


def _excess_quantile(bound: float, u: float) -> Any:
    goal = tail(bound) * (1 - mp.mpf(u))
    high = mp.mpf(1)
    while tail(bound + high) > goal:
        high *= 2
    return _root(lambda excess: goal - tail(bound + excess), mp.mpf(0), high)


# Posteriors, events and unions


def _posterior(case: Case) -> tuple[Any, list[Any]]:
    """The inverse of `I + sum n x x'`, and the posterior mean of each block."""
    arms = [_column(arm) for arm in case["arms"]]
    precision = mp.eye(len(arms[0]))
    for arm, count in zip(arms, case["counts"], strict=True):
        precision += count * arm * arm.T
    covariance = precision**-1
    means = []
    for block in range(len(case["sums"][0])):
        total = mp.matrix(len(arms[0]), 1)
        for arm, sums in zip(arms, case["sums"], strict=True):
            total += arm * mp.mpf(sums[block])
        means.append(covariance * total)
    return covariance, means


def _standardised(vector: Any, mean: Any, covariance: Any, noise: float, limit: Any) -> Any:
    """How many standard deviations the limit lies above `<mean, vector>`."""
    column = _column(vector)
    variance = (column.T * covariance * column)[0]
    return (limit - (column.T * mean)[0]) / (mp.mpf(noise) * mp.sqrt(variance))


def event_probabilities(case: Case) -> list[Any]:
    """Probability of each event: the candidate's own constraints, then the other candidates."""
    covariance, means = _posterior(case)
    own = case["arms"][case["candidate"]]
    limits = list(zip(means[1:], case["cost_noise"], case["thresholds"], strict=True))
    result = [
        tail(_standardised(own, mean, covariance, noise, mp.mpf(limit)))
        for mean, noise, limit in limits
    ]
    for index, other in enumerate(case["arms"]):
        if index == case["candidate"]:
            continue
        difference = [mp.mpf(a) - mp.mpf(b) for a, b in zip(other, own, strict=True)]
        probability = tail(
            _standardised(difference, means[0], covariance, case["reward_noise"], mp.mpf(0))
        )
        for mean, noise, limit in limits:
            probability *= tail(-_standardised(other, mean, covariance, noise, mp.mpf(limit)))
        result.append(probability)
    return result


def _events() -> list[Case]:
    """Events of posteriors with 0 to 3 constraints, every scale of arms and noise, far out."""
    cases = []
    sizes = (1e-6, 1.0, 1e6)
    for settings in product(range(4), sizes, sizes, (1, 1000, 10**6)):
        case = _event_case(*settings)
        values = [_number(mp.log(p)) for p in event_probabilities(case)]
        cases.append(case | {"values": values})
    return cases


def _event_case(constraints: int, scale: float, noise: float, count: int) -> Case:
    arms = [[scale, 0.0], [0.5 * scale, 0.75 * scale], [-0.25 * scale, scale]]
    counts = [count, 2 * count, 3 * count]
    # Means of pulls, in units of the noise: small enough that some events are likely.
    shown = [[0.5, 0.25, -0.5, 0.125], [0.25, 0.5, 0.25, -0.25], [-0.5, 0.75, 0.5, 0.5]]
    sums = [
        [noise * n * value for value in row[: 1 + constraints]]
        for n, row in zip(counts, shown, strict=True)
    ]
    return {
        "arms": arms,
        "counts": counts,
        "sums": sums,
        "thresholds": [noise * (0.375 + 0.125 * j) for j in range(constraints)],
        "reward_noise": noise,
        "cost_noise": [noise * 2.0**j for j in range(constraints)],
        "candidate": 0,
    }


def _unions() -> list[Case]:
    """Unions in closed form: one-hot arms are independent, given the reward of the candidate."""
    settings = product((2, 3, 5), (0, 1, 2), (0.0, 0.25, 1.0), (1, 100, 10_000))
    cases = [_union_case(*each) for each in settings]
    return [case | {"value": _number(_union(case))} for case in cases]


def _union_case(arms: int, constraints: int, gap: float, count: int) -> Case:
    counts = [count + i for i in range(arms)]
    means = [[-gap * (0.75 + 0.25 * i) if i else 0.0] for i in range(arms)]
    for i in range(arms):
        means[i] += [gap * (0.5 - 0.25 * ((i + j) % 3)) for j in range(constraints)]
    return {
        "arms": [[1.0 if i == j else 0.0 for j in range(arms)] for i in range(arms)],
        "counts": counts,
        "sums": [[n * value for value in row] for n, row in zip(counts, means, strict=True)],
        "thresholds": [1.25 * gap] * constraints,
        "reward_noise": 1.0,
        "cost_noise": [1.0] * constraints,
        "candidate": 0,
    }


def _union(case: Case) -> Any:
    r"""Log-probability that the candidate is not best, given one-hot arms.

    With q the probability that its own costs are within their thresholds and, given its reward
    r, each rival beats it with probability :math:`b_i(r)`, all independently,
    :math:`P = (1 - q) + q (1 - E[\prod_i (1 - b_i(r))])`. The expectation of
    :math:`1 - \prod` is an integral of a positive function, so nothing cancels.
    """
    covariance, means = _posterior(case)
    spread = [mp.sqrt(covariance[i, i]) for i in range(len(case["arms"]))]
    within = []
    for i in range(len(case["arms"])):
        probability = mp.mpf(1)
        for mean, limit in zip(means[1:], case["thresholds"], strict=True):
            probability *= tail((mean[i] - mp.mpf(limit)) / spread[i])
        within.append(probability)
    violated = _at_least_one(
        tail((mp.mpf(limit) - mean[0]) / spread[0])
        for mean, limit in zip(means[1:], case["thresholds"], strict=True)
    )

    def beaten(r: Any) -> Any:
        rivals = range(1, len(spread))
        better = (within[i] * tail((r - means[0][i]) / spread[i]) for i in rivals)
        return _at_least_one(better) * mp.npdf(r, means[0][0], spread[0])

    # The integrand lives between the candidate's mean and its rivals', and 12 deviations on.
    centres = [means[0][i] for i in range(len(spread))]
    low, high = min(centres) - 12 * max(spread), max(centres) + 12 * max(spread)
    pieces = int(mp.ceil((high - low) / (3 * min(spread))))
    with mp.workdps(25):
        points = [low + (high - low) * k / pieces for k in range(pieces + 1)]
        scale = max(map(beaten, points))  # the error that quad aims at is an absolute one
        lost = scale * mp.quad(lambda r: beaten(r) / scale, points, method="gauss-legendre")
    return mp.log(violated + within[0] * lost)


def _at_least_one(probabilities: Iterable[Any]) -> Any:
    """Probability that one of independent events happens, however improbable."""
    return -mp.expm1(mp.fsum(mp.log1p(-probability) for probability in probabilities))


# Exponents and rates


def _exponents() -> list[Case]:
    cases = []
    both_shares = ([0.5, 0.25, 0.25], [1 - 2e-9, 1e-9, 1e-9])
    for scale, constraints, shares in product((1e-6, 1.0, 1e6), range(4), both_shares):
        arms = [
            [scale, 0.0, 0.5 * scale],
            [0.5 * scale, 0.75 * scale, 0.0],
            [-0.25 * scale, scale, scale],
        ]
        case = {
            "arms": arms,
            "theta_reward": [1.0, 0.25, -0.25],
            "theta_cost": [[0.25, 0.5 + j, 0.125] for j in range(constraints)],
            "thresholds": [0.375 * scale * (1 + j) for j in range(constraints)],
            "reward_noise": 0.5,
            "cost_noise": [0.5 * (1 + j) for j in range(constraints)],
            "allocation": shares,
        }
        cases.append(case | {"values": [_number(f) for f in exponents(case)]})
    return cases


def exponents(case: Case) -> list[Any]:
    """Exponent of each candidate (the arms), straight from the definition."""
    arms = [_column(arm) for arm in case["arms"]]
    information = mp.matrix(len(arms[0]), len(arms[0]))
    for arm, share in zip(arms, case["allocation"], strict=True):
        information += mp.mpf(share) * arm * arm.T
    inverse = information**-1
    value = [(arm.T * _column(case["theta_reward"]))[0] for arm in arms]
    costs = [[(arm.T * _column(theta))[0] for theta in case["theta_cost"]] for arm in arms]
    room = [
        [mp.mpf(limit) - cost for limit, cost in zip(case["thresholds"], row, strict=True)]
        for row in costs
    ]
    feasible = [all(gap >= 0 for gap in row) for row in room]
    best = max((i for i in range(len(arms)) if feasible[i]), key=lambda i: value[i])
    noise = [mp.mpf(scale) for scale in case["cost_noise"]]
    result = []
    for i, arm in enumerate(arms):
        square = (arm.T * inverse * arm)[0]
        terms = [gap**2 / (2 * s**2 * square) for gap, s in zip(room[i], noise, strict=True)]
        if i == best:
            result.append(min(terms, default=mp.inf))
            continue
        apart = arm - arms[best]
        distance = (apart.T * inverse * apart)[0]
        short = max(value[best] - value[i], mp.mpf(0))
        result.append(
            short**2 / (2 * mp.mpf(case["reward_noise"]) ** 2 * distance)
            + mp.fsum(term for term, gap in zip(terms, room[i], strict=True) if gap < 0)
        )
    return result


def _rates() -> list[Case]:
    """Rates of one-hot instances: each arm needs a share that grows with the rate, by bisection."""
    cases = []
    for scale in (1e-6, 1.0, 1e6):
        for rewards, costs, limit in (
            ([1.0, 0.5], None, 0.0),
            ([1.0, 0.75, 0.5, 0.0], None, 0.0),
            ([1.0, 1.5, 0.5], [0.25, 0.75, 0.125], 0.5),
            ([1.0, 1.5, 0.5, 0.25, 2.0], [0.25, 0.75, 0.125, 0.625, 3.0], 0.5),
            ([1.0, 1.001, 0.999], [0.25, 0.501, 0.125], 0.5),
        ):
            case = {
                "rewards": [scale * value for value in rewards],
                "costs": None if costs is None else [scale * value for value in costs],
                "threshold": scale * limit,
                "reward_noise": 1.0,
                "cost_noise": 2.0,
            }
            rate, shares = one_hot_rate(case)
            found = {"value": _number(rate), "allocation": [_number(w) for w in shares]}
            cases.append(case | found)
    return cases


def one_hot_rate(case: Case) -> tuple[Any, list[Any]]:
    r"""The rate of one-hot arms, and its allocation.

    The exponent of arm i is
    :math:`r_i^2 / (2 \sigma^2 (1/w_i + 1/w_*)) + c_i^2 w_i / (2 \gamma^2)`, and it grows with each
    share. For a share of the best arm, the largest value that all the others can reach together is
    found by bisection; over that share the smallest of it and the best arm's own exponent is
    concave.
    """
    rewards = [mp.mpf(value) for value in case["rewards"]]
    costs = [mp.mpf(value) for value in case["costs"] or [case["threshold"]] * len(rewards)]
    limit, sigma, gamma = (mp.mpf(case[k]) for k in ("threshold", "reward_noise", "cost_noise"))
    best = max((i for i, cost in enumerate(costs) if cost <= limit), key=lambda i: rewards[i])
    others = [i for i in range(len(rewards)) if i != best]
    own = mp.inf if case["costs"] is None else (limit - costs[best]) ** 2 / (2 * gamma**2)

    def needed(i: int, goal: Any, share: Any) -> Any:
        """The share of arm i whose exponent is the goal: the positive root of a quadratic."""
        short = max(rewards[best] - rewards[i], mp.mpf(0)) ** 2 / (2 * sigma**2)
        excess = max(costs[i] - limit, mp.mpf(0)) ** 2 / (2 * gamma**2)
        middle = (short + excess) * share - goal
        if excess == 0:
            return goal * share / middle if middle > 0 else mp.inf
        return (mp.sqrt(middle**2 + 4 * excess * goal * share) - middle) / (2 * excess)

    def together(share: Any) -> tuple[Any, list[Any]]:
        """The largest goal that the others reach with what is left, and their shares."""
        top = max(rewards[best], *rewards) - min(rewards) + max(costs) - min(costs) + limit
        high = top**2 / (2 * min(sigma, gamma) ** 2) + mp.mpf(10) ** -30

        def left_over(goal: Any) -> Any:
            total = mp.fsum(needed(i, goal, share) for i in others)
            return 2 if total == mp.inf else total + share - 1

        goal = _root(left_over, mp.mpf(0), high)
        return goal, [needed(i, goal, share) for i in others]

    def value(share: Any) -> Any:
        return min(together(share)[0], own * share)

    share = _largest(value)
    shares = together(share)[1]
    allocation = [mp.mpf(0)] * len(rewards)
    allocation[best] = share
    for i, w in zip(others, shares, strict=True):
        allocation[i] = w
    return value(share), allocation


# Naive numerics


def _column(values: Iterable[float]) -> Any:
    return mp.matrix([mp.mpf(value) for value in values])


def _root(function: Callable[[Any], Any], low: Any, high: Any, steps: int = 150) -> Any:
    """Where an increasing function crosses 0, by bisection."""
    for _ in range(steps):
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return low


def _largest(function: Callable[[Any], Any]) -> Any:
    """Where a concave function on (0, 1) is largest, by thirds."""
    low, high = mp.mpf(0), mp.mpf(1)
    for _ in range(80):
        first, second = (2 * low + high) / 3, (low + 2 * high) / 3
        if function(first) < function(second):
            low = first
        else:
            high = second
    return (low + high) / 2


def _number(value: Any) -> float | str:
    """The nearest double; infinities as text, which JSON has no number for."""
    return float(value) if mp.isfinite(value) else str(value)


if __name__ == "__main__":
    main()
