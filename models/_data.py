"""What the models are told of a problem and its pulls, as `pm.Data`.

Every model takes the quantities it needs by name from `STATISTICS`, so that `observe` can replace
them in any model, and in any model made from one, without knowing which it is.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_feasible._check import Array
from bayes_feasible.history import History
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem


class Statistic(NamedTuple):
    """A quantity that models use: its dimensions and how it is found."""

    dims: tuple[str, ...]
    of: Callable[[Any], Any]


class Pulls:
    """A `Posterior` or a `History`, and what can be said of either.

    The dimension `arm` holds the arms pulled so far, in the order of the problem.
    """

    def __init__(self, data: Posterior | History) -> None:
        if not isinstance(data, Posterior | History):
            raise ValueError(f"data: expected a Posterior or a History, got {type(data).__name__}")
        self.problem: Problem = data.problem
        self.history = data if isinstance(data, History) else None
        self.sums = data.posterior() if isinstance(data, History) else data
        self.seen = np.flatnonzero(self.sums.counts)

    def pulls(self) -> Array:
        """How often each arm was pulled."""
        return self.sums.counts[self.seen].astype(float)

    def mean(self) -> Array:
        """The mean reward and costs that each arm has shown, (arm, block)."""
        sums = np.column_stack([self.sums.reward_sums, self.sums.cost_sums])
        return sums[self.seen] / self.pulls()[:, np.newaxis]

    def squares(self) -> Array:
        """Sums of squared deviations from the means of the arms, (arm, block)."""
        history = self.recorded()
        arm = self.pulled()
        shown = np.column_stack([history.rewards, history.costs])
        deviations = (shown - self.mean()[arm]) ** 2
        result = np.zeros((self.seen.size, shown.shape[1]))
        np.add.at(result, arm, deviations)
        return result

    def successes(self) -> Array:
        """How often each arm showed a 1 instead of a 0, (arm, block)."""
        sums = np.column_stack([self.sums.reward_sums, self.sums.cost_sums])[self.seen]
        bad = (sums != np.round(sums)) | (sums < 0) | (sums > self.pulls()[:, np.newaxis])
        if self.history is not None:
            shown = np.column_stack([self.history.rewards, self.history.costs])
            wrong = (shown != 0) & (shown != 1)
            if wrong.any():
                pull, block = np.argwhere(wrong)[0]
                kind = "rewards" if block == 0 else "costs"
                raise ValueError(
                    f"data: expected {kind} of 0 or 1, got {shown[pull, block]:g} at pull {pull}"
                )
        elif bad.any():
            arm, block = np.argwhere(bad)[0]
            kind = "rewards" if block == 0 else "costs"
            raise ValueError(
                f"data: expected {kind} of 0 or 1, got a sum of {sums[arm, block]:g} over "
                f"{self.pulls()[arm]:g} pulls of arm {self.seen[arm]}"
            )
        return sums.astype(np.int64)

    def recorded(self) -> History:
        """The pulls one by one."""
        if self.history is None:
            raise ValueError(
                "data: this model needs the pulls one by one, a History, not a Posterior"
            )
        return self.history

    def pulled(self) -> Any:
        """Which of the arms seen each pull was of."""
        return np.searchsorted(self.seen, self.recorded().arms)


STATISTICS = {
    "candidates": Statistic(("candidate", "feature"), lambda p: p.problem.candidates),
    "thresholds": Statistic(("constraint",), lambda p: p.problem.thresholds),
    "reward_noise": Statistic((), lambda p: p.problem.reward_noise),
    "cost_noise": Statistic(("constraint",), lambda p: p.problem.cost_noise),
    "reward_radius": Statistic((), lambda p: _radius(p.problem)[0]),
    "cost_radius": Statistic((), lambda p: _radius(p.problem)[1]),
    "arms": Statistic(("arm", "feature"), lambda p: p.problem.arms[p.seen]),
    "pulls": Statistic(("arm",), Pulls.pulls),
    "mean_reward": Statistic(("arm",), lambda p: p.mean()[:, 0]),
    "mean_cost": Statistic(("arm", "constraint"), lambda p: p.mean()[:, 1:]),
    "reward_squares": Statistic(("arm",), lambda p: p.squares()[:, 0]),
    "cost_squares": Statistic(("arm", "constraint"), lambda p: p.squares()[:, 1:]),
    "reward_successes": Statistic(("arm",), lambda p: p.successes()[:, 0]),
    "cost_successes": Statistic(("arm", "constraint"), lambda p: p.successes()[:, 1:]),
    "pulled": Statistic(("pull",), Pulls.pulled),
    "shown_reward": Statistic(("pull",), lambda p: p.recorded().rewards),
    "shown_cost": Statistic(("pull", "constraint"), lambda p: p.recorded().costs),
}


def begin(data: Posterior | History) -> tuple[pm.Model, Callable[[str], Any], bool]:
    """A model with the names of the problem, how to ask for its data, and if it has costs."""
    pulls = Pulls(data)
    constrained = pulls.problem.thresholds.size > 0
    coords = _coords(pulls)
    always = ("feature", "constraint") if constrained else ("feature",)
    model = pm.Model(coords={dim: coords[dim] for dim in always})

    def given(name: str) -> Any:
        """A quantity of `STATISTICS` as `pm.Data` of the model."""
        if name in model.named_vars:
            return model[name]
        statistic = STATISTICS[name]
        value = statistic.of(pulls)
        model.add_coords({dim: coords[dim] for dim in statistic.dims})
        return pm.Data(name, value, dims=statistic.dims or None, model=model)

    return model, given, constrained


def linear(vectors: Any, theta: Any) -> Any:
    """Inner products of vectors with one parameter, (vector,), or with many, (vector, parameter).

    As a sum: a matrix product is 20 times slower to compile, a quarter of a minute a shape.
    """
    if theta.ndim > 1:
        vectors = vectors[:, np.newaxis]
    return pt.sum(vectors * theta, axis=-1)


def finish(model: pm.Model, given: Callable[[str], Any], problem: Problem) -> pm.Model:
    """Add what all models share: the means of the candidates and the bounds on the parameters."""
    with model:
        theta_reward, theta_cost = model["theta_reward"], None
        pm.Deterministic(
            "candidate_reward", linear(given("candidates"), theta_reward), dims="candidate"
        )
        if problem.thresholds.size:
            given("thresholds")
            theta_cost = model["theta_cost"]
            pm.Deterministic(
                "candidate_cost",
                linear(given("candidates"), theta_cost),
                dims=("candidate", "constraint"),
            )
        if problem.parameter_radius is not None:
            within = pm.math.sum(theta_reward**2) <= given("reward_radius") ** 2
            if theta_cost is not None:
                lengths = pm.math.sum(theta_cost**2, axis=-1)
                within &= pm.math.all(lengths <= given("cost_radius") ** 2)
            pm.Potential("parameter_radius", pm.math.switch(within, 0.0, -np.inf))
    return model


def observe(model: pm.Model, data: Posterior | History) -> None:
    """Give a model other data; nothing is recompiled.

    Parameters
    ----------
    model : Model
        Any model of this package, or one that `alternative` made from it. The alternative set and
        the Gaussian reference of such a model stay as they are until `doubt` replaces them.
    data : Posterior or History
        Of what the model was built from. The problem may be another one with the same features
        and constraints: arms, candidates, thresholds and noise are data too.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> from bayes_feasible import models
    >>> instance = bf.instances.end_of_optimism()
    >>> posterior = bf.Posterior(instance.problem)
    >>> posterior.update([0, 2], *instance.pull([0, 2], seed=1))
    >>> model = models.linear_gaussian(posterior)
    >>> posterior.update([4, 2], *instance.pull([4, 2], seed=2))
    >>> models.observe(model, posterior)
    >>> [int(arm) for arm in model.coords["arm"]], model["pulls"].get_value().tolist()
    ([0, 2, 4], [1.0, 2.0, 1.0])
    """
    pulls = Pulls(data)
    coords = _coords(pulls)
    problem = pulls.problem
    for dim in ("feature", "constraint"):
        theirs, ours = list(coords[dim]), list(model.coords.get(dim, ()))
        if theirs != ours:
            raise ValueError(f"data: expected the {dim}s of the model, {ours}, got {theirs}")
    bounded = "reward_radius" in model.named_vars
    if bounded != (problem.parameter_radius is not None):
        kind = "a" if bounded else "no"
        raise ValueError(f"data: expected a problem with {kind} parameter_radius, as in the model")
    names = [name for name in STATISTICS if name in model.named_vars]
    if "arms" not in names:
        raise ValueError("model: it is not one of this package, for it has no data `arms`")
    values = {name: STATISTICS[name].of(pulls) for name in names}
    dims = {dim for name in names for dim in STATISTICS[name].dims}
    pm.set_data(values, model, coords={dim: coords[dim] for dim in dims})


def _coords(pulls: Pulls) -> dict[str, Any]:
    coords = dict(pulls.problem.coords)
    coords["arm"] = coords["arm"][pulls.seen]
    if pulls.history is not None:
        coords["pull"] = np.arange(1, len(pulls.history) + 1)
    return coords


def _radius(problem: Problem) -> tuple[float, float]:
    return problem.parameter_radius or (np.inf, np.inf)
