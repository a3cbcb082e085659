"""Memory that a measurement frees is kept for its next pass, on the CPU."""

from __future__ import annotations

import torch

LARGEST = 31 << 20
"""Bytes; glibc takes no notice of blocks above 32 MiB."""


def keep_freed_memory() -> None:
    """Let the C library keep some tens of megabytes that are freed, rather than hand them back at once.

    glibc hands back what is free at the top of its heap above a limit, and every page that is handed back is faulted in
    anew by the next pass: 6 ms of the 90 that 1,280 samples of a small network take (`python benchmarks/diagnose.py`).
    The limit is twice the largest block that was ever mapped by itself and freed. So one is, here, without a byte of it
    being written to. Other C libraries do not mind.
    """
    block = torch.empty(LARGEST, dtype=torch.uint8)
    del block
