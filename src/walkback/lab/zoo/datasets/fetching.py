"""Getting bytes from elsewhere: over HTTP, or through a package manager's own client."""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from walkback.errors import DataError

Progress = Callable[[str], None]
"""Called with one line of text at a time while something is being fetched."""

SILENCE_S = 10.0
"""How long a server may stay silent before the next source is tried."""

CHUNK = 1 << 20


def download(url: str, target: Path, progress: Progress, limit_mb: int = 512) -> Path:
    """Save what an address holds to a file; a silent, failing or oversized answer raises `DataError`."""
    try:
        with urllib.request.urlopen(url, timeout=SILENCE_S) as answer, target.open("wb") as file:
            expected = int(answer.headers.get("Content-Length") or 0)
            received = _copy(answer.read, file.write, progress, url, expected, limit_mb << 20)
    except urllib.error.HTTPError as error:
        raise DataError(f"{url} answered {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(f"{url} cannot be reached ({getattr(error, 'reason', None) or error})") from None
    if expected and received != expected:
        raise DataError(f"{url} broke off after {received} of {expected} bytes")
    return target


def _copy(
    read: Callable[[int], bytes],
    write: Callable[[bytes], object],
    progress: Progress,
    url: str,
    expected: int,
    limit: int,
) -> int:
    """Copy chunk by chunk, with a line every 10 MiB; returns the number of bytes."""
    received = 0
    of_all = f" of {expected / 1e6:.0f}" if expected else ""
    while chunk := read(CHUNK):
        received += len(chunk)
        if received > limit:
            raise DataError(f"{url} sent more than {limit} bytes, which cannot be the data set")
        write(chunk)
        if received // (10 * CHUNK) > (received - len(chunk)) // (10 * CHUNK):
            progress(f"{url}: {received / 1e6:.0f}{of_all} MB")
    return received


def run_client(command: list[str], folder: Path, timeout_s: float = 900.0) -> str:
    """Run a package manager's client in a folder and return what it printed; failure raises `DataError`."""
    client = command[0]
    program = shutil.which(client)
    if program is None:
        raise DataError(f"there is no {client} on this machine")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"`{' '.join(command)}` did not finish in {timeout_s:.0f} s") from None
    except OSError as error:
        raise DataError(f"`{client}` cannot be run ({error.strerror})") from None
    if done.returncode != 0:
        raise DataError(f"`{' '.join(command)}` failed: {_last_words(done.stderr or done.stdout)}")
    return done.stdout


def _last_words(output: str) -> str:
    """The line of a client's output that says most: the last that names an error, else the last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if line.lower().startswith(("e:", "npm error", "npm err!", "error"))]
    return (telling or lines or ["it said nothing"])[-1][:200]


def only_file(folder: Path, pattern: str) -> Path:
    """The one file in a folder that matches; none or several raise `DataError`."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(f"expected one file like {pattern}, found {len(found)}")
    return found[0]
