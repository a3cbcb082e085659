"""How a model is called besides its batch, and the error of a call that does not fit it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from walkback.errors import BatchError
from walkback.protocol.outputs import Logits, logits_beside_loss, logits_of
from walkback.protocol.wrong_shape import wrong_shape


@dataclass(frozen=True)
class Calling:
    """How a model is called besides its batch, and which part of what it returns are the logits."""

    forward_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments, the same for every batch."""
    logits: Logits = None

    def __post_init__(self) -> None:
        names = self.forward_kwargs
        if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names):
            raise BatchError(
                f"forward_kwargs is {type(names).__name__} {names!r}; expected a mapping of names to values."
            )

    def __call__(self, model: Callable[..., Any], inputs: Any, labels: Mapping[str, Tensor] | None = None) -> Tensor:
        """The model's logits for some inputs, and for labels by name where it needs them."""
        output = self.output(model, inputs, labels)
        return logits_beside_loss(output, self.logits) if labels else logits_of(output, self.logits)

    def output(self, model: Callable[..., Any], inputs: Any, labels: Mapping[str, Tensor] | None = None) -> Any:
        """All that the model returns."""
        named = {**(labels or {}), **self.forward_kwargs}
        if isinstance(inputs, Mapping):
            twice = sorted(set(map(str, inputs)) & set(self.forward_kwargs))
            if twice:
                raise BatchError(f"forward_kwargs and the batches both hold {', '.join(twice)}. Give each name once.")
            args, kwargs = (), {**inputs, **named}
        else:
            args, kwargs = _in_order(model, inputs, named), named
        try:
            return model(*args, **kwargs)
        except TypeError as error:
            misfit = _misfit(model, args, kwargs)
            if misfit is None:
                raise
            raise BatchError(misfit) from error
        except NotImplementedError as error:
            if getattr(type(model), "forward", None) is not nn.Module.forward:
                raise
            raise BatchError(
                f"{type(model).__name__} has no forward, so it cannot be called on a batch. Wrap it in a module whose "
                "forward gives an output for each class, such as what its own way to predict compares."
            ) from error
        except RuntimeError as error:
            misfit = wrong_shape(model, inputs, error)
            if misfit is None:
                raise
            raise BatchError(misfit) from error


def _in_order(model: Callable[..., Any], inputs: Any, named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments in order; several inputs are one, where forward takes one and not as many as there are."""
    if not isinstance(inputs, tuple):
        return (inputs,)
    return (
        (inputs,) if len(inputs) > 1 and not _fits(model, inputs, named) and _fits(model, (inputs,), named) else inputs
    )


def _fits(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(getattr(model, "forward", model)).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _misfit(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """What a model's forward lacks or does not take; None where the arguments fit it."""
    forward = getattr(model, "forward", model)
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = ", ".join([f"{len(args)} in order"] * bool(args) + sorted(kwargs)) or "none"
        return (
            f"{type(model).__name__}.forward{signature} does not fit the arguments of a batch ({given}): {error}. "
            "What is the same for every batch goes into forward_kwargs={'name': value}; what each sample has of its "
            "own into the batch: ((input_1, input_2), targets), or a mapping with labels."
        )
    return None
