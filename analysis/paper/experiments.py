"""All parts of the report, and how one is run: numbers, figures, claims."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import xarray as xr

from bayes_feasible._atomic import replaced
from bayes_feasible.analysis import figures
from bayes_feasible.analysis.paper import (
    ablations,
    end_of_optimism,
    movielens,
    peps,
    random_ball,
)
from bayes_feasible.analysis.paper import claims as table
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.runs import Piece, Study, kept, run, watch

EXPERIMENTS: dict[str, Any] = {
    "end_of_optimism": end_of_optimism,
    "random_ball": random_ball,
    "peps": peps,
    "movielens": movielens,
    "ablations": ablations,
}
THEORY = "theory"
PARTS = (*EXPERIMENTS, THEORY)  # in the order of the table
REPETITIONS = 1000
QUICK = 100  # up to here the theory's quick version is run too


def report(
    folder: Path,
    repetitions: int = REPETITIONS,
    only: Sequence[str] = PARTS,
    *,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> list[Claim]:
    """Run parts of the report and write their files and the table of claims.

    Parameters
    ----------
    folder : Path
        Where everything is written; numbers in it that have the same settings are kept.
    repetitions : int
        Runs of each rule in each setting; where many instances are averaged, in all.
    only : names of parts
    workers : int, optional
        Processes; by default one for each core, and 0 for this process alone.
    say : callable
        Told about progress.

    Returns
    -------
    list of Claim
        The table: of these parts, and of those that earlier runs left in the folder.
    """
    unknown = sorted(set(only) - set(PARTS))
    if unknown:
        raise ValueError(f"only: expected some of {', '.join(PARTS)}, got {', '.join(unknown)}")
    if repetitions < 2:
        raise ValueError(f"repetitions: expected at least 2, got {repetitions}")
    folder.mkdir(parents=True, exist_ok=True)
    with _pool(workers) as executor:
        for name in PARTS:
            if name not in only:
                continue
            command = _command(name, repetitions)
            say(f"{name}: {command}")
            if name == THEORY:
                rows = _theory(folder, repetitions <= QUICK, executor, say)
            else:
                rows = run_part(EXPERIMENTS[name], folder, repetitions, command, executor, say)
            _write(folder / f"claims_{name}.json", rows)
    claims = [claim for name in PARTS for claim in _stored(folder / f"claims_{name}.json")]
    table.write(claims, folder)
    return claims


def run_part(
    part: Any,
    folder: Path,
    repetitions: int,
    command: str,
    executor: Executor | None,
    say: Callable[[str], None],
    **options: Any,
) -> list[Claim]:
    """One experiment: numbers, figures, and its rows of the table."""
    data = {}
    work = [_piece(study, executor) for study in part.studies(repetitions, **options)]
    if hasattr(part, "pieces"):
        work += part.pieces(repetitions, **options)
    for piece in work:
        start = time.perf_counter()
        data[piece.name] = kept(
            folder / f"{piece.name}.nc", piece.settings, piece.make,
            report=lambda text, start=start: say(  # type: ignore[misc]
                f"  {text} ({time.perf_counter() - start:.0f} s)"
            ),
        )  # fmt: skip
    for name, figure in part.pictures(data).items():
        for kind in ("png", "svg"):
            with replaced(folder / f"{name}.{kind}") as temporary:
                figures.write(figure, temporary)
    return list(part.claims(data, command))


def _piece(study: Study, executor: Executor | None) -> Piece:
    def make() -> xr.Dataset:
        first = replace(study, times=(1,), instances=study.instances[:1], replicates=1)
        watch(first, 0, 0, 1)  # compiles once, for all processes
        return run(study, executor, progress=sys.stderr.isatty())

    return Piece(study.name, study.settings(), make)


def _theory(
    folder: Path, quick: bool, executor: Executor | None, say: Callable[[str], None]
) -> list[Claim]:
    """The rows on theory; each piece is kept when it is done."""
    from bayes_feasible.analysis.paper import theory

    size = "quick" if quick else "full"
    paths = {name: folder / f"theory_{size}_{name}.json" for name in theory.PIECES}
    missing = [name for name, path in paths.items() if not path.exists()]
    if executor is None:
        for name in missing:
            say(_prove(paths[name], quick, name))
    else:
        futures = [executor.submit(_prove, paths[name], quick, name) for name in missing]
        for future in as_completed(futures):
            say(future.result())
    return [claim for path in paths.values() for claim in _stored(path)]


def _prove(path: Path, quick: bool, name: str) -> str:
    """Write the rows of one piece of theory; returns what to say of it."""
    from bayes_feasible.analysis.paper import theory

    start = time.perf_counter()
    _write(path, theory.claims(quick, pieces=[name]))
    return f"  {path.name}: written ({time.perf_counter() - start:.0f} s)"


def _write(path: Path, rows: Sequence[Claim]) -> None:
    with replaced(path) as temporary:
        temporary.write_text(table.to_json(rows), encoding="utf-8")


def _stored(path: Path) -> list[Claim]:
    return table.from_json(path.read_text(encoding="utf-8")) if path.exists() else []


def _command(name: str, repetitions: int) -> str:
    return (
        "python -m bayes_feasible.analysis.paper --out paper "
        f"--repetitions {repetitions} --only {name}"
    )


def _pool(workers: int | None) -> Any:
    """Processes that start afresh: a copy of this one would copy its threads' locks too."""
    number = (os.cpu_count() or 1) if workers is None else workers
    if number == 0:
        return nullcontext()
    return ProcessPoolExecutor(number, mp_context=get_context("spawn"))
