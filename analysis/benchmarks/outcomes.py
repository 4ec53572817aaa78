"""What other outcomes cost beside known Gaussian noise: a round of a rule, and who is best.

Run with ``python -m bayes_feasible.analysis.benchmarks.outcomes``.
"""

from functools import partial

import numpy as np

import bayes_feasible as bf
from bayes_feasible.analysis.benchmarks.rounds import microseconds_a_round
from bayes_feasible.analysis.benchmarks.timing import median_seconds, show

ROUNDS = 20_000
KINDS: dict[str, bf.Gaussian | bf.Bernoulli | bf.Poisson] = {
    "noise known": bf.Gaussian(1.0),
    "noise learnt": bf.Gaussian(),
    "0/1": bf.Bernoulli(),
    "counts": bf.Poisson(),
}
RULES = {"BLFAIPS": bf.BLFAIPS, "Descent": bf.Descent}


def main() -> None:
    """Measure and print both tables."""
    paper = bf.instances.end_of_optimism(0.3)
    taken = {"the paper's model": _rounds(paper)}
    for name, outcome in KINDS.items():
        taken[name] = _rounds(_instance(outcome, paper))
    first = taken["the paper's model"]
    rows = [
        [name, *(f"{one[rule]:.2f} ({one[rule] / first[rule]:.2f})" for rule in RULES)]
        for name, one in taken.items()
    ]
    header = ["reward and cost", *(f"{rule}, µs (paper's = 1)" for rule in RULES)]
    show(f"A round at d = 2, K = 5, over {ROUNDS:,} rounds", header, rows)
    rows = [[name, f"{1e3 * _who_is_best(outcome):.0f}"] for name, outcome in KINDS.items()]
    show("`probability_best` of 20 candidates, d = 10", ["reward and cost", "ms"], rows)


def _instance(outcome: bf.Gaussian | bf.Bernoulli | bf.Poisson, like: bf.Instance) -> bf.Instance:
    limit = float(outcome.mean(np.array(like.problem.thresholds[0])))
    problem = bf.Problem(like.problem.arms, limit, reward=outcome, costs=outcome)
    learnt = {"reward_noise": 1.0, "cost_noise": 1.0} if outcome.kind == "gaussian" else {}
    return bf.Instance(problem, like.theta_reward, like.theta_cost, **learnt)


def _rounds(instance: bf.Instance) -> dict[str, float]:
    return {
        name: microseconds_a_round(instance, make, ROUNDS, before=100)
        for name, make in RULES.items()
    }


def _who_is_best(outcome: bf.Gaussian | bf.Bernoulli | bf.Poisson) -> float:
    """Seconds, after 2000 pulls, nothing about the posterior known yet."""
    instance = _instance(outcome, bf.instances.random_ball(10, 20, seed=1))
    arms = np.arange(2000) % 20
    pulled = bf.History(instance.problem, arms, *instance.pull(arms, seed=0))
    posteriors = iter([pulled.posterior() for _ in range(6)])
    next(posteriors).probability_best()
    return median_seconds(partial(lambda: next(posteriors).probability_best()), 5)


if __name__ == "__main__":
    main()
