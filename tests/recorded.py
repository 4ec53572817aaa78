"""The numbers of the paper's model, written down once: whatever is rebuilt must give them again.

`python tests/recorded.py` writes `tests/recorded.json`; `test_recorded.py` compares. Integers (the
arms that rules choose, what they recommend) and draws under fixed seeds are among them.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bayes_feasible as bf

PATH = Path(__file__).with_suffix(".json")


def instances() -> dict[str, Any]:
    make = bf.instances
    return {
        "optimism 0.1": make.end_of_optimism(alpha=0.1),
        "optimism 0.3": make.end_of_optimism(alpha=0.3),
        "ball": make.random_ball(d=5, k=20, seed=1),
        "singular": make.random_ball(d=30, k=12, seed=2),
        "soare": make.soare(3),
        "films": make.movielens(),
    }


def posterior_of(instance: Any, pulls: int = 400) -> Any:
    arms = np.arange(pulls) % len(instance.problem.arms)
    return bf.Posterior.from_history(instance.problem, arms, *instance.pull(arms, seed=7))


def rates() -> dict[str, Any]:
    found = {}
    for name, instance in instances().items():
        rate = bf.optimal_rate(instance)
        size = len(instance.problem.arms)
        found[name] = {
            "value": rate.value,
            "allocation": rate.allocation.values,
            "exponents": bf.exponents(instance, np.full(size, 1 / size)).values,
            "design": bf.g_optimal(instance.problem.arms).allocation.values,
        }
    return found


def posteriors() -> dict[str, Any]:
    found = {}
    for name, instance in instances().items():
        posterior = posterior_of(instance)
        wrong = bf.Alternative(instance.problem, instance.best)
        error = wrong.log_probability(posterior, 3)
        draws = wrong.sample(posterior, 50, seed=5)
        size = len(instance.problem.arms)
        near = wrong.nearest(instance.theta_reward, instance.theta_cost, np.full(size, 1 / size))
        found[name] = {
            "best": posterior.best(),
            "log_error": error.value,
            "bounds": [error.lower, error.upper],
            "events": error.log_probabilities,
            "reward draws": draws.theta_reward.values[0, ::10],
            "cost draws": draws.theta_cost.values[0, ::10],
            "nearest": near.theta_reward.values,
            "exponent": near.exponent.item(),
        }
    return found


def bounded() -> dict[str, Any]:
    plain = bf.instances.end_of_optimism(alpha=0.3)
    problem = bf.Problem(plain.problem.arms, plain.problem.thresholds, parameter_radius=(1.5, 1.5))
    posterior = bf.Posterior.from_history(problem, [0, 2] * 50, *plain.pull([0, 2] * 50, seed=7))
    wrong = bf.Alternative(problem, 0)
    draws = wrong.sample(posterior, 20, seed=5)
    return {
        "log_error": wrong.log_probability(posterior, 3).value,
        "draws": draws.theta_reward.values[0],
    }


def rules() -> dict[str, Any]:
    return {
        "BLFAIPS": partial(bf.BLFAIPS, recommendation="draw"),
        "BLFAIPS eta=1": partial(bf.BLFAIPS, eta=1.0, recommendation="draw"),
        "BestResponse": partial(bf.BestResponse, recommendation="mean"),
        "PlugIn": partial(bf.PlugIn, recommendation="mean"),
        "TopTwo": partial(bf.TopTwo, recommendation="draw"),
        "TopTwo information": partial(bf.TopTwo, select="information", recommendation="draw"),
        "TopTwo optimal": partial(bf.TopTwo, beta="optimal", recommendation="mean"),
        "LinearThompson": partial(bf.LinearThompson, recommendation="draw"),
        "Uniform": partial(bf.Uniform, recommendation="draw"),
        "GOptimal": partial(bf.GOptimal, recommendation="probable"),
        "Oracle": partial(bf.Oracle, recommendation="mean"),
    }


def arms() -> dict[str, Any]:
    """Arms by `ask` and `tell`, and what is recommended at the end."""
    found: dict[str, Any] = {}
    for where, instance in instances().items():
        if where not in ("optimism 0.3", "ball", "films"):
            continue
        for name, maker in rules().items():
            rule = maker(instance, seed=11)
            asked = []
            for pull in range(120):
                arm = int(rule.ask())
                reward, cost = instance.pull([arm], seed=pull)
                rule.tell(arm, reward[0], cost[0])
                asked.append(arm)
            answer = rule.recommend()
            found[f"{where}, {name}"] = {
                "arms": asked,
                "recommended": -1 if answer.candidate is None else int(answer.candidate),
            }
    instance = bf.instances.soare(3)
    for name, options in {
        "known": {"horizon": 120},
        "doubling": {},
        "hedge": {"horizon": 120, "learner": "hedge"},
    }.items():
        rule = bf.PEPS(instance.problem, seed=11, **options)
        asked = []
        for pull in range(120):
            arm = int(rule.ask())
            rule.tell(arm, instance.pull([arm], seed=pull)[0][0])
            asked.append(arm)
        found[f"PEPS {name}"] = {"arms": asked}
    return found


def simulations() -> dict[str, Any]:
    found = {}
    for where in ("optimism 0.1", "ball"):
        result = bf.simulate(
            instances()[where], rules(), 1000, 3, seed=4, executor=False, progress=False
        )
        found[where] = {name: result[name].values for name in result.data_vars}
    return found


def everything() -> dict[str, Any]:
    return {
        "rates": rates(),
        "posteriors": posteriors(),
        "bounded": bounded(),
        "arms": arms(),
        "simulations": simulations(),
    }


def plain(value: Any) -> Any:
    """Arrays as lists, and every float with all its digits."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in np.asarray(value).ravel().tolist()]
    return value


if __name__ == "__main__":
    PATH.write_text(json.dumps(plain(everything())), encoding="utf-8")
    print(f"written: {PATH}")
