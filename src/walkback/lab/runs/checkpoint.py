"""A run at the end of an epoch, in one safetensors file: written whole or not at all, read without code.

The file holds the model, the method (feedback and predictors), the optimizer, the random states, and in its
header the config and the epoch. The position in the learning-rate schedule follows from the epoch.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from walkback.errors import DamagedCheckpoint, RunError, WalkbackWarning
from walkback.lab.runs import random_state
from walkback.lab.runs.assembly import Assembly
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.hardware import CPU_IN_FP32
from walkback.protocol.schema import parse_json, write_whole

FORMAT, VERSION = "walkback checkpoint", "2"


SUFFIX = ".safetensors"
KEPT = 2
"""How many checkpoints of a run stay on disk: the newest, and one in case the newest is damaged."""


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds, read and verified."""

    path: Path
    config: RunConfig
    epoch: int
    tensors: Mapping[str, Tensor]
    random_words: str
    commits: tuple[str, ...] = ()
    """Of the code that trained it so far."""
    trained_on: tuple[dict[str, Any], ...] = (CPU_IN_FP32,)
    """What trained it so far, as `hardware` tells it; one that does not say is from before there was a choice."""

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of one part: `model`, `method`, `optimizer`, `random` or `scaler`."""
        prefix = f"{name}/"
        return {key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)}

    def restore(self, run: Assembly) -> None:
        """Put the run back to where it was at the end of that epoch, random states included."""
        self.restore_networks(run)
        try:
            self._restore_optimizer(run)
            random_state.restore(self.part("random"), self.random_words, run.device)
            if run.mixed is not None:
                run.mixed.restore(self.part("scaler"))
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
            raise self._misfit(error) from None

    def _restore_optimizer(self, run: Assembly) -> None:
        held = self.part("optimizer")
        optimizer = self.config.optimizer
        # Plain gradient descent has no state.
        moments = [] if optimizer == "sgd" and not self.config.momentum else sorted(MOMENTS[optimizer])
        if self.epoch and moments and not held:
            raise ValueError("it has no optimizer state, though it was trained")
        for key, value in held.items():
            name, _, entry = key.rpartition("/")
            parameter = run.trained[name]
            _require_moment(key, parameter, value)
            # A copy of its own: a tensor read from a file may lie at any address, and sums depend on that. And in the
            # parameter's layout, which a fused optimizer takes for granted.
            like = parameter if value.shape == parameter.shape else value
            own = torch.empty_like(like, dtype=value.dtype, device=parameter.device)
            run.optimizer.state[parameter][entry] = own.copy_(value)
        for name in sorted({key.rpartition("/")[0] for key in held}):
            there = sorted(run.optimizer.state[run.trained[name]])
            if there != moments:
                raise ValueError(f"of {name} it holds {there}, and {optimizer} keeps {moments}")

    def restore_networks(self, run: Assembly) -> None:
        """The model and the method alone, for measuring; the method as it was at the end of that epoch."""
        for name, module in (("model", run.model), ("method", run.method)):
            self._load(module, name)
        run.method.at(self.config.done_after(self.epoch))

    def _load(self, module: nn.Module, part: str) -> None:
        try:
            module.load_state_dict(self.part(part))
        except RuntimeError as error:
            raise self._misfit(error) from None

    def _misfit(self, error: Exception) -> RunError:
        return RunError(
            f"{self.path} does not fit its own config ({type(error).__name__}: {error}). It was written by another "
            "version, or changed by hand; move it away to train from the start."
        )


STEPS = "step"
MOMENTS = {
    "adamw": {STEPS, "exp_avg", "exp_avg_sq"},
    "adam": {STEPS, "exp_avg", "exp_avg_sq"},
    "sgd": {"momentum_buffer"},
}
"""What each optimizer keeps of a parameter: tensors of its shape, and a number of steps."""


def _require_moment(key: str, parameter: Tensor, value: Tensor) -> None:
    """Raise for what a fused optimizer would take at its word, and read or write beyond its end."""
    expected = (torch.float32, ()) if key.endswith(f"/{STEPS}") else (parameter.dtype, tuple(parameter.shape))
    if (value.dtype, tuple(value.shape)) != expected:
        raise ValueError(f"{key} is {value.dtype}, {tuple(value.shape)}; expected {expected[0]}, {expected[1]}")


def file_of(folder: Path, epoch: int) -> Path:
    """Where the checkpoint of an epoch lies."""
    return folder / f"epoch-{epoch:05d}{SUFFIX}"


def save(
    folder: Path,
    config: RunConfig,
    epoch: int,
    run: Assembly,
    commits: Sequence[str] = (),
    trained_on: Sequence[Mapping[str, Any]] = (CPU_IN_FP32,),
) -> Path:
    """Write the checkpoint of this epoch, and let go of those before the one before it."""
    tensors = {key: value.detach().cpu().contiguous() for key, value in _all_tensors(run).items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "epoch": str(epoch),
        "config": json.dumps(config.to_dict()),
        "random": random_state.words(),
        "commits": json.dumps(list(commits)),
        "trained_on": json.dumps(list(trained_on)),
    }
    header["digest"] = digest(tensors, header)
    folder.mkdir(parents=True, exist_ok=True)
    path = write_whole(file_of(folder, epoch), to_bytes(tensors, header))
    keep_newest(folder, KEPT)
    return path


def _all_tensors(run: Assembly) -> dict[str, Tensor]:
    parts: dict[str, Mapping[str, Tensor]] = {
        "model": run.model.state_dict(),
        "method": run.method.state_dict(),
        "random": random_state.tensors(run.device),
        "scaler": {} if run.mixed is None else run.mixed.tensors(),
        "optimizer": {
            f"{name}/{entry}": torch.as_tensor(value)
            for name, parameter in run.trained.items()
            for entry, value in run.optimizer.state[parameter].items()
        },
    }
    return {f"{part}/{key}": value for part, entries in parts.items() for key, value in entries.items()}


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest checkpoints of a run."""
    for path in stored(folder)[count:]:
        path.unlink(missing_ok=True)


def clear_unfinished(folder: Path) -> None:
    """Remove what a process that was killed left half-written; only for the one that holds the run's lock."""
    for path in folder.glob(f".epoch-*{SUFFIX}*"):
        path.unlink(missing_ok=True)


def stored(folder: Path) -> list[Path]:
    """The checkpoints in a directory, the newest first."""
    return sorted(folder.glob(f"epoch-*{SUFFIX}"), reverse=True)


def newest(folder: Path) -> Checkpoint | None:
    """The newest that is whole; a damaged one is named in a warning and passed over.

    One that is whole and cannot be read, of another version or for want of permission, raises: hours may be in it.
    """
    return next((found for path in stored(folder) if (found := if_whole(path)) is not None), None)


def if_whole(path: Path) -> Checkpoint | None:
    """What a file holds; None where it is damaged, which a warning says."""
    try:
        return load(path)
    except DamagedCheckpoint as error:
        warnings.warn(f"{error} The one before it is used, if there is one.", WalkbackWarning, stacklevel=3)
        return None


def load(path: str | Path) -> Checkpoint:
    """Read and verify one file. Nothing in it is ever executed: a pickle is refused unopened."""
    source = Path(path)
    _refuse_other_formats(source)
    try:
        with safe_open(source, framework="pt") as file:
            header = dict(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, ValueError) as error:
        raise DamagedCheckpoint(f"checkpoint {source} is corrupt or cut short ({error}).") from None
    if header.get("format") != FORMAT:
        raise RunError(
            f"{source} is a safetensors file, but not a walkback checkpoint. Give one that "
            "walkback wrote, or my_script.py:function, which builds the model, loads these weights and returns "
            "(model, batches)."
        )
    if header.get("version") != VERSION:
        raise RunError(
            f"{source} is a checkpoint of version {header.get('version')}, and this walkback reads {VERSION}. "
            "Resume it with the version of walkback that wrote it, or move it elsewhere to train from the start."
        )
    if header.pop("digest", None) != digest(tensors, header):
        raise DamagedCheckpoint(f"checkpoint {source} is corrupt: its contents do not match its digest.")
    try:
        settings, epoch, commits = (parse_json(header[name]) for name in ("config", "epoch", "commits"))
        trained_on = parse_json(header["trained_on"]) if "trained_on" in header else [CPU_IN_FP32]
        words, counted = header["random"], isinstance(epoch, int) and epoch >= 0 and isinstance(commits, list)
        counted = counted and isinstance(trained_on, list) and all(isinstance(each, dict) for each in trained_on)
    except (KeyError, ValueError):
        counted = False
    if not counted:  # the digest is right, so no disk did this
        raise DamagedCheckpoint(f"checkpoint {source} does not say in its header what run and epoch it is of.")
    config = RunConfig.from_dict(settings, str(source))
    return Checkpoint(source, config, epoch, tensors, words, tuple(map(str, commits)), tuple(trained_on))


def _refuse_other_formats(source: Path) -> None:
    try:
        with source.open("rb") as file:
            start = file.read(9)
    except OSError as error:
        raise RunError(f"cannot read {source}: {error.strerror}. Give the path of a checkpoint.") from None
    if start[:1] in (b"{", b"[") and start[8:9] != b"{":
        raise RunError(
            f"{source} is JSON and no checkpoint. A report, an audit or a result is read by `walkback report` and "
            "`walkback replay`."
        )
    # torch.save writes a zip of pickles; older versions wrote a bare pickle, which starts with 0x80. So may a
    # safetensors file: it begins with the length of its header, eight bytes, and the header with a brace.
    if start.startswith((b"PK\x03\x04", b"\x80")) and not start.endswith(b"{"):
        raise DamagedCheckpoint(
            f"{source} is a pickle (torch.save), which could run code when it is opened, so it was not. "
            "It is no network either. Where you trust it, load it in a function that builds the model and returns "
            "(model, batches), and run walkback diagnose my_script.py:function."
        )


def digest(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """BLAKE2 over the header, and every name, type, shape and byte."""
    total = hashlib.blake2b(json.dumps(dict(header), sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        total.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
