"""Batches against an obvious per-sample twin."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from walkback.errors import InputError
from walkback.lab.zoo.datasets import Batches, Dataset, Preparation, Split, evaluation_batches, held_out_batches

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def image_split(count: int = 40, crop: int = 2, flip: bool = True, size: tuple[int, int] = (6, 5)) -> Split:
    """Random images whose label is their number, so that a batch says which ones it holds."""
    pixels = np.random.default_rng(0).integers(0, 256, (count, *size, 3), dtype=np.uint8)
    return Split(torch.from_numpy(pixels), torch.arange(count), Preparation(MEAN, STD, crop, flip))


def vector_split(count: int = 40) -> Split:
    values = np.random.default_rng(0).standard_normal((count, 7), dtype=np.float32)
    return Split(torch.from_numpy(values), torch.arange(count), Preparation((1.0,), (2.0,)))


def twin_normalised(image: np.ndarray) -> np.ndarray:
    """One image (H, W, C) as (C, H, W), one pixel at a time, in double precision."""
    height, width, channels = image.shape
    out = np.empty((channels, height, width))
    for row, column, channel in itertools.product(range(height), range(width), range(channels)):
        out[channel, row, column] = (image[row, column, channel] / 255 - MEAN[channel]) / STD[channel]
    return out


def twin_windows(image: np.ndarray, crop: int) -> dict[tuple[int, int, bool], np.ndarray]:
    """Every result that crop and flip may have for one image, by (top, left, flipped)."""
    height, width, _ = image.shape
    padded = np.zeros((height + 2 * crop, width + 2 * crop, 3), dtype=np.uint8)
    padded[crop : crop + height, crop : crop + width] = image
    found = {}
    for top, left in itertools.product(range(2 * crop + 1), repeat=2):
        window = padded[top : top + height, left : left + width]
        found[top, left, False] = twin_normalised(window)
        found[top, left, True] = twin_normalised(window[:, ::-1])
    return found


def which(result: Tensor, windows: dict[tuple[int, int, bool], np.ndarray]) -> tuple[int, int, bool]:
    """The one way in which a result came about."""
    matching = [key for key, twin in windows.items() if np.allclose(result.numpy(), twin, atol=1e-5)]
    assert len(matching) == 1
    return matching[0]


def everything(batches: Batches, epoch: int) -> tuple[Tensor, Tensor]:
    inputs, labels = zip(*batches.epoch(epoch), strict=True)
    return torch.cat(inputs), torch.cat(labels)


def test_plain_images_match_the_twin() -> None:
    split = image_split()
    inputs, labels = everything(Batches(split, 16), 0)
    assert labels.tolist() == list(range(40))
    assert inputs.dtype == torch.float32
    assert inputs.shape == (40, *split.input_shape)
    twin = np.stack([twin_normalised(image) for image in split.inputs.numpy()])
    np.testing.assert_allclose(inputs.numpy(), twin, atol=1e-6)


def test_plain_vectors_match_the_twin() -> None:
    split = vector_split()
    inputs, _ = everything(Batches(split, 16, augment=True), 0)
    np.testing.assert_allclose(inputs.numpy(), (split.inputs.numpy() - 1) / 2, atol=1e-6)


def test_every_augmented_image_is_a_window_of_its_own_image() -> None:
    split = image_split()
    windows = [twin_windows(image, 2) for image in split.inputs.numpy()]
    batches = Batches(split, 16, seed=3, augment=True, shuffle=True)
    seen = []
    for epoch in range(12):
        for inputs, labels in batches.epoch(epoch):
            seen += [which(x, windows[y]) for x, y in zip(inputs, labels.tolist(), strict=True)]
    assert {(top, left) for top, left, _ in seen} == set(itertools.product(range(5), repeat=2))
    flips = sum(flipped for _, _, flipped in seen) / len(seen)
    # 480 fair coins: five standard deviations.
    assert abs(flips - 0.5) < 5 * 0.5 / len(seen) ** 0.5


def test_crop_without_flip_and_flip_without_crop() -> None:
    cropped = image_split(crop=1, flip=False)
    inputs, _ = everything(Batches(cropped, 16, augment=True), 0)
    ways = {which(x, twin_windows(i, 1)) for x, i in zip(inputs, cropped.inputs.numpy(), strict=True)}
    assert len(ways) > 1
    assert not any(flipped for *_, flipped in ways)
    mirrored = image_split(crop=0, flip=True)
    inputs, _ = everything(Batches(mirrored, 16, augment=True), 0)
    ways = {which(x, twin_windows(i, 0)) for x, i in zip(inputs, mirrored.inputs.numpy(), strict=True)}
    assert ways == {(0, 0, False), (0, 0, True)}


def test_an_epoch_depends_on_seed_and_epoch_alone() -> None:
    split = image_split()
    first = Batches(split, 16, seed=7, augment=True, shuffle=True)
    straight = [everything(first, epoch) for epoch in range(3)]
    torch.manual_seed(999)
    resumed = everything(Batches(split, 16, seed=7, augment=True, shuffle=True), 2)
    assert torch.equal(resumed[0], straight[2][0])
    assert torch.equal(resumed[1], straight[2][1])
    assert not torch.equal(straight[0][1], straight[1][1])
    other = everything(Batches(split, 16, seed=8, augment=True, shuffle=True), 2)
    assert not torch.equal(other[1], resumed[1])


def test_the_global_generator_and_the_split_are_left_alone() -> None:
    split = image_split()
    before, pixels = torch.get_rng_state(), split.inputs.clone()
    everything(Batches(split, 16, augment=True, shuffle=True), 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(split.inputs, pixels)


CLASSES = 10


def labelled(seed: int = 7, count: int = 40, **options: Any) -> Batches:
    return Batches(image_split(count), 16, seed=seed, augment=True, shuffle=True, **options)


def test_random_labels_are_uniform_over_the_classes() -> None:
    batches = labelled(count=2000, random_labels=CLASSES)
    drawn = torch.cat([labels for epoch in range(5) for _, labels in batches.epoch(epoch)])
    assert drawn.dtype == torch.int64
    counts = np.bincount(drawn.numpy(), minlength=CLASSES)
    assert len(counts) == CLASSES
    # χ² with nine degrees of freedom: 27.9 is passed once in a thousand times.
    assert ((counts - 1000) ** 2 / 1000).sum() < 27.9


def test_random_labels_have_nothing_to_do_with_the_true_ones() -> None:
    split = Split(torch.zeros(4000, 3), torch.arange(4000) % CLASSES, Preparation((0.0,), (1.0,)))
    (truth,) = [labels for _, labels in Batches(split, 4000, seed=7, shuffle=True).epoch(0)]
    batches = Batches(split, 4000, seed=7, shuffle=True, random_labels=CLASSES)
    (drawn,) = [labels for _, labels in batches.epoch(0)]
    agreeing = (truth == drawn).double().mean().item()
    # A tenth agree by chance; four standard deviations.
    assert abs(agreeing - 0.1) < 4 * (0.1 * 0.9 / 4000) ** 0.5


def test_random_labels_are_new_in_every_batch_and_epoch() -> None:
    batches = labelled(count=4 * 16, random_labels=CLASSES)
    drawn = [tuple(labels.tolist()) for epoch in range(3) for _, labels in batches.epoch(epoch)]
    assert len(set(drawn)) == len(drawn) == 12


def test_random_labels_of_an_epoch_depend_on_seed_and_epoch_alone() -> None:
    straight = [everything(labelled(random_labels=CLASSES), epoch)[1] for epoch in range(3)]
    torch.manual_seed(999)
    assert torch.equal(everything(labelled(random_labels=CLASSES), 2)[1], straight[2])
    assert not torch.equal(everything(labelled(8, random_labels=CLASSES), 2)[1], straight[2])


def test_random_labels_leave_the_inputs_and_the_split_as_they_are() -> None:
    split = image_split()
    ours = Batches(split, 16, seed=7, augment=True, shuffle=True, random_labels=CLASSES)
    assert torch.equal(everything(ours, 3)[0], everything(labelled(), 3)[0])
    assert torch.equal(split.labels, torch.arange(40))


def test_the_last_batch_has_as_many_random_labels_as_inputs() -> None:
    assert [len(labels) for _, labels in labelled(random_labels=2).epoch(0)] == [16, 16, 8]


@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [16, 16, 8]), (True, [16, 16])])
def test_every_sample_comes_once(drop_last: bool, sizes: list[int]) -> None:
    batches = Batches(image_split(), 16, shuffle=True, drop_last=drop_last)
    labels = [labels for _, labels in batches.epoch(4)]
    assert [len(part) for part in labels] == sizes
    assert len(batches) == len(sizes)
    assert len(set(torch.cat(labels).tolist())) == sum(sizes)


def test_evaluation_is_in_order_and_plain() -> None:
    split = image_split()
    inputs, labels = zip(*evaluation_batches(split, 16), strict=True)
    plain, _ = everything(Batches(split, 16), 0)
    assert torch.equal(torch.cat(inputs), plain)
    assert torch.cat(labels).tolist() == list(range(40))


def dataset(count: int) -> Dataset:
    split = image_split(count)
    return Dataset("tiny", split, split, tuple(str(number) for number in range(count)))


def test_held_out_batches_are_the_first_whole_ones_of_the_test_split() -> None:
    batches = held_out_batches(dataset(40), count=3, size=8)
    assert [labels.tolist() for _, labels in batches] == [list(range(s, s + 8)) for s in (0, 8, 16)]
    assert len(held_out_batches(dataset(40), count=10, size=16)) == 2
    with pytest.raises(InputError, match="fewer than one batch of 128"):
        held_out_batches(dataset(40))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch size is 0"),
        ({"batch_size": 16, "seed": -1}, "seed is -1"),
        ({"batch_size": 16, "seed": 1.5}, r"seed is 1\.5"),
        ({"batch_size": 64, "drop_last": True}, "leave none"),
        ({"batch_size": 16, "random_labels": 0}, "number of classes to draw labels from is 0"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Batches(image_split(), **arguments)  # type: ignore[arg-type]


def test_bad_epochs_and_sizes_are_refused_at_the_call() -> None:
    with pytest.raises(InputError, match="epoch -1"):
        Batches(image_split(), 16).epoch(-1)
    with pytest.raises(InputError, match="batch size is 0"):
        evaluation_batches(image_split(), 0)
    with pytest.raises(InputError, match="number of batches is 0"):
        held_out_batches(dataset(40), count=0)
