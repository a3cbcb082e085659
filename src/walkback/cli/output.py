"""Where output goes: the console that tables are printed on, and folders for files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from walkback.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 160


def output() -> Console:
    """Standard output, in which no row of a table has to wrap where it is a pipe."""
    from walkback.present.console import standard_output

    return standard_output(PIPED_WIDTH)


def require_writable(paths: Iterable[Path]) -> None:
    """Raise where a file has no folder to stand in, or is one, before the first of several is written."""
    for path in paths:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder. Give the path of a file.")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}. Make it, or give another path.")


def folder_for(path: Path) -> Path:
    """The folder, made if it is not there, and found to take a file."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise InputError(f"cannot write into the folder {path}: {error.strerror}. Give another one.") from None
