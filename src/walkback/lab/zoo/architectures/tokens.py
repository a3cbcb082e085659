"""Which architectures read tokens: the others read numbers, and neither can be built for what the other reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from walkback.errors import InputError
from walkback.lab.zoo.contract import DataSpec

Build = TypeVar("Build", bound=Callable[..., Any])


def reads_tokens(example: DataSpec) -> Callable[[Build], Build]:
    """Say of an architecture that its inputs are tokens. A decorator of the function that builds it.

    Args:
        example: data that it can be built for.

    Returns:
        The decorator, which returns the function itself.

    Examples:
        >>> from walkback.lab import DataSpec, reads_tokens
        >>> @reads_tokens(DataSpec((16,), classes=27, vocabulary=27, target_shape=(16,)))
        ... def tiny_gpt(data):
        ...     ...
        >>> tiny_gpt.reads_tokens
        True
    """

    def said(build: Build) -> Build:
        vars(build).update(reads_tokens=True, example_data=example)
        return build

    return said


def refuse_misread(architecture: str, build: Callable[..., Any], data: DataSpec) -> None:
    """Raise `InputError` where an architecture cannot read the inputs or give the answers of this data."""
    if getattr(build, "reads_tokens", False):
        if data.vocabulary is None:
            raise InputError(
                f"architecture {architecture} reads tokens, and these inputs are numbers of shape {data.input_shape}. "
                "Use resmlp, or data of tokens such as shakespeare."
            )
    elif data.vocabulary is not None or data.target_shape:
        raise InputError(
            f"architecture {architecture} reads images or vectors and gives one answer per sample; these inputs are "
            f"tokens of shape {data.input_shape}, with targets of shape {data.target_shape}. Use gpt."
        )
