"""Many experiments at once: rules × replicates × checkpoints as one labelled Dataset."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.alternative.feasible import some_feasible
from bayes_feasible.files.documents import to_document
from bayes_feasible.instance import Instance
from bayes_feasible.rate.rate import optimal_rate, smallest_exponents
from bayes_feasible.rules.base import Rule
from bayes_feasible.simulation import pool, streams
from bayes_feasible.simulation.until import Ending, Until, describe_endings, right_answers
from bayes_feasible.simulation.world import Environment
from bayes_feasible.stopping.stop import Stop

if TYPE_CHECKING:
    import xarray as xr

ERROR_DRAWS = 512  # for triple overlaps, which matter in the first rounds only
LONGEST = 10**15  # rounds: years of work
MOST_REPLICATES = 10**6
LOOKING = 20  # rounds that one costs with looks at whether to stop
CHUNK = 8  # replicates in one task: enough to be worth sending to a worker


class Replicate(NamedTuple):
    """One experiment at its checkpoints."""

    recommended: NDArray[np.int64]  # (time,), -1: no candidate looks feasible
    log_error: Array  # (time,)
    pulls: NDArray[np.int64]  # (time, arm)


def simulate(
    instance: Instance,
    rules: Mapping[str, Callable[..., Any]],
    horizon: int,
    replicates: int,
    checkpoints: Sequence[int] | None = None,
    seed: Any = 0,
    executor: Any = None,
    *,
    stop: Stop | None = None,
    allowed: Any = None,
    progress: bool | None = None,
) -> "xr.Dataset":
    """Run rules on an instance, each many times.

    Parameters
    ----------
    instance : Instance
    rules : dict of names to rules
        A class such as `BLFAIPS`, or with options `functools.partial(BLFAIPS, eta=1.0)`; or any
        callable that takes a problem and `seed=` and returns an object with `ask()`,
        `tell(arm, reward, cost)` and `recommend()` (a candidate's index, None for none).
    horizon : int
        Number of pulls.
    replicates : int
        How often each rule runs. Replicate i meets the same noise under every rule.
    checkpoints : whole numbers, optional
        After how many pulls to look; by default 10, 20, 50, 100, ... and the horizon.
    seed : int
        The same seed gives the same numbers whatever the number of workers or their order.
    executor : object with `submit`, or False, optional
        Where the work runs: a process pool over all cores by default (for work that is worth
        one), `False` for this process, or for instance Dask's `client.get_executor()`.
    stop : Stop, optional
        Ends an experiment before the horizon: one looks after each of the first 50 pulls, then
        whenever there are 2 % more.
    allowed : Safety, or indices or names of arms, optional
        Which arms may be pulled. Rules of your own then need an `ask(allowed=...)`.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal.

    Returns
    -------
    Dataset
        Over `rule`, `replicate`, `time` (and `arm`): `recommended` (candidate index, -1 for
        none), `correct`, `log_error` (exact posterior log-probability that the true best
        candidate is not best), `allocation` (shares of the pulls) and `efficiency` (the smallest
        exponent under that allocation over the optimal rate; NaN where that is 0 or infinite, for
        then no allocation is better than another). Ctrl-C returns the replicates that are
        finished. An experiment that ended before a time is there as it ended.

        With `stop` or `allowed` also, over `rule` and `replicate`: `stopped` (the number of pulls
        at the end, -1 where it went on to the horizon), `reason` (of the stop; "safety" where no
        arm may be pulled any more; "" at the horizon), `recommended_at_stop` and
        `correct_at_stop`, the answer at the end (with an epsilon, not wrong by more than that).

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> rules = {"Uniform": bf.Uniform, "true posterior": partial(bf.BLFAIPS, eta=1.0)}
    >>> result = bf.simulate(instance, rules, horizon=500, replicates=4, seed=0)
    >>> dict(result.sizes)
    {'rule': 2, 'replicate': 4, 'time': 6, 'arm': 5}
    >>> result.efficiency.sel(time=500).mean("replicate").idxmax("rule").item()
    'true posterior'
    """
    if not isinstance(instance, Instance):
        raise ValueError(f"instance: expected an Instance, got {type(instance).__name__}")
    if not isinstance(rules, Mapping) or not rules:
        raise ValueError("rules: expected a dict of names to rules, with at least one")
    _check.names("rules", list(rules), len(rules))
    horizon = _check.count("horizon", horizon, most=LONGEST)
    replicates = _check.count("replicates", replicates, most=MOST_REPLICATES)
    if not (executor is None or executor is False or callable(getattr(executor, "submit", None))):
        raise ValueError(f"executor: expected an object with submit() or False, got {executor!r}")
    times = _times(checkpoints, horizon)
    seeds = streams.replicates(seed, range(replicates))
    for name, factory in rules.items():  # compiles, once for all workers, and finds mistakes
        _replicate(instance, name, factory, np.ones(1, dtype=np.int64), seeds[0])
    size, rounds = _chunk(replicates, horizon), horizon * replicates * len(rules)
    run: Callable[..., Any] = run_replicates
    if stop is not None or allowed is not None:
        Until(instance.problem, stop, allowed, seeds[0])  # finds mistakes
        run, rounds = partial(run_until, stop, allowed), LOOKING * rounds
    tasks = {
        partial(run, instance, name, rules[name], times, seeds[first : first + size]): (name, first)
        for first in range(0, replicates, size)
        for name in rules  # last, so that an interruption leaves whole replicates
    }
    if executor is None:
        executor = pool.choose_executor(list(tasks), rounds)
    finished: dict[str, dict[int, Any]] = {name: {} for name in rules}
    for task, batch in _run(list(tasks), executor, progress):
        name, first = tasks[task]
        finished[name].update(enumerate(batch, first))
    if run is run_replicates:
        return _dataset(instance, finished, times, replicates, seed)
    played = {name: {i: one[0] for i, one in found.items()} for name, found in finished.items()}
    dataset = _dataset(instance, played, times, replicates, seed)
    endings = [[finished[name][i][1] for i in dataset.replicate.values] for name in rules]
    return dataset.assign(describe_endings(endings, right_answers(instance, stop)))


def run_replicates(
    instance: Instance,
    name: str,
    factory: Callable[..., Any],
    times: NDArray[np.int64],
    seeds: Sequence[np.random.SeedSequence],
) -> list[Replicate]:
    """Run one rule once for each seed."""
    return [_replicate(instance, name, factory, times, seed) for seed in seeds]


def run_until(
    stop: Stop | None,
    allowed: Any,
    instance: Instance,
    name: str,
    factory: Callable[..., Any],
    times: NDArray[np.int64],
    seeds: Sequence[np.random.SeedSequence],
) -> list[tuple[Replicate, Ending]]:
    """Run one rule once for each seed, until a stop applies or no arm may be pulled."""
    found = []
    for seed in seeds:
        until = Until(instance.problem, stop, allowed, streams.split(seed).extra)
        played = _replicate(instance, name, factory, times, seed, until)
        ending = until.ending or Ending(-1, int(played.recommended[-1]), "")
        found.append((played, ending))
    return found


def _replicate(
    instance: Instance,
    name: str,
    factory: Callable[..., Any],
    times: NDArray[np.int64],
    seed: np.random.SeedSequence,
    until: Until | None = None,
) -> Replicate:
    wrong, error_rng = wrong_of(instance), np.random.default_rng(streams.split(seed).errors)
    recommended = np.empty(times.size, dtype=np.int64)
    log_error = np.empty(times.size)
    pulls = np.empty((times.size, len(instance.problem.arms)), dtype=np.int64)
    for i, (rule, environment) in enumerate(play(instance, name, factory, times, seed, until)):
        if i and np.array_equal(environment.pulls, pulls[i - 1]):  # it ended before
            recommended[i], log_error[i], pulls[i] = (
                recommended[i - 1],
                log_error[i - 1],
                pulls[i - 1],
            )
            continue
        recommended[i] = environment.recommended(rule)
        error = wrong.log_probability(environment.posterior(rule), error_rng, draws=ERROR_DRAWS)
        log_error[i] = error.value
        pulls[i] = environment.pulls
    return Replicate(recommended, log_error, pulls)


def play(
    instance: Instance,
    name: str,
    factory: Callable[..., Any],
    times: Iterable[int],
    seed: np.random.SeedSequence,
    until: Until | None = None,
) -> Iterator[tuple[Any, Environment]]:
    """Play one experiment; the rule and its environment after so many pulls, at rising times."""
    own, rewards, costs, *_ = streams.split(seed)
    rule = _start(name, factory, instance, own)
    environment = Environment(instance, rewards, costs)
    for before, time in pairwise([0, *map(int, times)]):
        if until is None:
            environment.play(rule, time - before)
        else:
            until.advance(rule, environment, time - before)
        yield rule, environment


def wrong_of(instance: Instance) -> Any:
    """The set of parameters under which the true answer is wrong."""
    if instance.best is None:
        return some_feasible(instance.problem)
    return Alternative(instance.problem, instance.best).union


def _start(name: str, factory: Any, instance: Instance, seed: Any) -> Any:
    """A rule from its class or maker: ours may look at the truth (Oracle), others may not."""
    maker = factory
    while isinstance(maker, partial):
        maker = maker.func
    ours = isinstance(maker, type) and issubclass(maker, Rule)
    try:
        rule = factory(instance if ours else instance.problem, seed=seed)
    except (TypeError, ValueError) as error:
        raise ValueError(f"rules: {name!r} cannot be made: {error}") from error
    for method in ("ask", "tell", "recommend"):
        if not callable(getattr(rule, method, None)):
            raise ValueError(f"rules: {name!r} gives a {type(rule).__name__} without {method}()")
    return rule


def _times(checkpoints: Any, horizon: int) -> NDArray[np.int64]:
    if checkpoints is None:
        powers = range(1, math.ceil(math.log10(horizon)) + 1)
        steps = {m * 10**p for p in powers for m in (1, 2, 5)} | {horizon}
        return np.array(sorted(step for step in steps if step <= horizon))
    try:
        times = np.asarray(checkpoints)
    except ValueError:  # ragged
        times = np.empty(0)
    if times.ndim != 1 or times.size == 0 or not np.issubdtype(times.dtype, np.integer):
        raise ValueError(f"checkpoints: expected a list of whole numbers, got {checkpoints!r}")
    times = times.astype(np.int64)  # differences of unsigned numbers would not be negative
    if np.any(np.diff(times) <= 0) or times[0] < 1 or times[-1] > horizon:
        raise ValueError(
            f"checkpoints: expected rising numbers from 1 to the horizon {horizon}, "
            f"got {checkpoints!r}"
        )
    return times


def _chunk(replicates: int, horizon: int) -> int:
    """Replicates in a task: many where they are short."""
    return max(1, min(replicates // 2, int(CHUNK * max(1.0, 20_000 / horizon))))


def _run(tasks: list[pool.Task], executor: Any, progress: bool | None) -> pool.Results:
    """Results of the tasks as they finish; all of them unless the user interrupts."""
    from tqdm import tqdm

    show = sys.stderr.isatty() if progress is None else progress
    bar = tqdm(total=len(tasks), desc="simulate", disable=not show, unit="task", delay=2.0)
    done = 0
    try:
        with bar, closing(pool.run(tasks, executor)) as results:
            for result in results:
                yield result
                done += 1
                bar.update()
    except KeyboardInterrupt:
        print(f"interrupted: {done} of {len(tasks)} tasks are finished", file=sys.stderr)


def _dataset(
    instance: Instance,
    finished: dict[str, dict[int, Replicate]],
    times: NDArray[np.int64],
    replicates: int,
    seed: Any,
) -> "xr.Dataset":
    """The replicates that finished under every rule, labelled."""
    import xarray as xr

    from bayes_feasible import __version__

    common = sorted(set.intersection(*(set(found) for found in finished.values())))
    problem = instance.problem
    grid = [[finished[name][i] for i in common] for name in finished]
    shape = (len(grid), len(common), times.size)
    recommended = np.array([[r.recommended for r in row] for row in grid], dtype=int).reshape(shape)
    log_error = np.array([[r.log_error for r in row] for row in grid]).reshape(shape)
    pulls = np.array([[r.pulls for r in row] for row in grid]).reshape(*shape, len(problem.arms))
    allocation = pulls / np.maximum(pulls.sum(axis=-1, keepdims=True), 1)
    dims = ("rule", "replicate", "time")
    return xr.Dataset(
        {
            "recommended": (dims, recommended),
            "correct": (dims, _correct(instance, recommended)),
            "log_error": (dims, log_error),
            "allocation": ((*dims, "arm"), allocation),
            "efficiency": (dims, _efficiency(instance, allocation, shape)),
        },
        coords={
            "rule": list(finished),
            "replicate": common,
            "time": times,
            "arm": problem.coords["arm"],
        },
        attrs={
            "version": __version__,
            "seed": str(seed),
            "replicates_asked": replicates,
            "instance": json.dumps(to_document(instance, strict=True)),
            "best": "none" if instance.best is None else problem.name(instance.best),
        },
    )


def _correct(instance: Instance, recommended: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which recommendations, -1 for none, are right."""
    if instance.best is None:
        return recommended < 0
    return instance.problem.copies(instance.best)[recommended] & (recommended >= 0)


def _efficiency(instance: Instance, allocation: Array, shape: tuple[int, ...]) -> Array:
    rate = optimal_rate(instance).value
    flat = allocation.reshape(-1, len(instance.problem.arms))
    if not 0 < rate < np.inf or not len(flat):
        return np.full(shape, np.nan)
    return smallest_exponents(instance, flat).reshape(shape) / rate
