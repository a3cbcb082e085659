"""Files of one JSON object per line: read up to what was written to its end, and made ready to be added to."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from walkback.errors import InputError, RecordError, WalkbackWarning
from walkback.protocol.schema import parse_json, read_json

TRACE_NAME = "trace.jsonl"
"""What the trace of a run is called in the run's folder."""


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
        parse_json(text)
    except ValueError:
        return False
    return True


def lines_to_add_to(path: Path) -> list[str]:
    """The whole lines of a file, which is made where it is not there."""
    if path.exists():
        return whole_lines(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise InputError(f"cannot write the trace {path}: {error.strerror}. Give a path that can be written.") from None
    return []


def end_line(path: Path) -> None:
    """Cut off half a line at the end, or break a whole one off, so that the next starts clean."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WalkbackWarning)
        _, rest = _split(path)
    if rest and _is_json(rest):
        add_text(path, "\n")
    elif rest:
        os.truncate(path, path.stat().st_size - len(rest.encode()))


def add_text(path: Path, text: str) -> None:
    """Add to a file, flushed, so that a killed process loses at most the line it was writing."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RecordError(f"cannot add to the trace {path}: {error.strerror}. Give a path with room on it.") from None


def trace_in(path: Path) -> Path:
    """The trace in a run's folder; any other path as it is."""
    return path / TRACE_NAME if (path / TRACE_NAME).is_file() else path


def run_name(path: Path) -> str:
    """What a trace is known by: the name in the run's config, or its folder, or the file's own name."""
    if path.name != TRACE_NAME:
        return path.stem
    folder = path.resolve().parent
    try:
        return str(read_json(folder / "config.json")["name"])
    except (RecordError, TypeError, LookupError):
        return folder.name
