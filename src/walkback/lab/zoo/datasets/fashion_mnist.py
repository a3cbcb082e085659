"""Fashion-MNIST: 60,000 + 10,000 grey pictures of clothing, 28 × 28, in ten classes (Xiao et al., 2017).

Sources, in order: the cache; a copy of the user's (`path`, `$WALKBACK_FASHION_MNIST`, or torchvision's layout
in the cache folder); the files of Debian's installed package `dataset-fashion-mnist`; the official download;
that Debian package, fetched and read without being installed. Training pads by 2 and crops; it does not flip,
since all shoes of this set, the test split's too, point the same way.
"""

from __future__ import annotations

import gzip
import math
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from walkback.errors import DataError
from walkback.lab.zoo.datasets.archive import Archive, Way, obtain
from walkback.lab.zoo.datasets.fetching import Progress, download, only_file, run_client
from walkback.lab.zoo.datasets.fingerprint import Raw, RawPair
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, dataset_of

CLASS_NAMES = (
    "t-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
PREPARATION = Preparation(mean=(0.2860,), std=(0.3530,), crop=2, flip=False)
FINGERPRINT = "234790f6387ad785e20e927d1de95b344ca0e0743e36764b0733f1665a7d68d2"
OFFICIAL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
PACKAGE = "dataset-fashion-mnist"
INSTALLED = Path("/usr/share/datasets/fashion-mnist")

_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_LARGEST_FILE = 64 << 20


def load(
    root: Path | str | None = None,
    *,
    path: Path | str | None = None,
    download: bool = True,
    progress: Progress | None = None,
    fingerprint: str = FINGERPRINT,
) -> Dataset:
    """Fashion-MNIST from the first source that has it; `root` is the cache folder, `path` a copy of your own.

    `fingerprint` is what the content must have; another value admits another set in the same layouts.
    """
    archive = replace(ARCHIVE, fingerprint=fingerprint)
    pair = obtain(archive, root, path, download, progress)
    return dataset_of("fashion_mnist", pair, PREPARATION, CLASS_NAMES)


def read_copy(path: Path) -> RawPair:
    """A folder with the four idx files, gzipped or not, or one that holds it as torchvision lays it out."""
    inner = path / "FashionMNIST" / "raw"
    folder = inner if inner.is_dir() else path
    train_images, train_labels, test_images, test_labels = (_read_idx(folder, name) for name in _FILES)
    return RawPair(
        Raw(train_images[..., None], train_labels.astype(np.int64)),
        Raw(test_images[..., None], test_labels.astype(np.int64)),
    )


def _read_idx(folder: Path, name: str) -> NDArray[np.uint8]:
    """The array in one idx file: images (N, 28, 28) or labels (N,)."""
    plain = folder / name.removesuffix(".gz")
    packed = folder / name
    if not packed.is_file() and not plain.is_file():
        raise DataError(f"{folder} lacks {name}; expected {ARCHIVE.copy_expected}.")
    try:
        with gzip.open(packed) if packed.is_file() else plain.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{packed} is not a whole gzip file ({error}); fetch it again.") from None
    return parse_idx(content, str(packed))


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


def _from_installed(_progress: Progress) -> RawPair:
    if not INSTALLED.is_dir():
        raise DataError(f"{PACKAGE} is not installed (no {INSTALLED})")
    return read_copy(INSTALLED)


def _from_official(progress: Progress) -> RawPair:
    with tempfile.TemporaryDirectory(prefix="walkback-") as scratch:
        for name in _FILES:
            download(f"{OFFICIAL}/{name}", Path(scratch) / name, progress)
        return read_copy(Path(scratch))


def _from_apt(_progress: Progress) -> RawPair:
    with tempfile.TemporaryDirectory(prefix="walkback-") as scratch:
        folder = Path(scratch)
        # apt fetches as another user, who must be able to write here.
        folder.chmod(0o777)
        run_client(["apt-get", "download", "-q", PACKAGE], folder, timeout_s=300)
        run_client(["dpkg-deb", "-x", str(only_file(folder, "*.deb")), "unpacked"], folder)
        return read_copy(folder / "unpacked" / INSTALLED.relative_to("/"))


ARCHIVE = Archive(
    name="fashion_mnist",
    fingerprint=FINGERPRINT,
    copy_variable="WALKBACK_FASHION_MNIST",
    copy_expected=f"a folder with {', '.join(_FILES)}",
    layouts=("FashionMNIST/raw",),
    read_copy=read_copy,
    ways=(
        Way("debian", f"the files of the installed package {PACKAGE}", _from_installed),
        Way("official", f"{OFFICIAL}, 31 MB", _from_official),
        Way("apt", f"apt-get download {PACKAGE}, which installs nothing", _from_apt),
    ),
    advice=(
        f"On Debian or Ubuntu: sudo apt-get update && sudo apt-get install {PACKAGE}. "
        "Elsewhere: put the four files into a folder and set WALKBACK_FASHION_MNIST to it."
    ),
)
