"""Fashion-MNIST: 60,000 + 10,000 grey pictures of clothing, 28 × 28, in ten classes (Xiao et al., 2017).

Sources, in order: the cache; a copy of the user's (`path`, `$WALKBACK_FASHION_MNIST`, or torchvision's layout
in the cache directory); the files of Debian's installed package `dataset-fashion-mnist`; the official download;
that Debian package, fetched and read without being installed. Training pads by 2 and crops; it does not flip,
since all shoes of this set, the test split's too, point the same way.
"""

from __future__ import annotations

from pathlib import Path

from walkback.errors import DataError
from walkback.lab.zoo.datasets.archive import Archive, Way
from walkback.lab.zoo.datasets.archived import from_archive
from walkback.lab.zoo.datasets.fetching import Progress, in_scratch, only_file, run_client
from walkback.lab.zoo.datasets.fingerprint import IMAGES, RawPair
from walkback.lab.zoo.datasets.idx_files import FILES, download_idx, read_idx_copy
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, dataset_of

CLASS_NAMES = (
    "t-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
PREPARATION = Preparation(mean=(0.2860,), std=(0.3530,), crop=2, flip=False)
FINGERPRINT = "234790f6387ad785e20e927d1de95b344ca0e0743e36764b0733f1665a7d68d2"
OFFICIAL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
PACKAGE = "dataset-fashion-mnist"
INSTALLED = Path("/usr/share/datasets/fashion-mnist")

COPY_EXPECTED = f"a directory with {', '.join(FILES)}"


@from_archive
def load(pair: RawPair) -> Dataset:
    """Fashion-MNIST from the first source that has it; `root` is the cache directory, `path` a copy of your own."""
    return dataset_of("fashion_mnist", pair, PREPARATION, CLASS_NAMES)


def read_copy(path: Path) -> RawPair:
    """A directory with the four idx files, gzipped or not, or one that holds it as torchvision lays it out."""
    return read_idx_copy(path, "FashionMNIST/raw", COPY_EXPECTED)


def _from_installed(_progress: Progress) -> RawPair:
    if not INSTALLED.is_dir():
        raise DataError(f"{PACKAGE} is not installed (no {INSTALLED})")
    return read_copy(INSTALLED)


def _from_official(scratch: Path, progress: Progress) -> RawPair:
    return read_copy(download_idx(OFFICIAL, scratch, progress))


def _from_apt(scratch: Path, _progress: Progress) -> RawPair:
    # apt fetches as another user, who must be able to write here.
    scratch.chmod(0o777)
    run_client(["apt-get", "download", "-q", PACKAGE], scratch, timeout_s=300)
    run_client(["dpkg-deb", "-x", str(only_file(scratch, "*.deb")), "unpacked"], scratch)
    return read_copy(scratch / "unpacked" / INSTALLED.relative_to("/"))


ARCHIVE = Archive(
    name="fashion_mnist",
    form=IMAGES,
    fingerprint=FINGERPRINT,
    copy_variable="WALKBACK_FASHION_MNIST",
    copy_expected=COPY_EXPECTED,
    layouts=("FashionMNIST/raw",),
    read_copy=read_copy,
    ways=(
        Way("debian", f"the files of the installed package {PACKAGE}", _from_installed),
        Way("official", f"{OFFICIAL}, 31 MB", in_scratch(_from_official)),
        Way("apt", f"apt-get download {PACKAGE}, which installs nothing", in_scratch(_from_apt)),
    ),
    advice=(
        f"On Debian or Ubuntu: sudo apt-get update && sudo apt-get install {PACKAGE}. "
        "Elsewhere: put the four files into a directory that WALKBACK_FASHION_MNIST names."
    ),
)
