"""What a run is trained on: the device that a word means, torch's settings there, and what is recorded of them.

A run's id does not depend on its device: it starts from the same weights and feedback and sees the same batches
everywhere. Sums in another order, and noise that is drawn on the device, make its figures differ in their digits; so
its result says what it was trained on. Importing this imports no torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from walkback.errors import InputError
from walkback.protocol.schema import shortened

if TYPE_CHECKING:
    import torch

CPU = "cpu"
AUTO = "auto"
CPU_IN_FP32: dict[str, Any] = {"device": CPU, "precision": "fp32"}
EXPECTED = "expected auto, cpu, cuda, cuda:N such as cuda:1, or mps"
WORKSPACE, REPRODUCIBLE = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
"""Without it cuBLAS may sum in another order from call to call; read when CUDA starts."""


def checked_word(word: str) -> str:
    """The word for a device, if it is one; whether there is such a device is another question."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?|mps", word):
        raise InputError(f"the device is {shortened(word)}; {EXPECTED}.")
    return word


def device_of(word: str, worker: int = 0) -> torch.device:
    """The device that a word means here; one that is not there is refused.

    `auto` is a GPU where there is one, then Apple's, then the CPU. Workers of one machine take its GPUs in turn,
    unless the word names one.
    """
    import torch

    os.environ.setdefault(WORKSPACE, REPRODUCIBLE)  # before anything starts CUDA
    kind, _, number = checked_word(word).partition(":")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == AUTO:
        kind = "cuda" if gpus else "mps" if torch.backends.mps.is_available() else CPU
    if kind == "cuda":
        if int(number or 0) >= gpus:
            there = f"{gpus} of them" if gpus else "none"
            raise InputError(
                f"the device is {word}, and torch sees {there} here"
                + (", counted from 0" if gpus else "")
                + f". Use --device {AUTO}, which takes what is there."
            )
        return torch.device("cuda", int(number) if number else worker % gpus)
    if kind == "mps" and not torch.backends.mps.is_available():
        raise InputError(
            f"the device is mps, and torch sees none here. Use --device {AUTO}, which takes what is there."
        )
    return torch.device(kind)


@contextmanager
def as_reproducible(device: torch.device) -> Iterator[None]:
    """Let a GPU compute in fp32 where it says fp32, and sum in one order; torch's settings are put back.

    On the CPU nothing is changed: with one thread it is reproducible as it is.
    """
    import torch

    if device.type != "cuda":
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic
    strict, only_warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = False, False, False, True
    # Where torch has no reproducible form of an operation it warns, and the run goes on.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = before
        torch.use_deterministic_algorithms(strict, warn_only=only_warns)


def hardware(device: torch.device, precision: str) -> dict[str, Any]:
    """What a result says of where it comes from; to be asked inside `as_reproducible`."""
    import torch

    found: dict[str, Any] = {"device": device.type, "precision": precision}
    if device.type != "cuda":
        return found
    return found | {
        "name": torch.cuda.get_device_name(device),
        "cuda": str(torch.version.cuda),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "cublas_workspace": os.environ.get(WORKSPACE, ""),
    }
