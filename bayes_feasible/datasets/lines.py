"""Lines of large text files, plain or gzipped, in bounded memory."""

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bayes_feasible.files.guard import blame, open_file

BLOCK = 1 << 20  # bytes read at once
LONGEST = 1 << 16  # bytes of a line; no table of ratings or titles comes near
EXPANSION = 200  # a gzipped table is a tenth of its size, not a two-hundredth
SMALL = 1 << 26  # bytes that may come out of any gzip file, however small
SHOWN = 1 << 26  # bytes of a file that is worth a progress bar
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def line_blocks(
    path: str | os.PathLike[str], *, progress: bool | None = None
) -> Iterator[tuple[int, list[bytes]]]:
    """Lines without their ends, in blocks, each with the number of its first line.

    No more than a block of about a megabyte is in memory. Line numbers start at 1. Raises
    ValueError if the file is empty, a zip archive, a gzip file that is cut off, damaged or expands
    beyond measure, or has a line that is far too long.
    """
    from tqdm import tqdm

    path = Path(path)
    with blame(path):
        opened = open_file(path)
    size = os.fstat(opened.fileno()).st_size
    show = (size >= SHOWN and sys.stderr.isatty()) if progress is None else progress
    number, rest = 1, b""
    with (
        opened as file,
        tqdm(total=size, desc=path.name, unit="B", unit_scale=True, disable=not show) as bar,
    ):
        for block in _blocks(path, file, size):
            bar.update(file.tell() - bar.n)
            if number == 1 and not rest:
                block = block.removeprefix(BYTE_ORDER_MARK)
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            if len(rest) > LONGEST or (lines and len(max(lines, key=len)) > LONGEST):
                long = next((i for i, line in enumerate(lines) if len(line) > LONGEST), len(lines))
                raise ValueError(f"{path}: line {number + long} is longer than {LONGEST} bytes")
            if lines:
                yield number, lines
                number += len(lines)
        if rest:
            yield number, [rest]
        elif number == 1:
            raise ValueError(f"{path}: the file is empty")


def _blocks(path: Path, file: BinaryIO, size: int) -> Iterator[bytes]:
    """What is in the file, unpacked if need be."""
    start = file.read(4)
    file.seek(0)
    if start == b"PK\x03\x04":
        raise ValueError(f"{path}: a zip archive; unpack it first")
    if not start.startswith(b"\x1f\x8b"):
        while block := file.read(BLOCK):
            yield block
        return
    unpacked, limit = 0, max(SMALL, EXPANSION * size)
    with gzip.GzipFile(fileobj=file) as stream:
        while block := _unpack(path, stream, unpacked):
            unpacked += len(block)
            if unpacked > limit:
                raise ValueError(
                    f"{path}: it expands to more than {EXPANSION} times its {size} bytes, which "
                    "no table of ratings or titles does"
                )
            yield block


def _unpack(path: Path, stream: gzip.GzipFile, unpacked: int) -> bytes:
    try:
        return stream.read(BLOCK)
    except EOFError:
        raise ValueError(
            f"{path}: the gzip file is cut off (after {unpacked:,} unpacked bytes)"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: the gzip file is damaged (after {unpacked:,} unpacked bytes): {error}"
        ) from None
