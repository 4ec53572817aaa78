"""What a problem file holds, whatever its format, and the document that TOML and JSON share."""

import math
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible.instance import Instance
from bayes_feasible.outcomes import REWARD, Bernoulli, Gaussian, Outcome, Poisson, Relative
from bayes_feasible.prior import Prior
from bayes_feasible.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

KEYS = (
    *("arms", "thresholds", "candidates", "features", "reward_noise", "cost_noise"),
    *("parameter_radius", "theta_reward", "theta_cost", "reward", "costs", "relative"),
)


@dataclass
class Named:
    """Values in order, with their names if they have any."""

    names: list[Any] | None
    values: Any


@dataclass
class Content:
    """The arguments of a `Problem` and its truth, as read from a file."""

    arms: Named
    thresholds: Named
    candidates: Named | None
    features: list[Any] | None
    options: dict[str, Any]
    theta_reward: Any = None
    theta_cost: Any = None
    relative: dict[str, Any] = field(default_factory=dict)
    truth: dict[str, Any] = field(default_factory=dict)  # noise that the problem has learnt


def build(content: Content) -> Problem | Instance:
    """The problem, or the instance if the content has a truth."""
    limits, names = content.thresholds.values, content.thresholds.names
    if content.relative:
        limits = _with_relative(limits, names, content.relative)
    elif names is not None:
        import pandas as pd

        limits = pd.Series(_check.numbers("thresholds", limits, infinite=True), index=names)
    candidates = content.candidates
    problem = Problem(
        _frame("arms", content.arms, content.features),
        limits,
        candidates=candidates and _frame("candidates", candidates, content.features),
        **content.options,
    )
    if content.theta_reward is None:
        if content.theta_cost is not None:
            raise ValueError("theta_cost: given without theta_reward")
        return problem
    return Instance(problem, content.theta_reward, content.theta_cost, **content.truth)


def _with_relative(limits: Any, names: list[Any] | None, relative: dict[str, Any]) -> Any:
    """Thresholds, some of them relative to a candidate, by name or in order."""
    numbers = _check.numbers("thresholds", limits, infinite=True).tolist()
    labels = list(map(str, range(len(numbers)) if names is None else names))
    for name, candidate in relative.items():
        if name not in labels:
            raise ValueError(f"relative: {_check.unknown('threshold', name, labels)}")
        at = labels.index(name)
        numbers[at] = Relative(candidate, numbers[at])
    return numbers if names is None else dict(zip(names, numbers, strict=True))


def _frame(name: str, vectors: Named, features: list[Any] | None) -> "pd.DataFrame":
    import pandas as pd

    table = _check.table(name, vectors.values, name.rstrip("s"))[0]
    if features is not None and len(features) != table.shape[1]:
        raise ValueError(f"features: expected {table.shape[1]} names, got {len(features)}")
    return pd.DataFrame(table, index=vectors.names, columns=features)


def from_document(document: Any) -> Content:
    """The content of a document."""
    if not isinstance(document, dict):
        raise ValueError(f"expected a table of {', '.join(KEYS)}, got {type(document).__name__}")
    for key in document:
        if key not in KEYS:
            raise ValueError(_check.unknown("key", key, KEYS))
    if "arms" not in document:
        raise ValueError("arms: missing")
    options, truth = _outcomes(document)
    if "parameter_radius" in document:
        options["parameter_radius"] = _infinities(document["parameter_radius"])
    thresholds = _named("thresholds", document.get("thresholds", []), "value")
    thresholds.values = _infinities(thresholds.values)
    candidates = document.get("candidates")
    return Content(
        arms=_named("arms", document["arms"], "vector"),
        thresholds=thresholds,
        candidates=None if candidates is None else _named("candidates", candidates, "vector"),
        features=_features(document.get("features")),
        options=options,
        theta_reward=document.get("theta_reward"),
        theta_cost=document.get("theta_cost"),
        relative=_table("relative", document.get("relative", {})),
        truth=truth,
    )


def _outcomes(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outcomes and known noise, as arguments of a problem; true noise, as those of an instance."""
    options: dict[str, Any] = {}
    truth: dict[str, Any] = {}
    for outcome, noise in (("reward", "reward_noise"), ("costs", "cost_noise")):
        if noise in document:
            (truth if outcome in document else options)[noise] = document[noise]
    if "reward" in document:
        options["reward"] = _read_reward(document["reward"])
    if "costs" in document:
        costs = document["costs"]
        if isinstance(costs, list):
            options["costs"] = [read_outcome(f"costs {j}", one) for j, one in enumerate(costs)]
        elif isinstance(costs, dict) and "kind" not in costs:
            options["costs"] = {
                name: read_outcome(f"costs {name}", one) for name, one in costs.items()
            }
        else:
            options["costs"] = read_outcome("costs", costs)
    return options, truth


def _read_reward(given: Any) -> Any:
    """The outcome of the reward, with its name if it has one."""
    if not isinstance(given, dict) or "name" not in given:
        return read_outcome("reward", given)
    rest = {key: value for key, value in given.items() if key != "name"}
    return {_name("reward", given["name"]): read_outcome("reward", rest)}


OUTCOMES: dict[str, type[Outcome]] = {one.kind: one for one in (Gaussian, Bernoulli, Poisson)}


def read_outcome(name: str, document: Any) -> Outcome:
    """An outcome from what `Outcome.to_dict` wrote, or from its name.

    >>> read_outcome("reward", "bernoulli")
    Bernoulli()
    >>> read_outcome("reward", {"kind": "gaussian", "noise": 2.0, "prior": {"sd": 3.0}})
    Gaussian(noise=2.0, prior=Prior(mean=0.0, sd=3.0))
    """
    given = {"kind": document} if isinstance(document, str) else document
    if not isinstance(given, dict) or "kind" not in given:
        raise ValueError(f"{name}: expected an outcome such as 'bernoulli', got {document!r}")
    given = dict(given)
    kind = given.pop("kind")
    if kind not in OUTCOMES:
        raise ValueError(f"{name}: {_check.unknown('outcome', kind, OUTCOMES)}")
    if "prior" in given:
        if not isinstance(given["prior"], dict):
            raise ValueError(f"{name}: expected a table for the prior, got {given['prior']!r}")
        given["prior"] = _build(f"{name}: prior", Prior, given["prior"])
    return _build(name, OUTCOMES[kind], given)


def _build(name: str, kind: Any, given: dict[str, Any]) -> Any:
    for key in given:
        if key not in signature(kind).parameters:
            raise ValueError(f"{name}: {_check.unknown('key', key, signature(kind).parameters)}")
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: expected a table of names, got {value!r}")
    return value


def _named(key: str, value: Any, content: str) -> Named:
    """A table of names to values, a list of {name, value} tables, or bare values."""
    if isinstance(value, dict):
        return Named(list(value), list(value.values()))
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return Named(None, value)
    wanted = ("name", content)
    for item in value:
        if not isinstance(item, dict):
            raise ValueError(f"{key}: expected all of the list with names or none of it")
        for given in item:
            if given not in wanted:
                raise ValueError(f"{key}: {_check.unknown('key', given, wanted)}")
        if set(item) != set(wanted):
            raise ValueError(f"{key}: expected name and {content}, got only {', '.join(item)}")
    return Named([_name(key, item["name"]) for item in value], [item[content] for item in value])


def _name(key: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{key}: expected a text or a whole number as a name, got {value!r}")
    return value


def _features(value: Any) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError(f"features: expected a list of names, got {value!r}")
    return [_name("features", item) for item in value]


def _infinities(value: Any) -> Any:
    """The value with each string "inf" turned into the number."""
    if isinstance(value, list):
        return [_infinities(item) for item in value]
    return math.inf if isinstance(value, str) and value == "inf" else value


def to_document(thing: Problem | Instance, *, strict: bool = False) -> dict[str, Any]:
    """The document of a problem or an instance; `strict` writes infinities as JSON can."""
    problem = thing.problem if isinstance(thing, Instance) else thing
    coords, constraints = problem.coords, problem.coords["constraint"]
    document: dict[str, Any] = {}
    if not _default(coords["feature"]):
        document["features"] = coords["feature"].tolist()
    named = {} if problem.reward_name == REWARD else {"name": problem.reward_name}
    plain = not named and all(one.prior is None and one.known for one in problem.outcomes)
    if plain:
        document["reward_noise"] = problem.reward_noise
    else:
        document["reward"] = named | problem.outcomes[0].to_dict()
    if problem.parameter_radius is not None:
        document["parameter_radius"] = list(problem.parameter_radius)
    document["arms"] = _with_names(coords["arm"], problem.arms, "vector")
    if problem.candidates is not problem.arms:
        document["candidates"] = _with_names(coords["candidate"], problem.candidates, "vector")
    if problem.thresholds.size:
        document["thresholds"] = _with_names(constraints, problem.thresholds, "value")
        if plain:
            document["cost_noise"] = _in_order(constraints, problem.cost_noise)
        else:
            document["costs"] = _in_order(
                constraints, np.array([one.to_dict() for one in problem.outcomes[1:]])
            )
    if any(problem.relative):
        document["relative"] = {
            str(constraints[j]): problem.name(_check.candidate(problem, one.candidate))
            for j, one in enumerate(problem.relative)
            if one is not None
        }
    if isinstance(thing, Instance):
        document["theta_reward"] = thing.theta_reward.tolist()
        if problem.thresholds.size:
            document["theta_cost"] = _in_order(constraints, thing.theta_cost)
        if not plain:
            document["reward_noise"] = float(thing.noise[0])
            if problem.thresholds.size:
                document["cost_noise"] = _in_order(constraints, thing.noise[1:])
    if strict:
        document = {key: _strict(value) for key, value in document.items()}
    return document


def _default(names: np.ndarray) -> bool:
    return names.dtype.kind != "U" and names.tolist() == list(range(len(names)))


def _with_names(names: np.ndarray, values: np.ndarray, content: str) -> Any:
    if names.dtype.kind == "U" or _default(names):
        return _in_order(names, values)
    pairs = zip(names.tolist(), values.tolist(), strict=True)
    return [{"name": name, content: value} for name, value in pairs]


def _in_order(names: np.ndarray, values: np.ndarray) -> Any:
    """A table where the names are texts, else a list in the order of the names."""
    if names.dtype.kind == "U":
        return dict(zip(names.tolist(), values.tolist(), strict=True))
    return values.tolist()


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return "inf" if value == math.inf else value
