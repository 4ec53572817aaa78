"""The families of instances that rules meet in the arena: each makes an instance from a seed.

A family says what is typical of some use; an instance of it is drawn anew for each run, so that
runs are independent and no rule can be tuned to one instance. Where a family is a single instance,
as End of Optimism is, only the noise differs.
"""

import inspect
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from bayes_feasible import instances
from bayes_feasible._check import unknown
from bayes_feasible._imports import code_of, import_object, is_import_path
from bayes_feasible.analysis.study.store import hash_bytes
from bayes_feasible.files.problems import load
from bayes_feasible.instance import Instance
from bayes_feasible.outcomes import Bernoulli, Gaussian, Relative
from bayes_feasible.problem import Problem
from bayes_feasible.simulation.streams import child

SUFFIXES = (".toml", ".json", ".csv")  # of problem files


class Family(NamedTuple):
    """Instances of one kind.

    Attributes
    ----------
    name : str
    title : str
        What it is, in a few words.
    make : callable
        Makes an instance from a `numpy.random.Generator`.
    single : bool
        Whether all runs meet the same instance.
    code : str
        What the instances depend on beside the package: a checksum of the user's code or files.
    """

    name: str
    title: str
    make: Callable[[np.random.Generator], Instance]
    single: bool = False
    code: str = ""

    def instance(self, seed: Any, run: int) -> Instance:
        """The instance of a run: the same for the same seed, whatever else is run.

        >>> ball = FAMILIES["ball-2-5"]
        >>> ball.instance(0, 3).problem == ball.instance(0, 3).problem
        True
        """
        return self.make(np.random.default_rng(self.seed(seed, run, 0)))

    def seed(self, seed: Any, *path: int) -> np.random.SeedSequence:
        """A seed of the family's own."""
        return child(seed, zlib.crc32(self.name.encode()), *path)


def one_hot(rng: np.random.Generator, arms: int) -> Instance:
    """Arms with nothing in common; means and costs standard normal, limit 0.5.

    >>> one_hot(np.random.default_rng(0), 10).problem.arms.shape
    (10, 10)
    """
    while True:
        reward, cost = rng.standard_normal((2, arms))
        if (cost <= 0.5).any():
            return Instance(Problem(np.eye(arms), thresholds=0.5), reward, cost)


def in_ball(
    rng: np.random.Generator, d: int, arms: int, constraints: int, *, candidates: int = 0
) -> Instance:
    """Vectors uniform in the unit ball, parameters uniform on the sphere, limits 0.2.

    The candidates are the arms unless their number is given; they are drawn again until some
    candidate is feasible.

    >>> in_ball(np.random.default_rng(0), 5, 20, 2).problem.thresholds.tolist()
    [0.2, 0.2]
    """
    while True:
        vectors = [instances._uniform_in_ball(rng, k, d) for k in (arms, candidates) if k]
        theta = rng.standard_normal((1 + constraints, d))
        theta /= np.linalg.norm(theta, axis=1, keepdims=True)
        if (vectors[-1] @ theta[1:].T <= 0.2).all(axis=1).any():
            problem = Problem(
                vectors[0], [0.2] * constraints, candidates=vectors[1] if candidates else None
            )
            return Instance(problem, theta[0], theta[1:])


def nothing_feasible(rng: np.random.Generator) -> Instance:
    """Ten arms, each with a constant cost beside a linear one, all of them above the limit.

    >>> nothing_feasible(np.random.default_rng(0)).best is None
    True
    """
    arms = instances._uniform_in_ball(rng, 10, 4)
    reward, cost = rng.standard_normal((2, 4)) / 2
    arms = np.column_stack([np.ones(10), arms])
    above = 0.3 - (arms[:, 1:] @ cost).min()
    return Instance(Problem(arms, thresholds=0.0), [0.0, *reward], [above, *cost])


def dose_response(rng: np.random.Generator) -> Instance:
    """Nine doses; benefit and harm are cubics, harm rises with the dose.

    >>> dose_response(np.random.default_rng(0)).problem.arms.shape
    (9, 4)
    """
    dose = np.linspace(0, 1, 9)
    arms = np.column_stack([dose**power for power in range(4)])
    harm = np.array([0.0, 0.2, *rng.uniform(0.2, 1.0, 2)])
    top = rng.uniform(0.4, 1.2)  # the benefit is highest there
    benefit = np.array([0.0, 2.0 * top, -1.0, 0.0]) * rng.uniform(0.7, 1.3)
    problem = Problem(arms, {"harm": 0.6}, reward_noise=0.5, cost_noise=0.5)
    return Instance(problem, benefit, harm)


def factorial(rng: np.random.Generator) -> Instance:
    """All settings of four factors: main effects, and interactions half as large.

    >>> factorial(np.random.default_rng(0)).problem.arms.shape
    (16, 11)
    """
    levels = np.array(list(product([-1.0, 1.0], repeat=4)))
    pairs = [levels[:, i] * levels[:, j] for i, j in combinations(range(4), 2)]
    arms = np.column_stack([np.ones(16), levels, *pairs])
    size = np.array([0.0] + [0.3] * 4 + [0.15] * 6)
    while True:
        reward, cost = size * rng.standard_normal((2, 11))
        if (arms @ cost <= 0.1).any():
            return Instance(Problem(arms, {"cost": 0.1}), reward, cost)


def from_the_prior(rng: np.random.Generator) -> Instance:
    """Truths drawn from the prior: the mean error is the Bayes risk.

    >>> from_the_prior(np.random.default_rng(0)).problem.arms.shape
    (10, 5)
    """
    problem = Problem(instances._uniform_in_ball(rng, 10, 5), thresholds=0.0)
    return Instance(problem, *rng.standard_normal((2, 5)))


# In the style of published phase I/II scenarios: response and toxicity of five doses; limit 0.33.
SCENARIOS = (
    ((0.10, 0.20, 0.40, 0.55, 0.60), (0.02, 0.06, 0.12, 0.20, 0.45)),  # the fourth
    ((0.20, 0.40, 0.60, 0.62, 0.63), (0.05, 0.10, 0.20, 0.45, 0.60)),  # a plateau: the third
    ((0.05, 0.10, 0.15, 0.30, 0.50), (0.01, 0.03, 0.05, 0.08, 0.15)),  # the highest
    ((0.30, 0.45, 0.55, 0.60, 0.65), (0.10, 0.22, 0.45, 0.60, 0.70)),  # the second
    ((0.20, 0.50, 0.35, 0.25, 0.20), (0.05, 0.08, 0.15, 0.25, 0.40)),  # a peak: the second
    ((0.30, 0.40, 0.50, 0.55, 0.60), (0.50, 0.60, 0.70, 0.80, 0.85)),  # all are toxic
)


def dose_finding(rng: np.random.Generator) -> Instance:
    """Responses and toxicities of five doses, yes or no; one of six scenarios.

    >>> dose_finding(np.random.default_rng(0)).problem.thresholds.tolist()
    [0.33]
    """
    response, toxicity = np.array(SCENARIOS[rng.integers(len(SCENARIOS))])
    problem = Problem(
        np.eye(5), {"toxicity": 0.33}, reward=Bernoulli(), costs={"toxicity": Bernoulli()}
    )
    return Instance(problem, logit(response), logit(toxicity))


def ab_test(rng: np.random.Generator) -> Instance:
    """Conversions of a control and three variants that may load 0.1 s slower, noise learnt.

    >>> ab_test(np.random.default_rng(0)).problem.arms.shape
    (4, 4)
    """
    problem = Problem(
        dict(zip(("control", "A", "B", "C"), np.eye(4), strict=True)),
        {"latency": Relative("control", 0.1)},
        reward=Bernoulli(), costs={"latency": Gaussian()},
    )  # fmt: skip
    conversion = 0.10 * np.exp(np.r_[0.0, rng.normal(0.0, 0.4, 3)])
    latency = 0.8 + np.r_[0.0, rng.normal(0.05, 0.15, 3)]
    return Instance(problem, logit(conversion), latency, cost_noise=0.4)


def logit(share: Any) -> np.ndarray:
    """Log-odds."""
    share = np.asarray(share, dtype=float)
    return np.log(share) - np.log1p(-share)


def _ball(rng: np.random.Generator, d: int, k: int) -> Instance:
    return instances.random_ball(d, k, rng)


def _always(rng: np.random.Generator, make: Callable[..., Instance], **options: Any) -> Instance:
    return make(**options)


def _listed() -> Iterator[Family]:
    yield Family(
        "end-of-optimism", "End of Optimism, α = 0.1: the paper's",
        partial(_always, make=instances.end_of_optimism, alpha=0.1), single=True,
    )  # fmt: skip
    for d, k in ((2, 5), (2, 20), (2, 50), (20, 20), (50, 20)):
        yield Family(f"ball-{d}-{k}", f"{k} arms uniform in the ball of {d} dimensions",
                     partial(_ball, d=d, k=k))  # fmt: skip
    for k in (10, 50):
        yield Family(f"one-hot-{k}", f"{k} arms with nothing in common", partial(one_hot, arms=k))
    for films in (20, 60):
        make = partial(_always, make=instances.movielens, films=films)
        title = f"the {films} most rated films, IMDb score at most 7.5"
        yield Family(f"films-{films}", title, make, single=True)
    yield Family("dose-response", "nine doses, benefit and harm cubic in the dose", dose_response)
    yield Family("factorial", "all settings of four factors, with interactions", factorial)
    yield Family("x-not-z", "8 arms and 20 other candidates in 5 dimensions",
                 partial(in_ball, d=5, arms=8, constraints=1, candidates=20))  # fmt: skip
    for m in (2, 3):
        yield Family(f"{m}-constraints", f"20 arms in 5 dimensions, {m} constraints",
                     partial(in_ball, d=5, arms=20, constraints=m))  # fmt: skip
    yield Family("no-constraint", "20 arms in 5 dimensions, plain best-arm identification",
                 partial(in_ball, d=5, arms=20, constraints=0))  # fmt: skip
    yield Family("none-feasible", "10 arms in 5 dimensions, all of them too costly",
                 nothing_feasible)  # fmt: skip
    yield Family("prior", "10 arms in 5 dimensions, truths from the prior: Bayes risk",
                 from_the_prior)  # fmt: skip
    yield Family("dose-finding", "responses and toxicities of five doses, 0/1", dose_finding)
    yield Family("ab", "conversions 0/1, latency relative to the control, noise learnt", ab_test)


FAMILIES: Mapping[str, Family] = {family.name: family for family in _listed()}


def find_family(name: Any) -> Family:
    """Find a family by name, or make one of the user's instances.

    Parameters
    ----------
    name : str, path, Instance or callable
        A registered family; an import path, `my_module:family`, or the callable itself, of one
        argument, a `numpy.random.Generator` (or none, for one instance); a problem file with its
        true parameters, or a folder of them, of which each run draws one.

    Raises
    ------
    ValueError
        If there is none, with the closest name that is known.

    Examples
    --------
    >>> find_family("ball-2-5").title
    '5 arms uniform in the ball of 2 dimensions'
    >>> find_family("bayes_feasible:instances.soare").single
    True
    """
    if isinstance(name, Family):
        return name
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    if is_import_path(name):
        return _of_the_users(name, import_object(name), hash_bytes(code_of(name)))
    if isinstance(name, Instance) or callable(name):
        label = getattr(name, "__name__", "instance")
        return _of_the_users(label, name, hash_bytes(cloudpickle.dumps(name)))
    if isinstance(name, str | os.PathLike) and Path(name).exists():
        return _of_files(Path(name))
    raise ValueError(unknown("family", name, FAMILIES))


def _of_the_users(name: str, found: Any, code: str) -> Family:
    if isinstance(found, Instance):
        return Family(name, "one instance", partial(_given, instance=found), True, code)
    if not callable(found):
        raise TypeError(f"{name}: expected a function that makes an Instance")
    needed = [
        each for each in inspect.signature(found).parameters.values() if each.default is each.empty
    ]
    if len(needed) > 1:
        raise ValueError(f"{name}: expected a function of one argument, a generator")
    if not needed:
        return Family(name, "one instance", partial(_always, make=found), True, code)
    return Family(
        name, "instances of your own", partial(_checked, name=name, make=found), False, code
    )


def _checked(rng: np.random.Generator, name: str, make: Callable[..., Any]) -> Instance:
    made = make(rng)
    if not isinstance(made, Instance):
        raise TypeError(f"{name}: expected it to return an Instance, got {type(made).__name__}")
    return made


def _given(rng: np.random.Generator, instance: Instance) -> Instance:
    return instance


def _one_of(rng: np.random.Generator, given: tuple[Instance, ...]) -> Instance:
    return given[rng.integers(len(given))]


def _of_files(path: Path) -> Family:
    """The instances in a file or a folder."""
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
        if not files:
            raise ValueError(f"{path}: holds no problem file ({', '.join(SUFFIXES)})")
    given = tuple(_require_truth(file, load(file)) for file in files)
    code = hash_bytes(b"".join(file.name.encode() + file.read_bytes() for file in files))
    title = f"{len(given)} problem file{'s' * (len(given) > 1)}"
    return Family(path.stem, title, partial(_one_of, given=given), len(given) == 1, code)


def _require_truth(file: Path, found: Any) -> Instance:
    if not isinstance(found, Instance):
        raise ValueError(f"{file}: the true parameters are needed, but it has no theta_reward")
    return found
