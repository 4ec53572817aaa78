"""Files that appear whole or not at all, and stay if the power fails."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible._interrupt import heed, undisturbed

if TYPE_CHECKING:
    import xarray as xr

TEMPORARY = re.compile(r"\.[0-9a-f]{8}\..+")  # the names of files that are being written


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a new path to write to, which takes the place of `path` in one step if all goes well.

    If writing fails, what was at `path` stays and nothing new is left behind.
    """
    try:
        target = Path(os.path.realpath(path))  # the file behind a link
    except TypeError:
        raise TypeError(f"path: expected the path of a file, got {path!r}") from None
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise ValueError(f"{path}: expected a file, this is a device or a pipe")
    with _written(target, path) as temporary:
        yield temporary
        heed()  # what an interruption has cut short does not get a name
        _sync(temporary)
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    with replaced(path) as temporary:
        temporary.write_bytes(content)


def create_file(path: Path, content: bytes) -> None:
    """Write a file that appears whole; FileExistsError if there is one, which is left alone."""
    with _written(path, path) as temporary:
        temporary.write_bytes(content)
        _sync(temporary)
        try:
            try:
                os.link(temporary, path)
            except FileExistsError:
                raise
            except OSError:  # a file system without links: take the name, then fill it
                open(path, "xb").close()
                os.replace(temporary, path)
        except FileExistsError:
            raise FileExistsError(
                f"{path}: there is such a file already; it is left alone"
            ) from None


@contextmanager
def _written(target: Path, name: Any) -> Iterator[Path]:
    """Give a path beside `target`; sync the folder at the end, and leave nothing behind."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{name}: there is no folder {target.parent}")
    if target.is_dir():
        raise IsADirectoryError(f"{name}: expected a file, this is a folder")
    temporary = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        yield temporary
    except OSError as error:
        if error.errno is None:
            raise  # already in words
        raise OSError(f"{name}: could not be written ({os.strerror(error.errno)})") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    if os.name != "nt":
        with suppress(OSError):  # some file systems cannot
            _sync(target.parent)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def netcdf_bytes(data: "xr.Dataset | xr.DataTree", **options: Any) -> bytes:
    """Give the content of a netCDF file: the same bytes for the same data.

    Made in memory, so that a full disk is met by one plain write: HDF5 itself crashes the
    process when it cannot write.
    """
    with undisturbed():  # HDF5 calls back, and makes errors of its own of what is raised there
        return bytes(data.to_netcdf(engine="h5netcdf", **options))


def write_netcdf(
    path: str | os.PathLike[str], data: "xr.Dataset | xr.DataTree", **options: Any
) -> None:
    """Write a netCDF file that appears whole or not at all."""
    write_bytes(path, netcdf_bytes(data, **options))
