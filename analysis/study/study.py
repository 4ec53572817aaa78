"""A study: rules on an instance, many times over, and the verdict; never losing work.

The work is cut into parts, each written whole with a checksum as soon as it is computed. The
same call again goes on where the last one stopped, however it stopped, and ends with the same
bits as an undisturbed one, wherever the parts were computed.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import bayes_feasible
from bayes_feasible import _check
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.study import optimum, running
from bayes_feasible.analysis.study.folder import FIGURES, StudyFolder
from bayes_feasible.analysis.study.parts import Part, cut, read_part
from bayes_feasible.analysis.study.specification import Checks, Specification, specified
from bayes_feasible.analysis.study.store import compute, digest, hash_bytes, key_of
from bayes_feasible.analysis.study.verdicts import require_summary
from bayes_feasible.files.guard import blame
from bayes_feasible.posterior import Posterior
from bayes_feasible.simulation import streams
from bayes_feasible.simulation.simulate import Replicate, _dataset, _replicate, play

TIMINGS = ("seconds", "compile_seconds", "ess_per_second")  # of samplers, never twice the same
VERDICT_CODE = (
    "analysis.study.convergence",
    "analysis.study.judge",
    "analysis.study.verdicts",
    "analysis.study.decay",
    "models.rate_regression",
)
FIGURE_CODE = ("analysis.report.figures", "analysis.report.geometry", "analysis.report.style")
FIGURE_DATA = ("summary.nc", "scoreboard.nc")


@dataclass(frozen=True)
class Study:
    """A finished study.

    Attributes
    ----------
    folder : Path
    specification : Specification
    results : Dataset
        What `simulate` gives.
    optimum : Dataset
        See `bayes_feasible.analysis.study.optimum.optimum`.
    summary : Dataset or None
        The verdict on each rule, see `bayes_feasible.analysis.study.convergence`.
    scoreboard : dict of int to Dataset
        For each checkpoint of the checks, see `bayes_feasible.analysis.samplers.scoreboard`.
    files : list of Path
        What there is to read in the folder.
    computed, reused : int
        Parts computed by this call, and found finished.
    notes : list of str
        What the user should know, such as parts that were damaged.
    """

    folder: Path
    specification: Specification
    results: xr.Dataset
    optimum: xr.Dataset
    summary: xr.Dataset | None
    scoreboard: dict[int, xr.Dataset]
    files: list[Path]
    computed: int = 0
    reused: int = 0
    notes: list[str] = field(default_factory=list)

    def tables(self) -> str:
        """Format the study as text, the verdict last."""
        texts = [self.specification.title] if self.specification.title else []
        texts.append(optimum.tables(self.optimum))
        texts += [self._sampler_table(*each) for each in self.scoreboard.items()]
        if self.summary is not None:
            from bayes_feasible.analysis.study import convergence

            texts.append(convergence.table(self.summary))
        return "\n\n".join(texts)

    def _sampler_table(self, time: int, board: xr.Dataset) -> str:
        from bayes_feasible.analysis.samplers import scoreboard

        rule = self.specification.checks.rule if self.specification.checks else ""
        title = f"Samplers of the alternative set after {time:,} pulls of {rule}"
        with blame(self.folder / "scoreboard.nc"):
            return f"{title}\n{scoreboard.table(board)}"


def study(
    specification: Any = None,
    out: str | os.PathLike[str] = "study",
    *,
    workers: int | None = None,
    dask: str | None = None,
    restart: bool = False,
    extend: bool = False,
    only_results: bool = False,
    progress: bool | None = None,
) -> Study:
    """Run a study, or resume it, and draw its conclusions.

    Parameters
    ----------
    specification : path, dict or Specification, optional
        See `bayes_feasible.analysis.study.specification`; End of Optimism by default.
    out : path
        The study's folder: new, empty, or with the same study in it, which is then resumed.
    workers : int, optional
        Local processes; by default one a core, for work that is worth it.
    dask : str, optional
        Compute on Dask instead: the address of a scheduler, or "local:N".
    restart : bool
        Discard what is in the folder, even if it belongs to another specification.
    extend : bool
        If the specification has changed, keep the parts that still apply: those of the same
        instance, rule, checkpoints and seed.
    only_results : bool
        Compute and combine the parts; leave checks, verdict, figures and report for later.
    progress : bool, optional
        Whether to show progress bars; by default on a terminal.

    Returns
    -------
    Study

    Raises
    ------
    ValueError
        If the specification is wrong, or the folder holds another study.
    Unfinished
        If workers keep dying, or the disk is full; finished parts are kept.
    KeyboardInterrupt
        On Ctrl-C, with a message on how to resume; finished parts are kept.

    Examples
    --------
    >>> import tempfile
    >>> specification = {"instance": {"name": "end_of_optimism", "alpha": 0.3},
    ...                  "rules": ["Oracle", "Uniform"], "horizon": 100, "replicates": 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = study(specification, folder, workers=1, only_results=True)
    ...     again = study(specification, folder, workers=1, only_results=True)
    >>> first.computed, again.computed, again.results.identical(first.results)
    (2, 0, True)
    >>> list(again.results.data_vars)
    ['recommended', 'correct', 'log_error', 'allocation', 'efficiency']
    """
    wanted = specified(specification)
    workers = running.check_place(workers, dask)
    if restart and extend:
        raise ValueError("restart: it discards what extend would keep; give one of them")
    show = sys.stderr.isatty() if progress is None else progress
    with running.kept_in(_check.path("out", out), "study") as path:
        folder = StudyFolder(path, wanted, restart=restart, extend=extend)
        parts = cut(wanted)
        with running.resumable(folder.parts, parts, path):
            computed = _compute(folder, parts, workers, dask, show)
            found = _conclude(folder, parts, only_results, show)
    return replace(found, computed=computed, reused=len(parts) - computed)


def _compute(
    folder: StudyFolder, parts: list[Part], workers: int | None, dask: str | None, show: bool
) -> int:
    """Compute and write the parts that are missing; returns how many."""
    wanted = folder.specification
    folder.parts.remove_all_but({part.key for part in parts} | set(_check_keys(wanted).values()))
    missing = [part for part in parts if part.key not in folder.parts]
    if not missing:
        return 0
    rounds = wanted.horizon * sum(part.size for part in missing)
    if running.runs_here(dask):
        _compile(wanted, {part.rule for part in missing}, show)
    total = wanted.horizon * wanted.replicates * len(wanted.rules)
    done = compute(
        folder.parts, missing, running.choose_place(missing, rounds, workers, dask, show)
    )
    with closing(done), running.progress_bar("study", total, "round", show, total - rounds) as bar:
        for part in done:
            bar.update(wanted.horizon * part.size)
    return len(missing)


def _compile(wanted: Specification, rules: set[str], show: bool) -> None:
    """Play one round of each rule, which compiles it once for all workers."""
    once, seed = np.ones(1, dtype=np.int64), np.random.SeedSequence(wanted.seed)
    with running.progress_bar("compile", len(rules), "rule", show) as bar:
        for name in sorted(rules):
            _replicate(wanted.instance, name, wanted.rule(name).maker, once, seed)
            bar.update()


def _combine(folder: StudyFolder, parts: list[Part]) -> xr.Dataset:
    wanted = folder.specification
    finished: dict[str, dict[int, Replicate]] = {rule.name: {} for rule in wanted.rules}
    for part in parts:
        for i, replicate in enumerate(read_part(folder.parts, part, wanted)):
            finished[part.rule][part.first + i] = replicate
    dataset = _dataset(wanted.instance, finished, wanted.times, wanted.replicates, wanted.seed)
    return dataset.assign_attrs(study=wanted.hash)


def _conclude(folder: StudyFolder, parts: list[Part], only_results: bool, show: bool) -> Study:
    """Combine the parts and draw the conclusions, re-using what was made of the same parts."""
    wanted = folder.specification
    origin = folder.parts.origin(part.key for part in parts)
    results = folder.make("results.nc", origin, lambda: _combine(folder, parts))
    best = folder.make(
        "optimum.nc", origin, lambda: optimum.optimum(wanted.instance, wanted.checkpoints)
    )
    with folder.blame("optimum.nc"):
        optimum.tables(best)
    summary, boards = None, {}
    if not only_results:
        boards = _scoreboards(folder, show)
        made_from = digest([origin, _code(*VERDICT_CODE)])
        with folder.blame("results.nc"):
            _require_results(results, wanted)
        summary = folder.make("summary.nc", made_from, lambda: _summarise(results, wanted, show))
        with folder.blame("summary.nc"):
            require_summary(summary)
        _figures(folder, summary, boards)
        _report(folder.path)
    return Study(
        folder.path, wanted, results, best, summary, boards, folder.files(), notes=folder.notes
    )


def _require_results(results: xr.Dataset, wanted: Specification) -> None:
    """Refuse what does not hold every replicate of every rule."""
    rules = [rule.name for rule in wanted.rules]
    each = (len(rules), wanted.replicates, len(wanted.checkpoints))
    allocation = (*each, len(wanted.instance.problem.arms))
    for name in ("log_error", "correct", "efficiency", "allocation"):
        if results[name].shape != (allocation if name == "allocation" else each):
            raise ValueError(f"expected {name!r} of {each} rules, replicates and checkpoints")
    if results.rule.values.tolist() != rules or tuple(results.time.values) != wanted.checkpoints:
        raise ValueError("expected the rules and checkpoints of the specification")


def _summarise(results: xr.Dataset, wanted: Specification, show: bool) -> xr.Dataset:
    from bayes_feasible.analysis.study import convergence

    return convergence.summarise(results, wanted.instance, seed=_seed(wanted), progress=show)


def _seed(wanted: Specification) -> int:
    """A seed that PyMC takes, whatever the size of the study's."""
    return int(np.random.SeedSequence(wanted.seed).generate_state(1)[0])


def _figures(folder: StudyFolder, summary: xr.Dataset, boards: dict[int, xr.Dataset]) -> None:
    """Draw the figures, unless they are there as they would be drawn."""
    sources = [folder.outputs[name]["sha256"] for name in FIGURE_DATA if name in folder.outputs]
    made_from = digest([*sources, _code(*FIGURE_CODE)])
    drawn = [name for name in folder.outputs if name.startswith(f"{FIGURES}/")]
    if not drawn or any(folder.kept(name, made_from) is None for name in drawn):
        path = folder.folder.make_folder(FIGURES)
        with folder.blame("summary.nc"):
            paths = _draw(summary, boards, folder.specification, path)
        names = [f"{FIGURES}/{each.name}" for each in paths]
        folder.keep_files(names, made_from, instead_of=drawn)


def _code(*modules: str) -> str:
    """A checksum of modules: what they make is made again when they have changed."""
    specs = [find_spec(f"bayes_feasible.{name}") for name in modules]
    paths = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    return digest([bayes_feasible.__version__, *(hash_bytes(path.read_bytes()) for path in paths)])


def _draw(
    summary: xr.Dataset, boards: dict[int, xr.Dataset], wanted: Specification, path: Path
) -> list[Path]:
    from bayes_feasible.analysis.report import figures

    return figures.draw_study(summary, wanted.instance, path, boards)


def _report(path: Path) -> Path:
    from bayes_feasible.analysis.report import report

    return report.write(path)


def _scoreboards(folder: StudyFolder, show: bool) -> dict[int, xr.Dataset]:
    """The samplers' scores at each checkpoint of the checks, and all of them in one file."""
    wanted = folder.specification
    keys = _check_keys(wanted)
    if wanted.checks is None:
        return {}
    if any(key not in folder.parts for key in keys.values()):
        for time, posterior in posteriors(wanted, wanted.checks.rule, wanted.checks.checkpoints):
            if keys[time] not in folder.parts:
                board = _score(posterior, wanted, wanted.checks, show)
                folder.parts.write(f"check-{time:09d}", keys[time], board)
    boards = {time: folder.parts.read_dataset(key) for time, key in keys.items()}
    for time, board in boards.items():
        with blame(folder.parts.path(keys[time])):
            for name in ("verdict", "reason", "rhat", "ess_bulk", "ess_tail"):
                if board[name].shape != (len(wanted.checks.samplers),):
                    raise ValueError(f"expected {name!r} of each sampler")
    origin = folder.parts.origin(keys.values())
    times = xr.DataArray(list(boards), dims="time", name="time")
    folder.make("scoreboard.nc", origin, lambda: xr.concat(list(boards.values()), times))
    return boards


def _score(posterior: Posterior, wanted: Specification, checks: Checks, show: bool) -> xr.Dataset:
    """The samplers' scores but for their speed, so that the same study gives the same bytes."""
    from bayes_feasible.analysis.samplers import scoreboard

    alternative = Alternative(wanted.instance.problem, wanted.instance.best)
    board = scoreboard.scoreboard(
        posterior, alternative, checks.samplers, draws=checks.draws, chains=checks.chains,
        seed=_seed(wanted), progress=show,
    )  # fmt: skip
    return board.assign({name: xr.full_like(board[name], np.nan) for name in TIMINGS})


def _check_keys(wanted: Specification) -> dict[int, str]:
    """The keys of the checks' files, by checkpoint."""
    if wanted.checks is None:
        return {}
    causes = {
        "instance": wanted.world(),
        "rule": wanted.rule(wanted.checks.rule).meaning(),
        "seed": wanted.seed,
        "checks": {k: v for k, v in wanted.checks.document().items() if k != "checkpoints"},
    }
    return {time: key_of(causes | {"time": time}) for time in wanted.checks.checkpoints}


def posteriors(
    wanted: Specification, name: str, times: Sequence[int], replicate: int = 0
) -> Iterator[tuple[int, Posterior]]:
    """Replay a replicate of a rule; its posterior at each of some rising times.

    Examples
    --------
    >>> instance = {"name": "end_of_optimism", "alpha": 0.3}
    >>> wanted = specified(
    ...     {"instance": instance, "rules": ["Oracle"], "horizon": 100, "replicates": 2}
    ... )
    >>> {time: posterior.pulls for time, posterior in posteriors(wanted, "Oracle", [10, 100])}
    {10: 10, 100: 100}
    """
    seed, maker = streams.child(wanted.seed, replicate), wanted.rule(name).maker
    played = play(wanted.instance, name, maker, times, seed)
    for time, (rule, environment) in zip(times, played, strict=True):
        yield time, environment.posterior(rule)
