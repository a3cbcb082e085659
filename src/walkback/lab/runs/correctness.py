"""Which test samples a run answered rightly: one bit each, so that two runs can be compared in pairs. No torch."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from walkback.errors import RecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDER = "test split in its order; numpy.packbits, bitorder big: sample 0 is the highest bit of the first byte"


def packed(correct: NDArray[np.bool_]) -> dict[str, Any]:
    """One boolean per sample, (N,), as base64 of N bits, the last byte filled up with zeros."""
    bits = base64.b64encode(np.packbits(correct, bitorder="big").tobytes()).decode("ascii")
    return {"samples": len(correct), "order": ORDER, "bits": bits}


def unpacked(result: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """Which test samples a result's run answered rightly, (N,); None for a result from before this was kept.

    What does not fit the result's own number of test samples or its accuracy is refused.
    """
    if "correct" not in result:
        return None
    samples, accuracy = result["test_samples"], result["accuracy"]
    correct = _bits(result["correct"], samples, f"the result of run {result['id']}")
    if int(correct.sum()) != round(accuracy * samples):
        raise RecordError(
            f"the result of run {result['id']} has {int(correct.sum())} right answers of {samples} in its bits, and an "
            f"accuracy of {accuracy}. Remove it, and train the run again."
        )
    return correct


def _bits(entry: Any, samples: int, source: str) -> NDArray[np.bool_]:
    """The bits of an entry that `packed` made."""
    try:
        order, count, raw = entry["order"], entry["samples"], base64.b64decode(entry["bits"], validate=True)
    except (LookupError, TypeError, ValueError):
        raise RecordError(f"{source} holds right answers that cannot be read. Train the run again.") from None
    if order != ORDER or count != samples or len(raw) != (samples + 7) // 8:
        raise RecordError(
            f"{source} holds {len(raw)} bytes of right answers for {count} samples, in the order {order!r}; expected "
            f"{(samples + 7) // 8} bytes for {samples} samples, in the order {ORDER!r}. Train the run again."
        )
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=samples, bitorder="big").astype(np.bool_)
