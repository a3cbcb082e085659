"""The trace of a run: one JSON line per measurement, appended as training goes on. No torch is needed to read it.

A line has the names that a run of the zoo writes for its epochs, so one reader serves both; fields that it does not
know are passed over. A file is only ever added to: a run that goes back to a checkpoint writes its epochs again, and
the later line counts.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from walkback.errors import InputError, RecordError, WalkbackWarning
from walkback.protocol.records import Alignment, Measurements, Reading, State
from walkback.protocol.schema import Counts, Number, Numbers, explain
from walkback.watch.moment import At

DIGITS = 6
TRACE_NAME = "trace.jsonl"
"""What the trace of a run is called in the run's folder."""

MEASURED = (
    "residual_norms", "bp_grad_norms", "site_stabilities", "drift_shares", "scale_free_gradients",
    "error_size", "reference_fidelity", "frozen_baseline_acc",
)  # fmt: skip
"""Fields that a line and `Measurements` have in common."""


class TraceLine(At):
    """What was measured at one moment of a run."""

    model_config = ConfigDict(extra="ignore")

    accuracy: Number | None = None
    seconds: Number | None = None
    """For the training since the line before, and for measuring this one."""
    loss: Number | None = None
    learning_rate: Number | None = None
    residual_norms: Numbers | None = None
    bp_grad_norms: Numbers | None = None
    site_stabilities: Numbers | None = None
    drift_shares: Numbers | None = None
    scale_free_gradients: Numbers | None = None
    error_size: Number | None = None
    reference_fidelity: Numbers | None = None
    alignment: Numbers | None = None
    deep_alignment: Number | None = None
    frozen_baseline_acc: Number | None = None
    nonfinite: dict[str, Counts] = Field(default_factory=dict)
    """How many samples had a NaN or Inf: `hiddens` and `grads` at each site, and `logits`; zeros left out."""
    samples: int | None = None
    source: str = ""
    """`probe`: held batches in eval mode; `training`: the training pass itself, in train mode."""
    overhead: Number | None = None
    """The monitor's time so far over that of training."""
    fired: tuple[str, ...] = ()
    """The letters of the diagnostics that fired when the line was written."""
    action: str = ""
    reason: str = ""
    unmeasured: str = ""
    """Why there are no diagnostics, where there are none."""

    @property
    def at(self) -> At:
        """The moment alone."""
        return At(epoch=self.epoch, step=self.step)

    def measurements(self) -> Measurements:
        """The figures to judge; what the line lacks stays not measured."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in MEASURED}
        if self.site_stabilities:
            fields["stability_layer"] = middle = (len(self.site_stabilities) - 1) // 2
            fields["cross_batch_stability"] = self.site_stabilities[middle]
        for name in ("hiddens", "grads"):
            fields[f"nonfinite_{name}"] = self.nonfinite.get(name)
        fields["nonfinite_logits"] = sum(self.nonfinite.get("logits", ()))
        if self.alignment is not None:
            fields["alignment"] = Alignment(sites=self.alignment, deep=self.deep_alignment)
        return Measurements(**fields, headline_acc=self.accuracy, samples=self.samples)

    def line(self) -> str:
        """The record as one line of JSON; what says nothing is left out."""
        return self.model_dump_json(exclude_defaults=True)


def line_of(measured: Measurements, readings: Sequence[Reading], **about: Any) -> TraceLine:
    """A line from a measurement and its readings, in six significant digits."""
    figures = {name: getattr(measured, name) for name in MEASURED} | {"accuracy": measured.headline_acc} | about
    if measured.alignment is not None:
        figures |= {"alignment": measured.alignment.sites, "deep_alignment": measured.alignment.deep}
    return TraceLine(
        **{name: rounded(value) for name, value in figures.items() if value is not None},
        nonfinite=nonfinite_counts(measured),
        samples=measured.samples,
        fired=tuple(r.letter for r in readings if r.state is State.FIRE),
    )


def nonfinite_counts(measured: Measurements) -> dict[str, tuple[int, ...]]:
    """How many values were NaN or Inf, site by site; what had none is left out."""
    counts = {
        "hiddens": tuple(measured.nonfinite_hiddens or ()),
        "grads": tuple(measured.nonfinite_grads or ()),
        "logits": (measured.nonfinite_logits or 0,),
    }
    return {name: count for name, count in counts.items() if any(count)}


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """Numbers, in any nesting, to that many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else value
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(rounded(entry, digits) for entry in value)
    return value


def append(path: Path, line: TraceLine) -> None:
    """Add one line, flushed, so that a killed process loses at most the line it was writing."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line.line() + "\n")
    except OSError as error:
        raise RecordError(f"cannot add to the trace {path}: {error.strerror}. Give a path with room on it.") from None


def read_trace(path: str | Path) -> list[TraceLine]:
    """The lines in their order, without those that a later start of the run wrote anew."""
    return _lines(whole_lines(path), path)


def is_finished_run(data: Any) -> bool:
    """Whether an object from a file is the result of a run of the zoo, which holds its trace."""
    return isinstance(data, dict) and "result_version" in data and isinstance(data.get("trace"), list)


def trace_of_result(data: dict[str, Any], path: Path) -> list[TraceLine]:
    """The trace in the result of a run."""
    return _lines(map(json.dumps, data["trace"]), path)


def _lines(texts: Iterable[str], path: str | Path) -> list[TraceLine]:
    return settled(_parsed(text, f"{path}, line {number}") for number, text in enumerate(texts, 1) if text.strip())


def whole_lines(path: str | Path) -> list[str]:
    """The lines of a file that were written to their end; half a line at the end is dropped with a warning."""
    return _split(path)[0]


def _split(path: str | Path) -> tuple[list[str], str]:
    """The whole lines, and what stands after the last line break."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}. Give the path of a trace.") from None
    except ValueError as error:
        raise RecordError(f"{path} is not text ({error}). Expected one JSON object per line.") from None
    *lines, rest = text.split("\n")
    if rest and _is_json(rest):
        lines.append(rest)
    elif rest:
        warnings.warn(
            f"{path}: the last line was not written to its end, and is dropped.", WalkbackWarning, stacklevel=4
        )
    return lines, rest


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(text: str, where: str) -> TraceLine:
    try:
        line = TraceLine.model_validate_json(text)
        line.measurements()
    except ValidationError as error:
        raise RecordError(f"{where} is not a line of a trace: {explain(error)}.") from None
    except InputError as error:
        raise RecordError(f"{where}: {error}.") from None
    return line


def settled(lines: Iterable[TraceLine]) -> list[TraceLine]:
    """The lines without those that later ones of the same or an earlier moment replace."""
    kept: list[TraceLine] = []
    for line in lines:
        while kept and line.not_after(kept[-1]):
            kept.pop()
        kept.append(line)
    return kept


def open_for_adding(path: Path) -> list[TraceLine]:
    """What a trace holds so far; half a line at its end is cut off, so that the next one starts clean."""
    if not path.exists():
        _begin(path)
        return []
    texts, rest = _split(path)
    lines = _lines(texts, path)
    if rest and _is_json(rest):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")
    elif rest:
        os.truncate(path, path.stat().st_size - len(rest.encode()))
    return lines


def _begin(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise InputError(f"cannot write the trace {path}: {error.strerror}. Give a path that can be written.") from None


def is_trace(record: Any) -> bool:
    """Whether a parsed JSON line looks like one of a trace."""
    return isinstance(record, dict) and any(name in record for name in (*MEASURED[:2], "unmeasured"))


def trace_in(path: Path) -> Path:
    """The trace in a run's folder; any other path as it is."""
    return path / TRACE_NAME if (path / TRACE_NAME).is_file() else path


def run_name(path: Path) -> str:
    """What a trace is known by: the name in the run's config, or its folder, or the file's own name."""
    if path.name != TRACE_NAME:
        return path.stem
    folder = path.resolve().parent
    try:
        return str(json.loads((folder / "config.json").read_text(encoding="utf-8"))["name"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return folder.name
