"""Files that others made: what is no file is refused, and nothing leads out of a folder."""

import os
import socket

import pytest
import xarray as xr
from helpers import files

from bayes_feasible.files import guard
from bayes_feasible.files.guard import Folder, blame, open_file, read_file, read_netcdf


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_only_files_are_opened(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        make = {"pipe": os.mkfifo, "socket": listening.bind, "folder": os.mkdir,
                "device": lambda path: os.symlink("/dev/zero", path)}  # fmt: skip
        make[kind]("x")
        with pytest.raises(ValueError, match=f"expected a file, this is a {kind}"):
            open_file("x")
        with pytest.raises(ValueError, match="x: expected a file, this is a"):
            Folder(tmp_path).refuse_strangers() if kind != "folder" else Folder(tmp_path).read("x")


def test_links_to_files_are_the_users_own_business_outside_of_folders(tmp_path):
    (tmp_path / "there").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("there")
    assert read_file(tmp_path / "link") == b"1234"
    with pytest.raises(ValueError, match="this is a link"):
        read_file(tmp_path / "link", links=False)
    with pytest.raises(ValueError, match=r"at most 3 bytes, .* has 4"):
        read_file(tmp_path / "link", most=3)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing")


ESCAPES = (
    "../victim",
    "a/../../victim",
    "/etc/hostname",
    "",
    ".",
    "..",
    "link",
    "out/victim",
    "\0",
)


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_leads_out_of_a_folder(tmp_path, name):
    folder = Folder(tmp_path / "in")
    folder.path.mkdir()
    (tmp_path / "victim").write_text("secret")
    (folder.path / "link").symlink_to(tmp_path / "victim")
    (folder.path / "out").symlink_to(tmp_path)
    before = files(tmp_path)
    for act in (folder.read, folder.exists, folder.make_folder, lambda n: folder.remove([n]),
                lambda n: folder.write(n, b"x"), folder.read_netcdf):  # fmt: skip
        with pytest.raises(ValueError, match=str(folder.path)):
            act(name)
    assert files(tmp_path) == before


def test_inside_of_a_folder(tmp_path):
    folder = Folder(tmp_path)
    folder.make_folder("sub")
    folder.write("sub/a.txt", b"\xff")
    assert folder.names() == ["sub"]
    assert folder.names("sub") == ["a.txt"]
    assert folder.require("sub/a.txt") == b"\xff"
    assert folder.read("sub/b.txt") is folder.read_netcdf("b.nc") is None
    with pytest.raises(ValueError, match=r"a\.txt: expected text in UTF-8"):
        folder.read_text("sub/a.txt")
    with pytest.raises(FileNotFoundError, match=r"b\.txt"):
        folder.require("b.txt")
    with pytest.raises(ValueError, match="sub: expected a file, this is a folder"):
        folder.remove(["sub"])
    with pytest.raises(ValueError, match=r"a\.txt: expected a folder, this is a file"):
        folder.read("sub/a.txt/b")
    folder.remove(["sub/a.txt", "none"])
    assert files(tmp_path) == {}


def test_netcdf_that_holds_its_own_data(tmp_path, monkeypatch):
    data = xr.Dataset({"x": ("n", [1.0, 2.0])}, attrs={"title": "é"})
    content = bytes(data.to_netcdf(engine="h5netcdf"))
    assert read_netcdf(content).identical(data)
    for damaged in (b"", content[:-50], b"x" * 1000):
        with pytest.raises(ValueError, match="not a netCDF file, or damaged"):
            read_netcdf(damaged)
    monkeypatch.setattr(guard, "MOST", 15)
    with pytest.raises(ValueError, match="expected at most 15 bytes, its 'x' has more"):
        read_netcdf(content)


def test_the_file_is_blamed_once(tmp_path):
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    with pytest.raises(ValueError, match=f"^{inner}: has no 'a'$"), blame(outer), blame(inner):
        {}["a"]
    with pytest.raises(FileNotFoundError), blame(outer):  # which has a path of its own
        inner.read_bytes()
