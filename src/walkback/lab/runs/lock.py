"""One process per run: a lock that the system lets go of when its holder ends, however it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from walkback.errors import RunTaken
from walkback.extras import optional
from walkback.lab.runs.own_files import open_own

PATIENCE_SECONDS = 0.5
"""How long a lock that is taken is tried for: someone who only looks holds it for a moment."""
LOOK_SECONDS = 0.02
"""How long whoever looks tries it: two who look at once must not take each other for the holder."""


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock, or raise `RunTaken` that names the process which has it.

    The system drops the lock of a process that was killed, so there are no stale ones to clear away.
    """
    # Not truncated on opening: the number in it is the holder's.
    handle = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        if not _taken(handle, PATIENCE_SECONDS):
            raise RunTaken(f"{what} is being trained by process {_holder(handle)}. Wait for it, or end it first.")
        _write(handle, f"\n{os.getpid()}\n")
        yield
        _write(handle, "")
    finally:
        os.close(handle)


def _taken(handle: int, patience: float) -> bool:
    """Whether the lock could be had, until the file is closed."""
    # Imported here: whoever reads runs that are finished needs no locks.
    lock_descriptor = optional("filelock").lock_descriptor
    deadline = time.monotonic() + patience
    while not lock_descriptor(handle, blocking=False):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _write(handle: int, text: str) -> None:
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, text.encode())


def _holder(handle: int) -> str:
    # Windows lets nobody else read the first byte, which is what is locked there; the number stands behind it.
    for start in (0, 1):
        with suppress(PermissionError):
            os.lseek(handle, start, os.SEEK_SET)
            return os.read(handle, 32).decode().strip() or "unknown"
    return "unknown"


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        handle = _opened(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not _taken(handle, LOOK_SECONDS)
    finally:
        os.close(handle)


def _opened(path: Path) -> int:
    try:
        return open_own(path, os.O_RDWR)  # which a lock over NFS needs
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise
        return open_own(path, os.O_RDONLY)  # a store that may only be read
