"""Files that belong to a run alone: never links, through which training would write over what is elsewhere."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from walkback.errors import RunError


def open_own(path: Path, flags: int) -> int:
    """A handle of the file itself; a link in its place is refused, and nothing behind it is touched."""
    nofollow = getattr(os, "O_NOFOLLOW", None)
    if nofollow is None:  # Windows: looked at first, which leaves a moment between
        refuse_link(path)
    try:
        return os.open(path, flags | (nofollow or 0), 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            refuse_link(path)
        raise


def refuse_link(path: Path) -> None:
    """Raise where a file is a link."""
    if path.is_symlink():
        raise RunError(
            f"{path} is a link to {path.readlink()}, which training would overwrite. Remove the link. The whole run "
            "directory may be a link; a file in it may not."
        )
