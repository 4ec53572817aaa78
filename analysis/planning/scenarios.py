"""What may be true: tables of means by arm, instances, or draws from the prior.

In TOML a table for each scenario, with the means of each outcome in the order of the arms, or by
their names::

    [scenarios.steep]
    benefit = [0.2, 0.4, 0.5]
    toxicity = {"5 mg" = 0.05, "10 mg" = 0.2, "20 mg" = 0.6}

    [scenarios.believed]
    prior = true

In CSV a row for each scenario and arm, with columns `scenario`, `arm` and the outcomes. A Gaussian
outcome whose noise is learnt has its true noise in `noise = {latency = 30.0}`, or in a column
`noise_latency`.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array, unknown
from bayes_feasible.instance import Instance
from bayes_feasible.outcomes import Gaussian
from bayes_feasible.problem import Problem
from bayes_feasible.rules.engine import KINDS
from bayes_feasible.simulation.world import World

PRIOR, NOISE, MEANS = "prior", "noise", "noise_"


@dataclass(frozen=True, eq=False)
class Truth:
    """What is true in one simulated trial.

    Attributes
    ----------
    means : ndarray (arm, outcome)
    noise : ndarray (outcome,)
        Standard deviations of Gaussian outcomes; 1 elsewhere.
    right : ndarray (candidate,)
        Which candidates are the best feasible ones; none: the right answer is "none".
    infeasible : ndarray (candidate,)
    unsafe : ndarray (arm,)
        Which arms exceed a limit.
    """

    means: Array
    noise: Array
    right: NDArray[np.bool_]
    infeasible: NDArray[np.bool_]
    unsafe: NDArray[np.bool_]

    def world(self, problem: Problem) -> World:
        """What pulls show then."""
        arms = len(problem.arms)
        kinds = np.array([KINDS[one.kind] for one in problem.outcomes], dtype=np.int64)
        costs = np.ascontiguousarray(self.means[:, 1:])
        empty = np.zeros(arms, dtype=np.int64)
        return World(self.means[:, 0].copy(), costs, self.noise, kinds, np.empty((arms, 0)), empty)


@dataclass(frozen=True, eq=False)
class Scenario:
    """A truth under a name; without one, every trial draws its own from the prior."""

    name: str
    truth: Truth | None = None

    def draw(self, problem: Problem, seed: np.random.SeedSequence) -> Truth:
        """The truth of one trial."""
        return _from_prior(problem, seed) if self.truth is None else self.truth

    def to_dict(self) -> dict[str, Any]:
        """What its numbers depend on."""
        if self.truth is None:
            return {PRIOR: True}
        return {"means": self.truth.means.tolist(), NOISE: self.truth.noise.tolist()}


def read_scenarios(problem: Problem, given: Any) -> list[Scenario]:
    """Scenarios by name: mappings of outcomes to means by arm, instances, or "prior".

    Examples
    --------
    >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, {"toxicity": 0.3})
    >>> steep = {"reward": [0.2, 0.9], "toxicity": {"low": 0.1, "high": 0.8}}
    >>> first, second = read_scenarios(problem, {"steep": steep, "believed": "prior"})
    >>> first.truth.right, second.truth
    (array([ True, False]), None)
    """
    if not isinstance(given, Mapping) or not given:
        raise ValueError("scenarios: expected a dict of names to truths, with at least one")
    return [_read(problem, str(name), value) for name, value in given.items()]


def read_table(problem: Problem, text: str) -> dict[str, dict[str, Any]]:
    """The scenarios in a CSV table, as `read_scenarios` takes them."""
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    noises = [f"{MEANS}{name}" for name in problem.outcome_names]
    known = ["scenario", "arm", *problem.outcome_names, *noises]
    for column in rows.fieldnames or []:
        if column not in known:
            raise ValueError(f"line 1: {unknown('column', column, known)}")
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        where = f"line {rows.line_num}"
        if None in row or None in row.values() or not row.get("scenario") or not row.get("arm"):
            raise ValueError(f"{where}: expected {len(rows.fieldnames or [])} cells, none empty")
        scenario = found.setdefault(row.pop("scenario"), {})
        arm = row.pop("arm")
        for column, cell in row.items():
            try:
                value = float(cell)
            except ValueError:
                raise ValueError(f"{where}, {column}: expected a number, got {cell!r}") from None
            noisy = column.startswith(MEANS) and column not in problem.outcome_names
            key = arm if not noisy else column.removeprefix(MEANS)
            table = scenario.setdefault(NOISE if noisy else column, {})
            if (key in table and not noisy) or table.setdefault(key, value) != value:
                raise ValueError(f"{where}: {key} has two values of {column}")
    return found


def _read(problem: Problem, name: str, value: Any) -> Scenario:
    try:
        if isinstance(value, Instance):
            if value.problem != problem:
                raise ValueError("expected an instance of the same problem")
            return Scenario(name, _from_parameters(
                problem, np.vstack([value.theta_reward, value.theta_cost]), value.noise
            ))  # fmt: skip
        if value == PRIOR or (isinstance(value, Mapping) and dict(value) == {PRIOR: True}):
            return Scenario(name)
        if isinstance(value, Mapping):
            return Scenario(name, _from_means(problem, value))
        raise TypeError(f"expected means by outcome, an Instance or 'prior', got {value!r}")
    except (TypeError, ValueError) as error:
        raise type(error)(f"scenarios: {name}: {error}") from None


def _from_means(problem: Problem, given: Mapping[str, Any]) -> Truth:
    if problem.candidates is not problem.arms:
        raise ValueError("means by arm do not tell those of other candidates; give an Instance")
    names = problem.outcome_names
    for key in given:
        if key not in (*names, NOISE):
            raise ValueError(unknown("outcome", key, names))
    means = np.column_stack([_by_arm(problem, name, given) for name in names])
    natural = np.column_stack([
        outcome.natural(name, means[:, b])
        for b, (name, outcome) in enumerate(zip(names, problem.outcomes, strict=True))
    ])  # fmt: skip
    over = np.zeros_like(natural[:, 1:])
    for j, relative in enumerate(problem.relative):
        at = None if relative is None else _check.candidate(problem, relative.candidate)
        over[:, j] = natural[:, 1 + j] - (0.0 if at is None else natural[at, 1 + j])
    infeasible = np.any(over > problem.limits, axis=1)
    right = _best(means[:, 0], infeasible)
    return Truth(means, _noise(problem, given.get(NOISE, {})), right, infeasible, infeasible)


def _by_arm(problem: Problem, name: str, given: Mapping[str, Any]) -> Array:
    """The means of one outcome, in the order of the arms."""
    if name not in given:
        raise ValueError(f"{name}: its means are missing")
    value, arms = given[name], [str(arm) for arm in problem.coords["arm"]]
    if isinstance(value, Mapping):
        for arm in value:
            if str(arm) not in arms:
                raise ValueError(f"{name}: {unknown('arm', str(arm), arms)}")
        by_name = {str(arm): one for arm, one in value.items()}
        missing = [arm for arm in arms if arm not in by_name]
        if missing:
            raise ValueError(f"{name}: the mean of {missing[0]} is missing")
        value = [by_name[arm] for arm in arms]
    numbers = _check.numbers(name, value)
    if numbers.shape != (len(arms),):
        raise ValueError(f"{name}: expected {len(arms)} means, one for each arm, got {value!r}")
    return numbers


def _noise(problem: Problem, given: Any) -> Array:
    """Known standard deviations, and the true ones where they are learnt."""
    names = problem.outcome_names
    if not isinstance(given, Mapping):
        raise TypeError(f"noise: expected numbers by outcome, got {given!r}")
    noise = np.where(np.isnan(problem.noise), 1.0, problem.noise)
    learnt = [isinstance(one, Gaussian) and one.learnt for one in problem.outcomes]
    for name in given:
        if name not in names or not learnt[names.index(name)]:
            raise ValueError(f"noise: {name} is no Gaussian outcome whose noise is learnt")
    for b, name in enumerate(names):
        if learnt[b]:
            if name not in given:
                raise ValueError(f"noise: that of {name} is missing")
            noise[b] = _check.positive(f"noise: {name}", given[name])
    return noise


def _from_prior(problem: Problem, seed: np.random.SeedSequence) -> Truth:
    rng = np.random.default_rng(seed)
    noise = np.where(np.isnan(problem.noise), 1.0, problem.noise)
    thetas = []
    for b, (outcome, (mean, covariance)) in enumerate(
        zip(problem.outcomes, problem.priors, strict=True)
    ):
        widen = 1.0
        if isinstance(outcome, Gaussian) and outcome.learnt:
            shape, scale = outcome.noise_prior
            variance = scale / rng.gamma(shape)
            noise[b], widen = np.sqrt(variance), variance / (scale / shape)
        thetas.append(rng.multivariate_normal(mean, widen * covariance, method="cholesky"))
    return _from_parameters(problem, np.array(thetas), noise)


def _from_parameters(problem: Problem, thetas: Array, noise: Array) -> Truth:
    natural = problem.arms @ thetas.T
    means = np.column_stack([
        outcome.mean(natural[:, b]) for b, outcome in enumerate(problem.outcomes)
    ])  # fmt: skip
    shift = np.einsum("jf,jf->j", problem.references, thetas[1:])
    unsafe = np.any(natural[:, 1:] - shift > problem.limits, axis=1)
    infeasible = ~problem.feasible(thetas[1:])
    return Truth(
        means, noise, _best(problem.candidates @ thetas[0], infeasible), infeasible, unsafe
    )


def _best(rewards: Array, infeasible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if infeasible.all():
        return np.zeros(infeasible.size, dtype=bool)
    return (rewards >= rewards[~infeasible].max()) & ~infeasible
