"""One fingerprint and one order for a data set, wherever it came from.

Different sources of the same images need not store them in the same order. So each sample has a digest,
`sha256(pixels ‖ label)`; the fingerprint of the data set is taken over the sorted digests and does not depend
on the order; and samples are kept sorted by digest, so that a seed gives the same batches whatever the
source. That order is as good as shuffled: the first n samples are a fair sample of the split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from walkback.errors import DataError

Content = TypeVar("Content")
Arrays = dict[str, NDArray[Any]]


class Form(Protocol[Content]):
    """What a data set's content is before it is a data set: how it is checked, told from others, and kept."""

    def canonical(self, content: Content, where: str) -> tuple[Content, str]:
        """The content in its one order, and its fingerprint; a `DataError` where it does not fit together."""
        ...

    def described(self, content: Content) -> str:
        """What it is, in a few words, for a sentence that refuses it."""
        ...

    def arrays(self, content: Content) -> Arrays:
        """The content as named arrays."""
        ...

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Content:
        """The content again from its arrays; a `KeyError` where one is missing."""
        ...


class Raw(NamedTuple):
    """A split before torch: uint8 images (N, H, W, C) and int64 labels (N,)."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


class RawPair(NamedTuple):
    """The train and the test split before torch."""

    train: Raw
    test: Raw


def check_raw(raw: Raw, where: str) -> Raw:
    """The split itself, if its arrays fit together and its labels fit a byte; else a `DataError`."""
    if raw.images.ndim != 4 or raw.images.dtype != np.uint8:
        raise DataError(
            f"{where} holds {raw.images.dtype} images of shape {raw.images.shape}; expected uint8 (N, H, W, C)."
        )
    if raw.labels.shape != raw.images.shape[:1] or raw.labels.dtype.kind not in "iu":
        raise DataError(
            f"{where} holds {raw.labels.dtype} labels of shape {raw.labels.shape} "
            f"for {len(raw.images)} images; expected one integer per image."
        )
    if len(raw.labels) and not 0 <= int(raw.labels.min()) <= int(raw.labels.max()) < 256:
        raise DataError(f"{where} holds labels outside 0 to 255; expected class numbers.")
    return Raw(raw.images, raw.labels.astype(np.int64))


def digests(raw: Raw) -> list[bytes]:
    """sha256 of each sample's pixels, row by row with channels last, followed by its label as one byte."""
    images = np.ascontiguousarray(raw.images)
    labels = raw.labels.astype(np.uint8)
    return [
        hashlib.sha256(image.tobytes() + label.tobytes()).digest() for image, label in zip(images, labels, strict=True)
    ]


def canonical(pair: RawPair) -> tuple[RawPair, str]:
    """The same samples sorted by digest within each split, and the fingerprint of the whole."""
    whole = hashlib.sha256()
    ordered = []
    for raw in pair:
        keys = digests(raw)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        whole.update(f"{raw.images.shape[1:]} {len(keys)} ".encode())
        whole.update(b"".join(keys[index] for index in order))
        already = order == list(range(len(order)))
        ordered.append(raw if already else Raw(raw.images[order], raw.labels[order]))
    return RawPair(ordered[0], ordered[1]), whole.hexdigest()


class Images:
    """The form of a train and a test split of labelled images."""

    def canonical(self, content: RawPair, where: str) -> tuple[RawPair, str]:
        """Sorted by digest within each split."""
        return canonical(RawPair(check_raw(content.train, where), check_raw(content.test, where)))

    def described(self, content: RawPair) -> str:
        """How many images of which shape."""
        train, test = content
        return f"{len(train.labels)} + {len(test.labels)} images of {train.images.shape[1:]}"

    def arrays(self, content: RawPair) -> Arrays:
        """Images and labels of each split."""
        named = zip(RawPair._fields, content, strict=True)
        return {f"{split}_{part}": array for split, raw in named for part, array in raw._asdict().items()}

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> RawPair:
        """Both splits."""
        return RawPair(*(Raw(*(arrays[f"{split}_{part}"] for part in Raw._fields)) for split in RawPair._fields))


IMAGES = Images()
