"""A study's folder: whose it is, what is finished, and one process at a time.

::

    manifest.json        the specification, its checksum, versions, and the checksums of outputs
    specification.toml   the same specification to read, change and run again
    parts/               what was computed, see `bayes_feasible.analysis.study.parts`
    results.nc ...       what was made of it

No file holds a time of day: the same study gives the same bytes. Others may have made the folder,
so all that is done in it goes through `bayes_feasible.files.guard.Folder`.
"""

import json
import platform
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr

import bayes_feasible
from bayes_feasible.analysis.study.specification import Specification
from bayes_feasible.analysis.study.store import Store, digest, hash_bytes
from bayes_feasible.files.atomic import TEMPORARY, netcdf_bytes
from bayes_feasible.files.documents import _strict
from bayes_feasible.files.guard import MOST_TEXT, Folder, blame, read_netcdf

FORMAT = 1  # of the manifest
MANIFEST, SPECIFICATION = "manifest.json", "specification.toml"
PARTS, FIGURES = "parts", "figures"
OUTPUTS = ("results.nc", "optimum.nc", "summary.nc", "scoreboard.nc", "report.html")
FIGURE = re.compile(rf"{FIGURES}/\w+\.(png|svg)")
RECORDED = ("numpy", "scipy", "numba", "xarray", "pymc", "arviz")


def parse_manifest(text: str) -> dict[str, Any]:
    """Read a manifest, and make sure that all of it is what a study writes."""
    manifest = json.loads(text)
    if manifest["format"] != FORMAT or digest(manifest["meaning"]) != manifest["hash"]:
        raise ValueError("its checksum is wrong")
    records = manifest["outputs"].values()
    tables = [manifest[key] for key in ("versions", "outputs", "meaning", "specification")]
    if not all(isinstance(table, dict) for table in (*tables, *records)):
        raise ValueError("its tables are wrong")
    texts = [manifest["version"], *manifest["versions"].values()]
    texts += [value for record in records for value in (record["sha256"], record["from"])]
    if not all(isinstance(each, str) for each in texts):
        raise ValueError("its checksums are wrong")
    for name in manifest["outputs"]:
        if name not in OUTPUTS and not FIGURE.fullmatch(name):
            raise ValueError(f"no study makes {name!r}")
    return manifest


class StudyFolder:
    """The folder of one study, opened for it.

    `restart` gives up what another specification or version left there, `extend` keeps of it what
    also belongs to this one. ValueError if the folder holds another study and neither is true, or
    no study but other files.
    """

    def __init__(
        self, path: Path, specification: Specification, *, restart: bool, extend: bool
    ) -> None:
        self.path, self.specification = path, specification
        self.folder = Folder(path)
        self.outputs: dict[str, dict[str, str]] = {}
        self.versions = versions()
        self.notes: list[str] = []  # what the user should know
        self._made: set[str] = set()  # outputs of this call
        self._adopt(self._read_manifest(restart), restart, extend)
        self._remove_temporaries()
        self.parts = Store(self.folder.make_folder(PARTS))
        for damaged in self.parts.damaged:
            self.notes.append(f"{damaged}: damaged; it is computed again")

    def _read_manifest(self, restart: bool) -> dict[str, Any] | None:
        """The manifest; None in an empty folder, and {} for a broken one that may be replaced."""
        if not self.folder.exists(MANIFEST):
            others = [name for name in self.folder.names() if not TEMPORARY.fullmatch(name)]
            if others:
                raise ValueError(
                    f"{self.path}: holds no study but other files (such as {min(others)}); "
                    "choose another folder with --out"
                )
            return None
        self.folder.refuse_strangers(PARTS, FIGURES)
        text = self.folder.read_text(MANIFEST)
        try:
            with blame(self.path / MANIFEST):
                return parse_manifest(text)
        except ValueError as error:
            if restart:
                return {}
            raise ValueError(f"{error}; not as a study wrote it, use --restart") from error

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
            if manifest is not None:  # nothing stale is taken for this study's
                self.folder.remove({*OUTPUTS, *manifest.get("outputs", {})})
            if restart:
                Store(self.folder.make_folder(PARTS)).remove_all_but(set())
            self._write_manifest()
        else:
            self.outputs = manifest["outputs"]
            self.versions = manifest["versions"]
            self._compare()
            if manifest["specification"] != _strict(self.specification.document()):
                self._write_manifest()  # another title
        content = self.specification.toml().encode()
        if self.folder.read(SPECIFICATION, MOST_TEXT) != content:
            self.folder.write(SPECIFICATION, content)

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
        self.folder.write(MANIFEST, text.encode())

    def _remove_temporaries(self) -> None:
        """Remove what a killed run was writing."""
        for below in ("", f"{PARTS}/", f"{FIGURES}/"):
            names = filter(TEMPORARY.fullmatch, self.folder.names(below))
            self.folder.remove(below + name for name in names)

    def make(self, name: str, origin: str, make: Callable[[], xr.Dataset]) -> xr.Dataset:
        """Read an output, made only if there is none of the same origin; record the origin."""
        content = self.kept(name, origin)
        if content is None:
            content = netcdf_bytes(make())
            self.folder.write(name, content)
            self._made.add(name)
            self._record({name: {"sha256": hash_bytes(content), "from": origin}})
        with self.blame(name):
            return read_netcdf(content)

    def blame(self, name: str) -> AbstractContextManager[None]:
        """Blame an output for what goes wrong with it, unless this call has made it."""
        return nullcontext() if name in self._made else blame(self.path / name)

    def kept(self, name: str, origin: str) -> bytes | None:
        """Read an output made earlier from the same origin, if it is as it was written."""
        record, content = self.outputs.get(name), self.folder.read(name)
        if record is None or content is None or record["from"] != origin:
            return None
        return content if hash_bytes(content) == record["sha256"] else None

    def keep_files(self, names: Sequence[str], origin: str, instead_of: Sequence[str] = ()) -> None:
        """Record outputs that are written, in the place of others, and what they were made from."""
        made = {
            name: {"sha256": hash_bytes(self.folder.require(name)), "from": origin}
            for name in names
        }
        gone = set(instead_of) - set(made)
        self.folder.remove(gone)
        self.outputs = {name: each for name, each in self.outputs.items() if name not in gone}
        self._record(made)

    def _record(self, outputs: dict[str, dict[str, str]]) -> None:
        outputs = dict(sorted((self.outputs | outputs).items()))
        if outputs != self.outputs:
            self.outputs = outputs
            self._write_manifest()

    def files(self) -> list[Path]:
        """What the study made, for reading; the report is not recorded, as it quotes the record."""
        names = {*self.outputs, *OUTPUTS, MANIFEST, SPECIFICATION}
        return [self.path / name for name in sorted(names) if self.folder.exists(name)]


def versions() -> dict[str, str]:
    """What results may depend on in their last digits, besides this package."""
    return {"python": platform.python_version(), **{name: version(name) for name in RECORDED}}
