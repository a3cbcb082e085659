"""Records of the bench as they are committed: one file of lines for each half and condition, gzipped. No torch."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from walkback.errors import RecordError
from walkback.lab.validity.record import NetworkRecord, from_line
from walkback.lab.validity.split import Half
from walkback.protocol.json_codec import json_text
from walkback.protocol.schema import write_whole


def packed_file(folder: Path, half: Half, condition: str) -> Path:
    """Where the records of a condition are."""
    return folder / f"{half}_{condition}.jsonl.gz"


def read_packed(path: Path) -> dict[str, NetworkRecord]:
    """The records of a file by id, in its order; none where there is no file."""
    return dict(_read(path, path.stat().st_mtime_ns)) if path.is_file() else {}


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> tuple[tuple[str, NetworkRecord], ...]:
    del changed  # a file that was written anew is read anew
    try:
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read ({error}). Restore it from the repository.") from None
    records = [from_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    return tuple((record.id, record) for record in records)


def write_packed(path: Path, records: Iterable[NetworkRecord]) -> Path:
    """All records in one file; the same records give the same bytes."""
    text = "".join(json_text(record.to_dict(), compact=True) for record in records)
    held = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=held, mode="wb", mtime=0) as file:
        file.write(text.encode("utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, held.getvalue())


def digest_of(paths: Iterable[Path]) -> str:
    """The SHA-256 of the contents of files, in order, in 16 hexadecimal digits."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + b"\0" + gzip.decompress(path.read_bytes()))
    return found.hexdigest()[:16]
