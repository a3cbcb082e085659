"""What every input is held to, whatever it is handed to."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fuzz_mutators import ESCAPE, MARKUP

from walkback.errors import WalkbackError, WalkbackWarning

CPU_SECONDS = 20.0
"""Of one input. The slowest sound one takes less than two."""
MEMORY = 2 << 30
"""Bytes that an input may ask for beyond what the imported libraries take."""
FILES = 64 << 20
"""Bytes of the largest file that may be written."""


class Finding(NamedTuple):
    """One thing that does not hold."""

    rule: str
    what: str


class TooLong(BaseException):
    """An input took more than its time; no handler of an Exception may take it for something else."""


class Ran(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


def limit_memory() -> None:
    """From here on this process cannot grow by more than its limit."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an OSError then
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILES, resource.RLIM_INFINITY))


@contextlib.contextmanager
def limited(seconds: float = CPU_SECONDS) -> Iterator[None]:
    """So much CPU time, and no more."""

    def ring(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # again and again, should something swallow it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def prints_of(folder: Path) -> dict[str, str]:
    """The digest of every file under a folder, and where links lead."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest()
    return found


def command(*words: Any) -> Ran:
    """A verb in this process, as its user meets it."""
    from walkback.cli import main

    out, err, before = io.StringIO(), io.StringIO(), (sys.argv, list(sys.path))
    sys.argv = ["walkback", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", WalkbackWarning)
            main.run()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
        return Ran(status, out.getvalue(), err.getvalue())
    finally:
        sys.argv, sys.path[:] = before
    raise AssertionError("the command line came back without an exit status")


def findings_of(act: Callable[[], Iterator[Finding]], inputs: Path, outputs: Path) -> list[Finding]:
    """Hand an input over, and everything that does not hold then."""
    before = prints_of(inputs)
    found: list[Finding] = []
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += act()
    except WalkbackError:
        pass
    except TooLong:
        found.append(Finding("no hang", f"it took more than {CPU_SECONDS:g} s of CPU time"))
    except MemoryError:
        found.append(Finding("memory", f"it asked for more than {MEMORY >> 30} GiB"))
    except BaseException as error:
        found.append(Finding("no exception but walkback's", f"{type(error).__name__}: {str(error)[:300]}"))
    if (after := prints_of(inputs)) != before:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        found.append(Finding("no changed input", ", ".join(changed)[:300]))
    return found + list(half_written(outputs))


def ended_well(ran: Ran, outputs: Path, may_lack_memory: bool = False) -> Iterator[Finding]:
    """What a command is held to beyond what a function is."""
    if "Traceback (most recent call last)" in ran.err:
        yield Finding("no exception but walkback's", ran.err.strip().splitlines()[-1][:300])
    if ran.status not in (0, 1, 2, 3):
        yield Finding("exit status", f"{ran.status}: {ran.err[-300:]}")
    if ran.status == 2 and not (ran.err + ran.out).strip():
        yield Finding("a sentence", "it ended with 2 and said nothing")
    if not may_lack_memory and ("not enough memory" in ran.err or "GiB of memory" in ran.err):
        yield Finding("memory", ran.err.strip()[-300:])
    if ran.status == 2 and (left := sorted(prints_of(outputs))):
        yield Finding("no file half-written", f"it ended with an error and left {', '.join(left)[:300]}")
    if "\x1b" in ran.out + ran.err or ESCAPE in ran.out + ran.err:
        yield Finding("no escape sequence", "a terminal would obey what it printed")


def half_written(outputs: Path) -> Iterator[Finding]:
    """What was written is whole, and says nothing that a browser would run."""
    for path in outputs.rglob("*"):
        if not path.is_file():
            continue
        whole = WHOLE.get(path.suffix, lambda content: True)
        content = path.read_bytes()
        if path.name.startswith(".") or not content or not _holds(whole, content):
            yield Finding("no file half-written", f"{path.name}, {len(content)} bytes")
        if path.suffix == ".html" and MARKUP.encode() in content:
            yield Finding("no markup", f"{path.name} holds the words of a record as they are")


def _holds(whole: Callable[[bytes], bool], content: bytes) -> bool:
    try:
        return whole(content)
    except ValueError:
        return False


def _strict_json(content: bytes) -> bool:
    def refuse(word: str) -> None:
        raise ValueError(word)

    json.loads(content, parse_constant=refuse)
    return True


WHOLE: dict[str, Callable[[bytes], bool]] = {
    ".json": _strict_json,
    ".html": lambda content: content.rstrip().endswith(b"</html>"),
    ".tex": lambda content: content.count(b"\\begin{") == content.count(b"\\end{"),
    ".png": lambda content: content.endswith(b"IEND\xaeB`\x82"),
    ".md": lambda content: bool(content.decode()) and content.endswith(b"\n"),
    ".csv": lambda content: bool(content.decode()) and content.endswith(b"\n"),
}
"""By what a whole file of a kind is known."""


def holds_nan(value: Any) -> bool:
    """Whether a JSON value has NaN anywhere, as a number or as the word for it."""
    if isinstance(value, dict | list):
        return any(map(holds_nan, value.values() if isinstance(value, dict) else value))
    return value == "NaN" or (isinstance(value, float) and value != value)
