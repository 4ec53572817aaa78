"""Guests in the arena: programs that a user might pick instead, with the extra `peers`.

They play as their own documentation would have them used: an arm is a category or a design, and
the answer is what the program itself calls best. Neither knows that arms share features, or what
is known of the noise.
"""

import threading
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible.problem import Problem

PATIENCE = 10.0  # seconds for OCBA to name its next design
HERE = "bayes_feasible.analysis.arena.guests"
GUESTS: Mapping[str, Mapping[str, Any]] = {  # as a specification has rules
    "Optuna, TPE": {"kind": f"{HERE}:Optuna", "sampler": "TPESampler"},
    "Optuna, NSGA-II": {"kind": f"{HERE}:Optuna", "sampler": "NSGAIISampler"},
    "Optuna, random": {"kind": f"{HERE}:Optuna", "sampler": "RandomSampler"},
    "sim-tools, OCBA": {"kind": f"{HERE}:SimToolsOCBA"},
}


class Optuna:
    """A sampler of Optuna with constraints; a pull is a trial, an arm is a category.

    It recommends the arm of the best trial that met its constraints, as `study.best_trial` does:
    by one noisy outcome. Trials get slower the more there are (milliseconds each).

    Parameters
    ----------
    problem : Problem
        Its candidates must be its arms.
    seed : SeedSequence
    sampler : str
        A class of `optuna.samplers`.
    """

    def __init__(self, problem: Problem, seed: Any = 0, *, sampler: str = "TPESampler") -> None:
        import optuna

        _require_arms(problem, "Optuna")
        kind = getattr(optuna.samplers, sampler, None)
        if kind is None:
            raise ValueError(f"sampler: optuna.samplers has no {sampler!r}")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        number = int(_check.seed_sequence(seed).generate_state(1)[0])
        self._study = optuna.create_study(direction="maximize", sampler=kind(seed=number))
        self._arms = list(range(len(problem.arms)))
        self._limits = problem.thresholds
        self._best = -np.inf, -1
        self._trial: Any = None

    def ask(self) -> int:
        """Ask for the next trial."""
        self._trial = self._study.ask()
        return int(self._trial.suggest_categorical("arm", self._arms))

    def tell(self, arm: int, reward: float, cost: Any) -> None:
        """Tell the trial's outcome."""
        excess = [float(each) for each in cost - self._limits]
        for j, each in enumerate(excess):
            self._trial.set_constraint(f"cost {j}", each)
        self._study.tell(self._trial, reward)
        if max(excess, default=0.0) <= 0 and reward > self._best[0]:
            self._best = reward, arm

    def recommend(self) -> int | None:
        """Recommend the arm of the best trial that met its constraints."""
        return None if self._best[1] < 0 else self._best[1]


class SimToolsOCBA:
    """OCBA of sim-tools: by rewards alone, for it knows no constraints.

    It recommends the design of highest mean reward among those whose mean costs look feasible.

    Parameters
    ----------
    problem : Problem
        Its candidates must be its arms.
    seed : SeedSequence
        Not used: nothing is drawn.
    horizon : int
        At least five pulls of each arm.
    """

    def __init__(self, problem: Problem, seed: Any = 0, *, horizon: int) -> None:
        _require_arms(problem, "OCBA")
        arms = len(problem.arms)
        if horizon < 5 * arms:
            raise ValueError(f"horizon: expected at least 5 pulls of each arm, got {horizon}")
        self._limits = problem.thresholds
        self._sums = np.zeros((arms, 1 + problem.thresholds.size))
        self._counts = np.zeros(arms, dtype=np.int64)
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._shown: SimpleQueue[float] = SimpleQueue()
        self._horizon, self._over = horizon, False
        self._thread: threading.Thread | None = None

    def _solve(self) -> None:
        """Have OCBA simulate designs: each is asked for, and answered by `tell`."""
        from sim_tools.ovs.fixed_budget import OCBA

        observers: list[Any] = []

        def simulate(design: int) -> None:
            self._asked.put(int(design))
            reward = self._shown.get()
            for observer in observers:
                observer.feedback(model, int(design), reward)

        model = SimpleNamespace(register_observer=observers.append, simulate=simulate)
        arms = len(self._counts)
        with np.errstate(all="ignore"):
            OCBA(model, n_designs=arms, budget=self._horizon, delta=1, obj="max").solve()
        self._asked.put(None)

    def ask(self) -> int:
        """Give the design that is simulated next; after the horizon the best one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._solve, daemon=True)
            self._thread.start()
        try:
            design = None if self._over else self._asked.get(timeout=PATIENCE)
        except Empty:  # it can go round in circles without asking for anything
            design = None
        if design is None:
            self._over = True
            best = self.recommend()
            return 0 if best is None else best
        return design

    def tell(self, arm: int, reward: float, cost: Any) -> None:
        """Show what the simulation gave."""
        self._counts[arm] += 1
        self._sums[arm] += [reward, *cost]
        if not self._over:
            self._shown.put(float(reward))

    def recommend(self) -> int | None:
        """Recommend the best of the means."""
        means = self._sums / np.maximum(self._counts, 1)[:, np.newaxis]
        feasible = (means[:, 1:] <= self._limits).all(axis=1) & (self._counts > 0)
        if not feasible.any():
            return None
        return int(np.argmax(np.where(feasible, means[:, 0], -np.inf)))


def _require_arms(problem: Problem, who: str) -> None:
    if problem.candidates is not problem.arms:
        raise ValueError(f"problem: for {who} the candidates must be the arms")
    if any(each is not None for each in problem.relative):
        raise ValueError(f"problem: {who} takes no relative limits")
