"""The idx files of MNIST and of the sets that took over its layout: two of images, two of labels."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from walkback.errors import DataError
from walkback.lab.zoo.datasets.fetching import Progress, download
from walkback.lab.zoo.datasets.fingerprint import Raw, RawPair
from walkback.lab.zoo.datasets.members import LARGEST_MEMBER, archive_members, folder_members

FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
"""As they are published; each may also be there without its compression, and is then called so."""
_NAMES = (*FILES, *(name.removesuffix(".gz") for name in FILES))


def read_idx_copy(path: Path, inner: str, expected: str) -> RawPair:
    """The two splits from a directory with the four files, from one that holds it as `inner`, or from a tar archive."""
    if path.is_dir():
        folder = path / inner if (path / inner).is_dir() else path
        return _pair(folder_members(folder, _NAMES), str(folder), expected)
    return _pair(archive_members(path, lambda member: member.name in _NAMES), str(path), expected)


def download_idx(address: str, folder: Path, progress: Progress) -> Path:
    """The four files from under an address, in a directory."""
    for name in FILES:
        download(f"{address}/{name}", folder / name, progress)
    return folder


def _pair(members: Mapping[str, bytes], where: str, expected: str) -> RawPair:
    arrays = [parse_idx(*_content(members, name, where, expected)) for name in FILES]
    train_images, train_labels, test_images, test_labels = arrays
    return RawPair(
        Raw(train_images[..., None], train_labels.astype(np.int64)),
        Raw(test_images[..., None], test_labels.astype(np.int64)),
    )


def _content(members: Mapping[str, bytes], name: str, where: str, expected: str) -> tuple[bytes, str]:
    """The bytes of one idx file, and what to call them."""
    plain = name.removesuffix(".gz")
    if name not in members and plain not in members:
        raise DataError(f"{where} lacks {name}; expected {expected}.")
    if name not in members:
        return members[plain], f"{where}: {plain}"
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(members[name])) as file:
            return file.read(LARGEST_MEMBER + 1), f"{where}: {name}"
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{where}: {name} is not a whole gzip file ({error}); fetch it again.") from None


def parse_idx(content: bytes, where: str) -> NDArray[np.uint8]:
    """The array in idx bytes: two zeros, an 8 for unsigned bytes, how many axes, the axes, the data."""
    axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    start = 4 + 4 * axes
    if not 1 <= axes <= 3 or len(content) < start:
        raise DataError(f"{where} is not an idx file of unsigned bytes.")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", axes, 4))
    if len(content) - start != math.prod(shape):
        raise DataError(f"{where} holds {len(content) - start} values, its head says {math.prod(shape)}.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
