"""Files that others may have made: nothing hangs, nothing runs out of memory, nothing leaks.

A path may be that of a pipe or a device, whose content never comes or never ends. A folder that
was received may hold links, and names, that lead out of it. A netCDF file may ask for the data of
other files. All of these are refused.
"""

import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from bayes_feasible._interrupt import undisturbed
from bayes_feasible.files.atomic import write_bytes

if TYPE_CHECKING:
    import xarray as xr

MOST_TEXT = 2**26  # bytes
MOST = 2**32  # bytes of a file that is read whole, and of what a netCDF file unpacks to
KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip
# Flags that not every system has: opening waits for nobody, and follows no link made meanwhile.
OPEN = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def open_file(path: str | os.PathLike[str], *, links: bool = True) -> BinaryIO:
    """Open a file for reading, and only a file, or with `links` a link to one.

    Raises ValueError if it is a folder, a device, a pipe or a socket; the message does not name it.
    """
    # Asked before it is opened, as opening a device may do something, and once more of what is
    # open, which nobody can put something else in the place of.
    _require_file(os.stat(path, follow_symlinks=links))
    descriptor = os.open(path, OPEN | (0 if links else NO_LINK))
    try:
        _require_file(os.fstat(descriptor))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: str | os.PathLike[str], *, links: bool = True, most: int = MOST) -> bytes:
    """Read a file of no more than so many bytes; see `open_file`."""
    with open_file(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"expected at most {most:,} bytes, this file has {size:,}")
        return file.read()


def _require_file(status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise ValueError(f"expected a file, this is {KINDS.get(kind, 'something else')}")


class Folder:
    """A folder that others may have made: nothing outside of it is read, written or removed.

    Files are named by their path within the folder. Messages begin with the whole path. The folder
    may be a link itself: who names it knows where it leads.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def find(self, name: str) -> Path:
        """Give the path of a name, unless the name or a link leads out of the folder."""
        parts = Path(name).parts
        if not parts or Path(name).anchor or ".." in parts or "\0" in name:
            raise ValueError(f"{self.path}: expected the name of a file inside, got {name!r}")
        path = self.path
        for part in parts:
            path /= part
            if path.is_symlink() or path.is_junction():
                raise Misfit(f"{path}: expected a file, this is a link")
        if path.parent.exists() and not path.parent.is_dir():
            raise Misfit(f"{path.parent}: expected a folder, this is a file")
        return path

    def exists(self, name: str) -> bool:
        """Whether there is something of this name."""
        return self.find(name).exists()

    def names(self, below: str = "") -> list[str]:
        """Name what there is, or what there is in a folder of it, in order."""
        folder = self.find(below) if below else self.path
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def refuse_strangers(self, *folders: str) -> None:
        """Refuse links, pipes, devices and sockets here and in folders of these names."""
        for below in ("", *folders):
            for name in self.names(below):
                path = self.find(f"{below}/{name}".strip("/"))
                if not path.is_dir():
                    with blame(path):
                        _require_file(path.lstat())

    def read(self, name: str, most: int = MOST) -> bytes | None:
        """Read a file; None if there is none."""
        path = self.find(name)
        with blame(path), suppress(FileNotFoundError):
            return read_file(path, links=False, most=most)
        return None

    def require(self, name: str) -> bytes:
        """Read a file that must be there."""
        content = self.read(name)
        if content is None:
            raise FileNotFoundError(f"{self.path / name}: no such file")
        return content

    def read_text(self, name: str) -> str:
        """Read a text in UTF-8; "" if there is none."""
        with blame(self.path / name):
            return (self.read(name, MOST_TEXT) or b"").decode("utf-8")

    def read_netcdf(self, name: str) -> "xr.Dataset | None":
        """Read a Dataset, see `read_netcdf`; None if there is none."""
        content = self.read(name)
        with blame(self.path / name):
            return None if content is None else read_netcdf(content)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        write_bytes(self.find(name), content)

    def make_folder(self, name: str) -> Path:
        """Make a folder in it if there is none; give its path."""
        path = self.find(name)
        if path.exists() and not path.is_dir():
            raise Misfit(f"{path}: expected a folder, this is a file")
        path.mkdir(exist_ok=True)
        return path

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where there are such."""
        for name in names:
            path = self.find(name)
            if path.is_dir():
                raise Misfit(f"{path}: expected a file, this is a folder")
            path.unlink(missing_ok=True)


@contextmanager
def blame(path: Path) -> Iterator[None]:
    """Say that what goes wrong with what a file holds is the fault of that file."""
    try:
        yield
    except Misfit:
        raise  # told already
    except UnicodeDecodeError as error:
        raise Misfit(f"{path}: expected text in UTF-8 ({error})") from error
    except RecursionError:
        raise Misfit(f"{path}: values are nested too deeply") from None
    except KeyError as error:
        raise Misfit(f"{path}: has no {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise Misfit(f"{path}: {error}") from error


class Misfit(ValueError):
    """A file whose content is not what it should be; the message begins with its path."""


def read_netcdf(content: bytes) -> "xr.Dataset":
    """Read the Dataset in the content of a netCDF file that holds all of its data itself.

    Raises ValueError if it is damaged, far too large, or takes data from another file.
    """
    import xarray as xr

    with (
        opened_hdf5(content),
        xr.open_dataset(io.BytesIO(content), engine="h5netcdf", phony_dims="sort") as dataset,
    ):
        return dataset.load()


def read_tree(content: bytes) -> "xr.DataTree":
    """Read the DataTree in the content of a netCDF file; see `read_netcdf`."""
    import xarray as xr

    with (
        opened_hdf5(content),
        xr.open_datatree(io.BytesIO(content), engine="h5netcdf", phony_dims="sort") as tree,
    ):
        return tree.load()


@contextmanager
def opened_hdf5(content: bytes) -> Iterator[Any]:
    """Open the content of an HDF5 file that holds all of its data itself, as `h5py.File`."""
    import h5py

    with undisturbed():  # HDF5 calls back, and makes errors of its own of what is raised there
        try:
            with h5py.File(io.BytesIO(content), "r") as file:
                _require_own_data(file)
                yield file
        except (Outside, MemoryError):
            raise
        except Exception as error:  # a damaged file is met by any of them, deep in HDF5
            raise ValueError(f"not a netCDF file, or damaged ({error})") from None


class Outside(ValueError):
    """A netCDF file that does not hold its data itself."""


def _require_own_data(file: Any) -> None:
    """Refuse an open HDF5 file whose data are elsewhere, or too many to unpack."""
    import h5py

    unpacked, groups, seen = 0, [file], set()
    while groups:
        group = groups.pop()
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise Outside(f"its {name!r} is a link")
            item = group[name]
            if isinstance(item, h5py.Dataset):
                if item.is_virtual or item.external:
                    raise Outside(f"its {name!r} is stored in another file")
                unpacked += item.dtype.itemsize * (item.size or 0)
            elif isinstance(item, h5py.Group):
                if item.id in seen:  # perhaps within itself, without end
                    raise Outside(f"its {name!r} is another group again")
                seen.add(item.id)
                groups.append(item)
            if unpacked > MOST:
                raise Outside(f"expected at most {MOST:,} bytes, its {name!r} has more")
