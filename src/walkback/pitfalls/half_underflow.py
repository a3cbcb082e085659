"""3: float16 has nothing between 0 and 6e-8."""

from __future__ import annotations

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

SMALL_NORM = 5e-10


def reproduce() -> Reproduction:
    """The same small vector in three precisions, and its cosine with a unit vector."""
    import torch
    from torch import Tensor

    from walkback.protocol import numerics

    def cosine(x: Tensor, y: Tensor) -> float:
        return float((x * y).sum() / (x.norm() * y.norm()))

    unit, small = torch.tensor([1.0, 0.0]), SMALL_NORM * torch.tensor([0.6, 0.8])
    half, brain = small.half(), small.bfloat16()
    norm, brain_norm = float(half.norm()), float(brain.norm())  # noqa: WB003
    wrong, brain_cosine = cosine(unit.half(), half), cosine(unit.bfloat16(), brain)  # noqa: WB003
    right = float(numerics.cosines(unit, small))
    return Reproduction(
        f"A vector of norm {SMALL_NORM:g} whose cosine with a unit vector is 0.6.",
        (
            Row("norm in float16", f"{norm:g}", f"{float(numerics.norms(small)):.3g}", "5e-10 → 0"),
            Row("cosine in float16", f"{wrong}".replace("nan", "NaN"), f"{right:.3f}", "NaN"),
            Row("norm and cosine in bfloat16", "", f"{brain_norm:.3g} and {brain_cosine:.3f}", "bf16 is fine"),
        ),
        (
            Claim("the norm is 0 in float16", norm == 0),
            Claim("the cosine is NaN in float16", wrong != wrong),
            Claim("bfloat16 keeps both, to its three digits", abs(brain_cosine - 0.6) < 0.01 and brain_norm > 0),
            Claim("walkback's cosine is 0.6", abs(right - 0.6) < 1e-6),
        ),
    )


PITFALL = Pitfall(
    number=3,
    title="float16 underflow in what is measured",
    explanation="The smallest number that float16 knows is 6e-8. A gradient below it becomes 0 in the cast, or already "
    "inside the backward pass of a float16 network; its norm is then 0 and its cosine 0/0. bfloat16 has the range of "
    "float32 and only loses digits.",
    lies="size = gradient.half().norm()",
    instead="size = gradient.double().norm()",
    question="Is everything cast up before it is reduced, and the loss of a float16 network scaled?",
    avoided="Values are cast to fp64 before any reduction, and a float16 network's loss is scaled, its gradients "
    "unscaled in fp64.",
    where="walkback.protocol.capture:capture",
    reproduce=reproduce,
    published="5e-10 → 0, the cosine is NaN; bf16 is fine",
)
