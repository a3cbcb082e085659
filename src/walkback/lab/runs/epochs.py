"""The trace of a run: one JSON line per epoch, appended as it goes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError

from walkback.errors import RunError
from walkback.lab.runs.own_files import open_own, refuse_link
from walkback.protocol.json_codec import SaidTwice
from walkback.protocol.schema import Number, explain, parse_json, write_whole
from walkback.watch.trace_line import TraceLine


class EpochRecord(TraceLine):
    """What was measured at the end of one epoch; epoch 0 is the untrained network.

    `fired` is without (d), which needs the frozen baseline.
    """

    model_config = ConfigDict(extra="forbid")

    epoch: int
    accuracy: Number
    """On the whole test split; in a run with a validation share, on its validation samples."""
    learning_rate: Number
    """Of the last step; before the first epoch, of the first."""
    seconds: Number
    """For training and measuring this epoch."""

    def line(self) -> str:
        """The record as one line of JSON; what is None or empty is left out."""
        return json.dumps(self.compact(), separators=(",", ":"))

    def compact(self) -> dict[str, Any]:
        """The record as a dictionary without what is None or empty."""
        return {name: value for name, value in self.to_dict().items() if value not in (None, "", [], {})}


def append(path: Path, record: EpochRecord) -> None:
    """Add one line, on disk before this returns."""
    try:
        with os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8") as file:
            file.write(record.line() + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}. Run the same command again to resume from the last checkpoint."
        ) from None


def read(path: Path) -> list[EpochRecord]:
    """The epochs in order; a last line that was not written to its end is left out."""
    if not path.exists():
        return []
    *lines, rest = path.read_text(encoding="utf-8", errors="replace").split("\n")
    del rest  # Empty after a whole last line, else what a killed process left of one.
    return [_parsed(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _parsed(line: str, where: str) -> EpochRecord:
    try:
        return EpochRecord.model_validate(parse_json(line))
    except ValidationError as error:
        raise RunError(f"{where} is not an epoch's record: {explain(error)}.") from None
    except ValueError as error:
        why = f"contradicts itself: {error}" if isinstance(error, SaidTwice) else "is not JSON"
        raise RunError(
            f"{where} {why}. Correct the line, or remove the run's directory to train from the start: a run cannot "
            "be resumed without its trace."
        ) from None


def keep_until(path: Path, epoch: int) -> list[EpochRecord]:
    """Drop the lines past an epoch, and a half-written one; what is left."""
    kept = [record for record in read(path) if record.epoch <= epoch]
    rewrite(path, kept)
    return kept


def rewrite(path: Path, records: Sequence[EpochRecord]) -> None:
    """Write the whole trace anew."""
    refuse_link(path)
    write_whole(path, "".join(record.line() + "\n" for record in records))
