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
    """One boolean per sample, (N,), as base64 of N bits, the last byte filled up with zeros.

    Where every token of a sample has an answer, (N, T), its T bits stand in the place of the one.
    """
    bits = base64.b64encode(np.packbits(correct, bitorder="big").tobytes()).decode("ascii")
    several = {} if correct.ndim == 1 else {"answers_per_sample": correct.shape[1]}
    return {"samples": len(correct), **several, "order": ORDER, "bits": bits}


def unpacked(result: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """What a result's run answered rightly, (N,) or (N, T); None for a result from before this was kept.

    What does not fit the result's own number of test samples or its accuracy is refused.
    """
    if "correct" not in result:
        return None
    samples, accuracy = result["test_samples"], result["accuracy"]
    correct = _bits(result["correct"], samples, result.get("test_answers"), f"the result of run {result['id']}")
    if int(correct.sum()) != round(accuracy * correct.size):
        raise RecordError(
            f"the result of run {result['id']} has {int(correct.sum())} right answers of {correct.size} in its bits, "
            f"and an accuracy of {accuracy}. Remove it, and train the run again."
        )
    return correct


def _bits(entry: Any, samples: int, answers: int | None, source: str) -> NDArray[np.bool_]:
    """The bits of an entry that `packed` made, shaped as it was."""
    try:
        order, count, raw = entry["order"], entry["samples"], base64.b64decode(entry["bits"], validate=True)
        each = entry.get("answers_per_sample")
    except (LookupError, TypeError, ValueError, AttributeError):
        raise RecordError(f"{source} holds right answers that cannot be read. Train the run again.") from None
    whole = samples if answers is None else answers
    shape = (samples,) if answers is None else (samples, answers // samples)
    told = each is None if answers is None else samples * each == answers if isinstance(each, int) else False
    if order != ORDER or count != samples or not told or len(raw) != (whole + 7) // 8:
        raise RecordError(
            f"{source} holds {len(raw)} bytes of right answers for {count} samples, in the order {order!r}; expected "
            f"{(whole + 7) // 8} bytes for {samples} samples, in the order {ORDER!r}. Train the run again."
        )
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=whole, bitorder="big")
    return bits.astype(np.bool_).reshape(shape)
