"""Which samples a run answered rightly, kept as bits."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walkback.errors import RecordError
from walkback.lab.runs.correctness import packed, unpacked


def result_with(correct, **changes):
    entry = packed(np.array(correct, dtype=bool))
    result = {"id": "abc", "test_samples": len(correct), "accuracy": sum(correct) / len(correct), "correct": entry}
    return result | changes


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_bits_come_back_as_they_were(correct):
    assert unpacked(result_with(correct)).tolist() == correct


def test_the_first_sample_is_the_highest_bit_of_the_first_byte():
    entry = packed(np.array([True, False, False, False, False, False, True, True, False, True]))
    assert base64.b64decode(entry["bits"]) == bytes([0b10000011, 0b01000000])
    assert entry["samples"] == 10
    assert "big" in entry["order"]
    assert len(packed(np.ones(10_000, dtype=bool))["bits"]) == 1668


def test_results_from_before_have_none():
    result = result_with([True, False])
    del result["correct"]
    assert unpacked(result) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accuracy": 0.8}, "6 right answers of 10 in its bits, and an accuracy of 0.8"),
        ({"test_samples": 11, "accuracy": 6 / 11}, "for 10 samples, .* expected 2 bytes for 11 samples"),
    ],
)
def test_bits_that_do_not_fit_their_result_are_refused(changes, reason):
    with pytest.raises(RecordError, match=reason):
        unpacked(result_with([True, False] * 4 + [True, True], **changes))


@pytest.mark.parametrize(
    "changes",
    [{"bits": "//"}, {"bits": "/////w=="}, {"order": "little"}, {"bits": 7}, {"samples": 9}, {"bits": "\u00e9"}],
)
def test_bits_that_cannot_be_read_are_refused(changes):
    result = result_with([True, False] * 5)
    result["correct"] |= changes
    with pytest.raises(RecordError, match="the result of run abc holds"):
        unpacked(result)
    for damaged in (None, [], {}, "bits"):
        with pytest.raises(RecordError, match="cannot be read"):
            unpacked(result | {"correct": damaged})
