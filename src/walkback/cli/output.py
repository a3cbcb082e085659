"""Where output goes: the console that tables are printed on, directories for files, and never what is read."""

from __future__ import annotations

import fnmatch
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from walkback.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

PROSE_WIDTH = 160
"""Where words wrap in a pipe; tables do not."""
RUN_FILES = (
    "config.json", "trace.jsonl", "result.json", "lock", "*.safetensors", "*tfevents*", "[0-9a-f]" * 12 + ".json",
)  # fmt: skip
"""What the files of a run are called; the last is its result in the archive."""


def output() -> Console:
    """Standard output, in which no row of a table has to wrap where it is a pipe without COLUMNS."""
    from walkback.present.console import standard_output

    return standard_output(PROSE_WIDTH)


def require_writable(outputs: Iterable[Path | None], inputs: Iterable[str | Path] = ()) -> None:
    """Raise where a file cannot be written or would destroy what is read, before the first of several is written.

    An input is a file, `file.py:function`, `package.module:function` or a directory. In a directory, and beside an
    input file, what walkback keeps records in may not be written over either.
    """
    paths = [path for path in outputs if path is not None]
    for path in paths:
        if str(path) == "-":
            raise InputError("cannot write a file called -. Give a name, or /dev/stdout for standard output.")
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a directory. Give the path of a file.")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no directory {path.parent}. Make it, or write elsewhere.")
        if path.is_symlink():
            _require_an_end(path)
        if path.is_file() or not path.exists():
            _require_room(path.resolve())
    read = [place for each in inputs for place in _places(str(each)) if place.exists()]
    require_apart(paths, read)
    folders = {(place if place.is_dir() else place.parent).resolve() for place in read}
    for path in paths:
        if path.is_file() and any(_is_record(path.resolve(), folder) for folder in folders):
            raise InputError(f"cannot write {path}: it is a record that this command reads. Give another path.")


def _require_an_end(link: Path) -> None:
    from walkback.protocol.schema import followed

    try:
        followed(link)
    except OSError as error:
        raise InputError(f"cannot write {link}: {error.strerror}. Give another path.") from None


def _require_room(path: Path) -> None:
    """Make a file beside the one to be written, which is gone at once: only then is it known that one can be."""
    from walkback.protocol.schema import not_written

    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise not_written(path, error) from None


def require_apart(outputs: Iterable[Path], inputs: Iterable[Path] = ()) -> None:
    """Raise where two outputs are one file, or an output is an input, under whatever name, links included."""
    # What is no file, such as a terminal or a pipe, is added to: nothing there is lost.
    paths = [path for path in outputs if path.is_file() or not path.exists()]
    read = list(inputs)
    for number, path in enumerate(paths):
        for other in paths[:number]:
            if _same(path, other):
                raise InputError(f"cannot write two outputs to one file, {other} and {path}. Give each its own.")
        for place in read:
            if _same(path, place):
                raise InputError(f"cannot write {path}: it is {place}, which this command reads. Give another path.")


def _same(one: Path, other: Path) -> bool:
    """Whether both lead to one file, or would, once it is there."""
    return one.samefile(other) if one.exists() and other.exists() else one.resolve() == other.resolve()


def _places(given: str) -> Iterator[Path]:
    """The files that an argument may name."""
    yield Path(given)
    source, colon, _ = given.rpartition(":")
    if colon and source.endswith(".py"):
        yield Path(source)
    elif colon and source:
        yield from (Path(folder, *source.split(".")).with_suffix(".py") for folder in ("", *sys.path))


def _is_record(path: Path, folder: Path) -> bool:
    """Whether a file is one of those that walkback keeps in a directory of runs or of results, and reads again."""
    from walkback.lab.studies import STUDIES

    kinds = ("audit", *(name.replace("-", "_") for name in STUDIES))
    names = (*RUN_FILES, "zoo_check.json", *(f"{kind}_*.json" for kind in kinds))
    return path.is_relative_to(folder) and any(fnmatch.fnmatch(path.name, name) for name in names)


def folder_for(path: Path) -> Path:
    """The directory, made if it is not there, and found to take a file."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise InputError(f"cannot write into the directory {path}: {error.strerror}. Give another one.") from None
