"""What made a result: versions, commit and date."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import walkback


def stamp() -> dict[str, object]:
    """What every result carries beside its command; between equal runs `date` and `commit` alone differ."""
    return {"versions": versions(), "commit": commit(), "date": now()}


def versions() -> dict[str, str]:
    """walkback, Python and those of the libraries that numbers depend on which are here: studies need no torch."""
    found = {"walkback": walkback.__version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "safetensors"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def now() -> str:
    """The date and time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@cache
def commit() -> str:
    """The commit that the source is at, with `+` where it was changed since; empty outside its repository."""
    here = Path(walkback.__file__).resolve().parent
    try:
        # An installed copy may lie in a repository of someone else's, whose commit says nothing.
        if _git(here, "ls-files", "--error-unmatch", "__init__.py"):
            changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", ".")
            return _git(here, "rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        pass
    return ""


def _git(folder: Path, *words: str) -> str:
    # The user's own git, on words that are written above.
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # nosec B603
    return done.stdout.strip()
