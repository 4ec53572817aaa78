"""Anybody's sampler: what it is given, what it returns, and a test that it keeps to that.

A sampler is a function of a `Target`. It returns an array of draws (chain, draw, coordinate), or
what `Target.label` makes of one, or a DataTree or Dataset of its own with `theta_reward` and
`theta_cost`. The `scoreboard` runs it and judges its draws.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.linalg import block_diag

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import block_radius, labelled, parameter_names, read_draws
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.samplers.targets import target
from bayes_feasible.analysis.samplers.tasks import SamplerError, Task

SMALL: dict[str, Any] = {
    "draws": 50,
    "tune": 50,
    "chains": 2,
    "cores": 1,
    "progress": False,
}  # of the conformance
TRIED_ON = ("a", -4.0), ("b", -4.0)


@dataclass(frozen=True)
class Target:
    """The density to draw from: a Gaussian given that at least one of some events happens.

    A point holds all parameters in a row, those of the reward first. An event is the intersection
    of its half-spaces, `vectors @ point >= limits`; no draw may lie outside all events. Arrays are
    read-only.

    Attributes
    ----------
    names : list of str
        Of the coordinates.
    mean, covariance : ndarray (coordinate,), (coordinate, coordinate)
        Of the Gaussian without the events.
    vectors, limits : ndarray (event, half-space, coordinate), (event, half-space)
        A limit of -inf asks for nothing.
    starts : ndarray (chain, coordinate)
        A point inside for each chain, near an exact draw: one probable event a chain in turn.
    draws, tune : int
        How many draws to return of each chain, and how many iterations before them.
    seed : int
        The same seed must give the same draws.
    alternative : Alternative
        The set itself.
    """

    names: list[str]
    mean: Array
    covariance: Array
    vectors: Array
    limits: Array
    starts: Array
    draws: int
    tune: int
    seed: int
    alternative: Alternative

    @classmethod
    def of(cls, task: Task) -> "Target":
        """The target of a task, whose posterior must be Gaussian."""
        task.posterior.problem.require_textbook("a sampler of one's own")
        if task.model is not None:
            raise ValueError("samplers: a function takes Gaussian targets; with a model give draws")
        reference, events = task.reference(), task.alternative.events
        blocks, features = reference.mean.shape
        vectors = np.zeros((*events.limits.shape, blocks, features))
        for block in range(blocks):
            vectors[:, block, block] = events.vectors[:, block]
        starts = np.array([task.parameters(start).ravel() for start in task.starts()])
        arrays = (
            reference.mean.ravel(), block_diag(*reference.covariance),
            vectors.reshape(*events.limits.shape, -1), events.limits.copy(), starts,
        )  # fmt: skip
        for array in arrays:
            array.flags.writeable = False
        return cls(
            parameter_names(task.alternative.problem), *arrays, task.draws, task.tune, task.seed,
            task.alternative,
        )  # fmt: skip

    def log_density(self, points: Any) -> Array:
        """Unnormalised log-density of points (..., coordinate); -inf outside.

        Examples
        --------
        >>> seen = {}
        >>> def sampler(target):
        ...     seen["inside"] = np.isfinite(target.log_density(target.starts)).all()
        ...     seen["outside"] = target.log_density(target.mean)
        ...     return np.random.default_rng(target.seed).normal(size=(4, target.draws, 4))
        >>> from bayes_feasible.analysis import scoreboard
        >>> from bayes_feasible.analysis.samplers.targets import target
        >>> board = scoreboard(*target("a", -4), {"mine": sampler}, progress=False)
        >>> seen["inside"].item(), seen["outside"].item(), board.verdict.item()
        (True, -inf, 'condemned')
        """
        points = np.asarray(points, dtype=float)
        off = points - self.mean
        away = np.linalg.solve(self.covariance, off.reshape(-1, off.shape[-1]).T).T
        value = -0.5 * np.sum(off * away.reshape(off.shape), axis=-1)
        return np.where(self.contains(points), value, -np.inf)

    def gradient(self, points: Any) -> Array:
        """Gradient of the log-density inside, the Gaussian's, at points (..., coordinate).

        Examples
        --------
        >>> def sampler(target):
        ...     assert not target.gradient(target.mean).any()
        ...     return target.starts[:, np.newaxis].repeat(target.draws, axis=1)
        >>> from bayes_feasible.analysis import scoreboard
        >>> from bayes_feasible.analysis.samplers.targets import target
        >>> board = scoreboard(*target("a", -4), {"stuck": sampler}, progress=False)
        >>> board.reason.item().partition(";")[0]
        'R-hat inf: chains disagree'
        """
        off = np.asarray(points, dtype=float) - self.mean
        away = np.linalg.solve(self.covariance, off.reshape(-1, off.shape[-1]).T).T
        return -away.reshape(off.shape)

    def contains(self, points: Any) -> NDArray[np.bool_]:
        """Which points (..., coordinate) lie in some event.

        Examples
        --------
        >>> def sampler(target):
        ...     assert target.contains(target.starts).all()
        ...     raise RuntimeError("out of ideas")
        >>> from bayes_feasible.analysis import scoreboard
        >>> from bayes_feasible.analysis.samplers.targets import target
        >>> board = scoreboard(*target("a", -4), {"mine": sampler}, progress=False)
        >>> board.verdict.item(), board.reason.item()
        ('failed', 'RuntimeError: out of ideas')
        """
        points = np.asarray(points, dtype=float)
        problem = self.alternative.problem
        blocks = points.reshape(*points.shape[:-1], -1, problem.arms.shape[1])
        inside = self.alternative.events.contains(blocks).any(axis=-1)
        length = np.linalg.norm(blocks, axis=-1)
        return inside & np.all(length <= block_radius(problem), axis=-1)

    def label(self, draws: Any, **attributes: float) -> xr.DataTree:
        """Draws (chain, draw, coordinate) with what else the sampler says of them.

        Attributes that are judged: `log_probability` of the set with its
        `log_probability_standard_error`, `divergences`, and `independent` (1) of draws that do
        not know of each other.

        Examples
        --------
        >>> def sampler(target):  # for one event, in closed form elsewhere
        ...     exact = target.alternative.sample(posterior, target.draws, target.seed, chains=4)
        ...     rows = [exact.theta_reward.values, exact.theta_cost.values[:, :, 0]]
        ...     return target.label(np.concatenate(rows, axis=2), independent=1)
        >>> from bayes_feasible.analysis import scoreboard
        >>> from bayes_feasible.analysis.samplers.targets import target
        >>> posterior, wrong = target("a", -4)
        >>> scoreboard(posterior, wrong, {"mine": sampler}, progress=False).verdict.item()
        'trusted'
        """
        tree = as_tree(np.asarray(draws, dtype=float), self.alternative)
        tree.attrs.update(attributes)
        return tree


Sampler = Callable[[Target], Any]


def run_own(sampler: Sampler, task: Task, name: str) -> xr.DataTree:
    """Draws of a sampler, with the time it took; `SamplerError` if it breaks off."""
    given = Target.of(task)
    start = time.perf_counter()
    try:
        found = sampler(given)
    except Exception as error:
        raise SamplerError(f"{type(error).__name__}: {error}") from error
    seconds = time.perf_counter() - start
    try:
        tree = as_tree(found, task.alternative)
    except (ValueError, TypeError) as error:
        raise SamplerError(str(error)) from error
    tree.attrs = {"seconds": seconds, **tree.attrs, "sampler": name}
    return tree


def as_tree(found: Any, alternative: Alternative) -> xr.DataTree:
    """Draws in any of the forms that a sampler may return, as the scoreboard wants them."""
    problem = alternative.problem
    if isinstance(found, xr.DataTree | xr.Dataset):
        parameters = read_draws(problem, found)
    else:
        array = np.asarray(found, dtype=float)
        shape = len(parameter_names(problem))
        if array.ndim != 3 or array.shape[2] != shape or not array.size:
            raise ValueError(
                f"draws: expected an array (chain, draw, {shape} coordinates), a DataTree or a "
                f"Dataset, got shape {array.shape}"
            )
        parameters = array.reshape(*array.shape[:2], -1, problem.arms.shape[1])
    bad = int(np.sum(~np.isfinite(parameters).all(axis=(2, 3))))
    if bad:
        raise ValueError(f"draws: expected finite numbers, {bad} draws hold others")
    chains, _, *rest = parameters.shape
    groups = {"posterior": labelled(problem, parameters.reshape(-1, *rest), chains)}
    tree = xr.DataTree.from_dict(groups)
    if isinstance(found, xr.DataTree):
        tree.attrs = dict(found.attrs)
    return tree


def check_sampler(sampler: Sampler) -> None:
    """Whether a sampler of one's own keeps to what the scoreboard asks of it.

    It is run on two small targets: it has to return as many finite draws as were asked for, in
    as many chains as there are starts; the same ones for the same seed and others for another; its
    chains must differ and move, and it may not write into what it was given. Whether the draws are
    right is for the `scoreboard` to say.

    Parameters
    ----------
    sampler : function of a `Target`

    Raises
    ------
    ValueError
        If it does not; the message lists everything that is wrong.

    Examples
    --------
    >>> def walk(target):  # Metropolis, badly tuned
    ...     rng, chains = np.random.default_rng(target.seed), []
    ...     for at in target.starts:
    ...         chain = []
    ...         for _ in range(target.tune + target.draws):
    ...             new = at + 0.1 * rng.multivariate_normal(0 * at, target.covariance)
    ...             if np.log(rng.random()) < target.log_density(new) - target.log_density(at):
    ...                 at = new
    ...             chain.append(at)
    ...         chains.append(chain[target.tune :])
    ...     return np.array(chains)
    >>> check_sampler(walk)
    >>> check_sampler(lambda target: walk(target)[:1])
    Traceback (most recent call last):
    ValueError: sampler: expected 2 chains of 50 draws, got 1 of 50 (on target a)
    """
    if not callable(sampler):
        raise TypeError(f"sampler: expected a function, got {type(sampler).__name__}")
    wrong: dict[str, str] = {}
    for kind, rarity in TRIED_ON:
        for problem in _violations(sampler, kind, rarity):
            wrong.setdefault(problem, kind)
    if wrong:
        listed = "; ".join(f"{problem} (on target {kind})" for problem, kind in wrong.items())
        raise ValueError(f"sampler: {listed}")


def _violations(sampler: Sampler, kind: str, rarity: float) -> list[str]:
    """What is wrong with what a sampler does on one target."""
    posterior, alternative = target(kind, rarity)
    trees = []
    for seed in (0, 0, 1):
        task = Task(posterior, alternative, seed=seed, **SMALL)
        try:
            trees.append(run_own(sampler, task, "own"))
        except SamplerError as error:
            return [str(error)]
    first, again, other = (read_draws(alternative.problem, tree) for tree in trees)
    asked = SMALL["chains"], SMALL["draws"]
    if first.shape[:2] != asked:
        sizes = "{} chains of {} draws, got {} of {}".format(*asked, *first.shape[:2])
        return [f"expected {sizes}"]
    attributes = trees[0].attrs
    claims = "log_probability" in attributes
    faults = {
        "the same seed gives other draws": not np.array_equal(first, again),
        "another seed gives the same draws": np.array_equal(first, other),
        "two chains are the same": np.array_equal(first[0], first[1]),
        "a chain never moves": bool(np.any(np.ptp(first, axis=1).max(axis=(1, 2)) == 0)),
        "log_probability: expected log_probability_standard_error beside it": claims
        and "log_probability_standard_error" not in attributes,
    }
    return [fault for fault, present in faults.items() if present]


def check_samplers(samplers: Any, known: Callable[[str], None]) -> dict[str, Any]:
    """Samplers by name: names out of the table, functions, or draws that are there already."""
    if not isinstance(samplers, dict):
        if isinstance(samplers, str):
            raise TypeError("samplers: expected a list of names or a dict, got one string")
        samplers = {name: name for name in samplers}
    for name, sampler in samplers.items():
        _check.kind("samplers: the name", name, str)
        if isinstance(sampler, str):
            known(sampler)
        elif not (callable(sampler) or isinstance(sampler, xr.DataTree | xr.Dataset)):
            raise TypeError(
                f"samplers: expected a name, a function or a DataTree of draws as {name!r}, got "
                f"{type(sampler).__name__}"
            )
    return dict(samplers)
