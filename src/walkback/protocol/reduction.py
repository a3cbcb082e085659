"""How a site of any shape becomes one vector, or one norm, per sample."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from walkback.errors import InputError
from walkback.registry import did_you_mean

if TYPE_CHECKING:
    from torch import Tensor


AT_CLASS_TOKEN = "class token"
"""How a record says that a site was read at its first token alone."""


class TokenReduction(str, Enum):
    """What stands for a sample whose site holds tokens, shape (B, T, d)."""

    CLASS_TOKEN = "class_token"
    """Token 0 alone."""
    TOKEN_NORMS = "token_norms"
    """Norms: the mean over tokens of each token's norm. Directions: the flattened vector."""
    FLATTEN = "flatten"
    """All tokens as one vector."""

    @classmethod
    def named(cls, name: str | TokenReduction) -> TokenReduction:
        """The reduction of that name; an unknown one raises `InputError` with a suggestion."""
        try:
            return cls(name)
        except ValueError:
            known = [member.value for member in cls]
            raise InputError(f"there is no token reduction {name!r}. {did_you_mean(str(name), known)}") from None

    def vectors(self, site: Tensor) -> Tensor:
        """One vector per sample, for cosines and means: (B, …) → (B, D)."""
        if site.ndim == 3 and self is TokenReduction.CLASS_TOKEN:
            return site[:, 0]
        return site.flatten(1)

    def norms(self, site: Tensor) -> Tensor:
        """One norm per sample, in fp64: (B, …) → (B,)."""
        from walkback.protocol import numerics

        if site.ndim == 3 and self is TokenReduction.TOKEN_NORMS:
            return numerics.norms(site).mean(dim=1)
        return numerics.norms(self.vectors(site))

    def describe(self, shape: tuple[int, ...]) -> str:
        """What was done to a site of this shape, for the report."""
        if len(shape) == 3:
            words = {
                TokenReduction.CLASS_TOKEN: AT_CLASS_TOKEN,
                TokenReduction.TOKEN_NORMS: "mean of token norms; directions from all tokens, flattened",
                TokenReduction.FLATTEN: "all tokens, flattened",
            }
            return f"{words[self]} of (B, T, d)"
        return "as is, (B, d)" if len(shape) == 2 else f"flattened from {len(shape)} axes"


def default_reduction(deepest_grad: Tensor) -> TokenReduction:
    """Class token where the loss reads token 0 alone at the deepest site, else all tokens, flattened."""
    if deepest_grad.ndim == 3 and deepest_grad.shape[1] > 1:
        read = (deepest_grad != 0).any(dim=-1).any(dim=0)
        if bool(read[0]) and not bool(read[1:].any()):
            return TokenReduction.CLASS_TOKEN
    return TokenReduction.FLATTEN
