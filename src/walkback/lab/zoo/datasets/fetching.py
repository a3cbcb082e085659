"""Getting bytes from elsewhere: over HTTP, or through a package manager's own client."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar

from walkback.errors import DataError

Progress = Callable[[str], None]
"""Called with one line of text at a time while something is being fetched."""

Got = TypeVar("Got")

SILENCE_S = 10.0
"""How long a server may stay silent before the next source is tried."""

CHUNK = 1 << 20


def download(url: str, target: Path, progress: Progress, limit_mb: int = 512) -> Path:
    """Save what an address holds to a file; a silent, failing or oversized answer raises `DataError`."""
    try:
        # The addresses are written in the source of data sets, and what comes is held to its hash.
        with urllib.request.urlopen(url, timeout=SILENCE_S) as answer, target.open("wb") as file:  # nosec B310
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
    """Run a package manager's client in a directory and return what it printed; failure raises `DataError`."""
    client = command[0]
    program = shutil.which(client)
    if program is None:
        raise DataError(f"there is no {client} on this machine")
    try:
        # A list of words that are written in this package, and no shell.
        done = subprocess.run(  # nosec B603
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
    """The one file in a directory that matches; none or several raise `DataError`."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(f"expected one file like {pattern}, found {len(found)}")
    return found[0]


def in_scratch(read: Callable[[Path, Progress], Got]) -> Callable[[Progress], Got]:
    """Give a way of getting something a directory that is gone when it is done."""

    def way(progress: Progress) -> Got:
        with tempfile.TemporaryDirectory(prefix="walkback-") as scratch:
            return read(Path(scratch), progress)

    return way


def npm_pack(package: str, folder: Path) -> Path:
    """The archive of an npm package, such as `name@1.2.3`, in a directory; none of its scripts is run."""
    # A cache of its own, so that npm does not keep a second copy.
    run_client(["npm", "pack", package, "--ignore-scripts", "--cache", str(folder / "cache")], folder)
    return only_file(folder, "*.tgz")


def pip_source(package: str, sha256: str, folder: Path) -> Path:
    """The source archive of a Python package, such as `name==1.2`, in a directory; nothing is installed.

    pip asks a source archive for its metadata, which runs its setup.py. So it has to have this hash, of an archive that
    was looked at: pip compares it before it opens the archive.
    """
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{package} --hash=sha256:{sha256}\n", encoding="utf-8")
    name = package.partition("==")[0]
    options = ["--quiet", "--no-deps", "--no-binary", name, "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--require-hashes", "--requirement", str(wanted)]
    run_client(command, folder)
    return only_file(folder, "*.tar.gz")
