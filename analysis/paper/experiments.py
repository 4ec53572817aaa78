"""All parts of the report, and how they are run: numbers, figures, claims."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import xarray as xr

from bayes_feasible.analysis.paper import ablations, comparisons, theory
from bayes_feasible.analysis.paper import claims as table
from bayes_feasible.analysis.paper.claims import Claim
from bayes_feasible.analysis.paper.runs import Data, Part, Piece, complete
from bayes_feasible.analysis.report import style
from bayes_feasible.analysis.study.store import Store
from bayes_feasible.files.atomic import write_bytes

PARTS = {  # in the order of the table
    **comparisons.PARTS,
    "ablations": Part(ablations.work, ablations.claims, ablations.pictures),
    "theory": Part(theory.pieces, theory.claims),
}
REPETITIONS = 1000
STORE = "parts"  # the folder of what was computed


def report(
    folder: Path,
    repetitions: int = REPETITIONS,
    only: Sequence[str] = tuple(PARTS),
    *,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> list[Claim]:
    """Run parts of the report and write their files and the table of claims.

    Numbers in the folder that have the same settings are kept. `repetitions` are runs of each rule
    in each setting; where many instances are averaged, in all. `workers` are processes: by default
    one for each core, and 0 for this process alone. `say` is told about progress. Returns the
    table: of these parts, and of those that earlier runs left in the folder.
    """
    unknown = sorted(set(only) - set(PARTS))
    if unknown:
        raise ValueError(f"only: expected some of {', '.join(PARTS)}, got {', '.join(unknown)}")
    if repetitions < 2:
        raise ValueError(f"repetitions: expected at least 2, got {repetitions}")
    (folder / STORE).mkdir(parents=True, exist_ok=True)
    store = Store(folder / STORE)
    command = f"python -m bayes_feasible.analysis.paper --out paper --repetitions {repetitions}"
    commands = {name: f"{command} --only {name}" for name in PARTS if name in only}
    pieces = {name: PARTS[name].pieces(repetitions) for name in commands}
    for name, command in commands.items():
        say(f"{name}: {command}")
    processes = (os.cpu_count() or 1) if workers is None else workers
    for name, data in finish(pieces, store, processes, say):
        rows = conclude(PARTS[name], data, folder, commands[name])
        write_bytes(folder / f"claims_{name}.json", table.to_json(rows).encode())
    paths = [folder / f"claims_{name}.json" for name in PARTS]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.exists()]
    claims = [claim for text in texts for claim in table.from_json(text)]
    table.write(claims, folder)
    return claims


def finish(
    parts: Mapping[str, Sequence[Piece]], store: Store, workers: int, say: Callable[[str], None]
) -> Iterator[tuple[str, dict[str, xr.Dataset]]]:
    """Give each part of the work as soon as it is done: its name and its Datasets, by name.

    What is finished is kept in the store, and written beside it under its plain name; what is
    there already and has the same settings is not computed again.
    """
    found: dict[str, xr.Dataset] = {}
    pieces = [piece for own in parts.values() for piece in own]
    for piece, dataset, kept in complete(pieces, store, workers, progress=sys.stderr.isatty()):
        write_bytes(store.folder.parent / f"{piece.name}.nc", store.read(piece.key))
        found[piece.name] = dataset
        say(f"  {piece.name}.nc: {'kept' if kept else 'written'}")
        for name, own in parts.items():
            if piece in own and all(one.name in found for one in own):
                yield name, {one.name: found[one.name] for one in own}


def conclude(part: Part, data: Data, folder: Path, command: str) -> list[Claim]:
    """Write the figures of a part; returns its rows of the table."""
    for name, figure in part.pictures(data).items():
        style.save(figure, folder / name)
    return [replace(row, command=row.command or command) for row in part.claims(data)]
