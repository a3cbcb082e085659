"""1: `x.norm(-1)` is the L₋₁ norm of the whole tensor, not a norm along the last axis."""

from __future__ import annotations

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row


def reproduce() -> Reproduction:
    """The norms of two vectors, by both lines."""
    import torch

    from walkback.protocol import numerics

    x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    wrong, right, ours = x.norm(-1), x.norm(dim=-1), numerics.norms(x)  # noqa: WB001
    return Reproduction(
        "x = [[3, 4], [6, 8]]: two vectors, of norm 5 and 10.",
        (
            Row("x.norm(-1) against x.norm(dim=-1)", f"{wrong:.3f}", _listed(right), "1.143, not [5, 10]"),
            Row("shape of the result", str(tuple(wrong.shape)), str(tuple(right.shape))),
        ),
        (
            Claim("the wrong line gives the one number 1.143", round(float(wrong), 3) == 1.143 and wrong.dim() == 0),
            Claim("the right line gives [5, 10]", right.tolist() == [5.0, 10.0]),
            Claim("walkback's norms are [5, 10]", ours.tolist() == [5.0, 10.0]),
        ),
    )


def _listed(values: object) -> str:
    assert hasattr(values, "tolist")
    return "[" + ", ".join(f"{v:g}" for v in values.tolist()) + "]"


PITFALL = Pitfall(
    number=1,
    title="norm(-1) is a norm of order −1, not along axis −1",
    explanation="The first argument of norm is p, the second is the axis. x.norm(-1) is (Σ|x|⁻¹)⁻¹ over the whole "
    "tensor: one number, which its smallest entries decide. It is positive, it moves when the network changes, and "
    "nothing warns.",
    lies="growth = h.norm(-1) / h_before.norm(-1)",
    instead="growth = h.norm(dim=-1) / h_before.norm(dim=-1)",
    question="Does every norm name its axis by keyword?",
    avoided="One function takes all norms, along the last axis, in fp64, and is tested against written-out sums.",
    where="walkback.protocol.numerics:norms",
    reproduce=reproduce,
    published="[[3,4],[6,8]] → 1.143, not [5, 10]",
)
