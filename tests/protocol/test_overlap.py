"""Test samples that were trained on, counted against comparisons of every pair."""

from __future__ import annotations

import pytest
import torch
from small_models import ResMLP, labelled

import walkback
from walkback import DiagnosticThresholds, State
from walkback.errors import BatchError
from walkback.protocol.batches import Batch
from walkback.protocol.overlap import sample_hashes


def with_copies():
    """60 training samples, and 50 test samples of which four are among them, one with another label."""
    train, test = labelled(40, 20, seed=2), labelled(30, 20, seed=3)
    x, y = (torch.cat(column) for column in zip(*train, strict=True))
    places = {3: 7, 29: 59, 30: 0, 44: 12}
    inputs, labels = (torch.cat(column) for column in zip(*test, strict=True))
    for at, source in places.items():
        inputs[at], labels[at] = x[source], y[source]
    labels[44] = (y[12] + 1) % 3
    return train, list(zip(inputs.split([30, 20]), labels.split([30, 20]), strict=True)), places


def test_every_exact_copy_is_counted_and_shown():
    train, test, places = with_copies()
    report = walkback.diagnose(ResMLP(), test, train_batches=train)
    x, inputs = torch.cat([a for a, _ in train]), torch.cat([a for a, _ in test])
    slow = [(i, j) for i, one in enumerate(inputs) for j, other in enumerate(x) if torch.equal(one, other)]
    assert dict(slow) == places
    assert report.overlap.examples == tuple(slow)
    assert (report.overlap.count, report.overlap.same_label) == (4, 3)
    assert (report.overlap.test_samples, report.overlap.train_samples) == (50, 60)
    found = report.reading("o")
    assert found.value == pytest.approx(4 / 50)
    assert found.state is State.REPORTED
    assert "test sample 3 is 7, 29 is 59" in found.sentence
    assert "Exact duplicates only" in found.sentence


def test_a_ceiling_decides_and_nothing_is_found_where_nothing_is():
    train, test, _ = with_copies()
    limits = DiagnosticThresholds(overlap_ceiling=0.0)
    assert walkback.diagnose(ResMLP(), test, train_batches=train, thresholds=limits).reading("o").state is State.FIRE
    clean = walkback.diagnose(ResMLP(), labelled(40, seed=9), train_batches=train, thresholds=limits)
    assert clean.reading("o").state is State.PASS
    assert clean.overlap.count == 0
    # A sample that differs in its last digit is another one.
    nudged = [(x * (1 + 1e-6), y) for x, y in test]
    assert walkback.diagnose(ResMLP(), nudged, train_batches=train).overlap.count == 0
    assert "o" not in [r.letter for r in walkback.diagnose(ResMLP(), test).readings]


def test_batches_of_several_tensors_are_hashed_sample_by_sample():
    first, second, mask = torch.randn(5, 2), torch.randint(0, 9, (5, 3)), torch.ones(4)
    one = Batch({"x": first, "ids": second, "mask": mask}, torch.zeros(5))
    other = Batch({"x": first.clone(), "ids": second.clone(), "mask": 2 * mask}, torch.ones(5))
    assert sample_hashes(one) == sample_hashes(other)
    changed = second.clone()
    changed[2, 1] += 1
    hashes = sample_hashes(Batch({"x": first, "ids": changed, "mask": mask}, torch.zeros(5)))
    assert [a == b for a, b in zip(hashes, sample_hashes(one), strict=True)] == [True, True, False, True, True]
    assert len(set(sample_hashes(Batch(torch.randn(4, 3, dtype=torch.bfloat16), torch.zeros(4))))) == 4
    with pytest.raises(BatchError, match="cannot be compared"):
        sample_hashes(Batch(torch.randn(3), torch.zeros(5)))
