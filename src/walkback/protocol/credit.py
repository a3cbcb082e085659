"""What a credit rule is: the vector a_l that a method hands to site l."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from walkback.errors import CreditError


@dataclass(frozen=True)
class Trace:
    """One forward pass, as a credit rule sees it. Nothing in it carries gradient.

    Examples:
        >>> import torch, walkback
        >>> hiddens = [torch.randn(2, 3), torch.randn(2, 3)]
        >>> logits, targets = torch.zeros(2, 4), torch.tensor([0, 1])
        >>> error = logits.softmax(dim=1) - torch.nn.functional.one_hot(targets, 4)
        >>> walkback.Trace(torch.randn(2, 5), hiddens, logits, targets, error).error[0].tolist()
        [-0.75, 0.25, 0.25, 0.25]
    """

    inputs: Any
    """What the model was given."""
    hiddens: Sequence[Tensor]
    """h_0 … h_L, each (B, …)."""
    logits: Tensor
    """(B, classes), or whatever the model returns."""
    targets: Tensor
    """(B,), or one for each answer."""
    error: Tensor
    """∂ℓ/∂logits of each sample's own loss, not divided by a batch size; for cross-entropy softmax − onehot."""


@runtime_checkable
class CreditRule(Protocol):
    """A rule for credit: one tensor per site, shaped like it, in the sense of a gradient.

    Any object with `credits` is one. Three optional attributes say more. `independent_feedback = True` promises that
    the feedback of different sites is drawn independently, so that credits which move together are a leak.
    `redraw(generator)` returns the same rule with fresh feedback, for the null of Γ. Without it there is no null, and
    `no_null` may say why in a sentence.

    Examples:
        >>> import torch, walkback
        >>> class DFA:
        ...     independent_feedback = True
        ...     def __init__(self, generator=None):
        ...         self.feedback = [torch.randn(3, 8, generator=generator) for _ in range(4)]
        ...     def credits(self, trace):
        ...         return [trace.error @ matrix for matrix in self.feedback]
        ...     def redraw(self, generator):
        ...         return DFA(generator)
        >>> isinstance(DFA(), walkback.CreditRule)
        True
    """

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L, such that h_l should move along −a_l.

        Args:
            trace: one forward pass. It must not be written to.

        Returns:
            One tensor per site, each of the shape of h_l.
        """
        ...


CreditFunction = Callable[[Sequence[Tensor], Tensor, Tensor], Sequence[Tensor]]
"""(hiddens, logits, targets) → one credit per site. It may carry the same optional attributes; its
`redraw(generator)` returns a function of the same kind."""


class FunctionRule:
    """A plain function as a credit rule."""

    def __init__(self, function: CreditFunction) -> None:
        self.function = function
        self.independent_feedback = bool(getattr(function, "independent_feedback", False))
        self.no_null = str(getattr(function, "no_null", ""))
        if hasattr(function, "redraw"):
            self.redraw = lambda generator: FunctionRule(function.redraw(generator))

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """Ask the function."""
        given = (trace.hiddens, trace.logits, trace.targets)
        try:
            inspect.signature(self.function).bind(*given)
        except TypeError as misfit:
            raise CreditError(
                f"credit= cannot be called with (hiddens, logits, targets): {misfit}. Expected a function of these "
                "three that returns one tensor per site."
            ) from None
        except ValueError:  # it has no signature to look at
            pass
        return self.function(*given)


def credits_for(rule: CreditRule, trace: Trace) -> list[Tensor]:
    """The rule's credits without gradient, one for each site and shaped like it; anything else is refused."""
    hiddens, given = trace.hiddens, [*trace.hiddens, trace.logits, trace.targets]
    versions = [tensor._version for tensor in given]
    credits = rule.credits(trace)
    if [tensor._version for tensor in given] != versions:
        raise CreditError(
            "the credit rule wrote to the hiddens, logits or targets that it was given, and other figures rest on "
            "them. Let it compute out of place: h = h * 2 for h *= 2."
        )
    if not isinstance(credits, Sequence) or len(credits) != len(hiddens):
        got = f"{len(credits)}" if isinstance(credits, Sequence) else type(credits).__name__
        raise CreditError(
            f"the credit rule gave {got} for {len(hiddens)} sites; expected a list with one tensor for each of "
            f"h_0 … h_{len(hiddens) - 1}."
        )
    for site, (credit, hidden) in enumerate(zip(credits, hiddens, strict=True)):
        if not isinstance(credit, Tensor) or credit.shape != hidden.shape or credit.is_complex():
            got = (
                f"{credit.dtype} of shape {tuple(credit.shape)}"
                if isinstance(credit, Tensor)
                else type(credit).__name__
            )
            raise CreditError(
                f"the credit for site {site} is {got}; expected a real tensor of the shape of the site, "
                f"{tuple(hidden.shape)}: one row per sample."
            )
    return [credit.detach() for credit in credits]


def fresh_draws(rule: CreditRule, count: int, seed: int) -> list[CreditRule]:
    """The rule under `count` fresh draws of its feedback; empty where it has none to draw."""
    redraw = getattr(rule, "redraw", None)
    if redraw is None:
        return []
    generator = torch.Generator().manual_seed(seed)
    return [redraw(generator) for _ in range(count)]
