"""A data set that has to be got from somewhere: tried in order, verified by content, cached whole.

The order is the cache, a copy that the user has, and then each way of getting it. Whatever the source, the
content must have the data set's fingerprint before it is used or kept.
"""

from __future__ import annotations

import io
import logging
import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

import numpy as np

from walkback.errors import DataError, InputError
from walkback.lab.zoo.datasets.fetching import Progress
from walkback.lab.zoo.datasets.fingerprint import Form
from walkback.protocol.schema import write_whole

CACHE_VARIABLE = "WALKBACK_DATA"
LARGEST_ARRAY = 2**30
"""In bytes; that of the largest data set here takes a sixth of it."""
Content = TypeVar("Content")
_log = logging.getLogger(__name__)


class CacheMissError(DataError):
    """There is no cached copy, which is no fault."""


@dataclass(frozen=True)
class Way(Generic[Content]):
    """One way of getting a data set; `read` raises `DataError` when it does not work here."""

    name: str
    what: str
    read: Callable[[Progress], Content]


@dataclass(frozen=True)
class Archive(Generic[Content]):
    """What is known of a data set that is not made on the spot."""

    name: str
    form: Form[Content]
    """What its content is, before it is a data set: two splits of images, or texts by name."""
    fingerprint: str
    copy_variable: str
    """The environment variable that may name the user's own copy."""
    copy_expected: str
    """What such a copy may be, for error messages."""
    layouts: tuple[str, ...]
    """Where under the cache directory other programs put the same files."""
    read_copy: Callable[[Path], Content]
    ways: tuple[Way[Content], ...]
    advice: str
    """What to do when nothing worked."""


def cache_folder(root: Path | str | None = None) -> Path:
    """Where data sets are kept: the argument, else `$WALKBACK_DATA`, else `~/.cache/walkback`."""
    chosen = root or os.environ.get(CACHE_VARIABLE) or Path("~/.cache/walkback")
    return Path(chosen).expanduser()


def cache_file(archive: Archive[Content], root: Path | str | None = None) -> Path:
    """The one file in which the data set is kept."""
    return cache_folder(root) / f"{archive.name}.npz"


def obtain(
    archive: Archive[Content],
    root: Path | str | None = None,
    path: Path | str | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> Content:
    """The data set from the first source that has it, kept in the cache for the next time."""
    failures: list[str] = []
    try:
        return read_cache(archive, root)
    except CacheMissError as error:
        failures.append(f"cache: {error}")
    except DataError as error:
        failures.append(f"cache: {error}")
        (progress or _log.warning)(f"{archive.name}: {error}; it is rebuilt")
    say = progress or _log.info
    if copy := path or os.environ.get(archive.copy_variable):
        # A copy that was named is never passed over in silence for another source.
        return keep(archive, take_copy(archive, Path(copy)), root, say)
    for way in (*_copies_in(archive, cache_folder(root)), *(archive.ways if download else ())):
        try:
            content = try_way(archive, way, say)
        except DataError as error:
            failures.append(f"{way.name}: {error}")
            say(f"{archive.name}: {failures[-1]}")
        else:
            return keep(archive, content, root, say)
    if not download:
        failures.append(f"not tried, as downloads are off: {', '.join(way.name for way in archive.ways)}")
    raise DataError(f"{archive.name} is not available. Tried: {'; '.join(failures)}. {archive.advice}")


def take_copy(archive: Archive[Content], copy: Path) -> Content:
    """Read and verify the copy that the user named."""
    copy = copy.expanduser()
    if not (copy.is_file() or copy.is_dir()):
        raise DataError(f"{archive.name}: there is no file or directory {copy}; expected {archive.copy_expected}.")
    try:
        content = archive.read_copy(copy)
    except OSError as error:
        raise DataError(f"{archive.name}: cannot read {copy}: {error.strerror or error}.") from None
    return verified(archive, content, str(copy))


def try_way(archive: Archive[Content], way: Way[Content], say: Progress) -> Content:
    """Get the data set one way and verify it."""
    say(f"{archive.name}: trying {way.name} ({way.what})")
    try:
        content = way.read(say)
    except OSError as error:
        raise DataError(f"{error.strerror or error}") from None
    return verified(archive, content, way.name)


def _copies_in(archive: Archive[Content], folder: Path) -> list[Way[Content]]:
    """The layouts of other programs that lie in the cache directory."""
    present = [folder / layout for layout in archive.layouts if (folder / layout).exists()]
    return [Way("your copy", str(copy), partial(_read_present, archive, copy)) for copy in present]


def _read_present(archive: Archive[Content], copy: Path, _say: Progress) -> Content:
    return take_copy(archive, copy)


def verified(archive: Archive[Content], content: Content, where: str) -> Content:
    """The content in canonical order, if its fingerprint is the expected one; else a `DataError`."""
    content, found = archive.form.canonical(content, where)
    if found != archive.fingerprint:
        raise DataError(
            f"{where} holds {archive.form.described(content)} that are not {archive.name} "
            f"(fingerprint {found[:12]}…, expected {archive.fingerprint[:12]}…)"
        )
    return content


def read_cache(archive: Archive[Content], root: Path | str | None = None) -> Content:
    """The cached data set, verified; `CacheMissError` if there is none, `DataError` if it is damaged."""
    file = cache_file(archive, root)
    try:
        # NumPy leaves a file that it opened itself open when it turns out to be no archive.
        with file.open("rb") as stream:
            _require_honest_sizes(stream)
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            content = archive.form.restored(dict(arrays))
    except FileNotFoundError:
        raise CacheMissError(f"nothing at {file}") from None
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib, NumPy and the tokenizer that it reads heads with have their own
        raise DataError(f"the cached {file} is corrupt ({error})") from None
    return verified(archive, content, f"the cached {file}")


def _require_honest_sizes(stream: BinaryIO) -> None:
    """Raise where an array says that it is larger than what is there: memory is asked for by what it says."""
    with zipfile.ZipFile(stream) as members:
        for member in members.infolist():
            if member.file_size > LARGEST_ARRAY:
                raise ValueError(f"{member.filename} is {member.file_size:,} bytes long, more than any data set here")
            with members.open(member) as content:
                if np.lib.format.read_magic(content) != (1, 0):
                    raise ValueError(f"{member.filename} is of another format than walkback writes")
                shape, _, dtype = np.lib.format.read_array_header_1_0(content)
                claimed, there = math.prod(shape) * dtype.itemsize, member.file_size - content.tell()
            if claimed != there:
                raise ValueError(f"{member.filename} holds {there:,} bytes, and its head says {claimed:,}")


def keep(archive: Archive[Content], content: Content, root: Path | str | None, say: Progress) -> Content:
    """Write the verified data set to the cache, whole or not at all, and return it."""
    file = cache_file(archive, root)
    buffer = io.BytesIO()
    np.savez(buffer, **archive.form.arrays(content))  # type: ignore[arg-type]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, buffer.getvalue())
    except (OSError, InputError) as error:
        raise DataError(
            f"{archive.name} was read, but cannot be kept in {file.parent} ({error}). "
            f"Free some space, or set {CACHE_VARIABLE} to a directory that can be written."
        ) from None
    say(f"{archive.name}: saved to {file} ({file.stat().st_size / 1e6:.0f} MB)")
    return content
