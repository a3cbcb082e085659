"""What a frozen baseline is made with, looked at before anything is trained: both functions, and the config."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

from torch import nn

from walkback.errors import InputError
from walkback.protocol.schema import shortened

LAST_SEED = 2**63 - 1
"""The largest that every random generator takes."""

TrainFunction = Callable[..., Any]
"""train_fn(model, **config) trains the model in place; it may return a `walkback.Score`, and nothing else counts."""


def check_arguments(train_fn: Any, make_model: Any, config: Any, seed: Any = None) -> None:
    """Refuse what is no function, no config, or no seed, in words."""
    if not callable(train_fn):
        raise InputError(f"train_fn is {shortened(train_fn)}; expected a function that trains the model it is given.")
    if isinstance(make_model, nn.Module) or not callable(make_model):
        kind = type(make_model).__name__
        raise InputError(
            f"make_model is a {kind}, not a function; expected one that builds a new network with random weights, such "
            f"as make_model=lambda: {kind if isinstance(make_model, nn.Module) else 'Net'}(…)."
        )
    _check_builds(make_model)
    if config is not None and not isinstance(config, Mapping):
        raise InputError(f"config is {shortened(config)}; expected a mapping of train_fn's arguments to values.")
    if seed is not None and not _is_seed(seed):
        raise InputError(f"seed is {shortened(seed)}; expected a whole number from 0 to 2**63 - 1, or None.")


def _is_seed(seed: Any) -> bool:
    return not isinstance(seed, bool) and isinstance(seed, Integral) and 0 <= int(seed) <= LAST_SEED


def _check_builds(make_model: Callable[[], nn.Module]) -> None:
    try:
        signature = inspect.signature(make_model)
    except (TypeError, ValueError):
        return
    try:
        signature.bind()
    except TypeError as error:
        raise InputError(
            f"make_model could not be called without arguments ({error}); are train_fn and make_model swapped? "
            "Expected frozen_baseline(train_fn, make_model, …)."
        ) from None


def check_call(train_fn: TrainFunction, model: nn.Module, settings: dict[str, Any]) -> None:
    """Refuse arguments that train_fn does not take, before it is called."""
    try:
        signature = inspect.signature(train_fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(model, **settings)
    except TypeError as error:
        given = ", ".join(["model", *(f"{name}=…" for name in settings)])
        raise InputError(
            f"train_fn{signature} cannot be called as train_fn({given}): {error}. It is given the model first, and "
            "config= by name."
        ) from None
