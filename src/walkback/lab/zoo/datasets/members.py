"""The named files of a directory or of a tar archive, read without unpacking anything to disk."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from walkback.errors import DataError

LARGEST_MEMBER = 64 << 20
"""In bytes; the largest file that a data set here is read from has 47 MB."""


def folder_members(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the named files that lie in a directory."""
    return {name: _read(folder / name) for name in names if (folder / name).is_file()}


def _read(file: Path) -> bytes:
    _refuse_large(str(file), file.stat().st_size)
    return file.read_bytes()


def archive_members(path: Path, wanted: Callable[[PurePosixPath], bool]) -> dict[str, bytes]:
    """Those files of a tar archive that are wanted, by their names without directories; read in one pass."""
    found = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                if not wanted(PurePosixPath(member.name)) or not member.isfile():
                    continue
                _refuse_large(f"{path}: {name}", member.size)
                file = archive.extractfile(member)
                found[name] = file.read() if file else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        why = " ".join(str(error).split())  # tarfile lists what it tried, line by line
        raise DataError(f"{path} is not a whole tar archive ({why}); fetch it again.") from None
    return found


def _refuse_large(what: str, size: int) -> None:
    if size > LARGEST_MEMBER:
        raise DataError(f"{what} is {size:,} bytes, too large for any data set here.")
