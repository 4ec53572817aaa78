"""A problem and its pulls as `pm.Data`.

Every model takes the quantities it needs by name from `STATISTICS`, so that `set_data` can replace
them in any model, and in any model made from one, without knowing which it is.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from bayes_feasible._check import Array
from bayes_feasible.history import History
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem

OUTCOMES: list[tuple[str, tuple[str, ...]]] = [("reward", ()), ("cost", ("constraint",))]
UNBOUNDED = np.inf, np.inf


class Statistic(NamedTuple):
    """A quantity that models use: its dimensions and how it is found."""

    dims: tuple[str, ...]
    find: Callable[[Any], Any]


class Pulls:
    """A `Posterior` or a `History`, and what can be said of either.

    The dimension `arm` holds the arms pulled so far, in the order of the problem.
    """

    def __init__(self, data: Posterior | History) -> None:
        if not isinstance(data, Posterior | History):
            raise TypeError(f"data: expected a Posterior or a History, got {type(data).__name__}")
        self.problem: Problem = data.problem
        self.history = data if isinstance(data, History) else None
        self.sums = data.posterior() if isinstance(data, History) else data
        self.problem.require_textbook("this model (see `declare`)")
        if not self.sums.textbook:
            raise ValueError("data: this model needs every outcome; see `declare` for missing ones")
        self.seen = np.flatnonzero(self.sums.counts)

    @property
    def pulls(self) -> Array:
        """How often each arm was pulled."""
        return self.sums.counts[self.seen].astype(float)

    @property
    def totals(self) -> Array:
        """The sums of the rewards and costs of each arm, (arm, block)."""
        return np.column_stack([self.sums.reward_sums, self.sums.cost_sums])[self.seen]

    @property
    def mean(self) -> Array:
        """The mean reward and costs of each arm, (arm, block)."""
        return self.totals / self.pulls[:, np.newaxis]

    @property
    def squares(self) -> Array:
        """Sums of squared deviations from the means of the arms, (arm, block)."""
        result = np.zeros((self.seen.size, self.observed.shape[1]))
        np.add.at(result, self.pulled, (self.observed - self.mean[self.pulled]) ** 2)
        return result

    @property
    def successes(self) -> Array:
        """How often each arm gave a 1 instead of a 0, (arm, block)."""
        sums, pulls = self.totals, self.pulls[:, np.newaxis]
        bad = (sums != np.round(sums)) | (sums < 0) | (sums > pulls)
        if self.history is not None:
            bad = (self.observed != 0) & (self.observed != 1)
        if bad.any():
            row, block = np.argwhere(bad)[0]
            if self.history is not None:
                found = f"{self.observed[row, block]:g} at pull {row}"
            else:
                found = f"a sum of {sums[row, block]:g} over {pulls[row, 0]:g} pulls"
                found += f" of arm {self.seen[row]}"
            kind = "rewards" if block == 0 else "costs"
            raise ValueError(f"data: expected {kind} of 0 or 1, got {found}")
        return sums.astype(np.int64)

    @property
    def observed(self) -> Array:
        """Rewards and costs of the pulls one by one, (pull, block)."""
        if self.history is None or (self.history.counts != 1).any():
            raise ValueError(
                "data: this model needs the pulls one by one, a History that sums nothing up"
            )
        return np.column_stack([self.history.rewards, self.history.costs])

    @property
    def pulled(self) -> NDArray[np.int64]:
        """Which of the arms seen each pull was of."""
        assert self.history is not None
        return np.searchsorted(self.seen, self.history.arms)


def _both(name: str, dim: str, of: Callable[[Any], Any]) -> dict[str, Statistic]:
    """A quantity (dim, block) as one of the reward and one of the costs."""
    return {
        f"reward_{name}": Statistic((dim,), lambda p: of(p)[:, 0]),
        f"cost_{name}": Statistic((dim, "constraint"), lambda p: of(p)[:, 1:]),
    }


STATISTICS = {
    "candidates": Statistic(("candidate", "feature"), lambda p: p.problem.candidates),
    "thresholds": Statistic(("constraint",), lambda p: p.problem.thresholds),
    "reward_noise": Statistic((), lambda p: p.problem.reward_noise),
    "cost_noise": Statistic(("constraint",), lambda p: p.problem.cost_noise),
    "reward_radius": Statistic((), lambda p: (p.problem.parameter_radius or UNBOUNDED)[0]),
    "cost_radius": Statistic((), lambda p: (p.problem.parameter_radius or UNBOUNDED)[1]),
    "arms": Statistic(("arm", "feature"), lambda p: p.problem.arms[p.seen]),
    "pulls": Statistic(("arm",), lambda p: p.pulls),
    **_both("mean", "arm", lambda p: p.mean),
    **_both("squares", "arm", lambda p: p.squares),
    **_both("successes", "arm", lambda p: p.successes),
    **_both("observed", "pull", lambda p: p.observed),
    "pulled": Statistic(("pull",), lambda p: p.pulled),
}


def begin(
    data: Posterior | History,
) -> tuple[pm.Model, Callable[[str], Any], list[tuple[str, tuple[str, ...]]]]:
    """A model with the names of the problem, how to ask for its data, and its outcomes.

    An outcome is `reward` or, if there are constraints, `cost`, with its dimensions.
    """
    pulls = Pulls(data)
    coords = _coords(pulls)
    outcomes = OUTCOMES[: 1 + bool(pulls.problem.thresholds.size)]
    model = pm.Model(
        coords={dim: coords[dim] for dim in ("feature", "constraint")[: len(outcomes)]}
    )

    def given(name: str) -> Any:
        """A quantity of `STATISTICS` as `pm.Data` of the model."""
        if name not in model.named_vars:
            dims, find = STATISTICS[name]
            value = find(pulls)
            model.add_coords({dim: coords[dim] for dim in dims})
            pm.Data(name, value, dims=dims or None, model=model)
        return model[name]

    return model, given, outcomes


def column(values: Any, dims: tuple[str, ...]) -> Any:
    """Values of each arm or pull beside an outcome with these dimensions."""
    return pt.shape_padright(values, len(dims))


def declare_parameter(outcome: str, scale: Any, dims: tuple[str, ...]) -> Any:
    """The parameter of an outcome, a priori Gaussian."""
    return pm.Normal(f"theta_{outcome}", 0.0, scale[..., np.newaxis], dims=(*dims, "feature"))


def linear(vectors: Any, theta: Any) -> Any:
    """Inner products of vectors with one parameter, (vector,), or with many, (vector, parameter).

    As a sum: a matrix product is 20 times slower to compile, a quarter of a minute a shape.
    """
    return pt.sum((vectors[:, np.newaxis] if theta.ndim > 1 else vectors) * theta, axis=-1)


def finish(model: pm.Model, given: Callable[[str], Any], problem: Problem) -> pm.Model:
    """Add what all models share: the means of the candidates and the bounds on the parameters."""
    within = []
    with model:
        if problem.thresholds.size:
            given("thresholds")
        for outcome, dims in OUTCOMES[: 1 + bool(problem.thresholds.size)]:
            theta = model[f"theta_{outcome}"]
            mean = linear(given("candidates"), theta)
            pm.Deterministic(f"candidate_{outcome}", mean, dims=("candidate", *dims))
            if problem.parameter_radius is not None:
                length = pt.sum(theta**2, axis=-1)
                within.append(pt.all(length <= given(f"{outcome}_radius") ** 2))
        if within:
            inside = pt.all(pt.stack(within))
            pm.Potential("parameter_radius", pt.switch(inside, 0.0, -np.inf))
    return model


def set_data(model: pm.Model, data: Posterior | History) -> None:
    """Give a model other data; nothing is recompiled.

    Parameters
    ----------
    model : Model
        Any model of this package, or one that `alternative` made from it. The alternative set and
        the Gaussian reference of such a model stay until `set_alternative` replaces them.
    data : Posterior or History
        Whichever the model was built from. The problem may be another one with the same features
        and constraints: arms, candidates, thresholds and noise are data too.

    Examples
    --------
    >>> from bayes_feasible import History, instances, models
    >>> instance = instances.end_of_optimism()
    >>> posterior = History(instance.problem, [0, 2], *instance.pull([0, 2], seed=1)).posterior()
    >>> model = models.linear_gaussian(posterior)
    >>> posterior.update([4, 2], *instance.pull([4, 2], seed=2))
    >>> models.set_data(model, posterior)
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
        raise ValueError("model: expected one of this package, got one without data `arms`")
    values = {name: STATISTICS[name].find(pulls) for name in names}
    dims = {dim for name in names for dim in STATISTICS[name].dims}
    pm.set_data(values, model, coords={dim: coords[dim] for dim in dims})


def _coords(pulls: Pulls) -> dict[str, Any]:
    coords = dict(pulls.problem.coords)
    coords["arm"] = coords["arm"][pulls.seen]
    if pulls.history is not None:
        coords["pull"] = np.arange(1, len(pulls.history) + 1)
    return coords
