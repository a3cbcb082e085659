"""The logits in what a model returns, whatever it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from walkback.errors import BatchError

Logits = int | str | Callable[[Any], Tensor] | None
"""Which part of a model's output the logits are: an index, a key, or a function of the output."""


def logits_of(output: Any, which: Logits = None) -> Tensor:
    """The logits: a tensor, `.logits`, `["logits"]`, the only tensor there; or what `which` picks."""
    if which is not None:
        return _picked(output, which)
    if isinstance(output, Tensor):
        return output
    named = getattr(output, "logits", None)
    parts = _parts(output)
    if named is None:
        named = parts.get("logits")
    if isinstance(named, Tensor):
        return named
    # A loss is one number; caches and lists of hidden states are no tensors.
    tensors = {key: part for key, part in parts.items() if isinstance(part, Tensor) and part.ndim > 0}
    floating = {key: part for key, part in tensors.items() if part.is_floating_point()}
    if len(floating or tensors) != 1:
        raise BatchError(_ambiguous(output, parts, floating or tensors))
    return next(iter((floating or tensors).values()))


def own_loss_of(output: Any) -> Tensor | None:
    """The loss that a model returned beside its logits: `.loss`, `["loss"]`, or the only floating number there."""
    parts = _parts(output)
    named = getattr(output, "loss", None)
    if named is None:
        named = parts.get("loss")
    if isinstance(named, Tensor) and named.is_floating_point() and named.numel() == 1:
        return named.detach().reshape(())
    numbers = [part for part in parts.values() if _is_number(part)]
    return numbers[0].detach() if len(numbers) == 1 and named is None else None


def logits_beside_loss(output: Any, which: Logits = None) -> Tensor:
    """The logits of a model that was called with labels: where they are counted, its loss may have moved them on."""
    try:
        logits = logits_of(output, which)
    except BatchError:
        if not isinstance(output, tuple | list):
            raise
    else:
        if logits.ndim > 0 or not isinstance(output, tuple | list):
            return logits
    return logits_of(tuple(part for part in output if not _is_number(part) and part is not None), which)


def _is_number(part: Any) -> bool:
    return isinstance(part, Tensor) and part.ndim == 0 and part.is_floating_point()


def _parts(output: Any) -> dict[Any, Any]:
    """What an output holds, by key or place."""
    if isinstance(output, Mapping):
        return dict(output)
    if isinstance(output, tuple | list):
        return dict(zip(getattr(output, "_fields", range(len(output))), output, strict=True))
    if is_dataclass(output) and not isinstance(output, type):
        return {field.name: getattr(output, field.name) for field in fields(output)}
    return {}


def _picked(output: Any, which: int | str | Callable[[Any], Tensor]) -> Tensor:
    if callable(which):
        picked = which(output)
        if not isinstance(picked, Tensor):
            raise BatchError(f"logits= gave {type(picked).__name__} for the model's output; expected a tensor.")
        return picked
    if isinstance(which, bool) or not isinstance(which, int | str):
        raise BatchError(f"logits={which!r} is {type(which).__name__}; expected an index, a key or a function.")
    if isinstance(output, Tensor):
        raise BatchError(f"the model returned a tensor, of which logits={which!r} picks nothing. Leave logits= out.")
    parts = _parts(output)
    found = (
        list(parts.values())[which]
        if isinstance(which, int) and which not in parts and -len(parts) <= which < len(parts)
        else parts.get(which, getattr(output, str(which), None))
    )
    if not isinstance(found, Tensor):
        raise BatchError(
            f"the model returned {_described(output, parts)}; logits={which!r} picks no tensor of it. {_hint(parts)}"
        )
    return found


def _ambiguous(output: Any, parts: Mapping[Any, Any], tensors: Mapping[Any, Tensor]) -> str:
    if not tensors:
        return (
            f"the model returned {type(output).__name__}, in which no logits were found; expected a tensor, an object "
            "with .logits, or one tensor in a tuple or mapping. A function picks them from anything: "
            "logits=lambda output: …"
        )
    return f"the model returned {_described(output, parts)}, and any of these may be the logits. {_hint(tensors)}"


def _described(output: Any, parts: Mapping[Any, Any]) -> str:
    listed = ", ".join(f"{key}: {_shape(part)}" for key, part in parts.items())
    return f"{type(output).__name__} of {listed}" if listed else type(output).__name__


def _shape(part: Any) -> str:
    return str(tuple(part.shape)) if isinstance(part, Tensor) else type(part).__name__


def _hint(parts: Mapping[Any, Any]) -> str:
    keys = [key for key, part in parts.items() if isinstance(part, Tensor) and part.ndim > 0]
    return f"Pass one of {', '.join(f'logits={key!r}' for key in keys)}, or a function of the output."
