"""All of a trial for other programs: pulls, journal, and what they come to."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import bayes_feasible
from bayes_feasible._display import visible_json
from bayes_feasible.files.atomic import netcdf_bytes
from bayes_feasible.files.pulls import write_pulls
from bayes_feasible.trial.trial import Trial

if TYPE_CHECKING:
    import xarray as xr


def export(trial: Trial, kind: str, *, spreadsheet: bool = False) -> bytes:
    """The content of a file of this kind, one of `KINDS`; the same trial gives the same bytes.

    Parameters
    ----------
    trial : Trial
    kind : {".csv", ".json", ".nc"}
        The pulls as a table; or all there is: the journal, the pulls and the status, as JSON or
        as netCDF, with a group for each of these.
    spreadsheet : bool
        In a table, whether names that a spreadsheet would compute get an apostrophe in front.

    Examples
    --------
    >>> import tempfile
    >>> from bayes_feasible import Problem
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trial = Trial.new(folder + "/a.trial", Problem([[1, 0], [0, 1]]), seed=1)
    ...     _ = trial.tell(0, 3.0)
    ...     print(export(trial, ".csv").decode(), list(json.loads(export(trial, ".json"))))
    arm,reward
    0,3.0
     ['bayes_feasible', 'trial', 'head', 'events', 'pulls', 'status', 'probability_best']
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    with trial.still():
        return KINDS[kind](trial, spreadsheet)


def _csv(trial: Trial, spreadsheet: bool) -> bytes:
    return write_pulls(trial.history, spreadsheet=spreadsheet).encode()


def _json(trial: Trial, _: bool) -> bytes:
    history, names = trial.history, trial.problem.outcome_names
    values = np.column_stack([history.rewards, history.costs]).tolist()
    pulls = [
        {
            "arm": trial.arm_name(arm),
            "count": count,
            **dict(zip(names, row, strict=True)),
            **{f"sd_{name}": sd for name, sd in zip(names, sds, strict=True) if sd == sd},
        }
        for arm, count, row, sds in zip(
            history.arms.tolist(), history.counts.tolist(), values, history.sds.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    status = trial.status().to_dict()
    status.pop("trial")  # a path of this machine
    document = {
        **_origin(trial),
        "events": trial.events,
        "pulls": pulls,
        "status": status,
        "probability_best": _probability_best(trial),
    }
    return (visible_json(_plain(document)) + "\n").encode()


def _netcdf(trial: Trial, _: bool) -> bytes:
    import xarray as xr

    status, history = trial.status(), trial.history
    names = xr.DataArray(trial.problem.coords["arm"], dims="choice")
    lines = [json.dumps(event) for event in trial.events]
    tree = xr.DataTree.from_dict(
        {
            "/": history.to_dataset().assign_coords(arm_name=names).assign_attrs(_origin(trial)),
            "/candidates": _candidates(trial, status.candidates),
            "/arms": status.arms,
            "/mistakes": status.mistakes.to_dataset(name="log_probability"),
            "/journal": xr.Dataset({"event": ("line", np.array(lines, dtype=object))}),
        }
    )
    return netcdf_bytes(tree)


KINDS: dict[str, Callable[[Trial, bool], bytes]] = {".csv": _csv, ".json": _json, ".nc": _netcdf}


def _origin(trial: Trial) -> dict[str, str]:
    return {
        "bayes_feasible": bayes_feasible.__version__,
        "trial": Path(trial.path).name,
        "head": trial.head,
    }


def _probability_best(trial: Trial) -> dict[str, Any] | None:
    """By name, and `none`; None within a parameter radius."""
    if trial.problem.parameter_radius is not None:
        return None
    found = trial.probability_best()
    names = map(str, found.candidate.values.tolist())
    best = dict(zip(names, found.best.values.tolist(), strict=True))
    return {"best": best, "none": float(found.none)}


def _candidates(trial: Trial, known: "xr.Dataset") -> "xr.Dataset":
    if trial.problem.parameter_radius is not None:
        return known
    found = trial.probability_best()
    return known.assign(best=found.best, none=found.none)


def _plain(value: Any) -> Any:
    """What JSON knows: no number is null, an infinite one a text, as in problem files."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
