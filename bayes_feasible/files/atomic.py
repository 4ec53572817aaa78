"""Files that appear whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_feasible._interrupt import heed, undisturbed

if TYPE_CHECKING:
    import xarray as xr


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new path to write to, which takes the place of `path` in one step if all goes well.

    The file is on the disk before it gets its name. If writing fails, what was at `path` stays
    and nothing new is left behind.
    """
    try:
        target = Path(os.path.realpath(path))  # the file behind a link
    except TypeError:
        raise ValueError(f"path: expected the path of a file, got {path!r}") from None
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {target.parent}")
    if target.is_dir():
        raise IsADirectoryError(f"{path}: expected a file, this is a folder")
    if target.exists() and not target.is_file():
        raise ValueError(f"{path}: expected a file, this is a device or a pipe")
    temporary = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        yield temporary
        heed()  # what an interruption has cut short does not get a name
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except OSError as error:
        if error.errno is None:
            raise  # already in words
        raise OSError(f"{path}: could not be written ({os.strerror(error.errno)})") from error
    finally:
        temporary.unlink(missing_ok=True)


def netcdf_bytes(data: "xr.Dataset | xr.DataTree", **options: Any) -> bytes:
    """The content of a netCDF file: the same bytes for the same data.

    Made in memory, so that a full disk is met by one plain write: HDF5 itself crashes the
    process when it cannot write.
    """
    with undisturbed():  # HDF5 calls back, and makes errors of its own of what is raised there
        return bytes(data.to_netcdf(engine="h5netcdf", **options))


def write_netcdf(
    path: str | os.PathLike[str], data: "xr.Dataset | xr.DataTree", **options: Any
) -> None:
    """Write a netCDF file that appears whole or not at all."""
    with replaced(path) as temporary:
        temporary.write_bytes(netcdf_bytes(data, **options))
