"""Every sampler on every target of the public set: a grid of verdicts, kept as it grows.

Each square is a file found by what its numbers depend on, so a board that was stopped goes on where
it stopped, and a new sampler costs its own squares alone.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from tqdm import tqdm

from bayes_feasible import _check
from bayes_feasible._display import visible
from bayes_feasible._imports import code_of, import_object
from bayes_feasible.analysis.report import style
from bayes_feasible.analysis.report.page import Table, fill, picture
from bayes_feasible.analysis.samplers import sample as sampling
from bayes_feasible.analysis.samplers import scoreboard
from bayes_feasible.analysis.samplers.targets import TARGETS, named
from bayes_feasible.analysis.samplers.verdicts import VERDICTS
from bayes_feasible.analysis.samplers.yardstick import Yardstick
from bayes_feasible.analysis.study import running
from bayes_feasible.analysis.study.store import Store, Task, compute, key_of
from bayes_feasible.files.atomic import netcdf_bytes
from bayes_feasible.files.guard import Folder

PARTS = "parts"
PAGE, TABLE = "board.html", "board.nc"
TONES = {"trusted": "good", "doubtful": "open", "condemned": "bad", "failed": "fault"}
COLOURS = {"trusted": "#009E73", "doubtful": "#E69F00", "condemned": "#D55E00", "failed": "#7F7F7F"}
SQUARE = 0.42  # inches


def board(
    folder: str | Path,
    samplers: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    seed: int = 0,
    jobs: int = 1,
    progress: bool = True,
) -> xr.Dataset:
    """Judge samplers on targets of the public set, and draw the board as a page.

    Parameters
    ----------
    folder : path
        Holds `parts/`, one file a square, `board.nc` and the page `board.html`. Run again with
        the same settings, and what is there is not computed again.
    samplers : sequence of str, optional
        Names out of `samplers.SAMPLERS`; those of `QUICK` by default. `module:function` is a
        sampler of your own, see `own.Target`.
    targets : sequence of str, optional
        Names out of `targets.TARGETS`; all by default.
    draws, tune, chains, seed
        As in `scoreboard`.
    jobs : int
        Squares that are computed at the same time.
    progress : bool

    Returns
    -------
    Dataset
        Over (`target`, `sampler`): what `judge` says of the whole of a sampler's draws.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = board(folder, ["exact"], ["one_event_4"], draws=200, progress=False)
    ...     made.verdict.item(), (Path(folder) / "board.html").exists()
    ('trusted', True)
    """
    names = list(sampling.QUICK if samplers is None else samplers)
    for name in names:
        if ":" not in name:
            sampling.check_name(name)
    chosen = list(TARGETS if targets is None else targets)
    for name in chosen:
        if name not in TARGETS:
            raise ValueError(_check.unknown("target", name, TARGETS))
    sizes = {
        "draws": _check.count("draws", draws), "tune": _check.count("tune", tune, least=0),
        "chains": _check.count("chains", chains, least=2),
        "seed": _check.count("seed", seed, least=0),
    }  # fmt: skip
    jobs = _check.count("jobs", jobs)
    tasks = {(t, s): _task(t, s, sizes) for t in chosen for s in names}
    with running.kept_in(_check.path("folder", folder), "board", "folder") as path:
        files = Folder(path)
        store = Store(files.make_folder(PARTS))
        with running.resumable(store, list(tasks.values()), path):
            _compute(store, list(tasks.values()), jobs, progress)
        how: Mapping[str, Any] = {"data_vars": "all", "coords": "minimal", "compat": "equals",
                                  "join": "outer"}  # fmt: skip
        rows = [xr.concat([store.read_dataset(tasks[t, s].key) for s in names], "sampler", **how)
                for t in chosen]  # fmt: skip
        result = xr.concat(rows, xr.DataArray(chosen, dims="target", name="target"), **how)
        files.write(TABLE, netcdf_bytes(result))
        files.write(PAGE, _page(result, sizes).encode())
    return result


def _compute(store: Store, tasks: Sequence[Task], jobs: int, progress: bool) -> None:
    bar = tqdm(total=len(tasks), desc="squares", unit="square", disable=not progress)
    with bar, closing(compute(store, tasks, jobs if jobs > 1 else False)) as done:
        for task in done:
            bar.set_postfix_str(f"{task.stem} is done")
            bar.update()


def _task(target: str, sampler: str, sizes: Mapping[str, int]) -> Task:
    """The square of a target and a sampler."""
    causes: dict[str, object] = {"target": target, "sampler": sampler, **sizes}
    if ":" in sampler:
        causes["code"] = code_of(sampler).hex()
    stem = f"{target}-{sampler.replace(':', '.')}"
    return Task(stem, key_of(causes), partial(_square, target, sampler, dict(sizes)))


def _square(target: str, sampler: str, sizes: dict[str, int]) -> xr.Dataset:
    """One sampler on one target."""
    posterior, wrong = named(target)
    chosen = import_object(sampler) if ":" in sampler else sampler
    try:
        trees = scoreboard.run(posterior, wrong, {sampler: chosen}, progress=False, **sizes)
    except (ValueError, RuntimeError, MemoryError) as error:  # of PyMC, PyTensor or nutpie
        tree = xr.DataTree.from_dict({"posterior": xr.Dataset()})
        tree.attrs = {"sampler": sampler, "error": f"{type(error).__name__}: {error}"[:300]}
        trees = {sampler: tree}
    found = scoreboard.judge(
        trees, posterior, wrong, seed=sizes["seed"], yardstick=_yardstick(target, sizes["seed"])
    )
    single = [name for name in found.data_vars if found[name].dims in ((), ("sampler",))]
    return found[single].reset_coords(drop=True)


@cache
def _yardstick(target: str, seed: int) -> Yardstick:
    return Yardstick.of(*named(target), seed)


def _page(result: xr.Dataset, sizes: Mapping[str, int]) -> str:
    """The board as one web page that stands alone."""
    samplers, targets = result.sampler.values.tolist(), result.target.values.tolist()
    counts = {
        s: [int((result.verdict.sel(sampler=s) == v).sum()) for v in VERDICTS] for s in samplers
    }
    listed = sorted(samplers, key=lambda s: [-n for n in counts[s]])
    verdicts = [
        {
            "name": s, "badge": f"{counts[s][0]} of {len(targets)} trusted",
            "tone": "good" if counts[s][0] == len(targets) else "bad" if counts[s][2] else "open",
            "sentence": ", ".join(
                f"{n} {v}" for n, v in zip(counts[s], VERDICTS, strict=True) if n),
        }
        for s in listed
    ]  # fmt: skip
    rows = [[t, s, *_cells(result.sel(target=t, sampler=s))] for t in targets for s in listed]
    header = ["target", "sampler", "verdict", "R-hat", "ESS", "ESS/s", "outside", "log P off by",
              "why"]  # fmt: skip
    about = [[t, TARGETS[t].title, f"{float(_first(result, t).exact_log_probability):.6g}"]
             for t in targets]  # fmt: skip
    return visible(
        fill(
            "board.html.j2", title="Samplers on hard targets", verdicts=verdicts,
            about=Table("the targets", ["target", "what it is", "exact log P"], about, (0, 1)),
            figure=picture(style.svg(draw(result)), "verdicts of samplers on targets",
                           "Verdict of each sampler (columns) on each target (rows)."),
            numbers=Table("every sampler on every target", header, rows, (0, 1, 2), (8,)),
            sizes=sizes,
        )
    )  # fmt: skip


def _first(result: xr.Dataset, target: str) -> xr.Dataset:
    return result.sel(target=target).isel(sampler=0)


def _cells(row: xr.Dataset) -> list[str]:
    forms = {"rhat": ".3f", "ess_bulk": ",.0f", "ess_per_second": ",.0f"}
    cells = [_number(row[name].item(), form) for name, form in forms.items()]
    outside = row.outside.item()
    return [
        row.verdict.item(), *cells, "–" if np.isnan(outside) else f"{100 * outside:.3g} %",
        _number(row.log_probability_error.item(), "+.2g"), row.reason.item(),
    ]  # fmt: skip


def _number(value: float, form: str) -> str:
    return "–" if np.isnan(value) else format(value, form)


def draw(result: xr.Dataset) -> Figure:
    """The grid of verdicts, coloured, with effective draws in thousands."""
    samplers, targets = result.sampler.values.tolist(), result.target.values.tolist()
    with mpl.rc_context(style.STYLE):
        size = (2.6 + 1.3 * SQUARE * len(samplers), 1.8 + SQUARE * len(targets) * 0.75)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        for i, t in enumerate(targets):
            for j, s in enumerate(samplers):
                square = result.sel(target=t, sampler=s)
                colour = COLOURS[square.verdict.item()]
                axes.add_patch(mpl.patches.Rectangle((j, i), 0.94, 0.94, color=colour))
                ess = square.ess_bulk.item()
                text = "" if np.isnan(ess) else f"{ess / 1000:.1f}"
                axes.text(j + 0.47, i + 0.47, text, ha="center", va="center", color="w", size=7)
        axes.set(xlim=(0, len(samplers)), ylim=(len(targets), 0))
        axes.set_xticks(np.arange(len(samplers)) + 0.47, map(style.shorten, samplers), rotation=60,
                        ha="right", size=8)  # fmt: skip
        axes.set_yticks(np.arange(len(targets)) + 0.47, map(style.shorten, targets), size=8)
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        figure.legend(
            handles=[Patch(color=c, label=v) for v, c in COLOURS.items()], ncols=2, frameon=False,
            loc="outside lower center", fontsize=9, title="effective draws in thousands",
        )  # fmt: skip
    return figure
