"""Data sets that need depth: drawn by their rules, no test sample trained on, and nothing for a linear readout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from walkback.errors import InputError
from walkback.lab.zoo import build_method, build_model
from walkback.lab.zoo.datasets import Batches, Dataset, Split, load_dataset, normalised
from walkback.lab.zoo.datasets.drawn import hashes
from walkback.lab.zoo.datasets.product import multiplication_table, product

NAMES = ("parity", "product", "shells", "digit_pairs", "two_words")
everyone = pytest.mark.parametrize("name", NAMES)


def inputs_of(split: Split) -> torch.Tensor:
    return normalised(split.inputs, split.preparation).flatten(1)


def linear_accuracy(data: Dataset) -> float:
    """Test accuracy of least squares on one-hot labels, with an offset."""
    seen, unseen = (torch.cat([inputs_of(s), torch.ones(len(s), 1)], dim=1) for s in (data.train, data.test))
    targets = nn.functional.one_hot(data.train.labels, data.classes).float()
    weights = torch.linalg.lstsq(seen, targets, driver="gelsd").solution
    return float(((unseen @ weights).argmax(1) == data.test.labels).float().mean())


@everyone
def test_a_linear_readout_stays_near_chance(name: str) -> None:
    data = load_dataset(name, samples=4096)
    chance = float(data.test.labels.bincount().max()) / len(data.test)
    # Five standard deviations of 1280 guesses.
    assert linear_accuracy(data) < chance + 5 * (chance * (1 - chance) / len(data.test)) ** 0.5


@everyone
def test_it_is_the_same_each_time_and_another_with_another_seed(name: str) -> None:
    one, again, other = (load_dataset(name, samples=256, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.train.inputs, again.train.inputs)
    assert torch.equal(one.test.labels, again.test.labels)
    assert not torch.equal(one.train.inputs[:200], other.train.inputs[:200])


@everyone
def test_no_test_sample_is_trained_on(name: str) -> None:
    data = load_dataset(name, samples=2048)
    assert not set(hashes(inputs_of(data.train))) & set(hashes(inputs_of(data.test)))
    assert len(data.test) == 1280


@everyone
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, "level is 0; expected"),
        ({"level": 99}, "level is 99; expected"),
        ({"samples": 5}, "samples is 5; expected 128"),
        ({"samples": 10**9}, "expected 10,000,000 or less"),
        ({"seed": -1}, "seed is -1; expected 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=f"data set {name}: .*{message}"):
        load_dataset(name, **options)


def test_the_class_of_a_pair_is_the_sum_of_its_digits() -> None:
    pairs, digits = load_dataset("digit_pairs", level=5, samples=300), load_dataset("digits")
    for split, source in ((pairs.train, digits.train), (pairs.test, digits.test)):
        known = dict(zip((image.numpy().tobytes() for image in source.inputs), source.labels.tolist(), strict=True))
        for image, label in zip(split.inputs[:100], split.labels.tolist(), strict=False):
            first, second = (known[image[..., side].contiguous().numpy().tobytes()] for side in range(2))
            assert max(first, second) < 5
            assert (first + second) % 5 == label


def test_the_class_of_two_words_is_an_exclusive_or() -> None:
    data = load_dataset("two_words", samples=500)
    for ones, label in zip(data.train.inputs, data.train.labels.tolist(), strict=True):
        letters = ones.view(16, 12).argmax(1).tolist()
        present = [word in itertools.pairwise(letters) for word in ((0, 1), (2, 3))]
        assert (present[0] != present[1]) == bool(label)
    assert torch.equal(data.train.inputs.sum(dim=1), torch.full((len(data.train),), 16.0))


def test_the_class_of_a_product_is_the_product() -> None:
    """Twin: permutations composed one by one, on the elements that the generator drew first."""
    drawn = product(3, 64, np.random.default_rng(5))
    elements = np.random.default_rng(5).integers(6, size=(64 + 1280, 3))
    members = list(itertools.permutations(range(3)))
    for chosen, label in zip(elements, drawn.train_labels.tolist(), strict=False):
        a, b, c = (members[index] for index in chosen)
        assert members[label] == tuple(a[b[c[place]]] for place in range(3))
    assert sorted(map(tuple, multiplication_table().tolist())) != sorted(map(tuple, multiplication_table().T.tolist()))


def test_backprop_learns_one_that_no_linear_readout_can() -> None:
    data = load_dataset("parity", level=2, samples=2048)
    model = build_model("resmlp", data.spec, width=64, depth=2)
    method, optimizer = build_method("bp", model), torch.optim.AdamW(model.parameters(), lr=3e-3)
    batches = Batches(data.train, 128, shuffle=True)
    for epoch in range(12):
        for inputs, labels in batches.epoch(epoch):
            optimizer.zero_grad()
            method.accumulate(inputs, labels)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(data.test.inputs).argmax(1) == data.test.labels).float().mean()
    assert right > 0.75
