"""Files of one JSON object per line: read up to what was written to its end, and made ready to be added to."""

from __future__ import annotations

import codecs
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from walkback.errors import InputError, RecordError, WalkbackWarning
from walkback.protocol.schema import parse_json, read_json

BLOCK = 2**16
TRACE_NAME = "trace.jsonl"
"""What the trace of a run is called in the run's directory."""


class GrowingFile:
    """A file of lines that others add to: every line is read once, when it is there to its end."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self._offset = self._number = 0
        self._file: tuple[int, int] | None = None

    def was_replaced(self) -> bool:
        """Whether what was read so far is no longer there: another file, or a shorter one. It is begun anew then."""
        try:
            now = Path(self.path).stat()
        except OSError as error:
            raise _unreadable(self.path, error) from None
        known, self._file = self._file, (now.st_dev, now.st_ino)
        if known in (None, self._file) and now.st_size >= self._offset:
            return False
        self._offset = self._number = 0
        return known is not None

    def new_lines(self, to_the_end: bool = False) -> Iterator[tuple[int, str]]:
        """Number and text of each line since the last call.

        What stands after the last line break is left for the next call; where there is none, `to_the_end`, it is
        a line if it is JSON, and else dropped with a warning.
        """
        try:
            with Path(self.path).open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n") and not (to_the_end and self._is_whole(line)):
                        return
                    self._offset += len(line)
                    self._number += 1
                    yield self._number, line.decode()
        except OSError as error:
            raise _unreadable(self.path, error) from None
        except UnicodeDecodeError as error:
            raise RecordError(
                f"{self.path} is not UTF-8 text (byte {error.start + 1:,}). Expected one JSON object per line."
            ) from None

    def _is_whole(self, rest: bytes) -> bool:
        codecs.getincrementaldecoder("utf-8")().decode(rest)  # half a letter at its end is no fault
        if _is_json(rest):
            return True
        warnings.warn(f"{self.path}: the last line is incomplete and was dropped.", WalkbackWarning, stacklevel=5)
        return False


def _unreadable(path: str | Path, error: OSError) -> RecordError:
    return RecordError(f"cannot read {path}: {error.strerror}. Give the path of a trace.")


def whole_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file that were written to their end; half a line at the end is dropped with a warning."""
    return (text for _, text in GrowingFile(path).new_lines(to_the_end=True))


def _is_json(text: str | bytes) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def lines_to_add_to(path: Path) -> Iterable[str]:
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
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        length = _length_of_rest(file, size)
        file.seek(size - length)
        rest = file.read()
    if rest and _is_json(rest):
        add_text(path, "\n")
    elif rest:
        os.truncate(path, size - len(rest))


def _length_of_rest(file: BinaryIO, size: int) -> int:
    """How many bytes stand after the last line break, looked for from the end."""
    end = size
    while end > 0:
        start = max(end - BLOCK, 0)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return size - (start + found + 1)
        end = start
    return size


def add_text(path: Path, text: str) -> None:
    """Add to a file, flushed, so that a killed process loses at most the line it was writing."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RecordError(f"cannot add to the trace {path}: {error.strerror}. Give a path with room on it.") from None


def trace_in(path: Path) -> Path:
    """The trace in a run's directory; any other path as it is."""
    return path / TRACE_NAME if (path / TRACE_NAME).is_file() else path


def run_name(path: Path) -> str:
    """What a trace is known by: the name in the run's config, or its directory, or the file's own name."""
    if path.name != TRACE_NAME:
        return path.stem
    folder = path.resolve().parent
    try:
        return str(read_json(folder / "config.json")["name"])
    except (RecordError, TypeError, LookupError):
        return folder.name
