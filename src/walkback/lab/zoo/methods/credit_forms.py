"""The forms that the credit of a site takes: a tensor of its shape, or the two factors of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from walkback.lab.zoo.contract import CreditNorm
from walkback.lab.zoo.methods.site_vectors import as_site


@dataclass(frozen=True, eq=False)
class FactoredCredit:
    """A credit a = e B in the shape of a site, kept as its two factors.

    Its rank is c, the number of classes, so the Linear y = W u + b that writes the site need not meet it whole.

    Formula:
        The gradients of ⟨y, a⟩ are e (B W) at u, Bᵀ (eᵀ u) at W and Bᵀ (eᵀ 1) at b. Every product is c wide in place of
        d.

    Examples:
        >>> import torch
        >>> from walkback.lab import FactoredCredit
        >>> FactoredCredit(torch.ones(2, 3), torch.ones(3, 8), (8,)).whole().shape
        torch.Size([2, 8])
    """

    error: Tensor
    """e, (B, c), or (B, T, c) of tokens."""
    feedback: Tensor
    """B, (c, d)."""
    site_shape: tuple[int, ...]
    """The shape of one sample at the site."""

    def __truediv__(self, divisor: Tensor | float) -> FactoredCredit:
        """a over a number, or over one for each sample, (B, 1)."""
        if isinstance(divisor, Tensor) and divisor.ndim:
            divisor = divisor.view(-1, *[1] * (self.error.ndim - 1))
        return replace(self, error=self.error / divisor)

    def whole(self) -> Tensor:
        """a itself.

        Returns:
            (B, *site_shape).
        """
        return as_site(self.error @ self.feedback, self.site_shape)

    def fits(self, layer: nn.Linear, reads: Tensor) -> bool:
        """Whether a layer writes the whole site, as a vector or as tokens. It never writes a whole map (C, H, W).

        Args:
            layer: the Linear.
            reads: what it read, (B, …, in_features).

        Returns:
            True or False.
        """
        return len(self.site_shape) <= 2 and (*reads.shape[1:-1], layer.out_features) == self.site_shape

    def on_output_of(self, layer: nn.Linear, reads: Tensor) -> Tensor:
        """A root for autograd with the gradients of ⟨y, a⟩ behind it, where y is what the layer makes of `reads`.

        Args:
            layer: the Linear.
            reads: what it read, (B, …, in_features).

        Returns:
            A scalar, whose value is 0: only its gradients count.
        """
        root: Tensor = _InnerProduct.apply(self.error, self.feedback, reads, layer.weight, layer.bias)  # type: ignore[no-untyped-call]
        return root


class _InnerProduct(torch.autograd.Function):
    """⟨W u + b, e B⟩, for its gradients alone: the value, which nothing reads, is left at zero."""

    @staticmethod
    def forward(
        ctx: Any, error: Tensor, feedback: Tensor, reads: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(error, feedback, reads, weight)
        return reads.new_zeros(())

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        error, feedback, reads, weight = ctx.saved_tensors
        _, _, to_reads, to_weight, to_bias = ctx.needs_input_grad
        error = as_site(scale * error, (*reads.shape[1:-1], error.shape[-1]))
        rows = error.flatten(0, -2)
        return (
            None,
            None,
            error @ (feedback @ weight) if to_reads else None,
            feedback.T @ (rows.T @ reads.flatten(0, -2)) if to_weight else None,
            rows.sum(dim=0) @ feedback if to_bias else None,
        )


Credit = Tensor | FactoredCredit


def whole(credit: Credit) -> Tensor:
    """The credit as a tensor of its site's shape."""
    return credit.whole() if isinstance(credit, FactoredCredit) else credit


def sample_norms(credit: Tensor) -> Tensor:
    """‖a‖ of each sample, over all its other axes, (B, …) → (B, 1)."""
    flat = credit.flatten(1)
    # By the largest entry first: in fp32 the square of an entry below 1e-19 is lost, and the norm with it.
    largest = flat.abs().amax(dim=1, keepdim=True)
    relative: Tensor = torch.linalg.vector_norm(flat / zero_as_one(largest), dim=1, keepdim=True)
    return largest * relative


def zero_as_one(size: Tensor) -> Tensor:
    """The sizes to divide by, so that what is zero stays zero."""
    return torch.where(size == 0, 1, size)


def per_sample_unit(credit: Credit) -> Credit:
    """a/‖a‖ for each sample; a credit of zero stays zero."""
    if isinstance(credit, FactoredCredit):
        return credit / zero_as_one(sample_norms(credit.whole()))
    return (credit.flatten(1) / zero_as_one(sample_norms(credit))).view(credit.shape)


def rms_unit(credit: Credit, epsilon: float) -> Credit:
    """a / (RMS(a) + ε) for each sample, RMS(a) = ‖a‖/√d over all entries of the sample; zero stays zero."""
    tensor = whole(credit)
    size = sample_norms(tensor) / tensor[0].numel() ** 0.5 + epsilon
    if isinstance(credit, FactoredCredit):
        return credit / zero_as_one(size)
    return (credit.flatten(1) / zero_as_one(size)).view(credit.shape)


def normalised(credit: Credit, norm: CreditNorm, *, epsilon: float, mean_over: int = 1) -> Credit:
    """The credit as a block follows it; `rms` sees it divided by `mean_over`, as in the gradient of a batch's mean."""
    if norm == "per_sample":
        return per_sample_unit(credit)
    return rms_unit(credit / mean_over, epsilon) if norm == "rms" else credit
