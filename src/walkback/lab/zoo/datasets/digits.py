"""Digits: 1,797 handwritten digits of 8 × 8 that come with scikit-learn; small, quick, and never downloaded.

Stored values 0 to 16 become 0 to 255. The split is fixed and stratified: of each class, the 30 % of samples
with the smallest digests (`fingerprint.digests`) are the test split. Neither crop nor flip: eight pixels
leave no room for the one, and the other turns a 2 into no digit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from walkback.errors import DataError
from walkback.lab.zoo.datasets.fingerprint import Raw, RawPair, canonical, digests
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, dataset_of

CLASS_NAMES = tuple(str(digit) for digit in range(10))
PREPARATION = Preparation(mean=(0.3052,), std=(0.3757,))
FINGERPRINT = "ecfd47120ba372c0c0c0125a3c851711aad3ac41b93aa2a19df447702654540c"
TEST_SHARE = 0.3


def load(root: Path | str | None = None) -> Dataset:
    """The digits with their fixed split; `root` is accepted, as by every data set, and not needed."""
    del root
    pair, found = canonical(stratified(_everything()))
    if found != FINGERPRINT:
        raise DataError(
            f"scikit-learn's digits have the fingerprint {found[:12]}…, expected {FINGERPRINT[:12]}…: "
            "they are not the set that this version knows. Install another scikit-learn."
        )
    return dataset_of("digits", pair, PREPARATION, CLASS_NAMES)


def _everything() -> Raw:
    """All samples, as bytes."""
    # Only this data set needs scikit-learn, which is slow to import.
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    return Raw(images[..., None], bunch.target.astype(np.int64))


def stratified(raw: Raw) -> RawPair:
    """Split each class by the rank of its samples' digests: no generator, and no order, to depend on."""
    keys = digests(raw)
    in_test = np.zeros(len(keys), dtype=bool)
    for label in np.unique(raw.labels):
        members = sorted(np.flatnonzero(raw.labels == label).tolist(), key=keys.__getitem__)
        in_test[members[: round(TEST_SHARE * len(members))]] = True
    train, test = (Raw(raw.images[chosen], raw.labels[chosen]) for chosen in (~in_test, in_test))
    return RawPair(train, test)
