"""A study's folder: whose it is, what is finished, and one process at a time.

::

    manifest.json        the specification, its checksum, versions, and the checksums of outputs
    specification.toml   the same specification to read, change and run again
    parts/               what was computed, see `bayes_feasible.analysis.study.parts`
    results.nc ...       what was made of it

No file holds a time of day: the same study gives the same bytes.
"""

import json
import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr

import bayes_feasible
from bayes_feasible.analysis.study.specification import Specification
from bayes_feasible.analysis.study.store import Store, digest, hash_bytes, read_dataset
from bayes_feasible.files.atomic import TEMPORARY, netcdf_bytes, write_bytes
from bayes_feasible.files.documents import _strict

FORMAT = 1  # of the manifest
MANIFEST, SPECIFICATION = "manifest.json", "specification.toml"
PARTS, FIGURES = "parts", "figures"
OUTPUTS = ("results.nc", "optimum.nc", "summary.nc", "scoreboard.nc", "report.html")
RECORDED = ("numpy", "scipy", "numba", "xarray", "pymc", "arviz")


def _only_files(folder: Path) -> None:
    """Refuse pipes and devices, whose content may never come or never end."""
    if not os.path.lexists(folder / MANIFEST):
        return  # no study, which is told in other words
    for path in (*folder.iterdir(), *(folder / PARTS).glob("*")):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path}: expected a file, this is a device or a pipe")


class StudyFolder:
    """The folder of one study, opened for it.

    Parameters
    ----------
    path : path
        Made if it does not exist.
    specification : Specification
    restart : bool
        Whether to give up what another specification or version left there.
    extend : bool
        Whether to keep of it what also belongs to this one.

    Raises
    ------
    ValueError
        If the folder holds another study and neither is true, or no study but other files.
    """

    def __init__(
        self, path: Path, specification: Specification, *, restart: bool, extend: bool
    ) -> None:
        self.path, self.specification = path, specification
        self.outputs: dict[str, dict[str, str]] = {}
        self.versions = versions()
        self.notes: list[str] = []  # what the user should know
        _only_files(path)
        self._adopt(self._read_manifest(restart), restart, extend)
        (path / PARTS).mkdir(exist_ok=True)
        self._remove_temporaries()
        self.parts = Store(path / PARTS)
        for damaged in self.parts.damaged:
            self.notes.append(f"{damaged}: damaged; it is computed again")

    def _read_manifest(self, restart: bool) -> dict[str, Any] | None:
        """The manifest; None in an empty folder, and {} for a broken one that may be replaced."""
        content = self._content(MANIFEST)
        if content is None:
            others = [p.name for p in self.path.iterdir() if not TEMPORARY.fullmatch(p.name)]
            if others:
                raise ValueError(
                    f"{self.path}: holds no study but other files (such as {min(others)}); "
                    "choose another folder with --out"
                )
            return None
        try:
            manifest = json.loads(content)
            if manifest["format"] != FORMAT or digest(manifest["meaning"]) != manifest["hash"]:
                raise ValueError("its checksum is wrong")
            tables = [manifest["versions"], manifest["outputs"], *manifest["outputs"].values()]
            tables += [manifest["meaning"], manifest["specification"]]
            if not all(isinstance(table, dict) for table in tables):
                raise ValueError("its tables are wrong")
            sums = [record["sha256"] for record in manifest["outputs"].values()]
            if not all(isinstance(text, str) for text in [manifest["version"], *sums]):
                raise ValueError("its checksums are wrong")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            if restart:
                return {}
            raise ValueError(
                f"{self.path / MANIFEST}: not as a study wrote it ({error}); use --restart"
            ) from error
        return manifest

    def _adopt(self, manifest: dict[str, Any] | None, restart: bool, extend: bool) -> None:
        """Go on with the study that is there, or put this one in its place."""
        differences = [] if manifest is None else self._differences(manifest)
        if differences and not (restart or extend):
            raise ValueError(
                f"{self.path}: holds a study with another {', '.join(differences)}; choose another "
                "folder with --out, keep what still applies with --extend, or start over with "
                "--restart"
            )
        if manifest is None or differences or restart:
            if manifest is not None:
                self._remove_outputs(manifest)
            if restart:
                Store(self.path / PARTS).remove_all_but(set())
            self._write_manifest()
        else:
            self.outputs = manifest["outputs"]
            self.versions = manifest["versions"]
            self._compare()
            if manifest["specification"] != _strict(self.specification.document()):
                self._write_manifest()  # another title
        if self._content(SPECIFICATION) != self.specification.toml().encode():
            write_bytes(self.path / SPECIFICATION, self.specification.toml().encode())

    def _differences(self, manifest: dict[str, Any]) -> list[str]:
        """What of the manifest is not of this study."""
        if not manifest:
            return [MANIFEST]
        differences = []
        if manifest["hash"] != self.specification.hash:
            found, wanted = manifest["meaning"], self.specification.meaning()
            differences = [
                key
                for key in {**wanted, **found}
                if digest(found.get(key)) != digest(wanted.get(key))
            ]
        if manifest["version"] != bayes_feasible.__version__:
            differences.append(f"version of bayes_feasible ({manifest['version']})")
        return differences

    def _compare(self) -> None:
        """Note where libraries are not those that the study was begun with."""
        begun, now = self.versions, versions()
        changed = [f"{name} {begun.get(name)}" for name in now if now[name] != begun.get(name)]
        if changed:
            self.notes.append(
                f"{self.path}: started with {', '.join(changed)}, which has changed since; "
                "last digits may differ between parts"
            )

    def _remove_outputs(self, manifest: dict[str, Any]) -> None:
        """Remove what was made of another study, so that nothing stale is taken for this one's."""
        for name in {*OUTPUTS, *manifest.get("outputs", {})}:
            path = self.path / name
            if path.resolve().is_relative_to(self.path.resolve()):
                path.unlink(missing_ok=True)

    def _write_manifest(self) -> None:
        document = {
            "format": FORMAT,
            "hash": self.specification.hash,
            "version": bayes_feasible.__version__,
            "versions": self.versions,
            "specification": _strict(self.specification.document()),
            "meaning": self.specification.meaning(),
            "outputs": self.outputs,
        }
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        write_bytes(self.path / MANIFEST, text.encode())

    def _content(self, name: str) -> bytes | None:
        path = self.path / name
        return path.read_bytes() if path.exists() else None

    def _remove_temporaries(self) -> None:
        """Remove what a killed run was writing."""
        for folder in (self.path, self.path / PARTS, self.path / FIGURES):
            for path in folder.glob(".*"):
                if TEMPORARY.fullmatch(path.name) and path.is_file():
                    path.unlink()

    def make(self, name: str, origin: str, make: Callable[[], xr.Dataset]) -> xr.Dataset:
        """Read an output, made only if there is none of the same origin; record the origin."""
        content = self.kept(name, origin)
        if content is None:
            content = netcdf_bytes(make())
            write_bytes(self.path / name, content)
            self._record({name: {"sha256": hash_bytes(content), "from": origin}})
        return read_dataset(content)

    def kept(self, name: str, origin: str) -> bytes | None:
        """Read an output made earlier from the same origin, if it is as it was written."""
        record, content = self.outputs.get(name), self._content(name)
        if record is None or content is None or record.get("from") != origin:
            return None
        return content if hash_bytes(content) == record["sha256"] else None

    def keep_files(self, paths: list[Path], origin: str, instead_of: Sequence[str] = ()) -> None:
        """Record outputs that are written, in the place of others, and what they were made from."""
        root = self.path.resolve()
        names = [path.resolve().relative_to(root).as_posix() for path in paths]
        sums = [hash_bytes(path.read_bytes()) for path in paths]
        made = {n: {"sha256": s, "from": origin} for n, s in zip(names, sums, strict=True)}
        for name in set(instead_of) - set(made):
            (self.path / name).unlink(missing_ok=True)
            self.outputs = {key: value for key, value in self.outputs.items() if key != name}
        self._record(made)

    def _record(self, outputs: dict[str, dict[str, str]]) -> None:
        outputs = dict(sorted((self.outputs | outputs).items()))
        if outputs != self.outputs:
            self.outputs = outputs
            self._write_manifest()

    def files(self) -> list[Path]:
        """What the study made, for reading; the report is not recorded, as it quotes the record."""
        names = {*self.outputs, *OUTPUTS, MANIFEST, SPECIFICATION}
        return [self.path / name for name in sorted(names) if (self.path / name).exists()]


def versions() -> dict[str, str]:
    """What results may depend on in their last digits, besides this package."""
    return {"python": platform.python_version(), **{name: version(name) for name in RECORDED}}
