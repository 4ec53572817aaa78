"""Study folders as nobody should send them: damaged, nonsensical, or leading somewhere else.

`cases` names the ways. Each takes the folder of a finished study and another folder, `outside`,
which holds what an attacker is after: files to read, to overwrite and to delete.
"""

import json
import os
import shutil
import socket
from functools import partial

import h5py
import numpy as np
import xarray as xr

from bayes_feasible.analysis.study.store import digest, hash_bytes

SECRET = "SECRET-7391"
NETCDF = ("results.nc", "optimum.nc", "summary.nc", "scoreboard.nc")
FILES = (
    "manifest.json", "specification.toml", *NETCDF, "report.html", "figures/log_error.svg",
    "figures/accuracy.png", "parts/Oracle*", "parts/check*",
)  # fmt: skip


def fill_outside(outside):
    """What nothing may touch, under names that the study's own files have."""
    (outside / "parts").mkdir(parents=True)
    names = ["victim.txt", "page.html", "log_error.svg", "parts/.0123abcd.results.nc"]
    names += [f"parts/rule-000000-000001-{'0' * 12}-{'0' * 32}.nc"]
    for name in names:
        (outside / name).write_text(f"<svg>{SECRET}</svg>")
    xr.Dataset({"x": ("n", [SECRET])}).to_netcdf(outside / "victim.nc", engine="h5netcdf")
    (outside / "raw.bin").write_bytes(SECRET.encode() * 100)


def find(folder, name):
    return next(iter(sorted(folder.glob(name))), folder / name.replace("*", ""))


def place(path):
    """Make room."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path


def cut(path, outside):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scramble(path, outside):
    content = bytearray(path.read_bytes())
    content[64:200] = b"\xff" * len(content[64:200])
    path.write_bytes(content)


def make_socket(path, outside):
    here = os.getcwd()
    os.chdir(place(path).parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


def stretch(path, outside):
    """A terabyte that takes no room on the disk."""
    with open(path, "r+b") as file:
        file.truncate(2**40)


DAMAGES = {
    "missing": lambda path, outside: place(path),
    "empty": lambda path, outside: path.write_bytes(b""),
    "cut": cut,
    "scrambled": scramble,
    "text": lambda path, outside: path.write_bytes(b"\xff\xfe no such thing \x00"),
    "deep": lambda path, outside: path.write_text("[" * 100_000),
    "folder": lambda path, outside: place(path).mkdir(),
    "pipe": lambda path, outside: os.mkfifo(place(path)),
    "socket": make_socket,
    "device": lambda path, outside: place(path).symlink_to("/dev/zero"),
    "link to a file": lambda path, outside: place(path).symlink_to(outside / "victim.txt"),
    "link to netCDF": lambda path, outside: place(path).symlink_to(outside / "victim.nc"),
    "link to itself": lambda path, outside: place(path).symlink_to(path.name),
    "link to nothing": lambda path, outside: place(path).symlink_to(outside / "new.txt"),
    "stretched": stretch,
}
FOLDERS = {
    "missing": DAMAGES["missing"],
    "a file": lambda path, outside: place(path).write_text("x"),
    "a pipe": DAMAGES["pipe"],
    "a link": lambda path, outside: place(path).symlink_to(outside / "parts"),
}


def damage_file(name, damage, folder, outside):
    DAMAGES[damage](find(folder, name), outside)


def damage_folder(name, damage, folder, outside):
    FOLDERS[damage](folder / name, outside)


def swap(one, other, folder, outside):
    shutil.copyfile(find(folder, other), find(folder, one))


def edit_manifest(change, folder, outside=None):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def reseal(folder):
    """Have the checksums in the manifest, and in the names of parts, bear out what is there."""

    def change(manifest):
        for name, record in manifest["outputs"].items():
            if (folder / name).is_file():
                record["sha256"] = hash_bytes((folder / name).read_bytes())

    edit_manifest(change, folder)
    for path in (folder / "parts").iterdir():
        stem = path.name.rpartition("-")[0]
        path.rename(path.with_name(f"{stem}-{hash_bytes(path.read_bytes())[:32]}.nc"))


def record(name, **fields):
    """The manifest claims an output of this name."""
    return lambda m: m["outputs"].__setitem__(name, {"sha256": "0" * 64, "from": "x"} | fields)


ESCAPES = ("figures/../../outside/victim.txt", "../outside/victim.txt", "..", ".", "", "a\0b",
           "/etc/hostname", "figures/../../outside/page.html", "specification.toml",
           "figures/../manifest.json", "parts", "x" * 5000, "figures\\..\\x.png")  # fmt: skip
MANIFESTS = {
    **{f"claims {name[:40]!r}": record(name) for name in ESCAPES},
    "record without origin": lambda m: m["outputs"]["summary.nc"].pop("from"),
    "record of numbers": lambda m: m["outputs"]["summary.nc"].update(sha256=1),
    "outputs of lists": lambda m: m["outputs"].update({"summary.nc": []}),
    "no outputs": lambda m: m.update(outputs={}),
    "outputs none": lambda m: m.update(outputs=None),
    "versions of numbers": lambda m: m.update(versions={"numpy": {"a": 1}}),
    "versions list": lambda m: m.update(versions=[1]),
    "version none": lambda m: m.update(version=None),
    "another version": lambda m: m.update(version="0.0.0"),
    "hash list": lambda m: m.update(hash=[1]),
    "format text": lambda m: m.update(format="1"),
    "format infinite": lambda m: m.update(format=float("inf")),
    "meaning list": lambda m: m.update(meaning=[], hash=digest([])),
    "meaning nan": lambda m: m.update(meaning={"a": float("nan")}, hash="x"),
    "another horizon": lambda m: m["meaning"].update(horizon=99),
    "meaning text": lambda m: m.update(meaning="x", hash=digest("x")),
    "another meaning": lambda m: m.update(meaning={"a": 1}, hash=digest({"a": 1})),
    "specification text": lambda m: m.update(specification="x"),
    "only the format": lambda m: [m.pop(key) for key in list(m) if key != "format"],
}
SPECIFICATIONS = {
    "title of numbers": "title = [1, 2]\n", "title is a table": "[title]\na = 1\n",
    "no toml": "= = =\n", "dated": "title = 2020-01-01\n",
    "long": f"title = '{'x' * 10**6}'\n",
}  # fmt: skip


def write_specification(text, folder, outside):
    (folder / "specification.toml").write_text(text)


def edit_dataset(name, change, folder, outside):
    """Another Dataset under a checksum that is right."""
    path = find(folder, name)
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        found = change(opened.load())
    path.unlink()
    found.to_netcdf(path, engine="h5netcdf")
    reseal(folder)


def edit_hdf5(name, change, folder, outside):
    with h5py.File(find(folder, name), "r+") as file:
        change(file, outside)
    reseal(folder)


def only_floats(dataset, value):
    return dataset.map(lambda v: v * 0 + value if v.dtype.kind == "f" else v)


DATASETS = {
    "nothing": lambda d: xr.Dataset(),
    "no attributes": lambda d: d.drop_attrs(),
    "odd attributes": lambda d: d.assign_attrs(dict.fromkeys(d.attrs, "odd")),
    "nan": lambda d: only_floats(d, np.nan),
    "infinite": lambda d: only_floats(d, np.inf),
    "huge": lambda d: only_floats(d, 1e308),
    "texts": lambda d: d.map(lambda v: v.astype(str) if v.dtype.kind == "f" else v),
    "transposed": lambda d: d.transpose(*reversed(list(d.dims))),
    "first of each": lambda d: d.isel(dict.fromkeys(d.dims, slice(0, 1))),
    "none of each": lambda d: d.isel(dict.fromkeys(d.dims, slice(0, 0))),
    "other coordinates": lambda d: d.assign_coords(
        {name: np.full(d.sizes[name], "same") for name in d.dims}
    ),
    "a third missing": lambda d: d.drop_vars(list(d.data_vars)[::3]),
    "other verdicts": lambda d: d.map(lambda v: v.astype("U3") if v.dtype.kind in "OU" else v),
}


def link_outside(file, outside):
    for name in list(file):
        del file[name]
        file[name] = h5py.ExternalLink(str(outside / "victim.nc"), "x")


def store_outside(file, outside):
    for name in list(file):
        if file[name].dtype.kind == "f":
            shape = file[name].shape
            del file[name]
            size = 8 * int(np.prod(shape))
            file.create_dataset(name, shape, "f8", external=[(str(outside / "raw.bin"), 0, size)])


def map_outside(file, outside):
    for name in list(file):
        shape = file[name].shape
        del file[name]
        layout = h5py.VirtualLayout(shape=shape, dtype="f8")
        layout[...] = h5py.VirtualSource(str(outside / "victim.nc"), "x", shape=shape)
        file.create_virtual_dataset(name, layout)


def inflate(file, outside):
    file.create_dataset("inflated", (2**20, 2**20), "f8", chunks=(1024, 1024), fillvalue=1.0)


def knot(file, outside):
    group = file.create_group("knot")
    for name in "abc":
        group[name] = group


HDF5 = {
    "linked outside": link_outside, "stored outside": store_outside, "mapped outside": map_outside,
    "inflated": inflate, "knotted": knot,
    "soft link": lambda file, outside: file.__setitem__("soft", h5py.SoftLink("/nothing")),
    "odd types": lambda file, outside: file.create_dataset("odd", 3, [("a", "i4"), ("b", "f8")]),
}  # fmt: skip
PARTS = ("parts/Oracle*", "parts/check*")


def cases():
    """A name and a function of (folder, outside) for each way."""
    found = {}
    for name in FILES:
        found |= {f"{name}: {kind}": partial(damage_file, name, kind) for kind in DAMAGES}
    for name in ("parts", "figures"):
        found |= {f"{name}: {kind}": partial(damage_folder, name, kind) for kind in FOLDERS}
    for one, other in (("summary.nc", "results.nc"), ("results.nc", "summary.nc"),
                       ("parts/Oracle*", "parts/Uniform*"), ("optimum.nc", "scoreboard.nc"),
                       ("scoreboard.nc", "optimum.nc")):  # fmt: skip
        found[f"{one} is {other}"] = partial(swap, one, other)
    found |= {f"manifest: {n}": partial(edit_manifest, c) for n, c in MANIFESTS.items()}
    found |= {f"toml: {n}": partial(write_specification, t) for n, t in SPECIFICATIONS.items()}
    for name in (*NETCDF, *PARTS):
        found |= {f"{name}: {n}": partial(edit_dataset, name, c) for n, c in DATASETS.items()}
        found |= {f"{name}: {n}": partial(edit_hdf5, name, c) for n, c in HDF5.items()}
    return found
