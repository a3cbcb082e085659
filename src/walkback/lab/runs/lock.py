"""One process per run: a lock that the system lets go of when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walkback.errors import RunTaken
from walkback.lab.runs.own_files import open_own

PATIENCE_SECONDS = 0.5
"""How long a lock that is taken is tried for: someone who only looks holds it for a moment."""


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock, or raise `RunTaken` that names the process which has it.

    The kernel drops the lock of a process that was killed, so there are no stale ones to clear away.
    """
    # Not truncated on opening: the number in it is the holder's.
    handle = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        _take(handle, what)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _take(handle: int, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(handle, 32, 0).decode().strip() or "unknown"
                raise RunTaken(f"{what} is being trained by process {holder}. Wait for it, or end it first.") from None
            time.sleep(0.02)


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        handle = open_own(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
