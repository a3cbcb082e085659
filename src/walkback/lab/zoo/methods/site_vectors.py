"""Sites of every shape as one vector per sample, and back.

(B, d) is the vector itself; of (B, T, d) it is the mean over tokens, and a vector is handed to every token;
(B, C, H, W) is flattened. A head that is given tokens reads token 0, the class token; where every token has an answer
of its own, it reads each, and a vector for each token is a site already.
"""

from __future__ import annotations

from math import prod

from torch import Tensor

from walkback.errors import InputError

SAMPLE_AND_VECTOR = 2
"""The axes of one vector per sample."""


def has_tokens(shape: tuple[int, ...]) -> bool:
    """Whether one sample at this site, without its batch axis, is a sequence of tokens (T, d)."""
    return len(shape) == 2


def vector_size(shape: tuple[int, ...]) -> int:
    """How long the vector is that stands for one sample at a site.

    Args:
        shape: of one sample at the site: (d,), (T, d) or (C, H, W).

    Returns:
        d, d or C·H·W.

    Examples:
        >>> from walkback.lab import vector_size
        >>> vector_size((16,)), vector_size((5, 16)), vector_size((3, 4, 4))
        (16, 16, 48)
    """
    return shape[-1] if has_tokens(shape) else prod(shape)


def as_vectors(hidden: Tensor) -> Tensor:
    """One vector per sample, (B, …) → (B, D)."""
    return hidden.mean(dim=1) if has_tokens(tuple(hidden.shape[1:])) else hidden.flatten(1)


def as_site(vectors: Tensor, shape: tuple[int, ...]) -> Tensor:
    """One vector per sample in the shape of a site. Each token gets the whole vector.

    Args:
        vectors: (B, D); or (B, T, d), a vector for each token.
        shape: of one sample at the site: (d,), (T, d) or (C, H, W).

    Returns:
        (B, *shape).

    Raises:
        InputError: there is a vector for each token, and the site has not as many tokens.

    Examples:
        >>> import torch
        >>> from walkback.lab import as_site
        >>> as_site(torch.ones(2, 48), (3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """
    if vectors.ndim > SAMPLE_AND_VECTOR:
        if tuple(vectors.shape[1:]) != shape:
            raise InputError(
                f"every token has an answer, and credit of the shape {tuple(vectors.shape[1:])}, but a site of this "
                f"network has the shape {shape}; expected as many tokens at every site."
            )
        return vectors
    if has_tokens(shape):
        return vectors.unsqueeze(1).expand(-1, shape[0], -1)
    return vectors if len(shape) == 1 else vectors.view(-1, *shape)


def as_slope(slopes: Tensor, shape: tuple[int, ...]) -> Tensor:
    """∂f/∂h of an f that sees `as_vectors(h)`, from its slope there, (B, D) → (B, …): each token gets its share."""
    return as_site(slopes / shape[0], shape) if has_tokens(shape) else as_site(slopes, shape)


def read_vectors(last: Tensor) -> Tensor:
    """The part of the last site that the head reads, (B, …) → (B, D): of tokens, the class token."""
    return last[:, 0] if has_tokens(tuple(last.shape[1:])) else last.flatten(1)


def as_last_site(vectors: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A vector per sample in a form that the head reads, (B, D) → (B, …): of tokens, one, the class token."""
    return vectors.unsqueeze(1) if has_tokens(shape) else vectors.view(-1, *shape)
