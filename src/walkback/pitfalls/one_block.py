"""13: an aggregate cosine that one block carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from walkback.protocol.credit import Trace
    from walkback.protocol.found import Alignment

WIDTH, DEPTH, EPOCHS, SEED = 64, 4, 20, 0
TRAINING, HELD_OUT = 1280, 512


class BlockFeedback:
    """a_L = ∂ℓ/∂h_L and a_l = a_{l+1} B_l: one B_l ~ N(0, 1/d) for each block, and no skip.

    The last block follows the exact gradient, whatever the matrices are.
    """

    def __init__(self, head: nn.Module, blocks: int, width: int, generator: torch.Generator) -> None:
        import torch

        self.head = head
        self.matrices = [torch.randn(width, width, generator=generator) / width**0.5 for _ in range(blocks)]

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L, each (B, d)."""
        import torch
        import torch.nn.functional as F

        with torch.enable_grad():
            last = trace.hiddens[-1].detach().requires_grad_()
            loss = F.cross_entropy(self.head(last), trace.targets, reduction="sum")
            chain = list(torch.autograd.grad(loss, last))
        for matrix in reversed(self.matrices):
            chain.append(chain[-1] @ matrix.to(chain[-1].dtype))
        return chain[::-1]

    def redraw(self, generator: torch.Generator) -> BlockFeedback:
        """The same rule with other matrices."""
        return BlockFeedback(self.head, len(self.matrices), len(self.matrices[0]), generator)


def trained() -> tuple[Alignment, float]:
    """Γ of a network trained by feedback alignment block by block, as `walkback.diagnose` says it; its accuracy."""
    import torch

    import walkback
    from walkback.pitfalls.residual_mlp import BATCH, ResidualMLP, batches, clusters, right_answers, seeded, train

    with seeded(SEED):
        (inputs, targets), (held, labels) = clusters(TRAINING, HELD_OUT)
        model = ResidualMLP(WIDTH, DEPTH)
        feedback = BlockFeedback(model.head, DEPTH, WIDTH, torch.Generator().manual_seed(SEED))
        train(model, feedback, inputs, targets, EPOCHS)
        report = walkback.diagnose(model, batches(held, labels, BATCH), blocks=list(model.blocks), credit=feedback)
        accuracy = float(right_answers(model, held, labels).double().mean())
    assert report.alignment is not None
    return report.alignment, accuracy


def reproduce() -> Reproduction:
    """Γ of each block and its mean, with the matrices that were trained with and with others."""
    from walkback.present.numbers import percent, signed

    alignment, accuracy = trained()
    assert alignment.sites is not None
    assert alignment.deep is not None
    assert alignment.null is not None
    (*others, last), null = alignment.sites[1:], alignment.null
    (*fresh, _), (*spreads, _) = null.site_means[1:], null.site_sds[1:]
    rest, fresh_rest = (sum(cosines) / len(cosines) for cosines in (others, fresh))
    return Reproduction(
        f"A residual MLP (d = {WIDTH}, {DEPTH} blocks) on {TRAINING} made-up samples, trained for {EPOCHS} epochs by "
        "feedback alignment with one random matrix for each block: a chain that begins with the exact gradient behind "
        f"the last block. {percent(accuracy)} accuracy; Γ on {HELD_OUT} held-out samples. The published values are "
        "from CIFAR-10 and a longer training, and each is of the state that a block reads; here it is of the one that "
        "it writes.",
        (
            Row(
                f"Γ of blocks 1–{DEPTH}: their mean; each",
                signed(alignment.deep),
                " ".join(map(signed, (*others, last))),
                "mean +0.250; +0.016 +0.072 −0.085 +0.997",
            ),
            Row("the mean without the last block", "", signed(rest)),
            Row(
                f"the mean with {null.draws} other draws of the matrices; without the last block",
                signed(null.deep_mean),
                signed(fresh_rest),
            ),
        ),
        (
            Claim("the last block's cosine is 1 to six digits, by construction", abs(last - 1) < 1e-6),
            Claim("no other block reaches 0.5", all(cosine < 0.5 for cosine in others)),
            Claim(
                "matrices that the network never met have half of the mean or more", null.deep_mean > alignment.deep / 2
            ),
            Claim(
                "under them every other block is within three deviations of 0",
                all(abs(mean) < 3 * sd for mean, sd in zip(fresh, spreads, strict=True)),
            ),
            Claim("the mean is larger than the cosine of every other block", max(others) < alignment.deep),
        ),
    )


PITFALL = Pitfall(
    number=13,
    title="an aggregate cosine that one block carries",
    explanation="Leaving out the first site is not enough: any block can carry a mean. Feedback alignment with one "
    "matrix for each block hands the last block the exact gradient, so a mean over blocks starts from 1/L "
    "whatever the others follow, with matrices that the network never met as well. The method is called aligned, and "
    "one block is.",
    lies="deep = [cosine(a[l], g[l]) for l in range(layers + 1)]\ngamma = sum(deep[1:]) / layers",
    instead="deep = [cosine(a[l], g[l]) for l in range(layers + 1)]\n"
    'print(deep[1:], "without the largest:", (sum(deep[1:]) - max(deep[1:])) / (layers - 1))',
    question="Is Γ shown for every block, and does the summary survive without the block that has the largest?",
    avoided="A report shows Γ of every block before any mean of it. Where one block carries a mean, so that "
    "less than half of it is left without that block, the report names the block and what is left.",
    where="walkback.protocol.carrying:carried_by_one",
    reproduce=reproduce,
    also_found_by=("WB006",),
    published="FA by block: +0.016 +0.072 −0.085 +0.997, so a mean of 0.250 and a “deep” mean of 0.33",
)
