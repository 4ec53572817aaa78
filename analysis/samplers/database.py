"""The public targets as a posterior database: data, models, reference draws, checks.

Files are those of posteriordb (Magnusson et al., AISTATS 2025): one posterior a target, named
`target-gaussian_given_events`, with 10 chains of 1000 exact, independent draws. What no sampler
could tell, the exact log-probability of the set, stands beside the checks under `exact`.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from tqdm import tqdm

import bayes_feasible
from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible._draws import block_radius, stack_blocks
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.samplers.own import Target
from bayes_feasible.analysis.samplers.sample import prepare
from bayes_feasible.analysis.samplers.targets import TARGETS, named
from bayes_feasible.files.guard import Folder
from bayes_feasible.posterior import Posterior

MODEL = "gaussian_given_events"
CODE = Path(__file__).with_name("union")
CHAINS, DRAWS = 10, 1000
TRIES = 100  # sets of reference draws
LARGEST_RHAT = 1.01
DEVIATIONS, SPREAD = 4.0, 7.0  # of the effective draws allowed: posteriordb's own bounds
DATE = (2026, 11, 1)
ADDED = {"added_by": "bayes_feasible", "added_date": "-".join(map("{:02d}".format, DATE))}
REFERENCES = {
    "owen2019importance": "@article{owen2019importance,\n"
    "  title={Importance sampling the union of rare events with an application to power systems "
    "analysis},\n  author={Owen, Art B and Maximov, Yury and Chertkov, Michael},\n"
    "  journal={Electronic Journal of Statistics},\n  volume={13},\n  pages={231--254},\n"
    "  year={2019}\n}\n",
}


def write_targets(
    folder: str | Path, names: Sequence[str] | None = None, *, seed: int = 0, progress: bool = True
) -> list[str]:
    """Write targets of the public set as a posterior database.

    Parameters
    ----------
    folder : path
        Made if it is not there; files of the same names are replaced.
    names : sequence of str, optional
        All of `targets.TARGETS` by default.
    seed : int
        Of the reference draws.
    progress : bool

    Returns
    -------
    list of str
        Names of the posteriors.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_targets(folder, ["one_event_4"], progress=False)
    ...     check_targets(folder)["one_event_4-gaussian_given_events"]["ess_within_bounds"]
    ['one_event_4-gaussian_given_events']
    True
    """
    seed = _check.count("seed", seed, least=0)
    chosen = list(TARGETS if names is None else names)
    for name in chosen:
        if name not in TARGETS:
            raise ValueError(_check.unknown("target", name, TARGETS))
    path = _check.path("folder", folder)
    path.mkdir(parents=True, exist_ok=True)
    database = _Database(path)
    for name in tqdm(chosen, desc="targets", unit="target", disable=not progress):
        database.add(name, seed)
    database.finish()
    return [f"{name}-{MODEL}" for name in chosen]


class _Database:
    """A folder in which the files of posteriordb are put."""

    def __init__(self, path: Path) -> None:
        self._folder = Folder(path)

    def add(self, name: str, seed: int) -> None:
        """Write everything about one target; its posterior, which names the rest, at the end."""
        posterior, wrong = named(name)
        target = Target.of(prepare(posterior, wrong, seed=seed, chains=4))
        entry, whole = TARGETS[name], f"{name}-{MODEL}"
        self._zip(f"data/data/{name}.json", to_data(target))
        self._json(
            f"data/info/{name}.info.json",
            {
                "name": name, "keywords": ["synthetic", *entry.keywords], "title": entry.title,
                "description": "The posterior of a linear bandit, given that the recommended "
                f"candidate is not the best feasible one: {entry.title}.",
                "urls": [], "data_file": f"data/data/{name}.json", "references": None, **ADDED,
            },
        )  # fmt: skip
        self._zip(f"data/starts/{name}.json", [{"theta": at} for at in target.starts.tolist()])
        draws, diagnostics = _reference_draws(posterior, wrong, seed)
        self._zip(
            f"reference_posteriors/draws/draws/{whole}.json",
            [dict(zip(_names(target), chain.T.tolist(), strict=True)) for chain in draws],
        )
        measured = wrong.log_probability(posterior, seed=np.random.default_rng([seed, 2]))
        self._json(
            f"reference_posteriors/draws/info/{whole}.info.json",
            {
                "name": whole,
                "inference": {"method": "analytical", "method_arguments": {
                    "chains": CHAINS, "iter": DRAWS, "seed": seed}},
                "diagnostics": {"diagnostic_information": {"names": _names(target)}, **diagnostics},
                "checks_made": checks(diagnostics),
                "exact": {
                    "log_probability": measured.value, "standard_error": measured.standard_error,
                    "lower": measured.lower, "upper": measured.upper,
                    "event_names": measured.names,
                    "event_log_probabilities": measured.log_probabilities.tolist(),
                },
                "comments": "exact, independent draws", **ADDED,
                "versions": {"bayes_feasible": bayes_feasible.__version__},
            },
        )  # fmt: skip
        self._json(
            f"posteriors/{whole}.json",
            {
                "name": whole, "keywords": list(entry.keywords), "urls": [], "model_name": MODEL,
                "data_name": name, "reference_posterior_name": whole, "references": [],
                "dimensions": {"theta": draws.shape[2]}, **ADDED,
            },
        )  # fmt: skip

    def finish(self) -> None:
        """Write the model, its information, aliases and the bibliography."""
        codes = {"stan": f"models/stan/{MODEL}.stan", "pymc": f"models/pymc/{MODEL}.py"}
        for place in codes.values():
            self._write(place, (CODE / Path(place).name).read_bytes())
        self._json(
            f"models/info/{MODEL}.info.json",
            {
                "name": MODEL, "keywords": ["truncated"],
                "title": "A Gaussian given that at least one of some events happens",
                "description": "Events are intersections of half-spaces. The density is not "
                "smooth at their edges, and the union has many modes.",
                "urls": [], "references": list(REFERENCES),
                "model_implementations": {
                    kind: {"model_code": place} for kind, place in codes.items()},
                "model_code": codes, **ADDED,
            },
        )  # fmt: skip
        self._json("alias/posteriors.json", {})
        self._write("references/references.bib", "\n".join(REFERENCES.values()).encode())

    def _write(self, name: str, content: bytes) -> None:
        parts = Path(name).parts
        for i in range(1, len(parts)):
            self._folder.make_folder("/".join(parts[:i]))
        self._folder.write(name, content)

    def _json(self, name: str, value: Any) -> None:
        self._write(name, json.dumps(value, indent=2, allow_nan=False).encode())

    def _zip(self, name: str, value: Any) -> None:
        """The same numbers give the same bytes: the archive has no date of today."""
        stored = io.BytesIO()
        with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as archive:
            member = zipfile.ZipInfo(Path(name).name, (*DATE, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, json.dumps(value, allow_nan=False))
        self._write(f"{name}.zip", stored.getvalue())


def _reference_draws(
    posterior: Posterior, wrong: Alternative, seed: int
) -> tuple[Array, dict[str, Any]]:
    """Exact draws (chain, draw, coordinate) that pass the checks, and what is said of them.

    The checks bound the estimate of the effective draws of each coordinate, and with a hundred
    coordinates some independent draws break them by chance: these are drawn again.
    """
    rng = np.random.default_rng([seed, 1])
    for _ in range(TRIES):
        drawn = wrong.sample(posterior, DRAWS, rng, chains=CHAINS)
        draws = stack_blocks(drawn).reshape(CHAINS, DRAWS, -1)
        diagnostics = diagnose(draws)
        if all(made is not False for made in checks(diagnostics).values()):
            return draws, diagnostics
    raise RuntimeError(f"of {TRIES} sets of exact draws none passes the checks of posteriordb")


def to_data(target: Target) -> dict[str, Any]:
    """What the Stan and PyMC models are given; JSON has no infinity, so `asked` says what binds."""
    radius = block_radius(target.alternative.problem)
    asked = np.isfinite(target.limits)
    return {
        "D": len(target.mean), "B": target.limits.shape[1], "E": len(target.limits),
        "center": target.mean.tolist(), "root": np.linalg.cholesky(target.covariance).tolist(),
        "asked": asked.astype(int).tolist(), "normal": target.vectors.tolist(),
        "limit": np.where(asked, target.limits, 0.0).tolist(),
        "bounded": int(np.isfinite(radius).all()),
        "radius": np.where(np.isfinite(radius), radius, 0.0).tolist(),
    }  # fmt: skip


def diagnose(draws: Array) -> dict[str, Any]:
    """What posteriordb asks to be said of draws (chain, draw, coordinate)."""
    values = np.moveaxis(draws, 2, 0)
    return {
        "ndraws": int(draws.shape[0] * draws.shape[1]),
        "nchains": int(draws.shape[0]),
        "effective_sample_size_bulk": array_stats.ess(values, method="bulk").tolist(),
        "effective_sample_size_tail": array_stats.ess(
            values, method="tail", prob=(0.05, 0.95)
        ).tolist(),
        "r_hat": array_stats.rhat(values).tolist(),
        "divergent_transitions": None,
        "expected_fraction_of_missing_information": None,
    }


def checks(diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """The checks of posteriordb's definition of a reference posterior."""
    number = diagnostics["ndraws"]
    margin = DEVIATIONS * np.sqrt(SPREAD * number)
    sizes = [
        *diagnostics["effective_sample_size_bulk"], *diagnostics["effective_sample_size_tail"]
    ]  # fmt: skip
    return {
        "ndraws_is_10k": number == 10_000,
        "nchains_is_gte_4": diagnostics["nchains"] >= 4,
        "ess_within_bounds": bool(np.all(np.abs(np.array(sizes) - number) <= margin)),
        "r_hat_below_1_01": bool(np.max(diagnostics["r_hat"]) < LARGEST_RHAT),
        "efmi_above_0_2": None,  # there are no trajectories
    }


def check_targets(folder: str | Path) -> dict[str, dict[str, bool]]:
    """Read a posterior database back and check every posterior, from its files alone.

    Parameters
    ----------
    folder : path
        What `write_targets` wrote, or another database with its model.

    Returns
    -------
    dict
        For each posterior the checks of posteriordb, and `inside`: that every draw lies in the set
        that the data describe.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_targets(folder, ["corner"], progress=False)
    ...     all(check_targets(folder)["corner-gaussian_given_events"].values())
    True
    """
    files = Folder(_check.path("folder", folder))
    found = {}
    for file in files.names("posteriors"):
        about = json.loads(files.require(f"posteriors/{file}"))
        data = _unzip(files, f"data/data/{about['data_name']}.json")
        stored = _unzip(
            files, f"reference_posteriors/draws/draws/{about['reference_posterior_name']}.json"
        )
        names = [f"theta[{i + 1}]" for i in range(about["dimensions"]["theta"])]
        draws = np.array([[chain[name] for name in names] for chain in stored]).transpose(0, 2, 1)
        made = checks(diagnose(draws))
        made = {name: value for name, value in made.items() if value is not None}
        found[about["name"]] = {**made, "inside": bool(all(_inside(data, draws)))}
    return found


def _inside(data: Mapping[str, Any], draws: Array) -> Iterator[bool]:
    """Whether each chain's draws (draw, coordinate) are in the set, by the data."""
    normal, limit = np.array(data["normal"]), np.array(data["limit"])
    slack = 1e-9 * np.abs(normal).sum(axis=-1)
    for chain in draws:
        held = np.einsum("ebd,td->teb", normal, chain) >= limit - slack
        inside = np.any(np.all(held | (np.array(data["asked"]) == 0), axis=2), axis=1)
        if data["bounded"]:
            length = np.linalg.norm(chain.reshape(len(chain), data["B"], -1), axis=2)
            inside &= np.all(length <= data["radius"], axis=1)
        yield bool(inside.all())


def _unzip(files: Folder, name: str) -> Any:
    with zipfile.ZipFile(io.BytesIO(files.require(f"{name}.zip"))) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def _names(target: Target) -> list[str]:
    return [f"theta[{i + 1}]" for i in range(len(target.mean))]
