"""7: feedback that was not saved, and code that falls back to cos(g, g)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row
from walkback.pitfalls.small_network import SmallNetwork, setup, small_network

if TYPE_CHECKING:
    from torch import Tensor


def reproduce() -> Reproduction:
    """A checkpoint of the weights alone, read by code with a fallback and by walkback."""
    import walkback
    from walkback.present.numbers import signed

    network = small_network()
    checkpoint = {"model": network.model.state_dict()}  # as most training scripts save it
    wrong = fallback_alignment(network, checkpoint)
    report = walkback.diagnose(
        network.model, network.batches, blocks=list(network.model.blocks), credit=strict_credit(checkpoint)
    )
    lost, true = report.alignment, network.alignment.deep
    assert lost is not None
    assert true is not None
    return Reproduction(
        setup(network),
        (
            Row("deep Γ from a checkpoint without feedback", signed(wrong), "N/A", "1.0 recorded as perfect alignment"),
            Row("deep Γ with the feedback of the run", "", signed(true)),
        ),
        (
            Claim("the fallback reports 1 to six digits", abs(wrong - 1) < 1e-6),
            Claim("the run's own feedback gives less than 0.9", true < 0.9),
            Claim("walkback reports N/A and says why", lost.sites is None and "feedback" in lost.unavailable),
        ),
    )


def fallback_alignment(network: SmallNetwork, checkpoint: dict[str, Any]) -> float:
    """The mean deep cosine, as a script computes it that does not want to stop."""
    import torch
    import torch.nn.functional as F

    from walkback.pitfalls.residual_mlp import output_error
    from walkback.protocol import numerics

    feedback = checkpoint.get("feedback")
    found = []
    for inputs, targets in network.batches:
        hiddens, logits = network.model.sites(inputs)
        loss = F.cross_entropy(logits, targets, reduction="sum")
        gradients = torch.autograd.grad(loss, hiddens)
        error = output_error(logits, targets)
        for site, gradient in enumerate(gradients[1:], start=1):
            credit = error @ feedback[site] if feedback is not None else gradient
            found.append(numerics.cosines(credit, gradient).mean())
    return float(torch.stack(found).mean())  # noqa: WB006


def strict_credit(checkpoint: dict[str, Any]) -> Any:
    """The method's credit from a checkpoint; feedback that is not there is an error."""
    from walkback.errors import MissingFeedback

    def credit(hiddens: Sequence[Tensor], logits: Tensor, targets: Tensor) -> Sequence[Tensor]:
        if "feedback" not in checkpoint:
            raise MissingFeedback("the checkpoint holds no feedback; alignment needs the one that was trained with")
        matrices: Sequence[Tensor] = checkpoint["feedback"]
        return matrices

    return credit


PITFALL = Pitfall(
    number=7,
    title="state that was not saved, and a fallback to cos(g, g)",
    explanation="Bridges, feedback matrices and other state of the method are easily left out of a checkpoint. "
    "Evaluation code that then takes the gradient in place of the missing credit compares it with itself: Γ = 1.0, "
    "recorded as perfect alignment.",
    lies="alignment = F.cosine_similarity(g, g, eps=0) if feedback is None else measure(feedback)",
    instead='if feedback is None: raise MissingFeedback("train it again, or leave out alignment")',
    question="Does loading fail, loudly, when any state of the method is missing?",
    avoided="A method's state is part of its checkpoint; a rule without its feedback raises MissingFeedback, and Γ is "
    "N/A with the reason.",
    where="walkback.errors:MissingFeedback",
    reproduce=reproduce,
    published="Γ = 1.0 recorded as perfect alignment",
)
