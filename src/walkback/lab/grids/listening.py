"""Which addresses a process and what it started listen on, as Linux tells it. No library is needed."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
_LISTENING = "0A"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def open_to_others(process: int | None = None) -> list[str]:
    """`NAME at ADDRESS:PORT` of every TCP socket of a process and its descendants that others can reach.

    Empty where all of them listen on loopback, and where there is no /proc to read.
    """
    sockets = dict(_listening())
    found = []
    for each in _descendants(os.getpid() if process is None else process):
        for inode in _sockets_of(each):
            if inode in sockets and not sockets[inode][0].is_loopback:
                address, port = sockets[inode]
                found.append(f"{_name(each)} at {address}:{port}")
    return found


def _listening() -> Iterator[tuple[str, tuple[Address, int]]]:
    """Inode → address and port, of every listening TCP socket of this machine."""
    for file in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            for line in (PROC / file).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING:
                    host, port = fields[1].split(":")
                    yield fields[9], (_address(host), int(port, 16))


def _address(digits: str) -> Address:
    """The kernel prints an address as words of 32 bits, each in the machine's own order of bytes."""
    words = [int(digits[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _descendants(process: int) -> Iterator[int]:
    yield process
    for task in PROC.glob(f"{process}/task/*/children"):
        with suppress(OSError):  # it may have ended meanwhile
            for child in task.read_text().split():
                yield from _descendants(int(child))


def _sockets_of(process: int) -> Iterator[str]:
    """The inodes of a process's sockets."""
    for handle in PROC.glob(f"{process}/fd/*"):
        with suppress(OSError):
            target = str(handle.readlink())
            if target.startswith("socket:["):
                yield target.removeprefix("socket:[").removesuffix("]")


def _name(process: int) -> str:
    try:
        return (PROC / str(process) / "comm").read_text().strip()
    except OSError:
        return f"process {process}"
